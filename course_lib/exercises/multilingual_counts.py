"""Lesson 14, how often each piece is used: a step of expectation maximization, and a count to mend.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import math
from functools import partial

from course_lib.exercises import Exercise
from course_lib.exercises.multilingual import chance, parts, scored, seen, spelled
from course_lib.exercises.probes import Case, is_number, narrowed
from course_lib.exercises.slips import slips

LESSON = "multilingual"


NEVER = -600.0  # a log p below this is one of a piece that is never used: some give it the least float as its count


class Listed(list):
    """The values of a dict as a list: the order of a dict does not count, and pieces of no use may be missing."""


Listed.__name__ = "dict"  # the sentences of a check call it so


def piece_by_piece(missing):
    """For `Case.ask`: a dict's values in the order of logp's pieces, `missing` where it has none, then all others."""

    def ask(answer, words, logp):
        made = answer(words, logp)
        if isinstance(made, list | tuple):
            return type(type(made).__name__, (), {})()  # an object of this name, for a list would pass for a `Listed`
        if not isinstance(made, dict):
            return made
        values = [made.get(piece, missing) for piece in logp]
        values += [value for piece, value in made.items() if piece not in logp]
        return Listed(seen(-math.inf) if is_number(value) and value < NEVER else value for value in values)

    return ask


def words_and_pieces(n=5):
    """Words with how often each comes, and log p of letters, of a third of what else stands in them."""
    draw = chance()
    often = draw.sample(range(2, 12), 3)  # with the same for all it would make no difference
    words = {spelled(draw, n, letters): m for letters, m in zip(("ab", "bc", "ca"), often, strict=True)}
    more = [piece for piece in dict.fromkeys(piece for word in words for piece in parts(word)) if len(piece) > 1]
    return words, scored(draw, dict.fromkeys([*"abc", *draw.sample(more, len(more) // 3), *[w[:2] for w in words]]))


def unused():
    """One piece stands in no word; of another no way makes use, for what stands before it cannot be written."""
    return {"abc": 3, "cab": 2}, {"ab": -1.0, "c": -1.5, "bc": -1.2, "bb": -2.0}


def long_words():
    """A word so long that its probability is smaller than the smallest float."""
    return {"ab" * 75: 2}, {"a": -12.0, "b": -12.5, "ab": -21.0, "ba": -23.0}


def only(words, logp):
    """Arguments for a simpler call, as `narrowed` wants them."""
    return lambda given: (words, logp)


def my_em_step(words, logp):
    def sums(word, logp):
        found = [0.0]
        for end in range(1, len(word) + 1):
            ways = [found[start] + logp[word[start:end]] for start in range(end) if word[start:end] in logp]
            top = max(ways, default=-math.inf)
            found.append(top if top == -math.inf else top + math.log(sum(math.exp(way - top) for way in ways)))
        return found

    turned = {piece[::-1]: value for piece, value in logp.items()}
    counts = {}
    for word, n in words.items():
        before, after = sums(word, logp), sums(word[::-1], turned)[::-1]
        for end in range(1, len(word) + 1):
            for start in range(end):
                piece = word[start:end]
                if piece in logp:
                    share = math.exp(before[start] + logp[piece] + after[end] - before[-1])
                    counts[piece] = counts.get(piece, 0.0) + n * share
    total = sum(counts.values())
    return {piece: math.log(count / total) for piece, count in counts.items() if count > 0}


# Who adds up in single precision is right.
used = partial(Case, ask=piece_by_piece(-math.inf), tolerance=1e-3)
counted = partial(Case, ask=piece_by_piece(0.0), tolerance=1e-4)

EM_STEP = Exercise(
    lesson=LESSON,
    title="A step of expectation maximization",
    solution=my_em_step,
    returns="a new dict, piece -> log p",
    cases=(
        used(
            words_and_pieces,
            narrowed(
                (
                    only({"a": 1}, {"a": -1.0}),
                    "With one word, a, and one piece, a, it is wrong already: that piece is all there is, log 1 = 0.",
                ),
                (
                    only({"aab": 1}, {"a": -1.0, "b": -2.0}),
                    "Where a word can be written in one way alone it is wrong: `aab` uses a twice and b once.",
                ),
                (
                    only({"ab": 1}, {"a": -1.0, "b": -1.0, "ab": -2.0}),
                    "Where two ways are as probable as each other it is wrong: a, b and ab are used by half.",
                ),
                (
                    only({"ab": 1}, {"a": -1.0, "b": -2.0, "ab": -2.0}),
                    "Where one way is more probable than another it is wrong: a use counts p(way) / p(word).",
                ),
                otherwise="With one word it is right. Every word has its own p(word), and comes so often as `words` "
                "says.",
            ),
        ),
        used(
            unused,
            "A piece that is never used is wrong: its count is 0, so leave it out, or give it minus infinity.",
        ),
        used(
            lambda: ({"aaaa": 1}, {"a": -1.0, "aa": -1.5, "aaa": -2.5}),
            "Where pieces overlap it is wrong: in `aaaa` aa stands in three places, and each place counts by itself.",
        ),
        used(
            long_words,
            "Of a long word it is wrong: its p is too small for a float. Add and subtract logs, and take exp last.",
        ),
    ),
    hints=(
        "A piece from `start` to `end` in a word: which ways make use of it, and what is their p together?",
        "All ways to write what is before it, times its p, times all ways behind it; divided by the p of the word.",
        "Forward sums give `before`, backward sums `after`: forward sums of the word and the pieces turned round.",
        "share = exp(before[start] + logp[piece] + after[end] - before[-1]), times how often the word comes.",
        "Add up the shares of each piece. Its new log p is the log of its count over the sum of all counts.",
    ),
    mistakes=slips("""
        math.exp(before[start] + logp[piece] + after[end] - before[-1]) -> 1.0
            You count each place where a piece stands as one use. It counts by how probable the ways are that use it.
        + after[end] - before[-1] -> + after[end]
            You do not divide by the p of the word: then a word that is improbable hardly counts.
        math.exp(before[start] + logp[piece] + after[end] - before[-1]) -> math.exp(logp[piece])
            You count each place by the piece's own p. What stands before and behind it has to be written as well.
        + after[end] - -> -
            You leave out what stands behind the piece: after[end].
        before[start] + logp -> logp
            You leave out what stands before the piece: before[start].
        before[start] + logp[piece] + -> before[start] +
            You leave out the piece's own p.
        after[end] -> after[start]
            What stands behind a piece begins at its end, not at its start.
        + n * share -> + share
            You count each word once: it comes n times.
        counts.get(piece, 0.0) + n * share -> n * share
            You keep what you found last. A piece's uses are added up over places and words.
        math.log(count / total) -> math.log(count)
            You return the logs of counts: divide by the sum of all, so that the p are 1 together.
        math.log(count / total) -> count / total
            You return p. Return its log.
        math.log(count / total) -> count
            You return expected counts, which is half of the step: now make log p of them.
        total = sum(counts.values()) -> total = sum(words.values())
            You divide by the number of words. Divide by the number of pieces, so that the p are 1 together.
        total = sum(counts.values()) -> total = max(counts.values())
            You divide by the largest count. Divide by the sum, so that the p are 1 together.
        math.log(count / total) for -> math.log((count + 1) / (total + len(counts))) for
            You add 1 to each count: plain maximum likelihood does not smooth.
        for piece, count in counts.items() if count > 0 -> for piece, count in counts.items()
            A piece that is never used has count 0, which has no log: leave it out.
        top + math.log(sum(math.exp(way - top) for way in ways)) -> top
            Your sums keep the best way alone. The expectation is over all ways.
    """),
)


def broken_counts(words, logp):
    """words: how often each comes; logp: log p of each piece.

    Gives how often each piece is used in all words, on average over the ways to write them.
    """
    counts = dict.fromkeys(logp, 0.0)
    for word, n in words.items():
        arcs = [(i, j) for j in range(1, len(word) + 1) for i in range(j) if word[i:j] in logp]
        before, after = [1.0] + [0.0] * len(word), [0.0] * len(word) + [1.0]
        for i, j in arcs:
            before[j] += before[i] * math.exp(logp[word[i:j]])
        for i, j in reversed(arcs):
            after[i] += math.exp(logp[word[i:j]]) * after[j]
        found = [word[i:j] for i, j in arcs]
        for piece in found:
            for i in range(len(word)):
                if word.startswith(piece, i):
                    share = before[i] * math.exp(logp[piece]) * after[i + len(piece)] / before[-1]
                    counts[piece] += n * share
    return counts


def mended_counts(words, logp):
    counts = dict.fromkeys(logp, 0.0)
    for word, n in words.items():
        arcs = [(i, j) for j in range(1, len(word) + 1) for i in range(j) if word[i:j] in logp]
        before, after = [1.0] + [0.0] * len(word), [0.0] * len(word) + [1.0]
        for i, j in arcs:
            before[j] += before[i] * math.exp(logp[word[i:j]])
        for i, j in reversed(arcs):
            after[i] += math.exp(logp[word[i:j]]) * after[j]
        found = {word[i:j] for i, j in arcs}
        for piece in found:
            for i in range(len(word)):
                if word.startswith(piece, i):
                    share = before[i] * math.exp(logp[piece]) * after[i + len(piece)] / before[-1]
                    counts[piece] += n * share
    return counts


COUNTS = Exercise(
    lesson=LESSON,
    title="Find the bug: more letters than the word has",
    solution=mended_counts,
    returns="a dict, piece -> how often it is used",
    cases=(
        counted(
            words_and_pieces,
            narrowed(
                (
                    only({"abc": 2}, {"a": -1.0, "b": -2.0, "c": -2.0, "ab": -2.0}),
                    "Where every piece stands in one place of a word it is wrong: that worked before you came.",
                ),
                (
                    only({"aab": 1}, {"a": -1.0, "b": -2.0}),
                    "The word `aab` has one way with the pieces a and b: a is used twice, and b once.",
                ),
                otherwise="The word `aab` comes out right. Try one that can be written in several ways.",
            ),
        ),
        counted(
            lambda: ({"aaaaa": 3}, {"a": -1.0, "aa": -1.5, "aaa": -2.5}),
            "Where a piece overlaps with itself it is wrong: in `aaaaa` aa stands in four places.",
        ),
        counted(
            lambda: ({"abc": 4, "cb": 1}, {"a": -1.0, "b": -2.0, "c": -2.5, "ab": -1.5, "bc": -3.0, "zz": -4.0}),
            "Where every piece stands in one place of a word it is wrong.",
        ),
        counted(lambda: ({"": 2}, {"a": -1.0}), "An empty word uses no piece."),
    ),
    stub=broken_counts,
    hints=(
        "Add up len(piece) * count over all pieces of one word: it has to be the word's length. For which is it not?",
        "Count by hand for `aab` with the pieces a and b, which has one way. How often is a used, and what comes out?",
        "Which pieces are in `found` for that word? How often does the loop over them come to a?",
        "Each time it comes to a piece, it adds up all places of it. So it has to come to each piece once.",
        "A set holds each piece once: found = {...} in place of [...].",
    ),
    mistakes=slips("""
        found = {word[i:j] for i, j in arcs} -> found = [word[i:j] for i, j in arcs]
            The bug is still there: a piece that stands in two places is found twice, and adds up both each time.
        found = {word[i:j] for i, j in arcs} -> found = [word[i:j] for i, j in arcs if word.count(word[i:j]) == 1]
            You leave out what stands in more than one place. It is used too: visit it once.
        if word[i:j] in logp] -> if word[i:j] in logp and word.find(word[i:j]) == i]
            You keep one place of each piece in the arcs. The sums over all ways need every place; the bug comes later.
        for i in range(len(word)) -> for i in [word.find(piece)]
            You add up the first place of a piece alone. Every place counts, once.
        for i in range(len(word)) -> for i in [word.rfind(piece)]
            You add up the last place of a piece alone. Every place counts, once.
        found = {word[i:j] for i, j in arcs} -> found = [word[i:j] for i, j in arcs]
        n * share -> n * share / min(2, found.count(piece))
            You halve what stands in several places. That is right for two, and wrong for three.
        n * share -> n * share / word.count(piece)
            You take the mean over the places of a piece. Their shares are added.
        n * share -> share
            You count each word once: it comes n times.
        n * share -> n * n * share
            You multiply by n twice.
        / before[-1] -> / 1
            You do not divide by the p of the word any more: a share is p(ways with this piece) / p(word).
        counts[piece] += n * share -> counts[piece] = n * share
            You keep the last place alone. Shares are added up over places and words.
        counts[piece] += n * share -> counts[piece] = max(counts[piece], n * share)
            You keep the largest share of a piece. Shares are added up over places and words.
        after[i + len(piece)] / -> after[i] /
            What stands behind a piece begins at its end, i + len(piece).
        found = {word[i:j] for i, j in arcs} -> found = list(logp)[: len(arcs)]
            You visit each piece of the vocabulary once, which would be right, and stop before the last.
    """),
)

EXERCISES = [EM_STEP, COUNTS]
