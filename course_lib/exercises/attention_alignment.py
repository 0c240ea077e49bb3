"""Lesson 04: the additive score, a masked softmax, the alignment error rate, reading an alignment.

The attention that has to be fixed is in `attention_alignment_look.py`, the quiz in `attention_alignment_questions.py`.
"""

import operator

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, Case, on, pulled, tensors
from course_lib.exercises.slips import slips


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
    mistakes=slips("""
        torch.tanh( -> (
            tanh is missing: without it the score is linear, and s only shifts all scores of a row by the same amount.
        torch.tanh( -> (
        inside @ v -> torch.tanh(inside @ v)  # You apply tanh to the score: apply it before v.
        (s @ w)[:, None] + h @ u -> torch.tanh(s @ w)[:, None] + torch.tanh(h @ u)
        inside = torch.tanh( -> inside = (
            You apply tanh to s w and h u one by one. Add them first, then apply tanh: only then do they interact.
        (s @ w)[:, None] -> s @ w
            s @ w is (B, d_k) and h @ u is (B, S, d_k): if you just add them, sentence b's state goes to position b.
            Give s @ w a dimension for the positions: (s @ w)[:, None].
        inside @ v -> torch.softmax(inside @ v, -1)  # These are the weights. Return the scores e.
        s @ w -> s @ w.T
            You transpose w. A state is a row, and w has a row for each of its numbers: use s @ w.
        h @ u -> h @ u.T
            You transpose u. A source state is a row, and u has a row for each of its numbers: use h @ u.
        [:, None] + h @ u -> [:, None] * (h @ u)
            You multiply s @ w and h @ u. The additive score adds them, as its name says.
        (s @ w)[:, None] + -> 0 +  # The decoder's state s is not used: the term s @ w is missing.
        + h @ u -> + 0 * h @ u  # The source states h are not used: the term h @ u is missing.
        inside @ v -> inside.sum(-1)  # v is missing: a sum gives all units the same weight.
        inside = torch.tanh -> inside = torch.sigmoid  # You use a sigmoid: the additive score uses tanh.
    """),
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
    mistakes=slips("""
        scores.masked_fill(~mask, lowest) -> scores
        return weights.masked_fill(~mask, 0) -> return weights
            The mask changes nothing in your answer: padding gets weight.
        ~mask -> mask
            Your mask is inverted: masked_fill fills where its mask is True, and here True means: may be attended to.
        ~mask, lowest -> mask, lowest
        return weights.masked_fill(~mask, 0) -> return weights
            Your mask is inverted: masked_fill fills where its mask is True. Fill with ~mask, both times.
        scores.masked_fill(~mask, lowest) -> scores
            You zero the weights after the softmax, so the rest does not sum to 1. Mask the scores before it.
        scores.masked_fill(~mask, lowest) -> scores * mask
        return weights.masked_fill(~mask, 0) -> return weights
            A masked score of 0 is a score like any other, because exp(0) = 1. Use the lowest number there is.
        dim=-1 -> dim=0  # Each row is one query: take the softmax over the last dimension.
        lowest = torch.finfo(scores.dtype).min -> lowest = -1e3
            With scores around -2000 a masked position wins: a fixed number such as -1e3 or -100 is not low enough.
        lowest = torch.finfo(scores.dtype).min -> lowest = float("-inf")
        return weights.masked_fill(~mask, 0) -> return weights
            With minus infinity, a row in which nothing may be attended to gives 0 / 0 = NaN. It should give zeros.
        return weights.masked_fill(~mask, 0) -> return weights
            Where nothing may be attended to, your weights are uniform, because all scores are equally low.
            Set masked weights to 0 once more after the softmax.
        torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) -> scores.exp() * mask
        return weights.masked_fill(~mask, 0) -> return weights / (weights.sum(-1, keepdim=True) + 1e-9)
            With scores around -2000 all weights vanish: exp(-2000) is 0 in the computer, and so is the sum.
    """),
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
    mistakes=slips("""
        1 - 2 * both -> 2 * both  # That is the F score, 1 when all is correct. The error rate is 1 minus it.
        2 * both / (len(links) + len(gold)) -> both / len(links)
            You divide by the number of links alone: that is 1 - precision. Gold links that are missing cost nothing.
        2 * both / (len(links) + len(gold)) -> both / len(gold)
            You divide by the number of gold links alone: that is 1 - recall. Wrong links cost nothing.
        2 * both / (len(links) + len(gold)) -> both / len(links | gold)
            You divide by the union. The formula has 2 |A and G| in the numerator and |A| + |G| in the denominator.
        (len(links) + len(gold)) -> len(links | gold)
            You divide by the union, which counts common links once. The formula divides by |A| + |G|.
        1 - 2 * both -> 1 - both  # The 2 is missing: |A and G| counts once for A and once for G.
        2 * both / (len(links) + len(gold)) -> (both / len(links) + both / len(gold)) / 2
            You take the arithmetic mean of precision and recall. The rate is 1 minus their harmonic mean.
        return 1 - 2 * both / (len(links) + len(gold)) -> return 100 * (1 - 2 * both / (len(links) + len(gold)))
            You return a percentage. Return a rate from 0 to 1.
        both = len(links & gold) -> both = sum(i in {a for a, _ in gold} for i, _ in links)
            You compare only the source positions. A link is a pair: both positions must agree.
        if links or gold else 0.0 -> if True else 0.0
            With no links and no gold links nothing is wrong, so the rate is 0. Your code divides by zero.
        2 * both / (len(links) + len(gold)) -> 2 / (len(links) / both + len(gold) / both)
            You divide by zero when no link is correct; 1 - 2 |A and G| / (|A| + |G|) does not.
    """),
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
    mistakes=(
        ([place + 1 for place in READ], "You count from 1. The first English word has the number 0."),
        (list(range(8)), "That is the diagonal. The dark cells of the rows pas, vendre and maison are not on it."),
        (
            TABLE.argmax(0).tolist(),
            "You read the columns. A row belongs to a French word: find the darkest cell in each row.",
        ),
        (READ[::-1], "Your list runs from the last French word to the first."),
        ([8 - place for place in READ], "You count from the right. The first English word, she, has the number 0."),
        ([0, 1, 3, 2, 5, 6, 8, 7], "ne and pas are one negation: both rows are darkest at the same English word."),
        ([*READ[:6], 7, 8], "maison and rouge: French puts the colour after the house, English before it."),
        ([0, 2, 3, 2, 4, 6, 8, 7], "Row 4 (counted from 0), vendre, is darkest in another column."),
        (READ[:3], "Give one number for each of the eight French words; you gave 3."),
        ("02325687", "Answer with a list of eight whole numbers"),
    ),
)

EXERCISES = [ADDITIVE, MASKED, RATE, READING]
