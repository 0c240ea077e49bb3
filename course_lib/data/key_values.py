"""Pairs of a key and a value, and later the keys alone: what does a model remember of a long row? Lesson 17.

(Multi-query associative recall; Arora et al., 2023, section 3.1. Here a pair stands at one position.)
"""

from __future__ import annotations

import torch
from torch import Tensor

VERSION = 1
BLANK = ASKED = 0  # id of "no key" and of "no value": symbols are counted from 1


def key_values(
    batch: int, n_pairs: int, half: int = 64, n_symbols: int = 64, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Rows of pairs, then their keys alone: x int64 (B, 2 half, 2), a key and a value per position, y (B, 2 half).

    In the first half are n_pairs pairs at random positions, in the second half their keys at random ones, in another
    order, without a value (0). Everywhere else both are 0. y is the value that belongs to a key that is asked, and 0
    where nothing is asked. Keys of a row differ; values may be equal. Chance: 1 / n_symbols. Raises ValueError for
    sizes below 1 and for more pairs than positions or symbols.
    """
    _check_pairs(batch, n_pairs, half, n_symbols)
    draw = lambda n: torch.rand(batch, n, generator=generator).argsort(dim=1)[:, :n_pairs]  # noqa: E731
    keys, told, asked = draw(n_symbols) + 1, draw(half), draw(half) + half  # (B, n_pairs): symbols, places, places
    values = torch.randint(1, n_symbols + 1, (batch, n_pairs), generator=generator)
    x, y = torch.zeros(batch, 2 * half, 2, dtype=torch.int64), torch.zeros(batch, 2 * half, dtype=torch.int64)
    row = torch.arange(batch)[:, None]
    x[row, told] = torch.stack([keys, values], dim=-1)
    x[row, asked, 0] = keys
    y[row, asked] = values
    return x, y


def _check_pairs(batch: int, n_pairs: int, half: int, n_symbols: int) -> None:
    if min(batch, n_pairs, half, n_symbols) < 1 or n_pairs > min(half, n_symbols):
        raise ValueError(
            f"A row needs 1 pair or more and a key and a place for each; got batch={batch}, n_pairs={n_pairs}, "
            f"half={half}, n_symbols={n_symbols}."
        )
