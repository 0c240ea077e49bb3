"""Lesson 10, the loss of a set: "no object" with a smaller weight, and a loss that is only the cost of the matching.

The notebook holds the broken function word for word, under the name of its exercise.
"""

from functools import partial

import torch
import torch.nn.functional as F

from course_lib.detection.matching import match
from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.detr import noted
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, narrowed, pulled


def my_naming_loss(logits, asked, nothing):
    K = logits.shape[-1] - 1  # the last class is "no object"
    missed = -logits.log_softmax(dim=-1).gather(-1, asked[..., None])[..., 0]  # (B, Q): -log p of the target
    weight = torch.where(asked == K, nothing, 1.0).to(missed)  # (B, Q)
    return (weight * missed).sum() / weight.sum()


def answered(B=2, Q=6, K=4, nothing=0.1, dtype=torch.float64):
    """Logits (B, Q, K + 1), the target of each prediction (B, Q), and the weight of "no object"."""
    asked = torch.full((B, Q), K)
    for b, own in enumerate(asked):  # the second scene has more objects than the first
        own[: (Q + 1) // 2 + 2 * b] = torch.randint(0, K, ((Q + 1) // 2 + 2 * b,))
        own[0] = 0
    return 2 * torch.randn(B, Q, K + 1, dtype=dtype), asked, nothing


def certain():
    """Logits of hundreds, far apart between predictions; the last prediction is confident, and wrong."""
    logits = torch.tensor([[[300.0, 299, 0], [-300, -301, -299], [0, 0, 300]]])
    return logits, torch.tensor([[1, 2, 0]]), 0.1


by_cross_entropy = noted({
    "Expected target size": "F.cross_entropy wants the classes second: logits.flatten(0, 1) and asked.flatten().",
    "expected scalar type": "The weight must have the dtype of the logits: .to(logits).",
})  # fmt: skip


about = partial(Case, tolerance=1e-5)  # a millionth added to the sum of the weights, against 0 / 0, is accepted


def weighing(value):
    """A wrong answer to `my_naming_loss`: value(weight, -log p, objects), each (B, Q), puts the terms together."""

    def loss(logits, asked, nothing):
        missed, objects = F.cross_entropy(logits.mT, asked, reduction="none"), asked != logits.shape[-1] - 1
        return value(torch.where(objects, 1.0, nothing).to(missed), missed, objects)

    return loss


NAMING = Exercise(
    solution=my_naming_loss,
    cases=(
        about(
            answered,
            narrowed(
                (
                    lambda given: (given["logits"][:, :3], given["asked"][:, :3], given["nothing"]),
                    "It is wrong even where every prediction has an object: take the mean of -log p of the targets.",
                ),
                (
                    lambda given: (given["logits"], given["asked"], 1.0),
                    "It is wrong even with weight 1, where it is the plain mean over all predictions.",
                ),
                otherwise="With weight 1 it is correct. Otherwise divide by the sum of the weights, not their number.",
            ),
            ask=by_cross_entropy,
        ),
        about(lambda: answered(1, 1, 2), OTHER_SIZES),
        about(
            lambda: (torch.randn(2, 3, 5).double(), torch.full((2, 3), 4), 0.1),
            'It is wrong where no prediction has an object: all targets are "no object", and the weight cancels.',
        ),
        about(lambda: answered(nothing=3.0), "With a weight above 1 it is wrong."),
        about(
            lambda: answered()[:2] + (0.0,),
            'With weight 0 it is wrong: "no object" then does not count at all.',
        ),
        about(certain, OVERFLOW),
        about(answered, NO_GRADIENT, ask=pulled),
        about(lambda: answered(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "over_all": weighing(lambda weight, missed, objects: (weight * missed).mean()),
        "unweighted": lambda logits, asked, nothing: my_naming_loss(logits, asked, 1.0),
        "never_nothing": lambda logits, asked, nothing: my_naming_loss(logits, asked, 0.0),
        "summed": weighing(lambda weight, missed, objects: (weight * missed).sum()),
        "over_objects": weighing(lambda weight, missed, objects: (weight * missed).sum() / objects.sum().clamp(min=1)),
        "scene_by_scene": weighing(lambda weight, missed, objects: ((weight * missed).sum(-1) / weight.sum(-1)).mean()),
        "wrong_sign": lambda logits, asked, nothing: -my_naming_loss(logits, asked, nothing),
    },
)


def broken_set_loss(logits, boxes, labels, truth):
    """The loss of one scene: logits (Q, K + 1), boxes (Q, 4), labels (M,), truth (M, 4)."""
    p = logits.softmax(dim=-1)  # (Q, K + 1)
    costs = -p[:, labels] + 5 * (boxes[:, None] - truth).abs().sum(dim=-1)  # (Q, M)
    given = match(costs[None], labels[None] >= 0)[0]  # (Q,): the object of each query, or -1
    has = given >= 0
    return costs[has, given[has]].mean()  # as cheap as can be


def mended_set_loss(logits, boxes, labels, truth):
    p = logits.softmax(dim=-1)  # (Q, K + 1)
    costs = -p[:, labels] + 5 * (boxes[:, None] - truth).abs().sum(dim=-1)  # (Q, M)
    given = match(costs[None], labels[None] >= 0)[0]  # (Q,): the object of each query, or -1
    has = given >= 0
    asked = torch.where(has, labels[given], logits.shape[-1] - 1)  # (Q,): class K is "no object"
    placing = (boxes[has] - truth[given[has]]).abs().sum(dim=-1).mean()
    return F.cross_entropy(logits, asked) + 5 * placing


def scene(Q=6, M=3, K=4, dtype=torch.float64):
    """What a model predicts for one scene, and what is in it: an object of class 0, and others."""
    labels = torch.randint(1, K, (M,)) * (torch.arange(M) > 0)
    return 2 * torch.randn(Q, K + 1, dtype=dtype), torch.rand(Q, 4, dtype=dtype), labels, torch.rand(M, 4, dtype=dtype)


def four_answers():
    """One object. By these costs it gets the first prediction; by others the second (-log p), third or last."""
    p = torch.tensor([[0.3, 0.5, 0.2], [0.2, 0.62, 0.18], [0.599, 0.001, 0.4], [0.05, 0.9, 0.05]]).double()
    truth = torch.tensor([[0.5, 0.5, 0.2, 0.3]]).double()
    boxes = truth + torch.tensor([[0.08], [0.11], [0.0], [0.2]]).double() / 4  # in each of the four numbers
    return p.log(), boxes, torch.tensor([1]), truth


def close(nearer):
    """Two predictions, one object: the first has 0.5 more p, the box of the second is nearer by this much."""
    p, truth = torch.tensor([[0.05, 0.7, 0.25], [0.79, 0.2, 0.01]]).double(), torch.tensor([[0.5, 0.5, 0.2, 0.3]])
    boxes = truth + torch.tensor([[0.08 + nearer], [0.08]]).double() / 4  # in each of the four numbers
    return p.log(), boxes, torch.tensor([1]), truth.double()


def sure():
    """Logits of hundreds, far apart between predictions; one prediction is confident, and wrong."""
    logits = torch.tensor([[300.0, 299, 0], [-300, -301, -299], [0, 0, 300]])
    truth = torch.tensor([[0.2, 0.2, 0.1, 0.1], [0.8, 0.8, 0.2, 0.2]])
    return logits, torch.cat([truth, truth[1:] + 0.25])[[0, 2, 1]], torch.tensor([1, 0]), truth


def unlikely():
    """Two predictions, one object: the better box has a p near 0, so with -log p the other would be cheaper."""
    logits, truth = torch.tensor([[0.0, -8, 0], [0, 2, 0]]) + torch.randn(2, 3) / 10, torch.rand(1, 4)
    boxes = truth + torch.tensor([[0.0], [0.1]])
    return logits.double(), boxes.double(), torch.tensor([1]), truth.double()


def to_the_answers(answer, logits, boxes, labels, truth):
    """For `Case.ask`: the gradient to the model's outputs; the ground truth is data."""
    return pulled(lambda logits, boxes: answer(logits, boxes, labels, truth), logits, boxes)


OTHER_COSTS = "You match another prediction here. Keep the costs as they are: -p(label) + 5 |box - truth|."


def set_loss(
    naming=lambda logits, asked, has: F.cross_entropy(logits, asked),
    factor=5,
    price=lambda p: -p,
    real=lambda labels: labels >= 0,
):
    """A wrong answer to `mended_set_loss`: another loss for the classes, or other costs of the matching."""

    def loss(logits, boxes, labels, truth):
        away = (boxes[:, None] - truth).abs().sum(dim=-1)
        costs = price(logits.softmax(dim=-1))[:, labels] + 5 * away
        given = match(costs[None], real(labels)[None])[0]
        has = given >= 0
        asked = torch.where(has, labels[given], logits.shape[-1] - 1)
        return naming(logits, asked, has) + factor * away[has, given[has]].mean()

    return loss


SET = Exercise(
    solution=mended_set_loss,
    cases=(
        Case(
            four_answers,
            narrowed(
                (
                    lambda given: (given["logits"][:1], given["boxes"][:1], given["labels"], given["truth"]),
                    "It is wrong even with one prediction and one object: -log p(label) + 5 |box - truth|.",
                ),
                otherwise='If every prediction has an object it is correct. Others must say "no object", class K, '
                "with weight 1 here. And the costs stay as they are.",
            ),
            ask=by_cross_entropy,
        ),
        Case(
            scene,
            narrowed(
                (
                    lambda given: (given["logits"][:3], given["boxes"][:3], given["labels"], given["truth"]),
                    "It is wrong even with as many predictions as objects: take the mean of -log p of the labels.",
                ),
                otherwise="Three predictions for three objects are correct, six for three objects are wrong.",
            ),
        ),
        Case(lambda: scene(1, 1, 2), "With a single prediction and a single object it is wrong."),
        Case(
            lambda: scene(9, 1, 3),
            'With one object and nine predictions it is wrong: eight of them must say "no object".',
        ),
        Case(unlikely, OTHER_COSTS),
        Case(lambda: close(0.09), OTHER_COSTS),  # 5 * 0.09 < 0.5: the better name
        Case(lambda: close(0.11), OTHER_COSTS),  # 5 * 0.11 > 0.5: the better box
        Case(sure, OVERFLOW),
        Case(scene, NO_GRADIENT, to_the_answers),
        Case(lambda: scene(dtype=torch.float32), SINGLE),
    ),
    stub=broken_set_loss,
    mistakes={
        "bug_still_there": broken_set_loss,
        "only_matched": set_loss(lambda logits, asked, has: F.cross_entropy(logits[has], asked[has])),
        "towards_class_0": set_loss(lambda logits, asked, has: F.cross_entropy(logits, asked.where(has, 0))),
        "probabilities": set_loss(lambda logits, asked, has: F.cross_entropy(logits.softmax(dim=-1), asked)),
        "log_in_costs": set_loss(price=lambda p: -p.log()),
        "only_boxes_cost": set_loss(price=lambda p: 0 * p),
        "class_0_left_out": set_loss(real=lambda labels: labels > 0),
        "without_5": set_loss(factor=1),
    },
)

EXERCISES = [NAMING, SET]
