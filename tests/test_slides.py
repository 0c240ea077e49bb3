"""What a notebook becomes as a deck, and how a notebook that makes none is refused; the notes of every lesson."""

import re
import tomllib
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib.lesson import limits
from course_lib.workshop.publish import assets, deck, slides
from course_lib.workshop.publish.measured import ROOT, written

LESSONS = written()
PROGRESS = " 40%|████      | 4/10 [00:01<00:02,  3.0it/s]"
HEADER = "iVBORw0KGgoAAAANSUhEUgAAA8AAAAGQCAYA"  # how a PNG of 960 x 400 begins
STILL = f'<img src="data:image/png;base64,{HEADER}" alt="A curve that falls."><p>Still.</p>'
CLAIMING = "# NBVAL_CHECK_OUTPUT\nh = 1\nclaim('it holds',\n      h == 1)\nprint(h)"


def text(source, kind=None, **more):
    return new_markdown_cell(source, metadata={"slideshow": {"slide_type": kind}} if kind else {}, **more)


def code(source, *outputs, kind=None, **metadata):
    metadata |= {"slideshow": {"slide_type": kind}} if kind else {}
    return new_code_cell(source, outputs=list(outputs), metadata=metadata)


def printed(words, name="stdout"):
    return new_output("stream", text=words, name=name)


def shown(words):
    return new_output("display_data", {"text/html": words, "text/plain": "plain"})


def good():
    """A small notebook that makes a deck of three slides."""
    return new_notebook(cells=[
        text("# 01 · Back-propagation\n\n**How?**", "slide", id="title"),
        text("**Say.** Hello, $h_t$.\n\n**Minutes.** 2", "notes"),
        code("import secret_setup", kind="skip"),
        text("## The *step*", "slide", id="step"),
        code(CLAIMING, printed("one"), printed("warned", "stderr")),
        code("fit()", printed(PROGRESS), new_output("display_data", {"text/plain": PROGRESS})),
        text("Later.", "fragment"),
        text("Still later.", "fragment"),
        text("**Say.** One step.\n\n**Minutes.** 3", "notes"),
        text("### Below & beside", "subslide", id="below"),
        code("draw()", shown(STILL), tags=["figure"]),
        code("%matplotlib inline"),
        text("**Say.** Look.\n\n**Minutes.** 4", "notes"),
    ])  # fmt: skip


def page(notebook, folder):
    """The deck of a notebook, as built and read again."""
    path = folder / "01_small.ipynb"
    nbformat.write(notebook, path)
    (made,) = slides.build([path], folder / "slides")
    return BeautifulSoup(made.read_text(encoding="utf-8"), "html.parser")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The deck of the good notebook; its folder lies beside it."""
    folder = tmp_path_factory.mktemp("deck")
    return page(good(), folder), folder / "slides"


# --- the deck


@pytest.mark.slow
def test_each_slide_has_its_number_its_cells_and_its_notes(small):
    sections = small[0].select("section[data-cell]")
    assert [s["id"] for s in sections] == ["title", "step", "below"]
    assert [(s["data-number"], s["data-total"]) for s in sections] == [("1", "3"), ("2", "3"), ("3", "3")]
    assert [len(s.select(":scope > aside.notes")) for s in sections] == [1, 1, 1]
    assert "Hello" in sections[0].select_one("aside").text
    assert sections[1].parent is sections[2].parent is not sections[0].parent  # a subslide lies below its slide
    assert [s.select_one(".eyebrow").text if s.select_one(".eyebrow") else "" for s in sections] == [
        "Unrolled · lesson 01", "", "The step"]  # fmt: skip


def test_the_title_loses_its_number_and_keeps_its_words_whole(small):
    assert small[0].h1.text == "Back\N{NON-BREAKING HYPHEN}propagation"
    assert small[0].title.text == "01 · Back-propagation · slides"
    assert small[0].html["lang"] == "en"


def test_what_is_not_for_the_room_stays_off_the_slides(small):
    words = small[0].select_one(".slides").text
    for hidden in ("secret_setup", "NBVAL", "claim(", "h == 1", "warned", "40%", "draw()"):
        assert hidden not in words
    for kept in ("h = 1", "print(h)", "one", "fit()", "%matplotlib inline", "Still later."):
        assert kept in words


def test_a_picture_keeps_its_text_and_is_given_its_size(small):
    picture = small[0].select_one("#below .figure img")
    assert picture["alt"] == "A curve that falls."
    assert (picture["width"], picture["height"]) == ("1200", "500")  # a quarter larger than 960 x 400


def test_fragments_follow_each_other_and_hold_no_notes(small):
    fragments = small[0].select("#step > .fragment")
    assert [f.text.strip() for f in fragments] == ["Later.", "Still later."]
    assert not small[0].select(".fragment aside")


def test_a_deck_names_no_other_machine_and_nothing_that_is_missing(small):
    page, folder = small
    used = [tag.get("src") or tag.get("href") for tag in page.select("script[src], link[href], img[src], iframe[src]")]
    files = [link for link in used if not link.startswith("data:")]
    assert "mathjax/startup.js" in files
    for link in files:
        assert (folder / link).is_file()
    for sheet in folder.glob("*.css"):
        for link in re.findall(r"url\(\"?([^\")]*)", sheet.read_text(encoding="utf-8")):
            assert link.startswith("data:") or (folder / link).is_file()


def test_the_page_over_all_decks_says_how_long_each_takes(small):
    contents = BeautifulSoup((small[1] / "index.html").read_text(encoding="utf-8"), "html.parser")
    assert contents.select_one("li > a")["href"] == "01_small.slides.html"
    assert contents.select_one(".facts").text.split() == ["3", "slides", "·", "9", "minutes"]


def test_the_fonts_hold_the_letters_that_the_course_writes(small):
    from fontTools.ttLib import TTFont

    sheet = (small[1] / "fonts.css").read_text(encoding="utf-8")
    assert sheet.count("@font-face") == 6
    letters = set("aZ09é·–—“”…×→↵✓✗○≤≥σδ∂∑²₁ℝ⊙⊤")
    for name in ("DejaVuSans.ttf", "DejaVuSansMono.ttf"):
        font = TTFont(assets._found(assets.FONTS, name))
        assert letters <= {chr(code) for code in font.getBestCmap()}
        assert all(any(low <= ord(x) <= high for low, high in assets.CHARACTERS) for x in letters)


# --- the laboratory


def with_laboratory():
    """The small notebook, with a laboratory of two slides after its core of three."""
    notebook = good()
    notebook.cells += [
        text("# Laboratory\n\nGo further.", "slide", id="laboratory"),
        text("**Say.** Further.\n\n**Minutes.** 5", "notes"),
        text("## A trial", "slide", id="trial"),
        code("secret_layout()", printed("two"), jupyter={"source_hidden": True}),
        code("open_figure()", printed("three"), tags=["figure"], jupyter={"source_hidden": False}),
        text("**Say.** Try.\n\n**Minutes.** 6", "notes"),
    ]  # fmt: skip
    notebook.cells[-6].metadata["tags"] = ["laboratory"]
    return notebook


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The folder of both decks, and the decks as read again: the core's and the laboratory's."""
    folder = tmp_path_factory.mktemp("two")
    nbformat.write(with_laboratory(), folder / "01_small.ipynb")
    made = slides.build([folder / "01_small.ipynb"], folder / "slides")
    assert [path.name for path in made] == ["01_small.slides.html", "01_small.laboratory.slides.html"]
    return folder / "slides", *(BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser") for path in made)


@pytest.mark.slow
def test_core_and_laboratory_are_two_decks_that_count_for_themselves(two):
    core, laboratory = ([s["id"] for s in page.select("section[data-cell]")] for page in two[1:])
    assert (core, laboratory) == (["title", "step", "below"], ["laboratory", "trial"])
    assert [s["data-total"] for s in two[1].select("section[data-cell]")] == ["3"] * 3
    assert [(s["data-number"], s["data-total"]) for s in two[2].select("section[data-cell]")] == [
        ("1", "2"), ("2", "2")]  # fmt: skip


@pytest.mark.slow
def test_the_core_is_the_deck_that_it_is_without_a_laboratory(two, tmp_path):
    notebook = nbformat.read(two[0].with_name("01_small.ipynb"), as_version=4)
    del notebook.cells[-6:]
    assert page(notebook, tmp_path) == two[1]


def test_the_laboratory_names_its_lesson(two):
    assert two[2].title.text == "01 · Back-propagation · laboratory · slides"
    assert two[2].select_one("#laboratory .eyebrow").text == "Unrolled · lesson 01"
    assert two[2].h1.text == "Laboratory"
    assert two[2].select_one("#trial")["data-lesson"] == "01 · Back-propagation · laboratory"


def test_the_page_over_all_decks_gives_the_laboratory_its_own_length(two):
    contents = BeautifulSoup((two[0] / "index.html").read_text(encoding="utf-8"), "html.parser")
    (entry,) = contents.select("ol > li")
    links = {link["href"]: link.text for link in entry.select("a")}
    assert links == {
        "01_small.slides.html": "01 · Back-propagation",
        "01_small.laboratory.slides.html": "Laboratory",
    }
    assert entry.select_one(".laboratory a")["aria-label"] == "01 · Back-propagation · laboratory"
    assert [" ".join(facts.text.split()) for facts in entry.select(".facts")] == [
        "3 slides · 9 minutes",
        "2 slides · 11 minutes",
    ]


def test_folded_code_is_absent_from_slides_and_its_output_stays(two):
    words = two[2].select_one("#trial").text
    assert "secret_layout" not in words and "two" in words
    assert "open_figure" in words  # its writer said so


# --- refused


def without_metadata(notebook):
    for cell in notebook.cells:
        cell.metadata.pop("slideshow", None)


def without_notes(notebook):
    del notebook.cells[8]


def with_empty_notes(notebook):
    notebook.cells[8].source = " \n"


def with_a_dash(notebook):
    notebook.cells[6].metadata.slideshow.slide_type = "-"


def with_a_stray_cell(notebook):
    notebook.cells.insert(0, text("Before all slides.", id="stray"))


def with_an_error(notebook):
    notebook.cells[4].id = "failed"
    notebook.cells[4].outputs = [new_output("error", ename="ValueError", evalue="no", traceback=[])]


def all_skipped(notebook):
    notebook.cells = [text("a", "skip", id="only")]


def tagged(notebook, *numbers):
    for number in numbers:
        notebook.cells[number].metadata["tags"] = ["laboratory"]


def with_a_laboratory_below(notebook):
    tagged(notebook, 9)


def with_a_laboratory_of_code(notebook):
    notebook.cells[4].id = "code"
    tagged(notebook, 4)


def with_a_laboratory_of_another_name(notebook):
    tagged(notebook, 3)


def with_two_laboratories(notebook):
    notebook.cells[3].source = notebook.cells[9].source = "# Laboratory"
    tagged(notebook, 3, 9)


def with_a_laboratory_alone(notebook):
    notebook.cells[0].source = "# Laboratory"
    tagged(notebook, 0)


BEGINS = "a laboratory begins with a Markdown cell `# Laboratory`; give it the slide type slide"
REFUSED = [
    (without_metadata, "01_small.ipynb, cell title: the notebook has no slide metadata"),
    (without_notes, "01_small.ipynb, cell step: the slide has no speaker notes"),
    (with_empty_notes, "01_small.ipynb, cell step: the slide has no speaker notes"),
    (with_a_dash, "the slide type '-' is none of slide, subslide, fragment, skip, notes"),
    (with_a_stray_cell, "01_small.ipynb, cell stray: no slide has begun yet"),
    (with_an_error, "01_small.ipynb, cell failed: its stored output is an error"),
    (all_skipped, "01_small.ipynb, cell only: every cell is skipped"),
    (with_a_laboratory_below, f"01_small.ipynb, cell below: {BEGINS}"),
    (with_a_laboratory_of_code, f"01_small.ipynb, cell code: {BEGINS}"),
    (with_a_laboratory_of_another_name, f"01_small.ipynb, cell step: {BEGINS}"),
    (with_two_laboratories, "01_small.ipynb, cell below: the laboratory begins a second time here"),
    (with_a_laboratory_alone, "01_small.ipynb, cell title: no slide stands before the laboratory"),
]


@pytest.mark.parametrize("spoil, sentence", REFUSED, ids=[spoil.__name__ for spoil, _ in REFUSED])
def test_a_notebook_that_makes_no_deck_is_refused_by_name(spoil, sentence, tmp_path, capsys):
    notebook = good()
    spoil(notebook)
    nbformat.write(notebook, tmp_path / "01_small.ipynb")
    before = tmp_path / "slides" / "02_other.slides.html"
    before.parent.mkdir()
    before.write_text("an older deck")
    assert slides.main([str(tmp_path / "01_small.ipynb"), "--folder", str(before.parent)]) == 1
    assert sentence in capsys.readouterr().err
    assert before.read_text() == "an older deck"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["01_small.ipynb", "slides"]


def test_a_laboratory_that_is_skipped_is_refused(tmp_path):
    notebook = with_laboratory()
    notebook.cells[-6].metadata.slideshow.slide_type = "skip"
    with pytest.raises(ValueError, match=f"x.ipynb, cell laboratory: {BEGINS}"):
        deck.slides(notebook, "x.ipynb")


@pytest.mark.slow
def test_a_new_build_leaves_no_deck_of_a_notebook_that_is_gone(tmp_path):
    page(good(), tmp_path)
    stale = tmp_path / "slides" / "02_gone.slides.html"
    stale.write_text("gone")
    page(good(), tmp_path)
    assert not stale.exists()


@pytest.mark.parametrize("source", [assets.REVEAL, assets.MATHJAX, assets.FONTS], ids=lambda source: source.what)
def test_a_missing_package_is_named_with_its_command(source, tmp_path, monkeypatch):
    real = assets.find_spec
    monkeypatch.setattr(assets, "find_spec", lambda name: None if name == source.module else real(name))
    with pytest.raises(ValueError, match=rf"{source.what}, and its package .* pip install {source.package}$"):
        assets.collect(tmp_path)


def test_a_package_without_its_files_is_named_too(tmp_path, monkeypatch):
    emptied = assets.Source("reveal.js", "a==1", "sphinx_revealjs", "no", ("x.js",))
    monkeypatch.setitem(assets.FOLDERS, "reveal", emptied)
    with pytest.raises(ValueError, match=r"has no no/x\.js: pip install --force-reinstall a==1"):
        assets.collect(tmp_path)


def test_no_chromium_is_one_sentence(tmp_path, monkeypatch, capsys):
    nbformat.write(good(), tmp_path / "01_small.ipynb")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert slides.main(["--pdf", "--folder", str(tmp_path / "slides"), str(tmp_path / "01_small.ipynb")]) == 1
    assert capsys.readouterr().err.strip().count("\n") == 0
    assert not (tmp_path / "slides").exists()


def test_the_packages_are_those_that_the_course_pins():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = set(project["dependencies"]) | set(project["optional-dependencies"]["test"])
    assert {assets.REVEAL.package, assets.MATHJAX.package, assets.FONTS.package} <= pinned


def test_nothing_of_them_lies_in_the_repository():
    ours = [path.name for path in Path(slides.THEME).rglob("*") if path.is_file()]
    assert sorted(ours) == ["chain.svg", "conf.json", "contents.html.j2", "deck.css", "deck.js", "index.html.j2"]


# --- the notes of the lessons


def unspoken(slide):
    """What an instructor misses in a slide's notes."""
    wanted = {
        "**Say.** and a sentence": r"\*\*Say\.\*\* \S",
        "**Ask.** and a question": r"\*\*Ask\.\*\* (?!\*)\S",
        "the answer, after *Expected:*": r"\*\*Ask\.\*\*.*\*Expected:\* \S",
        "**Watch out.** or **Misunderstanding.** and a sentence": r"\*\*(Watch out|Misunderstanding)\.\*\* \S",
        "**Minutes.** and a number": r"\*\*Minutes\.\*\* [1-9]",
    }
    return [what for what, form in wanted.items() if not re.search(form, slide.spoken, re.DOTALL)]


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_notes_say_ask_warn_and_time(path):
    made = deck.slides(nbformat.read(path, as_version=4), path.name)
    missing = [f"{path.name}, cell {slide.id}: the notes lack {what}" for slide in made for what in unspoken(slide)]
    assert not missing, "\n".join(missing)


def unfit_length(made):
    """What is wrong with the length of a lesson's core."""
    core, _ = deck.core_and_laboratory(made)
    total, (least, most) = sum(slide.minutes for slide in core), limits.MINUTES_AS_SLIDES
    fits = least <= total <= most
    return [] if fits else [f"the minutes in the core's notes add up to {total}, not to {least} to {most}"]


@pytest.mark.parametrize("path", [p for p in LESSONS if not p.name.startswith("00")], ids=lambda path: path.stem)
def test_a_lesson_is_as_long_as_a_lesson_may_be(path):
    assert unfit_length(deck.slides(nbformat.read(path, as_version=4), path.name)) == []


@pytest.mark.parametrize("slides, minutes, laboratory, faults", [
    (15, 5, False, []),
    (15, 5, True, []),
    (15, 3, False, ["the minutes in the core's notes add up to 45, not to 65 to 90"]),
    (23, 4, True, ["the minutes in the core's notes add up to 92, not to 65 to 90"]),
])  # fmt: skip
def test_a_lesson_of_another_length_is_found(slides, minutes, laboratory, faults):
    core = [deck.Slide([text("## A")], [text(f"**Minutes.** {minutes}")], below=n % 2 == 1) for n in range(slides)]
    begin = new_markdown_cell("# Laboratory", metadata={"tags": ["laboratory"]})
    after = [deck.Slide([begin], [text("**Minutes.** 90")], below=False)] * 20 if laboratory else []
    assert unfit_length(core + after) == faults


WHOLE = "**Say.** It falls.\n\n**Ask.** Why? *Expected:* tanh.\n\n**Watch out.** It does not stop.\n\n**Minutes.** 3"


@pytest.mark.parametrize("lost, named", [
    ("**Say.** ", "Say"), ("Why? ", "Ask"), ("*Expected:* ", "Expected"),
    ("**Watch out.** ", "Watch out"), (" 3", "Minutes"),
])  # fmt: skip
def test_notes_that_lack_a_part_are_named(lost, named):
    def slide(notes):
        return deck.Slide([text("## A")], [text(notes)], below=False)

    assert unspoken(slide(WHOLE)) == []
    assert any(named in what for what in unspoken(slide(WHOLE.replace(lost, ""))))
    assert slide(WHOLE).minutes == 3
