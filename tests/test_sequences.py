"""inputs/sequences.py: what is checked where, ids and lengths in every form, rows taken from any state."""

from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from course_lib.inputs.sequences import (
    check_text,
    full_precision,
    is_whole,
    map_state,
    reading,
    select_rows,
    text_places,
    token_ids,
    visible,
    whole_lengths,
    widened,
)


@pytest.mark.slow
def test_values_are_visible_on_the_cpu_while_the_code_runs():
    x, seen = torch.ones(3), []
    assert visible(x) and visible(nn.Parameter(x))
    assert not visible(torch.ones(3, device="meta"))

    def look(x):
        seen.append(visible(x))
        return 2 * x if visible(x) else 3 * x

    torch.func.vmap(look)(x)
    torch.func.grad(lambda x: look(x).sum())(x)
    with FakeTensorMode():
        look(torch.ones(3))
    assert seen == [False] * 3
    assert (
        torch.compile(lambda x: 2 * x if visible(x) else 3 * x, backend="eager", fullgraph=True)(x).tolist()
        == [3.0] * 3
    )


IDS = [[3, 1], [0, 4]]


@pytest.mark.parametrize(
    "ids",
    [
        IDS,
        np.array(IDS),
        np.array(IDS, dtype=np.uint16),
        np.array(IDS, dtype=">i4"),
        np.array(IDS[::-1])[::-1],
        torch.tensor(IDS),
        torch.tensor(IDS, dtype=torch.int16),
        torch.tensor(IDS).to(torch.uint16),
    ],
)
def test_token_ids_in_every_form(ids):
    found = token_ids("The text", ids, nn.Embedding(5, 2))
    assert found.dtype == torch.int64 and found.tolist() == IDS


@pytest.mark.parametrize(
    "ids, error, words",
    [
        ([[0, 5]], ValueError, "The text must hold ids from 0 to 4; got 0 ... 5"),
        ([[1.0, 2.0]], TypeError, "whole numbers; got torch.float32: encode the text first"),
        ([1, 2], ValueError, r"\(batch, time\), not empty; got torch.int64, \(2,\)"),
        ("to be", ValueError, "must be token ids .* got 'to be'"),
    ],
)
def test_bad_ids_are_refused_in_words(ids, error, words):
    with pytest.raises(error, match=words):
        token_ids("The text", ids, nn.Embedding(5, 2), shortest=1)


def test_places_are_counted_from_the_first_real_token():
    """text_places: without padding, with it, behind a cache."""
    ids, mask = torch.zeros(2, 4).long(), torch.tensor([[True] * 4, [False, False, True, True]])
    assert text_places(ids).tolist() == [0, 1, 2, 3] and text_places(ids[:, :1], past=5).tolist() == [5]
    assert text_places(ids, mask).tolist() == [[0, 1, 2, 3], [0, 0, 0, 1]]
    assert text_places(ids[:, :1], mask, 3).tolist() == [[3], [1]]


READER = SimpleNamespace(max_len=5)  # what a check knows of a language model
THREE = torch.zeros(2, 3).long()


@pytest.mark.parametrize("mask", [None, torch.ones(2, 5) > 0, torch.tensor([[False] * 5, [False] * 4 + [True]])])
def test_a_text_that_fits_is_let_through(mask):
    check_text(READER, THREE, mask, past=2)


@pytest.mark.parametrize(
    "mask, past, error, words",
    [
        (None, 3, ValueError, "The text is 6 tokens long, and this model reads 5: cut it, or let `generate`"),
        (torch.ones(2, 3), 0, TypeError, "of bool; got torch.float32: a comparison gives one"),
        (torch.ones(2, 3) > 0, 1, ValueError, r"time\) = \(2, 4\); got \(2, 3\)"),
        (torch.tensor([[True] * 3, [True, False, True]]), 0, ValueError, "padding behind a real token"),
    ],
)
def test_a_text_that_does_not_fit_is_refused_in_words(mask, past, error, words):
    with pytest.raises(error, match=words):
        check_text(READER, THREE, mask, past)


def test_a_mask_on_a_device_is_not_looked_at():
    wrong = torch.tensor([[True, False, True]]).to("meta")
    check_text(READER, torch.zeros(1, 3, device="meta").long(), wrong, past=0)


@pytest.mark.parametrize(
    "lengths",
    [
        [3, 0, 5],
        np.array([3, 0, 5]),
        np.array([3, 0, 5], dtype=np.uint64),
        np.array([5, 0, 3])[::-1],
        torch.tensor([3, 0, 5]).int(),
        torch.tensor([3, 0, 5]).to(torch.uint32),
    ],
)
def test_lengths_in_every_form(lengths):
    found = whole_lengths(lengths, 5, 3)
    assert found.dtype == torch.int64 and found.tolist() == [3, 0, 5]


@pytest.mark.parametrize("lengths", [[6, 0, 0], [-1, 0, 0], [1.0, 0, 0], [1, 2]])
def test_bad_lengths_are_refused_in_words(lengths):
    with pytest.raises(ValueError, match="lengths must hold a whole number from 0 to 5 for each of 3 sequences"):
        whole_lengths(lengths, 5, 3)


def test_lengths_on_a_device_are_not_looked_at_but_for_their_shape():
    assert whole_lengths(torch.zeros(3, device="meta").long(), 5, 3).shape == (3,)
    with pytest.raises(ValueError, match=r"for each of 3 sequences; got torch.int64, \(2,\)"):
        whole_lengths(torch.zeros(2, device="meta").long(), 5, 3)


def test_full_precision_is_full_inside_and_leaves_autocast_as_it_was():
    x = torch.randn(2, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        with full_precision(x):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16
    with full_precision(torch.ones(2, device="meta")):  # a device that knows no autocast
        pass


def test_half_precision_is_widened_and_nothing_else():
    """widened: the gradient comes back in the kind of number that was handed in."""
    for half in (torch.float16, torch.bfloat16):
        x = torch.ones(2, dtype=half, requires_grad=True)
        assert widened(x).dtype == torch.float32
        widened(x).sum().backward()
        assert x.grad.dtype == half and x.grad.tolist() == [1, 1]
    for wide in (torch.float32, torch.float64):
        assert widened(x := torch.ones(2, dtype=wide)) is x


def test_select_rows_reaches_every_tensor():
    pair = namedtuple("pair", "h c")
    x, rows = torch.arange(6).view(3, 2), torch.tensor([2, 0, 2])
    state = select_rows({"a": [x, (x, None)], "b": pair(x, 7)}, rows)
    assert torch.equal(state["a"][0], x[rows]) and torch.equal(state["a"][1][0], x[rows]) and state["a"][1][1] is None
    assert type(state["b"]) is pair and torch.equal(state["b"].h, x[rows]) and state["b"].c == 7
    assert torch.equal(select_rows((x,), torch.tensor([1]), dim=1)[0], x[:, 1:])


def test_map_state_keeps_the_form():
    state = map_state({"a": (1, torch.tensor(2)), "b": [torch.tensor(3)]}, lambda x: x * 10)
    assert state == {"a": (1, torch.tensor(20)), "b": [torch.tensor(30)]}


@pytest.mark.parametrize("number", [3, -2, np.int8(3), np.uint64(3), torch.tensor(3), np.array(3)], ids=repr)
def test_what_is_a_whole_number(number):
    """is_whole: whatever Python takes for one; True is none."""
    assert is_whole(number) and not any(map(is_whole, (0.5, np.float32(2), True, "3", None, torch.tensor(3.0))))


@pytest.mark.parametrize("fails", [False, True])
def test_each_part_comes_out_of_reading_in_its_own_mode(fails):
    """reading: a frozen dropout inside a model that trains, a training part inside a frozen model, and an error."""
    for frozen in (0, 2):
        model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.Sequential(nn.Dropout(), nn.Linear(2, 2)))
        model.train(frozen == 0)
        model[1].train(frozen == 2)
        modes = [part.training for part in model.modules()]
        try:
            with reading(model):
                assert not any(part.training for part in model.modules())
                if fails:
                    raise KeyError("here")
        except KeyError:
            assert fails
        assert [part.training for part in model.modules()] == modes and {*modes} == {True, False}
