"""Measured numbers in prose that stay true: the number, then a comment that says where it comes from.

    `0.37<!-- gpt.with_examples:exact task=capitals n=8 -->`   the mean over the recorded runs of that variant
    `0.31<!-- gpt.with_examples:exact least task=capitals n=8 -->`   the least of them, or the `most`
    `30<!-- report: SmolLM2-135M-Instruct; blocks -->`   what report() showed in this notebook

The comment is invisible where the text is rendered. `make notebooks` writes the number, with as many decimals as stand
there and as a percentage where `%` follows it; a test compares it. Between backticks it is an example and stays.
"""

import importlib
import re

from nbformat import NotebookNode

from course_lib.workshop.experiments import recorded
from course_lib.workshop.experiments.experiment import module_of
from course_lib.workshop.publish.measured import records

TYPED = re.compile(
    r"(?<!`)(?P<number>-?\d[\d,]*(?:\.(?P<decimals>\d+))?)(?P<percent>\s?%)?<!-- (?P<source>[^>]+?) -->(?!`)"
)
EXPERIMENT = re.compile(
    r"(?P<module>\w+)\.(?P<name>\w+):(?P<path>.+?)(?: (?P<which>least|most))?(?P<variant>( \w+=.+)?)$"
)


def filled(text: str, notebook: NotebookNode | None = None) -> str:
    """`text` with every marked number as it was measured; ValueError, in words, for a source that does not exist."""

    def fill(match):
        value = _value(match["source"], notebook) * (100 if match["percent"] else 1)
        number = f"{value:,.{len(match['decimals'] or '')}f}"
        return f"{number}{match['percent'] or ''}<!-- {match['source']} -->"

    return TYPED.sub(fill, text)


def fill_notebook(notebook: NotebookNode) -> None:
    """Write the marked numbers of a notebook's text cells, in place; ValueError as `filled`."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = filled(cell.source, notebook)


def _value(source: str, notebook) -> float:
    if source.startswith("report:"):
        return _reported(source.removeprefix("report:").strip(), notebook)
    found = EXPERIMENT.fullmatch(source)
    if not found:
        raise ValueError(
            f"<!-- {source} --> names no source of a number: write module.experiment:key variant=value, or "
            "report: name; row; column."
        )
    try:
        experiment = getattr(importlib.import_module(module_of(found["module"])), found["name"])
        variant = dict(pair.split("=", 1) for pair in re.split(r" (?=\w+=)", found["variant"].strip()) if pair)
        variant = next(
            one for one in experiment.variants if variant.items() <= {k: str(v) for k, v in one.items()}.items()
        )
        runs = recorded(experiment).numbers(*found["path"].split("/"), **variant)
    except (ImportError, AttributeError, LookupError, StopIteration) as error:
        raise ValueError(f"<!-- {source} -->: there is no such number in the record ({error}).") from None
    return float(getattr(runs, found["which"] or "mean"))


def _reported(path: str, notebook) -> float:
    """What report() stored under name; row; column."""
    name, *keys = [part.strip() for part in path.split(";")]
    for data in records(notebook, "report") if notebook is not None else []:
        value = data["report"].get(name, {}).get("value")
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, int | float):
            return value
    raise ValueError(f"<!-- report: {path} -->: no report of this notebook has that number.")
