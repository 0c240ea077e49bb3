"""Lesson 10, evaluation: average precision by hand."""

from functools import partial

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import Case, narrowed
from course_lib.exercises.slips import slips


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
    mistakes=slips("""
        right[scores.argsort(descending=True)] -> right
            You take the boxes in the order of the list. The most confident comes first: sort by scores.
        scores.argsort(descending=True) -> scores.argsort()
            Your order starts with the least confident box: use descending=True.
        scores.argsort(descending=True) -> scores.argsort(descending=True).argsort()
            That is the rank of each box. right[order] needs the index of the first box, of the second, ...: argsort once.
        precision[recall >= step / 100] -> precision[recall >= step / 100][:1]
            You take the precision where a recall is first reached. If it is better further on, the better one counts.
        there.max().item() -> there.mean().item()
            You take the mean of the precisions beyond a recall. The best of them counts.
        there.max().item() -> there.min().item()
            You take the worst precision beyond a recall. The best of them counts.
        precision[recall >= step / 100] -> precision[recall <= step / 100]
            You take the precisions before a recall. Those at this recall or beyond it count.
        hits / objects -> hits / right.sum()
            Your recall is a share of the objects that were found. Missed objects count too: divide by objects.
        precision = hits / torch.arange(1, len(hits) + 1) -> precision = hits / len(hits)
            You divide by all boxes. After the n most confident boxes, precision is the share of these n that is correct.
        torch.arange(1, len(hits) + 1) -> torch.arange(len(hits)).clamp(min=1)
            You count the boxes from 0. After the first box there is one.
        range(101) -> range(1, 101)
        total / 101 -> total / 100
            You leave out the recall 0. There are 101 recalls: 0, 0.01, ... 1.
        precision[recall >= step / 100] -> precision.cummax(0).values[recall >= step / 100][:1]
            You take the best precision up to a recall. The best beyond it counts: flip before cummax, and flip back after it.
        return total / 101 -> return torch.trapezoid(precision, recall).item()
            That is the area under the line from point to point (trapezoids). Take 101 recalls, with the best precision beyond.
        return total / 101 -> return precision[right[scores.argsort(descending=True)]].sum().item() / objects
            You sum the precision at each correct box, over the objects. Take 101 recalls, with the best precision beyond.
        return total / 101 -> return precision[right[scores.argsort(descending=True)]].sum().item() / max(right.sum().item(), 1)
            You take the mean precision at the correct boxes, so missed objects do not count. Take 101 recalls.
        return total / 101 -> return precision.mean().item()
            You take the mean over the boxes. Take it over the recalls: 101 of them, evenly spaced.
        total += there.max().item() if len(there) else 0.0 -> total += there.max().item() if len(there) else precision[-1].item()
            A recall that is never reached counts as 0. You continue with the last precision.
        return total / 101 -> return (2 * precision * recall / (precision + recall + 1e-9)).max().item()
            That is the best F1. Average precision is a mean of precisions over recalls.
    """),  # noqa: E501
)


EXERCISES = [PRECISION]
