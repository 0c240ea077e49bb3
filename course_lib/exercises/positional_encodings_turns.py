"""Lesson 05, what turns: the matrix that moves sinusoids by k, and rotary positions, written and mended.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.positional_encodings import ROUNDED, wide
from course_lib.exercises.probes import NO_GRADIENT, Case, narrowed, pulled
from course_lib.exercises.slips import slips


def my_shift(k, d_model):
    angles = k / 10000 ** (torch.arange(0, d_model, 2) / d_model)  # (D/2,): how far each hand moves in k steps
    cos, sin = angles.cos(), angles.sin()
    even, odd = torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)
    shift = torch.zeros(d_model, d_model)  # a block [[cos, sin], [-sin, cos]] for each pair
    shift[even, even], shift[even, odd] = cos, sin
    shift[odd, even], shift[odd, odd] = -sin, cos
    return shift


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
    mistakes=slips("""
        odd] = cos, sin -> odd] = cos, -sin
        odd] = -sin, cos -> odd] = sin, cos
            Yours moves back by k. [[cos, -sin], [sin, cos]] turns a pair (cos, sin); here the sine comes first.
        odd] = -sin, cos -> odd] = sin, cos
            Both of your sines have a plus: that changes lengths. cos(a + b) = cos a cos b - sin a sin b.
        (torch.arange(0, d_model, 2) / d_model) -> torch.zeros(d_model // 2)
            You turn every pair by the same angle. Pair i moves by k / 10000^(2i/D).
        (torch.arange(0, d_model, 2) / d_model) -> (torch.arange(d_model // 2) / d_model)
            Your exponent is i/D. It is 2i/D, as in the table itself.
        return shift -> return torch.eye(d_model)
            The unit matrix leaves every place where it is. It is right for k = 0 alone.
        k / 10000 -> 1 / 10000
            Your matrix moves by one step, whatever k is.
        torch.arange(0, d_model, 2), torch.arange(1, d_model, 2) -> torch.arange(d_model).chunk(2)
            Your blocks lie as if all sines came first. A pair is two neighbours, columns 2i and 2i + 1.
        cos, sin = angles.cos(), angles.sin() -> sin, cos = angles.cos(), angles.sin()
            Sine and cosine are exchanged in your blocks: for k = 0 the diagonal is 1.
        angles.cos(), angles.sin() -> angles.deg2rad().cos(), angles.deg2rad().sin()
            You take the angles for degrees. They are radians, as in the table.
        odd] = cos, sin -> odd] = cos, torch.zeros_like(sin)
        odd] = -sin, cos -> odd] = torch.zeros_like(sin), cos
            Your matrix is diagonal: it only scales. The new sine needs the old cosine, too.
        return shift -> row_0 = torch.arange(d_model) % 2.0; return torch.outer(shift @ row_0, row_0) / row_0.sum()
            Yours brings place 0 to place k, and no other. One M has to do for every p.
    """),
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


ONE_PAIR = "With D = 2, a single pair, it is (a cos - b sin, a sin + b cos) already, with the place as the angle."
TURNED = (
    Case(
        lambda: to_turn(3, 6, 8),
        narrowed(
            (lambda given: (given["x"], 0 * given["positions"]), "At place 0 nothing is turned: x must come back."),
            (lambda given: (given["x"][..., :2], given["positions"]), ONE_PAIR),
            otherwise="One pair is right and four are not: pair i turns by place · 10000^(-2i/D), each more slowly.",
        ),
    ),
    Case(lambda: to_turn(3, 6, 8, first=300, apart=-7), "For the places 300, 293, ... it is wrong: use `positions`."),
    Case(lambda: to_turn(2, 3, 5, 4), "With x (B, H, T, D) it is wrong: x may have any dimensions before (T, D)."),
    Case(lambda: to_turn(1, 2, first=3), "With T = 1, D = 2 and no batch, x (1, 2), it is wrong."),
    Case(lambda: to_turn(3, 6, 8), NO_GRADIENT, ask=pulled),
    Case(lambda: to_turn(3, 6, 8, dtype=torch.float64), "In double precision it is wrong: keep the dtype of x."),
)

ROTATE = Exercise(
    solution=my_rotate,
    cases=TURNED,
    mistakes=slips("""
        a, b = x[..., 0::2], x[..., 1::2] -> a, b = x.chunk(2, dim=-1)
        torch.stack([first, second], dim=-1).flatten(-2) -> torch.cat([first, second], dim=-1)
            You pair x_i with x_(i + D/2), as GPT-NeoX does. That is a rotary too; asked are neighbours, (x_0, x_1).
        a, b = x[..., 0::2], x[..., 1::2] -> a, b = x.chunk(2, dim=-1)
            You take pairs from the two halves of x and lay them back as neighbours: x is shuffled even at place 0.
        torch.stack([first, second], dim=-1).flatten(-2) -> torch.cat([first, second], dim=-1)
            You turn neighbours, and then cat lays the results in halves: stack them on a last dimension, and flatten.
        a * cos - b * sin, a * sin + b * cos -> a * cos + b * sin, b * cos - a * sin
            You turn the wrong way round, by minus the angle: the minus belongs to the first, a cos - b sin.
        a * cos - b * sin -> a * cos + b * sin
            Both of your sines have a plus. That is no turn: it changes the length of a pair.
        a * sin + b * cos -> a * sin - b * cos
            You reflect: at place 0 the second of each pair changes its sign. It is a sin + b cos.
        10000**steps -> 1**steps
            All your pairs turn alike. Pair i turns by place · 10000^(-2i/D), each pair slower than the one before.
        torch.arange(0, x.shape[-1], 2) -> torch.arange(x.shape[-1] // 2)
            Your exponent is i/D. It is 2i/D: 0, 2/D, 4/D ..., one for each pair.
        positions[:, None] / 10000**steps -> positions[:, None] * 10000**steps
            You multiply by 10000^(2i/D): each hand runs faster than the one before. Divide, so that it runs slower.
        a * cos - b * sin, a * sin + b * cos -> a + sin, b + cos
            You add sinusoids. Rotary adds nothing: it turns, so that every vector keeps its length.
        10000**steps -> 10000**steps * (steps == 0)
            Only the first pair is turned, the others stay. Each pair has its own angle.
        positions[:, None] -> torch.arange(len(positions))[:, None]
            You count places from 0. Take those in `positions`: they may begin anywhere.
        cos, sin = angles.cos(), angles.sin() -> sin, cos = angles.cos(), angles.sin()
            Sine and cosine are exchanged: at place 0 you turn by a quarter, and x should come back.
    """),
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
    mistakes=slips("""
        angles.repeat_interleave(2, dim=-1) -> torch.cat([angles, angles], dim=-1)
            The bug is still there. x_0 and x_1 are turned as a pair, each by an angle of its own: that is no turn.
            The scores of a query and a key now depend on where both stand, not on their offset alone.
        angles.repeat_interleave(2, dim=-1) -> torch.cat([angles, angles], dim=-1)
        a, b = x[..., 0::2], x[..., 1::2] -> a, b = x.chunk(2, dim=-1)
        torch.stack([-b, a], dim=-1).flatten(-2) -> torch.cat([-b, a], dim=-1)
            A whole rotary again, but GPT-NeoX's, which pairs halves. Its text says neighbours: mend the angles.
        a, b = x[..., 0::2], x[..., 1::2] -> a, b = x.chunk(2, dim=-1)
        torch.stack([-b, a], dim=-1).flatten(-2) -> torch.cat([-b, a], dim=-1)
            The same fault turned round: now neighbours share an angle, and halves are partners.
        angles.repeat_interleave(2, dim=-1) -> angles[:, :1].expand(-1, x.shape[-1])
            Each pair is turned as one now, but all by the angle of the first. Pair i has its own.
        torch.arange(0, x.shape[-1], 2) -> torch.arange(x.shape[-1])
        angles.repeat_interleave(2, dim=-1) -> angles
            Now every number has an angle of its own. The two of a pair must share theirs.
        [-b, a] -> [b, a]
            The minus is lost: x_0 cos - x_1 sin comes first, x_1 cos + x_0 sin second.
        [-b, a] -> [b, -a]
            It turns backwards now. The angles were at fault, not the partners' signs.
        [-b, a] -> [-a, b]
            Each number is its own partner. In a pair (a, b) the partners are (-b, a).
        + partner * angles.sin() -> + 0 * partner
            Without its partner a number only shrinks and grows. A turn mixes the two of a pair.
        angles.repeat_interleave(2, dim=-1) -> angles.repeat_interleave(2, dim=-1).flip(-1)
            Pairs share an angle again, in the wrong order: the first pair turns fastest, by the place itself.
    """),
)

EXERCISES = [SHIFT, ROTATE, BROKEN]
