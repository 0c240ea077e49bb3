"""Lesson 14, the Unigram language model: the sum over all segmentations of a word, and the best one.

The step of EM and the bug to fix are in `multilingual_counts.py`, the row of two languages is in
`multilingual_rows.py`, the quiz and the open question in `multilingual_questions.py`.
"""

import math
import random
from functools import partial

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import Case, is_number, narrowed
from course_lib.exercises.slips import slips

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
    mistakes=slips("""
        top + math.log(sum(math.exp(way - top) for way in ways)) -> top
            You keep the best way to each position: that is Viterbi. Forward sums add up all ways.
        top + math.log(sum(math.exp(way - top) for way in ways)) -> sum(ways)
            You add logs, which multiplies the ways. Add probabilities: exp, sum, log.
        top + math.log(sum(math.exp(way - top) for way in ways)) -> math.log(sum(math.exp(way) for way in ways))
            The formula is right, but for a long word exp gives 0, which has no log. Subtract the largest first.
        top + math.log( -> top - math.log(len(ways)) + math.log(
            You take the mean over the ways. Add their probabilities.
        sums[start] + logp[word[start:end]] -> logp[word[start:end]]
            You add up the subwords that end at a position and forget the sum that leads to each: sums[start].
        sums[start] + logp[word[start:end]] -> sums[start]
            You count the ways, each as 1. Multiply by the p of each subword.
        sums[start] + logp[word[start:end]] -> sums[end - 1] + logp[word[start:end]]
            You continue from the position before, however long the subword is. It begins at `start`.
        for start in range(end) -> for start in range(max(0, end - 2), end)
            Your subwords have two letters at most. They may begin anywhere before `end`.
        for start in range(end) -> for start in range(1, end)
            None of your subwords begins at the word's first letter: start at 0.
        sums = [0.0] -> sums = [-math.inf]
            With your start nothing can be written: the empty prefix has probability 1, so its log is 0.0.
        sums.append(-math.inf) -> sums.append(0.0)
            Where no way leads, you return the log of 1. It must be minus infinity.
        sums.append(-math.inf) -> sums.append(sums[-1])
            Where no way leads, you repeat the sum of the position before. It must be minus infinity.
        return sums -> return sums[1:]
            You leave out the empty prefix: return len(word) + 1 floats, the first of them 0.0.
        return sums -> return sums[-1]
            You return the sum of the whole word. Return the sums of all its prefixes.
        return sums -> return [math.exp(value) for value in sums]
            You return probabilities. Return their logs.
    """),
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
    mistakes=(
        (
            longest_first,
            "You take the longest subword that fits, from the left: that is WordPiece. Unigram compares all ways.",
        ),
        *slips("""
        best[start] + logp[word[start:end]] -> best[start] - 1
            You look for the fewest subwords. Maximise the sum of their log p instead.
        best[start] + logp[word[start:end]] -> logp[word[start:end]]
            You compare the last subwords alone: add what leads to them, best[start].
        best[start] + logp[word[start:end]] -> best[start] + math.exp(logp[word[start:end]])
            You add probabilities. Multiply them, which means adding their logs.
        best[start] + logp[word[start:end]] -> best[start] + logp[word[start:end]] * (end - start)
            You count a subword once per letter. It has one log p.
        best, back = [0.0], [0] -> best, back = [1.0], [0]
        best[start] + logp[word[start:end]] -> best[start] * math.exp(logp[word[start:end]])
        default=(-math.inf, 0) -> default=(0.0, 0)
            The product is right, but for a long word it is 0 as a float, for every way. Add logs.
        max(ways, default=(-math.inf, 0)) -> min(ways, default=(-math.inf, 0))
            You look for the least probable way: the larger log p is the one nearer to 0.
        default=(-math.inf, 0) -> default=(0.0, 0)
            A position where no subword ends costs nothing in your code. It must have minus infinity.
        for start in range(end) -> for start in range(max(0, end - 2), end)
            Your subwords have two letters at most. They may begin anywhere before `end`.
        pieces.insert(0, word[back[end] : end]) -> pieces.append(word[back[end] : end])
            Your subwords come in reverse order: put each in front of the others.
        while end: -> while back[end]:
            Your first subword is missing: continue until `end` is 0.
        return pieces -> return best[-1]
            You return the score. Return the subwords that have it.
        return pieces -> return list(word)
            You return letters. Which subwords make up the best segmentation?
        return pieces -> return [piece for piece in pieces if len(piece) > 1]
            You leave out subwords of one letter. All subwords together spell the word.
        return pieces -> return "".join(pieces)
            You return the word as it was. Return its subwords, in a list.
        """),
    ),
)

EXERCISES = [FORWARD, VITERBI]
