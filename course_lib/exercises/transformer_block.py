"""Lesson 06, what is built around attention: the decoder's mask, the block, and a decoder that peeks.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, narrowed, pulled, tensors
from course_lib.exercises.slips import slips
from course_lib.exercises.transformer import my_attention


def my_mask(target, padding=0):
    T = target.shape[1]
    past = torch.ones(T, T, dtype=torch.bool, device=target.device).tril()  # (T, T): row t looks at 0 ... t
    real = target != padding  # (B, T)
    return past & real[:, None]  # (B, T, T): every row of sentence b has the same real columns


def sentences(padding=0, front=(0, 1, 3), behind=(2, 1, 0)):
    """Ids (B, 6), with so much padding in front of each sentence and behind it; where padding is not 0, 0 is a word."""
    target = torch.randint(1, 20, (len(front), 6))
    if padding:
        target[:, 3] = 0
        target[target == padding] = 1
    place = torch.arange(6)
    real = (place >= torch.tensor(front)[:, None]) & (place < 6 - torch.tensor(behind)[:, None])
    return torch.where(real, target, padding), padding


def asked_of_words(answer, target, padding):
    """For `Case.ask`: the rows of padding are struck out, for nobody reads what padding has seen."""
    mask, right = answer(target, padding), (*target.shape, target.shape[1])
    if not isinstance(mask, torch.Tensor) or mask.shape != right:
        return mask
    return mask.masked_fill((target == padding)[:, :, None], 0)


def whole(given):
    """A step of `narrowed`: no padding."""
    return given["target"].clamp(min=1), given["padding"]


MASK = Exercise(
    solution=my_mask,
    cases=(
        Case(
            sentences,
            narrowed(
                (whole, "Without padding it is wrong already: row t is True at columns 0 to t, itself too, no more."),
                otherwise="Without padding you are right. A column of padding is False in every row of a word, also "
                "where padding stands in front, as in a batch that is about to be continued.",
            ),
            asked_of_words,
        ),
        Case(lambda: sentences(padding=7), "With padding=7, where 0 is a word, it is wrong.", asked_of_words),
        Case(lambda: (torch.tensor([[4, 4]]), 0), "Two words give [[[True, False], [True, True]]].", asked_of_words),
    ),
    mistakes=slips("""
        .tril() -> .tril(-1)
            A word cannot see itself in yours, and the first sees nothing. A place may look at what it has read: u ≤ t.
        .tril() -> .tril(1)
            Each word sees the one after it, which it has to predict: the triangle ends at the diagonal.
        .tril() -> .triu()  # Your words look at themselves and ahead. Row t may look back: u ≤ t.
        .tril() -> .triu(1)
            Your triangle is True for what is hidden, as PyTorch's layers want it. Here True = may be attended to.
        return past & real[:, None] -> return ~(past & real[:, None])
            Your mask is the reverse, True = hidden, as PyTorch's layers want it. Here True = may be attended to.
        target != padding -> target == padding
            You keep the padding and hide the words: True = may be attended to.
        past & real[:, None] -> past.expand(len(target), T, T)
            Only the future is hidden from the words. Padding in front is seen: hide its columns, not its rows.
        past & real[:, None] -> real[:, None].expand(-1, T, -1)
            Only padding is hidden: each word sees those after it, so it can copy what it has to predict.
        past & real[:, None] -> past | real[:, None]
            You join the two with or. Both have to hold: not ahead and no padding, `&`.
        real = target != padding -> real = torch.arange(T) < (target != padding).sum(1, keepdim=True)
            You count the words and hide what stands behind as many places. Padding may stand in front: ask each id.
        target != padding -> target != 0  # You take 0 for padding, whatever `padding` is.
        return past & real[:, None] -> return (past & real[:, None]).float()
            Your mask is made of 1.0 and 0.0. Here a mask is bool: leave out float().
        return past & real[:, None] -> return torch.where(past & real[:, None], 0.0, -torch.inf)
            Yours is a mask to be added, 0 and minus infinity. Here it is bool, True = may be attended to.
    """),
)


def my_block(x, norm_1, attention, norm_2, feed_forward):
    x = x + attention(norm_1(x))
    return x + feed_forward(norm_2(x))


def normed(gain, shift):
    """A layer norm with this gain and shift (D,)."""
    return lambda x: (
        gain * (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt() + shift
    )


def looking(w_q, w_k, w_v):
    """Self-attention with these matrices (D, D), the mask (T, T) left out or handed over."""
    return lambda x, mask=None: my_attention(x @ w_q, x @ w_k, x @ w_v, mask)


def parts(B=3, T=6, D=5, dtype=torch.float64):
    """x (B, T, D) and the four parts of a block, each a function with weights of its own."""
    given = tensors("B T D, D, D, D D, D D, D D, D, D, D D", sizes={"B": B, "T": T, "D": D}, scale=1.0)()
    x, gain_1, shift_1, w_q, w_k, w_v, gain_2, shift_2, w = (a.to(dtype) for a in given)
    return x, normed(gain_1, shift_1), looking(w_q, w_k, w_v), normed(gain_2, shift_2), lambda x: torch.tanh(x @ w)


def nothing(x):
    return torch.zeros_like(x)


BLOCK = Exercise(
    solution=my_block,
    cases=(
        Case(
            parts,
            narrowed(
                (
                    lambda given: (*list(given.values())[:4], nothing),
                    "With a feed_forward that gives zeros it is wrong: then x + attention(norm_1(x)) must come back.",
                ),
                (
                    lambda given: (given["x"], given["norm_1"], nothing, *list(given.values())[3:]),
                    "With an attention that gives zeros it is wrong: then x + feed_forward(norm_2(x)) must come back.",
                ),
                otherwise="Each half alone is right, both are not: the second starts from what the first gives.",
            ),
        ),
        Case(lambda: parts(1, 1, 2), OTHER_SIZES),
        Case(parts, NO_GRADIENT, ask=pulled),
        Case(lambda: parts(dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        x + attention(norm_1(x)) -> norm_1(x + attention(x))
        x + feed_forward(norm_2(x)) -> norm_2(x + feed_forward(x))
            That is the paper's block, the norm after the sum. Asked is the norm before each part: x + f(norm(x)).
        x + attention(norm_1(x)) -> attention(norm_1(x))
        x + feed_forward(norm_2(x)) -> feed_forward(norm_2(x))
            Nothing is added to x: both residuals are missing. The way past the parts is what a deep stack lives by.
        x + attention(norm_1(x)) -> attention(norm_1(x))  # The residual around attention is missing: x + ...
        x + feed_forward(norm_2(x)) -> feed_forward(norm_2(x))  # The residual around feed_forward is missing: x + ...
        norm_2(x) -> norm_1(x)  # You use norm_1 twice. Each norm has a gain and a shift of its own.
        x = x + attention(norm_1(x)) -> x = norm_1(x); x = x + attention(x)
        return x + feed_forward(norm_2(x)) -> x = norm_2(x); return x + feed_forward(x)
            You add to the normed x. The norm is for the part alone: past it goes x as it is.
        x = x + attention(norm_1(x)) -> y = x + attention(norm_1(x))
        feed_forward(norm_2(x)) -> feed_forward(norm_2(y))
            The second sum starts from the x that came in: what attention added to it is lost. Go on from the new x.
        x = x + attention(norm_1(x)) -> y = x + attention(norm_1(x))
        return x + -> return y +
            Both parts read the x that came in. Here the second reads what the first one gave.
        attention(norm_1(x)) -> norm_1(attention(x))
        feed_forward(norm_2(x)) -> norm_2(feed_forward(x))
            Your norm stands behind each part, on what is added. It stands before: f(norm(x)).
        x + attention(norm_1(x)) -> x + feed_forward(norm_2(x))
        return x + feed_forward(norm_2(x)) -> return x + attention(norm_1(x))
            The halves are exchanged: first look, attention, then think, feed_forward.
        attention(norm_1(x)) -> attention(norm_2(x))
        feed_forward(norm_2(x)) -> feed_forward(norm_1(x))
            The norms are exchanged: norm_1 stands before attention, norm_2 before feed_forward.
        norm_1(x) -> x
        norm_2(x) -> x
            There is no norm in yours: x grows from block to block. Each part reads norm(x).
        norm_2(x) -> x  # norm_2 is missing: feed_forward reads norm_2(x).
        attention(norm_1(x)) -> attention(x)  # norm_1 is missing: attention reads norm_1(x).
    """),
)


def broken_decoder(target, memory, embed, self_attention, cross_attention, readout):
    """Logits (B, T, V), one row for each token behind the start: target (B, T + 1), memory (B, S, D)."""
    x = embed(target[:, :-1])  # (B, T, D): the last token is only written, never read
    T = x.shape[1]
    mask = torch.ones(T, T, dtype=torch.bool).tril(diagonal=1)  # (T, T): what each place may look at
    x = x + self_attention(x, mask)
    x = x + cross_attention(x, memory)
    return readout(x)


def mended_decoder(target, memory, embed, self_attention, cross_attention, readout):
    x = embed(target[:, :-1])  # (B, T, D): the last token is only written, never read
    T = x.shape[1]
    mask = torch.ones(T, T, dtype=torch.bool).tril()  # (T, T): each place looks at itself and back
    x = x + self_attention(x, mask)
    x = x + cross_attention(x, memory)
    return readout(x)


def translations(B=3, T=5, D=4, V=7, dtype=torch.float64):
    """Targets (B, T + 1), a memory (B, S, D), and the parts of a decoder, each a function with weights of its own."""
    shapes = "B S D, V D, D D, D D, D D, D D, D D, D V"
    given = tensors(shapes, sizes={"B": B, "S": T + 1, "D": D, "V": V}, scale=1.0)()
    memory, table, w_q, w_k, w_v, w, w_m, out = (a.to(dtype) for a in given)
    target = torch.stack([torch.randperm(V)[: T + 1] for _ in range(B)])  # no token twice: all rows differ
    embed = torch.nn.Embedding.from_pretrained(table)

    def crossed(x, memory):
        return my_attention(x @ w, memory @ w_m, memory)

    return target, memory, embed, looking(w_q, w_k, w_v), crossed, lambda x: x @ out


def earlier_moves(answer, solution, arguments):
    """Whether a later token moves an earlier logit; and if not, what else there is to look at."""
    target, *rest = arguments
    other = target.clone()
    other[:, -2] = (other[:, -2] + 1) % 7
    if not torch.equal(answer(target, *rest)[:, :-1], answer(other, *rest)[:, :-1]):
        return "It peeks: change the last token that is read, and logits before it move. Row t looks at 0 to t only."
    if not torch.equal(answer(target[:, :2], *rest), solution(target[:, :2], *rest)):
        return "Nobody peeks, but with one single place, which looks at itself, the logits are wrong already."
    return "Nobody peeks, and one place is right. With several it is wrong: row t looks at all places from 0 to t."


DECODER = Exercise(
    solution=mended_decoder,
    cases=(
        Case(translations, earlier_moves),
        Case(lambda: translations(1, 1), "With one sentence of one place it is wrong."),
        Case(translations, NO_GRADIENT, ask=pulled),
        Case(lambda: translations(dtype=torch.float32), SINGLE),
    ),
    stub=broken_decoder,
    mistakes=slips("""
        .tril() -> .tril(diagonal=1)
            The bug is still there. At place t the token at t + 1 can be looked at, and that is what t has to name.
            In training the loss falls to nearly nothing; when it writes, that token is not there yet.
        .tril() -> .tril(diagonal=-1)
            Too far: now no place sees itself, and the first one nothing. What it reads is written already.
        .tril() -> .triu()
            You look ahead, at all that comes, and no longer back. Below the diagonal: tril.
        .tril() -> .triu(diagonal=1)
            That is PyTorch's other mask, True for what is hidden. Here True means: may be attended to.
        .ones(T, T, dtype=torch.bool).tril() -> .ones(T, T, dtype=torch.bool)
            Without a triangle each place sees the whole sentence, and so what it has to name.
        .tril() -> .bool() & torch.eye(T, dtype=torch.bool)
            Each place sees itself alone now. Nobody peeks, and nobody knows what was written before.
        target[:, :-1] -> target[:, 1:]
            It reads the very tokens that it has to name: each place sees its answer as its own input.
        embed(target[:, :-1]) -> embed(torch.cat([target[:, :1], target[:, :-2]], dim=1))
        .tril() -> .tril(diagonal=1)
            You moved the input one further instead. Nobody peeks, but each place asks with the token before its own.
        x = x + self_attention(x, mask) -> pass
            Without a look at itself it cannot peek, and cannot know what it has written. Mend the mask.
        x = x + self_attention(x, mask) -> x = self_attention(x, mask)
            The mask is right, but the residual around self_attention is lost: x + ...
        x = x + cross_attention(x, memory) -> pass
            The memory is no longer read: without the source there is nothing to translate.
    """),
)

EXERCISES = [MASK, BLOCK, DECODER]
