"""Lesson 10, judged: average precision by hand."""

from functools import partial

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import Case, narrowed
from course_lib.exercises.slips import slips

LESSON = "detr"


def my_average_precision(right, scores, objects):
    hits = right[scores.argsort(descending=True)].cumsum(0)  # (N,): right ones among the surest 1, 2, ... N
    precision = hits / torch.arange(1, len(hits) + 1)
    recall = hits / objects
    total = 0.0
    for step in range(101):  # recall 0, 0.01, ... 1
        there = precision[recall >= step / 100]
        total += there.max().item() if len(there) else 0.0
    return total / 101


def boxes_found(N=20, objects=23):
    """Which of N found boxes are right, how sure each is, and how many objects there are.

    Of 23 or 41 objects no number that is found is a recall of 0.01, 0.02 ... but none and all: otherwise rounding would
    decide whether `torch.linspace(0, 1, 101)` is reached.
    """
    right, scores = torch.rand(N) < 0.6, torch.rand(N, dtype=torch.float64)
    right[:5] = torch.tensor([False, True, True, False, False])
    scores[:5] = torch.tensor([2.0, 1.9, 1.8, -1, -2])  # the surest is wrong: so precision rises, and falls in the end
    order = torch.randperm(N)
    order = order.roll(-int((order == 1).nonzero()))  # the first that comes is right
    return right[order], scores[order], objects


about = partial(Case, tolerance=1e-5)  # who adds up 101 numbers in single precision is right

PRECISION = Exercise(
    lesson=LESSON,
    title="Average precision",
    solution=my_average_precision,
    returns="the average precision, a number",
    cases=(
        about(
            boxes_found,
            narrowed(
                (
                    lambda given: (given["right"], torch.arange(20.0, 0, -1), given["objects"]),
                    "Where the boxes stand in order already, the surest first, yours is wrong.",
                ),
                otherwise="In order they are right. Here they are not: sort by scores, the surest first.",
            ),
        ),
        about(
            lambda: (torch.tensor([True, False, True]), torch.tensor([0.9, 0.8, 0.7]), 2),
            "Of three boxes, right, wrong and right, for two objects, it is wrong: (51 * 1 + 50 * 2 / 3) / 101.",
        ),
        about(
            lambda: boxes_found(5, 41), "Where most objects are found by nobody it is wrong: there precision counts 0."
        ),
        about(lambda: (torch.ones(4).bool(), torch.rand(4), 4), "Where all is found, and nothing else, it is 1."),
        about(lambda: (torch.zeros(3).bool(), torch.rand(3), 2), "Where nothing that was found is right, it is 0."),
    ),
    hints=(
        "scores.argsort(descending=True) says in which order the boxes come, the surest first.",
        "right[order].cumsum(0) counts the right ones so far. Divided by how many came: precision; by objects: recall.",
        "At a recall the best precision counts that is reached there or beyond: precision[recall >= wanted].max().",
        "Of 101 recalls, 0, 0.01, ... 1, the mean. A recall that is never reached counts as 0.",
    ),
    mistakes=slips("""
        right[scores.argsort(descending=True)] -> right
            You take the boxes as they come. The surest comes first: sort by scores.
        scores.argsort(descending=True) -> scores.argsort()
            The least sure comes first in yours: descending=True.
        scores.argsort(descending=True) -> scores.argsort(descending=True).argsort()
            That is each box's rank. right[order] needs which box comes first, then second: argsort once.
        precision[recall >= step / 100] -> precision[recall >= step / 100][:1]
            You take the precision where a recall is first reached. If it is better further on, that counts.
        there.max().item() -> there.mean().item()
            You take the mean of the precisions beyond a recall. The best of them counts.
        there.max().item() -> there.min().item()
            You take the worst precision beyond a recall. The best of them counts.
        precision[recall >= step / 100] -> precision[recall <= step / 100]
            You look at what comes before a recall. What is reached there or beyond counts.
        hits / objects -> hits / right.sum()
            Your recall is a share of those that were found. An object that nobody found is missed: divide by objects.
        precision = hits / torch.arange(1, len(hits) + 1) -> precision = hits / len(hits)
            You divide by all boxes. After the n surest, precision is what is right among these n.
        torch.arange(1, len(hits) + 1) -> torch.arange(len(hits)).clamp(min=1)
            You count the boxes from 0. After the first there is one.
        range(101) -> range(1, 101)
        total / 101 -> total / 100
            You leave the recall 0 out. There are 101: 0, 0.01, ... 1.
        precision[recall >= step / 100] -> precision.cummax(0).values[recall >= step / 100][:1]
            You take the best precision up to a recall. Beyond it counts: flip before cummax, and flip back after it.
        return total / 101 -> return torch.trapezoid(precision, recall).item()
            That is the area under the line from point to point (trapezoids). Asked are 101 recalls, with the best beyond.
        return total / 101 -> return precision[right[scores.argsort(descending=True)]].sum().item() / objects
            You add up the precision at each right box, over the objects. Asked are 101 recalls, with the best beyond.
        return total / 101 -> return precision[right[scores.argsort(descending=True)]].sum().item() / max(right.sum().item(), 1)
            You take the mean precision at the right boxes. An object that nobody found has no part in it: 101 recalls.
        return total / 101 -> return precision.mean().item()
            You take the mean over the boxes. It is over recalls: 101 of them, evenly spread.
        total += there.max().item() if len(there) else 0.0 -> total += there.max().item() if len(there) else precision[-1].item()
            A recall that is never reached counts as 0. You go on with the last precision.
        return total / 101 -> return (2 * precision * recall / (precision + recall + 1e-9)).max().item()
            That is the best F1. Average precision is a mean of precisions over recalls.
    """),  # noqa: E501
)


EXERCISES = [PRECISION]
