"""The page of results: what every recorded experiment measured, each variant with its mean and range over all runs."""

import math
from pathlib import Path

from course_lib.lesson.syllabus import LESSONS
from course_lib.workshop.experiments import record

OPENING = """\
# Results

Every number below was measured by an experiment that a lesson's claims rest on, under several seeds and several
instruction sets of the processor: for a training run, another rounding is another run. First stands the mean over all
runs, then the least and the largest. `make experiments` measures them again, by the code in
`course_lib/workshop/experiments/`.

"""
NONE = "No experiment has been recorded yet: `make experiments` runs and records them.\n"


def page(notebooks: dict, folder: Path | None = None) -> str:
    """The page, as Markdown: a section for each lesson that has a record and a page of its own among `notebooks`.

    Raises ValueError for a damaged record.
    """
    sections = []
    for lesson in LESSONS:
        recorded = record.parts(lesson.slug, folder) if lesson.notebook in notebooks else []
        experiments = {name: one for part in recorded for name, one in record.read(part, folder).items()}
        made = [_experiment(one) for one in experiments.values() if one["runs"]]
        if made:
            sections.append(
                "\n\n".join([f"## [{lesson.number:02d} · {lesson.title}]({lesson.notebook})", *made]) + "\n"
            )
    return OPENING + ("\n".join(sections) or NONE)


def _experiment(one):
    """One experiment: what it measures, a row for each variant, where and when it ran."""
    by_variant = {}
    for run in one["runs"]:
        by_variant.setdefault(tuple(run["variant"].items()), []).append(run)
    found = {variant: _numbers(runs) for variant, runs in by_variant.items()}
    names = list(dict.fromkeys(name for numbers in found.values() for name in numbers))
    head = ["variant", *names, "runs"]
    rows = [
        [_named(variant), *(_shown(numbers.get(name, [])) for name in names), str(len(by_variant[variant]))]
        for variant, numbers in found.items()
    ]
    if not names:
        return f"**{_words(one['what'])}** Only curves are recorded: the lesson draws them.\n\n{_where(one['runs'])}"
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    table = "\n".join(f"| {' | '.join(_words(cell) for cell in line)} |" for line in lines)
    return f"**{_words(one['what'])}**\n\n{table}\n\n{_where(one['runs'])}"


def _numbers(runs):
    """The named numbers of a variant's runs, {name: one of each run}; curves and lists are left to the lessons."""
    found = {}

    def gather(result, names=()):
        for name, value in result.items():
            if isinstance(value, dict):
                gather(value, (*names, name))
            elif isinstance(value, int | float) or value in ("nan", "inf", "-inf"):
                found.setdefault(" · ".join((*names, name)), []).append(float(value))

    for run in runs:
        gather(run["result"])
    return found


def _shown(values):
    """Mean and range; one number alone where every run gave it; how many runs gave none (infinity, not a number)."""
    finite = [value for value in values if math.isfinite(value)]
    none = f"no number in {len(values) - len(finite)} of {len(values)}" if len(finite) < len(values) else ""
    if not finite:
        return none
    told = _short(math.fsum(finite) / len(finite))
    if any(not math.isclose(value, finite[0], rel_tol=1e-6, abs_tol=1e-12) for value in finite):
        told += f" ({_short(min(finite))} to {_short(max(finite))})"
    return f"{told}; {none}" if none else told


def _short(number):
    if number == int(number):
        return f"{int(number):,}"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def _named(variant):
    return ", ".join(f"{name} {value}" for name, value in variant) or "as the lesson runs it"


def _where(runs):
    """When and on which machines, under which seeds and instruction sets."""
    days = sorted(run["date"] for run in runs if "date" in run)
    seeds = sorted({run["seed"] for run in runs})
    parts = [
        f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}",
        f"instruction sets {', '.join(sorted({run['cpu'] for run in runs}))}",
        *sorted({run["machine"] for run in runs if "machine" in run}),
        *([" to ".join(dict.fromkeys([days[0], days[-1]]))] if days else []),
    ]
    return f"*{_words('; '.join(parts))}.*"


def _words(text):
    """Text that a cell of a Markdown table takes as it is."""
    return (
        str(text).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("_", "\\_").replace("<", "&lt;")
    )
