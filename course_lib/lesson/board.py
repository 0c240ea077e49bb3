"""The progress board: what is solved, in one lesson or in all of them, and what is still to come."""

from course_lib.lesson.cards import QUIET, emit, prose
from course_lib.lesson.marks import marks
from course_lib.lesson.sources import ROOT
from course_lib.lesson.syllabus import LESSONS, LISTED
from course_lib.workshop.exercises import NotThere, all_exercises, all_quizzes

_HEADER = ("", "Lesson", "Exercises", "Quiz")


def progress(lesson: str | None = None) -> None:
    """Show the exercises and quiz questions solved in a lesson, e.g. progress("seq2seq"); without a name, in each.

    A lesson's notebook shows its own, so that what is stored with it stays when lessons are added. Raises NotThere, a
    LookupError, for a name that no lesson has.
    """
    shown = [one for one in (LISTED if lesson else LESSONS) if lesson in (None, one.slug)]
    if not shown:
        known = ", ".join(one.slug for one in LESSONS)
        raise NotThere(f"There is no lesson called {lesson!r}. There are: {known}.")
    solved = marks()
    rows = [_row(one, solved) for one in shown]
    metadata = {"progress": {one.slug: [row[2], row[3]] for one, row in zip(shown, rows, strict=True)}}
    emit(_plain(rows), html=_html(rows), metadata=metadata)


def is_there(lesson) -> bool:
    """Whether the lesson has been written: its notebook or its exercises are there."""
    written = {thing.lesson for thing in (*all_exercises(), *all_quizzes())}
    return lesson.slug in written or (ROOT / "notebooks" / lesson.notebook).is_file()


def _row(lesson, solved):
    """Number, title, exercises, quiz: as texts."""
    number = f"{lesson.number:02d}"
    if not is_there(lesson):
        return number, lesson.title, "to come", ""
    names = {"exercises": [e.name for e in all_exercises() if e.lesson == lesson.slug]}
    names["quiz"] = [q.key for q in all_quizzes() if q.lesson == lesson.slug]
    # What is no longer asked does not count, though its mark stays in the file.
    return number, lesson.title, *(_dots(names[kind], solved[kind].get(lesson.slug, ())) for kind in names)


def _dots(names, solved):
    if not names:
        return "—"
    done = sum(name in solved for name in names)
    return f"{'●' * done}{'○' * (len(names) - done)} {done}/{len(names)}"


def _plain(rows):
    widths = [max(len(row[i]) for row in (_HEADER, *rows)) for i in range(len(_HEADER))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (_HEADER, *rows)]
    return "\n".join(line.rstrip() for line in lines)


def _html(rows):
    cell = "padding: 0.3em 0.9em; text-align: left; border-bottom: 1px solid var(--jp-border-color2, #bdbdbd)"
    head = "".join(f'<th scope="col" style="{cell}; {QUIET}">{text}</th>' for text in _HEADER)
    body = ""
    for row in rows:
        style = f"{cell}; {QUIET}" if row[2] == "to come" else cell
        wide, narrow = style, f"{style}; white-space: nowrap"  # the dots of one count stay on one line
        cells = zip(row, (narrow, wide, narrow, narrow), strict=True)
        body += "<tr>" + "".join(f'<td style="{style}">{prose(text)}</td>' for text, style in cells) + "</tr>"
    return (
        '<table style="border-collapse: collapse; margin: 0.35em 0">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
