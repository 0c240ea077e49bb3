"""Lessons 09 to 18: an answer whose softmax overflows is refused."""

import inspect

import pytest
import torch
import torch.nn.functional as F

from course_lib.exercises import all_exercises
from course_lib.lesson.judge import judge
from course_lib.lesson.syllabus import LISTED

LATER = {lesson.slug for lesson in LISTED if lesson.number >= 9}
ASKED = [
    exercise
    for exercise in all_exercises()
    if exercise.lesson in LATER
    and any(name in inspect.getsource(exercise.solution) for name in ("softmax(", "logsumexp(", "cross_entropy("))
]


def nothing(x):
    """Taken off the scores before exp: so exp(89) is infinite in single precision."""
    return 0.0


def one_for_all(x):
    """Taken off the scores before exp: the largest of all rows, and rows far below it become 0 / 0."""
    return x.max()


def overflowing(solution, taken_off):
    """The solution, with a softmax of its own in place of PyTorch's."""

    def softmax(x, dim=-1):
        powers = (x - taken_off(x)).exp()
        return powers / powers.sum(dim, keepdim=True)

    def log_softmax(x, dim=-1):
        return softmax(x, dim).log()

    def logsumexp(x, dim):
        return (x - taken_off(x)).exp().sum(dim).log() + taken_off(x)

    def cross_entropy(scores, asked):
        log_p = log_softmax(scores, 1)
        return -(asked * log_p).sum(1).mean() if asked.is_floating_point() else F.nll_loss(log_p, asked)

    def answer(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            for module in (torch, torch.Tensor, F):
                for own in (softmax, log_softmax, logsumexp, cross_entropy):
                    patch.setattr(module, own.__name__, own, raising=False)
            return solution(*arguments)

    return answer


@pytest.mark.parametrize("taken_off", [nothing, one_for_all])
@pytest.mark.parametrize("exercise", ASKED, ids=lambda exercise: exercise.name)
def test_a_softmax_that_overflows_is_refused(exercise, taken_off):
    verdict = judge(exercise, overflowing(exercise.solution, taken_off))
    assert verdict.kind in ("wrong", "error"), verdict


def test_it_finds_what_has_a_softmax():
    assert {"my_lift", "my_zero_shot", "mended_segments", "my_distillation_loss"} <= {one.name for one in ASKED}
    x = torch.randn(3, 4)
    both = overflowing(lambda x: (x.softmax(1), torch.logsumexp(x, 1), F.cross_entropy(x, x.argmax(1))), one_for_all)(x)
    torch.testing.assert_close(both, (x.softmax(1), x.logsumexp(1), F.cross_entropy(x, x.argmax(1))))
