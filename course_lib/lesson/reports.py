"""Reports: measured numbers, shown as a line or a small table, and stored with the notebook as data.

report("training time", 21.4, "s")
report("bits per character", {"uniform": 6.1, "RNN": 2.3}, unit="bits/char", digits=2)
report("two runs", {"plain": {"loss": 1.9, "time": 20}, "clipped": {"loss": 1.7}}, {"time": "s"})
"""

from collections.abc import Mapping

from course_lib.lesson.cards import QUIET, emit, prose
from course_lib.lesson.numerals import jsonable, number, shown


def report(name: str, value, unit: str | Mapping[str, str] = "", digits: int | None = None) -> None:
    """Show `value` under `name`: one number or text, a dict of them, or a dict of rows that are dicts.

    `unit` holds for all numbers; for a table with columns it may be a dict by column. `digits` fixes the
    number of decimals, otherwise three significant digits are shown. What is stored is not rounded. Raises
    TypeError for anything that is not a number or a text, ValueError for an empty table.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"a report starts with its name, then the value; got {type(name).__name__} first")
    stored = _stored(name, value)
    record = {"report": {name: {"value": stored, "unit": dict(unit) if isinstance(unit, Mapping) else unit}}}
    if not isinstance(value, Mapping):
        text = f"{name}: {_cell(value, digits)} {unit}".strip()
        emit(
            text,
            html=f"<div>{prose(name)}: <b>{prose(_cell(value, digits))}</b> {prose(unit)}</div>",
            metadata=record,
        )
        return
    header, rows = _table(name, value, unit, digits)
    emit(_plain(name, header, rows), html=_html(name, header, rows), metadata=record)


def _stored(name, value):
    if isinstance(value, Mapping):
        if not value:
            raise ValueError(f"report {name!r}: the table is empty")
        return {str(key): _stored(f"{name}, {key}", item) for key, item in value.items()}
    return value if isinstance(value, str) else jsonable(number(value, f"report {name!r}"))


def _cell(value, digits):
    if value is None or isinstance(value, str):
        return value or ""
    value = number(value, "a report")
    return f"{value:,.{digits}f}" if digits is not None and not isinstance(value, int) else shown(value)


def _table(name, value, unit, digits):
    """The header and the rows of the table, as text."""
    nested = [isinstance(row, Mapping) for row in value.values()]
    if any(nested) and not all(nested):
        raise TypeError(f"report {name!r}: either every row is a dict of columns, or none is")
    if not any(nested):
        heading = unit if isinstance(unit, str) and unit else "value"
        return ["", heading], [[str(row), _cell(item, digits)] for row, item in value.items()]
    columns = list(dict.fromkeys(column for row in value.values() for column in row))
    units = {column: unit.get(column, "") if isinstance(unit, Mapping) else unit for column in columns}
    header = ["", *(f"{column} ({units[column]})" if units[column] else str(column) for column in columns)]
    return header, [[str(key), *(_cell(row.get(c), digits) for c in columns)] for key, row in value.items()]


def _plain(name, header, rows):
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [header, *rows]
    ]
    return "\n".join([name, *(line.rstrip() for line in lines)])


def _html(name, header, rows):
    cell = "padding: 0.2em 0.9em; border-bottom: 1px solid var(--jp-border-color2, #bdbdbd)"
    head = "".join(
        f'<th scope="col" style="{cell}; text-align: right; {QUIET}">{prose(text)}</th>' for text in header[1:]
    )
    lines = "".join(
        f'<tr><th scope="row" style="{cell}; text-align: left; font-weight: normal">{prose(row[0])}</th>'
        + "".join(f'<td style="{cell}; text-align: right">{prose(text)}</td>' for text in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        '<table style="border-collapse: collapse; margin: 0.35em 0; font-variant-numeric: tabular-nums">'
        f'<thead><tr><th scope="col" style="{cell}; text-align: left">{prose(name)}</th>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table>"
    )
