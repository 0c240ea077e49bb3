"""Every stored notebook is fit to be read: executed, clean, light, anonymous, with text for each picture.

A check takes a notebook as a dict and returns what is wrong, a sentence each. Below, each is shown failing.
"""

import getpass
import json
import platform
import re
from copy import deepcopy
from html.parser import HTMLParser
from zlib import crc32

import nbformat
import pytest

from course_lib.lesson import limits
from course_lib.workshop.experiments import record
from course_lib.workshop.publish import blocks, measured
from course_lib.workshop.publish.normalise import KERNEL, NOTEBOOK_METADATA, WIDGET_VIEW, faults
from course_lib.workshop.publish.parts import COVER

NOTEBOOKS = measured.written()
SLIDE_TYPES = {"slide", "subslide", "fragment", "skip", "notes"}
FOLDERS = r"(?<![\w./-])/(home|root|work|tmp|Users|private|mnt|var|opt)/\w|\b[A-Z]:\\\w"
# Names of machines and users that are words too; they tell nothing about who ran the notebook.
PLAIN_NAMES = {"root", "user", "student", "admin", "runner", "localhost", "ubuntu", "debian", "jovyan"}


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs(notebook):
    return [output for cell in code_cells(notebook) for output in cell["outputs"]]


def load(path):
    """The notebook as stored, its lines joined, nothing repaired."""
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def words(notebook):
    """What stands in a notebook as text: sources, printed text, HTML without the bytes of its pictures."""
    texts = [cell["source"] for cell in notebook["cells"]]
    for output in outputs(notebook):
        texts += [output.get("text", ""), *map(str, output.get("traceback", []))]
        texts += [data for kind, data in output.get("data", {}).items() if kind.startswith("text/")]
    return re.sub(r"base64,[A-Za-z0-9+/=\s]+", "base64,", "\n".join(texts))


def slide_type(cell):
    return cell["metadata"].get("slideshow", {}).get("slide_type")


def valid(notebook):
    """It is a notebook of format 4.5, by the format's own rules."""
    if (notebook["nbformat"], notebook["nbformat_minor"]) != (4, 5):
        return [f"format {notebook['nbformat']}.{notebook['nbformat_minor']}, not 4.5"]
    try:
        nbformat.validate(deepcopy(notebook))
    except nbformat.ValidationError as error:
        return [str(error).splitlines()[0]]
    return []


def executed(notebook):
    """Every code cell was run, in order, from a fresh kernel, and something is to be seen."""
    counts = [cell["execution_count"] for cell in code_cells(notebook)]
    wrong = [f"execution counts {counts}"] if counts != list(range(1, len(counts) + 1)) else []
    return wrong + ([] if outputs(notebook) else ["no outputs"])


def calm(notebook):
    """No error and no warning was stored."""
    return faults(nbformat.from_dict(notebook))


def unbranched(notebook):
    """What a student runs is what is checked: no cell is skipped, expected to fail, or asks who runs it."""
    found = re.findall(r"NBVAL_SKIP|NBVAL_RAISES_EXCEPTION|environ.{0,6}[\"']CI[\"']", words(notebook))
    tags = {tag for cell in notebook["cells"] for tag in cell["metadata"].get("tags", [])}
    return found + sorted(tags & {"nbval-skip", "nbval-raises-exception", "raises-exception"})


def light(notebook):
    size = len(json.dumps(notebook, ensure_ascii=False, indent=1).encode())
    return [f"{size:,} bytes"] if size >= limits.NOTEBOOK_BYTES else []


def placeless(notebook):
    """No path of the machine it ran on."""
    return [match[0] for match in re.finditer(FOLDERS, words(notebook))]


def nameless(notebook, names=None):
    """Neither the machine's name nor the user's."""
    telling = {
        name
        for name in names or (platform.node(), getpass.getuser())
        if len(name) > 2 and name.lower() not in PLAIN_NAMES
    }
    return [name for name in sorted(telling) if re.search(rf"\b{re.escape(name)}\b", words(notebook))]


def identified(notebook):
    ids = [cell.get("id") for cell in notebook["cells"]]
    return [f"id {name} twice" for name in dict.fromkeys(ids) if ids.count(name) > 1]


def on_python3(notebook):
    return [] if notebook["metadata"].get("kernelspec") == KERNEL else ["another kernel than python3"]


def stateless(notebook):
    """No widget state, no live view, nothing that an editor left."""
    extra = notebook["metadata"].keys() - NOTEBOOK_METADATA - {"kernelspec", "language_info"}
    wrong = [f"metadata {key}" for key in sorted(extra)]
    wrong += ["a stored widget view" for output in outputs(notebook) if WIDGET_VIEW in output.get("data", {})]
    return wrong + ["execution times" for cell in code_cells(notebook) if "execution" in cell["metadata"]]


def compared(notebook):
    """Enough cells have a text output that nbval compares."""
    count = 0
    for cell in code_cells(notebook):
        tags = cell["metadata"].get("tags", [])
        marked = "NBVAL_CHECK_OUTPUT" in cell["source"] or "nbval-check-output" in tags
        count += marked and any("text" in o or "text/plain" in o.get("data", {}) for o in cell["outputs"])
    if count >= limits.COMPARED_CELLS:
        return []
    return [
        f"{count} cells with a compared output, and {limits.COMPARED_CELLS} are needed: begin cells whose text "
        "cannot vary (show_source, an assertion that prints, numbers worked by hand) with # NBVAL_CHECK_OUTPUT"
    ]


def slides(notebook):
    """A cell's slide type is one that exists; a cell that continues a slide has no slideshow key at all."""
    return [
        f"cell {cell['id']}: slide type {slide_type(cell)!r}"
        for cell in notebook["cells"]
        if "slideshow" in cell["metadata"] and slide_type(cell) not in SLIDE_TYPES
    ]


def spoken(notebook):
    """Every slide has speaker notes before the next slide; notes are folded away from a student who reads."""
    wrong, waiting = [], None
    for cell in notebook["cells"]:
        kind = slide_type(cell)
        if kind in {"slide", "subslide"}:
            wrong += [waiting] if waiting else []
            waiting = f"the slide at cell {cell['id']} has no notes"
        elif kind == "notes":
            waiting = None
            if cell["cell_type"] != "markdown" or not cell["source"].strip():
                wrong.append(f"notes cell {cell['id']} is no text")
            # Not by metadata: JupyterLab unfolds a Markdown cell when it is run, and Run All runs them all.
            if not re.fullmatch(r"<details><summary>.+?</summary>\n\n.+\n\n</details>", cell["source"], re.DOTALL):
                wrong.append(f"notes cell {cell['id']} is not folded (<details><summary>...</summary>)")
    return wrong + ([waiting] if waiting else [])


class _Pictures(HTMLParser):
    """Collects, for each picture in HTML, the text that stands for it."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        if tag == "img":
            self.texts.append(named.get("alt") or "")
        elif tag == "svg":
            self.texts.append(named.get("aria-label") or "")
        elif tag == "title" and self.texts and not self.texts[-1]:
            self.texts[-1] = "title"


def described(notebook):
    """Every picture has a text that stands for it."""
    wrong = []
    for cell in notebook["cells"]:
        pages = [cell["source"]] if cell["cell_type"] == "markdown" else []
        pages += [o["data"]["text/html"] for o in cell.get("outputs", []) if "text/html" in o.get("data", {})]
        for page in pages:
            reader = _Pictures()
            reader.feed(page)
            wrong += [f"cell {cell['id']}: a picture without text" for text in reader.texts if not text.strip()]
        if cell["cell_type"] == "markdown":
            wrong += [f"cell {cell['id']}: ![](…) without text" for _ in re.findall(r"!\[\s*\]\(", pages[0])]
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            bare = any(kind.startswith("image/") for kind in data) and "text/html" not in data
            wrong += [f"cell {cell['id']}: a bare image, no <img alt=…>"] if bare else []
    return wrong


def still(notebook):
    """A control stands beside a picture of itself, for GitHub, slides and paper."""
    return [
        f"cell {cell['id']}: a control without text/html"
        for cell in code_cells(notebook)
        if "control" in cell["metadata"].get("tags", [])
        and not any("text/html" in output.get("data", {}) for output in cell["outputs"])
    ]


def covered(notebook):
    """One cell's picture stands for the lesson on the first page of the site."""
    tagged = [cell for cell in code_cells(notebook) if COVER in cell["metadata"].get("tags", [])]
    pictures = [o for cell in tagged for o in cell["outputs"] if "<img" in o.get("data", {}).get("text/html", "")]
    return [] if len(tagged) == 1 and pictures else [f"{len(tagged)} cells with a picture tagged {COVER}, not one"]


def claiming(notebook):
    """It makes claims, each with its sentence, and they hold."""
    claims = measured.records(nbformat.from_dict(notebook), "claim")
    wrong = [f"the claim {data['claim']!r}" for data in claims if not str(data["claim"]).strip()]
    wrong += [f"“{data['claim']}” does not hold" for data in claims if not data.get("holds", True)]
    return wrong if claims else ["no claim"]


def well_named(name):
    return [] if re.fullmatch(r"\d\d_[a-z0-9]+(_[a-z0-9]+)*\.ipynb", name) else [f"{name} is not NN_concept.ipynb"]


EVERYWHERE = [
    valid,
    executed,
    calm,
    unbranched,
    light,
    placeless,
    nameless,
    identified,
    on_python3,
    stateless,
]
EVERYWHERE += [slides, spoken, described, still, covered]
LESSONS_ONLY = [compared, claiming]


# --- the course as it stands


@pytest.mark.parametrize("check", EVERYWHERE, ids=lambda check: check.__name__)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, check):
    assert check(load(path)) == []


@pytest.mark.parametrize("check", LESSONS_ONLY, ids=lambda check: check.__name__)
@pytest.mark.parametrize("path", [p for p in NOTEBOOKS if not p.name.startswith("00")], ids=lambda path: path.stem)
def test_lesson(path, check):
    assert check(load(path)) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_was_measured_as_it_is_stored(path):
    assert well_named(path.name) == []
    entry = measured.read().get(path.name)
    assert entry, f"{path.name} was never measured: run `make notebooks`"
    assert entry.get("speed") == measured.measurement(nbformat.read(path, 4), 0, 0).get("speed"), "run `make notebooks`"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_the_results_that_are_recorded_today(path):
    """What stands in its boxes and pictures was read from the lesson's records: other results, another notebook."""
    read = measured.read().get(path.name, {}).get("results", "")
    assert read == record.results(path.stem[3:]), "run `make notebooks`"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_run_all_is_quick_and_light(path):
    """As it was measured when the notebook was stored, core and laboratory."""
    entry = measured.read()[path.name]
    loads = any("published.fetch" in cell["source"] for cell in code_cells(load(path)))
    assert entry["seconds"] <= limits.SECONDS
    assert entry["peak_mb"] <= (limits.MEMORY_MB_REAL_MODEL if loads else limits.MEMORY_MB)


def test_only_existing_notebooks_are_measured():
    assert measured.read().keys() <= {path.name for path in NOTEBOOKS}


@pytest.mark.parametrize(("paper", "made"), [("README.md", {"map", "minutes"}), ("CONTRIBUTING.md", {"limits"})])
def test_the_tables_that_are_made_are_as_they_would_be_made_now(paper, made):
    text = (measured.ROOT / paper).read_text(encoding="utf-8")
    assert {name for _, name, _ in blocks.BLOCK.findall(text)} == made
    assert blocks.filled(text) == text, "run `python -m course_lib.workshop.publish.blocks`"


# --- the checks themselves, shown failing


def markdown(source, **metadata):
    return {
        "cell_type": "markdown",
        "id": f"m{crc32(source.encode())}",
        "metadata": metadata,
        "source": source,
    }


def code(source, *shown, count=1, **metadata):
    cell = {
        "cell_type": "code",
        "id": f"c{crc32(source.encode())}",
        "metadata": metadata,
        "source": source,
    }
    return cell | {"execution_count": count, "outputs": list(shown)}


def printed(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def shown(data, **metadata):
    return {"output_type": "display_data", "data": data, "metadata": metadata}


FOLDED = "<details><summary>For the instructor</summary>\n\n{}\n\n</details>"
NOTES = {"slideshow": {"slide_type": "notes"}}
SLIDE = {"slideshow": {"slide_type": "slide"}}
PICTURE = {"text/html": '<figure><img alt="a curve" src="data:image/png;base64,/tmp/x/home/y+/work/z"></figure>'}
CLAIM = {"unrolled": {"claim": "it learns", "holds": True, "values": []}}


def good():
    """A small notebook that passes every check."""
    compared_cells = [code(f"# NBVAL_CHECK_OUTPUT\nprint({n})", printed(f"{n}\n"), count=n) for n in range(1, 6)]
    cells = [
        markdown("# A title\n\nSee the square root in https://example.org/home/page and course_lib/data.", **SLIDE),
        markdown(FOLDED.format("Say hello."), **NOTES),
        *compared_cells,
        code("draw()", shown(PICTURE), count=6, slideshow={"slide_type": "subslide"}, tags=[COVER]),
        markdown(FOLDED.format("Point at the curve."), **NOTES),
        code("claim('it learns', True)", shown({"text/plain": "✓"}, **CLAIM), count=7),
    ]
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": KERNEL, "language_info": {"name": "python"}},
        "cells": cells,
    }


@pytest.mark.parametrize("check", EVERYWHERE + LESSONS_ONLY, ids=lambda check: check.__name__)
def test_a_good_notebook_passes(check):
    assert check(good()) == []


def cell(index, **changes):
    """A change of one cell of the good notebook."""

    def change(notebook):
        notebook["cells"][index] |= changes

    return change


def add(*cells):
    return lambda notebook: notebook["cells"].extend(cells)


def top(**changes):
    return lambda notebook: notebook.update(changes)


ERROR = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []}
VIEW = {WIDGET_VIEW: {"model_id": "a"}, "text/html": "still"}
PLANTED = [
    (valid, top(nbformat_minor=4)),
    (valid, cell(0, id="no spaces")),
    (valid, cell(2, outputs=[{"output_type": "stream", "text": "x"}])),
    (executed, cell(2, execution_count=None)),
    (executed, cell(3, execution_count=9)),
    (executed, top(cells=[markdown("only text")])),
    (calm, cell(2, outputs=[ERROR])),
    (calm, cell(2, outputs=[printed("UserWarning: look out", "stderr")])),
    (calm, cell(2, source=" ")),
    (unbranched, cell(2, source="# NBVAL_SKIP\ntrain()")),
    (unbranched, cell(2, source="if os.environ.get('CI'): steps = 1")),
    (unbranched, cell(2, metadata={"tags": ["raises-exception"]})),
    (light, add(code("big", printed("x" * limits.NOTEBOOK_BYTES)))),
    (placeless, cell(2, outputs=[printed("saved to /home/ada/course/run")])),
    (placeless, cell(2, outputs=[printed(r"saved to C:\Users\ada")])),
    (placeless, cell(0, source="open('/tmp/x')")),
    (identified, lambda notebook: notebook["cells"].append(deepcopy(notebook["cells"][0]))),
    (on_python3, top(metadata={"kernelspec": {"name": "torch-env", "display_name": "torch"}})),
    (stateless, top(metadata={"kernelspec": KERNEL, "widgets": {}})),
    (stateless, cell(2, outputs=[shown(VIEW)])),
    (stateless, cell(2, metadata={"execution": {"iopub.status.busy": "2026-01-01"}})),
    (compared, cell(2, source="print(1)")),
    (compared, cell(2, outputs=[])),
    (slides, cell(0, metadata={"slideshow": {"slide_type": "-"}})),
    (slides, cell(0, metadata={"slideshow": {}})),
    (spoken, cell(1, metadata={})),
    (spoken, cell(8, metadata={})),
    (spoken, cell(1, source="Say hello.")),
    (spoken, cell(1, source="")),
    (covered, cell(7, metadata={})),
    (covered, cell(7, outputs=[printed("no picture")])),
    (covered, cell(6, metadata={"tags": [COVER]})),
    (described, cell(7, outputs=[shown({"image/png": "aGVsbG8=", "text/plain": "<Figure>"})])),
    (described, cell(7, outputs=[shown({"text/html": "<img src='data:image/png;base64,x'>"})])),
    (described, cell(7, outputs=[shown({"text/html": "<img alt=' ' src='x.png'>"})])),
    (described, cell(7, outputs=[shown({"text/html": "<svg><path d=''/></svg>"})])),
    (described, cell(0, source="![](picture.png)")),
    (claiming, cell(9, outputs=[shown({"text/plain": ""}, unrolled={"claim": " ", "holds": True})])),
    (claiming, cell(9, outputs=[shown({"text/plain": ""}, unrolled={"claim": "it learns", "holds": False})])),
    (claiming, cell(9, outputs=[])),
    (still, cell(7, metadata={"tags": ["control"]}, outputs=[])),
]


@pytest.mark.parametrize(("check", "change"), PLANTED, ids=[check.__name__ for check, _ in PLANTED])
def test_a_planted_fault_is_found(check, change):
    notebook = good()
    change(notebook)
    assert check(notebook)


def test_every_check_was_shown_failing():
    assert {check for check, _ in PLANTED} | {nameless} == {*EVERYWHERE, *LESSONS_ONLY}


def test_a_name_is_found_and_a_plain_word_is_not():
    notebook = good()
    notebook["cells"][2]["outputs"] = [printed("trained on ada-laptop by grace; square root")]
    assert nameless(notebook, names=("ada-laptop", "grace", "root", "gra")) == ["ada-laptop", "grace"]


@pytest.mark.parametrize("name", ["rnn.ipynb", "1_rnn.ipynb", "01-rnn.ipynb", "01_Rnn.ipynb", "01_.ipynb"])
def test_a_wrong_file_name_is_found(name):
    assert well_named(name)
    assert well_named("01_rnn_bptt.ipynb") == []
