"""Lesson 12, places in windows; and an encoder to mend that is told what it should guess.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, fresh, narrowed, pulled, same
from course_lib.exercises.slips import slips


def my_windows(x, side):
    B, h, w, D = x.shape
    cut = x.reshape(B, h // side, side, w // side, side, D)  # a row of windows, a row in it, and the same across
    cut = cut.permute(0, 1, 3, 2, 4, 5)  # first which window, then where in it
    return cut.reshape(-1, side * side, D)  # (B n, M M, D)


def grids(B=2, h=4, w=6, D=3, side=2, dtype=torch.float64):
    """Vectors on a grid (B, h, w, D), and the side of a window."""
    return torch.randn(B, h, w, D, dtype=dtype), side


WINDOWS = Exercise(
    solution=my_windows,
    cases=(
        Case(
            grids,
            narrowed(
                (
                    lambda given: (given["x"][:1, :2, :2], 2),
                    "A single window is wrong already: its places row by row, each with its D numbers as they are.",
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
        Case(lambda: grids(2, 2, 3, 4, 1), "With a side of 1 each place is a window. There yours is wrong."),
        Case(lambda: grids(2, 4, 4, 2, 4), "Where one window is the whole grid it is wrong: all places, row by row."),
        Case(lambda: grids(2, 6, 4, 2, 2), "On a grid that is higher than wide it is wrong."),
        Case(grids, NO_GRADIENT, ask=pulled),
        Case(lambda: grids(dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        cut.permute(0, 1, 3, 2, 4, 5) -> cut
            You cut the long row of places: a window of yours is a piece of a line. Move dimensions with permute.
        permute(0, 1, 3, 2, 4, 5) -> permute(0, 3, 1, 2, 4, 5)
            Your windows go column by column. They stand as one reads.
        permute(0, 1, 3, 2, 4, 5) -> permute(0, 1, 3, 4, 2, 5)
            Inside your windows rows and columns are exchanged: the places of a window stand row by row.
        permute(0, 1, 3, 2, 4, 5) -> permute(0, 3, 1, 4, 2, 5)
            Windows and the places in them go column by column in yours. Both stand row by row.
        permute(0, 1, 3, 2, 4, 5) -> permute(1, 3, 0, 2, 4, 5)
            Your images take turns: the first window of each, then the second. An image comes with all its windows.
        permute(0, 1, 3, 2, 4, 5) -> permute(1, 3, 2, 4, 0, 5)
            Your windows mix the images: the places of a window are all of one image.
        x.reshape(B, h // side, side, w // side, side, D) -> x.reshape(B, side, h // side, side, w // side, D)
        permute(0, 1, 3, 2, 4, 5) -> permute(0, 2, 4, 1, 3, 5)
            Your window takes every second place or so from all over the grid: reshape h into (h // side, side).
        x.reshape(B, h // side, side, w // side, side, D) -> x.reshape(B, side, h // side, side, w // side, D)
        cut.reshape(-1, side * side, D) -> cut.reshape(B * side * side, -1, D)
            You make `side` windows down and across. `side` is how many places a window is high and wide.
        cut.reshape(-1, side * side, D) -> cut.reshape(B, -1, side * side, D)
            Yours is (B, n, M M, D). Join images and windows: attention takes each window as a row of its own.
        cut.reshape(-1, side * side, D) -> cut.reshape(-1, side, side, D)
            Yours is (B n, M, M, D). Join the two sides of a window: M M places in a row.
        cut.reshape(-1, side * side, D) -> cut.reshape(-1, side * side, D).mT
            Yours is (B n, D, M M). A place is a row.
        cut.reshape(-1, side * side, D) -> cut.reshape(-1, side * side * D)
            You join the numbers of all places of a window. Each place stays a vector of its own.
        cut.reshape(-1, side * side, D) -> cut.mean(dim=(3, 4)).reshape(-1, 1, D)
            You take the mean of each window. All its M M places are wanted.
        cut.reshape(-1, side * side, D) -> cut[:1].reshape(-1, side * side, D)
            You return the windows of the first image alone.
        cut = x.reshape( -> cut = x.roll((-(side // 2), -(side // 2)), (1, 2)).reshape(
            You shift the grid first. That is another step: here the windows begin at the first place.
        cut = x.reshape( -> cut = x.transpose(1, 2).reshape(
            You exchange height and width of the grid: h comes before w.
    """),
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
        return "Change a patch that is hidden, and your result changes: some block has read it."
    bare = (x, seen, [])
    if not same(*(through_blocks(one, *fresh(bare)) for one in (answer, solution))):
        return "Without any block it is wrong: the patches that are seen, as they came, in the order of `seen`."
    return "What is hidden is not read any more. The blocks are wrong: each reads what the one before it gave, once."


def the_others(blocks, x, seen):
    """Reads the patches that are hidden."""
    hidden = torch.ones(x.shape[:2]).scatter(1, seen, 0.0) > 0
    return mended_encode(blocks, x, hidden.nonzero()[:, 1].view(len(x), -1))


def means_instead(blocks, x, seen):
    """Puts the mean of the seen patches where one is hidden, and leaves out afterwards."""
    places = seen[:, :, None].expand(-1, -1, x.shape[2])
    known = x.gather(1, places)
    return broken_encode(blocks, known.mean(dim=1, keepdim=True).expand_as(x).scatter(1, places, known), seen)


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
    mistakes=(
        (the_others, "You leave out the patches that are seen, and read the hidden ones."),
        (
            means_instead,
            "You put the mean of the seen patches where others are hidden. It is still looked at: leave them out.",
        ),
        *slips("""
        x = x.gather(1, places) -> x = x
        return x -> return x.gather(1, places)
            The bug is still there: the blocks read all patches, so the seen ones know what the hidden ones hold, and
            the decoder has only to look it up. Cutting the gradient (detach) would not help: what is read is read.
        x = x.gather(1, places) -> x = x * torch.zeros_like(x).scatter(1, places, 1.0)
        return x -> return x.gather(1, places)
            You put zeros where patches are hidden. What they held is gone, but zeros are still looked at, and take
            their part of the attention: leave the hidden patches out.
        x = x.gather(1, places) -> x = x * torch.zeros_like(x).scatter(1, places, 1.0)
            You put zeros where patches are hidden, and return all N. Leave them out: n patches go in, and n come out.
        x = x.gather(1, places) -> x = blocks[0](x).gather(1, places)
        for block in blocks -> for block in blocks[1:]
            You leave out after the first block. There every patch has already looked at every other.
        x.gather(1, places) -> x[:, : seen.shape[1]]
            You keep the first n patches. Those in `seen` may stand anywhere.
        seen[:, :, None].expand(-1, -1, x.shape[2]) -> seen[:1, :, None].expand(len(x), -1, x.shape[2])
            You keep the same patches of every image, those of the first. Each shows other ones.
        seen[:, :, None] -> seen.sort(dim=1).values[:, :, None]
            You sort `seen`. The decoder puts the result back by `seen` as it is, so leave its order.
        x = x.gather(1, places) -> x = x.scatter(1, places, 0.0)
        return x -> return x.gather(1, places)
            You put zeros where patches are seen, and read the hidden ones.
        x = block(x) -> pass
            No block reads anything in yours.
        for block in blocks -> for block in blocks[-1:]
            Only the last block reads. Each reads what the one before it gave.
        for block in blocks -> for block in blocks[:1]
            Only the first block reads. Each reads what the one before it gave.
        for block in blocks -> for block in reversed(blocks)
            You call the blocks from the last to the first.
        return x -> return torch.zeros(len(x), 1 + int(seen.max()), x.shape[2]).to(x).scatter(1, places, x)
            You put the result back to its places. That is the decoder's: here n patches come out.
        """),
    ),
)

EXERCISES = [WINDOWS, ENCODE]
