"""Every deck as a room sees it: from disk, with no network, each slide whole at 1280 x 720, each formula drawn."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import from_dict
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib.show.plots import lines, picture
from course_lib.workshop.publish.measured import written
from course_lib.workshop.publish.slides import build

from .conftest import is_from_disk, watched_page

MEASURE = Path(__file__).with_name("measure_slides.js").read_text(encoding="utf-8")
LESSONS = written()


def opened(page, deck):
    """The deck on the page, ready to be shown."""
    page.goto(deck.as_uri())
    page.wait_for_selector("html.ready", state="attached")
    return page


def faults(page, deck, name):
    """What is wrong on any slide, a line each, by notebook and cell."""
    return [f"{name}, cell {found['cell']}: {found['fault']}" for found in opened(page, deck).evaluate(MEASURE)]


@pytest.fixture(scope="module")
def decks(tmp_path_factory, request):
    """The decks of all lessons that this run looks at."""
    # nbval's items have no fixtures
    with_decks = [item for item in request.session.items if "decks" in getattr(item, "fixturenames", ())]
    asked = {item.callspec.params["name"] for item in with_decks}
    return build([path for path in LESSONS if path.stem in asked], tmp_path_factory.mktemp("decks") / "slides")


@pytest.mark.parametrize("name", [path.stem for path in LESSONS])
def test_every_slide_is_whole(name, decks, reader):
    found = []
    for deck in (deck for deck in decks if deck.name.startswith(f"{name}.")):  # the core's, and the laboratory's
        found += faults(reader, deck, name)
        scrolls = reader.locator("section[data-cell]:has(.scrolls)").evaluate_all("them => them.map(it => it.id)")
        found += [f"{name}, cell {cell}: a listing scrolls: show less of it" for cell in scrolls]
        found += [f"{name}: {complaint}" for complaint in reader.complaints()]
    assert not found, "slides that cannot be shown:\n" + "\n".join(found)
    assert any(deck.name.startswith(f"{name}.") for deck in decks)


# --- the check itself, shown failing


def typed(kind):
    return {"slideshow": {"slide_type": kind}}


def deck_of(folder, **slides):
    """A deck of a title and a slide for each list of cells; the cells get the slide's name as their id."""
    (deck,) = decks_of(folder, **slides)
    return deck


def decks_of(folder, **slides):
    """The same, and after it the deck of the laboratory if a slide is called so: it begins there."""
    cells = [
        new_markdown_cell("# 01 · A title", id="title", metadata=typed("slide")),
        new_markdown_cell("Say hello.", id="title-notes", metadata=typed("notes")),
    ]
    for name, content in slides.items():
        cells.append(new_markdown_cell("## A heading", id=f"{name}-head", metadata=typed("slide")))
        cells += [from_dict(cell | {"id": f"{name}-{n}"}) for n, cell in enumerate(content)]
        cells.append(new_markdown_cell("Say why: $a + b$.", id=f"{name}-notes", metadata=typed("notes")))
    for cell in cells:
        if cell.id == "laboratory-head":
            cell.source = "# Laboratory"
            cell.metadata["tags"] = ["laboratory"]
    nbformat.write(new_notebook(cells=cells), folder / "01_planted.ipynb")
    return build([folder / "01_planted.ipynb"], folder / "slides")


def words(text):
    return [new_markdown_cell(text)]


def html(text):
    return [new_code_cell("", outputs=[new_output("display_data", {"text/html": text})])]


def code(source, *outputs):
    return [new_code_cell(source, outputs=list(outputs))]


PICTURE = picture(lines(range(5), {"a": range(5)}, xlabel="x", ylabel="y"), alt="A line that rises.")._repr_html_()
LISTING = "\n".join(f"line_{n} = {n}  # as far as it goes" for n in range(60))
PROSE = "A sentence that takes its room. " * 12

FINE = {
    "formula": words(r"The sum $\sum_t x_t$ and $$\Bigl\lVert \frac{a}{b} \Bigr\rVert \le \sigma^k$$"),
    "prices": words("It costs 5$ or `$a$`, not more."),
    "figure": html(PICTURE),
    "card": html('<div style="border-left: 5px solid #388e3c"><div>✓ <b>Claim:</b> it holds</div></div>'),
    "listing": code(LISTING),
    "listing-and-figure": code(LISTING) + html(PICTURE),
    "table": words("| a | b |\n| --- | --- |\n| $x$ | 1 |\n| $y$ | 2 |"),
    "print": code("print(1)", new_output("stream", text="1\n2\n3")),
}
PLANTED = {
    "much-text": (words(PROSE * 5), "ends too low"),
    "many-points": (words("\n".join(f"- point {n}" for n in range(20))), "ends too low"),
    "long-print": (code("p()", new_output("stream", text="\n".join(map(str, range(40))))), "ends too low"),
    "figure-squeezed": (words(PROSE * 2) + html(PICTURE), "too small to read"),
    "wide-formula": (words("$$" + " + ".join(f"x_{{{n}}}" for n in range(60)) + "$$"), "ends too far right"),
    "wide-table": (html("<table><tr>" + "<td>a_long_name</td>" * 20 + "</tr></table>"), "ends too far right"),
    "cutting-box": (html('<div style="height:60px;overflow:hidden">' + PROSE + "</div>"), "cut off by its box"),
    "covered": (html('<p>First words.</p><p style="margin-top:-40px">Second words.</p>'), "covers"),
    "raw-formula": (html("The sum $$x^2 is left."), "was not drawn"),
    "wrong-formula": (words(r"The sum $\frac{a}$."), "a formula is wrong"),
    "unknown-macro": (words(r"The sum $\summe x$."), "a formula is wrong"),
    "small-print": (html('<p style="font-size:9px">small print</p>'), "9 px small"),
    "pale-print": (html('<p style="color:#bbb">pale print</p>'), "contrast of only"),
    "broken-picture": (html('<img src="data:image/png;base64,AAAA" alt="nothing">'), "does not load"),
    "mute-picture": (html(PICTURE.replace("A line that rises.", "")), "no alternative text"),
}


@pytest.fixture(scope="module")
def planted(chromium, tmp_path_factory):
    """What the check says of one deck that holds all of these slides."""
    folder, errors = tmp_path_factory.mktemp("planted"), []
    deck = deck_of(folder, **FINE, **{name: content for name, (content, _) in PLANTED.items()})
    with watched_page(chromium, is_from_disk, errors) as page:
        return faults(page, deck, "01_planted.ipynb")


@pytest.mark.parametrize("name", FINE)
def test_what_fits_passes(name, planted):
    assert [fault for fault in planted if re.search(rf"cell {name}-(\d|head)", fault)] == []


@pytest.mark.parametrize("name", PLANTED)
def test_what_does_not_fit_is_named(name, planted):
    mine = [fault for fault in planted if re.match(rf"01_planted\.ipynb, cell {name}-\d: ", fault)]
    assert any(PLANTED[name][1] in fault for fault in mine), mine


# --- how it is presented


def test_the_speaker_view_shows_the_notes(page_from_disk, console_errors, tmp_path):
    page = opened(page_from_disk, deck_of(tmp_path, next=words("More.")))
    page.keyboard.press("ArrowRight")
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    notes = popup.value.locator(".speaker-controls-notes .value")
    notes.get_by_text("Say why").wait_for()
    assert notes.get_by_role("img", name="a + b").count() == 1
    assert notes.inner_text().split() == ["Say", "why:", "."]  # the formula once, as a drawing
    assert console_errors == []


def test_keys_go_through_every_slide_and_the_address_names_it(page_from_disk, tmp_path):
    page = opened(page_from_disk, deck_of(tmp_path, next=words("More.")))
    assert page.title() == "01 · A title · slides"
    assert page.locator("section.present").last.get_attribute("data-number") == "1"
    page.keyboard.press("Space")
    page.wait_for_function("location.hash == '#/next-head'")
    assert page.evaluate("Reveal.isLastSlide()")


def test_a_key_of_the_speakers_window_turns_the_slide(page_from_disk, console_errors, tmp_path):
    """It comes by its number alone, with neither a name nor a place where it was pressed."""
    page = opened(page_from_disk, deck_of(tmp_path, next=words("More.")))
    page.evaluate("Reveal.triggerKey(39)")
    page.wait_for_function("location.hash == '#/next-head'")
    assert console_errors == []


def test_a_long_listing_says_that_it_goes_on_and_scrolls_by_keyboard(page_from_disk, tmp_path):
    page = opened(page_from_disk, deck_of(tmp_path, next=code(LISTING)))
    page.evaluate("Reveal.slide(1)")
    assert re.search(r"\d+ more lines", page.locator(".more").inner_text())
    page.locator(".scrolls").focus()
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('.scrolls').scrollTop > 0")
    assert page.evaluate("Reveal.getIndices().h") == 1


def test_the_laboratory_is_looked_at_too(page_from_disk, console_errors, tmp_path):
    core, laboratory = decks_of(tmp_path, next=words("More."), laboratory=words("Go."), long=words(PROSE * 5))
    assert faults(page_from_disk, core, "01") == []
    assert [fault[:18] for fault in faults(page_from_disk, laboratory, "01")] == ["01, cell long-0: “"]
    assert console_errors == []


@pytest.mark.full  # three Chromiums; that paper is laid out as the stage is, is told below
def test_printing_gives_a_page_for_each_slide(tmp_path):
    later = new_markdown_cell("Later.", metadata=typed("fragment"))
    decks_of(tmp_path, next=[*code(LISTING), later], laboratory=words("Go."), far=words("Far."), off=words("Off."))
    command = [sys.executable, "-m", "course_lib.workshop.publish.slides", "--pdf", "--folder", tmp_path / "slides"]
    subprocess.run([*command, tmp_path / "01_planted.ipynb"], check=True, capture_output=True)
    contents = (tmp_path / "slides" / "index.html").read_text(encoding="utf-8")
    for name, pages in (("01_planted.pdf", 2), ("01_planted.laboratory.pdf", 3)):
        pdf = (tmp_path / "slides" / name).read_bytes()
        assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == pages
        assert set(re.findall(rb"/MediaBox \[([^\]]*)\]", pdf)) == {b"0 0 960 540"}  # points: 1280 x 720 pixels
        assert f'"{name}"' in contents


PLACES = """() => Reveal.getSlides().map((slide) => {
  if (!document.querySelector("html.reveal-print")) Reveal.slide(...Object.values(Reveal.getIndices(slide)));
  const { left, top } = slide.getBoundingClientRect();
  return [...slide.querySelectorAll(".block > *")].map((part) => {
    const box = part.getBoundingClientRect();
    return [box.left - left, box.top - top, box.width, box.height].map(Math.round);
  });
})"""


def test_paper_is_laid_out_as_the_stage_is(page_from_disk, tmp_path):
    below = [new_markdown_cell("### Below", metadata=typed("subslide")), *html(PICTURE)]
    notes = [new_markdown_cell("Say.", metadata=typed("notes"))]
    deck = deck_of(tmp_path, next=code(LISTING) + html(PICTURE) + notes + below)
    on_stage = opened(page_from_disk, deck).evaluate(PLACES)
    page_from_disk.goto(deck.as_uri() + "?print-pdf")
    page_from_disk.wait_for_selector("html.ready", state="attached")
    assert page_from_disk.evaluate(PLACES) == on_stage
    assert len(on_stage) == 3 and on_stage[0][0][:2] != [0, 0]


def test_the_page_over_all_decks_leads_to_each(page_from_disk, console_errors, tmp_path):
    decks = decks_of(tmp_path, next=words("More."), laboratory=words("Go."))
    for name, deck in zip(("01 · A title", "01 · A title · laboratory"), decks, strict=True):
        page_from_disk.goto(deck.with_name("index.html").as_uri())
        page_from_disk.get_by_role("link", name=name, exact=True).click()
        page_from_disk.wait_for_selector("html.ready", state="attached")
        assert page_from_disk.url.partition("#")[0] == deck.as_uri()
    assert console_errors == []
