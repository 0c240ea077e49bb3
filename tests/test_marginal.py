"""retrieval/marginal.py: the sum number by number, in log space; its gradient is posterior less prior; bad input."""

import math

import pytest
import torch
from torch.testing import assert_close

from course_lib.retrieval.marginal import lift, log_marginal, log_passages, posterior


def given(B=3, K=4, V=5, scale=1.0):
    """Scores of passages (B, K), log p of answers with each (B, K, V)."""
    scores = scale * torch.randn(B, K, dtype=torch.float64)
    return scores, (scale * torch.randn(B, K, V, dtype=torch.float64)).log_softmax(-1)


@pytest.mark.parametrize(("B", "K", "V"), [(3, 4, 5), (1, 1, 2), (2, 7, 1)])
def test_it_is_the_sum_over_passages(B, K, V):
    """log_marginal: number by number, and a distribution over answers again."""
    scores, log_y = given(B, K, V)
    p = log_marginal(log_passages(scores), log_y).exp()
    for b in range(B):
        total = sum(math.exp(score) for score in scores[b].tolist())
        for v in range(V):
            by_hand = sum(math.exp(scores[b, z]) / total * math.exp(log_y[b, z, v]) for z in range(K))
            assert p[b, v].item() == pytest.approx(by_hand, abs=1e-12)
    assert_close(p.sum(-1), torch.ones(B, dtype=torch.float64))


def test_two_passages_by_hand():
    """3/4 of a passage that says "owl" by 0.9, 1/4 of one by 0.1, are 0.7; told "owl", it was the first by 27/28."""
    log_z = torch.tensor([0.75, 0.25], dtype=torch.float64).log()
    log_y = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64).log()
    assert_close(log_marginal(log_z, log_y).exp(), torch.tensor([0.7, 0.3], dtype=torch.float64))
    assert_close(posterior(log_z, log_y[:, 0]), torch.tensor([27, 1], dtype=torch.float64) / 28)
    assert_close(lift(log_z, log_y[:, 0]), torch.tensor([27 / 28 - 3 / 4, 1 / 28 - 1 / 4], dtype=torch.float64))


def test_small_numbers_do_not_vanish():
    """In log space e^-2000 + e^-2001 is a number; and a passage of no weight at all does no harm."""
    log_y = torch.tensor([[-2000.0], [-2000.0]], dtype=torch.float64)
    log_z = torch.tensor([0.0, 0.0], dtype=torch.float64).log_softmax(0)
    assert_close(log_marginal(log_z, log_y), torch.tensor([-2000.0], dtype=torch.float64))
    never = torch.tensor([0.0, -math.inf], dtype=torch.float64)
    assert_close(log_marginal(never, log_y), torch.tensor([-2000.0], dtype=torch.float64))


@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("temperature", [1.0, 0.1, 7.0])
def test_the_gradient_is_posterior_less_prior(scale, temperature):
    """lift: what autograd finds by the scores of the search (REALM's appendix A), divided by the temperature."""
    scores, log_y = given(scale=scale)
    scores.requires_grad_()
    log_z = log_passages(scores, temperature)
    log_marginal(log_z, log_y)[:, 2].sum().backward()
    by_hand = lift(log_z, log_y[..., 2]).detach()
    assert_close(scores.grad, by_hand / temperature, atol=1e-12, rtol=1e-9)
    assert_close(by_hand.sum(-1), torch.zeros(3, dtype=torch.float64), atol=1e-12, rtol=0)
    better = log_y[..., 2] > log_marginal(log_z, log_y)[:, 2, None]
    assert (by_hand >= 0).equal(better) or scale > 1  # where a p is 0 in double precision both are 0


def test_the_gradient_by_the_reader_is_the_posterior():
    """Each passage's reader learns the answer by as much as the passage was it."""
    scores, log_y = given()
    log_y.requires_grad_()
    log_z = log_passages(scores)
    log_marginal(log_z, log_y)[:, 1].sum().backward()
    assert_close(log_y.grad[..., 1], posterior(log_z, log_y[..., 1]).detach())
    assert not log_y.grad[..., [0, 2, 3, 4]].any()


def test_a_temperature_sharpens_and_flattens():
    """log_passages: towards the first passage alone, and towards all alike."""
    scores = torch.tensor([1.0, 0.5, -2.0])
    assert_close(log_passages(scores, 1e-3).exp(), torch.tensor([1.0, 0, 0]))
    assert_close(log_passages(scores, 1e6).exp(), torch.full((3,), 1 / 3), atol=1e-5, rtol=0)
    assert_close(log_passages(scores, 2.0), log_passages(scores / 2))
