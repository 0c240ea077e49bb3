"""Lesson 06, what is built around attention: the decoder's mask, the block, and a decoder that peeks.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, narrowed, pulled, tensors
from course_lib.workshop.exercises.transformer import my_attention


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


def triangle(past):
    """A wrong answer to `my_mask`: the padding is hidden, and past(all True) is not what may be attended to."""

    def mask(target, padding=0):
        T = target.shape[1]
        return past(torch.ones(T, T, dtype=torch.bool)) & (target != padding)[:, None]

    return mask


def triangle_only(target, padding=0):
    B, T = target.shape
    return torch.ones(B, T, T, dtype=torch.bool).tril()


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
    mistakes={
        "itself_hidden": triangle(lambda whole: whole.tril(-1)),
        "next_seen": triangle(lambda whole: whole.tril(1)),
        "ahead": triangle(lambda whole: whole.triu()),
        "reversed": lambda target, padding=0: ~my_mask(target, padding),
        "triangle_only": triangle_only,
        "padding_only": triangle(lambda whole: whole),
        "padding_is_0": lambda target, padding=0: my_mask(target),
        "numbers": lambda target, padding=0: my_mask(target, padding).float(),
    },
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


def post_norm(x, norm_1, attention, norm_2, feed_forward):
    x = norm_1(x + attention(x))
    return norm_2(x + feed_forward(x))


def no_residual_around_attention(x, norm_1, attention, norm_2, feed_forward):
    x = attention(norm_1(x))
    return x + feed_forward(norm_2(x))


def residual_of_normed(x, norm_1, attention, norm_2, feed_forward):
    x = norm_1(x)
    x = norm_2(x + attention(x))
    return x + feed_forward(x)


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
    mistakes={
        "post_norm": post_norm,
        "no_residuals": lambda x, norm_1, f, norm_2, g: g(norm_2(f(norm_1(x)))),
        "no_residual_around_attention": no_residual_around_attention,
        "no_residual_around_feed_forward": lambda x, norm_1, f, norm_2, g: g(norm_2(x + f(norm_1(x)))),
        "norm_1_twice": lambda x, norm_1, f, norm_2, g: my_block(x, norm_1, f, norm_1, g),
        "residual_of_normed": residual_of_normed,
        "both_read_x": lambda x, norm_1, f, norm_2, g: x + f(norm_1(x)) + g(norm_2(x)),
        "no_norms": lambda x, norm_1, f, norm_2, g: my_block(x, lambda y: y, f, lambda y: y, g),
    },
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
        return (
            "It peeks: change the last token that is read, and logits before it change. Row t attends to 0 to t only."
        )
    if not torch.equal(answer(target[:, :2], *rest), solution(target[:, :2], *rest)):
        return "Nothing peeks, but with a single position, which attends to itself, the logits are wrong."
    return "Nothing peeks, and one position is right. With several it is wrong: row t attends to positions 0 to t."


def seeing(mask):
    """A wrong answer to `mended_decoder`: mask(all True) is not the triangle."""

    def decoder(target, memory, embed, self_attention, cross_attention, readout):
        x = embed(target[:, :-1])
        x = x + self_attention(x, mask(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)))
        return readout(x + cross_attention(x, memory))

    return decoder


def reads_answers(target, *parts):
    return mended_decoder(torch.cat([target[:, 1:], target[:, -1:]], dim=1), *parts)


def without_memory(target, memory, embed, self_attention, cross_attention, readout):
    return mended_decoder(target, memory, embed, self_attention, lambda x, memory: 0, readout)


DECODER = Exercise(
    solution=mended_decoder,
    cases=(
        Case(translations, earlier_moves),
        Case(lambda: translations(1, 1), "With one sentence of one position it is wrong."),
        Case(translations, NO_GRADIENT, ask=pulled),
        Case(lambda: translations(dtype=torch.float32), SINGLE),
    ),
    stub=broken_decoder,
    mistakes={
        "bug_still_there": broken_decoder,
        "itself_hidden": seeing(lambda whole: whole.tril(-1)),
        "ahead": seeing(lambda whole: whole.triu()),
        "reversed": seeing(lambda whole: whole.triu(1)),
        "nothing_hidden": seeing(lambda whole: whole),
        "reads_answers": reads_answers,
        "without_memory": without_memory,
    },
)

EXERCISES = [MASK, BLOCK, DECODER]
