"""What the notebooks measured when they were stored: gathered in notebooks/measured.json."""

import json
from pathlib import Path

from nbformat import NotebookNode

from course_lib.data.beside import write_beside
from course_lib.lesson.machine import SPEED
from course_lib.lesson.syllabus import IN_WRITING
from course_lib.train.machine import machine

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOKS = ROOT / "notebooks"
MEASURED = NOTEBOOKS / "measured.json"


def written() -> list[Path]:
    """The notebooks of the course in their order, without those of lessons that are being written."""
    drafts = {lesson.notebook for lesson in IN_WRITING}
    return [path for path in sorted(NOTEBOOKS.glob("*.ipynb")) if path.name not in drafts]


def records(notebook: NotebookNode, key: str) -> list[dict]:
    """The data that outputs of `notebook` carry under "unrolled" where it has `key`, in their order."""
    carried = (
        output.get("metadata", {}).get("unrolled", {})
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    return [data for data in carried if key in data]


def measurement(notebook: NotebookNode, seconds: float, peak_mb: int) -> dict:
    """What one executed notebook measured: seconds, peak memory in MB, the machine and, where it took it, its speed."""
    entry = {"seconds": round(seconds), "peak_mb": peak_mb, "machine": machine()}
    told = [data["report"][SPEED]["value"] for data in records(notebook, "report") if SPEED in data["report"]]
    return entry | {"speed": told[-1]} if told else entry


def read() -> dict:
    """notebooks/measured.json: one entry for each notebook file; empty where nothing was measured yet."""
    return json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}


def store(name: str, entry: dict) -> None:
    """Put one notebook's entry into notebooks/measured.json, and forget notebooks that are gone."""
    kept = {other: data for other, data in read().items() if (NOTEBOOKS / other).exists()}
    entries = dict(sorted((kept | {name: entry}).items()))
    write_beside(MEASURED, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
