"""recipes/smaller_bert.py: which rows are read, what is asked of them, marks counted by hand; the two stored models."""

import json
import math
import random
from functools import cache
from itertools import islice

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from course_lib.bert.bert_labels import IGNORED
from course_lib.bert.replaced_words import Discriminator
from course_lib.data import plays, punctuation
from course_lib.data.punctuation import MARKS, Row
from course_lib.text.wordpiece import WordPiece
from course_lib.train import fit
from course_lib.workshop.recipes import replaced_words as spotter
from course_lib.workshop.recipes import smaller_bert as recipe
from course_lib.workshop.recipes import stored
from course_lib.workshop.recipes.stored import CHECKPOINTS, cards, load, save, train

LINES = (
    "Good sir, come hither.", "Thou art a noble knave!", "The king and the lord, my friend, are here.",
    "What say you, gentle lord?", "Night is come; the good king sleeps.", "I say: thou art my friend and no knave.",
)  # fmt: skip
WORDS = sorted({word for line in LINES for word in punctuation.without_marks(line).words})
SPEECHES, PIECES = {"train": 1_100, "validation": 30, "test": 90}, {"train": 2_400, "validation": 720, "test": 1_200}


@cache
def tokenizer():
    return WordPiece.train(" ".join(LINES * 3), 110)


@cache
def text(split):
    draw = random.Random(split)
    return tokenizer().encode(" ".join(draw.choice(LINES) for _ in range(500)))[: PIECES[split]]


@cache
def speeches(split):
    """Words drawn one by one; a comma behind each "sir", a full stop behind each "friend"."""
    draw, found = random.Random(split), []
    for _ in range(SPEECHES[split]):
        words = draw.choices(WORDS, k=draw.randint(6, 10))
        found.append(Row(words, [{"sir": ",", "friend": "."}.get(word, "") for word in words]))
    return found


@pytest.fixture
def small(monkeypatch):
    """A text of six lines, its tokenizer, speeches whose marks follow a rule; nothing of it stays in a cache."""
    monkeypatch.setattr(punctuation, "rows", speeches)
    for module in (recipe, spotter):
        monkeypatch.setattr(module, "pieces", tokenizer)
        monkeypatch.setattr(module, "text", text)
    for module, name in ((recipe, "blanks"), (recipe, "asked"), (spotter, "frequency")):
        monkeypatch.setattr(module, name, cache(getattr(module, name).__wrapped__))


@pytest.fixture
def few_steps(small, monkeypatch):
    """Every training ends after two steps; what was asked of `fit` is kept."""
    asked = []
    monkeypatch.setattr(recipe, "fit", lambda model, batches, loss, **how: (
        asked.append(how), fit(model, batches, loss, **how | {"steps": min(2, how["steps"])}))[1])  # fmt: skip
    return asked


def parts(model):
    return {name: part.clone() for name, part in model.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


class Says(nn.Module):
    """A model that gives one row of logits whatever it is asked; it remembers the mode in which it was asked."""

    def __init__(self, logits):
        super().__init__()
        self.logits, self.modes = logits, []

    def forward(self, ids, segments=None, mask=None, places=None):
        self.modes.append(self.training)
        asked = ids.flatten() if places is None else places
        found = self.logits.expand(len(asked), -1)
        return found.view(*ids.shape, -1) if places is None else found


# --- what is read


def test_pieces_are_learned_from_the_training_plays(monkeypatch):
    """pieces, text: each split's text by one tokenizer, which has seen the train split alone."""
    asked, cut = [], WordPiece.train(" ".join(LINES), 70)
    monkeypatch.setattr(plays, "text", lambda split: asked.append(split) or f"{split}: good sir")
    monkeypatch.setattr(recipe, "play_pieces", lambda read: asked.append(read) or cut)
    monkeypatch.setattr(recipe, "pieces", cache(recipe.pieces.__wrapped__))
    for split in ("test", "train"):
        assert recipe.text.__wrapped__(split).equal(cut.encode(f"{split}: good sir"))
    assert [*asked] in (["train", "train: good sir", "test", "train"], ["test", "train", "train: good sir", "train"])


@pytest.mark.parametrize(("n_groups", "blocks"), [(None, 4), (4, 4), (2, 2), (1, 1)])
def test_a_small_bert_has_as_many_blocks_as_it_is_told(small, n_groups, blocks):
    """lean: the seed draws it; as many blocks as layers where nothing is said."""
    model = recipe.lean(3, 4, n_groups, width=16)
    assert len(model.blocks) == blocks and len(model.in_order()) == 4
    assert model.config.vocab_size == len(tokenizer()) and model.config.d_model == model.config.d_embedding == 16
    assert same(parts(model), parts(recipe.lean(3, 4, n_groups, width=16)))
    assert not same(parts(model), parts(recipe.lean(4, 4, n_groups, width=16)))
    with pytest.raises(ValueError, match="multiple of n_groups"):
        recipe.lean(3, 4, 3)


def test_rows_are_stretches_of_the_training_plays(monkeypatch):
    """rows: pieces that follow each other, from anywhere in the train split and from no other; the seed draws them."""
    monkeypatch.setattr(recipe, "text", {"train": torch.arange(500)}.__getitem__)
    drawn = torch.cat([*islice(recipe.rows(3), 20)])
    assert drawn.shape == (20 * recipe.BATCH, recipe.ROW) and drawn.dtype == torch.int64
    assert (drawn.diff(dim=1) == 1).all()
    starts = drawn[:, 0]
    assert 0 <= starts.min() < 20 and 455 < starts.max() <= 500 - recipe.ROW
    assert abs(starts.double().mean() - 238) < 5 * 137.5 / len(starts) ** 0.5
    assert next(recipe.rows(3)).equal(drawn[: recipe.BATCH]) and not next(recipe.rows(4)).equal(drawn[: recipe.BATCH])
    assert next(recipe.rows(0, batch=2, length=1)).shape == (2, 1)


@pytest.mark.parametrize("n", [0, 1, 24])
def test_a_text_that_is_too_short_for_a_row_stops(monkeypatch, n):
    monkeypatch.setattr(recipe, "text", lambda split: torch.arange(n))
    with pytest.raises(RuntimeError):
        next(recipe.rows(0, batch=2, length=24))


def test_the_answers_are_what_stood_there(small):
    """masked_rows: the rows of the seed; elsewhere they are read as they are; about 15 pieces of 100 are asked."""
    asked = 0
    for some, (read, places, answers) in islice(zip(recipe.rows(3), recipe.masked_rows(3), strict=False), 10):
        assert some.flatten()[places].equal(answers) and places.unique().equal(places)
        elsewhere = torch.ones(read.numel(), dtype=torch.bool).index_fill(0, places, False)
        assert read.flatten()[elsewhere].equal(some.flatten()[elsewhere])
        assert 0.7 < (read.flatten()[places] == tokenizer().mask).double().mean() < 0.9
        asked += len(places)
    n = 10 * recipe.BATCH * recipe.ROW
    assert abs(asked / n - 0.15) < 5 * (0.15 * 0.85 / n) ** 0.5
    again, other = (next(recipe.masked_rows(seed)) for seed in (3, 4))
    first = next(recipe.masked_rows(3))
    assert all(one.equal(two) for one, two in zip(first, again, strict=True)) and not first[0].equal(other[0])


def test_how_it_is_hidden_can_be_told(small):
    """masked_rows: further arguments are those of `mask_tokens`; nothing hidden is nothing asked."""
    read, places, _ = next(recipe.masked_rows(0, 8, 12, kinds=(1.0, 0.0, 0.0)))
    assert read.shape == (8, 12) and (read.flatten()[places] == tokenizer().mask).all()
    read, places, answers = next(recipe.masked_rows(0, 8, 12, share=0.0))
    assert read.equal(next(recipe.rows(0, 8, 12))) and len(places) == len(answers) == 0
    with pytest.raises(ValueError, match="share"):
        next(recipe.masked_rows(0, share=1.5))
    with pytest.raises(TypeError):
        next(recipe.masked_rows(0, portion=0.5))


def test_the_loss_is_the_mean_of_minus_log_p(small):
    """words_loss: by hand, and with a gradient."""
    logits = torch.randn(len(tokenizer()), generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    read, places, answers = batch = next(recipe.masked_rows(0, 8, 12))
    loss = recipe.words_loss(Says(logits), batch)
    p = logits.exp() / logits.exp().sum()
    assert_close(loss, -sum(p[answer].log() for answer in answers.tolist()) / len(places))
    [gradient] = torch.autograd.grad(loss, logits)
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize(("whole", "steps"), [(None, 50), (400, 50)])
def test_the_rate_rises_and_falls(small, monkeypatch, whole, steps):
    """taught: for WARMUP steps up, then along a cosine, of all steps of which these are the first."""
    given = []
    monkeypatch.setattr(recipe, "fit", lambda model, batches, loss, **how: given.append(how))
    monkeypatch.setattr(recipe, "WARMUP", 10)
    recipe.taught(None, iter(()), None, steps, whole=whole, watch_every=7)
    [how] = given
    rate = [how["schedule"](step, steps) for step in range(steps)]
    assert rate[:10] == pytest.approx([(step + 1) / 11 for step in range(10)])
    assert all(a > b for a, b in zip(rate[11:], rate[12:], strict=False))
    assert (rate[-1] < 0.11) == (whole is None)
    assert how["steps"] == steps and how["lr"] == recipe.RATE and how["watch_every"] == 7
    assert how["device"] == recipe.CPU and how["progress"] is False
    recipe.taught(None, iter(()), None, steps, 0.1, progress=True)
    assert given[1]["lr"] == 0.1 and given[1]["progress"] is True


def test_a_few_steps_lower_the_loss(small):
    model = recipe.LeanWords(recipe.lean(0, 1, width=16))
    history = recipe.taught(model, recipe.masked_rows(0, 16, 12), recipe.words_loss, 25, 3e-2)
    assert len(history.loss) == 25 and sum(history.loss[-5:]) < 0.9 * sum(history.loss[:5]) and not model.training


# --- bits of hidden pieces


def test_blanks_come_from_all_of_a_text(small, monkeypatch):
    """blanks: rows of a split one behind the other, spread over all of it; at each place that is asked a [MASK]."""
    V = len(tokenizer())
    long = torch.arange(5, V).repeat(400)
    monkeypatch.setattr(recipe, "text", {"test": long, "validation": long[:100]}.__getitem__)
    read, places, answers = recipe.blanks("test", 50)
    step = len(long) // 50
    assert read.shape == (50, recipe.ROW) and step > recipe.ROW
    rows = torch.stack([long[step * row : step * row + recipe.ROW] for row in range(50)])
    assert rows.flatten()[places].equal(answers) and (read.flatten()[places] == tokenizer().mask).all()
    assert (read == tokenizer().mask).sum() == len(places)
    assert torch.where(read == tokenizer().mask, rows, read).equal(rows)
    assert 0.1 < len(places) / read.numel() < 0.2
    assert recipe.blanks("test", 50)[0] is read and recipe.blanks.__wrapped__("test", 50)[0].equal(read)
    short = recipe.blanks("validation")[0]  # no row overlaps another
    assert short.shape == (100 // recipe.ROW, recipe.ROW)


def test_who_says_the_frequencies_has_their_entropy(small):
    """bits: by hand; who says that all are as likely has log2 V; the model is asked in eval mode and stays in its."""
    counts = text("test").bincount(minlength=len(tokenizer())) + 1e-3
    p = counts / counts.sum()
    model = Says(p.log()).train()
    found = recipe.bits(model)
    _, _, answers = recipe.blanks("test")
    assert found == pytest.approx(-p[answers].log2().mean().item(), rel=1e-5)
    assert found == pytest.approx(-(p * p.log2()).sum().item(), abs=0.4)
    assert model.modes == [False] and model.training
    assert recipe.bits(Says(torch.zeros(len(tokenizer())))) == pytest.approx(math.log2(len(tokenizer())), rel=1e-5)
    assert recipe.bits(model, "validation") != found


# --- marks


def test_a_mark_is_asked_at_the_first_piece_of_its_word(small):
    """marked_batch: one speech decoded by hand; its last word is not asked, and nothing of [CLS], [SEP], padding."""
    long = Row(["good", "sirsir", "o'er", "come", "night"], ["", ",", "?", ".", "!"])
    ids, segments, mask, labels = recipe.marked_batch([long, Row(["sir", "thou"], ["", "."])])
    assert segments is None and ids.shape == mask.shape == labels.shape and mask[0].all() and not mask[1, -1]
    told = [(tokenizer().vocab[i], label) for i, label in zip(ids[0].tolist(), labels[0].tolist(), strict=True)]
    words = [("good", 0), ("sirsir", 1), ("o'er", MARKS.index("?")), ("come", 2), ("night", IGNORED)]
    wanted = [("[CLS]", IGNORED)]
    for word, label in words:
        first, *rest = tokenizer().pieces(word)
        wanted += [(first, label), *((piece, IGNORED) for piece in rest)]
    assert told == [*wanted, ("[SEP]", IGNORED)] and len(told) > len(words) + 2
    assert labels[1, :3].tolist() == [IGNORED, 0, IGNORED] and (labels[1, 3:] == IGNORED).all()
    assert (labels[1] != IGNORED).sum() == 1


@pytest.mark.parametrize("row", [Row(["sir"], [","]), Row([], []), Row(["☃"], [""])])
def test_of_a_word_alone_nothing_is_asked(small, row):
    ids, _, mask, labels = recipe.marked_batch([row])
    assert (labels == IGNORED).all() and mask.all() and ids.shape[1] == len(row.words) + 2


def test_speeches_are_asked_from_all_of_a_split(small, monkeypatch):
    """asked: drawn once, none twice, from beginning, middle and end; short ones first."""
    known = [Row([f"w{n}"] * (6 + n % 7), [""] * (6 + n % 7)) for n in range(2_000)]
    monkeypatch.setattr(punctuation, "rows", lambda split: {"test": known, "validation": known[:10]}[split])
    found = recipe.asked("test")
    at = [int(row.words[0][1:]) for row in found]
    assert len(found) == len({*at}) == recipe.ASKED and [known[n] for n in at] == found
    assert all(recipe.ASKED / 8 < sum(low <= n < low + 500 for n in at) for low in range(0, 2_000, 500))
    assert [len(row.words) for row in found] == sorted(len(row.words) for row in found)
    assert recipe.asked.__wrapped__("test") == found and recipe.asked("test") is found
    assert sorted(recipe.asked("validation")) == sorted(known[:10])  # fewer than are wanted: all


def test_an_unknown_split_stops():
    with pytest.raises(ValueError, match="split"):
        recipe.asked("tset")


@pytest.mark.parametrize(
    ("said", "meant", "wanted"),
    [
        ([1, 2, 0, 0, 3], [1, 1, 2, 0, 0], 1 / 3),  # one right, three said, three meant
        ([1, 1], [1, 1], 1.0),
        ([2, 1], [1, 2], 0.0),
        ([1, 1, 1, 1], [1, 0, 0, 0], 2 / 5),
        ([0, 0], [1, 2], 0.0),
        ([1, 2], [0, 0], 0.0),
        ([0, 0, 0], [0, 0, 0], 0.0),  # nothing said and nothing meant: no mark is right
        ([], [], 0.0),
    ],
)
def test_f1_by_hand(said, meant, wanted):
    """f1: 2 right / (said + meant); of no mark nothing is counted."""
    said, meant = (torch.tensor(part, dtype=torch.long) for part in (said, meant))
    assert recipe.f1(said, meant) == pytest.approx(wanted) and recipe.f1(meant, said) == pytest.approx(wanted)
    shares = {"precision": said > 0, "recall": meant > 0}
    right = ((said == meant) & (meant > 0)).sum()
    if right:  # the harmonic mean of the two
        precision, recall = (right / which.sum() for which in shares.values())
        assert wanted == pytest.approx((2 / (1 / precision + 1 / recall)).item())


def test_a_mark_is_set_where_one_is_likely(monkeypatch):
    """marks_said: by hand above, at and below the threshold; then the likeliest of the marks."""
    monkeypatch.setattr(recipe, "LIKELY", 0.25)
    p = torch.tensor(
        [
            [0.70, 0.20, 0.10],  # likelier than the threshold together, neither alone
            [0.70, 0.10, 0.20],
            [0.75, 0.25, 0.00],  # just at it
            [0.80, 0.10, 0.10],
            [0.00, 0.00, 1.00],
            [1.00, 0.00, 0.00],
            [math.nan, math.nan, math.nan],
        ]
    )
    assert recipe.marks_said(p).tolist() == [1, 2, 0, 0, 2, 0, 0]
    assert recipe.marks_said(p[:0]).tolist() == []


def test_marks_found_by_hand(small):
    """marks_found: over all speeches, in batches; commas everywhere, nothing anywhere."""
    meant = [mark for row in recipe.asked("test") for mark in row.marks[:-1]]
    n, marks, commas = len(meant), sum(mark != "" for mark in meant), meant.count(",")
    assert len(recipe.asked("test")) > 64 and 0 < commas < marks < n
    comma = Says(torch.tensor([0.0, 9.0, 0, 0, 0, 0, 0])).train()
    found = recipe.marks_found(comma)
    assert found == {"places": pytest.approx(2 * marks / (n + marks)), "marks": pytest.approx(2 * commas / (n + marks))}
    assert comma.modes == [False, False] and comma.training
    assert recipe.marks_found(Says(torch.tensor([9.0, 0, 0, 0, 0, 0, 0]))) == {"places": 0, "marks": 0}
    assert recipe.marks_found(comma, "validation") != found


@pytest.mark.parametrize(("stop", "marks"), [(2, 1.0), (3, None)])
def test_who_knows_the_rule_finds_all(small, stop, marks):
    """marks_found: right places with a wrong mark count for places alone."""
    rule = torch.zeros(len(tokenizer()), len(MARKS))
    rule[:, 0] = 9.0
    for word, mark in (("sir", 1), ("friend", stop)):
        [piece] = tokenizer().encode(word).tolist()
        rule[piece, [0, mark]] = torch.tensor([0.0, 9.0])

    class Knows(nn.Module):
        def forward(self, ids, segments, mask):
            return rule[ids]

    found = recipe.marks_found(Knows())
    assert found["places"] == 1 and (found["marks"] == marks if marks else 0.2 < found["marks"] < 0.8)


# --- fine-tuning


def speech_of(ids, mask):
    """The words of a row, as text."""
    return tokenizer().decode(ids[mask])


def test_as_many_training_speeches_as_told(small, monkeypatch):
    """labelled_batches: no other than n speeches of the train split, all different, with their marks."""
    asked, known = [], {" ".join(row.words): row.marks for row in speeches("train")}
    monkeypatch.setattr(punctuation, "rows", lambda split: asked.append(split) or speeches(split))
    batches = [*islice(recipe.labelled_batches(3, n=12, batch=8), 20)]
    met = {}
    for ids, segments, mask, labels in batches:
        assert len(ids) == 8 and segments is None
        for row, real, label in zip(ids, mask, labels, strict=True):
            told = speech_of(row, real)
            met[told] = [MARKS[mark] for mark in label[label != IGNORED].tolist()]
    assert len(met) == 12 and all(known[told][:-1] == marks for told, marks in met.items()) and {*asked} == {"train"}
    again, other = (next(recipe.labelled_batches(seed, n=12, batch=8))[0] for seed in (3, 4))
    assert again.equal(batches[0][0]) and not again.equal(other)


def test_many_speeches_are_labelled(small):
    """labelled_batches: a batch of 16 where nothing is said; of one speech, always that one."""
    assert len(next(recipe.labelled_batches(0))[0]) == 16
    ids, _, mask, _ = next(recipe.labelled_batches(0, 1, 4))
    [told] = {speech_of(row, real) for row, real in zip(ids, mask, strict=True)}
    assert told in {" ".join(row.words) for row in speeches("train")}


def test_fine_tuning_leaves_the_model_as_it_was(few_steps):
    """marker: a copy learns; the seed draws its head and its speeches; all that is asked of the training."""
    bert = recipe.lean(0, 2, width=16)
    before = parts(bert)
    head = recipe.marker(bert, 3)
    assert same(parts(bert), before) and bert.training and not head.training
    assert not same(parts(head.bert), before) and head.readout.out_features == len(MARKS)
    assert not {part.data_ptr() for part in head.parameters()} & {part.data_ptr() for part in bert.parameters()}
    assert same(parts(head), parts(recipe.marker(bert, 3))) and not same(parts(head), parts(recipe.marker(bert, 4)))
    how = few_steps[0]
    assert how["steps"] == recipe.TUNING and how["lr"] == recipe.TUNING_RATE and how["device"] == recipe.CPU
    assert how["schedule"](0, recipe.TUNING) < how["schedule"](15, recipe.TUNING) == 1


def test_shared_blocks_stay_shared_in_fine_tuning(few_steps):
    head = recipe.marker(recipe.lean(0, 2, 1, width=16), 0)
    assert len(head.bert.blocks) == 1 and head.bert.in_order()[0] is head.bert.in_order()[1]


@pytest.mark.slow
def test_marks_are_learned(small, monkeypatch):
    """marker, marks_found: a rule of two words is found within a few steps; before them it is not."""
    monkeypatch.setattr(recipe, "TUNING_RATE", 1e-2)
    bert = recipe.lean(0, 1, width=32)
    head = recipe.marker(bert, 0, steps=60)
    assert recipe.marks_found(head)["places"] > 0.75 > 0.6 > recipe.marks_found(recipe.marker(bert, 0, 1))["places"]


def test_worth_is_two_shares(few_steps):
    """worth: F1 of the places and of the marks, of the fine-tuned copy, on test speeches."""
    bert = recipe.lean(0, 1, width=16)
    found = recipe.worth(bert, 3)
    assert {*found} == {"places", "marks"} and 0 <= found["marks"] <= found["places"] <= 1
    assert found == recipe.marks_found(recipe.marker(bert, 3))


# --- stored models


RECIPES = {
    "reader": recipe.LeanRecipe("A small one", width=16, n_layers=1, steps=40, batch=4, row=12),
    "spotter": spotter.DiscriminatorRecipe("A spotter", n_layers=1, steps=40),
}


@pytest.fixture
def kept(few_steps, tmp_path, monkeypatch):
    """Two small recipes, and an empty folder for what they make."""
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path / "data" / "checkpoints")
    monkeypatch.setattr(stored, "RECIPES", RECIPES)
    threads = torch.get_num_threads()
    yield few_steps
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_run_makes_a_model_that_comes_back(kept, name):
    """LeanRecipe, DiscriminatorRecipe: trained, measured, saved, loaded; the first steps of the whole training."""
    model, record = train(name, steps=2, progress=False)
    assert [step for step, _ in record["curve"]] == [0, 2] and record["steps"] == 2
    how = next(how for how in kept if "watch" in how)
    assert how["lr"] == RECIPES[name].lr and how["watch_every"] == 500
    assert how["schedule"](1, 2) == recipe.cosine(1, 40, recipe.WARMUP)
    assert {*record} >= stored.RECORD | RECIPES[name].MEASURED and record["recipe"]["sizes"]
    assert record["weights"] == sum(part.numel() for part in model.parameters())
    save(name, model, record)
    back, again = load(name)
    assert again == json.loads(json.dumps(record)) and not back.training and type(back) is type(model)
    assert all(part.equal(model.state_dict()[key].half().float()) for key, part in back.state_dict().items())
    assert RECIPES[name].about in cards() and RECIPES[name].batches_in_words() in cards()
    assert RECIPES[name].result(record) in cards()


def test_what_is_said_of_a_reader_was_measured(kept):
    """LeanRecipe: bits of test plays, marks of test speeches; the looks are bits of validation plays."""
    model, record = train("reader", steps=2, progress=False)
    assert record["test_bits"] == recipe.bits(model)
    assert record["curve"][-1][1] == pytest.approx(recipe.bits(model, "validation"), abs=1e-4)
    assert record["test_marks"] == recipe.worth(model.bert, 5)["places"]
    assert "4 × 12 pieces" in RECIPES["reader"].batches_in_words()
    assert f"{record['test_bits']:.2f} bits" in RECIPES["reader"].result(record)


def test_what_is_said_of_a_spotter_was_measured(kept):
    """DiscriminatorRecipe: shares found and called wrongly on test plays, marks of test speeches."""
    model, record = train("spotter", steps=2, progress=False)
    test = spotter.found(model, "test")
    assert (record["test_found"], record["test_false_alarms"]) == (test["found"], test["false alarms"])
    assert record["curve"][-1][1] == pytest.approx(spotter.found(model, "validation")["found"], abs=1e-4)
    assert record["test_marks"] == recipe.worth(model.bert, 5)["places"] and isinstance(model, Discriminator)


def test_pieces_are_exchanged_for_frequent_ones(small):
    """exchanged, frequency: only where chosen, never for a special; each piece as often as in the training plays."""
    p = spotter.frequency()
    counts = text("train").bincount(minlength=len(tokenizer())) + 1
    counts[list(tokenizer().specials.values())] = 0
    assert_close(p, counts / counts.sum())
    assert p.sum().item() == pytest.approx(1)
    ids = next(recipe.rows(0, 400, 12))
    some = spotter.exchanged(ids, torch.Generator().manual_seed(3))
    assert some.replaced.equal(some.ids != ids) and some.mask is None
    assert 0.1 < some.replaced.double().mean() < 0.16
    drawn = some.ids[some.replaced]
    assert (p[drawn] > 0).all()
    common, rare = p.argmax(), (p + (p == 0)).argmin()
    assert (drawn == common).sum() > (drawn == rare).sum()
    assert spotter.exchanged(ids, torch.Generator().manual_seed(3)).ids.equal(some.ids)
    assert not spotter.exchanged(ids, torch.Generator().manual_seed(4)).ids.equal(some.ids)


@pytest.mark.parametrize(("score", "share"), [(1.0, 1.0), (-1.0, 0.0), (0.0, 0.0), (math.nan, 0.0)])
def test_who_calls_all_exchanged_finds_all(small, score, share):
    """found: shares of the exchanged and of the others; who says nothing has no false alarm."""
    model = lambda ids: torch.full(ids.shape, score)  # noqa: E731
    assert spotter.found(model, "test") == {"found": share, "false alarms": share}


def plays_pieces():
    """The tokenizer as a file has it, sooner than it is learned; test_stored.py holds the two to each other."""
    return load("plays_bert")[1]["tokenizer"]


@pytest.fixture
def real(monkeypatch):
    """The plays, read by the stored tokenizer; nothing stays in a cache of others."""
    learned = cache(plays_pieces)
    read = cache(lambda split: learned().encode(plays.text(split)))
    for module in (recipe, spotter):
        monkeypatch.setattr(module, "pieces", learned)
        monkeypatch.setattr(module, "text", read)
    monkeypatch.setattr(recipe, "blanks", cache(recipe.blanks.__wrapped__))
    monkeypatch.setattr(spotter, "frequency", cache(spotter.frequency.__wrapped__))


@pytest.mark.parametrize("name", ["plays_teacher", pytest.param("plays_spotter", marks=pytest.mark.full)])
def test_a_stored_model_has_a_whole_record_and_a_small_file(real, name):
    (model, record), made = load(name), stored.RECIPES[name]
    assert not model.training and record["weights"] == sum(part.numel() for part in model.parameters())
    steps, seen = zip(*record["curve"], strict=True)
    assert steps[0] == 0 and steps[-1] == record["steps"] == made.steps
    if name == "plays_teacher":
        assert seen[-1] < seen[0] - 3
    else:  # an untrained one may call all of them exchanged
        assert abs(seen[-1] - spotter.found(model, "validation")["found"]) < 0.01
    assert (CHECKPOINTS / f"{name}.safetensors").stat().st_size < 3e6
    assert made.result(record) in (CHECKPOINTS / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_stored_teacher_is_worth_what_its_card_says(real, monkeypatch):
    """load: bits of hidden pieces, on fewer rows; far below who knows the frequencies alone."""
    model, record = load("plays_teacher")
    few = recipe.blanks.__wrapped__("test", 200)
    monkeypatch.setattr(recipe, "blanks", lambda split: few)
    found = recipe.bits(model)
    assert abs(found - record["test_bits"]) < 0.2
    assert found < recipe.bits(Says(spotter.frequency().log())) - 2


@pytest.mark.full  # the weights are those of their SHA-256; what they are worth, `make test-all` measures again
def test_the_stored_spotter_is_worth_what_its_card_says(real):
    model, record = load("plays_spotter")
    found = spotter.found(model, "test")
    assert abs(found["found"] - record["test_found"]) < 0.01
    assert abs(found["false alarms"] - record["test_false_alarms"]) < 0.005 < found["found"] - found["false alarms"]


@pytest.mark.full  # the weights are those of their SHA-256; what they are worth, `make test-all` measures again
def test_the_stored_teacher_sets_as_many_marks_as_its_card_says(real):
    model, record = load("plays_teacher")
    assert abs(recipe.worth(model.bert, 5)["places"] - record["test_marks"]) < 0.02


def test_a_random_model_of_the_plays_knows_no_more_than_all_pieces(small):
    """bits: a new model is near log2 V, so that what is below it was learned."""
    model = recipe.LeanWords(recipe.lean(0, 2))
    assert recipe.bits(model) == pytest.approx(math.log2(len(tokenizer())), abs=0.7)
    read, places, answers = recipe.blanks("test")
    assert_close(F.cross_entropy(model(read, places=places), answers).item() / math.log(2), recipe.bits(model))
