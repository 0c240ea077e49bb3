"""Memory between segments: each layer also attends to its stored states, and gets no gradient there. Lesson 17.

    h~ = [SG(m); h],   q = h W_q,   k = h~ W_k,   v = h~ W_v        (SG: no gradient goes through)
    (Transformer-XL; Dai et al., 2019, section 3.2)

Shapes: B batch, S positions of a segment, M positions of memory, H heads, d width of a head, D d_model, V vocab_size.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.attention.block import Block
from course_lib.attention.norms import LayerNorm
from course_lib.attention.positions import rotate
from course_lib.inputs.sequences import token_ids
from course_lib.inputs.shapes import check_shapes


def recalled(block: Block, states: Tensor, places: Tensor) -> dict:
    """The cache that a block would hold had it just read `states` (B, M, D), which have the positions `places` (M,).

    The current weights compute keys and values, and learn; the states do not: no gradient goes into them.
    """
    heads, h = block.attention, block.norm_1(states.detach())  # SG(m)
    k, v = (heads.split(part(h), heads.n_kv_heads) for part in (heads.w_k, heads.w_v))  # (B, H, M, d)
    return {"own": {"k": k if heads.turn is None else heads.turn(k, places), "v": v}}


@dataclass(frozen=True)
class SegmentConfig:
    """The sizes of a `SegmentReader`.

    memory: how many positions a layer stores. relative: rotary, only distances count; else each of up to max_len
    positions of a segment adds a learned vector, counted from 0 in every segment. window: how many positions a query
    may attend back to, its own among them; all that the memory holds where None.
    """

    vocab_size: int
    d_model: int
    n_heads: int
    n_layers: int
    memory: int = 0
    relative: bool = True
    window: int | None = None
    max_len: int = 256


class SegmentReader(nn.Module):
    """A language model that reads a text segment by segment and remembers (Dai et al., 2019, section 3.2).

    ids (B, S), memory: what it gave for the segment before, or None -> logits (B, S, V) of the token after each, and
    the memory for the next segment, a tensor (B, M, D) per layer; lesson 01's `TruncatedBPTT` trains it. In L layers
    something comes from up to L M positions before the segment, where M is a multiple of S. Rotary positions replace
    the paper's `relative_scores`.
    Raises ValueError or TypeError for ids and a memory that do not fit.
    """

    def __init__(self, config: SegmentConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        look = {"window": config.window, "turn": rotate if config.relative else None}
        sizes = (config.d_model, config.n_heads, 4 * config.d_model)
        self.blocks = nn.ModuleList(Block.from_sizes(*sizes, pre_norm=True, **look) for _ in range(config.n_layers))
        self.norm = LayerNorm(config.d_model)
        self.places = None if config.relative else nn.Embedding(config.max_len, config.d_model)
        for table in (self.tokens,) if config.relative else (self.tokens, self.places):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids: Tensor, memory: tuple | None = None) -> tuple[Tensor, tuple]:
        ids = token_ids("The segment", ids, self.tokens, shortest=1)
        x, S = self.tokens(ids), ids.shape[1]  # (B, S, D)
        memory = (x[:, :0],) * len(self.blocks) if memory is None else memory
        _check_read(self, memory, x)
        if self.places is not None:
            x = x + self.places.weight[:S]
        M, left = memory[0].shape[1], []
        places = torch.arange(M + S, device=ids.device)
        for block, states in zip(self.blocks, memory, strict=True):
            left.append(self.kept(states, x))
            cache = recalled(block, states, places[:M]) if M else {}
            x = block(x, causal=True, cache=cache, places=places if self.config.relative else None)
        return self.norm(x) @ self.tokens.weight.T, tuple(left)

    def kept(self, states: Tensor, x: Tensor) -> Tensor:
        """The last M positions of what was stored and what was read, without gradient: (B, M, D)."""
        whole = torch.cat([states, x], dim=1)
        return whole[:, max(0, whole.shape[1] - self.config.memory) :].detach()


def relative_scores(q: Tensor, k: Tensor, r: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Transformer-XL's scores, q_i k_j + q_i r_(i-j) + u k_j + v r_(i-j), over sqrt(d) (Dai et al., 2019, section 3.3).

    q (..., H, S, d), k (..., H, T, d), T >= S: queries are the last S positions of T; r (H, T, d), what a distance of
    0, 1, ... T - 1 says; u, v (H, d): what all queries ask for -> (..., H, S, T). Mask the keys ahead.
    """
    check_shapes("relative_scores", q=(q, "... H S d"), k=(k, "... H T d"), r=(r, "H T d"), u=(u, "H d"), v=(v, "H d"))
    S, T = q.shape[-2], k.shape[-2]
    by_content = (q + u[:, None]) @ k.transpose(-2, -1)  # (..., H, S, T): terms a and c
    by_distance = (q + v[:, None]) @ r.transpose(-2, -1)  # (..., H, S, T): terms b and d, a column a distance
    apart = torch.arange(T - S, T, device=q.device)[:, None] - torch.arange(T, device=q.device)  # i - j
    by_place = by_distance.gather(-1, apart.clamp(min=0).expand(by_distance.shape))
    return (by_content + by_place) / math.sqrt(q.shape[-1])


def _check_read(model: SegmentReader, memory: tuple, x: Tensor) -> None:
    states = {f"memory_{i}": (part, f"B M {model.config.d_model}") for i, part in enumerate(memory)}
    check_shapes("SegmentReader", x=(x, "B S D"), **states)
    if model.places is not None and x.shape[1] > len(model.places.weight):
        raise ValueError(f"A segment has up to {len(model.places.weight)} learned places; got {x.shape[1]} tokens.")
