"""`python -m course_lib.workshop.publish.assignment 04`: a lesson's exercises as an assignment for nbgrader.

build/nbgrader/ then is a course folder of nbgrader's: source/04_attention_alignment/ with the notebook, and the
settings in nbgrader_config.py, which are left alone where they are there already. Each exercise has a cell for the
answer and a cell for the grader, which calls the exercise's own check: what passes for the student passes for the
grader. The open question has a cell that a person grades, with its rubric. An older version of the assignment is
replaced when the new one is whole; other assignments stay.
"""

import argparse
import re
import shlex
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course_lib.data.beside import write_beside
from course_lib.lesson.syllabus import LESSONS
from course_lib.workshop.exercises import all_exercises, all_investigations
from course_lib.workshop.publish import measured
from course_lib.workshop.publish.normalise import KERNEL, LANGUAGE, as_text
from course_lib.workshop.publish.parts import SETUP

BUILD = measured.ROOT / "build" / "nbgrader"
POINTS, OPEN_POINTS = 1, 5  # of an exercise, and of the open question
CHECK = re.compile(r"^check\(.*\)$", re.MULTILINE)
MARKS = re.compile(r"^# NBVAL_\w+\n", re.MULTILINE)
OPENING = """\
# {title}

The exercises of the lesson. Write each answer in its cell, run it and the cell below, and read what the check says:
`hint("its name")` helps. Nothing else in this notebook may be changed. The grader runs all cells in order with the same
check: what it calls right here is right there. A cell that does not end is stopped after {seconds} seconds, and its
points are lost.
"""
STAYS = "import sys\nexit = quit = sys.exit  # IPython's own would end the kernel that grades"
SECONDS = 60  # of a cell, when it is graded
CONFIG = '''\
"""Settings for nbgrader, made by the course: grade in this folder, a cell for {seconds} seconds at most."""

import os
import tempfile

# What a submission solves is not the grader's own progress.
os.environ["COURSE_HOME"] = tempfile.mkdtemp(prefix="unrolled-grader-")

c = get_config()
c.CourseDirectory.course_id = "unrolled"
c.CourseDirectory.root = os.path.dirname(os.path.abspath(__file__))
c.Execute.timeout = {seconds}
c.Execute.interrupt_on_timeout = True
c.Execute.raise_on_iopub_timeout = False
c.LimitOutput.max_lines = 200
'''


def assignment(notebook: NotebookNode, slug: str) -> NotebookNode:
    """The source notebook for nbgrader of a lesson's notebook. Raises ValueError for a lesson without exercises."""
    title = notebook.cells[0].source.partition("\n")[0].removeprefix("# ")
    cells = [_locked(new_markdown_cell(OPENING.format(title=title, seconds=SECONDS)), "title")]
    setup = next((cell for cell in notebook.cells if cell.id == SETUP), None)
    if setup is not None:
        cells.append(_locked(new_code_cell(f"{setup.source}\n\n{STAYS}"), SETUP))
    asked = {exercise.name: exercise for exercise in all_exercises() if exercise.lesson == slug}
    if not asked:
        raise ValueError(f"lesson {slug} has no exercises, so there is nothing to grade.")
    for place, cell in enumerate(notebook.cells):
        if "exercise" in cell.metadata.get("tags", []):
            cells += [_locked(_copy(before), before.id) for before in _above(notebook.cells, place)]
            cells += _exercise(cell, asked)
    for one in all_investigations():
        if one.lesson == slug:
            cells += _open(one)
    return new_notebook(cells=cells, metadata={"kernelspec": KERNEL, "language_info": LANGUAGE})


def _above(cells, place):
    """What an exercise says of itself: the cells above its own, from its heading on."""
    start = place
    while start > 0 and not cells[start].source.startswith("### Exercise"):
        start -= 1
    return cells[start:place]


def _exercise(cell, asked):
    """The cell for an answer, as the lesson has it, and the cell that checks it.

    `check` tells a student what is wrong and never raises; `graded`, hidden from students, gives the same verdict and
    raises where it is not "right", which is how nbgrader takes the point away.
    """
    call = CHECK.search(cell.source)[0]
    name = next(name for name in asked if re.search(rf"\b{name}\b", call))
    hidden = f'graded("{name}", {name})'
    test = "\n".join([
        call, "### BEGIN HIDDEN TESTS", "from course_lib.lesson import graded", hidden, "### END HIDDEN TESTS",
    ])  # fmt: skip
    answer = new_code_cell(CHECK.sub("", MARKS.sub("", cell.source)).strip())
    return [
        _marked(answer, cell.id, solution=True),
        _marked(new_code_cell(test), f"{cell.id}-check", grade=True, locked=True, points=POINTS),
    ]


def _open(one):
    """An open question with its rubric, and the cell that a person grades."""
    rubric = "\n".join(f"- {sentence}" for sentence in one.rubric)
    asked = f"### Investigate\n\n{one.question}\n\n{rubric}\n\nWork in the lesson's notebook, and report here."
    answer = new_markdown_cell("What I varied and what I held, what I expected, what I measured, what I conclude:")
    return [
        _locked(new_markdown_cell(asked), f"{one.name}-rubric"),
        _marked(answer, one.name, grade=True, solution=True, points=OPEN_POINTS),
    ]


def _copy(cell):
    kind = new_markdown_cell if cell.cell_type == "markdown" else new_code_cell
    return kind(MARKS.sub("", cell.source))


def _locked(cell, name):
    return _marked(cell, name, locked=True)


def _marked(cell, name, *, grade=False, solution=False, locked=False, points=None):
    """The cell as nbgrader knows it: read-only, an answer, a test with points, or an answer that a person grades."""
    told = {"grade": grade, "solution": solution, "locked": locked, "task": False, "schema_version": 3}
    cell.metadata["nbgrader"] = told | {"grade_id": name, "cell_type": cell.cell_type}
    if points is not None:
        cell.metadata["nbgrader"]["points"] = points
    cell.id = name
    return cell


def write(number: str, folder: Path = BUILD) -> Path:
    """Write the assignment of lesson `number` ("04") into the course folder, and return the notebook's path.

    Raises ValueError for a lesson that is not there, or has nothing to grade.
    """
    lesson = next((one for one in LESSONS if number in (f"{one.number:02d}", str(one.number))), None)
    path = measured.NOTEBOOKS / lesson.notebook if lesson else None
    if path is None or not path.is_file():
        here = ", ".join(f"{one.number:02d}" for one in LESSONS if (measured.NOTEBOOKS / one.notebook).is_file())
        raise ValueError(f"there is no lesson {number!r}: name one of {here}.")
    made = assignment(nbformat.read(path, as_version=4), lesson.slug)
    target = folder / "source" / path.stem / path.name
    write_beside(target, as_text(made))
    if not (folder / "nbgrader_config.py").exists():  # a teacher may have added to it
        write_beside(folder / "nbgrader_config.py", CONFIG.format(seconds=SECONDS))
    return target


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if the assignment was written, 2 if there is none to write."""
    parser = argparse.ArgumentParser(prog="course_lib.workshop.publish.assignment", description=__doc__)
    parser.add_argument("lesson", help="the lesson's number, for example 04")
    options = parser.parse_args(arguments)
    try:
        path = write(options.lesson)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    activate, there = (shlex.quote(str(one)) for one in (Path(sys.prefix) / "nbgrader" / "bin" / "activate", BUILD))
    print(f"{path.relative_to(measured.ROOT)} is written. Its students' version, with nbgrader:")
    print(f"  . {activate} && cd {there} && nbgrader generate_assignment {path.parent.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
