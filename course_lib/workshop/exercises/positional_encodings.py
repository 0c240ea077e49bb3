"""Lesson 05: self-attention and sinusoids.

What turns, the matrix that moves sinusoids and rotary positions, is in `positional_encodings_turns.py`.
"""

import torch
from torch import Tensor

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import (
    NO_GRADIENT,
    OTHER_SIZES,
    OVERFLOW,
    SINGLE,
    SMALL,
    Case,
    far_apart,
    narrowed,
    pulled,
    single,
    tensors,
    without,
)


def my_self_attention(x, w_q, w_k, w_v, turn=None):
    q, k, v = x @ w_q, x @ w_k, x @ w_v  # (B, T, d_k) each
    if turn is not None:
        q, k = turn(q), turn(k)
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (B, T, T): a row for each query
    return torch.softmax(scores, dim=-1) @ v  # (B, T, d_k)


SHAPES = "B T D, D N, D N, D N"  # N: d_k
SQUARE = {"B": 3, "T": 6, "D": 5, "N": 5}  # here a turned matrix fits


def by_place(x):
    """Stands for a rotary: multiplies each number by one for its position and column. x (..., T, d_k) -> as x."""
    return x * (1 + torch.outer(torch.arange(x.shape[-2]), torch.arange(x.shape[-1])) / 10)


def columns(x, w_q, w_k, w_v, turn=None):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-2) @ v


def mean_of_x(x, w_q, w_k, w_v, turn=None):
    return my_self_attention(x, w_q, w_k, torch.eye(x.shape[-1], dtype=x.dtype), turn)


ATTENTION = Exercise(
    solution=my_self_attention,
    cases=(
        Case(
            tensors(SHAPES, None, sizes=SQUARE),
            narrowed(
                (
                    without("w_q", "w_k"),
                    "With w_q and w_k zero all scores are equal: each token gets the mean of x @ w_v.",
                ),
                otherwise="The mean of all values comes out right, the weights do not: softmax(q kᵀ / √d_k).",
            ),
        ),
        Case(tensors(SHAPES, None), "Where D and d_k are equal you are right, and where they differ you are not."),
        Case(tensors(SHAPES, None, sizes=SMALL), OTHER_SIZES),
        Case(tensors(SHAPES, by_place), "With `turn` it is wrong: queries and keys go through it, before they meet."),
        Case(
            tensors(SHAPES, None, scale=10.0), "With scores in the thousands it is wrong: leave exp to torch.softmax."
        ),
        Case(lambda: (far_apart(), *[torch.eye(2)] * 3, None), OVERFLOW),
        Case(tensors(SHAPES, None), NO_GRADIENT, ask=pulled),
        Case(tensors(SHAPES, by_place), NO_GRADIENT, ask=pulled),
        Case(single(tensors(SHAPES, None)), SINGLE),
    ),
    mistakes={
        "undivided": lambda x, w_q, *more: my_self_attention(x, w_q * w_q.shape[1] ** 0.5, *more),
        "divided_by_d_k": lambda x, w_q, *more: my_self_attention(x, w_q / w_q.shape[1] ** 0.5, *more),
        "divided_by_root_of_T": lambda x, w_q, *more: my_self_attention(
            x, w_q * (w_q.shape[1] / x.shape[1]) ** 0.5, *more
        ),
        "columns": columns,
        "exchanged": lambda x, w_q, w_k, *more: my_self_attention(x, w_k, w_q, *more),
        "mean_of_x": mean_of_x,
        "transposed": lambda x, w_q, w_k, w_v, *turn: my_self_attention(x, w_q.T, w_k.T, w_v.T, *turn),
        "turn_unused": lambda x, w_q, w_k, w_v, turn=None: my_self_attention(x, w_q, w_k, w_v),
    },
)


ROUNDED = 5e-6  # tolerance: five times what any order of operations loses in single precision


def wide(answer, *arguments):
    """For `Case.ask`: what comes back in double precision, for one may have worked in it, another in single."""
    result = answer(*arguments)
    return result.double() if isinstance(result, Tensor) and result.is_floating_point() else result


def my_sinusoids(max_len, d_model):
    steps = torch.arange(0, d_model, 2) / d_model  # (D/2,): 0, 2/D, 4/D ...
    angles = torch.arange(max_len)[:, None] / 10000**steps  # (T, D/2): one for each place and pair
    sin, cos = angles.sin(), angles.cos()
    return torch.stack([sin, cos], dim=-1).flatten(-2)  # (T, D): sin, cos, sin, cos ...


def waves(angles):
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def own_angles(max_len, d_model):
    angles = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(d_model) / d_model)
    return torch.where(torch.arange(d_model) % 2 == 0, angles.sin(), angles.cos())


SINUSOIDS = Exercise(
    solution=my_sinusoids,
    cases=(
        Case(
            lambda: (12, 8),
            "Print your row 1: it should be sin 1, cos 1, sin 0.1, cos 0.1, sin 0.01 ...",
            wide,
            ROUNDED,
        ),
        Case(lambda: (40, 14), "For 12 positions and width 8 you are right, for 40 and 14 you are not.", wide, ROUNDED),
        Case(lambda: (1, 2), "For one position and one pair the table is [[0, 1]]: sin 0 and cos 0.", wide, ROUNDED),
    ),
    mistakes={
        "halves": lambda T, D: torch.cat([my_sinusoids(T, D)[:, ::2], my_sinusoids(T, D)[:, 1::2]], dim=-1),
        "exchanged": lambda T, D: my_sinusoids(T, D).unflatten(-1, (-1, 2)).flip(-1).flatten(-2),
        "own_angles": own_angles,
        "half_exponent": lambda T, D: waves(torch.arange(T)[:, None] / 10000 ** (torch.arange(D // 2) / D)),
        "exponent_to_1": lambda T, D: waves(torch.arange(T)[:, None] / 10000 ** torch.linspace(0, 1, D // 2)),
        "base_1000": lambda T, D: waves(torch.arange(T)[:, None] / 1000 ** (torch.arange(0, D, 2) / D)),
        "multiplied": lambda T, D: waves(torch.arange(T)[:, None] * 10000 ** (torch.arange(0, D, 2) / D)),
        "from_1": lambda T, D: my_sinusoids(T + 1, D)[1:],
    },
)

EXERCISES = [ATTENTION, SINUSOIDS]
