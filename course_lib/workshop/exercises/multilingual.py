"""Lesson 14, the Unigram language model: the sum over all segmentations of a word, and the best one.

The step of EM and the bug to fix are in `multilingual_counts.py`, the row of two languages is in
`multilingual_rows.py`.
"""

import math
import random
from functools import partial

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import Case, is_number, narrowed

NO_WAY = 1e6  # stands for minus infinity while answers are compared: no log probability is as large


def seen(value):
    """A number that can be compared: minus infinity is a right answer here, and NaN is not."""
    return NO_WAY if is_number(value) and float(value) == -math.inf else value


def place_by_place(answer, *arguments):
    """For `Case.ask`: a list of numbers, among them minus infinity."""
    sums = answer(*arguments)
    return [seen(value) for value in sums] if isinstance(sums, list | tuple) else sums


def chance():
    """Python's generator, begun by PyTorch's: so each seed of a check draws its own words."""
    return random.Random(int(torch.randint(2**31, ())))


def spelled(draw, n, letters="abc"):
    """A word of n letters."""
    return "".join(draw.choice(letters) for _ in range(n))


def scored(draw, pieces):
    """piece -> log p; the p of all are 1 together."""
    weights = {piece: draw.uniform(1.0, 5.0) for piece in pieces}
    return {piece: math.log(weight / sum(weights.values())) for piece, weight in weights.items()}


def parts(word):
    """What stands in a word, each once, in the order of the alphabet."""
    return sorted({word[start:end] for end in range(1, len(word) + 1) for start in range(end)})


def word_and_pieces(n=6, whole=True):
    """A word, and log p of all letters, of half of what else stands in it, and of a piece that does not."""
    draw = chance()
    word = spelled(draw, n)
    more = [piece for piece in parts(word) if 1 < len(piece) < n]
    pieces = [*"abc", *draw.sample(more, len(more) // 2), word[:3], "cx", *[word] * whole]
    return word, scored(draw, dict.fromkeys(pieces))


def gaps():
    """A word with positions at which no subword ends."""
    return "abcabcb", {"ab": -1.0, "ca": -1.2, "cb": -1.4, "bcb": -4.0, "b": -2.0}


def long_word(n=150):
    """A word so long that its probability is smaller than the smallest float."""
    return "ab" * n, {"a": -6.0, "b": -6.5, "ab": -10.5, "ba": -13.0}


def my_forward(word, logp):
    sums = [0.0]
    for end in range(1, len(word) + 1):
        ways = [sums[start] + logp[word[start:end]] for start in range(end) if word[start:end] in logp]
        top = max(ways, default=-math.inf)
        if top == -math.inf:
            sums.append(-math.inf)
        else:  # the largest is taken out before exp, so that a long word does not underflow
            sums.append(top + math.log(sum(math.exp(way - top) for way in ways)))
    return sums


about = partial(Case, tolerance=1e-4)  # adding up in single precision is accepted


def forward_by(total, way=lambda before, p: before + p):
    """A wrong answer to `my_forward`: total(ways) at each position, each of them way(sum before, log p)."""

    def forward(word, logp):
        sums = [0.0]
        for end in range(1, len(word) + 1):
            starts = [start for start in range(end) if word[start:end] in logp and sums[start] > -math.inf]
            ways = [way(sums[start], logp[word[start:end]]) for start in starts]
            sums.append(total(ways) if ways else -math.inf)
        return sums

    return forward


def log_of_sum(ways):
    return math.log(sum(math.exp(way) for way in ways))


FORWARD = Exercise(
    solution=my_forward,
    cases=(
        about(
            word_and_pieces,
            narrowed(
                (lambda given: ("", given["logp"]), "It is wrong for an empty word: one float, 0.0, the log of 1."),
                (
                    lambda given: (given["word"][:1], given["logp"]),
                    "It is wrong for a word of one letter: return 0.0 and then the letter's own log p.",
                ),
                (
                    lambda given: ("ab", {"a": -1.0, "b": -2.0, "ab": -4.0}),
                    "It is wrong for `ab`, which is a and b, or ab: the last number is log(exp(-1 - 2) + exp(-4)).",
                ),
                otherwise="It is right for `ab`. At `end`, add up over every subword that ends there: the sum at its "
                "start, times its own p.",
            ),
            place_by_place,
        ),
        about(gaps, "It is wrong where no subword ends: no way leads there, so it is minus infinity.", place_by_place),
        about(
            lambda: ("cab", {"a": -1.0, "b": -1.5, "ab": -2.0}),
            "If the first letter is not a subword, no way leads anywhere: 0.0, and then minus infinity everywhere.",
            place_by_place,
        ),
        about(lambda: ("", {"a": -1.0}), "An empty word has one float, 0.0, the log of 1.", place_by_place),
        about(
            long_word,
            "It is wrong for a long word: its p is too small for a float. Subtract the largest log before exp.",
            place_by_place,
        ),
    ),
    mistakes={
        "best_way": forward_by(max),
        "logs_added": forward_by(sum),
        "underflow": forward_by(log_of_sum),
        "before_forgotten": forward_by(log_of_sum, lambda before, p: p),
        "ways_counted": forward_by(log_of_sum, lambda before, p: before),
        "without_empty_prefix": lambda word, logp: my_forward(word, logp)[1:],
        "whole_word_only": lambda word, logp: my_forward(word, logp)[-1],
        "probabilities": lambda word, logp: [math.exp(value) for value in my_forward(word, logp)],
    },
)


def my_viterbi(word, logp):
    best, back = [0.0], [0]
    for end in range(1, len(word) + 1):
        ways = [(best[start] + logp[word[start:end]], start) for start in range(end) if word[start:end] in logp]
        score, start = max(ways, default=(-math.inf, 0))
        best.append(score)
        back.append(start)
    pieces, end = [], len(word)
    while end:
        pieces.insert(0, word[back[end] : end])
        end = back[end]
    return pieces


def longest_first(word, logp):
    """WordPiece's way: from the left, the longest subword that fits; a letter that fits nothing stands alone."""
    pieces = []
    while word:
        end = next((end for end in range(len(word), 0, -1) if word[:end] in logp), 1)
        pieces.append(word[:end])
        word = word[end:]
    return pieces


def whole_ways():
    """A word whose best segmentation has neither the longest subword first, nor the fewest, nor letters alone."""
    draw = chance()
    a, b, c, d, e = draw.sample("abcdefgh", 5)
    # chosen: ab-cd-e has -7.9, ab-cde -8.5, abc-d-e -12.2, the letters -15.3
    logp = {a: -3.0, b: -2.4, c: -3.2, d: -3.3, e: -3.4, a + b: -2.0, b + c: -9.0, c + d: -2.5}
    logp |= {a + b + c: -5.5, c + d + e: -6.5}
    return a + b + c + d + e, {piece: value + 0.01 * draw.random() for piece, value in logp.items()}


def and_of_nothing(answer, word, logp):
    """For `Case.ask`: the word, and the empty one."""
    return [answer(word, logp), answer("", logp)]


def best_by(score):
    """A wrong answer to `my_viterbi`: score(best before, log p) is compared."""

    def viterbi(word, logp):
        best, ways = [0.0], [[]]
        for end in range(1, len(word) + 1):
            starts = [start for start in range(end) if word[start:end] in logp]
            scores = {start: score(best[start], logp[word[start:end]]) for start in starts}
            start = max(scores, key=scores.get, default=0)
            best.append(scores.get(start, -math.inf))
            ways.append(ways[start] + [word[start:end]])
        return ways[-1]

    return viterbi


VITERBI = Exercise(
    solution=my_viterbi,
    cases=(
        Case(
            whole_ways,
            narrowed(
                (
                    lambda given: ("ab", {"a": -1.0, "b": -2.0, "ab": -4.0}),
                    "It is wrong for `ab`: a and b have -1 - 2, which is more than -4 for ab.",
                ),
                (
                    lambda given: ("ab", {"a": -1.0, "b": -2.0, "ab": -2.5}),
                    "It is wrong for `ab`: ab has -2.5, which is more than -1 - 2 for a and b.",
                ),
                otherwise="It is right for `ab`. Keep each position's best score and where its last subword begins; "
                "then go back from the end.",
            ),
        ),
        Case(
            lambda: ("abcab", {"a": -2.5, "b": -1.9, "c": -3.0, "ab": -2.1, "abc": -2.0}),
            "It is wrong for `abcab`: abc and ab. A subword may have any length and occur more than once.",
        ),
        Case(lambda: word_and_pieces(7, False), "It is wrong for another word: are repeated letters the problem?"),
        Case(gaps, "It is wrong where some positions cannot be reached: they have minus infinity."),
        Case(
            lambda: ("b", {"a": -1.0, "b": -2.0}),
            "It is wrong for one letter or for none: return a list of that letter, and an empty list.",
            and_of_nothing,
        ),
        Case(long_word, "It is wrong for a long word: add logs, because the product of so many p is 0 as a float."),
    ),
    mistakes={
        "longest_first": longest_first,
        "fewest_subwords": best_by(lambda before, p: before - 1),
        "last_subword_only": best_by(lambda before, p: p),
        "probabilities_added": best_by(lambda before, p: before + math.exp(p)),
        "letters": lambda word, logp: list(word),
        "backwards": lambda word, logp: my_viterbi(word, logp)[::-1],
    },
)

EXERCISES = [FORWARD, VITERBI]
