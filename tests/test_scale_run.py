"""train: one training in one, two and four processes is one curve; whoever is killed, the rest of it is not lost.

Rows are short, pieces are of two and steps few: what is shared out, kept and told is the same as of many. Given up is
what only a longer training would show, such as a rounding error that grows; bench/bench_processes.py trains longer. Of
models, ways and ends `make test` takes a sample; torchrun, compiling, recomputing and Muon are left to `make test-all`.
"""

import os
import pickle
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
import torch
from processes import ONLY_HERE, ended, free_port, losses, run, start
from safetensors.torch import load_file

from course_lib.workshop.scale import folder, tasks
from course_lib.workshop.scale.__main__ import main
from course_lib.workshop.scale.config import configured
from course_lib.workshop.scale.processes import Here
from course_lib.workshop.scale.run import train

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="gloo's processes are started by fork here")]

STEPS, EVERY = 20, 5
SMALL = {
    "gpt": {"tokens": 16, "batch": 8, "micro": 2},
    "bert": {"tokens": 32, "batch": 8, "micro": 2},
    "vit": {"batch": 16, "micro": 4},
}
OFTEN = {"steps": STEPS, "save_every": EVERY, "log_every": EVERY}
ALONE = Here(0, 1, torch.device("cpu"))


def silent(*_):
    pass


def asked(model: str, out: Path, **how) -> list[str]:
    """What the command is told: the model in its small size, and how."""
    how = SMALL[model] | OFTEN | {"out": out} | how
    return [model, *(word for name, value in how.items() for word in (f"--{name.replace('_', '-')}", str(value)))]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """model, how many processes, shared out how -> the folder of its run; it is not to be changed."""
    made = {}

    def of(model: str, n: int = 1, parallel: str = "ddp") -> Path:
        if (model, n, parallel) not in made:
            out = made[model, n, parallel] = tmp_path_factory.mktemp(model)
            if n == 1:
                assert train(configured(model, out=str(out), **SMALL[model], **OFTEN)) == 0
            else:
                shutil.copytree(of(model) / "data", out / "data")
                found = run(n, *asked(model, out, parallel=parallel))
                assert [one.status for one in found] == [0] * n, found
        return made[model, n, parallel]

    return of


@pytest.fixture
def begun(whole, tmp_path):
    """model -> a folder in which the data of a run lie already."""

    def of(model: str, name: str = "run") -> Path:
        shutil.copytree(whole(model) / "data", tmp_path / name / "data")
        return tmp_path / name

    return of


@pytest.fixture
def copied(whole, tmp_path):
    """A finished run of a GPT, to be damaged."""
    return Path(shutil.copytree(whole("gpt"), tmp_path / "copied"))


def largest_difference(out: Path, reference: Path, steps: int = STEPS) -> float:
    """Of a loss, or of one that is held out, in two runs."""
    ours, theirs = losses(out), losses(reference)
    assert sorted(ours) == list(range(1, steps + 1))
    held, other = losses(out, "held_out"), losses(reference, "held_out")
    assert held.keys() == other.keys() or steps < STEPS
    pairs = [(ours[step], theirs[step]) for step in ours] + [(held[step], other.get(step, held[step])) for step in held]
    return max(abs(a - b) for a, b in pairs)


@pytest.mark.parametrize(
    ("model", "n", "parallel"),
    [
        pytest.param("gpt", 2, "ddp", marks=pytest.mark.full),
        ("gpt", 2, "fsdp"),
        pytest.param("bert", 4, "fsdp", marks=pytest.mark.full),
        pytest.param("vit", 4, "ddp", marks=pytest.mark.full),
    ],
)
def test_any_number_of_processes_takes_the_same_steps(whole, model, n, parallel):
    """train: bench/bench_processes.py measures every model in every way."""
    assert largest_difference(whole(model, n, parallel), whole(model)) <= 1e-5
    ours, theirs = (load_file(place / "model.safetensors") for place in (whole(model, n, parallel), whole(model)))
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        if not name.endswith("w_k.bias"):  # changes no attention: its gradient is rounding, which Adam makes a step of
            torch.testing.assert_close(weight, theirs[name], atol=2e-4, rtol=0, msg=name)


@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_run_that_was_asked_to_end_keeps_its_step_and_ends_bit_for_bit_as_if_it_had_not_been(whole, begun, n):
    reference, out = whole("gpt", n, "fsdp" if n > 1 else "ddp"), begun("gpt")
    how = asked("gpt", out, parallel="fsdp")
    processes = start(n, *how)
    assert until((out / "log.jsonl").exists), ended(processes, 1)
    processes[-1].send_signal(signal.SIGTERM)  # one is asked, and all of them hear it
    found = ended(processes)
    assert [one.status for one in found] == [128 + signal.SIGTERM] * n, found
    assert "which is kept: the same command continues" in found[0].said
    again = run(n, *how)
    assert [one.status for one in again] == [0] * n and "Continues after step" in again[0].said, again
    assert largest_difference(out, reference) == 0
    assert (out / "model.safetensors").read_bytes() == (reference / "model.safetensors").read_bytes()


@pytest.mark.full
@pytest.mark.parametrize("kill", range(int(os.environ.get("KILLS", "2"))))
def test_a_killed_process_ends_the_rest_in_a_sentence_and_nothing_is_lost(whole, begun, kill):
    """KILLS=20 python -m pytest tests/test_scale_run.py -k killed: twenty times, each at a moment of its own."""
    out, moment = begun("gpt"), random.Random()
    how = asked("gpt", out, parallel=("fsdp", "ddp")[kill % 2])
    processes = start(2, *how)
    assert until((out / "log.jsonl").exists), ended(processes, 1)
    time.sleep(moment.uniform(0, 1.5))
    victim = moment.randrange(2)
    processes[victim].send_signal(signal.SIGKILL)
    found = ended(processes, 60)
    statuses = (found[victim].status, found[1 - victim].status)
    assert statuses in ((-signal.SIGKILL, 1), (-signal.SIGKILL, 0), (0, 0)), found  # 0: it came after the last step
    if found[1 - victim].status:
        assert "another process of this run has ended or cannot be reached" in found[1 - victim].said
        assert "Traceback" not in found[1 - victim].said
    others = (1, 4, 2)[kill % 3]  # and it continues with another number of them
    again = run(others, *how)
    assert [one.status for one in again] == [0] * others, again
    assert largest_difference(out, whole("gpt")) <= 1e-5


@pytest.mark.full
def test_a_full_disk_of_one_process_ends_all_and_what_was_there_is_whole(whole, tmp_path):
    """Two processes have shared the weights out; then one, who gathers them, has room again."""
    out = Path(shutil.copytree(whole("gpt", 2, "fsdp"), tmp_path / "run"))
    shutil.rmtree(folder.place_of(out, STEPS))
    how = asked("gpt", out, parallel="fsdp")
    found = run(2, *how, largest={1: 100_000})
    assert [one.status for one in found] == [1, 1], found
    assert "The snapshot of step 20 could not be written (" in found[0].said and "too large" in found[0].said
    assert "Traceback" not in "".join(one.said for one in found)
    assert folder.newest(out, silent) == STEPS - EVERY
    assert run(1, *how)[0].status == 0
    assert largest_difference(out, whole("gpt")) <= 1e-5 and not (out / ".snapshot.part").exists()


def test_weights_that_find_no_room_are_told_in_words(copied):
    (copied / "model.safetensors").unlink()
    [found] = run(1, *asked("gpt", copied), largest={0: 100_000})
    assert found.status == 1 and "Traceback" not in found.said, found
    assert "model.safetensors could not be written (" in found.said


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"batch": 2}, "2 processes cannot take equal shares of them: start 1, or choose another --micro"),
        ({"data": "/no/such/file"}, "neither plays, hub:name nor a text file"),
        ({"lr": "1e30", "save_every": 9}, "Stopped: step 2 has loss nan and gradient norm nan."),
    ],
)
def test_what_cannot_be_trained_is_said_by_one_process(begun, how, sentence):
    found = run(2, *asked("gpt", begun("gpt"), **how))
    assert [one.status for one in found] == [1, 1], found
    assert sum(sentence in one.said for one in found) == 1, found
    assert "Traceback" not in "".join(one.said for one in found)


def test_an_address_in_use_is_told(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port := free_port()))
        taken.listen()
        [found] = ended(start(2, *asked("gpt", tmp_path), port=port, ranks=[0]), 60)
    assert found.status == 1
    assert f"The 2 processes could not meet at 127.0.0.1:{port}" in found.said and "Traceback" not in found.said


SLOW_DATA = """
import sys, time
from course_lib.workshop.scale import __main__ as command
from course_lib.workshop.scale import corpus

def prepare(config, say):
    say("making")
    time.sleep(100)

corpus.prepare = prepare
sys.exit(command.main(sys.argv[1:]))
"""


def test_an_interrupt_while_data_are_made_ends_all_at_once(tmp_path):
    processes = start(2, *asked("gpt", tmp_path), command=SLOW_DATA)
    assert until(lambda: processes[0].said == "making\n"), ended(processes, 1)
    for process in processes:
        process.send_signal(signal.SIGINT)
    found = ended(processes, 30)
    assert [one.status for one in found] == [128 + signal.SIGINT] * 2, found
    said = "".join(one.said for one in found)
    assert said.count("Stopped at once") == 1 and "Traceback" not in said


def test_too_many_processes_for_the_gpus_are_told(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("course_lib.workshop.scale.processes.pick_device", lambda: torch.device("cuda"))
    monkeypatch.setenv("WORLD_SIZE", "4")
    gpus = torch.cuda.device_count()
    if gpus < 4:
        assert main(asked("gpt", tmp_path)) == 1
        assert f"4 processes find {gpus} GPUs on this machine" in capsys.readouterr().err


def test_two_trainings_in_one_folder_are_one_too_many(tmp_path, capsys):
    with folder.alone(tmp_path):
        assert main(asked("gpt", tmp_path)) == 1
    assert f"Another training writes to {tmp_path}" in capsys.readouterr().err
    with folder.alone(tmp_path):
        pass


def test_a_run_that_has_taken_no_step_may_be_asked_for_anew(tmp_path, capsys):
    short, out = tmp_path / "short.txt", tmp_path / "run"
    short.write_text("To be, or not to be, that is the question. " * 30)
    assert main(asked("gpt", out, data=short, tokens=2000)) == 1
    assert "A row needs" in capsys.readouterr().err
    assert main(asked("vit", out, steps=0)) == 0  # the data alone
    assert "Making the data of digits" in capsys.readouterr().out
    assert not list(out.glob("*.safetensors"))
    assert main(asked("vit", out, steps=2)) == 0
    assert "Making" not in capsys.readouterr().out
    assert main(asked("vit", out, steps=3)) == 1
    assert "holds a run with other settings: steps was 2 and is 3" in capsys.readouterr().err


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def zero(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100] + bytes(100))


def garble(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


@pytest.mark.parametrize("name", ["*.safetensors", "SHA256SUMS"])
@pytest.mark.parametrize("damage", [cut, zero, garble, Path.unlink])
def test_a_snapshot_that_is_not_whole_is_passed_over(copied, name, damage):
    place = folder.place_of(copied, STEPS)
    damage(next(place.glob(name)))
    said = []
    assert folder.newest(copied, said.append) == STEPS - EVERY
    assert said == [f"{place} is damaged or incomplete, and is passed over."]


def test_a_run_continues_from_the_older_snapshot_where_the_newest_is_damaged(whole, copied, capsys):
    garble(next(folder.place_of(copied, STEPS).glob("*.safetensors")))
    assert main(asked("gpt", copied)) == 0
    assert f"Continues after step {STEPS - EVERY}." in capsys.readouterr().out
    assert largest_difference(copied, whole("gpt")) == 0


class Bomb:
    def __reduce__(self):
        return os._exit, (13,)


def test_no_file_of_a_run_is_read_in_a_way_that_can_run_code(copied, monkeypatch):
    """Pickles lie wherever PyTorch could look for one, and nothing that could read them is called."""
    place = folder.place_of(copied, STEPS)
    assert {path.suffix for path in place.iterdir()} == {".safetensors", ""}
    for name in (".metadata", "__0_0.distcp", "contents.pt"):
        (place / name).write_bytes(pickle.dumps(Bomb()))
    for reader in ("pickle.load", "pickle.Unpickler", "torch.load"):
        monkeypatch.setattr(reader, lambda *_, reader=reader, **__: pytest.fail(f"{reader} was called"))
    assert main(asked("gpt", copied)) == 0


def new_model(**sizes) -> tuple:
    model = tasks.vit("tiny", 8, sizes.get("patch", 2), 10, 1)
    return model, torch.optim.AdamW(model.parameters())


def test_a_snapshot_of_another_model_changes_nothing(tmp_path):
    """Other settings are refused before; this is what a mixed-up folder, or another edition of a model, gives."""
    folder.save(tmp_path, 1, *new_model(), ALONE, keep=2)
    model, optimiser = new_model(patch=4)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(ValueError, match="belongs to another model"):
        folder.load(tmp_path, 1, model, optimiser)
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(weight, before[name])


def test_only_snapshots_are_counted_and_removed(tmp_path):
    """What comes after a damaged snapshot goes when its step is taken again; what others put there stays."""
    others = ("step-00000004.bak", "step-00000004 copy", "step-4", "step-notes")
    for name in ("step-00000012", "step-00000004", "step-123456789", *others):
        (tmp_path / name).mkdir()
    (tmp_path / "step-00000020").touch()
    assert list(folder.snapshots_in(tmp_path)) == [4, 12, 123_456_789]
    folder.save(tmp_path, 47, *new_model(), ALONE, keep=2)
    assert list(folder.snapshots_in(tmp_path)) == [12, 47] and folder.newest(tmp_path, silent) == 47
    assert all((tmp_path / name).exists() for name in (*others, "step-00000020"))
    with pytest.raises(OSError, match=r"step 20 could not be written \(.*Not a directory.*: make room, or put that"):
        folder.save(tmp_path, 20, *new_model(), ALONE, keep=2)


def with_dropout(make, *sizes):
    model = make(*sizes)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.3
    return model


WITH_DROPOUT = """
import sys
from functools import partial
from course_lib.workshop.scale import __main__ as command
from course_lib.workshop.scale import tasks
from test_scale_run import with_dropout

tasks.gpt = partial(with_dropout, tasks.gpt)
sys.exit(command.main(sys.argv[1:]))
"""


def test_dropout_follows_from_the_place_of_a_piece(whole, begun, monkeypatch):
    one, two = begun("gpt", "one"), begun("gpt", "two")
    monkeypatch.setattr(tasks, "gpt", partial(with_dropout, tasks.gpt))
    assert main(asked("gpt", one, steps=10)) == 0
    found = run(2, *asked("gpt", two, steps=10), command=WITH_DROPOUT)
    assert [one.status for one in found] == [0, 0], found
    assert largest_difference(two, one, 10) <= 1e-5
    assert abs(losses(one)[1] - losses(whole("gpt"))[1]) > 1e-4


@pytest.mark.full
def test_muon_steps_whole_matrices_where_they_are_shared_out(begun):
    one, two = begun("gpt", "one"), begun("gpt", "two")
    how = {"optimiser": "muon", "save_every": 10, "parallel": "fsdp"}
    found = run(1, *asked("gpt", one, **how)) + run(2, *asked("gpt", two, **how))
    assert [one.status for one in found] == [0] * 3, found
    assert largest_difference(two, one) <= 1e-5
    shutil.rmtree(folder.place_of(two, STEPS))  # back to step 10, and on by one process
    assert run(1, *asked("gpt", two, **how))[0].status == 0
    assert largest_difference(two, one) <= 1e-5


@pytest.mark.full
def test_recomputing_changes_nothing(whole, begun):
    out = begun("gpt")
    found = run(2, *asked("gpt", out, parallel="fsdp"), "--recompute")
    assert [one.status for one in found] == [0, 0], found
    assert largest_difference(out, whole("gpt")) <= 1e-5


COMPILED = """
import sys
from functools import partial
import torch
torch.compile = partial(torch.compile, backend="aot_eager")  # needs no compiler
from course_lib.workshop.scale import __main__ as command
sys.exit(command.main(sys.argv[1:]))
"""


@pytest.mark.full
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_compiling_and_recomputing_agree(whole, begun, parallel):
    out = begun("gpt")
    how = asked("gpt", out, parallel=parallel, steps=2, warmup=2)
    found = run(2, *how, "--compile", "--recompute", command=COMPILED)
    assert [one.status for one in found] == [0, 0], found
    reference = losses(whole("gpt"))  # of more steps, but while the rate rises those are the same
    assert max(abs(loss - reference[step]) for step, loss in losses(out).items()) <= 1e-5


@pytest.mark.full
def test_without_a_compiler_it_is_said(begun):
    none = "import torch._inductor.config as config; config.cpp.cxx = (None, '/nonexistent')\n"
    without = none + COMPILED.replace("torch.compile =", "other =")
    [found] = run(1, *asked("gpt", begun("gpt")), "--compile", command=without)
    assert found.status == 1 and "Train without --compile" in found.said and "Traceback" not in found.said, found


@pytest.mark.parametrize("parallel", [pytest.param("ddp", marks=pytest.mark.full), "fsdp"])
def test_half_precision_learns_as_well(whole, begun, parallel):
    out = begun("gpt")
    n = {"ddp": 1, "fsdp": 2}[parallel]
    found = run(n, *asked("gpt", out, parallel=parallel, precision="bf16"))
    assert [one.status for one in found] == [0] * n, found
    ours, theirs = (list(losses(place).values()) for place in (out, whole("gpt")))
    assert ours != theirs
    assert abs(sum(ours[-10:]) - sum(theirs[-10:])) / 10 <= 0.02  # of about 6.0; bf16 tells 1 from 1.008, not from less


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
        [*command, "course_lib.workshop.scale", *asked("vit", out)],
        env=os.environ | ONLY_HERE | alone,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as made:
        places = listening(psutil.Process(made.pid))
        told = made.communicate(timeout=240)[1]
    assert made.returncode == 0, told
    assert largest_difference(out, whole("vit")) <= 1e-5
    if way != "--standalone":
        assert places == {"127.0.0.1"}


def until(true) -> bool:
    """Whether `true()` comes true within a minute."""
    deadline = time.monotonic() + 60
    while not (reached := true()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return reached
