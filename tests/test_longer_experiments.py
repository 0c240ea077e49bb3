"""experiments/longer.py, its controls and needle: twins that read otherwise, bits by hand, seconds, plain numbers."""

import json
import math
import random
from functools import cache, partial
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from course_lib.attention.positions import rotate
from course_lib.data import plays
from course_lib.data.key_values import key_values
from course_lib.recurrent.language_model import TruncatedBPTT, bits_per_character
from course_lib.train import fit
from course_lib.workshop.experiments import Experiment
from course_lib.workshop.experiments.longer import controls
from course_lib.workshop.experiments.longer import core as experiments
from course_lib.workshop.experiments.longer import needle as needles
from course_lib.workshop.recipes import longer as recipe

LETTERS = {"train": 9_001, "validation": 500, "test": 3_000}
ROWS, LENGTH = 3, 6 * 64  # rows of test plays, and characters of each: six segments, four of them count
LOOKS = {"full": "MultiHead", "window": "LocalHeads", "buckets": "HashedHeads", "linear": "LinearHeads"}
ALONE, AFTER = "64 alone", "64 after 64"
NEAR, LONG, HALVED, LARGER = (
    f"{AFTER}, no farther than 64",
    "128 alone",
    "128 alone, places halved",
    "128 alone, larger base",
)
FAR = {NEAR, "64 after 128", LONG, HALVED, LARGER}


@cache
def text(split):
    draw = random.Random(split)
    return " ".join(draw.choice(("good", "sir", "night", "come,", "king.\n")) for _ in range(4_000))[: LETTERS[split]]


@pytest.fixture
def tiny(monkeypatch):
    """Short plays, few streams, and every training ends after two steps; what was asked of `fit` is kept."""
    asked = []
    monkeypatch.setattr(plays, "text", text)
    for name in ("characters", "tokenizer"):
        monkeypatch.setattr(recipe, name, cache(getattr(recipe, name).__wrapped__))
    for name, number in (("STREAMS", 4), ("KEY_BATCH", 2), ("ASKED_ROWS", 8)):
        monkeypatch.setattr(recipe, name, number)
    for name, number in (("LENGTH", LENGTH), ("ROWS", ROWS), ("LENGTHS", (8, 100))):
        monkeypatch.setattr(experiments, name, number)
    monkeypatch.setattr(experiments, "asked", cache(experiments.asked.__wrapped__))

    def briefly(model, batches, loss, **how):
        asked.append((model, how | {"loss": loss, "begun": parts(model)}))
        return fit(model, batches, loss, **how | {"steps": min(2, how["steps"])})

    for module in (recipe, controls):
        monkeypatch.setattr(module, "fit", briefly)
    return asked


def reader(memory=0, segment=64, seed=0, **sizes):
    """A reader with large weights: what it sees and where it stands moves what it says."""
    model = recipe.untrained_reader(seed, segment, memory, **sizes)
    with torch.no_grad():
        model.tokens.weight.normal_(generator=torch.Generator().manual_seed(seed)).mul_(0.3)
        for block in model.blocks:
            block.attention.w_q.weight.mul_(3)
            block.attention.w_o.weight.mul_(3)
    return model.eval()


def judged():
    return recipe.characters("test")


def parts(model):
    return {name: part.clone() for name, part in model.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def plain(found, *keys):
    """Whether it is as a record holds it: plain numbers under these keys."""
    assert json.loads(json.dumps(found)) == found and {*found} == {*keys}
    return True


def by_hand(model, segment):
    """-log2 p of each character of the rows, read in segments that remember nothing of each other: (ROWS, LENGTH)."""
    ids = experiments.asked()
    with torch.no_grad():
        said = torch.cat([model(ids[:, at : at + segment])[0] for at in range(0, LENGTH, segment)], dim=1)
    return -said.log_softmax(dim=-1).gather(-1, ids[:, 1:, None])[..., 0] / math.log(2)


def mean(bits):
    return bits.mean().item()


# --- a model that reads otherwise


@pytest.mark.parametrize("how", [(64,), (0,), (128,), (64, 64), (0, None, experiments.halved), (3, 2)])
def test_a_twin_reads_otherwise(tiny, how):
    """reading_as: the same weights in other tensors, another memory, window or turn; the model stays as it was."""
    model = reader(16, window=8)
    model.train()
    config, before = model.config, parts(model)
    twin = experiments.reading_as(model, *how)
    memory, window, turn = (*how, None, None)[:3]
    assert same(parts(twin), before) and (twin.config.memory, twin.config.window) == (memory, window)
    for block, own in zip(twin.blocks, model.blocks, strict=True):
        assert block.attention.turn is (turn or rotate) and block.attention.window == window
        assert own.attention.turn is rotate and own.attention.window == 8
    assert model.config == config and model.training and not twin.training
    left = twin(judged()[None, :50])[1]
    assert [part.shape for part in left] == [(1, min(memory, 50), 96)] * 2
    with torch.no_grad():
        twin.tokens.weight.zero_()
    assert same(parts(model), before)


def test_a_twin_of_itself_says_the_same(tiny):
    """reading_as: with its own memory a model reads as it does, learned places or turned ones."""
    for relative in (True, False):
        model = reader(32, relative=relative)
        twin, own, theirs = experiments.reading_as(model, 32), None, None
        for at in (0, 40, 80):
            ids = judged()[None, at : at + 40]
            (said, own), (again, theirs) = model(ids, own), twin(ids, theirs)
            assert said.equal(again) and all(one.equal(two) for one, two in zip(own, theirs, strict=True))


def test_places_are_halved():
    """halved: rotate at half of each place, so twice the distance is seen as what was learned."""
    x = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    places = torch.tensor([0, 2, 4, 100, 127])
    assert_close(experiments.halved(x, places), rotate(x, torch.tensor([0.0, 1.0, 2.0, 50.0, 63.5])))
    assert_close(experiments.halved(x, places)[:, :3], rotate(x[:, :3], torch.arange(3)))
    assert experiments.halved(x, places).dtype == x.dtype and not experiments.halved(x, places).equal(rotate(x, places))
    score = lambda turn, q, k: (turn(x[:1, :1], torch.tensor([q])) * turn(x[1:, :1], torch.tensor([k]))).sum()  # noqa: E731
    assert_close(score(experiments.halved, 120, 8), score(rotate, 56, 0))


def test_a_larger_base_slows_the_slowest_turn():
    """LARGER_BASE: over 128 places the slowest pair turns as far as before over 64, the fastest as before."""
    d = recipe.PLAY_WIDTH // recipe.PLAY_HEADS
    slow, fast = torch.zeros(2, 1, d, dtype=torch.float64)
    slow[0, d - 2] = fast[0, 0] = 1.0
    larger, place = partial(rotate, base=experiments.LARGER_BASE), torch.tensor([64])
    assert_close(larger(slow, 2 * place), rotate(slow, place))
    assert_close(larger(fast, 2 * place), rotate(fast, 2 * place))
    assert not torch.allclose(rotate(slow, 2 * place), rotate(slow, place), atol=1e-4)
    # By hand: pair i turns by t / base^(2i / d), and the last has i = d / 2 - 1.
    assert 128 / experiments.LARGER_BASE ** ((d - 2) / d) == pytest.approx(64 / 10_000 ** ((d - 2) / d))


# --- bits of the plays


@pytest.mark.parametrize(("n", "rows", "length"), [(3_000, 3, 384), (600_000, 128, 1024), (386, 2, 384), (387, 3, 384)])
def test_rows_are_spread_over_all_test_plays(monkeypatch, n, rows, length):
    """asked: characters that follow each other, from the first to the last but a few, as far apart from row to row."""
    read = []
    monkeypatch.setattr(recipe, "characters", lambda split: (read.append(split), torch.arange(n))[1])
    monkeypatch.setattr(experiments, "ROWS", rows)
    monkeypatch.setattr(experiments, "LENGTH", length)
    found = experiments.asked.__wrapped__()
    assert found.shape == (rows, length + 1) and read == ["test"]
    assert (found.diff(dim=1) == 1).all()
    begins = found[:, 0]
    assert begins[0] == 0 and n - rows < found[-1, -1] < n and len({*begins.diff().tolist()}) == 1
    assert n < 500 or begins.diff()[0] > length  # no character stands in two rows


@pytest.mark.parametrize("n", [0, 1, 384, 385, 386])
def test_rows_need_plays_that_are_longer(monkeypatch, n):
    monkeypatch.setattr(recipe, "characters", lambda split: torch.arange(n))
    for name, number in (("ROWS", 3), ("LENGTH", 384)):
        monkeypatch.setattr(experiments, name, number)
    with pytest.raises(RuntimeError):
        experiments.asked.__wrapped__()


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{}, {"relative": False}])
@pytest.mark.parametrize(("segment", "memory"), [(64, 0), (64, 64), (64, 128), (128, 0)])
def test_bits_are_those_of_a_text_that_is_read_through(tiny, monkeypatch, segment, memory, sizes):
    """bits_each: of each row what `bits_per_character` says of it, with the memory carried; the first 128 left out."""
    model = reader(memory, segment, **sizes)
    counted = experiments.bits_each(model, segment)
    monkeypatch.setattr(experiments, "BEGIN", 0)
    found = experiments.bits_each(model, segment)
    assert found.shape == (ROWS, LENGTH) and counted.equal(found[:, 128:]) and not found.requires_grad
    for bits, row in zip(found, experiments.asked(), strict=True):
        assert mean(bits) == pytest.approx(bits_per_character(model, row, 1, segment), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("segment", [64, 128])
def test_bits_without_a_memory_are_those_of_each_segment(tiny, segment):
    """bits_each: -log2 p of each character by hand, from the 129th on; another segment gives other bits."""
    model = reader(0, segment)
    assert_close(experiments.bits_each(model, segment), by_hand(model, segment)[:, 128:])
    assert not torch.allclose(experiments.bits_each(model, 32), by_hand(model, segment)[:, 128:])


@pytest.mark.slow
def test_a_window_of_64_looks_no_farther_than_a_segment(tiny):
    """bits_each: with a memory and a window of 64 each layer sees 64 characters, as one long read under it does."""
    model = reader()
    long = experiments.reading_as(model, 0, window=64)
    found = experiments.bits_each(experiments.reading_as(model, 64, window=64), 64)
    assert_close(found, by_hand(long, LENGTH)[:, 128:], rtol=1e-4, atol=1e-4)
    assert mean(found) == pytest.approx(mean(experiments.read_so(model)["bits"][NEAR]))
    # A window that holds all that is seen changes nothing.
    wide = experiments.bits_each(experiments.reading_as(model, 64, window=128), 64)
    assert_close(wide, experiments.bits_each(experiments.reading_as(model, 64), 64))


def test_who_remembers_all_reads_as_in_one_piece(tiny):
    """bits_each: with room for the whole row a memory is one long read."""
    model = reader()
    found = experiments.bits_each(experiments.reading_as(model, LENGTH), 64)
    assert_close(found, by_hand(experiments.reading_as(model, 0), LENGTH)[:, 128:], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_how_it_was_trained_does_not_change_how_it_reads(tiny):
    """read_so: memory and window are told, and the model's own do not count; the model stays as it was."""
    found = []
    for sizes in ({}, {"memory": 64}, {"memory": 200, "window": 8}):
        model = reader(**sizes)
        config, before = model.config, parts(model)
        found.append(experiments.read_so(model))
        assert model.config == config and same(parts(model), before)
        assert all(block.attention.turn is rotate for block in model.blocks)
    for kind in ("bits", "by place"):
        assert same(found[0][kind], found[1][kind]) and same(found[0][kind], found[2][kind])


@pytest.mark.slow
def test_ways_to_read_by_hand(tiny):
    """read_so: each way gives another number, and what its name says: alone, and with other turns."""
    model = reader()
    found = experiments.read_so(model)["bits"]
    assert {*found} == {ALONE, AFTER, *FAR} and len({bits.item() for bits in found.values()}) == len(found)
    for name, segment, turn in ((ALONE, 64, rotate), (LONG, 128, rotate), (HALVED, 128, experiments.halved),
                                (LARGER, 128, partial(rotate, base=experiments.LARGER_BASE))):  # fmt: skip
        for block in model.blocks:
            block.attention.turn = turn
        assert mean(found[name]) == pytest.approx(mean(by_hand(model, segment)[:, 128:]), rel=1e-5)


def test_learned_places_are_read_as_far_as_they_go(tiny):
    """read_so: segments of 64 alone and with a memory; nothing behind the 64 places that were learned."""
    found = experiments.read_so(reader(relative=False))
    assert all({*found[kind]} == {ALONE, AFTER} for kind in found)
    assert found["bits"][ALONE] != found["bits"][AFTER]


def test_only_test_plays_are_judged(tiny, monkeypatch):
    """read_so: no letter of another split."""
    read, characters, model = [], recipe.characters, reader()
    monkeypatch.setattr(recipe, "characters", lambda split: (read.append(split), characters(split))[1])
    experiments.read_so(model)
    assert {*read} == {"test"}


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{}, {"relative": False}])
def test_bits_by_place_by_hand(tiny, sizes):
    """read_so: the mean of each place over rows and segments, and the mean of all places is the mean of all."""
    model = reader(**sizes)
    found = experiments.read_so(model)
    names = {ALONE: 64, AFTER: 64} | ({} if sizes else {LONG: 128})
    assert {name: len(places) for name, places in found["by place"].items()} == names
    for name, places in found["by place"].items():
        assert mean(places) == pytest.approx(found["bits"][name].item(), rel=1e-5)
    counted = by_hand(model, 64)[:, 128:]
    for place in (0, 1, 63):
        rows = [counted[row, at + place] for row in range(ROWS) for at in (0, 64, 128, 192)]
        assert found["by place"][ALONE][place].item() == pytest.approx(sum(rows).item() / 12, rel=1e-5)
    # With a memory even the first character of a segment is told by more than itself.
    assert not torch.isclose(found["by place"][ALONE][0], found["by place"][AFTER][0])
    if not sizes:  # the first half of a segment of 128 is a segment of 64
        assert_close(found["by place"][LONG][:64], counted.view(ROWS, 2, 2, 64)[:, :, 0].mean(dim=(0, 1)))


# --- what it costs


def test_seconds_are_medians_taken_in_turns(monkeypatch):
    """in_turns: each is called once for nothing, then one after the other; the middle of what each took."""
    now, order, grads = [0.0], [], []
    monkeypatch.setattr(experiments, "time", SimpleNamespace(thread_time=lambda: now[0]))

    def call(name, *seconds):
        taken = iter(seconds)

        def run():
            order.append(name)
            grads.append(torch.is_grad_enabled())
            now[0] += next(taken)

        return run

    found = experiments.in_turns({"a": call("a", 100, 3, 1, 2), "b": call("b", 0, 5, 50, 7)}, 3)
    assert found == {"a": 2, "b": 7} and order == ["a", "b"] * 4 and not any(grads)
    assert experiments.in_turns({"a": call("a", 9, 1)}, 1) == {"a": 1} and experiments.in_turns({}, 3) == {}


def test_a_look_is_measured_by_length(tiny, monkeypatch):
    """cost: seconds of each kind of heads for each length, all reading the same row."""
    read, in_turns = [], experiments.in_turns

    def watched(calls, runs):
        for name, call in calls.items():
            assert type(call.func).__name__ == LOOKS[name] and call.func.d_model == 64 and call.func.n_heads == 4
        [x] = {call.args[0] for call in calls.values()}
        read.append((x.shape, runs))
        return in_turns(calls, 1)

    monkeypatch.setattr(experiments, "in_turns", watched)
    monkeypatch.setattr(experiments, "LENGTHS", (1, 8, 100))
    found = experiments.cost(0)
    assert plain(found, *LOOKS) and all(plain(seconds, "1", "8", "100") for seconds in found.values())
    assert all(0 < one < 5 for seconds in found.values() for one in seconds.values())
    assert read == [((1, T, 64), 9) for T in (1, 8, 100)]


def test_no_length_costs_nothing(tiny, monkeypatch):
    monkeypatch.setattr(experiments, "LENGTHS", ())
    assert experiments.cost(0) == {name: {} for name in LOOKS}


@pytest.mark.slow
def test_a_training_step_is_measured(tiny, monkeypatch):
    """pace: seconds of a step of each reader of pairs and of plays, and of reversible layers in both ways."""
    in_turns = experiments.in_turns
    monkeypatch.setattr(experiments, "in_turns", lambda calls, runs: in_turns(calls, 1))
    monkeypatch.setattr(experiments, "CORE", ("full", "window, 1 global"))
    monkeypatch.setattr(experiments, "reversible", partial(experiments.reversible, n_layers=2))
    found = experiments.pace(0)
    pairs, texts = (f"pairs, {name}" for name in experiments.CORE), (f"plays, {name}" for name in experiments.READERS)
    assert plain(found, *pairs, *texts, "reversible, all kept", "reversible, computed back")
    assert all(0 < seconds < 5 for seconds in found.values())


def test_a_step_leaves_gradients():
    """step: those of this step alone, even where gradients are switched off around it; no weight moves."""
    model, x = nn.Linear(3, 1), torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    before = parts(model)
    with torch.no_grad():
        for _ in range(2):
            experiments.step(model, lambda: model(x).sum())
            assert_close(model.weight.grad, x.sum(dim=0, keepdim=True))
            assert model.bias.grad.item() == 4
        assert not torch.is_grad_enabled()
    assert same(parts(model), before)


def test_computed_back_is_the_same_training():
    """reversible: one seed, the same layers; what is said and all gradients are the same whatever is kept."""
    x, found = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64), []
    for keep in (True, False):
        stack, read = experiments.reversible(3, keep, n_layers=3).double(), x.clone().requires_grad_()
        said = stack(read)
        said.square().mean().backward()
        grads = {name: weight.grad for name, weight in stack.named_parameters()}
        assert stack.keep is keep and len(stack.f) == 3 and all(grad is not None for grad in grads.values())
        found.append((said.detach(), read.grad, grads, parts(stack)))
    (said, grad, grads, own), (again, theirs, others, copy) = found
    assert same(own, copy)
    assert_close(again, said)
    assert_close(theirs, grad)
    assert_close(others, grads)
    assert len(experiments.reversible(0, True).f) == 8
    assert not same(parts(experiments.reversible(4, True, n_layers=3).double()), own)


@pytest.mark.parametrize(("keep", "times"), [(True, 1), (False, 2)])
def test_each_part_is_computed_back_once(keep, times):
    """reversible, step: each part runs once on the way there, and once more on the way back where nothing is kept."""
    stack, x = experiments.reversible(0, keep, n_layers=3), torch.randn(1, 4, 64)
    ran = {part: 0 for part in (*stack.f, *stack.g)}
    for part in ran:
        part.register_forward_hook(lambda part, *_: ran.update({part: ran[part] + 1}))
    with torch.no_grad():
        experiments.step(stack, lambda: stack(x).square().mean())
    assert [*ran.values()] == [times] * 6


# --- what a record holds


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "buckets, 2 rounds", "window of 16, 4 layers"])
def test_keys_give_plain_numbers(tiny, kind):
    """keys, answers: the share that is right by the number of pairs, after as many steps for each kind."""
    found = experiments.keys(3, kind=kind)
    assert plain(found, "right") and plain(found["right"], "1", "2", "4", "8", "16", "32")
    assert all(0 <= right <= 1 for right in found["right"].values())
    [(model, how)] = tiny
    assert how["steps"] == recipe.KEY_STEPS
    if "buckets" not in kind:  # these are drawn at each reading
        again = experiments.answers(model)["right"]
        assert found["right"] == {n: float(f"{right:.6g}") for n, right in again.items()}
        assert again["4"] == recipe.right_keys(model, 4)


@pytest.mark.slow
@pytest.mark.parametrize("trained", experiments.READERS)
def test_memory_gives_plain_numbers(tiny, trained):
    """memory: all ways of reading where places are relative, two where they are added; its own steps and sizes."""
    found = experiments.memory(3, trained=trained)
    relative, how = "added" not in trained, experiments.READERS[trained]
    assert plain(found, "bits", "by place") and plain(found["bits"], ALONE, AFTER, *(FAR if relative else ()))
    lengths = {name: len(row) for name, row in found["by place"].items()}
    assert lengths == {ALONE: 64, AFTER: 64} | ({LONG: 128} if relative else {})
    assert all(0 < bits < 20 for bits in found["bits"].values())
    [(model, asked)] = tiny
    assert asked["steps"] == how["steps"] and asked["lr"] == recipe.PLAY_RATE and type(asked["loss"]) is TruncatedBPTT
    assert (model.config.memory, model.config.relative) == (how.get("memory", 0), relative)
    own = mean(experiments.bits_each(model, how["segment"]))
    assert found["bits"][trained.partition(",")[0]] == pytest.approx(own, rel=1e-5)
    for name, row in found["by place"].items():
        assert sum(row) / len(row) == pytest.approx(found["bits"][name], rel=1e-5)


def test_readers_differ_in_what_they_are_called():
    """READERS: a partner with places added for each that has its steps; who remembers takes fewer steps, not more."""
    readers = experiments.READERS
    for name, how in readers.items():
        other = readers.get(f"{name}, places added")
        assert other is None or other == how | {"relative": False}
        assert how["segment"] == int(name.split()[0]) and (how.get("memory", 0) == 64) == ("after 64" in name)
    assert readers[AFTER]["steps"] < readers["128 alone"]["steps"] < readers[ALONE]["steps"]


def test_delta_gives_plain_numbers(tiny, monkeypatch):
    """delta: the same numbers and steps as its partners."""
    monkeypatch.setattr(experiments, "COUNTS", (1, 4))
    monkeypatch.setattr(recipe, "fit", lambda model, *_, **how: tiny.append((model, how)))  # place by place takes long
    found = controls.delta(3)
    assert plain(found, "right") and plain(found["right"], "1", "4")
    assert tiny[0][1]["steps"] == recipe.KEY_STEPS
    assert {type(block.attention).__name__ for block in tiny[0][0].blocks} == {"DeltaHeads"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("half of the rate", {"lr": recipe.PLAY_RATE / 2}),
        ("memory dropped in half", {"loss": controls.Forgetful}),
        ("twice as long", {"steps": 2 * experiments.READERS[AFTER]["steps"]}),
    ],
)
def test_one_thing_is_otherwise(tiny, how, told):
    """with_memory: as `memory` after segments of 64, but for what the name says; read in all ways."""
    found = controls.with_memory(3, how=how)
    assert plain(found, "bits", "by place") and plain(found["bits"], ALONE, AFTER, *FAR)
    [(model, asked)] = tiny
    usual = {"lr": recipe.PLAY_RATE, "loss": TruncatedBPTT, "steps": experiments.READERS[AFTER]["steps"]}
    assert {name: asked[name] if name != "loss" else type(asked[name]) for name in usual} == usual | told
    assert model.config.memory == 64 and same(asked["begun"], parts(recipe.untrained_reader(3, memory=64)))
    assert found["bits"][AFTER] == pytest.approx(mean(experiments.bits_each(model, 64)), rel=1e-5)
    assert {*controls.OTHERWISE} == {one["how"] for one in controls.with_memory.variants}


@pytest.mark.slow
def test_the_memory_is_dropped_in_about_half():
    """Forgetful: each call reads with what the last one left, or with nothing; the loss is `TruncatedBPTT`'s."""
    given, left = [], []

    def model(x, state):
        given.append(state)
        left.append(torch.full((1, 2), float(len(left)), requires_grad=True))
        return x.float()[..., None] * torch.arange(4.0), left[-1]

    torch.manual_seed(0)
    forgetful, n = controls.Forgetful(), 2_000
    for step in range(n):
        x, y = torch.full((2, 3), step % 3), torch.full((2, 3), step % 4)
        expected = F.cross_entropy(x.flatten()[:, None] * torch.arange(4.0), y.flatten())
        assert forgetful(model, (x, y)).item() == pytest.approx(expected.item(), rel=1e-6)
    dropped = [state is None for state in given]
    assert dropped[0] and abs(sum(dropped) - n / 2) < 5 * n**0.5 / 2  # five deviations
    assert all(state is None or (state.equal(own) and not state.requires_grad)
               for state, own in zip(given[1:], left, strict=False))  # fmt: skip
    pairs = [*zip(dropped, dropped[1:], strict=False)]  # drawn anew: neither in turns nor once for all
    assert all(
        abs(pairs.count(pair) - n / 4) < n / 16 for pair in ((a, b) for a in (True, False) for b in (True, False))
    )


def test_forgetful_readers_train(tiny):
    """Forgetful: a seed draws the same drops again."""
    one, two, usual = (parts(recipe.play_reader(3, 2, memory=64, loss=loss))
                       for loss in (controls.Forgetful, controls.Forgetful, TruncatedBPTT))  # fmt: skip
    assert same(one, two) and one.keys() == usual.keys()


def test_more_rounds_change_only_the_reading(tiny, monkeypatch):
    """more_rounds: one training with one round; the same weights are asked with 1, 2, 4 and 8."""
    made, read = [], []
    key_reader, right_keys = recipe.key_reader, recipe.right_keys
    rounds = lambda model: [block.attention.n_rounds for block in model.blocks]  # noqa: E731

    def trained(seed, kind):
        model = key_reader(seed, kind)
        made.append((seed, kind, rounds(model), parts(model)))
        return model

    def asked(model, n):
        read.append((rounds(model), n, parts(model), right_keys(model, n)))
        return read[-1][-1]

    monkeypatch.setattr(recipe, "key_reader", trained)
    monkeypatch.setattr(recipe, "right_keys", asked)
    found = controls.more_rounds(3)
    assert plain(found, "right") and plain(found["right"], "1", "2", "4", "8")
    [(seed, kind, begun, weights)], [(_, how)] = made, tiny
    assert (seed, kind, begun, how["steps"]) == (3, "buckets, 1 round", [1, 1], recipe.KEY_STEPS)
    assert [(one[0], one[1]) for one in read] == [([n, n], 16) for n in (1, 2, 4, 8)]
    assert all(same(one[2], weights) for one in read)
    assert [*found["right"].values()] == [one[3] for one in read]


class Says(nn.Module):
    """Names at each key the value that `choose` picks from the row's values in the order of its questions."""

    def __init__(self, choose):
        super().__init__()
        self.choose = choose

    def forward(self, x):
        said = torch.zeros(x.shape[:2], dtype=torch.int64)
        for row, (keys, values) in enumerate(zip(*x.unbind(dim=-1), strict=True)):
            asked = [place for place in range(len(keys)) if keys[place] > 0 and values[place] == 0]
            told = {int(key): int(value) for key, value in zip(keys, values, strict=True) if value > 0}
            answers = [told[int(keys[place])] for place in asked]
            for n, place in enumerate(asked):
                said[row, place] = self.choose(answers, n)
        return F.one_hot(said, recipe.SYMBOLS + 1).float()


@pytest.mark.parametrize(
    ("choose", "in_the_row"),
    [
        (lambda row, n: row[n], 1),
        (lambda row, n: row[n - 1], 1),  # the answer to another question
        (lambda row, n: 1, None),
        (lambda row, n: row[n] if n % 2 else 0, 0.5),  # 0 is nobody's value
        (lambda row, n: 0, 0),
    ],
)
def test_answers_of_the_same_row_by_hand(tiny, monkeypatch, choose, in_the_row):
    """in_the_row: what is right, and what is a value of the row at all, one question after the other."""
    model, made, kind = Says(choose), [], "window, 1 global"
    monkeypatch.setattr(recipe, "key_reader", lambda seed, kind: (made.append((seed, kind)), model)[1])
    found = controls.in_the_row(3, kind=kind)
    x, y = key_values(8, 16, recipe.HALF, recipe.SYMBOLS, torch.Generator().manual_seed(10_000))
    right, known = [], []
    for answers in (row[row > 0].tolist() for row in y):
        assert len(answers) == 16
        right += [choose(answers, n) == answers[n] for n in range(16)]
        known += [choose(answers, n) in answers for n in range(16)]
    assert plain(found, "right", "in the row") and made == [(3, kind)]
    assert found["right"] == pytest.approx(sum(right) / 128, rel=1e-5)
    assert found["in the row"] == pytest.approx(sum(known) / 128, rel=1e-5)
    assert in_the_row in (None, found["in the row"]) and found["right"] == pytest.approx(recipe.right_keys(model, 16))


def test_readers_with_global_places_are_asked_for_the_row(tiny):
    """in_the_row: the reader of `keys`, after as many steps; nobody is right more often than in the row."""
    for kind in (one["kind"] for one in controls.in_the_row.variants):
        found = controls.in_the_row(3, kind=kind)
        model, how = tiny[-1]
        assert 0 <= found["right"] <= found["in the row"] <= 1 and how["steps"] == recipe.KEY_STEPS
        assert found["right"] == pytest.approx(recipe.right_keys(model, 16)) and len(model.in_front) == int(kind[8])


def test_sixteen_heads_are_another_attention(tiny):
    """sixteen_heads: trained as full attention is, from the same begin but for the heads, which are 4 wide."""
    found = controls.sixteen_heads(3)
    assert plain(found, "right") and plain(found["right"], "1", "2", "4", "8", "16", "32")
    recipe.key_reader(3, "full")
    (model, how), (other, usual) = tiny
    assert all(type(b.attention) is type(o.attention) for b, o in zip(model.blocks, other.blocks, strict=True))
    assert [(block.attention.n_heads, block.attention.d_model) for block in model.blocks] == [(16, recipe.WIDTH)] * 2
    assert {block.attention.n_heads for block in other.blocks} == {4}
    begun, theirs = how.pop("begun"), usual.pop("begun")
    assert begun.keys() == theirs.keys()
    assert all(begun[name].equal(theirs[name]) for name in begun if ".attention." not in name)
    trained = parts(model)
    for name in begun:
        if name.endswith(("w_q.weight", "w_v.weight", "w_o.weight")):
            assert not begun[name].equal(theirs[name]) and not trained[name].equal(begun[name])
    schedules = [kept.pop("schedule") for kept in (how, usual)]
    assert how == usual and len({schedule(10, 600) for schedule in schedules}) == 1
    assert found["right"] == {n: float(f"{right:.6g}") for n, right in experiments.answers(model)["right"].items()}


def test_three_times_as_long_is_three_times_as_long(tiny):
    """sixteen_for_longer: the kind of `keys` with 16 global places, three times the steps."""
    found = controls.sixteen_for_longer(3)
    assert plain(found, "right") and plain(found["right"], "1", "2", "4", "8", "16", "32")
    [(model, asked)] = tiny
    assert asked["steps"] == 3 * recipe.KEY_STEPS and len(model.in_front) == 16


# --- a sentence that does not belong there


@pytest.mark.parametrize("depth", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("words", [1, 40])
def test_a_needle_is_told_once(tiny, words, depth):
    """with_needle: lines of the test plays as they follow each other, one sentence among them, the question behind."""
    draws, seen = torch.Generator().manual_seed(3), set()
    for _ in range(10):
        question, told, secret = needles.with_needle(draws, words, depth)
        *lines, empty, asked = question.split("\n")
        [at] = [n for n, line in enumerate(lines) if line.startswith("The secret word")]
        assert lines.pop(at) == f"{told} {needles.SECRETS[secret]}." and at == round(depth * len(lines))
        assert "\n".join(lines) in text("test") and empty == ""
        assert words <= sum(len(line.split()) for line in lines) < words + 60
        [person] = [person for person in needles.PERSONS if person in told]
        assert asked == f"What is the secret word of the {person}?" and question.count("secret word") == 2
        seen.add((question, secret))
    assert len(seen) == 10 and len({secret for _, secret in seen}) > 1
    again = needles.with_needle(torch.Generator().manual_seed(3), words, depth)
    assert (again[0], again[2]) in seen


def test_the_secret_with_the_highest_score_is_chosen(monkeypatch):
    """chosen: of the eight, behind the question in its template and the beginning of an answer; other words never."""
    monkeypatch.setattr(needles, "in_template", lambda question: f"<{question}>")
    monkeypatch.setattr(needles, "with_specials", lambda cut, whole: (read.append(whole), cut.encode(whole))[1])
    read, starts = [], {f" {secret}": 10 + n for n, secret in enumerate(needles.SECRETS)}
    tokenizer = SimpleNamespace(encode=lambda part: torch.tensor([starts.get(part, 1), 2, 3]))
    for best in range(len(needles.SECRETS)):
        scores = torch.zeros(30)
        scores[10 + best], scores[5] = 1.0, 2.0  # 5 is no secret
        model = SimpleNamespace(states=lambda ids: ids[..., None], read_out=lambda last, s=scores: s.expand(1, -1))
        assert needles.chosen(model, tokenizer, "Who?", "It is") == best
    assert {*read} == {"<Who?>It is"}


@pytest.mark.parametrize("module", [experiments, controls, needles])
def test_every_experiment_is_listed(module):
    """What a claim rests on is asked under five seeds, what takes long under three; a variant stands once."""
    every = {one.name: one for one in vars(module).values() if isinstance(one, Experiment)}
    every = {name: one for name, one in every.items() if one.module == module.__name__}
    assert every
    for name, one in every.items():
        five = module is experiments or name in ("more_rounds", "sixteen_heads")
        n_seeds = 1 if name in ("cost", "pace") else 5 if five else 3
        assert one.seeds == tuple(range(n_seeds))
        assert one.cpus == ("default",) and not one.files
        assert all(one.variants.count(variant) == 1 for variant in one.variants)
    if module is experiments:
        assert [one["kind"] for one in every["keys"].variants] == [k for k in recipe.KINDS if k != "delta rule"]
        assert [one["trained"] for one in every["memory"].variants] == [*experiments.READERS]
    if module is controls:
        assert {one["kind"] for one in every["in_the_row"].variants} <= {*recipe.KINDS}


def test_a_segment_too_long_for_its_places_is_refused_in_words(tiny):
    """bits_each: 64 places were learned, and a segment of 128 says so instead of PyTorch's own error."""
    with pytest.raises(ValueError, match="up to 64 learned places; got 128 tokens"):
        experiments.bits_each(reader(relative=False), 128)
