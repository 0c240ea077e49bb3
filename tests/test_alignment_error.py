"""Alignment scores: right by eye on small sentences, by property on random ones, and sensible on empty ones."""

import random

import numpy as np
import pytest
import torch

from course_lib.translation.alignment_error import (
    alignment_scores,
    corpus_alignment_error_rate,
    corpus_precision,
    corpus_recall,
    diagonal_guess,
    either_alignment,
    hard_alignment,
    mutual_alignment,
    where_gold,
)


def precision(links, gold):
    return corpus_precision([links], [gold])


def recall(links, gold):
    return corpus_recall([links], [gold])


def alignment_error_rate(links, sure, possible=None):
    return corpus_alignment_error_rate([links], [sure], None if possible is None else [possible])


SCORES = (precision, recall, alignment_error_rate)


def some_links(rng, n=6, share=0.3):
    return {(i, j) for i in range(n) for j in range(n) if rng.random() < share}


# Links


def test_the_largest_weight_makes_the_link_by_eye():
    # two target words, three source words: the first looks at the last, the second at the first
    weights = torch.tensor([[0.1, 0.3, 0.6], [0.8, 0.1, 0.1]])
    assert hard_alignment(weights) == {(2, 0), (0, 1)}
    assert hard_alignment(weights, 0.3) == {(1, 0), (2, 0), (0, 1)}
    assert hard_alignment(weights, 0.9) == set()
    assert hard_alignment(weights.numpy()) == hard_alignment(weights.tolist()) == hard_alignment(weights)


def test_mutual_and_either_way_by_eye():
    # both target words look at source word 0; source word 0 looks back at target word 1, source word 1 at 0
    weights = torch.tensor([[0.6, 0.4], [0.9, 0.1]])
    assert hard_alignment(weights) == {(0, 0), (0, 1)}
    assert mutual_alignment(weights) == {(0, 1)}
    assert either_alignment(weights) == {(0, 0), (0, 1), (1, 0)}


@pytest.mark.parametrize("seed", range(5))
def test_mutual_lies_within_the_best_and_the_best_within_either(seed):
    weights = torch.rand(7, 5, generator=torch.Generator().manual_seed(seed))
    assert mutual_alignment(weights) <= hard_alignment(weights) <= either_alignment(weights)
    assert {(j, i) for i, j in mutual_alignment(weights)} == mutual_alignment(weights.T)
    assert {(j, i) for i, j in either_alignment(weights)} == either_alignment(weights.T)


@pytest.mark.parametrize("reading", [mutual_alignment, either_alignment])
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_an_empty_side_has_no_links(reading, shape):
    assert reading(torch.zeros(shape)) == set()


def test_only_target_words_that_gold_links_are_judged():
    assert where_gold([{(0, 0), (1, 1), (2, 2)}], [[(5, 1)]]) == [{(1, 1)}]
    assert alignment_scores([{(1, 1), (0, 1)}], [[(1, 1)]]) == {"AER": 1 - 2 / 3, "precision": 0.5, "recall": 1.0}


def test_of_equal_weights_the_first_makes_the_link_and_no_weight_makes_none():
    assert hard_alignment(torch.tensor([[0.5, 0.5], [0.0, 0.0]])) == {(0, 0)}
    assert hard_alignment(torch.tensor([[0.5, 0.5]]), 0.5) == {(0, 0), (1, 0)}
    assert hard_alignment(torch.empty(0, 3)) == hard_alignment(torch.empty(3, 0)) == set()
    assert hard_alignment(torch.ones(1, 1)) == {(0, 0)}


@pytest.mark.parametrize("seed", range(5))
def test_every_target_word_has_one_link_and_it_moves_with_its_column(seed):
    weights = torch.rand(7, 5, generator=torch.Generator().manual_seed(seed)).softmax(1)
    links = hard_alignment(weights)
    assert sorted(j for _, j in links) == list(range(7))
    order = torch.randperm(5, generator=torch.Generator().manual_seed(seed))
    assert {(int(order[i]), j) for i, j in hard_alignment(weights[:, order])} == links
    assert hard_alignment(weights.requires_grad_()) == links
    low, high = hard_alignment(weights, 0.15), hard_alignment(weights, 0.25)
    assert high <= low and all(weights[j, i] >= 0.15 for i, j in low)


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (torch.ones(2, 3, 3), r"One sentence at a time: .* got shape \(2, 3, 3\)"),
        (torch.tensor([[float("nan")]]), "finite and not negative"),
        (torch.tensor([[-1.0, 2.0]]), "the weights instead of the scores"),
    ],
)
def test_weights_that_are_none_are_refused(weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        hard_alignment(weights)


def test_the_diagonal_by_eye():
    assert diagonal_guess(3, 3) == {(0, 0), (1, 1), (2, 2)}
    assert diagonal_guess(2, 4) == {(0, 0), (0, 1), (1, 2), (1, 3)}
    assert diagonal_guess(4, 2) == {(1, 0), (3, 1)}
    assert diagonal_guess(5, 1) == {(2, 0)}
    assert diagonal_guess(0, 3) == diagonal_guess(3, 0) == diagonal_guess(0, 0) == set()


@pytest.mark.parametrize("n_source", [1, 2, 7, 40])
@pytest.mark.parametrize("n_target", [1, 3, 8, 41])
def test_the_diagonal_runs_from_corner_to_corner_without_turning_back(n_source, n_target):
    places = [i for i, j in sorted(diagonal_guess(n_source, n_target), key=lambda link: link[1])]
    assert len(places) == n_target and places == sorted(places)
    assert 0 <= places[0] and places[-1] < n_source
    assert all(abs((i + 0.5) / n_source - (j + 0.5) / n_target) <= 0.5 / n_source for j, i in enumerate(places))


# Scores


def test_scores_by_eye():
    # four links, three of them gold; gold has five
    links, gold = {(0, 0), (1, 1), (2, 2), (3, 0)}, {(0, 0), (1, 1), (2, 2), (2, 3), (4, 4)}
    assert precision(links, gold) == 3 / 4
    assert recall(links, gold) == 3 / 5
    assert alignment_error_rate(links, gold) == pytest.approx(1 - 6 / 9)


def test_a_possible_link_does_no_harm_and_is_not_asked_for():
    sure, possible = {(0, 0), (1, 1)}, {(2, 1), (2, 2)}
    assert alignment_error_rate(sure, sure, possible) == 0  # sure ones are possible too
    assert alignment_error_rate(sure | possible, sure, possible) == 0
    assert alignment_error_rate({(0, 0), (2, 2)}, sure, possible) == pytest.approx(1 - (1 + 2) / (2 + 2))
    assert alignment_error_rate({(0, 0), (2, 2)}, sure) == pytest.approx(1 - (1 + 1) / (2 + 2))


def test_empty_sets_are_answered():
    gold = {(0, 0)}
    assert [score(set(), set()) for score in SCORES] == [1, 1, 0]
    assert [score(set(), gold) for score in SCORES] == [1, 0, 1]
    assert [score(gold, set()) for score in SCORES] == [0, 1, 1]
    assert alignment_error_rate(gold, set(), gold) == 0
    assert corpus_precision([], []) == corpus_recall([], []) == 1 and corpus_alignment_error_rate([], []) == 0


@pytest.mark.parametrize("seed", range(20))
def test_scores_keep_their_bounds_and_agree_with_each_other(seed):
    rng = random.Random(seed)
    links, sure, possible = some_links(rng), some_links(rng, share=0.2), some_links(rng)
    p, r, aer = (score(links, sure) for score in SCORES)
    assert all(0 <= value <= 1 for value in (p, r, aer, alignment_error_rate(links, sure, possible)))
    assert aer == pytest.approx(1 - 2 * p * r / (p + r) if p + r else 1)  # one minus F
    assert p == recall(sure, links) and r == precision(sure, links)
    assert [score(links, links) for score in SCORES] == [1, 1, 0]
    assert alignment_error_rate(links, sure, possible) <= aer
    turned = [{(j, i) for i, j in side} for side in (links, sure)]
    assert [score(*turned) for score in SCORES] == [p, r, aer]
    assert [score({(np.int64(i), j) for i, j in links}, sure) for score in SCORES] == [p, r, aer]
    assert [score(sorted(links) * 2, [list(link) for link in sure]) for score in SCORES] == [p, r, aer]


@pytest.mark.parametrize("seed", range(5))
def test_a_corpus_is_one_long_sentence(seed):
    rng = random.Random(seed)
    corpus = [[some_links(rng, rng.randint(0, 6)) for _ in range(8)] for _ in range(3)]
    shifted = [{(i + 10 * n, j + 10 * n) for n, links in enumerate(side) for i, j in links} for side in corpus]
    links, sure, possible = corpus
    assert corpus_precision(links, sure) == precision(*shifted[:2])
    assert corpus_recall(links, sure) == recall(*shifted[:2])
    assert corpus_alignment_error_rate(links, sure, possible) == alignment_error_rate(*shifted)


def test_a_corpus_pools_counts_and_not_scores():
    links, gold = [{(0, 0)}, {(0, 0), (1, 0), (2, 0)}], [{(0, 0)}, {(0, 1)}]
    assert corpus_precision(iter(links), iter(gold)) == 1 / 4  # the mean of the two scores would be 1/2
    assert corpus_recall(links, gold) == 1 / 2
    assert corpus_alignment_error_rate(iter(links), iter(gold)) == pytest.approx(1 - 2 / 6)


def test_attention_on_the_right_word_scores_full_and_the_diagonal_fails_on_a_reversal():
    n = 6
    reversal = {(n - 1 - j, j) for j in range(n)}
    weights = torch.eye(n).flip(1)
    assert alignment_error_rate(hard_alignment(weights), reversal) == 0
    assert alignment_error_rate(diagonal_guess(n, n), reversal) == 1


@pytest.mark.parametrize("links", [{(0,)}, [(0, 1, 2)], [(0.0, 1)], ["01"], [0], [np.array([0, 1])]])
@pytest.mark.parametrize("score", SCORES)
def test_what_is_no_link_is_refused(score, links):
    with pytest.raises(TypeError, match="A link is a pair of whole numbers"):
        score(links, {(0, 0)})
    with pytest.raises(TypeError, match="A link is a pair of whole numbers"):
        score({(0, 0)}, links)


def test_places_before_the_first_and_uneven_corpora_are_refused():
    with pytest.raises(ValueError, match=r"counted from 0; got the link \(-1, 0\)"):
        recall({(-1, 0)}, set())
    with pytest.raises(ValueError, match="as many sentences; got 2 and 1"):
        corpus_recall([set(), set()], [set()])
    with pytest.raises(ValueError, match="as many sentences; got 1 and 1 and 0"):
        corpus_alignment_error_rate([set()], [set()], [])
