"""text_to_text/spans.py: T5's own example, the inverse on any text, spans as the paper counts them; bad input."""

import math
import random

import pytest
import torch

from course_lib.text_to_text.spans import corrupt, draw_spans, restore, span_corruption

TEXT = "Thank you for inviting me to your party last week".split()
MARKS = ["<X>", "<Y>", "<Z>"]
SENTINELS = range(1000, 1100)


def drawn(seed=0):
    return torch.Generator().manual_seed(seed)


def test_it_is_the_example_of_the_paper():
    """corrupt: figure 2 of Raffel et al. (2020)."""
    source, target = corrupt(TEXT, [(2, 4), (8, 9)], MARKS)
    assert source == "Thank you <X> me to your party <Y> week".split()
    assert target == "<X> for inviting <Y> last <Z>".split()
    assert restore(source, target, MARKS) == TEXT


@pytest.mark.parametrize("seed", range(30))
def test_what_was_taken_out_is_put_back(seed):
    """restore: the inverse of corrupt for spans anywhere, empty ones and neighbours too."""
    draw = random.Random(seed)
    tokens = [draw.randrange(9) for _ in range(draw.randrange(12))]
    borders = sorted(draw.choices(range(len(tokens) + 1), k=2 * draw.randrange(4)))
    spans = list(zip(borders[::2], borders[1::2], strict=True))
    source, target = corrupt(tokens, spans, SENTINELS)
    assert restore(source, target, SENTINELS) == tokens
    assert len(source) + len(target) == len(tokens) + 2 * len(spans) + 1


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 60])
@pytest.mark.parametrize("share", [0.0, 0.15, 0.5, 1.0])
@pytest.mark.parametrize("mean", [1.0, 3.0, 100.0])
def test_spans_are_as_many_and_as_long_as_the_paper_says(n, share, mean):
    """draw_spans: round(share n) places in round(that / mean) spans, apart from each other; something stays."""
    for seed in range(50):
        spans = draw_spans(n, drawn(seed), share, mean)
        hidden = sum(end - start for start, end in spans)
        assert all(0 <= start < end <= n for start, end in spans)
        assert all(a[1] < b[0] for a, b in zip(spans, spans[1:], strict=False))
        assert hidden == (max(1, min(n - 1, round(share * n))) if n > 1 and share else 0)
        wanted = max(1, round(hidden / mean))
        assert len(spans) == min(wanted, hidden, n - hidden + 1)


@pytest.mark.parametrize("mean, spans", [(5e-324, 6), (1e-300, 6), (0.5, 6), (1e308, 1), (math.inf, 1)])
def test_a_mean_may_be_any_number_above_zero(mean, spans):
    """draw_spans: a span has one token or more, and there is one or more."""
    assert len(draw_spans(12, drawn(), 0.5, mean)) == spans


def test_the_first_place_is_hidden_as_often_as_the_last():
    """draw_spans: not never and always, as in T5's own code; both less often than the middle."""
    hidden = torch.zeros(20)
    for seed in range(2000):
        for start, end in draw_spans(20, drawn(seed), 0.3, 3.0):
            hidden[start:end] += 1
    assert hidden.sum() == 2000 * 6
    assert (hidden - hidden.flip(0)).abs().max() < 150
    assert 150 < hidden[0] < hidden[1] < hidden[2] < hidden[5:15].min() and hidden.max() < 2000 * 0.4


def test_all_ways_to_place_two_spans_come_alike():
    """Three hidden of five in two spans: lengths 1 + 2 or 2 + 1, and 3 gaps of which two are taken: 6 ways."""
    seen = [tuple(draw_spans(5, drawn(seed), 0.6, 1.5)) for seed in range(1200)]
    counts = [seen.count(way) for way in set(seen)]
    assert len(counts) == 6 and min(counts) > 140


@pytest.mark.parametrize("n", [0, 1, 2, 5, 100])
def test_a_drawn_corruption_is_undone(n):
    """span_corruption: any length; the target is short, and holds each hidden token once."""
    tokens = list(range(n))
    for seed in range(20):
        source, target = span_corruption(tokens, drawn(seed), SENTINELS)
        assert restore(source, target, SENTINELS) == tokens == list(range(n))
        assert sorted(token for token in source + target if token < 1000) == tokens
        assert target[-1] == SENTINELS[sum(token >= 1000 for token in source)]
    assert span_corruption([], drawn(), MARKS) == ([], ["<X>"])


def test_what_a_model_writes_is_put_in_as_far_as_it_goes():
    """restore: no sentinel, another order, one twice, one that the source lacks."""
    source = ["a", "<X>", "b", "<Y>"]
    assert restore(source, [], MARKS) == ["a", "b"]
    assert restore(source, ["c", "d"], MARKS) == ["a", "b"]
    assert restore(source, ["<Y>", "d", "<X>", "c"], MARKS) == ["a", "c", "b", "d"]
    assert restore(source, ["<X>", "c", "<Z>", "e", "<X>", "d"], MARKS) == ["a", "c", "d", "b"]


def test_bad_input_is_refused_in_words():
    with pytest.raises(ValueError, match="3 spans need 4 sentinels"):
        corrupt(TEXT, [(0, 1), (2, 3), (4, 5)], MARKS)
    for sentinels in (["<X>", "<X>"], ["me", "<X>"]):
        with pytest.raises(ValueError, match="a token of its own"):
            corrupt(TEXT, [(0, 1)], sentinels)
    for spans in ([(0, 11)], [(3, 2)], [(2, 4), (3, 5)], [(4, 5), (0, 1)], [(-1, 2)]):
        with pytest.raises(ValueError, match="in order, within 10 tokens"):
            corrupt(TEXT, spans, MARKS)
    with pytest.raises(TypeError, match="list of tokens"):
        span_corruption(torch.arange(3), drawn(), MARKS)
    with pytest.raises(TypeError, match="list of tokens"):
        restore(torch.arange(3), [], MARKS)
