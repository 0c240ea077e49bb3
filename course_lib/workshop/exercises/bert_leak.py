"""Lesson 08, a loss of masked words that falls to nothing: hiding a word hides its answer too.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import torch
import torch.nn.functional as F

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.bert import EXACT, VOCAB, exact, hidden, my_masking
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, fresh, same


def broken_words(model, ids, special, mask_id, choice, kind, other):
    """Mean of -log p(the piece that stood there), a number, for texts ids (B, T); the draws are as in exercise 1."""
    chosen = (choice < 0.15) & ~special[ids]  # (B, T)
    read = ids
    read[chosen & (kind < 0.8)] = mask_id
    swapped = chosen & (kind >= 0.8) & (kind < 0.9)
    read[swapped] = other[swapped]
    return F.cross_entropy(model(read)[chosen], ids[chosen])  # model(read): logits (B, T, V)


def mended_words(model, ids, special, mask_id, choice, kind, other):
    chosen = (choice < 0.15) & ~special[ids]  # (B, T)
    read = ids.clone()  # a copy: `read = ids` is a second name for the same numbers
    read[chosen & (kind < 0.8)] = mask_id
    swapped = chosen & (kind >= 0.8) & (kind < 0.9)
    read[swapped] = other[swapped]
    return F.cross_entropy(model(read)[chosen], ids[chosen])  # model(read): logits (B, T, V)


def batch(B=8, T=50, first=0, mask_id=3, scale=1.0, dtype=torch.float64):
    """What a step is given, and the two tables of a small model (V, D), (D, V)."""
    D = 8
    tables = (scale * torch.randn(size) for size in ((VOCAB, D), (D, VOCAB)))
    return (*hidden(B, T, first, mask_id), *(table.to(dtype) for table in tables))


def reader(tokens, out):
    """A model whose places look at their neighbours on both sides: ids (B, T) -> logits (B, T, V)."""

    def model(ids):
        x = tokens[ids]
        return (x + 0.5 * x.roll(1, 1) + 0.5 * x.roll(-1, 1)) @ out

    return model


def loss(answer, *arguments):
    """For `Case.ask`: the loss."""
    *given, tokens, out = arguments
    return answer(reader(tokens, out), *given)


def afterwards(answer, *arguments):
    """For `Case.ask`: the loss, and the texts and draws after the call."""
    return loss(answer, *arguments), *arguments


def gradient(answer, *arguments):
    """For `Case.ask`: the way back to the model's tables."""
    *given, tokens, out = arguments
    found = loss(answer, *given, tokens.requires_grad_(), out.requires_grad_())
    if not getattr(found, "requires_grad", False):
        return [torch.zeros_like(tokens), torch.zeros_like(out)]
    return list(torch.autograd.grad(found, (tokens, out), materialize_grads=True))


def which_part(answer, solution, arguments):
    """Whether it is what the model reads, or what is asked."""
    seen = {answer: [], solution: []}
    for function, calls in seen.items():
        *given, tokens, out = fresh(arguments)
        model = reader(tokens, out)
        function(lambda ids, calls=calls, model=model: calls.append(ids.clone()) or model(ids), *given)
    if not same(seen[answer], seen[solution]):
        return "The model does not read what it should. The way tokens are masked was right, so leave it as it is."
    return "The model reads what it should. The loss is wrong: at which positions, and for which tokens?"


def asking(where):
    """A wrong answer to `mended_words`: the model is asked at where(ids, read, chosen)."""

    def loss(model, ids, *draws):
        read, chosen = my_masking(ids, *draws)
        at = where(ids, read, chosen)
        return F.cross_entropy(model(read)[at], ids[at])

    return loss


def texts_changed(model, ids, *draws):
    loss = mended_words(model, ids, *draws)
    ids.copy_(my_masking(ids, *draws)[0])
    return loss


WORDS = Exercise(
    solution=mended_words,
    in_place=True,  # it must not change its texts; a case says what that would do
    cases=(
        Case(batch, which_part, loss),
        Case(
            batch,
            "The loss is right, and what you were given is not as it was before the call. Leave it as it is.",
            afterwards,
        ),
        Case(lambda: (*exact(), *batch()[-2:]), EXACT, loss),
        Case(lambda: batch(1, 400), OTHER_SIZES, loss),
        Case(lambda: batch(first=20, mask_id=1), "With specials at other ids it is wrong: use `mask_id`.", loss),
        Case(lambda: batch(scale=20.0, dtype=torch.float32), OVERFLOW, loss),
        Case(batch, NO_GRADIENT, gradient),
        Case(lambda: batch(dtype=torch.float32), SINGLE, loss),
    ),
    stub=broken_words,
    mistakes={
        "bug_still_there": broken_words,
        "texts_changed": texts_changed,
        "answers_read": lambda model, ids, *draws: mended_words(lambda read: model(ids), ids, *draws),
        "asked_everywhere": asking(lambda ids, read, chosen: torch.ones_like(chosen)),
        "asked_where_changed": asking(lambda ids, read, chosen: read != ids),
        "probabilities": lambda model, *given: mended_words(lambda read: model(read).softmax(-1), *given),
    },
)

EXERCISES = [WORDS]
