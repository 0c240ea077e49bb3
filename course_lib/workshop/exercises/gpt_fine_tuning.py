"""Lesson 07, what fine-tuning learns from: the loss of GPT-1, of the task and of the language."""

import torch
import torch.nn.functional as F

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OVERFLOW, SINGLE, Case, narrowed, pulled


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


def language(token_logits, ids, **more):
    return F.cross_entropy(token_logits[:, :-1].mT, ids[:, 1:], **more)


def not_shifted(token_logits, ids, class_logits, labels, lam):
    return F.cross_entropy(class_logits, labels) + lam * F.cross_entropy(token_logits.mT, ids, ignore_index=0)


def padding_counts(token_logits, ids, class_logits, labels, lam):
    return F.cross_entropy(class_logits, labels) + lam * language(token_logits, ids)


def summed(token_logits, ids, class_logits, labels, lam):
    return F.cross_entropy(class_logits, labels) + lam * language(token_logits, ids, ignore_index=0, reduction="sum")


def class_0_ignored(token_logits, ids, class_logits, labels, lam):
    task = F.cross_entropy(class_logits, labels, ignore_index=0)
    return task + lam * language(token_logits, ids, ignore_index=0)


def task_times(weight):
    """A wrong answer to `my_joint_loss`: the task's loss counts weight(lam)."""

    def loss(token_logits, ids, class_logits, labels, lam):
        task = F.cross_entropy(class_logits, labels)
        return weight(lam) * task + lam * language(token_logits, ids, ignore_index=0)

    return loss


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
    mistakes={
        "not_shifted": not_shifted,
        "padding_counts": padding_counts,
        "summed": summed,
        "shared_weight": task_times(lambda lam: 1 - lam),
        "lam_weighs_both": task_times(lambda lam: lam),
        "without_labels": task_times(lambda lam: 0),
        "class_0_ignored": class_0_ignored,
    },
)

EXERCISES = [JOINT]
