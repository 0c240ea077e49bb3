"""An answer whose softmax cannot bear large scores, or rows that lie far apart, is refused."""

import inspect

import pytest
import torch
import torch.nn.functional as F

from course_lib.lesson.judge import judge
from course_lib.workshop.exercises import all_exercises

OWN = ("softmax(", "logsumexp(", "cross_entropy(")
HANDED = {"mended_look"}  # the softmax is a function that it is given
ASKED = [
    exercise
    for exercise in all_exercises()
    if exercise.name not in HANDED and any(name in inspect.getsource(exercise.solution) for name in OWN)
]
ONE_ROW = {"my_mix"}  # there the largest of all rows is that of the row


def nothing(x):
    """What exp is taken of, and what that differs from the scores by: exp(89) is infinite in single precision."""
    return x, 0.0


def one_for_all(x):
    """The largest of all rows is taken off: rows far below it become 0 / 0."""
    return x - x.max(), x.max()


def clamped(x):
    """Large scores are cut off, so that two of them come out alike."""
    return x.clamp(-80, 80), 0.0


def overflowing(solution, before):
    """The solution, with a softmax of its own in place of PyTorch's."""

    def softmax(x, dim=-1):
        powers = before(x)[0].exp()
        return powers / powers.sum(dim, keepdim=True)

    def log_softmax(x, dim=-1):
        return softmax(x, dim).log()

    def logsumexp(x, dim, keepdim=False):
        scores, taken_off = before(x)
        return scores.exp().sum(dim, keepdim=keepdim).log() + taken_off

    def cross_entropy(scores, asked, **more):
        log_p = log_softmax(scores, 1)
        return -(asked * log_p).sum(1).mean() if asked.is_floating_point() else F.nll_loss(log_p, asked, **more)

    def answer(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            for module in (torch, torch.Tensor, F):
                for own in (softmax, log_softmax, logsumexp, cross_entropy):
                    patch.setattr(module, own.__name__, own, raising=False)
            return solution(*arguments)

    answer.__signature__ = inspect.signature(solution)
    return answer


@pytest.mark.parametrize("before", [nothing, one_for_all, clamped])
@pytest.mark.parametrize("exercise", ASKED, ids=lambda exercise: exercise.name)
def test_a_softmax_that_overflows_is_refused(exercise, before):
    verdict = judge(exercise, overflowing(exercise.solution, before))
    assert (verdict.kind == "passed") == (exercise.name in ONE_ROW and before is one_for_all), verdict


def test_it_finds_what_has_a_softmax():
    some = {"my_masked_loss", "my_attention", "my_joint_loss", "my_lift", "my_zero_shot", "mended_segments"}
    assert some <= {one.name for one in ASKED}
    x = torch.randn(3, 4)
    both = overflowing(lambda x: (x.softmax(1), torch.logsumexp(x, 1), F.cross_entropy(x, x.argmax(1))), one_for_all)(x)
    torch.testing.assert_close(both, (x.softmax(1), x.logsumexp(1), F.cross_entropy(x, x.argmax(1))))
