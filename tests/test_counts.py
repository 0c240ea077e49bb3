"""Language models that only count."""

import math
from collections import Counter

import pytest
import torch

from course_lib.text.counts import count_bits


def by_hand(train, test, vocab_size, longest, weight):
    """The formula, with dictionaries, one token at a time."""
    counts = [Counter(tuple(train[i : i + n]) for i in range(len(train) - n + 1)) for n in range(longest + 1)]

    def p(token, context):
        if not context:
            return (counts[1][token,] + 1) / (len(train) + vocab_size)
        seen = counts[len(context)][tuple(context)]
        return (counts[len(context) + 1][(*context, token)] + weight * p(token, context[1:])) / (seen + weight)

    places = range(longest - 1, len(test))
    return [-sum(math.log2(p(test[t], test[t - n : t])) for t in places) / len(places) for n in range(longest)]


@pytest.mark.parametrize("longest", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_it_counts_as_dictionaries_do(longest, seed):
    generator = torch.Generator().manual_seed(seed)
    train, test = (torch.randint(5, (n,), generator=generator) for n in (200, 60))
    found = count_bits(train, test, 5, longest, weight=3.0)
    # a context at the training text's very end has no successor: both count it as seen
    torch.testing.assert_close(found, by_hand(train.tolist(), test.tolist(), 5, longest, 3.0), rtol=1e-5, atol=1e-5)


def test_longer_runs_pay_where_the_text_repeats_itself():
    text = torch.arange(7).repeat(50)
    bits = count_bits(text, text, 7, 3)
    assert bits[0] == pytest.approx(math.log2(7), abs=1e-3) and bits[2] < bits[1] < 0.6


def test_what_cannot_be_counted_is_refused_in_words():
    text = torch.ones(9).long()
    with pytest.raises(ValueError, match="from 0 to 4"):
        count_bits(text, 5 * text, 5, 2)
    with pytest.raises(ValueError, match="tell apart"):
        count_bits(text, text, 50_000, 5)
