"""Claims: about this run, green or red, and never a number out of the record."""

import json
import math
import sys

import numpy as np
import pytest
import torch

from course_lib.lesson import claim, claims
from course_lib.workshop.experiments import Runs
from course_lib.workshop.experiments.runs import Recorded


@pytest.fixture(autouse=True)
def none_yet(monkeypatch):
    monkeypatch.setattr(sys.modules["course_lib.lesson.claims"], "_made", {})


def test_a_claim_says_what_this_run_measured_and_the_bound(outputs):
    claim("the step equals PyTorch's.", torch.tensor(3.1e-7), "<=", 1e-6)
    data, record = outputs[0]
    assert data["text/plain"] == "✓ claim: the step equals PyTorch's — in this run 3.10e-7 ≤ 1e-6"
    assert "In this run: 3.10e-7 ≤ 1e-6" in data["text/html"]
    assert record["claim"] == "the step equals PyTorch's" and record["holds"] is True
    assert record["values"] == [{"value": pytest.approx(3.1e-7), "operator": "<=", "bound": 1e-6}]


def test_a_false_claim_turns_red_and_the_run_goes_on(outputs):
    claim("it is small", 0.31, "<=", 0.1)
    data, record = outputs[0]
    assert data["text/plain"] == "✗ does not hold in this run: it is small — in this run 0.310, not ≤ 0.1"
    assert "Did you change something above" in data["text/html"] and record["holds"] is False


def test_the_claims_are_counted_and_the_red_ones_named(outputs, capsys):
    claim("one", 1, "<", 2)
    claim("two", 1, ">", 2)
    claim("three", 1, ">", 2)
    claim("three", 3, ">", 2)  # the cell is run again
    claims()
    assert capsys.readouterr().out == "2 of 3 claims hold in this run\n✗ two\n"


@pytest.mark.parametrize(
    ("condition", "truth"),
    [
        (("<=", 2), True),
        (("<", 2), False),
        ((">=", 2), True),
        ((">", 2), False),
        (("==", 2), True),
        (("!=", 2), False),
        ((">", np.float64(1)), True),
        (("<", torch.tensor(3.0), 5, ">", 4), True),
        (("<", 3, 5, ">", 6), False),
    ],
)
@pytest.mark.parametrize("two", [2, 2.0, torch.tensor(2.0), torch.tensor([2]), np.float32(2), np.array(2)])
def test_comparisons_are_those_of_the_numbers(condition, truth, two, outputs):
    claim("it holds", two, *condition)
    assert outputs[0][1]["holds"] is truth


@pytest.mark.parametrize("sign", ["<=", "<", ">=", ">", "==", "!="])
def test_nan_is_never_true(sign, outputs):
    for value, bound in ((math.nan, 1.0), (1.0, math.nan), (math.nan, math.nan)):
        claim("it is fine", value, sign, bound)
    assert not any(record["holds"] for _, record in outputs)
    json.dumps([record for _, record in outputs], allow_nan=False)


def test_of_runs_the_live_one_counts_and_the_band_stands_beside_it(outputs):
    lstm, rnn = Runs([0.9, 0.95, 1.0], 0.97), Runs([0.1, 0.2, 0.15], 0.99)
    claim("It recalls", lstm, ">=", 0.85)
    claim("It is better", lstm, ">", rnn)
    assert outputs[0][0]["text/plain"].endswith("in this run 0.970 ≥ 0.85 (3 recorded runs: 0.900 to 1.00)")
    assert outputs[0][1]["values"][0]["recorded"] == [[0.9, 0.85], [0.95, 0.85], [1.0, 0.85]]
    assert [record["holds"] for _, record in outputs] == [True, False], "recorded runs do not save a claim"
    with pytest.raises(ValueError, match="cannot be compared run by run"):
        claim("It is better", lstm, ">", Runs([1, 2], 3))


BAND = Runs([0.9, 0.95])


@pytest.mark.parametrize(
    "value",
    [
        BAND,
        BAND - 0.1,
        BAND.mean,
        BAND.least,
        BAND.most,
        1 - BAND.most,
        abs(-BAND.mean) / 2,
        min(BAND.mean, 3),
        max(0, BAND.least),
    ],
    ids=repr,
)
def test_a_number_out_of_the_record_is_refused(value, outputs):
    for condition in ((value, ">=", 0), (0, "<", value)):
        with pytest.raises(TypeError, match="A claim is about this run, .* state a finding"):
            claim("it holds", *condition)
    assert not outputs


def test_what_is_computed_from_a_recorded_number_is_recorded():
    mean = BAND.mean
    for value in (
        mean + 1,
        1 + mean,
        mean - 1,
        1 - mean,
        2 * mean,
        mean / 2,
        2 / mean,
        -mean,
        abs(mean),
        mean**2,
        2**mean,
    ):
        assert isinstance(value, Recorded)
    assert f"{mean:.3f}" == "0.925" and mean == 0.925 and float(mean).__class__ is float


@pytest.mark.parametrize(
    "condition",
    [(), (True,), (1 > 0,), (1, "<"), (1, "=>", 2), (1, 2, 3), (1, "<", 2, 3), ("yes",), (1, "<", 2, 3, "<")],
    ids=str,
)
def test_what_is_no_comparison_is_refused_in_words(condition):
    with pytest.raises(TypeError, match="a claim is a sentence, then a value, a sign and a bound"):
        claim("it holds", *condition)


@pytest.mark.parametrize("value", [torch.ones(2), np.ones((2, 2)), torch.ones(0), "3", None, True, 1j, [1.0]])
def test_only_one_number_can_be_compared(value):
    with pytest.raises(TypeError, match="what a claim compares must be one number"):
        claim("it holds", value, "<", 3)
    with pytest.raises(TypeError, match="what a claim compares must be one number"):
        claim("it holds", 3, "<", value)


@pytest.mark.parametrize("text", ["", " ", 3, None])
def test_a_claim_starts_with_its_sentence(text):
    with pytest.raises(TypeError, match="a claim starts with its sentence"):
        claim(text, 1, "<", 2)


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ((0.99999, "<", 1), "0.99999 < 1"),
        ((1.0000001, ">", 1.0), "1.0000001 > 1"),
        ((0.5, ">=", 0.5), "0.500 ≥ 0.5"),
        ((1 / 3, "<", 0.3334), "0.333 < 0.3334"),
        ((0.33349, "<", 0.3334), "0.3335, not < 0.3334"),
        ((65_013_248, "==", 65_013_248), "65,013,248 = 65,013,248"),
        ((1.00001, "<=", 1), "1.00001, not ≤ 1"),
        ((math.nan, "<=", 1), "nan, not ≤ 1"),
    ],
    ids=str,
)
def test_the_shown_digits_tell_the_same_story_as_the_numbers(condition, text, outputs):
    claim("it holds", *condition)
    assert outputs[0][0]["text/plain"].endswith(f"in this run {text}")
