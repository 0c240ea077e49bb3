"""A list of SHA-256 beside files tells which of them are no longer what they were."""

import shutil
import subprocess

import pytest

from course_lib.data.checksums import LIST, checksum, damaged, listed, write_list


@pytest.fixture
def folder(tmp_path):
    for name in ("a.bin", "b b.bin"):
        (tmp_path / name).write_bytes(name.encode() * 100)
    write_list(tmp_path, {path.name: checksum(path) for path in tmp_path.iterdir()})
    return tmp_path


def test_whole_files_are_told_from_damaged_and_lost_ones(folder):
    assert damaged(folder) == [] and [*listed(folder)] == ["a.bin", "b b.bin"]
    content = bytearray((folder / "a.bin").read_bytes())
    content[17] ^= 4
    (folder / "a.bin").write_bytes(content)
    assert damaged(folder) == ["a.bin"] == damaged(folder, ["a.bin"]) and damaged(folder, ["b b.bin"]) == []
    (folder / "b b.bin").unlink()
    (folder / "new.bin").touch()
    assert damaged(folder) == ["a.bin", "b b.bin"] and damaged(folder, ["new.bin"]) == ["new.bin"]


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="the command is not installed here")
def test_the_list_is_what_the_usual_command_reads(folder):
    told = subprocess.run(["sha256sum", "--check", LIST], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert told == "a.bin: OK\nb b.bin: OK\n"


@pytest.mark.parametrize("content", [b"one", b"1  a.bin  b\n", b"\x80  a.bin\n"])
def test_a_damaged_list_is_told(folder, content):
    (folder / LIST).write_bytes(content)
    with pytest.raises(ValueError, match=f"{LIST} is damaged"):
        damaged(folder)


def test_without_a_list_no_file_is_vouched_for(tmp_path):
    assert listed(tmp_path) == {} and damaged(tmp_path) == [] and damaged(tmp_path, ["a.bin"]) == ["a.bin"]
