"""A lesson's first cell: the question, what you will be able to do, what you need, and minutes that were measured."""

import ast
import json
import re

import pytest

from course_lib.lesson import limits
from course_lib.show.emblems import EMBLEMS
from course_lib.workshop.publish.blocks import as_minutes, titled
from course_lib.workshop.publish.measured import MEASURED, written

LESSONS = [path for path in written() if not path.name.startswith("00")]


DRAWN = dict(enumerate(EMBLEMS, 1))  # lessons by number: their drawings in lesson 00


def minutes_stated(title: str) -> str | None:
    found = re.search(r"\*Run All:\* (\d+(?:\.\d)?) minutes on two CPU cores", title)
    return found[1] if found else None


def faults(title: str, seconds: float) -> list[str]:
    """What is wrong with a title cell, given what the notebook took when it was stored."""
    wanted = {
        "a heading": r"^# \d\d · ",
        "a question": r"\*\*[^*]+\?\*\*",
        "what you can do": r"Afterwards you can",
        "what you need": r"\*You need:\*",
        "a GPU's minutes": r"GPU",
        "what the core takes as slides": r"{} to {} minutes as slides\b".format(*limits.MINUTES_AS_SLIDES),
        "what it takes alone": r"{} to {} minutes alone\b".format(*limits.MINUTES_ALONE),
    }
    found = [f"the title cell lacks {name}" for name, pattern in wanted.items() if not re.search(pattern, title)]
    stated = minutes_stated(title)
    if stated is None:
        found.append("the title cell lacks *Run All:* N minutes on two CPU cores")
    elif stated != as_minutes(seconds):
        found.append(
            f"the title cell says {stated} minutes, measured were {as_minutes(seconds)}, as the README has it: run "
            "`python -m course_lib.workshop.publish.blocks`"
        )
    number = re.match(r"# (\d\d) · ", title)
    drawing = DRAWN.get(int(number[1])) if number else None
    if drawing and f"*Drawing:* [{drawing}](00_start_here.ipynb)" not in title:
        found.append(f"the title cell does not point to its drawing in lesson 00, the {drawing}")
    return found


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_title_cell(path):
    cell = json.loads(path.read_text(encoding="utf-8"))["cells"][0]
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    assert faults("".join(cell["source"]), measured[path.name]["seconds"]) == []


def test_the_map_in_lesson_00_draws_what_the_title_cells_need():
    start = json.loads((MEASURED.parent / "00_start_here.ipynb").read_text(encoding="utf-8"))
    (drawn,) = ("".join(cell["source"]) for cell in start["cells"] if cell["id"] == "map-figure")
    (needs,) = (node.value for node in ast.parse(drawn).body if ast.unparse(node).startswith("NEEDS = "))
    titles = {
        int(path.name[:2]): json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"] for path in LESSONS
    }
    told = {number: re.findall(r"\[lesson (\d\d)\]", "".join(title)) for number, title in titles.items()}
    told = {number: tuple(sorted({int(one) for one in found} - {0})) for number, found in told.items()}
    assert ast.literal_eval(needs) == {number: found for number, found in told.items() if found}


def test_a_guess_is_found_out():
    good = (
        "# 01 · A\n\n**Why?**\n\nAfterwards you can\n\n*You need:* x. *Drawing:* [chain](00_start_here.ipynb). "
        "*Run All:* 1.5 minutes on two CPU cores; not yet measured on a GPU. *Time:* 65 to 90 minutes as slides, "
        "115 to 170 minutes alone with the exercises."
    )
    assert faults(good, 90) == []
    (fault,) = faults(good, 20)
    assert fault.startswith("the title cell says 1.5 minutes, measured were 0.3")
    assert faults(titled(good, 20), 20) == [] and titled(good, 90) == good
    short = good.replace("65", "50")
    assert faults(short, 90) == ["the title cell lacks what the core takes as slides"] and titled(short, 90) == good
    (fault,) = faults(good.replace("chain", "lane"), 90)
    assert fault.endswith("its drawing in lesson 00, the chain")
    assert len(faults("# Title", 90)) == 8
