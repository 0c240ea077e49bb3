"""Lesson 10, a set of objects: how well two boxes agree.

The cheapest matching is in `detr_matching.py`, "no object" in the loss and a loss that is only a cost in
`detr_loss.py`, average precision in `detr_judge.py`.
"""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, narrowed, pulled


def noted(notes):
    """For `Case.ask`: the usual way to ask; an error whose text holds a key of `notes` carries its note too."""

    def ask(answer, *arguments):
        try:
            return answer(*arguments)
        except Exception as error:
            for note in (note for part, note in notes.items() if part in str(error)):
                error.add_note(note)
            raise

    return ask


one_number = noted({
    "Boolean value of Tensor": "Python's min, max and if take a single number, but here you have many, (...). Use "
    "torch.minimum, torch.maximum, .clamp(min=0) and torch.where; a[..., 2] is the right side of every box.",
})  # fmt: skip


def my_iou(a, b):
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    width, height = (high - low).clamp(min=0).unbind(-1)  # apart, they share nothing
    both = width * height  # (...)
    areas = [(box[..., 2:] - box[..., :2]).prod(-1) for box in (a, b)]
    union = areas[0] + areas[1] - both
    return torch.where(union > 0, both / union.where(union > 0, torch.ones_like(union)), 0.0)


SMALL_ENOUGH = 1e-4  # an answer may be off by this: so much does 1e-6 change that is added to the union of two boxes


def pairs(n=40, dtype=torch.float64):
    """n pairs of boxes by their corners; of several, some overlap, some are apart, in one direction or in both."""
    low = 2 * torch.rand(2, n, 2, dtype=dtype)
    size = torch.rand(2, n, 2, dtype=dtype) + 0.3
    a, b = torch.cat([low, low + size], dim=-1)
    if n > 4:
        a[:4] = torch.tensor([1.0, 1.0, 2.0, 1.5])
        b[:4] = torch.tensor([[2.2, 1.7, 3.0, 2.6], [0.1, 0.2, 0.7, 0.9], [2.4, 1.1, 3.0, 1.9], [1.2, 1.1, 1.7, 1.4]])
    return a, b


def small():
    """Two boxes of 0.07 by 0.07 that overlap, and what a millionth more in their union changes is next to nothing."""
    return torch.tensor([[0.1, 0.1, 0.17, 0.17]]).double(), torch.tensor([[0.12, 0.11, 0.19, 0.18]]).double()


TOO_MUCH = (
    "Two small boxes, 0.07 by 0.07, come out wrong. Do you add a small number to the union to avoid 0 / 0? It must "
    "be small beside every union: 1e-6 or less."
)


def overlapping(given):
    """A step of `narrowed`: pairs that overlap, neither inside the other."""
    return given["a"], given["a"] + 0.3 * (given["a"][..., 2:] - given["a"][..., :2]).repeat(1, 2)


def every_pair(n=4, m=3, dtype=torch.float64):
    """(n, 1, 4) and (m, 4), for the whole table."""
    a, b = pairs(n, dtype)
    return a[:, None], b[:1].expand(m, -1) + torch.rand(m, 1, dtype=dtype)


EVERY_PAIR = "For all pairs of (4, 1, 4) and (3, 4) your result is wrong: write box[..., 2], not box[:, 2]."


def points():
    """Two boxes without any area, and one of them with a box."""
    return torch.tensor([[0.2, 0.2, 0.2, 0.2], [0.2, 0.2, 0.2, 0.2]]), torch.tensor([[0.2] * 4, [0.1, 0.1, 0.5, 0.5]])


def agreeing(value, clamped=True):
    """A wrong answer to `my_iou` or `my_giou`: value(intersection, area of a, area of b, area of the hull)."""

    def agree(a, b):
        sides = torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])
        hull = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(-1)
        areas = [(box[..., 2:] - box[..., :2]).prod(-1) for box in (a, b)]
        return value((sides.clamp(min=0) if clamped else sides).prod(-1), *areas, hull)

    return agree


def from_centres(box):
    return torch.cat([box[..., :2] - box[..., 2:] / 2, box[..., :2] + box[..., 2:] / 2], -1)


IOU = Exercise(
    solution=my_iou,
    cases=(
        Case(
            pairs,
            narrowed(
                (lambda given: (given["a"], given["a"]), "A box compared with itself should give 1. Yours does not."),
                (
                    overlapping,
                    "Overlapping pairs are wrong already: divide the intersection by the union.",
                ),
                otherwise="Overlapping pairs are correct. Others are apart: their intersection is 0, not negative.",
                tolerance=SMALL_ENOUGH,
            ),
            one_number,
            SMALL_ENOUGH,
        ),
        Case(small, TOO_MUCH, tolerance=SMALL_ENOUGH),
        Case(every_pair, EVERY_PAIR, tolerance=SMALL_ENOUGH),
        Case(
            points,
            "For two boxes without any area the IoU is 0. The union is 0 there too, and 0 / 0 is NaN.",
            tolerance=SMALL_ENOUGH,
        ),
        Case(lambda: pairs(1), OTHER_SIZES, tolerance=SMALL_ENOUGH),
        Case(pairs, NO_GRADIENT, pulled, SMALL_ENOUGH),
        Case(lambda: pairs(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "not_clamped": agreeing(lambda both, a, b, hull: both / (a + b - both), clamped=False),
        "counted_twice": agreeing(lambda both, a, b, hull: both / (a + b)),
        "over_the_smaller": agreeing(lambda both, a, b, hull: both / torch.minimum(a, b)),
        "over_the_hull": agreeing(lambda both, a, b, hull: both / hull),
        "dice": agreeing(lambda both, a, b, hull: 2 * both / (a + b)),
        "intersection": agreeing(lambda both, a, b, hull: both),
        "without_area": agreeing(lambda both, a, b, hull: both / (a + b - both)),
        "as_centres": lambda a, b: my_iou(from_centres(a), from_centres(b)),
    },
)


def my_giou(a, b):
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    both = (high - low).clamp(min=0).prod(-1)  # (...)
    areas = [(box[..., 2:] - box[..., :2]).prod(-1) for box in (a, b)]
    union = areas[0] + areas[1] - both
    first, last = torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])
    hull = (last - first).prod(-1)  # (...): the smallest box around both
    return both / union - (hull - union) / hull


GIOU = Exercise(
    solution=my_giou,
    cases=(
        Case(
            pairs,
            narrowed(
                (lambda given: (given["a"], given["a"]), "A box compared with itself should give 1. Yours does not."),
                (overlapping, "Overlapping pairs are wrong already: compute IoU - (hull - union) / hull."),
                otherwise="Overlapping pairs are correct. Others are apart: their IoU is 0, their GIoU negative.",
                tolerance=SMALL_ENOUGH,
            ),
            one_number,
            SMALL_ENOUGH,
        ),
        Case(small, TOO_MUCH, tolerance=SMALL_ENOUGH),
        Case(every_pair, EVERY_PAIR, tolerance=SMALL_ENOUGH),
        Case(lambda: pairs(1), OTHER_SIZES, tolerance=SMALL_ENOUGH),
        Case(pairs, NO_GRADIENT, pulled, SMALL_ENOUGH),
        Case(lambda: pairs(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "intersection_subtracted": agreeing(lambda both, a, b, hull: both / (a + b - both) - (hull - both) / hull),
        "penalty_counts_twice": agreeing(lambda both, a, b, hull: both / (a + b - both) - (hull - a - b) / hull),
        "over_the_union": agreeing(
            lambda both, a, b, hull: both / (a + b - both) - (hull - a - b + both) / (a + b - both)
        ),
        "iou": agreeing(lambda both, a, b, hull: both / (a + b - both)),
        "hull_subtracted": agreeing(lambda both, a, b, hull: both / (a + b - both) - hull),
        "loss": lambda a, b: 1 - my_giou(a, b),
        "clamped": lambda a, b: my_giou(a, b).clamp(min=0),
        "as_centres": lambda a, b: my_giou(from_centres(a), from_centres(b)),
    },
)


EXERCISES = [IOU, GIOU]
