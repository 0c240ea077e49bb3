"""Lesson 02, two planted bugs: a loop, and weights from PyTorch.

The notebook holds the broken functions word for word, each under the name of its exercise.
"""

import torch

from course_lib.recurrent.lstm import lstm_step
from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import SINGLE, Case, first_step, narrowed, on


def broken_run(x, h, c, w_x, w_h, b):
    """The LSTM along a sequence. x (B, T, D), h and c (B, H) at the start -> hs (B, T, H), the last c (B, H)."""
    hs = []
    for t in range(x.shape[1]):
        h_t, c = lstm_step(x[:, t], h, c, w_x, w_h, b)
        hs.append(h_t)
    return torch.stack(hs, dim=1), c


def mended_run(x, h, c, w_x, w_h, b):
    hs = []
    for t in range(x.shape[1]):
        h, c = lstm_step(x[:, t], h, c, w_x, w_h, b)
        hs.append(h)
    return torch.stack(hs, dim=1), c


def running(step):
    """A wrong answer to `mended_run`: step(x_t, h, c, *weights) gives what is kept, and the states handed on."""

    def run(x, h, c, *weights):
        hs = []
        for t in range(x.shape[1]):
            kept, h, c = step(lstm_step(x[:, t], h, c, *weights), h, c)
            hs.append(kept)
        return torch.stack(hs, dim=1), c

    return run


BROKEN_RUN = Exercise(
    solution=mended_run,
    cases=on(
        "B T D, B H, B H, D 4H, H 4H, 4H",
        narrowed(
            (first_step, "A sequence of one single step is wrong already. There the answer is `lstm_step`, once."),
            otherwise="One step is right, ten are not. Print h and c before each call of `lstm_step`: which is stale?",
        ),
    ),
    stub=broken_run,
    mistakes={
        "bug_still_there": broken_run,
        "c_stays": running(lambda new, h, c: (new[0], new[0], c)),
        "exchanged": running(lambda new, h, c: (new[1], new[1], new[0])),
        "forgets_the_start": lambda x, h, c, *weights: mended_run(x, 0 * h, 0 * c, *weights),
        "one_step_late": running(lambda new, h, c: (h, *new)),
        "keeps_c": running(lambda new, h, c: (new[1], *new)),
        "detaches_h": running(lambda new, h, c: (new[0], new[0].detach(), new[1])),
        "detaches_c": running(lambda new, h, c: (new[0], new[0], new[1].detach())),
    },
)


def broken_from_torch(cell):
    """The weights of an nn.LSTMCell for `lstm_step`: w_x (D, 4H), w_h (H, 4H), b (4H). PyTorch's lie i, f, g, o."""

    def reordered(weight):
        i, f, g, o = weight.chunk(4)
        return torch.cat([i, f, o, g])

    w_x, w_h = reordered(cell.weight_ih).T, reordered(cell.weight_hh).T
    return w_x, w_h, cell.bias_ih + cell.bias_hh


def mended_from_torch(cell):
    def reordered(weight):
        i, f, g, o = weight.chunk(4)
        return torch.cat([i, f, o, g])

    w_x, w_h = reordered(cell.weight_ih).T, reordered(cell.weight_hh).T
    return w_x, w_h, reordered(cell.bias_ih) + reordered(cell.bias_hh)


def a_cell(dtype=torch.float64):
    return (torch.nn.LSTMCell(3, 4, dtype=dtype),)


def cell_afterwards(answer, cell):
    answer(cell)
    return list(cell.state_dict().values())


def ordered(weight, order="ifog"):
    parts = dict(zip("ifgo", weight.chunk(4), strict=True))
    return torch.cat([parts[letter] for letter in order])


def nothing_reordered(cell):
    return cell.weight_ih.T, cell.weight_hh.T, cell.bias_ih + cell.bias_hh


def one_bias(cell):
    return ordered(cell.weight_ih).T, ordered(cell.weight_hh).T, ordered(cell.bias_ih)


def one_bias_reordered(cell):
    return ordered(cell.weight_ih).T, ordered(cell.weight_hh).T, ordered(cell.bias_ih) + cell.bias_hh


def blocks_not_transposed(cell):
    w_h = torch.cat(ordered(cell.weight_hh).chunk(4), dim=1)
    return ordered(cell.weight_ih).T, w_h, ordered(cell.bias_ih) + ordered(cell.bias_hh)


FROM_TORCH = Exercise(
    solution=mended_from_torch,
    cases=(
        Case(a_cell, "Afterwards PyTorch's cell is not what it was: copy its weights, do not write.", cell_afterwards),
        Case(a_cell, "Try nn.LSTMCell beside `lstm_step` on one input, with all weights zero but one: which is wrong?"),
        Case(lambda: a_cell(torch.float32), SINGLE),
    ),
    stub=broken_from_torch,
    mistakes={
        "bug_still_there": broken_from_torch,
        "nothing_reordered": nothing_reordered,
        "one_bias_reordered": one_bias_reordered,
        "one_bias": one_bias,
        "blocks_not_transposed": blocks_not_transposed,
    },
)


EXERCISES = [BROKEN_RUN, FROM_TORCH]
