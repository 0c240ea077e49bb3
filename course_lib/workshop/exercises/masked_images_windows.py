"""Lesson 12, places in windows; and an encoder to mend that is told what it should guess.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, fresh, narrowed, pulled, same


def my_windows(x, side):
    B, h, w, D = x.shape
    cut = x.reshape(B, h // side, side, w // side, side, D)  # a row of windows, a row in it, and the same across
    cut = cut.permute(0, 1, 3, 2, 4, 5)  # first which window, then where in it
    return cut.reshape(-1, side * side, D)  # (B n, M M, D)


def grids(B=2, h=4, w=6, D=3, side=2, dtype=torch.float64):
    """Vectors on a grid (B, h, w, D), and the side of a window."""
    return torch.randn(B, h, w, D, dtype=dtype), side


def cut_in(order):
    """A wrong answer to `my_windows`: the dimensions (B, rows, side, columns, side, D) in another order."""

    def windows(x, side):
        cut = x.unflatten(2, (-1, side)).unflatten(1, (-1, side))
        return cut.permute(order).reshape(-1, side * side, x.shape[3])

    return windows


def far_positions(x, side):
    cut = x.unflatten(2, (side, -1)).unflatten(1, (side, -1))  # (B, side, rows, side, columns, D)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(-1, side * side, x.shape[3])


WINDOWS = Exercise(
    solution=my_windows,
    cases=(
        Case(
            grids,
            narrowed(
                (
                    lambda given: (given["x"][:1, :2, :2], 2),
                    "A single window is wrong already: its positions row by row, each with its D numbers.",
                ),
                (
                    lambda given: (given["x"][:1, :2], 2),
                    "One window is right, three side by side are not: a row of the grid runs through all three.",
                ),
                (
                    lambda given: (given["x"][:1], 2),
                    "One row of windows is right, two are not: windows row by row, as one reads.",
                ),
                otherwise="One image is right, two are not: all windows of the first, then those of the second.",
            ),
        ),
        Case(lambda: grids(1, 3, 6, 1, 3), OTHER_SIZES),
        Case(lambda: grids(2, 2, 3, 4, 1), "With a side of 1, where each position is a window, it is wrong."),
        Case(
            lambda: grids(2, 4, 4, 2, 4), "Where one window is the whole grid it is wrong: all positions, row by row."
        ),
        Case(lambda: grids(2, 6, 4, 2, 2), "On a grid that is higher than wide it is wrong."),
        Case(grids, NO_GRADIENT, ask=pulled),
        Case(lambda: grids(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "pieces_of_lines": cut_in((0, 1, 2, 3, 4, 5)),
        "column_by_column": cut_in((0, 3, 1, 2, 4, 5)),
        "rows_exchanged": cut_in((0, 1, 3, 4, 2, 5)),
        "images_in_turn": cut_in((1, 3, 0, 2, 4, 5)),
        "far_positions": far_positions,
        "images_apart": lambda x, side: my_windows(x, side).unflatten(0, (len(x), -1)),
        "not_flattened": lambda x, side: my_windows(x, side).unflatten(1, (side, side)),
    },
)


def broken_encode(blocks, x, seen):
    """What the encoder says of the patches that are seen, (B, n, D).

    blocks: functions (B, any number of patches, D) -> the same shape; x (B, N, D): patches, embedded, with their
    places; seen (B, n): which patches of each image are seen.
    """
    places = seen[:, :, None].expand(-1, -1, x.shape[2])  # (B, n, D)
    for block in blocks:
        x = block(x)
    return x.gather(1, places)  # the hidden ones are left out: (B, n, D)


def mended_encode(blocks, x, seen):
    places = seen[:, :, None].expand(-1, -1, x.shape[2])  # (B, n, D)
    x = x.gather(1, places)  # the hidden ones are left out before any block can read them: (B, n, D)
    for block in blocks:
        x = block(x)
    return x


def embedded(B=3, N=7, D=4, n=3, depth=2, order=True, dtype=torch.float64):
    """Patches (B, N, D), which are seen (B, n), and a matrix (D, D) for each block."""
    seen = torch.rand(B, N).argsort(dim=1)[:, :n]
    matrices = [torch.randn(D, D).to(dtype) for _ in range(depth)]
    return torch.randn(B, N, D).to(dtype), seen.sort(dim=1).values if order else seen, matrices


def through_blocks(answer, x, seen, matrices):
    """For `Case.ask`: the encoder with blocks in which every patch looks at every patch, one for each matrix."""

    def block(matrix):
        return lambda x: x + (x @ matrix @ x.mT / x.shape[2] ** 0.5).softmax(dim=-1) @ x @ matrix

    return answer([block(matrix) for matrix in matrices], x, seen)


def way_back(answer, x, seen, matrices):
    """For `Case.ask`: the gradient by the patches, which is 0 at those that are hidden."""
    found = through_blocks(answer, x.requires_grad_(), seen, matrices)
    if not getattr(found, "requires_grad", False):
        return torch.zeros_like(x)
    return torch.autograd.grad((found * torch.linspace(1, 2, found.numel()).view_as(found)).sum(), x)[0]


def what_is_left(answer, solution, arguments):
    """Whether what is hidden is still read."""
    x, seen, matrices = arguments
    places = seen[:, :, None].expand(-1, -1, x.shape[2])
    other = torch.randn_like(x).scatter(1, places, x.gather(1, places))  # the seen patches as they were
    before, after = (through_blocks(answer, *fresh((patches, seen, matrices))) for patches in (x, other))
    if not same(before, after):
        return "If a masked patch changes, your result changes too: some block has read it."
    bare = (x, seen, [])
    if not same(*(through_blocks(one, *fresh(bare)) for one in (answer, solution))):
        return "Without any block it is wrong: the visible patches as they are, in the order of `seen`."
    return "No masked patch is read any more. The blocks are wrong: each reads the output of the one before it, once."


def the_others(blocks, x, seen):
    """Reads the patches that are hidden."""
    hidden = torch.ones(x.shape[:2]).scatter(1, seen, 0.0) > 0
    return mended_encode(blocks, x, hidden.nonzero()[:, 1].view(len(x), -1))


def means_instead(blocks, x, seen):
    """Puts the mean of the seen patches where one is hidden, and leaves out afterwards."""
    places = seen[:, :, None].expand(-1, -1, x.shape[2])
    known = x.gather(1, places)
    return broken_encode(blocks, known.mean(dim=1, keepdim=True).expand_as(x).scatter(1, places, known), seen)


def zeros_instead(blocks, x, seen):
    at_seen = torch.zeros(x.shape[:2]).scatter(1, seen, 1.0)[:, :, None]
    return broken_encode(blocks, x * at_seen.to(x), seen)


def first_n(blocks, x, seen):
    return mended_encode(blocks, x, torch.arange(seen.shape[1]).expand_as(seen))


ENCODE = Exercise(
    solution=mended_encode,
    cases=(
        Case(embedded, what_is_left, through_blocks),
        Case(lambda: embedded(1, 3, 2, 1, 1), OTHER_SIZES, through_blocks),
        Case(
            lambda: embedded(order=False),
            "Where `seen` is in no order it is wrong: the result stands in the order of `seen`, for so it is put back.",
            through_blocks,
        ),
        Case(embedded, NO_GRADIENT, way_back),
        Case(lambda: embedded(dtype=torch.float32), SINGLE, through_blocks),
    ),
    stub=broken_encode,
    mistakes={
        "bug_still_there": broken_encode,
        "the_others": the_others,
        "means_instead": means_instead,
        "zeros_instead": zeros_instead,
        "after_the_first_block": lambda blocks, x, seen: mended_encode(blocks[1:], blocks[0](x), seen),
        "first_n": first_n,
        "seen_sorted": lambda blocks, x, seen: mended_encode(blocks, x, seen.sort(dim=1).values),
        "last_block_only": lambda blocks, x, seen: mended_encode(blocks[-1:], x, seen),
    },
)

EXERCISES = [WINDOWS, ENCODE]
