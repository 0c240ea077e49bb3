"""The page for those who teach: what each lesson takes, and how to present and to grade."""

from pathlib import Path

from nbformat import NotebookNode

from course_lib.lesson import limits
from course_lib.lesson.syllabus import LESSONS
from course_lib.workshop.exercises import all_exercises
from course_lib.workshop.publish import assignment, deck, measured

TEXT = Path(__file__).with_name("pages") / "teach.md"


def page(notebooks: dict[str, NotebookNode]) -> str:
    """The page, as Markdown, of the notebooks as they are stored, by file name."""
    head = ["| lesson | core | laboratory | exercises | Run All |", "| --- | ---: | ---: | ---: | ---: |"]
    rows = [_row(name, notebook) for name, notebook in notebooks.items()]
    told = {
        "points": assignment.POINTS,
        "open_points": assignment.OPEN_POINTS,
        "as_slides": "{} to {}".format(*limits.MINUTES_AS_SLIDES),
        "alone": "{} to {}".format(*limits.MINUTES_ALONE),
    }
    return TEXT.read_text(encoding="utf-8").format(lessons="\n".join(head + rows), seconds=assignment.SECONDS, **told)


def _row(name, notebook):
    """A lesson's line of the table; empty where something is not there or was not measured."""
    try:
        parts = deck.core_and_laboratory(deck.slides(notebook, name))
    except ValueError:  # a notebook without slides
        parts = [], []
    seconds = measured.read().get(name, {}).get("seconds")
    lesson = next((one for one in LESSONS if one.notebook == name), None)
    asked = sum(lesson is not None and exercise.lesson == lesson.slug for exercise in all_exercises())
    title = f"{lesson.number:02d} · {lesson.title}" if lesson else Path(name).stem
    cells = [f"[{title}]({name})", *map(_part, parts), str(asked or "")]
    return f"| {' | '.join([*cells, f'{seconds / 60:.1f} min' if seconds else ''])} |"


def _part(slides):
    return f"{len(slides)} slides, {sum(slide.minutes for slide in slides)} min" if slides else ""
