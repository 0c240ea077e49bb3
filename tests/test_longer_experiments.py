"""Lesson 17's experiments: bits by hand for each way to read, controls that change one thing, a needle told once."""

import math
import random
from functools import cache, partial
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from smoke import experiments_of, parts, same, smoke
from torch.testing import assert_close

from course_lib.attention.positions import rotate
from course_lib.data import plays
from course_lib.data.key_values import key_values
from course_lib.recurrent.language_model import TruncatedBPTT, bits_per_character
from course_lib.train import fit
from course_lib.workshop.experiments.longer import controls
from course_lib.workshop.experiments.longer import core as experiments
from course_lib.workshop.experiments.longer import needle as needles
from course_lib.workshop.recipes import longer as recipe

LETTERS = {"train": 9_001, "validation": 500, "test": 3_000}
ROWS, LENGTH = 3, 6 * 64  # rows of test plays, and characters of each: six segments, four of them count
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


@pytest.fixture
def quick(tiny, monkeypatch):
    """Few pairs, which the delta rule reads place by place, two reversible layers, and each duration taken once."""
    in_turns = experiments.in_turns
    monkeypatch.setattr(experiments, "COUNTS", (1, 4))
    monkeypatch.setattr(experiments, "reversible", partial(experiments.reversible, n_layers=2))
    monkeypatch.setattr(experiments, "in_turns", lambda calls, runs: in_turns(calls, 1))
    monkeypatch.setattr(recipe, "KEY_BATCH", 1)
    monkeypatch.setattr(recipe, "ASKED_ROWS", 2)


@pytest.mark.slow
@experiments_of("longer", "longer_controls")
def test_an_experiment_gives_its_numbers(quick, one):
    smoke(one)


def reader(memory=0, segment=64, seed=0, **sizes):
    """A reader with large weights: what it sees and where it stands moves what it says."""
    model = recipe.untrained_reader(seed, segment, memory, **sizes)
    with torch.no_grad():
        model.tokens.weight.normal_(generator=torch.Generator().manual_seed(seed)).mul_(0.3)
        for block in model.blocks:
            block.attention.w_q.weight.mul_(3)
            block.attention.w_o.weight.mul_(3)
    return model.eval()


def by_hand(model, segment):
    """-log2 p of each character of the rows, read in segments that remember nothing of each other: (ROWS, LENGTH)."""
    ids = experiments.asked()
    with torch.no_grad():
        said = torch.cat([model(ids[:, at : at + segment])[0] for at in range(0, LENGTH, segment)], dim=1)
    return -said.log_softmax(dim=-1).gather(-1, ids[:, 1:, None])[..., 0] / math.log(2)


def mean(bits):
    return bits.mean().item()


# --- a model that reads otherwise


def test_places_are_halved():
    """halved: rotate at half of each place."""
    x = torch.randn(2, 3, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert_close(experiments.halved(x, torch.tensor([0, 4, 127])), rotate(x, torch.tensor([0.0, 2.0, 63.5])))


def test_a_larger_base_slows_the_slowest_turn():
    """LARGER_BASE: over 128 places the slowest pair turns as far as before over 64, the fastest as before."""
    d = recipe.PLAY_WIDTH // recipe.PLAY_HEADS
    slow, fast = torch.zeros(2, 1, d, dtype=torch.float64)
    slow[0, d - 2] = fast[0, 0] = 1.0
    larger, place = partial(rotate, base=experiments.LARGER_BASE), torch.tensor([64])
    assert_close(larger(slow, 2 * place), rotate(slow, place))
    assert_close(larger(fast, 2 * place), rotate(fast, 2 * place))


# --- bits of the plays


@pytest.mark.parametrize(("n", "rows", "length"), [(3_000, 3, 384), (600_000, 128, 1024)])
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
    assert begins.diff()[0] > length  # no character stands in two rows


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
def test_a_window_of_64_looks_no_farther_than_a_segment(tiny):
    """bits_each: with a memory and a window of 64 each layer sees 64 characters, as one long read under it does."""
    model = reader()
    long = experiments.reading_as(model, 0, window=64)
    found = experiments.bits_each(experiments.reading_as(model, 64, window=64), 64)
    assert_close(found, by_hand(long, LENGTH)[:, 128:], rtol=1e-4, atol=1e-4)
    assert mean(found) == pytest.approx(mean(experiments.read_so(model)["bits"][NEAR]))


@pytest.mark.slow
def test_how_it_was_trained_does_not_change_how_it_reads(tiny):
    """read_so: memory and window are told, and the model's own do not count; the model stays as it was."""
    found = []
    for sizes in ({}, {"memory": 200, "window": 8}):
        model = reader(**sizes)
        config, before = model.config, parts(model)
        found.append(experiments.read_so(model))
        assert model.config == config and same(parts(model), before)
        assert all(block.attention.turn is rotate for block in model.blocks)
    for kind in ("bits", "by place"):
        assert same(found[0][kind], found[1][kind])


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


# --- controls


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
    """with_memory: as `memory` after segments of 64, but for what the name says."""
    found = controls.with_memory(3, how=how)
    [(model, asked)] = tiny
    usual = {"lr": recipe.PLAY_RATE, "loss": TruncatedBPTT, "steps": experiments.READERS[AFTER]["steps"]}
    assert {"lr": asked["lr"], "loss": type(asked["loss"]), "steps": asked["steps"]} == usual | told
    assert model.config.memory == 64 and same(asked["begun"], parts(recipe.untrained_reader(3, memory=64)))
    assert found["bits"][AFTER] == pytest.approx(mean(experiments.bits_each(model, 64)), rel=1e-5)


def test_the_memory_is_dropped_in_about_half():
    """Forgetful: each call reads with what the last one left, or with nothing, and that is drawn anew each time."""
    given, left = [], []

    def model(x, state):
        given.append(state)
        left.append(torch.full((1, 2), float(len(left)), requires_grad=True))
        return x.float()[..., None] * torch.arange(4.0), left[-1]

    torch.manual_seed(0)
    forgetful, n = controls.Forgetful(), 2_000
    for _ in range(n):
        forgetful(model, (torch.zeros(2, 3).long(), torch.zeros(2, 3).long()))
    dropped = [state is None for state in given]
    assert dropped[0] and all(state is None or state.equal(own) for state, own in zip(given[1:], left, strict=False))
    pairs = [*zip(dropped, dropped[1:], strict=False)]  # neither in turns nor once for all
    assert all(abs(pairs.count((a, b)) - n / 4) < n / 16 for a in (True, False) for b in (True, False))


def test_more_rounds_change_only_the_reading(tiny, monkeypatch):
    """more_rounds: one training with one round; the same weights are asked with 1, 2, 4 and 8."""
    read, right_keys = [], recipe.right_keys

    def asked(model, n):
        read.append(([block.attention.n_rounds for block in model.blocks], n, parts(model), right_keys(model, n)))
        return read[-1][-1]

    monkeypatch.setattr(recipe, "right_keys", asked)
    found = controls.more_rounds(3)
    [(model, _)] = tiny
    assert [one[:2] for one in read] == [([n, n], 16) for n in (1, 2, 4, 8)]
    assert all(same(one[2], parts(model)) for one in read)
    assert [*found["right"].values()] == [one[3] for one in read]


@pytest.mark.parametrize(("shift", "right", "in_the_row"), [(0, 1, 1), (1, None, 1), (None, 0, 0)])
def test_answers_of_the_same_row_by_hand(tiny, monkeypatch, shift, right, in_the_row):
    """in_the_row: by who answers each question, or always the one before it, or says what is nobody's value."""
    _, y = key_values(8, 16, recipe.HALF, recipe.SYMBOLS, torch.Generator().manual_seed(10_000))
    meant, said = y[y > 0].view(8, 16), torch.zeros_like(y)
    if shift is not None:
        said[y > 0] = meant.roll(shift, dims=1).flatten()
    monkeypatch.setattr(recipe, "key_reader", lambda *_: lambda x: F.one_hot(said, recipe.SYMBOLS + 1).float())
    found = controls.in_the_row(3, kind="window, 1 global")
    right = (meant.roll(1, dims=1) == meant).double().mean().item() if right is None else right
    assert found == {"right": pytest.approx(right, rel=1e-5), "in the row": in_the_row}


def test_sixteen_heads_are_another_attention(tiny):
    """sixteen_heads: trained as full attention is, from the same begin but for the heads, which are 4 wide."""
    controls.sixteen_heads(3)
    recipe.key_reader(3, "full")
    (model, how), (other, usual) = tiny
    assert all(type(b.attention) is type(o.attention) for b, o in zip(model.blocks, other.blocks, strict=True))
    assert [(block.attention.n_heads, block.attention.d_model) for block in model.blocks] == [(16, recipe.WIDTH)] * 2
    begun, theirs = how.pop("begun"), usual.pop("begun")
    assert begun.keys() == theirs.keys()
    assert all(begun[name].equal(theirs[name]) for name in begun if ".attention." not in name)
    schedules = [kept.pop("schedule") for kept in (how, usual)]
    assert how == usual and len({schedule(10, 600) for schedule in schedules}) == 1


def test_three_times_as_long_is_three_times_as_long(tiny):
    """sixteen_for_longer: the kind of `keys` with 16 global places, three times the steps."""
    controls.sixteen_for_longer(3)
    [(model, asked)] = tiny
    assert asked["steps"] == 3 * recipe.KEY_STEPS and len(model.in_front) == 16


# --- a sentence that does not belong there


@pytest.mark.parametrize(("words", "depth"), [(1, 0.0), (40, 0.1), (40, 1.0)])
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
