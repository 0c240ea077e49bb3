"""Lesson 07, what fine-tuning learns from: the loss of GPT-1, of the task and of the language."""

import torch
import torch.nn.functional as F

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OVERFLOW, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips


def my_joint_loss(token_logits, ids, class_logits, labels, lam):
    language = F.cross_entropy(token_logits[:, :-1].mT, ids[:, 1:], ignore_index=0)  # L1: place t predicts token t + 1
    task = F.cross_entropy(class_logits, labels)  # L2
    return task + lam * language  # L3


def labelled(B=4, T=7, V=9, C=3, lam=0.3, padded=True, dtype=torch.float64):
    """Logits (B, T, V), ids (B, T) with the padding 0 behind some texts, logits (B, C), labels (B,), and lambda."""
    token_logits, class_logits = 2 * torch.randn(B, T, V).to(dtype), 2 * torch.randn(B, C).to(dtype)
    ids = torch.randint(1, V, (B, T))
    if padded:
        ids[1::2, 3:] = 0
        ids[-1, 2:] = 0
    return token_logits, ids, class_logits, torch.arange(B) % C, lam


def sure():
    """Two texts of two tokens and their classes, in single precision and with logits in the hundreds."""
    token_logits = torch.tensor([[[300.0, -300.0, 100.0]] * 2, [[-300.0, -301.0, -500.0]] * 2])
    class_logits = torch.tensor([[400.0, -200.0], [-400.0, -401.0]])
    return token_logits, torch.tensor([[1, 2], [2, 1]]), class_logits, torch.tensor([0, 1]), 0.5


def alone(lam):
    """A step of `narrowed`: no padding, and this lambda."""
    return lambda given: (given["token_logits"], given["ids"].clamp(min=1), given["class_logits"], given["labels"], lam)


JOINT = Exercise(
    solution=my_joint_loss,
    cases=(
        Case(
            labelled,
            narrowed(
                (
                    alone(0.0),
                    "With lam = 0 what is left is L2, the mean of -log p(label) over the texts, and it is wrong.",
                ),
                (
                    alone(0.5),
                    "L2 is right. Without padding the sum is wrong: L1 is the mean over all predicted tokens.",
                ),
                otherwise="Without padding you are right. Padding, id 0, is not predicted: leave it out of the mean.",
            ),
        ),
        Case(lambda: labelled(2, 2, 3, 2, lam=2.0, padded=False), "With two texts of two tokens it is wrong."),
        Case(sure, OVERFLOW),
        Case(labelled, NO_GRADIENT, ask=pulled),
        Case(lambda: labelled(dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        token_logits[:, :-1].mT, ids[:, 1:] -> token_logits.mT, ids
            You compare place t with token t, which it has read. It predicts the one after it: move by one.
        token_logits[:, :-1].mT, ids[:, 1:] -> token_logits[:, 1:].mT, ids[:, :-1]
            You move the wrong way: place t + 1 is compared with token t, which it has read already.
        ignore_index=0 -> ignore_index=-100
            Padding counts in yours. No model has to predict it: leave out the targets that are 0.
        ignore_index=0 -> ignore_index=0, reduction="sum"
            L1 is a sum over tokens in yours, so long texts push the task aside. Take the mean.
        class_logits, labels) -> class_logits, labels, reduction="sum")
            L2 is a sum over texts in yours. Take the mean.
        task + lam * language -> lam * task + language
            lam stands at the task in yours. It weighs the language: L2 + lam * L1.
        task + lam * language -> (1 - lam) * task + lam * language
            You share one weight between the two. In the paper the task keeps its weight of 1: L2 + lam * L1.
        task + lam * language -> lam * (task + language)
            lam weighs both in yours. It weighs the language alone: L2 + lam * L1.
        task + lam * language -> -(task + lam * language)
            The sign: the paper writes log-likelihoods, to be made large. A loss is minus that, to be made small.
        return task + lam * language -> return lam * language
            L2 is missing: nothing tells the model about the labels.
        class_logits, labels) -> class_logits, labels, ignore_index=0)
            You leave out the texts of class 0. For labels 0 is a class like any other; for ids it is padding.
        ignore_index=0) -> reduction="none").mul(ids[:, 1:] != 0).mean()
            You divide by all places, padding too: divide by how many tokens are predicted.
        ignore_index=0) -> ignore_index=0, reduction="none").sum(1).div((ids[:, 1:] != 0).sum(1)).mean()
            You average each text, then the texts: a token of a short one weighs more. All tokens count the same.
        token_logits[:, :-1].mT -> token_logits[:, :-1].softmax(-1).mT
            You give cross_entropy probabilities. It takes logits, and does the softmax itself.
    """),
)

EXERCISES = [JOINT]
