"""Lesson 14, how often each subword is used: a step of expectation maximization, and a bug to fix.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import math
from functools import partial

from course_lib.exercises import Exercise
from course_lib.exercises.multilingual import chance, parts, scored, seen, spelled
from course_lib.exercises.probes import Case, is_number, narrowed
from course_lib.exercises.slips import slips

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


# Adding up in single precision is accepted.
used = partial(Case, ask=piece_by_piece(-math.inf), tolerance=1e-3)
counted = partial(Case, ask=piece_by_piece(0.0), tolerance=1e-4)

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
    mistakes=slips("""
        math.exp(before[start] + logp[piece] + after[end] - before[-1]) -> 1.0
            You count each occurrence as one use. Weight it by how probable the segmentations are that use it.
        + after[end] - before[-1] -> + after[end]
            You do not divide by the p of the word, so improbable words hardly count.
        math.exp(before[start] + logp[piece] + after[end] - before[-1]) -> math.exp(logp[piece])
            You count by the subword's own p. The rest of the word, before and after, has to be written as well.
        + after[end] - -> -
            You leave out the part after the subword: after[end].
        before[start] + logp -> logp
            You leave out the part before the subword: before[start].
        before[start] + logp[piece] + -> before[start] +
            You leave out the subword's own p.
        after[end] -> after[start]
            The part after a subword begins at its end, not at its start.
        + n * share -> + share
            You count each word once. It occurs n times.
        counts.get(piece, 0.0) + n * share -> n * share
            You keep only the last share. Add up a subword's shares over all its occurrences and all words.
        math.log(count / total) -> math.log(count)
            You return the logs of counts. Divide by their sum, so that the probabilities sum to 1.
        math.log(count / total) -> count / total
            You return p. Return its log.
        math.log(count / total) -> count
            You return expected counts, which is half of the step. Now turn them into log p.
        total = sum(counts.values()) -> total = sum(words.values())
            You divide by the number of words. Divide by the sum of the counts, so that the probabilities sum to 1.
        total = sum(counts.values()) -> total = max(counts.values())
            You divide by the largest count. Divide by the sum, so that the probabilities sum to 1.
        math.log(count / total) for -> math.log((count + 1) / (total + len(counts))) for
            You add 1 to each count. Plain maximum likelihood does not smooth.
        for piece, count in counts.items() if count > 0 -> for piece, count in counts.items()
            A subword that is never used has count 0, which has no log. Leave it out.
        top + math.log(sum(math.exp(way - top) for way in ways)) -> top
            Your sums keep only the best way. The expectation is over all ways.
    """),
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
    mistakes=slips("""
        found = {word[i:j] for i, j in arcs} -> found = [word[i:j] for i, j in arcs]
            The bug is still there: a subword that occurs twice is visited twice, and both visits add up both.
        found = {word[i:j] for i, j in arcs} -> found = [word[i:j] for i, j in arcs if word.count(word[i:j]) == 1]
            You leave out subwords that occur more than once. They are used too: visit each once.
        if word[i:j] in logp] -> if word[i:j] in logp and word.find(word[i:j]) == i]
            You keep one arc per subword. The sums over all ways need every arc; the bug comes later.
        for i in range(len(word)) -> for i in [word.find(piece)]
            You count only the first occurrence of a subword. Every occurrence counts, once.
        for i in range(len(word)) -> for i in [word.rfind(piece)]
            You count only the last occurrence of a subword. Every occurrence counts, once.
        found = {word[i:j] for i, j in arcs} -> found = [word[i:j] for i, j in arcs]
        n * share -> n * share / min(2, found.count(piece))
            You halve subwords that occur several times. That is right for two, and wrong for three.
        n * share -> n * share / word.count(piece)
            You average over the occurrences of a subword. Add their shares.
        n * share -> share
            You count each word once. It occurs n times.
        n * share -> n * n * share
            You multiply by n twice.
        / before[-1] -> / 1
            You no longer divide by the p of the word: a share is p(ways with this subword) / p(word).
        counts[piece] += n * share -> counts[piece] = n * share
            You keep only the last share. Add up shares over all occurrences and words.
        counts[piece] += n * share -> counts[piece] = max(counts[piece], n * share)
            You keep the largest share of a subword. Add up shares over all occurrences and words.
        after[i + len(piece)] / -> after[i] /
            The part after a subword begins at its end, i + len(piece).
        found = {word[i:j] for i, j in arcs} -> found = list(logp)[: len(arcs)]
            You visit each subword of the vocabulary once, which would be right, but you stop before the last.
    """),
)

EXERCISES = [EM_STEP, COUNTS]
