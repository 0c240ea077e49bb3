"""Lesson 10, judged and mended: average precision by hand, and a loss that is only what the matching costs.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import torch
import torch.nn.functional as F

from course_lib.detection.matching import match
from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips

LESSON = "detr"


def my_precision(right, scores, objects):
    hits = right[scores.argsort(descending=True)].cumsum(0)  # (N,): right ones among the surest 1, 2, ... N
    precision = hits / torch.arange(1, len(hits) + 1)
    recall = hits / objects
    total = 0.0
    for step in range(101):  # recall 0, 0.01, ... 1
        there = precision[recall >= step / 100]
        total += there.max().item() if len(there) else 0.0
    return total / 101


def boxes_found(N=20, objects=24):
    """Which of N found boxes are right, how sure each is, and how many objects there are."""
    right, scores = torch.rand(N) < 0.6, torch.rand(N, dtype=torch.float64)
    right[:5] = torch.tensor([False, True, True, False, False])
    scores[:5] = torch.tensor([2.0, 1.9, 1.8, -1, -2])  # the surest is wrong: so precision rises, and falls in the end
    order = torch.randperm(N)
    right, scores = right[order], scores[order]
    return right, scores, objects


PRECISION = Exercise(
    lesson=LESSON,
    title="Average precision",
    solution=my_precision,
    returns="the average precision, a number",
    cases=(
        Case(
            boxes_found,
            narrowed(
                (
                    lambda given: (given["right"], torch.arange(20.0, 0, -1), given["objects"]),
                    "Where the boxes stand in order already, the surest first, yours is wrong.",
                ),
                otherwise="In order they are right. Here they are not: sort by scores, the surest first.",
            ),
        ),
        Case(
            lambda: (torch.tensor([True, False, True]), torch.tensor([0.9, 0.8, 0.7]), 2),
            "Of three boxes, right, wrong and right, for two objects, it is wrong: (51 * 1 + 50 * 2 / 3) / 101.",
        ),
        Case(
            lambda: boxes_found(5, 40), "Where most objects are found by nobody it is wrong: there precision counts 0."
        ),
        Case(lambda: (torch.ones(4).bool(), torch.rand(4), 4), "Where all is found, and nothing else, it is 1."),
        Case(lambda: (torch.zeros(3).bool(), torch.rand(3), 2), "Where nothing that was found is right, it is 0."),
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
        return total / 101 -> return precision.mean().item()
            You take the mean over the boxes. It is over recalls: 101 of them, evenly spread.
        total += there.max().item() if len(there) else 0.0 -> total += there.max().item() if len(there) else precision[-1].item()
            A recall that is never reached counts as 0. You go on with the last precision.
        return total / 101 -> return (2 * precision * recall / (precision + recall + 1e-9)).max().item()
            That is the best F1. Average precision is a mean of precisions over recalls.
    """),  # noqa: E501
)


def broken_set(logits, boxes, labels, truth):
    """The loss of one scene: logits (Q, K + 1), boxes (Q, 4), labels (M,), truth (M, 4)."""
    p = logits.softmax(dim=-1)  # (Q, K + 1)
    costs = -p[:, labels] + 5 * (boxes[:, None] - truth).abs().sum(dim=-1)  # (Q, M)
    given = match(costs[None], labels[None] >= 0)[0]  # (Q,): the object of each query, or -1
    has = given >= 0
    return costs[has, given[has]].mean()  # as cheap as can be


def mended_set(logits, boxes, labels, truth):
    p = logits.softmax(dim=-1)  # (Q, K + 1)
    costs = -p[:, labels] + 5 * (boxes[:, None] - truth).abs().sum(dim=-1)  # (Q, M)
    given = match(costs[None], labels[None] >= 0)[0]  # (Q,): the object of each query, or -1
    has = given >= 0
    asked = torch.where(has, labels[given], logits.shape[-1] - 1)  # (Q,): class K is "no object"
    placing = (boxes[has] - truth[given[has]]).abs().sum(dim=-1).mean()
    return F.cross_entropy(logits, asked) + 5 * placing


def scene(Q=6, M=3, K=4, dtype=torch.float64):
    """What a model answers for one scene, and what is in it."""
    return (2 * torch.randn(Q, K + 1, dtype=dtype), torch.rand(Q, 4, dtype=dtype), torch.randint(1, K, (M,)),
            torch.rand(M, 4, dtype=dtype))  # fmt: skip


SET = Exercise(
    lesson=LESSON,
    title='Find the bug: a loss that never says "no object"',
    solution=mended_set,
    returns="the loss, a number",
    cases=(
        Case(
            scene,
            narrowed(
                (
                    lambda given: (given["logits"][:1], given["boxes"][:1], given["labels"][:1], given["truth"][:1]),
                    "With one query and one object it is wrong already: -log p(label) + 5 |box - truth|.",
                ),
                (
                    lambda given: (given["logits"][:3], given["boxes"][:3], given["labels"], given["truth"]),
                    "With as many queries as objects it is wrong: each query names its object, and the mean is taken.",
                ),
                otherwise='Where every query has an object it is right. Those without must say "no object", class K.',
            ),
        ),
        Case(lambda: scene(1, 1, 2), "With a single query and object it is wrong."),
        Case(
            lambda: scene(9, 1, 3),
            "With one object and nine queries it is wrong: eight must say that nothing is there.",
        ),
        Case(scene, NO_GRADIENT, ask=pulled),
        Case(lambda: scene(dtype=torch.float32), SINGLE),
    ),
    stub=broken_set,
    hints=(
        "What does the broken loss ask of a query that has no object? Look at what `has` leaves out.",
        "The costs say who answers for what. That is all they are for: -p is no loss of a classifier, -log p is.",
        "What each query should say: labels[given] where it has an object, class K, the last, where it has none.",
        "F.cross_entropy(logits, asked) over all queries, and 5 times the mean |box - truth| over those that have one.",
    ),
    mistakes=slips("""
        return F.cross_entropy(logits, asked) + 5 * placing -> return costs[has, given[has]].mean()
            The bug is still there: a query without an object is asked for nothing, and -p pulls least where p is
            smallest. Boxes get better all the same, so the curve looks well.
        F.cross_entropy(logits, asked) + -> costs[has, given[has]].mean() + F.cross_entropy(logits, asked) +
            You add what the matching costs. Its boxes are counted twice then: the costs choose, the loss teaches.
        F.cross_entropy(logits, asked) -> F.cross_entropy(logits[has], asked[has])
            Only queries with an object are asked. The others must learn to say "no object".
        logits.shape[-1] - 1) -> 0)
            A query without an object is asked for class 0, a digit. "No object" is the last class.
        asked = torch.where(has, labels[given], logits.shape[-1] - 1) -> asked = labels[given]
            given is -1 for a query without an object, and labels[-1] is the last label: say class K there.
        F.cross_entropy(logits, asked) -> F.cross_entropy(p, asked)
            F.cross_entropy takes logits. You hand it p, and the softmax is taken twice: it hardly moves then.
        F.cross_entropy(logits, asked) -> -p[torch.arange(len(asked)), asked].mean()
            That is -p, as in the cost. Where p is near 0 it has hardly a gradient; -log p has.
        placing = (boxes[has] - truth[given[has]]).abs().sum(dim=-1).mean() -> placing = (boxes - truth[given]).abs().sum(dim=-1).mean()
            Queries without an object are pulled to the last one's box. Only those that have one have a box to learn.
        truth[given[has]] -> truth[: has.sum()]
            You compare the boxes with the list as it stands. Query q has object given[q].
        + 5 * placing -> + placing
            The boxes count once in yours, and in the cost five times: 5 * placing.
        .abs().sum(dim=-1).mean() -> .abs().mean()
            You take the mean over the four numbers of a box. Their sum is meant: |box - truth|.
        .abs().sum(dim=-1).mean() -> .abs().sum()
            You add up over the objects. Take their mean, so that a full scene weighs as much as an empty one.
        return F.cross_entropy(logits, asked) + 5 * placing -> return F.cross_entropy(logits, asked)
            The boxes are not in the loss any more.
        F.cross_entropy(logits, asked) -> F.cross_entropy(logits[:, :-1], asked.clamp(max=logits.shape[-1] - 2))
            You cut off the last class. It is "no object", which most queries should say.
    """),  # noqa: E501
)

EXERCISES = [PRECISION, SET]
