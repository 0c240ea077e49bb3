"""Lesson 02, two planted bugs: a loop, and weights from PyTorch.

The notebook holds the broken functions word for word, each under the name of its exercise.
"""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import SINGLE, Case, first_step, narrowed, on
from course_lib.exercises.slips import slips
from course_lib.recurrent.lstm import lstm_step


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
    mistakes=slips("""
        h, c = lstm_step -> now = lstm_step
        hs.append(h) -> hs.append(now[0]); c = now[1]
            The bug is still there. The first step is right, the others are not: no later gate hears of hs[:, 0].
            Two things must travel from step to step; look at what each call of `lstm_step` is given.
        h, c = lstm_step -> h, now = lstm_step
            Now h travels and c does not: every step starts from the first c, and that one comes back.
        h, c = lstm_step -> c, h = lstm_step  # After each step h and c have changed names: `lstm_step` returns h first.
        hs = [] -> hs, h, c = [], 0 * h, 0 * c
            Your run forgets both states that it is given. A text read in pieces would lose its thread.
        hs.append(h) -> pass
        h, c = lstm_step -> hs.append(h); h, c = lstm_step
            hs is one step late: it begins with the h that came in, and the last state is missing.
        hs.append(h) -> hs.append(c)  # hs holds the cells c. What goes out of an LSTM is h.
        dim=1), c -> dim=1), h  # Beside hs you return the last h. Asked is the last c.
        dim=1 -> dim=0  # The steps lie along the first dimension of hs. The batch comes first: stack along dim=1.
        hs.append(h) -> hs.append(h); h = h.detach()
            The numbers are right. But you detach h, and no gradient comes back through the gates from later steps.
        hs.append(h) -> hs.append(h); c = c.detach()
            The numbers are right. But you detach c, and with it the gradient's highway is cut.
    """),
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


FROM_TORCH = Exercise(
    solution=mended_from_torch,
    cases=(
        Case(a_cell, "Afterwards PyTorch's cell is not what it was: copy its weights, do not write.", cell_afterwards),
        Case(a_cell, "Try nn.LSTMCell beside `lstm_step` on one input, with all weights zero but one: which is wrong?"),
        Case(lambda: a_cell(torch.float32), SINGLE),
    ),
    stub=broken_from_torch,
    mistakes=slips("""
        reordered(cell.bias_ih) + reordered(cell.bias_hh) -> sum([cell.bias_ih, cell.bias_hh])
            The bug is still there. A cell whose biases are zero comes over right; with others i and f are right, o and
            g are not. Look at what the weights go through on their way, and what the biases go through.
        [i, f, o, g] -> [i, f, g, o]
            Nothing is put in order any more: all lie i, f, g, o, as in PyTorch, and `lstm_step` reads i, f, o, g.
        reordered(cell.bias_hh) -> cell.bias_hh  # You add bias_hh as it lies in PyTorch. Both need to be put in order.
        reordered(cell.bias_ih) -> cell.bias_ih  # You add bias_ih as it lies in PyTorch. Both need to be put in order.
        reordered(cell.bias_hh) -> 0  # bias_hh is lost. PyTorch adds two, one must hold both.
        reordered(cell.bias_hh) -> reordered(cell.bias_ih)  # bias_ih is in it twice, and bias_hh not at all.
        reordered(cell.weight_hh).T -> torch.cat(reordered(cell.weight_hh).chunk(4), dim=1)
            w_h has the right shape and the wrong numbers: its four blocks are square, so a transposition left out in
            each of them does not show. PyTorch stores W, and computes h @ W.T.
        w_x, w_h = reordered -> cell.bias_ih.data.zero_(); w_x, w_h = reordered
            Afterwards PyTorch's cell is not what it was
    """),
)


EXERCISES = [BROKEN_RUN, FROM_TORCH]
