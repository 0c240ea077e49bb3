"""One table of shapes for every layer: what it is handed is told as it is written in a docstring, and checked so.

    check_shapes("attend", q=(q, "... T_q d"), k=(k, "... T_k d"), v=(v, "... T_k d_v"))

A word is a size: a number must be just that, a name may be anything and is the same wherever it stands; `...` in front
is any number of sizes. Only shapes and types are looked at, never values: nothing waits for a device.
"""

import torch
from torch import Tensor

# How a size is told to a reader, where its letter alone would not do.
_WORDS = {
    "B": "batch",
    "T": "time",
    "T_q": "queries",
    "T_k": "keys",
    "S": "source time",
    "C": "channels",
    "H": "heads",
    "N": "number",
}


def check_shapes(who: str, real: bool = True, **table: tuple[Tensor | None, str]) -> dict[str, int]:
    """Hold tensors against a table of shapes -> the size that each name was found to have.

    table: name = (tensor, "B T 3"); a tensor that is None is left out. real: whether all must be floating point.
    Raises TypeError for what is no tensor or not of real numbers, ValueError for shapes that do not fit: one sentence
    that tells what `who` needs of each and what it got.
    """
    given = {name: (part, shape.split()) for name, (part, shape) in table.items() if part is not None}
    for name, (part, _) in given.items():
        if not isinstance(part, Tensor):
            raise TypeError(f"{who} needs {name} as a tensor; got {type(part).__name__}.")
        if real and not part.is_floating_point():
            raise TypeError(
                f"{who} computes with vectors of real numbers; {name} is {part.dtype}: embed token ids first, or "
                "convert with .float()."
            )
    sizes: dict[str, int] = {}
    if not all(_fits(part.shape, words, sizes) for part, words in given.values()):
        needs = [f"{name} ({_told(words)})" for name, (_, words) in given.items()]
        got = [str(tuple(part.shape)) for part, _ in given.values()]
        raise ValueError(f"{who} needs {_listed(needs)}; got {_listed(got)}.")
    return sizes


def _fits(shape: torch.Size, words: list[str], sizes: dict[str, int]) -> bool:
    """Whether a shape is as the words say; the sizes of new names are put down."""
    if words[:1] == ["..."]:
        words = words[1:]
        shape = shape[len(shape) - len(words) :] if len(shape) >= len(words) else shape
    if len(shape) != len(words):
        return False
    return all(size == (int(word) if word.isdecimal() else sizes.setdefault(word, size))
               for size, word in zip(shape, words, strict=True))  # fmt: skip


def _told(words: list[str]) -> str:
    return ", ".join(_WORDS.get(word, word) for word in words)


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
