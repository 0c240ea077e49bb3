"""Running, cleaning, storing and measuring notebooks, on small notebooks of our own and on real kernels."""

import json
import re
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbval.plugin import get_sanitize_patterns

from course_lib.workshop.publish import blocks, execute, frames, limits_table, measured
from course_lib.workshop.publish.kernels import run
from course_lib.workshop.publish.normalise import KERNEL, WIDGET_VIEW, as_text, faults, normalise

BAR = " 40%|████      | 4/10 [00:01<00:02,  3.0it/s]"


def one_cell(*outputs, source="x", **metadata):
    return new_notebook(cells=[new_code_cell(source, outputs=list(outputs), metadata=metadata)])


def stream(text, name="stdout"):
    return new_output("stream", name=name, text=text)


def display(data, **metadata):
    return new_output("display_data", data=data, metadata=metadata)


def left(notebook):
    """The outputs that stand after cleaning."""
    return normalise(notebook).cells[0].outputs


# --- cleaning


def test_widgets_leave_their_still():
    notebook = one_cell(display({WIDGET_VIEW: {"model_id": "a"}, "text/html": "<b>still</b>", "text/plain": "p"}))
    notebook.metadata["widgets"] = {"state": {}}
    assert left(notebook)[0].data == {"text/html": "<b>still</b>", "text/plain": "p"}
    assert "widgets" not in notebook.metadata
    assert faults(notebook) == []


def test_a_control_without_a_still_is_refused():
    notebook = normalise(one_cell(display({WIDGET_VIEW: {"model_id": "a"}, "text/plain": "IntSlider()"})))
    assert ["without a still" in fault for fault in faults(notebook)] == [True]


@pytest.mark.parametrize(
    "output",
    [
        stream(f"\r{BAR}\r{BAR}\n", "stderr"),
        stream("\rsteps: 12it [00:03,  3.9it/s]", "stderr"),
        display({WIDGET_VIEW: {"model_id": "a"}, "text/plain": BAR}),
    ],
)
def test_progress_bars_are_dropped(output):
    assert left(one_cell(output)) == []


def test_text_beside_a_progress_bar_stays():
    assert left(one_cell(stream(f"start\n\r{BAR}\nend: 40% | done\n")))[0].text == "start\nend: 40% | done\n"


def test_a_warning_is_a_fault_that_names_its_cell():
    notebook = new_notebook(cells=[new_markdown_cell("a"), *one_cell(stream("look out\n", "stderr")).cells])
    assert faults(normalise(notebook)) == ["cell 2 (`x`) wrote a warning: look out"]


def test_pieces_of_a_stream_are_joined_where_they_stand():
    shown = left(one_cell(stream("a"), stream("b\n"), display({"text/plain": "p"}), stream("c\n")))
    assert [output.get("text") for output in shown] == ["ab\n", None, "c\n"]


def test_what_editors_leave_is_dropped_and_what_the_course_uses_stays():
    kept = {"slideshow": {"slide_type": "slide"}, "tags": ["figure"], "jupyter": {"source_hidden": True}}
    notebook = one_cell(**kept, execution={"t": "1"}, ExecuteTime={}, trusted=True, collapsed=False)
    notebook.metadata.update(kernelspec={"name": "mine"}, jupytext={}, language_info={"version": "3.13.1"})
    normalise(notebook)
    assert notebook.cells[0].metadata == kept
    assert notebook.metadata.kernelspec == KERNEL
    assert notebook.metadata.keys() == {"kernelspec", "language_info"}
    assert "version" not in notebook.metadata.language_info


def test_ids_stay():
    cells = [new_code_cell("a", id="mine"), new_markdown_cell("b", id="yours")]
    assert [cell.id for cell in normalise(new_notebook(cells=cells)).cells] == ["mine", "yours"]


def test_execution_counts_run_from_one():
    result = new_output("execute_result", data={"text/plain": "1"}, execution_count=41)
    cells = [new_markdown_cell("m"), new_code_cell("a", execution_count=7), *one_cell(result).cells]
    notebook = normalise(new_notebook(cells=cells))
    assert [cell.get("execution_count") for cell in notebook.cells] == [None, 1, 2]
    assert notebook.cells[2].outputs[0].execution_count == 2


def test_a_notebook_with_a_laboratory_folds_what_need_not_be_read():
    cells = [
        new_code_cell("import torch", id="setup"),
        new_code_cell("h = step(x)", metadata={"tags": ["exercise"]}),
        new_code_cell("draw()", metadata={"tags": ["figure"]}),
        new_code_cell("explore(draw)", metadata={"tags": ["control"], "jupyter": {"outputs_hidden": True}}),
        new_code_cell("taught()", metadata={"tags": ["figure"], "jupyter": {"source_hidden": False}}),
        new_code_cell("lay_out()", metadata={"jupyter": {"source_hidden": True}}),
        new_markdown_cell("![a](a.png)", metadata={"tags": ["figure"]}),
    ]

    def hidden(*more):
        notebook = normalise(nbformat.from_dict(new_notebook(cells=[*cells, *more])))
        return [cell.metadata.get("jupyter", {}).get("source_hidden") for cell in notebook.cells[: len(cells)]]

    assert hidden() == [None, None, None, None, False, True, None]
    assert hidden(new_markdown_cell("# Laboratory", metadata={"tags": ["laboratory"]})) == [
        True, None, True, True, False, True, None]  # fmt: skip


@pytest.mark.parametrize("path", measured.written(), ids=lambda path: path.stem)
def test_every_notebook_lies_in_its_stored_form(path):
    stored = path.read_text(encoding="utf-8")
    assert as_text(normalise(nbformat.reads(stored, 4))) == stored, "run `make notebooks`"


def test_cleaning_twice_changes_nothing():
    notebook = one_cell(stream("a"), display({"text/html": "h"}), execution={})
    once = as_text(normalise(notebook))
    assert as_text(normalise(nbformat.reads(once, 4))) == once
    assert once.endswith("}\n") and list(json.loads(once)) == sorted(json.loads(once))


# --- running and storing


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of its own: a notebooks folder and a README that nothing else uses."""
    folder = tmp_path / "a course" / "notebooks"
    folder.mkdir(parents=True)
    monkeypatch.setattr(measured, "NOTEBOOKS", folder)
    monkeypatch.setattr(measured, "MEASURED", folder / "measured.json")
    monkeypatch.setattr(blocks, "ROOT", folder.parent)
    monkeypatch.setattr(frames, "KEPT", folder.parent / "build" / "frames")
    return folder


def put(folder, name, *sources):
    path = folder / name
    path.write_text(as_text(new_notebook(cells=[new_code_cell(source) for source in sources])))
    return path


REPORT = """
from IPython.display import display
report = {"speed": {"value": 22.5, "unit": "steps a second"}}
display({"text/plain": "shown"}, raw=True, metadata={"unrolled": {"report": report}})
"""


@pytest.mark.slow
def test_a_notebook_is_stored_and_measured(course, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_SEED", "5")
    sources = [
        "import os\nfrom pathlib import Path\nprint(Path.cwd().name, os.environ.get('COURSE_SEED'))",
        "Path(os.environ['COURSE_HOME'], 'x').write_text('a home that can be written to')",
        "hold = bytearray(150 * 2**20); hold[::4096] = b'x' * len(hold[::4096]); del hold",
        REPORT,
    ]
    path = put(course, "01_a.ipynb", *sources)
    paper = course.parent / "README.md"
    paper.write_text("before\n<!-- made:minutes -->old<!-- /made -->\nafter\n")

    began = time.monotonic()
    assert execute.main([str(path)]) == 0
    took = time.monotonic() - began

    stored = nbformat.read(path, 4)
    assert stored.cells[0].outputs[0].text == "notebooks None\n"
    entry = measured.read()["01_a.ipynb"]
    assert entry["speed"] == 22.5 and "results" not in entry, "this lesson has no record"
    assert 150 < entry["peak_mb"] < 600, "memory that was given back counts too"
    assert 0 <= entry["seconds"] <= took + 1 and "core" in entry["machine"]
    readme = paper.read_text()
    assert "[01_a](notebooks/01_a.ipynb)" in readme and "old" not in readme
    assert readme.startswith("before\n<!-- made:minutes -->\n") and readme.endswith("<!-- /made -->\nafter\n")
    assert sorted(f.name for f in course.iterdir()) == ["01_a.ipynb", "measured.json"]


@pytest.mark.slow
@pytest.mark.full  # what is folded is said above, and that a run stores what it has made
def test_running_a_notebook_folds_it_and_keeps_what_is_folded(course):
    path = course / "05_a.ipynb"
    by_hand = new_code_cell("print(1)", metadata={"jupyter": {"source_hidden": True}})
    begin = new_markdown_cell("# Laboratory", metadata={"tags": ["laboratory"]})
    path.write_text(as_text(new_notebook(cells=[new_code_cell("x = 1", id="setup"), by_hand, begin])))
    assert execute.main([str(path)]) == 0
    stored = nbformat.read(path, 4)
    assert [cell.metadata for cell in stored.cells[:2]] == [{"jupyter": {"source_hidden": True}}] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise ValueError('no data')", "cell 2 (`raise ValueError('no data')`) raised ValueError: no data."),
        pytest.param("import warnings; warnings.warn('odd')", "wrote a warning", marks=pytest.mark.full),
        ("import os; os._exit(3)", "the kernel ended in cell 2"),
    ],
)
def test_a_notebook_that_fails_keeps_its_file(course, capsys, source, reason):
    path = put(course, "01_a.ipynb", "print('first')", source)
    before = path.read_bytes()
    assert execute.main([str(path)]) == 1
    told = capsys.readouterr().err
    assert told.startswith("01_a.ipynb is left as it was: ") and reason in told and told.count("\n") == 1
    assert path.read_bytes() == before
    assert measured.read() == {}


def test_a_wrong_name_is_said_in_words(course, capsys):
    assert execute.main(["nowhere.ipynb"]) == 2
    assert capsys.readouterr().err == "there is no notebook nowhere.ipynb: name one that exists, or none for all.\n"


@pytest.mark.parametrize("content", ["hello", "[1]", "{}", "[" * 100_000, '{"nbformat": 4, "cells": 3}'])
def test_what_is_no_notebook_is_said_in_words(course, capsys, content):
    path = course / "01_a.ipynb"
    path.write_text(content)
    assert execute.main([str(path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"{path} is no notebook that can be read (") and told.count("\n") == 1


# --- what was measured


ENTRY = {
    "seconds": 75,
    "peak_mb": 812,
    "machine": "2 cores, a processor, PyTorch 2",
}


def test_the_table_of_minutes_is_made_from_what_was_measured(course):
    put(course, "01_a.ipynb")
    measured.store("01_a.ipynb", ENTRY | {"peak_mb": 1812})
    text = blocks.filled("a <!-- made:minutes -->x<!-- /made --> b")
    assert "| [01_a](notebooks/01_a.ipynb) | 1.2 | 1,812 MB | | | |" in text.splitlines()
    assert "Measured on: 2 cores, a processor, PyTorch 2." in text.splitlines()
    assert text.startswith("a <!-- made:minutes -->\n") and text.endswith("\n<!-- /made --> b")
    assert blocks.filled(text) == text
    put(course, "02_b.ipynb")
    measured.store("02_b.ipynb", ENTRY)
    both = "| [01_a](notebooks/01_a.ipynb) | 1.2 | 1,812 MB | [02_b](notebooks/02_b.ipynb) | 1.2 | 812 MB |"
    assert both in blocks.filled(text).splitlines()


def test_a_block_of_another_name_is_refused():
    with pytest.raises(ValueError, match="no block `made:bits`; there are: map, minutes, limits"):
        blocks.filled("<!-- made:bits --><!-- /made -->")


def test_only_the_papers_whose_tables_are_old_are_written(course):
    for name, text in {"README.md": "<!-- made:limits --><!-- /made -->", "CONTRIBUTING.md": "words"}.items():
        (course.parent / name).write_text(text)
    assert blocks.refresh() == ["README.md"] and blocks.refresh() == []


def test_a_title_cell_tells_the_minutes_that_were_measured(course):
    path = put(course, "01_a.ipynb", "# *Run All:* 9 minutes on two CPU cores")
    measured.store(path.name, {"seconds": 71, "peak_mb": 500, "machine": "m"})
    assert blocks.refresh() == [path.name] and blocks.refresh() == []
    assert "*Run All:* 1.2 minutes on two CPU cores" in path.read_text()


# --- the tables of limits


def test_every_limit_is_told_with_its_reason_and_the_test_that_reads_it():
    told = limits_table.limits_tables()
    assert "| claims about this run, at least | 4 |" in told and "| 65 to 90 |" in told and "`utils`" in told
    rows = [line for line in told.splitlines() if line.startswith("| ") and "---" not in line and "| why |" not in line]
    named = {name for name in vars(limits_table.limits) if name.isupper()}
    assert len(rows) == len(named)
    assert all(re.search(r"\| \S.* \| (\w+\.py(, )?)+ \|$", row) for row in rows)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("# --- A\n\n# slides: so\nSLIDES = 14\nWORDS = 3", "limits.WORDS has no comment"),
        ("# --- A\n\n# slides, at most\nSLIDES = 14", "limits.SLIDES has no comment"),
    ],
)
def test_a_limit_without_a_reason_is_refused(source, complaint):
    with pytest.raises(ValueError, match=complaint):
        limits_table.limits_tables(source)


def test_a_notebook_that_is_gone_is_forgotten(course):
    for name in ("01_a.ipynb", "02_b.ipynb"):
        put(course, name)
        measured.store(name, ENTRY)
    (course / "01_a.ipynb").unlink()
    measured.store("02_b.ipynb", ENTRY)
    assert list(measured.read()) == ["02_b.ipynb"]


# --- comparing by nbval


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (BAR, " 90%|█████████ | 9/10 [00:03<00:00,  3.1it/s]"),
        ("12it [00:03,  3.9it/s]", "14it [00:04,  3.5it/s]"),
        ("<function f at 0x7f1367cdade0>", "<function f at 0x10a3b2c40>"),
        ("/tmp/ipykernel_12/3456.py:3", "/tmp/ipykernel_7/1.py:3"),
    ],
)
def test_what_varies_from_run_to_run_is_not_compared(first, second):
    assert sanitised(first) == sanitised(second)


@pytest.mark.parametrize("text", ["loss 0.25", "accuracy 40% | baseline 12%", "weight 0xff", "shape (3, 4)\n"])
def test_what_a_lesson_says_is_compared_as_it_is(text):
    assert sanitised(text) == text


def sanitised(text):
    """`text` after the replacements that nbval makes before it compares."""
    rules = Path(__file__).with_name("nbval_sanitize.cfg").read_text()
    for pattern, replacement in get_sanitize_patterns(rules):
        text = re.sub(pattern, replacement, text)
    return text


@pytest.mark.slow
def test_a_run_takes_this_python_whatever_else_is_called_python3(course, tmp_path, monkeypatch):
    import sys

    spec = tmp_path / "jupyter" / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": ["/bin/false"], "display_name": "Mine", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    result = run(put(course, "01_a.ipynb", "import sys; print(sys.prefix)"))
    assert result.failures == []
    assert result.notebook.cells[0].outputs[0].text == sys.prefix + "\n"
