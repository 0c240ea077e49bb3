"""Claims as the notebooks store them: counted, far from their bounds; and `make claims`, which runs them elsewhere."""

import ast
import math
import statistics
import time

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from course_lib.lesson import limits
from course_lib.workshop.experiments.comparison import holds, room
from course_lib.workshop.publish import claims, kernels
from course_lib.workshop.publish import measured as numbers
from course_lib.workshop.publish.kernels import Run
from course_lib.workshop.publish.normalise import as_text
from course_lib.workshop.publish.parts import begins_laboratory


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A notebooks folder that nothing else uses; any instruction set will do."""
    monkeypatch.setattr(numbers, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr(claims, "cannot", lambda cpu: "")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(folder, name, *sources):
    cells = [new_code_cell(source, id=f"cell-{k}") for k, source in enumerate(sources)]
    path = folder / name
    path.write_text(as_text(new_notebook(cells=cells)))
    return path


def said(sentence, **value):
    """The output of a claim that holds."""
    data = {"claim": sentence, "holds": True, "values": [value]}
    return new_output("display_data", data={"text/plain": f"✓ claim: {sentence}"}, metadata={"unrolled": data})


# --- runs


START = """
import os
from course_lib.lesson import claim, claims
seed, cpu = int(os.environ["COURSE_SEED"]), os.environ["ATEN_CPU_CAPABILITY"]
"""


@pytest.mark.slow
def test_it_is_said_which_claims_did_not_hold_and_every_run_is_kept(course, monkeypatch, capsys):
    monkeypatch.setattr(claims, "KEPT", course / "kept")
    shaky = "claim('shaky', seed / 2, '<', 1.0)\nclaim('sure', 1, '<', 2)"
    path = put(course, "01_a.ipynb", START, shaky, "1 / (seed - 3)", "claim('late', 0, '<', 1)", "1 / 0")
    before = path.read_bytes()

    assert claims.main([str(path), "--seeds", "1", "2", "--cpu", "avx2"]) == 1

    told = capsys.readouterr().out.splitlines()
    assert told[-1] == "2 runs: 1 did not hold"
    (failed,) = (line for line in told if "does not hold" in line)
    assert failed.split(":")[0] == "01_a.ipynb, seed 2, avx2"
    assert "“shaky” does not hold" in failed and "'value': 1.0" in failed
    assert min(told) == "01_a.ipynb, seed 1, avx2: every claim held"
    assert claims.main([str(path), "--seeds", "3", "--cpu", "default"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().out, "whatever else is raised is wanting too"
    assert path.read_bytes() == before, "the notebook is not written"
    runs = claims.kept("01_a.ipynb")
    assert runs.keys() == {"1, avx2", "2, avx2", "3, default"}
    assert runs["3, default"] == {"cell-1.0": [[1.5, 1.0]], "cell-1.1": [[1, 2]], "cell-3.0": [[0, 1]]}


def test_a_kernel_that_does_not_start_holds_no_claim(course, monkeypatch, capsys):
    path = put(course, "01_a.ipynb", "claim()")
    dead = {"argv": ["false"], "display_name": "dead", "language": "python"}
    monkeypatch.setattr(kernels, "get_kernel_dict", lambda: dead)
    assert claims.main([str(path), "--seeds", "1", "--cpu", "default"]) == 1
    told = capsys.readouterr().out
    assert "the kernel ended" in told and "it did not come to its end" in told
    assert claims.kept("01_a.ipynb", course) == {}


def test_an_interrupt_starts_no_more(course, monkeypatch, capsys):
    put(course, "01_a.ipynb", "a")
    made = []

    def run(path, variables, keep_going, last):
        made.append(variables["COURSE_SEED"])
        if variables["COURSE_SEED"] == "2":
            raise KeyboardInterrupt
        time.sleep(0.02)
        return Run(new_notebook(), ended=True)

    monkeypatch.setattr(claims, "run", run)
    monkeypatch.setattr(claims, "AT_A_TIME", 1)
    assert claims.main(["--seeds", "1", "2", *map(str, range(3, 60)), "--cpu", "default"]) == 1
    assert capsys.readouterr().err.startswith("Stopped.") and "59" not in made


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [["nowhere.ipynb"], ["--cpu", "avx9"]])
def test_a_wrong_name_is_said_in_one_sentence(wrong, capsys):
    assert claims.main(wrong) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and wrong[-1] in told


# --- the course as it stands


def notebooks():
    return numbers.written()


ENOUGH = 10  # runs, of seeds and instruction sets together
DEVIATIONS = 6


def too_close(name, notebook, runs):
    """Claims whose bound is not far from all runs, a line each: `runs` as `claims.kept`, or in a claim's own data.

    Far: every run on the right side, and their mean at least six standard deviations away from the bound. The mean is
    that of the runs of `make claims`, where there are enough; of an experiment's recorded runs, where not.
    """
    wrong = []
    for key, data in claims.stated(notebook):
        for number, one in enumerate(data["values"]):
            recorded = one.get("recorded", [])
            made = [run[key][number] for run in runs.values() if len(run.get(key, [])) > number]
            pairs = recorded if len(made) < ENOUGH <= len(recorded) else made
            if len(pairs) < ENOUGH:
                wrong.append(f"“{data['claim']}” was run {len(pairs)} times: make claims FILES=notebooks/{name}")
                continue
            rooms = [room(float(value), one["operator"], float(bound)) for value, bound in pairs]
            spread = statistics.stdev(rooms)
            if not all(holds(float(v), one["operator"], float(b)) for v, b in [*recorded, *made]):
                wrong.append(f"“{data['claim']}” does not hold in every run: {[*recorded, *made]}")
            elif statistics.mean(rooms) < DEVIATIONS * spread:
                wrong.append(f"“{data['claim']}” is {statistics.mean(rooms) / spread:.1f} deviations from its bound")
            elif not recorded and not _belongs(float(one["value"]), [float(value) for value, _ in pairs]):
                wrong.append(f"“{data['claim']}”: the runs are of another notebook: make claims FILES=notebooks/{name}")
    return wrong


def _belongs(value, values):
    """Whether the stored number is one of these runs', within six of their deviations."""
    if math.isinf(value):
        return value in values
    return abs(value - statistics.mean(values)) <= DEVIATIONS * statistics.stdev(values) + 1e-3 * abs(value) + 1e-9


# Lessons with claims that neither a record nor `make claims` has run ten times yet. Run one, then take it out here.
TO_BE_RUN = {f"{number:02d}" for number in range(1, 19) if number not in (1, 2, 3, 5, 7, 10, 11, 15, 16)}


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_every_bound_lies_far_from_all_runs(path):
    wrong = too_close(path.name, nbformat.read(path, 4), claims.kept(path.name))
    waiting = [line for line in wrong if " times: make claims" in line]
    assert [line for line in wrong if line not in waiting] == []
    assert bool(waiting) == (path.name[:2] in TO_BE_RUN), waiting or "all its claims have their runs: take it out"


def stated(source):
    """The sentences of the claims in a cell's source; None for one that is not typed there."""
    tree = ast.parse("\n".join(line for line in source.split("\n") if not line.startswith("%")))
    found = [
        (node.lineno, node.args[0].value.strip().rstrip(".") if isinstance(node.args[0], ast.Constant) else None)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "claim"
    ]
    return [sentence for _, sentence in sorted(found, key=lambda one: one[0])]


def unlike_its_source(notebook):
    """Cells whose stored claims are not those that their source states."""
    wrong = []
    for cell in notebook.cells:
        if cell.cell_type != "code" or "claim(" not in cell.source:
            continue
        stored = [
            data["claim"]
            for data in (output.get("metadata", {}).get("unrolled", {}) for output in cell.outputs)
            if "claim" in data
        ]
        source = stated(cell.source)
        alike = None in source or source == stored
        wrong += [] if alike else [f"cell {cell.id}: run `make notebooks`"]
    return wrong


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_the_stored_claims_are_those_of_the_source(path):
    assert unlike_its_source(nbformat.read(path, 4)) == []


def counted(notebook):
    """What is wrong with a lesson's claims as a whole: too few in the core, or not counted at the end of each part."""
    cells = notebook.cells
    start = next((n for n, cell in enumerate(cells) if begins_laboratory(cell)), len(cells))
    wrong, made = [], 0
    for name, part in (("core", cells[:start]), ("laboratory", cells[start:])):
        claimed = sum(1 for _ in claims.stated(new_notebook(cells=part)))
        made += claimed
        code = [cell for cell in part if cell.cell_type == "code"]
        if name == "core" and claimed < limits.CLAIMS:
            wrong.append(f"{claimed} claims in the core, at least {limits.CLAIMS}")
        if claimed:
            end = code[-1]
            said = "".join(output.get("text", "") for output in end.outputs)
            if end.source.strip() != "claims()" or "nbval-check-output" not in end.metadata.get("tags", []):
                wrong.append(f"the {name} does not end in a cell `claims()` with the tag nbval-check-output")
            elif said != f"{made} of {made} claims hold in this run\n":
                wrong.append(f"the {name} says {said!r} after {made} claims")
    return wrong


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_the_core_makes_claims_and_each_part_counts_them(path):
    if not path.name.startswith("00"):
        assert counted(nbformat.read(path, 4)) == []


# --- these checks, shown failing


SMALL = "claim('it is small', x, '<', 2 / 4)"


def small(source=SMALL, value=0.1, **more):
    output = said("it is small", value=value, operator="<", bound=0.5, **more)
    return new_notebook(cells=[new_code_cell(source, id="c", outputs=[output])])


def runs_of(*values):
    return {f"{n}, avx2": {"c.0": [[value, 0.5]]} for n, value in enumerate(values)}


@pytest.mark.parametrize(
    ("runs", "complaint"),
    [
        (runs_of(*[0.1] * 9), "was run 9 times"),
        (runs_of(*[0.1] * 9, 0.6), "does not hold in every run"),
        (runs_of(*[0.1, 0.3] * 5), "2.8 deviations from its bound"),
        (runs_of(*[0.2, 0.21] * 5), "of another notebook"),
        (runs_of(*[0.1, 0.11] * 5), ""),
        (runs_of(*[0.1] * 10), ""),
    ],
)
def test_a_bound_that_lies_close_is_seen(runs, complaint):
    found = too_close("01_a.ipynb", small(), runs)
    assert complaint in found[0] if complaint else found == []


def test_the_runs_that_a_claim_carries_itself_are_enough_unless_another_run_fails():
    assert too_close("01_a.ipynb", small(recorded=[[0.1 + n / 1000, 0.5] for n in range(10)]), {}) == []
    assert "in every run" in too_close("01_a.ipynb", small(recorded=[[0.1, 0.5]] * 10), runs_of(0.6))[0]
    assert "deviations" in too_close("01_a.ipynb", small(recorded=[[0.1 + n / 30, 0.5] for n in range(10)]), {})[0]


@pytest.mark.parametrize(
    "source",
    [
        "claim('it is tiny', x, '<', 0.5)",
        "claim('it is small', x, '<', 0.5)\nclaim('it is tiny', x, '<', 0.5)",
        "x = 1  # claim('it is small', x, '<', 0.5)",
    ],
)
def test_a_source_that_was_changed_is_seen(source):
    assert unlike_its_source(small()) == []
    assert unlike_its_source(small("%matplotlib inline\nclaim('it is small.', x, '<', bound)")) == []
    assert unlike_its_source(small(source)) == ["cell c: run `make notebooks`"]


def part(n, source="claims()", text=None, tags=("nbval-check-output",), core=True):
    """So many claims and the cell that counts them, as the core of a lesson."""
    cells = [new_code_cell(SMALL, id=f"c-{k}", outputs=small().cells[0].outputs) for k in range(n)]
    shown = [new_output("stream", name="stdout", text=text or f"{n} of {n} claims hold in this run\n")]
    return new_notebook(cells=[*cells, new_code_cell(source, id="end", outputs=shown, metadata={"tags": list(tags)})])


@pytest.mark.parametrize(
    ("notebook", "complaint"),
    [
        (part(4), ""),
        (part(3), "3 claims in the core"),
        (part(4, source="claims(); x = 1"), "does not end in a cell"),
        (part(4, tags=()), "does not end in a cell"),
        (part(4, text="3 of 4 claims hold in this run\n✗ it is small\n"), "says '3 of 4"),
    ],
)
def test_claims_that_are_few_or_not_counted_are_seen(notebook, complaint):
    found = counted(notebook)
    assert complaint in found[0] if complaint else found == []
