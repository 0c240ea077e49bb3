"""Lesson 01, to be mended: a text cut into chunks that do not go on where the chunks before them stopped."""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.compare import misfit
from course_lib.workshop.exercises.probes import Case


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


def cut_by(cut):
    """A wrong answer to `mended_streams`: x and y are cut(ids, batch, chunk, n)."""

    def streams(ids, batch, chunk):
        n = (len(ids) - 1) // (batch * chunk)
        used = n * batch * chunk
        return list(zip(cut(ids[:used], batch, chunk, n), cut(ids[1 : used + 1], batch, chunk, n), strict=True))

    return streams


def y_not_cut_alike(ids, batch, chunk):
    both = zip(mended_streams(ids, batch, chunk), broken_streams(ids, batch, chunk), strict=True)
    return [(x, y) for (x, _), (_, y) in both]


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
    mistakes={
        "bug_still_there": broken_streams,
        "y_not_cut_alike": y_not_cut_alike,
        "row_after_row": cut_by(lambda part, batch, chunk, n: part.view(batch, n, chunk)),
        "y_is_x": lambda ids, batch, chunk: [(x, x) for x, _ in mended_streams(ids, batch, chunk)],
        "columns_read": cut_by(lambda part, batch, chunk, n: part.view(n, chunk, batch).transpose(1, 2)),
        "last_chunk_lost": lambda ids, batch, chunk: mended_streams(ids, batch, chunk)[:-1],
    },
)
EXERCISES = [STREAMS]
