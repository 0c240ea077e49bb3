"""Attention: scores, a softmax over what may be looked at, a weighted mean. Lessons 04 to 06.

Shapes: B batch, T_q queries, T_k keys, d width of a vector; D_q, D_k widths of query and key, N d_attention.
Masks are boolean, True = may be attended to. Symbols: query s, keys h, scores e, weights a, context c = sum_j a_j h_j.
"""

import math

import torch
import torch.nn as nn
from torch import Tensor


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """a_j = exp(e_j) / sum of exp(e_k) over the k that the mask leaves, and 0 for every other j.

    scores (..., T_q, T_k), mask bool, broadcast to the same shape, or None -> weights (..., T_q, T_k). A row in which
    the mask leaves nothing has no weight at all: zeros, and a gradient of zero, where 0 / 0 would be NaN.
    Raises TypeError for a mask that is not boolean, ValueError for one that does not fit.
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    if mask.dtype != torch.bool:
        raise TypeError(f"A mask is boolean, True = may be attended to; got {mask.dtype}. Compare: ids != padding.")
    try:
        fits = torch.broadcast_shapes(mask.shape, scores.shape) == scores.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"The mask must fit the scores (..., queries, keys) = {tuple(scores.shape)}; "
                         f"got {tuple(mask.shape)}.")
    lowest = torch.finfo(scores.dtype).min  # not -inf: a row of those is 0 / 0
    weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1)
    return weights.masked_fill(~mask, 0)  # already zero, but for a row with nothing to attend to


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention, softmax(q k^T / sqrt(d)) v (Vaswani et al., 2017, section 3.2.1, equation 1).

    q (..., T_q, d), k (..., T_k, d), v (..., T_k, d_v), mask bool, broadcast to (..., T_q, T_k), or None
    -> out (..., T_q, d_v), weights (..., T_q, T_k). A `padding_mask` (B, T_k) needs a dimension for the queries:
    mask[:, None]. A query that may attend to nothing gets zeros. Raises ValueError for shapes that do not match.
    """
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError("attend needs q (..., queries, d), k (..., keys, d) and v (..., keys, any width); got "
                         f"{tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}.")
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (..., T_q, T_k)
    weights = masked_softmax(scores, mask)
    return weights @ v, weights  # (..., T_q, d_v), (..., T_q, T_k)


def padding_mask(lengths: Tensor, T: int) -> Tensor:
    """True where a token is real: position t < length. lengths (B) of whole numbers from 0 to T -> bool (B, T)."""
    if lengths.ndim != 1 or lengths.is_floating_point() or ((lengths < 0) | (lengths > T)).any():
        raise ValueError(f"lengths must hold a whole number from 0 to {T} for each sentence; got {lengths.tolist()}.")
    return torch.arange(T, device=lengths.device) < lengths[:, None]  # (B, T)


def causal_mask(T: int, device=None) -> Tensor:
    """True where position t (row) may look at position u (column): u <= t, never ahead. bool (T, T)."""
    return torch.ones(T, T, dtype=torch.bool, device=device).tril()


class Attention(nn.Module):
    """What the score functions below share: weights a = masked_softmax(scores), context c = a values.

    query (B, T_q, D_q), keys (B, T_k, D_k), values (B, T_k, D_v) or None for the keys themselves,
    mask bool (B, T_k), the same for every query, or (B, T_q, T_k), or None
    -> context (B, T_q, D_v), weights (B, T_q, T_k).
    `record.capture` hears the weights at `weights`; a forward hook there that returns others steers the model.
    Raises ValueError or TypeError, in words, for shapes and masks that do not fit.
    """

    def __init__(self, d_query: int, d_keys: int):
        super().__init__()
        if min(d_query, d_keys) < 1:
            raise ValueError(f"Attention sizes must be 1 or more; got d_query={d_query}, d_keys={d_keys}.")
        self.d_query, self.d_keys = d_query, d_keys
        self.weights = nn.Identity()  # a named place where a recorder can listen

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """How well each key suits each query: query (B, T_q, D_q), keys (B, T_k, D_k) -> (B, T_q, T_k)."""
        raise NotImplementedError(f"{type(self).__name__} has no score function: use one of the four below.")

    def forward(self, query: Tensor, keys: Tensor, values: Tensor | None = None,
                mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        values = keys if values is None else values
        if (query.ndim, keys.ndim, values.ndim) != (3, 3, 3) or query.shape[::2] != (len(keys), self.d_query) \
                or keys.shape[-1] != self.d_keys or keys.shape[:2] != values.shape[:2]:
            raise ValueError(f"{type(self).__name__} needs query (batch, queries, {self.d_query}), keys (batch, keys, "
                             f"{self.d_keys}) and values (batch, keys, any width); got {tuple(query.shape)}, "
                             f"{tuple(keys.shape)} and {tuple(values.shape)}.")
        if mask is not None and mask.shape not in (keys.shape[:2], (*query.shape[:2], keys.shape[1])):
            raise ValueError(f"The mask must be (batch, keys) = {tuple(keys.shape[:2])} or (batch, queries, keys) = "
                             f"{(*query.shape[:2], keys.shape[1])}; got {tuple(mask.shape)}.")
        if mask is not None and mask.ndim == 2:
            mask = mask[:, None]  # (B, 1, T_k)
        weights = self.weights(masked_softmax(self.scores(query, keys), mask))  # (B, T_q, T_k)
        return weights @ values, weights  # (B, T_q, D_v), (B, T_q, T_k)


class AdditiveAttention(Attention):
    """e = v^T tanh(W s + U h) (Bahdanau, Cho and Bengio, 2015, appendix A.1.2). d_attention: the width inside."""

    def __init__(self, d_query: int, d_keys: int, d_attention: int | None = None):
        super().__init__(d_query, d_keys)
        d_attention = d_attention or d_query
        self.w = nn.Linear(d_query, d_attention, bias=False)
        self.u = nn.Linear(d_keys, d_attention, bias=False)
        self.v = nn.Linear(d_attention, 1, bias=False)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        inside = self.w(query)[:, :, None] + self.u(keys)[:, None]  # (B, T_q, T_k, N): every query meets every key
        return self.v(torch.tanh_(inside)).squeeze(-1)  # (B, T_q, T_k); in place, for it is the largest tensor here


class DotAttention(Attention):
    """e = s^T h (Luong, Pham and Manning, 2015, section 3.1): no weights, so query and keys must be equally wide."""

    def __init__(self, d_query: int, d_keys: int):
        super().__init__(d_query, d_keys)
        if d_query != d_keys:
            raise ValueError(f"A dot product needs query and keys of equal width; got d_query={d_query}, "
                             f"d_keys={d_keys}. Use GeneralAttention for unequal ones.")

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)  # (B, T_q, T_k)


class GeneralAttention(Attention):
    """e = s^T W h (Luong, Pham and Manning, 2015, section 3.1): a dot product after one linear map."""

    def __init__(self, d_query: int, d_keys: int):
        super().__init__(d_query, d_keys)
        self.w = nn.Linear(d_query, d_keys, bias=False)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.w(query) @ keys.transpose(1, 2)  # (B, T_q, T_k)


class ConcatAttention(Attention):
    """e = v^T tanh(W [s; h]) (Luong, Pham and Manning, 2015, section 3.1).

    The same function as the additive score, whose W and U stand side by side in this W: W [s; h] = W_s s + W_h h.
    """

    def __init__(self, d_query: int, d_keys: int, d_attention: int | None = None):
        super().__init__(d_query, d_keys)
        d_attention = d_attention or d_query
        self.w = nn.Linear(d_query + d_keys, d_attention, bias=False)
        self.v = nn.Linear(d_attention, 1, bias=False)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        w_s, w_h = self.w.weight.split([self.d_query, self.d_keys], dim=1)  # (N, D_q), (N, D_k)
        inside = (query @ w_s.T)[:, :, None] + (keys @ w_h.T)[:, None]  # (B, T_q, T_k, N), no pair copied together
        return self.v(torch.tanh_(inside)).squeeze(-1)  # (B, T_q, T_k); in place, for it is the largest tensor here
