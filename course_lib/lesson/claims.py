"""Claims: a sentence about a result, checked each time the notebook runs.

error = (mine - theirs).abs().max()
claim("the step equals PyTorch's", measured(error) <= 1e-6)
claim("it beats both", (measured(rnn, "bits") < uniform) & (measured(rnn, "bits") < unigram))
claim("it recalls", measured(record.numbers("accuracy", lag=24), name="lag 24") >= 0.9)      # over all recorded runs
"""

from course_lib.experiments.runs import Runs
from course_lib.lesson.cards import card, emit, prose
from course_lib.lesson.comparisons import Comparison
from course_lib.lesson.numerals import number, shown


class ClaimFailed(AssertionError):
    """A claim that does not hold here; shown in a notebook as one sentence, without a traceback."""

    def _render_traceback_(self):
        return [f"ClaimFailed: {self}"]


class Condition:
    """What a claim rests on: one comparison, or several joined by `&`; it holds when all of them do.

    Over runs it holds when they all do in every recorded run and in the live one, or, after `in_at_least(n)`, in n of
    the recorded ones. It has no truth value of its own: `not` would make a true claim of a comparison with nan, of
    which neither it nor its opposite holds; and `and`, or a chain of two signs, would lose what stands on the left.
    """

    def __init__(self, comparisons: tuple = (), plain: tuple = (), enough: int | None = None):
        self.comparisons, self.plain, self.enough = comparisons, plain, enough

    @property
    def held(self) -> list[bool]:
        """For each recorded run whether all comparisons hold there; [] where nothing is of runs."""
        of_runs = [comparison.holds_recorded for comparison in self.comparisons if comparison.of_runs]
        if len({len(runs) for runs in of_runs}) > 1:
            raise ValueError(
                f"Comparisons over {' and over '.join(str(len(runs)) for runs in of_runs)} recorded runs cannot be one "
                "claim: they were not the same runs. State two claims."
            )
        return [all(run) for run in zip(*of_runs, strict=True)]

    @property
    def holds(self) -> bool:
        """Whether the claim that rests on it may be made."""
        held = self.held
        single = [comparison for comparison in self.comparisons if not comparison.of_runs]
        others = all(self.plain) and all(comparison.holds for comparison in single)
        if self.enough is not None:
            return others and sum(held) >= self.enough
        return others and all(held) and all(comparison.holds_live is not False for comparison in self.comparisons)

    def in_at_least(self, n: int) -> "Condition":
        """The same as a frequency: it is enough that it holds in n of the recorded runs.

        Raises ValueError for fewer recorded runs than that, or for n < 1.
        """
        if not 1 <= n <= len(self.held):
            raise ValueError(f"in_at_least({n}): there are {len(self.held)} recorded runs to count.")
        return Condition(self.comparisons, self.plain, n)

    def firmness(self) -> str:
        """In how many runs it holds, in words; "" where nothing is of runs."""
        held = self.held
        if not held:
            return ""
        of_runs = [comparison for comparison in self.comparisons if comparison.of_runs]
        if not any(side.vary for comparison in of_runs
                   for side in (comparison.measurement.value, comparison.bound.value)
                   if isinstance(side, Runs)):  # fmt: skip
            return "the same in every run"
        here = [comparison.holds_live for comparison in of_runs if comparison.holds_live is not None]
        also = (" and in this one" if all(here) else ", not in this one") if here else ""
        return f"held in {sum(held)} of {len(held)} recorded runs{also}"

    def failure(self) -> str:
        """Why it does not hold, in words."""
        held = self.held
        if self.enough is not None and held:
            return f"it holds in {sum(held)} of {len(held)} recorded runs, fewer than {self.enough}"
        failed = [comparison.failure() for comparison in self.comparisons if not comparison.holds]
        return "; ".join(failed) or "its condition is false"

    def __bool__(self):
        raise TypeError(
            "hand what was measured to claim as it is: for `not` write the opposite comparison, measured(x) >= 1; for "
            "`and` and for 1 < measured(x) < 2 write `&`, (measured(x) > 1) & (measured(x) < 2); after `if`, its .holds"
        )

    def __eq__(self, other):
        return bool(self)  # == False is another `not`

    def __and__(self, other):
        other = _as_condition(other)
        if self.enough is not None or other.enough is not None:
            raise TypeError("in_at_least comes last: ((measured(a) < 1) & (measured(b) < 2)).in_at_least(7)")
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
        if isinstance(bound, Runs):
            bound, is_measured = Measured(bound), True
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
        return float(self.value.mean if isinstance(self.value, Runs) else self.value)

    def __repr__(self):
        value = repr(self.value) if isinstance(self.value, Runs) else shown(self.value)
        return f"{self.name} {value} {self.unit}".strip()


def measured(value, unit: str = "", name: str = "") -> Measured:
    """A measured number (int, float, a tensor or array of one element, or `Runs`), ready to be compared in a claim.

    `name` says what it belongs to where two measured numbers are compared. Raises TypeError for anything
    else.
    """
    if isinstance(value, Measured):
        return Measured(value.value, unit or value.unit, name or value.name)
    if isinstance(value, Runs):
        return Measured(value, unit, name)
    return Measured(number(value, "a measured value"), unit, name)


def claim(text: str, condition) -> None:
    """State `text` and show what it rests on; raise ClaimFailed, an AssertionError, if `condition` is false.

    `condition` is a comparison of measured(...) numbers, several of them joined by `&`, or a plain bool. Numbers that
    are `Runs` are held against their bound in every recorded run and in the live one, and the box says in how many.
    Raises TypeError if it is anything else: many values, a string or None would pass for true or false by
    accident.
    """
    text, condition = checked(text, condition)
    holds = condition.holds
    numbers = " and ".join(map(str, condition.comparisons))
    records = [comparison.record() for comparison in condition.comparisons]
    tone, word = ("good", "Claim") if holds else ("bad", "Claim that does not hold here")
    found = [f"measured {numbers}"] if holds and numbers else []
    found = "; ".join([*found, *filter(None, [condition.firmness()])])
    emit(
        f"{'✓' if holds else '✗'} {word.lower()}: {text}" + (f" — {found}" if found else ""),
        html=card(tone, f"<b>{word}:</b> {prose(text)}", prose(found)),
        metadata={"claim": text, "holds": holds, "values": records}
        | ({"held": sum(held), "recorded": len(held)} if (held := condition.held) else {}),
    )
    if not holds:
        raise ClaimFailed(f"the claim “{text}” does not hold: {condition.failure()}.")


def checked(text: str, condition, what: str = "a claim") -> tuple[str, Condition]:
    """A sentence and what it rests on, as `claim` takes them; TypeError, in words, for anything else."""
    if not isinstance(text, str) or not text.strip():
        raise TypeError(f"{what} starts with its sentence, then the condition; got {type(text).__name__} first")
    return text.strip().rstrip("."), _as_condition(condition)


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
