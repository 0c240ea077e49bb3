"""Lesson 01: the step, back-propagation through time, clipping, truncation, a temperature."""

import math

import torch

from course_lib.recurrent.rnn import unroll
from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import OVERFLOW, Case, first_step, narrowed, on, tensors, without


def my_step(x, h, w_x, w_h, b):
    return torch.tanh(x @ w_x + h @ w_h + b)


STEP = Exercise(
    solution=my_step,
    cases=on(
        "B D, B H, D H, H H, H",
        narrowed(
            (
                without("h", "b"),
                "With h = 0 and b = 0 it must be tanh(x w_x). Look at the term with x, and at the tanh.",
            ),
            (without("b"), "With b = 0 the answer must be tanh(x w_x + h w_h). Look at the term with h."),
            otherwise="Without a bias you are right; add b inside the tanh, once.",
        ),
    ),
    mistakes={
        "without_tanh": lambda x, h, w_x, w_h, b: x @ w_x + h @ w_h + b,
        "sigmoid": lambda x, h, w_x, w_h, b: torch.sigmoid(x @ w_x + h @ w_h + b),
        "without_state": lambda x, h, w_x, w_h, b: torch.tanh(x @ w_x + b),
        "without_input": lambda x, h, w_x, w_h, b: torch.tanh(h @ w_h + b),
        "without_bias": lambda x, h, w_x, w_h, b: torch.tanh(x @ w_x + h @ w_h),
        "bias_outside": lambda x, h, w_x, w_h, b: torch.tanh(x @ w_x + h @ w_h) + b,
        "transposed": lambda x, h, w_x, w_h, b: torch.tanh(x @ w_x + h @ w_h.T + b),
    },
)


def my_bptt(x, h0, w_x, w_h, b, grad_hs):
    hs = unroll(x, h0, w_x, w_h, b)
    before = torch.cat([h0[:, None], hs[:, :-1]], dim=1)
    grad_w_h, from_later = torch.zeros_like(w_h), torch.zeros_like(h0)
    for t in reversed(range(x.shape[1])):
        da = (grad_hs[:, t] + from_later) * (1 - hs[:, t] ** 2)
        grad_w_h = grad_w_h + before[:, t].T @ da
        from_later = da @ w_h.T
    return grad_w_h


def backward(slope=lambda h: 1 - h**2, read=lambda before, hs: before, back=lambda da, w_h, later: da @ w_h.T):
    """A wrong answer to `my_bptt`: the walk back through time with a part replaced."""

    def bptt(x, h0, w_x, w_h, b, grad_hs):
        hs = unroll(x, h0, w_x, w_h, b)
        states = read(torch.cat([h0[:, None], hs[:, :-1]], dim=1), hs)
        grad_w_h, later = torch.zeros_like(w_h), torch.zeros_like(h0)
        for t in reversed(range(x.shape[1])):
            da = (grad_hs[:, t] + later) * slope(hs[:, t])
            grad_w_h = grad_w_h + states[:, t].T @ da
            later = back(da, w_h, later)
        return grad_w_h

    return bptt


def last_loss_only(x, h0, w_x, w_h, b, grad_hs):
    return my_bptt(x, h0, w_x, w_h, b, torch.cat([0 * grad_hs[:, :-1], grad_hs[:, -1:]], dim=1))


BPTT = Exercise(
    solution=my_bptt,
    cases=on(
        "B T D, B H, D H, H H, H, B T H",
        narrowed(
            (first_step, "A single step is wrong already. There it is h0.T @ (grad_hs[:, 0] * (1 - h_1 ** 2))."),
            otherwise="One step is right, ten are not. Print da_t at every step and compare it with `bptt`.",
        ),
        plain=True,
    ),
    mistakes={
        "not_transposed": backward(back=lambda da, w_h, later: da @ w_h),
        "without_slope": backward(slope=lambda h: 1),
        "slope_without_square": backward(slope=lambda h: 1 - h),
        "state_after": backward(read=lambda before, hs: hs),
        "first_reads_last": backward(read=lambda before, hs: hs.roll(1, dims=1)),
        "nothing_from_later": backward(back=lambda da, w_h, later: torch.zeros_like(later)),
        "summed_twice": backward(back=lambda da, w_h, later: later + da @ w_h.T),
        "last_loss_only": last_loss_only,
    },
)


def my_truncated(grad_hs, hs, w_h, chunk):
    da, from_later = torch.zeros_like(hs), torch.zeros_like(hs[:, 0])
    for t in reversed(range(hs.shape[1])):
        da[:, t] = (grad_hs[:, t] + from_later) * (1 - hs[:, t] ** 2)
        from_later = da[:, t] @ w_h.T if t % chunk else torch.zeros_like(from_later)
    return da


def cutting(cut):
    """A wrong answer to `my_truncated`: the signal is cut before step t - 1 where cut(t, chunk, T) says so."""

    def truncated(grad_hs, hs, w_h, chunk):
        da, later = torch.zeros_like(hs), torch.zeros_like(hs[:, 0])
        for t in reversed(range(hs.shape[1])):
            da[:, t] = (grad_hs[:, t] + later) * (1 - hs[:, t] ** 2)
            later = torch.zeros_like(later) if cut(t, chunk, hs.shape[1]) else da[:, t] @ w_h.T
        return da

    return truncated


TRUNCATED = Exercise(
    solution=my_truncated,
    cases=(
        *on(  # ten steps are no multiple of four: counting from the wrong end shows
            "B T H, B T H, H H",
            narrowed(
                (lambda given: (*list(given.values())[:3], 10), "One chunk over all ten steps is wrong already."),
                otherwise="Without cuts you are right; with chunk = 4 you are not. The cuts are at t = 8 and at t = 4.",
            ),
            4,
            plain=True,
        ),
        Case(tensors("B T H, B T H, H H", 3), "With chunk = 4 you are right, with chunk = 3 you are not."),
        Case(tensors("B T H, B T H, H H", 1), "With chunk = 1 nothing comes from a later step: every step is a chunk."),
        Case(tensors("B T H, B T H, H H", 99), "One chunk of 99 holds the whole text: nothing is cut."),
    ),
    mistakes={
        "never_cut": cutting(lambda t, chunk, T: False),
        "cut_early": cutting(lambda t, chunk, T: (t + 1) % chunk == 0),
        "cut_late": cutting(lambda t, chunk, T: (t - 1) % chunk == 0),
        "counted_from_end": cutting(lambda t, chunk, T: (T - t) % chunk == 0),
        "first_cut_only": cutting(lambda t, chunk, T: t == chunk),
        "always_cut": cutting(lambda t, chunk, T: True),
        "always_4": cutting(lambda t, chunk, T: t % 4 == 0),
        "not_transposed": lambda grad_hs, hs, w_h, chunk: my_truncated(grad_hs, hs, w_h.T, chunk),
    },
)


def my_probabilities(logits, temperature):
    scaled = (logits - logits.max(dim=-1, keepdim=True).values) / temperature
    weights = torch.exp(scaled)
    return weights / weights.sum(dim=-1, keepdim=True)


def overflowing(logits, temperature):
    powers = torch.exp(logits / temperature)
    return powers / powers.sum(dim=-1, keepdim=True)


def one_sum(logits, temperature):
    powers = torch.exp(logits / temperature)
    return powers / powers.sum()


def one_maximum(logits, temperature):
    powers = torch.exp((logits - logits.max()) / temperature)
    return powers / powers.sum(dim=-1, keepdim=True)


PROBABILITIES = Exercise(
    solution=my_probabilities,
    cases=(
        *on(
            "B V",
            narrowed(
                (
                    lambda given: (given["logits"], 1.0),
                    "At temperature 1 it must be the softmax over the last dimension.",
                ),
                otherwise="At temperature 1/2 the answer must be the softmax of logits / 0.5.",
            ),
            0.5,
        ),
        Case(lambda: (torch.tensor([[0.0, 1.0], [-3e3, -2e3]]), 1.0), "Rows that lie far apart come out wrong."),
        Case(lambda: (torch.tensor([[300.0, 100.0, 299.0], [-300.0, -301.0, -500.0]]), 2.0), OVERFLOW),
    ),
    mistakes={
        "without_temperature": lambda logits, temperature: torch.softmax(logits, -1),
        "multiplied": lambda logits, temperature: torch.softmax(logits * temperature, -1),
        "divided_afterwards": lambda logits, temperature: torch.softmax(logits, -1) / temperature,
        "columns": lambda logits, temperature: torch.softmax(logits / temperature, 0),
        "one_sum": one_sum,
        "logarithms": lambda logits, temperature: torch.log_softmax(logits / temperature, -1),
        "overflowing": overflowing,
        "one_maximum": one_maximum,
    },
)


def my_clip(grads, max_norm):
    norm = math.sqrt(sum(float((g**2).sum()) for g in grads))
    scale = min(1.0, max_norm / norm) if norm > 0 else 1.0
    return [g * scale for g in grads]


def gradients(first=1.0, second=3.0):
    return [first * torch.randn(4, 3).double(), second * torch.randn(5).double()], 2.0  # 1 would hide some mistakes


def scaled_by(factor):
    """A wrong answer to `my_clip`: all gradients times factor(their norm, max_norm)."""

    def clip(grads, max_norm):
        scale = factor(math.sqrt(sum(float((g**2).sum()) for g in grads)), max_norm)
        return [g * scale for g in grads]

    return clip


CLIP = Exercise(
    solution=my_clip,
    cases=(
        Case(gradients, "All gradients together must have norm max_norm = 2 and keep their direction. Yours do not."),
        Case(lambda: gradients(1e-3, 1e-3), "A short gradient must stay as it is. Clipping only ever shortens."),
        Case(lambda: gradients(0.0, 0.0), "A gradient of zero stays zero: do not divide by its norm."),
        Case(lambda: ([torch.randn(9)], 2.0), "With a single tensor, in single precision, the answer is wrong."),
        Case(lambda: ([torch.tensor([0.6, -0.8])], 0.5), "With max_norm = 0.5, [0.6, -0.8] becomes [0.3, -0.4]."),
        Case(lambda: ([torch.tensor([3.0, -4.0])], 5.0), "A gradient of length max_norm, here 5, stays as it is."),
        Case(lambda: ([torch.tensor([3.0, -4.0])], 7.0), "With max_norm = 7, [3, -4] has length 5 and stays as it is."),
    ),
    mistakes={
        "each_on_its_own": lambda grads, max_norm: [g * min(1.0, max_norm / float(g.norm())) for g in grads],
        "entries_clamped": lambda grads, max_norm: [g.clamp(-max_norm, max_norm) for g in grads],
        "squared_norm": scaled_by(lambda norm, max_norm: min(1.0, max_norm / max(norm**2, 1e-300))),
        "to_length_1": scaled_by(lambda norm, max_norm: min(1.0, 1 / max(norm, 1e-300))),
        "upside_down": scaled_by(lambda norm, max_norm: norm / max_norm if norm > 0 else 1.0),
        "lengthened": scaled_by(lambda norm, max_norm: max_norm / norm if norm > 0 else 1.0),
        "zero_norm": scaled_by(lambda norm, max_norm: min(1.0, max_norm / norm)),
    },
)

EXERCISES = [STEP, BPTT, CLIP, TRUNCATED, PROBABILITIES]
