"""Quiz questions: every answer is given its reason, and where no kernel runs nothing is given away."""

import sys

import pytest

from course_lib.lesson import marks as kept
from course_lib.lesson import (
    quiz,
)
from course_lib.lesson.quizzes import panel
from course_lib.workshop.exercises import Quiz

REASONS = ("Because of this.", "Not because of that.", "Nor of those.")
QUESTION = Quiz(
    "which",
    "Which is `it`?",
    tuple(zip(("`this` one", "that", "those"), REASONS, strict=True)),
    0,
    "rnn_bptt",
)


def test_a_question_is_one_output_with_a_still_that_gives_nothing_away(outputs):
    quiz("which", among=[QUESTION])
    assert len(outputs) == 1
    data, record = outputs[0]
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"]
    assert "Which is <code>it</code>?" in data["text/html"]
    assert data["text/plain"] == "Question. Which is it?\n  A. this one\n  B. that\n  C. those"
    assert not any(reason in data["text/html"] + data["text/plain"] for reason in REASONS)
    assert record == {"quiz": "which"}


def test_each_answer_is_given_its_reason_and_the_right_one_is_marked():
    box = panel(QUESTION)
    assert box.choice.index is None
    box.button.click()
    assert "Choose an answer first" in box.feedback.value
    for wrong in (1, 2):
        box.choice.index = wrong
        assert box.feedback.value == ""  # the verdict on another option is gone
        box.button.click()
        assert "Not this one" in box.feedback.value
        assert REASONS[wrong] in box.feedback.value
        assert kept.marks()["quiz"] == {}
    box.choice.index = 0
    box.button.click()
    assert "Right" in box.feedback.value
    assert REASONS[0] in box.feedback.value
    assert kept.marks()["quiz"] == {"rnn_bptt": {"which"}}


def test_without_ipywidgets_the_question_stands_and_says_what_is_missing(outputs, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    quiz("which", among=[QUESTION])
    data, _ = outputs[0]
    assert set(data) == {"text/plain", "text/html"}
    assert "Answering needs the package ipywidgets, which is missing." in data["text/html"]


def test_an_unknown_question_is_answered_with_a_near_one():
    with pytest.raises(LookupError, match="no quiz question called 'wich'. Did you mean 'which'?"):
        quiz("wich", among=[QUESTION])
