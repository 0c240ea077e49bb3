"""Progress marks: kept between sessions, by racing and dying processes, and where nothing can be written."""

import errno
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course_lib.lesson import check, solution
from course_lib.lesson import marks as kept
from course_lib.workshop.exercises import all_exercises, all_quizzes


def test_marks_are_kept_and_nothing_else_is_left_in_the_folder(home):
    assert kept.marks() == {"exercises": {}, "quiz": {}}
    assert not home.exists()  # looking makes nothing
    for _ in range(2):
        assert kept.mark("rnn_bptt", "exercises", "my_step") == ""
    assert kept.mark("rnn_bptt", "quiz", "why a/ha?") == ""
    assert kept.marks() == {"exercises": {"rnn_bptt": {"my_step"}}, "quiz": {"rnn_bptt": {"why a/ha?"}}}
    files = sorted(file.relative_to(home).as_posix() for file in home.rglob("*") if file.is_file())
    assert files == ["exercises/rnn_bptt/my_step", "quiz/rnn_bptt/why%20a%2Fha%3F"]
    with pytest.raises(ValueError, match="expected one of"):
        kept.mark("rnn_bptt", "homework", "x")


def test_no_two_marks_share_a_file_where_capitals_do_not_count():
    names = [(e.lesson, e.name.casefold()) for e in all_exercises()] + [(q.lesson, q.key) for q in all_quizzes()]
    assert len(set(names)) == len(names)


def test_what_an_earlier_edition_kept_in_one_file_still_counts_and_stays(home):
    home.mkdir()
    old = home / "progress.json"
    old.write_text('{"exercises": {"gpt": ["top_p"]}, "streak": 7}')
    kept.mark("gpt", "exercises", "bpe_merge")
    assert kept.marks()["exercises"] == {"gpt": {"top_p", "bpe_merge"}}
    assert old.read_text() == '{"exercises": {"gpt": ["top_p"]}, "streak": 7}'


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"exercises": []}', b'{"quiz": {"a": 1}}', b"[" * 100_000],
)
def test_a_damaged_file_of_an_earlier_edition_costs_nothing_else(home, damage):
    home.mkdir()
    (home / "progress.json").write_bytes(damage)
    assert kept.mark("gpt", "exercises", "top_p") == ""
    assert kept.marks() == {"exercises": {"gpt": {"top_p"}}, "quiz": {}}
    assert (home / "progress.json").read_bytes() == damage


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES], ids=os.strerror)
def test_where_nothing_can_be_written_marks_are_kept_in_memory_and_that_is_said_once(home, monkeypatch, number):
    kept.mark("gpt", "exercises", "top_p")

    def refuse(*_, **__):
        raise OSError(number, os.strerror(number), str(home))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "touch", refuse)
        sentence = kept.mark("gpt", "exercises", "bpe_merge")
        assert sentence == (f"Progress could not be saved ({os.strerror(number)}); it is kept until this kernel stops.")
        assert kept.mark("gpt", "quiz", "masks") == ""
        assert kept.marks() == {"exercises": {"gpt": {"top_p", "bpe_merge"}}, "quiz": {"gpt": {"masks"}}}
    assert kept.mark("gpt", "quiz", "heads") == ""  # there is room again: all of it is written
    kept._unwritten.clear()
    assert kept.marks() == {"exercises": {"gpt": {"top_p", "bpe_merge"}}, "quiz": {"gpt": {"masks", "heads"}}}


def test_a_folder_that_cannot_be_made_is_said_without_its_path(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "home"):
        monkeypatch.setenv("COURSE_HOME", str(place))
        sentence = kept.mark("gpt", "exercises", "top_p")
        assert sentence.startswith("Progress could not be saved (")
        assert str(tmp_path) not in sentence
        assert kept.marks()["exercises"] == {"gpt": {"top_p"}}


def nobody(monkeypatch):
    """A user whom the system does not know, as in some containers."""
    pwd = pytest.importorskip("pwd")

    def unknown(number):
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("COURSE_HOME", "HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_home_an_exercise_is_solved_all_the_same_and_it_is_said_once(monkeypatch, capsys):
    nobody(monkeypatch)
    monkeypatch.setattr(kept, "_unwritten", {})
    monkeypatch.setattr(kept, "_said", set())
    step = next(exercise.solution for exercise in all_exercises() if exercise.name == "my_step")
    said = []
    for _ in range(2):
        check("my_step", lambda x, h, w_x, w_h, b: step(x, h, w_x, w_h, b))
        said.append(capsys.readouterr().out)
    assert all(re.search(r"my_step: right. 1 of \d+ exercises", text) for text in said)
    assert ["there is no home folder: the variable COURSE_HOME" in text for text in said] == [True, False]
    solution("my_step")
    assert "def my_step" in capsys.readouterr().out


def test_the_home_of_progress_is_the_users_data_folder_unless_told(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_HOME", "~/course")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert kept.home() == tmp_path / "course"
    monkeypatch.delenv("COURSE_HOME")
    assert kept.home().name == "unrolled"


WRITER = """
import runpy, sys
mark = runpy.run_path(sys.argv[1])["mark"]
print("ready", flush=True)
sys.stdin.readline()
for i in range(int(sys.argv[3])):
    assert mark("gpt", "exercises", f"{sys.argv[2]}{i}") == ""
    print(i, flush=True)
"""


def writers(names, most):
    """Processes that mark, side by side, from the same moment on."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, kept.__file__, name, str(most)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    assert [writer.stdout.readline() for writer in started] == ["ready\n"] * len(started)
    for writer in started:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    return started


def test_notebooks_that_mark_at_once_keep_each_others_marks():
    for name, writer in (both := dict(zip("ab", writers("ab", 50), strict=True))).items():
        assert len(writer.communicate(timeout=60)[0].split()) == 50, name
    assert kept.marks()["exercises"]["gpt"] == {f"{name}{i}" for name in both for i in range(50)}


@pytest.mark.slow
def test_marks_outlive_processes_that_are_killed_while_they_race(home):
    """Whatever a process has said was marked is there, however it and its neighbours ended; nothing else is."""
    draw, marked = random.Random(0), set()
    for round in range(5):
        names = [f"{letter}{round}_" for letter in "abcd"]
        running = writers(names, 10_000)
        time.sleep(0.05 + 0.1 * draw.random())
        for name, writer in zip(names, running, strict=True):
            writer.kill()
            marked |= {f"{name}{number}" for number in writer.communicate(timeout=60)[0].split("\n")[:-1]}
        found = kept.marks()["exercises"]["gpt"]
        assert marked <= found
        assert len(found - {"after"}) <= len(marked) + 4 * (round + 1), "at most what each was marking when it died"
        assert kept.mark("gpt", "exercises", "after") == ""
    assert len(marked) > 100
