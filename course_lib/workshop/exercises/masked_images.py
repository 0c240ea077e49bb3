"""Lesson 12, a masked autoencoder: which patches are seen, the decoder's row, the loss of what is hidden.

Windows, and an encoder that sees what it should not, are in `masked_images_windows.py`.
"""

from functools import partial

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, narrowed, pulled


def my_seen(noise, n):
    order = noise.argsort(dim=1)  # (B, N): first the patch with the least noise
    return order[:, :n].sort(dim=1).values  # (B, n): as one reads


def drawn(B=5, N=8, n=3):
    """Noise (B, N), and how many patches each image shows; where there are several, their mean is unlike the first."""
    noise = torch.randn(B, N, dtype=torch.float64)
    noise[1:2] = -9 * noise[:1]
    return noise, n


def mask_instead(noise, n):
    return torch.zeros_like(noise).scatter(1, my_seen(noise, n), 1.0) > 0


SEEN = Exercise(
    solution=my_seen,
    cases=(
        Case(
            drawn,
            narrowed(
                (
                    lambda given: (given["noise"][:1], 1),
                    "With one image and n = 1 it is wrong already: return where the least noise is. Draw nothing anew.",
                ),
                (
                    lambda given: (given["noise"][:1], given["n"]),
                    "With n = 1 it is right, with n = 3 it is wrong: the n positions with the least noise, in order.",
                ),
                otherwise="One image is right, several are not: each has noise of its own.",
            ),
        ),
        Case(lambda: drawn(1, 2, 1), OTHER_SIZES),
        Case(lambda: drawn(3, 6, 6), "With n = N all patches are seen: 0, 1, ... N - 1. There yours is wrong."),
        Case(
            lambda: drawn(4, 9, 7), "Where more is visible than masked it is wrong: n is the number of visible patches."
        ),
    ),
    mistakes={
        "most_noise": lambda noise, n: my_seen(-noise, n),
        "unsorted": lambda noise, n: noise.argsort(dim=1)[:, :n],
        "along_the_batch": lambda noise, n: noise.argsort(dim=0)[:, :n].sort(dim=1).values,
        "ranks": lambda noise, n: noise.argsort(dim=1).argsort(dim=1)[:, :n].sort(dim=1).values,
        "same_for_all": lambda noise, n: my_seen(noise[:1], n).expand(len(noise), -1),
        "hidden_ones": lambda noise, n: noise.argsort(dim=1)[:, n:].sort(dim=1).values,
        "noise_itself": lambda noise, n: noise.sort(dim=1).values[:, :n],
        "mask_instead": mask_instead,
    },
)


def my_spread(known, seen, hidden, N):
    spread = hidden.expand(len(known), N, -1)  # (B, N, E): as if all were hidden
    places = seen[:, :, None].expand(-1, -1, known.shape[2])  # (B, n, E): one place for all numbers of a vector
    return spread.scatter(1, places, known)


def encoded(B=3, n=4, N=9, E=5, dtype=torch.float64, order=True, last=True):
    """What is known of n patches (B, n, E), where they stand (B, n), a vector (E,), and N."""
    seen = torch.rand(B, N if last else N - 1).argsort(dim=1)[:, :n]
    return torch.randn(B, n, E).to(dtype), seen.sort(dim=1).values if order else seen, torch.randn(E).to(dtype), N


def by_the_order(known, seen, hidden, N):
    """Seen first, then hidden, and then gathered by that very order, where its inverse is wanted."""
    order = torch.ones(len(seen), N).scatter(1, seen, 0.0).argsort(dim=1, stable=True)  # seen ones first
    row = torch.cat([known, hidden.expand(len(known), N - seen.shape[1], -1)], dim=1)
    return row.gather(1, order[:, :, None].expand(-1, -1, known.shape[2]))


def first_n(known, seen, hidden, N):
    return torch.cat([known, hidden.expand(len(known), N - known.shape[1], -1)], dim=1)


def too_many(known, seen, hidden, N):
    return torch.cat([known, hidden.expand(len(known), N, -1)], dim=1)


SPREAD = Exercise(
    solution=my_spread,
    cases=(
        Case(
            encoded,
            narrowed(
                (
                    lambda given: (given["known"][:1, :1], 0 * given["seen"][:1, :1], given["hidden"], 1),
                    "With one patch, a visible one, it is wrong already: its known vector is the whole row.",
                ),
                (
                    lambda given: (given["known"][:1, :1], 0 * given["seen"][:1, :1], given["hidden"], 3),
                    "Where the first of three patches is visible it is wrong: its vector, then `hidden` twice.",
                ),
                (
                    lambda given: (given["known"][:1], given["seen"][:1], given["hidden"], given["N"]),
                    "With one visible patch it is right, with several it is wrong: known[b, i] goes to seen[b, i].",
                ),
                otherwise="One image is right, several are not: each has visible patches of its own.",
            ),
        ),
        Case(
            lambda: encoded(order=False),
            "Where `seen` is in no order it is wrong: known[b, i] stands at seen[b, i], whatever is at seen[b, i - 1].",
        ),
        Case(lambda: encoded(last=False), "Where the last patch is masked in every image it is wrong: N is given."),
        Case(lambda: encoded(1, 1, 2, 1), OTHER_SIZES),
        Case(lambda: encoded(2, 4, 4, 3), "Where nothing is masked it is wrong: all N vectors are known ones."),
        Case(encoded, NO_GRADIENT, ask=pulled),
        Case(lambda: encoded(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "by_the_order": by_the_order,
        "first_n": first_n,
        "zeros": lambda known, seen, hidden, N: my_spread(known, seen, 0 * hidden, N),
        "same_for_all": lambda known, seen, hidden, N: my_spread(known, seen[:1].expand_as(seen), hidden, N),
        "seen_sorted": lambda known, seen, hidden, N: my_spread(known, seen.sort(dim=1).values, hidden, N),
        "too_many": too_many,
        "detached": lambda known, seen, hidden, N: my_spread(known, seen, hidden.detach(), N),
    },
)


def my_hidden_loss(painted, true, seen):
    error = (painted - true).square().mean(dim=2)  # (B, N): one error for each patch
    hidden = torch.ones_like(error).scatter(1, seen, 0.0)  # (B, N): 1 where a patch is hidden
    return (error * hidden).sum() / hidden.sum()


def paintings(B=3, N=7, F=4, n=2, dtype=torch.float64):
    """Patches painted and true (B, N, F), and which are seen (B, n)."""
    seen = torch.rand(B, N).argsort(dim=1)[:, :n].sort(dim=1).values
    return torch.randn(B, N, F).to(dtype), torch.randn(B, N, F).to(dtype), seen


def to_the_painting(answer, painted, true, seen):
    """For `Case.ask`: the way back to what was painted; what is true is data, and may be cut off."""
    found = answer(painted.requires_grad_(), true, seen)
    if not getattr(found, "requires_grad", False):
        return torch.zeros_like(painted)
    return torch.autograd.grad(found, painted, materialize_grads=True)[0]


about = partial(Case, tolerance=1e-5)  # who adds a millionth to the number of patches, against 0 / 0, is right


def averaged(mean, error=torch.square):
    """A wrong answer to `my_hidden_loss`: mean(error of each patch, 1 where it is hidden)."""

    def loss(painted, true, seen):
        errors = error(painted - true).mean(dim=2)
        return mean(errors, torch.ones_like(errors).scatter(1, seen, 0.0))

    return loss


HIDDEN_LOSS = Exercise(
    solution=my_hidden_loss,
    cases=(
        about(
            paintings,
            narrowed(
                (
                    lambda given: (given["painted"][:1, :2, :1], given["true"][:1, :2, :1], 0 * given["seen"][:1, :1]),
                    "With two patches of one number, the first of them visible, it is wrong already: the square of the "
                    "difference at the second.",
                ),
                (
                    lambda given: (given["painted"][:1, :2], given["true"][:1, :2], 0 * given["seen"][:1, :1]),
                    "With one number a patch it is right, with several it is wrong: the mean of their squares.",
                ),
                (
                    lambda given: (given["painted"][:1], given["true"][:1], given["seen"][:1]),
                    "With one masked patch it is right, with several it is wrong: the mean over those not in `seen`.",
                ),
                otherwise="One image is right, several are not: the mean over the masked patches of all of them.",
            ),
        ),
        about(lambda: paintings(1, 2, 1, 1), OTHER_SIZES),
        about(lambda: paintings(2, 5, 3, 4), "Where one patch of each image is masked it is wrong."),
        about(paintings, NO_GRADIENT, to_the_painting),
        about(lambda: paintings(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "all_patches": averaged(lambda error, hidden: error.mean()),
        "seen_patches": averaged(lambda error, hidden: (error * (1 - hidden)).sum() / (1 - hidden).sum()),
        "over_all": averaged(lambda error, hidden: (error * hidden).mean()),
        "summed": averaged(lambda error, hidden: (error * hidden).sum()),
        "one_per_image": averaged(lambda error, hidden: (error * hidden).sum(dim=1) / hidden.sum(dim=1)),
        "absolute": averaged(lambda error, hidden: (error * hidden).sum() / hidden.sum(), torch.abs),
        "root": lambda painted, true, seen: my_hidden_loss(painted, true, seen).sqrt(),
        "summed_over_pixels": lambda painted, true, seen: my_hidden_loss(painted, true, seen) * true.shape[2],
    },
)

EXERCISES = [SEEN, SPREAD, HIDDEN_LOSS]
