"""Lesson 17, which positions may attend to which, and a memory in front of a segment.

Buckets, the inverse of a reversible layer and a recurrent state are in `longer_buckets.py`, a memory to fix in
`longer_segments.py`.
"""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import OTHER_SIZES, SINGLE, Case, fresh, narrowed, pulled, same


def my_band_mask(T, window, n_global):
    place = torch.arange(T)
    near = (place[:, None] - place).abs() < window  # (T, T): row i attends to column j
    everywhere = place < n_global  # (T,)
    return near | everywhere | everywhere[:, None]


def sizes(T=13, window=3, n_global=5):
    """For `Case.draw`: the length of a sequence, a window, and how many tokens are global."""
    return lambda: (T, window, n_global)


def banded(near=lambda apart, window: apart.abs() < window, world=lambda everywhere: everywhere | everywhere[:, None]):
    """A wrong answer to `my_band_mask`: another window near(i - j, window), or other pairs with a global token."""

    def mask(T, window, n_global):
        place = torch.arange(T)
        return near(place[:, None] - place, window) | world(place < n_global)

    return mask


BAND_MASK = Exercise(
    solution=my_band_mask,
    cases=(
        Case(
            sizes(),
            narrowed(
                (
                    lambda given: (given["T"], 1, 0),
                    "With a window of 1 and no global token it is wrong already: each position attends only to itself.",
                ),
                (
                    lambda given: (given["T"], given["window"], 0),
                    "Without global tokens it is wrong: True where i and j are less than `window` apart.",
                ),
                (
                    lambda given: (given["T"], 1, given["n_global"]),
                    "The window is right. Global tokens are wrong: True in the rows and columns of the first n_global.",
                ),
                otherwise="The window is right, and so are the global tokens. Together they are wrong: one or the "
                "other is enough.",
            ),
        ),
        Case(sizes(1, 1, 0), "With one position it is wrong: it attends to itself."),
        Case(sizes(7, 3, 0), "Without global tokens it is wrong: True where i and j are less than `window` apart."),
        Case(sizes(6, 9, 1), "Where the window is longer than the sequence it is wrong: all attend to all."),
        Case(sizes(4, 1, 6), "With more global tokens than positions it is wrong: every position attends to all."),
        Case(sizes(12, 2, 1), OTHER_SIZES),
    ),
    mistakes={
        "without_global": lambda T, window, n_global: my_band_mask(T, window, 0),
        "without_window": lambda T, window, n_global: my_band_mask(T, 0, n_global),
        "one_too_wide": lambda T, window, n_global: my_band_mask(T, window + 1, n_global),
        "half_window": lambda T, window, n_global: my_band_mask(T, window // 2, n_global),
        "backwards_only": banded(near=lambda apart, window: (apart >= 0) & (apart < window)),
        "global_rows_missing": banded(world=lambda everywhere: everywhere),
        "global_columns_missing": banded(world=lambda everywhere: everywhere[:, None]),
        "inverted": lambda T, window, n_global: ~my_band_mask(T, window, n_global),
    },
)


def my_recalled(memory, x, w_k, w_v):
    seen = torch.cat([memory.detach(), x], dim=1)  # (B, M + S, D): the memory stands in front, as a constant
    return seen @ w_k, seen @ w_v


def remembered(B=3, M=4, S=6, D=5, dtype=torch.float64):
    """States of a memory (B, M, D) and of a segment (B, S, D), and two matrices (D, D)."""
    return tuple(torch.randn(*shape).to(dtype) for shape in ((B, M, D), (B, S, D), (D, D), (D, D)))


def which_of_keys_and_values(answer, solution, arguments):
    """Which of the two is wrong, and in which part."""
    (keys, values), (right, _) = (one(*fresh(arguments)) for one in (answer, solution))
    if same(keys, right):
        return "The keys are right, the values are not: they are the same states, times w_v."
    M = arguments[0].shape[1]
    part = "the segment" if same(keys[:, :M], right[:, :M]) else "the memory"
    return f"The keys of {part} are wrong: its states, times w_k. The memory stands in front."


def which_way_back(answer, solution, arguments):
    """By which argument the gradient is wrong."""
    for name, mine, right in zip(
        ("memory", "x", "w_k", "w_v"),
        pulled(answer, *fresh(arguments)),
        pulled(solution, *fresh(arguments)),
        strict=True,
    ):
        if not same(mine, right):
            said = "There should be none." if name == "memory" else f"`{name}` is trained: leave out detach there."
            return f"The values are right, the gradient by `{name}` is not. {said}"
    return ""


def recalling(states):
    """A wrong answer to `my_recalled`: keys and values are made of states(memory, x)."""
    return lambda memory, x, w_k, w_v: (states(memory, x) @ w_k, states(memory, x) @ w_v)


def each_by(part):
    """A wrong answer to `my_recalled`: part(memory, x, w) are the keys, and with the other matrix the values."""
    return lambda memory, x, w_k, w_v: (part(memory, x, w_k), part(memory, x, w_v))


RECALLED = Exercise(
    solution=my_recalled,
    cases=(
        Case(remembered, which_of_keys_and_values),
        Case(remembered, which_way_back, pulled),
        Case(lambda: remembered(1, 1, 1, 2), OTHER_SIZES),
        Case(lambda: remembered(2, 7, 3, 4), "With a memory longer than the segment it is wrong: use all of it."),
        Case(lambda: remembered(2, 0, 3, 4), "With an empty memory, before the first segment, it is wrong."),
        Case(lambda: remembered(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "not_detached": recalling(lambda memory, x: torch.cat([memory, x], dim=1)),
        "segment_detached": recalling(lambda memory, x: torch.cat([memory, x.detach()], dim=1)),
        "projections_detached": each_by(lambda memory, x, w: torch.cat([(memory @ w).detach(), x @ w], dim=1)),
        "memory_behind": recalling(lambda memory, x: torch.cat([x, memory.detach()], dim=1)),
        "not_projected": each_by(lambda memory, x, w: torch.cat([memory.detach(), x @ w], dim=1)),
        "without_memory": recalling(lambda memory, x: x),
        "values_first": lambda *given: my_recalled(*given)[::-1],
        "transposed": lambda memory, x, w_k, w_v: my_recalled(memory, x, w_k.T, w_v.T),
    },
)


EXERCISES = [BAND_MASK, RECALLED]
