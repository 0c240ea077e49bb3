"""The judge: what is wrong with an answer, in words, whatever the answer does."""

import asyncio
import inspect
import itertools
import linecache
import os
import random
import signal
import sys
import textwrap
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from toys import DOUBLE, PREDICT, Hostile, twice

from course_lib.lesson.judge import PRINT_LIMIT, judge
from course_lib.workshop.exercises import all_exercises
from course_lib.workshop.exercises.probes import on


def not_implemented(*args, **kwargs):
    raise NotImplementedError


def verdict_on(fn):
    verdict = judge(DOUBLE, fn)
    return verdict.kind, verdict.message


def test_the_stub_in_any_form_is_not_attempted():
    def bare(x): ...

    def documented(x):
        """Return twice x."""

    def passing(x):
        pass

    def returning(x):
        return None

    def gap(x):
        y = ...
        return y

    for stub in (None, ..., bare, documented, passing, returning, gap, not_implemented, lambda x: ...):
        assert verdict_on(stub)[0] == "not attempted", stub


def test_a_stub_with_given_lines_is_recognised():
    def given(x):
        """Twice x."""
        size = len(x)
        print(size)

    def handed_out(x):
        """Another docstring, other comments."""
        size = len(x)  # the length
        print(size)

    def worked_on(x):
        """Twice x."""
        size = len(x) + 1
        print(size)

    assert judge(replace(DOUBLE, stub=given), handed_out).kind == "not attempted"
    assert judge(replace(DOUBLE, stub=given), worked_on).kind == "wrong"


NUMBERS = itertools.count()


def typed(source, namespace):
    """Run `source` as a notebook runs a cell: in a namespace, with its text kept for whoever asks for the source."""
    name = f"<cell {next(NUMBERS)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), namespace)
    return namespace


def in_a_cell(exercise, change=lambda source: source):
    """The stub as a notebook defines it: typed anew under the exercise's name, in another namespace."""
    source = change(inspect.getsource(exercise.stub)).replace(f"def {exercise.stub.__name__}(", f"def {exercise.name}(")
    return typed(source, dict(exercise.stub.__globals__))[exercise.name]


GIVEN = [exercise for exercise in all_exercises() if exercise.stub and not exercise.value]
BROKEN = [exercise for exercise in GIVEN if inspect.getdoc(exercise.stub)]  # says what it should do, and does not
WITH_A_GAP = [exercise for exercise in GIVEN if exercise not in BROKEN]


@pytest.mark.parametrize("exercise", BROKEN, ids=lambda exercise: exercise.name)
def test_a_broken_function_typed_anew_counts_as_untouched_until_it_does_something_else(exercise):
    doc = inspect.getdoc(exercise.stub)
    for change in (
        str,
        lambda s: s.replace(doc, "Other words."),
        lambda s: s.replace(f'    """{doc}"""\n', ""),
        lambda s: s.replace("\n", "  # a note\n"),
        lambda s: s.replace("\n    ", "\n\n    "),
    ):
        assert judge(exercise, in_a_cell(exercise, change)).kind == "not attempted"
    # Whoever does change it is told what still goes wrong.
    printing = in_a_cell(exercise, lambda source: source.replace("\n    return ", "\n    print('here')\n    return "))
    assert judge(exercise, printing).kind == "wrong" and "still there" in judge(exercise, printing).message


@pytest.mark.parametrize("exercise", WITH_A_GAP, ids=lambda exercise: exercise.name)
def test_a_function_with_a_gap_counts_as_untouched_until_it_is_filled(exercise):
    for change in (str, lambda s: s.replace("\n", "  # a note\n"), lambda s: s.replace("\n    ", "\n\n    ")):
        assert judge(exercise, in_a_cell(exercise, change)).kind == "not attempted"
    printing = in_a_cell(exercise, lambda source: source.replace("\n    return ", "\n    print('here')\n    return "))
    assert "There is a `...` left" in judge(exercise, printing).message


def test_a_cell_that_also_imports_is_compared_as_well():
    def given(x):
        for _ in range(2):
            x = torch.cat([x, x]) if len(x) < 9 else torch.neg(x)
        return x

    source = textwrap.dedent(inspect.getsource(given))
    for before in ("", "import torch\n"):
        for old, new in (("cat", "cat"), ("cat", "stack"), ("< 9", "> 9"), ("range(2)", "range(3)")):
            answer = typed(before + source.replace(old, new), {"torch": torch})["given"]
            verdict = judge(replace(DOUBLE, stub=given), answer)
            assert (verdict.kind == "not attempted") == (old == new), (before, new)


def test_a_stub_is_compared_by_all_that_it_does():
    """Another constant, name, argument or inner function is work; a type, a docstring or a comment is not."""

    def given(x):
        """Twice x."""

        def twice(y):
            return y + y - 0.0

        return [twice(row).abs() for row in x][0] + 1

    source = textwrap.dedent(inspect.getsource(given))
    stub = replace(DOUBLE, stub=given, name="given")
    for old, new, touched in (
        ("+ 1", "+ 2", True),
        ("+ 1", "+ 1.0", True),
        ("+ 1", "+ True", True),
        ("abs", "exp", True),
        ("y + y", "y * y", True),
        ("- 0.0", "- -0.0", True),
        ("[0]", "[-1]", True),
        ("in x]", "in [x]]", True),
        ("given(x)", "given(x, y=2)", True),
        ("given(x)", "given(x: list) -> list", False),
        ('    """Twice x."""\n', "", False),
        ("- 0.0", "- 0.0  # nothing", False),
    ):
        verdict = judge(stub, typed(source.replace(old, new), {})["given"])
        assert (verdict.kind != "not attempted") == touched, (old, new)


def test_a_gap_inside_names_its_line():
    def double(x):
        return x * ...

    kind, message = verdict_on(double)
    line = double.__code__.co_firstlineno + 1
    assert kind == "not attempted"
    assert f"line {line}, `return x * ...`" in message


def test_an_error_names_the_students_line():
    def part(x):
        return x @ torch.ones(7)

    def double(x):
        return part(x)

    kind, message = verdict_on(double)
    assert kind == "error"
    assert f"line {part.__code__.co_firstlineno + 1}, `return x @ torch.ones(7)`" in message
    assert "RuntimeError: " in message
    assert "Traceback" not in message


def test_an_error_in_the_check_speaks_of_what_came_back():
    kind, message = verdict_on(lambda x: [1.0, 2.0])
    assert kind == "wrong"
    assert "what your function returns: a list of 2" in message
    kind, message = verdict_on(lambda x: "six")
    assert "the str 'six'" in message
    assert "your answer: the str 'three'" in judge(PREDICT, "three").message


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (7, "should be a function; this is the int 7"),
        (lambda x, y: x, r"takes `(x, y)`; it should take `(x)`"),
        (lambda: 1, r"takes `()`; it should take `(x)`"),
        (lambda x: print(end=""), "returns None"),
        (lambda x: x.numpy() * 2, "NumPy array"),
        (lambda x: x.mul_(2), "changes its input `x` in place"),
    ],
    ids=["no function", "too many", "too few", "nothing returned", "numpy", "in place"],
)
def test_usual_mistakes_have_a_sentence(fn, said):
    kind, message = verdict_on(fn)
    assert kind == "wrong"
    assert said in message


@pytest.mark.parametrize("given", [[torch.ones(2)], {"a": torch.ones(2)}, (np.ones(2),), torch.tensor([True]), {1}])
def test_changed_inputs_are_noticed_wherever_they_lie(given):
    def change(thing):
        if isinstance(thing, set):
            return thing.clear() or 1
        inner = next(iter(thing.values())) if isinstance(thing, dict) else thing
        inner = inner[0] if isinstance(inner, list | tuple) else inner
        inner[0] = 0
        return 1

    def look(thing):
        return 1

    exercise = replace(DOUBLE, check=lambda fn: fn(given) and None)
    assert judge(exercise, look).kind == "passed"
    assert "changes its input `thing`" in judge(exercise, change).message


def test_nan_in_an_input_is_no_change():
    exercise = replace(DOUBLE, check=lambda fn: fn(torch.tensor([torch.nan])) is None or None)
    assert judge(exercise, twice).kind == "passed"


def test_an_exercise_may_ask_for_a_change_in_place():
    def in_place(x):
        x.mul_(2)

    def check_in_place(fn):
        x = torch.ones(2)
        fn(x)
        return None if x.sum() == 4 else "x is not doubled."

    exercise = replace(DOUBLE, check=check_in_place, solution=in_place, in_place=True)
    assert judge(exercise, in_place).kind == "passed"
    assert judge(exercise, twice).message == "x is not doubled."


def endless(x):
    while True:
        time.sleep(0.001)


def sleepless(x):
    n = 0
    while True:
        n += 1


def asleep(x):
    time.sleep(5)


def deaf(x):
    while True:
        try:
            while not SILENCE.wait(0.001):
                pass
            return
        except Exception:
            pass


def stone_deaf(x):
    while True:
        try:
            while not SILENCE.wait(0.001):
                pass
            return
        except BaseException:
            pass


SILENCE = threading.Event()  # set when the test is over: what nobody could end ends itself


@pytest.fixture
def silence():
    SILENCE.clear()
    yield
    SILENCE.set()


SLOW = replace(DOUBLE, seconds=0.2)


@pytest.mark.parametrize("answer", [endless, sleepless, asleep, deaf, stone_deaf], ids=lambda answer: answer.__name__)
@pytest.mark.parametrize("place", ["main thread", "another thread"])
def test_check_comes_back_from_a_loop_without_end(answer, place, silence):
    found, started = [], time.monotonic()
    if place == "main thread":
        found.append(judge(SLOW, answer))
    else:
        thread = threading.Thread(target=lambda: found.append(judge(SLOW, answer)))
        thread.start()
        thread.join(20)
    assert found[0].kind == "unfinished"
    assert "did not finish within 0.2 seconds" in found[0].message
    assert ("goes on in the background: restart the kernel" in found[0].message) == (answer in (asleep, stone_deaf))
    assert time.monotonic() - started < 10


def test_a_right_answer_is_right_on_a_busy_machine_too():
    """Who sleeps has not had the processor, as on a machine that is busy with other programs."""

    def late(x):
        time.sleep(0.25)
        return 2 * x

    def working(x):
        until = time.thread_time() + 1
        while time.thread_time() < until:
            pass
        return 2 * x

    assert judge(SLOW, late).kind == "passed"
    assert judge(SLOW, working).kind == "unfinished"


def test_what_is_ended_leaves_no_thread_and_says_nothing(capfd):
    before = set(threading.enumerate())
    judge(SLOW, sleepless)
    assert set(threading.enumerate()) <= before
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("answer", [endless, deaf, stone_deaf, sleepless], ids=lambda answer: answer.__name__)
def test_an_interrupt_by_the_student_stops_whatever_the_answer_catches(answer, silence):
    interrupt = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    started, state, before = time.monotonic(), torch.get_rng_state(), set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        interrupt.start()
        judge(replace(DOUBLE, seconds=60), answer)
    assert time.monotonic() - started < 20
    assert torch.equal(state, torch.get_rng_state())
    if answer is not stone_deaf:  # or a loop in the background would take every second moment from what comes after
        interrupt.join()
        while left := set(threading.enumerate()) - before:
            assert time.monotonic() - started < 20, left


def test_what_is_printed_is_kept_within_bounds(capsys):
    def double(x):
        print("half way")
        for _ in range(10_000):
            print("a lot " * 100)
        return 2 * x

    verdict = judge(DOUBLE, double)
    assert verdict.kind == "passed"
    assert verdict.printed.startswith("half way")
    assert verdict.printed.endswith("(more was printed)")
    assert len(verdict.printed) < PRINT_LIMIT + 50
    assert capsys.readouterr().out == ""


def test_endless_recursion_is_an_error():
    def again(x):
        return again(x)

    assert "RecursionError" in verdict_on(again)[1]


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Last(Exception):
    def __str__(self):
        raise SystemExit(4)


class KeysOnly:
    """Calls like a function, and has its attributes in a dict."""

    def __call__(self, x):
        return 3 * x

    def __getattr__(self, name):
        return {}[name]


class Chameleon:
    """Has every attribute, each another one like itself."""

    def __getattr__(self, name):
        return Chameleon()

    def __call__(self, *args):
        return Chameleon()


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), BaseException("b"), BaseExceptionGroup("g", [Mute()]), Mute(),
     Last(), MemoryError(), StopIteration(), NotImplementedError(), OSError("\ud800"), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_whatever_the_answer_raises_is_an_error_of_its_own(error):
    def double(x):
        raise error

    kind, message = verdict_on(double)
    assert kind == ("not attempted" if isinstance(error, NotImplementedError) else "error")
    assert kind != "error" or type(error).__name__ in message and "`raise error`" in message


STRANGE = {
    "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    "sparse": torch.ones(2, 2).to_sparse(),
    "meta": torch.ones(2, device="meta"),
    "complex": torch.ones(2, dtype=torch.complex64),
    "huge": 10**5000,
    "hostile": Hostile(),
    "keys only": KeysOnly(),
    "chameleon": Chameleon(),
    "hostile inside": [Hostile()],
    "surrogate": "\ud800",
    "array": np.array([10**5000, "\ud800"], dtype=object),
    "generator": (x for x in ()),
    "class": Hostile,
    "module": torch.nn.Linear(1, 1),
}


@pytest.mark.parametrize("name", STRANGE)  # by name: pytest itself asks too much of some
def test_strange_answers_are_wrong_in_a_sentence(name):
    thing = STRANGE[name]
    for exercise, answer in ((DOUBLE, thing), (DOUBLE, lambda x: thing), (PREDICT, thing)):
        verdict = judge(exercise, answer)
        assert verdict.kind in ("wrong", "error")
        assert verdict.message.strip()
        verdict.message.encode("utf-8", "surrogatepass")


def test_a_check_may_ask_for_an_error():
    def refuses(fn):
        try:
            fn(torch.ones(0))
        except ValueError:
            return None
        return "An empty x should raise ValueError."

    def double(x):
        if not len(x):
            raise ValueError("x is empty")
        return 2 * x

    assert judge(replace(DOUBLE, check=refuses), double).kind == "passed"
    assert judge(replace(DOUBLE, check=refuses), twice).kind == "wrong"


def test_judging_leaves_the_notebooks_random_numbers_alone():
    def double(x):
        torch.manual_seed(5)
        random.random(), np.random.rand(), torch.rand(3)
        return 2 * x

    def draws():
        return random.random(), np.random.rand(), torch.rand(1).item()

    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    undisturbed = draws()
    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    judge(DOUBLE, double)
    assert draws() == undisturbed


def test_everybody_is_asked_the_same():
    """Neither the notebook's random numbers nor those that an answer draws change what it is called with."""
    asked = []

    def double(x):
        asked[-1].append(x.detach().clone())
        return 2 * x

    def drawing(x):
        torch.rand(7), torch.manual_seed(len(asked[-1]))
        return double(x)

    for seed, answer in ((1, double), (2, double), (3, drawing)):
        torch.manual_seed(seed)
        asked.append([])
        assert judge(replace(DOUBLE, check=None, cases=on("B D", "No.")), answer).kind == "passed"
    for others in asked[1:]:
        assert len(others) == len(asked[0]) >= 5
        assert all(torch.equal(one, other) for one, other in zip(asked[0], others, strict=True))


def test_an_answer_may_be_a_class_or_a_model():
    class Two:
        in_features = 2

    class Three:
        in_features = 3

    exercise = replace(DOUBLE, solution=Two, check=lambda c: None if c().in_features == 2 else "Two features.")
    assert judge(exercise, Two).kind == "passed"
    assert judge(exercise, Three).message == "Two features."
    exercise = replace(DOUBLE, check=lambda model: None if model.in_features == 2 else "Two features.")
    assert judge(exercise, torch.nn.Linear(2, 1)).kind == "passed"
    assert judge(exercise, torch.nn.Linear(3, 1)).message == "Two features."


def test_an_answer_may_close_what_it_prints_to():
    def double(x):
        with sys.stdout:
            print("two times")
        return 2 * x

    verdict = judge(DOUBLE, double)
    assert verdict.kind == "passed" and "two times" in verdict.printed


def test_what_an_answer_carries_does_not_count():
    def double(x):
        return 2 * x

    double.fn, double.returned, double.in_place = "note", 7, True
    assert judge(DOUBLE, double).kind == "passed"
