"""Exercises, quiz questions and investigations: what they consist of, and where to find them.

What people read is data: `gpt.toml` holds the texts of lesson 07, in the tables `[exercise.NAME]`, `[quiz.KEY]` and
`[investigation.NAME]`. What runs is Python: `gpt.py`, and further files of the lesson that begin so, list under
`EXERCISES` the solutions, the cases that answers are tried on, and the mistakes that are known.

Nothing else registers them. `tests/test_exercises.py` proves each one: the stub counts as not attempted,
the solution passes, and every known mistake is caught with its own message.
"""

import difflib
import functools
import importlib
import pkgutil
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from course_lib.workshop.exercises import probes
from course_lib.workshop.exercises.probes import Case

LETTERS = "ABCDEFGHIJ"  # the options of a question, in this order
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Exercise:
    """One task of a lesson: the cases that its answers are tried on, its hints, its solution, the mistakes it knows.

    name      what the student defines, e.g. "my_step": the key for check, hint and solution; by default the solution's
    lesson    the lesson's slug, e.g. "rnn_bptt": the TOML file that has the exercise's texts
    title     a short phrase for people, from the TOML file, as are `hints` and `returns`
    check     check(answer) returns None or a sentence: what no case can ask. It judges a value alone, a function
              after the cases
    hints     from a nudge to nearly the answer
    solution  the reference function; for a value exercise a function without arguments that returns the value
    mistakes  pairs (wrong answer, what is said about it), the likelier first, at most eight. A lesson's module names
              them, {"off_by_one": wrong answer}; the TOML file has the sentences by these names
    cases     what a function is called with, the usual case first
    returns   what the function gives, in words: "the new state, (B, H)"
    stub      what the notebook holds before the student starts
    value     True where the answer is a value (a prediction), not a function
    in_place  True where the function is asked to change its arguments, and may return nothing
    seconds   time that the whole check may take on a machine that is not busy

    Neither a case nor a check need look for these, the course does it for every exercise: the function stops with an
    error, takes other arguments than the solution, returns nothing or a NumPy array, changes its inputs, never ends.
    Raises TypeError or ValueError where a field cannot be right.
    """

    name: str = ""
    lesson: str = ""
    title: str = ""
    check: Callable[[Any], str | None] | None = None
    hints: tuple[str, ...] = ()
    solution: Callable | None = None
    mistakes: tuple[tuple[Any, str], ...] | dict[str, Any] = ()
    cases: tuple[Case, ...] = ()
    returns: str = "what the exercise asks for"
    stub: Any = None
    value: bool = False
    in_place: bool = False
    seconds: float = 10.0

    def __post_init__(self):
        object.__setattr__(self, "name", self.name or getattr(self.solution, "__name__", ""))
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ValueError(f"exercise name {self.name!r}: expected a Python name, as the student defines it")
        if not callable(self.solution):
            raise TypeError(f"exercise {self.name}: solution must be a function")
        if not callable(self.check) and (self.check is not None or not self.cases):
            raise TypeError(f"exercise {self.name}: check must be a function where there are no cases")
        # A tuple of one element is easily written without its comma, and is then a string.
        if isinstance(self.hints, str) or not all(isinstance(hint, str) and hint for hint in self.hints):
            raise TypeError(f"exercise {self.name}: hints must be a tuple of sentences")
        for pair in () if isinstance(self.mistakes, dict) else self.mistakes:
            if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], str) or not pair[1]:
                raise TypeError(f"exercise {self.name}: mistakes holds pairs (wrong answer, what is said about it)")

    def fault(self, answer) -> str | None:
        """What is wrong with an answer, in a sentence, or None; what the answer raises, it raises."""
        found = probes.fault(self.cases, self.solution, self.mistakes, answer, self.returns)
        said = found or (self.check(answer) if self.check else None)
        if said and self.value:  # numbers are typed in with two or three digits
            return next((message for wrong, message in self.mistakes if probes.same(answer, wrong, 0.0035)), said)
        return said


@dataclass(frozen=True)
class Quiz:
    """One multiple-choice question; every option, right or wrong, comes with the reason why.

    `options` holds pairs (text, reason); `correct` is the index of the right one, counted from 0.
    Raises ValueError where it cannot be asked.
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
                raise ValueError(f"quiz {self.key}: each option is a pair (text, reason), neither of them empty")
        if len({text for text, _ in self.options}) < len(self.options):
            raise ValueError(f"quiz {self.key}: two options have the same text")
        if self.correct not in range(len(self.options)):
            raise ValueError(f"quiz {self.key}: correct={self.correct} names no option (0 to {len(self.options) - 1})")


@dataclass(frozen=True)
class Investigation:
    """One open question of a lesson: nobody marks it but the student, by a rubric.

    name      the key for investigate and solution, e.g. "which_scheme"
    question  what is to be found out
    rubric    sentences to be ticked: what to vary, what to hold, what would change your mind
    answer    one answer among many, in Markdown, with what was measured for it
    lesson    the lesson's slug

    Raises ValueError or TypeError where a field cannot be right.
    """

    name: str
    question: str
    rubric: tuple[str, ...]
    answer: str
    lesson: str = ""

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ValueError(f"investigation name {self.name!r}: expected a Python name, as in solution(name)")
        if isinstance(self.rubric, str) or not self.rubric or not all(isinstance(x, str) and x for x in self.rubric):
            raise TypeError(f"investigation {self.name}: rubric must be a tuple of sentences")
        if not self.question or not self.answer:
            raise ValueError(f"investigation {self.name}: it needs a question and an answer")
        object.__setattr__(self, "answer", self.answer.strip())


@functools.cache
def _texts(slug: str) -> dict[str, dict[str, dict]]:
    """What a lesson's TOML file says, by kind and name; nothing where there is no such file."""
    path = _FOLDER / f"{slug}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _written(kind: str) -> list[tuple[str, str, dict]]:
    """Lesson, name and text of all things of one kind, in the order of the lessons' slugs."""
    slugs = sorted(path.stem for path in _FOLDER.glob("*.toml"))
    return [(slug, name, text) for slug in slugs for name, text in _texts(slug).get(kind, {}).items()]


def _listed_exercises() -> list[Exercise]:
    """What the modules of this folder list under EXERCISES, with lesson and texts, in the modules' order."""
    written = {name: (lesson, text) for lesson, name, text in _written("exercise")}
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    return [
        worded(exercise, *written.get(exercise.name, ("", {})))
        for module in modules
        for exercise in getattr(module, "EXERCISES", [])
    ]


def worded(exercise: Exercise, lesson: str, text: dict) -> Exercise:
    """The exercise with its lesson and texts. Raises ValueError where a text is missing, or a mistake has none."""
    if not text:
        raise ValueError(
            f"exercise {exercise.name}: no TOML file of this folder has a table [exercise.{exercise.name}]"
        )
    named, says = dict(exercise.mistakes), text.get("mistakes", {})
    if odd := says.keys() ^ named.keys():
        raise ValueError(f"exercise {exercise.name}: {min(odd)!r} is a mistake without a message, or the reverse")
    mistakes = tuple((wrong, says[name]) for name, wrong in named.items())
    return replace(exercise, **{**text, "lesson": lesson, "hints": tuple(text["hints"]), "mistakes": mistakes})


def _once(things, name_of, kind):
    """`things`; raises ValueError where two have one name, as neither could then be asked for."""
    seen = set()
    for thing in things:
        if name_of(thing) in seen:
            raise ValueError(f"two {kind} are called {name_of(thing)!r}: names must differ over all lessons")
        seen.add(name_of(thing))
    return things


def all_exercises() -> list[Exercise]:
    """Every exercise of every lesson."""
    return _once(_listed_exercises(), lambda exercise: exercise.name, "exercises")


def all_quizzes() -> list[Quiz]:
    """Every quiz question of every lesson, each knowing its lesson."""
    asked = [
        Quiz(key, text["question"], tuple(map(tuple, text["options"])), LETTERS.index(text["right"]), lesson)
        for lesson, key, text in _written("quiz")
    ]
    return _once(asked, lambda quiz: quiz.key, "quiz questions")


def all_investigations() -> list[Investigation]:
    """Every investigation of every lesson."""
    asked = [
        Investigation(name, text["question"], tuple(text["rubric"]), text["answer"], lesson)
        for lesson, name, text in _written("investigation")
    ]
    return _once(asked, lambda investigation: investigation.name, "investigations")


def find(name: str, among: Sequence[Exercise] | None = None) -> Exercise:
    """The exercise called `name`, out of `among` (default: all lessons); LookupError suggests a near name."""
    exercises = all_exercises() if among is None else among
    return _pick(name, {exercise.name: exercise for exercise in exercises}, "exercise")


def find_quiz(key: str, among: Sequence[Quiz] | None = None) -> Quiz:
    """The question called `key`, out of `among` (default: all lessons); LookupError suggests a near key."""
    quizzes = all_quizzes() if among is None else among
    return _pick(key, {quiz.key: quiz for quiz in quizzes}, "quiz question")


def find_investigation(name: str, among: Sequence[Investigation] | None = None) -> Investigation:
    """The investigation called `name`, out of `among` (default: all lessons); LookupError suggests a near name."""
    investigations = all_investigations() if among is None else among
    return _pick(name, {one.name: one for one in investigations}, "investigation")


MOST_NAMES = 12  # told to whoever asks for one that is not there, at most


class NotThere(LookupError):
    """Nothing has this name; shown in a notebook as one sentence, without a traceback."""

    def _render_traceback_(self):
        return [str(self)]


def _pick(name, known, kind):
    if isinstance(name, str) and name in known:
        return known[name]
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    if near:
        advice = f"Did you mean {near[0]!r}?"
    elif len(known) > MOST_NAMES:
        advice = f"There are {len(known)}; each is named in its own cell of a lesson."
    elif known:
        advice = "There are: " + ", ".join(sorted(known)) + "."
    else:
        advice = "There are none in this installation of the course."
    raise NotThere(f"There is no {kind} called {name!r}. {advice}")
