"""Exercises, quiz questions and investigations: what they consist of, and where to find them.

Each lesson has one module here, named by its slug (`rnn_bptt.py`). It exposes up to three lists:

    EXERCISES = [Exercise(...), ...]
    QUIZ = [Quiz(...), ...]
    INVESTIGATIONS = [Investigation(...), ...]

Nothing else registers them. `tests/test_exercises.py` proves each one: the stub counts as not attempted,
the solution passes, and every known mistake is caught with its own message.
"""

import difflib
import functools
import importlib
import pkgutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from course_lib.exercises import probes
from course_lib.exercises.probes import Case
from course_lib.exercises.slips import Slip, blocks


@dataclass(frozen=True)
class Exercise:
    """One task of a lesson: the cases that its answers are tried on, its hints, its solution, the mistakes it knows.

    name      what the student defines, e.g. "my_step": the key for check, hint and solution; by default the solution's
    lesson    the lesson's slug, e.g. "rnn_bptt", filled in from the module that lists the exercise
    title     a short phrase for people
    check     check(answer) returns None or a sentence: what no case can ask. It judges a value alone, a function
              after the cases
    hints     from a nudge to nearly the answer
    solution  the reference function; for a value exercise a function without arguments that returns the value
    mistakes  pairs (wrong answer, what is said about it), the likelier first. A wrong answer is a function or a value,
              or a `Slip`, which says what is changed in the solution
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
    mistakes: tuple[tuple[Any, str], ...] = ()
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
        for pair in self.mistakes:
            if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], str) or not pair[1]:
                raise TypeError(f"exercise {self.name}: mistakes holds pairs (wrong answer, what is said about it)")

    @functools.cached_property
    def known(self) -> list[tuple[Any, str]]:
        """The mistakes with each slip made into a function. Raises ValueError for one that changes nothing."""
        return [(wrong.of(self.solution) if isinstance(wrong, Slip) else wrong, said) for wrong, said in self.mistakes]

    def fault(self, answer) -> str | None:
        """What is wrong with an answer, in a sentence, or None; what the answer raises, it raises."""
        found = probes.fault(self.cases, self.solution, self.known, answer, self.returns)
        said = found or (self.check(answer) if self.check else None)
        if said and self.value:  # numbers are typed in with two or three digits
            return next((message for wrong, message in self.known if probes.same(answer, wrong, 0.0035)), said)
        return said


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
    lesson    the lesson's slug, filled in from the module that lists the investigation

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
        object.__setattr__(self, "answer", textwrap.dedent(self.answer).strip())


def questions(text: str) -> list[Quiz]:
    """Questions from their text, a blank line between two.

    The first line is "key: question"; then a line for each option, begun by + (the right one) or -, and indented
    below it the reason. Raises ValueError where one question has not just one right option.
    """
    found = []
    for paragraph in textwrap.dedent(text).strip().split("\n\n"):
        asked, options = paragraph.split("\n", 1)
        key, question = asked.split(": ", 1)
        marked = [(*heads[0].split(" ", 1), reason) for heads, reason in blocks(options)]
        right = [i for i, (mark, _, _) in enumerate(marked) if mark == "+"]
        if len(right) != 1 or {mark for mark, _, _ in marked} != {"+", "-"}:
            raise ValueError(f"quiz {key}: each option begins with - and a blank, the one that is right with +")
        found.append(Quiz(key, question, tuple((option, reason) for _, option, reason in marked), right[0]))
    return found


def _listed(kind: str) -> list:
    """What the modules of this folder list under EXERCISES or QUIZ, each knowing its lesson, in the modules' order."""
    slugs = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [(slug, importlib.import_module(f"{__name__}.{slug}")) for slug in slugs]
    return [
        thing if thing.lesson else replace(thing, lesson=slug)
        for slug, module in modules
        for thing in getattr(module, kind, [])
    ]


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
    return _once(_listed("EXERCISES"), lambda exercise: exercise.name, "exercises")


def all_quizzes() -> list[Quiz]:
    """Every quiz question of every lesson, each knowing its lesson."""
    return _once(_listed("QUIZ"), lambda quiz: quiz.key, "quiz questions")


def all_investigations() -> list[Investigation]:
    """Every investigation of every lesson."""
    return _once(_listed("INVESTIGATIONS"), lambda investigation: investigation.name, "investigations")


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
