"""Lesson 08, a loss of masked words that falls to nothing: hiding a word hides its answer too.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import torch
import torch.nn.functional as F

from course_lib.exercises import Exercise
from course_lib.exercises.bert import EXACT, VOCAB, exact, hidden
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, fresh, same
from course_lib.exercises.slips import slips


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
        return "The model does not read what it should: what each draw makes of a piece was right, leave it as it is."
    return "The model reads what it should. The loss is wrong: which places are asked, and for which pieces?"


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
    mistakes=slips("""
        read = ids.clone() -> read = ids
            The bug is still there: the answers that you ask for stand in `read`, and the model has only to copy. Where
            `read` is another name for `ids`, or shares its numbers as ids[:] does, hiding a word overwrites its answer.
        read = ids.clone() -> read, ids = ids, ids.clone()
            The loss is right, but the caller's texts are changed: read once more, they hold [MASK] for words. Copy
            what you write into.
        model(read) -> model(ids)
            The model reads `ids`, where nothing is hidden: it can copy every answer.
        model(read)[chosen], ids[chosen] -> model(read).flatten(0, 1), ids.flatten()
            You ask at every place. 85 in 100 of them can be read, so the loss is mostly that of copying.
        model(read)[chosen], ids[chosen] -> model(read)[~special[ids]], ids[~special[ids]]
            You ask at every word. 85 in 100 of them can be read, so the loss is mostly that of copying.
        model(read)[chosen], ids[chosen] -> model(read)[read == mask_id], ids[read == mask_id]
            You ask at [MASK] alone. Then the model need not doubt any word that it reads: ask all chosen ones.
        model(read)[chosen], ids[chosen] -> model(read)[read != ids], ids[read != ids]
            You leave out the chosen words that stay as they are. They are asked too.
        ids.clone() -> torch.full_like(ids, mask_id)
            Your `read` begins full of [MASK], so nothing is left to guess from. It begins as a copy of the text.
        ids.clone() -> torch.zeros_like(ids)
            Your `read` begins full of zeros, so nothing is left to guess from. It begins as a copy of the text.
        ids[chosen]) -> ids[chosen], reduction="sum")
            You add up. Asked is the mean over the chosen words.
        (choice < 0.15) & ~special[ids] -> choice < 0.15
            Specials are chosen in yours. That line was right: leave it as it is.
        chosen & (kind < 0.8)] -> chosen]
            What should stay becomes [MASK] in yours. That line was right: 80 in 100, 10 another piece, 10 as they are.
        read[swapped] = other[swapped] -> pass
            No piece is replaced in yours. That line was right: 10 in 100 become another piece.
        model(read)[chosen] -> model(read)[chosen].softmax(-1)
            You give cross_entropy probabilities. It takes logits, and does the softmax itself.
    """),
)

EXERCISES = [WORDS]
