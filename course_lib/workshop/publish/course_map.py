"""The README's map: each lesson with its question and the files that it adds, made from the list of lessons."""

from pathlib import Path

from course_lib.lesson.syllabus import LESSONS, Lesson

ROOT = Path(__file__).resolve().parents[3]


def course_map(lessons: tuple[Lesson, ...] = LESSONS, root: Path = ROOT) -> str:
    """The map as Markdown: a row for each lesson whose notebook lies in `root`; the others are named as to come."""
    lines, coming = ["| lesson | question | its files in course_lib/ |", "| --- | --- | --- |"], []
    for lesson in lessons:
        if not (root / "notebooks" / lesson.notebook).is_file():
            coming.append(f"{lesson.number:02d} {lesson.title}")
            continue
        title = f"[{lesson.number:02d} {lesson.title}](notebooks/{lesson.notebook})"
        files = " · ".join(f"[{Path(file).stem}](course_lib/{file.removesuffix('/')})" for file in lesson.files)
        lines.append(f"| {title} | {lesson.question} | {files} |")
    return "\n".join(lines) + (f"\n\nTo come: {' · '.join(coming)}." if coming else "")
