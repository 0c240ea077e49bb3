"""Exercises in the notebook: check an answer, ask for a hint, see the solution."""

import inspect

from course_lib.exercises import all_exercises, find
from course_lib.lesson.cards import card, emit, printed, prose
from course_lib.lesson.judge import Verdict, judge
from course_lib.lesson.marks import mark, marks
from course_lib.lesson.sources import fenced, source_of

# Of this session only, by exercise name: how many hints were given; which ones were really tried.
_hints_given: dict[str, int] = {}
_tried: set[str] = set()

_NOTHING = object()


def check(answer, value=_NOTHING, *, name: str | None = None, among=None) -> None:
    """Say whether an answer is right, and if not, what the likely cause is. Never raises, so Run All goes on.

    check(rnn_step) checks a function, found by its name; check("predict_cell", 3) checks an answer that is a
    value, check("rnn_step", my_step) a function of another name.
    """
    if value is not _NOTHING:
        name, answer = answer, value
    elif isinstance(answer, str) and name is None:
        return _unknown(answer, f"Give your answer too: `check({answer})`, or `check({answer!r}, ...)`.")
    name = name or getattr(answer, "__name__", None)
    if name is None:
        return _unknown("check", 'Say which exercise it answers: `check("its name", answer)`.')
    try:
        exercise = find(name, among)
    except LookupError as error:
        return _unknown(name, f'{error} For a function of another name: `check("its name", function)`.')
    if _is_the_librarys(answer):
        verdict = Verdict(
            "not attempted", "This is the library's own function: write yours in the cell above."
        )
    else:
        verdict = judge(exercise, answer)
    if verdict.kind != "not attempted":
        _tried.add(exercise.name)
    _say(exercise.name, verdict, _standing(exercise, among) if verdict.kind == "passed" else "")


def hint(name, *, among=None) -> None:
    """Show the next hint for an exercise, each call one more; after the last, where the solution is."""
    exercise = find(_named(name), among)
    given, total = _hints_given.get(exercise.name, 0), len(exercise.hints)
    if given == total:
        title = f"No more hints for `{exercise.name}`"
        text = f"`solution({exercise.name!r})` shows a solution."
    else:
        title, text = f"Hint {given + 1} of {total} for `{exercise.name}`", exercise.hints[given]
        _hints_given[exercise.name] = given + 1
    emit(
        f"{title}: {text}",
        html=card("info", f"<b>{prose(title)}</b>", prose(text)),
        metadata={"hint": exercise.name},
    )


def solution(name, show: bool = False, *, among=None) -> None:
    """Show the reference solution, once the exercise was tried or solved; before that, `show=True` shows it.

    So a notebook that runs through, and is stored, gives no answer away.
    """
    exercise = find(_named(name), among)
    if not (show or exercise.name in _tried or _is_solved(exercise)):
        text = (
            f"The solution of `{exercise.name}` is here when you want it. Try first, or ask for a hint: "
            f"`hint({exercise.name!r})`. To see it now: `solution({exercise.name!r}, show=True)`."
        )
        return emit(
            text, html=card("open", prose(text)), metadata={"solution": exercise.name, "shown": False}
        )
    code = source_of(exercise.solution)
    if not exercise.value:  # under the name that the student gives it, whatever it is called in the library
        code = code.replace(f"def {exercise.solution.__name__}(", f"def {exercise.name}(", 1)
    emit(
        f"A solution of {exercise.name}\n\n{code}",
        markdown=f"**A solution of `{exercise.name}`**\n\n{fenced(code)}",
        metadata={"solution": exercise.name, "shown": True},
    )


def _named(name):
    return name if isinstance(name, str) else getattr(name, "__name__", str(name))


def _is_the_librarys(answer):
    """Whether the student passed what was imported, having defined nothing yet."""
    module = getattr(inspect.unwrap(answer) if callable(answer) else answer, "__module__", None) or ""
    return module.startswith("course_lib.") and not module.startswith("course_lib.exercises")


def _is_solved(exercise):
    return exercise.name in marks()[0]["exercises"].get(exercise.lesson, ())


def _standing(exercise, among):
    """Mark it as solved, and say how many of the lesson's exercises are."""
    sentence = mark(exercise.lesson, "exercises", exercise.name)
    lesson = {
        other.name
        for other in (all_exercises() if among is None else among)
        if other.lesson == exercise.lesson
    }
    solved = lesson & marks()[0]["exercises"].get(exercise.lesson, set())
    return f"{len(solved)} of {len(lesson)} exercises of this lesson solved. {sentence}".strip()


def _unknown(name, text):
    _say(name, Verdict("unknown", text))


def _say(name, verdict, standing=""):
    tone, says = {
        "passed": ("good", "right"),
        "wrong": ("bad", "not right yet"),
        "error": ("bad", "not right yet"),
        "unfinished": ("bad", "not right yet"),
        "not attempted": ("open", "not attempted yet"),
        "unknown": ("open", "nothing to check"),
    }[verdict.kind]
    text = verdict.message or standing
    if verdict.kind == "not attempted" and not text:
        text = f"Write your answer in the cell above, then run both again. A nudge: `hint({name!r})`."
    elif tone == "bad":
        text += f"\nStuck? `hint({name!r})`"
    plain = f"{'✓' if tone == 'good' else '✗' if tone == 'bad' else '○'} {name}: {says}. {text}"
    said = f"It printed:\n{verdict.printed.rstrip()}" if verdict.printed.strip() else ""
    emit(
        f"{plain}\n{said}".rstrip(),
        html=card(tone, f"<b>{prose(f'`{name}`')}: {says}.</b>", prose(text), printed(said) if said else ""),
        metadata={"check": name, "verdict": verdict.kind},
    )
