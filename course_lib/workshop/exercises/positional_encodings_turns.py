"""Lesson 05, what turns: the matrix that moves sinusoids by k, and rotary positions, written and mended.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.positional_encodings import ROUNDED, wide
from course_lib.workshop.exercises.probes import NO_GRADIENT, Case, narrowed, pulled


def my_shift(k, d_model):
    angles = k / 10000 ** (torch.arange(0, d_model, 2) / d_model)  # (D/2,): how far each hand moves in k steps
    cos, sin = angles.cos(), angles.sin()
    even, odd = torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)
    shift = torch.zeros(d_model, d_model)  # a block [[cos, sin], [-sin, cos]] for each pair
    shift[even, even], shift[even, odd] = cos, sin
    shift[odd, even], shift[odd, odd] = -sin, cos
    return shift


def blocks(angles):
    """The matrix that moves each pair by an angle of its own."""
    return torch.block_diag(*(my_shift(angle, 2) for angle in angles))


def sines_first(k, d_model):
    order = torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])
    return my_shift(k, d_model)[order][:, order]


SHIFT = Exercise(
    solution=my_shift,
    cases=(
        Case(
            lambda: (3, 6),
            "M @ table[p] is not table[p + 3]. Try d_model = 2: sin and cos of one single hand.",
            wide,
            ROUNDED,
        ),
        Case(
            lambda: (-5, 10), "For k = 3 and width 6 you are right, for k = -5 and width 10 you are not.", wide, ROUNDED
        ),
        Case(lambda: (40, 2), "For one pair, d_model = 2, and k = 40 it is wrong.", wide, ROUNDED),
        Case(lambda: (0, 4), "For k = 0 nothing moves: M is the unit matrix.", wide, ROUNDED),
        Case(
            lambda: (37, 12),
            "For small k you are right, for k = 37 and width 12 each angle is a little off.",
            wide,
            ROUNDED,
        ),
    ),
    mistakes={
        "backwards": lambda k, d_model: my_shift(-k, d_model),
        "one_angle": lambda k, d_model: blocks([k] * (d_model // 2)),
        "half_exponent": lambda k, d_model: blocks(k / 10000 ** (torch.arange(d_model // 2) / d_model)),
        "unit_matrix": lambda k, d_model: torch.eye(d_model),
        "one_step": lambda k, d_model: my_shift(1, d_model),
        "sines_first": sines_first,
        "degrees": lambda k, d_model: my_shift(k * torch.pi / 180, d_model),
    },
)


def my_rotate(x, positions):
    steps = torch.arange(0, x.shape[-1], 2) / x.shape[-1]  # (D/2,): 0, 2/D, 4/D ...
    angles = positions[:, None] / 10000**steps  # (T, D/2): one for each place and pair
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]  # (..., T, D/2): x_0, x_2 ... and their neighbours x_1, x_3 ...
    first, second = a * cos - b * sin, a * sin + b * cos
    return torch.stack([first, second], dim=-1).flatten(-2)  # (..., T, D)


def to_turn(*shape, first=0, apart=1, dtype=torch.float32):
    """Vectors of this shape, and places that begin at `first` and stand `apart`."""
    return torch.randn(*shape, dtype=dtype), first + apart * torch.arange(shape[-2])


ONE_PAIR = "With D = 2, a single pair, it is (a cos - b sin, a sin + b cos) already, with the position as the angle."
TURNED = (
    Case(
        lambda: to_turn(3, 6, 8),
        narrowed(
            (lambda given: (given["x"], 0 * given["positions"]), "At position 0 nothing is rotated: x must come back."),
            (lambda given: (given["x"][..., :2], given["positions"]), ONE_PAIR),
            otherwise="One pair is right and four are not: pair i rotates by position · 10000^(-2i/D).",
        ),
    ),
    Case(lambda: to_turn(3, 6, 8, first=300, apart=-7), "For positions 300, 293, ... it is wrong: use `positions`."),
    Case(lambda: to_turn(2, 3, 5, 4), "With x (B, H, T, D) it is wrong: x may have any dimensions before (T, D)."),
    Case(lambda: to_turn(1, 2, first=3), "With T = 1, D = 2 and no batch, x (1, 2), it is wrong."),
    Case(lambda: to_turn(3, 6, 8), NO_GRADIENT, ask=pulled),
    Case(lambda: to_turn(3, 6, 8, dtype=torch.float64), "In double precision it is wrong: keep the dtype of x."),
)


def interleaved(x):
    return torch.stack(x.chunk(2, dim=-1), dim=-1).flatten(-2)


def in_halves(x):
    return torch.cat([x[..., ::2], x[..., 1::2]], dim=-1)


def one_angle(x, positions):
    pairs = x.unflatten(-1, (-1, 2)).transpose(-3, -2)  # (..., D/2, T, 2)
    return my_rotate(pairs, positions).transpose(-3, -2).flatten(-2)


ROTATE = Exercise(
    solution=my_rotate,
    cases=TURNED,
    mistakes={
        "halves_paired": lambda x, positions: in_halves(my_rotate(interleaved(x), positions)),
        "taken_from_halves": lambda x, positions: my_rotate(interleaved(x), positions),
        "laid_in_halves": lambda x, positions: in_halves(my_rotate(x, positions)),
        "backwards": lambda x, positions: my_rotate(x, -positions),
        "one_angle": one_angle,
        "first_pair_only": lambda x, positions: torch.cat([my_rotate(x[..., :2], positions), x[..., 2:]], dim=-1),
        "counted_from_0": lambda x, positions: my_rotate(x, torch.arange(len(positions))),
    },
)


def broken_rotate(x, positions):
    """Rotary positions: x (..., T, D), positions (T,) -> (..., T, D), neighbours (x_0, x_1), (x_2, x_3) turned."""
    steps = torch.arange(0, x.shape[-1], 2) / x.shape[-1]
    angles = positions[:, None] / 10000**steps  # (T, D/2)
    angles = torch.cat([angles, angles], dim=-1)  # (T, D): an angle for each number
    a, b = x[..., 0::2], x[..., 1::2]  # (..., T, D/2): x_0, x_2 ... and their neighbours x_1, x_3 ...
    partner = torch.stack([-b, a], dim=-1).flatten(-2)  # (..., T, D): -x_1, x_0, -x_3, x_2 ...
    return x * angles.cos() + partner * angles.sin()


def mended_rotate(x, positions):
    steps = torch.arange(0, x.shape[-1], 2) / x.shape[-1]
    angles = positions[:, None] / 10000**steps  # (T, D/2)
    angles = angles.repeat_interleave(2, dim=-1)  # (T, D): the two of a pair share their angle
    a, b = x[..., 0::2], x[..., 1::2]  # (..., T, D/2): x_0, x_2 ... and their neighbours x_1, x_3 ...
    partner = torch.stack([-b, a], dim=-1).flatten(-2)  # (..., T, D): -x_1, x_0, -x_3, x_2 ...
    return x * angles.cos() + partner * angles.sin()


BROKEN = Exercise(
    solution=mended_rotate,
    cases=TURNED,
    stub=broken_rotate,
    mistakes={
        "bug_still_there": broken_rotate,
        "halves_paired": lambda x, positions: in_halves(my_rotate(interleaved(x), positions)),
        "one_angle": one_angle,
        "backwards": lambda x, positions: my_rotate(x, -positions),
        "without_partner": lambda x, positions: (my_rotate(x, positions) + my_rotate(x, -positions)) / 2,
    },
)

EXERCISES = [SHIFT, ROTATE, BROKEN]
