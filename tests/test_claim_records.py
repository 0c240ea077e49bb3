"""`make claims`: the runs, what is recorded of them, what a claim's box says of it, and the course's own record."""

import ast
import builtins
import json
import math

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib.experiments.record import parts
from course_lib.lesson import ClaimFailed, claim, firmness, measured, recorded_values
from course_lib.publish import claim_records, claims, kernels
from course_lib.publish import measured as numbers
from course_lib.publish.kernels import Run
from course_lib.publish.normalise import as_text

SEEDS, SETTINGS = 5, 2  # a claim's record rests on so many at least


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A notebooks folder that nothing else uses, and a folder for its runs; any instruction set will do."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    monkeypatch.setattr(numbers, "NOTEBOOKS", folder)
    monkeypatch.setattr(claims, "KEPT", tmp_path / "build")
    monkeypatch.setattr(claims, "cannot", lambda cpu: "")
    monkeypatch.chdir(folder)
    return folder


def put(folder, name, *sources):
    cells = [new_code_cell(source, id=f"cell-{k}") for k, source in enumerate(sources)]
    path = folder / name
    path.write_text(as_text(new_notebook(cells=cells)))
    return path


def said(sentence, holds=True, **value):
    """The output of a claim."""
    data = {"claim": sentence, "holds": holds, "values": [value] if value else []}
    return new_output("display_data", data={"text/plain": sentence}, metadata={"unrolled": data})


def faked(monkeypatch, outputs_of, **rest):
    """Runs in place of kernels: `outputs_of(seed, cpu)` gives the outputs; returns the list of runs made."""
    made = []

    def run(path, variables, keep_going):
        where = int(variables["COURSE_SEED"]), variables["ATEN_CPU_CAPABILITY"]
        made.append((path.name, *where))
        cell = new_code_cell("claim()", id="the-cell", outputs=outputs_of(*where))
        return Run(new_notebook(cells=[cell]), **{"ended": True, **rest})

    monkeypatch.setattr(claims, "run", run)
    return made


# --- runs


START = """
import os
from course_lib.lesson import claim, measured
seed, cpu = int(os.environ["COURSE_SEED"]), os.environ["ATEN_CPU_CAPABILITY"]
"""


@pytest.mark.slow
def test_every_claim_is_recorded_with_what_each_run_measured(course, capsys):
    shaky = "claim('shaky', (measured(seed / 2, 's', name='loss') < 1.0) & (measured(seed) < measured(3.5, name='b')))"
    path = put(course, "01_a.ipynb", START, shaky, "claim('sure', cpu in ('default', 'avx2'))")
    before = path.read_bytes()

    assert claims.main([str(path), "--seeds", "1", "2", "--cpu", "default", "avx2"]) == 1

    entry = claim_records.read()["01_a.ipynb"]
    assert entry["command"] == 'make claims SEEDS="1 2" CPU="default avx2"'
    assert (entry["seeds"], entry["cpu"]) == ([1, 2], ["default", "avx2"])
    assert "core" in entry["machine"] and len(entry["date"]) == len("2000-01-01")
    assert entry["claims"] == [
        {
            "cell": "cell-1",
            "claim": "shaky",
            "held": 2,
            "runs": 4,
            "failed_in": ["seed 2, default", "seed 2, avx2"],
            "comparisons": [
                {
                    "operator": "<",
                    "bound": 1.0,
                    "name": "loss",
                    "unit": "s",
                    "worst": 1.0,
                    "values": {"default": [0.5, 1.0], "avx2": [0.5, 1.0]},
                },
                {
                    "operator": "<",
                    "bound_is_measured": True,
                    "bound_name": "b",
                    "worst": 2,
                    "worst_bound": 3.5,
                    "margin": 1.5,
                    "values": {"default": [1, 2], "avx2": [1, 2]},
                    "bounds": {"default": [3.5, 3.5], "avx2": [3.5, 3.5]},
                },
            ],
        },
        {"cell": "cell-2", "claim": "sure", "held": 4, "runs": 4, "comparisons": []},
    ]
    told = capsys.readouterr().out.splitlines()
    assert told[-6:] == [
        "  FAILS  2 of 4  shaky",
        "           loss worst 1.00 s < 1",
        "           worst 2 < b 3.50",
        "           fails under seed 2, default; seed 2, avx2",
        "  holds  4 of 4  sure",
        "2 seeds, 2 instruction sets: 1 wanting",
    ]
    assert path.read_bytes() == before, "the notebook is not written"
    assert claims.main([str(path), "--seeds", "1", "--cpu", "default"]) == 0


def test_a_kernel_that_does_not_start_gives_no_number(course, monkeypatch, capsys):
    path = put(course, "01_a.ipynb", "claim()")
    stored = nbformat.read(path, 4)
    stored.cells[0].outputs = [said("stored", value=0.4242, operator="<", bound=1)]
    path.write_text(as_text(stored))
    dead = {"argv": ["false"], "display_name": "dead", "language": "python"}
    monkeypatch.setattr(kernels, "get_kernel_dict", lambda: dead)

    assert claims.main([str(path), "--seeds", "1", "--cpu", "default"]) == 1

    told = capsys.readouterr()
    assert "the kernel ended" in told.out and "0.4242" not in told.out + told.err
    assert "its record is left as it was" in told.err
    assert claim_records.read() == {} and not claims.KEPT.exists()


def test_a_command_that_was_stopped_goes_on_and_new_code_runs_anew(course, monkeypatch):
    path = put(course, "01_a.ipynb", "a", "b")
    made = faked(monkeypatch, lambda seed, cpu: [said("x", value=seed, operator="<", bound=9)])

    def command(*seeds):
        made.clear()
        assert claims.main([str(path), "--seeds", *seeds, "--cpu", "default"]) == 0
        return sorted(seed for _, seed, _ in made)  # two run at a time

    assert command("1") == [1]
    assert command("1", "2") == [2], "what is finished is kept"
    notebook = nbformat.read(path, 4)
    notebook.cells.append(new_markdown_cell("prose"))
    path.write_text(as_text(notebook))
    assert command("1", "2") == []
    notebook.cells[0].source = "another"
    path.write_text(as_text(notebook))
    assert command("1", "2") == [1, 2]


def test_an_interrupt_keeps_what_is_finished_and_starts_no_more(course, monkeypatch, capsys):
    put(course, "01_a.ipynb", "a")
    made = faked(monkeypatch, lambda seed, cpu: [said("x")])
    fake = claims.run

    def interrupted(path, variables, keep_going):
        if variables["COURSE_SEED"] == "2":
            raise KeyboardInterrupt
        return fake(path, variables, keep_going)

    monkeypatch.setattr(claims, "run", interrupted)
    monkeypatch.setattr(claims, "AT_A_TIME", 1)
    assert claims.main(["--seeds", "1", "2", *map(str, range(3, 60)), "--cpu", "default"]) == 1
    assert "the same command goes on from here" in capsys.readouterr().err
    assert ("01_a.ipynb", 59, "default") not in made and len(list(claims.KEPT.iterdir())) == len(made)


@pytest.mark.parametrize("wrong", [["nowhere.ipynb"], ["--cpu", "avx9"]])
def test_a_wrong_name_is_said_in_one_sentence(wrong, capsys):
    assert claims.main(wrong) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and wrong[-1] in told


# --- the record


def test_a_claim_not_reached_is_said(course, monkeypatch, capsys):
    put(course, "01_a.ipynb", "a")
    faked(
        monkeypatch,
        lambda seed, cpu: [said("x", value=0.5, operator="<", bound=1)] if seed == 1 else [],
        failures=["cell 1 (`a`) raised ValueError: no", "cell 1 (`a`) raised ClaimFailed: told above"],
    )
    assert claims.main(["--seeds", "1", "2", "--cpu", "default"]) == 1
    [found] = claim_records.read()["01_a.ipynb"]["claims"]
    assert (found["held"], found["runs"], found["not_reached_in"]) == (1, 2, ["seed 2, default"])
    assert found["comparisons"][0]["values"] == {"default": [0.5, None]}
    told = capsys.readouterr().out
    assert "not reached under seed 2, default" in told
    assert "FAILS  seed 1, default: cell 1 (`a`) raised ValueError: no" in told and "told above" not in told
    assert not claims.KEPT.exists(), "once what was raised is mended, the same command makes these runs again"


def test_some_notebooks_keep_the_record_of_the_others(course, monkeypatch):
    for name in ("01_a.ipynb", "02_b.ipynb", "03_c.ipynb"):
        put(course, name, name)
    faked(monkeypatch, lambda seed, cpu: [said("x")])
    assert claims.main(["--seeds", "1", "--cpu", "default"]) == 0
    (course / "03_c.ipynb").unlink()
    assert claims.main([str(course / "02_b.ipynb"), "--seeds", "1", "2", "--cpu", "default"]) == 0
    assert {name: entry["seeds"] for name, entry in claim_records.read().items()} == {
        "01_a.ipynb": [1],
        "02_b.ipynb": [1, 2],
    }


@pytest.mark.parametrize(
    ("sign", "values", "worst"),
    [
        ("≤", [0.1, 0.3, 0.2], 0.3),
        ("<", [0.1, 0.3, 0.2], 0.3),
        ("≥", [0.1, 0.3, 0.2], 0.1),
        (">", [0.1, 0.3, 0.2], 0.1),
        ("=", [1, 1, 3], 3),
        ("≠", [0.5, 1.1, 3], 1.1),
        (">", [5.0, "nan", "inf"], "nan"),
        (">", [5.0, 1234.5678, "inf"], 5.0),
    ],
)
def test_the_worst_is_the_one_nearest_to_failing(sign, values, worst):
    runs = {
        (seed, "default"): {
            "date": "2000-01-01",
            "machine": "m",
            "claims": [{"cell": "c", **said("x", value=value, operator=sign, bound=1).metadata.unrolled}],
        }
        for seed, value in enumerate(values)
    }
    [found] = claim_records.summary(runs)["claims"]
    assert found["comparisons"][0]["worst"] == worst


def test_between_two_measured_numbers_the_smallest_margin_counts():
    pairs = [(1.0, 3.0), (2.0, 2.5), (0.5, 2.0)]
    runs = {
        (seed, "default"): {
            "date": "2000-01-01",
            "machine": "m",
            "claims": [
                {
                    "cell": "c",
                    **said("x", value=a, operator="<", bound=b, bound_is_measured=True).metadata.unrolled,
                }
            ],
        }
        for seed, (a, b) in enumerate(pairs)
    }
    [comparison] = claim_records.summary(runs)["claims"][0]["comparisons"]
    assert (comparison["worst"], comparison["worst_bound"], comparison["margin"]) == (2.0, 2.5, 0.5)


# --- what the box says


@pytest.fixture
def recorded(course, monkeypatch):
    """A record of four runs: one claim with a bound, one between two measured numbers, one plain, one that failed."""
    put(course, "01_a.ipynb", "a")
    pair = {"bound_is_measured": True, "bound_name": "trigram", "name": "RNN"}
    faked(
        monkeypatch,
        lambda seed, cpu: [
            said("it is exact", value=seed * 1e-7, operator="≤", bound=1e-6),
            said("it beats both", value=2 + seed / 10, operator="<", bound=2.98, **pair),
            said("both are equal"),
            said("it is small", seed < 2, value=seed, operator="<", bound=2),
        ],
    )
    assert claims.main(["--seeds", "1", "2", "--cpu", "default", "avx2"]) == 1
    return course / firmness.RECORD


def test_a_box_says_in_how_many_runs_its_claim_held(recorded, outputs):
    claim("it is exact", measured(3e-7) <= 1e-6)
    claim("it beats both.", measured(2.1) < measured(2.9, name="trigram"))
    claim("both are equal", True)
    with pytest.raises(ClaimFailed):
        claim("it is small", measured(5) < 2)
    assert [data["text/plain"] for data, _ in outputs] == [
        "✓ claim: it is exact — measured 3.00e-7 ≤ 1e-6; held in 4 of 4 runs, worst 2.00e-7",
        "✓ claim: it beats both — measured 2.10 < trigram 2.90; held in 4 of 4 runs, worst 2.20 < 2.98",
        "✓ claim: both are equal — held in 4 of 4 runs",
        "✗ claim that does not hold here: it is small — held in 2 of 4 runs, worst 2",
    ]
    assert "held in 4 of 4 runs, worst 2.00e-7" in outputs[0][0]["text/html"]


def test_what_other_runs_measured_can_be_drawn(recorded):
    """recorded_values: one number a run, none under a name that no claim measured."""
    assert recorded_values("RNN") == [2.1, 2.2, 2.1, 2.2]
    assert recorded_values("nobody") == []
    recorded.write_text("")
    assert recorded_values("nobody") == []


@pytest.mark.parametrize(
    "condition",
    [measured(3e-7) <= 2e-6, measured(3e-7) < 1e-6, measured(3e-7) <= measured(1e-6), True],
    ids=["bound", "operator", "measured bound", "plain"],
)
def test_a_claim_that_was_changed_has_no_record(recorded, outputs, condition):
    claim("it is exact", condition)
    assert "held in" not in outputs[0][0]["text/plain"]


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"01_a.ipynb": {}}', '{"01_a.ipynb": 3}'])
def test_without_a_record_nothing_is_said(recorded, outputs, text, monkeypatch):
    monkeypatch.setattr(firmness, "ROOT", recorded.parent / "elsewhere")
    recorded.unlink() if text is None else recorded.write_text(text)
    claim("both are equal", True)
    assert outputs[0][0]["text/plain"] == "✓ claim: both are equal"


# --- the course as it stands


def notebooks():
    return numbers.written()


def in_claims_json():
    """The lessons that have no record of experiments yet: their claims' runs stand in claims.json."""
    return [path for path in notebooks() if not parts(path.stem[3:])]


def stated(source):
    """(sentence, bounds) of each claim in a cell's source; None for what is not typed there but computed."""
    found = []
    for node in ast.walk(ast.parse("\n".join(line for line in source.split("\n") if not line.startswith("%")))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "claim":
            sentence = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            found.append((node.lineno, sentence and sentence.strip().rstrip("."), _typed(node.args[1])))
    return [(sentence, bounds) for _, sentence, bounds in sorted(found, key=lambda one: one[0])]


def _typed(condition):
    """The bounds in a condition, None for one that is computed there; None instead of all where the condition is."""
    if isinstance(condition, ast.BinOp) and isinstance(condition.op, ast.BitAnd):
        parts = _typed(condition.left), _typed(condition.right)
        return None if None in parts else parts[0] + parts[1]
    if isinstance(condition, ast.Call):
        return None  # reduce(and_, [...]): as many comparisons as the list has
    if not isinstance(condition, ast.Compare) or _plain(condition.left):
        return []
    bound = condition.comparators[0]
    names = [node for node in ast.walk(bound) if isinstance(node, ast.Name | ast.Call | ast.Subscript)]
    return [None if names else eval(compile(ast.Expression(bound), "a bound", "eval"))]


def _plain(left):
    """Whether a plain number is compared, as in len(found) == 1: of that a claim stores only whether it held."""
    return isinstance(left, ast.Call) and isinstance(left.func, ast.Name) and hasattr(builtins, left.func.id)


def unlike_its_source(notebook):
    """Cells whose stored claims are not those that their source states: by sentence, and by every typed bound."""
    wrong = []
    for cell in notebook.cells:
        if cell.cell_type != "code" or "claim(" not in cell.source:
            continue
        stored = [
            (data["claim"], [value["bound"] for value in data["values"]])
            for data in (output.get("metadata", {}).get("unrolled", {}) for output in cell.outputs)
            if "claim" in data
        ]
        in_source = stated(cell.source)
        alike = [sentence for sentence, _ in in_source] == [sentence for sentence, _ in stored] and all(
            typed is None
            or len(typed) == len(bounds)
            and all(one is None or math.isclose(one, float(other)) for one, other in zip(typed, bounds, strict=True))
            for (_, typed), (_, bounds) in zip(in_source, stored, strict=True)
        )
        wrong += [] if alike else [f"cell {cell.id}: run `make notebooks`"]
    return wrong


def not_firm(notebook, record):
    """Claims of a notebook without a record of enough runs, or whose record shows that they did not always hold."""
    known = {(one["claim"], *firmness.terms(one["comparisons"])): one for one in record.get("claims", [])}
    enough = len(record.get("seeds", [])) >= SEEDS and len(record.get("cpu", [])) >= SETTINGS
    wrong = [] if enough else [f"a record of fewer than {SEEDS} seeds and {SETTINGS} settings: run `make claims`"]
    for data in numbers.records(notebook, "claim"):
        one = known.get((data["claim"], *firmness.terms(data["values"])))
        if one is None:
            wrong.append(f"“{data['claim']}” has no record: run `make claims`")
        elif one["held"] < one["runs"]:
            wrong.append(f"“{data['claim']}” held in {one['held']} of {one['runs']} runs: say how often")
    return wrong


def unlike_the_record(notebook):
    """Stored boxes that say something else of their claim than claims.json does."""
    wrong = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("metadata", {}).get("unrolled", {})
            if "claim" in data:
                now = firmness.firmness(data["claim"], data["values"])
                text = output.data["text/plain"]
                if not (text.endswith(now) if now else "held in " not in text):
                    wrong.append(f"“{data['claim']}”: run `make notebooks`")
    return wrong


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_the_stored_claims_are_those_of_the_source(path):
    assert unlike_its_source(nbformat.read(path, 4)) == []


@pytest.mark.parametrize("path", in_claims_json(), ids=lambda path: path.stem)
def test_every_claim_held_in_every_run_of_a_record_of_seeds_and_settings(path):
    assert not_firm(nbformat.read(path, 4), claim_records.read().get(path.name, {})) == []


@pytest.mark.parametrize("path", in_claims_json(), ids=lambda path: path.stem)
def test_a_stored_box_says_what_the_record_says(path):
    assert unlike_the_record(nbformat.read(path, 4)) == []


# --- these checks, shown failing


SMALL = "claim('it is small', measured(x) < 2 / 4)"


def small(source=SMALL, text="✓ claim: it is small", **changes):
    output = said(**{"sentence": "it is small", "value": 0.1, "operator": "<", "bound": 0.5} | changes)
    output.data["text/plain"] = text
    return new_notebook(cells=[new_code_cell(source, id="c", outputs=[output])])


@pytest.mark.parametrize(
    "source",
    [
        "claim('it is tiny', measured(x) < 0.5)",
        "claim('it is small', measured(x) < 0.25)",
        "claim('it is small', (measured(x) < 0.5) & (measured(y) < 1))",
        "claim(f'it is {size}', measured(x) < 0.5)",
        "x = 1  # claim('it is small', measured(x) < 0.5)",
    ],
)
def test_a_source_that_was_changed_is_seen(source):
    assert unlike_its_source(small()) == []
    assert unlike_its_source(small("%matplotlib inline\nclaim('it is small.', measured(x) < bound)")) == []
    assert unlike_its_source(small(source)) == ["cell c: run `make notebooks`"]


def test_a_claim_that_is_not_firm_is_seen():
    value = {"operator": "<", "bound": 0.5}
    one = {"claim": "it is small", "held": 10, "runs": 10, "comparisons": [value]}
    record = {"seeds": [0, 1, 2, 3, 4], "cpu": ["default", "avx2"], "claims": [one]}
    assert not_firm(small(), record) == []
    assert "no record" in not_firm(small(bound=0.4), record)[0]
    assert "no record" in not_firm(small(sentence="another"), record)[0]
    assert "held in 9 of 10 runs" in not_firm(small(), record | {"claims": [one | {"held": 9}]})[0]
    assert "fewer than 5 seeds" in not_firm(small(), record | {"seeds": [0, 1, 2, 3]})[0]
    assert "fewer than 5 seeds and 2 settings" in not_firm(small(), record | {"cpu": ["default"]})[0]
    assert len(not_firm(small(), {})) == 2


def test_a_box_that_says_something_else_than_the_record_is_seen(recorded):
    exact = {"sentence": "it is exact", "operator": "≤", "bound": 1e-6}
    right = "✓ claim: it is exact — held in 4 of 4 runs, worst 2.00e-7"
    assert unlike_the_record(small(text=right, **exact)) == []
    assert unlike_the_record(small(text=right.replace("4 of 4", "9 of 9"), **exact))
    assert unlike_the_record(small(text="✓ claim: it is exact", **exact))
    assert unlike_the_record(small(text=right)), "no record is left, and the box still names one"
    json.loads(recorded.read_text())
