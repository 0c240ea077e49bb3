"""experiments/smaller_bert.py and its controls: generators by brute force, losses by hand, and plain numbers."""

import json
import random
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from course_lib.bert.fewer_bits import megabytes
from course_lib.bert.lean_bert import LeanWords
from course_lib.bert.masked_words import mask_tokens
from course_lib.bert.replaced_words import Discriminator, Replaced, draw_pieces, replace, replaced_loss
from course_lib.data import punctuation
from course_lib.data.punctuation import MARKS, Row
from course_lib.text.wordpiece import WordPiece
from course_lib.train import fit
from course_lib.workshop.experiments import Experiment
from course_lib.workshop.experiments.smaller_bert import controls
from course_lib.workshop.experiments.smaller_bert import core as experiments
from course_lib.workshop.recipes import smaller_bert as recipe

ROOT = Path(recipe.__file__).parents[2]
COUNTING = [name for name in experiments.GENERATORS if name not in ("learns too", "stored")]
LINES = (
    "Good sir, come hither.", "Thou art a noble knave!", "The king and the lord, my friend, are here.",
    "What say you, gentle lord?", "Night is come; the good king sleeps.", "I say: thou art my friend and no knave.",
)  # fmt: skip
WORDS = sorted({word for line in LINES for word in punctuation.without_marks(line).words})
SPEECHES, PIECES = {"train": 1_100, "validation": 20, "test": 40}, {"train": 2_400, "validation": 720, "test": 960}


@cache
def tokenizer():
    return WordPiece.train(" ".join(LINES * 3), 110)


@cache
def text(split):
    draw = random.Random(split)
    return tokenizer().encode(" ".join(draw.choice(LINES) for _ in range(500)))[: PIECES[split]]


RULE = {"sir": ",", "hither": ".", "what": "?", "knave": "!", "night": ":"}


@cache
def speeches(split):
    """Words drawn one by one; behind some of them always the same mark, behind others a semicolon before "and"."""
    draw, found = random.Random(split), []
    for _ in range(SPEECHES[split]):
        words = draw.choices(WORDS, k=draw.randint(6, 10))
        pairs = zip(words, [*words[1:], ""], strict=True)
        found.append(Row(words, [RULE.get(word, ";" if then == "and" else "") for word, then in pairs]))
    return found


@pytest.fixture
def tiny(monkeypatch):
    """A text of six lines, a small teacher, small batches, and every training ends after two steps, kept in a list."""
    asked, rows, lean = [], recipe.rows, recipe.lean
    monkeypatch.setattr(punctuation, "rows", speeches)
    for module in (recipe, experiments):
        monkeypatch.setattr(module, "pieces", tokenizer)
    monkeypatch.setattr(recipe, "text", text)
    kept = [(recipe, "blanks"), (recipe, "asked"), (experiments, "frequency"), (experiments, "beside")]
    for module, name in (*kept, (controls, "bare_text")):
        monkeypatch.setattr(module, name, cache(getattr(module, name).__wrapped__))
    monkeypatch.setattr(recipe, "rows", lambda seed, *_: rows(seed, 8, 12))
    monkeypatch.setattr(recipe, "BATCH", 8)
    monkeypatch.setattr(recipe, "fit", lambda model, batches, loss, **how: (
        asked.append((model, how)), fit(model, batches, loss, **how | {"steps": min(2, how["steps"])}))[1])  # fmt: skip
    narrow = lambda seed, n_layers=4, n_groups=None, width=32: lean(seed, n_layers, n_groups, width)  # noqa: E731
    for module in (recipe, experiments, controls):
        monkeypatch.setattr(module, "lean", narrow)
    master = LeanWords(lean(7, 4, width=32)).eval()
    with torch.no_grad():
        master.transform.weight.normal_(generator=torch.Generator().manual_seed(0)).mul_(0.3)
        master.bias.normal_(generator=torch.Generator().manual_seed(1))
    for module in (experiments, controls):
        monkeypatch.setattr(module, "teacher", lambda: master)
    monkeypatch.setattr(experiments, "BITS", (8, 2))
    return asked


def master_of():
    return experiments.teacher()


def parts(model):
    return {name: part.clone() for name, part in model.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def some_rows(seed=0):
    ids = next(recipe.rows(seed))
    return ids, mask_tokens(ids, tokenizer(), torch.Generator().manual_seed(seed))[1]


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


class Spies(nn.Module):
    """A learner whose logits are given; it remembers what it read."""

    def __init__(self, logits):
        super().__init__()
        self.logits, self.read = logits, []

    def forward(self, ids, segments=None, mask=None, places=None):
        self.read.append((ids, places))
        return self.logits.expand(len(places), -1)


# --- generators


def test_frequencies_are_counts(tiny):
    """frequency: one more than was counted in the training plays; specials never; together 1."""
    p, counts = experiments.frequency(), Counter(text("train").tolist())
    ordinary = [i for i in range(len(tokenizer())) if i not in tokenizer().specials.values()]
    total = sum(counts[i] + 1 for i in ordinary)
    assert p.sum().item() == pytest.approx(1)
    for i, found in enumerate(p.tolist()):
        assert found == pytest.approx((counts[i] + 1) / total if i in ordinary else 0)


def test_neighbours_are_counts(tiny):
    """beside: p(piece | the one before) and p(piece | the one behind), by brute force, smoothed by five."""
    after, before = experiments.beside()
    ids, p = text("train").tolist(), experiments.frequency().tolist()
    pairs = Counter(zip(ids, ids[1:], strict=False))
    firsts, seconds = Counter(ids[:-1]), Counter(ids[1:])
    assert_close(after.sum(dim=1), torch.ones(len(p)))
    assert_close(before.sum(dim=1), torch.ones(len(p)))
    for a in range(0, len(p), 3):
        for b in range(0, len(p), 3):
            assert after[a, b].item() == pytest.approx((pairs[a, b] + 5 * p[b]) / (firsts[a] + 5), abs=1e-6)
            assert before[b, a].item() == pytest.approx((pairs[a, b] + 5 * p[a]) / (seconds[b] + 5), abs=1e-6)


@pytest.mark.parametrize("generator", experiments.GENERATORS)
def test_a_generator_gives_probabilities(tiny, generator):
    """guesses: a row for each chosen place, which sums to 1; who counts never says a special; none chosen: none."""
    ids, chosen = some_rows()
    found = experiments.guesses(ids, chosen, generator)
    assert found.shape == (chosen.sum(), len(tokenizer())) and not found.isnan().any()
    p = found.softmax(dim=-1)
    assert_close(p.sum(dim=-1), torch.ones(len(p)))
    if generator in COUNTING:
        specials = list(tokenizer().specials.values())
        assert (p[:, specials] == 0).all() and not torch.isin(draw_pieces(found), torch.tensor(specials)).any()
        ordinary = [i for i in range(len(tokenizer())) if i not in specials]
        assert (p[:, ordinary] > 0).all()
    assert experiments.guesses(ids, torch.zeros_like(chosen), generator).shape == (0, len(tokenizer()))


def by_brute_force(generator, left, right):
    """p of every piece between these two."""
    p, (after, before) = experiments.frequency(), experiments.beside()
    if generator == "any piece":
        found = (p > 0).float()
    elif generator == "by frequency":
        found = p
    elif generator == "after the piece before":
        found = after[left]
    else:
        both = zip(after[left].tolist(), before[right].tolist(), p.tolist(), strict=True)
        found = torch.tensor([a * b / q if q else 0 for a, b, q in both])
    return found / found.sum()


@pytest.mark.parametrize("generator", COUNTING)
def test_a_generator_that_counts_by_brute_force(tiny, generator):
    """guesses: place by place; at a row's end the piece beside it is the other end's."""
    ids, chosen = some_rows(3)
    chosen[0, 0] = chosen[1, -1] = chosen[2, 5] = chosen[2, 6] = True
    p, T = experiments.guesses(ids, chosen, generator).softmax(dim=-1), ids.shape[1]
    for found, (row, at) in zip(p, chosen.nonzero().tolist(), strict=True):
        wanted = by_brute_force(generator, ids[row, at - 1], ids[row, (at + 1) % T])
        assert_close(found, wanted, atol=1e-5, rtol=1e-3)


def test_what_was_seen_between_two_is_preferred(tiny):
    """guesses: thou [art] a: by both neighbours surer than by one, and by one surer than by none."""
    ids = tokenizer().encode("knave ! thou art a noble")[None]
    chosen = ids == tokenizer().encode("art")
    assert chosen.sum() == 1
    right = [experiments.guesses(ids, chosen, name).softmax(dim=-1)[chosen.nonzero()[:, 0], ids[chosen]].item()
             for name in COUNTING]  # fmt: skip
    assert right == sorted(right) and right[0] == pytest.approx(1 / (len(tokenizer()) - 5)) and right[-1] > 0.9


@pytest.mark.parametrize("generator", ["learns too", "stored"])
def test_a_generator_that_reads_sees_masks_alone(tiny, generator):
    """guesses: at each chosen place [MASK]; the learner is asked if there is one, else the stored model."""
    ids, chosen = some_rows()
    learner = Spies(torch.randn(len(tokenizer())))
    found = experiments.guesses(ids, chosen, generator, learner)
    [(read, places)] = learner.read
    assert read.equal(torch.where(chosen, tokenizer().mask, ids)) and read.flatten()[places].unique().tolist() == [
        tokenizer().mask
    ]
    assert found.equal(learner.logits.expand(len(places), -1)) and len(places) == chosen.sum()
    assert experiments.guesses(ids, chosen, generator).equal(master_of()(read, places=places))


@pytest.mark.parametrize("generator", experiments.GENERATORS)
def test_replaced_rows_say_what_was_replaced(tiny, generator):
    """replaced_rows: the rows of the seed, replaced at chosen places alone; where the draw is right, "not replaced"."""
    steps = 12
    asked = 0
    for ids, batch, _ in zip(recipe.rows(3), experiments.replaced_rows(3, generator), range(steps), strict=False):
        assert batch.replaced.equal(batch.ids != ids) and batch.mask is None and not batch.ids.requires_grad
        asked += batch.replaced.sum().item()
    assert 0.005 < asked / (steps * 8 * 12) < 0.21  # who knows the six lines is often right
    first, again, other = (next(experiments.replaced_rows(seed, generator)) for seed in (3, 3, 4))
    assert first.ids.equal(again.ids) and first.replaced.equal(again.replaced) and not first.ids.equal(other.ids)


def test_who_draws_what_stood_there_replaces_nothing(tiny, monkeypatch):
    """replaced_rows: and who always draws another piece replaces each chosen place."""
    for shift in (0, 1):
        monkeypatch.setattr(experiments, "guesses", lambda ids, chosen, generator, shift=shift: (
            1e4 * F.one_hot((ids[chosen] + shift) % len(tokenizer()), len(tokenizer())).float()))  # fmt: skip
        batch = next(experiments.replaced_rows(0, "any piece"))
        ids = next(recipe.rows(0))
        _, chosen = mask_tokens(ids, tokenizer(), torch.Generator().manual_seed(1))
        assert batch.replaced.equal(chosen & bool(shift)) and chosen.any()


def test_skill_by_hand(tiny):
    """generator_skill: who says that all are as likely has log2 of their number; who knows more has fewer bits."""
    found = {name: experiments.generator_skill(name) for name in COUNTING}
    n = len(tokenizer()) - 5
    assert found["any piece"]["bits"].item() == pytest.approx(torch.tensor(float(n)).log2().item(), rel=1e-5)
    bits, right = ([one[key].item() for one in found.values()] for key in ("bits", "same"))
    assert bits == sorted(bits, reverse=True) and right == sorted(right) and 0 <= right[0] < right[-1] <= 1


# --- replaced words


def pair_of(seed=0):
    return experiments.Electra(Discriminator(experiments.lean(seed, 2)), LeanWords(experiments.lean(seed + 1, 1)))


def test_both_share_one_table(tiny):
    """Electra: one table of pieces, counted once; a step moves it for both; blocks and norms are each its own."""
    pair = pair_of()
    theirs, ours = pair.generator.bert.tokens.weight, pair.discriminator.bert.tokens.weight
    assert theirs is ours and sum(part is ours for part in pair.parameters()) == 1
    assert pair.discriminator.bert.blocks[0] is not pair.generator.bert.blocks[0]
    before = parts(pair)
    recipe.taught(pair, recipe.rows(0), experiments.both_losses(torch.Generator().manual_seed(0)), 2)
    assert pair.generator.bert.tokens.weight is pair.discriminator.bert.tokens.weight
    now = parts(pair)
    assert now["generator.bert.tokens.weight"].equal(now["discriminator.bert.tokens.weight"])
    assert not now["generator.bert.tokens.weight"].equal(before["generator.bert.tokens.weight"])
    assert not now["generator.bias"].equal(before["generator.bias"])


def test_both_losses_are_the_sum_of_two(tiny):
    """both_losses: by hand with the same draws, the second 50 times."""
    pair, ids = pair_of(), next(recipe.rows(0))
    found = experiments.both_losses(torch.Generator().manual_seed(3))(pair, ids)
    draws = torch.Generator().manual_seed(3)
    _, chosen = mask_tokens(ids, tokenizer(), draws)
    read = ids.masked_fill(chosen, tokenizer().mask)
    log_p = pair.generator(read).log_softmax(dim=-1)[chosen]
    batch = replace(ids, chosen, draw_pieces(log_p, draws))
    p = pair.discriminator(batch.ids).sigmoid()
    right = torch.where(batch.replaced, p, 1 - p)
    assert batch.replaced.any()
    assert_close(found, -log_p.gather(1, ids[chosen][:, None]).mean() - 50 * right.log().mean(), rtol=1e-4, atol=1e-3)


def test_the_generator_does_not_hear_of_the_discriminator(tiny, monkeypatch):
    """both_losses: no gradient of the second loss in the generator's own parts, none of the first in the other's."""
    pair, ids = pair_of(), next(recipe.rows(0))
    found = {}
    for weight in (0, 1, 50):
        monkeypatch.setattr(experiments, "WEIGHT", weight)
        found[weight] = gradients(pair, experiments.both_losses(torch.Generator().manual_seed(3))(pair, ids))
    table = "discriminator.bert.tokens.weight"
    for name, gradient in found[0].items():
        if name == table:
            second = found[1][name] - gradient
            assert gradient.any() and second.any()
            assert_close(found[50][name], gradient + 50 * second, rtol=1e-2, atol=1e-4)
        elif name.startswith("generator."):
            assert found[50][name].equal(gradient)
        else:
            assert not gradient.any() and (found[1][name].any() or name.endswith("w_k.bias"))
    assert any(found[0][name].any() for name in found[0] if name.startswith("generator.bert.blocks"))


def test_the_places_that_are_asked_by_hand(tiny):
    """at_places: -log p at these places; what is said elsewhere has no gradient."""
    ids, chosen = some_rows()
    replaced = chosen & (torch.rand(ids.shape, generator=torch.Generator().manual_seed(0)) < 0.6)
    logits = torch.randn(ids.shape, generator=torch.Generator().manual_seed(1)).double().requires_grad_()
    loss = experiments.at_places(lambda _: logits, (Replaced(ids, replaced), chosen))
    p, told = logits.sigmoid(), 0.0
    for row, at in chosen.nonzero().tolist():
        told = told - (p if replaced[row, at] else 1 - p)[row, at].log() / chosen.sum()
    assert_close(loss, told, check_dtype=False)
    loss.backward()
    assert (logits.grad != 0).equal(chosen)
    every = experiments.at_places(lambda _: logits, (Replaced(ids, replaced), torch.ones_like(chosen)))
    assert_close(every, replaced_loss(lambda *_: logits, Replaced(ids, replaced)), check_dtype=False)


@pytest.mark.slow
def test_few_places_are_as_many_as_masked_words_ask(tiny, monkeypatch):
    """few_places: the batches of "any piece", asked at 15 of 100 places, whether they were exchanged or not."""
    given = []
    monkeypatch.setattr(experiments, "taught", lambda model, batches, loss, steps: given.append((batches, loss, steps)))
    assert plain(experiments.few_places(3), "places", "marks")
    [(batches, loss, steps)] = given
    asked, exchanged, among, n = 0, 0, 0, 150
    for (read, places), same_rows, _ in zip(batches, experiments.replaced_rows(3, "any piece"), range(n), strict=False):
        assert read.ids.equal(same_rows.ids) and read.replaced.equal(same_rows.replaced)
        asked, exchanged = asked + places.sum().item(), exchanged + read.replaced.sum().item()
        among += (read.replaced & places).sum().item()
    size = n * read.ids.numel()
    assert loss is experiments.at_places and steps == experiments.STEPS
    assert abs(asked / size - 0.15) < 5 * (0.15 * 0.85 / size) ** 0.5
    assert abs(among / asked - exchanged / size) < 5 * (0.15 * 0.85 / asked) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("generator", experiments.GENERATORS)
def test_a_discriminator_is_trained_as_any_other(tiny, generator):
    """discriminator: two layers, the same steps and rate whoever replaces; its own beginning is that of the seed."""
    model = experiments.discriminator(3, generator, 2)
    [(trained, how)] = tiny
    assert isinstance(model, Discriminator) and len(model.bert.blocks) == 2 and not model.training
    assert how["steps"] == 2 and how["lr"] == recipe.RATE and (trained is model) == (generator != "learns too")
    assert same(parts(model), parts(experiments.discriminator(3, generator, 2)))
    assert not same(parts(model), parts(Discriminator(experiments.lean(3, 2))))
    if generator != "learns too":
        assert not same(parts(model), parts(experiments.discriminator(4, generator, 2)))


# --- a teacher


def test_half_has_the_layers_of_the_teacher(tiny):
    """half: layers 0 and 2, tables and read-out are copies; to train it leaves the teacher as it was."""
    master, student = master_of(), experiments.half(3, "its layers")
    before, found = parts(master), parts(student)
    assert len(student.bert.blocks) == 2
    for name, part in found.items():
        source = name.replace("blocks.1.", "blocks.2.")
        assert part.equal(before[source]), name
    assert {name.replace("blocks.1.", "blocks.2.") for name in found} == {
        name for name in before if "blocks.1." not in name and "blocks.3." not in name
    }
    assert not {part.data_ptr() for part in student.parameters()} & {part.data_ptr() for part in master.parameters()}
    recipe.taught(student, recipe.masked_rows(0), experiments.teaching(master), 2)
    assert same(parts(master), before) and not same(parts(student), found)
    other = experiments.half(3, "its layers", (3, 1)).bert.blocks
    assert all(same(parts(one), parts(master.bert.blocks[at])) for one, at in zip(other, (3, 1), strict=True))


def test_drawn_weights_are_no_teachers(tiny):
    """half: as wide, as deep, of the seed."""
    kept, drawn = experiments.half(3, "its layers"), experiments.half(3, "drawn")
    shapes = [{name: part.shape for name, part in parts(model).items()} for model in (kept, drawn)]
    assert shapes[0] == shapes[1] and not drawn.bert.tokens.weight.equal(master_of().bert.tokens.weight)
    weights = [name for name, part in drawn.named_parameters() if part.ndim == 2]
    assert not any(parts(drawn)[name].equal(parts(kept)[name]) for name in weights)
    assert same(parts(drawn), parts(experiments.half(3, "drawn")))
    assert not same(parts(drawn), parts(experiments.half(4, "drawn")))


def test_a_teacher_has_nothing_to_learn_from_itself(tiny):
    """teaching: 0 for the teacher itself; for another the divergence at temperature 2; the teacher has no gradient."""
    master, student = master_of(), experiments.half(0, "drawn")
    batch = read, places, _ = next(recipe.masked_rows(0))
    loss = experiments.teaching(master)
    assert abs(loss(master, batch).item()) < 1e-6
    p, q = ((model(read, places=places) / 2).softmax(dim=-1) for model in (master, student))
    wanted = 4 * (p * (p / q).log()).sum(dim=-1).mean()
    assert_close(loss(student, batch), wanted)
    assert wanted > 1e-3
    loss(student, batch).backward()
    assert all(part.grad is None for part in master.parameters()) and student.bert.tokens.weight.grad.any()
    other = (read, places, torch.zeros_like(batch[2]))  # the right answers are not asked
    assert loss(student, other).equal(loss(student, batch))


def test_a_random_teacher_is_as_sharp(tiny):
    """random_teacher: the spread of its answers is the teacher's; nothing of it was learned; the teacher stays."""
    before = parts(master_of())
    master = experiments.random_teacher(3)
    read, places, _ = recipe.blanks("validation", 60)
    spread = [model(read, places=places).std().item() for model in (master, master_of())]
    assert spread[0] == pytest.approx(spread[1], rel=1e-3) and spread[1] > 0.5
    assert same(parts(master_of()), before) and not master.training
    untrained = parts(LeanWords(experiments.lean(503)))
    assert [name for name, part in parts(master).items() if not part.equal(untrained[name])] == ["norm.gain"]
    assert same(parts(master), parts(experiments.random_teacher(3)))
    assert not same(parts(master), parts(experiments.random_teacher(4)))


@pytest.mark.slow
@pytest.mark.parametrize(("start", "lesson"), experiments.STARTS)
def test_each_student_has_its_steps(tiny, monkeypatch, start, lesson):
    """taught_half: fewer steps with a teacher; rate and beginning are the same whoever teaches."""
    begun, taught = [], experiments.taught
    monkeypatch.setattr(experiments, "taught", lambda model, *what: (begun.append(parts(model)), taught(model, *what)))
    found = experiments.taught_half(3, start=start, lesson=lesson)
    assert plain(found, "places", "marks", "bits") and same(begun[0], parts(experiments.half(3, start)))
    how = tiny[0][1]
    assert how["steps"] == experiments.HALF_STEPS[lesson] and how["lr"] == recipe.RATE / 2


@pytest.mark.parametrize("temperature", [0.0, 1.0, 4.0])
def test_a_temperature_of_nothing_is_a_label(tiny, temperature):
    """at_temperature: 0: -log p of the teacher's first choice; else the divergence of the softened."""
    master, student = master_of(), experiments.half(0, "drawn")
    batch = read, places, _ = next(recipe.masked_rows(0))
    found = controls.at_temperature(master, temperature)(student, batch)
    meant, said = master(read, places=places), student(read, places=places)
    if temperature:
        p, q = ((logits / temperature).softmax(dim=-1) for logits in (meant, said))
        assert_close(found, temperature**2 * (p * (p / q).log()).sum(dim=-1).mean())
        assert abs(controls.at_temperature(master, temperature)(master, batch).item()) < 1e-5
    else:
        assert_close(found, -said.log_softmax(dim=-1).gather(1, meant.argmax(dim=-1)[:, None]).mean())


# --- fewer bits


@pytest.mark.slow
def test_all_bits_are_the_model_itself(tiny):
    """few_bits: 32 as `marks_found` of the same model; fewer bits are fewer megabytes; a scale more costs some."""
    found = experiments.few_bits(3)
    keys = ["32", *(name for n in (8, 2) for name in (f"{n}", f"{n}, groups of {experiments.GROUP}"))]
    assert plain(found, *keys) and all(plain(one, "places", "marks", "megabytes") for one in found.values())
    model = recipe.marker(master_of().bert, 3)
    assert {key: found["32"][key] for key in ("places", "marks")} == rounded_numbers(recipe.marks_found(model))
    assert found["32"]["megabytes"] == pytest.approx(megabytes(model), rel=1e-4)
    sizes = [found[key]["megabytes"] for key in ("32", "8", "2")]
    assert sizes == sorted(sizes, reverse=True) and sizes[1] < sizes[0] / 3
    assert all(found[f"{n}"]["megabytes"] <= found[f"{n}, groups of 32"]["megabytes"] for n in (8, 2))


def test_one_scale_for_a_matrix(tiny):
    """one_scale: each matrix has at most 2^b - 1 values, all multiples of one; vectors and the model stay."""
    model = master_of()
    before, small = parts(model), controls.one_scale(model, 3)
    assert same(parts(model), before)
    for name, part in parts(small).items():
        if part.ndim == 2:
            scale = before[name].abs().max() / 3
            assert len(part.unique()) <= 7 and (part - before[name]).abs().max() <= scale / 2 + 1e-6
            assert_close(part / scale, (part / scale).round(), atol=1e-4, rtol=0)
        else:
            assert part.equal(before[name])


# --- who counts


def by_hand(rows, monkeypatch):
    monkeypatch.setattr(punctuation, "rows", lambda split: rows[split])
    monkeypatch.setattr(recipe, "asked", lambda split: rows[split])


def test_shares_sum_to_one():
    """share: by hand; a word that was never seen has the shares of all words."""
    every = Counter({"": 6, ",": 3, ".": 1})
    spread = [every[mark] / 10 for mark in MARKS]
    assert experiments.share(Counter(), every).tolist() == pytest.approx(spread)
    found = experiments.share(Counter({",": 30}), every)
    assert found.tolist() == pytest.approx(
        [(30 * (mark == ",") + 10 * p) / 40 for mark, p in zip(MARKS, spread, strict=True)]
    )
    for counts in (Counter(), Counter({",": 1}), every, Counter({"?": 10_000})):
        assert experiments.share(counts, every).sum().item() == pytest.approx(1)
    with pytest.raises(ZeroDivisionError):
        experiments.share(Counter(), Counter())


def test_counting_finds_a_rule_of_words(tiny):
    """counting: of marks that belong to a word and semicolons before "and" the word finds the first, both words all."""
    found = experiments.counting(0, speeches=1_000)
    assert plain(found, "the word", "the word and the next")
    assert all(plain(one, "places", "marks") for one in found.values())
    meant = [mark for row in recipe.asked("test") for mark in row.marks[:-1]]
    marks, before = sum(mark != "" for mark in meant), meant.count(";")
    assert before > 0 and {*meant} == {*MARKS}
    by_word = 2 * (marks - before) / (2 * marks - before)
    assert found["the word"] == {"places": pytest.approx(by_word, rel=1e-4), "marks": pytest.approx(by_word, rel=1e-4)}
    assert found["the word and the next"]["marks"] > 0.95 > by_word
    assert by_word > 2 * marks / (len(meant) + marks)  # a mark everywhere


def test_counting_by_hand(monkeypatch):
    """counting: "sir" has a comma in each of 30 training speeches; nothing is known of a word never seen."""
    known = [Row(["good", "sir", "come"], ["", ",", "."])] * 30
    by_hand({"train": known, "test": [Row(["sir", "sir", "night", "sir"], [",", "", ".", "!"])]}, monkeypatch)
    found = experiments.counting(0, speeches=30)
    # Behind "sir" a comma, twice; of "night" the shares of all words are known, and half of these have a comma.
    assert found["the word"] == {"places": 0.8, "marks": 0.4}


def test_no_test_speech_is_counted(tiny, monkeypatch):
    """counting: speeches of the train split alone, and those that a model of this seed is fine-tuned with."""

    class Watched(list):
        def __getitem__(self, at):
            met.append(at)
            return super().__getitem__(at)

    met, asked = [], []
    monkeypatch.setattr(punctuation, "rows", lambda split: (asked.append(split), Watched(speeches(split)))[1])
    monkeypatch.setattr(recipe, "asked", lambda split: speeches(split)[:5])
    experiments.counting(3, speeches=50)
    counted, met = {*met}, []
    next(recipe.labelled_batches(3, n=50))
    assert counted == {*met} and len(counted) == 50 and {*asked} == {"train"}


# --- what a record holds


def rounded_numbers(found):
    return {key: float(f"{value:.6g}") for key, value in found.items()}


def plain(found, *keys):
    """Whether it is as a record holds it: plain numbers under these keys, shares from 0 to 1."""
    assert json.loads(json.dumps(found)) == found and {*found} == {*keys}
    assert all(0 <= found[key] <= 1 for key in {"places", "marks"} & {*keys})
    return True


@pytest.mark.slow
def test_masked_runs_differ_in_what_they_say(tiny):
    """stack, masked: layers and blocks as told; weights are counted once."""
    found = {(L, G): experiments.stack(0, n_layers=L, n_groups=G) for L, G in experiments.STACKS}
    assert all(plain(one, "places", "marks", "bits", "weights") for one in found.values())
    weights = {key: one["weights"] for key, one in found.items()}
    assert weights[4, 1] == weights[1, 1] < weights[2, 2] < weights[4, 4]
    assert weights[4, 4] - weights[2, 2] == 2 * (weights[2, 2] - weights[1, 1])
    pre_trained = [how["steps"] for _, how in tiny if how["lr"] == recipe.RATE]
    assert pre_trained == [experiments.STACK_STEPS] * len(experiments.STACKS)
    assert plain(experiments.masked(0), "places", "marks", "bits", "weights")


@pytest.mark.slow
@pytest.mark.parametrize("generator", experiments.TRIED)
def test_replaced_gives_plain_numbers(tiny, generator):
    found = experiments.replaced(0, generator=generator)
    skill = () if generator == "learns too" else ("bits", "same")
    assert plain(found, "places", "marks", "replaced", "found", "false alarms", *skill)
    assert tiny[0][1]["steps"] == experiments.STEPS and 0 < found["replaced"] < 0.3


def test_cleverer_gives_plain_numbers(tiny):
    found = controls.cleverer(0, generator="stored")
    assert plain(found, "places", "marks", "replaced", "found", "false alarms", "bits", "same")


def test_bare_plays_have_no_marks(tiny):
    """bare_text, bare_rows: the training plays, of which nothing but marks is left out; stretches of that."""
    vocab = tokenizer().vocab
    kept = [i for i in text("train").tolist() if vocab[i] not in MARKS]
    assert controls.bare_text().tolist() == kept and len(kept) < len(text("train"))
    rows = next(controls.bare_rows(3))
    known = {tuple(kept[at : at + recipe.ROW]) for at in range(len(kept) - recipe.ROW + 1)}
    assert rows.shape == (recipe.BATCH, recipe.ROW) and all(tuple(row) in known for row in rows.tolist())
    assert len({tuple(row) for row in rows.tolist()}) > 1
    assert next(controls.bare_rows(3)).equal(rows) and not next(controls.bare_rows(4)).equal(rows)


@pytest.mark.parametrize("task", ["masked", "any piece"])
def test_no_mark_is_an_answer(tiny, monkeypatch, task):
    """no_marks_seen: what is asked, and what stands where nothing was exchanged, is no mark; as many steps as else."""
    given, taught = [], controls.taught
    monkeypatch.setattr(controls, "taught", lambda model, batches, *what: (
        given.append((next(batches), *what)), taught(model, batches, *what))[1])  # fmt: skip
    assert plain(controls.no_marks_seen(0, task=task), "places", "marks")
    [(batch, loss, steps)] = given
    marks = torch.tensor([tokenizer().vocab.index(mark) for mark in MARKS[1:]])
    ids = next(controls.bare_rows(0))
    if task == "masked":
        read, places, answers = batch
        assert ids.flatten()[places].equal(answers) and not torch.isin(answers, marks).any()
        stands = torch.ones(read.numel(), dtype=torch.bool).index_fill(0, places, False).view_as(read)
    else:
        read, stands = batch.ids, ~batch.replaced
        assert batch.replaced.any()
    assert read[stands].equal(ids[stands]) and not torch.isin(read[stands], marks).any()
    assert steps == experiments.STEPS and loss is (recipe.words_loss if task == "masked" else replaced_loss)


def test_partners_differ_in_what_is_drawn(tiny, monkeypatch):
    """partners: the teacher's tables under drawn blocks, its first layer, and all drawn in both sizes."""
    met = []
    monkeypatch.setattr(controls, "worth", lambda bert, seed: (met.append(bert), {"places": 0.5, "marks": 0.25})[1])
    before = parts(master_of())
    found = controls.partners(3)
    assert plain(found, "layer 0 alone", "its tables, blocks drawn", "all drawn, half", "all drawn, as the teacher")
    first, tables, half, whole = met
    own = master_of().bert
    assert [len(bert.blocks) for bert in met] == [1, 2, 2, 4] and same(parts(first.blocks[0]), parts(own.blocks[0]))
    assert tables.tokens.weight.equal(own.tokens.weight) and not half.tokens.weight.equal(own.tokens.weight)
    assert same(parts(tables.blocks), parts(half.blocks))
    assert {bert.config.d_model for bert in met} == {own.config.d_model}
    assert same(parts(whole), parts(experiments.lean(3))) and same(parts(master_of()), before)


@pytest.mark.slow
def test_places_and_pace_give_plain_numbers(tiny):
    """few_places, cut_half, untrained, pace."""
    assert plain(experiments.few_places(0), "places", "marks")
    assert plain(experiments.cut_half(0), "places", "marks", "bits")
    found = experiments.untrained(0)
    assert plain(found, "untrained", "stored") and all(plain(one, "places", "marks") for one in found.values())
    found = experiments.pace(0)
    assert len(found) == len(experiments.STACKS) + 6 and plain(found, *found)
    assert all(0 < seconds < 5 for seconds in found.values())


@pytest.mark.slow
def test_int8_gives_plain_numbers(tiny):
    """int8: the same marks, nearly; seconds of 64 speeches and of one."""
    found = experiments.int8(0)
    assert plain(found, "floats", "int8")
    assert all(plain(one, "places", "marks", "seconds, 64", "seconds, 1") for one in found.values())
    assert abs(found["floats"]["places"] - found["int8"]["places"]) < 0.2


@pytest.mark.slow
def test_controls_give_plain_numbers(tiny):
    """two_of_four, both_left_out, temperatures, equal_steps, bits_by_bits."""
    assert plain(controls.both_left_out(0), "places", "marks", "megabytes")
    assert plain(controls.two_of_four(0, first=1, second=3), "places", "marks", "bits")
    assert plain(controls.temperatures(0, temperature=0.0), "places", "marks", "bits")
    assert plain(controls.equal_steps(0), "places", "marks", "bits")
    found = controls.bits_by_bits(0)
    assert plain(found, "32", "8", "2") and plain(found["32"], "row", "megabytes")
    assert all(plain(found[n], "row", "group", "matrix", "megabytes") for n in ("8", "2"))
    assert found["8"]["row"] == pytest.approx(found["32"]["row"], abs=0.05)


@pytest.mark.parametrize("module", [experiments, controls])
def test_every_experiment_names_the_files_that_it_reads(module):
    """The stored teacher, where the code asks for it."""
    every = [one for one in vars(module).values() if isinstance(one, Experiment) and one.module == module.__name__]
    assert len(every) == (11 if module is experiments else 8)
    asks = {"untrained", "taught_half", "cut_half", "few_bits", "pace", "int8", "cleverer", "two_of_four"}
    asks |= {"partners", "both_left_out", "temperatures", "equal_steps", "bits_by_bits"}
    for one in every:
        assert one.cpus == ("default",) and all((ROOT / file).exists() for file in one.files)
        assert bool(one.files) == (one.name in asks), one.name
        assert all(one.variants.count(variant) == 1 for variant in one.variants)
