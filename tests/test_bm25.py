"""retrieval/bm25.py: the formula word by word on ten words and on random texts; stop words; summed ranks; bad input."""

import math
import random
import unicodedata

import pytest
import torch
from torch.testing import assert_close

from course_lib.retrieval.bm25 import BM25, STOP_WORDS, summed_ranks, terms

TEN = ["an owl sees an owl", "an owl", "a seal sings"]  # ten words in three passages
LETTERS = "abcdefghij"


def plainly(passages, question, k1, b):
    """The scores once more, with a loop over passages and no index."""
    split = [passage.split() for passage in passages]
    mean = sum(map(len, split)) / len(split)
    scores = []
    for passage in split:
        score = 0.0
        for word in question.split():
            n, tf = sum(word in other for other in split), passage.count(word)
            idf = math.log(1 + (len(split) - n + 0.5) / (n + 0.5))
            score += idf * tf / (tf + k1 * ((1 - b) + b * len(passage) / mean)) if tf else 0.0
        scores.append(score)
    return scores


def test_ten_words_by_hand():
    """BM25: "owl" stands in two passages of three, twice in one of five words; the mean length is 10 / 3."""
    bm25 = BM25(TEN, k1=1.0, b=0.5)
    assert bm25.idf(2) == pytest.approx(math.log(1 + 1.5 / 2.5))
    assert bm25.idf(1) == pytest.approx(math.log(1 + 2.5 / 1.5))
    twice, once = 2 / (2 + 0.5 + 0.5 * 5 / (10 / 3)), 1 / (1 + 0.5 + 0.5 * 2 / (10 / 3))
    assert_close(bm25.scores("owl"), math.log(1.6) * torch.tensor([twice, once, 0.0]))
    assert_close(bm25.scores("An owl owl?"), bm25.scores("an") + 2 * bm25.scores("owl"))
    assert bm25.scores("whale").tolist() == [0, 0, 0]
    assert bm25.search("seal", 3)[0].tolist() == [2, 0, 1]  # of equal ones the first comes first


@pytest.mark.parametrize("trial", range(5))
def test_random_texts_get_the_scores_of_a_plain_loop(trial):
    draw = random.Random(trial)
    passages = [" ".join(draw.choices(LETTERS, k=draw.randint(1, 12))) for _ in range(9)]
    question, k1, b = " ".join(draw.choices(LETTERS, k=4)), draw.uniform(0, 3), draw.random()
    assert_close(BM25(passages, k1=k1, b=b).scores(question), torch.tensor(plainly(passages, question, k1, b)))
    places, scores = BM25(passages, k1=k1, b=b).search(question, 4)
    assert_close(scores, torch.tensor(sorted(plainly(passages, question, k1, b), reverse=True)[:4]))
    assert_close(BM25(passages, k1=k1, b=b).scores(question)[places], scores)


def test_the_ends_of_its_two_constants():
    """With k1 = 0 a word is there or not; with b = 0 length does not matter; a word of all passages still counts."""
    there = BM25(["x x x y", "x y y y"], k1=0.0).scores("x")
    assert there[0] == there[1] > 0
    long, short = BM25(["x a b c d e", "x a"], b=0.0).scores("x")
    assert long == short
    long, short = BM25(["x a b c d e", "x a"], b=1.0).scores("x")
    assert long < short


def test_stop_words_are_counted_nowhere():
    """terms: neither in a question nor in a passage's length; small letters, no marks, any script."""
    assert terms("The OWL, of Athens!") == ["the", "owl", "of", "athens"]
    assert terms("The OWL, of Athens!", STOP_WORDS) == ["owl", "athens"]
    assert terms("Η γλαύκα; the-other") == ["η", "γλαύκα", "the-other"]
    plain, stopped = BM25(TEN), BM25(TEN, STOP_WORDS)
    assert plain.scores("an")[0] > 0 and stopped.scores("an").tolist() == [0, 0, 0]
    assert_close(stopped.scores("a seal"), BM25(["owl sees owl", "owl", "seal sings"]).scores("seal"))
    assert BM25(["of the", "a an"], STOP_WORDS).scores("the of").tolist() == [0, 0]


def test_passages_of_less_than_a_word_each_keep_to_the_formula():
    """BM25: the mean length is 1 / 3 here, and 0 where there is no word at all."""
    passages = ["owl", "", ""]
    assert_close(BM25(passages).scores("owl"), torch.tensor(plainly(passages, "owl", 1.2, 0.75)))
    assert BM25(passages).scores("owl")[0].item() == pytest.approx(0.2452, abs=5e-5)
    assert_close(BM25(["owl owl", "", "", "", "seal"]).scores("owl"),
                 torch.tensor(plainly(["owl owl", "", "", "", "seal"], "owl", 1.2, 0.75)))  # fmt: skip
    for nothing in ([""], ["", "?!"], ["the of", ""]):
        assert not BM25(nothing, STOP_WORDS).scores("owl").any()


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Le café Ångström", ["le", "café", "ångström"]),
        ("ﬁsh ① ｆｕｌｌ ½ cup ℡ m²", ["fish", "1", "full", "1", "2", "cup", "tel", "m2"]),
        ("Straße ΐ Ϊ́ a≠b", ["strasse", "ΐ", "ΐ", "a", "b"]),
        ("नमस्ते 한글 İzmir", ["नमस्ते", "한글", "i̇zmir"]),
    ],
)
def test_a_word_is_the_same_in_every_form_of_unicode(form, text, found):
    """terms, BM25: in passages, questions and stop words."""
    assert terms(unicodedata.normalize(form, text)) == [unicodedata.normalize("NFKC", word) for word in found]
    other = unicodedata.normalize(form, text)
    assert BM25([text, "owl"]).scores(other)[0] == BM25([other, "owl"]).scores(text)[0] > 0
    assert terms(text, stop=[unicodedata.normalize(form, word) for word in found]) == []
    assert terms("l´été, rock´n´roll") == ["l", "été", "rock", "n", "roll"]  # an accent that stands alone is a mark


def test_two_orders_become_one():
    """summed_ranks: 1 / (60 + rank) of each; equal scores share a rank; a search that found nothing changes nothing."""
    words, vectors = torch.tensor([3.0, 1, 2]), torch.tensor([0.9, 0.1, 0.8])
    assert_close(summed_ranks(words), 1 / torch.tensor([61.0, 63, 62]))
    assert_close(summed_ranks(words, vectors), 2 * summed_ranks(words))
    assert_close(summed_ranks(1000 * words, vectors), summed_ranks(words, vectors))
    assert_close(summed_ranks(torch.tensor([5.0, 5, 1]), constant=0), 1 / torch.tensor([1.5, 1.5, 3]))
    nothing = torch.zeros(3)
    assert summed_ranks(nothing, vectors).argsort().equal(vectors.argsort())


def test_bad_input_is_refused_in_words():
    with pytest.raises(TypeError, match="one string"):
        BM25("an owl")
    with pytest.raises(ValueError, match="summed_ranks needs"):
        summed_ranks(torch.zeros(3), torch.zeros(4))
