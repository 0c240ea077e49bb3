"""What the notebooks measured when they were stored: gathered in notebooks/measured.json."""

import json
import os
import platform
import re
from importlib.metadata import version
from pathlib import Path

from nbformat import NotebookNode

from course_lib.data.beside import write_beside

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
MEASURED = NOTEBOOKS / "measured.json"


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
    """What one executed notebook measured: seconds, peak memory in MB, the machine, its reports."""
    reports = {}
    for data in records(notebook, "report"):
        reports |= data["report"]
    return {"seconds": round(seconds), "peak_mb": peak_mb, "machine": machine(), "report": reports}


def machine() -> str:
    """This machine in words: cores, processor family, GPU if the course would use it, PyTorch's version."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [f"{cores} core{'s' if cores != 1 else ''}", _processor()]
    if torch.cuda.is_available() and os.environ.get("COURSE_DEVICE", "cuda").startswith("cuda"):
        parts.append(torch.cuda.get_device_name())
    return ", ".join([*parts, f"PyTorch {version('torch').split('+')[0]}"])


def read() -> dict:
    """notebooks/measured.json: one entry for each notebook file; empty where nothing was measured yet."""
    return json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}


def store(name: str, entry: dict) -> None:
    """Put one notebook's entry into notebooks/measured.json, and forget notebooks that are gone."""
    kept = {other: data for other, data in read().items() if (NOTEBOOKS / other).exists()}
    # Notebooks in their order; a report's rows in the order in which the lesson gave them.
    entries = dict(sorted((kept | {name: entry}).items()))
    write_beside(MEASURED, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")


def _processor():
    """The processor's family, without its clock or marks; the architecture where the system does not tell."""
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        info = ""
    found = re.search(r"^model name\s*: (.+)$", info, re.MULTILINE)
    name = found[1] if found else platform.processor()
    name = re.sub(r"\((R|TM|C)\)|@.*$|\bCPU\b|\bProcessor\b", " ", name, flags=re.IGNORECASE)
    return " ".join(name.split()) or platform.machine()
