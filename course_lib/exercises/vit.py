"""Lesson 09, the sentence of patches: an image cut and put together again, places for another grid.

Maps of attention are in `vit_attention.py`, the start that puts its places wrongly and what is asked in
`vit_questions.py`.
"""

import torch
import torch.nn.functional as F

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips

MIXED_UP = "Five images of 4 x 7 patches come out wrong: have you mixed up two lengths that were equal until here?"


def my_patches(images, P):
    B, C, H, W = images.shape
    cut = images.reshape(B, C, H // P, P, W // P, P)  # (B, C, h, P, w, P)
    cut = cut.permute(0, 2, 4, 1, 3, 5)  # (B, h, w, C, P, P): first which patch, then what is in it
    return cut.flatten(3).flatten(1, 2)  # (B, h w, C P P)


def pictures(B=2, C=3, H=4, W=6, P=2, dtype=torch.float64):
    """Images (B, C, H, W) and the side of a patch."""
    return torch.randn(B, C, H, W, dtype=dtype), P


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
    mistakes=slips("""
        cut.permute(0, 2, 4, 1, 3, 5) -> cut.reshape(B, H // P, W // P, C, P, P)
            You cut the long row of numbers, so a patch of yours is a piece of a line: move dimensions with permute.
        permute(0, 2, 4, 1, 3, 5) -> permute(0, 4, 2, 1, 3, 5)
            Your patches go column by column. They stand as one reads: h before w.
        permute(0, 2, 4, 1, 3, 5) -> permute(0, 2, 4, 1, 5, 3)
            Inside your patches rows and columns are exchanged: the rows of a patch come before its columns.
        permute(0, 2, 4, 1, 3, 5) -> permute(0, 2, 4, 3, 5, 1)
            Your patches hold the channels of each pixel side by side. Here a channel comes whole, then the next.
        H // P, P, W // P, P -> P, H // P, P, W // P
        permute(0, 2, 4, 1, 3, 5) -> permute(0, 3, 5, 1, 2, 4)
            Your patch takes every second pixel or so from all over the image: reshape H into (h, P), not (P, h).
        H // P, P, W // P, P) -> H // P, P, H // P, P)
            You take the width for the height: this image is not square.
        .flatten(1, 2) -> .flatten(1, 2).mT
            Yours is (B, C P P, N), as F.unfold gives it. A token is a row: transpose the last two dimensions.
        .flatten(3).flatten(1, 2) -> .flatten(3).flatten(0, 2)
            Batch and patches are one dimension in yours: flatten h and w alone, (1, 2).
        cut.flatten(3).flatten(1, 2) -> cut.mean(dim=(4, 5)).flatten(1, 2)
            You take the mean of each patch, one number a channel. All its C P P numbers are wanted.
        cut.flatten(3).flatten(1, 2) -> cut[:, :, :, 0].flatten(3).flatten(1, 2)
            Only the first channel is in yours. A patch holds all of them, one after the other.
        return cut.flatten(3).flatten(1, 2) -> return F.unfold(images, P).mT
            Your patches overlap: the window moves by one pixel. It moves by P.
        cut.flatten(3) -> cut.flatten(4)
            Each channel is a patch of its own in yours. All channels of a place belong to one token.
    """),
)


def my_image(patches, C, H, W):
    P = round((patches.shape[2] / C) ** 0.5)  # a patch holds C P P numbers
    cut = patches.reshape(len(patches), H // P, W // P, C, P, P)  # (B, h, w, C, P, P)
    cut = cut.permute(0, 3, 1, 4, 2, 5)  # (B, C, h, P, w, P): each row of pixels beside its row of patches
    return cut.reshape(len(patches), C, H, W)


def pieces(B=2, C=3, H=4, W=6, P=2, dtype=torch.float64):
    """Patches (B, N, C P P) and the image's channels, height and width."""
    return torch.randn(B, H // P * (W // P), C * P * P, dtype=dtype), C, H, W


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
    mistakes=slips("""
        cut = cut.permute(0, 3, 1, 4, 2, 5) -> pass
            You join the numbers as they lie, patch after patch. A line of the image runs through several patches.
        permute(0, 3, 1, 4, 2, 5) -> permute(0, 2, 4, 1, 3, 5)
            That is the permute of my_patches once more. Its inverse is another: (B, C, h, P, w, P) is wanted.
        permute(0, 3, 1, 4, 2, 5) -> permute(0, 3, 1, 2, 4, 5)
            You put h and w side by side, then the two sides of a patch. Beside h stand the rows of its patches.
        permute(0, 3, 1, 4, 2, 5) -> permute(0, 3, 4, 1, 5, 2)
            Your image begins with the first pixel of every patch: h before the rows of a patch, not behind them.
        permute(0, 3, 1, 4, 2, 5) -> permute(0, 3, 1, 5, 2, 4)
            Each patch is turned over its diagonal in yours: rows go with h, columns with w.
        H // P, W // P, C, P, P) -> W // P, H // P, C, P, P).transpose(1, 2)
            You lay the patches column by column. They stand as one reads.
        H // P, W // P, C, P, P) -> H // P, W // P, P, P, C).permute(0, 1, 2, 5, 3, 4)
            You read each pixel's channels side by side. A patch holds one channel whole, then the next.
        patches.shape[2] / C -> patches.shape[2]
            The length of a patch is C P P: divide by C before you take the root.
        patches.shape[2] / C) ** 0.5 -> patches.shape[1]) ** 0.5
            You take the root of how many patches there are. P follows from how long one is.
        patches.reshape(len(patches), H // P -> patches[:1].reshape(1, H // P
        return cut.reshape(len(patches), C, H, W) -> return cut.reshape(1, C, H, W).repeat(len(patches), 1, 1, 1)
            You put the first image together and repeat it. Each one has patches of its own.
        len(patches), C, H, W) -> len(patches), H, W, C)
            Your result is (B, H, W, C). Here the channels stand before height and width.
        cut.permute(0, 3, 1, 4, 2, 5) -> cut.permute(0, 3, 1, 4, 2, 5).flip(2)
            Your image has its last row of patches on top.
    """),
)


def my_places(places, grid, new_grid):
    cls, rest = places[:1], places[1:]  # [CLS] stands nowhere on the grid: its row stays
    picture = rest.T.reshape(1, -1, *grid)  # (1, D, h, w): D pictures, one a number of the vectors
    picture = F.interpolate(picture, new_grid, mode="bicubic")  # (1, D, h', w')
    return torch.cat([cls, picture[0].flatten(1).T])  # (1 + h' w', D)


def table(grid=(2, 3), new_grid=(4, 5), D=4, dtype=torch.float64):
    """Places (1 + h w, D), the grid that they are for, and another."""
    return torch.randn(1 + grid[0] * grid[1], D, dtype=dtype), grid, new_grid


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
            "With seven numbers a place and a grid that grows to one side it is wrong.",
        ),
        Case(table, NO_GRADIENT, ask=pulled),
        Case(lambda: table(dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        rest.T.reshape(1, -1, *grid) -> rest.reshape(1, -1, *grid)
            You reshape without a transpose, so that a picture of yours mixes numbers of one vector: rest.T first.
        picture[0].flatten(1).T -> picture[0].reshape(-1, places.shape[1])
            The way back needs its transpose: (D, h', w') becomes (D, h' w'), and then a row for each place.
        [cls, picture[0].flatten(1).T] -> [picture[0].flatten(1).T]
            The row of [CLS] is lost: put it in front again.
        [cls, picture[0].flatten(1).T] -> [picture[0].flatten(1).T, cls]
            [CLS] stands at the end of yours. Its place is the first row.
        cls, rest = places[:1], places[1:] -> cls, rest = places[-1:], places[:-1]
            You take the last row for [CLS]. It is the first.
        cls, rest = places[:1], places[1:] -> cls, rest = F.interpolate(places.T[None], 1)[0].T, places[1:]
        [cls, picture -> [places.mean(0, keepdim=True), picture
            You give [CLS] a mean of all places. Its row is not on the grid, and stays as it is.
        mode="bicubic" -> mode="bilinear"
            Bilinear is what the paper's code does. Asked is "bicubic", which Hugging Face's ViT computes.
        mode="bicubic" -> mode="nearest"
            You repeat the nearest vector. Asked is mode="bicubic", which goes smoothly from one to the next.
        mode="bicubic" -> mode="bicubic", align_corners=True
            align_corners=True pins the corners of both grids together. Patches are squares, not points: leave it out.
        mode="bicubic" -> mode="bicubic", antialias=True
            antialias=True blurs where the grid becomes smaller. Leave it out.
        rest.T.reshape(1, -1, *grid) -> rest.T.reshape(1, -1, *grid[::-1])
            You read the grid as (columns, rows). It is (rows, columns), as height comes before width.
        (picture, new_grid, -> (picture, new_grid[::-1],
            You draw on a grid with rows and columns exchanged: new_grid is (rows, columns) as it stands.
        picture = F.interpolate(picture, new_grid, mode="bicubic") -> n = new_grid[0] * new_grid[1]
        [cls, picture[0].flatten(1).T] -> [cls, F.interpolate(rest.T[None], n, mode="linear")[0].T]
            You stretch the places as one line. They lie on a grid: what is below is as near as what is beside.
    """),
)

EXERCISES = [PATCHES, IMAGE, PLACES]
