"""A lesson's model, built of the student's own functions: theirs where they are right, else the course's."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

from course_lib.lesson.cards import SYMBOL, card, emit, prose
from course_lib.lesson.practice import found
from course_lib.workshop.exercises import find

LONGEST = 3.0  # seconds for a part: one that hangs must not hold up Run All


def own_parts(*, among=None, **parts: str | tuple[str, Callable]) -> SimpleNamespace:
    """The functions to build a model of, by the names that are asked for; and a table that says whose each is.

    parts = own_parts(rotate="my_rotate") gives as parts.rotate the student's `my_rotate`, where the notebook holds one
    that the check of this exercise finds right, else the exercise's solution; rotate=("my_rotate", rotate) names
    another function to use instead of the solution. The student's is tried in silence and nothing is recorded:
    whatever it does, nothing is raised. Raises NotThere, a LookupError, for an exercise that does not exist.
    """
    notebook, chosen, rows = _notebook(), {}, []
    for part, asked in parts.items():
        name, *stand_in = [asked] if isinstance(asked, str) else asked
        exercise = find(name, among)
        theirs = notebook.get(exercise.name)
        verdict = found(replace(exercise, seconds=min(exercise.seconds, LONGEST)), theirs)
        own = verdict.kind == "passed"
        chosen[part] = theirs if own else (*stand_in, exercise.solution)[0]
        rows.append((part, exercise.name, own, _reason(verdict.kind)))
    _say(rows)
    return SimpleNamespace(**chosen)


def _notebook() -> dict:
    """What the notebook has defined, by name; nothing where there is no notebook."""
    from IPython import get_ipython

    return getattr(get_ipython(), "user_ns", {})


def _reason(kind):
    return {"passed": "", "not attempted": "is not written yet"}.get(kind, "is not right yet")


def _say(rows):
    lines = [
        f"{part}: yours, `{name}`" if own else f"{part}: the course's, for `{name}` {reason}"
        for part, name, own, reason in rows
    ]
    marks = [SYMBOL["good" if own else "open"] for _, _, own, _ in rows]
    number = sum(own for _, _, own, _ in rows)
    title = f"{number} of {len(rows)} parts of this model are yours."
    said = [f"{mark} {line}" for mark, line in zip(marks, lines, strict=True)]
    emit(
        "\n".join([title, *(f"  {line}".replace("`", "") for line in said)]),
        html=card("good" if number == len(rows) else "info", f"<b>{title}</b>", *map(prose, said)),
        metadata={"parts": {part: "yours" if own else "the course's" for part, _, own, _ in rows}},
    )
