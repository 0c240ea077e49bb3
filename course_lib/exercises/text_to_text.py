"""Lesson 13, span corruption: spans give way to sentinels, the text is put together again, and numbers to mend.

The notebook holds the broken function word for word, under the name of its exercise. How a task is asked is in
`text_to_text_tasks.py`, what is asked of the reader in `text_to_text_questions.py`.
"""

import random

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import Case, narrowed
from course_lib.exercises.slips import slips

SENTINELS = list(range(100, 120))
SCATTERED = [70, 2, 60, 1, 65, 0, 75, 3]  # some below the ids of a text, some above, in no order
ANY_IDS = "Sentinels may be any ids in any order (T5's count down), and yours are wrong here: span k gets sentinels[k]."


def my_corrupted(tokens, spans, sentinels):
    source, target, at = [], [], 0
    for k, (start, end) in enumerate(spans):
        source += tokens[at:start] + [sentinels[k]]
        target += [sentinels[k]] + tokens[start:end]
        at = end
    return source + tokens[at:], target + [sentinels[len(spans)]]


def chance():
    """Python's generator, begun by PyTorch's: so each seed of a check draws its own texts."""
    return random.Random(int(torch.randint(2**31, ())))


def text(n=14, n_spans=3, ends=False, sentinels=SENTINELS):
    """Ids, hidden spans (start, end) with something between them, and sentinels; ends: the last span ends the text."""
    draw = chance()
    borders = sorted(draw.sample(range(1, n), 2 * n_spans))
    borders[-1:] = [n] if ends and borders else borders[-1:]
    spans = list(zip(borders[::2], borders[1::2], strict=True))
    return [draw.randrange(4, 50) for _ in range(n)], spans, sentinels


CORRUPTED = Exercise(
    title="Span corruption",
    solution=my_corrupted,
    returns="source and target, two lists of ids",
    cases=(
        Case(
            text,
            narrowed(
                (
                    lambda given: (given["tokens"], [], given["sentinels"]),
                    "With no span at all it is wrong: the source is the text, the target the first sentinel alone.",
                ),
                (
                    lambda given: (given["tokens"], given["spans"][:1], given["sentinels"]),
                    "With one span it is wrong already: one sentinel for all of it, and in the target what it held.",
                ),
                otherwise="With one span it is right. The second has a sentinel of its own, and so has the end.",
            ),
        ),
        Case(lambda: text(14, 3, True), "Where the last span ends the text it is wrong: nothing is left behind it."),
        Case(
            lambda: (text(5, 1)[0], [(0, 5)], SENTINELS), "Where all is hidden it is wrong: the source is a sentinel."
        ),
        Case(lambda: ([], [], SENTINELS), "Of an empty text nothing is left, and its target is the first sentinel."),
        Case(
            lambda: (text(8)[0], [(0, 2), (2, 3), (5, 8)], SENTINELS),
            "Where spans touch it is wrong, or where the first begins the text: each span has a sentinel of its own.",
        ),
        Case(lambda: text(sentinels=SCATTERED), ANY_IDS),
    ),
    hints=(
        "Walk from span to span and keep in mind where you are: three things happen at each.",
        "To the source goes what stands between the last span and this one, and then this one's sentinel.",
        "To the target goes the sentinel, and then what the span held, tokens[start:end]. You are now at `end`.",
        "Behind the last span: the rest of the text to the source, one sentinel more to the target.",
    ),
    mistakes=slips("""
        [sentinels[k]] + tokens[start:end] -> tokens[start:end] + [sentinels[k]]
            Your sentinel stands behind what its span held. It comes first, so that the model says which span it fills.
        [sentinels[k]] + tokens[start:end] -> tokens[start:end]
            Your target has no sentinels between the spans: nobody can tell where one ends and the next begins.
        + [sentinels[len(spans)]] -> + []
            Your target does not end with a sentinel of its own: so the last span has no end.
        sentinels[len(spans)] -> sentinels[0]
            The first sentinel ends your target. Each stands for one thing: the next that is free ends it.
        sentinels[k] -> sentinels[0]
            All your spans have one sentinel, and the text cannot be put together again: number k for span k.
        tokens[at:start] + [sentinels[k]] -> tokens[at:start] + [sentinels[k]] * (end - start)
            You put a sentinel for each hidden token. One stands for the whole span: how long it was is not told.
        tokens[at:start] + [sentinels[k]] -> tokens[at:start]
            Your source does not show where something is missing: that is deletion. A sentinel stands there.
        at = end -> at = start
            What is hidden still stands in your source: go on behind the span, at `end`.
        at = end -> at = end + 1
            You lose the token behind each span: `end` is the first that is not hidden.
        tokens[start:end] -> tokens[start : end + 1]
            Your target has one token too many of each span: `end` is the first that is not hidden.
        source + tokens[at:] -> source
            What stands behind the last span is lost in your source.
        target + [sentinels[len(spans)]] -> tokens
            Your target is the whole text: that is BART's. T5 writes only what was taken out.
        return source + tokens[at:], target + [sentinels[len(spans)]] -> return target + [sentinels[len(spans)]], source + tokens[at:]
            You return the target first: source, then target.
    """),  # noqa: E501
)


def my_restored(source, target, sentinels):
    parts, part = {}, []
    for token in target:
        if token in sentinels:
            part = parts[token] = []
        else:
            part.append(token)
    text = []
    for token in source:
        text += parts.get(token, []) if token in sentinels else [token]
    return text


def corrupted(**how):
    """A text as source and target, and the sentinels."""
    given = text(**how)
    return *my_corrupted(*given), given[2]


def written(change):
    """A source, and what a model might have written: the right target, changed."""
    source, target, sentinels = corrupted()
    return source, change(target), sentinels


def turned(target):
    """Spans in the reverse order, each behind its sentinel."""
    places = [at for at, token in enumerate(target) if token in SENTINELS]
    parts = [target[a:b] for a, b in zip(places, places[1:], strict=False)]
    return [token for part in reversed(parts) for token in part] + target[-1:]


RESTORED = Exercise(
    title="The text put together again",
    solution=my_restored,
    returns="the text, a list of ids",
    cases=(
        Case(
            corrupted,
            narrowed(
                (
                    lambda given: (given["source"], [], given["sentinels"]),
                    "With an empty target it is wrong: every sentinel of the source stands for nothing.",
                ),
                otherwise="With an empty target it is right. Each sentinel gives way to all that the target has behind "
                "the same one, up to the next.",
            ),
        ),
        Case(lambda: written(turned), "Where the spans come in another order it is wrong: the sentinel says which."),
        Case(lambda: written(lambda target: target[:-1]), "Where no sentinel ends the target, the last span is wrong."),
        Case(lambda: written(lambda target: []), "A sentinel that the target lacks stands for nothing: leave it out."),
        Case(lambda: written(lambda target: [60, *target]), "What stands before the first sentinel belongs nowhere."),
        Case(
            lambda: ([100], [100, 5, 101], SENTINELS), "Where the source is one sentinel, all of the text was hidden."
        ),
        Case(lambda: written(lambda target: [*target, 60]), "What follows a sentinel that the source lacks: drop it."),
        Case(lambda: corrupted(sentinels=SCATTERED), ANY_IDS),
    ),
    hints=(
        "Two passes: take the target apart, then walk over the source.",
        "Of the target make a dictionary, from each sentinel to the list of what stands behind it.",
        "part = parts[token] = [] at a sentinel; every other token goes into `part`.",
        "In the source a sentinel becomes parts.get(token, []), every other token itself.",
    ),
    mistakes=slips("""
        parts.get(token, []) if token in sentinels else [token] -> parts.get(token, [token])
            A sentinel that the target lacks stays in your text. A model may leave one out: it stands for nothing.
        parts.get(token, []) -> parts.pop(next(iter(parts)), []) if parts else []
            You fill in by order. The sentinel says which span it is, wherever it comes.
        parts.get(token, []) -> [token] + parts.get(token, [])
            The sentinel itself stays in your text, before what it stands for.
        parts.get(token, []) if token in sentinels -> [] if token in sentinels
            You leave the sentinels out and put nothing in their place.
        parts.get(token, []) -> parts.get(token, [])[:1]
            You put in one token a sentinel. It stands for all up to the next sentinel.
        part.append(token) -> part.insert(0, token)
            What each span held comes out backwards in yours.
        part = parts[token] = [] -> part, parts[token] = [], target[target.index(token) + 1 :]
            You put in all the rest of the target. A sentinel stands for what comes up to the next one.
        for token in target: -> for token in target[:-1]:
            You leave out the last token of the target. Where a sentinel ends it that is harmless, else a word is lost.
        return text -> return source
            You return the source as it was.
        return text -> return text + part
            You put what comes last in the target at the end once more.
        parts, part = {}, [] -> parts, part = {}, None
            There is an error before the first sentinel: what a model writes there belongs to none. Begin with a list.
        else [token] -> else []
            You keep what was hidden and lose the rest of the source.
    """),
)


def broken_packed(texts, spans, sentinels):
    """texts: lists of ids that stand one behind the other in one row; spans: of each text what is hidden, (start, end).

    Gives the row's source and its target.
    """
    source, target, used = [], [], 0
    for tokens, hidden in zip(texts, spans, strict=True):
        at = 0
        for k, (start, end) in enumerate(hidden):
            source += tokens[at:start] + [sentinels[k]]
            target += [sentinels[k]] + tokens[start:end]
            at = end
        source += tokens[at:]
        used += len(hidden)
    return source, target + [sentinels[used]]


def mended_packed(texts, spans, sentinels):
    source, target, used = [], [], 0
    for tokens, hidden in zip(texts, spans, strict=True):
        at = 0
        for k, (start, end) in enumerate(hidden, start=used):
            source += tokens[at:start] + [sentinels[k]]
            target += [sentinels[k]] + tokens[start:end]
            at = end
        source += tokens[at:]
        used += len(hidden)
    return source, target + [sentinels[used]]


def row(*n_spans):
    """Texts of one row with so many hidden spans each, and sentinels."""
    parts = [text(14, n) for n in n_spans]
    return [part[0] for part in parts], [part[1] for part in parts], SENTINELS


PACKED = Exercise(
    title="Find the bug: sentinels that repeat",
    solution=mended_packed,
    returns="source and target of the row, two lists of ids",
    cases=(
        Case(
            lambda: row(2, 3, 1),
            narrowed(
                (
                    lambda given: (given["texts"][:1], given["spans"][:1], given["sentinels"]),
                    "With one text in the row it is wrong already: that worked before you came.",
                ),
                otherwise="With one text in the row it is right. With three, is there a sentinel that comes twice?",
            ),
        ),
        Case(lambda: row(2, 0, 1), "Where a text has no hidden span it is wrong: it stays whole and uses no sentinel."),
        Case(lambda: row(0, 0), "Where nothing is hidden it is wrong: all texts, and the first sentinel alone."),
        Case(lambda: row(), "An empty row has the first sentinel as its target."),
        Case(lambda: row(4), "With one text alone it is wrong."),
        Case(lambda: (*row(2, 1, 3)[:2], SCATTERED), ANY_IDS),
    ),
    stub=broken_packed,
    hints=(
        "Write down source and target of a row of two texts with one hidden span each. Then put the text together.",
        "Which sentinel does the first span of the second text get? Which had the first span of the first?",
        "enumerate counts from 0 for each text anew. How many sentinels are used by then?",
        "enumerate(hidden, start=used) counts on.",
    ),
    mistakes=slips("""
        enumerate(hidden, start=used) -> enumerate(hidden)
            The bug is still there: each text of the row begins with the first sentinel again, so two spans share one.
        used += len(hidden) -> used = len(hidden)
            You count on from the last text alone: the third repeats what the first had. Add up.
        used += len(hidden) -> used += 1
            You go on by one sentinel a text. A text uses as many as it has spans.
        used += len(hidden) -> used += len(hidden) + 1
            You leave out a sentinel between two texts. The row is one: numbers go on without a gap.
        start=used -> start=used + 1
            Your first span has the second sentinel, and the last span the one that ends the target.
        sentinels[used] -> sentinels[0]
            Your target ends with the first sentinel, which stands for a span: take the next that is free.
        + [sentinels[used]] -> + []
            Your target has no sentinel at its end any more.
        [sentinels[k]] + tokens[start:end] -> [sentinels[k - used]] + tokens[start:end]
            Your numbers go on in the source and begin anew in the target: the two must be the same.
        tokens[at:start] + [sentinels[k]] -> tokens[at:start] + [sentinels[k - used]]
            Your numbers go on in the target and begin anew in the source: the two must be the same.
        [sentinels[k]] -> [sentinels[k % 2]]
            Two sentinels take turns in yours. Each span of a row needs its own.
        source += tokens[at:] -> source += tokens[at:] if hidden else []
            A text without a hidden span is left out in yours.
        source += tokens[at:] -> source += tokens
            Behind its last span each text comes whole once more in yours. What is left of it is tokens[at:].
    """),
)

EXERCISES = [CORRUPTED, RESTORED, PACKED]
