"""text_to_text/noise.py: what each of BART's noises keeps, how often it falls, how long spans are; bad input."""

import math
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch

from course_lib.text_to_text.noise import (
    document_rotation,
    sentence_permutation,
    span_lengths,
    text_infilling,
    token_deletion,
    token_masking,
)

MASK, STOP = -1, 0
NOISES = {
    "masking": partial(token_masking, mask=MASK),
    "deletion": token_deletion,
    "infilling": partial(text_infilling, mask=MASK),
    "permutation": partial(sentence_permutation, stops=[STOP]),
    "rotation": document_rotation,
}


def drawn(seed=0):
    return torch.Generator().manual_seed(seed)


def stays_in_order(part, whole):
    """Whether a list is what is left of another one after some of it is taken out."""
    rest = iter(whole)
    return all(token in rest for token in part)


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 50])
def test_the_target_is_the_text(name, n):
    """Any length will do; the text stays as it was; words are noised as ids are, and the same seed draws alike."""
    tokens = list(range(1, n + 1))
    generator, again = drawn(), drawn()
    for _ in range(20):
        source, target = NOISES[name](tokens, generator)
        assert target == tokens == list(range(1, n + 1)) and target is not tokens
        words = NOISES[name]([str(token) for token in tokens], again)[0]
        assert [str(token) if token != MASK else MASK for token in source] == words


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_masking_and_deletion_fall_on_each_token_alike(share):
    """token_masking, token_deletion: what stays is in its place, or in order; as many are gone as share says."""
    tokens, generator = list(range(1, 21)), drawn()
    gone = torch.zeros(2, 20)
    for _ in range(2000):
        source, _ = token_masking(tokens, generator, MASK, share)
        assert len(source) == 20 and all(a in (MASK, b) for a, b in zip(source, tokens, strict=True))
        gone[0] += torch.tensor(source) == MASK
        source, _ = token_deletion(tokens, generator, share)
        assert stays_in_order(source, tokens)
        gone[1] += torch.tensor([token not in source for token in tokens])
    bound = 5 * math.sqrt(share * (1 - share) / 2000)
    assert ((gone / 2000 - share).abs() <= bound).all()


def test_infilling_hides_a_share_under_few_masks():
    """text_infilling: the rest in order, a mask for each span, 3 in 10 tokens gone, ends less often than the middle."""
    tokens, generator, gone, masks = list(range(1, 41)), drawn(), torch.zeros(40), 0
    for _ in range(2000):
        source, _ = text_infilling(tokens, generator, MASK)
        kept = [token for token in source if token != MASK]
        assert stays_in_order(kept, tokens)
        gone += torch.tensor([token not in kept for token in tokens])
        masks += len(source) - len(kept)
    assert gone.sum() == 2000 * 12  # 0.3 * 40, a whole number: each time
    assert (gone - gone.flip(0)).abs().max() < 150
    assert 150 < gone[0] < gone[1] < gone[2] and ((gone[4:-4] / 2000 - 0.32).abs() < 0.05).all()
    assert 4.0 < masks / 2000 < 5.5  # 12 tokens in spans of 3 on average, the last one cut


def test_infilling_puts_masks_where_nothing_was():
    """A span of length 0 is a mask more than there are tokens to hide: about 1 in 20 of them, e^-3."""
    lengths = [length for seed in range(100) for length in span_lengths(1000, drawn(seed), share=0.3)]
    counts = Counter(lengths)
    assert abs(counts[0] / len(lengths) - math.exp(-3)) < 0.012
    assert abs(sum(lengths) / len(lengths) - 3) < 0.1
    source, target = text_infilling([5] * 1000, drawn(), MASK, share=1.0, mean=0.5)
    assert set(source) == {MASK} and len(source) > 1000 and target == [5] * 1000


@pytest.mark.parametrize("mean", [1e3, 1e20, math.inf, np.float64(1e300), 10**30])
def test_a_mean_without_end_makes_one_span(mean):
    """text_infilling, span_lengths: longer than any text, so all that is to be hidden is one span."""
    assert span_lengths(40, drawn(), 0.5, mean) == [20]
    source, target = text_infilling(list(range(1, 41)), drawn(), MASK, share=1.0, mean=mean)
    assert source == [MASK] and target == list(range(1, 41))
    assert text_infilling([], drawn(), MASK, mean=mean) == ([], [])


@pytest.mark.parametrize("mean", [0.01, 1, np.int64(3), np.float32(2.5)])
def test_a_mean_is_any_number_that_ends(mean):
    lengths = span_lengths(200, drawn(), 0.5, mean)
    assert sum(lengths) == 100 and lengths == span_lengths(200, drawn(), 0.5, float(mean))
    if mean == 0.01:
        assert 3_000 < len(lengths) < 30_000  # about a hundred of length 0 for each other one


@pytest.mark.parametrize("mean", [0, -1, math.nan, -math.inf, 5e-324, 1e-6, 0.009])
def test_a_mean_that_nearly_never_hides_is_refused(mean):
    with pytest.raises(ValueError, match="must be 0.01 or more: spans of length 0 hide nothing"):
        text_infilling([1, 2, 3], drawn(), MASK, mean=mean)


@pytest.mark.parametrize(("n", "share"), [(0, 1.0), (1, 0.3), (1, 1.0), (7, 0.3), (7, 0.0)])
def test_spans_hide_a_part_of_a_token_as_often_as_it_is_large(n, share):
    """span_lengths: of one token 0.3 is hidden, three times in ten the whole."""
    hidden = [sum(span_lengths(n, drawn(seed), share)) for seed in range(1000)]
    assert set(hidden) <= {math.floor(share * n), math.ceil(share * n)}
    assert abs(sum(hidden) / 1000 - share * n) < 0.08


def test_sentences_change_places_and_stay_whole():
    """sentence_permutation: every order comes, a stop ends a sentence, the last may be without."""
    tokens, generator = [1, 2, STOP, 3, STOP, STOP, 4, 5], drawn()
    sentences = [(1, 2, STOP), (3, STOP), (STOP,), (4, 5)]
    seen = {tuple(sentence_permutation(tokens, generator, [STOP])[0]) for _ in range(400)}
    assert len(seen) == 24
    assert all(
        sorted(one) == sorted(tokens) and (1, 2, STOP) in zip(one, one[1:], one[2:], strict=False) for one in seen
    )
    assert (*sentences[3], *sentences[1], *sentences[0], *sentences[2]) in seen
    assert sentence_permutation([1, 2], generator, [STOP])[0] == [1, 2]


def test_a_rotation_begins_anywhere():
    """document_rotation: turned, not shuffled, and each beginning as often."""
    tokens, generator = list(range(5)), drawn()
    starts = Counter()
    for _ in range(2000):
        source, _ = document_rotation(tokens, generator)
        assert source == [(source[0] + i) % 5 for i in range(5)]
        starts[source[0]] += 1
    assert all(abs(count - 400) < 100 for count in starts.values()) and len(starts) == 5


def test_bad_input_is_refused_in_words():
    for noise in NOISES.values():
        with pytest.raises(TypeError, match="list of tokens"):
            noise(torch.arange(3), drawn())
