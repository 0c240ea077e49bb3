"""Lesson 17, which positions may attend to which, and a memory in front of a segment.

Buckets, the inverse of a reversible layer and a recurrent state are in `longer_buckets.py`, a memory to fix in
`longer_segments.py`, what is asked of the reader in `longer_questions.py`.
"""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import OTHER_SIZES, SINGLE, Case, fresh, narrowed, pulled, same
from course_lib.exercises.slips import slips


def my_band_mask(T, window, n_global):
    place = torch.arange(T)
    near = (place[:, None] - place).abs() < window  # (T, T): row i attends to column j
    everywhere = place < n_global  # (T,)
    return near | everywhere | everywhere[:, None]


def sizes(T=13, window=3, n_global=5):
    """For `Case.draw`: the length of a sequence, a window, and how many tokens are global."""
    return lambda: (T, window, n_global)


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
    mistakes=slips("""
        near | everywhere | everywhere[:, None] -> near
            You left out the global tokens: their rows and columns are True from end to end.
        near | everywhere | everywhere[:, None] -> everywhere | everywhere[:, None]
            You left out the window: positions attend to their neighbours as well.
        < window -> <= window
            Your window is one position too wide on each side. It counts the position itself: |i - j| < window.
        .abs() < window -> .abs() < window // 2
            You cut the window in half. Here `window` counts one side, with the position itself, and not both together.
        .abs() < window -> .abs() <= window // 2
            Your `window` counts both sides together, as in the paper. Here it counts one side, with the position
            itself.
        .abs() < window -> < window
            You forgot .abs(). Everything that lies ahead counts as near, because i - j is below 0 there.
        (place[:, None] - place).abs() < window -> ((place[:, None] - place).abs() < window).tril()
            Your window only looks backwards. It reaches to both sides: |i - j|.
        (place[:, None] - place).abs() < window -> ((place[:, None] - place).abs() < window).triu()
            Your window only looks ahead. It reaches to both sides: |i - j|.
        return near | everywhere | everywhere[:, None] -> return (near | everywhere | everywhere[:, None]).tril()
            Your mask is causal, which was not asked for. Positions attend ahead as well, and global tokens above all.
        (place[:, None] - place).abs() < window -> place[:, None] // window == place // window
            You cut the sequence into blocks of `window` positions. A window moves along with its position.
        near | everywhere | everywhere[:, None] -> near | everywhere
            In your mask everything attends to the global tokens, but they attend only to what is near: their rows are
            missing.
        near | everywhere | everywhere[:, None] -> near | everywhere[:, None]
            In your mask global tokens attend to everything, but nothing far away attends to them: their columns are
            missing.
        everywhere | everywhere[:, None] -> (everywhere & everywhere[:, None])
            In your mask global tokens attend only to one another. It is enough that one of the two is global: | instead
            of &.
        near | everywhere | everywhere[:, None] -> near & (everywhere | everywhere[:, None])
            You ask for both, near and global. One of them is enough: | instead of &.
        place < n_global -> place <= n_global
            You have one global token too many: they are positions 0 to n_global - 1.
        place < n_global -> place == n_global
            You made one token global, number n_global. The first n_global of them should be global.
        place < n_global -> place >= T - n_global
            You made the last tokens global. It should be the first ones.
        return near | everywhere | everywhere[:, None] -> return ~(near | everywhere | everywhere[:, None])
            Your mask is inverted. True means that a position may attend.
        return near | everywhere | everywhere[:, None] -> return (near | everywhere | everywhere[:, None]).float()
            Your mask holds numbers. It should hold booleans, as a comparison gives them.
    """),
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
    mistakes=slips("""
        memory.detach() -> memory
            A gradient flows into the memory: nothing in your answer is SG. It would run on through the segment before,
            and the one before that. Use memory.detach().
        [memory.detach(), x], dim=1) -> [memory, x], dim=1).detach()
            You detach the segment, too, but it is being trained on. Only the memory is a constant.
        [memory.detach(), x] -> [memory, x.detach()]
            You detach the segment and let the gradient flow into the memory. It should be the other way round.
        seen @ w_k, seen @ w_v -> torch.cat([(memory @ w_k).detach(), x @ w_k], 1), seen @ w_v
            You detach the keys. Then w_k learns nothing from remembered positions: detach the states, before w_k.
        seen @ w_k, seen @ w_v -> seen @ w_k, torch.cat([(memory @ w_v).detach(), x @ w_v], 1)
            You detach the values. Then w_v learns nothing from remembered positions: detach the states, before w_v.
        seen @ w_k, seen @ w_v -> [torch.cat([(memory @ w).detach(), x @ w], 1) for w in (w_k, w_v)]
            You detach keys and values, and not the states. Then w_k and w_v learn nothing from remembered positions.
        seen @ w_k, seen @ w_v -> [(torch.cat([memory, x], 1) @ w).detach() for w in (w_k, w_v)]
            Your whole answer is detached, so nothing is learned at all. Only `memory` is a constant.
        [memory.detach(), x] -> [x, memory.detach()]
            You put the memory behind the segment. It was read before the segment, so it stands in front.
        seen @ w_k, seen @ w_v -> [torch.cat([memory.detach(), x @ w], 1) for w in (w_k, w_v)]
            You put the remembered states among the keys as they are. They go through w_k and w_v, like x.
        seen @ w_k, seen @ w_v -> seen @ w_v, seen @ w_k
            You swapped the two: the keys come first, made by w_k.
        seen @ w_k, seen @ w_v -> seen @ w_k, seen @ w_k
            Your values are the keys once more. Values are made by w_v.
        seen @ w_k, seen @ w_v -> seen @ w_k.T, seen @ w_v.T
            You transposed the matrices. States are row vectors: states @ w.
        seen @ w_k, seen @ w_v -> seen @ w_k, x @ w_v
            Your values cover the segment only. A query that attends to a remembered key needs its value.
        seen @ w_k, seen @ w_v -> x @ w_k, x @ w_v
            You left out the memory, which stands in front of the segment. There are M + S keys and values, and only S
            queries.
        seen @ w_k, seen @ w_v -> memory.detach() @ w_k, memory.detach() @ w_v
            Those are keys and values of the memory alone. The segment follows behind it.
        torch.cat([memory.detach(), x], dim=1) -> x + memory.detach().mean(dim=1, keepdim=True)
            You add the memory to the segment. It stands in front, as M additional positions to attend to.
        seen @ w_k, seen @ w_v -> torch.cat([seen @ w_k, seen @ w_v], 2)
            You put keys and values into one tensor. Return two.
    """),
)


EXERCISES = [BAND_MASK, RECALLED]
