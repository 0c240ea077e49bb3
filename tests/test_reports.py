"""Reports and the numbers in them: shown rounded, stored exactly, refused in words."""

import pytest
import torch

from course_lib.lesson import (
    report,
)
from course_lib.lesson.cards import prose
from course_lib.lesson.numerals import shown, shown_bound


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (12, "12"), (1_234_567, "1,234,567"), (3.14159, "3.14"), (0.0123, "0.0123"),
        (12345.6, "12,346"),
        (1.5e-7, "1.50e-7"), (2.5e9, "2.50e9"), (float("inf"), "inf"), (float("nan"), "nan"), (-2.5, "-2.50"),
    ],
)  # fmt: skip
def test_numbers_are_shown_to_three_digits(value, text):
    assert shown(value) == text


def test_bounds_are_shown_as_typed():
    assert [shown_bound(b) for b in (1e-10, 0.05, 2, 1.91, 1 / 3)] == ["1e-10", "0.05", "2", "1.91", "0.333"]


def test_a_report_shows_rounded_and_stores_exact(outputs):
    report("training time", 21.4567, "s")
    report("bits", {"uniform": torch.tensor(6.125), "RNN": 2.0}, unit="bits/char", digits=2)
    report("runs", {"plain": {"loss": 1.25, "time": 20}, "clipped": {"loss": 1.5}}, {"time": "s"})
    texts = [data["text/plain"] for data, _ in outputs]
    assert texts[0] == "training time: 21.5 s"
    assert texts[1] == "bits\n         bits/char\nuniform       6.12\nRNN           2.00"
    assert texts[2] == "runs\n         loss  time (s)\nplain    1.25        20\nclipped  1.50"
    records = [record["report"] for _, record in outputs]
    assert records[0] == {"training time": {"value": 21.4567, "unit": "s"}}
    assert records[1] == {"bits": {"value": {"uniform": 6.125, "RNN": 2.0}, "unit": "bits/char"}}
    assert records[2]["runs"]["unit"] == {"time": "s"}
    assert outputs[1][0]["text/html"].count("<tr>") == 3


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({}, "table is empty"),
        ({"a": None}, "report 'x, a' must be one number"),
        ({"a": 1, "b": {"c": 2}}, "either"),
        ({"a": 10**5000}, "an int of 16,610 bits"),
        (torch.ones(1, device="meta"), "a Tensor without one"),
        (torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), "must be one number"),
        (torch.ones(2).to_sparse(), "got 2 of them"),
        ([1.0], "got list"),
    ],
)
def test_a_report_of_no_numbers_is_refused_in_words(value, error):
    with pytest.raises((TypeError, ValueError), match=error):
        report("x", value)


def test_text_is_escaped_and_code_is_set_as_code():
    assert prose("`a < b` & *never* 2*h*w\nnext") == ("<code>a &lt; b</code> &amp; <em>never</em> 2*h*w<br>next")
