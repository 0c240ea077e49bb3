"""The page of all claims and findings: each sentence, the numbers that it rests on, and where it stands."""

from collections.abc import Iterator

from nbformat import NotebookNode

from course_lib.lesson.cards import prose

OPENING = """\
# Claims and findings

A **claim** is a sentence about the run of the notebook that you see: its numbers were computed by the cells above it,
and it turns red where they no longer bear it out. There are {claims}. A **finding** is a sentence about recorded runs,
which differ in their seed and in the instructions that the processor may use (rounding differs, and a training run
then ends elsewhere). There are {findings}; each says in how many runs it holds, and their range.

"""


def numbered(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode]]:
    """The claims and findings among a notebook's outputs, in order, each with the name of its place on the page."""
    count = 0
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if {"claim", "finding"} & output.get("metadata", {}).get("unrolled", {}).keys():
                count += 1
                yield f"claim-{count}", output


def set_places(notebook: NotebookNode) -> None:
    """Give each claim of the notebook a name that a link can lead to, in place."""
    for name, output in numbered(notebook):
        if "text/html" in output.data:
            output.data["text/html"] = output.data["text/html"].replace("<div", f'<div id="{name}"', 1)


def page(notebooks: dict[str, NotebookNode]) -> str:
    """The page, as Markdown: a section for each lesson, by file name, with what it says in the order it says it."""
    sections, kinds = [], []
    for name, notebook in notebooks.items():
        made = list(numbered(notebook))
        kinds += ["claim" in output.metadata["unrolled"] for _, output in made]
        if made:
            title = notebook.cells[0].source.partition("\n")[0].removeprefix("# ")
            entries = [_entry(name, place, output) for place, output in made]
            sections.append("\n".join([f"## {title}\n", "```{raw} html", "<dl>", *entries, "</dl>", "```\n"]))
    return OPENING.format(claims=sum(kinds), findings=len(kinds) - sum(kinds)) + "\n".join(sections)


def _entry(name, place, output):
    """`✓ claim: sentence — numbers`, as a notebook shows it in plain text, as an item with a link."""
    sign, _, said = output.data.get("text/plain", "").partition(" ")
    sentence, _, numbers = said.partition(" — ")
    link = f'<a href="{name.removesuffix(".ipynb")}.html#{place}">{prose(sentence.partition(": ")[2])}</a>'
    return f"<dt>{sign} {link}</dt><dd>{prose(numbers)}</dd>"
