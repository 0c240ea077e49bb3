"""Lesson 12, a masked autoencoder: which patches are seen, the decoder's row, the loss of what is hidden.

Windows, and an encoder that sees what it should not, are in `masked_images_windows.py`; what is asked of the reader in
`masked_images_questions.py`.
"""

from functools import partial

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips


def my_seen(noise, n):
    order = noise.argsort(dim=1)  # (B, N): first the patch with the least noise
    return order[:, :n].sort(dim=1).values  # (B, n): as one reads


def drawn(B=5, N=8, n=3):
    """Noise (B, N), and how many patches each image shows; where there are several, their mean is unlike the first."""
    noise = torch.randn(B, N, dtype=torch.float64)
    noise[1:2] = -9 * noise[:1]
    return noise, n


SEEN = Exercise(
    solution=my_seen,
    cases=(
        Case(
            drawn,
            narrowed(
                (
                    lambda given: (given["noise"][:1], 1),
                    "With one image and n = 1 it is wrong already: the place of the least noise. Draw nothing anew.",
                ),
                (
                    lambda given: (given["noise"][:1], given["n"]),
                    "With n = 1 it is right, with n = 3 it is wrong: the n places with the least noise, in order.",
                ),
                otherwise="One image is right, several are not: each has noise of its own.",
            ),
        ),
        Case(lambda: drawn(1, 2, 1), OTHER_SIZES),
        Case(lambda: drawn(3, 6, 6), "With n = N all patches are seen: 0, 1, ... N - 1. There yours is wrong."),
        Case(lambda: drawn(4, 9, 7), "Where more is seen than hidden it is wrong: n is the number of those seen."),
    ),
    mistakes=slips("""
        noise.argsort(dim=1) -> noise.argsort(dim=1, descending=True)
            You take the n patches with the most noise. Asked are those with the least.
        order[:, :n].sort(dim=1).values -> order[:, :n]
            Your patches stand in the order of their noise. Sort the places themselves as well: ascending.
        noise.argsort(dim=1) -> noise.argsort(dim=0)
            You sort along the batch, image against image. Sort the patches of each image: dim=1.
        noise.argsort(dim=1) -> noise.argsort(dim=1).argsort(dim=1)
            Those are ranks: which rank a patch has. Asked is which patches have the first n ranks: argsort once.
        noise.argsort(dim=1) -> noise[:1].argsort(dim=1).expand(len(noise), -1)
            All your images show the same patches, those of the first. Each has noise of its own.
        noise.argsort(dim=1) -> noise.mean(dim=0, keepdim=True).argsort(dim=1).expand(len(noise), -1)
            All your images show the same patches: you took the mean of the noise. Each has noise of its own.
        noise.argsort(dim=1) -> noise.flatten().argsort().view_as(noise) % noise.shape[1]
            You sort the noise of all images in one row. Each image shows n patches, by its own noise.
        order[:, :n] -> order[:, n:]
            Those are the hidden ones, N - n of them. n says how many are seen.
        order[:, :n] -> order[:, : noise.shape[1] - n]
            You take N - n patches with the least noise. n says how many are seen, not how many are hidden.
        order[:, :n] -> order[:n]
            You keep n images, each with all its patches. [:, :n] keeps n patches of each.
        return order[:, :n].sort(dim=1).values -> return noise.sort(dim=1).values[:, :n]
            That is the noise itself. Asked is where it stands: argsort gives places.
        return order[:, :n].sort(dim=1).values -> return torch.zeros_like(noise).scatter(1, order[:, :n], 1.0) > 0
            That is a mask of truth values, (B, N). Asked are the places themselves, (B, n).
        .sort(dim=1).values -> .sort(dim=1).indices
            You return how the places were sorted. Return the sorted places: .values.
        .sort(dim=1).values -> .sort(dim=1, descending=True).values
            Your places descend: the last patch comes first.
        .sort(dim=1).values -> .sort(dim=0).values
            You sort along the batch at the end, so images exchange patches: dim=1.
        order[:, :n].sort(dim=1).values -> order[:, :n].sort(dim=1).values + 1
            You count patches from 1. The first is patch 0.
    """),
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


def into_the_first(known, seen, hidden, N):
    """All images as one long row of places, without a thought that the second image begins at N."""
    row = hidden.repeat(len(known) * N, 1)  # (B N, E)
    for place, vector in zip(seen.flatten(), known.flatten(0, 1), strict=True):
        row = row.index_copy(0, place[None], vector[None])
    return row.view(len(known), N, -1)


SPREAD = Exercise(
    solution=my_spread,
    cases=(
        Case(
            encoded,
            narrowed(
                (
                    lambda given: (given["known"][:1, :1], 0 * given["seen"][:1, :1], given["hidden"], 1),
                    "With one patch, and that one seen, it is wrong already: its known vector is the whole row.",
                ),
                (
                    lambda given: (given["known"][:1, :1], 0 * given["seen"][:1, :1], given["hidden"], 3),
                    "Where the first of three patches is seen it is wrong: its vector, then `hidden` twice.",
                ),
                (
                    lambda given: (given["known"][:1], given["seen"][:1], given["hidden"], given["N"]),
                    "With one patch seen it is right, with several it is wrong: known[b, i] stands at seen[b, i].",
                ),
                otherwise="One image is right, several are not: each has patches of its own that are seen.",
            ),
        ),
        Case(
            lambda: encoded(order=False),
            "Where `seen` is in no order it is wrong: known[b, i] stands at seen[b, i], whatever is at seen[b, i - 1].",
        ),
        Case(lambda: encoded(last=False), "Where the last patch is hidden in every image it is wrong: N is given."),
        Case(lambda: encoded(1, 1, 2, 1), OTHER_SIZES),
        Case(lambda: encoded(2, 4, 4, 3), "Where nothing is hidden it is wrong: all N vectors are known ones."),
        Case(encoded, NO_GRADIENT, ask=pulled),
        Case(lambda: encoded(dtype=torch.float32), SINGLE),
    ),
    mistakes=(
        (
            by_the_order,
            "You gather by the order in which the patches were taken. The way back is its inverse: argsort of the "
            "order. Or write with scatter, which goes to a place, where gather comes from one.",
        ),
        (
            into_the_first,
            "You write all images into the places of the first: in one row of B N places, image b begins at b N.",
        ),
        *slips("""
        spread.scatter(1, places, known) -> torch.cat([known, spread[:, known.shape[1] :]], dim=1)
            Your known vectors stand at the first n places. Each belongs to the place that `seen` says.
        hidden.expand(len(known), N, -1) -> known.new_zeros(len(known), N, len(hidden))
            Your hidden patches are zeros. `hidden` stands there, a vector that is learned.
        hidden.expand(len(known), N, -1) -> known.mean(dim=1, keepdim=True).expand(-1, N, -1)
            You put the mean of the known vectors where patches are hidden. `hidden` stands there.
        spread.scatter(1, places, known) -> spread.scatter_add(1, places, known)
            You add `hidden` to what is known. At a seen place stands the known vector alone.
        spread.scatter(1, places, known) -> spread.gather(1, places)
            gather reads from the places, so yours is (B, n, E). scatter writes to them.
        spread.scatter(1, places, known) -> torch.cat([known, spread], dim=1)
            You have n + N vectors. A known one takes the place of a hidden one.
        spread.scatter(1, places, known) -> torch.cat([spread[:, known.shape[1] :], known], dim=1)
            Your known vectors stand at the last n places. Each belongs to the place that `seen` says.
        seen[:, :, None].expand(-1, -1, known.shape[2]) -> seen[:1, :, None].expand_as(known)
            You use the places of the first image for all. Each image shows other patches.
        seen[:, :, None].expand(-1, -1, known.shape[2]) -> seen[:, :, None]
            You write the first number of each vector alone: `places` has to be as wide as `known`.
        seen[:, :, None] -> seen.sort(dim=1).values[:, :, None]
            You sort `seen` and leave `known` as it is: then vectors stand at each other's places.
        hidden.expand(len(known), N, -1) -> hidden.expand(len(known), int(seen.max()) + 1, -1)
            You end with the last patch that is seen. There are N, and the last may be hidden.
        return spread.scatter(1, places, known) -> return spread.scatter(1, places, known).mT
            Yours is (B, E, N). A patch is a row: (B, N, E).
        hidden.expand( -> hidden.detach().expand(
            No gradient reaches `hidden`: it is learned, so leave detach out.
        hidden.expand(len(known), N, -1) -> torch.ones_like(hidden).expand(len(known), N, -1)
            Your hidden patches are ones. `hidden` stands there, a vector that is learned.
        """),
    ),
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


HIDDEN_LOSS = Exercise(
    solution=my_hidden_loss,
    cases=(
        about(
            paintings,
            narrowed(
                (
                    lambda given: (given["painted"][:1, :2, :1], given["true"][:1, :2, :1], 0 * given["seen"][:1, :1]),
                    "With two patches of one number, the first of them seen, it is wrong already: the square of the "
                    "difference at the second.",
                ),
                (
                    lambda given: (given["painted"][:1, :2], given["true"][:1, :2], 0 * given["seen"][:1, :1]),
                    "With one number a patch it is right, with several it is wrong: the mean of their squares.",
                ),
                (
                    lambda given: (given["painted"][:1], given["true"][:1], given["seen"][:1]),
                    "With one hidden patch it is right, with several it is wrong: the mean over those not in `seen`.",
                ),
                otherwise="One image is right, several are not: the mean over the hidden patches of all of them.",
            ),
        ),
        about(lambda: paintings(1, 2, 1, 1), OTHER_SIZES),
        about(lambda: paintings(2, 5, 3, 4), "Where one patch of each image is hidden it is wrong."),
        about(paintings, NO_GRADIENT, to_the_painting),
        about(lambda: paintings(dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        torch.ones_like(error).scatter(1, seen, 0.0) -> torch.ones_like(error)
            You count all patches. The seen ones need not be guessed: the hidden ones alone count.
        torch.ones_like(error).scatter(1, seen, 0.0) -> torch.zeros_like(error).scatter(1, seen, 1.0)
            You count the patches that are seen. The others count.
        / hidden.sum() -> / hidden.numel()
            You divide by all patches, B N. Divide by how many are hidden.
        / hidden.sum() -> / seen.numel()
            You divide by how many are seen. Divide by how many are hidden.
        / hidden.sum() -> / len(hidden)
            You divide by the number of images. Divide by how many patches are hidden in all of them.
        / hidden.sum() -> / 1
            You add up over the patches. The mean is asked for.
        .mean(dim=2) -> .sum(dim=2)
            You add up the F numbers of a patch. Take their mean.
        .square() -> .abs()
            Yours is the mean of the absolute differences. Square them.
        .square().mean(dim=2) -> .mean(dim=2).square()
            You take the mean of a patch before you square, so too bright and too dark cancel. Square first.
        .square().mean(dim=2) -> .mean(dim=2)
            You forgot to square: differences up and down cancel.
        return (error * hidden).sum() / hidden.sum() -> return ((error * hidden).sum() / hidden.sum()).sqrt()
            You take the root at the end. The mean square error has none.
        .mean(dim=2) -> .mean(dim=2).sqrt()
            You take the root for each patch. The mean square error has none.
        return (error * hidden).sum() / hidden.sum() -> return (error * hidden).sum(dim=1) / hidden.sum(dim=1)
            You return a number for each image. One number is asked for, the mean over all.
        return (error * hidden).sum() / hidden.sum() -> return error[:, seen.shape[1] :].mean()
            You leave out the first n patches. The n that are seen may stand anywhere: `seen` says where.
        .scatter(1, seen, 0.0) -> .scatter(1, seen[:1].expand_as(seen), 0.0)
            You use the places of the first image for all. Each image shows other patches.
        painted - true -> painted - (true - true.mean(dim=2, keepdim=True)) / true.std(dim=2, keepdim=True)
            You bring each true patch to mean 0 and spread 1 first. That is another target; here it is the patch itself.
        return (error * hidden).sum() / hidden.sum() -> return 0.5 * (error * hidden).sum() / hidden.sum()
            You take half of it. The mean of the squares is asked for.
    """),
)

EXERCISES = [SEEN, SPREAD, HIDDEN_LOSS]
