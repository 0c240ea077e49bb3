"""Exercises and quiz questions: what they consist of, and where to find them.

Each lesson has one module here, named by its slug (`rnn_bptt.py`). It exposes two lists:

    EXERCISES = [Exercise(...), ...]
    QUIZ = [Quiz(...), ...]

Nothing else registers them. `tests/test_exercises.py` proves each one: the stub counts as not attempted,
the solution passes, and every known wrong answer is caught with its own message.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Exercise:
    """One task of a lesson, with its check, its hints, its solution and the mistakes that it knows.

    name      what the student defines, e.g. "rnn_step": the key for check, hint and solution
    lesson    the lesson's slug, e.g. "rnn_bptt"
    title     a short phrase for people
    check     check(answer) returns None, or a message that names the likely cause of what is wrong;
              it tries one thing at a time, the simplest first
    hints     from a nudge to nearly the answer
    solution  the reference function; for a value exercise a function without arguments that returns the value
    wrong     pairs (wrong answer, phrase that the message for it must contain)
    stub      what the notebook holds before the student starts
    value     True where the answer is a value (a prediction), not a function
    in_place  True where the function is asked to change its arguments, and may return nothing
    seconds   time that the whole check may take

    A check need not look for these, the course does it for every exercise: the function stops with an error,
    takes other arguments than the solution, returns nothing or a NumPy array, changes its inputs, never ends.
    Raises TypeError or ValueError where a field cannot be right.
    """

    name: str
    lesson: str
    title: str
    check: Callable[[Any], str | None]
    hints: tuple[str, ...]
    solution: Callable
    wrong: tuple[tuple[Any, str], ...]
    stub: Any = None
    value: bool = False
    in_place: bool = False
    seconds: float = 10.0

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ValueError(
                f"exercise name {self.name!r}: expected a Python name, as the student defines it"
            )
        for field in ("check", "solution"):
            if not callable(getattr(self, field)):
                raise TypeError(f"exercise {self.name}: {field} must be a function")
        # A tuple of one element is easily written without its comma, and is then a string.
        if isinstance(self.hints, str) or not all(isinstance(hint, str) and hint for hint in self.hints):
            raise TypeError(f"exercise {self.name}: hints must be a tuple of sentences")
        for pair in self.wrong:
            if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], str) or not pair[1]:
                raise TypeError(
                    f"exercise {self.name}: wrong holds pairs (wrong answer, phrase of its message)"
                )


@dataclass(frozen=True)
class Quiz:
    """One multiple-choice question; every option, right or wrong, comes with the reason why.

    `options` holds pairs (text, reason); `correct` is the index of the right one, counted from 0.
    `lesson` is filled in from the module that lists the question. Raises ValueError where it cannot be asked.
    """

    key: str
    question: str
    options: tuple[tuple[str, str], ...]
    correct: int
    lesson: str = ""

    def __post_init__(self):
        if len(self.options) < 2:
            raise ValueError(f"quiz {self.key}: a question needs at least two options")
        for option in self.options:
            if not isinstance(option, tuple) or len(option) != 2 or not all(option):
                raise ValueError(
                    f"quiz {self.key}: each option is a pair (text, reason), neither of them empty"
                )
        if len({text for text, _ in self.options}) < len(self.options):
            raise ValueError(f"quiz {self.key}: two options have the same text")
        if self.correct not in range(len(self.options)):
            raise ValueError(
                f"quiz {self.key}: correct={self.correct} names no option (0 to {len(self.options) - 1})"
            )


def _modules():
    """The lessons' modules of this folder, in the order of their names."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [(name, importlib.import_module(f"{__name__}.{name}")) for name in names]


def _once(things, name_of, kind):
    """`things` as a list; raises ValueError where two have one name, as neither could then be asked for."""
    things, seen = list(things), set()
    for thing in things:
        if name_of(thing) in seen:
            raise ValueError(f"two {kind} are called {name_of(thing)!r}: names must differ over all lessons")
        seen.add(name_of(thing))
    return things


def all_exercises() -> list[Exercise]:
    """Every exercise of every lesson."""
    found = (exercise for _, module in _modules() for exercise in getattr(module, "EXERCISES", []))
    return _once(found, lambda exercise: exercise.name, "exercises")


def all_quizzes() -> list[Quiz]:
    """Every quiz question of every lesson, each knowing its lesson."""
    found = (
        quiz if quiz.lesson else replace(quiz, lesson=slug)
        for slug, module in _modules()
        for quiz in getattr(module, "QUIZ", [])
    )
    return _once(found, lambda quiz: quiz.key, "quiz questions")


def find(name: str, among: Sequence[Exercise] | None = None) -> Exercise:
    """The exercise called `name`, out of `among` (default: all lessons); LookupError suggests a near name."""
    exercises = all_exercises() if among is None else among
    return _pick(name, {exercise.name: exercise for exercise in exercises}, "exercise")


def find_quiz(key: str, among: Sequence[Quiz] | None = None) -> Quiz:
    """The question called `key`, out of `among` (default: all lessons); LookupError suggests a near key."""
    quizzes = all_quizzes() if among is None else among
    return _pick(key, {quiz.key: quiz for quiz in quizzes}, "quiz question")


class NotThere(LookupError):
    """No exercise or question has this name; shown in a notebook as one sentence, without a traceback."""

    def _render_traceback_(self):
        return [str(self)]


def _pick(name, known, kind):
    if isinstance(name, str) and name in known:
        return known[name]
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    if near:
        advice = f"Did you mean {near[0]!r}?"
    elif known:
        advice = "There are: " + ", ".join(sorted(known)) + "."
    else:
        advice = "There are none in this installation of the course."
    raise NotThere(f"There is no {kind} called {name!r}. {advice}")
