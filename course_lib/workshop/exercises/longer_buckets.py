"""Lesson 17, a round of hashing, the inverse of a reversible layer, and attention as a recurrent state."""

from functools import partial

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, fresh, narrowed, pulled, same


def my_hash_round(x, turns):
    sides = x @ turns  # (T, n / 2): how far x reaches in each random direction
    return torch.cat([sides, -sides], dim=-1).argmax(dim=-1)  # (T,)


def vectors(T=60, d=5, half=4, dtype=torch.float64):
    """Vectors (T, d), and half as many random directions as buckets, (d, n / 2)."""
    return torch.randn(T, d).to(dtype), torch.randn(d, half).to(dtype)


def largest_of(numbers):
    """A wrong answer to `my_hash_round`: the largest of numbers(sides) decides."""
    return lambda x, turns: numbers(x @ turns).argmax(dim=-1)


def bits(x, turns):
    return (x @ turns > 0).long() @ 2 ** torch.arange(turns.shape[1])


def how_far(x, turns):
    return (x @ turns).abs().amax(dim=-1)


HASH_ROUND = Exercise(
    solution=my_hash_round,
    cases=(
        Case(
            vectors,
            narrowed(
                (
                    lambda given: (given["x"][:, :1], given["turns"][:1, :1].abs()),
                    "With one direction and one number per vector it is wrong already: bucket 0 where x is above 0, "
                    "and bucket 1 where it is below.",
                ),
                (
                    lambda given: (given["x"], given["turns"][:, :1]),
                    "With one number per vector it is right, with several it is wrong: x @ turns.",
                ),
                otherwise="With one direction it is right, with several it is wrong: the largest of n / 2 numbers and "
                "of the same with the other sign, in this order.",
            ),
        ),
        Case(lambda: vectors(1, 3, 2), OTHER_SIZES),
        Case(lambda: vectors(30, 4, 1), "With two buckets it is wrong: one direction, and its opposite."),
        Case(lambda: vectors(20, 2, 7), "With more directions than numbers in a vector it is wrong."),
        Case(lambda: vectors(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "without_opposites": largest_of(lambda sides: sides),
        "opposites_shared": largest_of(torch.abs),
        "opposites_first": largest_of(lambda sides: torch.cat([-sides, sides], dim=-1)),
        "interleaved": largest_of(lambda sides: torch.stack([sides, -sides], dim=-1).flatten(-2)),
        "bits": bits,
        "how_far": how_far,
        "counted_from_1": lambda x, turns: my_hash_round(x, turns) + 1,
    },
)


def my_reversed_step(f, g, y_1, y_2):
    x_2 = y_2 - g(y_1)  # y_2 = x_2 + g(y_1), and y_1 is known
    x_1 = y_1 - f(x_2)  # y_1 = x_1 + f(x_2), and now x_2 is known
    return x_1, x_2


def streams(B=2, T=3, D=4, dtype=torch.float64):
    """Two matrices and their biases, (D + 1, D), for f and for g, and two streams (B, T, D)."""
    shapes = (D + 1, D), (D + 1, D), (B, T, D), (B, T, D)
    return tuple(torch.randn(*shape).to(dtype) for shape in shapes)


def undone(answer, w_f, w_g, y_1, y_2):
    """For `Case.ask`: two functions that cannot be mistaken for one another, and the answer to them."""
    return answer(lambda x: torch.tanh(x @ w_f[1:] + w_f[0]), lambda x: torch.cos(x @ w_g[1:] + w_g[0]), y_1, y_2)


def way_back(answer, *arguments):
    """For `Case.ask`: the gradients by the matrices and by both streams."""
    return pulled(lambda *given: undone(answer, *given), *arguments)


def which_stream(answer, solution, arguments):
    """Which of the two is wrong."""
    (_, second), (_, right) = (undone(one, *fresh(arguments)) for one in (answer, solution))
    if not same(second, right):
        return "x_2 is wrong. It comes first, because all that it needs is known: y_2 = x_2 + g(y_1)."
    return "x_2 is right, x_1 is wrong: y_1 = x_1 + f(x_2), and x_2 is the one that was just found."


def first_line_first(f, g, y_1, y_2):
    x_1 = y_1 - f(y_2)
    return x_1, y_2 - g(x_1)


REVERSED_STEP = Exercise(
    solution=my_reversed_step,
    cases=(
        Case(streams, which_stream, undone),
        Case(lambda: streams(1, 1, 1), OTHER_SIZES, undone),
        Case(lambda: streams(1, 6, 2), which_stream, undone),
        Case(streams, NO_GRADIENT, way_back),
        Case(lambda: streams(dtype=torch.float32), SINGLE, undone),
    ),
    mistakes={
        "f_of_y_2": lambda f, g, y_1, y_2: (y_1 - f(y_2), y_2 - g(y_1)),
        "first_line_first": first_line_first,
        "added": lambda f, g, y_1, y_2: my_reversed_step(lambda x: -f(x), lambda x: -g(x), y_1, y_2),
        "forward_again": lambda f, g, y_1, y_2: (y_1 + f(y_2), y_2 + g(y_1 + f(y_2))),
        "streams_exchanged": lambda *given: my_reversed_step(*given)[::-1],
        "functions_exchanged": lambda f, g, y_1, y_2: my_reversed_step(g, f, y_1, y_2),
    },
)


def my_linear_step(S, z, q, k, v):
    S = S + k[:, :, None] * v[:, None, :]  # (B, d, d_v): write first
    z = z + k  # (B, d)
    out = (q[:, None, :] @ S).squeeze(1) / (q * z).sum(dim=1, keepdim=True)  # (B, d_v)
    return out, S, z


def states(B=3, d=4, d_v=6, written=True, dtype=torch.float64):
    """A state (B, d, d_v) and its sum (B, d), then q, k (B, d), above 0, and v (B, d_v)."""
    S, z, q, k, v = (
        torch.randn(B, d, d_v),
        3 * torch.rand(B, d),
        torch.rand(B, d),
        torch.rand(B, d),
        torch.randn(B, d_v),
    )
    small = 1.0 if written else 0.2  # at the first position q z is far below 1
    return tuple(part.to(dtype) for part in (S * written, z * written, small * (q + 0.5), small * (k + 0.5), v))


def which_of_three(answer, solution, arguments):
    """Which of the three is wrong."""
    (out, S, z), (right, written, total) = (one(*fresh(arguments)) for one in (answer, solution))
    if not same(S, written):
        return "S is wrong: k_i v_j is added to the number in row i and column j."
    if not same(z, total):
        return "S is right. z is wrong: it is the sum of all keys so far, this one among them."
    return "S and z are right. What is read is wrong: q S over q z, with this position's pair in them already."


about = partial(Case, tolerance=1e-4)  # adding a millionth to q z, against 0 / 0, is right


def read(S, q):
    return (q[:, None] @ S)[:, 0]


def reading(out):
    """A wrong answer to `my_linear_step`: out(S, z, q, k) is read, of the new S and z."""

    def step(S, z, q, k, v):
        _, S, z = my_linear_step(S, z, q, k, v)
        return out(S, z, q, k), S, z

    return step


def read_first(S, z, q, k, v):
    return read(S, q) / (q * z).sum(dim=1, keepdim=True), *my_linear_step(S, z, q, k, v)[1:]


def key_not_added(S, z, q, k, v):
    _, S, _ = my_linear_step(S, z, q, k, v)
    return read(S, q) / (q * z).sum(dim=1, keepdim=True), S, z


LINEAR_STEP = Exercise(
    solution=my_linear_step,
    cases=(
        about(states, which_of_three),
        about(lambda: states(1, 1, 1), OTHER_SIZES),
        about(lambda: states(2, 5, 1), "Where values are narrower than keys, here one number wide, it is wrong."),
        about(lambda: states(2, 3, 3), which_of_three),
        about(
            lambda: states(2, 3, 4, False),
            "At the first position, with nothing written before, out is v. There it is wrong.",
        ),
        about(states, NO_GRADIENT, pulled),
        about(lambda: states(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "read_first": read_first,
        "old_sum": reading(lambda S, z, q, k: read(S, q) / (q * (z - k)).sum(dim=1, keepdim=True)),
        "key_not_added": key_not_added,
        "not_divided": reading(lambda S, z, q, k: read(S, q)),
        "divided_by_q_k": reading(lambda S, z, q, k: read(S, q) / (q * k).sum(dim=1, keepdim=True)),
        "divided_by_root_of_d": reading(lambda S, z, q, k: read(S, q) / q.shape[1] ** 0.5),
        "read_with_key": reading(lambda S, z, q, k: read(S, k) / (q * z).sum(dim=1, keepdim=True)),
        "two_of_three": lambda *given: my_linear_step(*given)[:2],
    },
)

EXERCISES = [HASH_ROUND, REVERSED_STEP, LINEAR_STEP]
