"""Identities: what is true by construction is checked where it arises, and shown together as one line.

identity("a sum over heads is a concatenation", measured((mine - theirs).abs().max()) <= 1e-5)     # says nothing
identities()                                                                     # ✓ 9 identities hold; it unfolds
"""

from course_lib.lesson.cards import card, emit, prose
from course_lib.lesson.claims import ClaimFailed, checked

_held: list[str] = []  # the sentences of this run of the notebook, in their order


def identity(text: str, condition) -> None:
    """Check what is true by construction, in silence; raise ClaimFailed if it is not.

    `condition` is what a claim takes. Raises TypeError for anything else. A cell that is run twice counts once.
    """
    text, condition = checked(text, condition, "an identity")
    if not condition.holds:
        raise ClaimFailed(f"the identity “{text}” does not hold: {condition.failure()}.")
    if text not in _held:
        _held.append(text)


def identities() -> None:
    """One green line: how many identities held so far, which unfolds into their sentences."""
    n = len(_held)
    told = f"{n} identit{'y holds' if n == 1 else 'ies hold'}"
    items = "".join(f"<li>{prose(text)}</li>" for text in _held)
    emit(
        "\n".join([f"✓ {told}", *(f"  {text}" for text in _held)]),
        html=card("good", f"<details><summary><b>{told}</b></summary><ul>{items}</ul></details>"),
        metadata={"identities": list(_held)},
    )
