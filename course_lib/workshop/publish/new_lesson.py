"""`make lesson NUMBER=10 SLUG=detr FOLDER=vision TITLE=... QUESTION=...`: a new lesson's files, ready to be written.

Each file begins as one that runs and passes its checks (templates/lesson), with TO BE WRITTEN wherever a word of the
lesson has to come. The lesson's entry in syllabus.py says `to_be_written=True`: until that is taken out, `make test`
names what is left, and no reader, page or check of the whole course meets the lesson.
"""

import argparse
import ast
import builtins
import keyword
import re
import shutil
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course_lib.lesson import limits
from course_lib.lesson.syllabus import LISTED, SHELF, Lesson
from course_lib.workshop.exercises import all_exercises, all_quizzes
from course_lib.workshop.publish.normalise import as_text, normalise

ROOT = Path(__file__).resolve().parents[3]
TEMPLATES = Path(__file__).with_name("templates") / "lesson"
LONGEST_SLUG = 24
NOT_PLAIN = "|`$*<>[]\\"  # mean something in a table, a heading, a link or a formula
MARK = "TO BE WRITTEN"
CELL = re.compile(r"^%% (\S+) (markdown|code) (\S+) ?(.*)$", re.MULTILINE)
IMPORT = re.compile(r"from course_lib\S* import (?:\([^)]*\)|[^(\n]*)\n")
IMPORTS = re.compile(rf"(?:{IMPORT.pattern})+")
NOTES = "<details><summary>For the instructor</summary>\n\n{}\n\n</details>"
NEXT = """\
Lesson {number} is begun, and runs as it is. In this order:
  make experiments LESSON={number}    records what its claims rest on (seconds, as it stands)
  make notebooks FILES={notebook}
  write: whatever says {mark}; `make test` lists what is left. CONTRIBUTING.md has the rules.
  in the end take `to_be_written=True` out of its entry in {syllabus}, run `make notebooks` for it once more,
  and `make test`: from then on every check holds it."""


def files_of(lesson: Lesson) -> dict[str, str]:
    """Where the files of a lesson lie, by what they are: paths below the checkout."""
    concepts = [file for file in lesson.files if file.split("/")[0] in SHELF]
    return {
        **{f"concept {n}": f"course_lib/{file}" for n, file in enumerate(concepts)},
        **{f"test {n}": f"tests/test_{Path(file).stem}.py" for n, file in enumerate(concepts)},
        "exercises": f"course_lib/workshop/exercises/{lesson.slug}.py",
        "texts": f"course_lib/workshop/exercises/{lesson.slug}.toml",
        "answers": f"tests/other_answers/{lesson.slug}.py",
        "room": f"course_lib/workshop/experiments/{lesson.slug}/__init__.py",
        "experiments": f"course_lib/workshop/experiments/{lesson.slug}/core.py",
        "findings": f"course_lib/workshop/experiments/{lesson.slug}/findings.py",
        "notebook": f"notebooks/{lesson.notebook}",
    }


def left_to_write(lesson: Lesson, root: Path = ROOT) -> dict[str, int]:
    """How often each file of the lesson still says TO BE WRITTEN, where it does."""
    counts = {path: _said(root / path).count(MARK) for path in files_of(lesson).values() if (root / path).is_file()}
    return {path: count for path, count in counts.items() if count}


def _said(path):
    """A file's text; of a notebook what is written in its cells, not what they have shown."""
    text = path.read_text(encoding="utf-8")
    return "".join(cell.source for cell in nbformat.reads(text, 4).cells) if path.suffix == ".ipynb" else text


def refused(lesson: Lesson, folder: str, root: Path = ROOT) -> str:
    """Why the lesson cannot be begun, in one sentence; "" if it can."""
    slug, taken = lesson.slug, next((one for one in LISTED if one.number == lesson.number), None)
    if not 1 <= lesson.number <= 99:
        return f"a lesson's number has two digits, 01 to 99; got {lesson.number}."
    if taken:
        return f"there is a lesson {lesson.number:02d} already: {taken.title}."
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", slug) or keyword.iskeyword(slug):
        return f"a slug is a Python name in small letters, such as masked_patches; got {slug!r}."
    if len(slug) > LONGEST_SLUG:
        return f"a slug has {LONGEST_SLUG} letters at most, so that lines that hold it stay short; got {slug!r}."
    if any(one.slug == slug for one in LISTED):
        return f"there is a lesson called {slug} already."
    if folder not in SHELF:
        return f"the shelf has no folder {folder!r}: say one of {', '.join(SHELF)}."
    if len(list((root / "course_lib" / folder).glob("[!_]*.py"))) >= limits.FOLDER_FILES:
        return f"the folder {folder} holds {limits.FOLDER_FILES} files, as many as one may: choose or make another."
    for name, words in (("TITLE", lesson.title), ("QUESTION", lesson.question)):
        if not words.isprintable():
            return f"the {name} holds what cannot be printed, or is no text in UTF-8; got {words!r}."
        if odd := [letter for letter in NOT_PLAIN if letter in words]:
            return f"the {name} stands in tables, headings and links, where {odd[0]} means something: leave it out."
    if not lesson.title or not lesson.question.endswith("?") or max(map(len, (lesson.title, lesson.question))) > 100:
        return "a lesson has a TITLE and asks one QUESTION, which ends with a question mark; 100 letters at most each."
    if there := [path for path in files_of(lesson).values() if (root / path).exists()]:
        return f"{there[0]} is there already, and nothing is written over: choose another slug."
    if slug in _exported((root / "course_lib" / folder / "__init__.py").read_text(encoding="utf-8")):
        return f"the folder {folder} has a {slug} already: choose another slug."
    for one in LISTED:
        if slug.startswith(f"{one.slug}_") or one.slug.startswith(f"{slug}_"):
            return f"files that begin with a lesson's slug are its own, so {slug} and {one.slug} would be mixed up."
    if slug in names_taken():
        return f"the files of a new lesson, or Python, use the name {slug} for something else: choose another slug."
    names = {one.name for one in all_exercises()} | {one.key for one in all_quizzes()}
    if clash := names & {f"my_{slug}", f"what_is_{slug}"}:
        return f"another lesson asks {clash.pop()} already: choose another slug."
    return ""


def names_taken() -> set[str]:
    """The names that a lesson's slug cannot have: Python's own, and those that the files of a new lesson use."""
    free = "the_slug_of_a_lesson"
    lesson = Lesson(99, free, "Title", "Question?", (f"{SHELF[-1]}/{free}.py",), to_be_written=True)
    found = set(dir(builtins))
    for path in set(TEMPLATES.glob("*.txt")) - set(TEMPLATES.glob("*.toml.txt")):
        text = _text(path.name.partition(".")[0], lesson, SHELF[-1])
        if path.name == "notebook.txt":
            cells = nbformat.reads(text, 4).cells
            text = "\n".join(cell.source.replace("%", "# %") for cell in cells if cell.cell_type == "code")
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.keyword):  # what another function calls its argument is free
                found |= {getattr(node, part, None) or "" for part in ("id", "arg", "name", "asname")}
    return {name for name in found if free not in name}


def begin(lesson: Lesson, root: Path = ROOT) -> list[Path]:
    """Write the lesson's files, and its entry and exports last -> what was written; on an error nothing stays."""
    (concept,) = lesson.files
    folder = concept.partition("/")[0]
    syllabus, exports = root / "course_lib/lesson/syllabus.py", root / "course_lib" / folder / "__init__.py"
    texts = {path: _text(kind.split()[0], lesson, folder) for kind, path in files_of(lesson).items()}
    changed = {
        syllabus: with_entry(syllabus.read_text(encoding="utf-8"), lesson),
        exports: with_export(exports.read_text(encoding="utf-8"), folder, lesson.slug),
    }
    before = {path: path.read_bytes() for path in changed}
    made, room = [], root / "course_lib/workshop/experiments" / lesson.slug
    try:
        room.mkdir()
        for path, text in texts.items():
            with (root / path).open("x", encoding="utf-8") as file:
                made.append(root / path)
                file.write(text)
        for path, text in changed.items():
            path.write_text(text, encoding="utf-8")
    except BaseException:
        for path in made:
            path.unlink()
        shutil.rmtree(room, ignore_errors=True)
        for path, content in before.items():
            path.write_bytes(content)
        raise
    return made


def with_entry(source: str, lesson: Lesson) -> str:
    """The syllabus's source with an entry for the lesson, in its place by number."""
    (listed,) = (node.value for node in ast.parse(source).body if _assigns(node, "LISTED"))
    later = [call for call in listed.elts if call.args[0].value > lesson.number]
    line = later[0].lineno - 1 if later else listed.end_lineno - 1
    values = (lesson.number, lesson.slug, lesson.title, lesson.question, lesson.files)
    entry = [
        "    Lesson(",
        *(f"        {_quoted(value)}," for value in values),
        "        to_be_written=True,",
        "    ),",
    ]
    lines = source.splitlines()
    return "\n".join([*lines[:line], *entry, *lines[line:]]) + "\n"


def with_export(source: str, folder: str, name: str) -> str:
    """A folder's __init__ that hands on `name` of the file of that name too, in the order of the others."""
    tree, lines = ast.parse(source), source.rstrip("\n").splitlines()
    exported = next((node for node in tree.body if _assigns(node, "__all__")), None)
    if exported is None:
        return source  # a folder that hands nothing on
    names = sorted([*_exported(source), name])
    lines[exported.lineno - 1 : exported.end_lineno] = ["__all__ = [", *(f'    "{one}",' for one in names), "]"]
    module = f"course_lib.{folder}.{name}"
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    later = [node.lineno for node in imports if node.module > module]
    line = later[0] - 1 if later else max((node.end_lineno for node in imports), default=exported.lineno - 1)
    return "\n".join([*lines[:line], f"from {module} import {name}", *lines[line:]]) + "\n"


def _exported(source: str) -> list[str]:
    """The names in the __all__ of a folder's __init__; none where it hands nothing on."""
    exported = next((node for node in ast.parse(source).body if _assigns(node, "__all__")), None)
    return ast.literal_eval(exported.value) if exported else []


def _assigns(node, name):
    return isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name


def _quoted(value):
    if isinstance(value, tuple):
        return f"({', '.join(map(_quoted, value))},)"
    if not isinstance(value, str):
        return str(value)
    quote = "'" if value.count('"') > value.count("'") else '"'  # as the formatter has it: with fewer escapes
    return quote + value.replace("\\", "\\\\").replace(quote, f"\\{quote}") + quote


def _text(kind, lesson, folder):
    """A template with the lesson's words in it; of the notebook its file's text."""
    name = {"notebook": "notebook.txt", "texts": "texts.toml.txt"}.get(kind, f"{kind}.py.txt")
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    words = {"SLUG": lesson.slug, "DASHED": lesson.slug.replace("_", "-"), "NUMBER": f"{lesson.number:02d}"}
    words |= {"TITLE": lesson.title, "QUESTION": lesson.question, "FOLDER": folder}
    text = re.sub(r"@([A-Z]+)@", lambda match: words[match[1]], text)
    text = IMPORTS.sub(_sorted, text)
    return as_text(normalise(notebook(text))) if kind == "notebook" else text


def _sorted(found):
    """Lines of imports as the linter wants them: the lesson's own name stands among them, wherever it belongs."""
    return "".join(sorted(IMPORT.findall(found[0]), key=lambda line: line.split()[1]))


def notebook(text: str):
    """A notebook from its template: before each cell a line "%% id kind slide-type tags"; notes are folded."""
    cells, parts = [], CELL.split(text)[1:]
    for name, kind, slide, tag, source in zip(*(parts[n::5] for n in range(5)), strict=True):
        source = NOTES.format(source.strip()) if slide == "notes" else source.strip("\n")
        metadata = {"slideshow": {"slide_type": slide}} if slide != "-" else {}
        metadata |= {"jupyter": {"source_hidden": True}} if tag == "folded" else {"tags": tag.split()} if tag else {}
        cells.append((new_code_cell if kind == "code" else new_markdown_cell)(source, id=name, metadata=metadata))
    return new_notebook(cells=cells)


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if the lesson was begun, 1 if it was refused, in one sentence."""
    parser = argparse.ArgumentParser(prog="course_lib.workshop.publish.new_lesson", description=__doc__)
    for name in ("number", "slug", "title", "question", "folder"):
        parser.add_argument(f"--{name}", default="")
    given = parser.parse_args(arguments)
    wrong = ""
    if not re.fullmatch(r"\d{1,2}", given.number):
        wrong = f"a lesson's number has two digits, such as NUMBER=10; got {given.number!r}."
    else:
        files = (f"{given.folder}/{given.slug}.py",)
        title, question = (" ".join(words.split()) for words in (given.title, given.question))
        lesson = Lesson(int(given.number), given.slug, title, question, files, to_be_written=True)
        wrong = refused(lesson, given.folder)
    if wrong:
        print(f"Nothing was written: {wrong}", file=sys.stderr)
        return 1
    for path in begin(lesson):
        print(f"  {path.relative_to(ROOT).as_posix()}")
    where = files_of(lesson)["notebook"]
    number = f"{lesson.number:02d}"
    print(NEXT.format(number=number, notebook=where, mark=MARK, syllabus="course_lib/lesson/syllabus.py"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
