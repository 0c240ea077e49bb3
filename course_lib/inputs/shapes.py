"""One table of shapes for every layer: what it is handed is told as it is written in a docstring, and checked so.

    check_shapes("attend", q=(q, "... T_q d"), k=(k, "... T_k d"), v=(v, "... T_k d_v"))
    check_shapes("cover", patches=(patches, "B N L"), covered=(covered, "bool B N"))

A word is a size: a number must be just that, a name may be anything and is the same wherever it stands; a `+` behind it
wants 1 or more, `...` in front of all is any number of sizes. Before the sizes may stand what the numbers are: `int` of
any width, a dtype by its name (`int64`, `bool`), or `any`; real numbers where nothing is said.
Only shapes and types are looked at, never values: nothing waits for a device.
"""

from functools import lru_cache

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
    "N": "number",
    "V": "vocabulary",
    "d_v": "any width",
}
_NUMBERS = {"int": "whole numbers", "int64": "whole numbers (int64)"}


def check_shapes(who: str, /, **table: tuple[Tensor | None, str]) -> None:
    """Hold tensors against a table of shapes, name = (tensor, "B T 3"); one that is None is left out.

    Raises TypeError for what is no tensor or not of such numbers, ValueError for shapes that do not fit: one sentence
    that tells what `who` needs of each and what it got.
    """
    told = tuple([
        (words, part.shape, part.dtype) if isinstance(part, Tensor) else (words, None, None)
        for part, words in table.values()
        if part is not None
    ])  # fmt: skip
    if not (_fit if torch.compiler.is_compiling() else _remembered)(told):
        _refuse(who, {name: (part, *_read(words)) for name, (part, words) in table.items() if part is not None})


def check_same_shapes(what: str, ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    """Raise ValueError, in words, unless the weights `theirs` have the names and shapes of ours, those of a `what`."""
    ours, theirs = ({name: tuple(part.shape) for name, part in parts.items()} for parts in (ours, theirs))
    if differ := sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)):
        raise ValueError(f"The weights are not those of a {what} of these sizes: {', '.join(differ[:3])} ...")


def broadcasts(part: Tensor, shape: tuple[int, ...]) -> bool:
    """Whether a tensor can be added to one of this shape without making it larger."""
    sizes = zip(reversed(part.shape), reversed(shape), strict=False)
    return part.ndim <= len(shape) and all(mine == 1 or mine == theirs for mine, theirs in sizes)


def _fit(told: tuple[tuple[str, torch.Size | None, torch.dtype | None], ...]) -> bool:
    """Whether each tensor's shape and dtype, None for what is no tensor, are as its words say."""
    sizes: dict[str, int] = {}
    for text, shape, dtype in told:
        kind, leading, words = _read(text)
        before = -1 if shape is None else len(shape) - len(words)
        if before < 0 or before and not leading or not _is(dtype, kind):
            return False
        for size, (word, full) in zip(shape[before:], words, strict=True):
            if full and size == 0 or size != (word if isinstance(word, int) else sizes.setdefault(word, size)):
                return False
    return True


_remembered = lru_cache(4096)(_fit)  # most tables come again and again; a compiler reads them anew, once


def _read(text: str) -> tuple[str, bool, tuple[tuple[str | int, bool], ...]]:
    """What the numbers are, whether other sizes may stand in front, and each size with whether it wants 1 or more."""
    kind, *sizes = text.split()
    if kind not in ("int", "any") and not isinstance(getattr(torch, kind, None), torch.dtype):
        kind, sizes = "real", [kind, *sizes]
    leading = sizes[:1] == ["..."]
    named = [(size.removesuffix("+"), size.endswith("+")) for size in sizes[leading:]]
    return kind, leading, tuple([(int(size) if size.isdecimal() else size, full) for size, full in named])


def _is(dtype: torch.dtype, kind: str) -> bool:
    """Whether numbers of this dtype are of this kind."""
    if kind == "real":
        return dtype.is_floating_point
    if kind == "int":
        return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
    return kind == "any" or dtype == getattr(torch, kind)


def _refuse(who: str, table: dict[str, tuple]) -> None:
    """Raise the sentence for a table in which something does not fit: for its types, then for its shapes."""
    for name, (part, kind, leading, words) in table.items():
        wanted = f"{name} {_told(leading, words)}" if words else name
        if not isinstance(part, Tensor):
            raise TypeError(f"{who} needs {wanted} as a tensor; got {type(part).__name__}.")
        if kind == "real" and not part.is_floating_point():
            raise TypeError(
                f"{who} computes with vectors of real numbers; got {name} of {part.dtype}: embed token ids first, or "
                "convert with .float()."
            )
        if not _is(part.dtype, kind):
            way = ": a comparison gives one, such as ids != padding." if kind == "bool" else "."
            raise TypeError(f"{who} needs {wanted} of {_NUMBERS.get(kind, kind)}; got {part.dtype}{way}")
    needs = [f"{name} {_told(leading, words)}" for name, (_, _, leading, words) in table.items()]
    empty = ", not empty" if any(full for *_, words in table.values() for _, full in words) else ""
    got = [str(tuple(part.shape)) for part, *_ in table.values()]
    raise ValueError(f"{who} needs {_listed(needs)}{empty}; got {_listed(got)}.")


def _told(leading: bool, words: tuple) -> str:
    return f"({', '.join(['...'] * leading + [_WORDS.get(word, str(word)) for word, _ in words])})"


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
