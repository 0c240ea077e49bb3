"""recipes/longer.py: what each reader of pairs may see, what it is asked, and in which order the plays are read."""

import math
import random
from functools import cache
from itertools import islice

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from course_lib.data import plays
from course_lib.data.key_values import key_values
from course_lib.long_context.window import band_mask, cone
from course_lib.recurrent.language_model import TruncatedBPTT
from course_lib.train import cosine, fit
from course_lib.workshop.recipes import longer as recipe

LETTERS = {"train": 9_001, "validation": 500, "test": 3_000}
ONE_STATE = ("full", "linear, 1 head", "linear", "linear, 16 heads")  # all places at once, in whatever order they stand


@cache
def text(split):
    """Words of a few letters, so that something can be learned in some steps."""
    draw = random.Random(split)
    return " ".join(draw.choice(("good", "sir", "night", "come,", "king.\n")) for _ in range(4_000))[: LETTERS[split]]


@pytest.fixture
def small(monkeypatch):
    """Short plays, four streams; nothing of it stays in a cache."""
    monkeypatch.setattr(plays, "text", text)
    monkeypatch.setattr(recipe, "STREAMS", 4)
    for name in ("characters", "tokenizer"):
        monkeypatch.setattr(recipe, name, cache(getattr(recipe, name).__wrapped__))


@pytest.fixture
def asked(monkeypatch):
    """Every training ends after two steps; what was asked of `fit` is kept."""
    kept = []

    def briefly(model, batches, loss, **how):
        kept.append((model, loss, how))
        return fit(model, batches, loss, **how | {"steps": min(2, how["steps"])})

    monkeypatch.setattr(recipe, "fit", briefly)
    return kept


def parts(model):
    return {name: part.clone() for name, part in model.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def reader(kind, seed=0):
    """An untrained reader in double precision, so that what is 0 is 0."""
    torch.manual_seed(seed)
    return recipe.KeyReader(kind).double().eval()


def row(half=32, n_pairs=16, batch=2, seed=0):
    return key_values(batch, n_pairs, half, recipe.SYMBOLS, torch.Generator().manual_seed(seed))[0]


class Answers(nn.Module):
    """Looks a key up among the pairs, for keys up to `known`; says the value 1 to all others."""

    def __init__(self, known):
        super().__init__()
        self.known, self.read, self.modes = known, [], []

    def forward(self, x):
        self.read.append(x.clone())
        self.modes.append((self.training, torch.is_grad_enabled()))
        keys, values = x.unbind(dim=-1)
        told = (keys[:, :, None] == keys[:, None]) & (values > 0)[:, None] & (keys <= self.known)[:, None]  # (B, T, T)
        said = torch.where(told.any(dim=-1), (told * values[:, None]).sum(dim=-1), 1)
        return F.one_hot(said, recipe.SYMBOLS + 1).float()


# --- pairs of a key and a value: who may see what


@pytest.mark.parametrize("kind", recipe.KINDS)
def test_every_reader_of_pairs_learns_with_all_its_weights(kind):
    """KeyReader: logits for each place, and a gradient for every weight, the vectors in front among them."""
    model = reader(kind)
    x, y = next(recipe.key_batches(0))
    logits = model(x[:2])
    assert logits.shape == (2, 2 * recipe.HALF, recipe.SYMBOLS + 1) and logits.isfinite().all()
    recipe.key_loss(model, (x[:2], y[:2])).backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all(), name
    assert same(parts(reader(kind)), parts(model)) and not same(parts(reader(kind, 1)), parts(model))


@pytest.mark.parametrize("kind", recipe.KINDS)
@pytest.mark.parametrize("half", [1, 5])
def test_a_row_may_have_any_length(kind, half):
    assert reader(kind)(row(half, 1)).shape == (2, 2 * half, recipe.SYMBOLS + 1)


@pytest.mark.parametrize("kind", [kind for kind in recipe.KINDS if "buckets" not in kind])
@pytest.mark.parametrize("place", [0, 20, 63])
def test_a_reader_sees_what_its_name_says(kind, place):
    """KINDS: which answers move when one place says something else."""
    model, x = reader(kind), row()
    other = x.clone()
    other[:, place] = torch.tensor([64, 64])
    moved = ((model(x) - model(other)).abs() > 1e-13).any(dim=-1).any(dim=0)  # (T,)
    layer, T = model.blocks[0].attention, x.shape[1]
    if "window" in kind:
        g = layer.n_global
        seen = cone(band_mask(T + g, layer.near, g), len(model.blocks))[-1][g:, g + place]
    else:
        seen = torch.arange(T) >= place if kind == "delta rule" else torch.ones(T, dtype=torch.bool)
    assert moved.tolist() == seen.tolist()


@pytest.mark.parametrize(
    ("kind", "reach"),
    [("window", 14), ("window of 16, 4 layers", 60), ("window, 1 global", 63), ("window, 16 global", 63)],
)
def test_how_far_a_window_reaches(kind, reach):
    """KINDS: a window of 8 reaches 7 places a layer; one global place is enough for all."""
    model, x = reader(kind), row()
    other = x.clone()
    other[:, 0] = torch.tensor([64, 64])
    moved = ((model(x) - model(other)).abs() > 1e-13).any(dim=-1).any(dim=0)
    assert moved.nonzero().max() == reach
    # What a window of two layers could answer if it used all that it reaches: one question of ten.
    if kind == "window":
        apart = recipe.HALF + torch.arange(recipe.HALF)[:, None] - torch.arange(recipe.HALF)
        assert 0.08 < (apart <= reach).float().mean() < 0.12


@pytest.mark.parametrize(("kind", "n"), [("full", 0), ("window", 0), ("window, 1 global", 1), ("window, 4 global", 4)])
def test_global_places_are_learned_and_stand_in_front(kind, n):
    model, x, read = reader(kind), row(), []
    model.blocks[0].register_forward_hook(lambda block, given, gave: read.append(given[0]))
    before = model(x)
    [states] = read
    assert states.shape == (2, n + 2 * recipe.HALF, recipe.WIDTH) and "in_front" in dict(model.named_parameters())
    assert states[:, :n].equal(model.in_front.expand(2, n, -1))
    assert states[:, n:].equal(model.keys(x[..., 0]) + model.values(x[..., 1]))
    with torch.no_grad():
        model.in_front.mul_(-1)
    assert model(x).equal(before) == (n == 0)


@pytest.mark.parametrize("kind", ONE_STATE)
def test_nobody_knows_a_place(kind):
    """KeyReader: no positions: where the pairs and the questions stand says nothing."""
    model, x = reader(kind), row()
    order = torch.randperm(x.shape[1], generator=torch.Generator().manual_seed(1))
    assert_close(model(x[:, order]), model(x)[:, order])


@pytest.mark.parametrize(("kind", "n_rounds"), [("buckets, 1 round", 1), ("buckets, 2 rounds", 2)])
def test_buckets_are_drawn_at_each_reading(kind, n_rounds):
    """KINDS: so many rounds; a seed makes the draw again, without one two readings differ."""
    model, x, found = reader(kind), row(), []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        found.append(model(x))
    assert found[0].equal(found[1]) and not found[0].equal(found[2])
    for block in model.blocks:
        layer = block.attention
        assert (layer.n_rounds, layer.n_buckets, layer.chunk) == (n_rounds, 16, 8) and layer.w_k is layer.w_q


def test_readers_have_the_same_sizes():
    """KINDS: two layers of four heads, but for those whose name says more; widths as all."""
    for kind in recipe.KINDS:
        model = recipe.KeyReader(kind)
        assert len(model.blocks) == (4 if "4 layers" in kind else 2)
        heads = {"linear, 1 head": 1, "linear, 16 heads": 16}.get(kind, 4)
        for block in model.blocks:
            assert block.attention.n_heads == heads and block.attention.d_model == recipe.WIDTH
            assert block.feed_forward.w_1.out_features == 2 * recipe.WIDTH and block.pre_norm
    count = lambda kind: sum(part.numel() for part in recipe.KeyReader(kind).parameters())  # noqa: E731
    assert count("full") == count("window") == count("linear") == count("linear, 1 head") == count("linear, 16 heads")
    assert count("window, 4 global") - count("window") == 4 * recipe.WIDTH
    assert count("full") - count("buckets, 1 round") == 2 * (recipe.WIDTH + 1) * recipe.WIDTH  # one vector, not two


# --- pairs of a key and a value: what is asked


def test_rows_come_in_turns():
    """key_batches: 1, 4, 16, 32 pairs and again; the seed draws them."""
    batches = [*islice(recipe.key_batches(3), 8)]
    assert [int((y[0] > 0).sum()) for _, y in batches] == [1, 4, 16, 32] * 2
    for x, y in batches:
        assert x.shape == (recipe.KEY_BATCH, 2 * recipe.HALF, 2) and y.shape == x.shape[:2]
        assert (y[:, : recipe.HALF] == 0).all() and (x[:, recipe.HALF :, 1] == 0).all()
        assert ((y > 0).sum(dim=1) == (y[0] > 0).sum()).all()
    for (x, y), (again, those) in zip(batches, recipe.key_batches(3), strict=False):
        assert x.equal(again) and y.equal(those)
    assert not batches[0][0].equal(batches[4][0]) and not batches[0][0].equal(next(recipe.key_batches(4))[0])


def test_only_questions_count():
    """key_loss: the mean of -log p over the questions, by hand; what is said elsewhere changes nothing."""
    x, y = key_values(3, 4, 8, recipe.SYMBOLS, torch.Generator().manual_seed(0))
    logits = torch.randn(3, 16, recipe.SYMBOLS + 1, generator=torch.Generator().manual_seed(1)).requires_grad_()
    loss = recipe.key_loss(lambda given: logits if given is x else None, (x, y))
    nats = [
        -logits[b, t].log_softmax(dim=-1)[y[b, t]].item() for b in range(3) for t in range(16) if y[b, t] > 0
    ]  # fmt: skip
    assert len(nats) == 12 and loss.item() == pytest.approx(sum(nats) / 12, rel=1e-5)
    loss.backward()
    assert (logits.grad[y == 0] == 0).all() and (logits.grad[y > 0] != 0).any(dim=-1).all()


@pytest.mark.slow
def test_a_reader_learns_one_pair(monkeypatch):
    """key_reader: the loss falls below that of guessing; the seed makes the same reader again."""
    monkeypatch.setattr(recipe, "PAIRS", (1,))
    monkeypatch.setattr(recipe, "HALF", 2)  # four places: a step takes no time
    seen = []
    monkeypatch.setattr(recipe, "fit", lambda *what, **how: seen.append(fit(*what, **how)))
    model = recipe.key_reader(0, "full", steps=80)
    [history] = seen
    assert sum(history.loss[:5]) / 5 > 0.9 * math.log(64) and sum(history.loss[-10:]) / 10 < 0.6 * math.log(64)
    assert not model.training and recipe.right_keys(model, 1) > 0.5


@pytest.mark.parametrize("kind", recipe.KINDS)
def test_all_readers_of_pairs_are_trained_alike(asked, monkeypatch, kind):
    """key_reader: one rate, as many steps, and rows of the same seed; further settings are those of `fit`."""
    monkeypatch.setattr(recipe, "KEY_BATCH", 2)
    batches = []
    monkeypatch.setattr(
        recipe, "key_batches", lambda seed, own=recipe.key_batches: (batches.append(seed), own(seed))[1]
    )
    model = recipe.key_reader(3, kind)
    recipe.key_reader(3, kind, steps=1, watch=str)
    (trained, loss, how), (_, _, other) = asked
    assert trained is model and loss is recipe.key_loss and batches == [3, 3]
    assert (how["steps"], how["lr"], how["weight_decay"], how["device"]) == (600, 3e-3, 0.01, torch.device("cpu"))
    assert how["schedule"](0, 600) == cosine(0, 600, 50) and how["schedule"](400, 600) == cosine(400, 600, 50)
    assert other == how | {"steps": 1, "watch": str, "schedule": other["schedule"]}
    torch.manual_seed(3)
    assert not same(parts(recipe.KeyReader(kind)), parts(model))


@pytest.mark.slow
def test_the_same_seed_makes_the_same_reader(asked):
    assert same(parts(recipe.key_reader(3, "linear")), parts(recipe.key_reader(3, "linear")))
    assert not same(parts(recipe.key_reader(3, "linear")), parts(recipe.key_reader(4, "linear")))


@pytest.mark.parametrize("n_pairs", [1, 8, 32])
def test_who_looks_up_is_right(n_pairs):
    """right_keys: 1 for a dictionary, 1 in 64 for who always says the same, by hand for who knows half of the keys."""
    x, y = key_values(recipe.ASKED_ROWS, n_pairs, recipe.HALF, recipe.SYMBOLS, torch.Generator().manual_seed(10_000))
    keys, values = x[..., 0][y > 0], y[y > 0]
    assert recipe.right_keys(Answers(64), n_pairs) == 1
    for known in (0, 32):
        right = ((keys <= known) | (values == 1)).float().mean().item()
        assert recipe.right_keys(Answers(known), n_pairs) == pytest.approx(right)
    chance, n = 1 / recipe.SYMBOLS, recipe.ASKED_ROWS * n_pairs
    assert abs(recipe.right_keys(Answers(0), n_pairs) - chance) < 5 * (chance * (1 - chance) / n) ** 0.5


def test_all_are_asked_the_same():
    """right_keys: the same rows for every model, none of them drawn by a training seed; modes are as before."""
    one, other = Answers(64), Answers(0).eval()
    torch.manual_seed(5)
    recipe.right_keys(one, 4)
    recipe.right_keys(other, 4)
    assert one.read[0].equal(other.read[0]) and len(one.read[0]) == recipe.ASKED_ROWS
    assert one.modes == other.modes == [(False, False)] and one.training and not other.training
    assert not one.read[0][: recipe.KEY_BATCH].equal([*islice(recipe.key_batches(0), 2)][1][0])


# --- the plays, segment by segment


def test_a_character_is_a_token(small):
    """characters, tokenizer: letters of the training plays; a split as it stands."""
    cut = recipe.tokenizer()
    for split in LETTERS:
        assert cut.decode(recipe.characters(split)) == text(split)
        assert recipe.characters(split).shape == (LETTERS[split],)
    assert len(cut) == len({*text("train")}) + 1 and cut.encode("☃").tolist() == [0]  # what was never seen
    assert cut.encode("").shape == (0,)


@pytest.mark.parametrize(
    ("sizes", "max_len"),
    [({}, 64), ({"segment": 128}, 128), ({"segment": 16}, 64), ({"memory": 32, "relative": False, "window": 8}, 64)],
)
def test_a_reader_has_the_sizes_that_it_is_told(small, sizes, max_len):
    """untrained_reader: the seed draws it; room for 64 places, or a segment that is longer."""
    model = recipe.untrained_reader(3, **sizes)
    config = model.config
    assert (config.d_model, config.n_heads, config.n_layers) == (96, 4, 2) and config.max_len == max_len
    assert config.vocab_size == len(recipe.tokenizer())
    assert (config.memory, config.relative, config.window) == tuple(
        {"memory": 0, "relative": True, "window": None}[name] if name not in sizes else sizes[name]
        for name in ("memory", "relative", "window")
    )
    assert (model.places is None) == config.relative
    assert same(parts(recipe.untrained_reader(3, **sizes)), parts(model))
    assert not same(parts(recipe.untrained_reader(4, **sizes)), parts(model))


def test_readers_with_and_without_a_memory_begin_alike(small):
    """untrained_reader: one seed, one set of weights, whatever is remembered and however long segments are."""
    begins = parts(recipe.untrained_reader(3))
    for sizes in ({"memory": 64}, {"segment": 128}, {"window": 16}):
        assert same(parts(recipe.untrained_reader(3, **sizes)), begins)
    added = parts(recipe.untrained_reader(3, relative=False))
    assert all(added[name].equal(begins[name]) for name in begins if not name.startswith("tokens"))


@pytest.mark.parametrize("segment", [32, 64, 128])
def test_a_step_reads_as_many_characters(small, segment):
    """play_batches: contiguous streams of the training plays; half as many of them where segments are twice as long."""
    batches = [*islice(recipe.play_batches(3, segment), 6)]
    for x, y in batches:
        assert x.shape == y.shape == (4 * 64 // segment, segment) and x.numel() == 4 * recipe.SEGMENT
    for row in range(len(batches[0][0])):
        x, y = (torch.cat([batch[of][row] for batch in batches]) for of in (0, 1))
        assert x[1:].equal(y[:-1])
        read = recipe.tokenizer().decode(x)
        assert read in text("train") * 2
    assert all(x.equal(again) for (x, _), (again, _) in zip(batches, recipe.play_batches(3, segment), strict=False))


def test_streams_begin_elsewhere_by_seed(small):
    begins = {tuple(next(recipe.play_batches(seed))[0][0].tolist()) for seed in range(6)}
    assert len(begins) == 6
    one, other = next(recipe.play_batches(3, 64))[0], next(recipe.play_batches(3, 128))[0]
    assert one[0].equal(other[0, :64])  # one seed begins in one place


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes",
    [{}, {"memory": 64}, {"segment": 128}, {"relative": False}, {"memory": 64, "relative": False}, {"window": 16}],
)
def test_all_readers_of_plays_are_trained_alike(small, asked, sizes):
    """play_reader: one rate and one schedule; the memory is carried from step to step."""
    model = recipe.play_reader(3, 700, **sizes)
    [(trained, loss, how)] = asked
    assert trained is model and isinstance(loss, TruncatedBPTT) and not model.training
    assert (how["steps"], how["lr"], how["weight_decay"], how["device"]) == (700, 6e-3, 0.01, torch.device("cpu"))
    assert how["schedule"](10, 700) == cosine(10, 700, 50)
    memory, rows = sizes.get("memory", 0), 4 * 64 // sizes.get("segment", 64)
    assert [part.shape for part in loss.state] == [(rows, memory, 96)] * 2
    begun = recipe.untrained_reader(3, **sizes)
    assert model.config == begun.config and not same(parts(model), parts(begun))
    assert same(parts(recipe.play_reader(3, 700, **sizes)), parts(model))


class Watched(TruncatedBPTT):
    """Keeps which memory it was given."""

    def __init__(self):
        super().__init__()
        self.given = []

    def __call__(self, model, batch):
        self.given.append(self.state)
        return super().__call__(model, batch)


def test_rate_and_loss_reach_the_training(small, asked):
    """play_reader: another rate moves the weights otherwise; what carries the memory is made anew for each reader."""
    usual, told, slow = (recipe.play_reader(3, 700, memory=16, **how) for how in ({}, {"rate": 6e-3}, {"rate": 1e-3}))
    assert [how["lr"] for _, _, how in asked] == [recipe.PLAY_RATE, 6e-3, 1e-3] and recipe.PLAY_RATE == 6e-3
    assert same(parts(usual), parts(told)) and not same(parts(usual), parts(slow))
    assert usual.config == slow.config
    one, two = (recipe.play_reader(3, 700, memory=16, loss=Watched) for _ in range(2))
    (_, first, how), (_, second, _) = asked[3:]
    assert type(first) is type(second) is Watched and first is not second and how["lr"] == recipe.PLAY_RATE
    for loss in (first, second):
        assert len(loss.given) == 2 and loss.given[0] is None and loss.given[1][0].shape == (4, 16, 96)
    assert same(parts(one), parts(usual)) and same(parts(two), parts(usual))


@pytest.mark.parametrize(("segment", "room"), [(64, 64), (16, 64), (128, 128)])
def test_a_segment_longer_than_its_places_is_refused_in_words(small, segment, room):
    """untrained_reader: learned places end, and the reader says how many there are; relative ones do not."""
    ids = recipe.characters("test")[None, : room + 1]
    with pytest.raises(ValueError, match=f"up to {room} learned places; got {room + 1} tokens"):
        recipe.untrained_reader(0, segment, relative=False)(ids)
    assert recipe.untrained_reader(0, segment, relative=False)(ids[:, :room])[0].shape[1] == room
    assert recipe.untrained_reader(0, segment)(ids)[0].shape[1] == room + 1


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{"memory": 16}, {"relative": False}])
def test_a_reader_of_plays_learns(small, monkeypatch, sizes):
    """play_reader: the loss falls within some steps."""
    monkeypatch.setattr(recipe, "SEGMENT", 16)
    seen = []
    monkeypatch.setattr(recipe, "fit", lambda *what, **how: seen.append(fit(*what, **how)))
    recipe.play_reader(0, 40, segment=16, **sizes)
    loss = seen[0].loss
    assert loss[0] == pytest.approx(math.log(len(recipe.tokenizer())), rel=0.3) and loss[-1] < 0.8 * loss[0]
