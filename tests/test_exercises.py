"""Exercises: every registered one proved, the judge that runs them, and check, hint, solution around it."""

import inspect
import random
import textwrap
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from course_lib.exercises import Exercise, Quiz, all_exercises, all_quizzes, find, find_quiz
from course_lib.lesson import check, hint, practice, solution
from course_lib.lesson.judge import PRINT_LIMIT, judge
from course_lib.lesson.marks import marks
from course_lib.lesson.syllabus import LESSONS

# The proof that every exercise must pass ------------------------------------------------------------------


def not_implemented(*args, **kwargs):
    raise NotImplementedError


def prove(exercise, seeds=(0, 1, 2)):
    """Stub: not attempted. Solution: passes. Every wrong answer: caught, with a message of its own."""
    assert len(exercise.hints) >= 2, f"{exercise.name} has fewer than two hints"
    assert len(exercise.wrong) >= 2, f"{exercise.name} knows fewer than two wrong answers"
    stubs = [exercise.stub, None, ...]
    if not exercise.value:
        stubs += [lambda *args, **kwargs: ..., not_implemented]
    for stub in stubs:
        assert judge(exercise, stub).kind == "not attempted", f"{exercise.name}: the stub counts as attempted"
    # The exercise says itself what its stub is, so see also that it did not hand out the answer.
    handed_out = judge(replace(exercise, stub=None), exercise.stub)
    assert handed_out.kind != "passed", f"{exercise.name}: the stub is a solution already"
    answer = exercise.solution() if exercise.value else exercise.solution
    for seed in seeds:
        verdict = judge(exercise, answer, seed)
        assert verdict.kind == "passed", f"{exercise.name}: the solution fails: {verdict.message}"
    messages = {}
    for wrong, phrase in exercise.wrong:
        for seed in seeds:
            verdict = judge(exercise, wrong, seed)
            assert verdict.kind in ("wrong", "error", "unfinished"), (
                f"{exercise.name}: {phrase!r} is not caught"
            )
            assert isinstance(verdict.message, str)
            assert phrase in verdict.message, f"{exercise.name}: {phrase!r} is not in {verdict.message!r}"
        assert verdict.message not in messages, f"{exercise.name}: two mistakes get one message"
        messages[verdict.message] = phrase


@pytest.mark.parametrize("exercise", all_exercises(), ids=lambda exercise: exercise.name)
def test_every_exercise_is_proved(exercise):
    prove(exercise)
    assert exercise.lesson in {lesson.slug for lesson in LESSONS}
    assert inspect.getsource(exercise.solution)  # solution() shows it


@pytest.mark.parametrize("quiz", all_quizzes(), ids=lambda quiz: quiz.key)
def test_every_quiz_question_belongs_to_a_lesson_and_gives_reasons(quiz):
    assert quiz.lesson in {lesson.slug for lesson in LESSONS}
    assert len(quiz.options) >= 3
    reasons = [reason for _, reason in quiz.options]
    assert len(set(reasons)) == len(reasons), "two options are given the same reason"
    assert all(len(reason) > 20 for reason in reasons), "a reason says why"


def test_names_differ_over_all_lessons():
    assert len({e.name for e in all_exercises()}) == len(all_exercises())
    assert len({q.key for q in all_quizzes()}) == len(all_quizzes())


# A toy exercise, and what the proof says of spoilt copies of it -------------------------------------------


def check_double(double):
    x = torch.tensor([1.0, 3.0])
    got = double(x)
    if got.shape != x.shape:
        return f"The result has shape {tuple(got.shape)}, and x has {tuple(x.shape)}."
    if torch.equal(got, x * x):
        return "Each number is multiplied by itself."
    return None if torch.equal(got, 2 * x) else "The numbers are not twice those of x."


def twice(x):
    return 2 * x


WRONG = ((lambda x: x * x, "by itself"), (lambda x: 2 * x[:1], "shape"), (lambda x: x, "not twice"))
DOUBLE = Exercise(
    "double",
    "rnn_bptt",
    "Twice a number",
    check_double,
    ("What is 2 + 2?", "Add `x` to itself."),
    twice,
    WRONG,
)
PREDICT = Exercise(
    "predict", "rnn_bptt", "Predict", lambda answer: None if answer + 0 == 3 else f"It is not {answer}.",
    ("Count.", "Count again."), lambda: 3, ((2, "not 2"), (4, "not 4")), value=True,
)  # fmt: skip
TOYS = [DOUBLE, PREDICT]


@pytest.mark.parametrize("toy", TOYS, ids=lambda toy: toy.name)
def test_the_proof_accepts_a_good_exercise(toy):
    prove(toy)


@pytest.mark.parametrize(
    ("spoilt", "complaint"),
    [
        (dict(hints=("One hint.",)), "fewer than two hints"),
        (dict(wrong=WRONG[:1]), "fewer than two wrong answers"),
        (dict(stub=lambda x: x + x), "stub is a solution already"),
        (dict(solution=lambda x: 3 * x), "solution fails"),
        (dict(check=lambda fn: None), "counts as attempted"),  # it never calls the function, so passes any
        (dict(check=lambda fn: fn(torch.ones(1)) is None and ""), "is not caught"),
        (dict(wrong=(*WRONG, (lambda x: x + x, "sum"))), "is not caught"),
        (dict(wrong=(*WRONG, (lambda x: -x, "sign"))), "is not in"),
        (dict(wrong=(*WRONG, (lambda x: -x, "not twice"))), "one message"),
    ],
)
def test_the_proof_rejects_a_bad_exercise(spoilt, complaint):
    with pytest.raises(AssertionError, match=complaint):
        prove(replace(DOUBLE, **spoilt))


# What the judge notices for every exercise alike ----------------------------------------------------------


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


def in_a_cell(exercise, change=lambda source: source):
    """The stub as a notebook defines it: typed anew under the exercise's name, in another namespace."""
    source = change(inspect.getsource(exercise.stub)).replace(f"def {exercise.stub.__name__}(", f"def {exercise.name}(")
    namespace = dict(exercise.stub.__globals__)
    exec(compile(source, "a notebook's cell", "exec"), namespace)
    return namespace[exercise.name]


BROKEN = [exercise for exercise in all_exercises() if exercise.stub and not exercise.value]


@pytest.mark.parametrize("exercise", BROKEN, ids=lambda exercise: exercise.name)
def test_a_broken_function_typed_anew_counts_as_untouched_until_it_does_something_else(exercise):
    doc = inspect.getdoc(exercise.stub)
    for change in (str, lambda s: s.replace(doc, "Other words."), lambda s: s.replace(f'    """{doc}"""\n', ""),
                   lambda s: s.replace("\n", "  # a note\n"), lambda s: s.replace("\n    ", "\n\n    ")):
        assert judge(exercise, in_a_cell(exercise, change)).kind == "not attempted"
    # Whoever does change it is told what still goes wrong.
    printing = in_a_cell(exercise, lambda source: source.replace("\n    return ", "\n    print('here')\n    return "))
    assert "The bug is still there" in judge(exercise, printing).message


def test_a_cell_that_also_imports_is_compared_as_well():
    """Beside its own import `torch.cat(...)` compiles to other steps than where torch comes from another cell."""
    def given(x):
        for _ in range(2):
            x = torch.cat([x, x]) if len(x) < 9 else torch.neg(x)
        return x

    source = textwrap.dedent(inspect.getsource(given))
    for before in ("", "import torch\n"):
        for old, new in (("cat", "cat"), ("cat", "stack"), ("< 9", "> 9"), ("range(2)", "range(3)")):
            namespace = {"torch": torch}
            exec(before + source.replace(old, new), namespace)
            verdict = judge(replace(DOUBLE, stub=given), namespace["given"])
            assert (verdict.kind == "not attempted") == (old == new), (before, new)


def test_a_stub_is_compared_by_all_that_it_does():
    """Another constant, name, argument or inner function is work; another name of a local is not."""
    def given(x):
        """Twice x."""
        def twice(y):
            return y + y - 0.0
        return [twice(row).abs() for row in x][0] + 1

    source = textwrap.dedent(inspect.getsource(given))
    stub = replace(DOUBLE, stub=given, name="given")
    for old, new, touched in (
        ("+ 1", "+ 2", True), ("+ 1", "+ 1.0", True), ("+ 1", "+ True", True), ("abs", "exp", True),
        ("y + y", "y * y", True), ("- 0.0", "- -0.0", True), ("[0]", "[-1]", True), ("in x]", "in [x]]", True),
        ("y", "z", False), ('    """Twice x."""\n', "", False), ("row", "line", False),
    ):
        namespace = {}
        exec(source.replace(old, new), namespace)
        verdict = judge(stub, namespace["given"])
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


@pytest.mark.parametrize(
    "given", [[torch.ones(2)], {"a": torch.ones(2)}, (np.ones(2),), torch.tensor([True])]
)
def test_changed_inputs_are_noticed_wherever_they_lie(given):
    def change(thing):
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


def test_a_loop_without_end_is_cut_and_the_runners_alarm_is_set_again():
    import signal

    def double(x):
        while True:
            try:
                time.sleep(0.01)  # the alarm rings inside the try
            except Exception:
                pass

    if not hasattr(signal, "setitimer"):
        pytest.skip("no interval timer on this system")
    before, started = signal.getsignal(signal.SIGALRM), time.monotonic()
    alarm = signal.setitimer(signal.ITIMER_REAL, 100)
    try:
        verdict = judge(replace(DOUBLE, seconds=0.2), double)
        left = signal.getitimer(signal.ITIMER_REAL)[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, *alarm)
    assert verdict.kind == "unfinished"
    assert "did not finish within 0.2 seconds" in verdict.message
    assert time.monotonic() - started < 5
    assert signal.getsignal(signal.SIGALRM) is before
    assert 90 < left < 100


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


def test_endless_recursion_and_exit_are_caught_and_interrupt_is_not():
    def endless(x):
        return endless(x)

    def leave(x):
        raise SystemExit

    def interrupt(x):
        raise KeyboardInterrupt

    assert "RecursionError" in verdict_on(endless)[1]
    assert "SystemExit" in verdict_on(leave)[1]
    with pytest.raises(KeyboardInterrupt):
        judge(DOUBLE, interrupt)


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


def test_an_answer_may_be_a_class_or_a_model():
    class Two:
        in_features = 2

    class Three:
        in_features = 3

    exercise = replace(
        DOUBLE, solution=Two, check=lambda c: None if c().in_features == 2 else "Two features."
    )
    assert judge(exercise, Two).kind == "passed"
    assert judge(exercise, Three).message == "Two features."
    exercise = replace(DOUBLE, check=lambda model: None if model.in_features == 2 else "Two features.")
    assert judge(exercise, torch.nn.Linear(2, 1)).kind == "passed"
    assert judge(exercise, torch.nn.Linear(3, 1)).message == "Two features."


# check, hint and solution, as a student meets them --------------------------------------------------------


@pytest.fixture
def said(monkeypatch, capsys):
    """What was said since the last call, as plain text; hints and attempts start from nothing."""
    monkeypatch.setattr(practice, "_hints_given", {})
    monkeypatch.setattr(practice, "_tried", set())
    return lambda: capsys.readouterr().out.strip()


def double(x):
    return x + x


def test_check_finds_the_exercise_by_the_functions_name_and_marks_it(said):
    check(double, among=TOYS)
    assert said() == "✓ double: right. 1 of 2 exercises of this lesson solved."
    assert marks()[0]["exercises"] == {"rnn_bptt": {"double"}}
    check("predict", 3, among=TOYS)
    assert "2 of 2" in said()


def test_check_takes_a_function_of_another_name(said):
    check("double", twice, among=TOYS)
    assert said().startswith("✓ double: right.")
    check(twice, name="double", among=TOYS)
    assert said().startswith("✓ double: right.")


def test_a_wrong_answer_marks_nothing_and_offers_a_hint(said):
    check("double", lambda x: x, among=TOYS)
    assert said() == "✗ double: not right yet. The numbers are not twice those of x.\nStuck? `hint('double')`"
    assert marks()[0]["exercises"] == {}


def test_an_unattempted_exercise_is_told_so_kindly(said):
    check("double", None, among=TOYS)
    assert said().startswith("○ double: not attempted yet. Write your answer")
    check("predict", ..., among=TOYS)
    assert said().startswith("○ predict: not attempted yet.")


def test_an_unknown_name_is_answered_with_a_near_one(said):
    def duoble(x):
        return x

    check(duoble, among=TOYS)
    assert "no exercise called 'duoble'. Did you mean 'double'?" in said()
    check("double", among=TOYS)
    assert "Give your answer too" in said()


def test_the_librarys_own_function_is_no_answer(said):
    from course_lib.rnn import rnn_step

    check("double", rnn_step, among=TOYS)
    assert "library's own function" in said()


ODD = (None, 5, "text", ["double"], torch.tanh, torch.nn.Linear, torch.nn.Linear(2, 1), object(), print, len)


@pytest.mark.parametrize("answer", ODD, ids=lambda answer: type(answer).__name__)
def test_check_never_raises(answer, said):
    check(answer, among=TOYS)
    check("double", answer, among=TOYS)
    check("predict", answer, among=TOYS)
    check(answer, answer, among=TOYS)
    assert "✓" not in said()


def test_hints_come_one_at_a_time_and_then_name_the_solution(said):
    hint("double", among=TOYS)
    assert said() == "Hint 1 of 2 for `double`: What is 2 + 2?"
    hint(double, among=TOYS)
    assert said().startswith("Hint 2 of 2")
    for _ in range(2):
        hint("double", among=TOYS)
        assert said() == "No more hints for `double`: `solution('double')` shows a solution."


def test_the_solution_waits_until_the_exercise_was_tried(said):
    solution("double", among=TOYS)
    before = said()
    assert "2 * x" not in before
    assert "show=True" in before
    check("double", None, among=TOYS)
    solution("double", among=TOYS)
    assert "2 * x" not in said()  # looking at the stub is not an attempt
    check("double", lambda x: x, among=TOYS)
    solution("double", among=TOYS)
    assert "def double(x):\n    return 2 * x" in said()  # under the name that the student uses


def test_the_solution_can_be_asked_for_and_is_shown_to_who_has_solved_it(said, monkeypatch):
    solution("double", show=True, among=TOYS)
    assert "return 2 * x" in said()
    check(double, among=TOYS)
    monkeypatch.setattr(practice, "_tried", set())  # as in a new session
    said()
    solution("double", among=TOYS)
    assert "return 2 * x" in said()


@pytest.mark.parametrize("ask", [hint, solution])
def test_hint_and_solution_refuse_unknown_names_in_words(ask):
    with pytest.raises(LookupError, match="no exercise called 'dubble'. Did you mean 'double'"):
        ask("dubble", among=TOYS)


# The registry ---------------------------------------------------------------------------------------------


def test_find_says_what_there_is():
    assert find("double", TOYS) is DOUBLE
    with pytest.raises(LookupError, match="There are: double, predict"):
        find("zebra", TOYS)
    with pytest.raises(LookupError, match="There are none"):
        find_quiz("zebra", [])


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("name", "two words", "Python name"),
        ("check", "no function", "check must be a function"),
        ("solution", None, "solution must be a function"),
        ("hints", "one string", "tuple of sentences"),
        ("hints", ("",), "tuple of sentences"),
        ("wrong", (twice,), "pairs"),
        ("wrong", ((twice, ""),), "pairs"),
    ],
)
def test_a_malformed_exercise_is_refused_in_words(field, value, error):
    with pytest.raises((TypeError, ValueError), match=error):
        replace(DOUBLE, **{field: value})


@pytest.mark.parametrize(
    ("options", "correct", "error"),
    [
        ((("a", "why"),), 0, "at least two"),
        ((("a", "why"), ("b", "")), 0, "neither of them empty"),
        ((("a", "why"), ("a", "why not")), 0, "same text"),
        ((("a", "why"), ("b", "why not")), 2, "names no option"),
    ],
)
def test_a_malformed_question_is_refused_in_words(options, correct, error):
    with pytest.raises(ValueError, match=error):
        Quiz("key", "Which?", options, correct)
