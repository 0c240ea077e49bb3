"""Lesson 06, what attends: scaled dot products, and heads.

The mask, the block and the decoder to be mended are in `transformer_block.py`.
"""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import (
    NO_GRADIENT,
    OTHER_SIZES,
    OVERFLOW,
    SINGLE,
    SMALL,
    Case,
    far_apart,
    narrowed,
    pulled,
    single,
    tensors,
    without,
)


def my_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (..., T_q, T_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0)  # for a query that may look at nothing
    return weights @ v  # (..., T_q, d_v)


EVEN = dict.fromkeys("BTSKNH", 5)  # here matrices that are turned round fit
SHAPES, HEADS = "B T K, B S K, B S N", "B H T K, B H S K, B H S N"  # S: T_k, K: d_k, N: d_v


def masked(empty=False, scale=0.5, seen=0.5):
    """Queries, keys, values and a mask (B, T_q, T_k): the first query sees all keys, the second none where `empty`."""
    q, k, v = tensors(SHAPES, scale=scale)()
    B, T, S = *q.shape[:2], k.shape[1]
    mask = torch.rand(B, T, S) < seen
    mask[..., -1] = True
    mask[:, 0] = True
    if empty:
        mask[:, 1] = False
    return q, k, v, mask


SEEN = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 1]]).bool()  # each query sees itself and one other


def broadcast():
    """The mask of padding, (B, 1, 1, T_k), for heads (B, H, T, d)."""
    q, k, v = tensors(HEADS, sizes=EVEN)()
    return q, k, v, (torch.arange(5) < torch.tensor([[1], [2], [3], [4], [5]]))[:, None, None]


def hiding(before=lambda scores, mask: scores, after=lambda weights, mask: weights):
    """A wrong answer to `my_attention`: another use of the mask, before or after the softmax."""

    def attention(q, k, v, mask=None):
        mask = torch.ones((), dtype=torch.bool) if mask is None else mask
        scores = before(q @ k.mT / q.shape[-1] ** 0.5, mask)
        return after(torch.softmax(scores, dim=-1), mask) @ v

    return attention


def columns(q, k, v, mask=None):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-2) @ v


def inverted(q, k, v, mask=None):
    return my_attention(q, k, v, None if mask is None else ~mask)


ATTENTION = Exercise(
    solution=my_attention,
    cases=(
        Case(
            tensors(SHAPES, sizes=EVEN),
            narrowed(
                (without("q"), "With q zero all scores are equal: each query gets the plain mean of the values."),
                otherwise="The mean of all values comes out right, the weights do not: softmax(q kᵀ / √d_k).",
            ),
        ),
        Case(tensors(SHAPES), "Where all sizes are equal you are right, and where they differ you are not."),
        Case(tensors(HEADS, sizes=EVEN), "With heads, q (B, H, T_q, d_k), it is wrong: count dimensions from the end."),
        Case(tensors(SHAPES, sizes=SMALL), OTHER_SIZES),
        Case(masked, "With a mask it is wrong: where it is False the weight is 0, and the others sum to one."),
        Case(broadcast, "With a mask (B, 1, 1, T_k), which all heads and queries share, it is wrong."),
        Case(lambda: masked(scale=100.0, seen=0.1), "With a mask and scores in the tens of thousands it is wrong."),
        Case(lambda: masked(empty=True), "A query that may attend to nothing gets zeros, not NaN and not a mean."),
        Case(masked, NO_GRADIENT, ask=pulled),
        Case(
            lambda: masked(empty=True), "Beside a query that may attend to nothing, the gradient is wrong.", ask=pulled
        ),
        Case(single(tensors(SHAPES, None)), SINGLE),
        Case(lambda: (*[far_apart()] * 3, None), OVERFLOW),
        Case(lambda: (*[far_apart()] * 3, SEEN), OVERFLOW),
    ),
    mistakes={
        "undivided": lambda q, k, v, mask=None: my_attention(q * q.shape[-1] ** 0.5, k, v, mask),
        "divided_by_d_k": lambda q, k, v, mask=None: my_attention(q / q.shape[-1] ** 0.5, k, v, mask),
        "columns": columns,
        "mask_unused": lambda q, k, v, mask=None: my_attention(q, k, v),
        "mask_inverted": inverted,
        "masked_afterwards": hiding(after=lambda weights, mask: weights * mask),
        "minus_infinity": hiding(before=lambda scores, mask: scores.masked_fill(~mask, -torch.inf)),
        "uniform_row": hiding(before=lambda scores, mask: scores.masked_fill(~mask, torch.finfo(scores.dtype).min)),
    },
)


def my_heads(x, w_q, w_k, w_v, w_o, n_heads, attend):
    B, T, D = x.shape

    def split(y):
        return y.view(B, T, n_heads, D // n_heads).transpose(1, 2)  # (B, H, T, D / H)

    q, k, v = split(x @ w_q), split(x @ w_k), split(x @ w_v)
    heads = attend(q, k, v)  # (B, H, T, D / H): each head on its own
    return heads.transpose(1, 2).reshape(B, T, D) @ w_o  # side by side again, and mixed


def attending(attention=my_attention, mask=None):
    """`attend` for my_heads: q, k, v (B, T, d) of a head or (B, H, T, d) of all, with this mask (B, T, T) or None."""

    def attend(q, k, v):
        return attention(q, k, v, mask[:, None] if mask is not None and q.dim() == 4 else mask)

    return attend


def headed(sizes, n_heads, mask=False, dtype=torch.float64):
    """x (B, T, D), four matrices (D, D), the number of heads and what attends, with a mask of its own where asked."""
    given = tensors("B T D, D D, D D, D D, D D", sizes=sizes)()
    B, T, _ = given[0].shape
    seen = (torch.rand(B, T, T) < 0.5) | torch.eye(T, dtype=torch.bool) if mask else None
    return *(a.to(dtype) for a in given), n_heads, attending(mask=seen)


USUAL = {"B": 3, "T": 6, "D": 8}


def heads_by(split=lambda y, n: y.unflatten(-1, (n, -1)).transpose(1, 2), join=lambda y: y.transpose(1, 2)):
    """A wrong answer to `my_heads`: another way to split the width into heads, or to join them."""

    def heads(x, w_q, w_k, w_v, w_o, n_heads, attend):
        found = attend(*(split(x @ w, n_heads) for w in (w_q, w_k, w_v)))
        return join(found).reshape(x.shape) @ w_o

    return heads


def without_w_o(x, w_q, w_k, w_v, w_o, n_heads, attend):
    return my_heads(x, w_q, w_k, w_v, torch.eye(x.shape[-1], dtype=x.dtype), n_heads, attend)


def time_cut(y, n_heads):
    return y.view(len(y), n_heads, y.shape[1], -1)


MULTI_HEAD = Exercise(
    solution=my_heads,
    cases=(
        Case(
            lambda: headed(USUAL, 2),
            narrowed(
                (
                    lambda given: (*list(given.values())[:-2], 1, given["attend"]),
                    "With one head it is wrong already: attend(x @ w_q, x @ w_k, x @ w_v) @ w_o.",
                ),
                otherwise="One head is right, two are not: head i has the columns from i · D/H to (i + 1) · D/H.",
            ),
        ),
        Case(lambda: headed(USUAL, 4), "With two heads it is right, with four it is not."),
        Case(lambda: headed({"B": 1, "T": 1, "D": 6}, 3), OTHER_SIZES),
        Case(lambda: headed(USUAL, 2, mask=True), "Where `attend` masks some keys it is wrong: pass it q, k, v whole."),
        Case(lambda: headed(USUAL, 2), NO_GRADIENT, ask=pulled),
        Case(lambda: headed(USUAL, 2, dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "time_cut": heads_by(split=time_cut),
        "time_cut_and_joined": heads_by(split=time_cut, join=lambda y: y),
        "joined_without_transpose": heads_by(join=lambda y: y),
        "over_heads": heads_by(lambda y, n: y.unflatten(-1, (n, -1)), lambda y: y),
        "every_hth_column": heads_by(
            lambda y, n: y.unflatten(-1, (-1, n)).permute(0, 3, 1, 2), lambda y: y.permute(0, 2, 3, 1)
        ),
        "not_split": heads_by(lambda y, n: y[:, None]),
        "without_w_o": without_w_o,
        "transposed": lambda x, w_q, w_k, w_v, *more: my_heads(x, w_q.T, w_k.T, w_v.T, *more),
    },
)


EXERCISES = [ATTENTION, MULTI_HEAD]
