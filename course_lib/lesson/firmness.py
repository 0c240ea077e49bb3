"""How firm a claim is: what `make claims` measured over seeds and instruction sets, told in the claim's box.

A claim is found in notebooks/claims.json by its sentence and its bounds, whichever notebook it stands in: a claim
whose sentence or bound was changed since has no record, and nothing is said.
"""

import json
from pathlib import Path

from course_lib.lesson.numerals import shown
from course_lib.lesson.sources import ROOT

RECORD = "claims.json"


def terms(values: list[dict]) -> list[str]:
    """What each comparison of a claim asks for, without what was measured: "≥ 0.95", "< trigram".

    `values` is what the claim carries as data. A bound that was measured too counts by its name.
    """
    return [f"{value['operator']} {_bound(value)}" for value in values]


def firmness(sentence: str, values: list[dict]) -> str:
    """In how many recorded runs the claim held, and its worst number in each comparison; "" without a record."""
    for claim in recorded():
        if claim["claim"] == sentence and terms(claim["comparisons"]) == terms(values):
            worst = " and ".join(map(_worst, claim["comparisons"]))
            return f"held in {claim['held']} of {claim['runs']} runs" + (f", worst {worst}" if worst else "")
    return ""


def recorded_values(name: str) -> list[float]:
    """What `make claims` measured under this name, `measured(x, name=...)`, a number a run; [] without a record.

    To draw the band in which other seeds and processors fall around what is trained live.
    """
    named = [part for claim in recorded() for part in claim["comparisons"] if part.get("name") == name]
    return [value for part in named for runs in part["values"].values() for value in runs if value is not None]


def recorded() -> list[dict]:
    """Every claim of claims.json: the one beside the notebook, else the checkout's; none where there is none."""
    for folder in (Path.cwd(), ROOT / "notebooks"):
        try:
            notebooks = json.loads((folder / RECORD).read_text(encoding="utf-8"))
            return [claim for notebook in notebooks.values() for claim in notebook["claims"]]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # a claim is checked all the same
    return []


def _bound(value):
    if value.get("bound_is_measured"):
        return value.get("bound_name", "another measured number")
    return f"{value['bound']:.6g}" if isinstance(value["bound"], int | float) else value["bound"]


def _worst(comparison):
    value = _number(comparison["worst"])
    if comparison.get("bound_is_measured"):
        return f"{value} {comparison['operator']} {_number(comparison['worst_bound'])}"
    return value


def _number(value):
    return value if value is None or isinstance(value, str) else shown(value)
