"""What a reader does with a lesson's page and slides, where no kernel runs: move every control to both ends by key."""

import re
from pathlib import Path

import nbformat

from course_lib.workshop.publish import frames, site, slides
from course_lib.workshop.publish.measured import NOTEBOOKS

from .conftest import is_from_disk, watched_page

OTHER_LESSON = re.compile(r"\[([^\]]+)\]\(\d\d_\w+\.ipynb[^)]*\)")
FAULTS_OF_SLIDES = Path(__file__).with_name("measure_slides.js").read_text(encoding="utf-8")
FAULTS_OF_A_PAGE = Path(__file__).with_name("measure_page.js").read_text(encoding="utf-8")
MOVING = "form.moves:has(input, select)"  # not one where all is typed
# From the key to another picture than the one that stands there, loaded, as the page sees it.
WATCH = """form => {
  const picture = form.parentElement.querySelector('img'), before = picture.src
  window.answered = new Promise((done, fail) => {
    let pressed = 0
    form.addEventListener('keydown', () => { pressed = performance.now() }, {capture: true, once: true})
    const loaded = () => {
      if (picture.src === before) return
      picture.removeEventListener('load', loaded)
      done(performance.now() - pressed)
    }
    picture.addEventListener('load', loaded)
    setTimeout(() => fail(new Error('a minute long no other picture was shown')), 60_000)
  })
  window.answered.catch(() => {})  // nobody waits where the control stood at this end
}"""


def move_without_a_kernel(lesson, chromium, folder: Path, errors: list) -> list[tuple[str, float]]:
    """Move all controls of a lesson that has run in JupyterLab, on its page and on its slides; each move and its time.

    What the browser complains of goes into `errors`.
    """
    drawn = frames.taken(nbformat.from_dict(lesson.saved()))
    page_of_it, decks = published(lesson.path.name, drawn, folder)
    with watched_page(chromium, is_from_disk, errors) as page:
        on_page = move_all_on_page(page, page_of_it)
        on_slides = {name: moves for deck in decks for name, moves in move_all_on_slides(page, deck).items()}
    moving = {name for name, one in drawn.items() if any(axis["kind"] != "text" for axis in one["axes"])}
    assert set(on_page) == moving and set(on_slides) <= moving
    controls = {name for name, cell in lesson.cells.items() if "control" in cell["metadata"].get("tags", ())}
    assert set(drawn) == controls
    told = {"page": on_page, "slides": on_slides}
    return [
        (f"{where}, {moved}", ms) for where, found in told.items() for moves in found.values() for moved, ms in moves
    ]


def published(name: str, drawn: dict, folder: Path) -> tuple[Path, list[Path]]:
    """The page and the decks of a lesson, with the pictures that a run has drawn for its controls."""
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    frames.keep(frames.kept_at(notebook, name), drawn)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":  # links to pages that this small site lacks
            cell.source = OTHER_LESSON.sub(r"\1", cell.source)
    path = folder / name
    nbformat.write(notebook, path)
    assert site.build([path], folder / "html") == []
    return folder / "html" / f"{path.stem}.html", slides.build([path], folder / "slides")


def move_all(page, form) -> list[tuple[str, float]]:
    """Move each slider and menu of a control to both ends by key; (move, milliseconds to the new picture)."""
    picture = form.locator("xpath=..").locator("img").first
    moves = []
    for control in form.locator("input, select").all():
        control.focus()
        assert control.evaluate("control => document.querySelector(`label[for='${control.id}']`).innerText.trim()")
        for key in ("End", "Home", "End"):
            before = control.input_value()
            form.evaluate(WATCH)
            page.keyboard.press(key)
            if control.input_value() == before:
                continue  # it stood at this end
            moves.append((f"{control.get_attribute('id')} {key}", page.evaluate("window.answered")))
            assert picture.evaluate("picture => picture.naturalWidth") > 1 and picture.get_attribute("alt")
    assert form.get_by_role("alert").count() == 0
    return moves


def move_all_on_page(page, address: Path) -> dict[str, list]:
    """Every control of a page, by cell: its moves; and nothing on it is hard to see or to reach."""
    page.goto(address.as_uri())
    assert page.evaluate(FAULTS_OF_A_PAGE) == []
    return {cell_of(form): move_all(page, form) for form in page.locator(MOVING).all()}


# Not by the address: reveal.js writes the one before into it, up to a second late.
GO_TO = "id => { const { h, v } = Reveal.getIndices(document.getElementById(id)); Reveal.slide(h, v); }"


def move_all_on_slides(page, deck: Path) -> dict[str, list]:
    """Every control of a deck, each on its slide, which stays; and no slide holds more than it can show."""
    page.goto(deck.as_uri())
    page.wait_for_selector("html.ready", state="attached")
    faults = page.evaluate(FAULTS_OF_SLIDES)
    assert faults == [], faults
    found = {}
    for form in page.locator(MOVING).all():
        slide = form.evaluate("form => form.closest('section[data-cell]').id")
        page.evaluate(GO_TO, slide)
        page.locator(f"section.present[id='{slide}']").wait_for()
        page.evaluate("() => { while (Reveal.nextFragment()); }")  # what waited for a guess
        stands = page.evaluate("Reveal.getIndices()")
        found[cell_of(form)] = move_all(page, form)
        assert page.evaluate("Reveal.getIndices()") == stands, (
            "a key that moves a control moves no slide, and hides none"
        )
    return found


def cell_of(form):
    """The id of the cell that a control stands for."""
    return form.locator("input, select").first.get_attribute("id").removeprefix("moves-").rpartition("-")[0]
