"""Lesson 09, the sentence of patches: an image cut and put together again, places for another grid.

Maps of attention, and a start that misplaces, are in `vit_attention.py`.
"""

import torch
import torch.nn.functional as F

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, narrowed, pulled

MIXED_UP = "Five images of 4 x 7 patches come out wrong: have you mixed up two lengths that were equal until here?"


def my_patches(images, P):
    B, C, H, W = images.shape
    cut = images.reshape(B, C, H // P, P, W // P, P)  # (B, C, h, P, w, P)
    cut = cut.permute(0, 2, 4, 1, 3, 5)  # (B, h, w, C, P, P): first which patch, then what is in it
    return cut.flatten(3).flatten(1, 2)  # (B, h w, C P P)


def pictures(B=2, C=3, H=4, W=6, P=2, dtype=torch.float64):
    """Images (B, C, H, W) and the side of a patch."""
    return torch.randn(B, C, H, W, dtype=dtype), P


def cut_in(order):
    """A wrong answer to `my_patches`: the dimensions (B, C, h, P, w, P) in another order."""

    def patches(images, P):
        cut = images.unflatten(3, (-1, P)).unflatten(2, (-1, P))  # (B, C, h, P, w, P)
        return cut.permute(order).flatten(3).flatten(1, 2)

    return patches


def far_pixels(images, P):
    cut = images.unflatten(3, (P, -1)).unflatten(2, (P, -1))  # (B, C, P, h, P, w)
    return cut.permute(0, 3, 5, 1, 2, 4).flatten(3).flatten(1, 2)


PATCHES = Exercise(
    solution=my_patches,
    cases=(
        Case(
            pictures,
            narrowed(
                (
                    lambda given: (given["images"][:1, :1, :2, :2], 2),
                    "A single patch of one channel is wrong already: it is the image itself, row by row.",
                ),
                (
                    lambda given: (given["images"][:1, :, :2, :2], 2),
                    "With one channel a patch is right, with three it is not: channel by channel, all of one first.",
                ),
                (
                    lambda given: (given["images"][:1, :1], 2),
                    "One patch is right, 2 x 3 of them are not: row by row, from left to right, as one reads.",
                ),
                otherwise="One image of one channel is right, several are not: each has its own patches.",
            ),
        ),
        Case(lambda: pictures(1, 1, 3, 3, 1), "With P = 1 each pixel is a patch. There yours is wrong."),
        Case(lambda: pictures(1, 2, 3, 6, 3), OTHER_SIZES),
        Case(lambda: pictures(5, 3, 8, 14), MIXED_UP),
        Case(pictures, NO_GRADIENT, ask=pulled),
        Case(lambda: pictures(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "pieces_of_lines": lambda images, P: images.reshape(len(images), -1, images.shape[1] * P * P),
        "column_by_column": cut_in((0, 4, 2, 1, 3, 5)),
        "rows_exchanged": cut_in((0, 2, 4, 1, 5, 3)),
        "channels_side_by_side": cut_in((0, 2, 4, 3, 5, 1)),
        "far_pixels": far_pixels,
        "transposed": lambda images, P: my_patches(images, P).mT,
        "overlapping": lambda images, P: F.unfold(images, P).mT,
    },
)


def my_image(patches, C, H, W):
    P = round((patches.shape[2] / C) ** 0.5)  # a patch holds C P P numbers
    cut = patches.reshape(len(patches), H // P, W // P, C, P, P)  # (B, h, w, C, P, P)
    cut = cut.permute(0, 3, 1, 4, 2, 5)  # (B, C, h, P, w, P): each row of pixels beside its row of patches
    return cut.reshape(len(patches), C, H, W)


def pieces(B=2, C=3, H=4, W=6, P=2, dtype=torch.float64):
    """Patches (B, N, C P P) and the image's channels, height and width."""
    return torch.randn(B, H // P * (W // P), C * P * P, dtype=dtype), C, H, W


def joined_in(order):
    """A wrong answer to `my_image`: the dimensions (B, h, w, C, P, P) in another order."""

    def image(patches, C, H, W):
        P = round((patches.shape[2] / C) ** 0.5)
        return patches.reshape(-1, H // P, W // P, C, P, P).permute(order).reshape(-1, C, H, W)

    return image


def channels_side_by_side(patches, C, H, W):
    return my_image(patches.unflatten(2, (-1, C)).mT.flatten(2), C, H, W)


IMAGE = Exercise(
    solution=my_image,
    cases=(
        Case(
            pieces,
            narrowed(
                (
                    lambda given: (given["patches"][:1, :1, :4], 1, 2, 2),
                    "A single patch of one channel is wrong already: there the numbers stay in their order.",
                ),
                (
                    lambda given: (given["patches"][:1, :, :4], 1, 4, 6),
                    "One patch is right, 2 x 3 of them are not: which dimensions lie beside each other in the end?",
                ),
                otherwise="One channel is right, several are not: a patch holds one channel whole, then the next.",
            ),
        ),
        Case(lambda: pieces(1, 1, 3, 3, 1), "With P = 1 each patch is a pixel. There yours is wrong."),
        Case(lambda: pieces(1, 2, 3, 6, 3), OTHER_SIZES),
        Case(lambda: pieces(5, 3, 8, 14), MIXED_UP),
        Case(
            lambda: pieces(1, 1, 64, 128, 64), "With P = 64 it is wrong: P is the square root of length / C, no more."
        ),
        Case(pieces, NO_GRADIENT, ask=pulled),
        Case(lambda: pieces(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "not_permuted": lambda patches, C, H, W: patches.reshape(-1, C, H, W),
        "same_permute": joined_in((0, 2, 4, 1, 3, 5)),
        "grid_then_sides": joined_in((0, 3, 1, 2, 4, 5)),
        "first_pixels_first": joined_in((0, 3, 4, 1, 5, 2)),
        "patches_turned": joined_in((0, 3, 1, 5, 2, 4)),
        "channels_side_by_side": channels_side_by_side,
        "channels_last": lambda patches, C, H, W: my_image(patches, C, H, W).reshape(-1, H, W, C),
    },
)


def my_places(places, grid, new_grid):
    cls, rest = places[:1], places[1:]  # [CLS] stands nowhere on the grid: its row stays
    picture = rest.T.reshape(1, -1, *grid)  # (1, D, h, w): D pictures, one a number of the vectors
    picture = F.interpolate(picture, new_grid, mode="bicubic")  # (1, D, h', w')
    return torch.cat([cls, picture[0].flatten(1).T])  # (1 + h' w', D)


def table(grid=(2, 3), new_grid=(4, 5), D=4, dtype=torch.float64):
    """Places (1 + h w, D), the grid that they are for, and another."""
    return torch.randn(1 + grid[0] * grid[1], D, dtype=dtype), grid, new_grid


def stretched(**how):
    """A wrong answer to `my_places`: the grid is interpolated in another way."""

    def places_by(places, grid, new_grid):
        picture = F.interpolate(places[1:].T.reshape(1, -1, *grid), new_grid, **how)
        return torch.cat([places[:1], picture[0].flatten(1).T])

    return places_by


def not_transposed(places, grid, new_grid):
    mixed = places[1:].reshape(-1, len(places) - 1).T
    return my_places(torch.cat([places[:1], mixed]), grid, new_grid)


def one_line(places, grid, new_grid):
    line = F.interpolate(places[1:].T[None], new_grid[0] * new_grid[1], mode="linear")
    return torch.cat([places[:1], line[0].T])


PLACES = Exercise(
    solution=my_places,
    cases=(
        Case(
            table,
            narrowed(
                (
                    lambda given: (given["places"], (2, 3), (2, 3)),
                    "On the same grid nothing changes. There yours is wrong.",
                ),
                (
                    lambda given: (given["places"][:4], (1, 3), (1, 5)),
                    "The same grid is right, a single row of patches that grows from 3 to 5 is wrong.",
                ),
                otherwise="One row of patches is right, several are not: down and across, in this order.",
            ),
        ),
        Case(lambda: table((4, 5), (2, 3)), "To a smaller grid it is wrong."),
        Case(lambda: table((1, 1), (2, 2), 1), OTHER_SIZES),
        Case(
            lambda: table((3, 2), (3, 4), 7),
            "With seven numbers per position and a grid that grows to one side it is wrong.",
        ),
        Case(table, NO_GRADIENT, ask=pulled),
        Case(lambda: table(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "not_transposed": not_transposed,
        "cls_lost": lambda places, grid, new_grid: my_places(places, grid, new_grid)[1:],
        "cls_last": lambda places, grid, new_grid: my_places(places, grid, new_grid).roll(-1, 0),
        "bilinear": stretched(mode="bilinear"),
        "nearest": stretched(mode="nearest"),
        "align_corners": stretched(mode="bicubic", align_corners=True),
        "grid_exchanged": lambda places, grid, new_grid: my_places(places, grid[::-1], new_grid),
        "one_line": one_line,
    },
)

EXERCISES = [PATCHES, IMAGE, PLACES]
