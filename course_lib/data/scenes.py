"""Scenes: up to five handwritten digits on one canvas, each with its box, for networks that answer with a list.

for images, labels, boxes in batches(32): ...      # endless, newly sampled
images, labels, boxes = scenes("test", 500)        # the same 500 each time, in other hands than train's
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.data import SPLITS, check_split, digits, read_card, sha256

VERSION = 1  # of how scenes are drawn: raise it when it changes
SIDE, MOST = 32, 5  # pixels of a canvas's side, and the most objects in a scene
SMALLEST, LARGEST = 8, 14  # pixels of a digit's longer side
INK = 0.25  # a cell of a digit has ink from here on: what is fainter lies outside the box
TRIES = 16  # places that are tried for an object; where none is free, it is left out
# The most that two boxes may share, intersection over union. Crowded scenes have three objects or more.
SHARED = {False: 0.02, True: 0.4}
_SEEDS = {"train": 1, "validation": 2, "test": 3}


class Scenes(NamedTuple):
    """Scenes, padded to MOST objects: label -1 and a box of zeros where there is none.

    images (B, 1, SIDE, SIDE), ink from 0 to 1; labels int64 (B, MOST), the digits; boxes (B, MOST, 4): the centre's x
    and y, width and height, each a part of the canvas's side. The objects of a scene come in no order.
    """

    images: Tensor
    labels: Tensor
    boxes: Tensor


def scenes(split: str, n: int, crowded: bool = False) -> Scenes:
    """The first n scenes of a split, the same each time. Raises ValueError for an unknown split or n below 1."""
    _check_number("n", n)
    return draw(split, n, torch.Generator().manual_seed(_SEEDS[_known(split)]), crowded)


def batches(batch: int, seed: int = 0, split: str = "train", crowded: bool = False) -> Iterator[Scenes]:
    """Endless batches of scenes, each newly sampled. Raises ValueError for an unknown split or a batch below 1."""
    _check_number("batch", batch)
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield draw(split, batch, generator, crowded)


def draw(split: str, n: int, generator: torch.Generator, crowded: bool = False) -> Scenes:
    """n scenes of the digits of one split: how many objects, which, how large and where, from the generator."""
    ink, names, edges = _ink(_known(split))
    least = 3 if crowded else 0
    wanted = torch.randint(least, MOST + 1, (n, 1), generator=generator) > torch.arange(MOST)  # (B, M)
    which = torch.randint(len(names), (n, MOST), generator=generator)
    sides = SMALLEST + (LARGEST - SMALLEST) * torch.rand(n, MOST, generator=generator)
    low, high = edges[which].unbind(-2)  # (B, M, 2) each: where the ink begins and ends, in cells, x before y
    zoom = sides / (high - low).amax(-1)  # pixels a cell
    corners, there = _placed((high - low) * zoom[..., None], wanted, SHARED[crowded], generator)
    images = _painted(ink[which], corners[..., :2] - low * zoom[..., None], zoom, there)
    boxes = torch.cat([(corners[..., :2] + corners[..., 2:]) / 2, corners[..., 2:] - corners[..., :2]], dim=-1) / SIDE
    # Where an object found no place there is a gap: a stable sort brings what is there to the front.
    order = (~there).int().sort(dim=1, stable=True).indices
    labels = torch.where(there, names[which], -1).gather(1, order)
    return Scenes(images, labels, (boxes * there[..., None]).gather(1, order[..., None].expand(-1, -1, 4)))


def _placed(sizes: Tensor, wanted: Tensor, shared: float, generator) -> tuple[Tensor, Tensor]:
    """A place for one object after the other: sizes (B, M, 2) -> corners (B, M, 4) in pixels, and which found one."""
    n, most = wanted.shape
    corners, there = torch.zeros(n, most, 4), torch.zeros(n, most, dtype=torch.bool)
    for m in range(most):
        free = SIDE - sizes[:, m, None]  # (B, 1, 2)
        low = torch.rand(n, TRIES, 2, generator=generator) * free  # (B, T, 2)
        tried = torch.cat([low, low + sizes[:, m, None]], dim=-1)  # (B, T, 4)
        fits = ~((_shared(tried, corners[:, :m]) > shared) & there[:, None, :m]).any(-1)  # (B, T)
        first = fits.int().argmax(1)  # the first that fits
        corners[:, m] = tried[torch.arange(n), first]
        there[:, m] = fits.any(1) & wanted[:, m]
    return corners, there


def _shared(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes (B, T, 4) and (B, m, 4), by their corners: (B, T, m)."""
    a, b = a[:, :, None], b[:, None]
    both = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    areas = [(box[..., 2:] - box[..., :2]).prod(-1) for box in (a, b)]
    return both / (areas[0] + areas[1] - both).clamp(min=1e-6)


def _painted(ink: Tensor, low: Tensor, zoom: Tensor, there: Tensor) -> Tensor:
    """Digits (B, M, 8, 8) on canvases, enlarged -> (B, 1, SIDE, SIDE).

    low (B, M, 2): where the first cell begins, in pixels; zoom (B, M): pixels a cell. Each pixel takes the ink at its
    middle, between four cells; where two digits lie on each other, the darker.
    """
    middles = torch.arange(SIDE) + 0.5
    cells = (middles - low[..., None]) / zoom[..., None, None]  # (B, M, 2, SIDE): each pixel's place, in cells
    x, y = (2 * cells / 8 - 1).unbind(2)  # as grid_sample counts: -1 to 1
    n, most, side = x.shape
    grid = torch.stack([x[:, :, None].expand(-1, -1, side, -1), y[..., None].expand(-1, -1, -1, side)], dim=-1)
    each = F.grid_sample(ink.flatten(0, 1)[:, None], grid.flatten(0, 1), align_corners=False)  # (B M, 1, SIDE, SIDE)
    return (each.view(n, most, side, side) * there[..., None, None]).amax(1, keepdim=True)  # (B, 1, SIDE, SIDE)


@cache
def _ink(split: str) -> tuple[Tensor, Tensor, Tensor]:
    """A split's digits (N, 8, 8), their names (N,), and where their ink begins and ends (N, 2, 2), x before y."""
    images, names = digits.arrays(split)
    edges = np.zeros((len(images), 2, 2), dtype=np.float32)
    for n, image in enumerate(images >= INK):
        for axis in (0, 1):
            cells = np.flatnonzero(image.any(axis))  # over the rows: the columns that have ink
            edges[n, :, axis] = cells[0], cells[-1] + 1
    return torch.from_numpy(images), torch.from_numpy(names), torch.from_numpy(edges)


def _known(split: str) -> str:
    check_split(split)
    return split


def _check_number(name: str, number: int) -> None:
    if number < 1:
        raise ValueError(f"{name} is a number of scenes, 1 or more; got {number}.")


def checksum() -> str:
    """SHA-256 of the boxes and labels of the first 100 scenes of every split, the boxes to a hundredth of a pixel."""
    bits = b""
    for split in SPLITS:
        found = scenes(split, 100)
        bits += (found.boxes * SIDE * 100).round().to(torch.int32).numpy().tobytes() + found.labels.numpy().tobytes()
    return sha256(bits)


def card() -> str:
    """The card of the scenes, in Markdown."""
    return read_card("scenes")


def shares(found: Scenes) -> list[float]:
    """The share of scenes with 0, 1, ... MOST objects."""
    counts = (found.labels >= 0).sum(1)
    return [(counts == n).double().mean().item() for n in range(MOST + 1)]
