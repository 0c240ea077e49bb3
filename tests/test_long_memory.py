"""The tasks for long memory: what they ask, that a seed fixes them, and that chance is where the card puts it."""

from itertools import islice

import pytest
import torch

from course_lib.data import read_card
from course_lib.data.long_memory import ADDING_CHANCE, adding, endless, recall


@pytest.mark.parametrize("batch, lag, n_symbols", [(1, 0, 1), (5, 1, 2), (64, 60, 8), (3, 200, 5)])
def test_recall_asks_for_the_first_symbol(batch, lag, n_symbols):
    x, y = recall(batch, lag, n_symbols)
    assert x.shape == (batch, lag + 1) and y.shape == (batch,) and x.dtype == torch.int64
    assert torch.equal(y, x[:, 0]) and 0 <= x.min() and x.max() < n_symbols
    x[:, 0] = -1
    assert y.min() >= 0  # the answer is no view of the question


def test_the_noise_of_recall_says_nothing_about_the_answer():
    x, y = recall(40_000, 3, generator=torch.Generator().manual_seed(0))
    for column in (1, 2, 3):
        pairs = torch.bincount(8 * x[:, column] + y, minlength=64) / 40_000
        assert (pairs - 1 / 64).abs().max() < 0.004
    assert abs((x[:, 3] == y).float().mean() - 1 / 8) < 0.01


@pytest.mark.parametrize("batch, length", [(1, 2), (7, 3), (32, 50)])
def test_adding_marks_one_number_in_each_half(batch, length):
    x, y = adding(batch, length)
    assert x.shape == (batch, length, 2) and y.shape == (batch,)
    assert torch.equal(x[..., 1].sum(1), torch.full((batch,), 2.0))
    assert torch.equal(x[:, : length // 2, 1].sum(1), torch.ones(batch))
    assert torch.allclose(y, (x[..., 0] * x[..., 1]).sum(1)) and 0 <= x.min() and x.max() <= 1


def test_always_saying_one_has_the_error_of_chance():
    _, y = adding(200_000, 4, torch.Generator().manual_seed(0))
    assert abs((y - 1).square().mean() - ADDING_CHANCE) < 2e-3


def test_a_seed_fixes_the_batches_and_another_gives_others():
    one, same, other = (list(islice(endless(recall, 4, 20, seed=seed), 3)) for seed in (5, 5, 6))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(one, same, strict=True))
    assert not torch.equal(one[0][0], other[0][0]) and not torch.equal(one[0][0], one[1][0])
    # Version 1. Where this changes, VERSION must go up, and what lessons measured is measured anew.
    assert one[0][0].flatten()[:12].tolist() == [3, 6, 7, 5, 6, 6, 0, 1, 0, 4, 7, 6]


def test_sizes_out_of_range_are_refused_in_words():
    with pytest.raises(ValueError, match="batch must be 1 or more; got 0"):
        recall(0, 5)
    with pytest.raises(ValueError, match="lag must be 0 or more; got -1"):
        recall(1, -1)
    with pytest.raises(ValueError, match="length must be 2 or more; got 1"):
        adding(4, 1)


def test_the_card_says_what_chance_is():
    assert "`recall`: 1 in 8. `adding`: a squared error of 1/6" in read_card("long_memory")
