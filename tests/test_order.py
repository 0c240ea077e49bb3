"""The order tasks: what they ask, that only the order tells it, and what a bag of tokens is worth."""

from itertools import islice

import pytest
import torch

from course_lib.data import read_card
from course_lib.data.order import N_SYMBOLS, NOT_ASKED, bag_of_tokens, distance, endless, place


def drawn(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("batch, length, back", [(1, 2, 1), (5, 9, 3), (64, 24, 7)])
def test_distance_asks_for_the_symbol_so_many_places_back(batch, length, back):
    ids, answers = distance(batch, length, back, generator=drawn())
    assert ids.shape == answers.shape == (batch, length) and ids.dtype == answers.dtype == torch.int64
    assert (answers[:, :back] == NOT_ASKED).all() and 0 <= ids.min() and ids.max() < N_SYMBOLS
    for t in range(back, length):
        assert torch.equal(answers[:, t], ids[:, t - back])
    ids[:] = -1
    assert (answers[:, back:] >= 0).all()  # the answer is no view of the question


@pytest.mark.parametrize("batch, length, which", [(1, 2, 1), (5, 9, 5), (64, 24, 5)])
def test_place_asks_for_the_symbol_that_stands_there(batch, length, which):
    ids, answers = place(batch, length, which, generator=drawn())
    assert (answers[:, :which] == NOT_ASKED).all()
    assert torch.equal(answers[:, which:], ids[:, which - 1 : which].expand(-1, length - which))


@pytest.mark.parametrize("task", [distance, place])
def test_in_the_twin_the_symbol_to_name_wears_the_only_mark(task):
    ids, answers = task(200, 12, marked=True, generator=drawn())
    wears = ids >= N_SYMBOLS
    assert (wears.sum(1) == 1).all()
    asked = answers != NOT_ASKED
    symbol = (ids % N_SYMBOLS)[wears]
    assert asked.any(1).all() and torch.equal(answers[asked], symbol[:, None].expand(-1, 12)[asked])


@pytest.mark.parametrize("task", [distance, place])
def test_the_twin_has_the_sequences_and_answers_of_the_task(task):
    (ids, answers), (twin, same) = (task(200, 12, marked=marked, generator=drawn()) for marked in (False, True))
    assert torch.equal(twin % N_SYMBOLS, ids)
    assert torch.equal(same[same != NOT_ASKED], answers[same != NOT_ASKED])


def test_the_twin_of_distance_asks_at_every_place_alike():
    _, answers = distance(20_000, 10, marked=True, generator=drawn())
    share = (answers != NOT_ASKED).float().mean(0)
    assert (share[:3] == 0).all() and (share[3:] - 1 / 7).abs().max() < 0.02


def test_a_bag_of_tokens_by_hand():
    """bag_of_tokens: of a, a, b, c the last asks; without it a is two of three."""
    ids = torch.tensor([[0, 0, 1, 2]])
    asked = torch.tensor([[NOT_ASKED, NOT_ASKED, NOT_ASKED, 0]])
    assert bag_of_tokens(ids, asked) == pytest.approx(2 / 3)
    assert bag_of_tokens(ids + N_SYMBOLS, asked) == pytest.approx(2 / 3)  # marks do not count


@pytest.mark.slow
@pytest.mark.parametrize("task", [distance, place])
@pytest.mark.parametrize("length", [8, 16, 96])
def test_the_most_frequent_other_symbol_is_right_as_often_as_the_bag_says(task, length):
    ids, answers = task(20_000, length, generator=drawn())
    symbol = torch.nn.functional.one_hot(ids, N_SYMBOLS)
    others = symbol.sum(1, keepdim=True) - symbol
    guess = (others + 1e-3 * torch.rand(others.shape, generator=drawn(1))).argmax(-1)  # ties by lot
    asked = answers != NOT_ASKED
    assert abs((guess == answers)[asked].float().mean() - bag_of_tokens(ids, answers)) < 0.01


def test_a_seed_fixes_the_batches_and_each_has_its_own_length():
    one, same, other = (list(islice(endless(distance, 4, 8, 24, seed=seed), 40)) for seed in (5, 5, 6))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(one, same, strict=True))
    assert any(a[0].shape != b[0].shape or not torch.equal(a[0], b[0]) for a, b in zip(one, other, strict=True))
    lengths = {ids.shape[1] for ids, _ in one}
    assert min(lengths) >= 8 and max(lengths) <= 24 and len(lengths) > 8


@pytest.mark.parametrize("task", [distance, place])
@pytest.mark.parametrize("sizes", [(0, 8), (4, 3), (4, 0), (4, 8, 0), (4, 8, 8), (4, 8, -1)])
def test_a_batch_in_which_nothing_is_asked_is_refused(task, sizes):
    if task is place and sizes == (4, 3):
        sizes = (4, 5)
    with pytest.raises(ValueError, match="Nothing would be asked"):
        task(*sizes)


def test_the_card_names_the_baseline_that_is_measured():
    for length, said in ((16, "0.20"), (96, "0.12")):
        assert f"{bag_of_tokens(*distance(4000, length, generator=drawn())):.2f}" == said
        assert said in read_card("order")
