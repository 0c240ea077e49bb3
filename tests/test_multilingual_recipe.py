"""recipes/multilingual.py: what each language reads, what is hidden, the controls, and that what is found is there."""

import random
from collections import Counter
from itertools import islice

import pytest
import torch
from torch.testing import assert_close

from course_lib.bert.xlm import XLM
from course_lib.workshop.recipes import multilingual as recipe

SOME = 400  # sentences of the training part where all of them would take long


@pytest.fixture
def few(monkeypatch):
    """A training part of SOME sentences; what is judged stays as it is."""
    every = recipe.numbers
    monkeypatch.setattr(recipe, "numbers", lambda split: every(split)[:SOME] if split == "train" else every(split))
    return recipe.numbers("train")


def speaks_both(one: XLM, shift: int = 0) -> XLM:
    """A model whose fake words have the vectors of English words: of the same, or of those so many places further."""
    with torch.no_grad():
        table = one.tokens.weight
        table[recipe.SPECIALS + recipe.WORDS :] = table[recipe.SPECIALS :][: recipe.WORDS].roll(shift, dims=0)
    return one


# --- sentences


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_sentences_are_numbers_of_frequent_words(split):
    """sentences, numbers, in_words: there and back; each sentence once, of its length, with few rare words or none."""
    some, rare = recipe.numbers(split), recipe.RARE if split == "train" else 0
    assert len(set(some)) == len(some) >= recipe.TESTS
    assert all(recipe.SHORTEST <= len(one) <= recipe.LONGEST for one in some)
    assert max(one.count(0) for one in some) == rare  # 0 stands for all rare words
    assert max(map(max, some)) < recipe.WORDS and min(map(min, some)) >= 0
    for one, words in islice(zip(some, recipe.sentences(split), strict=True), SOME):
        assert recipe.in_words(one) == words
        assert [word in recipe.vocabulary() for word in words] == [number > 0 for number in one]
    assert len(recipe.vocabulary()) == recipe.WORDS - 1 and recipe.in_words(()) == []


def test_no_sentence_is_in_both_halves():
    """halves: apart, of equal size, nothing left over but one; drawn by the seed."""
    every = recipe.numbers("train")
    here, there = recipe.halves(3)
    assert len(here) == len(there) == len(every) // 2 and not {*here} & {*there} and {*here, *there} <= {*every}
    assert recipe.halves(3) == [here, there] != recipe.halves(4)


def test_few_of_what_is_judged_were_read_and_none_of_it_in_both_languages():
    """judged: the plays are others, but a short sentence stands in many plays ("how say you?"): it is read in one
    language at most, so that no sentence is found because it was read twice."""
    judged = recipe.judged()
    assert judged == recipe.numbers("test")[: recipe.TESTS] and len({*judged}) == recipe.TESTS
    again = {*judged} & {*recipe.numbers("train")}
    assert len(again) < 0.1 * recipe.TESTS
    assert max(map(len, again)) <= recipe.LONGEST // 2  # no long one
    here, there = recipe.halves(0)
    assert {*judged} & {*here, *there} <= again and not again & {*here} & {*there}
    assert len({*judged} & {*recipe.judged("validation")}) < 0.1 * recipe.TESTS


# --- languages


def test_fake_english_shares_no_word_with_english(few):
    """in_language, texts: other words, other sentences; the same ones where that is asked for."""
    here, there = recipe.halves(1)
    english, fake = recipe.texts(1)
    ids = [{word for one in part for word in one} for part in (english, fake)]
    assert not ids[0] & ids[1] and not {*range(recipe.SPECIALS)} & (ids[0] | ids[1])
    assert [tuple(word - recipe.SPECIALS for word in one) for one in english] == here
    assert [tuple(word - recipe.SPECIALS - recipe.WORDS for word in one) for one in fake] == there
    both = recipe.texts(1, same=True)
    assert both[0] == english and both[1] == [recipe.in_language(one, 1) for one in here]
    assert recipe.in_language((), 1) == () and recipe.in_language((0, 5), 2) == (1004, 1009)


def test_only_the_order_of_fake_english_changes(few):
    """texts: shuffled has the words of each sentence, reversed has them from behind; English stays as it is."""
    plain, shuffled, reversed_ = (recipe.texts(2, order) for order in recipe.ORDERS)
    assert plain[0] == shuffled[0] == reversed_[0] and plain == recipe.texts(2)
    assert reversed_[1] == [one[::-1] for one in plain[1]]
    assert [sorted(one) for one in shuffled[1]] == [sorted(one) for one in plain[1]]
    assert sum(a != b for a, b in zip(shuffled[1], plain[1], strict=True)) > 0.9 * len(plain[1])
    assert recipe.texts(2, "shuffled") == shuffled


@pytest.mark.parametrize("order", recipe.ORDERS)
def test_what_is_odd_has_an_order_too(order):
    draw = random.Random(0)
    assert recipe.ordered((), order, draw) == () and recipe.ordered((7,), order, draw) == (7,)
    assert Counter(recipe.ordered((1, 1, 2), order, draw)) == Counter((1, 1, 2))


# --- rows with hidden words


def test_rows_begin_end_and_are_padded():
    ids, languages, mask = recipe.rows([(9, 8), (), (7, 7, 7)], 1)
    P, S, E = recipe.PAD, recipe.START, recipe.SEP
    assert ids.tolist() == [[S, 9, 8, E, P], [S, E, P, P, P], [S, 7, 7, 7, E]]
    assert languages.tolist() == [[1] * 5] * 3 and mask.tolist() == (ids != P).tolist()


def test_of_the_hidden_words_eight_in_ten_are_masks():
    """hidden: SHARE of the words and no special; 80 masked, 10 another word of the language, 10 as they are."""
    draw, W = random.Random(0), recipe.WORDS
    some = [recipe.in_language(tuple(draw.choices(range(W), k=16)), n) for n in (0, 1) for _ in range(1500)]
    ids, _, mask = recipe.rows(some, 0)
    languages = torch.tensor([0, 1]).repeat_interleave(1500)[:, None].expand_as(ids)
    batch = recipe.hidden(ids, languages, mask, torch.Generator().manual_seed(0))
    read, was = batch.ids.flatten()[batch.places], ids.flatten()[batch.places]
    assert batch.answers.equal(was) and (was >= recipe.SPECIALS).all() and batch.places.unique().equal(batch.places)
    untouched = torch.ones(ids.numel(), dtype=torch.bool).index_fill(0, batch.places, False)
    assert batch.ids.flatten()[untouched].equal(ids.flatten()[untouched])
    assert batch.languages.equal(languages) and batch.mask.equal(mask)
    n_words = int((ids >= recipe.SPECIALS).sum())
    assert abs(len(was) / n_words - recipe.SHARE) < 0.01
    masked, kept = read == recipe.MASK, read == was
    for found, wanted in ((masked, 0.8), (kept, 0.1), (~masked & ~kept, 0.1)):
        assert abs(float(found.double().mean()) - wanted) < 0.015
    other = ~masked & ~kept
    assert (read[other] >= recipe.SPECIALS).all()
    assert ((read[other] - recipe.SPECIALS) // W).equal((was[other] - recipe.SPECIALS) // W)
    assert len((read[other] - recipe.SPECIALS).remainder(W).unique()) > 0.8 * W  # any word of it


def test_another_word_is_one_of_its_block():
    ids = torch.full((200, 50), recipe.SPECIALS + 5)  # the last word of the second language, of three words each
    batch = recipe.hidden(ids, ids * 0, ids > 0, torch.Generator().manual_seed(0), block=3)
    assert set(batch.ids.unique().tolist()) == {recipe.MASK, *(recipe.SPECIALS + n for n in (3, 4, 5))}


def test_a_row_without_words_hides_nothing():
    ids, languages, mask = recipe.rows([(), ()], 0)
    batch = recipe.hidden(ids, languages, mask, torch.Generator().manual_seed(0))
    assert batch.ids.equal(ids) and batch.places.shape == batch.answers.shape == (0,)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_batch_has_as_many_rows_of_each_language(n):
    """batches: each row in one language, which is told rightly; the same again by the seed."""
    draw, W = random.Random(0), recipe.WORDS
    texts = [[recipe.in_language(tuple(draw.choices(range(W), k=6)), at) for _ in range(20)] for at in range(n)]
    for batch in islice(recipe.batches(texts, 0), 3):
        assert len(batch.ids) == recipe.BATCH // n * n
        assert batch.languages[:, 0].bincount().tolist() == [recipe.BATCH // n] * n
        assert (batch.languages == batch.languages[:, :1]).all() and batch.mask.equal(batch.ids != recipe.PAD)
        words = batch.ids >= recipe.SPECIALS
        assert ((batch.ids - recipe.SPECIALS) // W)[words].equal(batch.languages[words])
        assert ((batch.answers - recipe.SPECIALS) // W).equal(batch.languages.flatten()[batch.places])
    one, again, other = (next(recipe.batches(texts, seed)).ids for seed in (0, 0, 1))
    assert one.equal(again) and not one.equal(other)
    assert len(next(recipe.batches(texts, 0, batch=6)).ids) == 6


# --- models


def test_a_control_changes_nothing_but_the_places():
    """model, KINDS: the weights are the same; places of fake English apart, or one place for all."""
    one, apart, none = (recipe.model(0, places=name).eval() for name in recipe.KINDS)
    for other in (apart, none):
        assert all(a.equal(b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))
    languages = torch.tensor([[0] * 3 + [1] * 3, [1] * 6])
    assert one.places_of(languages).tolist() == [[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 4, 5]]
    half = recipe.MAX_LEN // 2
    assert apart.places_of(languages).tolist() == [
        [0, 1, 2, half, half + 1, half + 2],
        [half + at for at in range(6)],
    ]
    assert none.places_of(languages).tolist() == [[0] * 6] * 2
    assert recipe.LONGEST + 2 <= half  # English never reaches the places of the other
    some = [tuple(range(4, 20)), (5, 6, 7)]
    assert_close(recipe.vectors(one, some, 0, -1), recipe.vectors(apart, some, 0, -1))
    assert not torch.allclose(recipe.vectors(one, some, 1, -1), recipe.vectors(apart, some, 1, -1), atol=1e-3)
    mixed = [one[::-1] for one in some]
    assert_close(recipe.vectors(none, some, 0, -1), recipe.vectors(none, mixed, 0, -1), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(recipe.vectors(one, some, 0, -1), recipe.vectors(one, mixed, 0, -1), atol=1e-3)


def test_the_language_is_told_where_that_is_asked_for():
    """model: told, the same row differs by language; else it does not. All other weights are the same."""
    told, plain = (recipe.model(0, tell=tell, n_languages=3) for tell in (True, False))
    assert plain.segments is None and told.segments.num_embeddings == 3
    assert all(told.state_dict()[name].equal(weight) for name, weight in plain.state_dict().items())
    for one, differs in ((told, True), (plain, False)):
        here, there = (recipe.vectors(one, [(5, 6, 7)], language) for language in (0, 2))
        assert torch.allclose(here, there, atol=1e-4) != differs


def test_a_seed_draws_the_weights():
    one, same, other = (recipe.model(seed).state_dict() for seed in (0, 0, 1))
    assert all(one[name].equal(same[name]) for name in one)
    assert not one["tokens.weight"].equal(other["tokens.weight"])
    assert recipe.model(0, 30).tokens.num_embeddings == recipe.SPECIALS + 30


def test_the_loss_is_that_of_the_hidden_words_alone():
    one = recipe.model(0)
    batch = next(recipe.batches([[(4, 5, 6, 7)], [(504, 505)]], 1, batch=8))
    with torch.no_grad():
        logits = one.read_out(one(batch.ids, batch.languages, batch.mask)).flatten(0, 1).log_softmax(dim=-1)
        wanted = [-logits[at, answer] for at, answer in zip(batch.places, batch.answers, strict=True)]
    assert_close(recipe.loss(one, batch).detach(), torch.stack(wanted).mean())


@pytest.mark.slow
def test_a_few_steps_lower_the_loss():
    """taught: three sentences of each language are learned by heart."""
    texts = [[recipe.in_language(one, n) for one in ((1, 2, 3), (4, 5, 6), (7, 8, 9))] for n in (0, 1)]
    history = recipe.taught(recipe.model(0), recipe.batches(texts, 0, batch=16), 40)
    assert len(history.loss) == 40 and sum(history.loss[-5:]) < 0.6 * sum(history.loss[:5])


def test_who_learns_reads_what_was_asked_for(monkeypatch, few):
    """learned: English and fake English where nothing is said; the seed draws weights and batches."""
    seen = []
    monkeypatch.setattr(recipe, "batches", lambda languages, seed: (languages, seed))
    monkeypatch.setattr(recipe, "taught", lambda one, data, steps, **how: seen.append((one, data, steps, how)))
    recipe.learned(5)
    recipe.learned(6, [[(4,)]], 7, "apart", True, lr=0.5)
    (one, data, steps, how), (other, *rest) = seen
    assert type(one) is XLM and one.segments is None and data == (recipe.texts(5), 5)
    assert steps == recipe.STEPS and how == {}
    assert isinstance(other, recipe.PlacesApart) and other.tell and rest == [([[(4,)]], 6), 7, {"lr": 0.5}]
    assert one.tokens.weight.equal(recipe.model(5).tokens.weight)


def test_the_rate_rises_and_falls():
    rates = [recipe.warmed(step, 100) for step in range(100)]
    assert rates.index(max(rates)) == 5 and rates[:6] == sorted(rates[:6]) and rates[5:] == sorted(rates[5:])[::-1]
    groups = recipe.muon(recipe.model(0)).param_groups
    assert [group["matrices"] for group in groups] == [True, False]
    assert all(weight.ndim == 2 for weight in groups[0]["params"])


# --- what is found


@pytest.mark.slow
def test_twins_are_found_where_both_languages_have_the_same_vectors():
    """saliency: twins, word_twins: by a table made by hand all are found; by one that is moved by a word, none."""
    right = speaks_both(recipe.model(0))
    for layer in range(recipe.N_LAYERS + 1):
        assert recipe.twins(right, layer=layer).all()
    assert recipe.twins(right, split="validation").all()
    assert recipe.word_twins(right).all() and recipe.word_twins(right).shape == (recipe.WORDS,)
    assert recipe.twins(right).shape == (recipe.TESTS,)
    wrong = speaks_both(recipe.model(0), shift=1)
    assert not recipe.word_twins(wrong).any() and recipe.twins(wrong).double().mean() < 0.2
    assert recipe.twins(recipe.model(0)).double().mean() < 0.1  # weights that are drawn


def test_what_is_judged_stands_in_the_order_that_was_read(monkeypatch):
    """twins: English as it is, fake English in the order that is named; a bag of words does not see it."""
    bag, asked = speaks_both(recipe.model(0, places="none")), []
    monkeypatch.setattr(recipe, "vectors", lambda one, some, *how, make=recipe.vectors: (
        asked.append(some), make(one, some, *how))[1])  # fmt: skip
    for order in recipe.ORDERS:
        assert recipe.twins(bag, order).double().mean() > 0.98
    fake = [[tuple(word - recipe.WORDS for word in one) for one in some] for some in asked[1::2]]
    english, shuffled, reversed_ = fake
    assert asked[::2] == [english] * 3 and reversed_ == [one[::-1] for one in english]
    assert [sorted(one) for one in shuffled] == [sorted(one) for one in english] and shuffled != english


@pytest.mark.parametrize("n_seen, n_classes", [(40, 3), (5, 1), (1000, 2)])
def test_a_read_out_is_ridge_regression(n_seen, n_classes):
    """read_out: scikit-learn's Ridge on each side's own deviations; moving all of a side changes nothing."""
    from sklearn.linear_model import Ridge

    draw = torch.Generator().manual_seed(0)
    seen, new = (torch.randn(n, 8, generator=draw).double() * torch.arange(1, 9) for n in (n_seen, 7))
    labels = torch.rand(n_seen, n_classes, generator=draw).double()
    found, size = recipe.read_out(seen, labels, new), seen.std(dim=0)
    ridge = Ridge(alpha=9.0).fit(((seen - seen.mean(dim=0)) / size).numpy(), labels.numpy())
    wanted = torch.tensor(ridge.predict(((new - new.mean(dim=0)) / size).numpy())).view(7, n_classes)
    assert_close(found, wanted, atol=1e-8, rtol=1e-6)
    assert_close(recipe.read_out(seen + 3, labels, new - 50), found, atol=1e-8, rtol=1e-6)
    assert_close(recipe.read_out(seen.float(), labels.float(), new.float()), found.float(), atol=1e-3, rtol=1e-3)


def test_a_read_out_bears_what_is_the_same_everywhere():
    """read_out: a state that never varies, and a class that is always right."""
    seen, new = torch.randn(20, 4), torch.randn(6, 4)
    seen[:, 2], new[:, 2] = 5.0, -5.0
    found = recipe.read_out(seen, torch.ones(20, 1), new)
    assert_close(found, torch.ones(6, 1))


def test_a_run_makes_a_model_that_comes_back(few, short_run):
    model, record = short_run(recipe.TWO_LANGUAGES)
    assert record["twins"] == pytest.approx(recipe.twins(model).double().mean().item(), abs=1e-4)


def test_bad_input_is_refused_in_words():
    with pytest.raises(ValueError, match="order is one of as it is, shuffled, reversed; got 'sorted'"):
        recipe.ordered((1, 2), "sorted", random.Random(0))
    with pytest.raises(ValueError, match="places is one of one table, apart, none; got 'two'"):
        recipe.model(0, places="two")
    with pytest.raises(ValueError, match="order is one of"):
        recipe.twins(recipe.model(0), "sorted")
