"""Who may import whom, read off the source: an arrow that runs backwards fails here.

Concept files stand on PyTorch and on earlier concept files, of their own folder of the shelf or of an earlier one.
What feeds, trains and observes a model knows no model. Pictures know neither model nor widget. Only notebooks use
widgets and the lesson's tools. Nothing imports publish.
"""

import ast
import io
import re
import sys
import tokenize
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from course_lib.lesson import limits
from course_lib.lesson.syllabus import LISTED, SHARED, SHELF, concepts

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "course_lib"

# Written for a machine, not for a reader: refusals, and how others' weights are copied.
NOT_TAUGHT = re.compile(r"_?check_\w+|from_(hf|torch|gguf|g2p)")


class Room(NamedTuple):
    """What a room, or one file of it, may import: packages at the top of a file, and names below course_lib."""

    packages: set[str]
    parts: set[str]


# What a lesson may read of the experiments: numbers over runs, and sentences about them; no model, no training.
RESULTS = {"workshop.experiments.comparison", "workshop.experiments.finding", "workshop.experiments.runs"}

# By name below course_lib; the longest that fits counts, so that a file may differ from its room.
ROOMS = {
    "__init__": Room(set(), set()),
    "workshop": Room(set(), set()),
    "train": Room({"torch", "numpy", "tqdm", "safetensors"}, {"train", "data.beside"}),
    "workshop.recipes": Room({"torch", "safetensors"}, {"workshop.recipes", "train", "data", *concepts()}),
    "workshop.scale": Room({"torch", "numpy", "safetensors"}, {"workshop.scale", "train", "data", *concepts()}),
    "train.published": Room({"platformdirs"}, {"data.beside"}),
    "workshop.experiments": Room(
        {"torch", "numpy", "sacrebleu", "jinja2"},
        {"workshop.experiments", "workshop.recipes", "train", "data", "show.record", *concepts()},
    ),
    "workshop.experiments.runs": Room(set(), set()),
    "workshop.experiments.comparison": Room(set(), set()),
    "workshop.experiments.finding": Room(set(), {"workshop.experiments.comparison", "workshop.experiments.runs"}),
    "workshop.experiments.__main__": Room({"torch"}, {"workshop.experiments", "train", "lesson.syllabus"}),
    "data": Room({"torch", "numpy", "platformdirs"}, {"data"}),
    "data.sounds": Room(set(), {"data", "train.published"}),  # its file comes as published weights do
    "show": Room(set(), set()),
    "show.record": Room({"torch"}, set()),
    "show.letters": Room({"matplotlib"}, set()),
    "show.frames": Room({"numpy"}, {"show.plots"}),
    "show.plots": Room({"numpy", "matplotlib", "PIL"}, {"show.letters"}),
    "show.carried": Room({"numpy", "matplotlib"}, {"show.plots"}),
    "show.curves": Room({"numpy", "matplotlib"}, {"show.plots"}),
    "show.drawings": Room({"numpy", "matplotlib"}, {"show.letters", "show.plots"}),
    "show.lattice": Room({"numpy", "matplotlib"}, {"show.letters", "show.plots"}),
    "show.one_vector": Room({"numpy", "matplotlib"}, {"show.letters", "show.plots"}),
    "show.emblems": Room({"matplotlib"}, {"show.plots"}),
    "show.summed": Room({"numpy", "matplotlib"}, {"show.letters", "show.plots"}),
    "show.diagrams": Room({"numpy", "matplotlib"}, {"show.diagrams", "show.drawings", "show.letters", "show.plots"}),
    "show.attention_views": Room({"numpy"}, {"show.attention_views", "show.letters", "show.plots"}),
    "show.attention_views.threads": Room({"numpy", "matplotlib"}, {"show.letters", "show.plots"}),
    "show.widgets": Room({"ipywidgets", "IPython", "numpy", "matplotlib"}, {"show.frames", "show.plots"}),
    "lesson": Room(
        {"torch", "numpy", "IPython", "ipywidgets", "platformdirs"},
        {"lesson", "workshop.exercises", "data.beside", *RESULTS},
    ),
    "lesson.machine": Room({"torch"}, {"recurrent.rnn", "recurrent.language_model", "train"}),
    "workshop.exercises": Room({"torch"}, {"workshop.exercises", "data", "train", "show.record", *concepts()}),
    "workshop.publish": Room(
        set(),
        {
            "workshop.publish",
            "lesson",
            "workshop.exercises",
            "data.beside",
            "show.frames",
            "workshop.recipes",
            "workshop.scale",
            "workshop.experiments",
            "train.machine",
        },
    ),  # a command: any package that is not heavy
    "workshop.publish.slides": Room(  # the course's row on a title slide
        {"nbformat", "jinja2", "nbconvert", "traitlets", "matplotlib", "playwright"},
        {"workshop.publish", "data.beside", "show.emblems"},
    ),
    # It writes models for a browser.
    "workshop.publish.alive": Room(
        {"nbformat"}, {"workshop.publish", "workshop.recipes", "data.glyphs", "show.frames", *concepts()}
    ),
}


class Import(NamedTuple):
    """One import: the full name, its line, and whether it is carried out when the file is imported."""

    name: str
    line: int
    at_top: bool


def imports(module: str, source: str) -> list[Import]:
    """Every import in `source`; `module` is its name below course_lib, for relative imports."""
    found = []

    def visit(node, at_top):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            return  # never carried out
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, at_top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = f"course_lib.{module}".split(".")[: -node.level]
                base = ".".join([*package, *filter(None, [base])])
            # `from course_lib.show import plots` names a file, `from course_lib.show.plots import lines` what it holds.
            packages = {"course_lib", *(f"course_lib.{room}" for room in (*ROOMS, *SHELF))}
            holds = {f"course_lib.{name}".removesuffix(".__init__") for name in modules()}
            inner = [f"{base}.{alias.name}" for alias in node.names if base in packages]
            names = inner if base == "course_lib" else [name if name in holds else base for name in inner or [base]]
            found.extend(Import(name, node.lineno, at_top) for name in names)
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, at_top and not inside)

    visit(ast.parse(source), True)
    return found


def room_of(module: str) -> str | None:
    """The room that `module` lies in, or None for a concept on the shelf."""
    fits = [room for room in ROOMS if module == room or module.startswith(f"{room}.")]
    return max(fits, key=len, default=None)


def wrong_imports(module: str, source: str) -> list[str]:
    """What `module` (its name below course_lib) imports and must not, a sentence each."""
    room = room_of(module)
    folder, _, last = module.rpartition(".")
    if room:
        house = ROOMS[room]
    elif last == "__init__":
        house = Room(set(), {name for name in modules() if name.startswith(f"{folder}.") and name != module})
    else:
        house = Room({"torch"}, _earlier(module))
    found = []
    for name, line, at_top in imports(module, source):
        package, _, rest = name.partition(".")
        where = f"{module}, line {line}"
        if package == "course_lib":
            if not any(rest == part or rest.startswith(f"{part}.") for part in house.parts):
                found.append(f"{where}: {room or module} must not import {rest}")
        elif package in limits.HEAVY_PACKAGES:
            if at_top:
                found.append(f"{where}: {package} is heavy, import it inside the function that needs it")
        elif room == "workshop.publish" or package in house.packages or package in sys.stdlib_module_names:
            continue
        elif at_top or room is None:
            found.append(f"{where}: {room or module} must not import {package}")
    return found


def _earlier(concept: str) -> set[str]:
    """The concept files before `concept` in the syllabus, in its folder or earlier ones; none for one not listed."""
    names = concepts()
    if concept not in names:
        return set()
    folders = SHELF[: SHELF.index(concept.partition(".")[0]) + 1]
    return {name for name in names[: names.index(concept)] if name.partition(".")[0] in folders}


def device_constants(module: str, source: str) -> list[str]:
    """Where a concept file names a device or a floating-point type: its input decides those, or train.py."""
    names = {"cuda", "mps", "device", "half", "double", "bfloat16"}
    types = {"float", "float16", "float32", "float64", "bfloat16", "double", "half"}
    tree = ast.parse(source)
    # `custom_fwd(device_type="cuda")` says which autocast it listens to, not where the work is done.
    named = [k.value for n in ast.walk(tree) if isinstance(n, ast.Call) for k in n.keywords if k.arg == "device_type"]
    # The meta device is no place where anything is computed: a model that is built there only has shapes.
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    nowhere = [call.func for call in calls if ast.unparse(call) == "torch.device('meta')"]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node not in nowhere:
            of_torch = isinstance(node.value, ast.Name) and node.value.id == "torch"
            if node.attr in ((names | types) if of_torch else (names - {"device"})):
                found.append(f"{module}, line {node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in named:
            if re.fullmatch(r"(cuda|cpu|mps)(:\d+)?", node.value):
                found.append(f"{module}, line {node.lineno}: {node.value!r}")
    return found


def refusals(source: str) -> list[str]:
    """The public functions of a concept file that raise something themselves, but for a method left to a subclass.

    What is called `check_...` is a refusal that several files share.
    """
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    public = [node for node in functions if not node.name.startswith(("_", "check_")) or node.name == "__init__"]
    return [
        f"{node.name}, line {inner.lineno}"
        for node in public
        for inner in ast.walk(node)
        if isinstance(inner, ast.Raise) and "NotImplementedError" not in ast.unparse(inner)
    ]


def private_names(module: str, source: str) -> list[str]:
    """Where `module` uses a private name of another file: `from x import _y`, or `x._y` where x is a file."""
    tree, files, found = ast.parse(source), set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            files |= {alias.asname or alias.name for alias in node.names if alias.name.startswith("course_lib")}
        elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("course_lib")):
            base = ".".join(f"course_lib.{module}".split(".")[: -node.level]) if node.level else ""
            base = ".".join(filter(None, [base, node.module]))
            for alias in node.names:
                if _is_private(alias.name):
                    found.append(f"{module}, line {node.lineno}: {alias.name} of {base}")
                inner = f"{base}.{alias.name}".removeprefix("course_lib.")
                if inner in modules() or f"{inner}.__init__" in modules():
                    files.add(alias.asname or alias.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and ast.unparse(node.value) in files:
            found.append(f"{module}, line {node.lineno}: {ast.unparse(node)}")
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def taught_lines(source: str) -> int:
    """How many lines a reader is taught by: no docstring, no comment, no blank line, no body that is `NOT_TAUGHT`."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in silent:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and NOT_TAUGHT.fullmatch(node.name):
            lines -= set(range(node.body[0].lineno, node.end_lineno + 1))
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)


def public_names(source: str) -> list[str]:
    """What a file defines for others: functions, classes and names at its top that do not begin with a line."""
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
    return [name for name in dict.fromkeys(found) if not name.startswith("_")]


def wrong_exports(init: str, files: dict[str, str]) -> list[str]:
    """What is wrong with the `__init__` of a folder that holds these files, by name; a sentence each."""
    tree = ast.parse(init)
    paragraph = ast.get_docstring(tree) or ""
    wrong = [] if paragraph and "\n\n" not in paragraph else ["its docstring must be one paragraph"]
    lists = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets) == "__all__"
    ]
    listed = ast.literal_eval(lists[0]) if lists else []
    brought = {
        (node.module.rpartition(".")[2], alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    defined = [(file, name) for file, source in files.items() for name in public_names(source)]
    names = [name for _, name in defined]
    wrong += [f"{name} is defined by two files" for name in dict.fromkeys(names) if names.count(name) > 1]
    wrong += [f"{name} of {file} is not imported" for file, name in defined if (file, name) not in brought]
    wrong += [f"{name} is not in __all__" for name in dict.fromkeys(names) if name not in listed]
    return wrong + [f"{name} of __all__ is defined by none of its files" for name in listed if name not in names]


@cache
def modules() -> dict[str, Path]:
    """Every file of course_lib by its name below it: `rnn`, `data.plays`, `data.__init__`."""
    return {".".join(path.relative_to(LIBRARY).with_suffix("").parts): path for path in sorted(LIBRARY.rglob("*.py"))}


def concept_files() -> list[str]:
    return [name for name in modules() if room_of(name) is None and not name.endswith(".__init__")]


# --- the course as it stands


def complaints(complain, names) -> dict[str, list[str]]:
    """What a rule complains of, by file; a test for each of four hundred files would take longer than the rule."""
    found = {name: complain(name, modules()[name].read_text(encoding="utf-8")) for name in names}
    return {name: said for name, said in found.items() if said}


def test_no_arrow_runs_backwards():
    assert complaints(wrong_imports, modules()) == {}


def test_a_concept_knows_no_device_and_no_precision():
    assert complaints(device_constants, concept_files()) == {}


def test_no_private_name_crosses_a_file():
    assert complaints(private_names, modules()) == {}


@pytest.mark.parametrize("folder", SHELF)
def test_a_folder_of_the_shelf_is_small_and_exports_its_names(folder):
    paths = [path for path in sorted((LIBRARY / folder).iterdir()) if path.suffix == ".py"]
    files = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    init = files.pop("__init__")
    assert len(files) <= limits.FOLDER_FILES
    assert wrong_exports(init, files) == []


def test_every_folder_is_a_room_or_lies_on_the_shelf():
    folders = {path.parent.name for path in LIBRARY.glob("*/__init__.py")}
    assert folders - {room.partition(".")[0] for room in ROOMS} == set(SHELF)


def test_the_shelf_holds_what_the_syllabus_lists():
    assert sorted(concept_files()) == sorted(concepts())
    listed = [file for lesson in LISTED for file in lesson.files]
    assert [file for file in listed if not (LIBRARY / file).exists()] == []


def test_a_concept_is_short_and_has_its_test():
    lines = {concept: taught_lines(modules()[concept].read_text(encoding="utf-8")) for concept in concept_files()}
    assert {concept: n for concept, n in lines.items() if n > limits.TAUGHT_LINES} == {}
    tests = [ROOT / "tests" / f"test_{concept.rpartition('.')[2]}.py" for concept in concept_files()]
    assert [test.name for test in tests if not test.exists()] == []


def test_a_taught_function_shows_its_formula():
    """On a slide nine lines of refusals around five of mathematics teach the wrong thing: a `_check_...` has them."""
    taught = [one for one in concept_files() if f"{one.replace('.', '/')}.py" not in SHARED]
    assert complaints(lambda _, source: refusals(source), taught) == {}


def test_every_file_says_by_its_name_what_it_holds():
    files = [path for folder in (LIBRARY, ROOT / "tests", ROOT / "notebooks") for path in folder.rglob("*.*")]
    assert [path.name for path in files if path.stem.removeprefix("test_") in limits.VAGUE_NAMES] == []


def test_notebooks_do_not_import_publish():
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert [name for name, text in texts.items() if re.search(r"(import|from) course_lib\.publish", text)] == []


def test_no_room_names_a_model_by_a_string():
    """An import is seen by whoever reads, moves or breaks what it names; "course_lib.recurrent.lstm:LSTM" is not."""
    rooms = ("train", "data", "workshop.recipes", "workshop.scale")
    texts = {name: path.read_text(encoding="utf-8") for name, path in modules().items() if room_of(name) in rooms}
    hidden = re.compile(r"""["']course_lib[\w.]*:\w|resolve_name|import_module|__import__""")
    assert texts and [name for name, text in texts.items() if hidden.search(text)] == []


# --- the checks themselves, shown failing


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("recurrent.rnn", "import numpy", "must not import numpy"),
        ("recurrent.rnn", "def f():\n    import matplotlib", "must not import matplotlib"),
        ("recurrent.rnn", "from course_lib.recurrent.lstm import LSTM", "must not import recurrent.lstm"),
        ("recurrent.rnn", "from .lstm import LSTM", "must not import recurrent.lstm"),
        ("recurrent.rnn", "from course_lib.recurrent import lstm", "must not import recurrent.lstm"),
        ("recurrent.rnn", "def f():\n    from course_lib.train import fit", "must not import train"),
        ("recurrent.lstm", "import transformers", "transformers is heavy"),
        ("recurrent.rnn", "from course_lib.recurrent import LSTM", "must not import recurrent"),
        (
            "recurrent.language_model",
            "from course_lib.attention.attention import attend",
            "not import attention.attention",
        ),
        ("attention.positions", "from course_lib.translation.seq2seq import Seq2Seq", "not import translation.seq2seq"),
        ("recurrent.__init__", "from course_lib.inputs.sequences import visible", "must not import inputs.sequences"),
        ("recurrent.not_listed", "from course_lib.recurrent.rnn import RNN", "must not import recurrent.rnn"),
        ("train.loop", "from course_lib.recurrent.rnn import RNN", "must not import recurrent.rnn"),
        ("show.record", "import course_lib.recurrent.rnn", "must not import recurrent.rnn"),
        ("data.plays", "import datasets", "datasets is heavy"),
        ("data.plays", "from course_lib.recurrent.rnn import RNN", "must not import recurrent.rnn"),
        ("data.digits", "class Loader:\n    import sklearn", "sklearn is heavy"),
        ("show.plots", "import torch", "must not import torch"),
        ("show.plots", "from course_lib.show.widgets import explore", "must not import show.widgets"),
        ("show.plots", "from course_lib.show import widgets", "must not import show.widgets"),
        ("show.widgets", "from course_lib.recurrent.rnn import RNN", "must not import recurrent.rnn"),
        ("workshop.exercises.rnn", "from course_lib.lesson import check", "must not import lesson"),
        ("workshop.exercises.rnn", "from ..publish import execute", "must not import workshop.publish"),
        ("lesson.claims", "from course_lib.workshop.publish.measured import read", "must not import workshop.publish"),
        ("lesson.claims", "from course_lib.recurrent.rnn import RNN", "must not import recurrent.rnn"),
        ("lesson.machine", "from course_lib.lesson import claim", "must not import lesson"),
        ("lesson.claims", "from course_lib.show.widgets import explore", "must not import show.widgets"),
        ("lesson.claims", "try:\n    import bertviz\nexcept ImportError:\n    pass", "bertviz is heavy"),
        ("train.loop", "from course_lib.workshop.publish import execute", "must not import workshop.publish"),
        (
            "recurrent.rnn",
            "from course_lib.workshop.experiments import recorded",
            "must not import workshop.experiments",
        ),
        (
            "workshop.exercises.rnn",
            "from course_lib.workshop.experiments.seq2seq.core import f",
            "must not import workshop.experiments",
        ),
        ("workshop.experiments.seq2seq", "from course_lib.lesson import claim", "must not import lesson"),
        ("train.loop", "from course_lib.workshop.recipes import stored", "must not import workshop.recipes"),
        ("train.loop", "from course_lib.workshop.scale.rows import draw", "must not import workshop.scale"),
        (
            "workshop.exercises.rnn",
            "from course_lib.workshop.recipes import stored",
            "must not import workshop.recipes",
        ),
        ("lesson.machine", "from course_lib.workshop.recipes.stored import load", "must not import workshop.recipes"),
        ("workshop.recipes.plays", "from course_lib.workshop.scale.rows import draw", "must not import workshop.scale"),
        ("recurrent.rnn", "from course_lib.workshop.recipes import stored", "must not import workshop.recipes"),
        ("__init__", "from course_lib.recurrent.rnn import RNN", "must not import recurrent.rnn"),
    ],
)
def test_a_backward_arrow_is_seen(module, source, complaint):
    assert [complaint in fault for fault in wrong_imports(module, source)] == [True]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("recurrent.__init__", "from course_lib.recurrent.rnn import RNN"),
        ("attention.positions", "from course_lib.inputs.sequences import visible"),
        ("recurrent.lstm", "import math\nimport torch.nn as nn\nfrom course_lib.recurrent.rnn import RNN"),
        ("recurrent.lstm", "def from_hf(name):\n    import transformers"),
        (
            "data.plays",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from datasets import DatasetDict",
        ),
        ("data.plays", "from course_lib.data.plays_source import read"),
        (
            "workshop.exercises.rnn",
            "import torch\nfrom course_lib.recurrent.rnn import bptt\nfrom course_lib.workshop.exercises import find",
        ),
        ("train.loop", "from course_lib.train.checkpoint import load_run"),
        ("workshop.recipes.plays", "from course_lib.recurrent.lstm import LSTM\nfrom course_lib.train import fit"),
        (
            "workshop.scale.tasks",
            "from course_lib.language.gpt import GPT\nfrom course_lib.train.device import to_device",
        ),
        ("lesson.marks", "from course_lib.data.beside import write_beside"),
        ("lesson.machine", "from course_lib.recurrent.rnn import RNN\nfrom course_lib.train import fit"),
        ("show.widgets", "from course_lib.show import plots"),
        ("show.plots", "def show():\n    from IPython.display import display"),
    ],
)
def test_a_forward_arrow_is_let_through(module, source):
    assert wrong_imports(module, source) == []


@pytest.mark.parametrize(
    "source",
    [
        "x = x.cuda()",
        "x = torch.zeros(3, dtype=torch.float32)",
        "x = x.to('cuda:0')",
        "x = torch.zeros(3, device='cpu')",
        "d = torch.device(0)",
        "x = x.double()",
    ],
)
def test_a_device_or_precision_is_seen(source):
    assert len(device_constants("recurrent.rnn", source)) == 1


def test_a_refusal_is_seen():
    source = "def f(x):\n    if x:\n        raise ValueError\n\ndef _check_f(x):\n    raise ValueError"
    assert refusals(source) == ["f, line 3"]
    assert refusals("class A:\n    def f(self):\n        raise NotImplementedError('none')") == []

    assert refusals("def check_f(x):\n    raise ValueError") == []


@pytest.mark.parametrize(
    "source",
    [
        "from course_lib.text.bpe import _check_pieces",
        "from .bpe import BPE, _check_pieces as check",
        "from course_lib.text import bpe\n\ndef f():\n    return bpe._check_pieces",
        "from . import bpe as pieces\nx = pieces._check_pieces",
        "import course_lib.text.bpe\nx = course_lib.text.bpe._check_pieces",
        "def f():\n    from course_lib.data.plays import _splits",
    ],
)
def test_a_private_name_that_crosses_a_file_is_seen(source):
    assert len(private_names("text.wordpiece", source)) == 1


def test_a_files_own_private_names_are_let_through():
    source = "import torch\nfrom course_lib.text.bpe import BPE\nBPE._fields, torch._C, self._x, _here\n"
    assert private_names("text.wordpiece", source + "from course_lib.text import bpe\nbpe.__doc__") == []


def test_only_what_is_taught_is_counted():
    source = '''"""A file.

In two paragraphs."""
# why
x = 1  # counted


class A:
    """A class."""

    def from_hf(cls, model):
        """Theirs."""
        return (
            cls
        )

    def forward(self):
        return """two
        lines"""


def _check_a(a):
    if a:
        raise ValueError
'''
    assert taught_lines(source) == len(["x", "class", "from_hf", "forward", "two", "lines", "_check_a"])


@pytest.mark.parametrize(
    ("init", "complaint"),
    [
        ('"""One."""\nfrom course_lib.a.b import f\n__all__ = ["f"]', None),
        ('"""One.\n\nTwo."""\nfrom course_lib.a.b import f\n__all__ = ["f"]', "one paragraph"),
        ('from course_lib.a.b import f\n__all__ = ["f"]', "one paragraph"),
        ('"""One."""\n__all__ = ["f"]', "f of b is not imported"),
        ('"""One."""\nfrom course_lib.a.b import f', "f is not in __all__"),
        ('"""One."""\nfrom course_lib.a.b import f\n__all__ = ["f", "g"]', "g of __all__ is defined by none"),
    ],
)
def test_a_wrong_export_is_seen(init, complaint):
    told = wrong_exports(init, {"b": "def f(): pass\ndef _g(): pass\n"})
    assert [complaint in one for one in told] == [True] if complaint else told == []


def test_a_name_of_two_files_is_seen():
    init = '"""One."""\nfrom course_lib.a.b import X\nfrom course_lib.a.c import X\n__all__ = ["X"]'
    assert wrong_exports(init, {"b": "X = 1", "c": "X, _y = 2, 3"}) == ["X is defined by two files"]


def test_following_the_input_is_let_through():
    placed = "h = torch.zeros(2, device=x.device, dtype=x.dtype)\nm = torch.ones(2, dtype=torch.bool)"
    autocast = "@torch.amp.custom_bwd(device_type='cuda')\ndef backward(): pass"
    meta = "with torch.device('meta'):\n    model = RNN(3, 4)"
    assert device_constants("recurrent.rnn", f"{placed}\n{autocast}\n{meta}") == []
