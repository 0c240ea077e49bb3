"""The README's map: which files and which tests belong to a lesson, made from the list of lessons."""

from pathlib import Path

from course_lib.lesson.syllabus import LESSONS, SHARED, Lesson

ROOT = Path(__file__).resolve().parents[2]


def course_map(lessons: tuple[Lesson, ...] = LESSONS, root: Path = ROOT) -> str:
    """The map as Markdown: a row for each lesson whose notebook lies in `root`; the others are named as to come."""
    lines, coming = ["| lesson | library | test |", "| --- | --- | --- |"], []
    for lesson in lessons:
        if not (root / "notebooks" / lesson.notebook).is_file():
            coming.append(f"{lesson.number:02d} {lesson.title}")
            continue
        title = f"[{lesson.number:02d} {lesson.title}](notebooks/{lesson.notebook})"
        library = [f"[{file}](course_lib/{file.removesuffix('/')})" for file in _with_exercises(lesson, root)]
        tests = [f"[{name}](tests/{name})" for name in _tests(lesson, lessons, root)]
        lines.append(f"| {title} | {', '.join(library)} | {', '.join(tests)} |")
    return "\n".join(lines) + (f"\n\nTo come: {' · '.join(coming)}." if coming else "")


def _with_exercises(lesson, root):
    exercises = f"exercises/{lesson.slug}.py"
    return [*lesson.files, *([exercises] if (root / "course_lib" / exercises).is_file() else [])]


def _tests(lesson, lessons, root):
    """The test files of a lesson: test_NAME.py and test_NAME_more.py, unless a longer name of another file fits."""
    names = {_stem(file) for file in SHARED} | {_stem(file) for one in lessons for file in one.files}
    found = []
    for file in _with_exercises(lesson, root):
        if file.startswith("exercises/"):
            found.append("test_exercises.py")
            continue
        for path in sorted((root / "tests").glob(f"test_{_stem(file)}*.py")):
            fits = [name for name in names if f"{path.stem}_".startswith(f"test_{name}_")]
            if fits and max(fits, key=len) == _stem(file):
                found.append(path.name)
    return list(dict.fromkeys(found))


def _stem(file):
    """The name that a file or folder of the library and its tests share."""
    return Path(file).stem
