"""The reader of the order tasks: it is its formula, each door of the three is used, and bad ids get a sentence."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention.attention import attend, causal_mask
from course_lib.attention.order_model import OrderModel
from course_lib.attention.positions import (
    LearnedPositions,
    RelativeBias,
    SinusoidalPositions,
    alibi_bias,
    rotate,
    t5_bucket,
)
from course_lib.data.order import N_SYMBOLS, N_TOKENS, NOT_ASKED, distance

DOORS = {
    "none": dict,
    "sinusoidal": lambda: {"add": SinusoidalPositions(8)},
    "learned": lambda: {"add": LearnedPositions(20, 8)},
    "rotary": lambda: {"turn": rotate},
    "relative bias": lambda: {"bias": RelativeBias(t5_bucket, 32)},
    "linear bias": lambda: {"bias": lambda T: alibi_bias(8, T)[:1]},
}


def reader(scheme="none", seed=0):
    torch.manual_seed(seed)
    return OrderModel(N_TOKENS, N_SYMBOLS, 8, **DOORS[scheme]()).double()


@pytest.mark.parametrize("scheme", DOORS)
@pytest.mark.parametrize("T", [1, 2, 13])
def test_it_is_its_formula(scheme, T):
    """OrderModel, OrderModel.forward: embed, add, look once with turned queries and keys and biased scores, answer."""
    model, ids = reader(scheme), torch.randint(N_TOKENS, (3, T))
    if scheme == "relative bias":
        torch.nn.init.normal_(model.bias.bias.weight)
    x = model.embed.weight[ids]
    x = model.add(x) if model.add else x
    q, k, v = (x @ w.weight.T for w in (model.attention.w_q, model.attention.w_k, model.attention.w_v))
    if scheme == "rotary":
        q, k = rotate(q), rotate(k)
    looked, _ = attend(q, k, v, bias=model.bias(T) if model.bias else None)
    torch.testing.assert_close(model(ids), model.answer(x + looked))
    assert model(ids).shape == (3, T, N_SYMBOLS)


@pytest.mark.parametrize("scheme", DOORS)
def test_only_without_positions_is_a_sequence_a_set(scheme):
    model, ids = reader(scheme), torch.randint(N_TOKENS, (4, 9))
    if scheme == "relative bias":
        torch.nn.init.normal_(model.bias.bias.weight)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    moved = (model(ids[:, order]) - model(ids)[:, order]).abs().max()
    assert moved < 1e-12 if scheme == "none" else moved > 1e-6


def test_with_a_causal_mask_nothing_comes_from_the_future():
    model, ids = reader("sinusoidal"), torch.randint(N_SYMBOLS, (2, 9))
    later = ids.clone()
    later[:, 6:] = (later[:, 6:] + 1) % N_SYMBOLS
    mask = causal_mask(9)[None]
    torch.testing.assert_close(model(ids, mask)[:, :6], model(later, mask)[:, :6], rtol=0, atol=0)


@pytest.mark.slow
def test_it_learns_a_batch_by_heart():
    torch.manual_seed(0)
    model = OrderModel(N_TOKENS, N_SYMBOLS, 32, turn=rotate)
    ids, answers = distance(8, 10, generator=torch.Generator().manual_seed(0))
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(200):
        loss = F.cross_entropy(model(ids).flatten(0, 1), answers.flatten(), ignore_index=NOT_ASKED)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.1


@pytest.mark.parametrize(
    "ids, error",
    [
        (torch.zeros(3, 4), TypeError),
        (torch.zeros(4, dtype=torch.long), ValueError),
        (torch.full((1, 2), N_TOKENS), ValueError),
        (torch.full((1, 2), -1), ValueError),
        (torch.zeros(0, 4, dtype=torch.long), ValueError),
    ],
)
def test_other_ids_are_refused_in_words(ids, error):
    with pytest.raises(error, match="input"):
        partial(reader())(ids)
