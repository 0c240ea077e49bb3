"""A lesson is run once, by nbval in JupyterLab; and its tests there never go on from half of it."""

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from course_lib.show.frames import MIME

from .lab import ROOT
from .one_run import faults

LOOK = """
import pytest
from browser.one_run import KernelOfLab

@pytest.fixture(scope="module", params=["01_whole.ipynb", "02_fails.ipynb", "03_part.ipynb"])
def lesson(request, lab):
    yield request.param
    lab.end_kernels()

def test_in_lab(lab, lesson):
    sessions = lab.ask("GET", "api/sessions")
    shown = (lab.folder / "notebooks" / lesson).read_text()
    print("FOUND", lesson, lab.have_run, [session["path"] for session in sessions], '"execution_count": 3' in shown)
    for session in sessions:
        kernel = KernelOfLab.__new__(KernelOfLab)
        kernel._lab, kernel._id = lab, session["kernel"]["id"]
        client = kernel.client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        saw = lambda message: message["msg_type"] == "stream" and print("STATE", message["content"]["text"])
        client.execute_interactive(ASK, output_hook=saw, timeout=60)
        client.stop_channels()
        print("HOME", lab.home, "FOLDER", lab.folder / "notebooks")

ASK = "import os; print(x, os.environ['COURSE_HOME'], os.getcwd())"
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a run says of five small notebooks, three of which are looked at in JupyterLab."""
    course = tmp_path_factory.mktemp("course")
    browser, notebooks = course / "tests" / "browser", course / "notebooks"
    browser.mkdir(parents=True)
    notebooks.mkdir()
    for name in ("Makefile", "pyproject.toml", "tests/conftest.py", "tests/groups.py", "tests/nbval_sanitize.cfg"):
        shutil.copy(ROOT / name, course / name)
    for name in ("__init__.py", "conftest.py", "lab.py", "one_run.py"):
        shutil.copy(Path(__file__).with_name(name), browser)
    (browser / "test_look_in_lab.py").write_text(LOOK)
    ends = {"01_whole": "x", "02_fails": "y", "03_part": "x", "04_alone": "x", "05_differs": "x + 1"}
    for name, end in ends.items():
        output = new_output("execute_result", {"text/plain": "42"}, execution_count=7)
        last = new_code_cell(f"# NBVAL_CHECK_OUTPUT\n{end}", outputs=[output], execution_count=7)
        cells = [new_code_cell("x = 42"), new_code_cell("2 * x"), last]
        nbformat.write(new_notebook(cells=cells), notebooks / f"{name}.ipynb")
    chosen = ["--deselect=notebooks/03_part.ipynb::Cell 2", "tests", "notebooks"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--nbval-lax",
        "-v",
        "-s",
        "--color=no",
        "-p",
        "no:cacheprovider",
        *chosen,
    ]
    said = subprocess.run(command, cwd=course, capture_output=True, text=True).stdout
    return said


CANNOT = {"moved": "row", "to": "8", "says": "Pick a row.", "typed": False}


@pytest.mark.parametrize(
    ("output", "wrong"),
    [
        ({"metadata": {"unrolled": {"claim": "It learns", "holds": False}}}, "a claim does not hold: It learns"),
        ({"data": {MIME: {"tried": [CANNOT], "pictures": []}}}, "moved, row to '8', and drew nothing: Pick a row."),
        ({"data": {MIME: {"tried": [CANNOT | {"typed": True, "says": "&#x27;x&#x27;"}], "pictures": []}}}, "x&#x27;"),
        ({"data": {MIME: {"tried": [], "pictures": [{"says": "division by zero"}]}}}, "division by zero"),
        ({"metadata": {"unrolled": {"claim": "It learns", "holds": True}}}, None),
        (
            {"data": {MIME: {"tried": [CANNOT | {"typed": True}], "pictures": [{"says": "Too far."}, {"png": ""}]}}},
            None,
        ),
        ({"data": {"text/plain": "1"}, "metadata": {"unrolled": {"quiz": "a"}}}, None),
    ],
)
def test_a_cell_that_ran_may_show_what_is_wrong(output, wrong):
    found = faults([output])
    assert found == [] if wrong is None else wrong in found[0]


def line(told, start):
    """The end of the one line that begins, or goes on after a test's name, with `start`."""
    (found,) = [line.partition(start)[2] for line in told.splitlines() if start in line]
    return found.strip()


@pytest.mark.slow
def test_nbval_judges_as_ever(told):
    failed = [line.split(" - ")[0] for line in told.splitlines() if line.startswith("FAILED")]
    assert failed == ["FAILED notebooks/02_fails.ipynb::Cell 2", "FAILED notebooks/05_differs.ipynb::Cell 2"], told
    assert "2 failed, 15 passed, 1 deselected" in told
    assert "name 'y' is not defined" in told and "'42' == '43'" in told


@pytest.mark.slow
def test_the_kernel_of_a_whole_run_is_there_in_jupyterlab(told):
    assert line(told, "FOUND 01_whole.ipynb") == "{'01_whole.ipynb'} ['notebooks/01_whole.ipynb'] True", told


@pytest.mark.slow
def test_it_has_a_students_home_and_folder(told):
    home, folder = line(told, "HOME").split(" FOLDER ")
    assert line(told, "STATE 42") == f"{home} {folder}", told


@pytest.mark.slow
@pytest.mark.parametrize("name", ["02_fails", "03_part"])
def test_a_kernel_that_ran_less_is_ended(told, name):
    assert line(told, f"FOUND {name}.ipynb") == "set() [] False", told
