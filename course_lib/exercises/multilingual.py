"""Lesson 14, the Unigram language model: the sum over all ways to write a word, and the best way.

The step of EM and a count to mend are in `multilingual_counts.py`, the row of two languages is in
`multilingual_rows.py`, what is asked of the reader in `multilingual_questions.py`.
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
    """A word with places that no piece ends at."""
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


about = partial(Case, tolerance=1e-4)  # who adds up in single precision is right


FORWARD = Exercise(
    title="Forward sums",
    solution=my_forward,
    returns="the log of the summed probability of each beginning of the word, a list of len(word) + 1 floats",
    cases=(
        about(
            word_and_pieces,
            narrowed(
                (lambda given: ("", given["logp"]), "Of an empty word it is wrong: one float, 0.0, the log of 1."),
                (
                    lambda given: (given["word"][:1], given["logp"]),
                    "Of a word of one letter it is wrong: 0.0, and then the letter's own log p.",
                ),
                (
                    lambda given: ("ab", {"a": -1.0, "b": -2.0, "ab": -4.0}),
                    "Of `ab` it is wrong, which is a and b, or ab: log(exp(-1 - 2) + exp(-4)) stands last.",
                ),
                otherwise="Of `ab` it is right. At `end`, add up over every piece that ends there: what leads to its "
                "start, times its own p.",
            ),
            place_by_place,
        ),
        about(gaps, "Where no piece ends at a place it is wrong: no way leads there, minus infinity.", place_by_place),
        about(
            lambda: ("cab", {"a": -1.0, "b": -1.5, "ab": -2.0}),
            "Where the first letter is no piece, no way leads anywhere: 0.0, and minus infinity for all behind it.",
            place_by_place,
        ),
        about(lambda: ("", {"a": -1.0}), "Of an empty word it is wrong: one float, 0.0, the log of 1.", place_by_place),
        about(
            long_word,
            "Of a long word it is wrong: its p is too small for a float. Take the largest log out before exp.",
            place_by_place,
        ),
    ),
    hints=(
        "How is word[:end] written? Its last piece is word[start:end], and before it stands word[:start].",
        "sums[start] + logp[word[start:end]], for each start whose piece is in logp, is the log of one product.",
        "These logs are added as probabilities: log(sum(exp(x) for x in ways)). None at all is -math.inf.",
        "top + log(sum(exp(x - top) for x in ways)), with top = max(ways), is the same and does not underflow.",
    ),
    mistakes=slips("""
        top + math.log(sum(math.exp(way - top) for way in ways)) -> top
            You keep the best way to each place: that is Viterbi. Forward sums add up all of them.
        top + math.log(sum(math.exp(way - top) for way in ways)) -> sum(ways)
            You add logs, which multiplies the ways. Probabilities are added: exp, sum, log.
        top + math.log(sum(math.exp(way - top) for way in ways)) -> math.log(sum(math.exp(way) for way in ways))
            The formula is right, and of a long word exp gives 0, which has no log: take the largest out first.
        top + math.log( -> top - math.log(len(ways)) + math.log(
            You take the mean of the ways. Their probabilities are added.
        sums[start] + logp[word[start:end]] -> logp[word[start:end]]
            You add up the pieces that end at a place, and forget what leads to each: sums[start].
        sums[start] + logp[word[start:end]] -> sums[start]
            You count the ways, each as 1. Each piece has its own p.
        sums[start] + logp[word[start:end]] -> sums[end - 1] + logp[word[start:end]]
            You go on from the place before, however long the piece is: it begins at `start`.
        for start in range(end) -> for start in range(max(0, end - 2), end)
            Your pieces have two letters at most. They may begin at any place before `end`.
        for start in range(end) -> for start in range(1, end)
            No piece of yours begins at the word's first letter: start at 0.
        sums = [0.0] -> sums = [-math.inf]
            Nothing can be written in yours: the empty beginning has probability 1, and its log is 0.0.
        sums.append(-math.inf) -> sums.append(0.0)
            Where no way leads, you have the log of 1. It is minus infinity.
        sums.append(-math.inf) -> sums.append(sums[-1])
            Where no way leads, you take what leads to the place before. It is minus infinity.
        return sums -> return sums[1:]
            You leave out the empty beginning: len(word) + 1 floats, and the first is 0.0.
        return sums -> return sums[-1]
            You return the sum of the whole word. Return those of all its beginnings.
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
    """WordPiece's way: from the left, the longest piece that fits; a letter that fits nothing stands alone."""
    pieces = []
    while word:
        end = next((end for end in range(len(word), 0, -1) if word[:end] in logp), 1)
        pieces.append(word[:end])
        word = word[end:]
    return pieces


def whole_ways():
    """A word whose best way has neither the longest piece first, nor the fewest pieces, nor letters alone."""
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
    title="The most probable segmentation",
    solution=my_viterbi,
    returns="the pieces of the most probable way to write the word, a list of texts",
    cases=(
        Case(
            whole_ways,
            narrowed(
                (
                    lambda given: ("ab", {"a": -1.0, "b": -2.0, "ab": -4.0}),
                    "Of `ab` it is wrong: a and b have -1 - 2, more than ab with -4.",
                ),
                (
                    lambda given: ("ab", {"a": -1.0, "b": -2.0, "ab": -2.5}),
                    "Of `ab` it is wrong: ab has -2.5, more than a and b with -1 - 2.",
                ),
                otherwise="Of `ab` it is right. At each place keep the best score and where its last piece begins; "
                "then go back from the end.",
            ),
        ),
        Case(
            lambda: ("abcab", {"a": -2.5, "b": -1.9, "c": -3.0, "ab": -2.1, "abc": -2.0}),
            "Of `abcab` it is wrong: abc and ab. A piece may have any length, and stand in several places.",
        ),
        Case(lambda: word_and_pieces(7, False), "Of another word it is wrong: do letters that repeat disturb it?"),
        Case(gaps, "Where some places cannot be reached it is wrong: they have minus infinity, and nobody goes there."),
        Case(
            lambda: ("b", {"a": -1.0, "b": -2.0}),
            "Of one letter or of none it is wrong: a list of that letter, and an empty list.",
            and_of_nothing,
        ),
        Case(long_word, "Of a long word it is wrong: add logs, for a product of so many p is 0 as a float."),
    ),
    hints=(
        "The forward sums, with one thing changed: what is kept of several ways that end at one place?",
        "Keep the largest of best[start] + logp[word[start:end]], and in a second list which start it had.",
        "From the end: the last piece is word[back[end]:end]. Then end = back[end], until nothing is left.",
        "The last piece is found first: put each in front of those that you have.",
    ),
    mistakes=(
        (
            longest_first,
            "You take the longest piece that fits, from the left: that is WordPiece. Unigram compares whole ways.",
        ),
        *slips("""
        best[start] + logp[word[start:end]] -> best[start] - 1
            You look for the fewest pieces. Each piece has its log p, and the sum of these is to be largest.
        best[start] + logp[word[start:end]] -> logp[word[start:end]]
            You compare last pieces alone: what leads to them, best[start], counts as much.
        best[start] + logp[word[start:end]] -> best[start] + math.exp(logp[word[start:end]])
            You add probabilities. They are multiplied: add their logs.
        best[start] + logp[word[start:end]] -> best[start] + logp[word[start:end]] * (end - start)
            You count a piece once for each of its letters. It is one piece, with one log p.
        best, back = [0.0], [0] -> best, back = [1.0], [0]
        best[start] + logp[word[start:end]] -> best[start] * math.exp(logp[word[start:end]])
        default=(-math.inf, 0) -> default=(0.0, 0)
            The product is right, and of a long word it is 0 as a float, for every way: add logs.
        max(ways, default=(-math.inf, 0)) -> min(ways, default=(-math.inf, 0))
            You look for the least probable way: a log p nearer to 0 is the larger.
        default=(-math.inf, 0) -> default=(0.0, 0)
            A place that no piece ends at costs nothing in yours: it has minus infinity.
        for start in range(end) -> for start in range(max(0, end - 2), end)
            Your pieces have two letters at most. They may begin at any place before `end`.
        pieces.insert(0, word[back[end] : end]) -> pieces.append(word[back[end] : end])
            Your pieces come from the last to the first: put each in front of the others.
        while end: -> while back[end]:
            Your first piece is missing: go on until `end` is 0.
        return pieces -> return best[-1]
            You return the score. Return the pieces that have it.
        return pieces -> return list(word)
            You return letters. Which pieces make up the best way?
        return pieces -> return [piece for piece in pieces if len(piece) > 1]
            You leave out pieces of one letter: together the pieces are the word.
        return pieces -> return "".join(pieces)
            You return the word as it was: return its pieces, in a list.
        """),
    ),
)

EXERCISES = [FORWARD, VITERBI]
