"""train: one training in one, two and four processes is one curve; whoever is killed, the rest of it is not lost.

Rows are short, pieces are of two and steps few: what is shared out, kept and told is the same as of many. Given up is
what only a longer training would show, such as a rounding error that grows; bench/bench_processes.py trains longer. Of
models, ways and ends `make test` takes a sample; torchrun, compiling, recomputing and Muon are left to `make test-all`.
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch
from processes import ONLY_HERE, ended, free_port, losses, run, start
from safetensors.torch import load_file

from course_lib.scale import snapshots
from course_lib.scale.config import configured
from course_lib.scale.corpus import folder, prepare
from course_lib.scale.processes import Here, _check_one_each
from course_lib.scale.run import train
from course_lib.scale.tasks import TASKS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="gloo's processes are started by fork here")]

STEPS, EVERY = 20, 5
SMALL = {
    "gpt": {"tokens": 16, "batch": 8, "micro": 2},
    "bert": {"tokens": 32, "batch": 8, "micro": 2},
    "vit": {"batch": 16, "micro": 4},
}
OFTEN = ("--steps", STEPS, "--save-every", EVERY, "--log-every", EVERY)
ALONE = Here(0, 1, torch.device("cpu"))


def silent(*_):
    pass


def asked(model: str) -> tuple:
    """What the command is told of the model and its small size."""
    return model, *(word for name, value in SMALL[model].items() for word in (f"--{name}", value))


GPT = asked("gpt")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """model -> the folder of its run by one process."""
    made = {}

    def of(model: str) -> Path:
        if model not in made:
            made[model] = tmp_path_factory.mktemp(model)
            how = {"save_every": EVERY, "log_every": EVERY} if model == "gpt" else {}
            assert train(configured(model, steps=STEPS, out=str(made[model]), **SMALL[model], **how)) == 0
        return made[model]

    return of


@pytest.fixture
def begun(whole, tmp_path):
    """A folder where the data of a run lie already."""

    def of(model: str) -> Path:
        shutil.copytree(whole(model) / "data", tmp_path / model / "data")
        return tmp_path / model

    return of


def same_curve(out: Path, reference: Path, steps: int = STEPS) -> bool:
    ours, theirs = losses(out), losses(reference)
    assert sorted(ours) == list(range(1, steps + 1))
    held, other = losses(out, "held_out"), losses(reference, "held_out")
    assert held.keys() == other.keys() and all(abs(held[step] - other[step]) <= 1e-5 for step in held)
    return max(abs(ours[step] - theirs[step]) for step in ours) <= 1e-5


@pytest.mark.parametrize(
    ("model", "n", "parallel"),
    [
        pytest.param("gpt", 2, "ddp", marks=pytest.mark.full),
        ("gpt", 4, "fsdp"),
        pytest.param("bert", 2, "fsdp", marks=pytest.mark.full),
        ("vit", 4, "ddp"),
    ],
)
def test_any_number_of_processes_takes_the_same_steps(whole, begun, model, n, parallel):
    """train: bench/bench_processes.py measures every model in every way."""
    out = begun(model)
    found = run(n, *asked(model), "--steps", STEPS, "--out", out, "--parallel", parallel)
    assert [one.status for one in found] == [0] * n, found
    assert same_curve(out, whole(model))
    ours, theirs = (load_file(place / "model.safetensors") for place in (out, whole(model)))
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        if not name.endswith("w_k.bias"):  # changes no attention: its gradient is rounding, which Adam makes a step of
            torch.testing.assert_close(weight, theirs[name], atol=2e-4, rtol=0, msg=name)


@pytest.mark.full
def test_muon_steps_whole_matrices_where_they_are_shared_out(begun, tmp_path):
    out = begun("gpt")
    shutil.copytree(out, tmp_path / "shared")
    how = (*GPT, "--steps", 20, "--optimiser", "muon", "--micro", 4, "--save-every", 10)
    found = run(1, *how, "--out", out) + run(2, *how, "--out", tmp_path / "shared", "--parallel", "fsdp")
    assert [one.status for one in found] == [0] * 3, found
    assert same_curve(tmp_path / "shared", out, 20)
    for place in (tmp_path / "shared").glob("step-*"):  # back to step 10, and on by one process
        if place != snapshots.place_of(tmp_path / "shared", 10):
            shutil.rmtree(place)
    assert run(1, *how, "--out", tmp_path / "shared")[0].status == 0
    assert same_curve(tmp_path / "shared", out, 20)


WITH_DROPOUT = """
import sys
from course_lib.scale import __main__ as command
from course_lib.scale import tasks
from torch import nn

def gpt(*sizes, make=tasks.gpt):
    model = make(*sizes)
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.3
    return model

tasks.gpt = gpt
sys.exit(command.main(sys.argv[1:]))
"""


def test_dropout_follows_from_the_place_of_a_piece(whole, begun, tmp_path):
    out = begun("gpt")
    shutil.copytree(out, tmp_path / "other")
    how, command = (*GPT, "--steps", 10), WITH_DROPOUT
    found = run(1, *how, "--out", out, command=command) + run(2, *how, "--out", tmp_path / "other", command=command)
    assert [one.status for one in found] == [0] * 3, found
    assert same_curve(tmp_path / "other", out, 10)
    assert abs(losses(out)[1] - losses(whole("gpt"))[1]) > 1e-4


@pytest.mark.full
def test_recomputing_changes_nothing(whole, begun):
    out = begun("gpt")
    found = run(2, *GPT, "--steps", STEPS, "--out", out, "--parallel", "fsdp", "--recompute")
    assert [one.status for one in found] == [0, 0], found
    assert same_curve(out, whole("gpt"))


COMPILED = """
import sys
from functools import partial
import torch
torch.compile = partial(torch.compile, backend="aot_eager")  # needs no compiler
from course_lib.scale import __main__ as command
sys.exit(command.main(sys.argv[1:]))
"""


@pytest.mark.full
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_compiling_and_recomputing_agree(whole, begun, parallel):
    out = begun("gpt")
    how = (
        *GPT,
        "--steps",
        STEPS // 10,
        "--out",
        out,
        "--parallel",
        parallel,
        "--warmup",
        STEPS // 10,
        "--compile",
        "--recompute",
    )
    found = run(2, *how, command=COMPILED)
    assert [one.status for one in found] == [0, 0], found
    reference = losses(whole("gpt"))  # of more steps, but while the rate rises those are the same
    assert max(abs(loss - reference[step]) for step, loss in losses(out).items()) <= 1e-5


@pytest.mark.full
def test_without_a_compiler_it_is_said(begun):
    none = "import torch._inductor.config as config; config.cpp.cxx = (None, '/nonexistent')\n"
    without = none + COMPILED.replace("torch.compile =", "other =")
    [found] = run(1, *GPT, "--steps", 5, "--out", begun("gpt"), "--compile", command=without)
    assert found.status == 1 and "Train without --compile" in found.said and "Traceback" not in found.said, found


@pytest.mark.parametrize("parallel", [pytest.param("ddp", marks=pytest.mark.full), "fsdp"])
def test_half_precision_learns_as_well(whole, begun, parallel):
    out = begun("gpt")
    n = {"ddp": 1, "fsdp": 2}[parallel]
    found = run(n, *GPT, "--steps", STEPS, "--out", out, "--parallel", parallel, "--precision", "bf16")
    assert [one.status for one in found] == [0] * n, found
    ours, theirs = (list(losses(place).values()) for place in (out, whole("gpt")))
    assert ours != theirs
    assert abs(sum(ours[-10:]) - sum(theirs[-10:])) / 10 <= 0.02  # of about 6.0; bf16 tells 1 from 1.008, not from less


@pytest.mark.parametrize(
    "kill", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, int(os.environ.get("KILLS", "2"))))]
)
def test_a_killed_process_ends_the_rest_in_a_sentence_and_nothing_is_lost(whole, begun, kill):
    """KILLS=20 python -m pytest tests/test_scale_run.py -k killed: twenty times, each at a moment of its own."""
    out, moment = begun("gpt"), random.Random()
    how = (*GPT, *OFTEN, "--out", out, "--parallel", ("ddp", "fsdp")[kill % 2])
    processes = start(2, *how)
    assert begun_to_log(out), ended(processes, 1)
    time.sleep(moment.uniform(0, 1.5))
    victim = moment.randrange(2)
    processes[victim].send_signal(signal.SIGKILL)
    found = ended(processes, 60)
    statuses = (found[victim].status, found[1 - victim].status)
    assert statuses in ((-signal.SIGKILL, 1), (-signal.SIGKILL, 0), (0, 0)), found  # 0: it came behind the last step
    if found[1 - victim].status:
        assert "another process of this run has ended, or cannot be reached" in found[1 - victim].said
        assert "Traceback" not in found[1 - victim].said
    others = (1, 4, 2)[kill % 3]  # and it goes on with another number of them
    again = run(others, *how)
    assert [one.status for one in again] == [0] * others, again
    assert same_curve(out, whole("gpt"))
    assert not list(out.glob(".step-*"))


def listening(process: psutil.Process) -> set[str]:
    """The addresses on which a process or one that it has started listens, while they run."""
    found = set()
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        with suppress(psutil.Error):  # one has just ended
            for one in (process, *process.children(recursive=True)):
                found |= {at.laddr.ip for at in one.net_connections("inet") if at.status == psutil.CONN_LISTEN}
        time.sleep(0.5)
    return found


@pytest.mark.full
@pytest.mark.parametrize("way", ["--standalone", "--rdzv-backend=c10d --rdzv-conf=store_type=file"])
def test_torchrun_starts_the_same_command(whole, begun, way):
    """As the page on scale has it, the second way with a variable set; then nothing listens beyond this machine."""
    out = begun("vit")
    command = [sys.executable, "-m", "torch.distributed.run", *way.split(), "--nproc-per-node", "2", "-m"]
    alone = {} if way == "--standalone" else {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with subprocess.Popen(
        [*command, "course_lib.scale", *map(str, asked("vit")), "--steps", str(STEPS), "--out", str(out)],
        env=os.environ | ONLY_HERE | alone,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as made:
        places = listening(psutil.Process(made.pid))
        told = made.communicate(timeout=240)[1]
    assert made.returncode == 0, told
    assert same_curve(out, whole("vit"))
    if way != "--standalone":
        assert places == {"127.0.0.1"}


def begun_to_log(out: Path) -> bool:
    """Whether a run has logged a step, within a minute."""
    return until((out / "log.jsonl").exists)


def until(true) -> bool:
    """Whether `true()` comes true within a minute."""
    deadline = time.monotonic() + 60
    while not (reached := true()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return reached


@pytest.mark.parametrize("asked", [[1], [0, 1]], ids=["one", "both"])
def test_a_request_to_end_is_heard_by_all_and_keeps_the_step(whole, begun, asked):
    out = begun("gpt")
    how = (*GPT, *OFTEN, "--out", out)
    processes = start(2, *how)
    assert begun_to_log(out), ended(processes, 1)
    for rank in asked:
        processes[rank].send_signal(signal.SIGTERM)
    found = ended(processes)
    assert [one.status for one in found] == [128 + signal.SIGTERM] * 2, found
    assert "which is kept: the same command goes on" in found[0].said
    assert run(1, *how)[0].status == 0
    assert same_curve(out, whole("gpt"))


NAN_ON_ONE = """
import sys
from course_lib.scale import __main__ as command
from course_lib.scale import run

class Bad(run.Run):
    def step(self, pieces, wishes=None):
        nats = self.task.nats
        if self.done == 7 and self.here.rank == 1:
            self.task.nats = lambda model, piece: nats(model, piece) * float("nan")
        super().step(pieces, wishes)
        self.task.nats = nats

run.Run = Bad
sys.exit(command.main(sys.argv[1:]))
"""


def test_a_nan_in_one_process_ends_all_and_says_whose(begun):
    out = begun("gpt")
    found = run(2, *GPT, *OFTEN, "--out", out, command=NAN_ON_ONE)
    assert [one.status for one in found] == [1, 1], found
    told = [one.said for one in found if "Stopped. Step 8: loss nan on process 1 of 2 alone" in one.said]
    assert len(told) == 1 and "The snapshot of step 5 is whole" in told[0]


def test_a_full_disk_of_one_process_ends_all_and_what_was_there_is_whole(whole, begun):
    out = begun("gpt")
    how = (*GPT, *OFTEN, "--out", out, "--parallel", "fsdp")
    assert run(2, *how, "--keep", 99, command=STOP_AT_10)[0].status == 0
    found = run(2, *how, largest={1: 100_000})
    assert [one.status for one in found] == [1, 1], found
    told = [
        one.said for one in found if "The snapshot of step 15 could not be written (the disk is full, or" in one.said
    ]
    assert len(told) == 1 and "Traceback" not in "".join(one.said for one in found)
    assert snapshots.newest(out, silent) == 10 and not list(out.glob(".step-*"))
    assert run(1, *how)[0].status == 0
    assert same_curve(out, whole("gpt"))


STOP_AT_10 = """
import sys
from course_lib.scale import __main__ as command
from course_lib.scale import run

def go(self, wishes, ahead):
    for step in range(10):
        self.step(self.pieces(step))
    self.read()
    self.save()
    return 0

run.Run.go = go
sys.exit(command.main(sys.argv[1:]))
"""


def test_an_address_in_use_is_told(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port := free_port()))
        taken.listen()
        [found] = ended(start(2, *GPT, "--out", tmp_path, port=port, ranks=[0]), 60)
    assert found.status == 1
    assert f"The 2 processes could not meet at 127.0.0.1:{port}" in found.said and "Traceback" not in found.said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--batch", 2, "--micro", 2), "2 processes cannot take equal shares of them: start 1, or ask for --micro 1"),
        (("--data", "/no/such/file"), "neither plays, hub:name nor a text file"),
        (("--lr", "fast"), "argument --lr: invalid float value: 'fast'"),
        (("--lr", "1e30", "--micro", 4), "Stopped. Step 2: loss nan, gradient norm nan. There is no snapshot yet"),
    ],
)
def test_what_cannot_be_trained_is_said_by_one_process(tmp_path, arguments, sentence):
    found = run(2, *GPT, "--out", tmp_path, *arguments)
    assert [one.status for one in found] == [1, 1], found
    assert sum(sentence in one.said for one in found) == 1, found
    assert "Traceback" not in "".join(one.said for one in found)


def test_two_trainings_in_one_folder_are_one_too_many(begun):
    out = begun("gpt")
    first = start(1, *GPT, "--out", out, "--steps", 100_000)
    assert begun_to_log(out), ended(first, 1)
    found = run(2, *GPT, "--out", out, "--steps", 100_000)
    assert [one.status for one in found] == [1, 1], found
    assert sum(f"Another training writes to {out}" in one.said for one in found) == 1, found
    first[0].send_signal(signal.SIGINT)
    assert ended(first)[0].status == 128 + signal.SIGINT


SLOW_DATA = """
import sys, time
from course_lib.scale import __main__ as command
from course_lib.scale import corpus

def prepare(config, say):
    say("making")
    time.sleep(100)

corpus.prepare = prepare
sys.exit(command.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("n", [1, 2])
def test_an_interrupt_while_data_are_made_ends_all_at_once(tmp_path, n):
    processes = start(n, *GPT, "--out", tmp_path, command=SLOW_DATA)
    assert until(lambda: processes[0].said == "making\n"), ended(processes, 1)
    for process in processes:
        process.send_signal(signal.SIGINT)
    found = ended(processes, 30)
    assert sorted({one.status for one in found}) in ([1, 130], [130]), found
    said = "".join(one.said for one in found)
    assert said.count("Stopped") == 1 and "Traceback" not in said


def test_a_run_that_has_taken_no_step_may_be_asked_for_anew(tmp_path):
    short = tmp_path / "short.txt"
    short.write_text("To be, or not to be, that is the question. " * 30)
    found = run(1, *GPT, "--data", short, "--out", tmp_path / "run", "--tokens", 2000)
    assert found[0].status == 1 and "A row needs" in found[0].said
    found = run(1, *GPT, "--out", tmp_path / "run", "--steps", 0)  # the data alone
    assert found[0].status == 0 and "Making the tokens of plays" in found[0].said, found
    assert not list((tmp_path / "run").glob("*.safetensors"))
    found = run(1, *GPT, "--out", tmp_path / "run", "--steps", 2)
    assert found[0].status == 0 and "Making" not in found[0].said, found
    found = run(1, *GPT, "--out", tmp_path / "run", "--steps", 3)
    assert found[0].status == 1 and "holds a run with other settings: steps was 2 and is 3" in found[0].said


def test_what_lies_behind_a_damaged_snapshot_goes_when_its_step_is_taken_again(whole, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(whole("gpt"), out)
    (snapshots.place_of(out, STEPS) / "contents.json").unlink()
    config = configured("gpt", out=str(out), steps=STEPS, save_every=EVERY, **SMALL["gpt"])
    model = TASKS["gpt"](config, folder(config)).model()
    snapshots.save(out, 47, model, torch.optim.AdamW(model.parameters()), ALONE, keep=1)
    assert [one.name for one in out.glob("step-*")] == ["step-00000047"]
    assert snapshots.newest(out, silent) == 47


def test_a_process_without_a_gpu_of_its_own_is_told():
    with pytest.raises(ValueError, match="Process 64 of this machine finds no GPU of its own"):
        _check_one_each(64)


def test_a_snapshot_of_another_model_changes_nothing(tmp_path):
    """`configured` refuses another size in a run's folder before; this is what a mixed-up folder gives."""
    small, large = (configured("vit", out=str(tmp_path), steps=2), configured("vit", out=str(tmp_path), patch=4))
    prepare(small, silent)
    models = [TASKS["vit"](config, folder(config)).model() for config in (small, large)]
    optimisers = [torch.optim.AdamW(model.parameters()) for model in models]
    snapshots.save(tmp_path, 1, models[0], optimisers[0], ALONE, keep=2)
    before = {name: weight.clone() for name, weight in models[1].state_dict().items()}
    with pytest.raises(ValueError, match="belongs to another model, or is damaged"):
        snapshots.load(tmp_path, 1, models[1], optimisers[1])
    for name, weight in models[1].state_dict().items():
        torch.testing.assert_close(weight, before[name])


@pytest.mark.parametrize("damage", [lambda old: old[:-100], lambda old: old[:-100] + bytes(100)], ids=["cut", "zeros"])
def test_a_snapshot_that_is_not_whole_is_passed_over(whole, tmp_path, damage):
    out = tmp_path / "run"
    shutil.copytree(whole("gpt"), out)
    assert snapshots.newest(out, silent) == STEPS
    part = next(snapshots.place_of(out, STEPS).glob("*.distcp"))
    part.write_bytes(damage(part.read_bytes()))
    said = []
    assert snapshots.newest(out, said.append) == STEPS - EVERY
    assert said == [f"{snapshots.place_of(out, STEPS)} is not whole, and is passed over."]


def test_a_run_goes_on_from_the_older_snapshot_where_the_newest_is_garbled(whole, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(whole("gpt"), out)
    part = next(snapshots.place_of(out, STEPS).glob("*.distcp"))
    size = part.stat().st_size
    part.write_bytes(os.urandom(size))
    [found] = run(1, *GPT, *OFTEN, "--out", out)
    assert found.status == 0, found
    assert "is not whole, and is passed over." in found.said and f"Goes on after step {STEPS - EVERY}." in found.said
    assert same_curve(out, whole("gpt"))


@pytest.mark.parametrize("name", ["step-00000060", ".step-00000060.part", "model.safetensors"])
def test_what_lies_in_the_place_of_a_snapshot_is_told_before_the_first_step(tmp_path, name):
    snapshots.sweep(tmp_path / "new")
    (tmp_path / "step-1").touch()  # somebody else's
    wrong = tmp_path / name
    wrong.mkdir() if name == "model.safetensors" else wrong.touch()
    with pytest.raises(ValueError, match=f"{name} is a (file|folder), and this training writes .* move it away, or"):
        snapshots.sweep(tmp_path)
    assert wrong.exists()


def test_what_comes_into_the_place_of_a_snapshot_later_is_told_as_what_it_is(tmp_path):
    model = torch.nn.Linear(2, 2)
    snapshots.place_of(tmp_path, 60).touch()
    with pytest.raises(OSError, match=r"step 60 could not be written \(.*Not a directory.*: put that right, and the"):
        snapshots.save(tmp_path, 60, model, torch.optim.AdamW(model.parameters()), ALONE, keep=2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000060"]


def test_a_list_of_contents_without_end_is_of_no_snapshot(tmp_path):
    place = snapshots.place_of(tmp_path, 60)
    place.mkdir()
    (place / "contents.json").write_text("[" * 9999)
    assert snapshots.newest(tmp_path, silent) == 0


def test_a_snapshot_from_before_there_were_sums_is_whole_by_its_sizes(whole, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(whole("gpt"), out)
    contents = snapshots.place_of(out, STEPS) / "contents.json"
    contents.write_text(json.dumps({name: size for name, (size, _) in json.loads(contents.read_text()).items()}))
    assert snapshots.newest(out, silent) == STEPS


@pytest.mark.parametrize("content", ["{}", "[]", "{", "3", '{"x": 3}', '{"../log.jsonl": null}'])
def test_a_snapshot_without_its_contents_is_passed_over(whole, tmp_path, content):
    out = tmp_path / "run"
    shutil.copytree(whole("gpt"), out)
    (snapshots.place_of(out, STEPS) / "contents.json").write_text(content)
    assert snapshots.newest(out, silent) == STEPS - EVERY


def test_what_somebody_else_put_there_is_left_alone(whole, tmp_path):
    """A copy beside the snapshots is no snapshot, and no part of one."""
    out = tmp_path / "run"
    shutil.copytree(whole("gpt"), out)
    others = [out / name for name in ("step-00000004.bak", "step-00000004 copy", "step-notes", ".step-mine.part")]
    for other in others:
        shutil.copytree(snapshots.place_of(out, STEPS), other)
    shutil.rmtree(snapshots.place_of(out, STEPS))
    [found] = run(1, *GPT, *OFTEN, "--out", out)
    assert found.status == 0 and "Traceback" not in found.said, found
    assert all(other.is_dir() for other in others) and snapshots.newest(out, silent) == STEPS


def test_weights_that_find_no_room_are_told_in_words(whole, tmp_path):
    """The last snapshot is there: only the file of weights is larger than may be written."""
    out = tmp_path / "run"
    shutil.copytree(whole("gpt"), out)
    (out / "model.safetensors").unlink()
    [found] = run(1, *GPT, *OFTEN, "--out", out, largest={0: 100_000})
    assert found.status == 1 and "Traceback" not in found.said, found
    assert "model.safetensors could not be written (the disk is full, or" in found.said
