"""One measured number held against a bound: in this run, or in every recorded run and the live one."""

import math
import operator

from course_lib.experiments.runs import Runs
from course_lib.lesson.numerals import jsonable, shown, shown_bound

HOLDS = {
    "≤": operator.le,
    "<": operator.lt,
    "≥": operator.ge,
    ">": operator.gt,
    "=": operator.eq,
    "≠": operator.ne,
}


class Comparison:
    """`measurement` (with value, unit and name) held against `bound`; false wherever either of them is not a number.

    Either side may be `Runs`: then it is held run by run, a single number against each of them.
    """

    def __init__(self, measurement, sign: str, bound, bound_is_measured: bool):
        self.measurement, self.sign, self.bound, self.bound_is_measured = measurement, sign, bound, bound_is_measured
        self.of_runs = isinstance(measurement.value, Runs) or isinstance(bound.value, Runs)
        recorded, self.live = _paired(measurement.value, bound.value)
        self.recorded = recorded if self.of_runs else []
        self.holds_recorded = [self._keeps(pair) for pair in self.recorded]  # one truth a recorded run
        self.holds_live = None if self.live is None else self._keeps(self.live)

    @property
    def holds(self) -> bool:
        """In this run, and in every recorded one."""
        return all(self.holds_recorded) and self.holds_live is not False

    def _keeps(self, pair: tuple[float, float]) -> bool:
        return not any(map(math.isnan, pair)) and HOLDS[self.sign](*pair)

    @property
    def worst(self) -> tuple[float, float]:
        """The pair of numbers that keeps the bound least."""
        return min([*self.recorded, *filter(None, [self.live])], key=lambda pair: _margin(self.sign, *pair))

    def _digits(self) -> int:
        """How many digits it takes to tell the same story as the numbers do."""
        value, limit = self.worst
        show = shown if self.bound_is_measured else shown_bound
        for digits in range(3, 18):
            texts = (shown(value, digits).replace(",", ""), show(limit, digits).replace(",", ""))
            if HOLDS[self.sign](*map(float, texts)) == self._keeps(self.worst):
                break
        return digits

    def __str__(self):
        digits, unit, other = self._digits(), self.measurement.unit, self.bound.unit or self.measurement.unit
        value = _told(self.measurement.value, digits)
        bound = (_told if self.bound_is_measured else shown_bound)(self.bound.value, digits)
        left = f"{self.measurement.name} {value}".strip() + (f" {unit}" if unit and unit != other else "")
        right = f"{self.bound.name} {bound}".strip() + (f" {other}" if other else "")
        return f"{left} {self.sign} {right}"

    def failure(self) -> str:
        """What is wrong with it, as the end of a sentence."""
        digits, (value, limit) = self._digits(), self.worst
        bound = (shown if self.bound_is_measured else shown_bound)(limit, digits)
        unit = f" {self.measurement.unit}" if self.measurement.unit else ""
        name = f"{self.measurement.name} " if self.measurement.name else ""
        where = f" (worst of {len(self.recorded)} recorded runs and this one)" if self.of_runs else ""
        if math.isnan(value) or math.isnan(limit):
            return (
                f"measured {name}{shown(value)}{unit} against {bound}, and a comparison with nan is never true{where}"
            )
        limit = f"{self.bound.name} {bound}".strip()
        return f"measured {name}{shown(value, digits)}{unit}, which is not {self.sign} {limit}{where}"

    def record(self) -> dict:
        """It as data for the notebook's metadata."""
        value, bound = self.measurement.value, self.bound.value
        names = {"name": self.measurement.name, "bound_name": self.bound.name, "unit": self.measurement.unit}
        over = {}
        if self.of_runs:
            over = {
                "recorded": len(self.recorded),
                "held": sum(self.holds_recorded),
                "worst": [jsonable(number) for number in self.worst],
                **({} if self.live is None else {"live": [jsonable(number) for number in self.live]}),
            }
        return {
            "value": jsonable(value.mean if isinstance(value, Runs) else value),
            "operator": self.sign,
            "bound": jsonable(bound.mean if isinstance(bound, Runs) else bound),
            **({"bound_is_measured": True} if self.bound_is_measured else {}),
            **{key: text for key, text in names.items() if text},
            **over,
        }


def _paired(value, bound) -> tuple[list[tuple[float, float]], tuple[float, float] | None]:
    """(number, bound) of each recorded run, and of the live one, where both sides have it."""
    if not isinstance(value, Runs) and not isinstance(bound, Runs):
        return [], (value, bound)
    sides = [side if isinstance(side, Runs) else None for side in (value, bound)]
    counts = {len(side.recorded) for side in sides if side is not None}
    if len(counts) > 1:
        raise ValueError(
            f"Numbers of {' and of '.join(map(str, sorted(counts)))} recorded runs cannot be compared run by run: "
            "take both from experiments with the same seeds and settings, or compare .mean of each."
        )
    n = counts.pop()
    columns = [list(side.recorded) if side is not None else [single] * n
               for side, single in zip(sides, (value, bound), strict=True)]  # fmt: skip
    live = [side.live if side is not None else single for side, single in zip(sides, (value, bound), strict=True)]
    return list(zip(*columns, strict=True)), None if None in live else tuple(live)


def _told(value, digits: int) -> str:
    """A number; of runs the live one, or the mean, and the band of the recorded ones."""
    if not isinstance(value, Runs):
        return shown(value, digits)
    if not value.vary:
        return shown(value.values[0], digits)
    band = f"{shown(value.least, digits)} to {shown(value.most, digits)}"
    if value.live is None:
        return f"{shown(value.mean, digits)} ({band})"
    if not value.recorded:
        return shown(value.live, digits)
    return f"{shown(value.live, digits)} ({'in' if value.live_is_in_band else 'outside'} the record's {band})"


def _margin(sign: str, value: float, bound: float) -> float:
    """By how much a comparison holds; below 0 where it does not, least of all where it is not a number."""
    gap = value - bound
    if math.isnan(gap):
        return -math.inf
    return {"≤": -gap, "<": -gap, "≥": gap, ">": gap, "=": -abs(gap), "≠": abs(gap)}[sign]
