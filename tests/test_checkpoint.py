"""A run on disk: broken off at any moment it goes on bit for bit, and what is no such run is refused in words."""

import itertools
import json
import os
import random
import resource
import signal
import sys
from contextlib import nullcontext
from dataclasses import asdict

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from course_lib.train import History, fit, seed_everything
from course_lib.train.batches import Batches
from course_lib.train.checkpoint import load_run, save_run, storable

CPU = torch.device("cpu")
STEPS = 12


class Everything(nn.Module):
    """Changes, in a step, all that a model can: weights, kept and unkept buffers, the random generator."""

    def __init__(self, d=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
        self.unused = nn.Parameter(torch.zeros(3))
        self.register_buffer("calls", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.calls += self.training
        return self.net(x) + 0.01 * self.calls


class Carried:
    """A loss that changes its state in place, and draws from every generator."""

    def __init__(self):
        self.total, self.calls, self.last = torch.zeros(3), 0, None

    def __call__(self, model, batch):
        x, y = batch
        self.total += torch.rand(3) + random.random() + np.random.rand()
        self.calls += 1
        self.last = x[0]
        return ((model(x) - y) * (1 + 0.01 * self.total.mean() + 0.01 * self.calls)).square().mean()

    def state_dict(self):
        return {"total": self.total, "calls": self.calls, "last": self.last}

    def load_state_dict(self, saved):
        self.total, self.calls, self.last = saved["total"], saved["calls"], saved["last"]


def batches():
    generator = torch.Generator().manual_seed(3)
    while True:
        x = torch.randn(16, 4, generator=generator)
        yield x, x.sum(1, keepdim=True)


def squared_error(model, batch):
    x, y = batch
    return (model(x) - y).square().mean()


class Run:
    """A run that uses everything; `from_first_look` is called as soon as it watches its start."""

    def __init__(self, from_first_look=lambda: None, **options):
        seed_everything(5)
        self.model, self.loss = Everything(), Carried()

        def watch(step):
            if step == 0:
                from_first_look()
            return [step, torch.rand(()).item() + random.random(), {"calls": self.loss.calls}]

        kept = {"watch": watch, "watch_every": 4, "checkpoint_every": 5, "device": CPU, "progress": False}
        self.history = fit(self.model, batches(), self.loss, **({"steps": STEPS} | kept | options))
        self.drawn = torch.rand(3).tolist(), random.random(), np.random.rand()

    def state(self):
        """All that this run is, but for its wall time."""
        seen = asdict(self.history) | {"seconds": 0}
        tensors = self.model.state_dict() | self.loss.state_dict()
        return (
            seen,
            self.drawn,
            self.model.calls.item(),
            {name: torch.as_tensor(t).tolist() for name, t in tensors.items()},
        )


@pytest.fixture(params=["free", "waits"])
def reading(request, monkeypatch):
    """Both ways to read a loss: step by step as on the CPU, and in blocks as from a device."""
    monkeypatch.setattr("course_lib.train.loop._reading_is_free", lambda device: request.param == "free")


class Tripwire:
    """Counts the function calls that Python makes; interrupts at one of them, wherever that is."""

    def __init__(self, number=None):
        self.count, self.number = 0, number

    def stretch(self):
        sys.setprofile(self)

    def __call__(self, frame, event, arg):
        self.count += 1
        if self.count == self.number:
            signal.raise_signal(signal.SIGINT)


def tripped(number, file):
    """Break a run off at one moment; the interrupt comes out only where `fit` is about to return."""
    wire = Tripwire(number)
    try:
        Run(wire.stretch, checkpoint=file)
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return wire.count


@pytest.mark.slow
def test_a_run_broken_off_at_any_moment_goes_on_as_if_it_had_not_been(tmp_path, reading, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda number: None)  # it is what this test would wait for
    whole = Run().state()
    calls = tripped(None, tmp_path / "counted")
    assert Run(checkpoint=tmp_path / "counted").state()[0] == whole[0]
    stopped_at = set()
    for number in random.Random(0).sample(range(1, calls), 15):  # given up are other moments of the same steps
        file = tmp_path / f"{number}"
        tripped(number, file)
        stopped_at.add(len(load_run(file)[0].loss))
        assert Run(checkpoint=file).state() == whole, f"interrupted at call {number} of {calls}"
    assert len(stopped_at) > STEPS / 4


def test_a_run_stopped_again_and_again_goes_on_exactly(tmp_path):
    file = tmp_path / "run"

    def stopping_at(number):
        for drawn, batch in enumerate(batches()):
            if drawn == number:
                signal.raise_signal(signal.SIGINT)
            yield batch

    for number in (0, 0, 3, 3, 8):
        seed_everything(5)
        options = {"checkpoint": file, "device": CPU, "progress": False}
        stopped = fit(Everything(), stopping_at(number), Carried(), steps=STEPS, **options)
        assert stopped.interrupted and 0 < len(stopped.loss) < STEPS
    assert Run(checkpoint=file, watch=None).state() == Run(watch=None).state()


def test_a_finished_run_opens_where_nothing_can_be_written(tmp_path, monkeypatch):
    whole = Run(checkpoint=tmp_path / "run")
    monkeypatch.setattr("course_lib.train.loop.save_run", None)
    again = Run(checkpoint=tmp_path / "run")
    assert again.state() == whole.state()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lr": 1e-2}, "step 0 the learning rate was 0.001 and is 0.01"),
        ({"schedule": None}, "step 1 the learning rate was 0.0009.* and is 0.001"),
        ({"steps": STEPS - 1}, "has 12 steps, and 11 are asked for"),
        ({"steps": STEPS + 1}, "step 1 the learning rate was"),
        ({"weight_decay": 0.1}, "weight_decay was 0.0 and is 0.1"),
        ({"clip": None}, "clip was 1.0 and is None"),
        ({"optimiser": lambda model: torch.optim.SGD(model.parameters())}, "optimiser was AdamW and is SGD"),
    ],
)
def test_a_run_asked_for_with_other_settings_says_which(tmp_path, options, words):
    Run(checkpoint=tmp_path / "run")
    old = (tmp_path / "run").read_bytes()
    with pytest.raises(ValueError, match=f"other settings: .*{words}.*Ask for it as it was trained"):
        Run(checkpoint=tmp_path / "run", **options)
    assert (tmp_path / "run").read_bytes() == old


def test_a_finished_run_at_one_learning_rate_can_be_made_longer(tmp_path):
    options = {"schedule": None, "watch": None}
    Run(checkpoint=tmp_path / "run", **options)
    longer = Run(checkpoint=tmp_path / "run", steps=STEPS + 5, **options)
    assert longer.state() == Run(steps=STEPS + 5, **options).state()


def test_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    Run(checkpoint="~/runs/one")
    assert Run(checkpoint="~/runs/one").history.loss and (tmp_path / "runs" / "one").is_file()


def test_moments_go_to_the_weights_of_their_name(tmp_path):
    run = Run()
    names = {name: weight for name, weight in run.model.named_parameters()}
    optimiser = torch.optim.AdamW(names.values())
    squared_error(run.model.train(), next(batches())).backward()
    optimiser.step()
    save_run(tmp_path / "run", run.model, optimiser, squared_error, History(), {})
    other = Everything()
    turned = torch.optim.AdamW([weight for _, weight in reversed(list(other.named_parameters()))])
    load_run(tmp_path / "run")[2](other, turned, squared_error)
    for name, weight in other.named_parameters():
        mine, theirs = optimiser.state.get(names[name], {}), turned.state.get(weight, {})
        assert mine.keys() == theirs.keys() and all(torch.equal(mine[slot], theirs[slot]) for slot in mine)
        assert bool(mine) == (name != "unused")


# --- what is refused


def parts_of(file):
    with safe_open(file, framework="pt") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}, opened.metadata()


def damage(file, tensors=None, drop=(), header=None, run=None, names=False):
    """Write the run at `file` anew with some tensors set or dropped, and some of its header; with the list of names.

    Without its sum, as a file from before there were sums, or of another hand.
    """
    kept, meta = parts_of(file)
    told = json.loads(meta["run"]) | (run or {})
    if names:
        told["tensors"] = [name for name in told["tensors"] if name not in drop]
    meta = meta | {"run": json.dumps(told)} | (header or {})
    del meta["sha256"]  # else it would be all that is seen
    save_file({name: t for name, t in (kept | (tensors or {})).items() if name not in drop}, file, metadata=meta)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"header": {"format": "unrolled run 1"}}, "no training run of this course"),
        ({"header": {"run": "{"}}, "is damaged"),
        ({"header": {"run": "[]"}}, "is damaged"),
        ({"header": {"run": "[" * 100_000}}, "is damaged, its history cannot be read: delete it"),
        ({"run": {"history": {"loss": [1.0]}}}, "is damaged"),
        ({"run": {"history": {"loose": []}}}, "is damaged"),
        ({"run": {"python": []}}, "is damaged"),
        ({"run": {"numpy": ["MT19937", [1, 2], 0, 0, 0.0]}}, "is damaged"),
        ({"drop": ["random.cpu"]}, "is damaged"),
        ({"drop": ["model.net.0.weight"]}, "is damaged"),
        ({"drop": ["optimiser.exp_avg.net.0.weight"]}, "is damaged"),
        ({"drop": ["loss.total"]}, "is damaged"),
        ({"tensors": {"more": torch.zeros(1)}}, "is damaged"),
        ({"tensors": {"random.cpu": torch.zeros(7, dtype=torch.uint8)}}, "is damaged"),
        ({"tensors": {"random.cpu": torch.rand(5056)}}, "is damaged"),
        ({"drop": ["random.cpu"], "names": True}, "is damaged"),
        ({"tensors": {"optimiser.exp_avg.net.0.weight": torch.zeros(2)}}, "another model: exp_avg of net.0.weight"),
        ({"tensors": {"model.net.0.bias": torch.zeros(2)}}, "another model: net.0.bias"),
        ({"tensors": {"model.net.0.bias": torch.zeros(8, dtype=torch.float64)}}, "another model: net.0.bias"),
        ({"run": {"loss": {}}}, "another loss function"),
    ],
)
def test_a_damaged_run_is_refused_in_words_and_changes_nothing(tmp_path, change, words):
    Run(checkpoint=tmp_path / "run")
    damage(tmp_path / "run", **change)
    model, loss = Everything(), Carried()
    before, drawn = [t.clone() for t in model.state_dict().values()], torch.get_rng_state()
    with pytest.raises(ValueError, match=words):
        fit(model, batches(), loss, steps=STEPS, device=CPU, progress=False, checkpoint=tmp_path / "run")
    assert all(torch.equal(mine, old) for mine, old in zip(model.state_dict().values(), before, strict=True))
    assert torch.equal(torch.get_rng_state(), drawn)


def test_what_is_no_run_is_refused_in_words(tmp_path):
    noise, foreign, folder = tmp_path / "noise", tmp_path / "foreign", tmp_path / "folder"
    noise.write_bytes(b"\x00" * 40)
    save_file({"w": torch.zeros(2)}, foreign)
    folder.mkdir()
    for file, words in (
        (noise, "no readable checkpoint"),
        (folder, "no readable checkpoint"),
        (foreign, "no training run of this course"),
    ):
        with pytest.raises(ValueError, match=words):
            load_run(file)


@pytest.mark.parametrize("other", [Everything(5), nn.Linear(4, 1)])
def test_a_run_of_another_model_is_refused_and_changes_nothing(tmp_path, other):
    Run(checkpoint=tmp_path / "run")
    before = [p.clone() for p in other.parameters()]
    _, _, restore, _ = load_run(tmp_path / "run")
    with pytest.raises(ValueError, match="another model: .*net.0.weight"):
        restore(other, torch.optim.AdamW(other.parameters()), Carried())
    assert all(torch.equal(p, q) for p, q in zip(other.parameters(), before, strict=True))


def test_a_run_of_a_loss_with_a_state_is_refused_for_a_loss_without(tmp_path):
    Run(checkpoint=tmp_path / "run")
    _, _, restore, _ = load_run(tmp_path / "run")
    other = Everything()
    with pytest.raises(ValueError, match="another loss function"):
        restore(other, torch.optim.AdamW(other.parameters()), squared_error)


@pytest.mark.parametrize("seen", [torch.zeros(()), np.float32(1), (1, 2), {1: 2}, [{"a": {1, 2}}], 1j])
def test_a_look_that_a_checkpoint_cannot_keep_is_refused_when_it_is_first_seen(tmp_path, seen):
    with pytest.raises(ValueError, match=r"watch\(0\) returned .*cannot keep"):
        Run(checkpoint=tmp_path / "run", watch=lambda step: seen)
    assert Run(watch=lambda step: seen, steps=1).history.watched[0] == (0, seen)  # nothing has to be kept here
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seen", [None, True, 1, 0.1, np.float64(0.1), "é", [1, [2.5]], {"a": {"b": []}}])
def test_what_json_keeps_comes_back_as_it_was(seen):
    assert storable(seen) and json.loads(json.dumps(seen)) == seen


def test_a_state_that_is_no_tensor_is_refused_in_words(tmp_path):
    class Odd(Carried):
        def state_dict(self):
            return super().state_dict() | {"set": {1, 2}}

    with pytest.raises(ValueError, match=r"cannot keep loss\.set"):
        fit(Everything(), batches(), Odd(), steps=1, device=CPU, progress=False, checkpoint=tmp_path / "run")


def test_a_full_disk_is_told_with_the_history_and_leaves_the_old_run_whole(tmp_path):
    file, options = tmp_path / "run", {"schedule": None, "watch": None}
    Run(checkpoint=file, **options)
    old = file.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    model = Everything()
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(old) // 2, hard))  # no file may be larger
        with pytest.raises(OSError, match="could not be written .*What was there before is whole") as caught:
            fit(
                model, batches(), Carried(), steps=STEPS + 5, schedule=None, device=CPU, progress=False, checkpoint=file
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert len(caught.value.history.loss) > STEPS and not model.training
    assert file.read_bytes() == old and list(tmp_path.iterdir()) == [file]


class Twins(nn.Module):
    """Two names, and a view, for one buffer that no checkpoint of PyTorch keeps."""

    def __init__(self):
        super().__init__()
        self.net, count = nn.Linear(4, 1), torch.zeros(2)
        self.register_buffer("count", count, persistent=False)
        self.again, self.first = nn.Module(), count[0]
        self.again.register_buffer("count", count, persistent=False)

    def forward(self, x):
        self.again.count += self.training
        return self.net(x) * (1 + 0.1 * self.count.sum() + 0.1 * self.first)


def cut_in_two(make, file, loss=squared_error, **options):
    """The history of a run, and of the same run cut in two after 7 steps."""
    kept = {"device": CPU, "progress": False, "steps": STEPS} | options
    seed_everything(1)
    whole = fit(make(), batches(), loss, **kept)
    seed_everything(1)
    with pytest.raises(ValueError, match="ran out"):
        fit(make(), itertools.islice(batches(), 7), loss, checkpoint=file, checkpoint_every=7, **kept)
    return whole, fit(make(), batches(), loss, checkpoint=file, **kept)


def test_a_buffer_of_two_names_stays_one(tmp_path):
    whole, resumed = cut_in_two(Twins, tmp_path / "run")
    assert resumed.loss == whole.loss


@pytest.mark.parametrize("kind", [torch.optim.NAdam, torch.optim.ASGD, torch.optim.Adafactor])
def test_an_optimiser_with_slots_of_other_shapes_goes_on(tmp_path, kind):
    whole, resumed = cut_in_two(
        lambda: nn.Linear(4, 1), tmp_path / "run", optimiser=lambda model: kind(model.parameters())
    )
    assert resumed.loss == whole.loss


def test_weights_that_are_not_the_models_are_refused_before_the_first_step(tmp_path):
    extra, model = nn.Parameter(torch.ones(())), nn.Linear(4, 1)
    options = {"steps": 3, "device": CPU, "progress": False}
    options["optimiser"] = lambda model: torch.optim.AdamW([*model.parameters(), extra])
    with pytest.raises(ValueError, match="trains others too"):
        fit(model, batches(), squared_error, checkpoint=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()
    assert len(fit(model, batches(), squared_error, **options).loss) == 3


def test_other_options_of_the_optimiser_are_other_settings(tmp_path):
    def sgd(**options):
        return {"optimiser": lambda model: torch.optim.SGD(model.parameters(), **options), "schedule": None}

    Run(checkpoint=tmp_path / "run", **sgd(momentum=0.9))
    Run(checkpoint=tmp_path / "run", **sgd(momentum=0.9, foreach=False))
    with pytest.raises(ValueError, match="options was .*'momentum': 0.9.* and is .*'momentum': 0.1"):
        Run(checkpoint=tmp_path / "run", **sgd(momentum=0.1))


def test_numbers_of_numpy_and_of_pytorch_are_numbers(tmp_path):
    options = {"lr": np.float32(1e-3), "clip": np.float32(1), "weight_decay": np.float32(0.1)}
    schedule = lambda step, steps: torch.cos(torch.tensor(step / steps))  # noqa: E731
    first = Run(checkpoint=tmp_path / "run", schedule=schedule, **options)
    assert Run(checkpoint=tmp_path / "run", schedule=schedule, **options).history.loss == first.history.loss
    assert not storable(10**5000)


def test_an_error_that_takes_nothing_more_is_told_itself():
    class Frozen(Exception):
        def __setattr__(self, name, value):
            if name == "history":
                raise TypeError("frozen")
            super().__setattr__(name, value)

    def fails(model, batch):
        raise Frozen("mine")

    with pytest.raises(Frozen, match="mine"):
        fit(nn.Linear(4, 1), batches(), fails, steps=3, device=CPU, progress=False)


@pytest.mark.parametrize("where", ["last bytes", "a number in the middle", "the history"])
def test_a_file_that_was_overwritten_at_its_size_is_refused(tmp_path, where):
    file = tmp_path / "run"
    Run(checkpoint=file)
    whole = file.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    if where == "the history":
        at = whole.index(b'\\"lr\\": [0.001, ') + len(b'\\"lr\\": [0.001, 0.')
        changed = whole[:at] + (b"1" if whole[at : at + 1] != b"1" else b"2") + whole[at + 1 :]
    else:
        at = len(whole) - 4 if where == "last bytes" else (start + len(whole)) // 2
        changed = whole[:at] + bytes(byte ^ 1 for byte in whole[at : at + 4]) + whole[at + 4 :]
    file.write_bytes(changed)
    assert len(changed) == len(whole) and changed != whole
    with pytest.raises(ValueError, match="is damaged, it is not what was written: delete it, or name another"):
        Run(checkpoint=file, steps=STEPS + 1)
    assert file.read_bytes() == changed


def test_a_file_from_before_there_were_sums_is_read(tmp_path):
    file, whole = tmp_path / "run", Run().state()
    Run(checkpoint=file)
    damage(file)
    assert Run(checkpoint=file).state()[0] == whole[0]


# --- batches that draw from generators that others share, or from one that has moved on

ROWS = TensorDataset(torch.arange(24.0)[:, None], torch.zeros(24, 1))
OWN = torch.Generator()


def again_and_again(loader):
    while True:
        yield from loader


def windows():
    while True:
        yield [part[torch.randint(24, (2,))] for part in ROWS.tensors]


def noisy():
    while True:
        places = np.random.permutation(24)[:2]
        yield [part[places] * (1 + random.gauss(0, 1)) for part in ROWS.tensors]


DRAWING = {
    "shuffled": lambda: DataLoader(ROWS, 2, shuffle=True),
    "in order": lambda: DataLoader(ROWS, 2),
    "by a sampler": lambda: DataLoader(ROWS, 2, sampler=RandomSampler(ROWS)),
    "of its own": lambda: DataLoader(ROWS, 2, shuffle=True, generator=OWN),
    "of its sampler's own": lambda: DataLoader(ROWS, 2, sampler=RandomSampler(ROWS, generator=OWN)),
    "epoch by epoch": lambda: again_and_again(DataLoader(ROWS, 8, shuffle=True)),
    "a cycle": lambda: itertools.cycle(DataLoader(ROWS, 8, shuffle=True)),
    "each from PyTorch": windows,
    "each from NumPy and Python": noisy,
}


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("kind", DRAWING)
def test_batches_that_draw_draw_the_same_again(tmp_path, kind, dropout):
    """fit, Batches: whatever generator they draw from, wherever the shared ones stand when the run goes on."""

    def run(seed, steps_taken, **options):
        seed_everything(1)
        model, seen = nn.Sequential(nn.Linear(1, 3), nn.Dropout(dropout), nn.Linear(3, 1)), []
        seed_everything(seed)

        def loss_fn(model, batch):
            seen.append(batch[0].flatten().tolist())
            if len(seen) > steps_taken:
                raise InterruptedError
            return squared_error(model, batch) / 100

        with nullcontext() if steps_taken >= 11 else pytest.raises(InterruptedError):
            fit(model, DRAWING[kind](), loss_fn, steps=11, device=CPU, progress=False, checkpoint_every=3, **options)
        return seen, [weight.tolist() for weight in model.parameters()]

    OWN.manual_seed(2)
    seen, weights = run(5, 11)
    OWN.manual_seed(2)
    assert run(5, 11, checkpoint=tmp_path / "whole") == (seen, weights)  # noting where they stood moves no generator
    OWN.manual_seed(2)
    run(5, 7, checkpoint=tmp_path / "run")
    assert run(6, 11, checkpoint=tmp_path / "run") == (seen[6:], weights)
    assert len({tuple(rows) for rows in seen}) > 2


def test_a_state_is_noted_only_where_others_drew_in_between():
    """Batches: once for all batches that draw one after the other, and again behind somebody else's draw."""
    batches = Batches(windows(), {})
    for _ in range(3):
        next(batches)
    assert batches.drawn.keys() == {"1.torch"}  # 0 is their beginning
    torch.rand(1)
    next(batches)
    assert batches.drawn.keys() == {"1.torch", "4.torch"}
    assert Batches(iter([1, 2]), {}).drawn == {}


def test_a_generator_with_a_number_in_hand_is_put_back_whole():
    """Batches: NumPy and Python draw normal numbers in pairs, and keep the second for later."""
    random.gauss(0, 1), np.random.randn()
    drawn = Batches(noisy(), {})
    first = [next(drawn)[0].tolist() for _ in range(2)]
    seed_everything(9)
    again = Batches(noisy(), drawn.drawn)
    assert [next(again)[0].tolist() for _ in range(2)] == first
