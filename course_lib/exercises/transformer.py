"""Lesson 06, what attends: scaled dot products, and heads.

The mask, the block and the decoder to be mended are in `transformer_block.py`, what is asked in
`transformer_questions.py`.
"""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import (
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
from course_lib.exercises.slips import slips


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
        Case(lambda: masked(empty=True), "A query that may look at nothing gets zeros, not NaN and no mean."),
        Case(masked, NO_GRADIENT, ask=pulled),
        Case(lambda: masked(empty=True), "Beside a query that may look at nothing, the gradient is wrong.", ask=pulled),
        Case(single(tensors(SHAPES, None)), SINGLE),
        Case(lambda: (*[far_apart()] * 3, None), OVERFLOW),
        Case(lambda: (*[far_apart()] * 3, SEEN), OVERFLOW),
    ),
    mistakes=slips("""
        q.shape[-1] ** 0.5 -> 1
            You do not divide by √d_k. The sum has d_k terms: without it scores grow, and softmax hardens.
        q.shape[-1] ** 0.5 -> q.shape[-1]  # You divide by d_k. It is the square root: √d_k.
        q.shape[-1] ** 0.5 -> k.shape[-2] ** 0.5
            You divide by √T_k, the number of keys. What counts is how many terms one score sums: √d_k.
        q.shape[-1] ** 0.5 -> v.shape[-1] ** 0.5
            You divide by √d_v, the width of a value. No value takes part in a score: √d_k, the width of a key.
        dim=-1 -> dim=-2
            Your columns sum to one. Each row is one query that shares out its weight: softmax over the last dimension.
        dim=-1 -> dim=2
            You count the softmax's dimension from the front: dim=2 is the keys until heads come in. Take dim=-1.
        k.transpose(-2, -1) -> k.transpose(1, 2)
            You count dimensions from the front: with heads, 1 and 2 are heads and time. Take k.transpose(-2, -1).
        q @ k.transpose(-2, -1) -> k @ q.transpose(-2, -1)
            Queries and keys are exchanged: row t should hold the scores of query t, q_t · k_1, q_t · k_2 ...
        return weights @ v -> return weights  # These are the weights. Each query gets their mean of the values.
        weights @ v -> weights @ k  # You take the mean of the keys. They are for being found; v is handed on.
        torch.softmax(scores, dim=-1) -> scores  # The softmax is missing: scores are not yet weights.
        is not None -> is False  # The mask changes nothing in your answer.
        ~mask -> mask
            Your mask is upside down. True means: may be attended to; masked_fill fills where its mask is True.
        ~mask, torch -> mask, torch
        weights = weights.masked_fill(~mask, 0) -> pass
            Your mask is upside down: masked_fill fills where its mask is True. Fill the scores with ~mask.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min) -> pass
            You mask after the softmax alone, so that the weights left do not sum to one. Mask the scores, before.
        scores.masked_fill(~mask, torch.finfo(scores.dtype).min) -> scores * mask
        weights = weights.masked_fill(~mask, 0) -> pass
            You multiply the scores by the mask. A score of 0 is one like any other: exp(0) = 1.
        scores.masked_fill(~mask, torch.finfo(scores.dtype).min) -> scores + mask
        weights = weights.masked_fill(~mask, 0) -> pass
            You add the mask to the scores: True adds 1, and what is hidden keeps part of its weight.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min) -> pass
        weights.masked_fill(~mask, 0) -> weights * mask / ((weights * mask).sum(-1, keepdim=True) + 1e-12)
            You share out again after masking. With large scores a hidden key takes all, and 0 / 0 is left.
        torch.finfo(scores.dtype).min -> -1e3
            You hide by -1e3 or some such number. With scores below it, a hidden key keeps its weight.
        torch.finfo(scores.dtype).min -> -torch.inf
        weights = weights.masked_fill(~mask, 0) -> pass
            A query that may look at nothing gives NaN, 0 / 0, after minus infinity. It gets zeros.
        weights = weights.masked_fill(~mask, 0) -> pass
            A query that may look at nothing looks at everything alike in yours: set its weights to 0 afterwards.
        scores.masked_fill(~mask, torch.finfo(scores.dtype).min) -> scores + torch.where(mask, 0, -torch.inf)
            You hide by adding minus infinity: the zeros are right and their gradient is NaN. Use masked_fill.
    """),
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
        Case(lambda: headed(USUAL, 2, mask=True), "Where `attend` hides some keys it is wrong: hand it q, k, v whole."),
        Case(lambda: headed(USUAL, 2), NO_GRADIENT, ask=pulled),
        Case(lambda: headed(USUAL, 2, dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        .view(B, T, n_heads, D // n_heads).transpose(1, 2) -> .view(B, n_heads, T, D // n_heads)
            You view (B, T, D) as (B, H, T, D/H): that cuts time. Cut the width first, (B, T, H, D/H), then transpose.
        .view(B, T, n_heads, D // n_heads).transpose(1, 2) -> .view(B, n_heads, T, D // n_heads)
        heads.transpose(1, 2).reshape -> heads.reshape
            You view (B, T, D) as (B, H, T, D/H) and back. A head then holds whole vectors of a few tokens, so that
            these alone see each other. Cut the width, (B, T, H, D/H), then transpose.
        heads.transpose(1, 2).reshape -> heads.reshape
            You put the heads back without exchanging heads and time: reshape (B, H, T, D/H) mixes the tokens.
        .transpose(1, 2) -> .transpose(2, 3)
            You exchange the last two dimensions. Time has to stand next to last: transpose(1, 2) of (B, T, H, D/H).
        D // n_heads).transpose(1, 2) -> D // n_heads)
        heads.transpose(1, 2) -> heads
            Attention runs over the heads of one token in yours, not over time: exchange them, (B, H, T, D/H).
        .view(B, T, n_heads, D // n_heads).transpose(1, 2) -> .view(B, T, D // n_heads, n_heads).permute(0, 3, 1, 2)
        heads.transpose(1, 2) -> heads.permute(0, 2, 3, 1)
            Your head i takes every H-th column. Here a head has neighbours: columns i · D/H to (i + 1) · D/H.
        return y.view(B, T, n_heads, D // n_heads).transpose(1, 2) -> return y[:, None]
            You do not cut: all D columns are one head. Each head has D / H of them, and weights of its own.
        attend(q, k, v) -> attend(q[:, :1], k[:, :1], v)
            All heads share the weights of the first. Each has queries and keys of its own.
        attend(q, k, v) -> attend(q / (D // n_heads) ** 0.5, k, v)
            You divide by √(D/H), and `attend` does it once more. Hand it the queries as they are.
        heads.transpose(1, 2) -> heads.mean(1, keepdim=True).expand_as(heads).transpose(1, 2)
            You take the mean of the heads. They stand side by side, and w_o mixes them.
        reshape(B, T, D) @ w_o -> reshape(B, T, D)  # w_o is missing: nothing mixes what the heads have found.
        split(x @ w_q), split(x @ w_k), split(x @ w_v) -> split(x @ w_q.T), split(x @ w_k.T), split(x @ w_v.T)
            You turn the matrices round. They stand on the right here, not as in nn.Linear: x @ w_q.
        @ w_o -> @ w_o.T  # You turn w_o round. It stands on the right here, not as in nn.Linear.
        split(x @ w_q), split(x @ w_k), split(x @ w_v) -> split(x), split(x), split(x)
            You cut x itself. Each head has queries, keys and values of its own: project first.
        attend(q, k, v) -> attend(k, q, v)  # Queries and keys are exchanged: attend(q, k, v).
        heads = attend(q, k, v) -> heads = attend(q, k, v) + split(x)
            You add x to the heads. The sum around attention is the block's business.
    """),
)


EXERCISES = [ATTENTION, MULTI_HEAD]
