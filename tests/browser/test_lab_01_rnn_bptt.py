"""A lesson as a student meets it, in JupyterLab: it runs, its controls move, its answers are judged and kept.

And as an instructor shows it: `make present`, slide after slide, with controls that still move.
"""

import json
import re
import shutil
import time
from pathlib import Path

import pytest

from course_lib.workshop.exercises import find_quiz
from course_lib.workshop.publish import frames

from .conftest import is_here, watched_page
from .lab import PATIENCE, ROOT, RUN_ALL, Notebook, serving
from .reader import move_without_a_kernel
from .student import WATCH, after_its_run, answer, bare, move_to_both_ends, right_and_wrong, unfinished

pytestmark = pytest.mark.timeout(900)

LESSON = RUN_ALL
CELLS = json.loads((ROOT / "notebooks" / LESSON).read_text())["cells"]
CONTROLS = [cell["id"] for cell in CELLS if "control" in cell["metadata"].get("tags", ())]
NOTES = [cell for cell in CELLS if cell["metadata"].get("slideshow", {}).get("slide_type") == "notes"]

WRONG_STEP = "def my_step(x, h, w_x, w_h, b):\n    return x @ w_x + h @ w_h + b\n\n\ncheck(my_step)"
RIGHT_STEP = WRONG_STEP.replace("x @ w_x + h @ w_h + b", "(x @ w_x + h @ w_h + b).tanh()")


@pytest.fixture(scope="module", params=[LESSON], ids=["01_rnn_bptt"])
def lesson(request, lab, chromium):
    """Lesson 01, run to the end by "Run All Cells"; one kernel for the tests of this file."""
    with after_its_run(lab, chromium, request.param) as notebook:
        yield notebook


def test_the_lab_opens_on_the_start_page_and_asks_nothing(lab, page_offline, console_errors):
    page_offline.goto(lab.first_page + "&reset")  # as on a first start: no notebook of the lesson before is restored
    start = Notebook(page_offline, lab.folder / "notebooks" / "00_start_here.ipynb")
    assert start.cell("title").get_by_role("heading", name="Unrolled").is_visible()
    page_offline.wait_for_timeout(2000)  # the question about news comes late
    assert page_offline.locator(".jp-Dialog, .Toastify__toast").all_inner_texts() == []
    assert console_errors == []


def test_the_lesson_runs_to_its_end(lesson):
    assert unfinished(lesson) == []
    assert lesson.errors == []


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_moves_to_both_ends(lesson, name, record_property):
    for moved, milliseconds in move_to_both_ends(lesson, name):
        record_property(moved, f"{milliseconds:.0f} ms")
    assert lesson.errors == []


def test_every_control_moves_on_the_page_and_on_slides(lesson, chromium, tmp_path, monkeypatch):
    monkeypatch.setattr(frames, "KEPT", tmp_path / "frames")
    assert len(move_without_a_kernel(lesson, chromium, tmp_path, lesson.errors)) >= 2 * len(CONTROLS)
    assert lesson.errors == []


def test_a_quiz_gives_the_reason_for_each_answer(lesson):
    right, wrong = right_and_wrong("sharing")
    reasons = dict(zip("ABCDEFGHIJ", (reason for _, reason in find_quiz("sharing").options), strict=False))
    verdict = answer(lesson, "sharing", wrong)
    assert "Not this one." in verdict and bare(reasons[wrong]) in bare(verdict)
    verdict = answer(lesson, "sharing", right)
    assert "Right." in verdict and bare(reasons[right]) in bare(verdict)
    assert lesson.errors == []


def test_an_exercise_names_the_mistake_and_then_is_right(lesson):
    verdict = lesson.run("exercise-step", WRONG_STEP)
    assert "not right yet" in verdict and "tanh is missing" in verdict
    verdict = lesson.run("exercise-step", RIGHT_STEP)
    assert "my_step: right." in verdict and "1 of 6 exercises" in verdict
    assert lesson.errors == []


def test_notes_stay_folded_when_all_cells_are_run(lesson):
    """JupyterLab itself unfolds a Markdown cell that is run, whatever its metadata say."""
    minutes = {
        cell["id"]: lesson.cell(cell["id"]).locator(".jp-RenderedMarkdown").get_by_text("Minutes.") for cell in NOTES
    }
    assert [name for name, text in minutes.items() if text.is_visible()] == []
    first = NOTES[0]["id"]
    lesson.cell(first).locator("summary").click()
    assert minutes[first].is_visible(), "an instructor can open them"
    lesson.cell(first).locator("summary").click()
    assert minutes[first].is_hidden()


def test_what_is_solved_outlives_the_kernel(lab, page_offline, console_errors):
    """In a copy of the lesson: the kernel of the other tests lives on."""
    copy = shutil.copy(ROOT / "notebooks" / LESSON, lab.folder / "notebooks" / "copy.ipynb")  # as stored: no widgets
    page_offline.goto(lab.first_page.replace("00_start_here.ipynb", "copy.ipynb") + "&reset")
    lesson = Notebook(page_offline, Path(copy))
    solved = f"from course_lib.lesson import check, quiz\n\n{RIGHT_STEP}"
    assert "my_step: right." in lesson.run("exercise-step", solved)
    lesson.run("quiz-sharing")
    answer(lesson, "sharing", right_and_wrong("sharing")[0])
    lesson.choose("Kernel", "Restart Kernel…")
    lesson.page.get_by_role("dialog").get_by_role("button", name="Confirm").click()
    lesson.page.locator("#jp-main-statusbar", has_text="| Idle").wait_for()
    board = lesson.run("progress", "from course_lib.lesson import progress\n\nprogress('rnn_bptt')")
    row = next(line for line in board.splitlines() if line.startswith("01"))
    assert re.findall(r"(\d+)/\d+", row) == ["1", "1"], row
    assert console_errors == []


def test_the_slides_are_presented_with_controls_that_move(chromium, console_errors, tmp_path):
    with serving(tmp_path, "present") as server, watched_page(chromium, is_here, console_errors) as page:
        page.goto(server.first_page)
        lesson = Notebook(page, server.folder / "notebooks" / LESSON)
        lesson.select("hello-notes")
        lesson.run_many("Run All Above Selected Cell", patience=200_000)
        lesson.select("title")
        page.locator("[data-command='deck:toggle']").click()
        page.locator(".jp-deck-mod-visible[data-jpf-cell-id='title']").wait_for()

        slides = [on_the_slide(page)]
        while "hello-control" not in slides[-1]:
            assert len(slides) < 20, slides
            before = page.evaluate(ACTIVE)
            page.keyboard.press("Space")  # to the next cell, of this slide or the next
            page.wait_for_function(f"before => {ACTIVE} !== before", arg=before)
            slides.append(on_the_slide(page))
        shown = ("title", "shapes", "step", "step-library", "hello")
        expected = [group for group in as_slides(CELLS) if group[0] in shown]
        assert [group for group in expected if group not in slides] == []
        assert not {cell["id"] for cell in NOTES} & {name for slide in slides for name in slide}

        control = lesson.cell("hello-control")
        assert control.locator(".jp-Cell-inputWrapper").is_hidden(), "a slide shows no control's code"
        control.locator(".noUi-handle").focus()
        control.evaluate(WATCH)
        page.keyboard.press("Home")  # it starts at its other end
        page.evaluate("window.answered")  # by another picture
        assert "hello-control" in on_the_slide(page), "a key for the control turned the slide"
    assert console_errors == []


ACTIVE = "document.querySelector('.jp-Deck .jp-Cell.jp-mod-active').dataset.jpfCellId"


def on_the_slide(page):
    """The cells that the slide shows, by id, when the slide before has faded: the active one is among them."""
    shown, seen = page.locator(".jp-Deck .jp-deck-mod-onscreen.jp-deck-mod-visible"), None
    until = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < until:
        before, seen = seen, shown.evaluate_all("cells => cells.map(cell => cell.dataset.jpfCellId)")
        if seen == before and page.evaluate(ACTIVE) in seen:
            return seen
        page.wait_for_timeout(300)
    raise AssertionError(f"the slide still shows {seen}")


def as_slides(cells):
    """The ids of the cells of each slide, as their metadata say."""
    slides = []
    for cell in cells:
        kind = cell["metadata"].get("slideshow", {}).get("slide_type")
        if kind in ("slide", "subslide"):
            slides.append([cell["id"]])
        elif kind is None:
            slides[-1].append(cell["id"])
    return slides
