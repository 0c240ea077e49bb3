"""Multi-head attention: many small attentions side by side, each with its own q, k and v. Lesson 06.

Shapes: B batch, T time (T_q queries, T_k keys), D d_model, H n_heads, G n_kv_heads, d_k width of a query and a key,
d_v width of a value. Batch first, always. Masks are boolean, True = may be attended to.
"""

import math
from collections.abc import Callable

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from course_lib.attention.attention import attend, check_mask
from course_lib.inputs.sequences import transformed, visible
from course_lib.inputs.shapes import check_shapes


class MultiHead(nn.Module):
    """Concat(head_1 ... head_H) W_o, head_i = attend(x W_q_i, m W_k_i, m W_v_i) (Vaswani et al., 2017, section 3.2.2).

    d_k and d_v are d_model / n_heads where None; bias: whether the four linear layers have one. What others vary:
    n_kv_heads: so many keys and values, each shared by H / G heads (Ainslie et al., 2023, section 2.2), H where None;
    turn: (q or k, their places) -> as q or k, turned (`rotate`);
    position_bias: (places of queries, of keys) -> real, to fit (B, H, T_q, T_k), added to the scores (`RelativeBias`),
    where -infinity hides a key;
    window: how many places a query may look back over, its own among them, and as many ahead unless causal.

    x (B, T_q, D) asks; memory m (B, T_k, D), or x itself where None, is looked at; mask bool (B, T_k), the places that
    may be seen, or (B, T_q, T_k) or (1, T_q, T_k), a row for each query; causal=True hides what comes after a query
    -> out (B, T_q, D). A query that may look at nothing gets zeros.
    cache: a dict that keeps turned keys and values from call to call. To itself, x is then what comes next in a text of
    which the cache holds the beginning; a memory is read at the first call and never again.
    places: where the keys stand, (T_k,) or (B, T_k), those in the cache too; 0 to T_k - 1 where None.
    PyTorch's fused kernel does the work. While a hook listens at `weights` (`record.capture`), `attend` does, in the
    same pass: weights (B, H, T_q, T_k) are heard there, and a hook that returns others steers the model. Second
    derivatives PyTorch refuses for the kernel; `attend` has them, which works under `torch.func` (hessian ...) too.
    Raises ValueError or TypeError, in words, for heads, shapes and masks that do not fit.
    """

    takes_memory = True

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_k: int | None = None,
        bias: bool = True,
        *,
        d_v: int | None = None,
        n_kv_heads: int | None = None,
        turn: Callable[[Tensor, Tensor], Tensor] | None = None,
        position_bias: Callable[[Tensor, Tensor], Tensor] | None = None,
        window: int | None = None,
    ):
        super().__init__()
        _check_heads(d_model, n_heads, n_kv_heads or n_heads, None in (d_k, d_v))
        d_k, d_v = (d_model // n_heads if width is None else width for width in (d_k, d_v))
        self.d_model, self.n_heads, self.n_kv_heads = d_model, n_heads, n_heads if n_kv_heads is None else n_kv_heads
        self.turn, self.position_bias, self.window = turn, position_bias, window
        self.w_q = nn.Linear(d_model, n_heads * d_k, bias)  # the W_q_i of all heads, one under the other
        self.w_k = nn.Linear(d_model, self.n_kv_heads * d_k, bias)
        self.w_v = nn.Linear(d_model, self.n_kv_heads * d_v, bias)
        self.w_o = nn.Linear(n_heads * d_v, d_model, bias)
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
        places: Tensor | None = None,
    ) -> Tensor:
        check_shapes("MultiHead", x=(x, f"B+ T+ {self.d_model}"), memory=(memory, f"B+ T_k+ {self.d_model}"))
        here, bias = self._order(x, memory, cache, places)  # (T_q,) or (B, T_q), and to fit (B, H, T_q, T_k), or None
        q = self._turned(self.split(self.w_q(x)), here)  # (B, H, T_q, d_k)
        k, v = self._seen(x, memory, cache, here)  # (B, G, T_k, d_k), (B, G, T_k, d_v)
        check_mask(mask, len(x), q.shape[2], k.shape[2])
        _check_direction(mask, memory)
        triangle = causal and mask is None and q.shape[2] == k.shape[2] and self._fused(bias)  # the kernel knows it
        allowed = None if triangle else _allowed(mask, causal, self.window, q, k)
        out = self.heads(q, k, v, allowed, triangle, bias)  # (B, H, T_q, d_v)
        out = self.w_o(out.transpose(1, 2).flatten(2))  # (B, T_q, D): the heads side by side
        return out if mask is None and bias is None else out.masked_fill(~_sees(allowed, bias), 0)

    def split(self, x: Tensor, n_heads: int | None = None) -> Tensor:
        """Cut the width into heads, H of them where None: (B, T, H * d) -> (B, H, T, d)."""
        return x.unflatten(-1, (n_heads or self.n_heads, -1)).transpose(1, 2)

    def heads(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        bias: Tensor | None = None,
    ) -> Tensor:
        """`attend` for every head at once: q (B, H, T_q, d_k), k, v (B, G, T_k, d) -> (B, H, T_q, d_v).

        mask and bias to fit (B, H, T_q, T_k), or None. causal=True, without them and for as many queries as keys, is
        the mask causal_mask(T).
        """
        if self._explicit():
            shared_by = self.n_heads // self.n_kv_heads
            k, v = (part if shared_by == 1 else part.repeat_interleave(shared_by, dim=1) for part in (k, v))
            out, weights = attend(q, k, v, mask, bias)
            heard = self.weights(weights)  # (B, H, T_q, T_k)
            return out if heard is weights else heard.to(v.dtype) @ v
        if bias is not None:
            bias = bias.to(q.dtype)
            shown = bias != -math.inf
            mask, bias = shown if mask is None else mask & shown, bias.masked_fill(~shown, 0)
        if mask is not None:
            # PyTorch does not say what a row of nothing gives: let it see all, and strike it out, here or in `forward`.
            empty = ~mask.any(dim=-1, keepdim=True)
            mask = mask | empty
        mask = mask if bias is None else _as_numbers(mask, bias)
        shared = self.n_kv_heads < self.n_heads
        out = scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=shared)
        return out if bias is None else out.masked_fill(empty, 0)

    def _explicit(self) -> bool:
        """Whether `attend` has to do the work: somebody hears its weights, or `torch.func` may ask for more."""
        return bool(self.weights._forward_hooks) or not torch.compiler.is_compiling() and transformed()

    def _fused(self, bias: Tensor | None) -> bool:
        """Whether nothing but PyTorch's kernel and its own triangle is needed."""
        return bias is None and self.window is None and not self._explicit()

    def _order(self, x: Tensor, memory: Tensor | None, cache: dict | None, places: Tensor | None):
        """Where the queries stand, and what is added to the scores; None where nothing asks for it."""
        _check_order(self, memory, places)
        if self.turn is None and self.position_bias is None:
            return None, None
        past = cache["k"].shape[2] if cache else 0
        there = torch.arange(past + x.shape[1], device=x.device) if places is None else places  # (T_k,) or (B, T_k)
        here = there[..., past:]  # (T_q,) or (B, T_q): the queries are the last
        bias = None if self.position_bias is None else self.position_bias(here, there)
        return here, bias

    def _turned(self, part: Tensor, here: Tensor | None) -> Tensor:
        """Queries or keys (B, H or G, T, d_k), told where they stand."""
        if self.turn is None:
            return part
        return self.turn(part, here if here.ndim == 1 else here[:, None])  # the same for all heads

    def _seen(self, x: Tensor, memory: Tensor | None, cache: dict | None, here: Tensor | None) -> tuple[Tensor, Tensor]:
        """Keys (B, G, T_k, d_k) and values (B, G, T_k, d_v) of all that may be looked at, from and into the cache."""
        if cache and memory is not None:
            return cache["k"], cache["v"]
        source = x if memory is None else memory
        k, v = (self.split(part(source), self.n_kv_heads) for part in (self.w_k, self.w_v))
        k = self._turned(k, here)
        if cache:
            k, v = torch.cat([cache["k"], k], dim=2), torch.cat([cache["v"], v], dim=2)
        if cache is not None:
            cache.update(k=k, v=v)
        return k, v

    @classmethod
    def from_torch(cls, layer: nn.MultiheadAttention) -> "MultiHead":
        """Our layer with the weights of PyTorch's. Ours is batch first and without dropout on the weights.

        Raises ValueError for one with kdim, vdim, add_bias_kv or add_zero_attn.
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


def _allowed(mask: Tensor | None, causal: bool, window: int | None, q: Tensor, k: Tensor) -> Tensor | None:
    """What each query may look at, for all heads: bool, of a shape that fits (B, H, T_q, T_k); None for everything."""
    if mask is not None:
        mask = mask[:, None, None] if mask.ndim == 2 else mask[:, None]  # (B, 1, 1, T_k), (B, 1, T_q, T_k)
    T_q, T_k = q.shape[2], k.shape[2]
    causal = causal and T_q > 1  # one query is the last in its text: nothing comes after it
    if not causal and window is None:
        return mask
    near, last = torch.ones(1, 1, T_q, T_k, dtype=torch.bool, device=q.device), T_k - T_q  # the queries are the last
    if window is not None:
        near = near.triu(last - window + 1)
    if causal or window is not None:
        near = near.tril(last if causal else last + window - 1)
    return near if mask is None else mask & near


def _as_numbers(mask: Tensor, bias: Tensor) -> Tensor:
    """Mask and bias in one, as the kernel takes them: real (1 or B, 1 or H, T_q, T_k), -inf where nothing is seen."""
    return bias[(None,) * (4 - bias.ndim)].masked_fill(~mask, -math.inf)


def _sees(allowed: Tensor | None, bias: Tensor | None) -> Tensor:
    """Whether a query may look at anything, by any head: bool, (1 or B, 1 or T_q, 1)."""
    if bias is not None:
        shown = (bias[(None,) * (4 - bias.ndim)] != -math.inf).any(dim=1, keepdim=True)  # by any head
        allowed = shown if allowed is None else allowed & shown
    return allowed.any(dim=-1).transpose(1, 2)


def check_heads(d_model: int, n_heads: int) -> None:
    """Raise ValueError, in words, unless so many heads can share the width in equal parts."""
    if d_model % n_heads:
        raise ValueError(
            f"The heads share d_model in equal parts: it must be a multiple of n_heads; got d_model={d_model}, "
            f"n_heads={n_heads}."
        )


def _check_heads(d_model: int, n_heads: int, n_kv_heads: int, shared: bool) -> None:
    if shared:
        check_heads(d_model, n_heads)
    if n_heads % n_kv_heads:
        got = f"n_heads={n_heads}, n_kv_heads={n_kv_heads}"
        raise ValueError(f"Equal groups of heads share keys: n_heads must be a multiple of n_kv_heads; got {got}.")


def _check_direction(mask: Tensor | None, memory: Tensor | None) -> None:
    if memory is not None or mask is None or mask.ndim == 2 or not visible(mask):
        return
    T_q, T_k = mask.shape[1:]
    after = torch.ones_like(mask[0]).triu(1)  # (T, T): what comes after each query, and not the query itself
    if T_q == T_k > 1 and (mask == after).flatten(1).all(dim=1).any():
        raise ValueError(
            "The mask lets each place see what comes after it and hides the rest: True means 'may be attended to' "
            "here, the reverse of nn.MultiheadAttention. Hand over ~mask."
        )


def _check_order(layer: MultiHead, memory: Tensor | None, places: Tensor | None) -> None:
    if memory is not None and not layer.takes_memory:
        raise ValueError(f"{type(layer).__name__} looks at its own row alone: use MultiHead to look at a memory.")
    if memory is not None and not (layer.turn is None and layer.position_bias is None and layer.window is None):
        raise ValueError(
            "A memory does not stand in one row with what looks at it: turn, position_bias and window are for a look "
            "at oneself. Build the layer for the memory without."
        )
    if places is not None and layer.turn is None and layer.position_bias is None:
        raise ValueError("Nothing here asks for places: build MultiHead with a turn or a position_bias.")


def _check_copied(layer: nn.MultiheadAttention) -> None:
    if layer.in_proj_weight is None or layer.bias_k is not None or layer.add_zero_attn:
        raise ValueError("MultiHead.from_torch copies a layer without kdim, vdim, add_bias_kv and add_zero_attn.")
