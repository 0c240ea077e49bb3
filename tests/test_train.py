"""The loop: device and seed from the environment, history, interrupt, readings of the device, and errors in words."""

import itertools
import math
import signal
import traceback
from collections import Counter, namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.train import History, cosine, fit, pick_device, seed_everything, to_device

CPU = torch.device("cpu")


class Noisy(nn.Module):
    """Dropout draws from the global generator, so a resume that forgets it cannot be exact."""

    def __init__(self, d=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 8), nn.Dropout(0.5), nn.Linear(8, 1))

    def forward(self, x):
        return self.net(x)


def squared_error(model, batch):
    x, y = batch
    return (model(x) - y).square().mean()


def drawn_batches():
    while True:
        x = torch.randn(16, 4)
        yield x, x.sum(1, keepdim=True)


def fixed_batches(n=1):
    g = torch.Generator().manual_seed(3)
    xs = [torch.randn(16, 4, generator=g) for _ in range(n)]
    return itertools.cycle([(x, x.sum(1, keepdim=True)) for x in xs])


def run(steps, **options):
    seed_everything(5)
    model = Noisy()
    history = fit(model, drawn_batches(), squared_error, device=CPU, progress=False, **({"steps": steps} | options))
    return model, history


@pytest.mark.slow
def test_learns_one_batch_by_heart():
    seed_everything(0)
    model = nn.Linear(4, 1)
    history = fit(model, fixed_batches(), squared_error, steps=400, lr=0.05, device=CPU, progress=False)
    assert history.loss[-1] < 1e-3 < history.loss[0]
    assert len(history.loss) == len(history.grad_norm) == len(history.lr) == 400 and history.seconds > 0


def test_a_history_is_shown_in_one_line():
    assert str(run(3)[1]).startswith("History of 3 steps, the last with a loss of ")
    assert repr(History(loss=[1.0, 0.1234567])) == "History of 2 steps, the last with a loss of 0.1235"
    assert repr(History(loss=[2.0], interrupted=True)) == "History of 1 step, the last with a loss of 2, interrupted"
    assert repr(History()) == "History of 0 steps"


def test_same_seed_same_run_other_seed_another():
    assert run(5)[1].loss == run(5)[1].loss
    seed_everything(6)
    assert fit(Noisy(), drawn_batches(), squared_error, steps=5, device=CPU, progress=False).loss != run(5)[1].loss


@pytest.mark.parametrize("when", ["batch", "loss", "watch", "step"])
def test_an_interrupt_ends_the_run_between_two_steps_and_keeps_model_and_history(when, capsys):
    model, events = nn.Linear(4, 1), []

    def at(event):
        events.append(event)
        if event == when and events.count(event) == 3:
            signal.raise_signal(signal.SIGINT)

    def batches():
        for batch in drawn_batches():
            at("batch")
            yield batch

    def loss_fn(model, batch):
        at("loss")
        return squared_error(model, batch)

    remove = register_optimizer_step_post_hook(lambda *_: at("step"))
    try:
        options = {"watch": lambda step: at("watch"), "watch_every": 1, "device": CPU, "progress": False}
        history = fit(model, batches(), loss_fn, steps=10, **options)
    finally:
        remove.remove()
    steps = 2 if when == "watch" else 3  # the first look comes before the first step
    assert history.interrupted and len(history.loss) == steps and not model.training
    assert [events.count(event) for event in ("batch", "loss", "watch", "step")] == [steps, steps, steps + 1, steps]
    assert f"Stopped after {steps} of 10 steps" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_raises_at_once_with_the_history():
    def loss_fn(model, batch):
        if model.training and len(seen) == 2:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        seen.append(batch)
        return squared_error(model, batch)

    model, seen = nn.Linear(4, 1), []
    with pytest.raises(KeyboardInterrupt) as caught:
        fit(model, drawn_batches(), loss_fn, steps=10, device=CPU, progress=False)
    assert len(caught.value.history.loss) == len(seen) == 2 and not model.training
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_program_with_its_own_way_with_interrupts_keeps_it():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        history = fit(nn.Linear(4, 1), interrupting(drawn_batches(), 3), squared_error, steps=5, device=CPU)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [1] and len(history.loss) == 5 and not history.interrupted


def interrupting(batches, number):
    for drawn, batch in enumerate(batches, 1):
        if drawn == number:
            signal.raise_signal(signal.SIGINT)
        yield batch


@pytest.fixture(params=["free", "waits"])
def reading(request, monkeypatch):
    """Both ways to read a loss: step by step as on the CPU, and in blocks as from a device."""
    monkeypatch.setattr("course_lib.train.loop._reading_is_free", lambda device: request.param == "free")
    return request.param


def spoilt(number, what, poison):
    """A loss function that spoils its call of this number: its loss, or its gradient alone."""
    calls = itertools.count()

    def loss_fn(model, batch):
        loss = squared_error(model, batch)
        if next(calls) != number:
            return loss
        if what == "loss":
            return loss * poison
        weight = model.net[0].weight
        return loss + (weight - weight.detach()).abs().sqrt().sum()  # worth 0, and its slope is infinite or NaN

    return loss_fn


@pytest.mark.slow
@pytest.mark.parametrize(("what", "poison"), [("loss", math.nan), ("loss", math.inf), ("gradient", None)])
@pytest.mark.parametrize("number", [0, 1, 99, 100, 137, 149])
def test_a_step_that_is_not_finite_stops_in_words_with_the_weights_before_it(reading, what, poison, number):
    before, _ = run(number, schedule=None)
    seed_everything(5)
    model = Noisy()
    with pytest.raises(FloatingPointError, match=rf"Step {number}: loss .*gradient norm .*learning rate") as caught:
        loss_fn = spoilt(number, what, poison)
        fit(model, drawn_batches(), loss_fn, steps=150, schedule=None, device=CPU, progress=False)
    assert len(caught.value.history.loss) == number and not model.training
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before.parameters(), strict=True))


@pytest.mark.slow
def test_reading_in_blocks_sees_and_does_what_reading_each_step_does(monkeypatch):
    model, history = run(230)
    monkeypatch.setattr("course_lib.train.loop._reading_is_free", lambda device: False)
    other, same = run(230)
    assert (same.loss, same.grad_norm, same.lr) == (history.loss, history.grad_norm, history.lr)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True))


class Reads(TorchDispatchMode):
    """Counts the numbers that the course's own lines take out of a tensor, by line."""

    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default:
            last = traceback.extract_stack()[-2:-8:-1]
            ours = [line for line in last if "course_lib" in line.filename]
            self.seen.update(f"{line.name}: {line.line}" for line in ours[:1])
        return func(*args, **(kwargs or {}))


@pytest.mark.slow
def test_no_step_reads_a_number_from_a_device_that_must_be_waited_for(monkeypatch):
    looks, read = [], []
    with Reads() as free:
        run(30)
    assert sum(free.seen.values()) == 60  # the count itself works: loss and norm of each step
    monkeypatch.setattr("course_lib.train.loop._reading_is_free", lambda device: False)
    take = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: read.append(len(tensor)) or take(tensor))
    with Reads() as waits:
        run(250, watch=looks.append, watch_every=80)
    assert not waits.seen
    assert read == [80, 80, 80, 80, 80, 80, 10, 10]  # in blocks: losses and norms, when there is a look and at the end
    read.clear()
    run(250)
    assert read == [100, 100, 100, 100, 50, 50]


def test_whatever_stops_a_run_carries_the_history_and_the_model_is_left_in_eval_mode(reading):
    def raising(error):
        yield from itertools.islice(drawn_batches(), 2)
        raise error

    def watch(step):
        if step == 2:
            raise LookupError("watch")

    faults = [
        (ValueError, "ran out after 2 of 5", {"batches": itertools.islice(drawn_batches(), 2)}),
        (OSError, "bad file", {"batches": raising(OSError("bad file"))}),
        (LookupError, "watch", {"batches": drawn_batches(), "watch": watch, "watch_every": 1}),
        (
            ZeroDivisionError,
            "zero",
            {"batches": drawn_batches(), "loss_fn": lambda m, b: squared_error(m, b) * next(k)},
        ),
    ]
    k = (1 / (2 - n) for n in itertools.count())
    for kind, words, options in faults:
        model = nn.Linear(4, 1)
        with pytest.raises(kind, match=words) as caught:
            fit(model, **({"loss_fn": squared_error, "steps": 5, "device": CPU, "progress": False} | options))
        history = caught.value.history
        assert len(history.loss) == len(history.lr) == 2 and history.seconds > 0 and not model.training


@pytest.mark.parametrize(("options", "words"), [({"clip": -1.0}, "clip is -1"), ({"clip": math.nan}, "clip is nan")])
def test_a_bound_below_nothing_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        run(1, **options)
    with pytest.raises(ValueError, match="steps is -1"):
        run(-1)


def test_a_clip_of_none_or_zero_leaves_the_gradient():
    free, same = run(5, clip=None)[1], run(5, clip=0)[1]
    assert free.loss == same.loss != run(5, clip=1e-6, lr=0.1)[1].loss


def test_clip_bounds_the_step_and_the_history_keeps_the_true_norm():
    x, y = torch.full((4, 4), 100.0), torch.zeros(4, 1)
    model = nn.Linear(4, 1)
    history = fit(model, itertools.cycle([(x, y)]), squared_error, steps=1, clip=1.0, device=CPU, progress=False)
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    assert history.grad_norm[0] > 100 and norm <= 1.0 + 1e-5


def test_watch_sees_the_first_the_chosen_and_the_last_step():
    model, modes = nn.Linear(4, 1), []

    def watch(step):
        modes.append(model.training)
        return step * 10

    history = fit(
        model, drawn_batches(), squared_error, steps=7, watch=watch, watch_every=3, device=CPU, progress=False
    )
    assert history.watched == [(0, 0), (3, 30), (6, 60), (7, 70)] and not any(modes)


def test_cosine_warms_up_and_falls_to_a_tenth():
    factors = [cosine(step, 100, warmup=10) for step in range(101)]
    assert factors[0] < 0.1 and abs(max(factors) - 1) < 1e-12 and factors.index(max(factors)) == 10
    assert abs(factors[100] - 0.1) < 1e-12 and factors[10:] == sorted(factors[10:], reverse=True)


Pair = namedtuple("Pair", "x lengths")


@dataclass
class Other:
    x: torch.Tensor


def test_to_device_keeps_the_form_of_a_batch():
    batch = {"x": torch.zeros(2), "parts": (torch.ones(1), ["a", torch.ones(3)]), "name": "n"}
    moved = to_device(batch, torch.device("meta"))
    assert moved["x"].is_meta and moved["parts"][0].is_meta and moved["parts"][1][1].is_meta and moved["name"] == "n"
    pair = to_device(Pair(torch.zeros(2), [2]), torch.device("meta"))
    assert isinstance(pair, Pair) and pair.x.is_meta and pair.lengths == [2]
    other = Other(torch.zeros(2))
    assert to_device(other, torch.device("meta")) is other


def test_to_device_moves_a_packed_sequence():
    packed = pack_sequence([torch.ones(1, 2), torch.zeros(3, 2)], enforce_sorted=False)
    moved = to_device((packed, 1), torch.device("meta"))[0]
    assert type(moved) is type(packed) and moved.data.is_meta and not moved.batch_sizes.is_meta


@pytest.mark.parametrize("wrong", ["gpu", "cpu0", "cuda:x", "cuda:", "cuda:99", "cpu:1"])
def test_a_wrong_device_is_refused_in_words(monkeypatch, wrong):
    monkeypatch.setenv("COURSE_DEVICE", wrong)
    with pytest.raises(ValueError, match=f"COURSE_DEVICE='{wrong}'.*unset it"):
        pick_device()


def test_device_from_the_environment(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE", " CPU ")
    assert pick_device() == CPU
    monkeypatch.delenv("COURSE_DEVICE")
    assert pick_device().type in ("cuda", "mps", "cpu")


def test_seed_from_the_environment(monkeypatch):
    monkeypatch.setenv("COURSE_SEED", "7")
    assert seed_everything() == 7
    first = torch.rand(3)
    assert seed_everything(7) == 7 and torch.equal(torch.rand(3), first)
    monkeypatch.delenv("COURSE_SEED")
    assert seed_everything() == 0
    for wrong in ("seven", "-1", "1.5", str(2**32)):
        monkeypatch.setenv("COURSE_SEED", wrong)
        with pytest.raises(ValueError, match="COURSE_SEED"):
            seed_everything()


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_trains_on_cuda_in_bf16_and_resumes_there(tmp_path):
    seed_everything(0)
    model = nn.Linear(4, 1)
    history = fit(
        model,
        fixed_batches(),
        squared_error,
        steps=300,
        lr=0.05,
        device=torch.device("cuda"),
        progress=False,
        checkpoint=tmp_path / "run",
    )
    assert history.loss[-1] < 1e-2 and next(model.parameters()).is_cuda
