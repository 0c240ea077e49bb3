"""Claims: a sentence about a result, checked each time the notebook runs.

error = (mine - theirs).abs().max()
claim("the step equals PyTorch's", measured(error) <= 1e-6)
claim("it beats both", (measured(rnn, "bits") < uniform) & (measured(rnn, "bits") < unigram))
"""

import math
import operator

from course_lib.lesson.cards import card, emit, prose
from course_lib.lesson.firmness import firmness
from course_lib.lesson.numerals import jsonable, number, shown, shown_bound

_HOLDS = {
    "≤": operator.le,
    "<": operator.lt,
    "≥": operator.ge,
    ">": operator.gt,
    "=": operator.eq,
    "≠": operator.ne,
}


class ClaimFailed(AssertionError):
    """A claim that does not hold here; shown in a notebook as one sentence, without a traceback."""

    def _render_traceback_(self):
        return [f"ClaimFailed: {self}"]


class Comparison:
    """One measured number held against a bound; false whenever either of them is not a number."""

    def __init__(self, measurement: "Measured", sign: str, bound: "Measured", bound_is_measured: bool):
        self.measurement, self.sign, self.bound, self.bound_is_measured = (
            measurement,
            sign,
            bound,
            bound_is_measured,
        )
        value, limit = measurement.value, bound.value
        comparable = not (math.isnan(value) or math.isnan(limit))
        self.holds = comparable and _HOLDS[sign](value, limit)

    def _texts(self):
        """Both numbers as text, with as many digits as it takes to tell the same story as the numbers do."""
        for digits in range(3, 18):
            value = shown(self.measurement.value, digits)
            show = shown if self.bound_is_measured else shown_bound
            bound = show(self.bound.value, digits)
            if _HOLDS[self.sign](*(float(text.replace(",", "")) for text in (value, bound))) == self.holds:
                break
        return value, bound

    def __str__(self):
        value, bound = self._texts()
        unit, other = self.measurement.unit, self.bound.unit or self.measurement.unit
        left = f"{self.measurement.name} {value}".strip() + (f" {unit}" if unit and unit != other else "")
        right = f"{self.bound.name} {bound}".strip() + (f" {other}" if other else "")
        return f"{left} {self.sign} {right}"

    def failure(self) -> str:
        """What is wrong with it, as the end of a sentence."""
        value, bound = self._texts()
        unit = f" {self.measurement.unit}" if self.measurement.unit else ""
        name = f"{self.measurement.name} " if self.measurement.name else ""
        if math.isnan(self.measurement.value) or math.isnan(self.bound.value):
            return f"measured {name}{value}{unit} against {bound}, and a comparison with nan is never true"
        return f"measured {name}{value}{unit}, which is not {self.sign} {f'{self.bound.name} {bound}'.strip()}"

    def record(self) -> dict:
        """It as data for the notebook's metadata."""
        names = {"name": self.measurement.name, "bound_name": self.bound.name, "unit": self.measurement.unit}
        return {
            "value": jsonable(self.measurement.value),
            "operator": self.sign,
            "bound": jsonable(self.bound.value),
            **({"bound_is_measured": True} if self.bound_is_measured else {}),
            **{key: text for key, text in names.items() if text},
        }


class Condition:
    """What a claim rests on: one comparison, or several joined by `&`. `holds` where all of them do.

    It has no truth value of its own: `not` would make a true claim of a comparison with nan, of which neither it nor
    its opposite holds; and `and`, or a chain of two signs, would lose what stands on the left.
    """

    def __init__(self, comparisons: tuple = (), plain: tuple = ()):
        self.comparisons, self.plain = comparisons, plain

    @property
    def holds(self) -> bool:
        return all(self.plain) and all(comparison.holds for comparison in self.comparisons)

    def __bool__(self):
        raise TypeError(
            "hand what was measured to claim as it is: for `not` write the opposite comparison, measured(x) >= 1; for "
            "`and` and for 1 < measured(x) < 2 write `&`, (measured(x) > 1) & (measured(x) < 2); after `if`, its .holds"
        )

    def __eq__(self, other):
        return bool(self)  # == False is another `not`

    def __and__(self, other):
        other = _as_condition(other)
        return Condition(self.comparisons + other.comparisons, self.plain + other.plain)

    __rand__ = __and__

    def __repr__(self):
        return f"{' and '.join(map(str, self.comparisons)) or all(self.plain)}: {self.holds}".lower()


class Measured:
    """A number that was measured; comparing it gives a Condition that remembers both sides."""

    __array_ufunc__ = None  # so that NumPy numbers on the left leave the comparison to this class
    __hash__ = None

    def __init__(self, value: float, unit: str = "", name: str = ""):
        self.value, self.unit, self.name = value, unit, name

    def _against(self, sign, bound):
        is_measured = isinstance(bound, Measured)
        bound = bound if is_measured else Measured(number(bound, "the bound of a claim"))
        return Condition((Comparison(self, sign, bound, is_measured),))

    def __le__(self, bound):
        return self._against("≤", bound)

    def __lt__(self, bound):
        return self._against("<", bound)

    def __ge__(self, bound):
        return self._against("≥", bound)

    def __gt__(self, bound):
        return self._against(">", bound)

    def __eq__(self, bound):
        return self._against("=", bound)

    def __ne__(self, bound):
        return self._against("≠", bound)

    def __and__(self, other):
        # `a < 1 & b < 2` means `a < (1 & b) < 2` in Python.
        raise TypeError("put brackets around each comparison: (measured(a) < 1) & (measured(b) < 2)")

    __rand__ = __and__

    def __bool__(self):
        raise TypeError("a measured number is neither true nor false: compare it, as in measured(x) <= 1e-6")

    def __float__(self):
        return float(self.value)

    def __repr__(self):
        return f"{self.name} {shown(self.value)} {self.unit}".strip()


def measured(value, unit: str = "", name: str = "") -> Measured:
    """A measured number (int, float, or a tensor or array of one element), ready to be compared in a claim.

    `name` says what it belongs to where two measured numbers are compared. Raises TypeError for anything
    else.
    """
    if isinstance(value, Measured):
        return Measured(value.value, unit or value.unit, name or value.name)
    return Measured(number(value, "a measured value"), unit, name)


def claim(text: str, condition) -> None:
    """State `text` and show what it rests on; raise ClaimFailed, an AssertionError, if `condition` is false.

    `condition` is a comparison of measured(...) numbers, several of them joined by `&`, or a plain bool. Where
    `make claims` has recorded this sentence with these bounds, the box also says in how many runs it held.
    Raises TypeError if it is anything else: many values, a string or None would pass for true or false by
    accident.
    """
    if not isinstance(text, str) or not text.strip():
        raise TypeError(f"a claim starts with its sentence, then the condition; got {type(text).__name__} first")
    condition = _as_condition(condition)
    holds, text = condition.holds, text.strip().rstrip(".")
    numbers = " and ".join(map(str, condition.comparisons))
    records = [comparison.record() for comparison in condition.comparisons]
    tone, word = ("good", "Claim") if holds else ("bad", "Claim that does not hold here")
    found = [f"measured {numbers}"] if holds and numbers else []
    found = "; ".join([*found, *filter(None, [firmness(text, records)])])
    emit(
        f"{'✓' if holds else '✗'} {word.lower()}: {text}" + (f" — {found}" if found else ""),
        html=card(tone, f"<b>{word}:</b> {prose(text)}", prose(found)),
        metadata={"claim": text, "holds": holds, "values": records},
    )
    if not holds:
        failed = [comparison.failure() for comparison in condition.comparisons if not comparison.holds]
        raise ClaimFailed(f"the claim “{text}” does not hold: {'; '.join(failed) or 'its condition is false'}.")


def _as_condition(condition):
    if isinstance(condition, Condition):
        return condition
    if isinstance(condition, Measured):
        raise TypeError("the claim's number is not compared with anything: write measured(x) <= bound")
    single = getattr(condition, "shape", None) == () and hasattr(condition, "item")  # one bool out of torch or NumPy
    plain = condition.item() if single else condition
    if isinstance(plain, bool):
        return Condition(plain=(plain,))
    shape = getattr(condition, "shape", None)
    what = f"{type(condition).__name__} of shape {tuple(shape)}" if shape is not None else type(condition).__name__
    raise TypeError(
        f"a claim rests on a comparison such as measured(x) <= 1e-6, or on one bool; got {what}. "
        "For many values compare the largest one, or use .all()."
    )
