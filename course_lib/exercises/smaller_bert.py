"""Lesson 16, blocks that are used in several layers, replaced words, and a discriminator that sees the answer.

The loss of distillation and quantisation are in `smaller_bert_bits.py`, the questions in
`smaller_bert_questions.py`. The notebook holds the broken function word for word, under the name of its exercise.
"""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, fresh, pulled, same
from course_lib.exercises.slips import slips


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
    mistakes=slips("""
        range(n_layers) -> range(0, n_layers, n_layers // len(blocks))
            You use each block once, so nothing is shared. Use each in n_layers / G layers.
        layer * len(blocks) // n_layers -> layer % len(blocks)
            You cycle: 0, 1, 2, 0, 1, 2. The layers of one block are consecutive: 0, 0, 1, 1, 2, 2.
        layer * len(blocks) // n_layers -> 0
            You use only the first block. That is right for G = 1, but here there are more.
        layer * len(blocks) // n_layers -> -1
            You use only the last block. Each block has its own layers.
        layer * len(blocks) // n_layers -> -1 - layer * len(blocks) // n_layers
            You begin with the last block. blocks[0] is next to the embeddings, so it comes first.
        layer * len(blocks) // n_layers -> layer // len(blocks)
            You give each block G layers. Give each n_layers / G layers.
        layer * len(blocks) // n_layers -> round(layer * len(blocks) / n_layers)
            You round to the nearest block, which gives the blocks unequal numbers of layers. Round down: //.
        layer * len(blocks) // n_layers -> layer
            There is no such block: they are numbered from 0 to G - 1. Layer number `layer` uses block
            layer * G // n_layers.
        range(n_layers) -> range(n_layers + 1)
        layer * len(blocks) // n_layers -> min(layer * len(blocks) // n_layers, len(blocks) - 1)
            You have one layer too many.
        range(n_layers) -> range(n_layers - 1)
            You have one layer too few.
        range(n_layers) -> range(n_layers * len(blocks))
        layer * len(blocks) // n_layers -> layer // n_layers
            You use each block n_layers times. All blocks together have n_layers layers.
        x = blocks -> y = blocks
        return x -> return y
            Each of your layers reads the original x, so only the last layer counts. Pass on the output of each layer.
        x = blocks -> _ = blocks
            You call the blocks and drop their output. Write x = block(x).
        x = blocks[layer * len(blocks) // n_layers](x) -> x = sum(block(x) for block in blocks) / len(blocks)
            You average over all blocks in every layer. A layer uses one block.
        x = blocks -> x = x + blocks
            You add x once more. A block already has its residual connections inside.
    """),
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


REPLACE = Exercise(
    solution=my_replace,
    cases=(
        Case(drawn_pieces, which_of_both),
        Case(lambda: drawn_pieces(1, 1, 1, 0), OTHER_SIZES),
        Case(lambda: drawn_pieces(3, 5, 0, 0), "It is wrong if no position is chosen: the text as it was, all False."),
        Case(lambda: drawn_pieces(2, 4, 8, 3), "It is wrong if every position is chosen."),
        Case(lambda: drawn_pieces(2, 7, 5, 5), "It is wrong if each sample is the original token: all False."),
    ),
    mistakes=slips("""
        return read, read != ids -> return read, chosen.clone()
            You call every chosen position replaced. If the sample is the original token, the text is unchanged and
            nobody could tell, so the label is False.
        read[chosen] = drawn -> read.T[chosen.T] = drawn
            You insert the samples column by column. They are in the order of ids[chosen]: row by row.
        return read, read != ids -> return read, read == ids
            Your labels are True where the text is unchanged. Replaced is the opposite.
        return read, read != ids -> return read, chosen & (read == ids)
            You label the positions whose sample is the original token. Those were chosen but not replaced.
        return read, read != ids -> return read, drawn != ids[chosen]
            You label only the chosen positions. The discriminator is asked at every position: (B, T).
        return read, read != ids -> return read, (read != ids).long()
            Your labels are 0 and 1. The exercise asks for booleans, like every mask in this course.
        return read, read != ids -> return ids, read != ids
            You return the original text, in which nothing is replaced.
        return read, read != ids -> return read != ids, read
            You swapped the two results. The text comes first.
        return read, read != ids -> return read
            You return only the text. Return where it was replaced, too.
        read[chosen] = drawn -> read[chosen] = drawn.roll(1)
            Your samples are shifted by one position. The first belongs to the first chosen position.
        read[chosen] = drawn -> read[chosen] = drawn.flip(0)
            You insert the samples in reverse order. The first belongs to the first chosen position.
        read[chosen] = drawn -> read[chosen] = drawn.sort().values
            You sort the samples. Each belongs to its own position.
        read[chosen] = drawn -> read[chosen] += drawn
            You add the id of one token to that of another. The sample replaces the original token.
        read[chosen] = drawn -> read[chosen] = 0
            You write token 0 at each chosen position, which is masking. Put the samples there.
        read[chosen] = drawn -> read[:] = drawn[:1] if len(drawn) else read
            You write at every position. Where nothing was chosen, the text stays as it is.
    """),
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
    mistakes=slips("""
        return text, -> return read,
            The bug is still there: the discriminator reads [MASK] at every chosen position and can say "replaced"
            without knowing a word. Accuracy 1.00 after a few steps is a warning: some samples fit as well as the
            original.
        return text, -> return torch.where(text != ids, drawn, read),
            Where the sample is the original token, your text still has [MASK], which gives away "not replaced". That is
            a smaller leak, but still a leak. There must be no [MASK] at all.
        return text, -> return torch.where(text != ids, mask_id, ids),
            You mask what was replaced, so "is it [MASK]?" is the answer everywhere. Put the samples there instead.
        text != ids -> chosen.clone()
            You call every chosen position replaced. The same token again is not replaced. (text != read has the same
            fault.)
        text != ids -> text == ids
            Your labels are True where the text is unchanged. That line was right before.
        text != ids -> chosen & (text == ids)
            You label the positions where the sample is the original token. Those were not replaced.
        return text, text != ids -> return ids, text != ids
            The discriminator reads the original text. Nothing is replaced in it, so there is nothing to find.
        generator(read) -> generator(ids)
            Now the generator reads the answers and only has to copy them, so hardly a token is replaced.
        torch.where(chosen, drawn, ids) -> torch.where(chosen, ids, drawn)
            You put samples at positions that were not chosen. They belong where chosen is True.
        return text, -> return torch.where(chosen, generator(read), ids),
            You let the generator sample twice. The labels belong to one sample, and the text to the other.
        return text, text != ids -> return text, (text != ids)[chosen]
            You return labels for the chosen positions only. The discriminator is asked at every position: (B, T).
        return text, text != ids -> return text, (text != ids).long()
            Your labels are 0 and 1. The exercise asks for booleans.
    """),
)

EXERCISES = [SHARED_STACK, REPLACE, REPLACED]
