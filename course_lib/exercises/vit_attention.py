"""Lesson 09, what attention sees: rollout through the layers, how far a head looks, and a start that misplaces.

The notebook holds the broken function word for word, under the name of its exercise.
"""

from functools import partial

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, narrowed, pulled, tensors
from course_lib.exercises.slips import slips


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
    mistakes=slips("""
        (mean + torch.eye(mean.shape[-1]).to(mean)) / 2 -> mean
            The residual is missing: what a place held before stays in it. (A + I) / 2.
        (mean + torch.eye(mean.shape[-1]).to(mean)) / 2 -> mean + torch.eye(mean.shape[-1]).to(mean)
            Your rows add up to more than 1, and more with each layer: divide A + I by 2.
        layer @ mixed -> mixed @ layer
            The product is the wrong way round: the later layer takes from what the earlier ones made, layer @ mixed.
        weights.mean(dim=1) -> weights.sum(dim=1)
            You add the heads up. Take their mean, so that a row still adds up to 1.
        weights.mean(dim=1) -> weights.amax(dim=1)
            You take the largest head at each place. Abnar and Zuidema take their mean.
        weights.mean(dim=1) -> weights[:, 0]
            You use the first head alone. Take the mean of all.
        weights.mean(dim=1) -> weights.mean(dim=0)
            You take the mean over the images. The heads are dimension 1.
        layer @ mixed -> layer * mixed
            You multiply number by number. What has moved twice is a product of matrices: @.
        layer @ mixed -> layer + mixed
            You add the layers up. What the second layer takes has been mixed by the first: a product.
        layer @ mixed -> layer
            Only the last layer is left of yours. What it mixes has been mixed before: layer @ mixed.
        layer @ mixed -> layer.mT @ mixed
            You look at each map from the side of the keys. Rows are who takes, columns from whom.
        mean + torch.eye(mean.shape[-1]).to(mean) -> mean + 1
            You add 1 to every number. The residual hands on each place to itself alone: the identity, torch.eye.
        return mixed -> return mixed[:, 0]
            You return the row of [CLS] alone. Asked is the whole matrix, (B, T, T).
        for weights in maps -> for weights in maps[1:]
            The first layer is left out in yours: begin with the identity, and go through all of them.
    """),
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
    mistakes=slips("""
        weights[:, :, 1:, 1:] -> weights[:, :, :-1, :-1]
            You cut the last patch off. [CLS] is the first place: 1: in both dimensions.
        among = among / among.sum(dim=-1, keepdim=True) -> pass
            What goes to [CLS] counts as distance 0 in yours. Divide each row by what it gives to patches.
        among.sum(dim=-1, keepdim=True) -> among.sum(dim=-2, keepdim=True)
            You divide by the sum of a column. A row is what one patch gives away: dim=-1.
        .norm(dim=-1) -> .square().sum(dim=-1)
            You leave out the root: that is the square of the distance.
        .norm(dim=-1) -> .abs().sum(dim=-1)
            You walk along rows and columns, as a taxi does. The straight way is the root of the sum of squares.
        .norm(dim=-1) -> .abs().amax(dim=-1)
            You take the longer of the two sides. The straight way is the root of the sum of squares.
        .norm(dim=-1) -> .abs()[..., 0]
            You count rows alone. The columns belong to the way too.
        torch.cartesian_prod(torch.arange(h), torch.arange(w)) -> torch.arange(h * w)[:, None]
            You count places along the line of patches. The one below is as near as the one beside.
        (torch.arange(h), torch.arange(w)) -> (torch.arange(w), torch.arange(h))
            Rows and columns of the grid are exchanged: patch n stands in row n // w, column n % w.
        .sum(dim=-1).mean(dim=-1) -> .mean(dim=(-2, -1))
            You divide by the number of patches once too often: the weights of a row add up to 1 already.
        .sum(dim=-1).mean(dim=-1) -> .sum(dim=(-2, -1))
            You add up over the patches that look. Take their mean.
        (among * distance).sum(dim=-1).mean(dim=-1) -> distance[among.argmax(dim=-1), torch.arange(h * w)].mean(dim=-1)
            You take the patch that is looked at most. Every patch counts, by its weight.
        .sum(dim=-1).mean(dim=-1) -> .sum(dim=-1).mean(dim=(1, 2))
            You take the mean over the heads as well. Each head has a distance of its own.
        .sum(dim=-1).mean(dim=-1) -> .sum(dim=-1)[:, :, 0]
            You answer for the first patch alone. Take the mean over all that look.
    """),
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
START = Exercise(
    solution=mended_start,
    cases=(
        Case(
            tensors(START_SHAPES, sizes=EVERY),
            narrowed(
                (
                    lambda given: (given["patches"], given["w"], given["cls"], 0 * given["places"]),
                    "With all places at 0 it is wrong already: [CLS], then patches @ w.",
                ),
                (
                    lambda given: (0 * given["patches"], given["w"], given["cls"], given["places"]),
                    "Which place belongs to whom is wrong: row 0 is for [CLS], row 1 for the first patch, and so on.",
                ),
                otherwise="Places alone are right, and patches alone. Together they are added, each once.",
            ),
        ),
        Case(tensors(START_SHAPES, sizes={"B": 1, "T": 1, "D": 2, "H": 1, "S": 2}), OTHER_SIZES),
        Case(tensors(START_SHAPES, sizes=EVERY), NO_GRADIENT, ask=pulled),
        Case(lambda: tuple(a.float() for a in tensors(START_SHAPES, sizes=EVERY)()), SINGLE),
    ),
    stub=broken_start,
    mistakes=slips("""
        return x + places -> return torch.cat([x[:, :1], x[:, 1:] + places[:-1]], dim=1)
            The bug is still there: each patch gets the place of the one before it, and [CLS] gets none. A model that
            is trained so learns other places, and nobody notices; with weights that others trained, all is shifted.
        return x + places -> return torch.cat([x[:, :1], x[:, 1:] + places[1:]], dim=1)
            The patches are right. [CLS] has a place as well, the first row.
        return x + places -> return torch.cat([x[:, :1], x[:, 1:] + places[:-1]], dim=1) + places
            You add places twice: those before [CLS] came in front are still there. Each place is added once.
        return x + places -> return x + places + torch.cat([0 * places[:1], places[1:]])
            The places of the patches are added twice. Each is added once.
        return x + places -> return x
            No place is added at all: the model could not tell two patches exchanged. x + places.
        return x + places -> return x + places.roll(1, 0)
            The rows are shifted by one: the first is that of [CLS], the second that of the first patch.
        return x + places -> return x + places.roll(-1, 0)
            [CLS] gets the first patch's place, and all others one too late: the first row is that of [CLS].
        torch.cat([cls.expand(len(x), 1, -1), x], dim=1) -> torch.cat([x, cls.expand(len(x), 1, -1)], dim=1)
            You put [CLS] at the end. It stands in front, where the head reads it.
        x = torch.cat([cls.expand(len(x), 1, -1), x], dim=1) -> x = torch.cat([0 * x[:, :1], x], dim=1) + cls
            You add [CLS] to every patch. It is a token of its own.
        x + places -> x * places
            A place is added to what stands there, not multiplied with it.
        return x + places -> return x + torch.cat([places[:1], 0 * places[1:]])
            Only [CLS] gets its place. The patches need theirs.
        x = torch.cat([cls.expand(len(x), 1, -1), x], dim=1) -> places = places[1:]
            [CLS] is missing: 1 + N tokens are wanted, and the head reads the first.
        return x + places -> return x + places[0]
            Every token gets the place of [CLS]. Each row of places belongs to one of them.
    """),
)

EXERCISES = [ROLLOUT, DISTANCE, START]
