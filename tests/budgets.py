"""What a lesson may hold at most, counted: its core's budgets, and the numerals that somebody typed by hand.

Each counter takes a `Lesson` and returns what each cell adds, {cell: number}; the lesson's count is the sum. What a
counter counts stands in its docstring and nowhere else. The limits are course_lib/lesson/limits.py's.

Lessons that were over a limit when it was set stand with their counts in over_budget.json, and each count may only
fall. `python tests/budgets.py` writes lower what has fallen, takes out what keeps its limit, and raises nothing.
"""

import ast
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat

from course_lib.lesson import limits
from course_lib.publish import deck, measured
from course_lib.publish.parts import begins_laboratory, is_folded

LIST = Path(__file__).with_name("over_budget.json")
WOBBLE = 1.15  # seconds and megabytes differ from run to run: only beyond this factor have they risen or fallen
NAMED = 4  # so many cells a message names

# --- numerals typed by hand

DECIMAL = re.compile(r"(?<![\w.,])(?<!\w-)\d[\d,]*\.\d+(?!\w|\.\d)")
# A name and a year: "(Vaswani et al., 2017, table 2)", "Vaswani et al. (2017)", "Press and Wolf, 2017".
NAME = r"[A-Z][^\W\d]+(?:[-’'][^\W\d]+)?"
CITATION = re.compile(rf"{NAME}(?:(?:,? and|,) (?:[A-Z]\. ?)*{NAME}| et al\.?)*(?:,? \(|, )(?:19|20)\d\d\b")
REFERENCE = re.compile(r"\s*[-*] [^*]*\((?:19|20)\d\d[a-z]?\)")  # an entry of a list of references
PLACE = re.compile(
    r"(?:sections?|tables?|figures?|equations?|appendi(?:x|ces)|chapters?|algorithms?|versions?|arXiv:?|Python|PyTorch|SQuAD|BY)"
    r" ?(?:[A-Z]\.?)?\d+(?:\.\d+)*(?:(?:,| and| to) \d+(?:\.\d+)*)*",
    re.IGNORECASE,
)
RUN_ALL = re.compile(r"\*Run All:\* \d+(?:\.\d)? minutes")
SET = re.compile(  # formulas, code, links' addresses, comments and blocks that a program fills
    r"<!-- made:.*?<!-- /made -->|<!--.*?-->|```.*?```|``.+?``|`[^`\n]+`|\$\$.*?\$\$|\$[^$]+\$|\]\([^)\s]*\)|https?://\S+",
    re.DOTALL,
)
CHOSEN = re.compile(r"#.*\bchosen\b")
PASTED = 3  # so many decimals may stand in one list: a few settings


def typed(markdown: str) -> list[str]:
    """The decimals in a text that somebody may have measured and typed.

    A decimal is allowed where it is not measured, and it is marked so: in a formula or between backticks (it was set
    or derived); in a sentence that cites a paper by name and year (it is quoted), a table's rows belonging to the
    sentence before them; as the number of a section, table, figure or version; as the minutes of *Run All*, which a
    test holds to what was measured. A block `<!-- made:... -->` is written by a program.
    """
    text = PLACE.sub(" ", RUN_ALL.sub(" ", SET.sub(" x ", markdown)))
    return [
        number for sentence in _sentences(text) if not CITATION.search(sentence) for number in DECIMAL.findall(sentence)
    ]


def _sentences(text):
    """The sentences of a Markdown text; a table goes with the sentence before it."""
    text = re.sub(r"\n\s*\n?(?=[ \t]*\|)", " | ", text)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*>#]|\d+\.) )", text):
        if REFERENCE.match(block):
            yield block
            continue
        yield from re.split(r"(?<=[.!?])[*_\"”)]*\s+(?=[^a-z])(?!\|)", re.sub(r"(?<=et al)\.(?= )", "", block))


def pasted(source: str) -> int:
    """How many decimals stand in code as data that was perhaps measured: in a list, set or dict of more than three.

    Lists in lists count as one; a text of several lines that holds more than three is a list too. Not counted: what
    `assert`, `assert_close` or `tensor` is given (a test of a formula, its input); what a comment on the same lines
    or the line above calls `chosen`, or cites by name and year.
    """
    lines = [line if line[:1] not in "%!" else "" for line in source.splitlines()]
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError:
        return 0  # a line for IPython in the middle: the notebook's own run would say more

    def marked(node):
        near = "\n".join(lines[max(0, node.lineno - 2) : node.end_lineno])
        comments = " ".join(re.findall(r"#.*", near))
        return bool(CHOSEN.search(comments) or CITATION.search(comments))

    def within(node):
        if isinstance(node, ast.Assert) or isinstance(node, ast.Call) and _name(node) in {"assert_close", "tensor"}:
            return 0
        found = 0
        if isinstance(node, ast.List | ast.Set | ast.Dict):
            found = _decimals(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value:
            found = len(DECIMAL.findall(node.value))
        if found > PASTED:
            return 0 if marked(node) else found
        return sum(map(within, ast.iter_child_nodes(node)))

    return within(tree)


def _name(call):
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _decimals(node):
    """The decimals that a literal holds, through lists in lists, not through calls."""
    if isinstance(node, ast.Constant):
        return int(isinstance(node.value, float))
    if isinstance(node, ast.List | ast.Set | ast.Dict | ast.Tuple | ast.UnaryOp | ast.Starred):
        return sum(map(_decimals, ast.iter_child_nodes(node)))
    return 0


# --- a lesson


@dataclass
class Lesson:
    """A stored notebook, its name, and its entry in notebooks/measured.json."""

    name: str
    notebook: nbformat.NotebookNode
    entry: dict

    @property
    def core(self) -> list:
        """The cells before the laboratory; all of them where there is none."""
        cells = self.notebook.cells
        return cells[: next((i for i, cell in enumerate(cells) if begins_laboratory(cell)), len(cells))]

    @property
    def has_laboratory(self) -> bool:
        """Whether it has one."""
        return len(self.core) < len(self.notebook.cells)

    @property
    def slides(self) -> list:
        """The slides of the core."""
        return deck.core_and_laboratory(deck.slides(self.notebook, self.name))[0]


def slides(lesson: Lesson) -> dict[str, int]:
    """The slides of the core, subslides too; where a laboratory follows (else test_slides.py holds the whole)."""
    return {slide.id: 1 for slide in lesson.slides} if lesson.has_laboratory else {}


def minutes(lesson: Lesson) -> dict[str, int]:
    """The minutes that the notes of the core's slides state; where a laboratory follows."""
    return {slide.id: slide.minutes for slide in lesson.slides} if lesson.has_laboratory else {}


def open_lines(lesson: Lesson) -> dict[str, int]:
    """The lines of the core's code cells that are not folded, without empty ones and marks for nbval.

    Not counted: stubs (the tag "exercise"), quizzes and investigations (cells that begin with `quiz(` or
    `investigate(`), and what an investigation starts from (an id that begins with "investigation").
    """
    return {
        cell.id: _lines(cell.source)
        for cell in lesson.core
        if cell.cell_type == "code" and not is_folded(cell) and not _is_asked(cell)
    }


def lines_missing_on_slides(lesson: Lesson) -> dict[str, int]:
    """How many lines of code the core's slides show less than they should: what a slide hides is not shown."""
    shown = sum(_lines(cell.metadata.stage.code) for cell in deck.staged(lesson.slides, lesson.name).cells)
    return {"slides": max(0, limits.SLIDE_LINES - shown)} if lesson.has_laboratory else {}


def claims(lesson: Lesson) -> dict[str, int]:
    """The claims of the core, as stored: one that a loop makes three times counts three times."""
    return {cell.id: len(_claims(cell)) for cell in lesson.core}


def numbers_too_many(lesson: Lesson) -> dict[str, int]:
    """The comparisons that a claim of the core holds beyond the two that it may."""
    return {
        cell.id: sum(max(0, len(data["values"]) - limits.NUMBERS_PER_CLAIM) for data in _claims(cell))
        for cell in lesson.core
    }


def words(lesson: Lesson) -> dict[str, int]:
    """The words of the core's text without notes: what stands between spaces and holds a letter or a digit.

    A formula counts as one word.
    """
    return {
        cell.id: sum(
            bool(re.search(r"\w", word)) for word in re.sub(r"\$\$.*?\$\$|\$[^$]+\$", "x", cell.source).split()
        )
        for cell in lesson.core
        if cell.cell_type == "markdown" and not _is_notes(cell)
    }


def seconds(lesson: Lesson) -> dict[str, int]:
    """The seconds that Run All took when the notebook was stored, core and laboratory."""
    return {"Run All": lesson.entry.get("seconds", 0)}


def memory(lesson: Lesson) -> dict[str, int]:
    """The most memory of that run, in MB, above the limit of a lesson that loads a model that others trained or not."""
    loads = any("published.fetch" in cell.source for cell in lesson.notebook.cells if cell.cell_type == "code")
    limit = limits.MEMORY_MB_REAL_MODEL if loads else limits.MEMORY_MB
    return {"Run All": max(0, lesson.entry.get("peak_mb", 0) - limit)}


def typed_in_text(lesson: Lesson) -> dict[str, int]:
    """The decimals in the notebook's text, notes too, that are not marked as quoted or set: see `typed`."""
    return {cell.id: len(typed(cell.source)) for cell in lesson.notebook.cells if cell.cell_type == "markdown"}


def pasted_in_code(lesson: Lesson) -> dict[str, int]:
    """The decimals in the notebook's code that were pasted as data: see `pasted`."""
    return {cell.id: pasted(cell.source) for cell in lesson.notebook.cells if cell.cell_type == "code"}


def _is_notes(cell):
    return cell.metadata.get("slideshow", {}).get("slide_type") == "notes"


def _is_asked(cell):
    asks = re.match(r"(?:#.*\n)*(?:quiz|investigate)\(", cell.source)
    return bool(asks) or "exercise" in cell.metadata.get("tags", []) or cell.id.startswith("investigation")


def _lines(source):
    return sum(bool(line.strip()) and not line.startswith("# NBVAL_") for line in source.splitlines())


def _claims(cell):
    outputs = cell.get("outputs", [])
    return [data for data in (o.get("metadata", {}).get("unrolled", {}) for o in outputs) if "claim" in data]


@dataclass(frozen=True)
class Budget:
    """A limit and what counts it; `varies` where the count differs from run to run; `way`: what to do, where unsaid."""

    limit: int
    count: Callable[[Lesson], dict[str, int]]
    varies: bool = False
    way: str = ""


BUDGETS = {
    "slides of the core": Budget(limits.SLIDES, slides),
    "minutes of the core": Budget(limits.MINUTES, minutes),
    "open lines of code in the core": Budget(limits.OPEN_LINES, open_lines),
    "lines missing on slides": Budget(
        0,
        lines_missing_on_slides,
        way=f"the core's slides show {limits.SLIDE_LINES} lines of code at least: take `skip` off the code that the "
        "lesson is about, each on a slide or subslide of its own",
    ),
    "claims of the core": Budget(limits.CLAIMS, claims),
    "numbers too many in a claim": Budget(0, numbers_too_many),
    "words to read in the core": Budget(limits.WORDS, words),
    "seconds of Run All": Budget(limits.SECONDS, seconds, varies=True),
    "MB beyond the limit": Budget(0, memory, varies=True),
    "decimals typed in text": Budget(
        0,
        typed_in_text,
        way="print what was measured from its record, put what was set between backticks or into a formula, and cite "
        "what is quoted by name and year in its sentence",
    ),
    "decimals pasted in code": Budget(
        0, pasted_in_code, way="read them from a record, or say `# chosen` or cite a paper in the line above"
    ),
}
IN_PAGES = "decimals typed in text"


# --- against the list


def over(name: str, counted: dict[str, dict[str, int]], listed: dict[str, int]) -> list[str]:
    """What is wrong with one file, a sentence each: counts by budget and cell, and its entry in the list.

    A count may stand over its limit only where the list has it; it may not stand over its entry in the list, nor
    under it (then the entry is lowered), and what keeps its limit is not listed.
    """
    wrong = [f"{name}: the list has “{budget}”, which is no budget of it" for budget in listed.keys() - counted.keys()]
    for what, cells in counted.items():
        budget, count, entry = BUDGETS[what], sum(cells.values()), listed.get(what)
        slack = WOBBLE if budget.varies else 1
        most = sorted((cell for cell in cells if cells[cell]), key=lambda cell: -cells[cell])
        where = ", ".join(f"{cell} {cells[cell]}" for cell in most[:NAMED]) + (", ..." if len(most) > NAMED else "")
        if entry is None:
            if count > budget.limit:
                way = f": {budget.way}" if budget.way else ""
                wrong.append(f"{name}: {count} {what}, at most {budget.limit} (most in: {where}){way}")
        elif count <= budget.limit:
            wrong.append(f"{name}: {what} keep their limit now: take them out of the list, {LOWER}")
        elif count > entry * slack:
            wrong.append(
                f"{name}: {count} {what}, and {entry} when the list was made: it may only fall (most in: {where})"
            )
        elif count < entry / slack:
            wrong.append(f"{name}: {what} have fallen from {entry} to {count}: write that into the list, {LOWER}")
    return wrong


LOWER = "`python tests/budgets.py`"


def lowered(counted: dict[str, dict[str, int]], listed: dict[str, int]) -> dict[str, int]:
    """The list's entry for a file, with what has fallen; nothing is raised and nothing comes in."""
    counts = {what: sum(cells.values()) for what, cells in counted.items()}
    return {
        what: min(entry, counts[what])
        for what, entry in listed.items()
        if what in counts and counts[what] > BUDGETS[what].limit
    }


def counted(path: Path) -> dict[str, dict[str, int]]:
    """The counts of a notebook by budget and cell; of a page the numerals, by section."""
    if path.suffix == ".ipynb":
        lesson = Lesson(path.name, nbformat.read(path, as_version=4), measured.read().get(path.name, {}))
        return {what: budget.count(lesson) for what, budget in BUDGETS.items()}
    sections = re.split(r"^(?=##+ )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {IN_PAGES: {section.partition("\n")[0]: len(typed(section)) for section in sections}}


def held() -> dict[str, Path]:
    """What is held to a limit, by the name under which the list has it: lessons, pages, the READMEs."""
    root = measured.ROOT
    texts = [*root.glob("*.md"), *(root / "course_lib" / "publish" / "pages").glob("*.md"), *root.glob("data/**/*.md")]
    lessons = {path.name: path for path in measured.written()}
    return lessons | {path.relative_to(root).as_posix(): path for path in sorted(texts)}


def read() -> dict[str, dict[str, int]]:
    """The list."""
    return json.loads(LIST.read_text(encoding="utf-8"))


def main() -> int:
    """Lower the list to what has fallen; say what stands above it."""
    listed, now = read(), {name: counted(path) for name, path in held().items()}
    kept = {name: entry for name, counts in now.items() if (entry := lowered(counts, listed.get(name, {})))}
    LIST.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    wrong = [sentence for name, counts in now.items() for sentence in over(name, counts, kept.get(name, {}))]
    print("\n".join(wrong) or "Every count is at its limit or on the list.")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
