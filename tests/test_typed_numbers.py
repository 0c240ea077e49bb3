"""Measured numbers in prose: as they were measured, invisible in their source, and refused without one."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib.workshop.experiments import recorded
from course_lib.workshop.experiments.detr.core import rivals
from course_lib.workshop.experiments.gpt.core import with_examples
from course_lib.workshop.publish import measured
from course_lib.workshop.publish.typed_numbers import fill_notebook, filled

PAGES = [*measured.ROOT.glob("*.md"), *(measured.ROOT / "course_lib" / "workshop" / "publish" / "pages").glob("*.md")]


@pytest.mark.parametrize("path", measured.written(), ids=lambda path: path.stem)
def test_the_numbers_in_a_notebooks_prose_are_those_that_were_measured(path):
    notebook = nbformat.read(path, 4)
    before = [cell.source for cell in notebook.cells]
    fill_notebook(notebook)
    assert [cell.source for cell in notebook.cells] == before, "run `make notebooks`"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_numbers_on_a_page_are_those_that_were_measured(path):
    text = path.read_text(encoding="utf-8")
    assert filled(text) == text


def test_a_number_is_written_with_the_decimals_that_stand_there():
    variant = dict(task="capitals", n=8, show="right answers")
    runs = recorded(with_examples).numbers("exact", **variant)
    source = "<!-- gpt.with_examples:exact task=capitals n=8 show=right answers -->"
    assert filled(f"It is 0.00{source}.") == f"It is {runs.mean:.2f}{source}."
    assert filled(f"It is 0.1 %{source}.") == f"It is {100 * runs.mean:.1f} %{source}."
    least = source.replace("exact", "exact least")
    assert filled(f"0.000{least}") == f"{runs.least:.3f}{least}"
    runs = recorded(rivals).numbers("crowded duplicates", crowded=False, detector="DETR")
    spaces = "<!-- detr.rivals:crowded duplicates least crowded=False detector=DETR -->"
    assert filled(f"0.00{spaces}") == f"{runs.least:.2f}{spaces}", "a key may hold spaces"
    assert (
        filled("0.37 and 5 <!-- a comment of another kind --> stay")
        == "0.37 and 5 <!-- a comment of another kind --> stay"
    )


def test_a_number_is_read_from_the_notebooks_own_reports():
    data = {"unrolled": {"report": {"model": {"value": {"weights": {"ours": 1234567}}, "unit": ""}}}}
    output = new_output("display_data", {"text/plain": ""}, metadata=data)
    text = new_markdown_cell("It has 1<!-- report: model; weights; ours --> weights.")
    notebook = new_notebook(cells=[text, new_code_cell("report()", outputs=[output])])
    fill_notebook(notebook)
    assert notebook.cells[0].source == "It has 1,234,567<!-- report: model; weights; ours --> weights."


@pytest.mark.parametrize(
    "source",
    [
        "gpt.nothing:exact",
        "nowhere.nothing:x",
        "gpt.with_examples:nothing task=capitals",
        "gpt.with_examples:exact task=none",
        "report: nothing; x",
        "a word",
    ],
)
def test_a_source_that_does_not_exist_is_refused_in_words(source):
    with pytest.raises(ValueError, match=f"<!-- {source}"):
        filled(f"0.3<!-- {source} -->", new_notebook())
