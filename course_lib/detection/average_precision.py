"""Average precision: how a detector is judged, from the first found box to the last. Lesson 10.

Shapes: S scenes, Q found boxes each, M true ones. A label of -1 pads, among the found and the true. Boxes are centres
and sizes.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.detection.boxes import iou, to_corners
from course_lib.inputs.shapes import check_shapes


class Found(NamedTuple):
    """What a detector answers: labels int64 (S, Q), -1 for nothing; boxes (S, Q, 4); scores (S, Q), how sure it is."""

    labels: Tensor
    boxes: Tensor
    scores: Tensor


def found_by(logits: Tensor, boxes: Tensor) -> Found:
    """Each query's best class that is not "no object", and its p: logits (S, Q, K + 1), boxes (S, Q, 4)."""
    check_shapes("found_by", logits=(logits, "S Q K"), boxes=(boxes, "S Q 4"))
    scores, labels = logits.softmax(-1)[..., :-1].max(-1)  # (S, Q)
    return Found(labels, boxes, scores)


def right_ones(found: Found, labels: Tensor, truth: Tensor, at: float = 0.5) -> Tensor:
    """Which of the found are right: bool (S, Q). labels int64 (S, M), truth (S, M, 4).

    In each scene the surest comes first. It takes the free object of its class that it covers best, and is right if
    their IoU is `at` or more. An object is taken once: a second box on it is wrong. M may be 0: then none is right.
    """
    check_shapes("right_ones", found=(found.labels, "int64 S Q"), boxes=(found.boxes, "S Q 4"),
                 scores=(found.scores, "S Q"), labels=(labels, "int64 S M"), truth=(truth, "S M 4"))  # fmt: skip
    labels, truth = F.pad(labels, (0, 1), value=-1), F.pad(truth, (0, 0, 0, 1))  # one object at least, if only padding
    covered = iou(to_corners(found.boxes)[:, :, None], to_corners(truth)[:, None])  # (S, Q, M)
    fits = (covered >= at) & (found.labels[:, :, None] == labels[:, None]) & (labels >= 0)[:, None]
    covered, free = covered * fits, torch.ones_like(labels, dtype=torch.bool)  # (S, Q, M), (S, M)
    right, scene = torch.zeros_like(found.labels, dtype=torch.bool), torch.arange(len(labels), device=labels.device)
    for query in found.scores.argsort(dim=1, descending=True, stable=True).T:  # (S,): the next one of each scene
        most, which = (covered[scene, query] * free).max(-1)  # (S,)
        right[scene, query] = most > 0
        free[scene, which] &= most <= 0
    return right


def precision_recall(right: Tensor, scores: Tensor, objects: int) -> tuple[Tensor, Tensor]:
    """Precision and recall after the surest, the two surest, ...: right bool (N,), scores (N,) -> (N,) and (N,).

    precision: the share of the found that are right; recall: the share of all objects that are found. Raises
    ValueError where there is no object.
    """
    check_shapes("precision_recall", right=(right, "bool N"), scores=(scores, "N"))
    _check_objects(objects)
    hits = right[scores.argsort(descending=True, stable=True)].cumsum(0)  # (N,)
    kept, objects = torch.arange(1, len(hits) + 1, device=hits.device), torch.as_tensor(objects, device=hits.device)
    return hits / kept, hits / objects


def average_precision(precision: Tensor, recall: Tensor) -> float:
    """The mean over 101 recalls, 0 to 1, of the best precision at that recall or beyond (Lin et al., 2014, COCO).

    precision, recall (N,), as `precision_recall` gives them. A recall that is never reached counts as 0.
    """
    check_shapes("average_precision", precision=(precision, "N"), recall=(recall, "N"))
    best = torch.cat([precision.flip(0).cummax(0).values.flip(0), precision.new_zeros(1)])  # (N + 1,)
    # Divided on the CPU, as whole numbers are: 65 / 100 is 13 / 20 then, which linspace or a GPU may miss by a digit.
    wanted = (torch.arange(101, dtype=recall.dtype) / 100).to(recall.device)
    return best[torch.searchsorted(recall, wanted)].mean().item()


def mean_average_precision(found: Found, labels: Tensor, truth: Tensor, at: float = 0.5) -> float:
    """The mean of the classes' average precisions at one IoU: AP50 at 0.5, AP75 at 0.75.

    A class without any object among labels (S, M) is left out. Raises ValueError where no scene holds an object.
    """
    right, classes = right_ones(found, labels, truth, at), labels[labels >= 0].unique().tolist()
    _check_objects(len(classes))
    each = []
    for name in classes:
        own = found.labels == name  # (S, Q)
        curve = precision_recall(right[own], found.scores[own], int((labels == name).sum()))
        each.append(average_precision(*curve))
    return sum(each) / len(each)


def duplicates(found: Found, labels: Tensor, truth: Tensor, at: float = 0.5, sure: float = 0.5) -> float:
    """Boxes a scene that lie on an object which another one has, among those as sure as `sure` or more.

    0 where no scene holds an object. Raises ValueError for no scene at all.
    """
    check_shapes("duplicates", labels=(labels, "int64 S+ M"))
    kept = Found(torch.where(found.scores >= sure, found.labels, -1), found.boxes, found.scores)
    right = right_ones(kept, labels, truth, at)
    covered = iou(to_corners(found.boxes)[:, :, None], to_corners(truth)[:, None])  # (S, Q, M)
    on_one = (covered >= at) & (kept.labels[:, :, None] == labels[:, None]) & (labels >= 0)[:, None]
    return (on_one.any(-1) & ~right).sum().item() / len(labels)


def _check_objects(objects: int) -> None:
    if not objects > 0:
        raise ValueError("No scene holds an object: there is no recall to be judged by.")
