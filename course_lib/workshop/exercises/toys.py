"""Small models to try a search on: each has learned a random table of what comes next."""

import random
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

START, END = 1, 2


class Toy:
    """A model that has learned a random table: log-probabilities (V,) for everything that it may have read, V = 5.

    What it says hangs on its seed and on what was read, not on who asked before. `end` and `start` are added to the
    logits of these two tokens: with the usual ones it ends early and never writes the start. `ids` are their numbers,
    and `state` is what it has read before anybody begins.
    """

    def __init__(self, end: float = 0.5, start: float = -12.0, ids: tuple[int, int] = (START, END), state=()):
        self.state, (self.start, self.end) = state, ids
        self.seed, self.bonus, self.table = int(torch.randint(2**31, ())), {self.end: end, self.start: start}, {}

    def step(self, token: int, state: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
        """Log-probabilities (V,) of the next token after `state` and `token`, and the state for the step after."""
        read = (*state, int(token))
        if read not in self.table:
            own = random.Random(str((self.seed, read)))
            logits = [own.gauss(0.0, 1.5) + self.bonus.get(token, 0.0) for token in range(5)]
            self.table[read] = torch.tensor(logits, dtype=torch.float64).log_softmax(0)
        return self.table[read].clone(), read


def toys(number: int, **settings) -> list[Toy]:
    """So many of them, each with these settings."""
    return [Toy(**settings) for _ in range(number)]


def tree(late_end: bool) -> Toy:
    """A model that tells what becomes of a seat in a beam of two.

    After one step the two are END and 3. Who gives END's seat away keeps 3 3 and 3 4, and finds a good end behind
    3 4 where there is a `late_end`; who keeps it has 3 3 alone, which leads nowhere.
    """
    flat, ends = [0.2] * 5, [0.01, 0.01, 0.95, 0.02, 0.01]
    rows = {(): [0.04, 0.01, 0.2, 0.7, 0.05], (3,): [0.005, 0.005, 0.01, 0.5, 0.48], (3, 3): flat}
    rows[3, 4] = ends if late_end else flat
    toy = Toy()
    toy.table = {(START, *read): torch.tensor(p, dtype=torch.float64).log() for read, p in rows.items()}
    return toy


def all_written(search: Callable, models: list[Toy], *more) -> Iterator[list[int]]:
    """For `Case.ask`: what a search writes with each model, as far as somebody asks."""
    return (search(model.step, model.state, model.start, model.end, *more) for model in models)
