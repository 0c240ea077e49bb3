"""The page of all claims: each sentence that the course checks, what was measured, and where it stands."""

from collections.abc import Iterator

from nbformat import NotebookNode

from course_lib.lesson.cards import prose

OPENING = """\
# Claims

{claims} sentences of this course are checked by the lesson that says them, each time it is run. Below each stands what
that run measured and what was asked. Where it rests on experiments, the mean and the range of their recorded runs stand
there, and in how many of them it held: the runs differ in their seed and in the instructions that the processor may
use, for rounding differs, and a training run ends elsewhere when it does.

"""


def numbered(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode]]:
    """The claims among a notebook's outputs, in order, each with the name of its place on the page."""
    count = 0
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "claim" in output.get("metadata", {}).get("unrolled", {}):
                count += 1
                yield f"claim-{count}", output


def set_places(notebook: NotebookNode) -> None:
    """Give each claim of the notebook a name that a link can lead to, in place."""
    for name, output in numbered(notebook):
        if "text/html" in output.data:
            output.data["text/html"] = output.data["text/html"].replace("<div", f'<div id="{name}"', 1)


def page(notebooks: dict[str, NotebookNode]) -> str:
    """The page, as Markdown: a section a lesson, by file name, its claims in the order in which it makes them."""
    sections, claims = [], 0
    for name, notebook in notebooks.items():
        made = [_entry(name, place, output) for place, output in numbered(notebook)]
        if made:
            claims += len(made)
            title = notebook.cells[0].source.partition("\n")[0].removeprefix("# ")
            sections.append("\n".join([f"## {title}\n", "```{raw} html", "<dl>"]))
            sections[-1] += "\n".join([*made, "</dl>", "```\n"])
    return OPENING.format(claims=claims) + "\n".join(sections)


def _entry(name, place, output):
    said = output.metadata["unrolled"]
    measured = output.data.get("text/plain", "").partition(f"{said['claim']} — ")[2]
    mark = "✓" if said["holds"] else "✗"
    link = f'<a href="{name.removesuffix(".ipynb")}.html#{place}">{prose(said["claim"])}</a>'
    return f"<dt>{mark} {link}</dt><dd>{prose(measured)}</dd>"
