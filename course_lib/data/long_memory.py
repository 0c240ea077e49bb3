"""Two tasks that need a long memory, drawn without end: recall the first symbol, add two marked numbers.

Both know their lag as an argument, and what an answer without memory is worth. Same generator state, same batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

VERSION = 1
ADDING_CHANCE = 1 / 6  # squared error of always saying 1: the variance of the sum of two uniform numbers


def recall(batch: int, lag: int, n_symbols: int = 8, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Recall the first symbol after `lag` others: x (B, lag + 1) of ids below n_symbols, y (B) = x[:, 0].

    The others are drawn from the same symbols, so nothing but the place marks the first. Chance: 1 / n_symbols.
    (A short form of task 2 of Hochreiter and Schmidhuber, 1997, section 5.2.) Raises ValueError for an empty batch
    or alphabet and a negative lag.
    """
    _at_least(1, batch=batch, n_symbols=n_symbols)
    _at_least(0, lag=lag)
    x = torch.randint(n_symbols, (batch, lag + 1), generator=generator)
    return x, x[:, 0].clone()


def adding(batch: int, length: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Add two marked numbers: x (B, T, 2) holds a number in [0, 1) and a mark, set twice; y (B) is their sum.

    One mark falls in either half. Always saying 1 has a squared error of 1/6, `ADDING_CHANCE`.
    (After Hochreiter and Schmidhuber, 1997, section 5.4.) Raises ValueError for a batch below 1 or a length below 2.
    """
    _at_least(1, batch=batch)
    _at_least(2, length=length)
    value, mark, row = torch.rand(batch, length, generator=generator), torch.zeros(batch, length), torch.arange(batch)
    mark[row, torch.randint(length // 2, (batch,), generator=generator)] = 1
    mark[row, torch.randint(length // 2, length, (batch,), generator=generator)] = 1
    return torch.stack([value, mark], dim=-1), (value * mark).sum(1)


def endless(task: Callable[..., tuple[Tensor, Tensor]], *sizes: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of a task for ever, all from one seed: endless(recall, 32, 60, seed=0). Other seeds, other batches."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield task(*sizes, generator=generator)


def _at_least(least: int, **sizes: int) -> None:
    for name, size in sizes.items():
        if size < least:
            raise ValueError(f"{name} must be {least} or more; got {size}.")
