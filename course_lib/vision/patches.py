"""An image as a sentence of patches: cut and put together again, embedded, with places on a grid. Lesson 09.

Shapes: B batch, C channels, H height, W width, P side of a patch, h and w the grid, N = h w patches, D d_model. Patches
stand row by row, as one reads; the numbers of a patch go channel by channel, and row by row within each.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.inputs.shapes import check_shapes


def grid_of(height: int, width: int, patch: int) -> tuple[int, int]:
    """How many patches cover an image, down and across: h = H / P and w = W / P, rounded up."""
    return -(-height // patch), -(-width // patch)


def pad_to_patches(images: Tensor, patch: int) -> Tensor:
    """Zeros below and to the right, until whole patches fit: (B, C, H, W) -> (B, C, h P, w P)."""
    check_shapes("pad_to_patches", images=(images, "any B C+ height+ width+"))
    (H, W), (h, w) = images.shape[-2:], grid_of(*images.shape[-2:], patch)
    return F.pad(images, (0, w * patch - W, 0, h * patch - H))


def patchify(images: Tensor, patch: int) -> Tensor:
    """Cut images into patches (Dosovitskiy et al., 2021, section 3.1): (B, C, H, W) -> (B, N, C P P).

    Raises ValueError where H or W is no multiple of P (`pad_to_patches` makes it one), and for other shapes.
    """
    check_shapes("patchify", images=(images, "any B C+ height+ width+"))
    _check_fits(*images.shape[-2:], patch)
    B, C, H, W = images.shape
    cut = images.reshape(B, C, H // patch, patch, W // patch, patch)  # (B, C, h, P, w, P)
    return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (B, h, w, C, P, P) -> (B, N, C P P)


def unpatchify(patches: Tensor, height: int, width: int, channels: int = 1) -> Tensor:
    """The inverse of `patchify`, and of `pad_to_patches` before it: (B, N, C P P) -> (B, C, H, W).

    The side of a patch follows from its length. What was padded is cut off. Raises ValueError for as many patches as
    do not cover such an image, and for a length that is no square for each channel.
    """
    P = _check_patches(patches, height, width, channels)
    h, w = grid_of(height, width, P)
    cut = patches.unflatten(2, (channels, P, P)).unflatten(1, (h, w))  # (B, h, w, C, P, P)
    return cut.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)[..., :height, :width]  # (B, C, H, W)


def only_seen(patches: Tensor, seen: Tensor) -> Tensor:
    """Of each image the patches that are seen, in this order: (B, N, F), int64 (B, n) -> (B, n, F).

    Raises TypeError for other dtypes, ValueError for other shapes and for none at all.
    """
    check_shapes("only_seen", patches=(patches, "any B N width"), seen=(seen, "int64 B n+"))
    return patches.gather(1, seen[:, :, None].expand(-1, -1, patches.shape[2]))


class PatchEmbedding(nn.Module):
    """patches E: each patch, as one long vector, times one matrix (Dosovitskiy et al., 2021, equation 1).

    images (B, C, H, W) -> (B, N, D). That is a convolution whose steps are as long as its window is wide, and
    `as_convolution` gives it. Raises ValueError for other channels and images that whole patches of P do not fill.
    """

    def __init__(self, channels: int, patch: int, d_model: int):
        super().__init__()
        self.channels, self.patch = channels, patch
        self.project = nn.Linear(channels * patch * patch, d_model)

    def forward(self, images: Tensor) -> Tensor:
        check_shapes("PatchEmbedding", images=(images, f"any B {self.channels} height+ width+"))
        return self.project(patchify(images, self.patch))  # (B, N, D)

    def as_convolution(self) -> nn.Conv2d:
        """The convolution that computes the same, (B, C, H, W) -> (B, D, h, w), with a copy of these weights."""
        weight = self.project.weight
        same = nn.Conv2d(self.channels, len(weight), self.patch, stride=self.patch).to(weight)
        with torch.no_grad():
            same.weight.copy_(weight.view_as(same.weight))
            same.bias.copy_(self.project.bias)
        return same

    @classmethod
    def from_convolution(cls, layer: nn.Conv2d) -> "PatchEmbedding":
        """Our embedding with the weights of a convolution; raises ValueError for one whose steps are not its window."""
        _check_convolution(layer)
        ours = cls(layer.in_channels, layer.kernel_size[0], layer.out_channels).to(layer.weight)
        with torch.no_grad():
            ours.project.weight.copy_(layer.weight.flatten(1))
            ours.project.bias.copy_(layer.bias)
        return ours


def resize_places(
    places: Tensor, grid: tuple[int, int], new_grid: tuple[int, int], before: int = 1, mode: str = "bicubic"
) -> Tensor:
    """Learned places for another resolution: the same picture of vectors, drawn on another grid.

    places (before + h w, D) -> (before + h' w', D) (Dosovitskiy et al., 2021, section 3.2: "2D interpolation"). The
    first `before` rows, [CLS]'s, have no place in the picture and stay. mode: "bicubic", as Hugging Face has it, or
    "bilinear", as the paper's own code. Raises ValueError for a table that does not fit the grid.
    """
    _check_places(places, grid, before)
    if grid == new_grid:
        return places
    first, picture = places[:before], places[before:].T.unflatten(1, grid)  # (before, D), (D, h, w)
    picture = F.interpolate(picture[None], new_grid, mode=mode, align_corners=False)[0]  # (D, h', w')
    return torch.cat([first, picture.flatten(1).T])


def place_similarity(places: Tensor, grid: tuple[int, int], before: int = 1) -> Tensor:
    """The cosine between the vectors of any two places of the grid (Dosovitskiy et al., 2021, figure 7, middle).

    places (before + h w, D) -> (h, w, h, w): [i, j] is a map of who is like place (i, j). Raises as `resize_places`.
    """
    _check_places(places, grid, before)
    vectors = F.normalize(places[before:], dim=-1)  # (h w, D)
    return (vectors @ vectors.T).unflatten(1, grid).unflatten(0, grid)  # (h, w, h, w)


def _check_fits(height: int, width: int, patch: int) -> None:
    if height % patch or width % patch:
        h, w = grid_of(height, width, patch)
        raise ValueError(
            f"Whole patches of {patch} x {patch} do not fill an image of {height} x {width}: choose a patch that "
            f"divides both sides, or pad the image to {h * patch} x {w * patch} (pad_to_patches, or pad=True)."
        )


def _check_patches(patches: Tensor, height: int, width: int, channels: int) -> int:
    """The side of a patch."""
    length = patches.shape[-1] if patches.ndim == 3 else 0
    P = round((length / channels) ** 0.5)
    if not length or channels * P * P != length:
        raise ValueError(
            f"Patches must be (batch, number, channels * side * side), here with {channels} channel"
            f"{'s' * (channels != 1)} and square; got {tuple(patches.shape)}."
        )
    h, w = grid_of(height, width, P)
    if patches.shape[1] != h * w:
        raise ValueError(
            f"An image of {height} x {width} is {h} x {w} = {h * w} patches of {P} x {P}; got {patches.shape[1]}."
        )
    return P


def _check_convolution(layer: nn.Conv2d) -> None:
    square = layer.kernel_size == layer.stride and layer.kernel_size[0] == layer.kernel_size[1]
    plain = layer.padding in (0, (0, 0), "valid") and layer.dilation == (1, 1) and layer.groups == 1
    if not (square and plain) or layer.bias is None:
        raise ValueError(
            "A patch embedding is a convolution with a square window, steps as long as the window is wide, a bias, and "
            f"no padding, dilation or groups; got {layer}."
        )


def _check_places(places: Tensor, grid: tuple[int, int], before: int) -> None:
    if places.ndim != 2 or len(places) != before + grid[0] * grid[1]:
        raise ValueError(
            f"A grid of {grid[0]} x {grid[1]} with {before} before it has places ({before + grid[0] * grid[1]}, "
            f"width); got {tuple(places.shape)}."
        )
