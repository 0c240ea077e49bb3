"""Identities: what is true by construction is checked where it arises, and shown together as one line.

identity("a sum over heads is a concatenation", (mine - theirs).abs().max(), "<=", 1e-5)     # says nothing
identities()                                                     # 9 of 9 identities hold; it unfolds
"""

from course_lib.lesson.cards import card, emit, prose
from course_lib.lesson.claims import sentence, told
from course_lib.lesson.numerals import number
from course_lib.workshop.experiments.comparison import holds, triples
from course_lib.workshop.experiments.runs import Runs

_found: dict[str, str] = {}  # this run's identities in their order: sentence -> what is wrong, "" where it holds


def identity(text: str, *condition) -> None:
    """Check what is true by construction, in silence; what does not hold is shown in red, and the run goes on.

    condition: one truth value, or what a claim takes. Raises TypeError for anything else. A cell that is run twice
    counts once.
    """
    text = sentence(text, "an identity")
    wrong = _wrong(condition)
    _found[text] = wrong
    if wrong:
        title = f"<b>This should be true by construction, and is not:</b> {prose(text)}"
        emit(f"✗ not so: {text} — {wrong}", html=card("bad", title, prose(wrong)), metadata={"not_so": text})


def identities() -> None:
    """One line: how many identities hold so far; it unfolds into their sentences."""
    good = sum(not wrong for wrong in _found.values())
    line = f"{good} of {len(_found)} identities hold"
    items = "".join(f"<li>{'✗ ' if wrong else ''}{prose(text)}</li>" for text, wrong in _found.items())
    lines = [f"  {'✗ ' if wrong else ''}{text}" for text, wrong in _found.items()]
    tone = "good" if good == len(_found) else "bad"
    emit(
        "\n".join([f"{'✓' if tone == 'good' else '✗'} {line}", *lines]),
        html=card(tone, f"<details><summary><b>{line}</b></summary><ul>{items}</ul></details>"),
        metadata={"identities": [text for text, wrong in _found.items() if not wrong]},
    )


def _wrong(condition: tuple) -> str:
    """What is wrong with it, in words; "" where it holds."""
    if len(condition) == 1:
        return "" if _truth(condition[0]) else "its condition is false"
    found = [
        (one, sign, other)
        for value, sign, bound in triples(condition, "an identity")
        for one in _each(value, "a value")
        for other in _each(bound, "a bound")
    ]
    return "; ".join(told(*one) for one in found if not holds(*one))


def _each(value, what: str) -> list[float]:
    """The number; of `Runs` that of every run, for what is true by construction is so in each."""
    return list(value.values) if isinstance(value, Runs) else [number(value, what)]


def _truth(value) -> bool:
    """One bool, of Python, torch or NumPy; TypeError for anything else, which would pass by accident."""
    value = value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value
    if not isinstance(value, bool):
        raise TypeError(f"an identity rests on one truth value or on a comparison; got {type(value).__name__}")
    return value
