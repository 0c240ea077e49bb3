"""Lesson 16, blocks that are used in several layers, replaced words, and a discriminator that sees the answer.

The loss of distillation and quantisation are in `smaller_bert_bits.py`. The notebook holds the broken function word
for word, under the name of its exercise.
"""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, fresh, pulled, same


def my_shared_stack(x, blocks, n_layers):
    for layer in range(n_layers):
        x = blocks[layer * len(blocks) // n_layers](x)  # the first n_layers / G layers use blocks[0]
    return x


def matrices(B=2, T=3, D=4, G=3, n_layers=6, dtype=torch.float64):
    """States (B, T, D), G matrices and their shifts (G, D + 1, D), and the number of layers."""
    return torch.randn(B, T, D).to(dtype), torch.randn(G, D + 1, D).to(dtype), n_layers


def stacked(answer, x, weights, n_layers):
    """For `Case.ask`: the result for blocks that do not commute."""
    return answer(x, [lambda x, w=w: x.cos() + torch.tanh(x @ w[1:] + w[0]) for w in weights], n_layers)


def gradients(answer, *arguments):
    """For `Case.ask`: the gradients of the states and of the matrices of the shared blocks."""
    return pulled(lambda *given: stacked(answer, *given), *arguments)


def which_layer(answer, solution, arguments):
    """The smallest numbers of blocks and layers for which it goes wrong."""
    x, weights, n_layers = arguments
    for (n_blocks, few), said in (
        ((1, 1), "It is wrong even for one block and one layer, which is blocks[0](x)."),
        ((1, 2), "One layer is right, one block in two layers is not: its second use reads the output of its first."),
        ((2, 2), "Two blocks for two layers are wrong: use each once; the second reads the output of the first."),
    ):
        given = (x, weights[:n_blocks], few)
        if not same(stacked(answer, *fresh(given)), stacked(solution, *fresh(given))):
            return said
    return "It is right if each block is used once, but not otherwise: blocks[0] serves the first n_layers / G layers."


def using(which):
    """A wrong answer to `my_shared_stack`: layer number `layer` uses block which(layer, G)."""

    def stack(x, blocks, n_layers):
        for layer in range(n_layers):
            x = blocks[which(layer, len(blocks))](x)
        return x

    return stack


SHARED_STACK = Exercise(
    solution=my_shared_stack,
    cases=(
        Case(matrices, which_layer, stacked),
        Case(lambda: matrices(1, 1, 2, 2, 8), OTHER_SIZES, stacked),
        Case(lambda: matrices(G=1, n_layers=5), "It is wrong with one block: use it n_layers times.", stacked),
        Case(lambda: matrices(G=4, n_layers=4), "It is wrong with as many blocks as layers. Use each once.", stacked),
        Case(matrices, NO_GRADIENT, gradients),
        Case(lambda: matrices(dtype=torch.float32), SINGLE, stacked),
    ),
    mistakes={
        "each_once": lambda x, blocks, n_layers: my_shared_stack(x, blocks, len(blocks)),
        "cycled": using(lambda layer, G: layer % G),
        "first_only": using(lambda layer, G: 0),
        "last_first": lambda x, blocks, n_layers: my_shared_stack(x, blocks[::-1], n_layers),
        "g_layers_each": using(lambda layer, G: layer // G),
        "own_block": using(lambda layer, G: layer),
        "each_reads_x": lambda x, blocks, n_layers: blocks[-1](x),
    },
)


def my_replace(ids, chosen, drawn):
    read = ids.clone()
    read[chosen] = drawn  # the first to the first chosen place, row by row
    return read, read != ids


def drawn_pieces(B=4, T=9, N=12, alike=4, V=90):
    """Tokens (B, T), N chosen positions, and a sampled token for each; `alike` of them are the original token."""
    ids, chosen = torch.randint(V, (B, T)), torch.zeros(B * T, dtype=torch.bool)
    chosen[torch.randperm(B * T)[:N]] = True
    chosen = chosen.view(B, T)
    step = torch.randint(1, V, (N,))
    step[torch.randperm(N)[:alike]] = 0
    return ids, chosen, (ids[chosen] + step) % V


def which_of_both(answer, solution, arguments):
    """Whether the text or the labels are wrong, and where."""
    ids, chosen, _ = arguments
    (read, replaced), (right, truth) = (one(*fresh(arguments)) for one in (answer, solution))
    if not same(read[~chosen], ids[~chosen]):
        return "The text is wrong at positions that were not chosen. There it stays as it is."
    if not same(read, right):
        return "The text is wrong at chosen positions. The sampled tokens go there in order, row by row."
    if not same(replaced[~chosen], truth[~chosen]):
        return "The text is right. Where no position was chosen nothing was replaced: False."
    return "The text is right, but the labels at chosen positions are not. Is there another token than before?"


def with_labels(labels):
    """A wrong answer to `my_replace`: the text is right, labels(replaced, chosen) are not."""

    def replace(ids, chosen, drawn):
        read, replaced = my_replace(ids, chosen, drawn)
        return read, labels(replaced, chosen)

    return replace


def column_by_column(ids, chosen, drawn):
    read = ids.clone()
    read.T[chosen.T] = drawn
    return read, read != ids


REPLACE = Exercise(
    solution=my_replace,
    cases=(
        Case(drawn_pieces, which_of_both),
        Case(lambda: drawn_pieces(1, 1, 1, 0), OTHER_SIZES),
        Case(lambda: drawn_pieces(3, 5, 0, 0), "It is wrong if no position is chosen: the text as it was, all False."),
        Case(lambda: drawn_pieces(2, 4, 8, 3), "It is wrong if every position is chosen."),
        Case(lambda: drawn_pieces(2, 7, 5, 5), "It is wrong if each sample is the original token: all False."),
    ),
    mistakes={
        "chosen_as_labels": with_labels(lambda replaced, chosen: chosen.clone()),
        "inverted": with_labels(lambda replaced, chosen: ~replaced),
        "numbers": with_labels(lambda replaced, chosen: replaced.long()),
        "column_by_column": column_by_column,
        "original_text": lambda ids, chosen, drawn: (ids, my_replace(ids, chosen, drawn)[1]),
        "shifted": lambda ids, chosen, drawn: my_replace(ids, chosen, drawn.roll(1)),
        "masked": lambda ids, chosen, drawn: my_replace(ids, chosen, 0 * drawn),
        "text_only": lambda ids, chosen, drawn: my_replace(ids, chosen, drawn)[0],
    },
)


def broken_replaced(ids, chosen, generator, mask_id):
    """A batch for the discriminator: what it reads (B, T), and which tokens were replaced, booleans (B, T).

    generator(text): a sampled token for every position, (B, T), with new samples in each call.
    """
    read = ids.masked_fill(chosen, mask_id)  # the generator must not see what it is to guess
    drawn = generator(read)
    text = torch.where(chosen, drawn, ids)
    return read, text != ids  # the same token again is not replaced


def mended_replaced(ids, chosen, generator, mask_id):
    read = ids.masked_fill(chosen, mask_id)  # the generator must not see what it is to guess
    drawn = generator(read)
    text = torch.where(chosen, drawn, ids)  # what the discriminator reads holds no [MASK]
    return text, text != ids  # the same token again is not replaced


def hidden_places(B=4, T=20, share=0.4, V=5, mask_id=5):
    """Ids (B, T) of V tokens, the chosen positions, the id of [MASK], which no token has, and the number of tokens."""
    chosen = torch.rand(B, T) < share
    chosen[:, 0] = True
    ids = torch.randint(V, (B, T))
    return ids + (ids >= mask_id), chosen, mask_id, V


def guessing(mask_id, V):
    """A generator that mostly copies its input; it guesses [MASK] from the neighbours, differently in each call."""
    calls = []

    def generator(text):
        calls.append(text)
        beside = text.roll(1, 1) * 3 + text.roll(-1, 1) + torch.arange(text.shape[1]) + len(calls)
        copied = (text - (text > mask_id).long() + (beside % 7 == 0).long()) % V  # id of the token
        drawn = torch.where(text == mask_id, beside % V, copied)
        return drawn + (drawn >= mask_id)

    return generator


def batch_of(answer, ids, chosen, mask_id, V):
    """For `Case.ask`: the batch, with a new generator."""
    return answer(ids, chosen, guessing(mask_id, V), mask_id)


def which_text(answer, solution, arguments):
    """Whether the text of the discriminator is wrong, or the labels."""
    (text, _), (right, _) = (batch_of(one, *fresh(arguments)) for one in (answer, solution))
    if not same(text, right):
        return "The discriminator does not read what it should: the text with the sampled tokens at chosen positions."
    return "It reads what it should. The answers are wrong: they are True where the token differs from `ids`."


def smaller_leak(ids, chosen, generator, mask_id):
    text, replaced = mended_replaced(ids, chosen, generator, mask_id)
    return torch.where(replaced, text, ids.masked_fill(chosen, mask_id)), replaced


def answers_read(ids, chosen, generator, mask_id):
    return mended_replaced(ids, chosen, lambda read: generator(ids), mask_id)


REPLACED = Exercise(
    solution=mended_replaced,
    cases=(
        Case(hidden_places, which_text, batch_of),
        Case(lambda: hidden_places(1, 30), OTHER_SIZES, batch_of),
        Case(lambda: hidden_places(3, 6, 1.0), "It is wrong if every position is chosen.", batch_of),
        Case(lambda: hidden_places(2, 5, 0.0, 1, 1), "With a single token nothing can be replaced.", batch_of),
        Case(
            lambda: hidden_places(mask_id=0),
            "Where [MASK] has another id it is wrong: use the `mask_id` that is passed in, here 0.",
            batch_of,
        ),
    ),
    stub=broken_replaced,
    mistakes={
        "bug_still_there": broken_replaced,
        "smaller_leak": smaller_leak,
        "chosen_as_labels": lambda ids, chosen, *more: (mended_replaced(ids, chosen, *more)[0], chosen.clone()),
        "original_text": lambda ids, *more: (ids, mended_replaced(ids, *more)[1]),
        "answers_read": answers_read,
    },
)

EXERCISES = [SHARED_STACK, REPLACE, REPLACED]
