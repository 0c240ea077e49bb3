"""detection/matching.py: three ways to the same matching; more objects than queries, none, padding; bad input."""

import pytest
import torch
from torch.testing import assert_close

from course_lib.detection.boxes import giou, to_corners
from course_lib.detection.matching import best_permutation, check_labels, hungarian, match, match_costs

SIZES = [(1, 1), (3, 3), (5, 2), (6, 5), (4, 0), (7, 1)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("kind", ["real", "ties", "large"])
def test_three_ways_cost_the_same(sizes, kind):
    """best_permutation, hungarian, match: on drawn tables; where sums are equal the choices may differ."""
    generator = torch.Generator().manual_seed(sum(sizes))
    Q, M = sizes
    for _ in range(50):
        costs = torch.randn(Q, M, generator=generator, dtype=torch.float64)
        costs = {"real": costs, "ties": costs.round(), "large": 1e6 * costs}[kind]
        tried, ours = best_permutation(costs), hungarian(costs)
        theirs = match(costs[None], torch.ones(1, M, dtype=torch.bool))[0].tolist()
        theirs = tuple(theirs.index(m) for m in range(M))
        sums = [sum(costs[q, m].item() for m, q in enumerate(queries)) for queries in (tried, ours, theirs)]
        assert sums[1] == pytest.approx(sums[0]) and sums[2] == pytest.approx(sums[0])
        assert all(len(set(queries)) == M for queries in (tried, ours, theirs)), "no query twice"
        if kind == "real":
            assert tried == ours == theirs


def test_a_greedy_choice_is_not_the_best():
    """The table of the lesson's kind: the least cost first leaves the rest with what is dear."""
    costs = torch.tensor([[1.0, 2.0], [3.0, 9.0]])  # taking 1 first costs 10 in all, 2 and 3 cost 5
    assert best_permutation(costs) == hungarian(costs) == (1, 0)


def test_large_tables():
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        costs = torch.rand(100, 40, generator=generator, dtype=torch.float64)
        theirs = match(costs[None], torch.ones(1, 40, dtype=torch.bool))[0].tolist()
        assert hungarian(costs) == tuple(theirs.index(m) for m in range(40))


def test_padding_is_never_matched():
    """match: however little a padded object costs; a scene without objects gives nothing to anybody."""
    torch.manual_seed(0)
    costs, real = torch.randn(4, 6, 3), torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]]).bool()
    costs = torch.where(real[:, None], costs, -100)
    given = match(costs, real)
    assert given.shape == (4, 6) and given.dtype == torch.int64
    for own, there in zip(given, real, strict=True):
        assert sorted(own[own >= 0].tolist()) == there.nonzero().flatten().tolist()


def test_more_objects_than_queries():
    """Then each query has one, and the dearest objects have none."""
    costs = torch.tensor([[[5.0, 1.0, 9.0], [5.0, 9.0, 2.0]]])
    assert match(costs, torch.ones(1, 3, dtype=torch.bool)).tolist() == [[1, 2]]


def test_the_order_of_the_objects_is_nothing():
    torch.manual_seed(0)
    costs, order = torch.randn(3, 8, 5), torch.randperm(5)
    real = torch.ones(3, 5, dtype=torch.bool)
    given, other = match(costs, real), match(costs[..., order], real)
    assert torch.equal(torch.where(other >= 0, order[other.clamp(min=0)], -1), given)


def test_costs_are_the_formula():
    """match_costs: number by number, of the paper's three terms."""
    torch.manual_seed(0)
    logits, boxes, truth = torch.randn(2, 4, 6), torch.rand(2, 4, 4), torch.rand(2, 3, 4)
    labels = torch.tensor([[0, 4, -1], [2, 2, 1]])
    costs = match_costs(logits, boxes, labels, truth)
    assert costs.shape == (2, 4, 3)
    for b in range(2):
        for q in range(4):
            for m in range(3):
                if labels[b, m] < 0:
                    continue
                p = logits[b, q].softmax(0)[labels[b, m]]
                apart = (boxes[b, q] - truth[b, m]).abs().sum()
                agree = giou(to_corners(boxes[b, q]), to_corners(truth[b, m]))
                assert_close(costs[b, q, m], -p + 5 * apart - 2 * agree, atol=1e-5, rtol=0)


def test_costs_have_no_gradient():
    logits, boxes = torch.randn(1, 3, 5, requires_grad=True), torch.rand(1, 3, 4, requires_grad=True)
    costs = match_costs(logits, boxes, torch.tensor([[1]]), torch.rand(1, 1, 4))
    assert not costs.requires_grad


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_matched_by_its_own_numbers(half):
    """match, match_costs: as the same numbers in single precision; mixed kinds too."""
    torch.manual_seed(0)
    logits, boxes, truth = torch.randn(3, 9, 6).to(half), torch.rand(3, 9, 4).to(half), torch.rand(3, 4, 4)
    labels = torch.randint(0, 5, (3, 4))
    for objects in (truth, truth.to(half)):
        costs = match_costs(logits, boxes, labels, objects)
        assert_close(costs, match_costs(logits.float(), boxes.float(), labels, objects.float()), atol=0, rtol=0)
        assert match(costs.to(half), labels >= 0).equal(match(costs.to(half).float(), labels >= 0))


def test_no_object_and_no_query():
    """match, match_costs: an empty side, and an empty batch."""
    for B, Q, M in ((2, 3, 0), (2, 0, 3), (0, 3, 2)):
        labels = torch.zeros(B, M, dtype=torch.long)
        costs = match_costs(torch.randn(B, Q, 5), torch.rand(B, Q, 4), labels, torch.rand(B, M, 4))
        assert costs.shape == (B, Q, M) and match(costs, labels >= 0).equal(torch.full((B, Q), -1))


def test_bad_input_is_refused_in_words():
    for way in (best_permutation, hungarian):
        with pytest.raises(ValueError, match="more objects than queries, 3 and 2"):
            way(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="must be finite"):
        match(torch.full((1, 2, 2), torch.nan), torch.ones(1, 2, dtype=torch.bool))
    for wrong in (4, -2):
        labels = torch.tensor([[0, wrong]])
        with pytest.raises(ValueError, match="Labels are classes from 0 to 2, or -1 for padding; got"):
            match_costs(torch.zeros(1, 2, 4), torch.zeros(1, 2, 4), labels, torch.zeros(1, 2, 4))
    check_labels(torch.tensor([[-1, 2]]), 3)
