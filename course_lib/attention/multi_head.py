"""Multi-head attention: many small attentions side by side, each with its own q, k and v. Lesson 06.

Shapes: B batch, T time (T_q queries, T_k keys), D d_model, H heads, d_k width of a query and a key, d_v = D / H width
of a value. Batch first, always. Masks are boolean, True = may be attended to.
"""

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from course_lib.attention.attention import attend
from course_lib.inputs.sequences import check_sizes, visible


class MultiHead(nn.Module):
    """Concat(head_1 ... head_H) W_o, head_i = attend(x W_q_i, m W_k_i, m W_v_i) (Vaswani et al., 2017, section 3.2.2).

    x (B, T_q, D) asks; memory m (B, T_k, D), or x itself where None, is looked at; mask bool (B, T_k), the places that
    may be seen, or (B, T_q, T_k) or (1, T_q, T_k), a row for each query; causal=True hides what comes after a query
    -> out (B, T_q, D). A query that may look at nothing gets zeros.
    cache: a dict that keeps keys and values from call to call. To itself, x is then what comes next in a text of which
    the cache holds the beginning; a memory is read at the first call and never again.
    PyTorch's fused kernel does the work. While a hook listens at `weights` (`record.capture`), `attend` does, in the
    same pass: weights (B, H, T_q, T_k) are heard there, and a hook that returns others steers the model.
    Raises ValueError or TypeError, in words, for sizes, shapes and masks that do not fit.
    """

    def __init__(self, d_model: int, n_heads: int, d_k: int | None = None, bias: bool = True):
        super().__init__()
        _check_heads(d_model, n_heads, d_k)
        self.d_model, self.n_heads = d_model, n_heads
        d_k = d_model // n_heads if d_k is None else d_k
        self.w_q = nn.Linear(d_model, n_heads * d_k, bias)  # the W_q_i of all heads, one under the other
        self.w_k = nn.Linear(d_model, n_heads * d_k, bias)
        self.w_v = nn.Linear(d_model, d_model, bias)
        self.w_o = nn.Linear(d_model, d_model, bias)
        self.weights = nn.Identity()  # a named place where a recorder can listen
        for part in (self.w_q, self.w_k, self.w_v, self.w_o):  # as PyTorch's own begins, but for its one joint matrix
            nn.init.xavier_uniform_(part.weight)
            if bias:
                nn.init.zeros_(part.bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        cache: dict[str, Tensor] | None = None,
    ) -> Tensor:
        _check_vectors(self, x, memory)
        q = self.split(self.w_q(x))  # (B, H, T_q, d_k)
        k, v = self._seen(x, memory, cache)  # (B, H, T_k, d_k), (B, H, T_k, d_v)
        _check_mask(mask, len(x), q.shape[2], k.shape[2])
        triangle = causal and mask is None and q.shape[2] == k.shape[2] and not self._heard()  # the kernel knows it
        mask = None if triangle else _allowed(mask, causal, q, k)
        out = self.heads(q, k, v, mask, triangle)  # (B, H, T_q, d_v)
        out = self.w_o(out.transpose(1, 2).flatten(2))  # (B, T_q, D): the heads side by side
        return out if mask is None else out.masked_fill(~mask.any(dim=-1).transpose(1, 2), 0)

    def split(self, x: Tensor) -> Tensor:
        """Cut the width into heads: (B, T, H * d) -> (B, H, T, d)."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def heads(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """`attend` for every head at once: q (B, H, T_q, d_k), k, v, mask to fit (B, H, T_q, T_k) or None -> q's (d_v).

        causal=True, without a mask and for as many queries as keys, is the mask causal_mask(T).
        """
        if self._heard():
            out, weights = attend(q, k, v, mask)
            heard = self.weights(weights)  # (B, H, T_q, T_k)
            return out if heard is weights else heard.to(v.dtype) @ v
        if (
            mask is not None
        ):  # PyTorch does not say what a row of nothing gives: let it see all, `forward` strikes it out
            mask = mask | ~mask.any(dim=-1, keepdim=True)
        return scaled_dot_product_attention(q, k, v, mask, is_causal=causal)

    def _heard(self) -> bool:
        return bool(self.weights._forward_hooks)

    def _seen(self, x: Tensor, memory: Tensor | None, cache: dict | None) -> tuple[Tensor, Tensor]:
        """Keys (B, H, T_k, d_k) and values (B, H, T_k, d_v) of all that may be looked at, from and into the cache."""
        if cache and memory is not None:
            return cache["k"], cache["v"]
        source = x if memory is None else memory
        k, v = self.split(self.w_k(source)), self.split(self.w_v(source))
        if cache:
            k, v = torch.cat([cache["k"], k], dim=2), torch.cat([cache["v"], v], dim=2)
        if cache is not None:
            cache.update(k=k, v=v)
        return k, v

    @classmethod
    def from_torch(cls, layer: nn.MultiheadAttention) -> "MultiHead":
        """Our layer with the weights of PyTorch's. Ours is batch first and without dropout on the weights.

        Raises TypeError for another layer, ValueError for one with kdim, vdim, add_bias_kv or add_zero_attn.
        """
        _check_copied(layer)
        ours = cls(layer.embed_dim, layer.num_heads, bias=layer.in_proj_bias is not None).to(layer.in_proj_weight)
        parts = (ours.w_q, ours.w_k, ours.w_v)
        with torch.no_grad():
            for own, weight in zip(parts, layer.in_proj_weight.chunk(3), strict=True):
                own.weight.copy_(weight)
            ours.w_o.weight.copy_(layer.out_proj.weight)
            if layer.in_proj_bias is not None:
                for own, bias in zip(parts, layer.in_proj_bias.chunk(3), strict=True):
                    own.bias.copy_(bias)
                ours.w_o.bias.copy_(layer.out_proj.bias)
        return ours


def _allowed(mask: Tensor | None, causal: bool, q: Tensor, k: Tensor) -> Tensor | None:
    """What each query may look at, for all heads: bool, of a shape that fits (B, H, T_q, T_k); None for everything."""
    if mask is not None:
        mask = mask[:, None, None] if mask.ndim == 2 else mask[:, None]  # (B, 1, 1, T_k), (B, 1, T_q, T_k)
    T_q, T_k = q.shape[2], k.shape[2]
    if not causal or T_q == 1:  # one query is the last in its text: nothing comes after it
        return mask
    past = torch.ones(1, 1, T_q, T_k, dtype=torch.bool, device=q.device).tril(T_k - T_q)  # the queries are the last
    return past if mask is None else mask & past


def _check_heads(d_model: int, n_heads: int, d_k: int | None) -> None:
    check_sizes("MultiHead", d_model=d_model, n_heads=n_heads, d_k=1 if d_k is None else d_k)
    if d_model % n_heads:
        raise ValueError(
            f"The heads share d_model in equal parts: it must be a multiple of n_heads; got d_model={d_model}, "
            f"n_heads={n_heads}."
        )


def _check_vectors(layer: MultiHead, x: Tensor, memory: Tensor | None) -> None:
    for name, part in (("x", x), ("memory", memory)):
        if part is None:
            continue
        if not part.is_floating_point():
            raise TypeError(
                f"MultiHead computes with vectors of real numbers; {name} is {part.dtype}: embed ids first."
            )
        if part.ndim != 3 or part.shape[-1] != layer.d_model or 0 in part.shape or len(part) != len(x):
            raise ValueError(
                f"MultiHead needs {name} (batch, time, {layer.d_model}), not empty, and as many memories as x; "
                f"got {tuple(part.shape)}."
            )


def _check_mask(mask: Tensor | None, B: int, T_q: int, T_k: int) -> None:
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise TypeError(f"A mask is boolean, True = may be attended to; got {mask.dtype}. Compare: ids != padding.")
    if mask.shape not in ((B, T_k), (B, T_q, T_k), (1, T_q, T_k)):
        raise ValueError(
            f"The mask must be (batch, keys) = {(B, T_k)}, or (batch or 1, queries, keys) = {(B, T_q, T_k)}, as "
            f"causal_mask(T)[None] is; got {tuple(mask.shape)}."
        )
    if mask.ndim == 3 and T_q == T_k > 1 and visible(mask):
        after = torch.ones_like(mask[0]).triu(1)  # (T, T): what comes after each query, and not the query itself
        if (mask == after).flatten(1).all(dim=1).any():
            raise ValueError(
                "The mask lets each place see what comes after it and hides the rest: True means 'may be attended to' "
                "here, the reverse of nn.MultiheadAttention. Hand over ~mask."
            )


def _check_copied(layer: nn.MultiheadAttention) -> None:
    if not isinstance(layer, nn.MultiheadAttention):
        raise TypeError(f"MultiHead.from_torch copies a torch.nn.MultiheadAttention; got {type(layer).__name__}.")
    if layer.in_proj_weight is None or layer.bias_k is not None or layer.add_zero_attn:
        raise ValueError("MultiHead.from_torch copies a layer without kdim, vdim, add_bias_kv and add_zero_attn.")
