"""The pages: what of a notebook goes onto them, what they load, and what is refused in words."""

import base64
import io
import json
import re
import subprocess
from html.parser import HTMLParser

import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from course_lib.workshop.exercises import all_quizzes
from course_lib.workshop.publish import claim_page, front, measured, questions, site, teach
from course_lib.workshop.publish.measured import NOTEBOOKS, ROOT
from course_lib.workshop.publish.normalise import WIDGET_VIEW

pytestmark = pytest.mark.slow

DOT = "data:image/gif;base64,R0lGODlhAQABAAAAACw="
STILL = f'<img src="{DOT}" alt="Two lines that cross."><p>Still picture.</p>'
BAR = " 40%|████      | 4/10 [00:01<00:02,  3.0it/s]"


def markdown(source, **metadata):
    return new_markdown_cell(source, metadata=metadata)


def code(source, *outputs, **metadata):
    return new_code_cell(source, outputs=list(outputs), metadata=metadata, execution_count=1)


def display(**data):
    return new_output("display_data", data={name.replace("_", "/", 1): value for name, value in data.items()})


def lesson(title="# 01 · Crossing lines\n\n**Where do they cross?**"):
    moving = new_output("display_data", data={WIDGET_VIEW: {"model_id": "a"}, "text/html": STILL, "text/plain": "s"})
    return new_notebook(
        cells=[
            markdown(title),
            markdown("Say this aloud.", slideshow={"slide_type": "notes"}),
            markdown(
                "## A formula\n\n$x_t$ as in [this](../course_lib/recurrent/rnn.py), see [lesson 2](02_the_end.ipynb)."
            ),
            code("# NBVAL_CHECK_OUTPUT\nprint('crossing')", new_output("stream", text="crossing\n")),
            code("draw_it()", display(text_html=STILL), tags=["figure"]),
            code("move_it()", moving, tags=["control"]),
            code("train_it()", new_output("stream", name="stderr", text=f"\r{BAR}")),
            code("show_source(step)", display(text_markdown="`rnn.py` · line 3\n\n```python\ndef step(x):\n```")),
        ]
    )


class Page(HTMLParser):
    """What a page loads, where it links to, its pictures, and the text that it shows."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.alts, self.text = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        if tag in {"script", "img", "iframe"} and "src" in named or tag == "link" and "stylesheet" in named["rel"]:
            self.loads.append(named.get("src") or named["href"])
        if tag == "a":
            self.links.append(named.get("href", ""))
        if tag == "img":
            self.alts.append(named.get("alt"))

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A site of three lessons, the last with a laboratory."""
    folder = tmp_path_factory.mktemp("site")
    nbformat.write(lesson(), folder / "01_a.ipynb")
    nbformat.write(with_laboratory(jupyter={"source_hidden": True}), folder / "03_b.ipynb")
    nbformat.write(new_notebook(cells=[markdown("# The course\n\nEnds.")]), folder / "02_the_end.ipynb")
    before = (folder / "01_a.ipynb").read_bytes()
    assert site.build(sorted(folder.glob("*.ipynb")), folder / "html") == []
    assert (folder / "01_a.ipynb").read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["01_a.ipynb", "02_the_end.ipynb", "03_b.ipynb", "html"]
    return folder / "html"


@pytest.fixture
def page(built):
    return Page((built / "01_a.html").read_text(encoding="utf-8"))


def test_the_first_page_lists_the_lessons_with_their_questions(built):
    first = Page((built / "index.html").read_text(encoding="utf-8"))
    assert "01 · Crossing lines" in first.text and "Where do they cross?" in first.text
    assert {"01_a.html", "02_the_end.html"} <= set(first.links)


def test_the_first_page_leads_everybody_within_one_click(built):
    doors = BeautifulSoup((built / "index.html").read_text(encoding="utf-8"), "html.parser").select(".doors section")
    ways = {door.h2.text: [link["href"] for link in door.select("a")] for door in doors}
    assert ways == {
        "Learn": ["01_a.html", "platforms.html", "reading.html", "inside_gpt.html"],
        "Teach": ["teach.html", "results.html", "claims.html"],
        "Write": ["contributing.html", "scale.html"],
    }
    assert all((built / address).is_file() for addresses in ways.values() for address in addresses)


def png(shade):
    file = io.BytesIO()
    Image.new("RGB", (60, 20), (shade, 0, 0)).save(file, format="png")
    return f'<figure><img src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}" alt="shade {shade}">'


@pytest.mark.parametrize(("tagged", "found"), [(0, 0), (1, 50), (2, 100)])
def test_a_lesson_is_listed_with_the_picture_that_it_names_or_its_first(tagged, found, tmp_path):
    """Tagged, a picture is the lesson's; a cell that is tagged and has none, or no tag at all, leaves the first."""
    cells = [code("x", display(text_html=png(shade))) for shade in (0, 50, 100)]
    cells[tagged].metadata["tags"] = ["cover"] if tagged else []
    notebook = new_notebook(cells=[markdown("# 01 · A & B\n\n**Why?**"), *cells])
    made = front.page({"01_a.ipynb": notebook}, tmp_path / "covers", "")
    (picture,) = BeautifulSoup(made, "html.parser").select("ol.lessons img")
    assert (picture["alt"], picture["width"], picture["height"]) == (f"shade {found}", "60", "20")
    assert Image.open(tmp_path / picture["src"]).getpixel((0, 0))[0] == found
    assert "01 · A &amp; B" in made and "<p>Why?</p>" in made


def test_a_lesson_without_a_picture_is_listed_without(tmp_path):
    made = front.page({"01_a.ipynb": new_notebook(cells=[markdown("# 01 · A")])}, tmp_path / "covers", "")
    assert "<img" not in made and '<a href="01_a.html">01 · A</a>' in made and not (tmp_path / "covers").exists()


def test_first_page_and_the_one_about_reading_say_whether_controls_move(built):
    """This site has no control that stands still."""
    for name in ("index", "reading"):
        assert site.MOVE in " ".join(Page((built / f"{name}.html").read_text(encoding="utf-8")).text.split())
    assert site.STAND in site.papers(["01_a.ipynb"], site.STAND)["reading"]


def test_the_page_for_writers_is_the_paper_and_links_to_no_file(built):
    page = Page((built / "contributing.html").read_text(encoding="utf-8"))
    assert "make lesson NUMBER=10" in page.text and "seconds of Run All on two quiet cores, at most" in page.text
    inside = [link.partition("#")[0] for link in page.links if not re.match("https?:|#|$", link)]
    assert all((built / link).is_file() for link in inside)


@pytest.mark.parametrize("name", ["index", "01_a", "02_the_end", *front.AROUND, "search"])
def test_a_page_loads_what_stands_beside_it_and_nothing_else(built, name):
    loads = [name.partition("?")[0] for name in Page((built / f"{name}.html").read_text(encoding="utf-8")).loads]
    files = [name for name in loads if not name.startswith("data:")]
    assert files and all((built / file).is_file() for file in files)


def test_formulas_are_left_to_the_script_that_draws_them(page):
    assert any("tex-svg.js" in name for name in page.loads)
    assert r"\(x_t\)" in page.text


def test_figures_and_stills_stand_with_their_words(page):
    assert page.alts == ["Two lines that cross."] * 2
    assert "Still picture." in page.text


def test_notes_bars_and_marks_for_the_tests_do_not_show(page):
    for absent in ("Say this aloud", "it/s", "NBVAL", "widget-view"):
        assert absent not in page.text
    assert "train_it()" in page.text


def test_the_code_of_figures_and_controls_is_folded(built):
    text = (built / "01_a.html").read_text(encoding="utf-8")
    folded = " ".join(Page(part).text for part in re.findall(r"<details.*?</details>", text, re.DOTALL))
    assert "draw_it()" in folded and "move_it()" in folded
    assert "crossing" not in folded and "train_it()" not in folded


def with_laboratory(**metadata):
    """A lesson with a laboratory of two sections, and a cell of layout with this metadata."""
    listing = "## A trial\n\n```python\n# no heading\n```\n\n### Its parts"
    return new_notebook(
        cells=[
            *lesson().cells,
            markdown("# Laboratory\n\nGo further.", slideshow={"slide_type": "slide"}, tags=["laboratory"]),
            markdown(listing),
            code("lay_out()", new_output("stream", text="laid out\n"), **metadata),
            markdown("## Another trial"),
        ]
    )


def test_a_laboratory_is_a_section_of_its_page(built):
    text = (built / "03_b.html").read_text(encoding="utf-8")
    article = text[text.index("<article") : text.index("</article")]
    headings = re.findall(r"<h(\d)>(.*?)<a", article)
    assert headings == [
        ("1", "03 · B"), ("2", "A formula"), ("2", "Laboratory"),
        ("3", "A trial"), ("4", "Its parts"), ("3", "Another trial"),
    ]  # fmt: skip
    assert "# no heading" in Page(article).text
    folds = [Page(part) for part in re.findall(r"<details.*?</details>", article, re.DOTALL)]
    assert any("lay_out()" in fold.text for fold in folds)
    assert not any("laid out" in fold.text for fold in folds) and "laid out" in Page(article).text
    first = Page((built / "index.html").read_text(encoding="utf-8"))
    assert "Laboratory" not in first.text


@pytest.mark.parametrize("metadata, folded", [
    ({}, False),
    ({"jupyter": {"source_hidden": True}}, True),
    ({"jupyter": {"source_hidden": False}}, False),
    ({"jupyter": {"outputs_hidden": True}}, False),
    ({"tags": ["figure"]}, True),
    ({"tags": ["figure"], "jupyter": {"source_hidden": False}}, False),
])  # fmt: skip
def test_code_that_jupyterlab_folds_is_folded_on_the_page(metadata, folded):
    page = site.prepare(with_laboratory(**metadata), "01_a.ipynb")
    (cell,) = (cell for cell in page.cells if cell.source == "lay_out()")
    assert ("hide-input" in cell.metadata.get("tags", [])) == folded


def test_a_link_leads_to_a_page_or_is_plain_text(page, built):
    assert "02_the_end.html" in page.links and "as in this, see" in page.text
    inside = [link for link in page.links if not re.match("https?:|#|$", link)]
    assert all((built / link.partition("#")[0]).is_file() for link in inside)


def test_the_librarys_source_is_shown_as_code(built):
    assert re.search(r'<span class="k">def</span>', (built / "01_a.html").read_text(encoding="utf-8"))


def test_the_site_can_be_published_as_it_is(built):
    assert (built / ".nojekyll").exists()  # else a common host leaves out folders that begin with _


def test_a_title_without_a_number_gets_it_from_the_file(built):
    first, last = (Page((built / f"{name}.html").read_text(encoding="utf-8")) for name in ("index", "02_the_end"))
    assert "02 · The end" in first.text and "02 · The end" in last.text
    assert "The course" not in first.text + last.text and "Ends." in last.text


def test_picture_links_stay():
    cells = [markdown("# t\n\n![a](a.png) [b](../b.md) [c](https://example.org) [d](#d) [e](01_a.ipynb#e)")]
    assert site.prepare(new_notebook(cells=cells), "a.ipynb").cells[0].source == (
        "# t\n\n![a](a.png) b [c](https://example.org) [d](#d) [e](01_a.ipynb#e)"
    )


# --- what is refused


def refused(tmp_path, text, name="01_a.ipynb"):
    """What `build` says of a notebook; an older site must stand untouched."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "index.html").write_text("older")
    said = site.build([tmp_path / name], tmp_path / "html")
    assert (tmp_path / "html" / "index.html").read_text() == "older"
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "html"]
    return said


def broken(**change):
    cell = code("f(1)")
    cell.update({"id": "the-cell"} | change)
    return new_notebook(cells=[markdown("# t"), cell])


ERROR = new_output("error", ename="ValueError", evalue="no such lag", traceback=[])


@pytest.mark.parametrize(
    "notebook, sentence",
    [
        (broken(execution_count=None), r"01_a\.ipynb: cell `the-cell` was never run: run `make notebooks`"),
        (broken(outputs=[ERROR]), r"01_a\.ipynb: cell 2 \(`f\(1\)`\) raised ValueError: no such lag"),
        (new_notebook(cells=[markdown("no title")]), r"01_a\.ipynb: its first cell is no title: begin it with `# `"),
        (new_notebook(), r"01_a\.ipynb: its first cell is no title.*"),
    ],
)
def test_a_notebook_that_makes_no_page_is_refused_by_file_and_cell(tmp_path, notebook, sentence):
    (said,) = refused(tmp_path, nbformat.writes(notebook))
    assert re.fullmatch(sentence, said)


def test_a_file_that_is_no_notebook_is_refused_by_name(tmp_path):
    (said,) = refused(tmp_path, "not json")
    assert said.startswith("01_a.ipynb: ")


@pytest.mark.parametrize(
    "source, sentence",
    [
        pytest.param("#### Too deep", "header level increase; H1 to H4", marks=pytest.mark.full),
        ("[gone](02_gone.ipynb)", "02_gone.ipynb"),
    ],
)
def test_what_sphinx_finds_is_told_by_file_and_cell(tmp_path, source, sentence):
    cells = [markdown("# t"), markdown("aside", slideshow={"slide_type": "notes"}), markdown("fine")]
    bad = markdown(source)
    bad.id = "bad-cell"
    (said,) = refused(tmp_path, nbformat.writes(new_notebook(cells=[*cells, bad])))
    assert said.startswith("01_a.ipynb: cell `bad-cell`: ") and sentence in said


def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path, monkeypatch):
    find = site.find_spec
    monkeypatch.setattr(site, "find_spec", lambda name: None if name == "furo" else find(name))
    (said,) = refused(tmp_path, nbformat.writes(lesson()))
    assert re.fullmatch(r'furo is not installed: run `\S+ -m pip install -e "\.\[test\]"`', said)


def test_the_command_tells_and_fails(tmp_path, monkeypatch, capsys):
    (tmp_path / "01_a.ipynb").write_text(nbformat.writes(new_notebook()), encoding="utf-8")
    monkeypatch.setattr(measured, "NOTEBOOKS", tmp_path)
    assert site.main([]) == 1
    assert capsys.readouterr().err.startswith("The pages are left as they were: 01_a.ipynb: its first cell")


def test_a_question_can_be_answered_on_the_page_and_its_code_is_gone():
    question = all_quizzes()[0]
    asked = new_output("display_data", {"text/html": "<div>still</div>"}, metadata={"unrolled": {"quiz": question.key}})
    gone = new_output("display_data", {"text/html": "<div>still</div>"}, metadata={"unrolled": {"quiz": "no_such"}})
    notebook = new_notebook(cells=[code("quiz(...)", asked), code("quiz(...)", gone)])
    questions.set_answerable(notebook)
    first, second = notebook.cells
    made = BeautifulSoup(first.outputs[0].data["text/html"], "html.parser")
    known = json.loads(made.find("script").text)
    assert known["correct"] == question.correct and len(known["reasons"]) == len(made.find_all("label"))
    assert made.find("form").has_attr("hidden") and made.find("div").text == "still"
    assert "remove-input" in first.metadata["tags"]
    assert second.outputs[0].data["text/html"] == "<div>still</div>" and "tags" not in second.metadata


def test_claims_are_listed_with_what_was_measured_and_found_again_on_their_page():
    outputs = [
        new_output("display_data", {"text/html": "<div><div>✓</div></div>", "text/plain": plain}, metadata=said)
        for plain, said in (
            ("✓ claim: It <holds> by `f` — in this run 1 ≤ 2", {"unrolled": {"claim": "It <holds> by `f`"}}),
            ("● finding: It: helps — Recorded: 9 of 10 runs", {"unrolled": {"finding": "a.helps"}}),
        )
    ]
    notebook = new_notebook(cells=[markdown("# 77 · A lesson"), *(code("claim(...)", output) for output in outputs)])
    claim_page.set_places(notebook)
    assert outputs[0].data["text/html"] == '<div id="claim-1"><div>✓</div></div>'
    made = claim_page.page({"77_a.ipynb": notebook, "78_b.ipynb": new_notebook(cells=[markdown("# 78 · None")])})
    assert made.count("There are 1") == 2 and "## 77 · A lesson" in made and "78" not in made
    link = '<a href="77_a.html#claim-1">It &lt;holds&gt; by <code>f</code></a>'
    assert f"<dt>✓ {link}</dt><dd>in this run 1 ≤ 2</dd>" in made
    assert '#claim-2">It: helps</a></dt><dd>Recorded: 9 of 10 runs</dd>' in made


def test_the_page_for_teachers_says_what_each_lesson_takes():
    notebooks = {path.name: nbformat.read(path, as_version=4) for path in sorted(NOTEBOOKS.glob("0[01]_*.ipynb"))}
    made = teach.page(notebooks | {"77_other.ipynb": new_notebook(cells=[markdown("# Without slides")])})
    row = next(line for line in made.splitlines() if "(01_rnn_bptt.ipynb)" in line)
    assert re.fullmatch(
        r"\| \[01 · .+\]\(.+\) \| \d+ slides, \d+ min \| \d+ slides, \d+ min \| 6 \| [\d.]+ min \|", row
    )
    assert "| [77_other](77_other.ipynb) |  |  |  |  |" in made
    assert "make nbgrader LESSON=04" in made and "{" not in made


@pytest.mark.full
def test_only_with_a_repository_a_page_leads_away(built, tmp_path):
    away = ("binder", "thebe", "unpkg")
    assert not [word for word in away if word in (built / "01_a.html").read_text(encoding="utf-8").lower()]
    nbformat.write(lesson(), tmp_path / "01_a.ipynb")
    nbformat.write(new_notebook(cells=[markdown("# The course\n\nEnds.")]), tmp_path / "02_the_end.ipynb")
    paths = sorted(tmp_path.glob("*.ipynb"))
    (said,) = site.build(paths, tmp_path / "html", repository="no repository")
    assert said == "'no repository' names no repository of GitHub: say it as owner/name"
    assert site.build(paths, tmp_path / "html", repository="an/owner", branch="next") == []
    page = Page((tmp_path / "html" / "01_a.html").read_text(encoding="utf-8"))
    assert "https://mybinder.org/v2/gh/an/owner/next?labpath=notebooks/01_a.ipynb" in page.links
    text = (tmp_path / "html" / "01_a.html").read_text(encoding="utf-8")
    assert 'repo: "an/owner"' in text and 'ref: "next"' in text and "initThebe()" in text


def test_the_workflow_publishes_what_the_commands_here_make():
    """Its commands are targets of the Makefile, and it uploads the folder that they fill."""
    steps = yaml.safe_load((ROOT / ".github/workflows/site.yml").read_text())["jobs"]["site"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    for command in (one for one in commands if one.startswith("make ")):
        target = command.split()[1]
        dry = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True)
        assert dry.returncode == 0, dry.stderr
    assert [one.split()[:2] for one in commands] == [
        ["make", "frames"],
        ["make", "html"],
        ["make", "slides"],
        ["mv", "build/slides"],
    ]
    (uploaded,) = (step["with"]["path"] for step in steps if "upload-pages-artifact" in step.get("uses", ""))
    assert ROOT / uploaded == site.TARGET
