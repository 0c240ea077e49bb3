"""All that a lesson does besides teaching, in a real kernel."""

import pytest

from course_lib.lesson.sources import ROOT


@pytest.mark.slow
def test_in_a_notebook_each_output_carries_its_data_and_no_cell_stops():
    import nbformat
    from nbclient import NotebookClient

    cells = [
        "from course_lib.lesson import *\nfrom course_lib.recurrent.rnn import rnn_step",
        "claim('two is small', 2, '<', 3)\nreport('size', 2)\nshow_source(rnn_step)\nprogress()",
        "quiz('sharing')\nhint('my_step')\nsolution('my_step')",
        "def my_step(x, h, w_x, w_h, b):\n    ...\ncheck(my_step)",
        "def my_step(x, h, w_x, w_h, b):\n    y = x @ h\n    return y\ncheck(my_step)",
        "def my_step(x, h, w_x, w_h, b):\n    while True: pass\n"
        "import course_lib.workshop.exercises as e\nfrom dataclasses import replace\n"
        "check(my_step, among=[replace(e.find('my_step'), seconds=0.3)])",
        "claim('two is large', 2, '>', 3)\nclaims()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": ROOT}}).execute()
    nbformat.validate(notebook)

    records = [[output.metadata.unrolled for output in cell.outputs if "metadata" in output] for cell in notebook.cells]
    assert [list(record)[0] for record in records[1]] == ["claim", "report", "source", "progress"]
    assert [list(record)[0] for record in records[2]] == ["quiz", "hint", "solution"]
    assert [records[i][0]["verdict"] for i in (3, 4, 5)] == ["not attempted", "error", "unfinished"]
    assert "in line 2, `y = x @ h`" in notebook.cells[4].outputs[0].data["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in notebook.cells[2].outputs[0].data
    assert records[6][0]["holds"] is False
    assert notebook.cells[6].outputs[1].text == "1 of 2 claims hold in this run\n✗ two is large\n"
