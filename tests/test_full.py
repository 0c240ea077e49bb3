"""What `make test` leaves out belongs to one part each, and a part that changed since it passed is run again."""

import json
import re
import subprocess
import sys
import time

import full
import pytest


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one lesson, with a file of each kind that a part is made from."""
    files = {
        "notebooks/03_seq2seq.ipynb": json.dumps({"cells": [cell("x = 1"), cell("x")]}),
        "course_lib/workshop/exercises/seq2seq.py": "solution = 1",
        "course_lib/workshop/exercises/gpt.py": "solution = 2",
        "course_lib/show/widgets.py": "explore = 1",
        "course_lib/recurrent/rnn.py": "step = 1",
        "course_lib/workshop/publish/alive.py": "model = 1",
        "tests/browser/student.py": "answer = 1",
        "tests/test_rnn.py": "test = 1",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(full, "ROOT", tmp_path)
    monkeypatch.setattr(full, "CHECKED", tmp_path / "tests" / "checked.json")
    return tmp_path


def cell(source, outputs=()):
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": list(outputs)}


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("course_lib/workshop/exercises/seq2seq.py", {"03_seq2seq", "units"}),
        ("course_lib/workshop/exercises/gpt.py", {"units"}),
        ("course_lib/show/widgets.py", {"03_seq2seq", "pages", "units"}),
        ("course_lib/recurrent/rnn.py", {"units"}),
        ("course_lib/workshop/publish/alive.py", {"pages", "units"}),
        ("tests/browser/student.py", {"03_seq2seq", "pages"}),
        ("tests/test_rnn.py", {"units"}),
    ],
)
def test_a_change_reaches_the_parts_that_could_find_it(course, name, changed):
    parts = ("03_seq2seq", "pages", "units")
    before = {part: full.digest(part) for part in parts}
    (course / name).write_text("another")
    assert {part for part in parts if full.digest(part) != before[part]} == changed


def test_a_notebook_that_was_run_again_has_not_changed(course):
    path, before = course / "notebooks/03_seq2seq.ipynb", full.digest("03_seq2seq")
    path.write_text(json.dumps({"cells": [cell("x = 1"), cell("x", ["1"])]}))
    assert full.digest("03_seq2seq") == before
    path.write_text(json.dumps({"cells": [cell("x = 2"), cell("x")]}))
    assert full.digest("03_seq2seq") != before


def test_what_passed_is_written_down_and_what_is_no_part_is_forgotten(course):
    full.CHECKED.write_text(json.dumps({"98_gone": "a", "03_seq2seq": "b"}))
    full.write({"pages": "c"})
    assert full.checked() == {"03_seq2seq": "b", "pages": "c"}


def test_a_part_is_named_by_number_or_slug():
    assert full.named(["03", "gpt", "08_bert", "pages"]) == ["03_seq2seq", "07_gpt", "08_bert", "pages"]
    with pytest.raises(ValueError, match="'99' names no part: say a lesson's number or slug, or pages, or units."):
        full.named(["99"])


def test_each_commit_begins_with_another_part():
    assert full.in_turn(list("abc"), "0f") == list("abc") and full.in_turn(list("abc"), "10") == list("bca")
    assert full.in_turn([], "10") == []


@pytest.mark.slow
@pytest.mark.full  # it collects the tests of the browser twice, for what `make test-all` alone goes by
def test_every_test_that_make_test_leaves_out_belongs_to_a_part():
    """Read as pytest collects them: lessons, pages and units together are all that has the mark `full`."""

    def collected(*how):
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *how]
        told = subprocess.run(command, cwd=full.ROOT, capture_output=True, text=True).stdout
        return {line for line in told.splitlines() if line.startswith("tests/")}

    left_out = collected("tests/browser", "-m", "full")
    pages = collected(*full.tests_of("pages"))
    in_lab = {one for one in left_out - pages if any(name in one for name in full.NAMES)}
    assert pages and in_lab and left_out == pages | in_lab
    assert {re.search(r"\[(.*)]$", one)[1] for one in in_lab} <= set(full.NAMES)


# --- parts as they come


def program(source):
    return lambda part: [sys.executable, "-c", source.replace("PART", repr(part))]


def test_what_fails_is_told_and_the_rest_goes_on(capsys):
    turns = full.Turns(list("abc"), 60, program("import sys; print('said', PART); sys.exit(PART == 'b')"))
    assert not turns.run()
    assert sorted(turns.passed) == ["a", "c"] and turns.failed == ["b"] and turns.waiting == turns.cut == []
    told = capsys.readouterr().out.splitlines()
    assert "said b" in told and "said a" not in told  # what passed is one line
    assert {line.rpartition(": ")[2] for line in told if line.startswith("in full: ")} == {"said a", "said b", "said c"}


def test_no_part_begins_when_the_time_is_up():
    turns = full.Turns(list("abc"), 0, program(""))
    assert turns.run() and turns.waiting == list("abc")


def test_a_part_that_runs_on_is_ended_and_is_no_failure(tmp_path):
    """By Ctrl-C, so that it can end what it has started."""
    source = f"""
import time
try:
    time.sleep(60)
finally:
    open({str(tmp_path / "ended")!r}, "w").close()
"""
    began = time.monotonic()
    turns = full.Turns(["a"], 0.1, program(source), last=2)
    assert turns.run() and turns.cut == ["a"] and turns.passed == turns.failed == []
    assert time.monotonic() - began < 30 and (tmp_path / "ended").exists()
