"""The progress board: what is solved, in one lesson or in all of them."""

import json
import re
from pathlib import Path

import pytest

from course_lib.lesson import LESSONS, board, progress
from course_lib.lesson import marks as kept
from course_lib.lesson.syllabus import LISTED, Lesson

NOTEBOOKS = board.ROOT / "notebooks"


@pytest.fixture
def toys(monkeypatch):
    """Three exercises and a question in lesson 01, one of them solved, and no notebook anywhere."""
    toys = [type("Toy", (), {"name": name, "key": name, "lesson": "rnn_bptt"}) for name in ("one", "two", "three")]
    monkeypatch.setattr(board, "all_exercises", lambda: toys)
    monkeypatch.setattr(board, "all_quizzes", lambda: toys[:1])
    monkeypatch.setattr(board, "ROOT", Path("nowhere"))
    for name in ("two", "asked no longer"):
        kept.mark("rnn_bptt", "exercises", name)


def test_the_board_shows_every_lesson_and_counts_what_is_asked_today(outputs, toys):
    progress()
    data, record = outputs[0]
    lines = data["text/plain"].split("\n")
    assert len(lines) == 1 + len(LESSONS)
    assert re.fullmatch(r"01  Recurrent networks and .* time +●○○ 1/3 +○ 0/1", lines[2])
    assert all(line.endswith("to come") for line in lines[3:])
    assert record["progress"]["rnn_bptt"] == ["●○○ 1/3", "○ 0/1"]
    assert data["text/html"].count("<tr>") == 1 + len(LESSONS)


def test_a_lesson_shows_its_own_progress_whatever_other_lessons_there_are(outputs, toys, monkeypatch):
    progress("rnn_bptt")
    monkeypatch.setattr(board, "LISTED", (*LESSONS, Lesson(17, "dummy", "A lesson of a very long name " * 3, "Why?")))
    progress("rnn_bptt")
    assert outputs[0] == outputs[1]
    data, record = outputs[0]
    assert [line[:4] for line in data["text/plain"].split("\n")] == ["    ", "01  "]
    assert record == {"progress": {"rnn_bptt": ["●○○ 1/3", "○ 0/1"]}}
    progress("dummy")
    assert "to come" in outputs[2][0]["text/plain"]


def test_a_lesson_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(LookupError, match="There is no lesson called 'seq2sec'. There are: start_here, .*seq2seq"):
        progress("seq2sec")


@pytest.mark.parametrize("lesson", [lesson for lesson in LESSONS if lesson.number], ids=lambda lesson: lesson.slug)
def test_a_notebook_stores_no_other_lessons_progress(lesson):
    path = NOTEBOOKS / lesson.notebook
    if not path.exists():
        return  # to come
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    boards = [cell for cell in cells if "progress(" in "".join(cell["source"])]
    shown = {slug for cell in boards for out in cell["outputs"] for slug in out["metadata"]["unrolled"]["progress"]}
    assert shown <= {lesson.slug}


def test_a_lesson_is_there_once_its_notebook_is(tmp_path, monkeypatch):
    monkeypatch.setattr(board, "ROOT", tmp_path)
    coming = Lesson(17, "dummy", "Dummy", "Why?")
    assert not board.is_there(coming)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "17_dummy.ipynb").touch()
    assert board.is_there(coming)


def test_lessons_are_numbered_in_order_and_named_once():
    """Not without a gap: lesson 12 may be done before lesson 11."""
    numbers = [lesson.number for lesson in LISTED]
    assert numbers == sorted(set(numbers)) and numbers[:2] == [0, 1]
    assert len({lesson.slug for lesson in LISTED}) == len(LISTED)
    assert LESSONS[1].notebook == "01_rnn_bptt.ipynb"
