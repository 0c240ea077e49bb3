"""recipes/text_to_text.py: what is read, that no pair is among it, what a few steps teach, what the nearest pair is."""

import pytest

from course_lib.data import Pair
from course_lib.text_to_text.spans import restore
from course_lib.workshop.recipes import text_to_text as recipe


def test_no_sentence_is_read_in_both_languages_or_judged():
    """texts, pairs, tests: apart from each other, and all English words known."""
    english = {" ".join(text) for to, text in recipe.texts() if to == recipe.TO_ENGLISH}
    french = {" ".join(text) for to, text in recipe.texts() if to == recipe.TO_FRENCH}
    read = {" ".join(pair.source): " ".join(pair.target) for pair in recipe.kept("train")}
    assert english < read.keys() and not {read[text] for text in english} & french
    assert abs(len(english) - len(french)) < 0.1 * len(english) and len(english) > 1000
    assert not {" ".join(pair.target) for pair in (*recipe.pairs(), *recipe.tests())} & french
    learned, judged = ({" ".join(pair.source) for pair in some} for some in (recipe.pairs(), recipe.tests()))
    assert len(learned) == recipe.PAIRS and len(judged) == recipe.TESTS
    assert not learned & english and not judged & (learned | english)
    assert not judged & {" ".join(pair.source) for pair in recipe.tests("validation")}
    assert all(recipe.tokenizer().unknown not in recipe.tokenizer().encode(pair.source) for pair in recipe.tests())


def test_what_is_read_differs_as_its_name_says():
    plain, shuffled, french = (recipe.texts(what) for what in recipe.TEXTS)
    assert [(to, sorted(text)) for to, text in plain] == [(to, sorted(text)) for to, text in shuffled]
    assert sum(a != b for a, b in zip(plain, shuffled, strict=True)) > 0.9 * len(plain)
    assert recipe.texts("shuffled", 1) != shuffled == recipe.texts("shuffled", 0)
    assert french == [(to, text) for to, text in plain if to == recipe.TO_FRENCH]


@pytest.mark.parametrize("noise", recipe.NOISES)
def test_a_spoiled_text_names_its_language_and_can_be_made_whole(noise):
    """spoiled: spoiled anew in each copy, the same again by a seed; what is written is the text, or makes it whole."""
    texts, words = recipe.texts()[:100], recipe.tokenizer()
    rows, marks = recipe.spoiled(texts, 0, noise), words.encode(recipe.SENTINELS).tolist()
    assert len(rows) == recipe.COPIES * 100 and rows[:100] != rows[100:200] and rows == recipe.spoiled(texts, 0, noise)
    for (source, target), (to, text) in zip(rows, texts * recipe.COPIES, strict=True):
        assert words.vocab[source[0]] == to
        whole = restore(source[1:], target, marks) if noise == "spans" else target
        assert whole == words.encode(text).tolist()
    hidden = 1 - sum(token not in marks for source, _ in rows for token in source[1:]) / sum(
        len(text) for _, text in texts
    ) / len(rows) * len(texts)
    assert 0.25 < hidden < 0.35


@pytest.mark.slow
def test_few_steps_teach_few_pairs():
    """tuned, translated: three pairs are learned by heart, and asked for in French."""
    one, known = recipe.model(0), recipe.pairs()[:3]
    history = recipe.tuned(one, known, seed=0, steps=60, lr=4e-3)
    assert history.loss[-1] < 0.2 < history.loss[0]
    assert recipe.translated(one, known) == [pair.target for pair in known]
    assert recipe.asked(known[0])[0] == ["<2fr>", *known[0].source]


@pytest.mark.slow
def test_a_few_steps_of_reading_lower_the_loss():
    one = recipe.model(0)
    history = recipe.taught(one, recipe.spoiled(recipe.texts()[:50], 0), seed=0, steps=40)
    assert sum(history.loss[-3:]) < 0.8 * sum(history.loss[:3])


def test_a_seed_draws_the_weights():
    one, same, other = (recipe.model(seed).state_dict() for seed in (0, 0, 1))
    assert all(one[name].equal(same[name]) for name in one)
    assert not one["source.tokens.weight"].equal(other["source.tokens.weight"])


def test_the_nearest_pair_shares_most_words():
    known = [Pair(["a", "b"], ["A"], []), Pair(["a", "b", "c"], ["B"], []), Pair(["x"], ["C"], [])]
    asked = [Pair(["c", "b"], [], []), Pair(["a", "b"], [], []), Pair(["x", "a"], [], [])]
    assert recipe.nearest(known, asked) == [["B"], ["A"], ["C"]]


@pytest.mark.slow
def test_a_run_makes_a_model_that_comes_back(monkeypatch, short_run):
    monkeypatch.setattr(recipe, "TESTS", 4)
    monkeypatch.setattr(recipe, "tuned", lambda *_: None)
    short_run(recipe.READER)


def test_bad_input_is_refused_in_words():
    with pytest.raises(ValueError, match="text is one of sentences, shuffled, French alone; got 'none'"):
        recipe.texts("none")
    with pytest.raises(ValueError, match="noise is one of infilling, spans; got 'rotation'"):
        recipe.spoiled([], 0, "rotation")
