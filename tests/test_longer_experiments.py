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
from course_lib.experiments import Experiment
from course_lib.experiments import longer as experiments
from course_lib.experiments import longer_controls as controls
from course_lib.experiments import longer_needle as needles
from course_lib.recipes import longer as recipe
from course_lib.recurrent.language_model import bits_per_character
from course_lib.train import fit

LETTERS = {"train": 9_001, "validation": 500, "test": 3_000}
ROWS, JUDGED = 2, 2 * 64 * 6 + 1  # two streams of six segments of 64
LOOKS = {"full": "MultiHead", "window": "LocalHeads", "buckets": "HashedHeads", "linear": "LinearHeads"}
ALONE, AFTER = "64 alone", "64 after 64"
FAR = {f"{AFTER}, no farther than 64", "64 after 128", "128 alone"}
FAR |= {"128 alone, places halved", "128 alone, larger base"}


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
    for name, number in (("LETTERS", JUDGED), ("ROWS", ROWS), ("LENGTHS", (8, 100))):
        monkeypatch.setattr(experiments, name, number)

    def briefly(model, batches, loss, **how):
        asked.append((model, how))
        return fit(model, batches, loss, **how | {"steps": min(2, how["steps"])})

    monkeypatch.setattr(recipe, "fit", briefly)
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
    return recipe.characters("test")[:JUDGED]


def parts(model):
    return {name: part.clone() for name, part in model.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def plain(found, *keys):
    """Whether it is as a record holds it: plain numbers under these keys."""
    assert json.loads(json.dumps(found)) == found and {*found} == {*keys}
    return True


def bits_by_place(model, ids, segment, skip=0):
    """-log2 p of each character of streams (B, N + 1), read in segments without a memory: (N - skip,)."""
    nats = [
        F.cross_entropy(model(ids[:, at : at + segment])[0].transpose(1, 2), ids[:, at + 1 : at + segment + 1],
                        reduction="none")
        for at in range(0, ids.shape[1] - 1, segment)
    ]  # fmt: skip
    return torch.cat(nats, dim=1).mean(dim=0)[skip:] / math.log(2)


def in_rows(ids, n, rows=ROWS):
    """The streams that are read, and the character behind each: (B, n + 1)."""
    return torch.stack([ids[row * n : (row + 1) * n + 1] for row in range(rows)])


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


@pytest.mark.parametrize("segment", [64, 128])
def test_bits_without_a_memory_are_those_of_each_segment(tiny, segment):
    """bits: `bits_per_character` of the model as it is, and by hand from each character of the test plays."""
    model = reader(0, segment)
    found = experiments.bits(model, segment, 0)
    assert found == pytest.approx(bits_per_character(model, judged(), ROWS, segment), rel=1e-6)
    with torch.no_grad():
        assert found == pytest.approx(bits_by_place(model, in_rows(judged(), 384), segment).mean().item(), rel=1e-5)
    assert model.config.memory == 0


def test_how_it_was_trained_does_not_change_how_it_reads(tiny):
    """bits: memory and window are told, and the model's own do not count."""
    for memory, window in ((0, None), (64, None), (64, 64)):
        found = [experiments.bits(reader(own), 64, memory, window=window) for own in (0, 64, 200)]
        assert found[0] == found[1] == found[2]


def test_memory_window_and_turns_change_the_bits(tiny):
    """bits: each way of reading gives another number; a window that holds all that is seen gives the same."""
    model = reader()
    found = {(segment, memory, window): experiments.bits(model, segment, memory, window) for segment, memory, window in
             ((64, 0, None), (64, 64, None), (64, 64, 64), (64, 128, None), (128, 0, None))}  # fmt: skip
    assert len({*found.values()}) == len(found)
    assert experiments.bits(model, 64, 0, 64) == pytest.approx(found[64, 0, None], rel=1e-6)
    assert experiments.bits(model, 64, 64, 128) == pytest.approx(found[64, 64, None], rel=1e-6)
    turned = [experiments.bits(model, 128, 0, turn=turn) for turn in (
        experiments.halved, partial(rotate, base=experiments.LARGER_BASE), rotate)]  # fmt: skip
    assert len({*turned, found[128, 0, None]}) == 3 and turned[2] == found[128, 0, None]


def test_a_window_of_64_looks_no_farther_than_a_segment(tiny):
    """bits: with a memory and a window of 64 each character sees the 64 of a layer, by one long read under it."""
    model = reader()
    long = experiments.reading_as(model, 0, window=64)
    with torch.no_grad():
        ids = in_rows(judged(), 384)
        by_hand = bits_by_place(long, ids, 384).mean().item()
    assert experiments.bits(model, 64, 64, window=64) == pytest.approx(by_hand, rel=1e-5)


def test_only_test_plays_are_judged(tiny, monkeypatch):
    """bits, by_place: no letter of another split."""
    read, characters = [], recipe.characters
    monkeypatch.setattr(recipe, "characters", lambda split: (read.append(split), characters(split))[1])
    experiments.bits(reader(), 64, 0)
    experiments.by_place(reader())
    assert {*read} == {"test"}


def test_bits_by_place_by_hand(tiny):
    """by_place: each segment but the first and the last, read alone, whatever the model remembered in training."""
    model = reader(16)
    found = experiments.by_place(model)
    assert {*found} == {"alone", "after 64"} and all(bits.shape == (64,) for bits in found.values())
    ids = in_rows(judged(), 384)[:, : 64 * 5 + 1]  # the last segment is left out
    model = experiments.reading_as(model, 0)
    with torch.no_grad():
        alone = bits_by_place(model, ids, 64, skip=64).view(-1, 64).mean(dim=0)
        assert_close(found["alone"], alone)


def test_two_segments_are_one_of_twice_the_length(tiny, monkeypatch):
    """by_place: where all that was read is remembered, the second segment is the second half of one long read."""
    monkeypatch.setattr(experiments, "LETTERS", ROWS * 64 * 3)  # streams of two whole segments
    model = reader()
    with torch.no_grad():
        whole = bits_by_place(model, in_rows(judged(), 128), 128, skip=64)
    assert_close(experiments.by_place(model)["after 64"], whole)


@pytest.mark.parametrize("sizes", [{}, {"relative": False}])
def test_the_mean_of_the_places_is_about_the_mean(tiny, sizes):
    model = reader(**sizes)
    found = experiments.by_place(model)
    assert found["alone"].mean().item() == pytest.approx(experiments.bits(model, 64, 0), rel=0.05)
    assert found["after 64"].mean().item() == pytest.approx(experiments.bits(model, 64, 64), rel=0.05)
    # The first character of a segment is told by itself alone, the same with a memory only where it remembers.
    assert not torch.allclose(found["alone"][0], found["after 64"][0])


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


# --- what a record holds


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


@pytest.mark.parametrize("trained", experiments.READERS)
def test_memory_gives_plain_numbers(tiny, trained):
    """memory: all ways of reading where places are relative, two where they are added; its own steps and sizes."""
    found = experiments.memory(3, trained=trained)
    relative, how = "added" not in trained, experiments.READERS[trained]
    assert plain(found, "bits", "by place") and plain(found["bits"], ALONE, AFTER, *(FAR if relative else ()))
    assert plain(found["by place"], "alone", "after 64") and {len(row) for row in found["by place"].values()} == {64}
    assert all(0 < bits < 20 for bits in found["bits"].values())
    [(model, asked)] = tiny
    assert asked["steps"] == how["steps"] and asked["lr"] == recipe.PLAY_RATE
    assert (model.config.memory, model.config.relative) == (how.get("memory", 0), relative)
    own = experiments.bits(model, how["segment"], how.get("memory", 0))
    name = trained.partition(",")[0]
    assert found["bits"][name] == pytest.approx(own, rel=1e-5)


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


@pytest.mark.parametrize("trained", [AFTER, "128 alone"])
def test_twice_as_long_is_twice_as_long(tiny, trained):
    """twice_as_long: twice the steps of its partner, nothing else."""
    found = controls.twice_as_long(3, trained=trained)
    assert plain(found, "bits", "by place") and plain(found["bits"], AFTER, "128 alone")
    [(model, asked)] = tiny
    how = experiments.READERS[trained]
    assert asked["steps"] == 2 * how["steps"] and model.config.memory == how.get("memory", 0)
    assert how["steps"] == experiments.READERS[trained]["steps"]  # the table stays
    assert found["bits"][trained] == pytest.approx(
        experiments.bits(model, how["segment"], model.config.memory), rel=1e-5
    )


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
    """All kinds but one are asked under five seeds, what takes long under three; a variant stands once."""
    every = {one.name: one for one in vars(module).values() if isinstance(one, Experiment)}
    every = {name: one for name, one in every.items() if one.module == module.__name__}
    assert every
    for name, one in every.items():
        n_seeds = 1 if name in ("cost", "pace") else 5 if module is experiments else 3
        assert one.seeds == tuple(range(n_seeds))
        assert one.cpus == ("default",) and not one.files
        assert all(one.variants.count(variant) == 1 for variant in one.variants)
    if module is experiments:
        assert [one["kind"] for one in every["keys"].variants] == [k for k in recipe.KINDS if k != "delta rule"]
        assert [one["trained"] for one in every["memory"].variants] == [*experiments.READERS]
    if module is controls:
        assert {one["trained"] for one in every["twice_as_long"].variants} <= {*experiments.READERS}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: experiments.keys(0, kind="nobody"), KeyError),
        (lambda: needles.with_needle(torch.Generator(), 100_000, 0.5), RuntimeError),  # the plays are shorter
        (lambda: experiments.memory(0, trained=""), KeyError),
        (lambda: controls.twice_as_long(0, trained=None), KeyError),
        (lambda: experiments.bits(reader(), 10_000, 0), ValueError),
        (lambda: experiments.bits(reader(), 0, 0), ZeroDivisionError),
        (lambda: experiments.bits(reader(), 64, -1), ValueError),
        (lambda: experiments.bits(reader(relative=False), 128, 0), (RuntimeError, ValueError)),
        (lambda: experiments.reading_as(reader(), 0, window=0), ValueError),
        (lambda: experiments.reversible(0, True, n_layers=0), ValueError),
        (lambda: experiments.in_turns({"a": lambda: None}, 0), IndexError),
        (lambda: experiments.step(nn.Linear(1, 1), lambda: torch.tensor(math.nan)), RuntimeError),
    ],
)
def test_bad_input_stops(tiny, wrong, error):
    with pytest.raises(error):
        wrong()
