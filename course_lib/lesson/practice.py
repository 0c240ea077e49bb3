"""Exercises in the notebook: check an answer, ask for a hint, see the solution."""

import functools
import inspect
import types

from course_lib.lesson.cards import card, emit, printed, prose
from course_lib.lesson.investigations import model_answer
from course_lib.lesson.judge import Verdict, judge
from course_lib.lesson.marks import mark, marks
from course_lib.lesson.sources import fenced, source_of
from course_lib.workshop.exercises import Investigation, all_exercises, all_investigations, find

# Of this session only, by exercise name: how many hints were given; which ones were really tried.
_hints_given: dict[str, int] = {}
_tried: set[str] = set()

_NOTHING = object()


def check(answer, value=_NOTHING, *, among=None) -> None:
    """Say whether an answer is right, and if not, what the likely cause is. Never raises, so Run All goes on.

    check(rnn_step) checks a function, found by its name; check("predict_cell", 3) checks an answer that is a
    value, check("rnn_step", my_step) a function of another name.
    """
    if value is not _NOTHING:
        name, answer = answer, value
    elif type(answer) is str:
        return _unknown(answer, f"Give your answer too: `check({answer})`, or `check({answer!r}, ...)`.")
    else:
        try:
            name = answer.__name__
        except (Exception, SystemExit):  # it has none, or raises whatever it is asked
            name = None
    if type(name) is not str or name == "<lambda>":
        return _unknown("check", 'Say which exercise it answers: `check("its name", answer)`.')
    try:
        exercise = find(name, among)
    except LookupError as error:
        return _unknown(name, f'{error} For a function of another name: `check("its name", function)`.')
    verdict = found(exercise, answer)
    if verdict.kind != "not attempted":
        _tried.add(exercise.name)
    _say(exercise.name, verdict, _standing(exercise, among) if verdict.kind == "passed" else "")


def found(exercise, answer) -> Verdict:
    """How `check` finds an answer; nothing is said and nothing is marked. Raises nothing but KeyboardInterrupt."""
    if not exercise.value and _is_the_librarys(answer):
        return Verdict("not attempted", "This is the library's own function: write yours in the cell above.")
    return judge(exercise, answer)


def graded(name: str, answer) -> None:
    """For a grader: raises AssertionError, with the check's sentence, unless `check` finds `answer` right."""
    verdict = found(find(name), answer)
    if verdict.kind != "passed":
        raise AssertionError(f"{name}: {verdict.message or verdict.kind}")


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

    So a notebook that runs through, and is stored, gives no answer away. For an investigation, the model answer, once
    something of its rubric is ticked.
    """
    exercise = find(_named(name), [*all_exercises(), *all_investigations()] if among is None else among)
    if isinstance(exercise, Investigation):
        return model_answer(exercise, show)
    if not (show or exercise.name in _tried or _is_solved(exercise)):
        text = (
            f"The solution of `{exercise.name}` is here when you want it. Try first, or ask for a hint: "
            f"`hint({exercise.name!r})`. To see it now: `solution({exercise.name!r}, show=True)`."
        )
        return emit(text, html=card("open", prose(text)), metadata={"solution": exercise.name, "shown": False})
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
    """Whether the student passed what was imported, as it is or wrapped; calling the library inside is allowed."""
    try:
        for _ in range(20):  # wrappers around wrappers, and no endless round of them
            answer = _wrapped(answer) or answer
        module = answer.__module__ or ""
    except Exception:  # an object without a module, or one that raises whatever it is asked
        return False
    return module.partition(".")[0] == "course_lib"


def _wrapped(answer):
    """The function inside a partial, a bound method, or what functools.wraps dressed; None inside anything else."""
    kind = type(answer)
    if issubclass(kind, functools.partial):
        return answer.func
    return answer.__func__ if kind is types.MethodType else inspect.getattr_static(answer, "__wrapped__", None)


def _is_solved(exercise):
    return exercise.name in marks()["exercises"].get(exercise.lesson, ())


def _standing(exercise, among):
    """Mark it as solved, and say how many of the lesson's exercises are."""
    sentence = mark(exercise.lesson, "exercises", exercise.name)
    lesson = {other.name for other in (all_exercises() if among is None else among) if other.lesson == exercise.lesson}
    solved = lesson & marks()["exercises"].get(exercise.lesson, set())
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
