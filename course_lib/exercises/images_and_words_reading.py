"""Lesson 11, a model that looks while it writes: attention over a grid, and two streams that look at each other."""

import math

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips

LESSON = "images_and_words"


def my_grid_look(s, grid, u):
    places = grid.flatten(2).transpose(1, 2) @ u  # (B, S, H): a row for each place, row by row of the grid
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
    lesson=LESSON,
    title="Attention over a grid",
    solution=my_grid_look,
    returns="the context (B, H) and the map (B, h, w), a pair",
    cases=(
        Case(
            a_grid,
            narrowed(
                (
                    lambda given: (0 * given["s"], given["grid"], given["u"]),
                    "With s zero all scores are equal: the map is even, and the context is the plain mean of places.",
                ),
                (
                    lambda given: (given["s"][:1], given["grid"][:1], given["u"]),
                    "With a single image it is wrong already: softmax over its places, then the mean with the weights.",
                ),
                otherwise="A single image is right, several are not: each has a softmax of its own.",
            ),
        ),
        Case(
            lambda: a_grid(4, 4, 4, 4, 4),
            "Where all sizes are equal it is wrong: there a turned tensor fits, and raises no error.",
        ),
        Case(lambda: a_grid(1, 1, 1, 1, 2), OTHER_SIZES),
        Case(far_apart_grids, OVERFLOW),
        Case(a_grid, NO_GRADIENT, ask=pulled),
        Case(lambda: a_grid(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "A grid is a sentence of places: bring it to one row for each place first, (B, S, F) with S = h w.",
        "grid.flatten(2) is (B, F, S); transpose(1, 2) puts the places before the features. Then @ u: (B, S, H).",
        "The score of a place is its product with the state: places @ s[:, :, None] is (B, S, 1). Softmax over S.",
        "The context is the sum of weight times place. The map is the weights again as a grid: unflatten(1, (h, w)).",
    ),
    mistakes=slips("""
        scores = (places @ s[:, :, None])[:, :, 0] -> scores = places @ s.mean(0)
            You score all images with the mean state of the batch. Each image has a state of its own.
        grid.flatten(2).transpose(1, 2) @ u -> grid.flatten(2).reshape(len(grid), -1, grid.shape[1]) @ u
            reshape cuts the numbers anew and mixes features with places. transpose(1, 2) turns them.
        grid.flatten(2).transpose(1, 2) @ u -> grid.mT.flatten(2).transpose(1, 2) @ u
            You read the grid column by column, and your map is laid out row by row. Flatten it as it lies.
        scores.softmax(dim=1) -> scores.softmax(dim=0)
            Your softmax is over the batch: images share out one place. Each image shares out 1 over its places.
        scores.softmax(dim=1) -> scores.flatten().softmax(dim=0).view_as(scores)
            All images together share out 1 in yours. Each has a whole of its own.
        scores.softmax(dim=1) -> scores.unflatten(1, grid.shape[2:]).softmax(dim=-1).flatten(1)
            Each row of the grid sums to one in yours. The whole grid is one softmax.
        scores.softmax(dim=1) -> torch.ones_like(scores) / scores.shape[1]
            Your weights are all alike: that is the mean of the grid, and looks nowhere. They come from the scores.
        scores.softmax(dim=1) -> torch.nn.functional.one_hot(scores.argmax(dim=1), scores.shape[1]).to(scores)
            You take the best place alone ("hard" attention). It has no gradient for the scores; softmax has.
        scores.softmax(dim=1) -> scores / scores.sum(dim=1, keepdim=True)
            You divide by the sum of scores, which may be negative or 0. Softmax makes weights of them.
        scores.softmax(dim=1) -> scores.sigmoid()
            Each place has a weight between 0 and 1 in yours, and they do not sum to one: softmax.
        scores.softmax(dim=1) -> (scores / s.shape[1] ** 0.5).softmax(dim=1)
            You divide by the square root of the width. Here the plain product is asked, as lesson 04 has it.
        (weights[:, :, None] * places).sum(dim=1) -> (weights[:, :, None] * places).mean(dim=1)
            You divide by the number of places. The weights sum to one already, so the sum is the mean.
        (weights[:, :, None] * places).sum(dim=1) -> places[torch.arange(len(places)), weights.argmax(dim=1)]
            Your context is the place with the highest weight. It is the mean of all places with these weights.
        (weights[:, :, None] * places).sum(dim=1) -> (scores[:, :, None] * places).sum(dim=1)
            You mix the places with the scores. The weights are what softmax makes of them.
        return context, weights.unflatten(1, grid.shape[2:]) -> return context, weights.unflatten(1, grid.shape[2:]).mT
            Your map is turned: its rows are the grid's columns. (B, h, w) is asked.
        return context, weights.unflatten(1, grid.shape[2:]) -> return context, weights
            The map is still one row of weights. To lie over the image it must be (B, h, w): unflatten.
        return context, weights.unflatten(1, grid.shape[2:]) -> return context
            You return the context alone. The map is wanted too, as a pair.
    """),
)


def my_co_attention(words, image, real, w, u):
    def look(x, other, matrices, seen):
        q, k, v = x @ matrices[0], other @ matrices[1], other @ matrices[2]
        scores = q @ k.mT / math.sqrt(q.shape[-1])  # (B, T, N) for words, (B, N, T) for the image
        weights = scores.masked_fill(~seen[:, None], -math.inf).softmax(dim=-1)
        return x + weights @ v

    everywhere = torch.ones(image.shape[:2], dtype=torch.bool)  # no place of the image is padding
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
    lesson=LESSON,
    title="Co-attention",
    solution=my_co_attention,
    returns="words (B, T, D) and image (B, N, D), a pair",
    cases=(
        Case(
            lambda: two_rows(padded=False),
            narrowed(
                (
                    lambda given: (*list(given.values())[:3], 0 * given["w"], 0 * given["u"]),
                    "With all matrices zero nothing is fetched: words and image come out as they came in.",
                ),
                (
                    lambda given: (*list(given.values())[:4], 0 * given["u"]),
                    "The words are wrong already: their queries, and keys and values of the image.",
                ),
                (
                    lambda given: (*list(given.values())[:3], 0 * given["w"], given["u"]),
                    "The words are right, the image is not: its queries, and keys and values of the words.",
                ),
                otherwise="Each stream alone is right. Together they are not: both look at what was there before.",
            ),
        ),
        Case(two_rows, "With padding behind the words it is wrong: the image must not look at it."),
        Case(lambda: two_rows(5, 5, 5, 5), "Where all sizes are equal it is wrong: there a turned tensor fits."),
        Case(lambda: two_rows(1, 1, 1, 2), OTHER_SIZES),
        Case(loud_padding, OVERFLOW),
        Case(two_rows, NO_GRADIENT, ask=pulled),
        Case(lambda: two_rows(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "It is one function used twice: x asks, the other stream is looked at. Write look(x, other, ...) first.",
        "Queries are x @ matrices[0]; keys and values are the other's: other @ matrices[1], other @ matrices[2].",
        "Scores q @ k.mT / √D, minus infinity where the other is padding, softmax over the other, times v, plus x.",
        "Call it for the words with w, and for the image with u and `real`. Give both the words as they came in.",
    ),
    mistakes=slips("""
        return look(words, image, w, everywhere), look(image, words, u, real) -> row, seen = torch.cat([words, image], 1), torch.cat([real, everywhere], 1); return look(words, row, w, seen), look(image, row, u, seen)
            In yours each looks at the joined row, itself too: that is one stream. In co-attention it looks at the other.
        return look(words, image, w, everywhere), look(image, words, u, real) -> words = look(words, image, w, everywhere); return words, look(image, words, u, real)
            Your image looks at words that have looked already. Both look at what the other was before.
        return look(words, image, w, everywhere), look(image, words, u, real) -> image = look(image, words, u, real); return look(words, image, w, everywhere), image
            Your words look at an image that has looked already. Both look at what the other was before.
        other @ matrices[1], other @ matrices[2] -> x @ matrices[1], x @ matrices[2]
        scores.masked_fill(~seen[:, None], -math.inf) -> scores
            Each stream looks at itself in yours. In co-attention keys and values are the other's.
        return look(words, image, w, everywhere), look(image, words, u, real) -> return look(words, image, w, everywhere), look(image, words, w, real)
            Both streams use w in yours. The image has matrices of its own, u.
        return look(words, image, w, everywhere), look(image, words, u, real) -> return look(words, image, u, everywhere), look(image, words, w, real)
            The matrices are exchanged: w is for the looks of the words, u for those of the image.
        return look(words, image, w, everywhere), look(image, words, u, real) -> return look(image, words, u, real), look(words, image, w, everywhere)
            You return the image first. The words come first.
        look(image, words, u, real) -> look(image, words, u, torch.ones_like(real))
            The image looks at padding too. Where `real` is False no weight may fall.
        masked_fill(~seen[:, None], -math.inf) -> masked_fill(seen[:, None], -math.inf)
            Your mask is upside down: `real` is True where there is a word.
        masked_fill(~seen[:, None], -math.inf) -> masked_fill(~seen[:, None], 0)
            A masked score of 0 is a score like any other. It has to be minus infinity.
        .softmax(dim=-1) -> .softmax(dim=-2)
            The queries share out each key in yours. Each query shares out 1 over what it looks at: dim=-1.
        return x + weights @ v -> return weights @ v
            What is fetched replaces what was there. It is added to it, as in every block.
        return x + weights @ v -> return other.mean(1, keepdim=True) + weights @ v
            You add to the mean of the other stream. What is fetched is added to the one that asked.
        / math.sqrt(q.shape[-1]) -> * 1
            You do not divide by the square root of the width: with it large, softmax hardens.
        / math.sqrt(q.shape[-1]) -> / q.shape[-1]
            You divide by the width. It is its square root.
        other @ matrices[2] -> other
            Your values are the other's vectors as they are. They are other @ matrices[2].
        q, k, v = x @ matrices[0], other @ matrices[1] -> q, k, v = x @ matrices[1], other @ matrices[0]
            Queries and keys have each other's matrix. The order is query, key, value.
    """),  # noqa: E501
)

EXERCISES = [GRID, CO_ATTENTION]
