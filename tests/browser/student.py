"""What a student does in a lesson that is open in JupyterLab: run it, move its controls, answer its questions."""

import json
from contextlib import contextmanager

from course_lib.workshop.exercises import find_quiz

from .conftest import is_here, watched_page
from .lab import Notebook

# From the key to another picture than the one that stands there, as the page sees it, however long that takes: on a
# busy machine what is seen first may still be the answer to the key before.
WATCH = """cell => {
  window.answered = new Promise((done, fail) => {
    let pressed = 0
    cell.addEventListener('keydown', () => { pressed = performance.now() }, {capture: true, once: true})
    const shown = cell.querySelector('.widget-html')
    const look = () => shown.querySelector('img')?.src ?? shown.innerHTML  // or the sentence why there is no picture
    const before = look()
    const watch = new MutationObserver(() => {
      if (look() === before) return
      watch.disconnect()
      done(performance.now() - pressed)
    })
    setTimeout(() => fail(new Error('two minutes long nothing new was shown')), 120_000)
    watch.observe(shown, {childList: true, subtree: true, attributes: true})
  })
  window.answered.catch(() => {})  // nobody waits where the control stood at this end
}"""


@contextmanager
def after_its_run(lab, chromium, name):
    """A lesson after its run, open in JupyterLab: what one_run.py left there, or by "Run All Cells".

    Its `errors` are what its page writes to the console as errors.
    """
    path, errors = lab.folder / "notebooks" / name, []
    has_run = name in lab.have_run
    if not has_run:
        lab.end_kernels()  # one that ran half of it
        forget_counts(path)
    with watched_page(chromium, is_here, errors) as page:
        page.goto(lab.first_page.replace("00_start_here.ipynb", name) + "&reset")
        notebook = Notebook(page, path)
        notebook.errors = errors
        if not has_run:
            notebook.run_many("Run All Cells", patience=800_000)
        yield notebook
    lab.end_kernels()


def forget_counts(path):
    """Take the execution counts away, so that every count in the file afterwards is of this run."""
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"] = None
    path.write_text(json.dumps(notebook))


def unfinished(lesson):
    """What is wrong in a lesson after a run to its end: cells that failed, never ran, or complained."""
    cells = {cell["id"]: cell for cell in lesson.saved()["cells"] if cell["cell_type"] == "code"}
    outputs = [(name, output) for name, cell in cells.items() for output in cell["outputs"]]
    failed = [
        f"{name}: {output['ename']}: {output['evalue']}" for name, output in outputs if output["output_type"] == "error"
    ]
    never = [f"{name}: never ran" for name, cell in cells.items() if cell["execution_count"] is None]
    return failed + never + [f"{name}: wrote to stderr" for name, output in outputs if output.get("name") == "stderr"]


def move_to_both_ends(lesson, name):
    """Move each slider and menu of a control's cell to both ends by key, and empty each text box and fill it again.

    Gives (move, milliseconds to the new picture).
    """
    cell = lesson.cell(name)
    cell.locator(".widget-vbox img").wait_for()
    cell.locator(".widget-vbox > :not(.jupyter-widgets)").first.wait_for(state="detached")  # parts come one by one
    controls = cell.locator(".noUi-handle, select")
    boxes = cell.locator(".widget-text input")
    cell.scroll_into_view_if_needed()
    assert controls.count() + boxes.count() > 0, "a cell tagged control holds none"
    moves = []
    for i in range(boxes.count()):
        start = boxes.nth(i).input_value()
        for text in ("" if start else "tough", start):
            boxes.nth(i).fill(text)
            cell.evaluate(WATCH)
            boxes.nth(i).press("Enter")
            moves.append((f"{name} text {i + 1} {text!r}", lesson.page.evaluate("window.answered")))
            if refused := cell.get_by_role("alert").all_inner_texts():  # a sentence, where nothing can be drawn
                assert text != start and refused[0].endswith("."), refused
            else:
                assert cell.locator(".widget-html img").get_attribute("alt")
    for i in range(controls.count()):
        control = controls.nth(i)
        control.focus()
        seen = {state(control)}
        for key in ("End", "Home", "End"):
            before = state(control)
            cell.evaluate(WATCH)
            lesson.page.keyboard.press(key)
            if state(control) == before:
                continue  # it stood at this end
            seen.add(state(control))
            moves.append((f"{name} {i + 1} {key}", lesson.page.evaluate("window.answered")))
            assert cell.locator(".widget-html img").get_attribute("alt")
        assert ends(control) <= seen
    assert cell.get_by_role("alert").count() == 0
    return moves


def state(control):
    """Where a slider or a menu stands."""
    return control.evaluate("it => it.tagName === 'SELECT' ? String(it.selectedIndex) : it.ariaValueNow")


def ends(control):
    """Where it stands when it is moved to either end."""
    return set(
        control.evaluate(
            "it => it.tagName === 'SELECT' ? ['0', String(it.length - 1)] : [it.ariaValueMin, it.ariaValueMax]"
        )
    )


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
