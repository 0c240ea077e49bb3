"""Source listings: the text that runs, under its file, its line and the test that tells of it."""

import ast
import importlib
import json
import math
import operator
from pathlib import Path

import pytest
import torch

import course_lib.recurrent.rnn
from course_lib.attention.attention import Attention, attend, masked_softmax
from course_lib.inputs.shapes import check_shapes
from course_lib.lesson import (
    claim,
    show_source,
)
from course_lib.lesson.sources import ROOT, address_of_test, code_of, fenced, heading
from course_lib.recurrent.rnn import RNN, rnn_step
from course_lib.workshop.experiments.runs import Runs
from course_lib.workshop.publish.measured import written


def test_show_source_shows_the_text_that_runs_under_file_line_and_test(outputs):
    show_source(rnn_step)
    data, record = outputs[0]
    line = rnn_step.__code__.co_firstlineno
    assert data["text/markdown"].startswith(
        f"`course_lib/recurrent/rnn.py` · line {line} · tested by `tests/test_rnn.py::test_"
    )
    assert "```python\ndef rnn_step(" in data["text/markdown"]
    listed = data["text/markdown"].split("```python\n")[1].split("\n```")[0]
    assert listed in Path(course_lib.recurrent.rnn.__file__).read_text()
    assert listed in data["text/plain"]
    assert str(ROOT) not in data["text/plain"] + data["text/markdown"]
    assert record == {"source": ["course_lib.recurrent.rnn:rnn_step"]}


def test_several_sources_make_one_output(outputs):
    show_source(rnn_step, RNN.forward)
    assert len(outputs) == 1
    assert outputs[0][1] == {"source": ["course_lib.recurrent.rnn:rnn_step", "course_lib.recurrent.rnn:RNN.forward"]}


def test_a_part_of_an_experiment_names_its_record_where_there_is_one(monkeypatch, tmp_path):
    assert " · tested by `tests/test_experiments.py" in heading(Runs)
    (tmp_path / "data" / "records").mkdir(parents=True)
    (tmp_path / "data" / "records" / "runs.json").write_text("{}")
    monkeypatch.setattr("course_lib.lesson.sources.ROOT", tmp_path)
    assert heading(Runs).endswith(" · recorded in `data/records/runs.json`")


def test_docstrings_can_be_left_out_and_the_rest_still_runs():
    source = code_of(rnn_step, docstring=False)
    assert '"""' not in source
    space = {"torch": torch, "Tensor": torch.Tensor}
    exec(source, space)
    arguments = [torch.randn(*shape) for shape in ((2, 3), (2, 4), (3, 4), (4, 4), (4,))]
    assert torch.equal(space["rnn_step"](*arguments), rnn_step(*arguments))
    assert '"""' not in code_of(RNN, docstring=False)
    compile(code_of(RNN, docstring=False), "RNN", "exec")


def test_what_only_refuses_is_left_out_and_the_rest_still_runs():
    source = code_of(attend, docstring=False)
    assert "check" not in source and "if bias is not None:\n        shown = bias != -math.inf" in source
    space = {"torch": torch, "Tensor": torch.Tensor, "math": math, "masked_softmax": masked_softmax}
    exec(source, space)
    x, bias = torch.randn(2, 3, 4), torch.randn(3, 3)
    for ours, listed in zip(attend(x, x, x, None, bias), space["attend"](x, x, x, None, bias), strict=True):
        assert torch.equal(ours, listed)
    assert "check_" not in code_of(Attention.forward) and "self._check(" not in code_of(Attention.forward)
    assert "def _check(" in code_of(Attention)


def checks_on_many_lines(x):
    """Two checks, one of them alone in its block, and a value that a check gives."""
    check_shapes(
        "this",
        x=(x, "... T"),
    )
    if x.ndim:
        check_shapes("this", x=(x, "T"))
    checked = check_shapes("this", x=(x, "..."))
    return checked


def test_a_check_is_left_out_whole_and_no_block_is_left_empty(monkeypatch):
    monkeypatch.setattr("course_lib.lesson.sources._located", lambda obj: None)
    assert code_of(checks_on_many_lines, docstring=False).splitlines() == [
        "def checks_on_many_lines(x):",
        "    if x.ndim:",
        '        check_shapes("this", x=(x, "T"))',
        '    checked = check_shapes("this", x=(x, "..."))',
        "    return checked",
    ]


def test_a_fence_is_longer_than_any_inside():
    assert fenced("x").startswith("```python\n")
    assert fenced("a\n````\nb").startswith("`````python\n")


def test_the_test_is_found_by_its_name_then_by_what_it_mentions(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    assert address_of_test(rnn_step, tmp_path) == ""
    tests = tmp_path / "tests" / "test_rnn.py"
    tests.parent.mkdir()
    tests.write_text("def test_other(): pass\n")
    assert address_of_test(rnn_step, tmp_path) == "tests/test_rnn.py"
    tests.write_text(
        "def test_all():\n    assert rnn_step\n\nclass TestX:\n    def test_my_rnn_step_size(self): pass\n"
    )
    assert address_of_test(rnn_step, tmp_path) == "tests/test_rnn.py::TestX::test_my_rnn_step_size"
    tests.write_text("def test_rnn_steps(): pass\n\ndef test_all():\n    assert rnn_step\n")
    assert address_of_test(rnn_step, tmp_path) == "tests/test_rnn.py::test_all"
    assert address_of_test(RNN.forward, tmp_path) == "tests/test_rnn.py"
    (tmp_path / "pyproject.toml").unlink()
    assert address_of_test(rnn_step, tmp_path) == ""


def test_a_test_that_says_what_it_tells_of_comes_first(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    tests = tmp_path / "tests" / "test_rnn.py"
    tests.parent.mkdir()
    tests.write_text(
        'def test_rnn_step_in_passing():\n    """Of rnn_step: nothing much."""\n\n'
        'def test_a_formula():\n    """unroll, rnn_step: tanh(1) by hand."""\n\n'
        'def test_b():\n    """RNN: like the other."""\n\ndef test_c():\n    """RNN.forward: step by step."""\n'
    )
    assert address_of_test(rnn_step, tmp_path) == "tests/test_rnn.py::test_a_formula"
    assert address_of_test(RNN.forward, tmp_path) == "tests/test_rnn.py::test_c"
    assert address_of_test(RNN.__init__, tmp_path) == "tests/test_rnn.py::test_b"


def shown_in(path):
    """What a notebook hands to show_source, as objects of the course."""
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    lines = "\n".join("".join(cell["source"]) + "\n" for cell in cells).split("\n")
    known, shown = {}, []
    for node in ast.walk(ast.parse("\n".join(line for line in lines if not line.startswith("%")))):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("course_lib"):
            known |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "show_source":
            shown += [ast.unparse(argument) for argument in node.args]
    for name in shown:
        module, first = known[name.split(".")[0]]
        home = importlib.import_module(module)
        if not hasattr(home, first):  # a module of a package, such as a lesson's experiments
            importlib.import_module(f"{module}.{first}")
        yield operator.attrgetter(".".join([first, *name.split(".")[1:]]))(home)


# What belongs to an experiment names its record in place of a test.
SHOWN = dict.fromkeys(obj for path in written() for obj in shown_in(path) if ".experiments." not in obj.__module__)


@pytest.mark.parametrize("obj", SHOWN, ids=lambda obj: obj.__qualname__)
def test_what_a_lesson_shows_has_a_test_that_tells_of_it(obj):
    """Its docstring begins with the object's name: else a student is sent to the first test that mentions it."""
    file, _, name = address_of_test(obj).partition("::")
    tests = {node.name: node for node in ast.parse((ROOT / file).read_text()).body if hasattr(node, "name")}
    told = (ast.get_docstring(tests[name]) or "").split(":")[0].split(", ") if name else []
    assert obj.__qualname__ in told, f"no test in {file} begins its docstring with `{obj.__qualname__}: `"


def test_a_packages_file_is_tested_under_the_packages_name():
    assert address_of_test(claim).startswith("tests/test_claims.py::test_")
    assert heading(claim).startswith("`course_lib/lesson/claims.py` · line ")


def typed_here():
    pass


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (len, "this is a builtin_function_or_method"),
        (3, "this is a int"),
        (lambda x: x, "a lambda has no name"),
        (typed_here, "belongs to"),
        (torch.nn.Linear, "belongs to torch"),
        (course_lib.recurrent.rnn, "name one of the module course_lib.recurrent.rnn"),
        (RNN(2, 3), r"write show_source\(RNN\)"),
    ],
    ids=["builtin", "number", "lambda", "elsewhere", "torch", "module", "object"],
)
def test_what_has_no_source_in_the_course_is_refused_in_words(thing, said):
    with pytest.raises(TypeError, match=said):
        show_source(thing)


def test_what_was_typed_in_the_notebook_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(typed_here, "__module__", "__main__")
    with pytest.raises(TypeError, match="typed_here was typed in this notebook"):
        show_source(typed_here)
    with pytest.raises(TypeError, match="needs a function"):
        show_source()
