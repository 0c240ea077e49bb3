"""Lesson 04: the additive score, a masked softmax, the alignment error rate, reading an alignment."""

import math
import operator

import torch
from torch import Tensor

from course_lib.exercises import Exercise, Quiz


def close(a, b: Tensor) -> bool:
    return isinstance(a, Tensor) and a.shape == b.shape and torch.allclose(
        a.to(b.dtype), b, atol=1e-6, rtol=1e-5, equal_nan=True)


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


def with_another(squash):
    """The score with another squashing of W s + U h."""
    return lambda s, h, w, u, v: squash((s @ w)[:, None] + h @ u) @ v


def multiplied(s, h, w, u, v):
    return torch.tanh((s @ w)[:, None] * (h @ u)) @ v


def over_sentences(*batch):
    return torch.softmax(my_additive_scores(*batch), 0)


def turned(which):
    """The score with w, u or both turned round, as the formula W s + U h of column vectors invites."""
    def answer(s, h, w, u, v):
        return my_additive_scores(s, h, w.T if "w" in which else w, u.T if "u" in which else u, v)
    return answer


def check_additive(answer) -> str | None:
    even = numbers(5, 5), numbers(5, 5, 5), numbers(5, 5), numbers(5, 5), numbers(5)  # here a turned matrix fits
    got = answer(*even)
    for which, message in (
        ("w", "You turn w round. The slide's W stands before a column vector; here w is (D, N), so it is s @ w."),
        ("u", "You turn u round. The slide's U stands before a column vector; here u is (K, N), so it is h @ u."),
        ("wu", "You turn both matrices round. On the slide they stand before column vectors; here w is (D, N) and u is "
               "(K, N): s @ w and h @ u."),
    ):
        if close(got, turned(which)(*even)):
            return message
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
        (over_sentences, "You take softmax over the sentences of the batch, dimension 0. Return the scores e."),
        (with_another(torch.sigmoid), "You squash with sigmoid: the additive score has tanh."),
        (with_another(torch.relu), "You cut off with relu: the additive score has tanh."),
        (multiplied, "You multiply s @ w and h @ u. The additive score adds them, hence its name."),
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


def upside_down(fill):
    """The likeliest slip: masked_fill fills where its mask is True."""
    return lambda e, m: torch.softmax(e.masked_fill(m, torch.finfo(e.dtype).min if fill is None else fill), -1)


def by_hand(e, m):
    weights = e.exp() * m
    return weights / (weights.sum(-1, keepdim=True) + 1e-9)


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
        (upside_down(None), "Your mask is upside down: masked_fill fills where its mask is True, and True here means: "
                            "may be looked at. Fill with ~mask."),
        (upside_down(-math.inf), "Your mask is upside down: masked_fill fills where its mask is True, and True here "
                                 "means: may be looked at. Fill with ~mask. (The NaN come from rows without padding.)"),
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
    got = answer(low, mask)
    if got[0].isnan().all() or (got[0] == 0).all():  # a row without a masked place
        return ("With scores around -2000 all weights vanish: exp(-2000) is 0 in the computer, and so is their sum. "
                "Subtract the largest score of the row before exp, as torch.softmax does.")
    if not close(got, my_masked_softmax(low, mask)):
        return ("With scores around -2000 a masked place wins: a fixed number such as -1e3 or -100 is not low enough. "
                "Use torch.finfo(scores.dtype).min.")
    high = scores + 2000
    if not close(answer(high, mask), my_masked_softmax(high, mask)):
        return ("With scores around +2000 the answer is wrong: exp(2000) is infinite in the computer. Subtract the "
                "largest score of the row before exp, as torch.softmax does.")
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


def shares(links, gold):
    """Precision and recall, each without a guard."""
    return len(links & gold) / len(links), len(links & gold) / len(gold)


def harmonic(links, gold):
    precision, recall = shares(links, gold)
    return 1 - 2 * precision * recall / (precision + recall)


def one_sided(side):
    """The rate where a link counts as right when only its source (0) or its target (1) is among the gold's."""
    def answer(links, gold):
        known = {link[side] for link in gold}
        return 1 - 2 * sum(link[side] in known for link in links) / (len(links) + len(gold))
    return answer


def one_sided_places(side):
    return lambda links, gold: my_error_rate({link[side] for link in links}, {link[side] for link in gold})


def check_rate(answer) -> str | None:
    gold = {(0, 0), (1, 2), (2, 1), (3, 3), (4, 3), (5, 4)}
    links = {(0, 0), (1, 2), (3, 3), (2, 4), (6, 1)}  # 3 of 5 right, 3 of 6 found, 5 targets and 4 sources in gold
    got = answer(set(links), set(gold))
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return f"Return one number from 0 to 1; got {type(got).__name__}."
    both, (precision, recall) = len(links & gold), shares(links, gold)
    for value, message in (
        (2 * both / 11, "That is the F score, which is 1 when all is right. The error rate is 1 minus it."),
        (1 - precision, "You divide by the number of links alone: that is 1 - precision. Missed links cost nothing."),
        (1 - recall, "You divide by the number of gold links alone: that is 1 - recall. Wrong links cost nothing."),
        (1 - both / 8, "You divide by the union. The formula has |A| + |G| below, and 2 |A and G| above."),
        (both / 8, "That is Jaccard's index, both over the union. The rate is 1 - 2 |A and G| / (|A| + |G|)."),
        (1 - 2 * both / 8, "Below stands the union in yours, where what both have counts once. The formula has "
                           "|A| + |G|, where it counts twice, as above."),
        (1 - both / 11, "The 2 is missing: |A and G| counts once for A and once for G."),
        (1 - (precision + recall) / 2, "You take the plain mean of precision and recall. The rate is 1 minus their "
                                       "harmonic mean, 2 |A and G| / (|A| + |G|)."),
        ((precision + recall) / 2, "That is the mean of precision and recall, 1 when all is right. The rate is "
                                   "1 - 2 |A and G| / (|A| + |G|)."),
        (1 - precision * recall, "You multiply precision and recall. The rate is 1 - 2 |A and G| / (|A| + |G|)."),
        (precision * recall, "That is precision times recall. The rate is 1 - 2 |A and G| / (|A| + |G|)."),
        (100 * my_error_rate(links, gold), "You give per cent. Return a rate from 0 to 1."),
        (one_sided(0)(links, gold), "You compare the source places alone. A link is a pair: both places must agree."),
        (one_sided(1)(links, gold), "You compare the target places alone. A link is a pair: both places must agree."),
        (one_sided_places(1)(links, gold),
         "You keep the target places alone, so pairs that share one fall together. A link is a pair: both must agree."),
    ):
        if abs(got - value) < 1e-9:
            return message
    if abs(got - my_error_rate(links, gold)) > 1e-9:
        return "With 5 links, 6 gold links and 3 in both, the rate is 1 - 2 · 3 / (5 + 6)."
    for mine, theirs, right, said in (
        (gold, gold, 0, "Where the links are the gold links, the rate is 0."),
        ({(0, 1)}, {(1, 0)}, 1, "No link is right, none of the gold ones is found: the rate is 1."),
        (set(), gold, 1, "No link at all, and gold has some: the rate is 1."),
        (links, set(), 1, "Links, and no gold link: the rate is 1."),
        (set(), set(), 0, "No links and no gold links: nothing was wrong, so the rate is 0."),
    ):
        try:
            got = answer(set(mine), set(theirs))
        except ZeroDivisionError:
            way = (" Precision and recall have no value there; 1 - 2 |A and G| / (|A| + |G|) has one."
                   if mine or theirs else "")
            return f"{said} Yours divides by zero.{way}"
        if abs(got - right) > 1e-9:
            return said
    return None


# 4 · reading an alignment ---------------------------------------------------------------------------------------

FRENCH, ENGLISH = "elle ne veut pas vendre la maison rouge".split(), "she does not want to sell the red house".split()
# The weights of the picture, a row for each French word; "does" and "to" are nobody's. In hundredths.
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
COLUMNS = TABLE.argmax(0).tolist()  # what somebody gives who goes down the nine columns instead


def place_of(item) -> int:
    """A whole number, also of NumPy or PyTorch; TypeError for 2.9, "2" and True."""
    if isinstance(item, bool):
        raise TypeError("a truth value is no place")
    return operator.index(item)


def check_reading(answer) -> str | None:
    if isinstance(answer, (str, bytes, set, frozenset, dict)):
        return (f"Answer with a list of eight whole numbers, one for each French word, as [0, 1, ...]; got "
                f"{type(answer).__name__}.")
    try:
        items = list(answer)
    except TypeError:
        return "Answer with a list, in brackets: eight whole numbers, one for each French word."
    try:
        places = [place_of(item) for item in items]
    except TypeError:
        return "A place is a whole number without a point, such as 2, not 2.9 and not a word."
    if COLUMNS[:len(places)] == places and len(places) in (8, 9):
        return "You read columns. A row belongs to a French word: find the darkest cell in each row."
    if len(places) != 8:
        return f"One place for each of the eight French words; you gave {len(places)}."
    if places == [place + 1 for place in READ]:
        return "You count from 1. The first English word has the place 0."
    if places == list(range(8)):
        return "That is the diagonal. Look at the rows of pas, vendre and maison: their dark cells are not on it."
    if places == READ[::-1]:
        return "Your list runs from the last French word to the first."
    beyond = [place for place in places if not 0 <= place < len(ENGLISH)]
    if beyond:
        return f"There is no column {beyond[0]}: the nine English words have the places 0 to 8."
    if places[1] != places[3]:
        return "ne and pas are one negation: both rows are darkest at the same English word."
    wrong = [j for j, (mine, right) in enumerate(zip(places, READ, strict=True)) if mine != right]
    if wrong == [6, 7]:
        return "maison and rouge: French puts the colour behind the house, English before it. Follow the rows."
    return f"Row {wrong[0]} (counted from 0), {FRENCH[wrong[0]]}, is darkest at another place." if wrong else None


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
            (over_sentences, "over the sentences of the batch"),
            (with_another(torch.sigmoid), "with sigmoid"),
            (with_another(torch.relu), "with relu"),
            (multiplied, "The additive score adds"),
            (turned("w"), "here w is (D, N)"),
            (turned("u"), "here u is (K, N)"),
            (turned("wu"), "both matrices"),
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
            (upside_down(None), "Fill with ~mask."),
            (upside_down(-math.inf), "rows without padding"),
            (by_hand, "all weights vanish"),
            (lambda e, m: by_hand(e - e.clamp(max=0).amin(-1, keepdim=True), m), "exp(2000) is infinite"),
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
            (either, "divide by the union"),
            (lambda a, g: 1 - either(a, g), "Jaccard's index"),
            (lambda a, g: 1 - 2 * len(a & g) / len(a | g), "Below stands the union"),
            (lambda a, g: 1 - sum(shares(a, g)) / 2, "plain mean of precision"),
            (lambda a, g: sum(shares(a, g)) / 2, "That is the mean of precision"),
            (lambda a, g: 1 - math.prod(shares(a, g)), "multiply precision"),
            (lambda a, g: math.prod(shares(a, g)), "precision times recall"),
            (lambda a, g: 100 * my_error_rate(a, g), "per cent"),
            (one_sided(0), "source places alone"),
            (one_sided(1), "compare the target places alone"),
            (one_sided_places(1), "keep the target places alone"),
            (harmonic, "none of the gold ones is found: the rate is 1. Yours divides by zero."),
            (lambda a, g: harmonic(a, g) if a & g or not a else 1.0, "No link at all, and gold has some"),
            (lambda a, g: harmonic(a, g) if a & g or not g else 1.0, "Links, and no gold link"),
            (lambda a, g: 1 - len(a & g) / (len(a) + len(g)), "The 2 is missing"),
            (lambda a, g: 1 - 2 * len(a & g) / (len(a) + len(g)), "so the rate is 0. Yours divides by zero"),
            (lambda a, g: 1 - 2 * len(a & g) / max(1, len(a) + len(g)), "nothing was wrong"),
            (lambda a, g: len(a ^ g), "1 - 2 · 3 / (5 + 6)"),
        )),
    Exercise(
        name="read_alignment", lesson="attention_alignment", title="Read an alignment", check=check_reading,
        solution=lambda: READ, value=True,
        hints=("Go row by row: a row is a French word. Note the column of its darkest cell, counted from 0.",
               "Two rows share a column: one English word that is said in two parts.",
               "Two English words are nobody's: no row is darkest there."),
        wrong=(
            ([1, 3, 4, 3, 6, 7, 9, 8], "count from 1"),
            ([0, 1, 2, 3, 4, 5, 6, 7], "the diagonal"),
            (COLUMNS, "read columns"),
            ([7, 8, 6, 5, 2, 3, 2, 0], "from the last"),
            ([0, 1, 3, 2, 5, 6, 8, 7], "one negation"),
            ([0, 2, 3, 2, 5, 6, 7, 8], "behind the house"),
            ([0, 2, 3, 2, 4, 6, 8, 7], "Row 4"),
            ([0, 2, 3, 2, 5, 6, 8, 17], "no column 17"),
            ([0, 2, 3], "eight French words; you gave 3"),
            ([0, 2.9, 3, 2.1, 5, 6, 8, 7], "without a point"),
            ("02325687", "got str"),
            (2, "in brackets"),
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
        ("Softmax over so many words is too flat.",
         "The weights flatten, but that is not all: it also stops after four dates, as in training."),
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
