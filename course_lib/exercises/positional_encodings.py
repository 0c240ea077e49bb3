"""Lesson 05: self-attention, sinusoids, and the open question which scheme suits which task.

What turns, the matrix that moves sinusoids and rotary positions, is in `positional_encodings_turns.py`.
"""

import torch
from torch import Tensor

from course_lib.exercises import Exercise
from course_lib.exercises.probes import (
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
from course_lib.exercises.slips import slips


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
    mistakes=slips("""
        q.shape[-1] ** 0.5 -> 1
            You do not divide by √d_k. The sum has d_k terms: undivided, scores grow with it, and softmax is too sharp.
        q.shape[-1] ** 0.5 -> q.shape[-1]  # You divide by d_k. It is the square root: √d_k.
        q.shape[-1] ** 0.5 -> x.shape[-2] ** 0.5  # You divide by √T. It is the width of a query that counts, √d_k.
        q.shape[-1] ** 0.5 -> x.shape[-1] ** 0.5
            You divide by √D, the width of x. The sum in a score has d_k terms: √d_k, the width of a query.
        dim=-1 -> dim=-2
            Your columns sum to one. Each row is one query that shares out its weight: softmax over the last dimension.
        dim=-1 -> dim=0
            Your softmax runs over the batch: sentences share their weight. It is the last dimension, the keys.
        q @ k.transpose(-2, -1) -> k @ q.transpose(-2, -1)
            Queries and keys are exchanged: row t should hold the scores of query t, q_t · k_1, q_t · k_2 ...
        dim=-1) @ v -> dim=-1) @ k  # You take the mean of the keys. Keys are for being found; what is handed on is v.
        dim=-1) @ v -> dim=-1) @ x  # You take the mean of x itself. What a token hands on is its value, x @ w_v.
        x @ w_q, x @ w_k, x @ w_v -> x @ w_q.T, x @ w_k.T, x @ w_v.T
            You turn the matrices round. They are (D, d_k) here, not as in nn.Linear: x @ w_q.
        torch.softmax(scores, dim=-1) @ v -> scores @ v  # The softmax is missing: scores are not yet weights.
        torch.softmax(scores, dim=-1) @ v -> v.mean(-2, keepdim=True).expand_as(v)
            Every token gets the plain mean of all values: no query is asked. The weights are softmax(scores).
        q, k = turn(q), turn(k) -> pass  # You make no use of `turn`. Queries and keys go through it before they meet.
        q, k = turn(q), turn(k) -> q, k, v = turn(q), turn(k), turn(v)
            You turn the values too. Positions shall decide who is looked at, and leave alone what is handed on.
        q, k = turn(q), turn(k) -> q = turn(q)
            Only the queries are turned. A score can see the distance only if the keys are turned as well.
        q, k = turn(q), turn(k) -> q, k, v = turn(x) @ w_q, turn(x) @ w_k, turn(x) @ w_v
            You turn x, before the projections. `turn` is for queries and keys: turn(x @ w_q).
    """),
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


SINUSOIDS = Exercise(
    solution=my_sinusoids,
    cases=(
        Case(
            lambda: (12, 8),
            "Print your row 1: it should be sin 1, cos 1, sin 0.1, cos 0.1, sin 0.01 ...",
            wide,
            ROUNDED,
        ),
        Case(lambda: (40, 14), "For 12 places and width 8 you are right, for 40 and 14 you are not.", wide, ROUNDED),
        Case(lambda: (1, 2), "For one place and one pair the table is [[0, 1]]: sin 0 and cos 0.", wide, ROUNDED),
    ),
    mistakes=slips("""
        torch.stack([sin, cos], dim=-1).flatten(-2) -> torch.cat([sin, cos], dim=-1)
            All your sines come first, then all cosines. Here they alternate: sin, cos, sin, cos ...
        [sin, cos] -> [cos, sin]
            Sine and cosine are exchanged: even columns, from 0, are sines.
        torch.arange(0, d_model, 2) / d_model -> torch.arange(d_model) / d_model
        torch.stack([sin, cos], dim=-1).flatten(-2) -> torch.where(torch.arange(d_model) % 2 == 0, sin, cos)
            Every column has its own angle in yours. The sine and the cosine of a pair share one: 2i/D for both.
        torch.arange(0, d_model, 2) -> torch.arange(d_model // 2)
            Your exponent is i/D. It is 2i/D: 0, 2/D, 4/D ..., up to nearly 1.
        torch.arange(0, d_model, 2) / d_model -> torch.linspace(0, 1, d_model // 2)
            Your exponent reaches 1 in the last pair. The paper's own code does so; its formula ends at (D - 2)/D.
        10000**steps -> 1000**steps  # The base is 10000; yours gives 1000.
        10000**steps -> 1**steps
            All your columns turn at one speed. Pair i has the angle t / 10000^(2i/D).
        [:, None] / 10000 -> [:, None] * 10000
            You multiply by 10000^(2i/D): each hand runs faster than the one before. Divide, so that it runs slower.
        torch.arange(max_len)[ -> torch.arange(1, max_len + 1)[
            Your places begin at 1. The first one is 0, and its row is 0, 1, 0, 1 ...
        [sin, cos] -> [sin, sin]  # There are only sines in yours. Odd columns are cosines.
        [:, None] / 10000 -> [:, None] * 2 * torch.pi / 10000
            You have a 2π in the angle. The wavelengths are multiples of 2π because the formula has none.
    """),
)

EXERCISES = [ATTENTION, SINUSOIDS]
