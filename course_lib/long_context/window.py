"""A window: each position attends to its neighbours, and a few global tokens attend to all. Lesson 17.

Shapes: B batch, H heads, T time, w window, g global tokens, d width of a query and a key, d_v of a value. Masks are
boolean, True = may be attended to. A window of w has w positions to each side, its own among them, as in `MultiHead`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.attention import attend
from course_lib.attention.multi_head import MultiHead
from course_lib.inputs.shapes import check_shapes


def band_mask(T: int, window: int, n_global: int = 0, causal: bool = False, device=None) -> Tensor:
    """True where |i - j| < window, and in the rows and the columns of the first n_global positions: bool (T, T).

    (Longformer; Beltagy, Peters and Cohan, 2020, section 3.1, whose window counts both sides together.) causal: nothing
    ahead, for global tokens as well.
    """
    place = torch.arange(T, device=device)
    near = (place[:, None] - place).abs() < window  # (T, T)
    everywhere = place < n_global
    mask = near | everywhere | everywhere[:, None]
    return mask.tril() if causal else mask


def cone(mask: Tensor, n_layers: int) -> Tensor:
    """What can affect what after 0, 1, ... n_layers layers of one mask: bool (T, T) -> bool (n_layers + 1, T, T).

    [l, i, j]: some path of l layers leads from position i back to position j. A layer lets a position keep what it has.
    """
    check_shapes("cone", mask=(mask, "bool T T"))
    look = (mask | torch.eye(len(mask), dtype=torch.bool, device=mask.device)).float()
    steps = [torch.eye(len(mask), device=mask.device)]
    for _ in range(n_layers):
        steps.append((look @ steps[-1] > 0).float())
    return torch.stack(steps) > 0


def local_attention(q: Tensor, k: Tensor, v: Tensor, window: int, n_global: int = 0, causal: bool = False) -> Tensor:
    """`attend` under band_mask(T, window, n_global, causal), in about T (3 w + g) scores where that one takes T T.

    q, k (..., T, d), v (..., T, d_v) -> (..., T, d_v). The row is cut into blocks of w positions; each attends to
    itself, the block before, the block after and the global tokens. Raises ValueError for shapes that do not fit.
    """
    check_shapes("local_attention", q=(q, "... T d"), k=(k, "... T d"), v=(v, "... T d_v"))
    T, g = q.shape[-2], min(n_global, q.shape[-2])
    rest = -T % window  # what the last stretch lacks
    q_cut = F.pad(q, (0, 0, 0, rest)).unflatten(-2, (-1, window))  # (..., n, w, d)
    n = q_cut.shape[-3]
    place = torch.arange(n * window, device=q.device).view(n, window)
    beside = (place[:, :1] - window + torch.arange(3 * window, device=q.device)).clamp(-1, T)  # (n, 3 w)
    beside = torch.where((beside < g) | (beside == T), -1, beside)  # global ones stand in front, once
    seen = torch.cat([torch.arange(g, device=q.device).expand(n, g), beside], dim=-1)  # (n, g + 3 w)
    apart = place[:, :, None] - seen[:, None]  # (n, w, g + 3 w)
    mask = (seen >= 0)[:, None] & ((apart.abs() < window) | (seen < g)[:, None])
    mask = mask & (apart >= 0) if causal else mask
    k_seen, v_seen = (part[..., seen.clamp(min=0), :] for part in (k, v))  # (..., n, g + 3 w, d)
    out = attend(q_cut, k_seen, v_seen, mask)[0].flatten(-3, -2)[..., :T, :]  # (..., T, d_v)
    if not g:
        return out
    looks_back = place.flatten()[:T] <= torch.arange(g, device=q.device)[:, None] if causal else None
    return torch.cat([attend(q[..., :g, :], k, v, looks_back)[0], out[..., g:, :]], dim=-2)


class LocalHeads(MultiHead):
    """`MultiHead` whose heads compute `local_attention`: near positions, and the first n_global ones.

    x (B, T, D) -> (B, T, D), causal or not. Takes no mask and no bias, reads nothing behind a cache, has keys for each
    head, and its weights cannot be captured: raises ValueError for these.
    """

    def __init__(self, d_model: int, n_heads: int, near: int, n_global: int = 0, **others):
        super().__init__(d_model, n_heads, **others)
        self.near, self.n_global = near, n_global

    def heads(self, q, k, v, mask=None, causal=False, bias=None):
        """`local_attention` for every head at once: q, k (B, H, T, d_k), v (B, H, T, d_v) -> (B, H, T, d_v)."""
        check_alone(self, mask, bias)
        check_whole_row(self, q, k)
        return local_attention(q, k, v, self.near, self.n_global, causal)


def check_alone(layer: MultiHead, mask: Tensor | None, bias: Tensor | None) -> None:
    """Raise ValueError, in words, where heads that know no mask are handed one."""
    if layer.n_kv_heads != layer.n_heads:
        raise ValueError(f"{type(layer).__name__} has keys for each head: leave n_kv_heads out.")
    if mask is not None or bias is not None or layer.weights._forward_hooks:
        raise ValueError(
            f"{type(layer).__name__} takes no mask and no bias, and its weights cannot be captured: it never makes the "
            "whole table of scores. Use MultiHead for that. (Behind a cache, hand it one position at a time.)"
        )


def check_whole_row(layer: MultiHead, q: Tensor, k: Tensor) -> None:
    """Raise ValueError, in words, where heads that read a row as a whole have other keys than their queries'."""
    if q.shape[2] != k.shape[2]:
        raise ValueError(
            f"{type(layer).__name__} reads a row as a whole, with a key for each query; got {q.shape[2]} queries and "
            f"{k.shape[2]} keys. Read without a cache, or use MultiHead."
        )
