"""Each lesson, with its trainings cut to one step: claims of the core turn red, and the run goes on to its end."""

import re

import nbformat
import pytest
from nbformat.v4 import new_notebook

from course_lib.workshop.publish import claims
from course_lib.workshop.publish import measured as numbers
from course_lib.workshop.publish.kernels import run
from course_lib.workshop.publish.normalise import as_text
from course_lib.workshop.publish.parts import begins_laboratory

# A number of steps that a reader may change: a constant of the notebook, or the argument of a visible call.
CONSTANT = re.compile(r"^((?:[A-Z]+_)?STEPS\b[^=\n]*=) *(?:\d[\d_]*|recipe\.STEPS)", re.M)
ARGUMENT = re.compile(r"\bsteps=\d[\d_]*")
KEPT = re.compile(r"^ *def |\.numbers\(")  # a default, or steps that name a recorded run


def spoiled(source):
    """The source of a cell with one step in place of each number of steps."""
    lines = CONSTANT.sub(r"\1 1", source).split("\n")
    return "\n".join(line if KEPT.search(line) else ARGUMENT.sub("steps=1", line) for line in lines)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("STEPS = 1_700   # change it", "STEPS = 1   # change it"),
        ("MY_STEPS = 40", "MY_STEPS = 1"),
        ("STEPS, RATE = 400, 8e-3", "STEPS, RATE = 1, 8e-3"),
        ("MY_STEPS, MY_RATE, MY_BATCH = 300, 5e-3, 24", "MY_STEPS, MY_RATE, MY_BATCH = 1, 5e-3, 24"),
        ("STEPS = recipe.STEPS  # 250", "STEPS = 1  # 250"),
        ("fit(model, batches, loss, steps=300,\n    lr=0.1)", "fit(model, batches, loss, steps=1,\n    lr=0.1)"),
        ("fit(model, steps=STEPS)", "fit(model, steps=STEPS)"),
        ("steps = np.arange(3)", "steps = np.arange(3)"),
        ("def taught(x, steps=60):", "def taught(x, steps=60):"),
        ('shown = all.numbers("test", steps=500)', 'shown = all.numbers("test", steps=500)'),
    ],
)
def test_every_number_of_steps_becomes_one(source, expected):
    assert spoiled(source) == expected


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("path", numbers.written()[1:], ids=lambda path: path.stem)
def test_a_lesson_that_has_not_learned_says_so(path, tmp_path):
    core = []
    for cell in nbformat.read(path, 4).cells:
        if begins_laboratory(cell):
            break
        if cell.cell_type == "code":
            cell.source = spoiled(cell.source)
        core.append(cell)
    copy = tmp_path / path.name
    copy.write_text(as_text(new_notebook(cells=core)), encoding="utf-8")

    done = run(copy, keep_going=True)

    assert done.ended and done.failures == [], "a claim that does not hold stops nothing"
    red = [data["claim"] for _, data in claims.stated(done.notebook) if not data["holds"]]
    assert len(red) >= 2, f"with one step only these turned red: {red}"
