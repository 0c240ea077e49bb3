"""A lesson that is added as the README says is everywhere by that alone: the map, the board, the checks, the pages.

It is lesson 17, in a copy of the course, so that nothing may count on how many lessons there are.
"""

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib.lesson.syllabus import LESSONS, Lesson
from course_lib.publish.normalise import as_text, normalise

ROOT = Path(__file__).resolve().parents[1]
NAME = "17_looking_inside"
ENTRY = (
    '    Lesson(17, "looking_inside", "Looking inside", "What has a network learned, and where?",\n'
    '           ("vision/saliency.py",)),\n'
)
CONCEPT = '''\
"""Saliency: how strongly each input moves an output."""

import torch


def saliency(inputs: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """The size of the gradient of `output` with respect to `inputs`, whose shape it has."""
    return torch.autograd.grad(output.sum(), inputs)[0].abs()
'''
TEST = """\
import torch

from course_lib.vision.saliency import saliency


def test_the_slope_of_a_line():
    x = torch.ones(2, requires_grad=True)
    assert saliency(x, -3 * x).tolist() == [3, 3]
"""
EXERCISES = '''\
"""Lesson 17: what to look at first."""

from course_lib.exercises import Exercise, questions


def my_saliency_slope():
    return 3.0


def near_three(answer):
    return None if answer == 3 else "The slope of 3 x is the same everywhere, and it is another number."


EXERCISES = [
    Exercise(check=near_three, hints=("Take the derivative.", "It is a line."), solution=my_saliency_slope, value=True,
             mistakes=((6.0, "That is twice the slope."), (1.0, "That is the slope of x."))),
]
QUIZ = questions("""
    inside: What does saliency measure?
    + how strongly an input moves an output
      Yes: it is a gradient.
    - how large an input is
      A large input may move nothing.
""")
'''
TITLE = """\
# 17 · Looking inside

**What has a network learned, and where?**

Afterwards you can say which input moved an output.

*You need:* lesson 01. *Run All:* 0.1 minutes on two CPU cores; not yet measured on a GPU."""
SPOKEN = """\
<details><summary>For the instructor</summary>

**Say.** Look.

**Ask.** Where? *Expected:* here.

**Misunderstanding.** It is everywhere.

**Minutes.** 50

</details>"""
CLAIM = {"unrolled": {"claim": "it looks", "holds": True, "values": []}}
# What is looked at in the copy: each line is true, or the sentence of whoever made it false.
LOOK = """
    from pathlib import Path
    from course_lib.lesson import progress
    from course_lib.publish import execute, measured, site, slides
    import sys, types
    sys.modules["tests"] = types.ModuleType("tests")  # an installed package is called so too, and would be found first
    sys.modules["tests"].__path__ = ["tests"]
    from tests import groups
    from tests.browser.test_lessons_in_lab import WRITTEN

    notebook, build = measured.NOTEBOOKS / "17_looking_inside.ipynb", Path("build")
    entry = {"seconds": 6, "peak_mb": 300, "machine": measured.machine(), "report": {}}
    measured.store(notebook.name, entry)
    execute.refresh_readme()
    row = next(line for line in measured.README.read_text().splitlines() if line.startswith("| [17 Looking inside]"))
    for link in ("notebooks/17_looking_inside.ipynb", "course_lib/vision/saliency.py", "tests/test_saliency.py",
                 "course_lib/exercises/looking_inside.py", "tests/test_exercises.py"):
        assert f"]({link})" in row, row
    assert groups.group_of("notebooks/17_looking_inside.ipynb::Cell 0") == "lesson 17_looking_inside"
    in_lab = groups.group_of("tests/browser/test_lessons_in_lab.py::test_it_runs_to_its_end[17_looking_inside]")
    assert in_lab == "lesson 17_looking_inside" and WRITTEN[-1] == notebook.name
    assert site.build([notebook], build / "html") == []
    assert "17 · Looking inside" in (build / "html" / "index.html").read_text()
    assert [deck.name for deck in slides.build([notebook], build / "slides")] == ["17_looking_inside.slides.html"]
    progress()
"""


def lesson_17():
    """Its notebook as it is stored: executed, with notes, a claim and five outputs that are compared."""
    say = {"slideshow": {"slide_type": "notes"}}
    cells = [
        new_markdown_cell(TITLE, id="title", metadata={"slideshow": {"slide_type": "slide"}}),
        new_markdown_cell(SPOKEN, id="title-notes", metadata=say),
    ]
    for n in range(5):
        output = new_output("stream", text=f"{n}\n", name="stdout")
        cells.append(new_code_cell(f"# NBVAL_CHECK_OUTPUT\nprint({n})", id=f"print-{n}", outputs=[output]))
    output = new_output("display_data", {"text/plain": "✓ it looks"}, metadata=CLAIM)
    cells.append(new_code_cell('claim("it looks", True)', id="claim", outputs=[output]))
    return normalise(new_notebook(cells=cells))


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of the course with a lesson 17."""
    copy = tmp_path_factory.mktemp("course")
    for name in ("course_lib", "tests", "notebooks"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    syllabus = copy / "course_lib" / "lesson" / "syllabus.py"
    before, end, after = syllabus.read_text(encoding="utf-8").partition("\n)\n\n\ndef concepts")
    syllabus.write_text(f"{before}\n{ENTRY}{end.lstrip()}{after}", encoding="utf-8")
    vision = copy / "course_lib" / "vision"
    (vision / "saliency.py").write_text(CONCEPT)
    exports = (vision / "__init__.py").read_text(encoding="utf-8").replace("__all__ = [", '__all__ = ["saliency", ')
    (vision / "__init__.py").write_text(f"{exports}\nfrom course_lib.vision.saliency import saliency  # noqa: E402\n")
    (copy / "course_lib" / "exercises" / "looking_inside.py").write_text(EXERCISES)
    (copy / "tests" / "test_saliency.py").write_text(TEST)
    (copy / "notebooks" / f"{NAME}.ipynb").write_text(as_text(lesson_17()), encoding="utf-8")
    return copy


def run(course, *command):
    """A Python command in the copy; what it printed."""
    done = subprocess.run([sys.executable, *command], cwd=course, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_lesson_17_is_everywhere(course):
    board = run(course, "-c", textwrap.dedent(LOOK))
    assert "17  Looking inside" in board and "○ 0/1" in board.splitlines()[-1]
    files = ["layering", "title_cells", "notebooks", "slides", "exercises", "saliency"]
    chosen = "17_ or saliency or looking or slope or readme or shelf or short or differ or only_existing"
    told = run(course, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen,
               *(f"tests/test_{name}.py" for name in files))  # fmt: skip
    assert " passed" in told and "skipped" not in told


# --- the map in the first notebook


def map_of(lessons):
    """The figure that the first notebook draws of these lessons."""
    notebook = nbformat.read(ROOT / "notebooks" / LESSONS[0].notebook, as_version=4)
    source = {cell.id: cell.source for cell in notebook.cells}
    known = {}
    exec(source["setup"].replace("%matplotlib inline", ""), known)
    known |= {"LESSONS": lessons, "picture": lambda fig, alt: None}  # the figure itself, not yet stored and closed
    exec(source["map-figure"], known)
    return known["fig"]


@pytest.mark.parametrize("count", [3, 9, 10, 17, 20])
def test_the_map_is_drawn_for_any_number_of_lessons(count):
    """Every name lies inside its box, no two texts touch, and all lie on the paper."""
    more = [Lesson(n, f"more_{n}", "A title that is rather long", LESSONS[2].question) for n in range(len(LESSONS), 21)]
    fig = map_of([*LESSONS, *more][: count + 1])
    (ax,) = fig.axes
    FigureCanvasAgg(fig).draw()
    paper = fig.bbox
    texts = [text.get_window_extent(fig.canvas.get_renderer()) for text in ax.texts]
    boxes = [patch.get_window_extent() for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    plt.close(fig)
    assert len(boxes) == count and len(texts) == 2 * count
    for box, name, question in zip(boxes, texts[::2], texts[1::2], strict=True):
        assert box.x0 < name.x0 and name.x1 < box.x1 and box.y0 < name.y0 and name.y1 < box.y1
        assert paper.x0 <= question.x0 and question.x1 <= paper.x1 and paper.y0 <= question.y0 < question.y1 < box.y0
    parts = [*boxes, *texts[1::2]]
    touching = [(a, b) for i, a in enumerate(parts) for b in parts[:i] if a.overlaps(b)]
    assert touching == []


def test_the_course_as_stored_is_the_course_as_listed():
    """Every notebook is a lesson of the list: no check passes one by."""
    listed = {lesson.notebook for lesson in LESSONS}
    assert {path.name for path in (ROOT / "notebooks").glob("*.ipynb")} <= listed
    assert json.loads((ROOT / "notebooks" / "measured.json").read_text(encoding="utf-8")).keys() <= listed
