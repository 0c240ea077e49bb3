"""Lesson 16's experiments: generators by brute force, losses and counts by hand, controls that change one thing."""

import random
from collections import Counter
from functools import cache

import pytest
import torch
from smoke import experiments_of, parts, same, smoke
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
from course_lib.workshop.experiments.smaller_bert import controls
from course_lib.workshop.experiments.smaller_bert import core as experiments
from course_lib.workshop.recipes import smaller_bert as recipe

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


@pytest.mark.slow
@experiments_of("smaller_bert", "smaller_bert_controls", leave_out=("few_bits",))
def test_an_experiment_gives_its_numbers(tiny, one):
    smoke(one)


def master_of():
    return experiments.teacher()


def some_rows(seed=0):
    ids = next(recipe.rows(seed))
    return ids, mask_tokens(ids, tokenizer(), torch.Generator().manual_seed(seed))[1]


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


@pytest.mark.parametrize("generator", ["learns too", "stored"])
def test_a_generator_that_reads_sees_masks_alone(tiny, generator):
    """guesses: at each chosen place [MASK]; the learner is asked if there is one, else the stored model."""
    ids, chosen = some_rows()
    learner = Spies(torch.randn(len(tokenizer())))
    found = experiments.guesses(ids, chosen, generator, learner)
    [(read, places)] = learner.read
    assert read.equal(torch.where(chosen, tokenizer().mask, ids)) and places.equal(chosen.flatten().nonzero()[:, 0])
    assert found.equal(learner.logits.expand(len(places), -1))
    assert experiments.guesses(ids, chosen, generator).equal(master_of()(read, places=places))


@pytest.mark.parametrize("generator", experiments.GENERATORS)
def test_replaced_rows_say_what_was_replaced(tiny, generator):
    """replaced_rows: rows of the seed, replaced at chosen places alone; where the draw is right, "not replaced"."""
    ids, batch = next(recipe.rows(3)), next(experiments.replaced_rows(3, generator))
    _, chosen = mask_tokens(ids, tokenizer(), torch.Generator().manual_seed(4))
    assert batch.replaced.equal(batch.ids != ids) and batch.mask is None and not (batch.replaced & ~chosen).any()


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
    """Electra: one table of pieces, counted once, also after a step; the blocks are each its own."""
    pair = pair_of()
    recipe.taught(pair, recipe.rows(0), experiments.both_losses(torch.Generator().manual_seed(0)), 2)
    ours = pair.discriminator.bert.tokens.weight
    assert pair.generator.bert.tokens.weight is ours and sum(part is ours for part in pair.parameters()) == 1
    assert pair.discriminator.bert.blocks[0] is not pair.generator.bert.blocks[0]


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
    pair, ids, found = pair_of(), next(recipe.rows(0)), {}
    for weight in (0, 50):
        monkeypatch.setattr(experiments, "WEIGHT", weight)
        pair.zero_grad()
        experiments.both_losses(torch.Generator().manual_seed(3))(pair, ids).backward()
        found[weight] = {name: p.grad.clone() for name, p in pair.named_parameters() if p.grad is not None}
    table = "discriminator.bert.tokens.weight"
    assert found[0][table].any() and not found[0][table].allclose(found[50][table])
    for name in found[50].keys() - {table}:
        if name.startswith("generator."):
            assert found[50][name].equal(found[0][name]) and found[0][name].any(), name
        else:
            assert name not in found[0] or not found[0][name].any(), name


def test_the_places_that_are_asked_by_hand(tiny):
    """at_places: -log p at these places; what is said elsewhere has no gradient."""
    ids, chosen = some_rows()
    replaced = chosen & (torch.rand(ids.shape, generator=torch.Generator().manual_seed(0)) < 0.6)
    logits = torch.randn(ids.shape, generator=torch.Generator().manual_seed(1)).double().requires_grad_()
    loss, p = experiments.at_places(lambda _: logits, (Replaced(ids, replaced), chosen)), logits.sigmoid()
    assert_close(loss, -torch.where(replaced, p, 1 - p)[chosen].log().mean(), check_dtype=False)
    loss.backward()
    assert (logits.grad != 0).equal(chosen)


@pytest.mark.slow
def test_few_places_are_as_many_as_masked_words_ask(tiny, monkeypatch):
    """few_places: the batches of "any piece", asked at 15 of 100 places, whether they were exchanged or not."""
    given = []
    monkeypatch.setattr(experiments, "taught", lambda model, batches, loss, steps: given.append((batches, loss, steps)))
    experiments.few_places(3)
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


# --- a teacher


def test_half_has_the_layers_of_the_teacher(tiny):
    """half: layers 0 and 2, tables and read-out are copies, or all is drawn; training leaves the teacher as it was."""
    master, student, drawn = master_of(), experiments.half(3, "its layers"), experiments.half(3, "drawn")
    before, found = parts(master), parts(student)
    for name, part in found.items():
        assert part.equal(before[name.replace("blocks.1.", "blocks.2.")]), name
    assert len(student.bert.blocks) == 2 and found.keys() == parts(drawn).keys()
    assert not any(part.equal(found[name]) for name, part in parts(drawn).items() if part.ndim == 2)
    recipe.taught(student, recipe.masked_rows(0), experiments.teaching(master), 2)
    assert same(parts(master), before) and not same(parts(student), found)
    other = experiments.half(3, "its layers", (3, 1)).bert.blocks
    assert all(same(parts(one), parts(master.bert.blocks[at])) for one, at in zip(other, (3, 1), strict=True))


def test_a_teacher_has_nothing_to_learn_from_itself(tiny):
    """teaching: the divergence at temperature 2, whatever the right answers are; the teacher has no gradient."""
    master, student = master_of(), experiments.half(0, "drawn")
    read, places, answers = next(recipe.masked_rows(0))
    loss = experiments.teaching(master)
    assert abs(loss(master, (read, places, answers)).item()) < 1e-6
    p, q = ((model(read, places=places) / 2).softmax(dim=-1) for model in (master, student))
    found = loss(student, (read, places, torch.zeros_like(answers)))
    assert_close(found, 4 * (p * (p / q).log()).sum(dim=-1).mean())
    found.backward()
    assert all(part.grad is None for part in master.parameters())


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


def test_each_student_has_its_steps(tiny, monkeypatch):
    """taught_half: fewer steps with a teacher; rate and beginning are the same whoever teaches."""
    given = []
    monkeypatch.setattr(experiments, "taught", lambda model, *what: given.append((parts(model), what)))
    monkeypatch.setattr(experiments, "worth", lambda *_: {})
    for start, lesson in experiments.STARTS:
        experiments.taught_half(3, start=start, lesson=lesson)
        begun, (_, _, steps, rate) = given.pop()
        assert same(begun, parts(experiments.half(3, start)))
        assert (steps, rate) == (experiments.HALF_STEPS[lesson], recipe.RATE / 2)


@pytest.mark.parametrize("temperature", [0.0, 4.0])
def test_a_temperature_of_nothing_is_a_label(tiny, temperature):
    """at_temperature: 0: -log p of the teacher's first choice; else the divergence of the softened."""
    master, student = master_of(), experiments.half(0, "drawn")
    batch = read, places, _ = next(recipe.masked_rows(0))
    found = controls.at_temperature(master, temperature)(student, batch)
    meant, said = master(read, places=places), student(read, places=places)
    if temperature:
        p, q = ((logits / temperature).softmax(dim=-1) for logits in (meant, said))
        assert_close(found, temperature**2 * (p * (p / q).log()).sum(dim=-1).mean())
    else:
        assert_close(found, -said.log_softmax(dim=-1).gather(1, meant.argmax(dim=-1)[:, None]).mean())


# --- fewer bits


@pytest.mark.slow
def test_all_bits_are_the_model_itself(tiny):
    """few_bits: 32 as `marks_found` of the same model; fewer bits are fewer megabytes; a scale more costs some."""
    found, model = experiments.few_bits(3), recipe.marker(master_of().bert, 3)
    wanted = recipe.marks_found(model) | {"megabytes": megabytes(model)}
    assert found["32"] == {key: pytest.approx(value, rel=1e-4) for key, value in wanted.items()}
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


def test_counting_finds_a_rule_of_words(tiny):
    """counting: of marks that belong to a word and semicolons before "and" the word finds the first, both words all."""
    found = experiments.counting(0, speeches=1_000)
    meant = [mark for row in recipe.asked("test") for mark in row.marks[:-1]]
    marks, before = sum(mark != "" for mark in meant), meant.count(";")
    by_word = 2 * (marks - before) / (2 * marks - before)
    assert found["the word"] == {"places": pytest.approx(by_word, rel=1e-4), "marks": pytest.approx(by_word, rel=1e-4)}
    assert found["the word and the next"]["marks"] > 0.95 > by_word > 2 * marks / (len(meant) + marks)


def test_counting_by_hand(monkeypatch):
    """counting: "sir" has a comma in each of 30 training speeches; nothing is known of a word never seen."""
    known = [Row(["good", "sir", "come"], ["", ",", "."])] * 30
    rows = {"train": known, "test": [Row(["sir", "sir", "night", "sir"], [",", "", ".", "!"])]}
    monkeypatch.setattr(punctuation, "rows", rows.get)
    monkeypatch.setattr(recipe, "asked", rows.get)
    found = experiments.counting(0, speeches=30)
    # Behind "sir" a comma, twice; of "night" the shares of all words are known, and half of these have a comma.
    assert found["the word"] == {"places": 0.8, "marks": 0.4}
    spread, every = [0.6, 0.3, 0.1], Counter({"": 6, ",": 3, ".": 1})  # share: as if ten more had been seen
    found = experiments.share(Counter({",": 30}), every)
    assert_close(found[[MARKS.index(mark) for mark in every]], torch.tensor([6.0, 33.0, 1.0]) / 40)
    assert experiments.share(Counter(), every)[MARKS.index(",")].item() == pytest.approx(spread[1])


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


# --- controls


def test_bare_plays_have_no_marks(tiny):
    """bare_text, bare_rows: the training plays, of which nothing but marks is left out; stretches of that."""
    kept = [i for i in text("train").tolist() if tokenizer().vocab[i] not in MARKS]
    assert controls.bare_text().tolist() == kept and len(kept) < len(text("train"))
    known = {tuple(kept[at : at + recipe.ROW]) for at in range(len(kept) - recipe.ROW + 1)}
    assert all(tuple(row) in known for row in next(controls.bare_rows(3)).tolist())


@pytest.mark.parametrize("task", ["masked", "any piece"])
def test_no_mark_is_an_answer(tiny, monkeypatch, task):
    """no_marks_seen: what is asked, and what stands where nothing was exchanged, is no mark; as many steps as else."""
    given, taught = [], controls.taught
    monkeypatch.setattr(controls, "taught", lambda model, batches, *what: (
        given.append((next(batches), *what)), taught(model, batches, *what))[1])  # fmt: skip
    controls.no_marks_seen(0, task=task)
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
    controls.partners(3)
    first, tables, half, whole = met
    own = master_of().bert
    assert [len(bert.blocks) for bert in met] == [1, 2, 2, 4] and same(parts(first.blocks[0]), parts(own.blocks[0]))
    assert tables.tokens.weight.equal(own.tokens.weight) and not half.tokens.weight.equal(own.tokens.weight)
    assert same(parts(tables.blocks), parts(half.blocks))
    assert {bert.config.d_model for bert in met} == {own.config.d_model}
    assert same(parts(whole), parts(experiments.lean(3))) and same(parts(master_of()), before)
