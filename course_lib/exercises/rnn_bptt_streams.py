"""Lesson 01, to be mended: a text cut into chunks that do not go on where the chunks before them stopped."""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.compare import misfit
from course_lib.exercises.probes import Case
from course_lib.exercises.slips import slips


def broken_streams(ids, batch, chunk):
    """Pairs (x, y), each (batch, chunk), in the order in which they are read: ids (N,), y is x one character later."""
    n = (len(ids) - 1) // (batch * chunk)
    used = n * batch * chunk
    x = ids[:used].view(n, batch, chunk)
    y = ids[1 : used + 1].view(n, batch, chunk)
    return list(zip(x, y, strict=True))


def mended_streams(ids, batch, chunk):
    n = (len(ids) - 1) // (batch * chunk)
    used = n * batch * chunk
    x = ids[:used].view(batch, n, chunk).transpose(0, 1)
    y = ids[1 : used + 1].view(batch, n, chunk).transpose(0, 1)
    return list(zip(x, y, strict=True))


def text(n, *sizes):
    """For `Case.draw`: a text of n characters, all different, so that each tells its position."""
    return lambda: (torch.randperm(n), *sizes)


def continued(answer, ids, batch, chunk):
    """For `Case.ask`: the solution's pairs for any rows that go on from chunk to chunk, else what came back.

    Which stretch of the text a row reads is free, as long as no character is read twice.
    """
    pairs = answer(ids, batch, chunk)
    right = mended_streams(ids, batch, chunk)
    if misfit(pairs, right):
        return pairs
    x, y = (torch.cat([ids.argsort()[part.long()] for part in parts], dim=1) for parts in zip(*pairs, strict=True))
    in_order = (x.diff(dim=1) == 1).all() and (y == x + 1).all()  # x and y (batch, n * chunk): positions in the text
    return right if in_order and len(x.unique()) == x.numel() else pairs


STREAMS = Exercise(
    solution=mended_streams,
    cases=(
        Case(
            text(67, 3, 4),
            "In every row a chunk must begin where the chunk before it stopped; y is x one character later, and no "
            "character is read twice.",
            continued,
        ),
        Case(
            text(60, 3, 4),
            "Of 60 characters, 59 have one behind them: that makes four chunks of 3 x 4, not five.",
            continued,
        ),
        Case(
            text(61, 3, 4),
            "61 characters make five chunks of 3 x 4: 60 are read, and the last one is only predicted.",
            continued,
        ),
        Case(text(29, 1, 5), "With a single row it is wrong: its chunks are the text, in order.", continued),
    ),
    stub=broken_streams,
    mistakes=slips("""
        .view(batch, n, chunk).transpose(0, 1) -> .view(n, batch, chunk)
            The bug is still there: row 0 of the second chunk goes on behind the *last* row of the first chunk. Its
            state comes from another part of the text.
        y = ids[1 : used + 1].view(batch, n, chunk).transpose(0, 1) -> y = ids[1 : used + 1].view(n, batch, chunk)
            x goes on as it should, and y does not: it must be cut like x.
        .transpose(0, 1) -> [:]
            The rows are cut well, but you hand out row after row. Hand out the first chunk of every row, then the next.
        ids[1 : used + 1] -> ids[:used]
            y is x itself, so a model that repeats what it reads is always right. y is one character later.
        ids[1 : used + 1] -> torch.cat([ids[:1], ids[: used - 1]])
            y is x one character *earlier*: the model is asked for what it has just read.
        ids[1 : used + 1] -> ids[:used].roll(-1)
            The last target is the first character of the text: roll puts at the end what it takes from the start.
        .view(batch, n, chunk).transpose(0, 1) -> .view(n, chunk, batch).transpose(1, 2)
            Neighbours in your rows are `batch` characters apart in the text. A row reads on, character by character.
        .view(batch, n, chunk).transpose(0, 1) -> .view(batch, chunk, n).permute(2, 0, 1)
            Neighbours in your rows are n characters apart in the text. A row reads on, character by character.
        return list(zip(x, y, strict=True)) -> return [(x, y)]
            You return one pair with all chunks in it. Give one pair for each chunk.
        return list(zip(x, y, strict=True)) -> return list(zip(x, y, strict=True))[:-1]
            The last chunk is lost: it is as good as the others.
        (len(ids) - 1) // (batch * chunk) -> len(ids) // (batch * chunk)
            The last character has nothing behind it: only len(ids) - 1 characters can be read.
    """),
)
EXERCISES = [STREAMS]
