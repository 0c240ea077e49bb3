"""Quiz questions that can be answered on a page: chosen, checked, given their reason, with no kernel and no mark."""

import html
import json

from nbformat import NotebookNode

from course_lib.lesson.cards import prose
from course_lib.workshop.exercises import Quiz, find_quiz


def set_answerable(notebook: NotebookNode) -> None:
    """Put radio buttons and a button below the still of each question of the notebook, in place.

    They are hidden until the page's script runs; then the still goes. A question that the course no longer has keeps
    its still.
    """
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            key = output.get("metadata", {}).get("unrolled", {}).get("quiz")
            try:
                question = find_quiz(key) if key else None
            except LookupError:
                question = None
            if question and "text/html" in output.data:
                cell.metadata["tags"] = [*cell.metadata.get("tags", []), "remove-input"]  # the page asks by itself
                output.data["text/html"] += form(question)


def form(question: Quiz) -> str:
    """The question as a form: its options, a button, room for the verdict, and what the script must know."""
    options = "".join(
        f'<label><input type="radio" name="{question.key}" value="{n}"><span>{letter}. {prose(text)}</span></label>'
        for n, (letter, (text, _)) in enumerate(zip("ABCDEFGHIJ", question.options, strict=False))
    )
    known = {"correct": question.correct, "reasons": [prose(reason) for _, reason in question.options]}
    data = json.dumps(known, ensure_ascii=False).replace("<", "\\u003c")
    return (
        f'<form class="quiz" hidden data-key="{html.escape(question.key)}"><fieldset><legend><b>Question.</b> '
        f'{prose(question.question)}</legend>{options}</fieldset><button>Check</button><div role="status"></div>'
        f'<script type="application/json">{data}</script></form>'
    )
