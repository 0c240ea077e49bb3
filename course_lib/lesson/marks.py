"""What the student has solved, kept between sessions: an empty file for each solved exercise or question.

home()/exercises/rnn_bptt/my_step. A mark is made in one step and never rewritten, so that notebooks that mark at once,
and kernels that die meanwhile, can neither lose nor damage one: there is nothing to lock, to merge or to repair.
Where nothing can be written, marks are kept until the kernel stops, and a sentence says so, once.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from platformdirs import user_data_dir

KINDS = ("exercises", "quiz")

# Marks (kind, lesson, name) that could not be written, by folder; and the folders of which that was said.
_unwritten: dict[Path | None, set[tuple[str, str, str]]] = {}
_said: set[Path | None] = set()


def home() -> Path | None:
    """The folder of the marks: COURSE_HOME, by default the user's data folder; None for a user without a home."""
    try:
        return Path(os.environ.get("COURSE_HOME") or user_data_dir("unrolled", appauthor=False)).expanduser()
    except RuntimeError:
        return None


def marks() -> dict[str, dict[str, set[str]]]:
    """What is solved, as marks()["exercises" or "quiz"][lesson], a set of names."""
    folder = home()
    found = {kind: {} for kind in KINDS}
    for kind, lesson, name in (*_written(folder), *_unwritten.get(folder, ())):
        found[kind].setdefault(lesson, set()).add(name)
    return found


def mark(lesson: str, kind: str, name: str) -> str:
    """Note that `name` is solved; returns a sentence, once, if it could not be kept, else an empty one."""
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}, expected one of {KINDS}")
    folder = home()
    waiting = _unwritten.setdefault(folder, set())
    waiting.add((kind, lesson, name))
    try:
        if folder is None:
            raise OSError(None, "there is no home folder: the variable COURSE_HOME can name another")
        for one in sorted(waiting):
            file = folder.joinpath(*(quote(part, safe="") for part in one))
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                file.touch()
            waiting.remove(one)
    except OSError as error:
        known = folder in _said
        _said.add(folder)
        # Never the whole error, which names folders of this machine.
        why = error.strerror or type(error).__name__
        return "" if known else f"Progress could not be saved ({why}); it is kept until this kernel stops."
    _said.discard(folder)
    return ""


def _written(folder: Path | None) -> Iterator[tuple[str, str, str]]:
    if folder is None:
        return
    for kind in KINDS:
        for file in folder.glob(f"{kind}/*/*"):
            yield kind, unquote(file.parent.name), unquote(file.name)
    yield from _written_before(folder)


def _written_before(folder: Path) -> list[tuple[str, str, str]]:
    """What the course's first edition kept in one file, progress.json; nothing where that cannot be read."""
    try:
        kept = json.loads((folder / "progress.json").read_bytes())
        return [(k, str(lesson), str(n)) for k in KINDS for lesson, names in kept.get(k, {}).items() for n in names]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return []
