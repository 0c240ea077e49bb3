"""Judging an answer to an exercise: what is wrong with it, in words, whatever the answer does.

`judge` runs the exercise's own check on the student's function, wrapped so that everything that is wrong in
any exercise alike is noticed here: nothing attempted, an error, other arguments, nothing returned, inputs
changed, too much printed, no end.
"""

import contextlib
import inspect
import io
import linecache
import random
import sys
from dataclasses import dataclass, replace

import numpy as np
import torch

from course_lib.lesson.time_limit import OutOfTime, within
from course_lib.lesson.watched import Mistake, NotAttempted, Watched, is_untouched
from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.compare import described

PRINT_LIMIT = 2000  # characters


@dataclass(frozen=True)
class Verdict:
    """How an answer was found: `kind` is "passed", "wrong", "not attempted", "error" or "unfinished"."""

    kind: str
    message: str
    printed: str = ""


def judge(exercise: Exercise, answer, seed: int = 0) -> Verdict:
    """The verdict on `answer`; raises nothing but KeyboardInterrupt, when the student interrupts.

    Students and graders never pass a `seed`, so one answer always gets one verdict; tests try others, to see that the
    verdict does not depend on it. Afterwards the notebook's random numbers are as they were: a solved exercise changes
    no later result.
    """
    out = _Limited()
    with contextlib.redirect_stdout(out), _own_random_numbers(seed):
        try:
            verdict = within(exercise.seconds, lambda: _verdict(exercise, answer))
        except OutOfTime as late:
            limit = f"{exercise.seconds:g} seconds"
            said = f"It did not finish within {limit}: is there a loop that never ends? {late}".rstrip()
            verdict = Verdict("unfinished", said)
    return replace(verdict, printed=out.getvalue())


def _verdict(exercise, answer):
    """The verdict, whatever `answer` is and raises: a SystemExit or KeyboardInterrupt of its own is an error too."""
    # A class or a model is handed to the check as it is: it may look at more of it than a call shows.
    plain = exercise.value or not callable(answer) or isinstance(answer, type | torch.nn.Module)
    watched = None
    try:
        watched = None if plain else Watched(answer, exercise.in_place)
        if not exercise.value:
            _worth_running(exercise, answer)
        elif answer is None or answer is ...:
            raise NotAttempted
        message = exercise.fault(answer if watched is None else watched)
        return Verdict("wrong", message) if message else Verdict("passed", "")
    except NotAttempted as left:
        return Verdict("not attempted", str(left))
    except Mistake as mistake:
        return Verdict("wrong", str(mistake))
    except OutOfTime:
        raise
    except BaseException as error:
        try:
            return _after_error(exercise, answer, watched, error)
        except OutOfTime:
            raise
        except BaseException:  # the answer is an object that raises whatever it is asked
            return Verdict("error", f"It stopped with an error: {type(error).__name__}.")


def _worth_running(exercise, answer):
    """Whether there is a function to run; raises NotAttempted or Mistake otherwise."""
    if answer is None or answer is ... or answer is exercise.stub or is_untouched(answer, exercise.stub):
        raise NotAttempted
    if not callable(answer):
        raise Mistake(f"`{exercise.name}` should be a function; this is {described(answer)}.")
    try:
        wanted, given = inspect.signature(exercise.solution), inspect.signature(answer)
    except (TypeError, ValueError):
        return
    kinds = inspect.Parameter
    must = [
        p
        for p in wanted.parameters.values()
        if p.default is kinds.empty and p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
    ]
    named = [p.name for p in must if p.kind is kinds.KEYWORD_ONLY]
    try:
        given.bind(*must[: len(must) - len(named)], **dict.fromkeys(named))
    except TypeError:
        raise Mistake(f"Your function takes `{given}`; it should take `{wanted}`.") from None


def _after_error(exercise, answer, watched, error):
    """The student's error with its line; or, where the check itself stumbled, over what it stumbled."""
    if exercise.value or (watched is not None and error is not watched.error):
        what = "your answer" if exercise.value else "what your function returns"
        got = described(answer if exercise.value else watched.returned)
        return Verdict("wrong", f"The check can make nothing of {what}: {got} ({_one_line(error)}).")
    where = _line_of(answer, error)
    if isinstance(error, NotImplementedError):
        return Verdict("not attempted", "")
    if isinstance(error, TypeError) and "ellipsis" in _text(error).lower():
        return Verdict("not attempted", f"There is a `...` left to fill{where}.")
    notes = getattr(error, "__notes__", ())  # with what it was called, where that is special
    return Verdict("error", "\n".join([f"It stopped with an error{where}:", _one_line(error), *notes]))


def _text(error):
    """What the error says; nothing where it cannot even say that."""
    try:
        return str(error)
    except OutOfTime:
        raise
    except BaseException:
        return ""


def _one_line(error):
    text = _text(error).strip().split("\n")[0]
    name = type(error).__name__
    return f"{name}: {text[:300]}" if text else name


def _line_of(answer, error):
    """ " in line 3, `h = x @ w`": the deepest line of the student's code; "" if the error is elsewhere."""
    plain = inspect.unwrap(answer)
    own = getattr(plain, "__globals__", None)
    if own is None:
        own = vars(sys.modules.get(plain.__module__, object))
    trace, found = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_globals is own:
            found = trace
        trace = trace.tb_next
    if found is None:
        return ""
    text = linecache.getline(found.tb_frame.f_code.co_filename, found.tb_lineno).strip()
    return f" in line {found.tb_lineno}" + (f", `{text}`" if text and "`" not in text else "")


@contextlib.contextmanager
def _own_random_numbers(seed):
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            random.seed(seed)
            np.random.seed(seed)
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


class _Limited(io.StringIO):
    """Keeps the first PRINT_LIMIT characters of what is printed, and drops the rest."""

    full = False

    def close(self):
        """Stays open: an answer that closes what it prints to closes nobody else's."""

    def write(self, text):
        room = PRINT_LIMIT - self.tell()
        if len(text) > room and not self.full:
            self.full = True
            super().write(text[:room] + "\n… (more was printed)")
        elif not self.full:
            super().write(text)
        return len(text)
