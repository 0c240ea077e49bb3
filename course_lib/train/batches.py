"""Batches of a run that may go on later: what they draw from random generators is noted, and drawn again."""

import math
import random
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor


class Batches:
    """An iterator over batches that notes where a generator stood before a batch drew from it.

    The generators are those that a whole program shares, PyTorch's, NumPy's and Python's, and a DataLoader's own.
    drawn: what an earlier run noted, "number.generator" -> its state, to which it is put back there. It is noted where
    others have drawn since the batch before; else the state follows from what was noted last.
    """

    def __init__(self, batches: Iterable, drawn: dict[str, Tensor]):
        self.drawn, self.number, self.left, self.generators = dict(drawn), 0, {}, dict(SHARED)
        for name, holder in {"loader": batches, "sampler": getattr(batches, "sampler", None)}.items():
            if isinstance(own := getattr(holder, "generator", None), torch.Generator):
                self.generators[name] = own.get_state, own.set_state
        self.batches = self._noted(lambda: iter(batches))  # number 0: a DataLoader draws here, too

    def __iter__(self):
        return self

    def __next__(self):
        return self._noted(lambda: next(self.batches))

    def _noted(self, draw: Callable):
        for name, (_, put_back) in self.generators.items():
            if (state := self.drawn.get(f"{self.number}.{name}")) is not None:
                put_back(state)
        before = {name: state() for name, (state, _) in self.generators.items()}
        found = draw()
        for name, (state, _) in self.generators.items():
            if not torch.equal(after := state(), before[name]):
                if name not in self.left or not torch.equal(self.left[name], before[name]):
                    self.drawn[f"{self.number}.{name}"] = before[name]
                self.left[name] = after
        self.number += 1
        return found


def _numpy_state() -> Tensor:
    _, words, *rest = np.random.get_state()
    return torch.from_numpy(np.append(words, rest))  # float64, which holds 32 bits exactly


def _set_numpy_state(state: Tensor) -> None:
    *words, place, kept, normal = state.tolist()
    np.random.set_state(("MT19937", np.array(words, np.uint32), int(place), int(kept), normal))


def _python_state() -> Tensor:
    _, words, normal = random.getstate()
    return torch.from_numpy(np.array([*words, math.inf if normal is None else normal]))


def _set_python_state(state: Tensor) -> None:
    *words, normal = state.tolist()
    random.setstate((random.Random.VERSION, tuple(map(int, words)), None if normal == math.inf else normal))


SHARED = {
    "torch": (torch.get_rng_state, torch.set_rng_state),
    "numpy": (_numpy_state, _set_numpy_state),
    "python": (_python_state, _set_python_state),
}
