"""What attention sees: rollout through the layers, how far a head looks, and patches covered to test it. Lesson 09.

Shapes: B batch, H heads, T = 1 + N places with [CLS] first, N = h w patches, P side of a patch, L layers.
"""

import torch
from torch import Tensor

from course_lib.inputs.shapes import check_shapes
from course_lib.vision.patches import patchify, unpatchify


def rollout(maps: list[Tensor]) -> Tensor:
    """How much of each place's input stands in each place after the last layer, if attention alone moved anything.

        rows of (mean over heads of A_l + I), each divided by its sum;   R = A_L ... A_2 A_1
        (Abnar and Zuidema, 2020, section 3; the identity is the residual, taken to weigh as much as attention)

    maps: L tensors (B, H, T, T), the first layer's first -> (B, T, T), each row adds up to 1. R[:, 0, 1:] is what [CLS]
    has from each patch. Feed-forward networks, norms and values are left out: it is a picture of where it could come
    from, not of what counts. Raises ValueError for maps that do not fit together.
    """
    check_shapes("rollout", **{f"map_{i}": (weights, "B H T T") for i, weights in enumerate(maps)})
    mixed = torch.eye(maps[0].shape[-1], dtype=maps[0].dtype, device=maps[0].device)  # (T, T)
    for weights in maps:
        layer = weights.mean(dim=1) + torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
        mixed = (layer / layer.sum(dim=-1, keepdim=True)) @ mixed  # (B, T, T)
    return mixed


def attention_distance(weights: Tensor, grid: tuple[int, int], patch: int = 1) -> Tensor:
    """How far, in pixels, each head looks on average (Dosovitskiy et al., 2021, appendix D.7, figure 11).

        for every patch q: sum over patches k of weight(q, k) * distance(q, k) / sum over k of weight(q, k);
        then the mean over q

    weights (B, H, T, T) with T = N, or T = 1 + N: [CLS], which stands nowhere, is left out on both sides -> (B, H).
    The distance is that of the patches' centres. A patch that looks at [CLS] alone counts as looking nowhere, 0. Raises
    ValueError for weights that do not fit the grid.
    """
    _check_grid(weights, grid)
    h, w = grid
    rows, columns = torch.arange(h, device=weights.device), torch.arange(w, device=weights.device)
    place = torch.stack([rows.repeat_interleave(w), columns.repeat(h)], dim=1).to(weights.dtype) * patch  # (N, 2)
    distance = (place[:, None] - place).square().sum(dim=-1).sqrt()  # (N, N)
    among = weights[..., -h * w :, -h * w :]  # (B, H, N, N)
    total = among.sum(dim=-1)  # (B, H, N)
    far = (among * distance).sum(dim=-1) / total.clamp(min=torch.finfo(total.dtype).tiny)
    return far.mean(dim=-1)


def most(scores: Tensor, share: float) -> Tensor:
    """The places with the highest scores, so large a share of them, at least one: (B, N) -> bool (B, N).

    Of equal scores, the earlier places.
    """
    check_shapes("most", scores=(scores, "any B+ places+"))
    n = max(1, round(share * scores.shape[1]))
    best = scores.sort(dim=1, descending=True, stable=True).indices[:, :n]  # (B, n)
    return torch.zeros_like(scores, dtype=torch.bool).scatter(1, best, True)


def cover(images: Tensor, covered: Tensor, patch: int, value: float = 0.0) -> Tensor:
    """Images (B, C, H, W) with some of their patches painted over: covered bool (B, N) -> as the images.

    value: the colour; 0 is paper where an image is ink. The control for every map of what a model "sees": does covering
    the patches that it marks change the answer more than covering others? Raises ValueError for what does not fit.
    """
    patches = patchify(images, patch)  # (B, N, C P P)
    check_shapes("cover", patches=(patches, "any B N width"), covered=(covered, "bool B N"))
    patches = patches.masked_fill(covered[:, :, None], value)
    return unpatchify(patches, *images.shape[-2:], channels=images.shape[1])


def brightness(images: Tensor, patch: int) -> Tensor:
    """The mean value of each patch, which needs no model: images (B, C, H, W) -> (B, N). Raises as `patchify` does."""
    return patchify(images, patch).mean(dim=-1)


def _check_grid(weights: Tensor, grid: tuple[int, int]) -> None:
    check_shapes("attention_distance", weights=(weights, "B H T T"))
    if weights.shape[-1] - grid[0] * grid[1] not in (0, 1):
        raise ValueError(
            f"A grid of {grid} has {grid[0] * grid[1]} places, or one more, [CLS]'s, in front; got weights of "
            f"{weights.shape[-1]}."
        )
