"""The stored form of a notebook: only what a reader needs, the same bytes from the same run."""

import re

import nbformat
from nbformat import NotebookNode

from course_lib.show.frames import MIME
from course_lib.workshop.publish.parts import fold

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "pygments_lexer": "ipython3",
}
# Everything else that editors leave in a cell (times, scroll states, their own names) is dropped.
CELL_METADATA = {
    "slideshow",
    "tags",
    "jupyter",
    "unrolled",
    "editable",
    "deletable",
    "@deathbeds/jupyterlab-fonts",
}
NOTEBOOK_METADATA = {"title", "slideshow", "unrolled", "@deathbeds/jupyterlab-fonts"}
PROGRESS_BAR = re.compile(r"\d+%\|.*\||\d+\S*it \[\d+:\d\d")


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Bring an executed notebook into its stored form, in place, and return it.

    Widget state, widget views and drawn positions go (the still, text/html, stays), progress bars go, execution
    counts run 1..n, and metadata shrinks to what the course uses. Cell ids stay; reading gave one to a cell without.
    Where there is a laboratory, code that a student need not read is folded: see `parts.fold`.
    """
    kept = {key: value for key, value in notebook.metadata.items() if key in NOTEBOOK_METADATA}
    notebook.metadata = NotebookNode({**kept, "kernelspec": KERNEL, "language_info": LANGUAGE})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    count = 0
    for cell in notebook.cells:
        cell.metadata = NotebookNode({k: v for k, v in cell.metadata.items() if k in CELL_METADATA})
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        cell.outputs = [output for output in _joined(cell.outputs) if _clean(output, count)]
    fold(notebook)
    return notebook


def as_text(notebook: NotebookNode) -> str:
    """The file's text: keys sorted, one line of source on one line, a line end at the end."""
    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"


def first_line(text: str, limit: int = 90) -> str:
    """The first line of `text` that says something, cut at `limit` characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def faults(notebook: NotebookNode) -> list[str]:
    """Why a normalised notebook must not be stored, a sentence each; empty if it may."""
    found = []
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type != "code":
            continue
        where = f"cell {number} (`{first_line(cell.source, 50)}`)"
        if not cell.source.strip():
            found.append(f"cell {number} is an empty code cell: delete it")
        for output in cell.outputs:
            if output.output_type == "error":
                found.append(f"{where} raised {output.ename}: {first_line(output.evalue)}")
            elif output.output_type == "stream" and output.name == "stderr":
                found.append(f"{where} wrote a warning: {first_line(output.text)}")
            elif red := _red(output.get("metadata", {}).get("unrolled", {})):
                found.append(f"{where}: {red}")
            elif output.get("data", {}).keys() == {WIDGET_VIEW}:
                found.append(f"{where} shows a control without a still picture: its output needs text/html too")
    return found


def _red(data: dict) -> str:
    """What a claim, a finding or an identity says where it does not hold; "" for all else."""
    if "not_so" in data:
        return f"“{data['not_so']}” should be true by construction and is not"
    return "" if data.get("holds", True) else f"“{data.get('claim') or data.get('finding')}” does not hold"


def _joined(outputs):
    """The outputs with neighbouring pieces of one stream put together: how a stream is cut up is chance."""
    joined = []
    for output in outputs:
        before = joined[-1] if joined else None
        is_stream = output.output_type == "stream"
        if is_stream and before and before.output_type == "stream" and before.name == output.name:
            before.text += output.text
        else:
            joined.append(output)
    return joined


def _clean(output, count):
    """Clean one output in place; False if nothing of it is to be stored."""
    if output.output_type == "stream":
        # A bar redraws its line from the start (\r): what a reader sees last is what stands.
        shown = [line.rsplit("\r", 1)[-1] for line in output.text.replace("\r\n", "\n").split("\n")]
        output.text = "\n".join(line for line in shown if not PROGRESS_BAR.search(line))
        return bool(output.text.strip())
    if output.output_type == "execute_result":
        output.execution_count = count
    data = output.get("data", {})
    data.pop(MIME, None)
    if WIDGET_VIEW in data:
        if PROGRESS_BAR.search(data.get("text/plain", "")) and "text/html" not in data:
            return False
        if "text/html" in data:
            del data[WIDGET_VIEW]
        else:
            output.data = NotebookNode({WIDGET_VIEW: data[WIDGET_VIEW]})  # `faults` refuses it
    return True
