"""Experiments: what a digest sees, what a record holds, what the command runs, and numbers over runs."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from course_lib.workshop.experiments import Experiment, Runs, __main__, each, experiment, record, recorded
from course_lib.workshop.experiments.digest import digest, reached
from course_lib.workshop.experiments.experiment import plain
from course_lib.workshop.experiments.runs import least_of, most_of
from course_lib.workshop.experiments.worker import answers

ROOT = Path(__file__).resolve().parents[1]

# --- a toy library: an experiment that rests on `attend` and on one of two other functions

FILES = {
    "course_lib/__init__.py": "",
    "course_lib/workshop/experiments/__init__.py": "def each():\n    pass\ndef experiment():\n    pass\n",
    "course_lib/shelf/__init__.py": "from course_lib.shelf.attention import attend\n",
    "course_lib/shelf/attention.py": '''"""Attention."""
import torch
SCALE = 2.0
def attend(q):
    """The formula."""
    _check_attended(q)
    return q * SCALE  # doubled
def other(q):
    return q
def _check_attended(q):
    if q is None:
        raise ValueError("q")
''',
    "course_lib/shelf/block.py": "from course_lib.shelf.attention import attend\nclass Block:\n"
    "    def forward(self, x):\n        return attend(x)\n",
    "course_lib/data/__init__.py": "",
    "course_lib/data/plays.py": "def text():\n    return 'a'\ndef scenes():\n    return 'b'\n",
    "course_lib/workshop/experiments/toy.py": "from course_lib.data import plays\nfrom course_lib.shelf import block\n"
    "from course_lib.workshop.experiments import each, experiment\nSTEPS = 3\n"
    "@experiment(each(a=[1]))\ndef trained(seed):\n    return block.Block().forward(plays.text()) * STEPS\n"
    "def aside(seed):\n    from course_lib.shelf import attend\n    return attend(1)\n",
    "data/model.bin": "weights",
}


@pytest.fixture
def library(tmp_path):
    def make(name="a", **changed):
        root = tmp_path / name
        for path, text in FILES.items():
            old, new = changed.get(Path(path).stem, ("", ""))
            assert old in text
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text.replace(old, new) if old else text)
        return root

    return make


TOY = "course_lib.workshop.experiments.toy"


def test_a_digest_reaches_what_the_experiment_computes_with_and_nothing_else(library):
    assert set(reached(TOY, "trained", library())) == {
        f"{TOY}:trained",
        f"{TOY}:STEPS",
        "course_lib.shelf.block:Block",
        "course_lib.shelf.attention:attend",
        "course_lib.shelf.attention:SCALE",
        "course_lib.data.plays:text",
    }


def test_a_name_handed_on_by_a_folder_and_imported_inside_a_function_is_followed(library):
    assert "course_lib.shelf.attention:attend" in reached(TOY, "aside", library())


@pytest.mark.parametrize(
    "changed",
    [
        {"attention": ("q * SCALE", "q + SCALE")},
        {"attention": ("SCALE = 2.0", "SCALE = 2.5")},
        {"block": ("attend(x)", "attend(-x)")},
        {"plays": ("'a'", "'c'")},
        {"toy": ("STEPS = 3", "STEPS = 4")},
    ],
)
def test_changed_code_changes_the_digest(library, changed):
    assert digest(TOY, "trained", root=library()) != digest(TOY, "trained", root=library("b", **changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"attention": ("The formula", "Another sentence")},
        {"attention": ("  # doubled", "")},
        {"attention": ("    _check_attended(q)\n", "")},
        {"attention": ("raise ValueError", "raise TypeError")},
        {"attention": ("def other(q):\n    return q\n", "")},
        {"plays": ("'b'", "'c'")},
        {"toy": ("attend(1)", "attend(2)")},
        {"toy": ("each(a=[1])", "each(a=[1, 2]), seeds=[0]")},
    ],
)
def test_what_computes_nothing_here_does_not(library, changed):
    assert digest(TOY, "trained", root=library()) == digest(TOY, "trained", root=library("b", **changed))


@pytest.mark.parametrize("name", ["trained", "aside"])
def test_code_that_moves_to_another_file_keeps_the_digest(library, name):
    """The experiment, what it calls, and an import inside a function: each in a file of another name."""
    root = library("moved")
    (root / "course_lib/shelf/attention.py").rename(root / "course_lib/shelf/softmax.py")
    (root / "course_lib/workshop/experiments/toy.py").rename(root / "course_lib/workshop/experiments/game.py")
    for path in root.rglob("*.py"):
        moved = path.read_text().replace("course_lib.shelf.attention", "course_lib.shelf.softmax")
        path.write_text(
            moved.replace("from course_lib.shelf import attend", "from course_lib.shelf.softmax import attend")
        )
    assert digest("course_lib.workshop.experiments.game", name, root=root) == digest(TOY, name, root=library())


def test_another_file_that_is_read_is_another_digest(library):
    a, b = library(), library("b", model=("weights", "others"))
    assert digest(TOY, "trained", ("data/model.bin",), a) != digest(TOY, "trained", ("data/model.bin",), b)
    with pytest.raises(FileNotFoundError):
        digest(TOY, "trained", ("data/none.bin",), a)


def test_a_name_that_is_no_experiment_is_said(library):
    with pytest.raises(LookupError, match="defines no nothing"):
        digest(TOY, "nothing", root=library())


def test_a_changed_line_in_attention_makes_stale_what_rests_on_it(tmp_path):
    """In the library as it stands: `attend` reaches the multi-head block, and not the recurrent network."""
    module = "course_lib.workshop.experiments.toy"
    for name in ("a", "b"):
        root = tmp_path / name
        root.mkdir(exist_ok=True)
        subprocess.run(["cp", "-r", str(ROOT / "course_lib"), str(root)], check=True)
        (root / "course_lib/workshop/experiments/toy.py").write_text(
            "from course_lib.recurrent.rnn import RNN\nfrom course_lib.attention.block import Encoder\n"
            "def recurrent(seed):\n    return RNN(3, 4)\ndef attending(seed):\n    return Encoder(4, 2, 1)\n"
        )
    changed = tmp_path / "b/course_lib/attention/attention.py"
    text = changed.read_text()
    assert text.count("math.sqrt(q.shape[-1])") == 1
    changed.write_text(text.replace("math.sqrt(q.shape[-1])", "math.sqrt(q.shape[-1] + 1)"))
    a, b = tmp_path / "a", tmp_path / "b"
    assert digest(module, "recurrent", root=a) == digest(module, "recurrent", root=b)
    assert digest(module, "attending", root=a) != digest(module, "attending", root=b)


def test_of_the_stored_models_only_those_that_are_read_are_followed():
    """In the library as it stands: what loads the GPT does not rest on the LSTM, and no table joins the two."""
    found = reached("course_lib.workshop.experiments.gpt.core", "fine_tuned")
    assert "course_lib.language.next_token:small_gpt" in found and "course_lib.recurrent.lstm:LSTM" not in found


# --- an experiment and its record


def drawn(seed, low=0.0, high=1.0):
    """A number between two others, drawn by the seed."""
    return {"number": low + (high - low) * torch.rand(()).item(), "curve": torch.arange(3) + low, "name": "x"}


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A record folder of its own, with one experiment in a lesson called `toy`."""
    one = Experiment(drawn, each(low=[0.0, 2.0]), [0, 1], ["default"], [])
    one.slug, one.module, one.name = "toy", "course_lib.workshop.experiments.toy", "drawn"
    monkeypatch.setattr(Experiment, "digest", "123456789abc")
    monkeypatch.setattr(__main__, "experiments", lambda slug: [one])
    monkeypatch.setattr(record, "RECORDS", tmp_path)
    return __main__.Book(tmp_path), one


def entry(one, variant, seed, **changed):
    result = one(seed, **variant)
    return {"variant": variant, "seed": seed, "cpu": "default", "machine": "m", "date": "d", "digest": one.digest,
            "result": result, "seconds": 0.1} | changed  # fmt: skip


def test_each_gives_every_combination():
    assert each(a=[1, 2], b=["x"]) == [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}]


def test_a_result_is_plain_and_short():
    got = plain({"a": torch.tensor([1 / 3]), "b": (1, 2.0), "c": {"d": float("nan")}, 4: True}, "it")
    assert json.loads(json.dumps(got)) == {"a": [0.333333], "b": [1, 2.0], "c": {"d": "nan"}, "4": True}
    with pytest.raises(TypeError, match="it gives numbers"):
        plain({"a": {1, 2}}, "it")


@pytest.mark.parametrize(
    ("function", "how", "complaint"),
    [
        (lambda k: {}, {}, "must take the seed first"),
        (lambda seed: {}, {}, "needs a docstring"),
        (drawn, {"variants": [{"widht": 3}]}, "takes no widht"),
        (drawn, {"variants": [{"low": [1]}]}, "words and numbers"),
        (drawn, {"seeds": []}, "needs a seed"),
    ],
)
def test_a_wrong_experiment_is_refused_in_words(function, how, complaint):
    with pytest.raises((TypeError, ValueError), match=complaint):
        experiment(**how)(function)


def test_the_record_grows_run_by_run_and_knows_what_it_lacks(book):
    book, one = book
    assert len(book.lacking("toy")) == 4
    book.add(one, entry(one, {"low": 2.0}, 1))
    book.add(one, entry(one, {"low": 0.0}, 0))
    assert [(job[1], job[2]) for job in book.lacking("toy")] == [({"low": 0.0}, 1), ({"low": 2.0}, 0)]
    book.add(one, entry(one, {"low": 0.0}, 0, digest="old"))  # takes the place of the first
    assert len(book.lacking("toy")) == 3
    runs = record.read("toy", book.folder)["drawn"]["runs"]
    assert [(run["variant"]["low"], run["seed"]) for run in runs] == [(0.0, 0), (2.0, 1)]  # in the variants' order


def test_what_no_experiment_asks_for_any_more_goes(book):
    book, one = book
    book.add(one, entry(one, {"low": 0.0}, 0))
    one.variants = each(low=[5.0])
    book.add(one, entry(one, {"low": 5.0}, 0))
    assert [run["variant"] for run in record.read("toy", book.folder)["drawn"]["runs"]] == [{"low": 5.0}]


def test_after_a_change_of_code_alone_samples_confirm_the_rest_or_do_not(book, monkeypatch):
    book, one = book
    for place, (variant, seed, _) in enumerate(one.runs()):
        book.add(one, entry(one, variant, seed) | {"seconds": 9 - place})
    assert book.samples("toy", 2) == []
    monkeypatch.setattr(Experiment, "digest", "another code")
    samples = book.samples("toy", 2)
    assert [(job[1]["low"], job[2]) for job in samples] == [(2.0, 1), (2.0, 0)]  # the two shortest
    results = [(variant, seed, cpu, one(seed, **variant)) for _, variant, seed, cpu in samples]
    wrong = [(*results[0][:3], results[0][3] | {"number": 9.0}), results[1]]
    assert not book.confirm(one, wrong) and len(book.lacking("toy")) == 4
    assert book.confirm(one, results) and book.lacking("toy") == []
    runs = record.read("toy", book.folder)["drawn"]["runs"]
    assert all(run["digest"] == "another code" and "confirmed" in run for run in runs)


def test_what_is_not_recorded_whole_is_not_confirmed(book, monkeypatch):
    book, one = book
    book.add(one, entry(one, {"low": 0.0}, 0))
    monkeypatch.setattr(Experiment, "digest", "another code")
    assert book.samples("toy", 2) == []


def test_a_record_gives_numbers_and_curves_and_takes_a_live_run(book):
    book, one = book
    with pytest.raises(LookupError, match="no record of drawn"):
        recorded(one)
    for variant, seed, _ in one.runs():
        book.add(one, entry(one, variant, seed))
    found = recorded(one)
    assert found.lists("curve", low=2.0) == [[2, 3, 4]] * 2 or found.lists("curve", low=2.0) == [[2.0, 3.0, 4.0]] * 2
    numbers = found.numbers("number", low=2.0)
    assert len(numbers.recorded) == 2 and numbers.live is None and not found.stale
    assert found.numbers("curve", 1, low=2.0).recorded == (3.0, 3.0)
    live = found.run(low=2.0)
    assert found.numbers("number", low=2.0).live == live["number"] and one.live_seed == 2
    assert found.numbers("number", low=0.0).live is None
    found.take({"number": torch.tensor(0.25), "curve": [1]}, low=0.0)  # trained in the notebook's own cells
    assert found.numbers("number", low=0.0).live == 0.25 and found.numbers("curve", 0, low=0.0).live == 1
    for path, variant, complaint in [
        (("number",), {}, "more than one variant fits"),
        (("number",), {"low": 9}, "no variant fits"),
        (("nothing",), {"low": 0.0}, "records no 'nothing'"),
    ]:
        with pytest.raises(LookupError, match=complaint):
            found.numbers(*path, **variant)


def test_a_run_depends_on_its_seed_alone():
    one = Experiment(drawn, None, [0], ["default"], [])
    first = one(3)
    torch.rand(100)
    assert one(3) == first != one(4)


@pytest.mark.parametrize(
    "text", ["{", "[]", "[" * 9999, '{"experiments": {"a": {"runs": [{}]}}}', '{"experiments": 3}']
)
def test_a_damaged_record_is_said_in_words(tmp_path, text):
    (tmp_path / "toy.json").write_text(text)
    with pytest.raises(ValueError, match="toy.json is damaged"):
        record.read("toy", tmp_path)


def test_a_worker_answers_each_question_and_an_error_ends_nothing():
    ask = {"module": "tests_no_such", "name": "x", "variant": {}, "seed": 0}
    first, second = answers(
        [json.dumps(ask), json.dumps(ask | {"module": "course_lib.workshop.experiments.experiment"})]
    )
    assert "No module named" in first["error"] and "has no attribute" in second["error"]


# --- the command, in a copy of the library with a lesson of its own

SLOW = '''"""Toy."""
import time
import torch
from course_lib.workshop.experiments import each, experiment
@experiment(each(low=[0.0, 2.0]), seeds=[0, 1])
def drawn(seed, low):
    """A number, slowly."""
    time.sleep(0.3)
    print("not an answer")
    return {"number": low + torch.rand(()).item(), "cpu": torch.backends.cpu.get_cpu_capability(),
            "threads": torch.get_num_threads()}
@experiment(seeds=[0])
def broken(seed):
    """It fails."""
    raise ValueError("it is broken")
'''


@pytest.fixture
def copy(tmp_path):
    subprocess.run(["cp", "-r", str(ROOT / "course_lib"), str(tmp_path)], check=True)
    (tmp_path / "course_lib/workshop/experiments/seq2seq/core.py").write_text(SLOW)
    for part in ("sounds", "words"):  # the lesson's other experiments
        (tmp_path / f"course_lib/workshop/experiments/seq2seq/{part}.py").unlink()

    def run(*arguments, **how):
        here = os.environ | {"PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-m", "course_lib.workshop.experiments", *arguments]
        return subprocess.Popen(command, cwd=tmp_path, env=here, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **how)  # fmt: skip

    return run, tmp_path / "data" / "records" / "seq2seq.json"


@pytest.mark.slow
@pytest.mark.full  # a dozen processes, each of which imports PyTorch; what a record lacks is told above
def test_the_command_runs_what_is_missing_and_goes_on_after_a_stop(copy):
    run, path = copy
    out, err = run("7777").communicate()
    assert "there are no experiments of '7777'" in err
    stopped = run("03", "--only", "drawn", start_new_session=True)
    while not path.exists():
        assert stopped.poll() is None, stopped.communicate()
        time.sleep(0.05)
    os.killpg(stopped.pid, signal.SIGINT)
    out, err = stopped.communicate()
    assert "Stopped. What is finished is kept" in err and stopped.returncode == 1
    kept = len(json.loads(path.read_text())["experiments"]["drawn"]["runs"])
    assert 1 <= kept < 8
    going_on = run("03")
    out, err = going_on.communicate()
    assert f"{8 - kept} runs recorded, 2 failed" in out and "it is broken" in err and going_on.returncode == 1
    runs = json.loads(path.read_text())["experiments"]["drawn"]["runs"]
    assert [(run["variant"]["low"], run["seed"], run["cpu"]) for run in runs] == [
        (low, seed, cpu) for low in (0.0, 2.0) for seed in (0, 1) for cpu in ("default", "avx2")
    ]
    assert all(run["result"]["cpu"].lower() == run["cpu"] and run["result"]["threads"] == 1 for run in runs)
    out, _ = run("seq2seq", "--list").communicate()
    assert out == "seq2seq: broken: 2 runs are missing or stale\n2 runs are missing or stale.\n"


# --- numbers over runs


def test_runs_compute_run_by_run():
    a, b = Runs([1, 2, 4], 3), Runs([2, 2, 2])
    assert (a + b).recorded == (3, 4, 6) and (a + b).live is None
    assert (1 - a).values == (0, -1, -3, -2) and (a / 2).live == 1.5 and (8 / a).recorded == (8, 4, 2)
    assert (a * a).live == 9 and abs(-a).values == a.values and a.map(math.sqrt).recorded[2] == 2
    assert (a.mean, a.least, a.most, a.live_is_in_band) == (7 / 3, 1, 4, True)
    assert Runs([1, 2], 3).live_is_in_band is False and b.live_is_in_band is None
    assert least_of(a, b).recorded == (1, 2, 2) and most_of(a, b, Runs([9, 0, 0])).recorded == (9, 2, 4)
    assert a.vary and not b.vary and Runs([], 3).mean == 3
    with pytest.raises(ValueError, match="cannot be paired"):
        a + Runs([1])
    with pytest.raises(ValueError, match="at least one number"):
        Runs([])


def test_the_table_in_a_model_answer_is_the_records():
    """An exercise may not import an experiment: the answer to lesson 02's investigation is held to its record here."""
    from course_lib.workshop.exercises import find_investigation
    from course_lib.workshop.experiments.lstm_gradient_flow.core import halves

    answer = find_investigation("how_much_gradient").answer
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \|(.*)\|(.*)\|$", answer, re.M)
    told = [
        ({"gates": float(gates), "back": float(back), "steps": steps}, text.strip())
        for gates, back, *texts in rows
        for steps, text in zip((300, 900), texts, strict=True)
        if text.strip()
    ]
    assert sorted(map(str, halves.variants)) == sorted(str(variant) for variant, _ in told)
    for variant, text in told:
        found = recorded(halves).numbers("accuracy", **variant)
        assert text == f"{found.mean:.2f} ({found.least:.2f} to {found.most:.2f})"
