"""text/pairs.py: batches lose nothing and pad little, a target is shifted by one, the loss counts no padding."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_lib.text.pairs import END, PADDING, START, batches, masked_loss, shift


def ids(rows):
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row).long() for row in rows], True, PADDING)


def test_shift_is_one_token_later_and_reads_no_end():
    """shift: what is read, and one token later what is to be written; three sentences by eye."""
    target_in, target_out = shift(ids([[START, 7, 8, END], [START, 9, END], [START, END]]))
    assert target_in.tolist() == [[START, 7, 8], [START, 9, PADDING], [START, PADDING, PADDING]]
    assert target_out.tolist() == [[7, 8, END], [9, END, PADDING], [END, PADDING, PADDING]]


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_masked_loss_is_the_mean_over_real_tokens(smoothing):
    """masked_loss: token by token, padding left out; none of it has a gradient."""
    logits = torch.randn(3, 4, 7, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([[4, 5, 2, 0], [2, 0, 0, 0], [6, 6, 6, 2]])
    log_p, total, count = torch.log_softmax(logits, -1), 0, 0
    for b, t in itertools.product(range(3), range(4)):
        if target[b, t] != PADDING:
            wanted = (1 - smoothing) * F.one_hot(target[b, t], 7) + smoothing / 7
            total, count = total - (wanted * log_p[b, t]).sum(), count + 1
    loss = masked_loss(logits, target, smoothing=smoothing)
    assert count == 8
    assert_close(loss, total / count)
    grad = torch.autograd.grad(loss, logits)[0]
    assert grad[target == PADDING].abs().max() == 0 and grad[target != PADDING].abs().amin() > 0


def some_pairs(n=53, seed=0):
    g = torch.Generator().manual_seed(seed)
    draw = [
        torch.randint(3, 20, (int(torch.randint(0, 12, (), generator=g)),), generator=g).tolist() for _ in range(2 * n)
    ]
    return list(zip(draw[::2], draw[1::2], strict=True))


def rows(batch):
    """The pairs that a batch holds, each as it was before."""
    source, lengths, target_in, target_out = batch
    assert source.shape[1] == max(lengths) and target_in.shape == target_out.shape == (len(source), target_in.shape[1])
    for s, length, read, written in zip(source, lengths, target_in, target_out, strict=True):
        n = int((written != PADDING).sum())
        assert read[0] == START and written[n - 1] == END and read[1:n].tolist() == written[: n - 1].tolist()
        assert (s[length:] == PADDING).all() and (read[n:] == PADDING).all()
        yield s[:length].tolist(), written[: n - 1].tolist()


def equal(one, other):
    """Whether two batches are the same in every number."""
    return one[1] == other[1] and all(map(torch.equal, one[::2], other[::2])) and torch.equal(one[3], other[3])


@pytest.mark.parametrize("size", [1, 7, 53, 200])
def test_each_pair_comes_once_a_round(size):
    pairs, n = some_pairs(), math.ceil(53 / size)
    drawn = list(itertools.islice(batches(pairs, size, seed=3), 2 * n))
    for part in (drawn[:n], drawn[n:]):
        assert sorted(pair for batch in part for pair in rows(batch)) == sorted(map(tuple, pairs))
        assert max(len(batch[0]) for batch in part) == min(size, 53)
    assert size == 200 or [b[0].tolist() for b in drawn[:n]] != [b[0].tolist() for b in drawn[n:]]


def test_the_seed_decides_and_sentences_of_a_batch_are_alike():
    pairs = some_pairs(400)
    one, same, other = (list(itertools.islice(batches(pairs, 20, seed=seed), 20)) for seed in (1, 1, 2))
    assert all(equal(*both) for both in zip(one, same, strict=True))
    assert any(not torch.equal(a[2], b[2]) for a, b in zip(one, other, strict=True))
    padding = sum(int((batch[3] == PADDING).sum()) for batch in one) / sum(batch[3].numel() for batch in one)
    assert padding < 0.1  # about 0.4 where sentences are thrown together at random
    widths = [batch[2].shape[1] for batch in one]
    assert widths != sorted(widths)  # not from short to long


def test_tensors_and_arrays_are_pairs_too_and_the_source_may_be_reversed():
    pairs = some_pairs(30)
    as_tensors = [(torch.tensor(s).long(), torch.tensor(t).long()) for s, t in pairs]
    as_arrays = [(np.array(s, dtype=np.int32), np.array(t, dtype=np.int32)) for s, t in pairs]
    drawn = [batches(some, 8, 0) for some in (pairs, as_tensors, as_arrays)]
    for backwards in itertools.islice(batches(pairs, 8, 0, reverse_source=True), 8):
        plain, tensors, arrays = map(next, drawn)
        assert equal(plain, tensors) and equal(plain, arrays)
        assert [(s[::-1], t) for s, t in rows(backwards)] == list(rows(plain))


def test_bad_targets_and_pairs_are_refused_in_words():
    with pytest.raises(ValueError, match="with start and end; got"):
        shift(torch.ones(3, 1).long())
    for target in (torch.zeros(2, 3).long(), torch.ones(2, 4).long(), torch.ones(6).long()):
        with pytest.raises(ValueError, match="masked_loss needs logits"):
            masked_loss(torch.zeros(2, 3, 5), target)
    for pairs, words in [
        ([], "no pair"),
        ([([4], [4]), ([4], [START, 4, END])], "without start and end"),
        ([([4, PADDING], [4])], "padding"),
    ]:
        with pytest.raises(ValueError, match=words):
            batches(pairs, 4, 0)  # at once, not when the first batch is drawn
