"""A notebook as decks: which cells make which slide, what stays off it, and why one makes no whole deck."""

import ast
import html
import re
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from course_lib.workshop.publish.assets import png_size
from course_lib.workshop.publish.parts import begins_laboratory, is_folded

SLIDE_TYPES = ("slide", "subslide", "fragment", "skip", "notes")
SPEAKING = {"cite", "claim", "show_source", "report"}  # calls whose output says what they were asked
ENLARGED = 1.25  # a figure may be drawn so much larger than it is, for the back of the room
PROGRESS = re.compile(r"\d+%\|")  # a progress bar, as tqdm prints it
FOLD = re.compile(r"</?details>|<summary>.*?</summary>")
MINUTES = re.compile(r"\*\*Minutes\.\*\*\s*(\d+)")
NUMBERED = re.compile(r"^(\d\d) · ")
HYPHEN = re.compile(r"(?<=\w)-(?=\w)")
GUESS = re.compile(r"\*\*(Guess first|Bet)\b")  # what stands behind such a question waits until somebody goes on
PNG = re.compile(r'<img (?=[^>]*src="data:image/png;base64,([A-Za-z0-9+/]{32}))')


@dataclass
class Slide:
    """One slide: its cells in order, the first of them the one that begins it; and its speaker notes."""

    cells: list[NotebookNode]
    notes: list[NotebookNode]
    below: bool  # a subslide: it goes on with the slide above

    @property
    def id(self) -> str:
        """The id of the cell that begins the slide."""
        return self.cells[0].id

    @property
    def title(self) -> str:
        """The text of its first heading, as Markdown; "" without one."""
        found = re.search(r"^#+ +(.+)$", self.cells[0].source, re.MULTILINE)
        return found[1].strip() if found and self.cells[0].cell_type == "markdown" else ""

    @property
    def spoken(self) -> str:
        """Its speaker notes, as Markdown, without the fold that keeps them out of a student's way in the notebook."""
        return FOLD.sub("", "\n\n".join(cell.source for cell in self.notes)).strip()

    @property
    def minutes(self) -> int:
        """The minutes that its notes give it."""
        return sum(map(int, MINUTES.findall(self.spoken)))


def slides(notebook: NotebookNode, name: str) -> list[Slide]:
    """The slides of the notebook called `name`; ValueError says, a sentence a cell, why it makes none."""
    if not any("slideshow" in cell.metadata for cell in notebook.cells):
        first = f", cell {notebook.cells[0].id}" if notebook.cells else ""
        raise ValueError(f"{name}{first}: the notebook has no slide metadata; give the cells slide types.")
    made, wrong = [], []
    for cell in notebook.cells:
        kind = cell.metadata.get("slideshow", {}).get("slide_type")
        if "slideshow" in cell.metadata and kind not in SLIDE_TYPES:
            wrong.append((cell, f"the slide type {kind!r} is none of {', '.join(SLIDE_TYPES)}."))
        elif kind in {"slide", "subslide"}:
            made.append(Slide([cell], [], below=kind == "subslide" and bool(made)))
        elif kind == "skip":
            continue
        elif not made:
            wrong.append((cell, "no slide has begun yet; give it the slide type slide, or skip."))
        elif kind == "notes":
            made[-1].notes.append(cell)
        else:
            made[-1].cells.append(cell)
    wrong += _unfit(notebook, made)
    for slide in made:
        if not slide.spoken:
            wrong.append((slide.cells[0], "the slide has no speaker notes; add a cell of slide type notes."))
        for cell in slide.cells:
            if any(output.output_type == "error" for output in cell.get("outputs", [])):
                wrong.append((cell, "its stored output is an error; mend it and run `make notebooks`."))
    if not made and not wrong:
        wrong.append((notebook.cells[0], "every cell is skipped, so there is no slide."))
    if wrong:
        raise ValueError("\n".join(f"{name}, cell {cell.id}: {why}" for cell, why in wrong))
    return made


def core_and_laboratory(made: list[Slide]) -> tuple[list[Slide], list[Slide]]:
    """The slides of a notebook before its laboratory, and those in it: none if it has no laboratory."""
    begins = next((i for i, slide in enumerate(made) if begins_laboratory(slide.cells[0])), len(made))
    return made[:begins], made[begins:]


def staged(made: list[Slide], title: str) -> NotebookNode:
    """A notebook of the cells on slides; each says what stands around it, and which code it shows.

    `title`, as Markdown, stands at the foot of each slide.
    """
    made, parent = deepcopy(made), ""
    for number, slide in enumerate(made, 1):
        last = number == len(made)
        kind, above = "plain", parent if slide.below else ""
        if not slide.below:
            parent = slide.title
        if slide.cells[0].source.startswith("# "):
            kind, above = "title", _mend_title(slide.cells[0], title)
        for cell in slide.notes:
            cell.source = FOLD.sub("", cell.source)
        for cell in [*slide.cells, *slide.notes]:
            cell.metadata.stage = {"before": "", "after": "", "code": _code(cell)}
            if cell.cell_type == "code":
                cell.outputs = [_sized(output) for output in cell.outputs if not _is_progress(output)]
        slide.cells[0].metadata.stage.before = "\n".join([
            "" if slide.below else "<section>",
            f'<section id="{slide.id}" class="{kind}" data-cell="{slide.id}" data-lesson="{_plain(title)}" '
            f'data-number="{number}" data-total="{len(made)}">',
            f'<p class="eyebrow">{_plain(above)}</p>' if above else "",
        ])  # fmt: skip
        _mark_fragments(slide)
        column_ends = last or not made[number].below
        [*slide.cells, *slide.notes][-1].metadata.stage.after += "</section>" * (1 + column_ends)
    return new_notebook(cells=[cell for slide in made for cell in [*slide.cells, *slide.notes]])


def _unfit(notebook, made):
    """The cells that cannot begin a laboratory, each with the reason."""
    found = [cell for cell in notebook.cells if begins_laboratory(cell)]
    for cell in found:
        kind = cell.metadata.get("slideshow", {}).get("slide_type")
        if cell is not found[0]:
            yield cell, "the laboratory begins a second time here; take the tag laboratory away."
        elif cell.cell_type != "markdown" or not cell.source.startswith("# Laboratory") or kind != "slide":
            yield cell, "a laboratory begins with a Markdown cell `# Laboratory`; give it the slide type slide."
        elif cell is made[0].cells[0]:
            yield cell, "no slide stands before the laboratory; give the lesson its core first."


def _mend_title(cell, title):
    """Take the lesson's number out of the title, keep hyphened words whole; give the line above it."""
    first, _, rest = cell.source.partition("\n")
    number, words = NUMBERED.match(title), NUMBERED.sub("", first.removeprefix("# "))
    cell.source = "# " + HYPHEN.sub("\N{NON-BREAKING HYPHEN}", words) + "\n" + rest
    return f"Unrolled · lesson {number[1]}" if number else "The course"


def _mark_fragments(slide):
    """Wrap each fragment: from its cell to the one before the next fragment, or to the slide's last.

    Where the slide has none and asks for a guess, all that follows on the question is one.
    """
    kinds = [cell.metadata.get("slideshow", {}).get("slide_type") for cell in slide.cells]
    starts = [i for i, kind in enumerate(kinds) if kind == "fragment"]
    asks = next((i for i, cell in enumerate(slide.cells) if GUESS.search(cell.source)), len(kinds))
    if not starts and asks + 1 < len(kinds):
        starts = [asks + 1]
    for start, end in pairwise([*starts, len(kinds)]):
        slide.cells[start].metadata.stage.before += '<div class="fragment">'
        slide.cells[end - 1].metadata.stage.after += "</div>"


def _code(cell):
    """The code on a slide: none that is folded, no call that its output repeats, no test mark."""
    if cell.cell_type != "code" or is_folded(cell):
        return ""
    hidden = set()
    try:
        for statement in ast.parse(cell.source).body:
            call = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in SPEAKING:
                hidden.update(range(statement.lineno, statement.end_lineno + 1))
    except SyntaxError:
        pass  # a line for IPython, not for Python
    lines = enumerate(cell.source.splitlines(), 1)
    shown = [line for number, line in lines if number not in hidden and not line.startswith("# NBVAL_")]
    return "\n".join(shown).strip("\n")


def _is_progress(output):
    """Whether an output is a progress bar, or was written for whoever watches the run."""
    text = output.get("text", "") + output.get("data", {}).get("text/plain", "")
    return output.get("name") == "stderr" or bool(PROGRESS.search(text))


def _sized(output):
    """An output whose pictures have their size written out, so that they need not be drawn to be laid out."""

    def sized(found):
        width, height = (round(ENLARGED * pixels) for pixels in png_size(found[1]))
        return f'<img width="{width}" height="{height}" '

    if "text/html" in output.get("data", {}):
        output.data["text/html"] = PNG.sub(sized, output.data["text/html"])
    return output


def _plain(markdown):
    """One line of Markdown as text for HTML: its marks go, its formulas stay for MathJax."""
    return html.escape(re.sub(r"[*`]", "", markdown))
