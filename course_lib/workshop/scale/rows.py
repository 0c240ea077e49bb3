"""Which row is read at which place of a training: each row once per round, in an order that follows from the seed.

Nothing is stored between two steps, so any number of processes agrees on it and a run can continue at any step.
"""

from functools import lru_cache

import numpy as np


class Order:
    """Rows 0 to n - 1, each once per round, every round in a new order."""

    def __init__(self, n: int, seed: int):
        self.n, self.seed = n, seed
        self.of_round = lru_cache(maxsize=2)(self._of_round)

    def _of_round(self, k: int) -> np.ndarray:
        return np.random.default_rng([self.seed, 1, k]).permutation(self.n)

    def rows(self, first: int, n: int) -> list[tuple[int, int]]:
        """(round, row) at the places first to first + n - 1 of the whole training."""
        places = (divmod(place, self.n) for place in range(first, first + n))
        return [(k, int(self.of_round(k)[at])) for k, at in places]


class Windows:
    """Rows of length + 1 ids out of `Tokens`, in an `Order`; every round cuts the text at other positions.

    The last token of a row is the first of the next one, so each is a target once per round, but for some at the ends.
    Raises ValueError for a text without a row.
    """

    def __init__(self, tokens, length: int, seed: int):
        if len(tokens) <= length:
            raise ValueError(
                f"A row needs {length + 1} tokens, and the text has {len(tokens)}: ask for shorter rows with --tokens."
            )
        self.tokens, self.length, self.seed = tokens, length, seed
        self.order = Order(max(1, (len(tokens) - length) // length), seed)
        self.spare = len(tokens) - 1 - self.order.n * length  # how far from the first token a round may begin

    def rows(self, first: int, n: int) -> np.ndarray:
        """The rows at the places first to first + n - 1 of the whole training: int64 (n, length + 1)."""
        starts = [self._begin(k) + row * self.length for k, row in self.order.rows(first, n)]
        return np.stack([self.tokens.read(start, self.length + 1) for start in starts])

    def _begin(self, k: int) -> int:
        return int(np.random.default_rng([self.seed, 2, k]).integers(self.spare + 1))


def draw(seed: int, *place: int) -> int:
    """A seed of its own for each place of a training (step, piece, ...)."""
    return int(np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)[0] >> 1)
