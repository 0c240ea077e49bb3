"""Lesson 11, attention while writing: over a grid of positions, and between two streams."""

import math

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, narrowed, pulled


def my_grid_look(s, grid, u):
    positions = grid.flatten(2).transpose(1, 2) @ u  # (B, S, H): a row for each position, row by row of the grid
    scores = (positions @ s[:, :, None])[:, :, 0]  # (B, S)
    weights = scores.softmax(dim=1)  # (B, S)
    context = (weights[:, :, None] * positions).sum(dim=1)  # (B, H)
    return context, weights.unflatten(1, grid.shape[2:])  # (B, H), (B, h, w)


def a_grid(B=2, F=4, h=3, w=5, H=6, dtype=torch.float64):
    """The decoder's state s (B, H), the grid of a convolutional network (B, F, h, w), a matrix u (F, H)."""
    return torch.randn(B, H, dtype=dtype), torch.randn(B, F, h, w, dtype=dtype), torch.randn(F, H, dtype=dtype) / 2


def far_apart_grids():
    """Two images in single precision; the scores of the first are 298 to 300, those of the second -302 to -300."""
    grid = torch.tensor([[[300.0, 299, 298]], [[1, 2, 3]]])[None].repeat(2, 1, 1, 1)  # (2, 2, 1, 3)
    grid[1, 0] -= 600
    return torch.tensor([[1.0, 0.0], [1.0, 0.0]]), grid, torch.eye(2)


def looking_by(weights):
    """A wrong answer to `my_grid_look`: weights(scores) are not their softmax."""

    def attend(s, grid, u):
        positions = grid.flatten(2).transpose(1, 2) @ u
        a = weights((positions @ s[:, :, None])[:, :, 0])
        return (a[:, :, None] * positions).sum(dim=1), a.unflatten(1, grid.shape[2:])

    return attend


def regrouped(s, grid, u):
    mixed = grid.flatten(2).reshape(len(grid), -1, grid.shape[1]).mT
    return my_grid_look(s, mixed.unflatten(2, grid.shape[2:]), u)


def flat_map(s, grid, u):
    context, weights = my_grid_look(s, grid, u)
    return context, weights.flatten(1)


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
    mistakes={
        "regrouped": regrouped,
        "over_the_batch": looking_by(lambda scores: scores.softmax(dim=0)),
        "divided_by_sum": looking_by(lambda scores: scores / scores.sum(dim=1, keepdim=True)),
        "sigmoid": looking_by(torch.sigmoid),
        "hard": looking_by(lambda scores: (scores == scores.amax(dim=1, keepdim=True)).to(scores)),
        "scaled": lambda s, grid, u: my_grid_look(s / s.shape[1] ** 0.5, grid, u),
        "flat_map": flat_map,
        "context_only": lambda s, grid, u: my_grid_look(s, grid, u)[0],
    },
)


def my_co_attention(words, image, real, w, u):
    def attend(x, other, matrices, seen):
        q, k, v = x @ matrices[0], other @ matrices[1], other @ matrices[2]
        scores = q @ k.mT / math.sqrt(q.shape[-1])  # (B, T, N) for words, (B, N, T) for the image
        weights = scores.masked_fill(~seen[:, None], -math.inf).softmax(dim=-1)
        return x + weights @ v

    everywhere = torch.ones(image.shape[:2], dtype=torch.bool)  # no position of the image is padding
    return attend(words, image, w, everywhere), attend(image, words, u, real)


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


def words_first(words, image, real, w, u):
    words = my_co_attention(words, image, real, w, u)[0]
    return words, my_co_attention(words, image, real, w, u)[1]


def to_itself(words, image, real, w, u):
    everywhere = torch.ones(image.shape[:2], dtype=torch.bool)
    return my_co_attention(words, words, real, w, u)[0], my_co_attention(image, image, everywhere, w, u)[1]


def without_residual(words, image, real, w, u):
    new_words, new_image = my_co_attention(words, image, real, w, u)
    return new_words - words, new_image - image


def undivided(words, image, real, w, u):
    w, u = (torch.cat([matrices[:1] * words.shape[-1] ** 0.5, matrices[1:]]) for matrices in (w, u))
    return my_co_attention(words, image, real, w, u)


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
    mistakes={
        "words_first": words_first,
        "to_itself": to_itself,
        "w_for_both": lambda words, image, real, w, u: my_co_attention(words, image, real, w, w),
        "matrices_exchanged": lambda words, image, real, w, u: my_co_attention(words, image, real, u, w),
        "image_first": lambda *given: my_co_attention(*given)[::-1],
        "padding_seen": lambda words, image, real, *more: my_co_attention(words, image, torch.ones_like(real), *more),
        "without_residual": without_residual,
        "undivided": undivided,
    },
)

EXERCISES = [GRID, CO_ATTENTION]
