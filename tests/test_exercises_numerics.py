"""Every exercise with a softmax refuses one that cannot bear large scores, or rows that lie far apart."""

import contextlib
import inspect
from unittest import mock

import pytest
import torch
import torch.nn.functional as F

from course_lib.exercises import all_exercises
from course_lib.lesson.judge import judge

# Their softmax is in a function that they are handed.
HANDED = {"mended_look", "my_heads", "my_block", "mended_decoder", "mended_next", "mended_encode"}
NAMES = ("softmax", "logsumexp", "log_softmax", "cross_entropy")


def may_use_one(exercise):
    """Whether the file of its solution names a softmax, or what is made of it."""
    source = inspect.getsource(inspect.getmodule(exercise.solution))
    return not exercise.value and exercise.name not in HANDED and any(name in source for name in NAMES)


FUNCTIONS = [exercise for exercise in all_exercises() if may_use_one(exercise)]


class Plain:
    """Softmax and what is made of it, by exp and a sum; with one maximum for all rows, or with none.

    `several` says of each call whether there was more than one row.
    """

    def __init__(self, one_maximum: bool):
        self.one_maximum, self.several = one_maximum, []

    def logsumexp(self, z, dim, keepdim=False):
        self.several.append(z.numel() > z.shape[dim])
        largest = z.max().detach() if self.one_maximum else 0
        return (z - largest).exp().sum(dim, keepdim=keepdim).log() + largest

    def softmax(self, z, dim=None, **more):
        self.several.append(z.numel() > z.shape[dim])
        weights = (z - z.max() if self.one_maximum else z).exp()
        return weights / weights.sum(dim, keepdim=True)

    def log_softmax(self, z, dim=None, **more):
        return z - self.logsumexp(z, dim, keepdim=True)

    def cross_entropy(self, z, target, *more, **named):
        return F.nll_loss(self.log_softmax(z, min(1, z.dim() - 1)), target, *more, **named)

    @contextlib.contextmanager
    def in_place_of_pytorchs(self):
        owners = (torch, F, torch.Tensor)
        with contextlib.ExitStack() as stack:
            for owner, name in ((owner, name) for owner in owners for name in NAMES if hasattr(owner, name)):
                method = getattr(self, name)
                wrapped = (lambda z, *a, method=method, **k: method(z, *a, **k)) if owner is torch.Tensor else method
                stack.enter_context(mock.patch.object(owner, name, wrapped))
            yield


@pytest.mark.parametrize("one_maximum", [False, True], ids=["no maximum", "one maximum"])
@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda exercise: exercise.name)
def test_a_softmax_without_each_rows_own_maximum_is_refused(exercise, one_maximum):
    plain = Plain(one_maximum)

    def answer(*args, **kwargs):
        with plain.in_place_of_pytorchs():
            return exercise.solution(*args, **kwargs)

    answer.__signature__ = inspect.signature(exercise.solution)
    passes = judge(exercise, answer).kind == "passed"
    asked = any(plain.several) if one_maximum else bool(plain.several)
    assert not (passes and asked), "give it a case with scores in the hundreds, and one of rows that lie far apart"


def test_what_stands_in_for_pytorchs_softmax_is_called_and_fails_where_it_should():
    rows, plain, one = torch.tensor([[0.0, 1.0], [-300.0, -301.0], [300.0, 299.0]]), Plain(False), Plain(True)
    for function, name in ((torch.softmax, "softmax"), (F.log_softmax, "log_softmax"), (torch.logsumexp, "logsumexp")):
        right = function(rows[:1], dim=-1)
        for stand_in in (plain, one):
            torch.testing.assert_close(getattr(stand_in, name)(rows[:1], dim=-1), right)
            assert not getattr(stand_in, name)(rows, dim=-1).isfinite().all()
    with one.in_place_of_pytorchs():
        before = len(one.several)
        rows.softmax(-1), torch.softmax(rows[:1], -1), F.cross_entropy(rows, torch.tensor([0, 1, 0]))
    assert one.several[before:] == [True, False, True]
