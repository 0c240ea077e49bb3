"""`python -m course_lib.workshop.publish.site`: all notebooks as a small web site, in build/html.

The pages show what the notebooks store and run nothing. They open from disk with no network and can be
published as they are. Sphinx with myst-nb makes them; `pages/` holds its settings and the few rules of style.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from course_lib.data.beside import beside
from course_lib.workshop.publish import alive, claim_page, frames, front, inside_gpt, questions, results, scale, teach
from course_lib.workshop.publish.measured import ROOT, written
from course_lib.workshop.publish.normalise import faults, first_line, normalise
from course_lib.workshop.publish.parts import begins_laboratory, is_folded

TARGET = ROOT / "build" / "html"
PAGES = Path(__file__).with_name("pages")
NEEDED = {"sphinx": "sphinx", "myst-nb": "myst_nb", "furo": "furo", "sphinx-mathjax-offline": "sphinx-mathjax-offline"}
LOCAL_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)(?![^)]*\.ipynb)[^)]*\)")
TEST_MARK = re.compile(r"^# NBVAL_\w+\n?", re.MULTILINE)
HEADING = re.compile(r"^(```|~~~).*?^\1|^(?=#+ )", re.MULTILINE | re.DOTALL)  # or a listing, which holds none
WARNING = re.compile(r"(?P<file>[^/:]+\.ipynb):(?P<line>\d+): \w+: (?P<text>.+)")
OWNER_AND_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
ELSEWHERE = """\
```{{thebe-button}} Run the code on this page
```

Or open it [in Binder](https://mybinder.org/v2/gh/{repository}/{branch}?labpath=notebooks/{name}).
"""
MOVE = "Sliders and menus move, among pictures drawn beforehand."
STAND = "Sliders and menus move where their pictures were drawn beforehand; elsewhere they stand still."


def prepare(notebook: NotebookNode, name: str) -> NotebookNode:
    """Bring the stored notebook of that file name into the form of a page, and return it; ValueError if it cannot be.

    A title without the file's number is made from the file's name (00 · Start here). Speaker notes and marks for the
    tests go, code that a student need not read is folded, and links to files that are no page become text. The title
    is the page's only one: the laboratory is a section below it, and all headings in it go down a level.
    """
    never_run = next((c for c in notebook.cells if c.cell_type == "code" and c.execution_count is None), None)
    if never_run:
        raise ValueError(f"cell `{never_run.id}` was never run: run `make notebooks`")
    if found := faults(normalise(notebook)):
        raise ValueError(found[0])
    if not notebook.cells or not notebook.cells[0].source.startswith("# "):
        raise ValueError("its first cell is no title: begin it with `# `")
    notebook.cells = [c for c in notebook.cells if c.metadata.get("slideshow", {}).get("slide_type") != "notes"]
    opening, number = notebook.cells[0], name[:2]
    if number.isdigit() and not opening.source.startswith(f"# {number}"):
        title = Path(name).stem[2:].replace("_", " ").strip().capitalize()
        opening.source = re.sub("^# .*", f"# {number} · {title}", opening.source)
    in_laboratory = False
    for cell in notebook.cells:
        in_laboratory = in_laboratory or begins_laboratory(cell)
        if is_folded(cell):
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
        if cell.cell_type == "code":
            cell.source = TEST_MARK.sub("", cell.source)
        else:
            cell.source = LOCAL_LINK.sub(r"\1", cell.source)
            if in_laboratory:
                cell.source = HEADING.sub(lambda found: found[0] or "#", cell.source)
    return notebook


def papers(names: list[str], controls: str) -> dict[str, str]:
    """The pages that are text alone, by name: how to read and to get the course, and how to write for it."""
    written = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](notebooks/", "](")
    here = [re.escape(name) for name in names]
    elsewhere = re.compile(rf"(?<!!)\[([^\]]+)\]\((?!https?:|#|(?:{'|'.join(here)})\))[^)]*\)")
    return {
        "reading": (PAGES / "reading.md").read_text(encoding="utf-8").format(controls=controls),
        "platforms": (PAGES / "platforms.md").read_text(encoding="utf-8"),
        "contributing": elsewhere.sub(r"\1", written),
    }


def build(paths: list[Path], target: Path = TARGET, repository: str = "", branch: str = "main") -> list[str]:
    """Make the site of the notebooks at `paths` in the folder `target`; or say why not, a sentence each.

    With a `repository` of GitHub's ("owner/name") a lesson can also be opened in Binder, and its code can be
    run on the page: whoever asks for that needs a network, and nobody else does. What stood in `target` is replaced
    when the new site is whole, and else left as it was.
    """
    missing = [package for package, module in NEEDED.items() if find_spec(module) is None]
    if repository and not OWNER_AND_NAME.fullmatch(repository):
        return [f"{repository!r} names no repository of GitHub: say it as owner/name"]
    if missing:
        return [f'{missing[0]} is not installed: run `{sys.executable} -m pip install -e ".[test]"`']
    notebooks, stored, drawn, reasons = {}, {}, {}, []
    for path in paths:
        try:
            notebook = nbformat.read(path, as_version=4)
            stored[path.name], drawn[path.name] = deepcopy(notebook), frames.of(notebook, path.name)
            notebooks[path.name] = prepare(notebook, path.name)
        except Exception as error:  # whatever is wrong with a file, the reader learns which one
            reasons.append(f"{path.name}: {first_line(str(error), 200)}")
    if reasons:
        return reasons
    with tempfile.TemporaryDirectory(prefix="unrolled-") as work:
        source, html = Path(work, "source"), Path(work, "html")
        source.mkdir()
        answering = {inside_gpt.MODEL}
        for name, notebook in notebooks.items():
            frames.set_moving(notebook, name, drawn[name], Path(work, "frames"))
            answering |= alive.set_live(notebook, name)
            questions.set_answerable(notebook)
            claim_page.set_places(notebook)
            if repository:
                there = ELSEWHERE.format(repository=repository, branch=branch, name=name)
                notebook.cells.insert(1, new_markdown_cell(there))
            nbformat.write(notebook, source / name)
        controls = STAND if frames.standing(paths) else MOVE
        try:
            made = {
                "index": front.page(notebooks, Path(work, "covers"), controls),
                "results": results.page(notebooks),
                "claims": claim_page.page(notebooks),
                "teach": teach.page(stored),
                "scale": scale.page(),
                "inside_gpt": inside_gpt.page(list(notebooks)),
                **papers(list(notebooks), controls),
            }
        except ValueError as error:
            return [f"measured.json or a record cannot be read: {first_line(str(error))}"]
        for name, text in made.items():
            (source / f"{name}.md").write_text(text, encoding="utf-8")
        options = ["-b", "html", "-q", "-W", "--keep-going", "--no-color", "-c", PAGES, "-d", Path(work, "doctrees")]
        where = os.environ | {"UNROLLED_REPOSITORY": repository, "UNROLLED_BRANCH": branch}  # conf.py reads them
        command = [sys.executable, "-m", "sphinx", *options, source, html]
        made = subprocess.run(command, capture_output=True, text=True, env=where)
        if made.returncode:
            return in_words(made.stderr, notebooks)
        alive.write(answering, Path(work, "alive"))
        for beside_pages in ("frames", "covers", "alive"):
            if Path(work, beside_pages).exists():
                shutil.move(Path(work, beside_pages), html)
        with beside(target) as new:
            shutil.move(html, new)
    return []


def in_words(stderr: str, notebooks: dict[str, NotebookNode]) -> list[str]:
    """What Sphinx complained of, a sentence each, with the cell's id: it counts 10,000 lines a cell."""
    found = []
    for match in WARNING.finditer(stderr):
        cells = notebooks[match["file"]].cells
        cell = cells[min(int(match["line"]) // 10_000, len(cells)) - 1]
        found.append(f"{match['file']}: cell `{cell.id}`: {match['text']}")
    return found or [line for line in stderr.splitlines() if line.strip()][:3]


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if the site was made, 1 if not."""
    parser = argparse.ArgumentParser(prog="course_lib.workshop.publish.site", description=__doc__)
    parser.add_argument("--repository", default="", help="owner/name on GitHub: lessons can then be run from the pages")
    parser.add_argument("--branch", default="main")
    options = parser.parse_args(arguments)
    paths = written()
    reasons = build(paths, repository=options.repository, branch=options.branch)
    if not reasons and (stands := frames.told_of(paths)):
        print(stands, file=sys.stderr)
    for reason in reasons:
        print(f"The pages are left as they were: {reason}.", file=sys.stderr)
    if not reasons:
        print(f"{len(paths)} notebooks: open {TARGET}/index.html")
    return min(len(reasons), 1)


if __name__ == "__main__":
    sys.exit(main())
