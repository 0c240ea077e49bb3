"""Claims: sentences about this run of the notebook, each with the number that it rests on.

    claim("More merges mean fewer bits per character", ratio, "<=", 0.8)
    claims()                       # 7 of 7 claims hold in this run

A claim that does not hold turns red, and the run goes on: a student who changes a setting sees what it did. What was
recorded in other runs is cited, not claimed: see `cite`.
"""

from course_lib.lesson.cards import card, emit, prose
from course_lib.lesson.numerals import jsonable, number, shown, shown_bound
from course_lib.workshop.experiments.comparison import SHOWN, holds, triples
from course_lib.workshop.experiments.runs import Recorded, Runs

_made: dict[str, bool] = {}  # this notebook's claims so far, in their order: sentence -> whether it holds


def claim(text: str, *condition) -> None:
    """State `text` about this run, and show in green or red whether its numbers bear it out.

    condition: a value, a sign ("<=", "<", ">=", ">", "==", "!=") and a bound; more threes may follow, and all must
    hold. A value is a number that this notebook has computed, or `Runs` with a live run, of which the live number
    counts and the recorded ones are shown beside it. Raises TypeError for anything else, and for a recorded number.
    """
    text = sentence(text, "a claim")
    compared = [_compared(*one) for one in triples(condition, "a claim")]
    good = all(holds(value, sign, bound) for value, sign, bound, _ in compared)
    _made[text] = good
    numbers = "; ".join(told(value, sign, bound) + _band(band) for value, sign, bound, band in compared)
    title = f"<b>{'Claim' if good else 'Does not hold in this run'}:</b> {prose(text)}"
    advice = "" if good else "Did you change something above, such as the number of steps? Then this is its effect."
    emit(
        f"{'✓ claim' if good else '✗ does not hold in this run'}: {text} — in this run {numbers}",
        html=card("good" if good else "bad", title, prose(f"In this run: {numbers}"), prose(advice)),
        metadata={"claim": text, "holds": good, "values": [_stored(*one) for one in compared]},
    )


def claims() -> None:
    """Print how many of the notebook's claims so far hold in this run, and name those that do not."""
    red = [text for text, good in _made.items() if not good]
    print(f"{len(_made) - len(red)} of {len(_made)} claims hold in this run")
    print(*(f"✗ {text}\n" for text in red), sep="", end="")


def sentence(text, what: str) -> str:
    """A claim's sentence without its full stop; TypeError if it is none."""
    if not isinstance(text, str) or not text.strip():
        raise TypeError(f"{what} starts with its sentence; got {type(text).__name__} first")
    return text.strip().rstrip(".")


def told(value: float, sign: str, bound: float) -> str:
    """The comparison in words, with digits enough to see that it is true or false."""
    good = holds(value, sign, bound)
    texts = [(shown(value, digits), shown_bound(bound, digits)) for digits in range(3, 18)]
    left, right = next((pair for pair in texts if holds(_read(pair[0]), sign, _read(pair[1])) == good), texts[-1])
    return f"{left} {SHOWN[sign]} {right}" if good else f"{left}, not {SHOWN[sign]} {right}"


def _read(text: str) -> float:
    return float(text.replace(",", ""))


def _compared(value, sign: str, bound) -> tuple[float, str, float, list]:
    """The numbers of this run, and the pairs (value, bound) of the recorded ones, [] without a record."""
    if not isinstance(value, Runs) and not isinstance(bound, Runs):
        return _live(value), sign, _live(bound), []
    sides = [side if isinstance(side, Runs) else None for side in (value, bound)]
    counts = [len(side.recorded) for side in sides if side is not None]
    if len(set(counts)) > 1:
        raise ValueError(f"Numbers of {counts[0]} and of {counts[1]} recorded runs cannot be compared run by run.")
    columns = [side.recorded if side is not None else (_live(plain),) * counts[0]
               for side, plain in zip(sides, (value, bound), strict=True)]  # fmt: skip
    return _live(value), sign, _live(bound), list(zip(*columns, strict=True))


def _live(value) -> float:
    """The number that this run has computed; TypeError for one out of the record alone."""
    if isinstance(value, Runs):
        value = value.live
        recorded = value is None
    else:
        recorded = isinstance(value, Recorded)
    if recorded:
        raise TypeError(
            "A claim is about this run, and this number is out of the record. Compare what the notebook has just "
            "computed, or state a finding in experiments/<lesson>/findings.py and cite it: cite(findings.its_name)."
        )
    return number(value, "what a claim compares")


def _band(pairs: list) -> str:
    """The band of the recorded runs, in words; "" without any."""
    if not pairs:
        return ""
    values = [value for value, _ in pairs]
    low, high = shown(min(values)), shown(max(values))
    return f" ({len(values)} recorded runs: {low if low == high else f'{low} to {high}'})"


def _stored(value, sign, bound, pairs) -> dict:
    recorded = {"recorded": [[jsonable(number) for number in pair] for pair in pairs]} if pairs else {}
    return {"value": jsonable(value), "operator": sign, "bound": jsonable(bound), **recorded}
