"""`python -m course_lib.publish.slides [--pdf] [files]`: every notebook a slide deck that opens from disk, offline.

build/slides/ then holds NN_<concept>.slides.html for each notebook, index.html over all of them, and what they need:
reveal.js, MathJax and fonts out of installed packages. `--pdf` prints each deck as well, a page for each slide. A
notebook that makes no whole deck is refused in a sentence that names it and the cell; then nothing is written.
"""

import argparse
import ast
import html
import re
import shutil
import sys
import tempfile
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import nbformat
from jinja2 import Environment, FileSystemLoader
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from traitlets.config import Config

from course_lib.publish import assets
from course_lib.publish.execute import chosen
from course_lib.publish.measured import ROOT

BUILD = ROOT / "build" / "slides"
TEMPLATES = Path(__file__).with_name("templates")
ENLARGED = 1.25  # a figure may be drawn so much larger than it is, for the back of the room
SLIDE_TYPES = {"slide", "subslide", "fragment", "skip", "notes"}
HIDDEN_INPUT = {"figure", "control"}  # tags of cells whose code stays off the slide
SPEAKING = {"claim", "show_source", "report"}  # calls whose output says what they were asked
PROGRESS = re.compile(r"\d+%\|")  # a progress bar, as tqdm prints it
MINUTES = re.compile(r"\*\*Minutes\.\*\*\s*(\d+)")
NUMBERED = re.compile(r"^# (\d\d) · ")
PNG = re.compile(r'<img (?=[^>]*src="data:image/png;base64,([A-Za-z0-9+/]{32}))')


@dataclass
class Slide:
    """One slide: its cells in order, the first of them the one that starts it; and its speaker notes."""

    cells: list[NotebookNode]
    notes: list[NotebookNode]
    below: bool  # a subslide: it goes on with the slide above

    @property
    def id(self) -> str:
        return self.cells[0].id

    @property
    def title(self) -> str:
        """The first heading's text; "" without one."""
        found = re.search(r"^#+ +(.+)$", self.cells[0].source, re.MULTILINE)
        return found[1].strip() if found and self.cells[0].cell_type == "markdown" else ""

    @property
    def minutes(self) -> int:
        """The minutes that its notes give it."""
        return sum(int(n) for cell in self.notes for n in MINUTES.findall(cell.source))


def slide_type(cell: NotebookNode) -> str | None:
    """The cell's slide type; None where it goes on with the slide above."""
    return cell.metadata.get("slideshow", {}).get("slide_type")


def slides(notebook: NotebookNode, name: str) -> list[Slide]:
    """The slides of a notebook. ValueError says, a sentence for each cell, why it makes no whole deck."""
    made, wrong = [], []
    for cell in notebook.cells:
        kind = slide_type(cell)
        if "slideshow" in cell.metadata and kind not in SLIDE_TYPES:
            wrong.append(f"{name}, cell {cell.id}: the slide type {kind!r} is none of {sorted(SLIDE_TYPES)}.")
        elif kind in {"slide", "subslide"}:
            made.append(Slide([cell], [], below=kind == "subslide" and bool(made)))
        elif kind != "skip" and not made:
            wrong.append(f"{name}, cell {cell.id}: no slide has begun yet: give the cell the slide type slide or skip.")
        elif kind == "notes":
            made[-1].notes.append(cell)
        elif kind != "skip":
            made[-1].cells.append(cell)
    if not any("slideshow" in cell.metadata for cell in notebook.cells):
        first = f", cell {notebook.cells[0].id}" if notebook.cells else ""
        raise ValueError(f"{name}{first}: the notebook has no slide metadata: mark where each slide begins.")
    wrong += [f"{name}, cell {slide.id}: the slide has no speaker notes: add a cell of slide type notes."
              for slide in made if not any(cell.source.strip() for cell in slide.notes)]  # fmt: skip
    wrong += [f"{name}, cell {cell.id}: an error is stored in its output: run the notebook again."
              for slide in made for cell in slide.cells
              if any(output.output_type == "error" for output in cell.get("outputs", []))]  # fmt: skip
    if wrong or not made:
        raise ValueError("\n".join(wrong) or f"{name}: every cell is skipped, so there is no slide.")
    return made


def staged(notebook: NotebookNode, made: list[Slide]) -> NotebookNode:
    """The notebook as the template wants it: cells on slides alone, each saying what comes before and after it."""
    parent, total = "", len(made)
    for number, slide in enumerate(made, 1):
        parent = parent if slide.below else slide.title
        kind, above = "plain", parent if slide.below else ""
        if slide.cells[0].source.startswith("# "):
            lesson = NUMBERED.match(slide.cells[0].source)
            kind, above = "title", f"Unrolled · lesson {lesson[1]}" if lesson else "Unrolled"
            slide.cells[0].source = NUMBERED.sub("# ", slide.cells[0].source)
        above = f'<p class="eyebrow">{_words(above)}</p>' if above else ""
        for cell in [*slide.cells, *slide.notes]:
            cell.metadata.stage = {"before": "", "after": "", "code": _code(cell)}
            cell["outputs"] = [_shown(output) for output in cell.get("outputs", []) if not _is_progress(output)]
        first, last = slide.cells[0].metadata.stage, [*slide.cells, *slide.notes][-1].metadata.stage
        column = "" if slide.below else "<section>"
        first.before = (f'{column}<section id="{slide.id}" data-cell="{slide.id}" class="{kind}" '
                        f'data-number="{number}" data-total="{total}">{above}')  # fmt: skip
        last.after = "</section>" + ("</section>" if number == total or not made[number].below else "")
        _mark_fragments(slide)
    notebook.cells = [cell for slide in made for cell in [*slide.cells, *slide.notes]]
    return notebook


def _mark_fragments(slide):
    """Wrap each fragment: from its cell to the one before the next fragment, or the slide's last."""
    starts = [i for i, cell in enumerate(slide.cells) if slide_type(cell) == "fragment"]
    for start, end in pairwise([*starts, len(slide.cells)] if starts else []):
        slide.cells[start].metadata.stage.before += '<div class="fragment">'
        slide.cells[end - 1].metadata.stage.after = "</div>" + slide.cells[end - 1].metadata.stage.after


def _code(cell):
    """The code that a slide shows: none of figures and controls, no call that its output repeats, no test mark."""
    if cell.cell_type != "code" or HIDDEN_INPUT & set(cell.metadata.get("tags", [])):
        return ""
    hidden = set()
    try:
        for statement in ast.parse(cell.source).body:
            call = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in SPEAKING:
                hidden.update(range(statement.lineno, statement.end_lineno + 1))
    except SyntaxError:
        pass  # a line for IPython, not for Python
    lines = enumerate(cell.source.splitlines(), 1)
    return "\n".join(line for n, line in lines if n not in hidden and not line.startswith("# NBVAL_")).strip("\n")


def _is_progress(output):
    data = output.get("data", {})
    text = output.get("text", "") + data.get("text/plain", "")
    return output.get("name") == "stderr" or bool(PROGRESS.search(text)) or data.keys() == {"text/plain"} and not text


def _shown(output):
    """An output with its pictures' sizes written out, so that a deck is laid out before they are drawn."""
    if "text/html" in output.get("data", {}):
        output.data["text/html"] = PNG.sub(_sized, output.data["text/html"])
    return output


def _sized(found):
    width, height = assets.png_size(found[1])
    return f'<img width="{ENLARGED * width:.0f}" height="{ENLARGED * height:.0f}" '


def _words(markdown):
    """Markdown of one line as HTML; formulas stay for MathJax."""
    return html.escape(re.sub(r"[*`]", "", markdown), quote=False)


def build(paths: list[Path], folder: Path = BUILD) -> list[Path]:
    """Write the decks of `paths`, index.html and what they need; `folder` is replaced whole. Gives the decks' paths."""
    read = {path: nbformat.read(path, as_version=4) for path in paths}
    decks, wrong = {}, []
    for path, notebook in read.items():
        try:
            decks[path] = slides(notebook, path.name)
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise ValueError("\n".join(wrong))
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        new.chmod(0o755)
        assets.collect(new)
        for name in ("deck.css", "deck.js"):
            shutil.copyfile(TEMPLATES / "unrolled" / name, new / name)
        entries = [_write(path, read[path], decks[path], new) for path in paths]
        page = Environment(loader=FileSystemLoader(TEMPLATES / "unrolled"), autoescape=True).get_template("contents.html.j2")
        (new / "index.html").write_text(page.render(decks=entries), encoding="utf-8")
    except BaseException:
        shutil.rmtree(new)
        raise
    old = new.with_name(f"{new.name}-old")
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    return [folder / entry["file"] for entry in entries]


def _write(path, notebook, made, folder):
    """Write one deck; return what the page over all decks says of it."""
    entry = {"file": f"{path.stem}.slides.html", "pdf": f"{path.stem}.pdf", "title": made[0].title or path.stem,
             "slides": len(made), "minutes": sum(slide.minutes for slide in made)}  # fmt: skip
    config = Config({"TemplateExporter": {"extra_template_basedirs": [str(TEMPLATES)]}})
    exporter = HTMLExporter(config=config, template_name="unrolled", exclude_anchor_links=True)
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = True
    body, _ = exporter.from_notebook_node(staged(deepcopy(notebook), deepcopy(made)), {"deck": entry})
    (folder / entry["file"]).write_text(body, encoding="utf-8")
    return entry


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if every deck was written, 1 if one was refused, 2 for a wrong name."""
    parser = argparse.ArgumentParser(prog="course_lib.publish.slides", description=__doc__)
    parser.add_argument("files", nargs="*", help="notebooks; all of the course if none is named")
    parser.add_argument("--folder", type=Path, default=BUILD, help="where the decks go; replaced whole")
    options = parser.parse_args(arguments)
    try:
        paths = chosen(options.files)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        for deck in build(paths, options.folder):
            print(deck)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
