"""recipes/text_to_text.py: what is read and asked, who is left out of it, what a few steps teach."""

import pytest
import torch

from course_lib.data.territories import facts
from course_lib.data.territory_wordings import KINDS
from course_lib.recipes import text_to_text as recipe
from course_lib.text.tokenizers import WordTokenizer
from course_lib.text_to_text.spans import restore


def test_each_fact_is_said_and_asked_in_six_ways():
    """sentences, questions: every sentence holds the answer, a false one the false answer; no question holds it."""
    for one in recipe.every_fact():
        said, asked, false = recipe.sentences(one), recipe.questions(one), recipe.sentences(one, false=True)
        assert len(said) == len(asked) == len(false) == 6
        answer, other = (" " + " ".join(recipe.tokens(text)) + " " for text in (one.answer, one.false))
        assert all(answer in f" {' '.join(text)} " for text in said)
        assert all(other in f" {' '.join(text)} " for text in false)
    assert len(recipe.tokens(max((one.answer for one in recipe.every_fact()), key=len))) < recipe.LONGEST


def test_what_is_read_differs_as_its_name_says():
    """corpus: shuffled are the same words; false and other places touch the facts of test places alone."""
    plain, shuffled, false, other = (recipe.corpus(what) for what in recipe.TEXTS)
    assert len(plain) == 6 * len(recipe.every_fact()) == len(false) == len(shuffled)
    assert [sorted(text) for text in plain] == [sorted(text) for text in shuffled] and plain != shuffled
    assert recipe.corpus("shuffled", 1) != shuffled == recipe.corpus("shuffled", 0)
    n_test = 6 * len(facts("test"))
    assert len(other) == len(plain) - n_test and all(text in plain for text in other)
    assert sum(a != b for a, b in zip(plain, false, strict=True)) == n_test
    places = {" ".join(recipe.tokens(one.place)) for one in facts("test")}
    others = {" ".join(recipe.tokens(one.place)) for part in ("train", "validation") for one in facts(part)}
    assert not places & others


@pytest.mark.parametrize("noise", ["spans", "infilling"])
def test_a_spoiled_text_can_be_told_from_its_target(noise):
    """spoiled: a third or so is hidden, drawn anew in each copy; with T5's target the text is whole again."""
    texts = [text for text in recipe.corpus() if len(text) > 5][:200]
    words, marks = recipe.tokenizer(), set(recipe.tokenizer().encode(recipe.SENTINELS).tolist())
    rows = recipe.spoiled(texts, seed=0, noise=noise, copies=2)
    assert len(rows) == 400 and rows[:200] != rows[200:] and rows == recipe.spoiled(texts, 0, noise, 2)
    kept = sum(token not in marks for source, _ in rows for token in source) / sum(map(len, texts)) / 2
    assert 0.65 < kept < 0.75
    for (source, target), text in zip(rows, texts * 2, strict=True):
        whole = restore(source, target, sorted(marks)) if noise == "spans" else target
        assert whole == words.encode(text).tolist()
        assert words.unknown not in [*source, *target] and marks & set(source)


def test_no_word_of_a_question_or_an_answer_is_unknown():
    known = set(recipe.tokenizer().vocab)
    assert all({*asked, *answer} <= known for asked, answer in recipe.pairs(recipe.every_fact()))
    assert known.isdisjoint({"unknown"}) or WordTokenizer.unknown == 3


def test_a_few_steps_teach_to_answer_what_was_asked():
    """tuned, answered, share_right: three facts are learned by heart; the false answers are none of them."""
    known = facts("train")[:3]
    one = recipe.model(0)
    history = recipe.tuned(one, known, seed=0, steps=40, lr=3e-3)
    assert history.loss[-1] < 0.3 < history.loss[0]
    said = recipe.answered(one, known)
    assert recipe.share_right(said, known) == 1.0
    assert recipe.share_right(said, known, false=True) == 0.0
    assert recipe.share_right([recipe.tokens(fact.false) for fact in known], known, false=True) == 1.0


def test_a_seed_draws_the_weights():
    one, same, other = (recipe.model(seed).state_dict() for seed in (0, 0, 1))
    assert all(one[name].equal(same[name]) for name in one)
    assert not one["source.tokens.weight"].equal(other["source.tokens.weight"])


def test_a_few_steps_of_reading_lower_the_loss():
    one = recipe.model(0)
    texts = recipe.corpus()[:60]
    history = recipe.taught(one, recipe.spoiled(texts, 0, copies=1), seed=0, steps=30)
    assert sum(history.loss[-3:]) < 0.8 * sum(history.loss[:3])


def test_the_most_frequent_answer_is_one_of_each_kind():
    found = recipe.most_frequent(facts("train"))
    assert set(found) == set(KINDS)
    for kind, answer in found.items():
        counts = [recipe.tokens(one.answer) for one in facts("train") if one.kind == kind]
        assert all(counts.count(answer) >= counts.count(other) for other in counts)


def test_bad_input_is_refused_in_words():
    with pytest.raises(ValueError, match="shuffled, false, other places; got 'none'"):
        recipe.corpus("none")
    with pytest.raises(ValueError, match="'spans' or 'infilling'; got 'rotation'"):
        recipe.hidden([4, 5], torch.Generator(), "rotation")
