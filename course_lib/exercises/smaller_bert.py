"""Lesson 16, blocks that are used in several layers, words that are replaced; and a discriminator that sees the answer.

The loss of a student and whole numbers for weights are in `smaller_bert_bits.py`, what is asked of the reader in
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
    """For `Case.ask`: what the answer makes of blocks that do not commute."""
    return answer(x, [lambda x, w=w: x.cos() + torch.tanh(x @ w[1:] + w[0]) for w in weights], n_layers)


def gradients(answer, *arguments):
    """For `Case.ask`: the way back to the states and to the matrices of the shared blocks."""
    return pulled(lambda *given: stacked(answer, *given), *arguments)


def which_layer(answer, solution, arguments):
    """With how few blocks and layers it goes wrong already."""
    x, weights, n_layers = arguments
    for (n_blocks, few), said in (
        ((1, 1), "With one block and one layer it is wrong already: blocks[0](x)."),
        ((1, 2), "One layer is right, one block in two layers is not: its second use reads what its first one gave."),
        ((2, 2), "Two blocks for two layers are wrong: each is used once, and the second reads what the first gave."),
    ):
        given = (x, weights[:n_blocks], few)
        if not same(stacked(answer, *fresh(given)), stacked(solution, *fresh(given))):
            return said
    return "Each block once is right, several times each is not: blocks[0] is in the first n_layers / G layers."


SHARED_STACK = Exercise(
    title="Shared blocks",
    solution=my_shared_stack,
    returns="the states behind the last layer, (B, T, D)",
    cases=(
        Case(matrices, which_layer, stacked),
        Case(lambda: matrices(1, 1, 2, 2, 8), OTHER_SIZES, stacked),
        Case(lambda: matrices(G=1, n_layers=5), "With one block for all layers it is wrong: n_layers times.", stacked),
        Case(lambda: matrices(G=4, n_layers=4), "With as many blocks as layers it is wrong: each once.", stacked),
        Case(matrices, NO_GRADIENT, gradients),
        Case(lambda: matrices(dtype=torch.float32), SINGLE, stacked),
    ),
    hints=(
        "How many layers does each of the G blocks stand in? What does each layer read?",
        "A loop over n_layers layers: x = block(x). Which block is that in layer 0, and which in the last one?",
        "Six layers and three blocks are the blocks 0, 0, 1, 1, 2, 2.",
        "In layer number `layer`, from 0, it is blocks[layer * len(blocks) // n_layers].",
    ),
    mistakes=slips("""
        range(n_layers) -> range(0, n_layers, n_layers // len(blocks))
            You use each block once. Each is used in n_layers / G layers, or nothing is shared.
        layer * len(blocks) // n_layers -> layer % len(blocks)
            You go round: 0, 1, 2, 0, 1, 2. The layers of one block follow each other: 0, 0, 1, 1, 2, 2.
        layer * len(blocks) // n_layers -> 0
            You use the first block alone. That is right for G = 1; here there are more.
        layer * len(blocks) // n_layers -> -1
            You use the last block alone. Each has its layers.
        layer * len(blocks) // n_layers -> -1 - layer * len(blocks) // n_layers
            You begin with the last block. blocks[0] is nearest to the tables: it comes first.
        layer * len(blocks) // n_layers -> layer // len(blocks)
            You give each block G layers. Each has n_layers / G of them.
        layer * len(blocks) // n_layers -> round(layer * len(blocks) / n_layers)
            You round to the nearest block, so they have unequal numbers of layers. Round down: //.
        layer * len(blocks) // n_layers -> layer
            There is no such block: they are numbered from 0 to G - 1. In layer number `layer` it is the block
            layer * G // n_layers.
        range(n_layers) -> range(n_layers + 1)
        layer * len(blocks) // n_layers -> min(layer * len(blocks) // n_layers, len(blocks) - 1)
            You have one layer too many.
        range(n_layers) -> range(n_layers - 1)
            You have one layer too few.
        range(n_layers) -> range(n_layers * len(blocks))
        layer * len(blocks) // n_layers -> layer // n_layers
            You use each block n_layers times. All of them together have n_layers layers.
        x = blocks -> y = blocks
        return x -> return y
            Each of your layers reads the x that came in, so the last one alone counts: hand on what each gives.
        x = blocks -> _ = blocks
            You call the blocks and drop what they give: x = block(x).
        x = blocks[layer * len(blocks) // n_layers](x) -> x = sum(block(x) for block in blocks) / len(blocks)
            You take the mean over all blocks in every layer. A layer has one block.
        x = blocks -> x = x + blocks
            You add x once more. A block has its residual sums inside.
    """),
)


def my_replace(ids, chosen, drawn):
    read = ids.clone()
    read[chosen] = drawn  # the first to the first chosen place, row by row
    return read, read != ids


def drawn_pieces(B=4, T=9, N=12, alike=4, V=90):
    """Pieces (B, T), N chosen places, and a draw for each; so many of them are what stood there."""
    ids, chosen = torch.randint(V, (B, T)), torch.zeros(B * T, dtype=torch.bool)
    chosen[torch.randperm(B * T)[:N]] = True
    chosen = chosen.view(B, T)
    step = torch.randint(1, V, (N,))
    step[torch.randperm(N)[:alike]] = 0
    return ids, chosen, (ids[chosen] + step) % V


def which_of_both(answer, solution, arguments):
    """Whether it is the text or the answer, and where."""
    ids, chosen, _ = arguments
    (read, replaced), (right, truth) = (one(*fresh(arguments)) for one in (answer, solution))
    if not same(read[~chosen], ids[~chosen]):
        return "The text is wrong where no place was chosen: there it stays as it is."
    if not same(read, right):
        return "The text is wrong at chosen places: the draws go there in their order, row by row."
    if not same(replaced[~chosen], truth[~chosen]):
        return "The text is right. Where no place was chosen nothing was replaced: False."
    return "The text is right, the answers at chosen places are not. Is there another piece than before?"


REPLACE = Exercise(
    title="Replaced or not",
    solution=my_replace,
    returns="what is read, whole numbers (B, T), and what was replaced, truth values (B, T)",
    cases=(
        Case(drawn_pieces, which_of_both),
        Case(lambda: drawn_pieces(1, 1, 1, 0), OTHER_SIZES),
        Case(lambda: drawn_pieces(3, 5, 0, 0), "Where no place is chosen it is wrong: the text as it was, all False."),
        Case(lambda: drawn_pieces(2, 4, 8, 3), "Where every place is chosen it is wrong."),
        Case(lambda: drawn_pieces(2, 7, 5, 5), "Where each draw is what stood there it is wrong: all False."),
    ),
    hints=(
        "Two things are asked: the text with the draws in it, and where it differs from the one before.",
        "read = ids.clone() is a copy; read[chosen] is its chosen places, row by row.",
        "read[chosen] = drawn puts the draws there. What has changed?",
        "read != ids is True where another piece stands now. A draw of the same piece has changed nothing.",
    ),
    mistakes=slips("""
        return read, read != ids -> return read, chosen.clone()
            You call every chosen place replaced. Where the draw is the piece that stood there the text is as it was:
            nobody could tell, and the answer is False.
        read[chosen] = drawn -> read.T[chosen.T] = drawn
            You put the draws in column by column. They are in the order of ids[chosen]: row by row.
        return read, read != ids -> return read, read == ids
            Yours is True where the text is as it was. Replaced is the opposite.
        return read, read != ids -> return read, chosen & (read == ids)
            You mark the places whose draw is what stood there. Those are the chosen ones that were not replaced.
        return read, read != ids -> return read, drawn != ids[chosen]
            You answer for the chosen places alone. The discriminator is asked at every place: (B, T).
        return read, read != ids -> return read, (read != ids).long()
            Your answers are 0 and 1. Truth values are asked for, as of every mask here.
        return read, read != ids -> return ids, read != ids
            You hand out the text as it was: nothing is replaced in what is read.
        return read, read != ids -> return read != ids, read
            You exchanged the two: the text comes first.
        return read, read != ids -> return read
            You return the text alone. Where it was replaced is asked for too.
        read[chosen] = drawn -> read[chosen] = drawn.roll(1)
            Your draws are one place late: the first belongs to the first chosen place.
        read[chosen] = drawn -> read[chosen] = drawn.flip(0)
            You put the draws in from the end. The first belongs to the first chosen place.
        read[chosen] = drawn -> read[chosen] = drawn.sort().values
            You put the draws in by size. Each belongs to a place of its own.
        read[chosen] = drawn -> read[chosen] += drawn
            You add the number of one piece to that of another. The draw stands there instead.
        read[chosen] = drawn -> read[chosen] = 0
            You write piece 0 into each chosen place. That is hiding: the draws go there.
        read[chosen] = drawn -> read[:] = drawn[:1] if len(drawn) else read
            You write into every place. Where none was chosen the text stays.
    """),
)


def broken_replaced(ids, chosen, generator, mask_id):
    """A batch for the discriminator: what it reads (B, T), and which of it was replaced, truth values (B, T).

    generator(text): a piece for every place, (B, T), each drawn at random, anew in each call.
    """
    read = ids.masked_fill(chosen, mask_id)  # the generator must not see what it is to guess
    drawn = generator(read)
    text = torch.where(chosen, drawn, ids)
    return read, text != ids  # drawn alike is not replaced


def mended_replaced(ids, chosen, generator, mask_id):
    read = ids.masked_fill(chosen, mask_id)  # the generator must not see what it is to guess
    drawn = generator(read)
    text = torch.where(chosen, drawn, ids)  # what the discriminator reads holds no [MASK]
    return text, text != ids  # drawn alike is not replaced


def hidden_places(B=4, T=20, share=0.4, V=5, mask_id=5):
    """Ids (B, T) of V pieces, which places are chosen, the id of [MASK], which no piece has, and how many pieces."""
    chosen = torch.rand(B, T) < share
    chosen[:, 0] = True
    ids = torch.randint(V, (B, T))
    return ids + (ids >= mask_id), chosen, mask_id, V


def guessing(mask_id, V):
    """A generator: mostly it copies what it sees; [MASK] it guesses by what is beside it, another way in each call."""
    calls = []

    def generator(text):
        calls.append(text)
        beside = text.roll(1, 1) * 3 + text.roll(-1, 1) + torch.arange(text.shape[1]) + len(calls)
        copied = (text - (text > mask_id).long() + (beside % 7 == 0).long()) % V  # number of the piece
        drawn = torch.where(text == mask_id, beside % V, copied)
        return drawn + (drawn >= mask_id)

    return generator


def batch_of(answer, ids, chosen, mask_id, V):
    """For `Case.ask`: the batch, by a generator of its own."""
    return answer(ids, chosen, guessing(mask_id, V), mask_id)


def which_text(answer, solution, arguments):
    """Whether it is what the discriminator reads, or what is asked."""
    (text, _), (right, _) = (batch_of(one, *fresh(arguments)) for one in (answer, solution))
    if not same(text, right):
        return "The discriminator does not read what it should: the text, and at chosen places what was drawn."
    return "It reads what it should. The answers are wrong: True where another piece stands than in `ids`."


REPLACED = Exercise(
    title="Find the bug: a discriminator that is right at once",
    solution=mended_replaced,
    returns="what the discriminator reads, whole numbers (B, T), and what was replaced, truth values (B, T)",
    cases=(
        Case(hidden_places, which_text, batch_of),
        Case(lambda: hidden_places(1, 30), OTHER_SIZES, batch_of),
        Case(lambda: hidden_places(3, 6, 1.0), "Where every place is chosen it is wrong.", batch_of),
        Case(lambda: hidden_places(2, 5, 0.0, 1, 1), "With one piece alone nothing can be replaced.", batch_of),
        Case(
            lambda: hidden_places(mask_id=0),
            "Where [MASK] has another id it is wrong: use the `mask_id` that is passed in, here 0.",
            batch_of,
        ),
    ),
    stub=broken_replaced,
    hints=(
        "On random letters nobody can tell which were exchanged. Yet its accuracy is near 1.00. What does it see?",
        "Print both results side by side. Which piece stands where the answer is True?",
        "Two models read here, the generator and the discriminator. May they read the same text?",
        "`text` has the draws in it, and no [MASK]. It is what the discriminator is to read.",
    ),
    mistakes=slips("""
        return text, -> return read,
            The bug is still there: the discriminator reads [MASK] wherever a place was chosen, and has to know no word
            to say "replaced". Accuracy 1.00 after few steps is a warning: some draws fit as well as what stood there.
        return text, -> return torch.where(text != ids, drawn, read),
            Where the draw is what stood there your text still has [MASK], and that says "not replaced" for certain.
            Such a leak is smaller, and still one: no [MASK] at all.
        return text, -> return torch.where(text != ids, mask_id, ids),
            You hide what was replaced, so "is it [MASK]?" is the answer, in all places. The draws stand there instead.
        text != ids -> chosen.clone()
            You call every chosen place replaced. Drawn alike is not replaced. (text != read says the same as yours.)
        text != ids -> text == ids
            Yours is True where the text is as it was. That line was right.
        text != ids -> chosen & (text == ids)
            You mark what was drawn alike. That is what was not replaced.
        return text, text != ids -> return ids, text != ids
            The discriminator reads the text as it was. Nothing is replaced in it, so nothing can be found.
        generator(read) -> generator(ids)
            Now the generator reads the answers, and has only to copy: hardly a piece is replaced.
        torch.where(chosen, drawn, ids) -> torch.where(chosen, ids, drawn)
            You put draws where no place was chosen. Where chosen is True the draw comes in.
        return text, -> return torch.where(chosen, generator(read), ids),
            You let the generator draw twice. The answers belong to one draw, and what is read to the other.
        return text, text != ids -> return text, (text != ids)[chosen]
            You answer for the chosen places alone. The discriminator is asked at every place: (B, T).
        return text, text != ids -> return text, (text != ids).long()
            Your answers are 0 and 1. Truth values are asked for.
    """),
)

EXERCISES = [SHARED_STACK, REPLACE, REPLACED]
