"""Lesson 14, how often each subword is used: a step of expectation maximization, and a bug to fix.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import itertools
import math
from functools import partial

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.multilingual import chance, my_forward, parts, scored, seen, spelled
from course_lib.workshop.exercises.probes import Case, is_number, narrowed

NEVER = -600.0  # a log p below this is one of a piece that is never used: some give it the least float as its count


def piece_by_piece(missing):
    """For `Case.ask`: a dict with `missing` for each piece of logp that it lacks: one of no use may be left out."""

    def ask(answer, words, logp):
        made = answer(words, logp)
        if not isinstance(made, dict):
            return made
        made = dict.fromkeys(logp, missing) | made
        return {piece: seen(-math.inf if is_number(p) and p < NEVER else p) for piece, p in made.items()}

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


# Adding up in single precision is accepted.
used = partial(Case, ask=piece_by_piece(-math.inf), tolerance=1e-3)
counted = partial(Case, ask=piece_by_piece(0.0), tolerance=1e-4)


def em_by(
    share=lambda before, p, after, whole: before + p + after - whole,
    value=lambda count, total: math.log(count / total),
):
    """A wrong answer to `my_em_step`: another log of the share of an occurrence, or another value of a count."""

    def step(words, logp):
        counts, backwards = {}, {piece[::-1]: p for piece, p in logp.items()}
        for word, n in words.items():
            before, after = my_forward(word, logp), my_forward(word[::-1], backwards)[::-1]
            for start, end in itertools.combinations(range(len(word) + 1), 2):
                piece = word[start:end]
                if piece in logp:
                    found = share(before[start], logp[piece], after[end], before[-1])
                    counts[piece] = counts.get(piece, 0.0) + n * math.exp(found)
        total = sum(counts.values())
        return {piece: value(count, total) for piece, count in counts.items() if count > 0}

    return step


EM_STEP = Exercise(
    solution=my_em_step,
    cases=(
        used(
            words_and_pieces,
            narrowed(
                (
                    only({"a": 1}, {"a": -1.0}),
                    "It is wrong already for one word, a, and one subword, a: all counts belong to it, so log 1 = 0.",
                ),
                (
                    only({"aab": 1}, {"a": -1.0, "b": -2.0}),
                    "It is wrong for a word with a single segmentation: `aab` uses a twice and b once.",
                ),
                (
                    only({"ab": 1}, {"a": -1.0, "b": -1.0, "ab": -2.0}),
                    "It is wrong if two segmentations are equally probable: a, b and ab each count one half.",
                ),
                (
                    only({"ab": 1}, {"a": -1.0, "b": -2.0, "ab": -2.0}),
                    "It is wrong if one segmentation is more probable: a use counts p(segmentation) / p(word).",
                ),
                otherwise="With one word it is right. Every word has its own p(word), and counts as often as `words` "
                "says.",
            ),
        ),
        used(
            unused,
            "It is wrong for a subword that is never used: its count is 0, so leave it out or give it minus infinity.",
        ),
        used(
            lambda: ({"aaaa": 1}, {"a": -1.0, "aa": -1.5, "aaa": -2.5}),
            "It is wrong where subwords overlap: in `aaaa`, aa occurs three times, and each occurrence counts.",
        ),
        used(
            long_words,
            "It is wrong for a long word: its p is too small for a float. Add and subtract logs, and take exp last.",
        ),
    ),
    mistakes={
        "occurrences": em_by(lambda before, p, after, whole: 0.0),
        "not_divided_by_word": em_by(lambda before, p, after, whole: before + p + after),
        "own_p_only": em_by(lambda before, p, after, whole: p),
        "after_forgotten": em_by(lambda before, p, after, whole: before + p - whole),
        "words_counted_once": lambda words, logp: my_em_step(dict.fromkeys(words, 1), logp),
        "not_normalised": em_by(value=lambda count, total: math.log(count)),
        "probabilities": em_by(value=lambda count, total: count / total),
        "counts": em_by(value=lambda count, total: count),
    },
)


def broken_counts(words, logp):
    """words: how often each occurs; logp: log p of each subword.

    Returns how often each subword is used in all words, on average over their segmentations.
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


def not_divided(words, logp):
    return em_by(lambda before, p, after, whole: before + p + after, lambda count, total: count)(words, logp)


COUNTS = Exercise(
    solution=mended_counts,
    cases=(
        counted(
            words_and_pieces,
            narrowed(
                (
                    only({"abc": 2}, {"a": -1.0, "b": -2.0, "c": -2.0, "ab": -2.0}),
                    "It is wrong even if every subword occurs once in the word, which worked before your change.",
                ),
                (
                    only({"aab": 1}, {"a": -1.0, "b": -2.0}),
                    "The word `aab` has one segmentation with the subwords a and b: a is used twice, and b once.",
                ),
                otherwise="The word `aab` is right. Try a word that has several segmentations.",
            ),
        ),
        counted(
            lambda: ({"aaaaa": 3}, {"a": -1.0, "aa": -1.5, "aaa": -2.5}),
            "It is wrong if a subword overlaps with itself: in `aaaaa`, aa occurs four times.",
        ),
        counted(
            lambda: ({"abc": 4, "cb": 1}, {"a": -1.0, "b": -2.0, "c": -2.5, "ab": -1.5, "bc": -3.0, "zz": -4.0}),
            "It is wrong even if every subword occurs once in the word.",
        ),
        counted(lambda: ({"": 2}, {"a": -1.0}), "An empty word uses no subword."),
    ),
    stub=broken_counts,
    mistakes={
        "bug_still_there": broken_counts,
        "words_counted_once": lambda words, logp: mended_counts(dict.fromkeys(words, 1), logp),
        "not_divided_by_word": not_divided,
    },
)

EXERCISES = [EM_STEP, COUNTS]
