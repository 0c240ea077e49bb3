"""Lesson 07, what is built in the end: a GPT whose merges, mask, cached heads and top-p a student has written."""

from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.text.bpe import BPE, cut


def cut_by_merges(text: str, bpe: BPE, parts: SimpleNamespace) -> Tensor:
    """The ids of a text (T,), every merge of a tokenizer done in its order by parts.merge."""
    ids, single = [], BPE(bpe.vocab, [])
    for piece in cut(text):  # about a word each
        symbols = [bpe.vocab[i] for i in single.encode(piece)]
        for pair in bpe.merges:
            symbols = parts.merge(symbols, pair)
        ids += map(bpe.vocab.index, symbols)
    return torch.tensor(ids)


def _block(d: int) -> dict[str, nn.Module]:
    think = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
    looks = {part: nn.Linear(d, d, bias=False) for part in "qkv"}  # the matrices of all heads, side by side
    return {"norm": nn.LayerNorm(d), **looks, "mix": nn.Linear(d, d), "think": think}


class MyGPT(nn.Module):
    """A GPT of three functions: each head is parts.cached with parts.window, and it writes by parts.top_p.

    ids (B, n): what comes next; cache: a dict, empty at first, None to read a whole text -> logits (B, n, V).
    """

    def __init__(self, parts: SimpleNamespace, vocab_size: int, d: int = 64, n_heads=2, n_layers=2, max_len=64):
        super().__init__()
        self.parts, self.n_heads, self.max_len = parts, n_heads, max_len
        self.tokens, self.places = nn.Embedding(vocab_size, d), nn.Embedding(max_len, d)
        for table in (self.tokens, self.places):
            nn.init.normal_(table.weight, std=0.02)
        self.blocks = nn.ModuleList(nn.ModuleDict(_block(d)) for _ in range(n_layers))
        self.norm = nn.LayerNorm(d)

    def forward(self, ids: Tensor, cache: dict | None = None) -> Tensor:
        cache = {} if cache is None else cache
        past = cache.get("past", 0)
        cache["past"] = past + ids.shape[1]
        x = self.tokens(ids) + self.places.weight[past : cache["past"]]  # (B, n, D)
        for layer, block in enumerate(self.blocks):
            y = block["norm"](x)
            matrices = zip(*(block[part].weight.T.chunk(self.n_heads, dim=1) for part in "qkv"), strict=True)
            seen = [
                self.parts.cached(y, cache.setdefault((layer, head), {}), *w, self.parts.window)
                for head, w in enumerate(matrices)
            ]  # each (B, n, D / H)
            x = x + block["mix"](torch.cat(seen, dim=-1))
            x = x + block["think"](x)
        return F.linear(self.norm(x), self.tokens.weight)  # (B, n, V)

    @torch.no_grad()
    def write(self, ids: Tensor, n: int, p: float, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """The ids (1, T) and n more, one by one with a cache, and the logits that they were drawn from, (n, V)."""
        cache, new, logits = {}, ids, []
        for _ in range(n):
            logits.append(self(new, cache)[:, -1])  # (1, V)
            new = torch.multinomial(self.parts.top_p(logits[-1].softmax(-1), p), 1, generator=generator)
            ids = torch.cat([ids, new], dim=1)
        return ids, torch.cat(logits)
