"""text_to_text/rouge.py: the sentences of the paper, counts by hand, the longest common subsequence by every way."""

import itertools
import random

import pytest

from course_lib.text_to_text.rouge import Overlap, longest_common, rouge_l, rouge_n

# Lin (2004), section 3.1, which says of ROUGE-2 and ROUGE-L what is expected here.
REFERENCE = "police killed the gunman".split()
SAID = ["police kill the gunman".split(), "the gunman kill police".split(), "the gunman police killed".split()]


def test_the_sentences_of_the_paper():
    """rouge_n, rouge_l: one pair each in the first two, which order tells apart; the third has a pair more."""
    assert [rouge_n(said, REFERENCE, 1).recall for said in SAID] == [3 / 4, 3 / 4, 4 / 4]
    assert [rouge_n(said, REFERENCE, 2).recall for said in SAID] == [1 / 3, 1 / 3, 2 / 3]
    assert [rouge_l(said, REFERENCE) for said in SAID] == [Overlap(n / 4, n / 4, n / 4) for n in (3, 2, 2)]


def test_runs_count_as_often_as_the_rarer_has_them_by_hand():
    said, reference = "the the the cat sat".split(), "the cat and the dog sat down".split()
    # both have: the (twice), cat, sat, and of pairs "the cat"
    assert rouge_n(said, reference) == Overlap(4 / 7, 4 / 5, 2 * (4 / 7) * (4 / 5) / (4 / 7 + 4 / 5))
    assert rouge_n(said, reference, 2) == pytest.approx((1 / 6, 1 / 4, 1 / 5))
    assert rouge_n(said, reference, 3) == (0, 0, 0)
    assert rouge_l(said, reference) == pytest.approx((3 / 7, 3 / 5, 1 / 2))  # the cat sat


def test_the_longest_common_subsequence_by_every_way():
    """longest_common: against all subsequences of both, for all pairs of short rows."""

    def parts(row):
        return {part for n in range(len(row) + 1) for part in itertools.combinations(row, n)}

    rows = [row for n in range(5) for row in itertools.product("abc", repeat=n)]
    draw = random.Random(0)
    for said, reference in (draw.choices(rows, k=2) for _ in range(1000)):
        expected = max(map(len, parts(said) & parts(reference)))
        assert longest_common(said, reference) == longest_common(reference, said) == expected


def test_what_order_changes_and_what_it_does_not():
    draw = random.Random(0)
    for _ in range(100):
        said, reference = (draw.choices("abcde", k=draw.randint(1, 12)) for _ in range(2))
        mixed = draw.sample(said, len(said))
        assert rouge_n(mixed, reference) == rouge_n(said, reference)
        assert rouge_l(said, reference).f1 <= rouge_n(said, reference).f1
        assert rouge_n(said, said) == rouge_l(said, said) == (1, 1, 1)
        swapped = rouge_n(reference, said)
        assert rouge_n(said, reference) == (swapped.precision, swapped.recall, swapped.f1)


def test_no_token_is_no_hit():
    assert rouge_n([], ["a"]) == rouge_n(["a"], []) == rouge_l([], []) == rouge_n(["a"], ["a"], 2) == (0, 0, 0)


def test_bad_input_is_refused_in_words():
    with pytest.raises(TypeError, match="a string is a row of letters"):
        rouge_n("the cat", ["the", "cat"])
    with pytest.raises(TypeError, match="a string is a row of letters"):
        rouge_l(["the", "cat"], "the cat")
