"""Lesson 06, what is built in the end: a Transformer whose attention, heads, mask and block a student has written."""

import math
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from course_lib.attention.multi_head import MultiHead
from course_lib.attention.positions import sinusoidal
from course_lib.text.pairs import PADDING, START
from course_lib.workshop.exercises.transformer import attending


class MyHeads(nn.Module):
    """A look at oneself: it keeps the four matrices, your functions do the rest. mask (B, T, T) or (B, 1, T)."""

    def __init__(self, parts: SimpleNamespace, d: int, n_heads: int):
        super().__init__()
        self.w = nn.ParameterList(torch.randn(d, d) / math.sqrt(d) for _ in range(4))
        self.parts, self.n_heads = parts, n_heads

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.parts.heads(x, *self.w, self.n_heads, attending(self.parts.attention, mask))


class MyCross(MultiHead):
    """A look at the source: the library cuts the heads, your attention works in them."""

    def __init__(self, parts: SimpleNamespace, d: int, n_heads: int):
        super().__init__(d, n_heads)
        self.parts = parts

    def heads(self, q, k, v, mask=None, causal=False, bias=None):
        return self.parts.attention(q, k, v, mask)


class MyTransformer(nn.Module):
    """One block that reads and one that writes, of four functions: parts.attention, .heads, .mask, .block.

    source (B, S), lengths, unused, target (B, T) -> logits (B, T, V) and None, as a translator of the course.
    """

    def __init__(self, parts: SimpleNamespace, source_vocab: int, target_vocab: int, d: int = 64, n_heads: int = 4):
        super().__init__()
        self.parts, self.d = parts, d
        self.embed = nn.ModuleList(nn.Embedding(size, d) for size in (source_vocab, target_vocab))
        self.looks = nn.ModuleList(MyHeads(parts, d, n_heads) for _ in range(2))
        self.cross = MyCross(parts, d, n_heads)
        names = ("read", "think", "memory", "back", "cross", "think2", "out")
        self.norms = nn.ModuleDict({name: nn.LayerNorm(d) for name in names})
        self.think = nn.ModuleList(nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d)) for _ in range(2))
        self.read_out = nn.Linear(d, target_vocab)

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor):
        x, y = (
            embed(ids) + sinusoidal(ids.shape[1], self.d)
            for embed, ids in zip(self.embed, (source, target), strict=True)
        )  # (B, S, D), (B, T, D)
        real = (source != PADDING)[:, None]  # (B, 1, S): a row for all
        norm, block = self.norms, self.parts.block
        # The encoder: one block.
        x = block(x, norm["read"], lambda x: self.looks[0](x, real), norm["think"], self.think[0])
        memory = norm["memory"](x)
        # The decoder: a look back at itself, then your block once more, its attention at the memory.
        y = y + self.looks[1](norm["back"](y), self.parts.mask(target))
        y = block(y, norm["cross"], lambda y: self.cross(y, memory, real[:, 0]), norm["think2"], self.think[1])
        return self.read_out(norm["out"](y)), None  # (B, T, V)

    @torch.no_grad()
    def write(self, source: Tensor, n: int) -> Tensor:
        """Greedy, n words and no cache: the most probable next word each time. source (B, S) -> ids (B, n)."""
        target = torch.full((len(source), 1), START)
        for _ in range(n):
            target = torch.cat([target, self(source, None, target)[0][:, -1:].argmax(-1)], dim=1)
        return target[:, 1:]
