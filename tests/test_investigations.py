"""Investigations: the question, a rubric to tick, and a model answer that waits; nothing is marked."""

import sys

import pytest

from course_lib.lesson import investigate, investigations, limits, solution
from course_lib.lesson.investigations import rubric
from course_lib.lesson.marks import marks
from course_lib.lesson.syllabus import LISTED
from course_lib.workshop.exercises import Investigation, all_exercises, all_investigations, find_investigation

ASKED = Investigation(
    "which", "Which `one` is it?", ("I varied `one` thing.", "I held the rest."), "It was **that** one.", "rnn_bptt"
)
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(autouse=True)
def nothing_ticked(monkeypatch):
    monkeypatch.setattr(investigations, "_ticked", {})


def test_the_question_and_its_rubric_are_one_output_with_a_list_where_no_kernel_runs(outputs):
    investigate("which", among=[ASKED])
    ((data, record),) = outputs
    assert data[WIDGET]["model_id"]
    assert data["text/plain"] == (
        "Investigate. Which one is it?\n  ○ I varied one thing.\n  ○ I held the rest.\n"
        "A model answer, afterwards: solution('which')."
    )
    assert data["text/html"].count("<li") == 2 and "Which <code>one</code> is it?" in data["text/html"]
    assert ASKED.answer not in data["text/plain"] + data["text/html"]
    assert record == {"investigation": "which"}


def test_without_ipywidgets_the_rubric_is_a_list(outputs, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    investigate("which", among=[ASKED])
    data, _ = outputs[0]
    assert set(data) == {"text/plain", "text/html"}


def test_the_model_answer_waits_for_a_tick_and_can_be_asked_for(outputs):
    def answered(**show):
        outputs.clear()
        solution("which", among=[ASKED], **show)
        ((data, record),) = outputs
        assert record == {"solution": "which", "shown": ASKED.answer in data.get("text/markdown", "")}
        return record["shown"]

    assert not answered()
    assert "`" not in outputs[0][0]["text/html"] and "show=True" in outputs[0][0]["text/plain"]
    assert answered(show=True)
    box = rubric(ASKED).boxes[1]
    box.value = True
    assert answered()
    assert [box.value for box in rubric(ASKED).boxes] == [False, True]  # the cell run again keeps the ticks
    box.value = False
    assert not answered()


def test_a_tick_marks_nothing():
    rubric(ASKED).boxes[0].value = True
    assert marks() == {"exercises": {}, "quiz": {}}


def test_the_solution_finds_an_exercise_and_an_investigation_by_one_name_each(outputs):
    assert not {one.name for one in all_investigations()} & {one.name for one in all_exercises()}
    for one in all_investigations():
        solution(one.name, show=True)
        assert one.answer in outputs[-1][0]["text/markdown"]
    with pytest.raises(LookupError, match="Did you mean 'which_scheme'"):
        solution("wich_scheme")


@pytest.mark.parametrize("one", all_investigations(), ids=lambda one: one.name)
def test_an_investigation_says_what_to_vary_what_to_hold_and_what_would_change_ones_mind(one):
    assert one.lesson in {lesson.slug for lesson in LISTED}
    assert len(one.rubric) >= limits.RUBRIC and len(set(one.rubric)) == len(one.rubric)
    said = " ".join(one.rubric).lower()
    assert all(word in said for word in ("varied", "nothing else", "change my mind", "seeds"))


def test_an_unknown_investigation_is_answered_with_a_near_one():
    with pytest.raises(LookupError, match="no investigation called 'wich'. Did you mean 'which'"):
        investigate("wich", among=[ASKED])


@pytest.mark.parametrize(
    ("spoilt", "complaint"),
    [
        (dict(name="which one"), "expected a Python name"),
        (dict(rubric="I held the rest."), "a tuple of sentences"),
        (dict(rubric=()), "a tuple of sentences"),
        (dict(rubric=("", "b")), "a tuple of sentences"),
        (dict(answer=""), "a question and an answer"),
    ],
)
def test_a_field_that_cannot_be_right_is_refused(spoilt, complaint):
    fields = {"name": "which", "question": "Which?", "rubric": ("a",), "answer": "b"} | spoilt
    with pytest.raises((TypeError, ValueError), match=complaint):
        Investigation(**fields)
    assert find_investigation("which", [ASKED]) is ASKED
