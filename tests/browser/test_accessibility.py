"""Every page as someone meets it who sees little or uses no mouse: in light and dark, wide and narrow."""

from pathlib import Path

import pytest

from course_lib.publish import front
from course_lib.publish.measured import written

from .conftest import is_from_disk, watched_page

MEASURE = Path(__file__).with_name("measure_page.js").read_text(encoding="utf-8")
LESSONS = written()
PAGES = ["index", *front.AROUND, "search", *(path.stem for path in LESSONS)]
WIDTHS = {"wide": 1440, "narrow": 400}
REACHED = """() => { const e = document.activeElement; e.dataset.reached = 1; const s = getComputedStyle(e);
  return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0; }"""
MISSED = """() => [...document.querySelectorAll("a[href], button, input, summary, [role=button]")]
  .filter(e => e.checkVisibility({visibilityProperty: true}) && e.type !== "hidden" && !e.dataset.reached)
  // Of the options of a question Tab reaches one, and the arrows the others.
  .filter(e => e.type !== "radio" || !document.querySelector(`[name="${e.name}"][data-reached]`))
  .map(e => e.outerHTML.slice(0, 80))"""


def opened(page, address, theme="light", width=1440):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    page.goto(address)
    page.wait_for_function("!window.MathJax || (MathJax.startup?.promise && MathJax.startup.promise.then(() => true))")
    return page


# Colours where most is seen, in both themes; what is narrow has the same ones.
@pytest.mark.parametrize(("theme", "width"), [("light", "wide"), ("dark", "wide"), ("light", "narrow")])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_hard_to_see_or_to_reach(pages, page_from_disk, name, theme, width):
    page = opened(page_from_disk, (pages / f"{name}.html").as_uri(), theme, WIDTHS[width])
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (theme == "dark")
    assert page.evaluate(MEASURE) == []


@pytest.mark.parametrize("name", ["index", *(path.stem for path in LESSONS[-1:])])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_tab_key_reaches_every_control_and_shows_where_it_is(pages, page_from_disk, name, width):
    page = opened(page_from_disk, (pages / f"{name}.html").as_uri(), width=WIDTHS[width])
    total, unseen = page.locator("a[href], button, input, summary, [role=button]").count(), 0
    for _ in range(2 * total):  # boxes that scroll, such as long lines of code, are reached as well
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        unseen += not page.evaluate(REACHED)
    # The way back to the top is there only while somebody scrolls upwards: it may come when Tab has passed it.
    assert [missed for missed in page.evaluate(MISSED) if "back-to-top" not in missed] == []
    assert unseen == 0


def test_the_side_bar_opens_and_closes_by_keys(pages, page_from_disk):
    page = opened(page_from_disk, (pages / "index.html").as_uri(), width=400)
    search = page.get_by_role("textbox", name="Search")
    assert not search.is_visible()
    page.get_by_role("button", name="Toggle site navigation sidebar").focus()
    page.keyboard.press("Enter")
    search.wait_for(state="visible")
    page.keyboard.press("Escape")
    search.wait_for(state="hidden")


# --- the measure itself, shown failing

FINE = """<h1>One</h1><h2>Two</h2><p>Words, <a href="#x">a link</a></p>
<img alt="a dot" src="data:image/gif;base64,{dot}">"""
DOT = "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="
PLANTED = {
    '<p style="color: #777; background: #fff">pale</p>': "contrast 4.48",
    '<p style="opacity: 0.5">faint</p>': "contrast 3.9",
    '<div style="background: #222"><p style="color: #555">dark on dark</p></div>': "contrast 2.1",
    '<img src="data:image/gif;base64,{dot}">': "a figure without alternative text",
    '<img alt="gone" src="gone.png">': "a figure that does not load",
    "<h4>Deep</h4>": "a heading jumps a level",
    "<h1>Again</h1>": "2 headings of the first level",
    '<a href="#x"><svg></svg></a>': "a control without a name",
    '<button tabindex="-1">Press</button>': "a control that no key reaches",
    '<div style="width: 3000px">wide</div>': "px wider than the window",
}


def measured(chromium, folder, body, head='<html lang="en"><title>t</title>'):
    (folder / "page.html").write_text(f"<!DOCTYPE html>{head}<body>{body.replace('{dot}', DOT)}", encoding="utf-8")
    with watched_page(chromium, is_from_disk, []) as page:
        return opened(page, (folder / "page.html").as_uri()).evaluate(MEASURE)


def test_a_fair_page_passes(chromium, tmp_path):
    assert measured(chromium, tmp_path, FINE) == []
    big = '<p style="font-size: 24px; color: #777">large words may be paler</p>'
    assert measured(chromium, tmp_path, FINE + big) == []


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_wrong_is_found(chromium, tmp_path, planted):
    (found,) = measured(chromium, tmp_path, FINE + planted)
    assert PLANTED[planted] in found


def test_a_page_without_language_and_title_is_found(chromium, tmp_path):
    assert len(measured(chromium, tmp_path, FINE, head="<html>")) == 2
