"""text_to_text/tasks.py: prefixes, numbers as text, the mask and the loss of one stack, mixing rates; bad input."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_lib.text_to_text.tasks import mixing_rates, number_as_text, prefix_mask, prefixed, target_loss


def test_a_prefix_stands_before_the_source():
    """prefixed: a new list; a language token is a prefix of one token."""
    tokens = [5, 6]
    assert prefixed([9], tokens) == [9, 5, 6] and tokens == [5, 6]
    assert prefixed("translate English to German:".split(), ["That"])[-2:] == ["German:", "That"]
    assert prefixed([], []) == []


@pytest.mark.parametrize(("number", "step", "text"), [
    (2.57, 0.2, "2.6"), (3, 0.2, "3.0"), (1.0, 0.2, "1.0"), (4.99, 0.2, "5.0"), (7.4, 1, "7"), (0.3, 0.25, "0.25"),
    (-0.7, 0.5, "-0.5"), (0.12345, 1e-5, "0.12345"), (3e-10, 1e-10, "0.0000000003"), (0.004, 2.5e-3, "0.0050"),
    (2.2e6, 1e6, "2000000"), (5, 2.0, "4"), (-0.05, 0.2, "0.0"), (0, 0.2, "0.0"), (0.7, 0.1 + 0.2, "0.6"),
])  # fmt: skip
def test_a_number_is_one_of_few_texts(number, step, text):
    """number_as_text: the paper's own example, 2.57 as "2.6" (section 2.4)."""
    assert number_as_text(number, step) == text


def test_numbers_are_rounded_as_t5_does():
    """number_as_text: round(5 x) / 5, half to even, in double and in single precision, for all of STS-B's numbers."""
    for n in range(5001):
        number = n / 1000
        assert number_as_text(number) == f"{round(number * 5) / 5:.1f}", number
        single = np.float32(number)
        assert number_as_text(float(single)) == f"{np.round(single * np.float32(5)) / np.float32(5):.1f}", number
    assert [number_as_text(number) for number in (1.9, 2.3, 4.3)] == ["2.0", "2.4", "4.4"]


def test_a_prefix_mask_by_hand():
    """prefix_mask: figure 4 of Raffel et al. (2020): the source is seen by all, the target from its front."""
    mask = prefix_mask(torch.tensor([3, 0, 5]), 5)
    assert mask.shape == (3, 5, 5) and mask.dtype == torch.bool
    assert mask[0].int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1] * 5]
    assert mask[1].equal(torch.ones(5, 5).tril().bool()) and mask[2].all()


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_is_over_the_target_alone(seed):
    """target_loss: a mean over single tokens, gone through one by one; no gradient reaches what is not asked."""
    torch.manual_seed(seed)
    B, T, V = 4, 9, 7
    n_read, longest = torch.tensor([3, 1, 8, 5]), torch.tensor([6, 9, 9, 7])
    ids = torch.randint(1, V, (B, T)) * (torch.arange(T) < longest[:, None])
    logits = torch.randn(B, T, V, dtype=torch.float64, requires_grad=True)
    asked = [(b, t) for b in range(B) for t in range(n_read[b], longest[b])]
    by_hand = sum(F.cross_entropy(logits[b, t - 1], ids[b, t]) for b, t in asked) / len(asked)
    loss = target_loss(logits, ids, n_read)
    assert_close(loss, by_hand, atol=1e-12, rtol=0)
    loss.backward()
    touched = logits.grad.abs().sum(-1) > 0
    assert touched.nonzero().tolist() == sorted([b, t - 1] for b, t in asked)


def test_a_batch_without_a_target_has_no_loss():
    assert target_loss(torch.randn(2, 3, 4), torch.ones(2, 3, dtype=torch.long), torch.tensor([3, 3])).isnan()


def test_large_tasks_are_cut_and_shares_evened_out():
    """mixing_rates: by size, by min(size, limit), by its T-th root, and all alike in the end."""
    assert_close(mixing_rates([100, 300]), torch.tensor([0.25, 0.75]))
    assert_close(mixing_rates([100, 300], limit=100), torch.tensor([0.5, 0.5]))
    assert_close(mixing_rates([100, 400], temperature=2), torch.tensor([1 / 3, 2 / 3]))
    assert_close(mixing_rates([1, 1000], temperature=math.inf), torch.tensor([0.5, 0.5]))
    assert_close(mixing_rates([7]), torch.tensor([1.0]))


def test_bad_lengths_are_refused_in_words():
    with pytest.raises(ValueError, match="lengths must hold"):
        prefix_mask(torch.tensor([4]), 3)
