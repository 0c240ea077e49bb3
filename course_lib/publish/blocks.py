"""`python -m course_lib.publish.blocks`: what is made, not typed, in README.md and CONTRIBUTING.md.

Between `<!-- made:NAME -->` and `<!-- /made -->` stands one of: `map`, the lessons with their questions and files;
`minutes`, what each notebook took; `limits`, what the tests hold a lesson to. `make notebooks` ends with the same.
"""

import re

from course_lib.data.beside import write_beside
from course_lib.publish import measured
from course_lib.publish.course_map import course_map
from course_lib.publish.limits_table import limits_tables

BLOCK = re.compile(r"(<!-- made:(\w+) -->).*?(<!-- /made -->)", re.DOTALL)
ROOT = measured.ROOT
PAPERS = ("README.md", "CONTRIBUTING.md")


def minutes() -> str:
    """What each notebook took when it was stored, as a table: minutes and peak memory, and on which machines."""
    numbers = sorted(measured.read().items())
    rows = [
        f"| [{name.removesuffix('.ipynb')}](notebooks/{name}) | {one['seconds'] / 60:.1f} | {one['peak_mb']:,} MB |"
        for name, one in numbers
    ]
    machines = sorted({one["machine"] for _, one in numbers})
    head = ["| notebook | minutes | memory |", "| --- | ---: | ---: |"]
    return "\n".join([*head, *rows, "", f"Measured on: {'; '.join(machines)}."])


MADE = {"map": course_map, "minutes": minutes, "limits": limits_tables}


def filled(text: str) -> str:
    """`text` with its marked blocks made anew; ValueError for a block of another name."""

    def fill(match):
        opening, name, closing = match.groups()
        if name not in MADE:
            raise ValueError(f"there is no block `made:{name}`; there are: {', '.join(MADE)}.")
        return f"{opening}\n{MADE[name]()}\n{closing}"

    return BLOCK.sub(fill, text)


def refresh() -> list[str]:
    """Bring the blocks of all papers up to date; the names of the papers that changed."""
    changed = []
    for path in (ROOT / name for name in PAPERS):
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if (new := filled(old)) != old:
            write_beside(path, new)
            changed.append(path.name)
    return changed


if __name__ == "__main__":
    for changed in refresh():
        print(f"{changed}: its tables are new")
