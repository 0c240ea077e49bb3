"""Files and folders come to their place whole or not at all, whoever is killed while writing."""

import errno
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from course_lib.data.beside import STALE, beside, write_beside


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def left_by(pid, folder, name="a.txt"):
    """What a writer with this number leaves when it is killed."""
    workshop = folder / f".{name}.{pid}-0.part"
    workshop.mkdir()
    (workshop / name).write_text("half")
    return workshop


def ended_process():
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("content", ["é\nb", b"\x00\r\n"])
def test_text_and_bytes_come_to_their_place_in_a_folder_that_is_made(tmp_path, content):
    path = tmp_path / "new" / "a.txt"
    write_beside(path, content)
    write_beside(path, content)
    assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert names(path.parent) == ["a.txt"]


def test_home_is_expanded_and_a_link_is_followed(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    write_beside("~/deep/a.txt", "one")
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "a.txt")
    write_beside(tmp_path / "link", "two")
    assert (tmp_path / "deep" / "a.txt").read_text() == "two" and (tmp_path / "link").is_symlink()


@pytest.mark.skipif(os.name == "nt", reason="Windows knows no such permissions")
def test_permissions_are_those_of_any_new_file_or_stay_what_they_were(tmp_path):
    def write_for_the_owner_alone(path):
        with beside(path) as new:
            new.touch(mode=0o600)

    (tmp_path / "any").touch()
    write_for_the_owner_alone(tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "any").stat().st_mode
    (tmp_path / "new").chmod(0o640)
    write_for_the_owner_alone(tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("when", ["writing", "syncing", "renaming"])
def test_a_full_disk_or_an_interrupt_leaves_the_old_file(tmp_path, monkeypatch, error, when):
    (tmp_path / "a.txt").write_text("old")

    def fail(*_):
        raise error

    if when != "writing":
        monkeypatch.setattr(os, {"syncing": "fsync", "renaming": "replace"}[when], fail)
    with pytest.raises(type(error)), beside(tmp_path / "a.txt") as new:
        new.write_text("half")
        if when == "writing":
            fail()
    assert (tmp_path / "a.txt").read_text() == "old" and names(tmp_path) == ["a.txt"]


def test_a_folder_replaces_a_folder_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    for number in "12":
        with beside(tmp_path / "pages") as new:
            new.mkdir()
            (new / f"{number}.html").write_text(number)
    assert names(tmp_path) == ["pages"] and names(tmp_path / "pages") == ["2.html"]

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"), beside(tmp_path / "pages") as new:
        new.mkdir()
    assert names(tmp_path) == ["pages"] and names(tmp_path / "pages") == ["2.html"]


def test_a_killed_writer_leaves_the_old_file_and_the_next_one_clears_up(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    writer = f"""
from course_lib.data.beside import beside
with beside({str(path)!r}) as new:
    new.write_text("half")
    (new.parent / "what a library needs on its way").touch()
    print("writing", flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", writer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "writing\n"
        assert len(names(tmp_path)) == 2
        write_beside(path, "other")  # while the first is still at it: nothing of it is touched
        assert len(names(tmp_path)) == 2
        process.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    assert path.read_text() == "other" and len(names(tmp_path)) == 2
    write_beside(path, "new")
    assert path.read_text() == "new" and names(tmp_path) == ["a.txt"]


def test_only_what_was_left_for_this_file_by_somebody_gone_is_removed(tmp_path):
    ours, gone, other_file = os.getpid(), ended_process(), "b.txt"
    left = [left_by(gone, tmp_path), left_by(ours, tmp_path)]  # our own number, had by an earlier process
    kept = [left_by(os.getppid(), tmp_path), left_by(gone, tmp_path, other_file), left_by("mine", tmp_path)]
    write_beside(tmp_path / "a.txt", "new")
    assert not any(path.exists() for path in left) and all(path.exists() for path in kept)
    long_ago = time.time() - STALE - 1
    os.utime(kept[0], (long_ago, long_ago))
    write_beside(tmp_path / "a.txt", "new")
    assert not kept[0].exists() and all(path.exists() for path in kept[1:])


def test_a_folder_whose_writer_died_between_the_two_renames_comes_back(tmp_path):
    old = left_by(ended_process(), tmp_path, "pages") / "pages.old"
    old.mkdir()
    (old / "1.html").write_text("1")
    with pytest.raises(RuntimeError), beside(tmp_path / "pages"):
        raise RuntimeError
    assert names(tmp_path) == ["pages"] and names(tmp_path / "pages") == ["1.html"]


def test_many_threads_write_one_file_and_none_disturbs_another(tmp_path):
    texts = [str(k) * 10_000 for k in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: [write_beside(tmp_path / "a.txt", text) for _ in range(20)], texts))
    assert (tmp_path / "a.txt").read_text() in texts and names(tmp_path) == ["a.txt"]
