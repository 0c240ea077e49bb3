"""`python -m course_lib.workshop.publish.blocks`: what is made, not typed, in papers and title cells.

Between `<!-- made:NAME -->` and `<!-- /made -->` stands one of: `map`, the lessons with their questions and files;
`minutes`, what each notebook took; `limits`, what the tests hold a lesson to. The minutes of *Run All* in a notebook's
title cell are those of the README's table, and what a core takes as slides or alone is what lesson/limits.py says,
wherever it is told: "65 to 90 minutes as slides, 115 to 170 minutes alone". `make notebooks` ends with the same.
"""

import re
from itertools import zip_longest

from course_lib.data.beside import write_beside
from course_lib.lesson import limits
from course_lib.workshop.publish import measured
from course_lib.workshop.publish.course_map import course_map
from course_lib.workshop.publish.limits_table import limits_tables

BLOCK = re.compile(r"(<!-- made:(\w+) -->).*?(<!-- /made -->)", re.DOTALL)
ROOT = measured.ROOT
PAPERS = ("README.md", "CONTRIBUTING.md")
RUN_ALL = re.compile(r"(?<=\*Run All:\* )\S+(?= minutes on two CPU cores)")
CORE_TAKES = re.compile(r"\d+ to \d+(?= minutes (as slides|alone\b))")


def as_minutes(seconds: float) -> str:
    """Seconds as the papers and the title cells tell them: 71 is "1.2"."""
    return f"{seconds / 60:.1f}"


def minutes() -> str:
    """What each notebook took when it was stored, two in a row: minutes and peak memory, and on which machines."""
    numbers = sorted(measured.read().items())
    cells = [
        f"| [{name.removesuffix('.ipynb')}](notebooks/{name}) | {as_minutes(one['seconds'])} | {one['peak_mb']:,} MB "
        for name, one in numbers
    ]
    half = (len(cells) + 1) // 2
    rows = [f"{left}{right}|" for left, right in zip_longest(cells[:half], cells[half:], fillvalue="| | | ")]
    machines = sorted({one["machine"] for _, one in numbers})
    head = [
        "| notebook | minutes | memory | notebook | minutes | memory |",
        "| --- | ---: | ---: | --- | ---: | ---: |",
    ]
    return "\n".join([*head, *rows, "", f"Measured on: {'; '.join(machines)}."])


MADE = {"map": course_map, "minutes": minutes, "limits": limits_tables}


def timed(text: str) -> str:
    """`text` with the minutes that a core takes, as slides or alone, as the limits have them."""
    spans = {"as slides": limits.MINUTES_AS_SLIDES, "alone": limits.MINUTES_ALONE}
    return CORE_TAKES.sub(lambda found: "{} to {}".format(*spans[found[1]]), text)


def filled(text: str) -> str:
    """`text` with its marked blocks made anew; ValueError for a block of another name."""

    def fill(match):
        opening, name, closing = match.groups()
        if name not in MADE:
            raise ValueError(f"there is no block `made:{name}`; there are: {', '.join(MADE)}.")
        return f"{opening}\n{MADE[name]()}\n{closing}"

    return timed(BLOCK.sub(fill, text))


def titled(text: str, seconds: float) -> str:
    """The text of a notebook's file, or of its title cell, with the minutes there as they were measured."""
    return timed(RUN_ALL.sub(as_minutes(seconds), text, count=1))


def refresh() -> list[str]:
    """Bring the blocks of all papers and the minutes of all title cells up to date; the names of what changed."""
    numbers, changed = measured.read(), []
    for path in (*(ROOT / name for name in PAPERS), *(measured.NOTEBOOKS / name for name in numbers)):
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        new = titled(old, numbers[path.name]["seconds"]) if path.name in numbers else filled(old)
        if new != old:
            write_beside(path, new)
            changed.append(path.name)
    return changed


if __name__ == "__main__":
    for changed in refresh():
        print(f"{changed}: what is made in it is new")
