"""Lesson 03, what training needs: the shifted target and the masked loss. Searching is in `seq2seq_search.py`."""

import torch
import torch.nn.functional as F

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OVERFLOW, SINGLE, Case, pulled, single


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


def along_batch(target, padding):
    return target[:-1].masked_fill(target[1:] == padding, padding), target[1:]


def padding_is_0(target, padding):
    return target[:, :-1].masked_fill(target[:, 1:] == 0, padding), target[:, 1:]


SHIFT = Exercise(
    solution=my_shifted_target,
    cases=(
        Case(targets, "Print both next to the table above: each target stands one position before it is read."),
        Case(lambda: targets(2, 9, 0), "With other ids for padding, start and end it is wrong: use `padding`."),
    ),
    mistakes={
        "end_is_read": lambda target, padding: (target[:, :-1], target[:, 1:]),
        "exchanged": lambda target, padding: my_shifted_target(target, padding)[::-1],
        "not_shifted": lambda target, padding: (target[:, :-1], target[:, :-1]),
        "along_batch": along_batch,
        "padding_is_0": padding_is_0,
    },
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


def mean_of_sentences(logits, target, padding):
    loss = F.cross_entropy(logits.mT, target, ignore_index=padding, reduction="none")  # (B, T)
    return (loss.sum(1) / (target != padding).sum(1)).mean()


def summed(logits, target, padding):
    return F.cross_entropy(logits.mT, target, ignore_index=padding, reduction="sum")


def raw_logits(logits, target, padding):
    return -logits.gather(-1, target[..., None])[..., 0][target != padding].mean()


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
    mistakes={
        "padding_counted": lambda logits, target, padding: F.cross_entropy(logits.mT, target),
        "divided_by_all": lambda logits, target, padding: summed(logits, target, padding) / target.numel(),
        "summed": summed,
        "mean_of_sentences": mean_of_sentences,
        "wrong_sign": lambda logits, target, padding: -my_masked_loss(logits, target, padding),
        "raw_logits": raw_logits,
        "perplexity": lambda logits, target, padding: my_masked_loss(logits, target, padding).exp(),
    },
)


EXERCISES = [SHIFT, LOSS]
