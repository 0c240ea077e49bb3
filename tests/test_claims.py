"""Claims: what was measured stands beside its bound, and a false claim stops in one sentence."""

import json

import numpy as np
import pytest
import torch

from course_lib.lesson import (
    ClaimFailed,
    claim,
    measured,
)


def test_a_claim_says_what_was_measured_and_the_bound(outputs):
    claim("the step equals PyTorch's", measured(torch.tensor(3.1e-7)) <= 1e-6)
    data, record = outputs[0]
    assert data["text/plain"] == "✓ claim: the step equals PyTorch's — measured 3.10e-7 ≤ 1e-6"
    assert "the step equals PyTorch's" in data["text/html"]
    assert "measured 3.10e-7 ≤ 1e-6" in data["text/html"]
    assert record["claim"] == "the step equals PyTorch's"
    assert record["holds"] is True
    assert record["values"] == [{"value": pytest.approx(3.1e-7), "operator": "≤", "bound": 1e-6}]


def test_a_false_claim_raises_a_sentence_and_shows_itself(outputs):
    with pytest.raises(ClaimFailed) as failed:
        claim("it is small.", measured(0.31, "bits") <= 0.1)
    assert isinstance(failed.value, AssertionError)
    assert str(failed.value) == ("the claim “it is small” does not hold: measured 0.310 bits, which is not ≤ 0.1.")
    assert failed.value._render_traceback_() == [f"ClaimFailed: {failed.value}"]
    assert outputs[0][1]["holds"] is False


@pytest.mark.parametrize(
    ("condition", "truth"),
    [
        (lambda m: m <= 2, True),
        (lambda m: m < 2, False),
        (lambda m: m >= 2, True),
        (lambda m: m > 2, False),
        (lambda m: m == 2, True),
        (lambda m: m != 2, False),
        (lambda m: 1 < m, True),
        (lambda m: 3 <= m, False),
        (lambda m: np.float64(1) < m, True),
        (lambda m: torch.tensor(3.0) < m, False),
        (lambda m: m < measured(3, name="other"), True),
        (lambda m: (m > 1) & (m < 3), True),
        (lambda m: (m > 1) & (m < 1.5), False),
        (lambda m: (m > 1) & False, False),
        (lambda m: True & (m > 1), True),
    ],
)
@pytest.mark.parametrize("two", [2, 2.0, torch.tensor(2.0), torch.tensor([2]), np.float32(2), np.array(2)])
def test_comparisons_are_those_of_the_numbers(condition, truth, two):
    assert condition(measured(two)).holds is truth


@pytest.mark.parametrize("value", [float("nan"), 0.5, 2.0])
@pytest.mark.parametrize(
    "twist",
    [
        lambda m: not (m < 1),
        lambda m: (m < 1) == False,  # noqa: E712
        lambda m: (m < 1) != True,  # noqa: E712
        lambda m: m < 1 and m > 0,
        lambda m: m < 1 or m > 1,
        lambda m: 0 < m < 1,
        lambda m: True if m < 1 else False,
        lambda m: all([m < 1, m > 0]),
        lambda m: bool(m < 1),
    ],
)
def test_a_condition_is_no_truth_value(value, twist, outputs):
    """claim("x", not (measured(nan) < 1)) would pass; what is measured says what to write in its place."""
    with pytest.raises(TypeError, match="for `not` write the opposite comparison, .*; for `and` .* write `&`"):
        claim("it is not small", twist(measured(value)))
    assert not outputs


@pytest.mark.parametrize("bound", [1, np.float64(1), np.array(1.0), torch.tensor(1.0)], ids=repr)
def test_the_measured_number_may_stand_on_the_right(bound):
    assert str((bound < measured(2)).comparisons[0]) == "2 > 1"


@pytest.mark.parametrize("sign", ["__le__", "__lt__", "__ge__", "__gt__", "__eq__", "__ne__"])
def test_nan_is_never_true(sign, outputs):
    for value, bound in ((float("nan"), 1.0), (1.0, float("nan")), (float("nan"), float("nan"))):
        condition = getattr(measured(value), sign)(bound)
        assert not condition.holds
        with pytest.raises(ClaimFailed, match="a comparison with nan is never true"):
            claim("it is fine", condition)
    json.dumps([record for _, record in outputs], allow_nan=False)


def test_joined_conditions_say_which_part_fails(outputs):
    rnn = measured(2.31, "bits/char", "RNN")
    claim("it beats both", (rnn < measured(4.7, name="unigram")) & (rnn < measured(2.6, name="trigram")))
    assert outputs[0][0]["text/plain"].endswith(
        "measured RNN 2.31 < unigram 4.70 bits/char and RNN 2.31 < trigram 2.60 bits/char"
    )
    assert [value["bound_name"] for value in outputs[0][1]["values"]] == ["unigram", "trigram"]
    with pytest.raises(ClaimFailed) as failed:
        claim("it beats both", (rnn < measured(4.7, name="unigram")) & (rnn < measured(2, name="best")))
    assert str(failed.value).endswith("measured RNN 2.31 bits/char, which is not < best 2.")


def test_plain_bools_are_conditions_too(outputs):
    for true in (True, np.bool_(True), torch.tensor([1, 1]).eq(1).all()):
        claim("both are equal", true)
    assert outputs[0][0]["text/plain"] == "✓ claim: both are equal"
    with pytest.raises(ClaimFailed, match="its condition is false"):
        claim("both are equal", torch.tensor(False))


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("yes", "got str"),
        (None, "got NoneType"),
        (1, "got int"),
        (torch.tensor([True, True]), r"shape \(2,\)"),
        (np.array([True]), r"shape \(1,\)"),
        (torch.tensor(1.0), r"got Tensor of shape \(\)"),
        (measured(1), "not compared with anything"),
    ],
    ids=str,
)
def test_a_claim_on_anything_else_is_refused_in_words(condition, said):
    with pytest.raises(TypeError, match=said):
        claim("it holds", condition)


def test_misused_claims_say_what_to_do():
    with pytest.raises(TypeError, match="starts with its sentence"):
        claim(measured(1) < 2, "the wrong way round")
    with pytest.raises(TypeError, match="brackets around each comparison"):
        claim("both", measured(1) < 2 & measured(3) < 4)
    with pytest.raises(TypeError, match="neither true nor false"):
        assert measured(1)


@pytest.mark.parametrize("value", [torch.ones(2), np.ones((2, 2)), torch.ones(0), "3", None, True, 1j, [1.0]])
def test_only_one_number_can_be_measured(value):
    with pytest.raises(TypeError, match="a measured value must be one number"):
        measured(value)
    with pytest.raises(TypeError, match="the bound of a claim must be one number"):
        assert measured(1) < value


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (measured(0.99999) < 1, "0.99999 < 1"),
        (measured(1.0000001) > 1.0, "1.0000001 > 1"),
        (measured(0.5) >= 0.5, "0.500 ≥ 0.5"),
        (measured(1 / 3) < measured(0.3334), "0.3333 < 0.3334"),
        (measured(65_013_248) == 65_013_248, "65,013,248 = 65,013,248"),
        (measured(3, "s") < measured(4, "min"), "3 s < 4 min"),
    ],
    ids=str,
)
def test_the_shown_digits_tell_the_same_story_as_the_numbers(condition, text):
    assert str(condition.comparisons[0]) == text


def test_a_failure_shows_as_many_digits_as_it_needs(outputs):
    with pytest.raises(ClaimFailed, match="measured 1.00001, which is not ≤ 1."):
        claim("it is at most one", measured(1.00001) <= 1)
