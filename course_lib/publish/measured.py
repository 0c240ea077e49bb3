"""What the notebooks measured: gathered in notebooks/measured.json, written from there into the README.

In the README `<!-- measured:minutes --> ... <!-- /measured -->` holds the table of all notebooks, and
`<!-- measured:01:bits per character --> ... <!-- /measured -->` the report of that name out of notebook 01, and
`<!-- measured:map --> ... <!-- /measured -->` the map of lessons, files and tests, which the list of lessons gives.
`<!-- measured:runs:01:RNN; 03:nats saved --> ... <!-- /measured -->` holds claims' numbers over all recorded runs
(notebooks/claims.json), each named by its lesson and the name it is measured under.
What stands between the two marks is always rewritten.
"""

import json
import re
from pathlib import Path

from nbformat import NotebookNode

from course_lib.data.beside import write_beside
from course_lib.lesson.firmness import RECORD
from course_lib.lesson.syllabus import IN_WRITING
from course_lib.publish.course_map import course_map
from course_lib.train.machine import machine

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
MEASURED = NOTEBOOKS / "measured.json"
README = ROOT / "README.md"
BLOCK = re.compile(r"(<!-- measured:([^>]+?) -->)(.*?)(<!-- /measured -->)", re.DOTALL)


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
    """What one executed notebook measured: seconds, peak memory in MB, the machine, its reports."""
    reports = {}
    for data in records(notebook, "report"):
        reports |= data["report"]
    return {"seconds": round(seconds), "peak_mb": peak_mb, "machine": machine(), "report": reports}


def read() -> dict:
    """notebooks/measured.json: one entry for each notebook file; empty where nothing was measured yet."""
    return json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}


def store(name: str, entry: dict) -> None:
    """Put one notebook's entry into notebooks/measured.json, and forget notebooks that are gone."""
    kept = {other: data for other, data in read().items() if (NOTEBOOKS / other).exists()}
    # Notebooks in their order; a report's rows in the order in which the lesson gave them.
    entries = dict(sorted((kept | {name: entry}).items()))
    write_beside(MEASURED, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")


def filled(text: str, numbers: dict) -> str:
    """`text` with its marked blocks rewritten from `numbers`; ValueError for a block without a number."""

    def fill(match):
        opening, name, _, closing = match.groups()
        return f"{opening}\n{_render(name, numbers)}\n{closing}"

    return BLOCK.sub(fill, text)


def _render(name, numbers):
    if name == "map":
        return course_map()
    if name == "minutes":
        return _minutes(numbers)
    if name.startswith("runs:"):
        return _runs(name.removeprefix("runs:").split("; "))
    number, _, report = name.partition(":")
    for notebook, entry in numbers.items():
        if notebook.split("_")[0] == number and report in entry["report"]:
            return _report(report, **entry["report"][report])
    known = [f"{n.split('_')[0]}:{r}" for n, entry in sorted(numbers.items()) for r in entry["report"]]
    raise ValueError(
        f"nothing was measured for the block `measured:{name}`; there is: {', '.join(['map', 'minutes', *known])}."
    )


def _minutes(numbers):
    rows = [
        [
            f"[{name[: -len('.ipynb')]}](notebooks/{name})",
            f"{data['seconds'] / 60:.1f}",
            f"{data['peak_mb']} MB",
        ]
        for name, data in sorted(numbers.items())
    ]
    machines = sorted({data["machine"] for data in numbers.values()})
    return _table(["notebook", "minutes", "peak memory"], rows) + f"\n\nMeasured on: {'; '.join(machines)}."


def _runs(wanted):
    """A row for each number of a claim asked for ("01:RNN"): its mean over all recorded runs, the least, the most."""
    notebooks = json.loads((NOTEBOOKS / RECORD).read_text(encoding="utf-8")) if (NOTEBOOKS / RECORD).exists() else {}
    recorded = {
        f"{notebook.split('_')[0]}:{comparison['name']}": (claim["claim"], comparison)
        for notebook, entry in notebooks.items()
        for claim in reversed(entry["claims"])  # the first of a name counts
        for comparison in reversed(claim["comparisons"])
        if "name" in comparison
    }
    if missing := [one for one in wanted if one not in recorded]:
        raise ValueError(
            f"no claim is recorded for {missing[0]!r} of `measured:runs`: run `make claims`, or name another."
        )
    rows = []
    for one in wanted:
        claim, comparison = recorded[one]
        values = [float(value) for its in comparison["values"].values() for value in its if value is not None]
        named = f"{comparison['name']} ({comparison['unit']})" if "unit" in comparison else comparison["name"]
        rows.append(
            [
                f"{one.partition(':')[0]}: {claim}",
                named,
                _cell(sum(values) / len(values)),
                _cell(min(values)),
                _cell(max(values)),
                len(values),
            ]
        )
    return _table(["lesson: claim", "number", "mean", "least", "most", "runs"], rows)


def _report(name, value, unit):
    if not isinstance(value, dict):
        return f"{name}: {_cell(value)} {unit}".strip()
    if not all(isinstance(row, dict) for row in value.values()):
        heading = f"{name} ({unit})" if unit and unit not in name else name
        return _table(["", heading], [[row, _cell(item)] for row, item in value.items()])
    columns = list(dict.fromkeys(column for row in value.values() for column in row))
    units = {column: unit if isinstance(unit, str) else unit.get(column, "") for column in columns}
    header = [name, *(f"{column} ({units[column]})" if units[column] else column for column in columns)]
    return _table(header, [[row, *(_cell(cells.get(c)) for c in columns)] for row, cells in value.items()])


def _table(header, rows):
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', '/') for cell in line)} |" for line in lines)


def _cell(value):
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:#.3g}" if abs(value) < 100 else f"{value:,.0f}"
