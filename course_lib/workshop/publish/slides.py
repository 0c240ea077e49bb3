"""`python -m course_lib.workshop.publish.slides [--pdf] [files]`: each notebook a deck of slides that opens from disk.

build/slides/ then holds NN_<concept>.slides.html for each notebook, NN_<concept>.laboratory.slides.html for each
that has a laboratory, index.html over all of them, and what they need: reveal.js, MathJax and fonts out of installed
packages, so that no deck asks the network for more. With --pdf also NN_<concept>.pdf and NN_<concept>.laboratory.pdf,
a page for each slide. A notebook that makes no whole deck is refused in a sentence that names it and the cell; then
nothing is written, and what was there stays.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
from jinja2 import Environment, FileSystemLoader
from nbconvert.exporters import HTMLExporter
from traitlets.config import Config

from course_lib.data.beside import beside
from course_lib.show.emblems import EMBLEMS, course_row
from course_lib.workshop.publish import assets, deck, frames
from course_lib.workshop.publish.execute import chosen
from course_lib.workshop.publish.measured import ROOT

BUILD = ROOT / "build" / "slides"
TEMPLATES = Path(__file__).with_name("templates")
THEME = TEMPLATES / "unrolled"
MOVES = Path(__file__).with_name("pages") / "static" / "moves.js"  # the sliders of pages are those of slides
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def build(paths: list[Path], folder: Path = BUILD, pdf: bool = False) -> list[Path]:
    """Write the decks of the notebooks at `paths` and return their paths; `folder` is replaced as a whole.

    A notebook with a laboratory gives two, the core first.

    Raises ValueError, a sentence a line, for notebooks that make no whole deck, for a missing package and,
    with `pdf`, for a machine without Chromium.
    """
    decks, drawn, wrong = {}, {}, []
    for path in paths:
        try:
            notebook = nbformat.read(path, as_version=4)
            drawn[path] = notebook, frames.of(notebook, path.name)
            decks[path] = deck.slides(notebook, path.name)
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise ValueError("\n".join(wrong))
    browser = find_chromium() if pdf else None
    with beside(folder) as new:
        new.mkdir()
        assets.collect(new)
        for name in ("deck.css", "deck.js", "chain.svg"):
            shutil.copyfile(THEME / name, new / name)
        shutil.copyfile(MOVES, new / MOVES.name)
        for path, (notebook, found) in drawn.items():
            frames.set_moving(notebook, path.name, found, new / "frames")
        lessons = [_write_parts(path, made, new) for path, made in decks.items()]
        entries = [entry for lesson in lessons for entry in lesson]
        if pdf:
            _print(entries, new, browser)
        page = Environment(loader=FileSystemLoader(THEME), autoescape=True).get_template("contents.html.j2")
        (new / "index.html").write_text(page.render(lessons=lessons), encoding="utf-8")
    return [folder / entry["file"] for entry in entries]


def _write_parts(path, made, folder):
    """Write the deck of a notebook's core and that of its laboratory; return what the page over all says of each."""
    core, laboratory = deck.core_and_laboratory(made)
    title = core[0].title or path.stem
    entries = [_write(path.stem, core, title, folder)]
    if laboratory:
        row = _row(path.stem[:2], folder)
        entries.append(_write(f"{path.stem}.laboratory", laboratory, f"{title} · laboratory", folder, row))
    return entries


def _row(number, folder):
    """Draw the course in one row, where the lesson's drawing stands out; its file, "" for a lesson without one."""
    if not number.isdigit() or int(number) not in range(1, len(EMBLEMS) + 1):
        return ""
    figure = course_row(int(number))
    figure.savefig(folder / (name := f"row-{number}.svg"), transparent=True)
    plt.close(figure)
    return name


def _write(stem, made, title, folder, row=""):
    """Write one deck, its title slide above the picture `row`; return what the page over all decks says of it."""
    entry = {
        "file": f"{stem}.slides.html",
        "pdf": "",
        "title": title,
        "slides": len(made),
        "minutes": sum(slide.minutes for slide in made),
        "row": row,
    }
    config = Config({"TemplateExporter": {"extra_template_basedirs": [str(TEMPLATES)]}})
    exporter = HTMLExporter(config=config, template_name="unrolled", exclude_anchor_links=True)
    body, _ = exporter.from_notebook_node(deck.staged(made, title), {"deck": entry})
    (folder / entry["file"]).write_text(body, encoding="utf-8")
    return entry


def find_chromium() -> str:
    """The path of a Chromium on this machine; ValueError says how to get one."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if not found:
        raise ValueError("Slides are printed by Chromium, and there is none here: sudo apt install chromium")
    return found


def _print(entries, folder, browser):
    """Print each deck to a PDF beside it, a page for each slide."""
    from playwright.sync_api import sync_playwright

    # A browser that runs as root, as in a container, has no sandbox to run in.
    flags = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=flags)
        for entry in entries:
            page = chromium.new_page()
            page.goto((folder / entry["file"]).resolve().as_uri() + "?print-pdf")
            page.wait_for_selector("html.ready", state="attached")
            entry["pdf"] = entry["file"].replace(".slides.html", ".pdf")
            page.pdf(path=folder / entry["pdf"], prefer_css_page_size=True, print_background=True, tagged=True)
            page.close()
        chromium.close()


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if every deck was written, 1 if one was refused, 2 for a wrong name."""
    parser = argparse.ArgumentParser(prog="course_lib.workshop.publish.slides", description=__doc__)
    parser.add_argument("files", nargs="*", help="notebooks; all of the course if none is named")
    parser.add_argument("--pdf", action="store_true", help="print each deck as well; needs Chromium")
    parser.add_argument("--folder", type=Path, default=BUILD, help="where the decks go; replaced as a whole")
    options = parser.parse_args(arguments)
    try:
        paths = chosen(options.files)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        decks = build(paths, options.folder, options.pdf)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if stands := frames.told_of(paths):
        print(stands, file=sys.stderr)
    here = Path.cwd()
    index = decks[0].with_name("index.html")
    shown = index.relative_to(here) if index.is_relative_to(here) else index
    print(f"{len(decks)} deck{'s' if len(decks) > 1 else ''}: open {shown}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
