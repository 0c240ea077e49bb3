"""long_context/all_orders.py: masks by hand, each place alone as the two streams have it, and the chain rule."""

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from course_lib.attention.attention import causal_mask
from course_lib.long_context.all_orders import AllOrders, order_masks

ORDERS = list(itertools.permutations(range(4)))
some_orders = pytest.mark.parametrize("order", [*ORDERS[::5], ORDERS[-1]], ids=str)


def a_model(vocab_size=7, n_layers=2, max_len=6):
    torch.manual_seed(0)
    return AllOrders(vocab_size, max_len, 8, 2, n_layers).double()


# --- masks


def test_masks_by_hand():
    """order_masks: places 2, 0, 3, 1 are read in this order; the row of a place says what it may see."""
    words, asks = order_masks(torch.tensor([2, 0, 3, 1]))
    assert words.dtype == asks.dtype == torch.bool
    assert words.int().tolist() == [[1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 1, 0], [1, 0, 1, 1]]
    assert asks.int().tolist() == [[0, 0, 1, 0], [1, 0, 1, 1], [0, 0, 0, 0], [1, 0, 1, 0]]


def test_read_from_left_to_right_they_are_causal():
    """order_masks: 0, 1, 2 ...: the causal mask, and that without its diagonal; one place sees itself, or nothing."""
    words, asks = order_masks(torch.arange(6))
    assert torch.equal(words, causal_mask(6)) and torch.equal(asks, causal_mask(6).tril(-1))
    assert [mask.tolist() for mask in order_masks(torch.tensor([0]))] == [[[True]], [[False]]]


@pytest.mark.parametrize("seed", range(3))
def test_the_two_differ_by_a_place_itself_and_all_orders_see_as_much(seed):
    """order_masks: row by row for orders drawn at random."""
    order = torch.randperm(9, generator=torch.Generator().manual_seed(seed))
    words, asks = order_masks(order.int())
    assert torch.equal(words ^ asks, torch.eye(9, dtype=torch.bool)) and asks.sum() == 9 * 8 / 2
    for read, place in enumerate(order.tolist()):
        assert asks[place].nonzero().flatten().tolist() == sorted(order[:read].tolist())


# --- the model


def alone(model, ids, order, place):
    """Logits (B, V) of one place: the words before it in this order as a text of their own, and one who asks."""
    order = list(order)
    before = order[: order.index(place)]
    h = model.tokens(ids[:, before]) + model.places.weight[before]  # (B, read, D)
    g = (model.asks + model.places.weight[place]).expand(len(ids), 1, -1)
    for i, (look, think) in enumerate(zip(model.attention, model.feed_forward, strict=True)):
        g = model.norms[2 * i](g + look(g, memory=h) if before else g)
        g = model.norms[2 * i + 1](g + think(g))
        if before:
            h = model.norms[2 * i](h + look(h, causal=True))
            h = model.norms[2 * i + 1](h + think(h))
    return model.readout(g)[:, 0]


@some_orders
def test_each_place_alone_has_the_same_logits(order):
    """AllOrders, AllOrders.forward: against the content stream over the words before a place and a single query."""
    model, ids = a_model(), torch.randint(7, (3, 4), generator=torch.Generator().manual_seed(1))
    logits = model(ids, torch.tensor(order))
    assert logits.shape == (3, 4, 7)
    for place in range(4):
        assert_close(logits[:, place], alone(model, ids, order, place), atol=1e-12, rtol=0)


@some_orders
def test_a_word_moves_only_what_is_read_after_it(order):
    """AllOrders: not its own logits, nor those of places before it in the order; all behind it."""
    model, ids = a_model(), torch.tensor([[1, 5, 2, 6]])
    logits = model(ids, torch.tensor(order))
    for read, place in enumerate(order):
        other = ids.clone()
        other[0, place] = 0
        moved = (model(other, torch.tensor(order)) - logits).abs().amax(dim=(0, 2))
        assert moved[list(order[: read + 1])].max() == 0
        assert read == 3 or moved[list(order[read + 1 :])].min() > 1e-6


def log_chances(model, order):
    """log p (V^T,) of every row of 4 words, as a product over its places in this order."""
    ids = torch.tensor(list(itertools.product(range(len(model.tokens.weight)), repeat=4)))
    said = model(ids, torch.tensor(order)).log_softmax(dim=-1)
    return said.gather(-1, ids[..., None]).sum(dim=(1, 2))


def test_every_order_is_a_distribution_over_all_rows():
    """AllOrders: the chain rule: over all rows of 4 words out of 2 the products sum to 1 in each order."""
    model = a_model(vocab_size=2)
    with torch.no_grad():
        found = torch.stack([log_chances(model, order) for order in ORDERS])
    assert_close(found.exp().sum(dim=1), torch.ones(len(ORDERS)).double(), atol=1e-12, rtol=0)
    assert found.isfinite().all() and found.mean(dim=0).exp().sum() <= 1  # a mean of logarithms: Jensen
    assert found.std(dim=0).min() > 1e-3  # untrained, each order says something else


def test_from_the_end_it_is_one_too():
    model = a_model(vocab_size=2)
    assert log_chances(model, ORDERS[-1]).exp().sum().item() == pytest.approx(1)


def test_one_place_knows_only_where_it_is():
    model = a_model()
    one, other = (model(torch.tensor([[word]]), torch.tensor([0])) for word in (1, 5))
    assert torch.equal(one, other) and one.shape == (1, 1, 7)


def test_every_weight_learns():
    """AllOrders: and it can be taught a row by heart, whatever the order."""
    model, ids = a_model(), torch.tensor([[1, 5, 2, 6]] * 2)
    loss = torch.nn.functional.cross_entropy(model(ids, torch.tensor(ORDERS[9])).flatten(0, 1), ids.flatten())
    loss.backward()
    assert abs(loss.item() - math.log(7)) < 2
    assert all(part.grad is not None and part.grad.isfinite().all() for part in model.parameters())
    assert model.asks.grad.any() and model.tokens.weight.grad[[1, 5, 2]].any()


# --- bad input


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda model, ids: order_masks(torch.tensor([0, 0, 2])), ValueError, "every place from 0 to 2 once; got"),
        (lambda model, ids: model(ids, torch.arange(3)), ValueError, "AllOrders needs ids"),
        (lambda model, ids: model(ids.repeat(1, 2), torch.arange(8)), ValueError, "up to 6 places; got 8"),
        (lambda model, ids: model(ids + 6, torch.arange(4)), ValueError, "ids from 0 to 6; got 7"),
        (lambda model, ids: model(ids.float(), torch.arange(4)), TypeError, "encode the text first"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(a_model(), torch.tensor([[1, 2, 3, 4]]))
