"""Lesson 04: the additive score, a masked softmax, the alignment error rate, reading an alignment."""

import torch
from torch import Tensor

from course_lib.exercises import Exercise, Quiz


def close(a, b: Tensor) -> bool:
    return isinstance(a, Tensor) and a.shape == b.shape and torch.allclose(a.to(b.dtype), b, atol=1e-6, rtol=1e-5)


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


# 1 · the additive score -----------------------------------------------------------------------------------------


def my_additive_scores(s, h, w, u, v):
    inside = torch.tanh((s @ w)[:, None] + h @ u)  # (B, S, N): the same s for every source place
    return inside @ v


def no_tanh(s, h, w, u, v):
    return ((s @ w)[:, None] + h @ u) @ v


def late_tanh(s, h, w, u, v):
    return torch.tanh(no_tanh(s, h, w, u, v))


def two_tanhs(s, h, w, u, v):
    return (torch.tanh(s @ w)[:, None] + torch.tanh(h @ u)) @ v


def misplaced(s, h, w, u, v):
    return torch.tanh(s @ w + h @ u) @ v  # (B, N) beside (B, S, N): sentence i's state meets source place i


def check_additive(answer) -> str | None:
    s, h, w, u, v = numbers(4, 3), numbers(4, 6, 5), numbers(3, 7), numbers(5, 7), numbers(7)
    square = numbers(4, 3), numbers(4, 4, 5), w, u, v  # as many places as sentences: broadcasting goes wrong silently
    if close(answer(*square), misplaced(*square)):
        return ("s @ w is (B, N) and h @ u is (B, S, N): added as they are, sentence b's state meets place b. "
                "Give s @ w a dimension for the places: (s @ w)[:, None].")
    got = answer(s, h, w, u, v)
    if not isinstance(got, Tensor) or got.shape != (4, 6):
        shape = tuple(got.shape) if isinstance(got, Tensor) else type(got).__name__
        return f"One score for each source place of each sentence: shape (B, S) = (4, 6); yours is {shape}."
    right = my_additive_scores(s, h, w, u, v)
    for wrong, message in (
        (no_tanh, "tanh is missing: without it the score is linear, and s only shifts all scores of a row alike."),
        (late_tanh, "tanh stands around the score. It belongs inside, before v is applied."),
        (two_tanhs, "You squash W s and U h one by one. Add first, then tanh: only so do the two meet."),
        (lambda *a: torch.softmax(my_additive_scores(*a), -1), "These are weights already. Return the scores e."),
        (lambda s, h, w, u, v: torch.tanh(h @ u) @ v, "The decoder's state s is not used: the term s @ w is missing."),
        (lambda s, h, w, u, v: (torch.tanh(s @ w) @ v)[:, None].expand(4, 6),
         "The source states h are not used: the term h @ u is missing."),
        (lambda *a: my_additive_scores(*a[:4], torch.ones_like(a[4])), "v is missing: a sum weighs all units alike."),
    ):
        if close(got, wrong(s, h, w, u, v)):
            return message
    return None if close(got, right) else "The score must be v · tanh(s w + h u). Compare the terms one by one."


# 2 · a softmax that survives ------------------------------------------------------------------------------------


def my_masked_softmax(scores, mask):
    lowest = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1)
    return weights.masked_fill(~mask, 0)


def check_masked(answer) -> str | None:
    scores, mask = numbers(3, 5), torch.ones(3, 5, dtype=torch.bool)
    got = answer(scores, mask)
    if not isinstance(got, Tensor) or got.shape != (3, 5):
        return "Return one weight for each score: a tensor of the shape of scores, (..., S)."
    if close(got, torch.softmax(scores, 0)):
        return "Your columns sum to one. Each row is one query: softmax over the last dimension."
    mask = torch.tensor([[True] * 5, [True, True, True, False, False], [False, True, False, False, False]])
    got, right = answer(scores, mask), my_masked_softmax(scores, mask)
    for wrong, message in (
        (lambda e, m: torch.softmax(e, -1), "The mask changes nothing in your answer: padding gets weight."),
        (lambda e, m: my_masked_softmax(e, ~m), "Your mask is upside down. True means: may be looked at."),
        (lambda e, m: torch.softmax(e, -1) * m,
         "You zero the weights after softmax, so that the rest does not sum to one. Mask the scores, before."),
        (lambda e, m: torch.softmax(e * m, -1),
         "A masked score of 0 is a score like any other: exp(0) = 1. It has to be the lowest number there is."),
    ):
        if close(got, wrong(scores, mask)):
            return message
    if not close(got, right):
        return "With some places masked, the rest must have the softmax of their own scores, and masked places 0."
    low = scores - 2000
    if not close(answer(low, mask), my_masked_softmax(low, mask)):
        return ("With scores around -2000 a masked place wins: a fixed number such as -1e3 or -100 is not low enough. "
                "Use torch.finfo(scores.dtype).min.")
    small = torch.softmax(scores.float(), -1)
    if not close(answer(scores.float(), torch.ones(3, 5, dtype=torch.bool)), small):
        return "In single precision the answer is wrong: take the lowest number of the scores' own dtype."
    nothing = mask.clone()
    nothing[1] = False
    got = answer(scores, nothing)
    if not torch.isfinite(got).all():
        return "A row in which nothing may be looked at gives NaN: 0 / 0. It shall give zeros."
    if close(got[1], torch.full((5,), 0.2, dtype=got.dtype)):
        return ("Where nothing may be looked at, yours looks at everything alike: all scores are equally low. "
                "Set masked weights to 0 once more after softmax.")
    if not close(got, my_masked_softmax(scores, nothing)):
        return "A row in which nothing may be looked at must be zeros, and change nothing in the other rows."
    return None


# 3 · the alignment error rate -----------------------------------------------------------------------------------


def my_error_rate(links, gold):
    both = len(links & gold)
    return 1 - 2 * both / (len(links) + len(gold)) if links or gold else 0.0


def either(links, gold):
    return 1 - len(links & gold) / len(links | gold) if links | gold else 0.0


def check_rate(answer) -> str | None:
    gold = {(0, 0), (1, 2), (2, 1), (3, 3), (4, 3), (5, 4)}
    links = {(0, 0), (1, 2), (2, 2), (3, 3)}  # 3 of 4 right, 3 of 6 found
    got = answer(set(links), set(gold))
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return f"Return one number from 0 to 1; got {type(got).__name__}."
    both = len(links & gold)
    for value, message in (
        (2 * both / 10, "That is the F score, which is 1 when all is right. The error rate is 1 minus it."),
        (1 - both / 4, "You divide by the number of links alone: that is 1 - precision. Missed links cost nothing."),
        (1 - both / 6, "You divide by the number of gold links alone: that is 1 - recall. Wrong links cost nothing."),
        (1 - both / 7, "You divide by the union. The formula has |A| + |G| below, and 2 |A and G| above."),
        (1 - both / 10, "The 2 is missing: |A and G| counts once for A and once for G."),
    ):
        if abs(got - value) < 1e-9:
            return message
    if abs(got - my_error_rate(links, gold)) > 1e-9:
        return "With 4 links, 6 gold links and 3 in both, the rate is 1 - 2 · 3 / (4 + 6)."
    if abs(answer(set(gold), set(gold))) > 1e-9:
        return "Where the links are the gold links, the rate is 0."
    if abs(answer(set(), set(gold)) - 1) > 1e-9:
        return "No link at all, and gold has some: the rate is 1."
    try:
        empty = answer(set(), set())
    except ZeroDivisionError:
        return "No links and no gold links: yours divides by zero. Nothing was wrong, so the rate is 0."
    return None if empty == 0 else "No links and no gold links: nothing was wrong, so the rate is 0."


# 4 · reading an alignment ---------------------------------------------------------------------------------------

READ = [0, 2, 3, 2, 4, 5, 6]  # elle ne vend pas la vieille maison <- she does not sell the old house


def check_reading(answer) -> str | None:
    try:
        places = [int(place) for place in answer]
    except (TypeError, ValueError):
        return "Answer with a list of seven whole numbers, one for each French word."
    if len(places) != 7:
        return f"One place for each of the seven French words; you gave {len(places)}."
    if places == [place + 1 for place in READ]:
        return "You count from 1. The first English word has the place 0."
    if places == list(range(7)):
        return "That is the diagonal. Look at the rows of ne, vend and pas: their dark cells are not on it."
    if places == [0, 2, 1, 2, 4, 5, 6]:
        return "You read columns. A row belongs to a French word: find the darkest cell in each row."
    if places == READ[::-1]:
        return "Your list runs from the last French word to the first."
    if places[1] != places[3]:
        return "ne and pas are one negation: both rows are darkest at the same English word."
    wrong = [j for j, (mine, right) in enumerate(zip(places, READ, strict=True)) if mine != right]
    return f"Row {wrong[0]} (counted from 0) is darkest at another place." if wrong else None


EXERCISES = [
    Exercise(
        name="my_additive_scores", lesson="attention_alignment", title="The additive score", check=check_additive,
        solution=my_additive_scores,
        hints=("Project both with their matrices, add, squash, and let v read a number off: v · tanh(s w + h u).",
               "s @ w is (B, N), h @ u is (B, S, N). The state meets every place: give it a dimension of size 1.",
               "torch.tanh((s @ w)[:, None] + h @ u) is (B, S, N); a product with v (N,) leaves (B, S)."),
        wrong=(
            (no_tanh, "tanh is missing"),
            (late_tanh, "tanh stands around the score"),
            (two_tanhs, "one by one"),
            (misplaced, "a dimension for the places"),
            (lambda *a: torch.softmax(my_additive_scores(*a), -1), "weights already"),
            (lambda s, h, w, u, v: torch.tanh(h @ u) @ v, "state s is not used"),
            (lambda *a: torch.tanh((a[0] @ a[2])[:, None] + a[1] @ a[3]).sum(-1), "v is missing"),
            (lambda *a: torch.tanh((a[0] @ a[2])[:, None] + a[1] @ a[3]), "shape (B, S)"),
            (lambda *a: 2 * my_additive_scores(*a), "Compare the terms"),
        )),
    Exercise(
        name="my_masked_softmax", lesson="attention_alignment", title="A softmax that survives", check=check_masked,
        solution=my_masked_softmax,
        hints=("Masked scores must not take part: make them as low as can be, before softmax.",
               "scores.masked_fill(~mask, lowest) with lowest = torch.finfo(scores.dtype).min, not minus infinity.",
               "A row of lowest numbers comes out uniform: set masked weights to 0 once more at the end."),
        wrong=(
            (lambda e, m: torch.softmax(e, -1), "changes nothing"),
            (lambda e, m: my_masked_softmax(e, ~m), "upside down"),
            (lambda e, m: torch.softmax(e, -1) * m, "after softmax"),
            (lambda e, m: torch.softmax(e * m, -1), "a score like any other"),
            (lambda e, m: torch.softmax(e.masked_fill(~m, float("-inf")), -1), "gives NaN"),
            (lambda e, m: torch.softmax(e.masked_fill(~m, -1000.0), -1).masked_fill(~m, 0), "not low enough"),
            (lambda e, m: torch.softmax(e.masked_fill(~m, torch.finfo(e.dtype).min), -1), "everything alike"),
            (lambda e, m: torch.softmax(e.masked_fill(~m, torch.finfo(e.dtype).min), 0), "columns sum to one"),
        )),
    Exercise(
        name="my_error_rate", lesson="attention_alignment", title="The alignment error rate", check=check_rate,
        solution=my_error_rate,
        hints=("Count three numbers: the links, the gold links, and those in both (sets: links & gold).",
               "1 - 2 · both / (links + gold).",
               "Where both sets are empty nothing is wrong: return 0."),
        wrong=(
            (lambda a, g: 2 * len(a & g) / (len(a) + len(g)), "F score"),
            (lambda a, g: 1 - len(a & g) / len(a), "1 - precision"),
            (lambda a, g: 1 - len(a & g) / len(g), "1 - recall"),
            (either, "the union"),
            (lambda a, g: 1 - len(a & g) / (len(a) + len(g)), "The 2 is missing"),
            (lambda a, g: 1 - 2 * len(a & g) / (len(a) + len(g)), "divides by zero"),
            (lambda a, g: 1 - 2 * len(a & g) / max(1, len(a) + len(g)), "nothing was wrong"),
            (lambda a, g: len(a ^ g), "1 - 2 · 3 / (4 + 6)"),
        )),
    Exercise(
        name="read_alignment", lesson="attention_alignment", title="Read an alignment", check=check_reading,
        solution=lambda: READ, value=True,
        hints=("Go row by row: a row is a French word. Note the column of its darkest cell, counted from 0.",
               "Two rows share a column: one English word that is said in two parts.",
               "One English word is nobody's: it has no darkest cell in its column."),
        wrong=(
            ([1, 3, 4, 3, 5, 6, 7], "count from 1"),
            ([0, 1, 2, 3, 4, 5, 6], "the diagonal"),
            ([0, 2, 1, 2, 4, 5, 6], "read columns"),
            ([6, 5, 4, 2, 3, 2, 0], "from the last"),
            ([0, 2, 3, 4, 4, 5, 6], "one negation"),
            ([0, 2, 3, 2, 4, 6, 5], "Row 5"),
            ([0, 2, 3], "seven French words"),
            ("elle ne vend pas", "whole numbers"),
        )),
]

QUIZ = [
    Quiz("attention_memory", "What does the decoder with attention have that the one of lesson 03 lacks?", (
        ("A larger state vector.", "The state has the same width. It is no longer the only way from source to target."),
        ("All states of the encoder, as many as the source has words.",
         "Yes. The memory grows with the sentence; the number of weights does not."),
        ("The gold alignment.", "It never sees one. The weights come out of learning to translate."),
        ("A dictionary of word pairs.", "Nothing is looked up by word: queries meet states, and all is learned."),
    ), correct=1),
    Quiz("attention_mask", "When must the scores of padding be masked?", (
        ("After softmax: set the weights of padding to 0.", "Then the weights of real words no longer sum to one."),
        ("Never: the model learns to ignore padding.", "It may, nearly. But then a sentence's translation depends on "
                                                       "the length of its neighbours in the batch."),
        ("Before softmax: set them to the lowest number there is.",
         "Yes. Their weights are then exactly zero, and the rest sums to one."),
        ("Only in training.", "A batch of test sentences is padded just the same."),
    ), correct=2),
    Quiz("aer_perfect", "A model translates every date right, and its alignment error rate is 0.1. How can that be?", (
        ("One of the two numbers must be wrong.", "Both are right. They measure different things."),
        ("It looks elsewhere for words that it knows without looking, or whose neighbour tells.",
         "Yes. A state knows its neighbours, and the decoder can count. Translating does not ask for alignment."),
        ("One word in ten is translated wrongly.", "Every word is right. The rate counts links, not words."),
        ("Its attention is spread too widely.", "A link goes to the largest weight, however small that is."),
    ), correct=1),
    Quiz("attention_longer", "Trained on lists of one to four dates, the model with attention fails on lists of six. "
                             "Why?", (
        ("Six dates do not fit into its vector.", "Nothing has to fit: it can look at every word."),
        ("Softmax over so many words is too flat.", "The weights are as sharp; they are in the wrong place."),
        ("It has only learned to tell four dates apart and to stop after four at most.",
         "Yes. Attention takes the narrow place away. It does not teach what was never shown."),
        ("Greedy search fails on long sentences.", "A beam does not mend it: the probabilities themselves are wrong."),
    ), correct=2),
    Quiz("attention_explains", "A weight of 0.9 lies on the source word 5. What is certain?", (
        ("The output word translates word 5.", "Often, not surely: a state holds its neighbours too."),
        ("Without word 5 the output would be another.", "That can be tested by removing it, and often it stays."),
        ("Nine tenths of the context vector are the state at word 5.",
         "Yes, and no more than that. What the state holds, and what is made of it, is another question."),
        ("Word 5 is more important than all others together.", "Importance is an effect. A weight is not one."),
    ), correct=2),
]
