"""Lesson 03, what training needs: the shifted target and the masked loss. Searching stands in `seq2seq_search.py`."""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OVERFLOW, SINGLE, Case, pulled, single
from course_lib.exercises.slips import slips


def my_shifted_target(target, padding):
    target_out = target[:, 1:]  # the start is never written
    target_in = target[:, :-1].masked_fill(target_out == padding, padding)  # the end is never read
    return target_in, target_out


def targets(padding=0, start=1, end=2):
    """Target (3, 7): start, a sentence of 5, 2 or 1 tokens, end, padding."""
    target = torch.full((3, 7), padding)
    for row, length in enumerate((5, 2, 1)):
        target[row, : length + 2] = torch.tensor([start, *torch.randint(4, 9, (length,)).tolist(), end])
    return target, padding


SHIFT = Exercise(
    title="The shifted target",
    solution=my_shifted_target,
    returns="two tensors of whole numbers, (B, T) each: what is read, and what is written",
    cases=(
        Case(targets, "Print both beside the table above: each token that is written stands one place earlier."),
        Case(lambda: targets(2, 9, 0), "With other numbers for padding, start and end it is wrong: use `padding`."),
    ),
    hints=(
        "What is written is everything but the first column: target[:, 1:].",
        "What is read is everything but the last column, target[:, :-1]; in short rows an end is still in it.",
        "Where padding is to be written, padding is read: masked_fill(target_out == padding, padding).",
    ),
    mistakes=slips("""
        .masked_fill(target_out == padding, padding) -> .clone()
            In short sentences the end is read in yours. Where nothing is left to be written, read padding.
        return target_in, target_out -> return target_out, target_in
            You return them in the wrong order: first what is read, then what is written.
        target_out = target[:, 1:] -> target_out = target[:, :-1]
            Nothing is shifted in yours: it would learn to copy what it reads. Write target[:, 1:].
        target[:, 1:] -> target[1:]
        target[:, :-1] -> target[:-1]
            You shift along the batch, from sentence to sentence. Time is the second dimension: target[:, 1:].
        target[:, 1:] -> target.roll(-1, dims=1)
        target[:, :-1] -> target
            A row of yours is as wide as before, and the start comes round to its end. T + 1 columns become T.
        return target_in, target_out -> return target_in[:, :-1], target_out[:, :-1]
            You cut off one column too many: the longest sentence loses its end, and never learns to stop.
        target_out == padding -> target_out == 0  # You take 0 for padding whatever the argument says.
        target_out == padding -> target[:, :-1] == 2
            You look for the end by the number 2. Look for padding in what is written: it has an argument.
        target_out == padding -> target_out != padding
            Your mask is upside down: it covers the words. Fill where padding is to be written.
        return target_in, target_out -> return target_in[:, 1:], target_out[:, 1:]
            The start is not read in yours, so nothing teaches the first word: keep the first column.
    """),
)


def my_masked_loss(logits, target_out, padding):
    log_p = torch.log_softmax(logits, dim=-1).gather(-1, target_out[..., None])[..., 0]  # (B, T)
    real = target_out != padding
    return -log_p[real].mean()


def batch(padding=6, empty=((0, 2), (1, 4)), scale=2.0):
    """Logits (3, 5, 7) and targets (3, 5): of sentence b all places from t on are padding, for (b, t) in `empty`."""
    logits, target = scale * torch.randn(3, 5, 7).double(), torch.randint(1, 6, (3, 5))
    for sentence, first in empty:
        target[sentence, first:] = padding
    return logits, target, padding


def zeros():
    """Every second token is the id 0, and the padding is 6."""
    logits, target, padding = batch()
    target[:, ::2] = target[:, ::2].where(target[:, ::2] == padding, 0)
    return logits, target, padding


LOSS = Exercise(
    title="The masked loss",
    solution=my_masked_loss,
    returns="one number, a tensor without dimensions: the mean over all real tokens of the batch",
    cases=(
        Case(batch, "It is the mean of -log softmax(logits)[target] over real tokens: print which of them you count."),
        Case(lambda: batch(padding=0), "Where the padding has the id 0 it is wrong: compare with `padding`."),
        Case(
            lambda: batch(scale=1000.0), "Large logits come out wrong: log_softmax bears them, log(softmax) does not."
        ),
        Case(zeros, "Where the padding is 6, the id 0 is a token like any other: compare with `padding`."),
        Case(batch, NO_GRADIENT, ask=pulled),
        Case(single(batch), SINGLE),
        Case(single(lambda: batch(scale=300.0)), OVERFLOW),
    ),
    hints=(
        "Where is the probability of the right token? log_softmax over the vocabulary, then pick one of each V.",
        "log_p.gather(-1, target_out[..., None])[..., 0] picks it: shape (B, T).",
        "real = target_out != padding; log_p[real] is a flat list of what counts. Its mean, with a minus.",
    ),
    mistakes=slips("""
        log_p[real] -> log_p  # Padding counts in yours: average over real tokens only.
        log_p[real].mean() -> (log_p * real).mean()  # You divide by all B * T places: divide by that of real tokens.
        log_p[real].mean() -> log_p[real].sum()  # This is the sum: divide by the number of real tokens.
        log_p[real].mean() -> ((log_p * real).sum(1) / real.sum(1)).mean()
            You average each sentence, then the sentences: a token of a short one then weighs more. All count the same.
        return -log_p -> return log_p  # The sign: log-probabilities are negative, a loss is minus their mean.
        torch.log_softmax(logits, dim=-1) -> torch.log2(torch.softmax(logits, dim=-1))
            Your logarithm has base 2, so your loss is in bits. Nats ask for the natural logarithm, base e.
        return -log_p[real].mean() -> return (-log_p[real].mean()).exp()  # This is the perplexity. Leave exp out.
        torch.log_softmax(logits, dim=-1) -> logits  # You take the scores as they are: log_softmax is missing.
        dim=-1 -> dim=1  # Your softmax runs over time: the vocabulary is the last dimension.
        != padding -> == padding  # You average over the padding. Turn the mask round.
        != padding -> != 6  # You take 6 for padding whatever the argument says: compare with `padding`.
        log_p[real].mean() -> log_p.masked_fill(~real, float("-inf")).mean()
            A masked place must be left out of the mean, not made infinite: pick the real ones, log_p[real].
    """),
)


EXERCISES = [SHIFT, LOSS]
