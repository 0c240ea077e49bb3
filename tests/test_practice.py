"""check, hint and solution, as a student meets them."""

import functools
import json

import pytest
import torch
from toys import TOYS, Hostile, twice

from course_lib.lesson import check, hint, practice, report, solution
from course_lib.lesson.marks import marks
from course_lib.recurrent.rnn import RNN, rnn_step
from course_lib.workshop.exercises.rnn_bptt import my_step


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
    assert marks()["exercises"] == {"rnn_bptt": {"double"}}
    check("predict", 3, among=TOYS)
    assert "2 of 2" in said()


def test_check_takes_a_function_of_another_name(said):
    check("double", twice, among=TOYS)
    assert said().startswith("✓ double: right.")


def test_a_wrong_answer_marks_nothing_and_offers_a_hint(said):
    check("double", lambda x: x, among=TOYS)
    assert said() == "✗ double: not right yet. The numbers are not twice those of x.\nStuck? `hint('double')`"
    assert marks()["exercises"] == {}


def test_an_unattempted_exercise_is_told_so_kindly(said):
    check("double", None, among=TOYS)
    assert said().startswith("○ double: not attempted yet. Write your answer")
    check("predict", ..., among=TOYS)
    assert said().startswith("○ predict: not attempted yet.")


def test_a_lambda_has_no_name_and_is_asked_for_one(said):
    check(lambda x: 2 * x)
    assert said() == '○ check: nothing to check. Say which exercise it answers: `check("its name", answer)`.'
    check("zebra", lambda x: 2 * x)
    assert len(said()) < 300, "it lists all names"


def test_an_unknown_name_is_answered_with_a_near_one(said):
    def duoble(x):
        return x

    check(duoble, among=TOYS)
    assert "no exercise called 'duoble'. Did you mean 'double'?" in said()
    check("double", among=TOYS)
    assert "Give your answer too" in said()


def loop(x):
    return x


loop.__wrapped__ = loop


@functools.wraps(rnn_step)
def dressed(*args):
    return rnn_step(*args)


@pytest.mark.parametrize(
    "answer",
    [
        my_step,  # the exercise's own solution
        functools.partial(my_step),
        functools.partial(functools.partial(rnn_step)),
        functools.lru_cache(my_step),
        torch.no_grad()(my_step),
        rnn_step,
        dressed,
        RNN,
        RNN(1, 1).forward,
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_the_librarys_own_function_is_no_answer(answer, said):
    check("my_step", answer)
    assert "library's own function" in said()
    assert marks()["exercises"] == {}


def test_an_answer_may_call_the_library_and_be_wrapped_itself(said):
    def step(*args):
        return rnn_step(*args)

    for answer in (
        step,
        functools.partial(step),
        torch.enable_grad()(lambda x, h, w_x, w_h, b: step(x, h, w_x, w_h, b)),
    ):
        check("my_step", answer)
        assert said().startswith("✓ my_step: right."), answer


ODD = {
    type(answer).__name__: answer
    for answer in (None, 5, "text", ["double"], torch.tanh, torch.nn.Linear, torch.nn.Linear(2, 1), object(), print)
}
ODD |= {"Hostile": Hostile(), "huge": 10**5000, "wrapper loop": loop, "surrogate": "\ud800"}
ODD |= {"nested": torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.jagged)}


@pytest.mark.parametrize("name", ODD)
def test_check_never_raises(name, said):
    answer = ODD[name]
    check(answer, among=TOYS)
    check("double", answer, among=TOYS)
    check("predict", answer, among=TOYS)
    check(answer, answer, among=TOYS)
    assert "✓" not in said()


def test_half_a_character_reaches_the_page_spelt_out(outputs):
    def double(x):
        raise ValueError("\ud83d is half a character")

    check(double, among=TOYS)
    data, record = outputs[0]
    assert "ValueError: \\ud83d is half a character" in data["text/plain"] and "\\ud83d" in data["text/html"]
    assert record == {"check": "double", "verdict": "error"}
    report("a \ud800", {"b \udfff": 1})
    json.dumps(outputs, ensure_ascii=False).encode()


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
