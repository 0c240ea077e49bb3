"""Lesson 17, a round of hashing, the inverse of a reversible layer, and attention as a recurrent state."""

from functools import partial

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, fresh, narrowed, pulled, same
from course_lib.exercises.slips import slips


def my_hash_round(x, turns):
    sides = x @ turns  # (T, n / 2): how far x reaches in each random direction
    return torch.cat([sides, -sides], dim=-1).argmax(dim=-1)  # (T,)


def vectors(T=60, d=5, half=4, dtype=torch.float64):
    """Vectors (T, d), and half as many random directions as buckets, (d, n / 2)."""
    return torch.randn(T, d).to(dtype), torch.randn(d, half).to(dtype)


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
    mistakes=slips("""
        torch.cat([sides, -sides], dim=-1) -> sides
            You left out the opposites. Vectors that point away from all directions get a bucket that says nothing.
        torch.cat([sides, -sides], dim=-1) -> sides.abs()
            By .abs(), or by % at the end, a vector and its opposite share a bucket, although their product is as low as
            it can be. They are two buckets: [sides, -sides].
        [sides, -sides] -> [-sides, sides]
            You return the opposite of the nearest direction. Do you put the opposites first, or take argmin? Buckets 0
            to n / 2 - 1 are the directions as they are given, and the largest number decides.
        torch.cat([sides, -sides], dim=-1) -> torch.stack([sides, -sides], dim=-1).flatten(-2)
            You put each opposite behind its direction. All opposites stand behind all directions.
        torch.cat([sides, -sides], dim=-1).argmax(dim=-1) -> (sides > 0).long() @ 2 ** torch.arange(turns.shape[1])
            Your bucket is made of signs, one bit per direction. That is another hash. Here the largest number decides.
        torch.cat([sides, -sides], dim=-1).argmax(dim=-1) -> (sides > 0).sum(dim=-1)
            You count the directions in which a vector points. Which one is the nearest?
        torch.cat([sides, -sides], dim=-1).argmax(dim=-1) -> torch.cat([sides, -sides], dim=-1).softmax(dim=-1)
            Those are probabilities, (T, n). Return the number of one bucket: argmax.
        torch.cat([sides, -sides], dim=-1).argmax(dim=-1) -> torch.cat([sides, -sides], dim=-1).amax(dim=-1)
            That is how far the vector reaches in its direction. Return which bucket it is: argmax.
        torch.cat([sides, -sides], dim=-1).argmax(dim=-1) -> torch.cat([sides, -sides], dim=-1)
            Those are n numbers for each vector. Return the index of the largest.
        torch.cat([sides, -sides], dim=-1).argmax(dim=-1) -> torch.cat([sides, -sides], dim=-1).argsort(dim=-1)
            Those are all buckets in order. Return one of them.
        torch.cat([sides, -sides], dim=-1).argmax(dim=-1) -> torch.cat([sides, -sides], dim=0).argmax(dim=0)
            You find the nearest vector for each direction. Find the direction for each vector.
        .argmax(dim=-1) -> .argmax(dim=-1) + 1
            You count buckets from 1. The first is 0.
        .argmax(dim=-1) -> .argmax(dim=-1, keepdim=True)
            Yours is (T, 1). Leave out keepdim.
        .argmax(dim=-1) -> .argmax(dim=-1).to(x)
            Your buckets are floats. They should be integers, as argmax gives them.
        x @ turns -> (x - x.mean(dim=0)) @ turns
            You subtract the mean first. Then the bucket of one vector depends on the other vectors.
        x @ turns -> x @ (turns / turns.norm(dim=0))
            You made the random directions equally long. That was not asked for: x @ turns, as they are.
    """),
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


REVERSED_STEP = Exercise(
    solution=my_reversed_step,
    cases=(
        Case(streams, which_stream, undone),
        Case(lambda: streams(1, 1, 1), OTHER_SIZES, undone),
        Case(lambda: streams(1, 6, 2), which_stream, undone),
        Case(streams, NO_GRADIENT, way_back),
        Case(lambda: streams(dtype=torch.float32), SINGLE, undone),
    ),
    mistakes=slips("""
        y_1 - f(x_2) -> y_1 - f(y_2)
            You put y_2 into f. Forward, f read x_2: find that first, and use it.
        x_2 = y_2 - g(y_1) -> x_2 = y_2 - g(y_1 - f(y_2))
        x_1 = y_1 - f(x_2) -> x_1 = y_1 - f(y_2)
            You undo the first line first. What was done last is undone first: x_2, then x_1.
        return x_1, x_2 -> return x_1, y_2 - g(x_1)
            You put x_1 into g. Forward, g read y_1, which is known.
        y_2 - g(y_1) -> y_2 - g(y_2)
        y_1 - f(x_2) -> y_1 - f(y_1)
            You undo each stream by itself. Each was changed by the other one.
        y_2 - g(y_1) -> y_2 + g(y_1)
        y_1 - f(x_2) -> y_1 + f(x_2)
            You add. What was added forward has to be subtracted again.
        y_1 - f(x_2) -> y_1 + f(x_2)
            You add f. What was added forward has to be subtracted again.
        y_2 - g(y_1) -> y_2 + g(y_1)
            You add g. What was added forward has to be subtracted again.
        y_2 - g(y_1) -> g(y_1) - y_2
        y_1 - f(x_2) -> f(x_2) - y_1
            Your differences are the wrong way round: y_2 - g(y_1).
        x_2 = y_2 - g(y_1) -> x_1 = y_1 + f(y_2)
        x_1 = y_1 - f(x_2) -> x_2 = y_2 + g(x_1)
            You go forward once more. The exercise asks for the inverse.
        return x_1, x_2 -> return x_2, x_1
            You swapped the two: x_1 comes first.
        g(y_1) -> f(y_1)
        f(x_2) -> g(x_2)
            You swapped the two functions: g changed the second stream, f the first.
        x_1 = y_1 - f(x_2) -> x_1 = y_1
            You left the first stream as it was: f(x_2) was added to it.
        x_2 = y_2 - g(y_1) -> x_2 = y_2
            You left the second stream as it was: g(y_1) was added to it.
        return x_1, x_2 -> return y_1, y_2
            You return what came in.
        return x_1, x_2 -> return f(x_2), g(y_1)
            Those are the terms that were added. Subtract them from y_1 and y_2.
        return x_1, x_2 -> return x_1
            You return only the first stream. Return both.
        return x_1, x_2 -> return x_1 + x_2
            You add the two streams up. Return both of them, or the layer before cannot be undone.
    """),
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
    mistakes=slips("""
        out = (q[:, None, :] @ S) -> out = (q[:, None, :] @ (S - k[:, :, None] * v[:, None, :]))
        (q * z) -> (q * (z - k))
            You read before you write, so this position does not attend to itself. (At the first position that is 0 /
            0.)
        (q[:, None, :] @ S) -> (q[:, None, :] @ (S - k[:, :, None] * v[:, None, :]))
            You read the old S and divide by the new z. Both must contain this position's pair.
        (q * z) -> (q * (z - k))
            You read the new S and divide by the old z. Both must contain this position's pair.
        / (q * z).sum(dim=1, keepdim=True) -> + 0
            You forgot to divide by q z. Without it the result grows with every position that is written.
        / (q * z).sum(dim=1, keepdim=True) -> * (q * z).sum(dim=1, keepdim=True)
            You multiply by q z. Divide by it, so that the weights of all positions add up to 1.
        / (q * z).sum(dim=1, keepdim=True) -> / (q * k).sum(dim=1, keepdim=True)
            You divide by q k. It should be the sum over all keys so far: q z.
        / (q * z).sum(dim=1, keepdim=True) -> / z.sum(dim=1, keepdim=True)
            You divide by the sum of z. How much of each number counts depends on the query: q z.
        / (q * z).sum(dim=1, keepdim=True) -> / k.sum(dim=1, keepdim=True)
            You divide by the sum of k. What was written before counts, too, and how much depends on the query: q z.
        / (q * z).sum(dim=1, keepdim=True) -> / q.sum(dim=1, keepdim=True)
            You divide by the sum of q. It should be q z: the sum of all weights for this query.
        / (q * z).sum(dim=1, keepdim=True) -> / q.shape[1] ** 0.5
            You divide by the root of d. That belongs before a softmax, and there is none. Divide by q z.
        / (q * z).sum(dim=1, keepdim=True) -> / (q * z).sum()
            You divide by one number for the whole batch. Each row has its own: dim=1.
        z = z + k -> z = z
            You left z as it was. This position's key is added to it.
        z = z + k -> z = k
            You dropped the keys that were written before: z + k.
        S = S + k -> S = k
            You dropped what was written before. The new pair is added to S.
        k[:, :, None] * v[:, None, :] -> (k[:, :, None] * v[:, None, :]) / k.sum(dim=1)[:, None, None]
            You divide what is written. Write it as it is, and divide when you read.
        k[:, :, None] * v[:, None, :] -> q[:, :, None] * v[:, None, :]
            You write with the query. A value is written with its key, and read with a query.
        q[:, None, :] @ S -> k[:, None, :] @ S
            You read with the key. A value is written with its key, and read with a query.
        k[:, :, None] * v[:, None, :] -> (v[:, :, None] * k[:, None, :]).reshape(S.shape)
            Your outer product is the wrong way round. Rows of S are for keys, columns for values: k_i v_j.
        S + k -> S - k
            You subtract the pair. Add it.
        return out, S, z -> return out, S
            You return two of the three. The next position needs z, too.
        return out, S, z -> return S, z, out
            What is read comes first, then S, then z.
        .squeeze(1) -> + 0
        keepdim=True) -> keepdim=True)[:, None]
            What you read is (B, 1, d_v): remove the 1 by .squeeze(1).
    """),
)

EXERCISES = [HASH_ROUND, REVERSED_STEP, LINEAR_STEP]
