"""A lesson that `make lesson` begins: its files run as they are, it waits unseen, and written it is everywhere.

It is lesson 98, in a copy of the course, so that nothing may count on how many lessons there are. Of the course's
checks `make test` tries in the copy those that read a lesson's own files; all that could see it, `make test-all` tries.
"""

import ast
import json
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PatchCollection
from matplotlib.patches import FancyBboxPatch
from matplotlib.transforms import Bbox
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib.lesson.syllabus import IN_WRITING, LESSONS, LISTED, Lesson
from course_lib.show.emblems import EMBLEMS
from course_lib.workshop.publish import new_lesson
from course_lib.workshop.publish.normalise import as_text, normalise

ROOT = Path(__file__).resolve().parents[1]
NAME = "98_looking_inside"
BEGIN = {
    "number": "98",
    "slug": "looking_inside",
    "folder": "recurrent",
    "title": 'Looking "inside"',
    "question": "What has a network learned, and where?",
}
TITLE = """\
# 98 · Looking "inside"

**What has a network learned, and where?**

Afterwards you can say which input moved an output.

*You need:* lesson 01. *Run All:* 0.1 minutes on two CPU cores; not yet measured on a GPU. *Time:*
65 to 90 minutes as slides, 115 to 170 minutes alone."""
SPOKEN = """\
<details><summary>For the instructor</summary>

**Say.** Look.

**Ask.** Where? *Expected:* here.

**Watch out.** It is not everywhere.

**Minutes.** 75

</details>"""
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
PICTURE = f'<img alt="one dot" src="data:image/png;base64,{DOT}">'
CLAIM = {"unrolled": {"claim": "it looks", "holds": True, "values": []}}
# What is looked at in the copy: each line is true, or the sentence of whoever made it false.
LOOK = """
    from pathlib import Path
    from course_lib.lesson import progress
    from course_lib.workshop.publish import blocks, measured, site, slides
    import sys
    sys.path.insert(0, "tests")
    import groups
    from browser.test_lessons_in_lab import WRITTEN

    notebook, build = measured.NOTEBOOKS / "98_looking_inside.ipynb", Path("build")
    entry = {"seconds": 6, "peak_mb": 300, "machine": measured.machine()}
    measured.store(notebook.name, entry)
    blocks.refresh()
    text = Path("README.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith('| [98 Looking "inside"]'))
    assert "What has a network learned, and where?" in row
    for link in ("notebooks/98_looking_inside.ipynb", "course_lib/recurrent/looking_inside.py"):
        assert f"]({link})" in row, row
    assert groups.group_of("notebooks/98_looking_inside.ipynb::Cell 0") == "lesson 98_looking_inside"
    in_lab = groups.group_of("tests/browser/test_lessons_in_lab.py::test_it_runs_to_its_end[98_looking_inside]")
    assert in_lab == "lesson 98_looking_inside" and WRITTEN[-1] == notebook.name
    assert site.build([notebook], build / "html") == []
    assert "98 · Looking " in (build / "html" / "index.html").read_text()
    assert [deck.name for deck in slides.build([notebook], build / "slides")] == ["98_looking_inside.slides.html"]
    progress()
"""


def lesson_98():
    """Its notebook as it is stored: executed, with notes, a claim and five outputs that are compared."""
    say = {"slideshow": {"slide_type": "notes"}}
    cells = [
        new_markdown_cell(TITLE, id="title", metadata={"slideshow": {"slide_type": "slide"}}),
        new_markdown_cell(SPOKEN, id="title-notes", metadata=say),
    ]
    for n in range(5):
        output = new_output("stream", text=f"{n}\n", name="stdout")
        cells.append(new_code_cell(f"# NBVAL_CHECK_OUTPUT\nprint({n})", id=f"print-{n}", outputs=[output]))
    output = new_output("display_data", {"text/html": PICTURE})
    cells.append(new_code_cell("draw()", id="drawing", outputs=[output], metadata={"tags": ["cover"]}))
    output = new_output("display_data", {"text/plain": "✓ it looks"}, metadata=CLAIM)
    cells.append(new_code_cell('claim("it looks", True)', id="claim", outputs=[output]))
    return normalise(new_notebook(cells=cells))


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of the course with a lesson 98 that is begun."""
    copy = tmp_path_factory.mktemp("course")
    for name in ("course_lib", "tests", "notebooks"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "CONTRIBUTING.md", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    (copy / "data" / "checkpoints").mkdir(parents=True)  # the model that a page of the site lays open
    for name in ("plays_gpt.safetensors", "SHA256SUMS"):
        shutil.copy(ROOT / "data" / "checkpoints" / name, copy / "data" / "checkpoints")
    told = run(
        copy, "-m", "course_lib.workshop.publish.new_lesson", *(f"--{key}={value}" for key, value in BEGIN.items())
    )
    assert f"notebooks/{NAME}.ipynb" in told and "make experiments LESSON=98" in told
    return copy


def run(course, *command):
    """A Python command in the copy; what it printed."""
    done = subprocess.run([sys.executable, *command], cwd=course, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def checked(course, files, chosen):
    """These tests in the copy; what pytest told."""
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not full", "-k", chosen]
    told = run(course, *command, *(f"tests/test_{name}.py" for name in files))
    assert " passed" in told and "skipped" not in told
    return told


@pytest.mark.slow
@pytest.mark.full
def test_lesson_98_is_begun_and_nobody_meets_it(course):
    run(course, "-m", "ruff", "check", "--quiet", ".")
    run(course, "-m", "ruff", "format", "--check", "--quiet", ".")
    told = checked(course, ["layering", "looking_inside"], "looking or shelf or folder or short")
    listed = told.partition('to be written: lesson 98, Looking "inside"')[2]
    for path in ("course_lib/recurrent/looking_inside.py: 2", f"notebooks/{NAME}.ipynb: "):
        assert path in listed
    assert "Looking" not in run(course, "-c", "from course_lib.lesson import progress; progress()")


@pytest.mark.full
def test_no_check_of_the_course_meets_what_is_begun(course):
    files = ["exercises", "board", "investigations", "notebooks", "new_lesson"]
    checked(course, files, "looking or tables or short or question or numbered or listed")
    collect = ["-m", "pytest", "--collect-only", "-q", "--nbval-lax", "tests/test_reach.py"]
    collected = run(course, *collect, "notebooks")
    assert "09_vit.ipynb::" in collected and f"{NAME}.ipynb::" not in collected
    assert f"{NAME}.ipynb::" in run(course, *collect, f"notebooks/{NAME}.ipynb")


@pytest.mark.slow
@pytest.mark.full
def test_lesson_98_is_written_and_everywhere(course):
    syllabus = course / "course_lib" / "lesson" / "syllabus.py"
    before, _, after = syllabus.read_text(encoding="utf-8").rpartition("        to_be_written=True,\n")
    syllabus.write_text(before + after, encoding="utf-8")
    (course / "notebooks" / f"{NAME}.ipynb").write_text(as_text(lesson_98()), encoding="utf-8")
    left = "from course_lib.workshop.publish.new_lesson import *; print(*left_to_write(LISTED[-1]))"
    for path in run(course, "-c", left).split():
        text = (course / path).read_text(encoding="utf-8")
        (course / path).write_text(text.replace(new_lesson.MARK, "Written"), encoding="utf-8")
    board = run(course, "-c", textwrap.dedent(LOOK))
    assert '98  Looking "inside"' in board and "○ 0/1" in board.splitlines()[-1]
    told = checked(course, ["layering", "title_cells", "looking_inside"], "98_ or looking or shelf or folder or short")
    assert "to be written: lesson 98" not in told


@pytest.mark.full
def test_every_check_of_the_course_lets_what_is_written_pass(course):
    """The files as the test before has left them."""
    files = ["notebooks", "slides", "exercises", "new_lesson"]
    checked(course, files, "98_ or looking or tables or short or differ or existing or left")


@pytest.mark.slow
def test_a_written_lesson_has_nothing_left_to_write():
    assert [(one.slug, left) for one in LESSONS if (left := new_lesson.left_to_write(one))] == []


# --- what is begun


TWO = """LISTED = (
    Lesson(
        1,
        "rnn",
        "RNN",
        "Why?",
    ),
    Lesson(9, "vit", "ViT", "Why?"),
)
"""


@pytest.mark.parametrize(("number", "place"), [(4, 1), (12, 2), (0, 0)])
def test_an_entry_stands_in_its_place(number, place):
    lesson = Lesson(number, "new", 'The "new" one', "Isn't it \\new?", ("vision/new.py",), to_be_written=True)
    known = {}
    exec(new_lesson.with_entry(TWO, lesson), {"Lesson": Lesson}, known)
    assert len(known["LISTED"]) == 3 and known["LISTED"][place] == lesson


@pytest.mark.parametrize("before", [
    '"""A folder."""\n\nfrom course_lib.vision.vit import ViT\n\n__all__ = ["ViT"]\n',
    '"""A folder."""\n\nfrom course_lib.vision.a import (\n    One,\n)\n\n__all__ = [\n    "One",\n    "two",\n]\n',
])  # fmt: skip
def test_a_folder_hands_on_the_new_name(before):
    after = new_lesson.with_export(before, "vision", "detr")
    assert "from course_lib.vision.detr import detr\n" in after
    names = re.findall(r'^    "(\w+)",$', after.partition("__all__")[2], re.MULTILINE)
    assert names == sorted({*re.findall(r'"(\w+)"', before.partition("__all__")[2]), "detr"})
    modules = re.findall(r"^from (\S+)", after, re.MULTILINE)
    assert modules == sorted(modules)


def test_a_folder_that_hands_nothing_on_stays():
    assert new_lesson.with_export('"""A folder."""\n', "vision", "detr") == '"""A folder."""\n'


GOOD = {"number": "93", "slug": "outlines", "folder": "recurrent", "title": "Boxes", "question": "What is where?"}


@pytest.mark.parametrize(("wrong", "sentence"), [
    ({"number": "5"}, "there is a lesson 05 already: Self-attention and positions."),
    ({"number": "0"}, "a lesson's number has two digits, 01 to 99; got 0."),
    ({"number": "ten"}, "a lesson's number has two digits, such as NUMBER=10; got 'ten'."),
    ({"number": ""}, "a lesson's number has two digits, such as NUMBER=10; got ''."),
    ({"slug": "bert"}, "there is a lesson called bert already."),
    ({"slug": "Detr"}, "a slug is a Python name in small letters, such as masked_patches; got 'Detr'."),
    ({"slug": "../x"}, "a slug is a Python name in small letters, such as masked_patches; got '../x'."),
    ({"slug": "class"}, "a slug is a Python name in small letters, such as masked_patches; got 'class'."),
    ({"slug": "a" * 25}, f"a slug has 24 letters at most, so that lines that hold it stay short; got '{'a' * 25}'."),
    ({"slug": "vit_attention"}, "course_lib/workshop/exercises/vit_attention.py is there already, and nothing is"),
    ({"slug": "lstm"}, "course_lib/recurrent/lstm.py is there already, and nothing is written over"),
    ({"slug": "heads"}, "another lesson asks my_heads already: choose another slug."),
    ({"slug": "row"}, "the files of a new lesson, or Python, use the name row for something else"),
    ({"slug": "x"}, "the files of a new lesson, or Python, use the name x for something else"),
    ({"slug": "torch"}, "the files of a new lesson, or Python, use the name torch for something else"),
    ({"slug": "round"}, "the files of a new lesson, or Python, use the name round for something else"),
    ({"slug": "bert_again"}, "files that begin with a lesson's slug are its own, so bert_again and bert would be"),
    ({"slug": "masked"}, "files that begin with a lesson's slug are its own, so masked and masked_images would be"),
    ({"slug": "lstm_step"}, "the folder recurrent has a lstm_step already: choose another slug."),
    ({"folder": "sound"}, "the shelf has no folder 'sound': say one of inputs, text, "),
    ({"folder": ""}, "the shelf has no folder '': say one of inputs, text, "),
    ({"title": " "}, "a lesson has a TITLE and asks one QUESTION, which ends with a question mark"),
    ({"title": "a\udcff"}, "the TITLE holds what cannot be printed, or is no text in UTF-8; got 'a\\udcff'."),
    ({"question": "a\x1b[1mb?"}, "the QUESTION holds what cannot be printed, or is no text in UTF-8; got 'a\\x1b"),
    ({"question": "This | that?"}, "the QUESTION stands in tables, headings and links, where | means something: leave"),
    *(({"title": f"A {odd} b"}, f"the TITLE stands in tables, headings and links, where {odd} ") for odd in "`$*<[\\"),
    ({"question": "What is where"}, "a lesson has a TITLE and asks one QUESTION, which ends with a question mark"),
    ({"question": "Why" * 40 + "?"}, "a lesson has a TITLE and asks one QUESTION, which ends with a question mark"),
])  # fmt: skip
def test_what_cannot_be_begun_is_refused_in_a_sentence(wrong, sentence, capsys, monkeypatch):
    monkeypatch.setattr(new_lesson, "begin", lambda *_: pytest.fail("it was begun"))
    assert new_lesson.main([f"--{key}={value}" for key, value in (GOOD | wrong).items()]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"Nothing was written: {sentence}") and said.count("\n") == 1


@pytest.mark.parametrize("title", ["--question=No?", "- 10 #", 'It\'s "so" "here"', "Größe & 大きさ", "'" * 99])
def test_an_unusual_title_comes_back_as_it_was(title, monkeypatch, capsys):
    begun = []
    monkeypatch.setattr(new_lesson, "begin", lambda lesson: begun.append(lesson) or [])
    words = GOOD | {"title": f"  {title}\n"}
    assert new_lesson.main([f"--{key}={value}" for key, value in words.items()]) == 0
    [lesson] = begun
    assert lesson.title == title and ast.literal_eval(new_lesson._quoted(title)) == title
    cells = nbformat.reads(new_lesson._text("notebook", lesson, "recurrent"), 4).cells
    assert cells[0].source.startswith(f"# 93 · {title}\n\n**What is where?**")


def test_a_full_folder_takes_no_more(tmp_path):
    lesson = Lesson(93, "outlines", "Boxes", "What is where?", ("vision/outlines.py",))
    (tmp_path / "course_lib/vision").mkdir(parents=True)
    for name in ("__init__", *"abcdefghi"):
        (tmp_path / f"course_lib/vision/{name}.py").touch()
    assert new_lesson.refused(lesson, "vision", tmp_path) == ""
    (tmp_path / "course_lib/vision/j.py").touch()
    assert new_lesson.refused(lesson, "vision", tmp_path).startswith(
        "the folder vision holds 10 files, as many as one may"
    )


def test_what_is_stopped_in_the_middle_leaves_nothing(tmp_path):
    lesson = Lesson(93, "outlines", "Boxes", "What is where?", ("vision/outlines.py",), to_be_written=True)
    kept = {"course_lib/lesson/syllabus.py": TWO, "course_lib/vision/__init__.py": '"""A folder."""\n'}
    for path in [*kept, "tests/x", "course_lib/workshop/exercises/x", "notebooks/x"]:  # a room is missing: experiments
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(kept.get(path, ""))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FileNotFoundError):
        new_lesson.begin(lesson, tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    assert all((tmp_path / path).read_text() == text for path, text in kept.items())


# --- the map in the first notebook


def map_of(lessons):
    """The figure that the first notebook draws of these lessons."""
    notebook = nbformat.read(ROOT / "notebooks" / LESSONS[0].notebook, as_version=4)
    source = {cell.id: cell.source for cell in notebook.cells}
    known = {}
    exec(source["setup"].replace("%matplotlib inline", ""), known)
    known |= {"LESSONS": lessons, "picture": lambda fig, alt: None}  # the figure itself, not yet stored and closed
    exec(source["map-figure"], known)
    return known["fig"]


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 9, 10, 17, 20])
def test_the_map_is_drawn_for_any_number_of_lessons(count):
    """Every name lies inside its box, no two texts and drawings touch, and all lie on the paper."""
    more = [Lesson(n, f"more_{n}", "A title that is rather long", LESSONS[2].question) for n in range(len(LESSONS), 21)]
    fig = map_of([*LESSONS, *more][: count + 1])
    (ax,) = fig.axes
    FigureCanvasAgg(fig).draw()
    paper = fig.bbox
    texts = [text.get_window_extent(fig.canvas.get_renderer()) for text in ax.texts]
    boxes = [patch.get_window_extent() for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    drawings = [
        Bbox.union([path.get_extents() for path in one.get_paths()]).transformed(ax.transData)
        for one in ax.collections
        if isinstance(one, PatchCollection)
    ]
    plt.close(fig)
    assert len(drawings) == min(count, len(EMBLEMS))
    assert all(drawing.y1 < box.y0 and drawing.y0 >= paper.y0 for drawing, box in zip(drawings, boxes, strict=False))
    assert len(boxes) == count and len(texts) == 2 * count
    for box, name, question in zip(boxes, texts[::2], texts[1::2], strict=True):
        assert box.x0 < name.x0 and name.x1 < box.x1 and box.y0 < name.y0 and name.y1 < box.y1
        assert paper.x0 <= question.x0 and question.x1 <= paper.x1 and paper.y0 <= question.y0 < question.y1 < box.y0
    parts = [*boxes, *texts[1::2], *drawings]
    touching = [(a, b) for i, a in enumerate(parts) for b in parts[:i] if a.overlaps(b)]
    assert touching == []


def test_the_course_as_stored_is_the_course_as_listed():
    """Every notebook is a lesson of the list: no check passes one by."""
    listed = {lesson.notebook for lesson in LISTED}
    assert {path.name for path in (ROOT / "notebooks").glob("*.ipynb")} <= listed
    measured = json.loads((ROOT / "notebooks" / "measured.json").read_text(encoding="utf-8"))
    assert measured.keys() <= listed - {lesson.notebook for lesson in IN_WRITING}
