"""The pages as a reader opens them: from disk, with no network; searched, leafed through, in light and dark."""

import io
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from course_lib.show.frames import ASKED
from course_lib.show.plots import Picture
from course_lib.show.widgets import explore
from course_lib.workshop.exercises import find_quiz
from course_lib.workshop.publish import frames, front, site
from course_lib.workshop.publish.measured import written

from .conftest import many_pages
from .student import bare
from .test_accessibility import MEASURE, MISSED, REACHED

LESSONS = written()
PAGES = ["index", *front.AROUND, "search", *(path.stem for path in LESSONS)]
DRAWN = """async () => { await window.MathJax?.startup?.promise;
  return [...document.querySelectorAll(".math")].map(math => math.querySelector("mjx-container svg path") !== null
    && !math.querySelector("mjx-merror, [data-mml-node=merror]")); }"""


# Colours where most is seen, in both themes; what is narrow has the same ones.
LOOKS = [("light", 1440), ("dark", 1440), ("light", 400)]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The folder of the course's site."""
    folder = tmp_path_factory.mktemp("course") / "site"
    assert site.build(written(), folder) == []
    return folder


@pytest.fixture
def page(pages, page_from_disk):
    """A page that opens others of the site by name: page.show("index")."""
    page_from_disk.show = lambda name: page_from_disk.goto((pages / f"{name}.html").as_uri())
    return page_from_disk


def leads_to(file, name):
    """The name of the page that the link of this class on a page leads to; None where there is none."""
    found = re.search(rf'<a class="{name}" href="([^"]+)\.html"', file.read_text(encoding="utf-8"))
    return found and found[1]


def follow(page, link):
    """Clicks a link and waits until its page is read, not drawn: a click alone may return while the old one stands."""
    with page.expect_navigation(wait_until="domcontentloaded"):
        page.locator(link).click()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_whole_and_nothing_on_it_is_hard_to_see_or_to_reach(pages, reader, name):
    """Each page is opened once, and looked at in both themes and widths: its formulas take longest to draw."""
    reader.goto((pages / f"{name}.html").as_uri())
    formulas = reader.evaluate(DRAWN)
    assert all(formulas)
    assert bool(formulas) == ('class="math' in reader.content())
    for theme, width in LOOKS:
        reader.set_viewport_size({"width": width, "height": 900})
        reader.emulate_media(color_scheme=theme)
        dark = reader.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        assert dark == (theme == "dark")
        assert reader.evaluate(MEASURE) == [], (theme, width)
    assert reader.complaints() == []


@pytest.mark.parametrize(("name", "width"), [
    ("index", 400), (LESSONS[-1].stem, 1440),
    pytest.param("index", 1440, marks=pytest.mark.full), pytest.param(LESSONS[-1].stem, 400, marks=pytest.mark.full),
])  # fmt: skip
def test_the_tab_key_reaches_every_control_and_shows_where_it_is(page, name, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.show(name)
    page.evaluate(DRAWN)
    total, unseen = page.locator("a[href], button, input, summary, [role=button]").count(), 0
    for _ in range(2 * total):  # boxes that scroll, such as long lines of code, are reached as well
        page.keyboard.press("Tab")
        seen = page.evaluate(f"document.activeElement === document.body ? null : ({REACHED})()")
        if seen is None:
            break
        unseen += not seen
    # The way back to the top is there only while somebody scrolls upwards: it may come when Tab has passed it.
    assert [missed for missed in page.evaluate(MISSED) if "back-to-top" not in missed] == []
    assert unseen == 0


def test_the_side_bar_opens_and_closes_by_keys(page):
    page.set_viewport_size({"width": 400, "height": 900})
    page.show("index")
    search = page.get_by_role("textbox", name="Search")
    assert not search.is_visible()
    page.get_by_role("button", name="Toggle site navigation sidebar").focus()
    page.keyboard.press("Enter")
    search.wait_for(state="visible")
    page.keyboard.press("Escape")
    search.wait_for(state="hidden")


@pytest.fixture(scope="module")
def first_lesson(pages, chromium):
    """The page of lesson 01, opened once for what is done on it."""
    with many_pages(chromium) as page:
        page.goto((pages / "01_rnn_bptt.html").as_uri())
        yield page


def test_a_lesson_has_formulas_figures_and_claims(first_lesson):
    assert len(first_lesson.evaluate(DRAWN)) >= 20
    assert first_lesson.locator("article img").count() >= 10
    assert first_lesson.get_by_text("Claim:").count() >= 10


def test_every_claim_is_on_one_page_and_leads_to_its_place(page, console_errors):
    page.show("claims")
    claims = page.locator("article dt a")
    assert claims.count() > 300 and page.locator("article dt", has_text="✗").count() == 0
    told = claims.nth(30).inner_text()
    with page.expect_navigation():
        claims.nth(30).click()
    assert told in page.locator(":target").inner_text()
    assert console_errors == []


def test_a_question_is_answered_by_keys_and_gives_its_reasons(first_lesson):
    page = first_lesson
    question = page.locator("form.quiz").first
    key = question.get_attribute("data-key")
    right, reasons = find_quiz(key).correct, [reason for _, reason in find_quiz(key).options]
    verdict = question.get_by_role("status")
    check = question.get_by_role("button", name="Check")
    check.press("Enter")
    assert verdict.inner_text() == "○ Choose an answer first."
    for n, reason in enumerate(reasons):
        question.get_by_role("radio").nth(n).focus()
        page.keyboard.press("Space")
        assert verdict.inner_text() == ""
        check.press("Enter")
        assert ("Right." if n == right else "Not this one.") in verdict.inner_text()
        assert bare(reason) in bare(verdict.inner_text())
    assert page.get_by_text("Run this cell to answer.").and_(page.locator(":visible")).count() == 0
    assert page.complaints() == []


def test_search_finds_a_word_and_leads_to_its_page(page, console_errors):
    page.show("index")
    page.get_by_role("textbox", name="Search").fill("clipping")
    page.keyboard.press("Enter")
    found = page.locator("#search-results li a").first
    found.wait_for()
    page.locator("#search-results a[href*='01_rnn_bptt']").first.click()
    page.wait_for_url("**/01_rnn_bptt.html*")
    assert "clipping" in page.locator("article").inner_text().lower()
    assert console_errors == []


def test_search_for_what_is_nowhere_says_so(page):
    page.show("index")
    page.get_by_role("textbox", name="Search").fill("zyzzyva")
    page.keyboard.press("Enter")
    page.get_by_text("did not match any documents").wait_for()


def test_next_leads_through_all_lessons_and_previous_back(pages):
    """As the links of the files say; a test below clicks one of them."""
    at, way = "index", []
    while following := leads_to(pages / f"{at}.html", "next-page"):
        assert leads_to(pages / f"{following}.html", "prev-page") == at
        way.append(at := following)
    assert way == [*(path.stem for path in LESSONS), *front.AROUND]
    assert leads_to(pages / "index.html", "prev-page") is None


def test_folded_code_opens_by_keys_and_shows_where_they_are(first_lesson):
    page = first_lesson
    fold = page.locator("article details.hide").first
    assert not fold.locator(".cell_input").is_visible()
    fold.locator("summary").focus()
    page.keyboard.press("Shift+Tab")  # what a script focuses shows no frame; what a key reaches does
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.matches('details.hide > summary')")
    outline = (
        "(() => { const s = getComputedStyle(document.activeElement); return [s.outlineStyle, s.outlineWidth]; })()"
    )
    style, width = page.evaluate(outline)
    assert style != "none" and float(width.removesuffix("px")) >= 1
    assert fold.locator("summary").inner_text().strip() == "Show the code"
    assert fold.locator("summary").get_attribute("aria-label") is None  # what is read aloud is what is seen
    page.keyboard.press("Enter")
    fold.locator(".cell_input").wait_for(state="visible")
    assert fold.locator("summary").inner_text().strip() == "Hide the code"
    page.keyboard.press("Space")
    fold.locator(".cell_input").wait_for(state="hidden")


def test_the_theme_switch_goes_dark_and_stays_so(page):
    page.show("index")
    switch = page.get_by_role("button", name="Toggle Light / Dark / Auto color theme").and_(page.locator(":visible"))

    def is_dark():
        red, *_ = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
        return red < 64

    looks = []
    for _ in range(3):  # light, dark, and what the system says
        looks.append(is_dark())
        switch.click()
    assert set(looks) == {False, True}
    while not is_dark():
        switch.click()
    follow(page, "a.next-page")
    assert is_dark()


def wide(n):
    png = io.BytesIO()
    Image.new("RGB", (1200, 340), (40 * n, 0, 0)).save(png, format="png")
    return Picture(png.getvalue(), f"shade {n}", width=1200)


@pytest.fixture
def moving(tmp_path, monkeypatch):
    """The address of a page with one slider, whose picture is wider than a phone."""
    monkeypatch.setenv(ASKED, "1")
    monkeypatch.setattr(frames, "KEPT", tmp_path / "frames")
    shown = new_output("display_data", data=explore(wide, n=("how dark", 1, 0, 5, 1))._repr_mimebundle_())
    cell = new_code_cell("explore(wide)", id="dark", outputs=[shown], execution_count=1)
    notebook = new_notebook(cells=[new_markdown_cell("# 01 · Shades\n\nA slider."), cell])
    path = tmp_path / "01_a.ipynb"
    frames.keep(frames.kept_at(notebook, path.name), frames.taken(notebook))
    nbformat.write(notebook, path)
    assert site.build([path], tmp_path / "html") == []
    return (tmp_path / "html" / "01_a.html").as_uri()


def test_on_a_phone_a_picture_scrolls_alone_and_a_value_stands_by_its_slider(page_from_disk, moving, console_errors):
    page = page_from_disk
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(moving)
    picture, slider, value = page.locator("article img"), page.get_by_role("slider"), page.locator("form.moves output")
    before = slider.bounding_box()
    assert picture.bounding_box()["width"] > 390 > before["x"] + before["width"]
    picture.evaluate("box => { for (; box; box = box.parentElement) box.scrollLeft = box.scrollWidth }")
    assert picture.bounding_box()["x"] + picture.bounding_box()["width"] <= 390, "its right end can be seen"
    assert slider.bounding_box() == before
    slider.press("End")
    told = value.bounding_box()
    assert value.inner_text() == "5" and told["x"] >= before["x"] + before["width"]
    assert before["y"] <= told["y"] + told["height"] / 2 <= before["y"] + before["height"]
    assert console_errors == []
