"""Lesson 09, what attention sees: rollout through the layers, how far a head looks, and a start that misplaces.

The notebook holds the broken function word for word, under the name of its exercise.
"""

from functools import partial

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, narrowed, pulled, tensors


def my_rollout(maps):
    mixed = torch.eye(maps.shape[-1]).to(maps)  # (T, T): before the first layer each place holds itself
    for weights in maps:  # (B, heads, T, T), the first layer first
        mean = weights.mean(dim=1)  # (B, T, T): over the heads
        layer = (mean + torch.eye(mean.shape[-1]).to(mean)) / 2  # half of it came by the residual
        mixed = layer @ mixed  # (B, T, T): what the places of this layer took from those before
    return mixed


def maps(L=3, B=2, heads=2, T=5, dtype=torch.float64):
    """Attention maps (L, B, heads, T, T), sharp enough to differ."""
    return ((3 * torch.randn(L, B, heads, T, T, dtype=dtype)).softmax(dim=-1),)


def rolled(
    heads=lambda weights: weights.mean(dim=1),
    residual=lambda mean, eye: (mean + eye) / 2,
    onward=lambda layer, mixed: layer @ mixed,
):
    """A wrong answer to `my_rollout`: another mean of the heads, another residual, or another product."""

    def rollout(maps):
        eye = torch.eye(maps.shape[-1]).to(maps)
        mixed = eye
        for weights in maps:
            mixed = onward(residual(heads(weights), eye), mixed)
        return mixed

    return rollout


ROLLOUT = Exercise(
    solution=my_rollout,
    cases=(
        Case(
            maps,
            narrowed(
                (lambda given: (given["maps"][:1, :, :1],), "One layer of one head is wrong already: (A + I) / 2."),
                (
                    lambda given: (given["maps"][:1],),
                    "One layer of one head is right, several heads are not: their mean.",
                ),
                otherwise="One layer is right, several are not: a later layer stands on the left of the product.",
            ),
        ),
        Case(lambda: maps(2, 1, 1, 1), OTHER_SIZES),
        Case(lambda: maps(6, 1, 4, 3), "With six layers and a single image it is wrong."),
        Case(lambda: maps(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "without_residual": rolled(residual=lambda mean, eye: mean),
        "not_halved": rolled(residual=lambda mean, eye: mean + eye),
        "residual_of_ones": rolled(residual=lambda mean, eye: (mean + 1) / 2),
        "wrong_order": rolled(onward=lambda layer, mixed: mixed @ layer),
        "elementwise": rolled(onward=lambda layer, mixed: layer * mixed),
        "last_layer_only": rolled(onward=lambda layer, mixed: layer),
        "first_head_only": rolled(heads=lambda weights: weights[:, 0]),
    },
)


def my_distance(weights, grid):
    h, w = grid
    among = weights[:, :, 1:, 1:]  # (B, heads, N, N): [CLS] stands nowhere
    among = among / among.sum(dim=-1, keepdim=True)  # what a patch gives to patches, shared out anew
    place = torch.cartesian_prod(torch.arange(h), torch.arange(w)).to(weights)  # (N, 2): row and column
    distance = (place[:, None] - place).norm(dim=-1)  # (N, N)
    return (among * distance).sum(dim=-1).mean(dim=-1)  # (B, heads): the mean over the patches that look


def looks(B=2, heads=3, grid=(2, 3), dtype=torch.float64):
    """Maps (B, heads, 1 + N, 1 + N) with [CLS] first, and the grid."""
    T = 1 + grid[0] * grid[1]
    return (2 * torch.randn(B, heads, T, T, dtype=dtype)).softmax(dim=-1), grid


def without_cls(given):
    """A step of `narrowed`: nobody looks at [CLS]."""
    weights = given["weights"].clone()
    weights[..., 0] = 0
    return weights / weights.sum(dim=-1, keepdim=True), given["grid"]


about = partial(Case, tolerance=1e-4)  # who adds a millionth to a sum, against 0 / 0, is right


def apart(length=lambda way: way.norm(dim=-1), share=lambda among: among / among.sum(dim=-1, keepdim=True)):
    """A wrong answer to `my_distance`: another length of the way between two patches, or another share for each."""

    def distance(weights, grid):
        place = torch.cartesian_prod(*map(torch.arange, grid)).to(weights)
        return (share(weights[:, :, 1:, 1:]) * length(place[:, None] - place)).sum(dim=-1).mean(dim=-1)

    return distance


DISTANCE = Exercise(
    solution=my_distance,
    cases=(
        about(
            looks,
            narrowed(
                (
                    lambda given: (
                        without_cls(given)[0][..., :4, :4].softmax(-1) * torch.tensor([0.0, 1, 1, 1]),
                        (1, 3),
                    ),
                    "On a single row of three patches it is wrong already, with nothing given to [CLS].",
                ),
                (
                    without_cls,
                    "One row of patches is right, a grid is not: the way from (0, 0) to (1, 2) is sqrt(1 + 4) long.",
                ),
                otherwise="Without [CLS] you are right. What a patch gives to patches does not add up to 1 beside it.",
            ),
        ),
        about(lambda: looks(1, 1, (1, 2)), OTHER_SIZES),
        about(lambda: looks(1, 2, (4, 1)), "On a single column of patches it is wrong."),
        about(looks, NO_GRADIENT, ask=pulled),
        about(lambda: looks(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "last_patch_cut": lambda weights, grid: my_distance(weights.roll((1, 1), (2, 3)), grid),
        "cls_counts_as_0": apart(share=lambda among: among),
        "squared": apart(lambda way: way.square().sum(dim=-1)),
        "taxi": apart(lambda way: way.abs().sum(dim=-1)),
        "rows_only": apart(lambda way: way.abs()[..., 0]),
        "along_the_line": lambda weights, grid: my_distance(weights, (1, grid[0] * grid[1])),
        "grid_exchanged": lambda weights, grid: my_distance(weights, grid[::-1]),
        "summed": lambda weights, grid: my_distance(weights, grid) * grid[0] * grid[1],
    },
)


def broken_start(patches, w, cls, places):
    """What the first block reads, (B, 1 + N, D): patches (B, N, F), w (F, D), cls (D,), places (1 + N, D)."""
    x = patches @ w  # (B, N, D)
    x = x + places[: x.shape[1]]  # each patch, and where it stands
    return torch.cat([cls.expand(len(x), 1, -1), x], dim=1)  # (B, 1 + N, D): [CLS] in front


def mended_start(patches, w, cls, places):
    x = patches @ w  # (B, N, D)
    x = torch.cat([cls.expand(len(x), 1, -1), x], dim=1)  # (B, 1 + N, D): [CLS] in front
    return x + places  # each with its place, [CLS] too


START_SHAPES, EVERY = "B T D, D H, H, S H", {"B": 3, "T": 5, "D": 4, "H": 7, "S": 6}  # S: T + 1 places


def with_places(change):
    """A wrong answer to `mended_start`: change(places) is added."""
    return lambda patches, w, cls, places: mended_start(patches, w, cls, change(places))


def cls_last(patches, w, cls, places):
    return mended_start(patches, w, cls, 0 * places).roll(-1, 1) + places


START = Exercise(
    solution=mended_start,
    cases=(
        Case(
            tensors(START_SHAPES, sizes=EVERY),
            narrowed(
                (
                    lambda given: (given["patches"], given["w"], given["cls"], 0 * given["places"]),
                    "With all positions at 0 it is wrong already: [CLS], then patches @ w.",
                ),
                (
                    lambda given: (0 * given["patches"], given["w"], given["cls"], given["places"]),
                    "Your positions are assigned wrongly: row 0 is for [CLS], row 1 for the first patch, and so on.",
                ),
                otherwise="Positions alone are right, and so are patches alone. Add the two, each once.",
            ),
        ),
        Case(tensors(START_SHAPES, sizes={"B": 1, "T": 1, "D": 2, "H": 1, "S": 2}), OTHER_SIZES),
        Case(tensors(START_SHAPES, sizes=EVERY), NO_GRADIENT, ask=pulled),
        Case(lambda: tuple(a.float() for a in tensors(START_SHAPES, sizes=EVERY)()), SINGLE),
    ),
    stub=broken_start,
    mistakes={
        "bug_still_there": broken_start,
        "cls_without_place": with_places(lambda places: torch.cat([0 * places[:1], places[1:]])),
        "without_places": with_places(lambda places: 0 * places),
        "shifted": with_places(lambda places: places.roll(1, 0)),
        "one_place": with_places(lambda places: places[:1].expand_as(places)),
        "cls_last": cls_last,
        "multiplied": lambda patches, w, cls, places: mended_start(patches, w, cls, 0 * places) * places,
        "without_cls": lambda patches, w, cls, places: patches @ w + places[1:],
    },
)

EXERCISES = [ROLLOUT, DISTANCE, START]
