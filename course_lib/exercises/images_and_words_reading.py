"""Lesson 11, attention while writing: over a grid of positions, and between two streams."""

import math

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips


def my_grid_look(s, grid, u):
    places = grid.flatten(2).transpose(1, 2) @ u  # (B, S, H): a row for each position, row by row of the grid
    scores = (places @ s[:, :, None])[:, :, 0]  # (B, S)
    weights = scores.softmax(dim=1)  # (B, S)
    context = (weights[:, :, None] * places).sum(dim=1)  # (B, H)
    return context, weights.unflatten(1, grid.shape[2:])  # (B, H), (B, h, w)


def a_grid(B=2, F=4, h=3, w=5, H=6, dtype=torch.float64):
    """The decoder's state s (B, H), the grid of a convolutional network (B, F, h, w), a matrix u (F, H)."""
    return torch.randn(B, H, dtype=dtype), torch.randn(B, F, h, w, dtype=dtype), torch.randn(F, H, dtype=dtype) / 2


def far_apart_grids():
    """Two images in single precision; the scores of the first are 298 to 300, those of the second -302 to -300."""
    grid = torch.tensor([[[300.0, 299, 298]], [[1, 2, 3]]])[None].repeat(2, 1, 1, 1)  # (2, 2, 1, 3)
    grid[1, 0] -= 600
    return torch.tensor([[1.0, 0.0], [1.0, 0.0]]), grid, torch.eye(2)


GRID = Exercise(
    solution=my_grid_look,
    cases=(
        Case(
            a_grid,
            narrowed(
                (
                    lambda given: (0 * given["s"], given["grid"], given["u"]),
                    "With s zero all scores are equal: the map is uniform, the context the mean of the positions.",
                ),
                (
                    lambda given: (given["s"][:1], given["grid"][:1], given["u"]),
                    "It is wrong even with one image: softmax over its positions, then the weighted mean.",
                ),
                otherwise="A single image is correct, several are not: each has a softmax of its own.",
            ),
        ),
        Case(
            lambda: a_grid(4, 4, 4, 4, 4),
            "Where all sizes are equal it is wrong: a transposed tensor fits there and raises no error.",
        ),
        Case(lambda: a_grid(1, 1, 1, 1, 2), OTHER_SIZES),
        Case(far_apart_grids, OVERFLOW),
        Case(a_grid, NO_GRADIENT, ask=pulled),
        Case(lambda: a_grid(dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        scores = (places @ s[:, :, None])[:, :, 0] -> scores = places @ s.mean(0)
            You score all images with the mean state of the batch. Each image has its own state.
        grid.flatten(2).transpose(1, 2) @ u -> grid.flatten(2).reshape(len(grid), -1, grid.shape[1]) @ u
            reshape regroups the numbers and mixes features with positions. Use transpose(1, 2).
        grid.flatten(2).transpose(1, 2) @ u -> grid.mT.flatten(2).transpose(1, 2) @ u
            You read the grid column by column, but your map is laid out row by row. Flatten it as it is.
        scores.softmax(dim=1) -> scores.softmax(dim=0)
            Your softmax is over the batch. For each image the weights sum to 1 over its positions.
        scores.softmax(dim=1) -> scores.flatten().softmax(dim=0).view_as(scores)
            Your weights sum to 1 over all images together. They should sum to 1 for each image.
        scores.softmax(dim=1) -> scores.unflatten(1, grid.shape[2:]).softmax(dim=-1).flatten(1)
            Your weights sum to 1 in each row of the grid. Take one softmax over the whole grid.
        scores.softmax(dim=1) -> torch.ones_like(scores) / scores.shape[1]
            Your weights are all equal, which is the plain mean of the grid. Compute them from the scores.
        scores.softmax(dim=1) -> torch.nn.functional.one_hot(scores.argmax(dim=1), scores.shape[1]).to(scores)
            You take only the best position ("hard" attention). It gives the scores no gradient; softmax does.
        scores.softmax(dim=1) -> scores / scores.sum(dim=1, keepdim=True)
            You divide by the sum of the scores, which may be negative or 0. Use softmax.
        scores.softmax(dim=1) -> scores.sigmoid()
            Your weights are between 0 and 1 but do not sum to 1: use softmax.
        scores.softmax(dim=1) -> (scores / s.shape[1] ** 0.5).softmax(dim=1)
            You divide by the square root of the width. Use the plain dot product here, as in lesson 04.
        (weights[:, :, None] * places).sum(dim=1) -> (weights[:, :, None] * places).mean(dim=1)
            You divide by the number of positions. The weights sum to 1 already, so the sum is the mean.
        (weights[:, :, None] * places).sum(dim=1) -> places[torch.arange(len(places)), weights.argmax(dim=1)]
            Your context is the position with the highest weight. Take the weighted mean of all positions.
        (weights[:, :, None] * places).sum(dim=1) -> (scores[:, :, None] * places).sum(dim=1)
            You sum the positions with the scores. Use the weights, the softmax of the scores.
        return context, weights.unflatten(1, grid.shape[2:]) -> return context, weights.unflatten(1, grid.shape[2:]).mT
            Your map is transposed: its rows are the grid's columns. Return (B, h, w).
        return context, weights.unflatten(1, grid.shape[2:]) -> return context, weights
            Your map is still one row of weights. To overlay the image it must be (B, h, w): unflatten.
        return context, weights.unflatten(1, grid.shape[2:]) -> return context
            You return only the context. Return the map too, as a pair.
    """),
)


def my_co_attention(words, image, real, w, u):
    def look(x, other, matrices, seen):
        q, k, v = x @ matrices[0], other @ matrices[1], other @ matrices[2]
        scores = q @ k.mT / math.sqrt(q.shape[-1])  # (B, T, N) for words, (B, N, T) for the image
        weights = scores.masked_fill(~seen[:, None], -math.inf).softmax(dim=-1)
        return x + weights @ v

    everywhere = torch.ones(image.shape[:2], dtype=torch.bool)  # no position of the image is padding
    return look(words, image, w, everywhere), look(image, words, u, real)


def two_rows(B=3, T=5, N=4, D=6, dtype=torch.float64, padded=True):
    """Words (B, T, D), image (B, N, D), which words are real (B, T), and three matrices (3, D, D) for each stream."""
    lengths = torch.arange(B) % T + 1 if padded else torch.full((B,), T)
    matrices = torch.randn(2, 3, D, D, dtype=dtype) / D**0.5
    words, image = torch.randn(B, T, D, dtype=dtype), torch.randn(B, N, D, dtype=dtype)
    return words, image, torch.arange(T) < lengths[:, None], *matrices


def loud_padding():
    """In single precision: scores of hundreds, high for one row and low for the next, and padding has the highest."""
    words = torch.tensor([[[300.0, 1, 0, 0], [-300, 2, 0, 0], [600, 0, 0, 0]]]).repeat(2, 1, 1)
    image = torch.tensor([[[2.0, 0, 1, 0], [-2.0, 0, 0, 1], [1.5, 1, 0, 0]]]).repeat(2, 1, 1)
    one, both = torch.eye(4), torch.diag(torch.tensor([0.0, 1, 1, 1]))
    real = torch.tensor([[True, True, False], [True, False, False]])
    return words, image, real, torch.stack([one, one, both]), torch.stack([one, one, both])


CO_ATTENTION = Exercise(
    solution=my_co_attention,
    cases=(
        Case(
            lambda: two_rows(padded=False),
            narrowed(
                (
                    lambda given: (*list(given.values())[:3], 0 * given["w"], 0 * given["u"]),
                    "With all matrices zero, words and image should come out as they came in.",
                ),
                (
                    lambda given: (*list(given.values())[:4], 0 * given["u"]),
                    "The words are wrong already: they need queries of the words, and keys and values of the image.",
                ),
                (
                    lambda given: (*list(given.values())[:3], 0 * given["w"], given["u"]),
                    "The words are correct, the image is not: it needs its queries, and keys and values of the words.",
                ),
                otherwise="Each stream alone is correct. Together they are not: both attend to the original inputs.",
            ),
        ),
        Case(two_rows, "With padding after the words it is wrong: the image must not attend to it."),
        Case(lambda: two_rows(5, 5, 5, 5), "Where all sizes are equal it is wrong: a transposed tensor fits there."),
        Case(lambda: two_rows(1, 1, 1, 2), OTHER_SIZES),
        Case(loud_padding, OVERFLOW),
        Case(two_rows, NO_GRADIENT, ask=pulled),
        Case(lambda: two_rows(dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        return look(words, image, w, everywhere), look(image, words, u, real) -> row, seen = torch.cat([words, image], 1), torch.cat([real, everywhere], 1); return look(words, row, w, seen), look(image, row, u, seen)
            Each of your streams attends to the joined row, itself included: that is one stream. Attend to the other only.
        return look(words, image, w, everywhere), look(image, words, u, real) -> words = look(words, image, w, everywhere); return words, look(image, words, u, real)
            Your image attends to words that have already changed. Both attend to the original inputs.
        return look(words, image, w, everywhere), look(image, words, u, real) -> image = look(image, words, u, real); return look(words, image, w, everywhere), image
            Your words attend to an image that has already changed. Both attend to the original inputs.
        other @ matrices[1], other @ matrices[2] -> x @ matrices[1], x @ matrices[2]
        scores.masked_fill(~seen[:, None], -math.inf) -> scores
            Each of your streams attends to itself. In co-attention keys and values come from the other stream.
        return look(words, image, w, everywhere), look(image, words, u, real) -> return look(words, image, w, everywhere), look(image, words, w, real)
            Both of your streams use w. The image has its own matrices, u.
        return look(words, image, w, everywhere), look(image, words, u, real) -> return look(words, image, u, everywhere), look(image, words, w, real)
            You swapped the matrices: w is for the words, u for the image.
        return look(words, image, w, everywhere), look(image, words, u, real) -> return look(image, words, u, real), look(words, image, w, everywhere)
            You return the image first. The words come first.
        look(image, words, u, real) -> look(image, words, u, torch.ones_like(real))
            Your image attends to padding too. The weight must be 0 where `real` is False.
        masked_fill(~seen[:, None], -math.inf) -> masked_fill(seen[:, None], -math.inf)
            Your mask is inverted: `real` is True where there is a word.
        masked_fill(~seen[:, None], -math.inf) -> masked_fill(~seen[:, None], 0)
            A masked score of 0 is a score like any other. Use minus infinity.
        .softmax(dim=-1) -> .softmax(dim=-2)
            Your softmax is over the queries. The weights of each query sum to 1 over the keys: dim=-1.
        return x + weights @ v -> return weights @ v
            The result of attention replaces your input. Add it to the input, as in every block.
        return x + weights @ v -> return other.mean(1, keepdim=True) + weights @ v
            You add to the mean of the other stream. Add the result to the stream that attends.
        / math.sqrt(q.shape[-1]) -> * 1
            You do not divide by the square root of the width. For large widths softmax then saturates.
        / math.sqrt(q.shape[-1]) -> / q.shape[-1]
            You divide by the width. Divide by its square root.
        other @ matrices[2] -> other
            Your values are the other's vectors themselves. Use other @ matrices[2].
        q, k, v = x @ matrices[0], other @ matrices[1] -> q, k, v = x @ matrices[1], other @ matrices[0]
            You swapped the matrices of queries and keys. The order is query, key, value.
    """),  # noqa: E501
)

EXERCISES = [GRID, CO_ATTENTION]
