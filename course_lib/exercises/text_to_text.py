"""Lesson 13, span corruption: spans are replaced by sentinels, the text is put back together, a bug in the numbering.

The notebook holds the broken function word for word, under the name of its exercise. The prefix, the language token
and the loss are in `text_to_text_tasks.py`, the quiz and the open question in `text_to_text_questions.py`.
"""

import random

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import Case, narrowed
from course_lib.exercises.slips import slips

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
    mistakes=slips("""
        [sentinels[k]] + tokens[start:end] -> tokens[start:end] + [sentinels[k]]
            Your sentinel follows its span's tokens. It comes first, so that the model says which span it fills.
        [sentinels[k]] + tokens[start:end] -> tokens[start:end]
            Your target has no sentinels between the spans: nobody can tell where one ends and the next begins.
        + [sentinels[len(spans)]] -> + []
            Your target does not end with one more sentinel, so nothing marks the end of the last span.
        sentinels[len(spans)] -> sentinels[0]
            Your target ends with the first sentinel, which already stands for a span. End it with the next unused one.
        sentinels[k] -> sentinels[0]
            All your spans share one sentinel, so nobody can put the text back together. Span k gets sentinels[k].
        tokens[at:start] + [sentinels[k]] -> tokens[at:start] + [sentinels[k]] * (end - start)
            You put a sentinel for each removed token. One replaces the whole span, so its length is not given away.
        tokens[at:start] + [sentinels[k]] -> tokens[at:start]
            Your source does not show where tokens are missing: that is deletion. Put a sentinel there.
        at = end -> at = start
            The span's tokens are still in your source. Continue after the span, at `end`.
        at = end -> at = end + 1
            You lose the token after each span: `end` is the first position outside it.
        tokens[start:end] -> tokens[start : end + 1]
            Your target has one token too many for each span: `end` is the first position outside it.
        source + tokens[at:] -> source
            Your source loses the tokens after the last span.
        target + [sentinels[len(spans)]] -> tokens
            Your target is the whole text, as in BART. T5 writes only what was removed.
        return source + tokens[at:], target + [sentinels[len(spans)]] -> return target + [sentinels[len(spans)]], source + tokens[at:]
            You return the target first. Return the source, then the target.
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
    mistakes=slips("""
        parts.get(token, []) if token in sentinels else [token] -> parts.get(token, [token])
            A sentinel that the target lacks stays in your text. A model may leave one out; it then stands for nothing.
        parts.get(token, []) -> parts.pop(next(iter(parts)), []) if parts else []
            You fill the gaps in order. The sentinel says which span it is, wherever it comes.
        parts.get(token, []) -> [token] + parts.get(token, [])
            The sentinel itself stays in your text, before what it stands for.
        parts.get(token, []) if token in sentinels -> [] if token in sentinels
            You leave the sentinels out and put nothing in their place.
        parts.get(token, []) -> parts.get(token, [])[:1]
            You insert one token per sentinel. Insert all tokens up to the next sentinel.
        part.append(token) -> part.insert(0, token)
            Your code puts each span's tokens in reverse order.
        part = parts[token] = [] -> part, parts[token] = [], target[target.index(token) + 1 :]
            You insert all the rest of the target. A sentinel stands for the tokens up to the next one.
        for token in target: -> for token in target[:-1]:
            You drop the last token of the target. If that is not a sentinel, a word is lost.
        return text -> return source
            You return the source as it was.
        return text -> return text + part
            You append the last span of the target once more at the end.
        parts, part = {}, [] -> parts, part = {}, None
            Your code fails on tokens before the first sentinel, which belong to no span. Start with an empty list.
        else [token] -> else []
            You keep the removed spans and lose the rest of the source.
    """),
)


def broken_packed(texts, spans, sentinels):
    """texts: lists of ids, one after the other in one row; spans: for each text the (start, end) that are removed.

    Returns the row's source and its target.
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
    """Texts of one row with so many removed spans each, and sentinels."""
    parts = [text(14, n) for n in n_spans]
    return [part[0] for part in parts], [part[1] for part in parts], SENTINELS


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
    mistakes=slips("""
        enumerate(hidden, start=used) -> enumerate(hidden)
            The bug is still there: each text starts with the first sentinel again, so two spans share one.
        used += len(hidden) -> used = len(hidden)
            You count from the previous text alone, so the third text repeats the first one's sentinels. Add up.
        used += len(hidden) -> used += 1
            You advance by one sentinel per text. A text uses as many as it has spans.
        used += len(hidden) -> used += len(hidden) + 1
            You skip a sentinel between two texts. The numbering continues without a gap.
        start=used -> start=used + 1
            Your first span gets the second sentinel, and your last span the one that ends the target.
        sentinels[used] -> sentinels[0]
            Your target ends with the first sentinel, which stands for a span. Take the next unused one.
        + [sentinels[used]] -> + []
            Your target no longer ends with a sentinel.
        [sentinels[k]] + tokens[start:end] -> [sentinels[k - used]] + tokens[start:end]
            Your numbering continues in the source and restarts in the target. Both must agree.
        tokens[at:start] + [sentinels[k]] -> tokens[at:start] + [sentinels[k - used]]
            Your numbering continues in the target and restarts in the source. Both must agree.
        [sentinels[k]] -> [sentinels[k % 2]]
            You alternate between two sentinels. Each span of a row needs its own.
        source += tokens[at:] -> source += tokens[at:] if hidden else []
            You leave out texts that have no span.
        source += tokens[at:] -> source += tokens
            After its last span you append each text once more as a whole. Only tokens[at:] is left of it.
    """),
)

EXERCISES = [CORRUPTED, RESTORED, PACKED]
