"""Lesson 01's exercises: what the planted bug does, and the investigation's table measured again."""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from course_lib.inputs.reach import reach
from course_lib.workshop.exercises import all_quizzes
from course_lib.workshop.exercises.rnn_bptt_streams import broken_streams, mended_streams


@pytest.mark.parametrize(("cut", "jump"), [(broken_streams, 3 * 6), (mended_streams, 0)])
def test_the_planted_bug_has_right_pairs_and_rows_that_do_not_go_on(cut, jump):
    """What the exercise says of it: y is x one character later, and yet each row jumps from pair to pair."""
    pairs = cut(torch.arange(1000), 4, 6)
    assert len(pairs) == 41
    assert all(torch.equal(y, x + 1) for x, y in pairs)
    jumps = [after[:, 0] - x[:, -1] - 1 for (x, _), (after, _) in pairwise(pairs)]
    assert torch.stack(jumps).unique().tolist() == [jump]


OPTIONS = {one.key: [text for text, _ in one.options] for one in all_quizzes() if one.lesson == "rnn_bptt"}


@pytest.mark.parametrize("key", OPTIONS)
def test_options_are_of_one_length(key):
    lengths = [len(option) for option in OPTIONS[key]]
    assert max(lengths) - min(lengths) <= 5


def test_the_right_option_is_seldom_the_longest():
    asked = [one for one in all_quizzes() if one.key in OPTIONS]
    longest = [one.key for one in asked if one.options[one.correct][0] == max(OPTIONS[one.key], key=len)]
    assert len(longest) <= len(asked) / 3


# The investigation ---------------------------------------------------------------------------------------------

WIDTH = 64


def orthogonal():
    return nn.init.orthogonal_(torch.empty(WIDTH, WIDTH))


def uniform():
    return torch.empty(WIDTH, WIDTH).uniform_(-1 / 8, 1 / 8)


def gaussian(size):
    drawn = torch.randn(WIDTH, WIDTH)
    return drawn / size(drawn)


def singular(w_h):
    return torch.linalg.matrix_norm(w_h, 2)


def eigen(w_h):
    return torch.linalg.eigvals(w_h).abs().max()


# How it is drawn; singular value, eigenvalue; lowest and highest reach in the table at distances 5 and 40.
TABLE = {
    "orthogonal": (orthogonal, 1, 1, (0.99, 1.01), (0.99, 1.01)),
    "Gaussian, σ = 1": (lambda: gaussian(singular), 1, 0.56, (0.03, 0.045), (2e-12, 9e-10)),
    "Gaussian, λ = 1": (lambda: gaussian(eigen), 1.8, 1, (0.40, 0.78), (0.15, 0.52)),
    "as nn.RNN draws it": (uniform, 1.1, 0.62, (0.06, 0.075), (8e-11, 7e-9)),
    "a delay line": (lambda: torch.diag(torch.ones(WIDTH - 1), 1), 1, 0, (0.95, 0.97), (0.60, 0.62)),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_the_investigation_is_measured_again(name):
    draw, sigma, rate, at_5, at_40 = TABLE[name]
    torch.manual_seed(0)
    w_h = draw()

    def read(x):
        h, states = torch.zeros(len(x), WIDTH), []
        for t in range(x.shape[1]):
            h = x[:, t] + h @ w_h
            states.append(h)
        return torch.stack(states, dim=1)

    found = reach(read, torch.randn(1, 41, WIDTH)) / math.sqrt(WIDTH)
    assert float(singular(w_h)) == pytest.approx(sigma, rel=0.15)
    assert float(eigen(w_h)) == pytest.approx(rate, rel=0.15, abs=1e-3)
    slack = 30 if at_40[1] < 0.1 else 1.5  # other draws than the five of the table
    assert at_5[0] / 1.5 <= float(found[-6]) <= at_5[1] * 1.5
    assert at_40[0] / slack <= float(found[0]) <= at_40[1] * slack
