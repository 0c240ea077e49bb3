"""How a page is measured for someone who sees little or uses no mouse: what is wrong is found, and what is fair passes.

test_site.py measures every page of the course by it.
"""

from pathlib import Path

import pytest

MEASURE = Path(__file__).with_name("measure_page.js").read_text(encoding="utf-8")
REACHED = """() => { const e = document.activeElement; e.dataset.reached = 1; const s = getComputedStyle(e);
  return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0; }"""
MISSED = """() => [...document.querySelectorAll("a[href], button, input, summary, [role=button]")]
  .filter(e => e.checkVisibility({visibilityProperty: true}) && e.type !== "hidden" && !e.dataset.reached)
  // Of the options of a question Tab reaches one, and the arrows the others.
  .filter(e => e.type !== "radio" || !document.querySelector(`[name="${e.name}"][data-reached]`))
  .map(e => e.outerHTML.slice(0, 80))"""


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


def measured(reader, folder, body, head='<html lang="en"><title>t</title>'):
    (folder / "page.html").write_text(f"<!DOCTYPE html>{head}<body>{body.replace('{dot}', DOT)}", encoding="utf-8")
    reader.goto((folder / "page.html").as_uri())
    return reader.evaluate(MEASURE)


def test_a_fair_page_passes(reader, tmp_path):
    assert measured(reader, tmp_path, FINE) == []
    big = '<p style="font-size: 24px; color: #777">large words may be paler</p>'
    assert measured(reader, tmp_path, FINE + big) == []


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_wrong_is_found(reader, tmp_path, planted):
    (found,) = measured(reader, tmp_path, FINE + planted)
    assert PLANTED[planted] in found


def test_a_page_without_language_and_title_is_found(reader, tmp_path):
    assert len(measured(reader, tmp_path, FINE, head="<html>")) == 2
