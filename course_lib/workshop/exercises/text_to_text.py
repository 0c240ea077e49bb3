"""Lesson 13, span corruption: spans are replaced by sentinels, the text is put back together, a bug in the numbering.

The notebook holds the broken function word for word, under the name of its exercise. The prefix, the language token
and the loss are in `text_to_text_tasks.py`.
"""

import random

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import Case, narrowed

SENTINELS = list(range(100, 120))
SCATTERED = [70, 2, 60, 1, 65, 0, 75, 3]  # some below the ids of a text, some above, in no order
ANY_IDS = "Sentinels may be any ids in any order (T5's count down). Yours are wrong here: span k gets sentinels[k]."


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
    """Ids, spans (start, end) with something between them, and sentinels; ends: the last span ends the text."""
    draw = chance()
    borders = sorted(draw.sample(range(1, n), 2 * n_spans))
    borders[-1:] = [n] if ends and borders else borders[-1:]
    spans = list(zip(borders[::2], borders[1::2], strict=True))
    return [draw.randrange(4, 50) for _ in range(n)], spans, sentinels


def corrupting(hole=lambda mark, span: [mark], part=lambda mark, span: [mark, *span]):
    """A wrong answer to `my_corrupted`: what stands for a span in the source and in the target."""

    def corrupt(tokens, spans, sentinels):
        source, target, at = [], [], 0
        for mark, (start, end) in zip(sentinels, spans, strict=False):
            source += tokens[at:start] + hole(mark, tokens[start:end])
            target += part(mark, tokens[start:end])
            at = end
        return source + tokens[at:], target + [sentinels[len(spans)]]

    return corrupt


def not_ended(tokens, spans, sentinels):
    source, target = my_corrupted(tokens, spans, sentinels)
    return source, target[:-1]


def one_sentinel(tokens, spans, sentinels):
    return my_corrupted(tokens, spans, [sentinels[0]] * len(spans) + [sentinels[len(spans)]])


CORRUPTED = Exercise(
    solution=my_corrupted,
    cases=(
        Case(
            text,
            narrowed(
                (
                    lambda given: (given["tokens"], [], given["sentinels"]),
                    "It is wrong without any span: the source is the text, and the target is the first sentinel.",
                ),
                (
                    lambda given: (given["tokens"], given["spans"][:1], given["sentinels"]),
                    "It is wrong with a single span: one sentinel replaces all of it, and the target holds its tokens.",
                ),
                otherwise="With one span it is right. The second needs a sentinel of its own, and so does the end.",
            ),
        ),
        Case(lambda: text(14, 3, True), "It is wrong where the last span ends the text: no token follows it."),
        Case(
            lambda: (text(5, 1)[0], [(0, 5)], SENTINELS), "If the span is the whole text, the source is one sentinel."
        ),
        Case(lambda: ([], [], SENTINELS), "An empty text has an empty source, and its target is the first sentinel."),
        Case(
            lambda: (text(8)[0], [(0, 2), (2, 3), (5, 8)], SENTINELS),
            "It is wrong where two spans touch or the first one begins the text. Each span has its own sentinel.",
        ),
        Case(lambda: text(sentinels=SCATTERED), ANY_IDS),
    ),
    mistakes={
        "sentinel_behind": corrupting(part=lambda mark, span: [*span, mark]),
        "without_sentinels": corrupting(part=lambda mark, span: span),
        "not_ended": not_ended,
        "one_sentinel": one_sentinel,
        "one_per_token": corrupting(hole=lambda mark, span: [mark] * len(span)),
        "deletion": corrupting(hole=lambda mark, span: []),
        "span_kept": corrupting(hole=lambda mark, span: [mark, *span]),
        "whole_text": lambda tokens, spans, sentinels: (my_corrupted(tokens, spans, sentinels)[0], tokens),
    },
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


def restoring(fill):
    """A wrong answer to `my_restored`: fill(sentinel, {sentinel: its tokens}) stands for a sentinel of the source."""

    def restored(source, target, sentinels):
        parts = {mark: my_restored([mark], target, sentinels) for mark in target if mark in sentinels}
        text = []
        for token in source:
            text += fill(token, parts) if token in sentinels else [token]
        return text

    return restored


RESTORED = Exercise(
    solution=my_restored,
    cases=(
        Case(
            corrupted,
            narrowed(
                (
                    lambda given: (given["source"], [], given["sentinels"]),
                    "It is wrong with an empty target: every sentinel of the source then stands for nothing.",
                ),
                otherwise="With an empty target it is right. Replace each sentinel by all tokens that follow it in the "
                "target, up to the next sentinel.",
            ),
        ),
        Case(lambda: written(turned), "It is wrong if spans come in another order: the sentinel says which is which."),
        Case(lambda: written(lambda target: target[:-1]), "The last span is wrong if no sentinel ends the target."),
        Case(lambda: written(lambda target: []), "A sentinel that the target lacks stands for nothing: leave it out."),
        Case(lambda: written(lambda target: [60, *target]), "Ignore what the target has before its first sentinel."),
        Case(
            lambda: ([100], [100, 5, 101], SENTINELS), "If the source is just one sentinel, the whole text was removed."
        ),
        Case(lambda: written(lambda target: [*target, 60]), "Drop what follows a sentinel that the source lacks."),
        Case(lambda: corrupted(sentinels=SCATTERED), ANY_IDS),
    ),
    mistakes={
        "missing_stays": restoring(lambda mark, parts: parts.get(mark, [mark])),
        "in_order": restoring(lambda mark, parts: parts.pop(next(iter(parts))) if parts else []),
        "sentinel_stays": restoring(lambda mark, parts: [mark, *parts.get(mark, [])]),
        "left_out": restoring(lambda mark, parts: []),
        "first_token": restoring(lambda mark, parts: parts.get(mark, [])[:1]),
        "backwards": restoring(lambda mark, parts: parts.get(mark, [])[::-1]),
        "last_dropped": lambda source, target, sentinels: my_restored(source, target[:-1], sentinels),
    },
)


def broken_packed(texts, spans, sentinels):
    """texts: lists of ids, one after the other in one row; spans: for each text the (start, end) that are removed.

    Returns the row's source and its target.
    """
    source, target, used = [], [], 0
    for tokens, removed in zip(texts, spans, strict=True):
        at = 0
        for k, (start, end) in enumerate(removed):
            source += tokens[at:start] + [sentinels[k]]
            target += [sentinels[k]] + tokens[start:end]
            at = end
        source += tokens[at:]
        used += len(removed)
    return source, target + [sentinels[used]]


def mended_packed(texts, spans, sentinels):
    source, target, used = [], [], 0
    for tokens, removed in zip(texts, spans, strict=True):
        at = 0
        for k, (start, end) in enumerate(removed, start=used):
            source += tokens[at:start] + [sentinels[k]]
            target += [sentinels[k]] + tokens[start:end]
            at = end
        source += tokens[at:]
        used += len(removed)
    return source, target + [sentinels[used]]


def row(*n_spans):
    """Texts of one row with so many removed spans each, and sentinels."""
    parts = [text(14, n) for n in n_spans]
    return [part[0] for part in parts], [part[1] for part in parts], SENTINELS


def counting(further):
    """A wrong answer to `mended_packed`: after a text so many sentinels are used, further(used, its spans)."""

    def packed(texts, spans, sentinels):
        source, target, used = [], [], 0
        for tokens, removed in zip(texts, spans, strict=True):
            more, part = my_corrupted(tokens, removed, sentinels[used:])
            source, target, used = source + more, target + part[:-1], further(used, removed)
        return source, target + [sentinels[used]]

    return packed


def ended_with(end):
    """A wrong answer to `mended_packed`: the target ends with end(sentinels)."""

    def packed(texts, spans, sentinels):
        source, target = mended_packed(texts, spans, sentinels)
        return source, target[:-1] + end(sentinels)

    return packed


PACKED = Exercise(
    solution=mended_packed,
    cases=(
        Case(
            lambda: row(2, 3, 1),
            narrowed(
                (
                    lambda given: (given["texts"][:1], given["spans"][:1], given["sentinels"]),
                    "It is wrong already with one text in the row, which was correct before your change.",
                ),
                otherwise="With one text in the row it is right. With three texts, does a sentinel come twice?",
            ),
        ),
        Case(lambda: row(2, 0, 1), "It is wrong if a text has no span: it stays whole and uses no sentinel."),
        Case(lambda: row(0, 0), "It is wrong without any span: all texts, and only the first sentinel."),
        Case(lambda: row(), "The target of an empty row is the first sentinel."),
        Case(lambda: row(4), "With one text alone it is wrong."),
        Case(lambda: (*row(2, 1, 3)[:2], SCATTERED), ANY_IDS),
    ),
    stub=broken_packed,
    mistakes={
        "bug_still_there": broken_packed,
        "last_text_only": counting(lambda used, removed: len(removed)),
        "one_per_text": counting(lambda used, removed: used + 1),
        "one_skipped": counting(lambda used, removed: used + len(removed) + 1),
        "ended_with_first": ended_with(lambda sentinels: sentinels[:1]),
        "not_ended": ended_with(lambda sentinels: []),
    },
)

EXERCISES = [CORRUPTED, RESTORED, PACKED]
