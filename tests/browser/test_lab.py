"""A lesson as a student meets it, in JupyterLab: it runs, its controls move, its answers are judged and kept.

And as an instructor shows it: `make present`, slide after slide, with controls that still move.
"""

import json
import re

import pytest

from course_lib.exercises import find_quiz

from .conftest import is_here, watched_page
from .lab import PATIENCE, ROOT, Notebook, serving

pytestmark = pytest.mark.timeout(600)

LESSON = "01_rnn_bptt.ipynb"
CELLS = json.loads((ROOT / "notebooks" / LESSON).read_text())["cells"]
CONTROLS = [cell["id"] for cell in CELLS if "control" in cell["metadata"].get("tags", ())]
NOTES = [cell for cell in CELLS if cell["metadata"].get("slideshow", {}).get("slide_type") == "notes"]

WRONG_STEP = "def my_step(x, h, w_x, w_h, b):\n    return x @ w_x + h @ w_h + b\n\n\ncheck(my_step)"
RIGHT_STEP = WRONG_STEP.replace("x @ w_x + h @ w_h + b", "(x @ w_x + h @ w_h + b).tanh()")

# From the key to the new picture, as the page sees it.
WATCH = """cell => {
  window.answered = new Promise(done => {
    let pressed = 0
    cell.addEventListener('keydown', () => { pressed = performance.now() }, {capture: true, once: true})
    const shown = cell.querySelector('.widget-html')
    const watch = new MutationObserver(() => { watch.disconnect(); done(performance.now() - pressed) })
    watch.observe(shown, {childList: true, subtree: true, attributes: true})
  })
}"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab as `make lab` starts it."""
    with serving(tmp_path_factory.mktemp("lab"), "lab") as server:
        yield server


@pytest.fixture(scope="module")
def errors():
    """What the lesson's page wrote to the console as errors, over all tests."""
    return []


@pytest.fixture(scope="module")
def lesson(lab, chromium, errors):
    """Lesson 01, run to the end by "Run All Cells"; one kernel for the tests of this file."""
    path = lab.folder / "notebooks" / LESSON
    forget_counts(path)
    with watched_page(chromium, is_here, errors) as page:
        page.goto(lab.first_page.replace("00_start_here.ipynb", LESSON) + "&reset")
        notebook = Notebook(page, path)
        notebook.run_many("Run All Cells", patience=400_000)
        yield notebook


def forget_counts(path):
    """Take the execution counts away, so that every count in the file afterwards is of this run."""
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"] = None
    path.write_text(json.dumps(notebook))


def test_the_lab_opens_on_the_start_page_and_asks_nothing(lab, page_offline, console_errors):
    page_offline.set_default_timeout(PATIENCE)
    page_offline.goto(lab.first_page)
    start = Notebook(page_offline, lab.folder / "notebooks" / "00_start_here.ipynb")
    assert start.cell("title").get_by_role("heading", name="Unrolled").is_visible()
    page_offline.wait_for_timeout(2000)  # the question about news comes late
    assert page_offline.locator(".jp-Dialog, .Toastify__toast").all_inner_texts() == []
    assert console_errors == []


def test_the_lesson_runs_to_its_end(lesson, errors):
    cells = {cell["id"]: cell for cell in lesson.saved()["cells"] if cell["cell_type"] == "code"}
    outputs = [(name, output) for name, cell in cells.items() for output in cell["outputs"]]
    failed = [f"{name}: {output['ename']}: {output['evalue']}" for name, output in outputs
              if output["output_type"] == "error"]
    assert failed == []
    assert [name for name, cell in cells.items() if cell["execution_count"] is None] == [], "never ran"
    assert [name for name, output in outputs if output.get("name") == "stderr"] == [], "wrote to stderr"
    assert errors == []


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_moves_to_both_ends(lesson, errors, name, record_property):
    cell = lesson.cell(name)
    controls = cell.locator(".noUi-handle, select")
    controls.first.scroll_into_view_if_needed()
    assert controls.count() > 0, "a cell tagged control holds none"
    for i in range(controls.count()):
        control = controls.nth(i)
        control.focus()
        seen = {state(control)}
        for key in ("End", "Home", "End"):
            before, picture = state(control), source(cell)
            cell.evaluate(WATCH)
            lesson.page.keyboard.press(key)
            if state(control) == before:
                continue  # it stood at this end
            seen.add(state(control))
            answered = lesson.page.evaluate("window.answered")
            assert source(cell) != picture, f"{key} moved control {i + 1} and drew the same picture"
            assert cell.locator(".widget-html img").get_attribute("alt")
            record_property(f"{name} {i + 1} {key}", f"{answered:.0f} ms")
            print(f"{name}, control {i + 1}, {key}: {answered:.0f} ms")
        assert ends(control) <= seen
    assert cell.get_by_role("alert").count() == 0
    assert errors == []


def state(control):
    """Where a slider or a menu stands."""
    return control.evaluate("it => it.tagName === 'SELECT' ? String(it.selectedIndex) : it.ariaValueNow")


def ends(control):
    """Where it stands when it is moved to either end."""
    return set(control.evaluate(
        "it => it.tagName === 'SELECT' ? ['0', String(it.length - 1)] : [it.ariaValueMin, it.ariaValueMax]"))


def source(cell):
    return cell.locator(".widget-html img").get_attribute("src")


def solve_exercise(lesson):
    return lesson.run("exercise-step", RIGHT_STEP)


def answer(lesson, question, letter):
    """Choose an option by keyboard, press Check, and read the verdict."""
    cell = lesson.cell(f"quiz-{question}")
    option = cell.get_by_role("radio").nth("ABCDEFGHIJ".index(letter))
    if not option.is_checked():
        option.focus()
        lesson.page.keyboard.press("Space")
        cell.get_by_role("status").wait_for(state="detached")  # the verdict on the option before
    cell.get_by_role("button", name="Check").press("Enter")
    cell.get_by_role("status").wait_for()
    return cell.get_by_role("status").inner_text()


def right_and_wrong(question):
    right = find_quiz(question).correct
    return "ABCDEFGHIJ"[right], "ABCDEFGHIJ"[0 if right else 1]


def bare(text):
    return " ".join(text.replace("`", "").replace("*", "").split())


def test_a_quiz_gives_the_reason_for_each_answer(lesson, errors):
    right, wrong = right_and_wrong("sharing")
    reasons = dict(zip("ABCDEFGHIJ", (reason for _, reason in find_quiz("sharing").options), strict=False))
    verdict = answer(lesson, "sharing", wrong)
    assert "Not this one." in verdict and bare(reasons[wrong]) in bare(verdict)
    verdict = answer(lesson, "sharing", right)
    assert "Right." in verdict and bare(reasons[right]) in bare(verdict)
    assert errors == []


def test_an_exercise_names_the_mistake_and_then_is_right(lesson, errors):
    verdict = lesson.run("exercise-step", WRONG_STEP)
    assert "not right yet" in verdict and "tanh is missing" in verdict
    verdict = solve_exercise(lesson)
    assert "my_step: right." in verdict and "1 of 5 exercises" in verdict
    assert errors == []


def test_notes_stay_folded_when_all_cells_are_run(lesson):
    """JupyterLab itself unfolds a Markdown cell that is run, whatever its metadata say."""
    minutes = {cell["id"]: lesson.cell(cell["id"]).locator(".jp-RenderedMarkdown").get_by_text("Minutes.")
               for cell in NOTES}
    assert [name for name, text in minutes.items() if text.is_visible()] == []
    first = NOTES[0]["id"]
    lesson.cell(first).locator("summary").click()
    assert minutes[first].is_visible(), "an instructor can open them"


def test_what_is_solved_outlives_the_kernel(lesson, errors):
    solve_exercise(lesson)
    right, _ = right_and_wrong("sharing")
    answer(lesson, "sharing", right)
    lesson.choose("Kernel", "Restart Kernel…")
    lesson.page.get_by_role("dialog").get_by_role("button", name="Confirm").click()
    lesson.page.locator("#jp-main-statusbar", has_text="| Idle").wait_for()
    lesson.run("setup", patience=120_000)
    board = lesson.run("progress")
    row = next(line for line in board.splitlines() if line.startswith("01"))
    assert re.findall(r"(\d+)/\d+", row) == ["1", "1"], row
    assert errors == []


def test_the_slides_are_presented_with_controls_that_move(chromium, console_errors, tmp_path):
    with serving(tmp_path, "present") as server, watched_page(chromium, is_here, console_errors) as page:
        page.goto(server.first_page)
        lesson = Notebook(page, server.folder / "notebooks" / LESSON)
        lesson.select("digits-notes")
        lesson.run_many("Run All Above Selected Cell", patience=200_000)
        lesson.select("title")
        page.locator("[data-command='deck:toggle']").click()
        page.locator(".jp-deck-mod-visible[data-jpf-cell-id='title']").wait_for()

        slides = [on_the_slide(page)]
        while "digits-control" not in slides[-1]:
            assert len(slides) < 12, slides
            page.keyboard.press("Space")
            slides.append(on_the_slide(page))
        expected = [group for group in as_slides(CELLS) if group[0] in ("title", "shapes", "step", "digits")]
        assert [group for group in expected if group not in slides] == []
        assert not {cell["id"] for cell in NOTES} & {name for slide in slides for name in slide}

        control = lesson.cell("digits-control")
        assert control.locator(".jp-Cell-inputWrapper").is_hidden(), "a slide shows no control's code"
        control.locator(".noUi-handle").focus()
        before = source(control)
        control.evaluate(WATCH)
        page.keyboard.press("End")
        page.evaluate("window.answered")
        assert source(control) != before
        assert "digits-control" in on_the_slide(page), "a key for the control turned the slide"
    assert console_errors == []


def on_the_slide(page):
    """The cells that the slide shows, by id."""
    page.wait_for_timeout(300)  # the slide before fades
    return page.locator(".jp-Deck .jp-deck-mod-onscreen.jp-deck-mod-visible").evaluate_all(
        "cells => cells.map(cell => cell.dataset.jpfCellId)")


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
