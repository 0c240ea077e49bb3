"""Lessons after the first in JupyterLab: each runs to its end, its controls move, its answers count.

Lesson 01 is looked at more closely, in test_lab_01_rnn_bptt.py, and always run by "Run All Cells". `make test` drives
these three: between them they have every kind of cell. The others belong to `make test-all`; where they run under
nbval alone, one_run.py looks at what their controls draw, and at their claims.
"""

import ast
import json
import re

import pytest
from groups import DRIVEN

from course_lib.lesson.sources import source_of
from course_lib.lesson.syllabus import LESSONS
from course_lib.workshop.exercises import all_exercises
from course_lib.workshop.publish import frames

from .lab import ROOT
from .reader import move_without_a_kernel
from .student import after_its_run, answer, move_to_both_ends, right_and_wrong, unfinished

pytestmark = pytest.mark.timeout(900)

WRITTEN = [lesson.notebook for lesson in LESSONS if (ROOT / "notebooks" / lesson.notebook).exists()]

LATER = [pytest.param(name, marks=[] if name in DRIVEN else pytest.mark.full) for name in WRITTEN[2:]]
# What answers in JupyterLab, by the function that a cell calls.
ANSWER = {"check", "quiz", "investigate", "own_parts", "progress", "report", "live"}
AXES = {5: "slider", 3: "menu", 2: "text"}


@pytest.fixture(scope="module", params=LATER, ids=lambda name: name.removesuffix(".ipynb"))
def lesson(request, lab, chromium):
    """A lesson after its run; `errors` are those of its page."""
    with after_its_run(lab, chromium, request.param) as notebook:
        yield notebook


def tagged(lesson, tag):
    return [name for name, cell in lesson.cells.items() if tag in cell["metadata"].get("tags", ())]


def source_in(lesson, name):
    return "".join(lesson.cells[name]["source"])


def slug(lesson):
    return lesson.path.stem.partition("_")[2]


def counted(lesson):
    """What the board says of this lesson: (done, of all) for exercises and for questions."""
    row = next(line for line in lesson.run("progress").splitlines() if line.startswith(lesson.path.name[:2]))
    exercises, questions = re.findall(r"(\d+)/(\d+)", row)
    return exercises, questions


def kinds(cell):
    """All that a cell of a notebook is to JupyterLab: its slide, its tags, its outputs, and what in it answers."""
    found = {(cell["cell_type"], cell["metadata"].get("slideshow", {}).get("slide_type"))}
    found |= {("tag", tag) for tag in cell["metadata"].get("tags", []) if not tag.startswith("nbval")}
    for output in cell.get("outputs", []):
        found |= {(output["output_type"], *sorted(output.get("data", {})))}
    if cell["cell_type"] == "code":
        code = "\n".join(line for line in "".join(cell["source"]).splitlines() if not line.startswith("%"))
        for call in (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)):
            name = call.func.id if isinstance(call.func, ast.Name) else None
            if name == "explore":
                found |= {("control", AXES[len(keyword.value.elts)]) for keyword in call.keywords}
            elif name in ANSWER:  # what is judged may be a function, or a value by its name
                found.add(("call", name, name == "check" and isinstance(call.args[0], ast.Constant)))
    return found


def test_the_three_lessons_have_every_kind_of_cell():
    """What JupyterLab does with one kind of cell is seen in one lesson; they were chosen for being quick, too.

    Given up is what goes wrong in JupyterLab with one lesson alone. How its own cells run and draw, nbval says.
    """
    of = {}
    for name in WRITTEN:
        cells = json.loads((ROOT / "notebooks" / name).read_text(encoding="utf-8"))["cells"]
        of[name] = set().union(*map(kinds, cells))
    missing = set().union(*of.values()) - set().union(*(of[name] for name in DRIVEN))
    assert not missing, {kind: [name for name in of if kind in of[name]] for kind in missing}


def test_it_runs_to_its_end(lesson):
    assert unfinished(lesson) == []
    assert lesson.errors == []


def test_every_control_moves_to_both_ends(lesson, record_property):
    controls = tagged(lesson, "control")
    assert len(controls) >= 2
    for name in controls:
        for moved, milliseconds in move_to_both_ends(lesson, name):
            record_property(moved, f"{milliseconds:.0f} ms")
            print(f"{lesson.path.stem}, {moved}: {milliseconds:.0f} ms")
    assert lesson.errors == []


def test_every_control_moves_on_the_page_and_on_slides(lesson, chromium, tmp_path, monkeypatch, record_property):
    """Without a kernel: by the pictures that this run has drawn for them."""
    monkeypatch.setattr(frames, "KEPT", tmp_path / "frames")
    for moved, milliseconds in move_without_a_kernel(lesson, chromium, tmp_path, lesson.errors):
        record_property(moved, f"{milliseconds:.0f} ms")
        print(f"{lesson.path.stem}, {moved}: {milliseconds:.0f} ms")
    assert lesson.errors == []


def test_every_live_view_draws_its_lines(lesson):
    """live: stored as a still picture, it moves where a kernel runs."""
    for name in (name for name in lesson.cells if "live(" in source_in(lesson, name)):
        lesson.cell(name).scroll_into_view_if_needed()
        lesson.cell(name).frame_locator("iframe").first.locator("svg").first.wait_for(state="attached")
    assert lesson.errors == []


def test_every_question_judges_a_right_and_a_wrong_answer(lesson):
    cells = [name for name in lesson.cells if name.startswith("quiz-")]
    for name in cells:
        key = re.search(r'quiz\("(\w+)"\)', source_in(lesson, name))[1]
        right, wrong = right_and_wrong(key)
        assert "Not this one." in answer(lesson, name.removeprefix("quiz-"), wrong)
        assert "Right." in answer(lesson, name.removeprefix("quiz-"), right)
    _, questions = counted(lesson)
    assert questions == (str(len(cells)),) * 2
    assert lesson.errors == []


def test_each_solution_typed_in_is_right_and_counted(lesson):
    exercises = {exercise.name: exercise for exercise in all_exercises() if exercise.lesson == slug(lesson)}
    cells = tagged(lesson, "exercise")
    for name in cells:
        key = next(key for key in exercises if re.search(rf"\b{key}\b", source_in(lesson, name)))
        exercise = exercises.pop(key)
        if exercise.value:
            typed = f'check("{key}", {exercise.solution()!r})'
        else:
            code = source_of(exercise.solution).replace(f"def {exercise.solution.__name__}(", f"def {key}(", 1)
            typed = f"{code}\n\n\ncheck({key})"
        verdict = lesson.run(name, typed)
        assert f"{key}: right." in verdict, verdict
    assert exercises == {}, "the notebook asks for every exercise"
    solved, _ = counted(lesson)
    assert solved == (str(len(cells)),) * 2
    assert lesson.errors == []
