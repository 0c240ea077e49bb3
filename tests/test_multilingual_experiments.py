"""Lesson 14's experiments: what each setting changes, that nothing judged was read, rules and controls by hand."""

import math
import random
from collections import Counter
from itertools import islice
from types import SimpleNamespace

import pytest
import torch
from smoke import parts, same
from torch.testing import assert_close

from course_lib.bert.xlm import XLM
from course_lib.data import Pair, emoji_names
from course_lib.data.emoji import GROUPS
from course_lib.workshop.experiments.multilingual import controls, laboratory, names, pairs
from course_lib.workshop.experiments.multilingual import core as fake
from course_lib.workshop.recipes import multilingual as recipe

# --- English and fake English


@pytest.fixture
def trained(monkeypatch):
    """What each experiment trains and asks, written down instead."""
    seen = []
    monkeypatch.setattr(fake, "learned", lambda seed, *what, **how: seen.append((seed, *what, how)) or "a model")
    monkeypatch.setattr(fake, "texts", lambda seed, *what, **how: ("texts", seed, *what, how))
    monkeypatch.setattr(fake, "found", lambda one, *order: {"of": str(one), "order": list(order)})
    monkeypatch.setattr(fake, "asked", lambda one: {"of": str(one)})
    return seen


def test_each_setting_changes_what_it_says(trained, monkeypatch):
    """no_word_shared and its controls: one change each, and fake English is asked in the order that was read."""
    usual = {"of": "a model", "order": []}
    assert fake.no_word_shared(3) == usual | {"questions": {"of": "a model"}}
    assert fake.other_order(3, order="reversed") == {"of": "a model", "order": ["reversed"]}
    assert fake.other_places(3, places="apart") == usual | {"questions": {"of": "a model"}}
    assert fake.otherwise(3, what="language told") == usual == fake.otherwise(3, what="same sentences")
    assert trained == [
        (3, {}),
        (3, ("texts", 3, "reversed", {}), {}),
        (3, {"places": "apart"}),
        (3, ("texts", 3, {"same": False}), {"tell": True}),
        (3, ("texts", 3, {"same": True}), {"tell": False}),
    ]
    monkeypatch.setattr(fake, "model", lambda seed: f"drawn by {seed}")
    assert fake.untrained(3)["of"] == fake.untrained(3)["questions"]["of"] == "drawn by 3"


@pytest.mark.slow
def test_what_is_found_is_said_by_layer_and_by_word(monkeypatch):
    words = torch.zeros(recipe.WORDS, dtype=torch.bool)
    words[fake.most_frequent()[:50]] = True
    monkeypatch.setattr(fake, "word_twins", lambda one: words)
    monkeypatch.setattr(fake, "twins", lambda one, order, layer: torch.tensor([order == "reversed", layer > 1]))
    found = fake.found(None, "reversed")
    assert found == {"twins": {0: 0.5, 1: 0.5, 2: 1.0}, "words": 50 / recipe.WORDS, "frequent words": 0.5}


def test_the_most_frequent_words_are_most_frequent():
    frequent = fake.most_frequent()
    counts = Counter(word for one in recipe.numbers("train") for word in one)
    assert len({*frequent}) == fake.FREQUENT and 0 not in frequent
    assert min(counts[word] for word in frequent) >= max(counts[n] for n in range(1, recipe.WORDS) if n not in frequent)


@pytest.mark.parametrize("split", fake.ASKED)
def test_as_many_questions_as_statements_and_no_mark_tells_them(split):
    """questions: each sentence with its mark stands in the plays; the last mark is gone, and others are rare."""
    some, labels = fake.questions(split)
    assert len(some) == len(labels) == fake.ASKED[split] and float(labels.mean()) == 0.5
    question, statement = (
        next(one[-1] for one in recipe.numbers("train") if recipe.in_words(one)[-1] == mark) for mark in "?."
    )
    assert sum(not {question, statement}.isdisjoint(one) for one in some) < 0.01 * len(some)  # "what?" and no space
    known = {*recipe.numbers(split)}
    assert all((*one, question if label else statement) in known for one, label in zip(some, labels, strict=True))


def test_few_of_the_questions_asked_were_read():
    """questions: short ones stand in many plays ("what is the matter"), which is why they are counted here."""
    (seen, _), (new, _) = fake.questions("train"), fake.questions("test")
    assert len({*seen} & {*new}) < 0.1 * len(new)


def test_a_read_out_is_taught_on_english_and_asked_in_both(monkeypatch):
    """asked: by states made by hand, which tell questions in English and say the opposite in fake English."""
    labels = torch.tensor([0.0, 1.0] * 10)
    monkeypatch.setattr(fake, "questions", lambda split: ([(int(label),) for label in labels], labels))
    told = []

    def states(one, some, language):
        told.append(language)
        kind = torch.tensor([float((word - recipe.SPECIALS) % recipe.WORDS) for (word,) in some])
        assert {(word - recipe.SPECIALS) // recipe.WORDS for (word,) in some} == {language}
        return torch.stack([kind * (1 - 2 * language) + 100 * language, torch.ones(len(some))], dim=1)

    monkeypatch.setattr(fake, "vectors", states)
    assert fake.asked(None) == {"English": 1.0, "fake English": 0.0} and told == [0, 0, 1]


@pytest.mark.parametrize(
    "here, there, found",
    [
        ([[0.0], [1.0], [5.0]], [[0.1], [0.9], [4.0]], 1),
        ([[0.0], [1.0]], [[1.0], [0.0]], 0),
        ([[3.0]] * 4, [[3.0]] * 4, 1 / 4),  # all are equally near
        ([[0.0], [2.0]], [[1.0], [1.0]], 1 / 2),
        ([[0.0], [0.0], [9.0]], [[0.0], [0.0], [9.0]], 2 / 3),
        ([[7.0]], [[-7.0]], 1),  # one alone is the nearest
    ],
)
def test_of_equally_near_rows_each_counts_its_part(here, there, found):
    assert fake.nearest(torch.tensor(here), torch.tensor(there)) == pytest.approx(found)


def test_rules_by_hand(monkeypatch):
    """rules: words 1 and 2 have changed places, and with them how frequent they are."""
    monkeypatch.setattr(fake, "WORDS", 4)
    monkeypatch.setattr(fake, "halves", lambda seed: [[(0, 1, 1, 2)], [(0, 2, 2, 1)]])
    monkeypatch.setattr(fake, "judged", lambda: [(1, 2), (2, 1)])
    assert fake.rules(0) == {
        "length": 0.5,
        "frequencies, sorted": 0.5,
        "frequencies in order": 0.0,
        # 0 is one of the two that stand once, 1 and 2 are taken for each other, 3 stands nowhere
        "words by frequency": pytest.approx(1.5 / 4, abs=1e-5),
        "words by place": 0.5,
        "words by both": 0.5,
    }


# --- English and French


@pytest.mark.slow
def test_no_sentence_is_read_in_english_and_in_french():
    """sides, tests: pairs are apart from what is read alone, and no English sentence that is judged was read.

    French has fewer forms: another English sentence may have the same translation, which was read then.
    """
    translations = {}
    for one, other, _ in pairs.drawn("train"):
        translations.setdefault(pairs.ids(one), set()).add(pairs.ids(other))
    judged = pairs.tests()
    assert len(judged) == recipe.TESTS and not {one for one, _ in judged} & translations.keys()
    for seed in (0, 1):
        known, english, french = pairs.sides(seed)
        assert len(known) == pairs.PAIRS and len(english) > 1000 and len(french) > 0.8 * len(english)
        assert not {*english} & {one for one, _ in known} and not {*french} & {other for _, other in known}
        assert not {other for one in english for other in translations[one]} & {*french}
        again = {other for _, other in judged} & {*french, *(other for _, other in known)}
        assert len(again) < 0.02 * len(judged)
        assert not {*judged} & {*known}
        assert all(other in translations[one] for one, other in known)


def few_sides(seed):
    """Ten pairs, and two sentences of each language, by hand."""
    return [((10 + n, 50), (30 + n, 50)) for n in range(10)], [(4, 5, 6), (7, 8)], [(20, 21), (22,)]


@pytest.mark.parametrize("way", pairs.WAYS)
def test_pairs_are_read_as_the_way_says(monkeypatch, way):
    """mixed: every second batch is of pairs, true or a permutation; else of sentences in one language."""
    given = []
    monkeypatch.setattr(pairs, "sides", few_sides)
    monkeypatch.setattr(pairs, "n_words", lambda: 60)
    monkeypatch.setattr(pairs, "pair_batches", lambda some, *how, make=pairs.pair_batches: (
        given.append(some), make(some, *how))[1])  # fmt: skip
    found = list(islice(pairs.mixed(0, way), 4))
    for at, batch in enumerate(found):
        starts = (batch.ids == recipe.START).sum(dim=1)
        paired = at % 2 == 1 and way != pairs.WAYS[0]
        assert (starts == (2 if paired else 1)).all() and len(batch.ids) == recipe.BATCH // (1 + paired)
        assert (batch.languages == batch.languages[:, :1]).all() == (not paired)
    true, [read] = few_sides(0)[0], given
    if way == "shuffled pairs":
        assert read != true
        assert all(sorted(pair[side] for pair in read) == [pair[side] for pair in true] for side in (0, 1))
    else:
        assert read == true


def test_a_batch_of_pairs_has_both_sentences_and_hides_words_of_both(monkeypatch):
    monkeypatch.setattr(pairs, "n_words", lambda: 60)
    monkeypatch.setattr(pairs, "hidden", lambda ids, languages, mask, *_: (ids, languages, mask))
    known = [((10, 11, 12), (30,)), ((13,), (33, 34))]
    ids, languages, mask = next(pairs.pair_batches(known, 0, 8))
    S, E, P = recipe.START, recipe.SEP, recipe.PAD
    wanted = {
        (S, 10, 11, 12, E, S, 30, E): (0, 0, 0, 0, 0, 1, 1, 1),
        (S, 13, E, S, 33, 34, E, P): (0, 0, 0, 1, 1, 1, 1, 1),
    }
    assert {tuple(a): tuple(b) for a, b in zip(ids.tolist(), languages.tolist(), strict=True)} == wanted
    assert mask.equal(ids != P)
    monkeypatch.undo()
    batch = next(pairs.pair_batches(pairs.sides(0)[0], 0, 32))
    assert {*batch.languages.flatten()[batch.places].tolist()} == {0, 1}


def test_the_ways_differ_in_what_is_read_alone(monkeypatch):
    seen = []
    monkeypatch.setattr(pairs, "model", lambda seed, n: seen.append((seed, n)) or "a model")
    monkeypatch.setattr(pairs, "mixed", lambda seed, way: (seed, way))
    monkeypatch.setattr(pairs, "taught", lambda one, data, steps: seen.append((data, steps)))
    monkeypatch.setattr(pairs, "found", lambda one: {0: 0.5})
    for way in pairs.WAYS:
        assert set(pairs.english_and_french(3, way=way)) == {"twins", "shared"}
    assert seen == [x for way in pairs.WAYS for x in ((3, pairs.n_words()), ((3, way), pairs.STEPS))]
    seen.clear()
    assert pairs.english_and_french_untrained(3) == {"twins": {"0": 0.5}} and seen == [(3, pairs.n_words())]


def test_translations_are_found_by_layer(monkeypatch):
    """found: English is asked as language 0, French as 1; by hand, right in the last layer only."""

    def states(one, some, language, layer):
        assert list(some) == [side[language] for side in pairs.tests()]
        eye = torch.eye(len(some))
        return eye.roll(language, dims=0) if layer < recipe.N_LAYERS else eye

    monkeypatch.setattr(pairs, "vectors", states)
    assert pairs.found(None) == {0: 0.0, 1: 0.0, 2: 1.0}


def test_words_spelled_alike_are_counted_once(monkeypatch):
    monkeypatch.setattr(pairs, "drawn", lambda split: [Pair(["a", "b", "."], ["c", "."], []), Pair(["a"], ["b"], [])])
    assert pairs.alike() == 2 / 4


# --- names


def test_row_i_is_the_same_emoji_in_every_language():
    """names, groups: so that shuffled pairs are of other emoji, and labels hold for all languages."""
    for split in ("train", "test"):
        signs = [row.emoji for row in emoji_names.names(split, "en")]
        assert len(names.groups(split)) == len(signs) == len({*signs})
        for language in names.LANGUAGES[1:]:
            rows = emoji_names.names(split, language)
            assert [row.emoji for row in rows] == signs
            assert [GROUPS.index(row.group) for row in rows] == names.groups(split).tolist()
    train, test = ({row.emoji for row in emoji_names.names(split, "en")} for split in ("train", "test"))
    assert not train & test and names.LANGUAGES[0] == "en" and len(names.LANGUAGES) == 14


@pytest.mark.parametrize("way", names.WAYS)
def test_pairs_of_names_are_of_one_emoji_or_shuffled(monkeypatch, way):
    """mixed: every second batch has an English name with another language's; the same emoji's, or another's."""
    n = 30
    monkeypatch.setattr(names, "LANGUAGES", ("en", "de", "ko"))
    monkeypatch.setattr(names, "n_pieces", lambda: 3 * n)
    monkeypatch.setattr(names, "names", lambda split, one: [
        (recipe.SPECIALS + names.LANGUAGES.index(one) * n + at,) for at in range(n)])  # fmt: skip
    monkeypatch.setattr(names, "hidden", lambda ids, languages, mask, *_: (ids, languages, mask))
    alone, paired, again, more = islice(names.mixed(0, way), 4)
    assert alone.ids.shape == again.ids.shape == (recipe.BATCH // 3 * 3, 3)
    if way == names.WAYS[0]:
        assert paired.ids.shape == more.ids.shape == alone.ids.shape
        return
    with_which, used = {}, set()
    for ids, languages, mask in (paired, more):
        assert ids.shape == (recipe.BATCH // 2, 6) and mask.all()
        for (start, here, sep, *there), of in zip(ids.tolist(), languages.tolist(), strict=True):
            assert (start, sep, there[0], there[2]) == (recipe.START, recipe.SEP, recipe.START, recipe.SEP)
            language, other = divmod(there[1] - recipe.SPECIALS, n)
            assert of == [0, 0, 0, language, language, language]
            used.add(language)
            assert with_which.setdefault(here - recipe.SPECIALS, other) == other  # always the same partner
    assert used == {1, 2} and len(set(with_which.values())) == len(with_which)
    same = sum(one == other for one, other in with_which.items())
    assert same == len(with_which) if way == "true pairs" else same < 0.2 * len(with_which)


def test_groups_and_twins_are_asked_in_each_language(monkeypatch):
    """asked: by hand; "right" by the model that is fine-tuned, "twins" by the one before that, against English."""
    group = {(10,): 0, (11,): 1, (20,): 0, (21,): 1, (30,): 1, (31,): 0}
    monkeypatch.setattr(names, "LANGUAGES", ("en", "xx", "yy"))
    told = {"en": [(10,), (11,)], "xx": [(20,), (21,)], "yy": [(30,), (31,)]}
    monkeypatch.setattr(names, "names", lambda split, one: told[one] if split == "test" else None)
    monkeypatch.setattr(names, "groups", lambda split: torch.tensor([0, 1]) if split == "test" else None)

    def tuned(ids, languages, mask):
        assert {*(ids[:, 1] // 10 - 1).tolist()} == {*languages.flatten().tolist()}
        return torch.eye(2)[[group[piece,] for piece in ids[:, 1].tolist()]]

    def states(one, some, at):
        assert one == "a model" and names.names("test", names.LANGUAGES[at]) == some
        return torch.eye(2).roll(int(at == 1), dims=0)

    monkeypatch.setattr(names, "in_groups", lambda one, seed: tuned if (one, seed) == ("a model", 3) else None)
    monkeypatch.setattr(names, "vectors", states)
    assert names.asked("a model", 3) == {
        "en": {"right": 1.0, "twins": 1.0},
        "xx": {"right": 1.0, "twins": 0.0},
        "yy": {"right": 0.0, "twins": 1.0},
    }


@pytest.mark.slow
def test_fine_tuning_reads_english_names_of_the_training_part_alone(monkeypatch):
    """in_groups: they are learned by heart, and the model that was given stays as it is."""
    known = {("train", "en"): [(4 + n,) for n in range(6)]}
    monkeypatch.setattr(names, "names", lambda split, one: known[split, one])
    monkeypatch.setattr(names, "groups", lambda split: {"train": torch.tensor([0, 1, 2, 0, 1, 2])}[split])
    monkeypatch.setattr(names, "TUNING", 40)
    monkeypatch.setattr(names, "RATE_OF_TUNING", 5e-3)
    one = recipe.model(0, 20)
    before = parts(one)
    tuned = names.in_groups(one, 0)
    assert same(parts(one), before) and not tuned.training
    assert tuned(*recipe.rows(known["train", "en"], 0)).argmax(dim=1).tolist() == [0, 1, 2, 0, 1, 2]


def test_each_way_of_reading_names_is_judged_alike(monkeypatch):
    seen = []
    monkeypatch.setattr(names, "n_pieces", lambda: 50)
    monkeypatch.setattr(names, "model", lambda seed, n: seen.append((seed, n)) or "a model")
    monkeypatch.setattr(names, "mixed", lambda seed, way: (seed, way))
    monkeypatch.setattr(names, "taught", lambda one, data, *how: seen.append((data, *how)))
    monkeypatch.setattr(names, "asked", lambda one, seed: {one: seed})
    assert all(names.emoji_groups(3, way=way) == {"a model": 3} for way in names.WAYS)
    assert seen == [x for way in names.WAYS for x in ((3, 50), ((3, way), names.STEPS, names.RATE))]
    assert names.emoji_untrained(3) == {"a model": 3} and seen[-1] == (3, 50)
    monkeypatch.setattr(names, "groups", lambda split: torch.tensor([2, 2, 1] if split == "train" else [2, 1, 1, 0]))
    assert names.most_common_group(0) == {"right": 0.25}


def test_what_a_name_costs(monkeypatch):
    """costs: one vocabulary of what is drawn with the exponent and the seed; test names are counted."""
    seen, drawn = [], [("en", "a"), ("xx", "a"), ("xx", "b")]
    monkeypatch.setattr(names.Unigram, "train", lambda texts, size: (
        seen.append((dict(texts), size)), SimpleNamespace(encode=list))[1])  # fmt: skip
    monkeypatch.setattr(names.locale_names, "LANGUAGES", {"en": "English", "xx": "?"})
    monkeypatch.setattr(names.locale_names, "names", lambda language, split: [language, split, ""])
    monkeypatch.setattr(names.locale_names, "drawn", lambda *how: seen.append(how) or drawn)
    assert names.costs(3, exponent=0.5) == names.characters(0) == {"en": 2.0, "xx": 2.0}
    assert seen == [(names.DRAWN, 0.5, 3), ({"a": 2, "b": 1}, names.PIECES)]


# --- many languages in one model


@pytest.mark.parametrize("n", [1, 4])
def test_each_of_many_languages_reads_a_part(monkeypatch, n):
    """many: other sentences and other words in each, as many steps whatever their number."""
    seen = {}
    monkeypatch.setattr(laboratory, "numbers", lambda split: [(word, word + 1) for word in range(80)])
    monkeypatch.setattr(laboratory, "batches", lambda languages, seed, batch: seen.update(languages=languages) or batch)
    monkeypatch.setattr(laboratory, "taught", lambda one, data, steps: seen.update(one=one, data=data, steps=steps))
    monkeypatch.setattr(laboratory, "nats", lambda one: 1.5)
    monkeypatch.setattr(laboratory, "twins", lambda one: torch.tensor([True, False]))
    assert laboratory.many(0, n=n) == {"nats": 1.5, "twins": 0.5 if n > 1 else None}
    assert (seen["data"], seen["steps"]) == (recipe.BATCH, laboratory.HALF)
    assert seen["one"].tokens.num_embeddings == recipe.SPECIALS + n * recipe.WORDS
    firsts = [[one[0] - recipe.SPECIALS for one in part] for part in seen["languages"]]
    assert [len(part) for part in firsts] == [80 // n] * n
    assert all({word // recipe.WORDS for word in part} == {at} for at, part in enumerate(firsts))
    assert sorted(word % recipe.WORDS for part in firsts for word in part) == [*range(80)]  # each sentence once


def test_nats_of_somebody_who_knows_nothing():
    """nats: all tokens equally likely."""
    one = recipe.model(0, 60)
    torch.nn.init.zeros_(one.tokens.weight)
    some = random.Random(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laboratory, "judged", lambda: [tuple(some.choices(range(60), k=5)) for _ in range(40)])
        patch.setattr(laboratory, "hidden", lambda *how, make=recipe.hidden: make(*how, block=60))
        found = laboratory.nats(one)
    assert_close(found, math.log(recipe.SPECIALS + 60), atol=1e-5, rtol=0)


# --- controls


def test_marks_of_the_second_language_are_three_tokens_behind_all_words():
    """with_own_marks: mask, start and end move, padding and words do not, and nothing of the first language."""
    read = torch.tensor([[recipe.START, 5, recipe.MASK, 7, recipe.SEP, recipe.PAD]] * 2)
    languages = torch.tensor([[0] * 6, [1] * 6])
    found = controls.with_own_marks(read, languages)
    assert found[0].equal(read[0])
    last = recipe.SPECIALS + 2 * recipe.WORDS
    moved = {recipe.MASK: last, recipe.START: last + 1, recipe.SEP: last + 2}
    assert found[1].tolist() == [moved.get(i, i) for i in read[1].tolist()]


def test_sentences_of_the_second_language_begin_three_places_on():
    """PlacesLater: in the same table, neighbours as they were."""
    one = recipe.model(0)
    one.__class__ = controls.PlacesLater
    languages = torch.tensor([[0] * 5, [1] * 5])
    assert one.places_of(languages).tolist() == [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]
    assert recipe.LONGEST + 2 + controls.LATER <= recipe.MAX_LEN and one.places.weight.equal(
        recipe.model(0).places.weight
    )


@pytest.mark.slow
def test_each_control_trains_as_long_as_what_it_is_compared_with(monkeypatch):
    """places_later, marks_apart, fake_of_the_grammar: steps, both languages apart, the model that is trained."""
    seen = []

    def look(one, data, steps):
        batch = next(iter(data))
        seen.append((type(one), steps, batch))

    monkeypatch.setattr(controls, "taught", look)
    assert set(controls.places_later(0)) == set(controls.marks_apart(0)) == {"twins", "words"}
    assert set(controls.fake_of_the_grammar(0)) == {"twins"}
    (later, long, _), (marks, as_long, batch), (_, short, grammar) = seen
    assert later is controls.PlacesLater and marks is XLM
    assert long == as_long == recipe.STEPS and short == controls.STEPS
    one, other = (set(batch.ids[batch.languages == n].tolist()) - {recipe.PAD} for n in (0, 1))
    assert not one & other  # not a token is shared
    first, second = (grammar.answers[grammar.languages.flatten()[grammar.places] == n] for n in (0, 1))
    assert first.max() < recipe.SPECIALS + controls.n_words() <= second.min()
