"""Attention: scores, a softmax over what may be looked at, a weighted mean. Lessons 04 to 06.

Shapes: B batch, T_q queries, T_k keys, d width of a vector; D_q, D_k, D_v widths of query, key and value.
Masks are boolean, True = may be attended to. Symbols: query s, keys h, scores e, weights a, context c = sum_j a_j h_j.
"""

import math
from collections.abc import Callable

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.inputs.sequences import whole_lengths
from course_lib.inputs.shapes import broadcasts, check_shapes


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """a_j = exp(e_j) / sum of exp(e_k) over the k that the mask leaves, and 0 for every other j.

    scores (..., T_q, T_k), mask bool, broadcast to the same shape, or None -> weights (..., T_q, T_k). A row in which
    the mask leaves nothing has no weight at all: zeros, and a gradient of zero, where 0 / 0 would be NaN.
    Raises TypeError for a mask that is not boolean or scores of whole numbers, ValueError for a mask that does not fit.
    """
    _check_fits(scores, mask)
    if mask is None:
        return torch.softmax(scores, dim=-1)
    empty = ~mask.any(dim=-1, keepdim=True)  # such a row would be 0 / 0: let it be anything, it is struck out below
    weights = torch.softmax(scores.masked_fill(~mask, -math.inf).masked_fill(empty, 0), dim=-1)
    return weights.masked_fill(~mask, 0)


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention, softmax(q k^T / sqrt(d) + bias) v (Vaswani et al., 2017, section 3.2.1, eq. 1).

    q (..., T_q, d), k (..., T_k, d), v (..., T_k, d_v), mask bool and bias real, each broadcast to (..., T_q, T_k) or
    None -> out (..., T_q, d_v), weights (..., T_q, T_k). A `padding_mask` (B, T_k) needs a dimension for the queries:
    mask[:, None]. A bias of -infinity hides a key, as the mask does. A query that may attend to nothing gets zeros.
    Raises ValueError for shapes that do not match, TypeError for whole numbers and for a bias that is a mask.
    """
    check_shapes("attend", q=(q, "... T_q d"), k=(k, "... T_k d"), v=(v, "... T_k d_v"))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (..., T_q, T_k)
    if bias is not None:
        _check_fits(scores, mask, bias)
        shown = bias != -math.inf
        scores, mask = scores + bias, shown if mask is None else mask & shown
    weights = masked_softmax(scores, mask)
    return weights.to(v.dtype) @ v, weights  # (..., T_q, d_v), (..., T_q, T_k)


def padding_mask(lengths: Tensor, T: int) -> Tensor:
    """True where a token is real: position t < length. lengths (B), from 0 to T, tensor or list -> bool (B, T)."""
    lengths = whole_lengths(lengths, T)
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
        self.d_query, self.d_keys = d_query, d_keys
        self.weights = nn.Identity()  # a named place where a recorder can listen

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """How well each key suits each query: query (B, T_q, D_q), keys (B, T_k, D_k) -> (B, T_q, T_k)."""
        raise NotImplementedError(f"{type(self).__name__} has no score function: use one of the four below.")

    def forward(
        self, query: Tensor, keys: Tensor, values: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        values = keys if values is None else values
        self._check(query, keys, values, mask)
        if mask is not None and mask.ndim == 2:
            mask = mask[:, None]  # (B, 1, T_k)
        weights = self.weights(masked_softmax(self.scores(query, keys), mask))  # (B, T_q, T_k)
        return weights @ values, weights  # (B, T_q, D_v), (B, T_q, T_k)

    def _check(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> None:
        check_shapes(type(self).__name__, query=(query, "..."), keys=(keys, "..."), values=(values, "..."))
        if (
            (query.ndim, keys.ndim, values.ndim) != (3, 3, 3)
            or query.shape[::2] != (len(keys), self.d_query)
            or keys.shape[-1] != self.d_keys
            or keys.shape[:2] != values.shape[:2]
        ):
            raise ValueError(
                f"{type(self).__name__} needs query (batch, queries, {self.d_query}), keys (batch, keys, "
                f"{self.d_keys}) and values (batch, keys, any width); got {tuple(query.shape)}, "
                f"{tuple(keys.shape)} and {tuple(values.shape)}."
            )
        if mask is not None and mask.shape not in (keys.shape[:2], (*query.shape[:2], keys.shape[1])):
            raise ValueError(
                f"The mask must be (batch, keys) = {tuple(keys.shape[:2])} or (batch, queries, keys) = "
                f"{(*query.shape[:2], keys.shape[1])}; got {tuple(mask.shape)}."
            )


class AdditiveAttention(Attention):
    """e = tanh(s W + h U) v^T (Bahdanau, Cho and Bengio, 2015, appendix A.1.2). d_attention: the width inside."""

    def __init__(self, d_query: int, d_keys: int, d_attention: int | None = None):
        super().__init__(d_query, d_keys)
        d_attention = d_attention or d_query
        self.w = nn.Linear(d_query, d_attention, bias=False)
        self.u = nn.Linear(d_keys, d_attention, bias=False)
        self.v = nn.Linear(d_attention, 1, bias=False)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        inside = self.w(query)[:, :, None] + self.u(keys)[:, None]  # (B, T_q, T_k, d_attention): queries meet keys
        return self.v(torch.tanh_(inside)).squeeze(-1)  # (B, T_q, T_k); in place, for it is the largest tensor here


class DotAttention(Attention):
    """e = s h^T (Luong, Pham and Manning, 2015, section 3.1): no weights, so query and keys must be equally wide."""

    def __init__(self, d_query: int, d_keys: int):
        super().__init__(d_query, d_keys)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)  # (B, T_q, T_k)


class GeneralAttention(Attention):
    """e = s W h^T (Luong, Pham and Manning, 2015, section 3.1): a dot product after one linear map."""

    def __init__(self, d_query: int, d_keys: int):
        super().__init__(d_query, d_keys)
        self.w = nn.Linear(d_query, d_keys, bias=False)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.w(query) @ keys.transpose(1, 2)  # (B, T_q, T_k)


class ConcatAttention(Attention):
    """e = tanh([s; h] W) v^T (Luong, Pham and Manning, 2015, section 3.1).

    The same function as the additive score, whose W and U stand one upon the other in this W: [s; h] W = s W_s + h W_h.
    """

    def __init__(self, d_query: int, d_keys: int, d_attention: int | None = None):
        super().__init__(d_query, d_keys)
        d_attention = d_attention or d_query
        self.w = nn.Linear(d_query + d_keys, d_attention, bias=False)
        self.v = nn.Linear(d_attention, 1, bias=False)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        w_s, w_h = self.w.weight.split([self.d_query, self.d_keys], dim=1)  # (d_attention, D_q), (d_attention, D_k)
        inside = (query @ w_s.T)[:, :, None] + (keys @ w_h.T)[:, None]  # (B, T_q, T_k, d_attention), no pair copied
        return self.v(torch.tanh_(inside)).squeeze(-1)  # (B, T_q, T_k); in place, for it is the largest tensor here


class SelfAttention(nn.Module):
    """One head by which a sequence attends to itself: q = x W_q, k = x W_k, v = x W_v, then `attend` (as there).

    x (B, T, d_model), mask bool (B, T), the places that may be seen, or (B, T, T) or (1, T, T), a row for each query,
    bias real (T, T) or (1, T, T) -> out (B, T, d_head), weights (B, T, T). A mask of two dimensions is always one of
    padding: hand over a causal one as causal_mask(T)[None]. turn: a function of queries and of keys (B, T, d_head) that
    tells them their places (`rotate`). `weights` is heard and steered, and bad input refused, as in Attention.
    """

    def __init__(self, d_model: int, d_head: int | None = None, turn: Callable[[Tensor], Tensor] | None = None):
        super().__init__()
        d_head = d_model if d_head is None else d_head
        self.d_model, self.turn = d_model, turn or nn.Identity()
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d_head, bias=False) for _ in range(3))
        self.weights = nn.Identity()  # a named place where a recorder can listen

    def forward(self, x: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
        check_shapes("SelfAttention", x=(x, f"B T {self.d_model}"))
        check_mask(mask, len(x), x.shape[1], x.shape[1])
        q, k, v = self.turn(self.w_q(x)), self.turn(self.w_k(x)), self.w_v(x)  # (B, T, d_head)
        if mask is not None and mask.ndim == 2:
            mask = mask[:, None]  # (B, 1, T)
        out, weights = attend(q, k, v, mask, bias)  # (B, T, d_head), (B, T, T)
        heard = self.weights(weights)
        return (out if heard is weights else heard.to(v.dtype) @ v), heard


def check_mask(mask: Tensor | None, B: int, T_q: int, T_k: int) -> None:
    """Raise TypeError or ValueError, in words, unless a mask is bool (B, T_k), (B, T_q, T_k) or (1, T_q, T_k)."""
    check_shapes("Attention", mask=(mask, "bool ..."))
    if mask is not None and mask.shape not in ((B, T_k), (B, T_q, T_k), (1, T_q, T_k)):
        raise ValueError(
            f"The mask must be (batch, keys) = {(B, T_k)}, or (batch or 1, queries, keys) = {(B, T_q, T_k)}, as "
            f"causal_mask(T)[None] is; got {tuple(mask.shape)}."
        )


def _check_fits(scores: Tensor, mask: Tensor | None, bias: Tensor | None = None) -> None:
    if bias is not None and bias.dtype == torch.bool:
        raise TypeError("A bias is a real number that is added to a score; got torch.bool: did you mean mask?")
    check_shapes("A softmax", scores=(scores, "..."), mask=(mask, "bool ..."), bias=(bias, "..."))
    for name, part in (("mask", mask), ("bias", bias)):
        if part is not None and not broadcasts(part, scores.shape):
            raise ValueError(
                f"The {name} must fit the scores (..., queries, keys) = {tuple(scores.shape)}; got {tuple(part.shape)}."
            )
