"""CONTRIBUTING.md's tables of limits, made from lesson/limits.py: what is limited, to what, why, and by which tests."""

import ast
import re
from pathlib import Path

from course_lib.lesson import limits

ROOT = Path(__file__).resolve().parents[3]
SECTION = re.compile(r"^# --- (.+)$", re.MULTILINE)
LIMIT = re.compile(r"^# (?P<what>.+?): (?P<why>.+)\n(?P<name>[A-Z][A-Z_]*) = ", re.MULTILINE)


def limits_tables(source: str | None = None, tests: Path = ROOT / "tests") -> str:
    """The tables as Markdown, one for each section of `source` (the file itself, unless given).

    Raises ValueError for a limit without its comment.
    """
    source = Path(limits.__file__).read_text(encoding="utf-8") if source is None else source
    reads = {path.name: _read_by(path) for path in sorted(tests.rglob("*.py"))}
    untold = set(re.findall(r"^([A-Z][A-Z_]*) = ", source, re.MULTILINE)) - {
        one["name"] for one in LIMIT.finditer(source)
    }
    if untold:
        raise ValueError(f"limits.{min(untold)} has no comment `# what it limits: why` in the line above it.")
    made = []
    _, *parts = SECTION.split(source)
    for title, part in zip(parts[::2], parts[1::2], strict=True):
        lines = [f"**{title}**", "", "| what | limit | why | checked in |", "| --- | ---: | --- | --- |"]
        for one in LIMIT.finditer(part):
            readers = [name for name, names in reads.items() if one["name"] in names]
            lines.append(
                f"| {one['what']} | {_shown(getattr(limits, one['name']))} | {one['why']} | {', '.join(readers)} |"
            )
        made.append("\n".join(lines))
    return "\n\n".join(made)


def _read_by(path):
    """The names of the limits that a test file reads."""
    text = path.read_text(encoding="utf-8")
    nodes = ast.walk(ast.parse(text if "limits." in text else ""))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "limits"}


def _shown(value):
    """A limit in words: a number, a range, or names."""
    if isinstance(value, tuple) and isinstance(value[0], str):
        return ", ".join(f"`{name}`" for name in value)
    return " to ".join(map(str, value)) if isinstance(value, tuple) else f"{value:,}"
