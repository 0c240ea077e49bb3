"""Which row a place in a training reads: each once a round, in an order that follows from the seed alone.

Nothing is kept between two steps, so any number of processes agrees on it, and a run goes on at any step.
"""

from functools import lru_cache

import numpy as np


class Order:
    """Rows 0 to n - 1, each once a round, every round in a new order. Raises ValueError for no row at all."""

    def __init__(self, n: int, seed: int):
        if n < 1:
            raise ValueError("There is no row to read: the data are shorter than one row.")
        self.n, self.seed = n, seed
        self.of_round = lru_cache(maxsize=2)(self._of_round)

    def _of_round(self, k: int) -> np.ndarray:
        return np.random.default_rng([self.seed, 1, k]).permutation(self.n)

    def rows(self, first: int, n: int) -> list[tuple[int, int]]:
        """(round, row) of the places first to first + n - 1 of the whole training."""
        return [
            (k, int(self.of_round(k)[at])) for k, at in (divmod(place, self.n) for place in range(first, first + n))
        ]


class Windows:
    """Rows of length + 1 tokens out of `Tokens`, in an `Order`; every round cuts the text at other places.

    The last token of a row is the first of the next, so each is asked for once a round, but for some at either end.
    """

    def __init__(self, tokens, length: int, seed: int):
        _check_long_enough(len(tokens), length)
        self.tokens, self.length, self.seed = tokens, length, seed
        self.order = Order(max(1, (len(tokens) - length) // length), seed)
        self.spare = len(tokens) - 1 - self.order.n * length  # how far a round may begin behind the first token

    def rows(self, first: int, n: int) -> np.ndarray:
        """The rows at places first to first + n - 1 of the whole training: int64 (n, length + 1)."""
        starts = [self._begin(k) + row * self.length for k, row in self.order.rows(first, n)]
        return np.stack([self.tokens.read(start, self.length + 1) for start in starts])

    def _begin(self, k: int) -> int:
        return int(np.random.default_rng([self.seed, 2, k]).integers(self.spare + 1))


def draw(seed: int, *place: int) -> int:
    """A seed of its own for each place of a training (step, piece ...), far from its neighbours'."""
    return int(np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)[0] >> 1)


def _check_long_enough(n: int, length: int) -> None:
    if n < length + 1:
        raise ValueError(f"A row needs {length + 1} tokens, and the text has {n}: ask for shorter rows with --tokens.")
