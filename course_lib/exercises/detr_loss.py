"""Lesson 10, the loss of a set: "no object" that weighs less, and a loss that is only what the matching costs.

The notebook holds the broken function word for word, under the name of its exercise.
"""

from functools import partial

import torch
import torch.nn.functional as F

from course_lib.detection.matching import match
from course_lib.exercises import Exercise
from course_lib.exercises.detr import noted
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips

LESSON = "detr"


def my_naming_loss(logits, asked, nothing):
    K = logits.shape[-1] - 1  # the last class is "no object"
    missed = -logits.log_softmax(dim=-1).gather(-1, asked[..., None])[..., 0]  # (B, Q): -log p of what is asked
    weight = torch.where(asked == K, nothing, 1.0).to(missed)  # (B, Q)
    return (weight * missed).sum() / weight.sum()


def answered(B=2, Q=6, K=4, nothing=0.1, dtype=torch.float64):
    """Logits (B, Q, K + 1), what each answer should say (B, Q), and the weight of "no object"."""
    asked = torch.full((B, Q), K)
    for b, own in enumerate(asked):  # the second scene has more objects than the first
        own[: (Q + 1) // 2 + 2 * b] = torch.randint(0, K, ((Q + 1) // 2 + 2 * b,))
        own[0] = 0
    return 2 * torch.randn(B, Q, K + 1, dtype=dtype), asked, nothing


def certain():
    """Logits of hundreds, far apart from answer to answer; the last answer is sure, and wrong."""
    logits = torch.tensor([[[300.0, 299, 0], [-300, -301, -299], [0, 0, 300]]])
    return logits, torch.tensor([[1, 2, 0]]), 0.1


by_cross_entropy = noted({
    "Expected target size": "F.cross_entropy wants the classes second: logits.flatten(0, 1) and asked.flatten().",
    "expected scalar type": "The weight must have the dtype of the logits: .to(logits).",
})  # fmt: skip


about = partial(Case, tolerance=1e-5)  # who adds a millionth to the sum of the weights, against 0 / 0, is right


NAMING = Exercise(
    lesson=LESSON,
    title='"No object" weighs less',
    solution=my_naming_loss,
    returns="the weighted mean of -log p, a number",
    cases=(
        about(
            answered,
            narrowed(
                (
                    lambda given: (given["logits"][:, :3], given["asked"][:, :3], given["nothing"]),
                    "Where every answer has an object it is wrong already: -log p of what is asked, and their mean.",
                ),
                (
                    lambda given: (given["logits"], given["asked"], 1.0),
                    "With the weight 1 it is wrong already: then it is the plain mean over all answers.",
                ),
                otherwise="Without a weight it is right. With it, divide by the sum of the weights, not their number.",
            ),
            ask=by_cross_entropy,
        ),
        about(lambda: answered(1, 1, 2), OTHER_SIZES),
        about(
            lambda: (torch.randn(2, 3, 5).double(), torch.full((2, 3), 4), 0.1),
            'Where no answer has an object it is wrong: all say "no object", and the weight falls out.',
        ),
        about(lambda: answered(nothing=3.0), "With a weight above 1 it is wrong."),
        about(lambda: answered()[:2] + (0.0,), 'With the weight 0 it is wrong: then "no object" is asked of nobody.'),
        about(certain, OVERFLOW),
        about(answered, NO_GRADIENT, ask=pulled),
        about(lambda: answered(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "logits.log_softmax(-1) has log p of every class. asked says which of them counts for each answer.",
        "Pick them with gather: .gather(-1, asked[..., None])[..., 0] is (B, Q).",
        "A weight of `nothing` where asked is the last class, K = logits.shape[-1] - 1; of 1 elsewhere: torch.where.",
        "The weighted mean is (weight * missed).sum() / weight.sum().",
        "F.cross_entropy does all of it, and wants the classes second: logits.flatten(0, 1), asked.flatten(), and a "
        "weight for each class, (K + 1,), with .to(logits).",
    ),
    mistakes=slips("""
        (weight * missed).sum() / weight.sum() -> (weight * missed).mean()
            You divide by the number of answers. A weighted mean is divided by the sum of its weights.
        torch.where(asked == K, nothing, 1.0) -> torch.ones_like(missed)
            "No object" weighs as much as a digit in yours. Most answers have none, and would drown the others.
        torch.where(asked == K, nothing, 1.0) -> torch.where(asked == K, 1.0, nothing)
            The weights are the wrong way round: `nothing` is for the answers that are asked for "no object".
        torch.where(asked == K, nothing, 1.0) -> torch.where(asked == K, 0.0, 1.0)
            Answers without an object count nothing in yours: then nobody learns to say "no object".
        torch.where(asked == K, nothing, 1.0) -> torch.where(asked == 0, nothing, 1.0)
            You take class 0 for "no object". It is the last class, K.
        return (weight * missed).sum() / weight.sum() -> return (weight * missed).sum()
            That is a sum. Divide it by the sum of the weights.
        (weight * missed).sum() / weight.sum() -> (weight * missed).sum() / (asked != K).sum().clamp(min=1)
            You divide by the number of objects. That is for the boxes; the classes are divided by the sum of weights.
        return (weight * missed).sum() / weight.sum() -> return ((weight * missed).sum(-1) / weight.sum(-1)).mean()
            You take the mean of each scene first. One mean over all answers of the batch is asked.
        -logits.log_softmax(dim=-1) -> -logits.softmax(dim=-1)
            That is -p, as in the cost of a matching. The loss has -log p.
        -logits.log_softmax(dim=-1) -> logits.log_softmax(dim=-1)
            The sign is wrong: the surer an answer is of what is asked, the smaller the loss.
        -logits.log_softmax(dim=-1) -> -logits.log_softmax(dim=-2)
            Your softmax is over the answers. Each answer shares out its own p over the classes: dim=-1.
        -logits.log_softmax(dim=-1).gather(-1, asked[..., None])[..., 0] -> -logits.log_softmax(dim=-1).amax(-1)
            You take the class that is surest. The one that is asked counts.
        -logits.log_softmax(dim=-1).gather(-1, asked[..., None])[..., 0] -> -logits.gather(-1, asked[..., None])[..., 0]
            You take the logit itself. Its log p needs the other classes too: log_softmax.
    """),
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
    """What a model answers for one scene, and what is in it: an object of class 0, and others."""
    labels = torch.randint(1, K, (M,)) * (torch.arange(M) > 0)
    return 2 * torch.randn(Q, K + 1, dtype=dtype), torch.rand(Q, 4, dtype=dtype), labels, torch.rand(M, 4, dtype=dtype)


def four_answers():
    """One object. By the costs the first answers for it; by others the second (with -log p), third or last would."""
    p = torch.tensor([[0.3, 0.5, 0.2], [0.2, 0.62, 0.18], [0.599, 0.001, 0.4], [0.05, 0.9, 0.05]]).double()
    truth = torch.tensor([[0.5, 0.5, 0.2, 0.3]]).double()
    boxes = truth + torch.tensor([[0.08], [0.11], [0.0], [0.2]]).double() / 4  # in each of the four numbers
    return p.log(), boxes, torch.tensor([1]), truth


def close(nearer):
    """Two answers, one object: the first names it with 0.5 more, the box of the second is nearer by so much."""
    p, truth = torch.tensor([[0.05, 0.7, 0.25], [0.79, 0.2, 0.01]]).double(), torch.tensor([[0.5, 0.5, 0.2, 0.3]])
    boxes = truth + torch.tensor([[0.08 + nearer], [0.08]]).double() / 4  # in each of the four numbers
    return p.log(), boxes, torch.tensor([1]), truth.double()


def sure():
    """Logits of hundreds, far apart from answer to answer; one answer is sure, and wrong."""
    logits = torch.tensor([[300.0, 299, 0], [-300, -301, -299], [0, 0, 300]])
    truth = torch.tensor([[0.2, 0.2, 0.1, 0.1], [0.8, 0.8, 0.2, 0.2]])
    return logits, torch.cat([truth, truth[1:] + 0.25])[[0, 2, 1]], torch.tensor([1, 0]), truth


def unlikely():
    """Two answers, one object: the better box names it with p near 0, so by -log p the other would be the cheaper."""
    logits, truth = torch.tensor([[0.0, -8, 0], [0, 2, 0]]) + torch.randn(2, 3) / 10, torch.rand(1, 4)
    boxes = truth + torch.tensor([[0.0], [0.1]])
    return logits.double(), boxes.double(), torch.tensor([1]), truth.double()


def to_the_answers(answer, logits, boxes, labels, truth):
    """For `Case.ask`: the way back to what a model answers; what is true is data."""
    return pulled(lambda logits, boxes: answer(logits, boxes, labels, truth), logits, boxes)


OTHER_COSTS = "Yours chooses another answer here: the costs stay as they are, -p(label) + 5 |box - truth|."

SET = Exercise(
    lesson=LESSON,
    title='Find the bug: a loss that never says "no object"',
    solution=mended_set_loss,
    returns="the loss, a number",
    cases=(
        Case(
            four_answers,
            narrowed(
                (
                    lambda given: (given["logits"][:1], given["boxes"][:1], given["labels"], given["truth"]),
                    "With one answer and one object it is wrong already: -log p(label) + 5 |box - truth|.",
                ),
                otherwise='Where every answer has an object it is right. Those without must say "no object", class K, '
                "which weighs 1 here. And the costs stay as they are.",
            ),
            ask=by_cross_entropy,
        ),
        Case(
            scene,
            narrowed(
                (
                    lambda given: (given["logits"][:3], given["boxes"][:3], given["labels"], given["truth"]),
                    "With as many answers as objects it is wrong: each answer names its object, and the mean is taken.",
                ),
                otherwise="Three answers and three objects are right. Six answers and three objects are wrong.",
            ),
        ),
        Case(lambda: scene(1, 1, 2), "With a single answer and object it is wrong."),
        Case(
            lambda: scene(9, 1, 3),
            "With one object and nine answers it is wrong: eight must say that nothing is there.",
        ),
        Case(unlikely, OTHER_COSTS),
        Case(lambda: close(0.09), OTHER_COSTS),  # 5 * 0.09 < 0.5: the better name
        Case(lambda: close(0.11), OTHER_COSTS),  # 5 * 0.11 > 0.5: the better box
        Case(sure, OVERFLOW),
        Case(scene, NO_GRADIENT, to_the_answers),
        Case(lambda: scene(dtype=torch.float32), SINGLE),
    ),
    stub=broken_set_loss,
    hints=(
        "What does the broken loss ask of an answer that has no object? Look at what `has` leaves out.",
        "The costs say who answers for what. That is all they are for: -p is no loss of a classifier, -log p is.",
        "What each answer should say: labels[given] where it has an object, class K, the last, where it has none.",
        "F.cross_entropy(logits, asked) over all answers, and 5 times the mean |box - truth| over those that have one.",
    ),
    mistakes=slips("""
        return F.cross_entropy(logits, asked) + 5 * placing -> return costs[has, given[has]].mean()
            The bug is still there: an answer without an object is asked for nothing, and -p pulls least where p is
            smallest. Boxes get better all the same, so the curve looks well.
        F.cross_entropy(logits, asked) + -> costs[has, given[has]].mean() + F.cross_entropy(logits, asked) +
            You add what the matching costs. Its boxes are counted twice then: the costs choose, the loss teaches.
        F.cross_entropy(logits, asked) -> F.cross_entropy(logits[has], asked[has])
            Only answers with an object are asked. The others must learn to say "no object".
        logits.shape[-1] - 1) -> 0)
            An answer without an object is asked for class 0, a digit. "No object" is the last class.
        asked = torch.where(has, labels[given], logits.shape[-1] - 1) -> asked = labels[given]
            given is -1 for an answer without an object, and labels[-1] is the last label: say class K there.
        F.cross_entropy(logits, asked) -> F.cross_entropy(logits, asked, torch.tensor([1.0] * (logits.shape[-1] - 1) + [0.1]).to(logits))
            "No object" weighs a tenth in yours, as on the slide. Here it weighs 1: leave the weight out.
        -p[:, labels] -> -p.log()[:, labels]
            You changed the costs too: there -p stays. The matching is right as it is, and only the loss takes -log p.
        -p[:, labels] + 5 * -> 5 *
            The boxes weigh too much in your costs: is -p(label) left out, or do they count more than five times?
        -p[:, labels] + 5 * -> -p[:, labels] +
            The boxes weigh too little in your costs: there they count five times, as in the loss.
        labels[None] >= 0 -> labels[None] > 0
            Class 0 is a class like any other: with > 0 its objects are left out of the matching.
        F.cross_entropy(logits, asked) -> F.cross_entropy(p, asked)
            F.cross_entropy takes logits. You hand it p, and the softmax is taken twice: it hardly moves then.
        F.cross_entropy(logits, asked) -> -p[torch.arange(len(asked)), asked].mean()
            That is -p, as in the cost. Where p is near 0 it has hardly a gradient; -log p has.
        placing = (boxes[has] - truth[given[has]]).abs().sum(dim=-1).mean() -> placing = (boxes - truth[given]).abs().sum(dim=-1).mean()
            Answers without an object are pulled to the last one's box. Only those that have one have a box to learn.
        truth[given[has]] -> truth[: has.sum()]
            You compare the boxes with the list as it stands. Answer q has object given[q].
        + 5 * placing -> + placing
            The boxes count once in yours, and in the cost five times: 5 * placing.
        .abs().sum(dim=-1).mean() -> .abs().mean()
            You take the mean over the four numbers of a box. Their sum is meant: |box - truth|.
        .abs().sum(dim=-1).mean() -> .abs().sum()
            You add up over the objects. Take their mean, so that a full scene weighs as much as an empty one.
        return F.cross_entropy(logits, asked) + 5 * placing -> return F.cross_entropy(logits, asked)
            The boxes are not in the loss any more.
        F.cross_entropy(logits, asked) -> F.cross_entropy(logits[:, :-1], asked.clamp(max=logits.shape[-1] - 2))
            You cut off the last class. It is "no object", which most answers should say.
    """),  # noqa: E501
)

EXERCISES = [NAMING, SET]
