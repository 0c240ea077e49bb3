"""data/key_values.py: each key that is asked was told once, with its value; nothing else stands in a row."""

import re

import pytest
import torch

from course_lib.data import read_card
from course_lib.data.key_values import ASKED, BLANK, key_values


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("batch, n_pairs, half, n_symbols", [(1, 1, 1, 1), (3, 1, 5, 2), (5, 4, 4, 9), (8, 6, 10, 6)])
def test_every_question_was_answered_before(batch, n_pairs, half, n_symbols):
    """key_values: row by row; told once in the first half, asked once in the second, blank elsewhere."""
    x, y = key_values(batch, n_pairs, half, n_symbols, seeded(0))
    assert x.shape == (batch, 2 * half, 2) and y.shape == (batch, 2 * half) and x.dtype == y.dtype == torch.int64
    for row, answers in zip(x.tolist(), y.tolist(), strict=True):
        told = [(key, value) for key, value in row[:half] if (key, value) != (BLANK, ASKED)]
        asked = [(t, key) for t, (key, value) in enumerate(row) if t >= half and key != BLANK]
        assert all(value == ASKED for _, value in row[half:])
        assert len(told) == len(asked) == n_pairs and all(1 <= number <= n_symbols for pair in told for number in pair)
        pairs = dict(told)
        assert len(pairs) == n_pairs and sorted(pairs) == sorted(key for _, key in asked)
        assert {t: answer for t, answer in enumerate(answers) if answer} == {t: pairs[key] for t, key in asked}


def test_a_seed_fixes_the_rows_and_the_generator_goes_on():
    draws = seeded(0)
    one, next_one = key_values(4, 3, 8, 8, draws), key_values(4, 3, 8, 8, draws)
    same, other = key_values(4, 3, 8, 8, seeded(0)), key_values(4, 3, 8, 8, seeded(1))
    assert all(torch.equal(a, b) for a, b in zip(one, same, strict=True))
    assert not torch.equal(one[0], next_one[0]) and not torch.equal(one[0], other[0])


def test_without_a_generator_the_seed_of_torch_decides():
    found = []
    for _ in range(2):
        torch.manual_seed(7)
        found.append(key_values(2, 3, 8, 8)[0])
    assert torch.equal(*found)


def test_places_keys_and_values_are_drawn_evenly_and_say_nothing_about_each_other():
    """key_values: a key says nothing about its value, nor a place about who stands there or when it is asked."""
    x, y = key_values(20_000, 2, 4, 4, seeded(0))
    told = x[:, :4]
    pairs = told[told[..., 0] != BLANK] - 1
    counts = torch.bincount(4 * pairs[:, 0] + pairs[:, 1], minlength=16) / len(pairs)
    assert (counts - 1 / 16).abs().max() < 0.005
    for half in (x[:, :4, 0], x[:, 4:, 0]):
        assert ((half != BLANK).float().mean(dim=0) - 1 / 2).abs().max() < 0.02
    places = (told[..., 0] != BLANK).int().argmax(dim=1) * 4 + (x[:, 4:, 0] != BLANK).int().argmax(dim=1)
    found = torch.bincount(places, minlength=16).view(4, 4) / 20_000
    assert (found - found.sum(dim=1, keepdim=True) * found.sum(dim=0)).abs().max() < 0.01
    order = (x[:, 4:, 0] == told[told[..., 0] != BLANK].view(-1, 2, 2)[:, :1, 0]).int().argmax(dim=1)
    second = (x[:, 4:, 0] == told[told[..., 0] != BLANK].view(-1, 2, 2)[:, 1:, 0]).int().argmax(dim=1)
    assert ((order < second).float().mean() - 1 / 2).abs() < 0.02
    assert (
        y.flatten().bincount()[1:].float().div((y > 0).sum()).sub(1 / 4).abs().max() < 0.01
    )  # chance is 1 / n_symbols


@pytest.mark.parametrize(
    "sizes", [(0, 1, 4, 4), (1, 0, 4, 4), (1, 1, 0, 4), (1, 1, 4, 0), (1, 5, 4, 9), (1, 5, 9, 4), (1, -1, 4, 4)]
)
def test_sizes_out_of_range_are_refused_in_words(sizes):
    batch, n_pairs, half, n_symbols = sizes
    with pytest.raises(ValueError, match=f"a key and a place for each; got batch={batch}, n_pairs={n_pairs}, half="):
        key_values(*sizes)


def test_the_card_is_whole():
    """read_card: what is known of the task, in the order of all cards."""
    text = read_card("key_values")
    parts = re.findall(r"^\*\*(.+?)\.?\*\*", text, re.MULTILINE)
    assert parts[:4] == ["What it is", "Where from, licence", "Size and split", "Chance"]
    assert parts[4:] == ["What this data cannot tell you", "Version"]
    assert text.startswith("## Keys and values")
