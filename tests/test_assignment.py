"""A lesson's exercises as an assignment for nbgrader: what it holds, and nbgrader's own commands on submissions."""

import csv
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course_lib.lesson import check, graded
from course_lib.lesson.sources import source_of
from course_lib.lesson.syllabus import LESSONS
from course_lib.workshop.exercises import all_exercises, all_investigations, find
from course_lib.workshop.publish import assignment
from course_lib.workshop.publish.measured import NOTEBOOKS

ASKED = {exercise.lesson for exercise in all_exercises()}
WRITTEN = [one for one in LESSONS if (NOTEBOOKS / one.notebook).exists() and one.slug in ASKED]
NBGRADER = Path(sys.prefix) / "nbgrader" / "bin" / "nbgrader"


@pytest.fixture(scope="module", params=WRITTEN, ids=lambda lesson: lesson.slug)
def lesson(request):
    return request.param


@pytest.fixture(scope="module")
def made(lesson, tmp_path_factory):
    folder = tmp_path_factory.mktemp("course")
    path = assignment.write(f"{lesson.number:02d}", folder)
    assert path == folder / "source" / path.stem / lesson.notebook
    return nbformat.read(path, as_version=4)


def told(cell):
    return cell.metadata["nbgrader"]


def test_each_exercise_has_an_answer_and_a_check_and_the_open_question_a_person(made, lesson):
    nbformat.validate(made)
    names = [told(cell)["grade_id"] for cell in made.cells]
    assert len(set(names)) == len(names)
    tests = [cell for cell in made.cells if told(cell)["grade"] and cell.cell_type == "code"]
    asked = [exercise.name for exercise in all_exercises() if exercise.lesson == lesson.slug]
    assert sorted(re.search(r'^graded\("(\w+)", \1\)$', cell.source, re.M)[1] for cell in tests) == sorted(asked)
    for cell in tests:
        assert told(cell)["points"] == 1 and told(cell)["locked"] and not told(cell)["solution"]
        shown = re.sub(r"### BEGIN HIDDEN TESTS.*### END HIDDEN TESTS", "", cell.source, flags=re.DOTALL)
        assert "graded" in cell.source and "graded" not in shown and shown.startswith("check(")
    opened = [cell for cell in made.cells if told(cell)["grade"] and cell.cell_type == "markdown"]
    assert len(opened) == sum(one.lesson == lesson.slug for one in all_investigations())
    answers = [cell for cell in made.cells if told(cell)["solution"] and not told(cell)["grade"]]
    assert len(answers) == len(asked) and not any("check(" in cell.source for cell in answers)
    assert all(told(cell)["locked"] != told(cell)["solution"] for cell in made.cells)


def test_every_name_in_it_is_there(made):
    """A lesson's exercises lean on its imports, and on nothing that other cells of the lesson have made."""
    code = "\n\n".join(cell.source for cell in made.cells if cell.cell_type == "code").replace("%matplotlib", "#")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "-"]
    found = subprocess.run(command, input=code, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


@pytest.mark.slow
def test_what_check_calls_right_the_grader_calls_right_and_nothing_else(lesson, capsys):
    for exercise in (one for one in all_exercises() if one.lesson == lesson.slug):
        right = exercise.solution() if exercise.value else students(exercise.solution)
        wrong = exercise.mistakes[0][0]
        graded(exercise.name, right)
        with pytest.raises(AssertionError) as raised:
            graded(exercise.name, wrong if exercise.value else students(wrong))
        check(exercise.name, right)
        check(exercise.name, wrong if exercise.value else students(wrong))
        said = capsys.readouterr().out
        assert said.startswith(f"✓ {exercise.name}: right") and f"✗ {exercise.name}: not right yet" in said
        assert str(raised.value).removeprefix(f"{exercise.name}: ") in said


def students(function):
    """The function as a student's own: the course's is not taken for an answer."""

    def answer(*arguments, **named):
        return function(*arguments, **named)

    answer.__signature__ = inspect.signature(function)
    return answer


def test_a_wrong_answer_raises_with_the_checks_own_sentence():
    exercise = find("my_step")
    wrong, said = exercise.mistakes[0]
    with pytest.raises(AssertionError, match="^my_step: ") as raised:
        graded("my_step", students(wrong))
    assert said in str(raised.value)
    with pytest.raises(AssertionError, match="not attempted"):
        graded("my_step", ...)


def test_what_cannot_be_an_assignment_is_said(tmp_path, capsys, monkeypatch):
    assert assignment.main(["77"]) == 2
    assert "there is no lesson '77': name one of 00, 01" in capsys.readouterr().err
    monkeypatch.setattr(assignment, "all_exercises", lambda: [])
    assert assignment.main(["00"]) == 2 and "start_here has no exercises" in capsys.readouterr().err
    empty = new_notebook(cells=[new_markdown_cell("# A"), new_code_cell("1")])
    with pytest.raises(ValueError, match="lesson no_such has no exercises"):
        assignment.assignment(empty, "no_such")
    assert not list(tmp_path.iterdir())


# --- nbgrader itself

NAME = "01_rnn_bptt"


@pytest.fixture(scope="module")
def graders(tmp_path_factory):
    """A course in which nbgrader has released lesson 01, and runs: graders(command, ...) -> what it printed."""
    if not NBGRADER.exists():
        pytest.skip("nbgrader is not installed: make nbgrader LESSON=01")
    folder = tmp_path_factory.mktemp("class")
    assignment.write("01", folder)
    home = tmp_path_factory.mktemp("home")
    path = f"{NBGRADER.parent}{os.pathsep}{os.environ['PATH']}"  # nbgrader calls commands that came with it
    own = {"HOME": str(home), "PATH": path, "JUPYTER_CONFIG_DIR": str(home / "config"), "IPYTHONDIR": str(home)}
    environment = os.environ | own

    def run(*command):
        done = subprocess.run([NBGRADER, *command], cwd=folder, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    run.folder = folder
    code, said = run("generate_assignment", NAME)
    assert code == 0, said
    return run


def hand_in(graders, student, answers):
    """Put a submission where nbgrader collects: the released notebook with these answers, by cell; or bytes."""
    path = graders.folder / "submitted" / student / NAME / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True)
    if isinstance(answers, bytes):
        return path.write_bytes(answers)
    notebook = nbformat.read(graders.folder / "release" / NAME / f"{NAME}.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = answers.get(cell.id, cell.source)
    nbformat.write(notebook, path)


def solutions():
    """The right answers of lesson 01, by cell, under the names that students give them."""
    released = assignment.assignment(nbformat.read(NOTEBOOKS / f"{NAME}.ipynb", as_version=4), "rnn_bptt")
    found = {}
    for cell, after in zip(released.cells, released.cells[1:], strict=False):
        if told(cell)["solution"] and not told(cell)["grade"]:
            name = re.search(r'graded\("(\w+)"', after.source)[1]
            code = source_of(find(name).solution)
            found[cell.id] = code.replace(f"def {find(name).solution.__name__}(", f"def {name}(", 1)
    return found


def points_of(graders):
    """What nbgrader exports of each student."""
    code, said = graders("export", "--to", "grades.csv")
    assert code == 0, said
    with open(graders.folder / "grades.csv") as file:
        return {row["student_id"]: float(row["raw_score"] or 0) for row in csv.DictReader(file)}


@pytest.mark.slow
def test_nbgrader_releases_collects_grades_and_exports(graders):
    """One submission and a file that is none; what hostile answers do, and the feedback, belong to `make test-all`."""
    released = (graders.folder / "release" / NAME / f"{NAME}.ipynb").read_text()
    assert "graded(" not in released and "HIDDEN" not in released and "check(my_step)" in released
    part = dict(list(solutions().items())[:2]) | {"exercise-clip": CLIPS_NOTHING}
    hand_in(graders, "ben", part)
    hand_in(graders, "sam", b"this is no notebook")
    code, said = graders("autograde", NAME)
    assert code != 0 and "sam" in said, "what is no notebook is told, and the others are graded all the same"
    assert points_of(graders)["ben"] == 2


CLIPS_NOTHING = "def my_clip(grads, max_norm):\n    return grads"


@pytest.mark.slow
@pytest.mark.full  # a minute, most of it waiting for what never ends
def test_nbgrader_grades_what_is_right_and_what_is_hostile_and_gives_feedback(graders):
    right = solutions()
    assert len(right) == 6
    part = dict(list(right.items())[:2]) | {"exercise-clip": CLIPS_NOTHING}
    cells = list(right)
    hostile = right | {
        cells[0]: "while True:\n    pass",
        cells[1]: "def my_bptt(x, h0, w_x, w_h, b, grad_hs):\n    while True: pass",
        cells[2]: "exit()",
        cells[3]: "for n in range(100_000):\n    print('much', n)",
        cells[4]: "import sys\ndef mended_streams(ids, batch, chunk):\n    sys.exit(0)",
    }
    hand_in(graders, "ada", right)
    hand_in(graders, "bob", part)
    hand_in(graders, "eve", hostile)
    graders("autograde", NAME, "--Execute.timeout=20")
    code, said = graders("generate_feedback", NAME)
    assert (graders.folder / "feedback" / "ada" / NAME / f"{NAME}.html").exists(), said
    points = points_of(graders)
    assert {name: points[name] for name in ("ada", "bob", "eve")} == {"ada": 6, "bob": 2, "eve": 1}
    for student in ("ada", "bob", "eve"):
        page = graders.folder / "feedback" / student / NAME / f"{NAME}.html"
        assert page.stat().st_size < 2_000_000, "much was printed"
    # What a student reads is the check's own sentence.
    assert "my_clip" in (graders.folder / "feedback" / "bob" / NAME / f"{NAME}.html").read_text()
