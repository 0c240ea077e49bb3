"""Distillation: a student learns from a teacher's answers beside the labels. Lesson 09.

Shapes: B batch, K classes.
"""

import math
from collections.abc import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.inputs.sequences import reading, widened
from course_lib.inputs.shapes import check_shapes


def divergence(student: Tensor, teacher: Tensor) -> Tensor:
    """KL(teacher, student) = sum of p log(p / q), p and q the softmax of their logits (B, K), over all rows: a number.

    A class that the teacher gives p = 0 (logit -infinity) counts 0, and so does a row where it has no other; where the
    student alone gives 0, it is infinite. Nothing goes back to the teacher. Of half precision it is in single.
    """
    check_shapes("divergence", student=(student, "B K"), teacher=(teacher, "B K"))
    nothing = (teacher == -math.inf).all(dim=-1, keepdim=True)  # (B, 1)
    log_q = widened(student).masked_fill(nothing, 0).log_softmax(dim=-1)
    log_p = widened(teacher.detach()).masked_fill(nothing, 0).log_softmax(dim=-1)
    p = log_p.exp()
    return (p * (log_p - log_q)).masked_fill(p == 0, 0).sum()


def hard_distillation(logits: Tensor, labels: Tensor, teacher_logits: Tensor) -> Tensor:
    """1/2 CE(student, label) + 1/2 CE(student, the teacher's answer) (Touvron et al., 2021, equation 3): a number.

    logits and teacher_logits (B, K), labels (B,). No temperature and no weight to choose. The paper gives the second
    term an output of its own, the distillation token's; here one output has both, as in those rows of table 3 that do
    without that token. The teacher learns nothing from it. Raises ValueError for shapes that do not fit and an empty
    batch, TypeError for labels that are no whole numbers.
    """
    check_shapes("Distillation", logits=(logits, "B+ K+"), teacher=(teacher_logits, "B K"), labels=(labels, "int B"))
    answer = teacher_logits.argmax(dim=-1)  # (B,)
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits, answer)) / 2


def taught_by(teacher: nn.Module, loss: Callable = hard_distillation) -> Callable[[nn.Module, tuple], Tensor]:
    """A loss for `fit`: it shows each batch of images to the teacher too, which reads in eval mode and stays as it is.

    loss takes the student's logits (B, K), the labels (B,) and the teacher's logits (B, K).

        fit(student, labelled_batches(images, labels, 64), taught_by(teacher), steps=500)
    """

    def taught(student: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        images, labels = batch
        with torch.no_grad(), reading(teacher):
            said = teacher(images)  # (B, K)
        return loss(student(images), labels, said)

    return taught
