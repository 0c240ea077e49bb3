"""Runs: one number measured in many runs, those of the record and the live one, and arithmetic run by run."""

import math
import operator
from collections.abc import Callable


def slug_of(module: str) -> str:
    """The name of a module's record: "gpt_controls" for ...experiments.gpt.controls, "gpt" for its core."""
    lesson, _, part = module.rpartition("experiments.")[2].partition(".")
    return lesson if part in ("", "core") else f"{lesson}_{part}"


class Recorded(float):
    """A number out of the record: what is computed from it is one too, so that a claim about this run can refuse it."""

    def __repr__(self):
        return f"Recorded({float(self)})"


def _marked(name: str):
    plain = getattr(float, name)

    def method(self, *others):
        result = plain(self, *others)
        return Recorded(result) if isinstance(result, float) else result

    return method


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "neg", "abs", "pow", "rpow"):
    setattr(Recorded, f"__{_name}__", _marked(f"__{_name}__"))


class Runs:
    """One number in each recorded run, and in the live run, where there is one.

    recorded: numbers, in the record's order; live: a number or None. `a - b`, `a / b`, `abs(a)`, `a.map(math.log10)`
    compute run by run; a side without a live run leaves the result without. Two of different length raise ValueError.
    """

    def __init__(self, recorded, live: float | None = None):
        self.recorded = tuple(float(value) for value in recorded)
        self.live = None if live is None else float(live)
        if not self.recorded and self.live is None:
            raise ValueError("Runs needs at least one number: neither a recorded run nor a live one was given.")

    @property
    def values(self) -> tuple[float, ...]:
        """All numbers: the recorded ones, then the live one."""
        return self.recorded if self.live is None else (*self.recorded, self.live)

    @property
    def mean(self) -> Recorded:
        """The mean of the recorded runs (of the live one, where nothing is recorded)."""
        band = self.recorded or self.values
        return Recorded(math.fsum(band) / len(band))

    @property
    def least(self) -> Recorded:
        """The least of the recorded runs: where the band begins."""
        return Recorded(min(self.recorded or self.values))

    @property
    def most(self) -> Recorded:
        """The largest of the recorded runs: where the band ends."""
        return Recorded(max(self.recorded or self.values))

    @property
    def vary(self) -> bool:
        """Whether the number is another one in some run (beyond six digits, which is rounding)."""
        return any(not math.isclose(value, self.values[0], rel_tol=1e-6, abs_tol=1e-12) for value in self.values)

    @property
    def live_is_in_band(self) -> bool | None:
        """Whether the live number lies between the least and the largest recorded one; None without either."""
        if self.live is None or not self.recorded:
            return None
        return self.least <= self.live <= self.most

    def map(self, f: Callable[[float], float]) -> "Runs":
        """f of each number."""
        return Runs(map(f, self.recorded), None if self.live is None else f(self.live))

    def _with(self, other, f: Callable[[float, float], float]) -> "Runs":
        if not isinstance(other, Runs):
            return self.map(lambda value: f(value, float(other)))
        if len(self.recorded) != len(other.recorded):
            raise ValueError(
                f"Numbers of {len(self.recorded)} and of {len(other.recorded)} recorded runs cannot be paired: take "
                "both from experiments with the same seeds and settings."
            )
        both = None not in (self.live, other.live)
        return Runs(map(f, self.recorded, other.recorded), f(self.live, other.live) if both else None)

    def __add__(self, other):
        return self._with(other, operator.add)

    def __sub__(self, other):
        return self._with(other, operator.sub)

    def __mul__(self, other):
        return self._with(other, operator.mul)

    def __truediv__(self, other):
        return self._with(other, operator.truediv)

    def __radd__(self, other):
        return self._with(other, operator.add)

    def __rsub__(self, other):
        return self._with(other, lambda mine, theirs: theirs - mine)

    def __rmul__(self, other):
        return self._with(other, operator.mul)

    def __rtruediv__(self, other):
        return self._with(other, lambda mine, theirs: theirs / mine)

    def __neg__(self):
        return self.map(operator.neg)

    def __abs__(self):
        return self.map(abs)

    def __repr__(self):
        return f"Runs({self.mean:.3g}, {self.least:.3g} to {self.most:.3g} in {len(self.recorded)}, live {self.live})"


def least_of(*numbers: Runs) -> Runs:
    """In each run the least of several numbers: min over names, run by run."""
    first, *others = numbers
    for other in others:
        first = first._with(other, min)
    return first


def most_of(*numbers: Runs) -> Runs:
    """In each run the largest of several numbers."""
    first, *others = numbers
    for other in others:
        first = first._with(other, max)
    return first
