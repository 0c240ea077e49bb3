"""Lesson 08, what is built in the end: a BERT of the pairs, the masking and the head that a student has written.

It learns a calendar: eight months in a row, cut into two sentences, such as "june july august [SEP] september october
november december january". There are 84 such texts, few enough to be learned by heart.
"""

import math
from collections.abc import Iterator
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from course_lib.bert.bert import Bert, BertConfig
from course_lib.bert.masked_words import Masked
from course_lib.text.wordpiece import SPECIALS, WordPiece

MONTHS = ("january february march april may june july august september october november december").split()
LENGTH = 12  # places in a row: 11 are used, one is padding


def calendar() -> WordPiece:
    """A tokenizer whose pieces are the months."""
    return WordPiece([*SPECIALS, *MONTHS])


def calendar_batches(parts: SimpleNamespace, batch: int, seed: int) -> Iterator[Masked]:
    """Endless batches of the calendar: rows by parts.pair, hidden by parts.masking."""
    pieces, generator = calendar(), torch.Generator().manual_seed(seed)
    special = torch.arange(len(pieces)) < len(SPECIALS)
    while True:
        rows = []
        for begins in torch.randint(12, (batch,), generator=generator).tolist():
            n = int(torch.randint(1, 8, (), generator=generator))  # so many stand in the first sentence
            run = [len(SPECIALS) + (begins + i) % 12 for i in range(8)]
            rows.append(parts.pair(run[:n], run[n:], pieces.cls, pieces.sep, pieces.padding, LENGTH))
        ids, segments, mask = (torch.stack(part) for part in zip(*rows, strict=True))  # (B, T) each
        choice, kind = torch.rand(2, *ids.shape, generator=generator)
        other = torch.randint(len(SPECIALS), len(pieces), ids.shape, generator=generator)
        read, chosen = parts.masking(ids, special, pieces.mask, choice, kind, other)
        yield Masked(read, segments, mask, chosen.flatten().nonzero()[:, 0], ids[chosen])


def calendar_blanks() -> list[tuple[tuple[str, str], str]]:
    """96 texts with one month blanked out, a pair of sentences each, and the month that stood there."""
    blanks = []
    for number in range(96):
        run, n, at = [MONTHS[(number + i) % 12] for i in range(8)], 1 + number % 7, number // 12
        read = [*run[:at], "[MASK]", *run[at + 1 :]]
        blanks.append(((" ".join(read[:n]), " ".join(read[n:])), run[at]))
    return blanks


class MyBert(nn.Module):
    """The lesson's encoder with parts.fill for a head: ids, segments, mask (B, T), places (N,) -> logits (N, V)."""

    def __init__(self, parts: SimpleNamespace, vocab_size: int, d: int = 48):
        super().__init__()
        self.parts = parts
        self.bert = Bert(BertConfig(vocab_size, LENGTH, d, n_heads=4, n_layers=2, dropout=0.0, pooler=False))
        self.w, self.b = nn.Parameter(torch.randn(d, d) / math.sqrt(d)), nn.Parameter(torch.zeros(d))
        self.gain, self.shift = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(
        self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None, places: Tensor | None = None
    ) -> Tensor:
        places = torch.arange(ids.numel()) if places is None else places
        table = self.bert.tokens.weight
        states = self.bert(ids, segments, mask)
        return self.parts.fill(states, places, table, self.w, self.b, self.gain, self.shift, self.bias)
