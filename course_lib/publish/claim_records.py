"""notebooks/claims.json: for each notebook when, how and where its claims were measured, and each claim's numbers.

A claim's entry holds its cell, its sentence, in how many runs it held, and for each comparison the numbers of every
run: a list for each instruction set, in the order of the seeds, null where the claim was not reached.
"""

import json
import math
import re

from course_lib.data.beside import write_beside
from course_lib.lesson.firmness import RECORD, terms
from course_lib.lesson.numerals import jsonable, shown, shown_bound
from course_lib.publish import measured


def read() -> dict:
    """notebooks/claims.json: one entry for each notebook file; empty where nothing was recorded yet."""
    path = measured.NOTEBOOKS / RECORD
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def store(name: str, entry: dict) -> None:
    """Put one notebook's entry into notebooks/claims.json, and forget notebooks that are gone."""
    kept = {other: data for other, data in read().items() if (measured.NOTEBOOKS / other).exists()}
    text = json.dumps(dict(sorted((kept | {name: entry}).items())), indent=1, ensure_ascii=False)
    # A list of numbers on one line: to be read, and to change in one place when it changes.
    text = re.sub(r"\[\n([^\[\]{}]*?)\n\s*\]", lambda match: f"[{' '.join(match[1].split())}]", text)
    write_beside(measured.NOTEBOOKS / RECORD, text + "\n")


def summary(runs: dict[tuple[int, str], dict]) -> dict:
    """One notebook's entry out of what its runs found, by (seed, instruction set)."""
    seeds, cpus = (list(dict.fromkeys(part)) for part in zip(*runs, strict=True))
    by_run = {run: {(c["claim"], *terms(c["values"])): c for c in found["claims"]} for run, found in runs.items()}
    keys = dict.fromkeys(key for claims in by_run.values() for key in claims)
    days = sorted(found["date"] for found in runs.values())
    return {
        "date": " to ".join(dict.fromkeys([days[0], days[-1]])),
        "command": f'make claims SEEDS="{" ".join(map(str, seeds))}" CPU="{" ".join(cpus)}"',
        "machine": "; ".join(sorted({found["machine"] for found in runs.values()})),
        "seeds": seeds,
        "cpu": cpus,
        "claims": [_claim({run: claims.get(key) for run, claims in by_run.items()}) for key in keys],
    }


def _claim(found):
    """A claim's entry out of its data in each run, None where it was not reached."""
    one = next(data for data in found.values() if data)
    without = {
        "failed_in": [_named(run) for run, data in found.items() if data and not data["holds"]],
        "not_reached_in": [_named(run) for run, data in found.items() if not data],
    }
    return {
        "cell": one["cell"],
        "claim": one["claim"],
        "held": sum(bool(data and data["holds"]) for data in found.values()),
        "runs": len(found),
        **{what: runs for what, runs in without.items() if runs},
        "comparisons": [
            _comparison({run: data and data["values"][k] for run, data in found.items()})
            for k in range(len(one["values"]))
        ],
    }


def _comparison(found):
    """One comparison of a claim: what it asks, the numbers by setting and seed, and the worst of them."""
    reached = [value for value in found.values() if value]
    one, worst = reached[0], min(reached, key=_margin)
    numbers = {"value": "values"} | ({"bound": "bounds"} if "bound_is_measured" in one else {})
    entry = {key: one[key] for key in one if key not in numbers}
    entry["worst"] = _short(worst["value"])
    if "bound_is_measured" in one:
        entry |= {"worst_bound": _short(worst["bound"]), "margin": _short(jsonable(_margin(worst)))}
    for key, name in numbers.items():
        entry[name] = {
            cpu: [_short(value and value[key]) for (_, its), value in found.items() if its == cpu]
            for cpu in dict.fromkeys(cpu for _, cpu in found)
        }
    return entry


def _margin(value):
    """By how much a comparison holds; below 0 where it does not, least of all where it is not a number."""
    gap = float(value["value"]) - float(value["bound"])
    if math.isnan(gap):
        return -math.inf
    return {"≤": -gap, "<": -gap, "≥": gap, ">": gap, "=": -abs(gap), "≠": abs(gap)}[value["operator"]]


def _short(value):
    """A number to six digits: what a record needs."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _named(run):
    return f"seed {run[0]}, {run[1]}"


def told(entry: dict, runs: dict[tuple[int, str], dict]) -> tuple[list[str], int]:
    """A notebook's entry as lines of text, and how many claims or runs are wanting."""
    lines, wanting = [], 0
    for claim in entry["claims"]:
        holds = claim["held"] == claim["runs"]
        wanting += not holds
        lines.append(f"  {'holds' if holds else 'FAILS'}  {claim['held']} of {claim['runs']}  {claim['claim']}")
        lines += [f"           {_asked(comparison)}" for comparison in claim["comparisons"]]
        for what, where in (("fails", "failed_in"), ("not reached", "not_reached_in")):
            if where in claim:
                lines.append(f"           {what} under {'; '.join(claim[where])}")
    # A run that raised something else than a claim is wanting of itself.
    others = [f"{_named(run)}: {failure}" for run, found in runs.items() for failure in found["raised"]]
    return [*(lines or ["  no claims"]), *(f"  FAILS  {other}" for other in others)], wanting + len(others)


def _asked(comparison):
    """One comparison as text: its name, the worst number measured, and what it had to keep."""
    worst = _text(comparison["worst"], shown)
    bound = (
        _text(comparison["bound"], shown_bound) if "bound" in comparison else _text(comparison["worst_bound"], shown)
    )
    parts = (comparison.get("name"), "worst", worst, comparison.get("unit"), comparison["operator"])
    return " ".join(part for part in (*parts, comparison.get("bound_name"), bound) if part)


def _text(number, show):
    return show(number) if isinstance(number, int | float) else str(number)
