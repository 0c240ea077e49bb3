"""Boxes: two ways to write one, and how well two of them agree. Lesson 10.

A box is (x, y, width, height) with x and y of its centre, or its corners (left, top, right, bottom); y grows downwards.
Shapes: ... any sizes in front; B batch, Q found boxes, M true boxes. a[:, :, None] and b[:, None] are all pairs. Boxes
in half precision give results in single: the small difference of two corners would lose its digits.
"""

import torch
from torch import Tensor

from course_lib.inputs.sequences import widened
from course_lib.inputs.shapes import check_shapes


def to_corners(boxes: Tensor) -> Tensor:
    """Centres and sizes to corners: (..., 4) -> (..., 4)."""
    check_shapes("to_corners", boxes=(boxes, "... 4"))
    centre, size = widened(boxes).split(2, dim=-1)
    return torch.cat([centre - size / 2, centre + size / 2], dim=-1)


def to_centres(corners: Tensor) -> Tensor:
    """Corners to centres and sizes: (..., 4) -> (..., 4)."""
    check_shapes("to_centres", corners=(corners, "... 4"))
    low, high = widened(corners).split(2, dim=-1)
    return torch.cat([(low + high) / 2, high - low], dim=-1)


def area(corners: Tensor) -> Tensor:
    """Width times height, 0 where right is left of left: (..., 4) -> (...)."""
    check_shapes("area", corners=(corners, "... 4"))
    low, high = widened(corners).split(2, dim=-1)
    width, height = (high - low).clamp(min=0).unbind(-1)
    return width * height


def intersection(a: Tensor, b: Tensor) -> Tensor:
    """The area that both cover: corners (..., 4) and (..., 4), which may broadcast -> (...)."""
    check_shapes("intersection", a=(a, "... 4"), b=(b, "... 4"))
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    return area(torch.cat([low, high], dim=-1))


def iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union, 0 apart and 1 equal: corners (..., 4) and (..., 4), which may broadcast -> (...).

    Its gradient is 0 where the boxes do not touch. Two boxes without any area have 0.
    """
    both = intersection(a, b)
    return _part(both, area(a) + area(b) - both)


def giou(a: Tensor, b: Tensor) -> Tensor:
    """IoU - (hull - union) / hull, from -1 to 1 (Rezatofighi et al., 2019, algorithm 1): as `iou` -> (...).

    hull: the smallest box around both. It is IoU less the share of the hull that neither covers, so two boxes that do
    not touch still have a gradient: towards each other. Where the hull has no area it is IoU, 0.
    """
    both = intersection(a, b)
    union = area(a) + area(b) - both
    low, high = torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])
    hull = area(torch.cat([low, high], dim=-1))
    return _part(both, union) - _part(hull - union, hull)


def _part(some: Tensor, whole: Tensor) -> Tensor:
    """some / whole, and 0 where whole is 0, with a gradient that is finite there."""
    return torch.where(whole > 0, some, 0) / torch.where(whole > 0, whole, 1)
