"""Lesson 17, who may look at whom, and a memory in front of a segment.

Buckets, the way back through reversible layers and a state are in `longer_buckets.py`, a memory to mend in
`longer_segments.py`, what is asked of the reader in `longer_questions.py`.
"""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import OTHER_SIZES, SINGLE, Case, fresh, narrowed, pulled, same
from course_lib.exercises.slips import slips


def my_band_mask(T, window, n_global):
    place = torch.arange(T)
    near = (place[:, None] - place).abs() < window  # (T, T): row i looks, column j is looked at
    everywhere = place < n_global  # (T,)
    return near | everywhere | everywhere[:, None]


def sizes(T=13, window=3, n_global=5):
    """For `Case.draw`: the length of a row, a window, and how many places are global."""
    return lambda: (T, window, n_global)


BAND_MASK = Exercise(
    title="A window and global places",
    solution=my_band_mask,
    returns="truth values (T, T): True where row i may look at column j",
    cases=(
        Case(
            sizes(),
            narrowed(
                (
                    lambda given: (given["T"], 1, 0),
                    "With a window of 1 and no global place it is wrong already: each place looks at itself alone.",
                ),
                (
                    lambda given: (given["T"], given["window"], 0),
                    "Without global places it is wrong: True where i and j are less than `window` apart.",
                ),
                (
                    lambda given: (given["T"], 1, given["n_global"]),
                    "The window is right. Global places are wrong: the rows and the columns of the first n_global.",
                ),
                otherwise="The window is right, and so are the global places. Together they are wrong: one or the "
                "other is enough.",
            ),
        ),
        Case(sizes(1, 1, 0), "With one place it is wrong: it looks at itself."),
        Case(sizes(7, 3, 0), "Without global places it is wrong: True where i and j are less than `window` apart."),
        Case(sizes(6, 9, 1), "Where the window is longer than the row it is wrong: all see all."),
        Case(sizes(4, 1, 6), "With more global places than places it is wrong: all see all."),
        Case(sizes(12, 2, 1), OTHER_SIZES),
    ),
    hints=(
        "How far apart are places i and j? These are T times T numbers.",
        "place = torch.arange(T); place[:, None] - place is i - j, (T, T). Which of these are near?",
        "place < n_global says which places are global, (T,). Beside (T, T) it counts as columns: who is looked at.",
        "With [:, None] behind it, it counts as rows: who looks. Join the three by |, which means or.",
    ),
    mistakes=slips("""
        near | everywhere | everywhere[:, None] -> near
            You left out the global places: their rows and columns are True from end to end.
        near | everywhere | everywhere[:, None] -> everywhere | everywhere[:, None]
            You left out the window: near places look at each other as well.
        < window -> <= window
            Your window is one place too wide on each side. It counts the place itself: |i - j| < window.
        .abs() < window -> .abs() < window // 2
            You cut the window in half. Here `window` counts one side, with the place itself, and not both together.
        .abs() < window -> .abs() <= window // 2
            Your `window` counts both sides together, as in the paper. Here it counts one, with the place itself.
        .abs() < window -> < window
            You forgot .abs(): all that lies ahead counts as near, for i - j is below 0 there.
        (place[:, None] - place).abs() < window -> ((place[:, None] - place).abs() < window).tril()
            Your window looks backwards alone. It reaches to both sides: |i - j|.
        (place[:, None] - place).abs() < window -> ((place[:, None] - place).abs() < window).triu()
            Your window looks ahead alone. It reaches to both sides: |i - j|.
        return near | everywhere | everywhere[:, None] -> return (near | everywhere | everywhere[:, None]).tril()
            Yours is causal. Nothing was said of that here: places look ahead as well, and global ones above all.
        (place[:, None] - place).abs() < window -> place[:, None] // window == place // window
            You cut the row into blocks of `window` places. A window moves along with its place.
        near | everywhere | everywhere[:, None] -> near | everywhere
            In yours everybody sees the global places, and they see only what is near: their rows are missing.
        near | everywhere | everywhere[:, None] -> near | everywhere[:, None]
            In yours the global places see everybody, and nobody far away sees them: their columns are missing.
        everywhere | everywhere[:, None] -> (everywhere & everywhere[:, None])
            In yours global places see one another alone. It is enough that one of the two is global: | for &.
        near | everywhere | everywhere[:, None] -> near & (everywhere | everywhere[:, None])
            You ask for both, near and global. One of them is enough: | for &.
        place < n_global -> place <= n_global
            You have one global place too many: they are 0 to n_global - 1.
        place < n_global -> place == n_global
            You made one place global, number n_global. It is the first n_global of them.
        place < n_global -> place >= T - n_global
            You made the last places global. It is the first ones.
        return near | everywhere | everywhere[:, None] -> return ~(near | everywhere | everywhere[:, None])
            Yours is inverted. True means that a place may look.
        return near | everywhere | everywhere[:, None] -> return (near | everywhere | everywhere[:, None]).float()
            Yours holds numbers. A mask is made of truth values, as a comparison gives them.
    """),
)


def my_recalled(memory, x, w_k, w_v):
    seen = torch.cat([memory.detach(), x], dim=1)  # (B, M + S, D): what was remembered stands in front, a constant
    return seen @ w_k, seen @ w_v


def remembered(B=3, M=4, S=6, D=5, dtype=torch.float64):
    """States of a memory (B, M, D) and of a segment (B, S, D), and two matrices (D, D)."""
    return tuple(torch.randn(*shape).to(dtype) for shape in ((B, M, D), (B, S, D), (D, D), (D, D)))


def which_of_keys_and_values(answer, solution, arguments):
    """Which of the two is wrong, and in which part."""
    (keys, values), (right, _) = (one(*fresh(arguments)) for one in (answer, solution))
    if same(keys, right):
        return "The keys are right, the values are not: the same states, times w_v."
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
            said = "There is to be none." if name == "memory" else f"`{name}` learns: leave out detach there."
            return f"The numbers are right, the gradient by `{name}` is not. {said}"
    return ""


RECALLED = Exercise(
    title="A memory in front",
    solution=my_recalled,
    returns="keys and values, both (B, M + S, D)",
    cases=(
        Case(remembered, which_of_keys_and_values),
        Case(remembered, which_way_back, pulled),
        Case(lambda: remembered(1, 1, 1, 2), OTHER_SIZES),
        Case(lambda: remembered(2, 7, 3, 4), "With a memory longer than the segment it is wrong: all of it counts."),
        Case(lambda: remembered(2, 0, 3, 4), "With an empty memory, before the first segment, it is wrong."),
        Case(lambda: remembered(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "The formula: k = [SG(m); x] W_k. What do the brackets do, and what is SG?",
        "torch.cat([..., ...], dim=1) puts states one behind the other, along the places.",
        "SG(m) is memory.detach(): the same numbers, and no gradient goes into them.",
        "Detach the states, not the keys: w_k and w_v are to learn from remembered places as well.",
    ),
    mistakes=slips("""
        memory.detach() -> memory
            A gradient goes into the memory: nothing in yours is SG. It would run on through the segment before, and
            the one before that. It is memory.detach().
        [memory.detach(), x], dim=1) -> [memory, x], dim=1).detach()
            You detach the segment too. It is being learned from: only the memory is a constant.
        [memory.detach(), x] -> [memory, x.detach()]
            You detach the segment, and let the gradient into the memory. It is the other way round.
        seen @ w_k, seen @ w_v -> torch.cat([(memory @ w_k).detach(), x @ w_k], 1), seen @ w_v
            You detach the keys. Then w_k learns nothing from remembered places: detach the states, before w_k.
        seen @ w_k, seen @ w_v -> seen @ w_k, torch.cat([(memory @ w_v).detach(), x @ w_v], 1)
            You detach the values. Then w_v learns nothing from remembered places: detach the states, before w_v.
        seen @ w_k, seen @ w_v -> [torch.cat([(memory @ w).detach(), x @ w], 1) for w in (w_k, w_v)]
            You detach keys and values, and not the states. Then w_k and w_v learn nothing from remembered places.
        seen @ w_k, seen @ w_v -> [(torch.cat([memory, x], 1) @ w).detach() for w in (w_k, w_v)]
            All of yours is detached: nothing is learned at all. Only `memory` is a constant.
        [memory.detach(), x] -> [x, memory.detach()]
            You put the memory behind the segment. It was read before, and stands in front.
        seen @ w_k, seen @ w_v -> [torch.cat([memory.detach(), x @ w], 1) for w in (w_k, w_v)]
            You put the remembered states among the keys as they are. They go through w_k, and through w_v, like x.
        seen @ w_k, seen @ w_v -> seen @ w_v, seen @ w_k
            You exchanged the two: keys come first, made by w_k.
        seen @ w_k, seen @ w_v -> seen @ w_k, seen @ w_k
            Your values are the keys once more. They are made by w_v.
        seen @ w_k, seen @ w_v -> seen @ w_k.T, seen @ w_v.T
            You turned the matrices over. Row vectors: states @ w.
        seen @ w_k, seen @ w_v -> seen @ w_k, x @ w_v
            Your values are of the segment alone. Whoever looks at a remembered key wants its value.
        seen @ w_k, seen @ w_v -> x @ w_k, x @ w_v
            You left out the memory: it stands in front of the segment. Keys and values are M + S, only queries are S.
        seen @ w_k, seen @ w_v -> memory.detach() @ w_k, memory.detach() @ w_v
            Those are keys and values of the memory alone. The segment stands behind it.
        torch.cat([memory.detach(), x], dim=1) -> x + memory.detach().mean(dim=1, keepdim=True)
            You add the memory to the segment. It stands in front: M places more, to be looked at.
        seen @ w_k, seen @ w_v -> torch.cat([seen @ w_k, seen @ w_v], 2)
            You put keys and values into one tensor. Two are asked for.
    """),
)


EXERCISES = [BAND_MASK, RECALLED]
