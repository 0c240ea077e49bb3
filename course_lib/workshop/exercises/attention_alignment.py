"""Lesson 04: the additive score, a masked softmax, the alignment error rate, reading an alignment.

The attention that has to be fixed is in `attention_alignment_look.py`.
"""

import operator

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, Case, on, pulled, tensors


def my_additive_scores(s, h, w, u, v):
    inside = torch.tanh((s @ w)[:, None] + h @ u)  # (B, S, d_k): the same s for every source position
    return inside @ v


SHAPES = "B D, B S K, D N, K N, N"
EVEN = dict.fromkeys("BDSKN", 5)  # here a transposed matrix fits, and a misplaced addition raises no error

ADDITIVE = Exercise(
    solution=my_additive_scores,
    cases=(
        Case(tensors(SHAPES, sizes=EVEN), "The score should be v · tanh(s w + h u). Compare the terms one by one."),
        *on(SHAPES, "Your answer is right when all sizes are equal, and wrong when they differ."),
    ),
    mistakes={
        "without_tanh": lambda s, h, w, u, v: ((s @ w)[:, None] + h @ u) @ v,
        "tanh_of_score": lambda s, h, w, u, v: torch.tanh(((s @ w)[:, None] + h @ u) @ v),
        "tanh_one_by_one": lambda s, h, w, u, v: (torch.tanh(s @ w)[:, None] + torch.tanh(h @ u)) @ v,
        "state_not_spread": lambda s, h, w, u, v: torch.tanh(s @ w + h @ u) @ v,
        "weights_not_scores": lambda s, h, w, u, v: torch.softmax(my_additive_scores(s, h, w, u, v), -1),
        "transposed": lambda s, h, w, u, v: my_additive_scores(s, h, w.T, u, v),
        "without_state": lambda s, h, w, u, v: torch.tanh(h @ u) @ v,
    },
)


def my_masked_softmax(scores, mask):
    lowest = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1)
    return weights.masked_fill(~mask, 0)


def masked(shift=0.0, hidden=(0, 2, 4), dtype=torch.float64):
    """Scores (3, 5) and a mask; the last hidden[b] positions of row b must not be attended to."""
    mask = torch.stack([torch.arange(5) < 5 - number for number in hidden])
    return torch.randn(3, 5, dtype=dtype) + shift, mask


def far_apart(dtype=torch.float64):
    """Rows that are thousands apart, and masked scores thousands above all others of their row."""
    scores = torch.tensor([[-1e6, -1e6 - 1, 9, 9], [2e3, 2001, 9, 9], [3e3, -2e3, -2002, 9], [0, 1, 3e3, 3e3]])
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 0, 0]]).bool()
    return scores.to(dtype), mask


FAR = (
    "With rows that are far apart, or masked scores far above the others, it is wrong: subtract from each row its own "
    "largest score, ignoring the masked ones."
)
LOW = "With scores around -2000 it is wrong: exp(-2000) is 0 in the computer. Subtract each row's largest score first."
MASKED = Exercise(
    solution=my_masked_softmax,
    cases=(
        Case(masked, "Masked positions should get 0, and the others the softmax of their own scores."),
        Case(lambda: masked(shift=-2000.0), LOW),
        Case(lambda: masked(shift=2000.0), LOW.replace("-2000", "+2000").replace("0 in", "infinite in")),
        Case(
            lambda: masked(dtype=torch.float32), "In single precision it is wrong: use the lowest number of its dtype."
        ),
        Case(far_apart, FAR),
        Case(lambda: far_apart(torch.float32), FAR),
        Case(lambda: masked(hidden=(0, 5, 2)), "A row in which nothing may be attended to should give zeros, not NaN."),
        Case(
            lambda: tuple(a.expand(2, 3, 5) for a in masked()), "With more dimensions, (2, 3, 5), the answer is wrong."
        ),
        Case(lambda: (torch.randn(1, 1, 4).double(), torch.ones(1, 1, 4, dtype=torch.bool)), OTHER_SIZES),
        Case(masked, NO_GRADIENT, ask=pulled),
    ),
    mistakes={
        "mask_unused": lambda scores, mask: torch.softmax(scores, -1),
        "mask_inverted": lambda scores, mask: my_masked_softmax(scores, ~mask),
        "masked_afterwards": lambda scores, mask: torch.softmax(scores, -1).masked_fill(~mask, 0),
        "multiplied": lambda scores, mask: torch.softmax(scores * mask, -1),
        "not_low_enough": lambda scores, mask: torch.softmax(scores.masked_fill(~mask, -1e3), -1) * mask,
        "minus_infinity": lambda scores, mask: torch.softmax(scores.masked_fill(~mask, -torch.inf), -1),
        "uniform_row": lambda scores, mask: torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), -1),
    },
)


def my_error_rate(links, gold):
    both = len(links & gold)
    return 1 - 2 * both / (len(links) + len(gold)) if links or gold else 0.0


LINKS = {(0, 0), (1, 2), (3, 3), (2, 4), (6, 1)}  # 3 of 5 are correct, 3 of 6 are found
GOLD = {(0, 0), (1, 2), (2, 1), (3, 3), (4, 3), (5, 4)}  # with 5 targets and 4 sources of the links

RATE = Exercise(
    solution=my_error_rate,
    cases=(
        Case(lambda: (LINKS, GOLD), "With 5 links, 6 gold links and 3 in both, the rate is 1 - 2 · 3 / (5 + 6)."),
        Case(lambda: (GOLD, GOLD), "If the links are the gold links, the rate is 0."),
        Case(lambda: ({(0, 1)}, {(1, 0)}), "If no link is correct, the rate is 1."),
        Case(lambda: (set(), GOLD), "If there is no link at all and gold has some, the rate is 1."),
        Case(lambda: (LINKS, set()), "If there are links but no gold links, the rate is 1."),
        Case(lambda: (set(), set()), "If there are no links and no gold links, nothing is wrong, so the rate is 0."),
    ),
    mistakes={
        "f_score": lambda links, gold: 1 - my_error_rate(links, gold),
        "precision": lambda links, gold: 1 - len(links & gold) / len(links),
        "recall": lambda links, gold: 1 - len(links & gold) / len(gold),
        "over_union": lambda links, gold: 1 - 2 * len(links & gold) / len(links | gold),
        "without_2": lambda links, gold: 1 - len(links & gold) / (len(links) + len(gold)),
        "percentage": lambda links, gold: 100 * my_error_rate(links, gold),
        "both_empty": lambda links, gold: 1 - 2 * len(links & gold) / (len(links) + len(gold)),
    },
)

FRENCH, ENGLISH = "elle ne veut pas vendre la maison rouge".split(), "she does not want to sell the red house".split()
# The weights of the picture, a row for each French word; no French word attends most to "does" or "to". In hundredths.
TABLE = torch.tensor([
    # she does not want  to sell the red house
    [88,   4,   2,   2,   1,   0,   1,   1,   1],  # elle
    [ 2,  30,  58,   4,   1,   1,   2,   1,   1],  # ne
    [ 2,  16,   4,  64,   8,   3,   1,   1,   1],  # veut
    [ 1,   6,  82,   6,   1,   1,   1,   1,   1],  # pas
    [ 1,   1,   2,   5,  27,  60,   2,   1,   1],  # vendre
    [ 1,   1,   1,   1,   2,   2,  78,   6,   8],  # la
    [ 1,   0,   1,   1,   1,   2,   8,  16,  70],  # maison
    [ 1,   1,   1,   1,   1,   1,   3,  72,  19],  # rouge
]).double() / 100  # fmt: skip
READ = TABLE.argmax(1).tolist()  # for each French word the English one: [0, 2, 3, 2, 5, 6, 8, 7]


def check_reading(answer) -> str | None:
    try:
        places = [operator.index(item) for item in answer if not isinstance(item, (bool, str))]
    except TypeError:
        places = []
    if not places or isinstance(answer, (set, dict)) or len(places) != len(list(answer)):
        return "Answer with a list of eight whole numbers in brackets, one for each French word: [0, 1, ...]."
    if len(places) != 8:
        return f"Give one number for each of the eight French words; you gave {len(places)}."
    wrong = [j for j, (mine, right) in enumerate(zip(places, READ, strict=True)) if mine != right]
    return f"Row {wrong[0]} (counted from 0), {FRENCH[wrong[0]]}, is darkest in another column." if wrong else None


READING = Exercise(
    name="read_alignment",
    solution=lambda: READ,
    check=check_reading,
    value=True,
    mistakes={
        "counted_from_1": [place + 1 for place in READ],
        "diagonal": list(range(8)),
        "columns": TABLE.argmax(0).tolist(),
        "backwards": READ[::-1],
        "ne_with_pas": [0, 1, 3, 2, 5, 6, 8, 7],
        "maison_rouge": [*READ[:6], 7, 8],
    },
)

EXERCISES = [ADDITIVE, MASKED, RATE, READING]
