"""The pictures of controls, drawn beforehand: taken out of a run, kept, and put under sliders that need no kernel.

`make frames` and `make notebooks` draw them. They are kept in build/frames, a file a notebook, under a
name that tells the notebook's code, the library's and the lesson's record: what other code has drawn is not found.
"""

import base64
import hashlib
import html
import json
from math import prod
from pathlib import Path
from urllib.parse import quote

import nbformat
from nbformat import NotebookNode

from course_lib.data.beside import write_beside
from course_lib.show.frames import MIME, STANDS
from course_lib.workshop.experiments import record
from course_lib.workshop.publish import measured

KEPT = measured.ROOT / "build" / "frames"
LIBRARY = Path(__file__).resolve().parents[2]
BEHIND = ("workshop/publish/", "lesson/")  # rooms that draw nothing
ALL_TYPED = "Type where the notebook runs: no picture can be drawn beforehand of what you will write."
PART_TYPED = "What is typed stands still here; in the notebook it can be changed."


def taken(notebook: NotebookNode) -> dict[str, dict]:
    """The positions that a run has drawn, by cell id; they are taken out of the notebook's outputs."""
    found = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if MIME in output.get("data", {}):
                found[cell.id] = output.data.pop(MIME)
    return found


def seconds(found: dict[str, dict]) -> float:
    """How long it took to draw them: a student's run does not."""
    return sum(one["seconds"] for one in found.values())


def kept_at(notebook: NotebookNode, name: str) -> Path:
    """Where the pictures of the notebook of that file name are kept, as its code and the library's are now."""
    told = hashlib.sha256()
    for file in sorted([*LIBRARY.rglob("*.py"), *LIBRARY.rglob("*.mplstyle")]):
        if not file.relative_to(LIBRARY).as_posix().startswith(BEHIND):
            told.update(file.read_bytes())
    told.update((measured.ROOT / "pyproject.toml").read_bytes())  # names every version that draws
    folder = measured.ROOT / "data" / "records"
    for part in record.parts(Path(name).stem[3:], folder):
        told.update((folder / f"{part}.json").read_bytes())
    for cell in notebook.cells:
        if cell.cell_type == "code":
            told.update(f"\n\n{cell.id}\n{cell.source}".encode())
    return KEPT / f"{Path(name).stem}-{told.hexdigest()[:16]}.json"


def keep(path: Path, found: dict[str, dict]) -> None:
    """Keep what a run has drawn at `path`, which `kept_at` gave before it, and forget what older runs had."""
    write_beside(path, json.dumps(found))
    for old in path.parent.glob(f"{path.stem.rpartition('-')[0]}-*.json"):
        if old != path:
            old.unlink(missing_ok=True)


def of(notebook: NotebookNode, name: str) -> dict[str, dict] | None:
    """The pictures of its controls by cell id; None where none were drawn, or by other code, or the file is damaged."""
    try:
        found = json.loads(kept_at(notebook, name).read_text(encoding="utf-8"))
        return found if all(map(_is_whole, found.values())) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _is_whole(one):
    """Whether a control has a start on each of its axes, and a picture or a sentence for each point of their grid."""
    starts = all(axis["kind"] and axis["label"] and axis["start"] in range(len(axis["shown"])) for axis in one["axes"])
    for picture in one["pictures"]:
        if "says" not in picture:
            base64.b64decode(picture["png"], validate=True), picture["alt"], picture["width"]
    return starts and len(one["pictures"]) == prod(len(axis["shown"]) for axis in one["axes"])


def standing(paths: list[Path]) -> list[str]:
    """The names of those notebooks at `paths` with controls for which no pictures are there."""
    found = []
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        controls = any(
            STANDS in output.get("data", {}).get("text/html", "")
            for cell in notebook.cells
            for output in cell.get("outputs", [])
        )
        if controls and of(notebook, path.name) is None:
            found.append(path.name)
    return found


def told_of(paths: list[Path]) -> str:
    """One line: the numbers of the notebooks at `paths` whose controls stand still, and what to run; "" if none do."""
    found = ", ".join(name[:2] for name in standing(paths))
    return found and f"Controls stand still in {found}: `make frames`, then this again, moves them."


def set_moving(notebook: NotebookNode, name: str, found: dict[str, dict] | None, folder: Path) -> None:
    """Put sliders and menus under the stills of the notebook's controls, in place, and their pictures into `folder`.

    A control without pictures keeps its still and the words below it. The pages lie beside `folder`.
    """
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            still, stands, words = output.get("data", {}).get("text/html", "").partition(STANDS)
            if stands and (one := (found or {}).get(cell.id)):
                place = folder / Path(name).stem / cell.id
                place.mkdir(parents=True, exist_ok=True)
                written = [_written(told, place / f"{n}.png", folder.parent) for n, told in enumerate(one["pictures"])]
                output.data["text/html"] = still + _form(one["axes"], written, cell.id) + stands + words


def _written(picture, path, above):
    """What the page must know of one picture; its file is written."""
    if "says" in picture:
        return picture
    path.write_bytes(base64.b64decode(picture["png"]))
    return {"src": quote(path.relative_to(above).as_posix()), "alt": picture["alt"], "width": picture["width"]}


def _form(axes, pictures, name):
    """The sliders and menus, hidden until the script that moves them runs, and what it must know."""
    moving = [axis for axis in axes if axis["kind"] != "text"]
    note = "" if len(moving) == len(axes) else PART_TYPED if moving else ALL_TYPED
    rows = "".join(_row(axis, f"moves-{name}-{n}") for n, axis in enumerate(axes) if axis["kind"] != "text")
    data = json.dumps(pictures, ensure_ascii=False).replace("<", "\\u003c")
    return (
        f'<form class="moves" hidden data-prevent-swipe>{rows}{f"<small>{note}</small>" if note else ""}'
        f'<p role="alert" hidden></p><script type="application/json">{data}</script></form>'
    )


def _row(axis, key):
    label = f'<label for="{key}">{html.escape(axis["label"])}</label>'
    if axis["kind"] == "menu":
        options = "".join(
            f'<option value="{n}"{" selected" if n == axis["start"] else ""}>{html.escape(shown)}</option>'
            for n, shown in enumerate(axis["shown"])
        )
        return f'<span>{label}<select id="{key}">{options}</select></span>'
    shown, start = html.escape(json.dumps(axis["shown"])), html.escape(axis["shown"][axis["start"]])
    return (
        f'<span>{label}<input id="{key}" type="range" min="0" max="{len(axis["shown"]) - 1}" value="{axis["start"]}" '
        f'aria-valuetext="{start}" data-shown="{shown}"><output for="{key}">{start}</output></span>'
    )
