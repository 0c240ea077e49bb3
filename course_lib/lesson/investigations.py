"""Investigations: an open question, a rubric that the student ticks, and a model answer. Nothing is marked."""

from course_lib.lesson.cards import QUIET, card, emit, prose
from course_lib.workshop.exercises import Investigation, find_investigation

# Checkboxes come on one line of fixed width; a sentence would be cut.
_STYLE = """<style>
.unrolled-rubric .widget-checkbox { width: 100%; height: auto; }
.unrolled-rubric .widget-checkbox label {
  height: auto; min-height: 24px; line-height: 1.45; white-space: normal; padding: 2px 0; cursor: pointer;
  display: flex; align-items: flex-start; gap: 0.55em;
  color: var(--jp-content-font-color1, inherit); font-size: var(--jp-content-font-size1, 14px);
}
.unrolled-rubric .widget-checkbox label input { flex: none; margin: 0.1em 0 0; }
</style>"""

# Of this session only, by name: which sentences of the rubric are ticked.
_ticked: dict[str, set[str]] = {}


def investigate(name: str, *, among=None) -> None:
    """Ask an open question, with its rubric as boxes to tick: what to vary, to hold, what would change your mind.

    Nobody marks it but the student, and it does not count in the progress. Where no kernel runs (GitHub, slides, a web
    page) the rubric is a list. Raises NotThere, a LookupError, for a name that no investigation has.
    """
    asked = find_investigation(name, among)
    try:
        widget = {k: v for k, v in rubric(asked)._repr_mimebundle_().items() if k != "text/plain"}
    except ModuleNotFoundError:
        widget = {}
    lines = "\n".join(f"  ○ {_bare(line)}" for line in asked.rubric)
    items = "".join(f'<li style="margin: 0.15em 0">{prose(line)}</li>' for line in asked.rubric)
    later = f'<span style="{QUIET}">{prose(f"A model answer, afterwards: `solution({name!r})`.")}</span>'
    emit(
        f"Investigate. {_bare(asked.question)}\n{lines}\nA model answer, afterwards: solution({name!r}).",
        html=card("info", f"<b>Investigate.</b> {prose(asked.question)}", f"<ul>{items}</ul>", later),
        widget=widget,
        metadata={"investigation": name},
    )


def rubric(asked: Investigation):
    """The widget of an investigation: its `boxes` are an attribute, for tests."""
    import ipywidgets

    ticked = _ticked.setdefault(asked.name, set())
    boxes = [
        ipywidgets.Checkbox(line in ticked, description=_bare(line), indent=False, layout={"width": "auto"})
        for line in asked.rubric
    ]

    def note(line):
        return lambda change: ticked.add(line) if change["new"] else ticked.discard(line)

    for box, line in zip(boxes, asked.rubric, strict=True):
        box.observe(note(line), names="value")
    text = ipywidgets.HTML(f"{_STYLE}<b>Investigate.</b> {prose(asked.question)}")
    later = ipywidgets.HTML(prose(f"A model answer, afterwards: `solution({asked.name!r})`."))
    panel = ipywidgets.VBox([text, *boxes, later], layout={"max_width": "62em", "width": "100%"})
    panel.add_class("unrolled-rubric")
    panel.boxes = boxes
    return panel


def model_answer(asked: Investigation, show: bool = False) -> None:
    """Show one answer among many, once something of the rubric is ticked; before that, `show=True` shows it."""
    shown = bool(show or _ticked.get(asked.name))
    record = {"solution": asked.name, "shown": shown}
    if not shown:
        text = (
            f"A model answer of `{asked.name}` is here when you want it. Find your own first, and tick what you did. "
            f"To see it now: `solution({asked.name!r}, show=True)`."
        )
        return emit(text, html=card("open", prose(text)), metadata=record)
    emit(
        f"A model answer of {asked.name}\n\n{asked.answer}",
        markdown=f"**A model answer of `{asked.name}`**\n\n{asked.answer}",
        metadata=record,
    )


def _bare(text):
    return text.replace("`", "")  # a box's label is plain text
