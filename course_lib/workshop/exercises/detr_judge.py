"""Lesson 10, evaluation: average precision by hand."""

from functools import partial

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import Case, narrowed


def my_average_precision(right, scores, objects):
    hits = right[scores.argsort(descending=True)].cumsum(0)  # (N,): correct ones among the most confident 1, 2, ... N
    precision = hits / torch.arange(1, len(hits) + 1)
    recall = hits / objects
    total = 0.0
    for step in range(101):  # recall 0, 0.01, ... 1
        there = precision[recall >= step / 100]
        total += there.max().item() if len(there) else 0.0
    return total / 101


def boxes_found(N=20, objects=23):
    """Which of N detected boxes are correct, how confident each is, and how many objects there are.

    With 23 or 41 objects no recall is a multiple of 0.01 except 0 and 1: otherwise rounding would decide whether
    `torch.linspace(0, 1, 101)` is reached.
    """
    right, scores = torch.rand(N) < 0.6, torch.rand(N, dtype=torch.float64)
    right[:5] = torch.tensor([False, True, True, False, False])
    scores[:5] = torch.tensor([2.0, 1.9, 1.8, -1, -2])  # the first is wrong: precision rises, then falls
    order = torch.randperm(N)
    order = order.roll(-int((order == 1).nonzero()))  # the first in the list is correct
    return right[order], scores[order], objects


about = partial(Case, tolerance=1e-5)  # who adds up 101 numbers in single precision is right


def in_list_order(right, scores, objects):
    return my_average_precision(right, -torch.arange(len(right)), objects)


def averaged(value):
    """A wrong answer to `my_average_precision`: value(precision, recall) after each box, the most confident first."""

    def average(right, scores, objects):
        hits = right[scores.argsort(descending=True)].cumsum(0)
        return value(hits / torch.arange(1, len(hits) + 1), hits / objects)

    return average


def best_so_far(precision, recall):
    best = precision.cummax(0).values
    return sum(best[recall >= step / 100][0].item() for step in range(101) if recall[-1] >= step / 100) / 101


def share_found(recall):
    return recall.diff(prepend=torch.zeros(1))


def at_101_recalls(beyond):
    """A wrong answer to `my_average_precision`: beyond(precisions at this recall or later) counts."""

    def mean(precision, recall):
        beyonds = [precision[recall >= step / 100] for step in range(101)]
        return sum(beyond(there).item() for there in beyonds if len(there)) / 101

    return averaged(mean)


PRECISION = Exercise(
    solution=my_average_precision,
    cases=(
        about(
            boxes_found,
            narrowed(
                (
                    lambda given: (given["right"], torch.arange(20.0, 0, -1), given["objects"]),
                    "Your result is wrong even where the boxes are already sorted, the most confident first.",
                ),
                otherwise="Sorted boxes are correct. These are not sorted: sort by scores, highest first.",
            ),
        ),
        about(
            lambda: (torch.tensor([True, False, True]), torch.tensor([0.9, 0.8, 0.7]), 2),
            "Three boxes, correct, wrong and correct, and two objects should give (51 * 1 + 50 * 2 / 3) / 101.",
        ),
        about(
            lambda: boxes_found(5, 41), "It is wrong where most objects are never found: precision counts as 0 there."
        ),
        about(lambda: (torch.ones(4).bool(), torch.rand(4), 4), "If every object is found and nothing else, AP is 1."),
        about(lambda: (torch.zeros(3).bool(), torch.rand(3), 2), "If no detected box is correct, AP is 0."),
    ),
    mistakes={
        "in_list_order": in_list_order,
        "least_confident_first": lambda right, scores, objects: my_average_precision(right, -scores, objects),
        "ranks": lambda right, scores, objects: in_list_order(
            right[scores.argsort(descending=True).argsort()], scores, objects
        ),
        "first_reached": at_101_recalls(lambda there: there[0]),
        "best_so_far": averaged(best_so_far),
        "over_found": lambda right, scores, objects: my_average_precision(right, scores, right.sum()),
        "trapezoids": averaged(lambda precision, recall: torch.trapezoid(precision, recall).item()),
        "at_correct_boxes": averaged(lambda precision, recall: (precision * share_found(recall)).sum().item()),
    },
)


EXERCISES = [PRECISION]
