"""An experiment: a function `name(seed, **variant) -> numbers and curves`, with the variants and seeds to record."""

import inspect
import itertools
import math
from collections.abc import Callable, Iterable
from functools import cache, update_wrapper
from pathlib import Path

from course_lib.train import course_seed, seed_everything
from course_lib.workshop.experiments.runs import slug_of

HERE = Path(__file__).resolve().parent
SEEDS = (0, 1, 2, 3, 4)
# Instruction sets that stand for other processors: the same seed rounds otherwise there, so it is another run.
CPUS = ("default", "avx2")


def module_of(slug: str) -> str:
    """The module whose experiments a record holds; LookupError if there is none."""
    if slug not in modules():
        raise LookupError(f"there are no experiments called {slug}")
    return modules()[slug]


@cache
def modules() -> dict[str, str]:
    """Every module here that defines an experiment, by the name of its record."""
    found = [path for path in HERE.glob("*/*.py") if "\n@experiment(" in path.read_text(encoding="utf-8")]
    names = [f"course_lib.workshop.experiments.{path.parent.name}.{path.stem}" for path in sorted(found)]
    return {slug_of(name): name for name in names}


def each(**choices: Iterable) -> list[dict]:
    """Every combination: each(cell=["RNN", "LSTM"], lag=[12, 24]) gives four variants."""
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


class Experiment:
    """A function of a seed and a variant, and what of it is recorded; called, it runs here and now.

    variants: the keyword arguments of each variant; seeds and cpus: what each variant is recorded under; files: what
    it reads besides code, paths below the checkout, so that another stored model makes its entries stale.
    The result is a dict of numbers, of lists of numbers (curves, tables), or of such dicts; it comes back plain, as the
    record holds it. Raises TypeError for a result that holds anything else.
    """

    def __init__(self, function: Callable, variants, seeds, cpus, files):
        update_wrapper(self, function)
        self.function, self.variants = function, [dict(variant) for variant in variants or [{}]]
        self.seeds, self.cpus, self.files = tuple(seeds), tuple(cpus), tuple(files)
        self.name, self.module = function.__name__, function.__module__
        self.slug = slug_of(self.module)
        _check_experiment(self)

    def __call__(self, seed: int, **variant) -> dict:
        seed_everything(seed)
        return plain(self.function(seed, **variant), self.name)

    @property
    def what(self) -> str:
        """What it measures: the first line of its docstring."""
        return (inspect.getdoc(self.function) or "").split("\n")[0]

    @property
    def digest(self) -> str:
        """Of the code that it runs and the files that it reads."""
        from course_lib.workshop.experiments.digest import digest  # a notebook needs none

        return digest(self.module, self.name, self.files)

    @property
    def live_seed(self) -> int:
        """The seed of the run that a notebook makes: one that the record does not hold, and another by COURSE_SEED."""
        return max(self.seeds) + 1 + course_seed()

    def runs(self) -> list[tuple[dict, int, str]]:
        """What the record of it holds when it is whole: variant, seed, instruction set."""
        return [(variant, seed, cpu) for variant in self.variants for seed in self.seeds for cpu in self.cpus]


def experiment(variants=None, seeds: Iterable[int] = SEEDS, cpus: Iterable[str] = CPUS, files: Iterable[str] = ()):
    """Make an `Experiment` of a function, as a decorator: @experiment(each(lag=[12, 24])).

    What nothing random touches (a stored model that is measured) has seeds=[0].
    """
    return lambda function: Experiment(function, variants, seeds, cpus, files)


def plain(result, name: str):
    """A result as JSON holds it: numbers to six digits, tensors and arrays as lists, tuples as lists."""
    if isinstance(result, dict):
        return {str(key): plain(value, name) for key, value in result.items()}
    if hasattr(result, "tolist"):  # a tensor, an array, a NumPy number
        result = result.tolist()
    if isinstance(result, list | tuple):
        return [plain(value, name) for value in result]
    if isinstance(result, float):
        return float(f"{result:.6g}") if math.isfinite(result) else str(result)
    if isinstance(result, int | str) or result is None:
        return result
    raise TypeError(
        f"{name} gives numbers, lists and dicts of them; got {type(result).__name__}: take float(...) of it."
    )


def _check_experiment(one: Experiment) -> None:
    arguments = inspect.signature(one.function).parameters
    if next(iter(arguments), None) != "seed":
        raise TypeError(f"{one.name} must take the seed first: def {one.name}(seed, ...).")
    if not one.what:
        raise TypeError(f"{one.name} needs a docstring that says in one sentence what it measures: pages show it.")
    for variant in one.variants:
        if unknown := sorted(variant.keys() - arguments.keys()):
            raise TypeError(f"{one.name} takes no {', '.join(unknown)}: variants name its arguments.")
        if any(not isinstance(value, str | int | float | bool | None) for value in variant.values()):
            raise TypeError(f"{one.name}: a variant is words and numbers, which a record can hold; got {variant}.")
    if not one.seeds or not one.cpus:
        raise ValueError(f"{one.name} needs a seed and an instruction set to be recorded under.")
