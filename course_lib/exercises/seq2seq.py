"""Lesson 03, what training needs: the shifted target and the masked loss. Searching is in `seq2seq_search.py`."""

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
    solution=my_shifted_target,
    cases=(
        Case(targets, "Print both next to the table above: each target stands one position before it is read."),
        Case(lambda: targets(2, 9, 0), "With other ids for padding, start and end it is wrong: use `padding`."),
    ),
    mistakes=slips("""
        .masked_fill(target_out == padding, padding) -> .clone()
            Your decoder reads the end of short sentences. Where nothing is left to write, it should read padding.
        return target_in, target_out -> return target_out, target_in
            You return them in the wrong order: first what the decoder reads, then what it writes.
        target_out = target[:, 1:] -> target_out = target[:, :-1]
            You have not shifted anything: the model would learn to copy what it reads. Use target[:, 1:].
        target[:, 1:] -> target[1:]
        target[:, :-1] -> target[:-1]
            You shift along the batch, from one sentence to the next. Time is the second dimension: target[:, 1:].
        target[:, 1:] -> target.roll(-1, dims=1)
        target[:, :-1] -> target
            Your rows are as wide as before, and roll() brings the start round to the end. T + 1 columns must become T.
        return target_in, target_out -> return target_in[:, :-1], target_out[:, :-1]
            You cut off one column too many: the longest sentence loses its end, so nothing teaches it to stop.
        target_out == padding -> target_out == 0  # You assume that padding is 0: use the argument `padding`.
        target_out == padding -> target[:, :-1] == 2
            You look for the end by the id 2. Look for `padding` in what is written instead.
        target_out == padding -> target_out != padding
            Your mask is inverted: it covers the words. Fill the positions where padding is to be written.
        return target_in, target_out -> return target_in[:, 1:], target_out[:, 1:]
            Your decoder does not read the start, so nothing teaches it the first word: keep the first column.
    """),
)


def my_masked_loss(logits, target_out, padding):
    log_p = torch.log_softmax(logits, dim=-1).gather(-1, target_out[..., None])[..., 0]  # (B, T)
    real = target_out != padding
    return -log_p[real].mean()


def batch(padding=6, empty=((0, 2), (1, 4)), scale=2.0):
    """Logits (3, 5, 7) and targets (3, 5): from position t on, sentence b is padding, for (b, t) in `empty`."""
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
    solution=my_masked_loss,
    cases=(
        Case(batch, "The loss is the mean of -log softmax(logits)[target] over real tokens. Which ones do you count?"),
        Case(lambda: batch(padding=0), "When the padding has the id 0 your answer is wrong: compare with `padding`."),
        Case(lambda: batch(scale=1000.0), "Large logits give a wrong result. Use log_softmax, not log(softmax)."),
        Case(zeros, "When the padding is 6, the id 0 is a token like any other: compare with `padding`."),
        Case(batch, NO_GRADIENT, ask=pulled),
        Case(single(batch), SINGLE),
        Case(single(lambda: batch(scale=300.0)), OVERFLOW),
    ),
    mistakes=slips("""
        log_p[real] -> log_p  # You count padding: average over real tokens only.
        log_p[real].mean() -> (log_p * real).mean()  # You divide by B * T: divide by the number of real tokens.
        log_p[real].mean() -> log_p[real].sum()  # This is the sum: divide it by the number of real tokens.
        log_p[real].mean() -> ((log_p * real).sum(1) / real.sum(1)).mean()
            You average each sentence, then the sentences, so tokens of short sentences weigh more than others.
        return -log_p -> return log_p  # The sign is wrong: a loss is minus the mean log-probability.
        torch.log_softmax(logits, dim=-1) -> torch.log2(torch.softmax(logits, dim=-1))
            Your logarithm has base 2, so your loss is in bits. For nats, use the natural logarithm.
        return -log_p[real].mean() -> return (-log_p[real].mean()).exp()  # This is the perplexity: leave out exp.
        torch.log_softmax(logits, dim=-1) -> logits  # You use the raw logits: log_softmax is missing.
        dim=-1 -> dim=1  # Your softmax runs over time: the vocabulary is the last dimension.
        != padding -> == padding  # You average over the padding: invert the mask.
        != padding -> != 6  # You assume that padding is 6: compare with `padding`.
        log_p[real].mean() -> log_p.masked_fill(~real, float("-inf")).mean()
            Leave padding out of the mean instead of making it infinite: pick the real tokens, log_p[real].
    """),
)


EXERCISES = [SHIFT, LOSS]
