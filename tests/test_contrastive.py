"""multimodal/contrastive.py: PyTorch's and Hugging Face's loss on the diagonal, the formula by hand with more."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_lib.multimodal.contrastive import contrastive_loss, diagonal, scores_of


def by_hand(scores, right):
    """Both means, number by number."""
    total = 0.0
    for table, wanted in ((scores.tolist(), right.tolist()), (scores.T.tolist(), right.T.tolist())):
        for row, those in zip(table, wanted, strict=True):
            log_sum = math.log(sum(map(math.exp, row)))
            chosen = [log_sum - score for score, it_is in zip(row, those, strict=True) if it_is]
            total += sum(chosen) / len(chosen) / len(table) / 2
    return total


@pytest.mark.parametrize("B", [1, 2, 7])
def test_on_the_diagonal_it_is_clips(B):
    """contrastive_loss, diagonal: what Hugging Face computes of the same scores."""
    from transformers.models.clip.modeling_clip import image_text_contrastive_loss

    scores = 5 * torch.randn(B, B, dtype=torch.float64)
    loss = contrastive_loss(scores, diagonal(scores))
    assert_close(loss, image_text_contrastive_loss(scores), atol=1e-12, rtol=0)
    at = torch.arange(B)
    assert_close(loss, (F.cross_entropy(scores, at) + F.cross_entropy(scores.T, at)) / 2, atol=1e-12, rtol=0)


@pytest.mark.parametrize(("B", "M"), [(4, 4), (5, 3), (2, 6)])
def test_several_right_ones_share_the_target(B, M):
    """And the table of the right ones need not be symmetric, nor square."""
    scores = 3 * torch.randn(B, M, dtype=torch.float64)
    right = torch.rand(B, M) < 0.4
    right[torch.arange(max(B, M)) % B, torch.arange(max(B, M)) % M] = True
    assert contrastive_loss(scores, right).item() == pytest.approx(by_hand(scores, right), abs=1e-12)


def test_an_equal_name_in_the_batch_is_no_mistake():
    """Two images of one name: index targets push each away from the other's text, the table does not."""
    same = torch.tensor([[1.0, 0], [1, 0], [0, 1]], dtype=torch.float64)  # two images at one place, two names alike
    scores = scores_of(same, same, 30.0)
    right = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=torch.bool)
    best = 2 / 3 * math.log(2)  # half for each: no scores do better with a target shared by two
    assert contrastive_loss(scores, right).item() == pytest.approx(best, abs=1e-9)
    apart = torch.eye(3, dtype=torch.float64)  # each at a place of its own
    assert contrastive_loss(scores_of(apart, apart, 30.0), right) > 5 * best
    assert contrastive_loss(scores_of(apart, apart, 30.0), diagonal(scores)) < 1e-9


def test_gradients_are_what_is_given_less_what_is_asked():
    """d loss / d scores = (p - target) / 2B of rows, and of columns."""
    scores = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    right = torch.eye(4, dtype=torch.bool)
    right[0, 2] = True
    contrastive_loss(scores, right).backward()
    rows = scores.softmax(1) - right / right.sum(1, keepdim=True)
    columns = scores.softmax(0) - right / right.sum(0, keepdim=True)
    assert_close(scores.grad, ((rows + columns) / 8).detach(), atol=1e-12, rtol=0)


def test_scores_are_scaled_cosines():
    """scores_of: of two vectors by hand."""
    images, texts = torch.tensor([[0.6, 0.8]]), torch.tensor([[1.0, 0], [0.6, 0.8]])
    assert_close(scores_of(images, texts, 10), torch.tensor([[6.0, 10]]))


def test_bad_input_is_refused_in_words():
    scores, right = torch.randn(3, 3), torch.eye(3, dtype=torch.bool)
    right[1] = False
    with pytest.raises(ValueError, match="Each image needs a right text"):
        contrastive_loss(scores, right)
