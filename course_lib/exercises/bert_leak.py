"""Lesson 08, a loss of masked words that falls splendidly: it also asks for what the model can read.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import torch
import torch.nn.functional as F

from course_lib.exercises import Exercise
from course_lib.exercises.bert import VOCAB, hidden
from course_lib.exercises.probes import NO_GRADIENT, SINGLE, Case, fresh, same
from course_lib.exercises.slips import slips


def broken_words(model, ids, special, mask_id, choice, kind, other):
    """Mean of -log p(the piece that stood there), a number, for texts ids (B, T); the draws are as in exercise 1."""
    chosen = (choice < 0.15) & ~special[ids]  # (B, T)
    read = torch.where(chosen & (kind < 0.9), other, ids)
    read = torch.where(chosen & (kind < 0.8), mask_id, read)
    answers = ids.masked_fill(special[ids], -100)  # cross_entropy leaves out what is -100
    return F.cross_entropy(model(read).mT, answers)  # model(read): logits (B, T, V)


def mended_words(model, ids, special, mask_id, choice, kind, other):
    chosen = (choice < 0.15) & ~special[ids]  # (B, T)
    read = torch.where(chosen & (kind < 0.9), other, ids)
    read = torch.where(chosen & (kind < 0.8), mask_id, read)
    answers = ids.masked_fill(~chosen, -100)  # cross_entropy leaves out what is -100
    return F.cross_entropy(model(read).mT, answers)  # model(read): logits (B, T, V)


def batch(B=8, T=50, dtype=torch.float64):
    """What a step is given, and the two tables of a small model (V, D), (D, V)."""
    D = 8
    return (*hidden(B, T), torch.randn(VOCAB, D).to(dtype), torch.randn(D, VOCAB).to(dtype))


def reader(tokens, out):
    """A model whose places look at their neighbours on both sides: ids (B, T) -> logits (B, T, V)."""

    def model(ids):
        x = tokens[ids]
        return (x + 0.5 * x.roll(1, 1) + 0.5 * x.roll(-1, 1)) @ out

    return model


def step(answer, *arguments):
    """For `Case.ask`: the loss."""
    *given, tokens, out = arguments
    return answer(reader(tokens, out), *given)


def gradient(answer, *arguments):
    """For `Case.ask`: the way back to the model's tables."""
    *given, tokens, out = arguments
    loss = answer(reader(tokens.requires_grad_(), out.requires_grad_()), *given)
    if not loss.requires_grad:
        return [torch.zeros_like(tokens), torch.zeros_like(out)]
    return list(torch.autograd.grad(loss, (tokens, out)))


def which_text(answer, solution, arguments):
    """Whether one text alone is wrong, and what the right number is."""
    got, right = step(answer, *fresh(arguments)), step(solution, *fresh(arguments))
    alone = (
        *(a[:1] if a.dim() == 2 and len(a) == 8 else a for a in map(torch.as_tensor, arguments[:-2])),
        *arguments[-2:],
    )
    if same(step(answer, *fresh(alone)), step(solution, *fresh(alone))):
        return f"One text alone is right, several are not ({right:.4f}; yours {got:.4f}): all asked pieces count alike."
    return f"Here {right:.4f} is right; yours is {got:.4f}. Which pieces are read, which are asked, and for what?"


WORDS = Exercise(
    lesson="bert",
    title="Find the bug: a loss that falls splendidly",
    solution=mended_words,
    returns="one number, a tensor without dimensions",
    cases=(
        Case(batch, which_text, step),
        Case(lambda: batch(1, 400), "With a single text it is wrong.", step),
        Case(batch, NO_GRADIENT, gradient),
        Case(lambda: batch(dtype=torch.float32), SINGLE, step),
    ),
    stub=broken_words,
    hints=(
        "Take a model that copies what it reads. Which loss does this function give it? Which should it give?",
        "Count the places that are asked: 15 in 100 are chosen. How many answers are not -100?",
        "Most of what is asked stands in `read`, unchanged. There is nothing to guess: the model sees it.",
        "Ask only where a piece is chosen, hidden or not: all others are -100.",
    ),
    mistakes=slips("""
        ~chosen, -100 -> special[ids], -100
            The bug is still there: the loss is asked at every word, and 85 in 100 of them can be read. It falls
            because the model copies.
        ~chosen, -100 -> chosen, -100
            Now the loss is asked only at words that can be read. Asked is where `chosen` is True: fill ~chosen.
        ~chosen, -100 -> read != mask_id, -100
            You ask at [MASK] alone. Then the model need not doubt any word that it reads: ask all chosen ones.
        ~chosen, -100 -> read == ids, -100
            You leave out the chosen words that stay as they are. They are asked too.
        ids.masked_fill -> read.masked_fill
            Your answers are taken from `read`: the model is asked to say [MASK]. What stood there is in `ids`.
        model(read) -> model(ids)
            The places that are asked are right now, but the model reads `ids`, where nothing is hidden.
        ~chosen, -100 -> ~chosen, 0
            You fill with 0, and cross_entropy takes 0 for an answer. It leaves out -100.
        mT, answers) -> mT, answers, reduction="sum")
            You add up. Asked is the mean over the chosen words.
        mT, answers) -> mT, answers, reduction="none").mean()
            You divide by all places. Asked is the mean over the chosen words.
        mT, answers) -> mT, answers, reduction="none").sum(1).div(chosen.sum(1)).mean()
            You take the mean of each text, then of the texts. All chosen words count alike.
        (choice < 0.15) & ~special[ids] -> choice < 0.15
            The places that are asked are chosen now, but specials are among them: leave the first line as it is.
        (kind < 0.8) -> (kind < 1)
            All chosen words become [MASK] in yours. That line was right: 80 in 100, 10 another word, 10 as they are.
        model(read).mT -> model(read).softmax(-1).mT
            You give cross_entropy probabilities. It takes logits, and does the softmax itself.
        choice < 0.15 -> choice < 1
            Now every word is chosen, and little is left to guess from. 15 in 100 are: that line was right.
    """),
)

EXERCISES = [WORDS]
