"""Letters and what they are called: each image of a glyph with all names that are right for it. Lesson 11.

known = named("train")                # known.rows[0].name == "LATIN CAPITAL LETTER A"
images, own, right = next(batches(known, 128))

A name may be new, a typeface may be new, or both (`PARTS`). One image may have several names: A is Latin, Greek and
Cyrillic. Each of them is right (`Named.right`), whichever is asked for.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.data.glyphs import Glyph, letters

# By the two splits of `glyphs`, of faces and of names. A new name has marks: letter and marks were met, not together.
PARTS = {
    "train": ("train", "train"),
    "new names": ("train", "test"),
    "new faces": ("test", "train"),
    "both new": ("test", "test"),
    "validation names": ("train", "validation"),
    "validation faces": ("validation", "train"),
    "validation both": ("validation", "validation"),
}


class Named(NamedTuple):
    """Images and their names, of which `names` lists all.

    images (N, 1, 32, 32), ink from 0 to 1; own int64 (N,), the index in `names` of the row's name;
    right bool (N, V), which names are right for an image: its own, and those of equal images in its typeface; rows:
    what else is known of each.
    """

    images: Tensor
    own: Tensor
    right: Tensor
    rows: list[Glyph]


@cache
def names() -> tuple[str, ...]:
    """The V names that Latin, Greek and Cyrillic letters have in Unicode, in alphabetical order."""
    return tuple(sorted({row.name for row in letters()[1]}))


@cache
def learned_names() -> Tensor:
    """Which of `names` occur in the part "train": bool (V,)."""
    return torch.zeros(len(names()), dtype=torch.bool).index_fill(0, named("train").own, True)


@cache
def named(part: str) -> Named:
    """The letters of one of `PARTS`: a row for each name of each image in "train", elsewhere a row for each image.

    Where typefaces are new and names are not, images are left out that have no name of the part "train". Raises
    ValueError for another part.
    """
    _check_part(part)
    images, rows = letters(*PARTS[part])
    place = {name: n for n, name in enumerate(names())}
    right = torch.zeros(len(rows), len(place), dtype=torch.bool)
    for n, row in enumerate(rows):
        right[n, [place[name] for name in (row.name, *row.alike) if name in place]] = True
    own = torch.tensor([place[row.name] for row in rows])
    if part == "train":
        return Named(torch.from_numpy(images)[:, None], own, right, rows)
    first = {(row.face, frozenset((row.name, *row.alike))): n for n, row in reversed([*enumerate(rows)])}
    at = torch.tensor(sorted(first.values()))
    if PARTS[part][1] == "train":
        at = at[right[at][:, learned_names()].any(dim=1)]
    return Named(torch.from_numpy(images)[at][:, None], own[at], right[at], [rows[n] for n in at.tolist()])


def batches(known: Named, batch: int, seed: int = 0) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Endless batches: images (B, 1, 32, 32), names int64 (B,), right bool (B, B), is name j right for image i?

    Every row once, in a new order, then all over again; a rest that fills no batch is left out. Raises ValueError for a
    batch below 1 or above the number of rows.
    """
    _check_size(known, batch)
    generator = torch.Generator().manual_seed(seed)
    while True:
        for some in torch.randperm(len(known.own), generator=generator).split(batch):
            if len(some) == batch:
                own = known.own[some]
                yield known.images[some], own, known.right[some][:, own]


def hits(scores: Tensor, right: Tensor, k: int = 1) -> Tensor:
    """Whether a right one is among the k that score best: scores (N, M), right bool (N, M) -> bool (N,)."""
    return right.gather(1, scores.topk(min(k, scores.shape[1]), dim=1).indices).any(dim=1)


def _check_part(part: str) -> None:
    if part not in PARTS:
        raise ValueError(f"part must be one of {', '.join(map(repr, PARTS))}; got {part!r}.")


def _check_size(known: Named, batch: int) -> None:
    if not 1 <= batch <= len(known.own):
        raise ValueError(f"A batch holds 1 to {len(known.own)} of these rows; got {batch}.")
