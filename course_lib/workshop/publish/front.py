"""The site's first page: what the course is, three doors, and each lesson with its picture and its question."""

import base64
import html
import re
from pathlib import Path

from nbformat import NotebookNode

from course_lib.lesson.cards import prose
from course_lib.workshop.publish import alive
from course_lib.workshop.publish.assets import png_size
from course_lib.workshop.publish.normalise import first_line
from course_lib.workshop.publish.parts import COVER

AROUND = (
    "inside_gpt",
    "reading",
    "platforms",
    "results",
    "claims",
    "teach",
    "contributing",
    "scale",
)  # the pages that are no lesson, in their order
PICTURE = re.compile(r'<img (?=[^>]*src="data:image/png;base64,(?P<png>[A-Za-z0-9+/=]+)")[^>]*?alt="(?P<alt>[^"]*)"')
ABOUT = """\
---
hide-toc: true
---

# Unrolled

From a recurrent network to a Vision Transformer, in notebooks that prove what they say. A page is a lesson as it
was last run: every number, figure and checked claim on it was computed by the code beside it. {controls}

```{{raw}} html
{alive}
{doors}
```

## Lessons

```{{raw}} html
<ol class="lessons">
{lessons}
</ol>
```

```{{toctree}}
:hidden:
:caption: Lessons

{names}
```

```{{toctree}}
:hidden:
:caption: Around the lessons

{others}
```
"""
DOORS = (
    (
        "Learn",
        "Read a lesson here, or run it: two commands set it up on any machine with two cores.",
        {
            "platforms.html": "Get the course",
            "reading.html": "What works here without it",
            alive.INSIDE: "Look inside a small GPT",
        },
    ),
    (
        "Teach",
        "Each lesson is a core of slides with notes, and a laboratory. Its exercises grade themselves.",
        {
            "teach.html": "What each lesson takes",
            "results.html": "What was measured",
            "claims.html": "Claims and findings",
        },
    ),
    (
        "Write",
        "A lesson is one notebook beside a few short files, and tests hold it to what it promises.",
        {"contributing.html": "How a lesson is written", "scale.html": "Training at scale"},
    ),
)


def page(notebooks: dict[str, NotebookNode], folder: Path, controls: str) -> str:
    """The page, as Markdown, of the lessons by file name; their pictures are written to `folder`, beside the pages.

    `controls` says whether sliders move.
    """
    first = next(iter(notebooks), None)
    begin = {_address(first): f"Begin with {_title(notebooks[first])}"} if first else {}
    doors = [(name, says, begin | links if name == "Learn" else links) for name, says, links in DOORS]
    return ABOUT.format(
        controls=controls,
        alive=alive.first_page(notebooks),
        doors=f'<div class="doors">\n{"".join(_door(*one) for one in doors)}</div>',
        lessons="\n".join(_lesson(name, notebook, folder) for name, notebook in notebooks.items()),
        names="\n".join(notebooks),
        others="\n".join(AROUND),
    )


def cover(notebook: NotebookNode) -> tuple[bytes, str] | None:
    """A lesson's picture and the words that stand for it: of the cell tagged `cover`, else the first there is."""
    tagged = [cell for cell in notebook.cells if COVER in cell.metadata.get("tags", [])]
    for cell in [*tagged, *notebook.cells]:
        for output in cell.get("outputs", []):
            if found := PICTURE.search(output.get("data", {}).get("text/html", "")):
                return base64.b64decode(found["png"]), html.unescape(found["alt"])
    return None


def _door(name, says, links):
    listed = "".join(f'<li><a href="{address}">{html.escape(words)}</a></li>' for address, words in links.items())
    return f"<section><h2>{name}</h2><p>{says}</p><ul>{listed}</ul></section>\n"


def _lesson(name, notebook, folder):
    """A lesson in the list; the whole of it leads to its page."""
    _, _, rest = notebook.cells[0].source.partition("\n")
    question = first_line(rest).strip("*") or "A page."
    return (
        f'<li>{_picture(name, notebook, folder)}<h3><a href="{_address(name)}">{prose(_title(notebook))}</a></h3>'
        f"<p>{prose(question)}</p></li>"
    )


def _picture(name, notebook, folder):
    found = cover(notebook)
    if not found:
        return ""
    png, alt = found
    folder.mkdir(exist_ok=True)
    path = folder / f"{Path(name).stem}.png"
    path.write_bytes(png)
    width, height = png_size(base64.b64encode(png[:24]).decode())
    src = f"{folder.name}/{path.name}"
    return f'<img src="{src}" alt="{html.escape(alt)}" width="{width}" height="{height}">'


def _title(notebook):
    return notebook.cells[0].source.partition("\n")[0].removeprefix("# ")


def _address(name):
    return f"{Path(name).stem}.html"
