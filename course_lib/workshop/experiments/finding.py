"""A finding: a sentence about the recorded runs, and the condition that all of them must meet.

    @finding("The LSTM still recalls a symbol after 100 steps", chance=0.125)
    def recalls_after_100():
        return recorded(recall).numbers("accuracy", cell="LSTM", lag=100), ">=", 0.9

It is stated once, in experiments/<lesson>/findings.py. A test holds it against its record; a notebook cites it by name,
`cite(findings.recalls_after_100)`, and pages and README read the same sentence.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from course_lib.workshop.experiments.comparison import SHOWN, holds, triples
from course_lib.workshop.experiments.runs import Runs

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Finding:
    """What @finding makes: its sentence, its condition, and in how many of the recorded runs it holds.

    chance: the value of an untrained or guessing system on this measure, or a dict of such values by the name of the
    number in the record; with every number set to it the finding must fail (a test sets them).
    at_least: in how many runs it must hold where it is a frequency; None for all.
    """

    sentence: str
    condition: Callable[[], tuple]
    chance: float | dict[str, float]
    at_least: int | None = None

    @property
    def name(self) -> str:
        """Lesson and function, `gpt.examples_help`."""
        lesson = self.condition.__module__.removesuffix(".findings").rpartition(".")[2]
        return f"{lesson}.{self.condition.__name__}"

    @cached_property
    def comparisons(self) -> list[tuple[Runs, str, Runs]]:
        """(value, sign, bound) with one number a recorded run on both sides."""
        found = triples(self.condition(), f"the finding {self.name}")
        return [_paired(value, sign, bound, self.name) for value, sign, bound in found]

    @property
    def held(self) -> list[bool]:
        """For each recorded run whether it holds there; where comparisons rest on other runs, each on its own."""
        each = [
            [holds(*pair) for pair in zip(value.recorded, [sign] * len(value.recorded), bound.recorded, strict=True)]
            for value, sign, bound in self.comparisons
        ]
        if len({len(runs) for runs in each}) == 1:
            return [all(run) for run in zip(*each, strict=True)]
        return min(each, key=lambda runs: (sum(runs) / len(runs), len(runs)))

    @property
    def holds(self) -> bool:
        """Whether enough of the recorded runs keep it."""
        held = self.held
        return sum(held) >= (len(held) if self.at_least is None else self.at_least)

    def numbers(self) -> str:
        """What was recorded, in words: "0.16 to 0.23 (≥ 0.15)", a comparison after another."""
        return "; ".join(f"{_band(value)} ({SHOWN[sign]} {_band(bound)})" for value, sign, bound in self.comparisons)

    def evidence(self) -> str:
        """In how many runs it holds, and the numbers: "10 of 10 runs, 0.16 to 0.23 (≥ 0.15)"."""
        held = self.held
        same = not any(side.vary for value, _, bound in self.comparisons for side in (value, bound))
        n = len(held)
        count = f"the same in all {n} runs" if same and all(held) and n > 1 else f"{sum(held)} of {n} runs"
        return f"{count}, {self.numbers()}"


def finding(sentence: str, chance: float | dict[str, float], at_least: int | None = None):
    """Make a `Finding` of a function that returns value, sign, bound (and further such threes), as a decorator."""
    return lambda condition: Finding(sentence.strip().rstrip("."), condition, chance, at_least)


def findings_of(lesson: str) -> dict[str, Finding]:
    """The findings of a lesson by name, in the order of its file; {} where it states none."""
    if not (HERE / lesson / "findings.py").is_file():
        return {}
    module = importlib.import_module(f"course_lib.workshop.experiments.{lesson}.findings")
    return {name: one for name, one in vars(module).items() if isinstance(one, Finding)}


def all_findings() -> list[Finding]:
    """All findings of the course, lesson after lesson."""
    lessons = sorted(path.parent.name for path in HERE.glob("*/findings.py"))
    return [one for lesson in lessons for one in findings_of(lesson).values()]


def _paired(value, sign: str, bound, name: str) -> tuple[Runs, str, Runs]:
    """Both sides as numbers of the same recorded runs; TypeError where neither of them is recorded."""
    sides = [side.recorded if isinstance(side, Runs) else None for side in (value, bound)]
    counts = {len(side) for side in sides if side}
    if len(counts) != 1:
        raise TypeError(
            f"The finding {name} compares {value!r} with {bound!r}: one side at least must be numbers of recorded "
            "runs, and two sides of the same runs."
        )
    n = counts.pop()
    filled = [side or (float(plain),) * n for side, plain in zip(sides, (value, bound), strict=True)]
    return Runs(filled[0]), sign, Runs(filled[1])


def _band(runs: Runs) -> str:
    low, high = f"{runs.least:.3g}", f"{runs.most:.3g}"
    return low if low == high else f"{low} to {high}"
