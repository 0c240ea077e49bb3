"""vision/distillation.py: the two losses by their formulas, and a teacher that stays as it is; bad input."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from course_lib.vision.distillation import divergence, hard_distillation, taught_by


def drawn(B=6, K=4):
    torch.manual_seed(0)
    logits = torch.randn(B, K, dtype=torch.float64, requires_grad=True)
    return logits, torch.arange(B) % K, 3 * torch.randn(B, K, dtype=torch.float64, requires_grad=True)


def test_the_hard_loss_is_half_label_half_teacher():
    """hard_distillation: number by number."""
    logits, labels, teacher = drawn()
    p = logits.log_softmax(-1)
    told = [-(p[n, labels[n]] + p[n, teacher[n].argmax()]) / 2 for n in range(6)]
    assert_close(hard_distillation(logits, labels, teacher), sum(told) / 6)
    agreeing = F.one_hot(labels, 4).double()
    assert_close(hard_distillation(logits, labels, agreeing), F.cross_entropy(logits, labels))


def test_what_has_no_probability_counts_nothing():
    """divergence: classes that both hide, or the teacher alone, and a row in which it hides all."""
    logits, labels, teacher = drawn()
    hidden = torch.zeros(6, 4, dtype=torch.bool)
    hidden[0, 1:3] = hidden[5] = True
    masked = teacher.masked_fill(hidden, -math.inf)
    alone = divergence(logits[:1, [0, 3]], teacher[:1, [0, 3]]) + divergence(logits[1:5], teacher[1:5])
    for student in (logits, logits.masked_fill(hidden, -math.inf)):
        found = divergence(student, masked)
        (grad,) = torch.autograd.grad(found, logits)
        assert grad.isfinite().all() and not grad[5].any()
    assert_close(found, alone)
    assert_close(grad, torch.autograd.grad(alone, logits)[0])
    assert divergence(logits[:1].masked_fill(hidden[:1], -math.inf), teacher[:1]) == math.inf
    assert divergence(logits, teacher * math.nan).isnan()
    assert divergence(logits[:0], teacher[:0]) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_divergence_of_any_kind_of_number(dtype):
    """divergence: of half precision in single."""
    logits, labels, teacher = (part.detach().to(dtype) if part.is_floating_point() else part for part in drawn())
    found = divergence(logits, teacher)
    assert found.dtype == torch.float32
    assert_close(found.double(), divergence(logits.double(), teacher.double()), rtol=1e-5, atol=0)


def test_the_teacher_learns_nothing():
    """hard_distillation: no gradient goes to its logits, one goes to the student's."""
    logits, labels, teacher = drawn()
    value = hard_distillation(logits, labels, teacher)
    student, other = torch.autograd.grad(value, (logits, teacher), allow_unused=True)
    assert student.abs().sum() > 0 and (other is None or not other.any())


def test_a_teacher_reads_in_eval_mode_and_stays_as_it_is():
    """taught_by: the loss that fit gets."""
    teacher = nn.Sequential(nn.Flatten(), nn.Dropout(0.9), nn.Linear(4, 3)).train()
    student, before = nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), [p.clone() for p in teacher.parameters()]
    batch = torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 2, 0, 1])
    first, second = (taught_by(teacher)(student, batch) for _ in range(2))
    assert torch.equal(first, second) and teacher.training
    first.backward()
    assert all(p.grad is None for p in teacher.parameters()) and student[1].weight.grad is not None
    assert all(torch.equal(a, b) for a, b in zip(before, teacher.parameters(), strict=True))
    other = taught_by(teacher, lambda logits, labels, said: divergence(logits, said))(student, batch)
    assert_close(other, divergence(student(batch[0]), teacher.eval()(batch[0])))


def test_a_teacher_that_fails_stays_as_it_is():
    teacher = nn.Linear(4, 3).train()
    with pytest.raises(RuntimeError):
        taught_by(teacher)(nn.Linear(5, 3), (torch.rand(2, 5), torch.tensor([0, 1])))
    assert teacher.training


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda x, y: hard_distillation(x, y[:3], x), "labels .batch., not empty; got .6, 4., .6, 4. and .3,."),
        (lambda x, y: hard_distillation(x, y.double(), x), "labels .batch. of whole numbers; got torch.float64"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, words):
    with pytest.raises((ValueError, TypeError), match=words):
        wrong(*drawn()[:2])
