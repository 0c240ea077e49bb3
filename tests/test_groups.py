"""The tests of a lesson stay together on one worker, longest first, and no test is left out."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from groups import group_of, in_order, sample

from course_lib.workshop.publish import measured

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("node", "group"),
    [
        ("notebooks/03_seq2seq.ipynb::Cell 7", "lesson 03_seq2seq"),
        ("tests/browser/test_lessons_in_lab.py::test_it_runs_to_its_end[03_seq2seq]", "lesson 03_seq2seq"),
        ("tests/browser/test_lab_01_rnn_bptt.py::test_the_lesson_runs_to_its_end", "lesson 01_rnn_bptt"),
        ("tests/browser/test_site.py::test_a_page_opens_whole[03_seq2seq]", "tests/browser/test_site.py"),
        ("tests/browser/test_inside_gpt.py::test_a_finger_asks", "tests/browser/test_alive.py"),
        ("tests/test_notebooks.py::test_lesson[03_seq2seq-compared]", "tests/test_notebooks.py"),
    ],
)
def test_a_test_belongs_to_its_lesson_or_its_file(node, group):
    assert group_of(node) == group


def test_the_longest_group_comes_first_and_each_keeps_its_order(monkeypatch):
    monkeypatch.setattr(measured, "read", lambda: {"01_rnn_bptt.ipynb": {"seconds": 50}, "03_a.ipynb": {"seconds": 90}})

    def item(node, slow=False):
        return SimpleNamespace(nodeid=node, iter_markers=lambda name: ["slow"] * slow)

    quick = [item("tests/test_a.py::test[1]"), item("tests/test_a.py::test[2]")]
    slow, page = item("tests/test_b.py::test", slow=True), item("tests/browser/test_x.py::test")
    first, third, new = (item(f"notebooks/{name}.ipynb::Cell 0") for name in ("01_rnn_bptt", "03_a", "04_new"))
    later = item("notebooks/03_a.ipynb::Cell 1")
    ordered = in_order([quick[0], first, third, slow, page, new, later, quick[1]])
    assert ordered == [new, third, later, first, page, slow, *quick]


def test_a_lesson_begins_with_its_notebook_and_goes_on_in_jupyterlab():
    """So the kernel of the notebook is there for the one, and ended before the rest."""
    lab = [f"tests/browser/test_lessons_in_lab.py::{name}[03_seq2seq]" for name in ("test_b", "test_a")]
    notebook = [f"notebooks/03_seq2seq.ipynb::Cell {n}" for n in range(2)]
    items = [SimpleNamespace(nodeid=node, iter_markers=lambda name: []) for node in lab + notebook]
    assert [item.nodeid for item in in_order(items)] == notebook + lab


def test_a_lesson_that_is_driven_in_jupyterlab_comes_before_one_that_takes_as_long(monkeypatch):
    monkeypatch.setattr(measured, "read", lambda: {f"{name}.ipynb": {"seconds": 50} for name in ("02_a", "08_bert")})
    nodes = ["02_a.ipynb::Cell 0", "08_bert.ipynb::Cell 0", "tests/browser/test_lessons_in_lab.py::test_it[08_bert]"]
    items = [SimpleNamespace(nodeid=node, iter_markers=lambda name: []) for node in nodes]
    assert [item.nodeid for item in in_order(items)] == [nodes[1], nodes[2], nodes[0]]


def test_a_sample_has_every_test_and_of_many_cases_three():
    nodes = [
        "a.py::test[0]",
        "a.py::test[1]",
        "b.py::test",
        "a.py::test[2]",
        "a.py::test[3]",
        "a.py::test[4]",
        "a.py::pair[x]",
    ]
    items = [SimpleNamespace(nodeid=node) for node in nodes]
    assert [item.nodeid for item in sample(items)] == [
        "a.py::test[0]", "a.py::test[2]", "a.py::test[4]", "b.py::test", "a.py::pair[x]",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.full  # three processes for sixteen seconds; a group that is torn apart fails no lesson
def test_a_group_stays_on_one_worker(tmp_path):
    folder = tmp_path / "tests"
    folder.mkdir()
    for name in ("conftest.py", "groups.py"):
        shutil.copy(HERE / name, folder)
    body = "import pytest\n\n@pytest.mark.parametrize('n', range(8))\ndef test(n): pass\n"
    for name in "abcd":
        (folder / f"test_{name}.py").write_text(body)
    command = [sys.executable, "-m", "pytest", "-n", "2", "-v", "-p", "no:cacheprovider", "tests"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    lines = [line.split() for line in told.splitlines() if line.startswith("[gw")]
    workers = {(line[0], line[-1].partition("::")[0]) for line in lines}
    assert len(lines) == 32 and len(workers) == 4, told
    assert {worker for worker, _ in workers} == {"[gw0]", "[gw1]"}
