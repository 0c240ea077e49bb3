"""The page on which a GPT lies open: each of its numbers leads to a line of the library that exists."""

import re

import pytest
from bs4 import BeautifulSoup

from course_lib.workshop.publish import alive, inside_gpt
from course_lib.workshop.publish.inside_gpt import ORIGINS, Origin
from course_lib.workshop.publish.measured import ROOT
from course_lib.workshop.recipes import stored


@pytest.mark.parametrize("name", ORIGINS)
def test_an_origin_leads_to_the_line_that_computes(name):
    file, line, source = ORIGINS[name].place()
    assert file.startswith("course_lib/")
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()[line - 1 :]
    assert lines[0].strip().startswith(ORIGINS[name].says)
    assert [one.strip() for one in lines[: source.count("\n") + 1]] == [one.strip() for one in source.splitlines()]


@pytest.mark.parametrize(
    ("of", "says", "error"),
    [
        ("attention.attention:attend", "no such", "attend has no statement that begins with `no such`"),
        ("attention.attention:gone", "return", "gone"),
    ],
)
def test_an_origin_that_is_not_there_is_refused(of, says, error):
    with pytest.raises((ValueError, AttributeError), match=error):
        Origin("t", "f", of, says).place()


def test_every_number_of_the_page_has_an_origin_and_every_origin_a_number():
    """`x` is the stream in front of a block: its origin is that of the embedding, or of the block before."""
    made = BeautifulSoup(inside_gpt.form(stored.load(inside_gpt.MODEL)[0].config), "html.parser")
    vectors = {one["data-vector"] for one in made.select("[data-vector]")}
    named = {one["data-from"] for one in made.select("[data-from]")} | vectors - {"x"}
    script = (alive.SCRIPTS / "inside.js").read_text(encoding="utf-8")
    named |= {*re.findall(r'number\("\w+", "(\w+)"', script)}
    assert named == {*ORIGINS}


def test_the_page_has_an_entry_for_each_origin_and_leads_to_its_lesson_where_that_is():
    page = inside_gpt.page(["07_gpt.ipynb"])
    for name, origin in ORIGINS.items():
        file, line, source = origin.place()
        entry = page.partition(f'id="from-{name}"')[2].partition("</div>")[0]
        assert f"`{file}`, line {line}\n" in entry and source in entry and origin.formula in entry
    assert "[lesson 07](07_gpt.ipynb)" in page and "].ipynb" not in inside_gpt.page([])


def test_the_form_names_each_control_once():
    made = BeautifulSoup(inside_gpt.form(stored.load(inside_gpt.MODEL)[0].config), "html.parser")
    assert {one["for"] for one in made.select("label[for]")} == {"inside-text", "inside-temperature"}
    assert [one["value"] for one in made.select("input[checked]")] == ["0", "0"]
    assert made.textarea.text == alive.FIRST_WORDS
