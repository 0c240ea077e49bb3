"""Lesson 08, what is read out: the head that fills a blank, the best span of a text, a mix of all layers."""

import torch
import torch.nn.functional as F

from course_lib.exercises import Exercise
from course_lib.exercises.probes import (
    LARGE,
    NO_GRADIENT,
    OTHER_SIZES,
    OVERFLOW,
    SINGLE,
    Case,
    narrowed,
    pulled,
    tensors,
)
from course_lib.exercises.slips import slips


def my_fill(states, places, table, w, b, gain, shift, bias):
    h = states.flatten(0, 1)[places]  # (N, D): what stands at the places that are asked
    h = F.gelu(h @ w + b)
    h = F.layer_norm(h, h.shape[-1:], gain, shift, 1e-12)
    return h @ table.T + bias  # (N, V)


def asked(B=3, T=7, N=5, D=16, V=9, dtype=torch.float64):
    """States (B, T, D), places (N,) of B * T, and the weights; large enough that the norm's eps does not count."""
    sizes = {"B": B, "T": T, "D": D, "V": V}
    states, table, w, *rest = tensors("B T D, V D, D D, D, D, D, V", sizes=sizes, scale=1.0)()
    places = torch.randperm(B * T)[:N]
    return tuple(a if a.dtype == torch.long else a.to(dtype) for a in (3 * states, places, table, 4 * w, *rest))


def plain(*names: str):
    """A step of `narrowed`: these weights do nothing; gain is 1 and all others are 0."""
    neutral = {"gain": torch.ones_like}
    return lambda given: tuple(
        neutral.get(name, torch.zeros_like)(a) if name in names else a for name, a in given.items()
    )


def each(answer, *given):
    """For `Case.ask`: what it gives for each of several calls."""
    return [answer(*arguments) for arguments in given]


FILL = Exercise(
    solution=my_fill,
    cases=(
        Case(
            asked,
            narrowed(
                (
                    plain("b", "gain", "shift", "bias"),
                    "Without biases, gain and shift it is wrong already: gelu(h w), "
                    "the norm of each row, then times the table of tokens, turned.",
                ),
                (plain("b", "gain", "shift"), "With the last bias it goes wrong: one number for each piece, (V,)."),
                (plain("gain", "shift"), "With the bias `b` it goes wrong: it is added before gelu."),
                otherwise="With gain and shift it goes wrong: the normalised row times `gain`, plus `shift`.",
            ),
        ),
        Case(lambda: asked(1, 1, 1, 12, 3), OTHER_SIZES),
        Case(lambda: (asked(N=0), asked(N=1)), "Where no place is asked, give logits (0, V).", each),
        Case(asked, NO_GRADIENT, pulled),
        Case(lambda: asked(dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        F.gelu(h @ w + b) -> h @ w + b
            gelu is missing: the head has a bend of its own between its matrix and the table.
        F.gelu(h @ w + b) -> F.relu(h @ w + b)
            You bend with relu. BERT's is gelu, which does not cut off at 0.
        F.gelu(h @ w + b) -> F.gelu(h @ w + b, approximate="tanh")
            You use the approximate gelu, with a tanh, as GPT-2 does. BERT's is the exact one: F.gelu(x).
        F.gelu(h @ w + b) -> torch.tanh(h @ w + b)
            You bend with tanh. That is the pooler, behind [CLS]; this head has gelu.
        h @ w + b -> h @ w.T + b
            Your matrix is turned. Here w stands on the right, as in h @ w.
        F.gelu(h @ w + b) -> F.gelu(h @ w)
            `b` is left out: h @ w + b, then gelu.
        h = F.layer_norm(h, h.shape[-1:], gain, shift, 1e-12) -> pass
            The norm is missing: between gelu and the table each row is normalised, with gain and shift.
        h = F.gelu(h @ w + b) -> pass
        return h @ -> h = F.gelu(h @ w + b); return h @
            You normalise first and bend afterwards. Here gelu(h w + b) comes first, then the norm.
        gain, shift, 1e-12 -> shift, gain, 1e-12
            Gain and shift are exchanged: the normalised row is multiplied by `gain`, then `shift` is added.
        gain, shift, 1e-12 -> None, None, 1e-12
            Gain and shift are left out: normalised row * gain + shift.
        F.layer_norm(h, h.shape[-1:], gain, shift, 1e-12) -> normal * gain + shift
        normal -> (h - h.mean(-1, True)) / h.std(-1, keepdim=True)
            Your norm divides by the deviation of a sample, with D - 1. It is the root of the mean square: D.
        F.gelu(h @ w + b) -> h + F.gelu(h @ w + b)
            You add the state once more. A block has a residual, this head has none.
        + bias -> + 0
            The last bias is missing: one number for each piece, so that frequent ones begin with more.
        return h @ table.T + bias -> return (h @ table.T + bias).softmax(dim=-1)
            You return probabilities. Asked are logits, for cross_entropy does the softmax itself.
        states.flatten(0, 1)[places] -> states.flatten(0, 1)
            You read out every place. Only those in `places` are asked: 15 in 100 of the work.
        states.flatten(0, 1)[places] -> states.transpose(0, 1).flatten(0, 1)[places]
            You count the places column by column. They are counted row by row: row b, place t is b * T + t.
    """),
)


def my_span(start, end, longest):
    T = start.shape[1]
    scores = start[:, :, None] + end[:, None]  # (B, T, T): an answer from i (down) to j (across)
    allowed = torch.ones(T, T, dtype=torch.bool).triu().tril(longest - 1)  # i <= j < i + longest
    best = scores.masked_fill(~allowed, -torch.inf).flatten(1).argmax(dim=1)  # (B,)
    return torch.stack([best // T, best % T], dim=1)


def ends(B=40, T=12, longest=4, dtype=torch.float64):
    """Scores of each place as the first and as the last of an answer, (B, T) each."""
    return (*(torch.randn(B, T).to(dtype) for _ in range(2)), longest)


def behind_padding():
    """Scores where the last places are padding, given minus infinity as a `SpanFinder` does."""
    start, end, longest = ends(T=14)
    for b in range(len(start)):
        start[b, 1 + b % 13 :], end[b, 1 + b % 13 :] = -torch.inf, -torch.inf
    return start, end, longest


SPAN = Exercise(
    solution=my_span,
    cases=(
        Case(
            ends,
            narrowed(
                (
                    lambda given: (given["start"], given["end"], given["start"].shape[1]),
                    "With answers of any length "
                    "it is wrong already: of all pairs with i <= j, the one with the highest start_i + end_j.",
                ),
                (lambda given: (given["start"], given["end"], 1), "With longest = 1 it is wrong: then j is i."),
                otherwise="Any length is right, and one piece alone is. With longest = 4, j is at most i + 3.",
            ),
        ),
        Case(lambda: ends(1, 1, 1), OTHER_SIZES),
        Case(lambda: ends(9, 5, 30), "Where `longest` is more than the text is long, it changes nothing."),
        Case(behind_padding, "Where padding has a score of minus infinity it is wrong: does a 0 stand where none may?"),
        Case(
            lambda: tuple(a - 50 if isinstance(a, torch.Tensor) else a for a in ends()),
            "Where all scores are far below zero it is wrong: what is not allowed must be lower still, minus infinity.",
        ),
        Case(lambda: ends(dtype=torch.float32), "In single precision (float32) it is wrong."),
    ),
    mistakes=slips("""
        return torch.stack([best // T, best % T], dim=1) -> return torch.stack([start.argmax(1), end.argmax(1)], dim=1)
            You take the best beginning and the best end each for itself. The end may then lie before the beginning.
        best = scores. -> o = start.argmax(1, True) != torch.arange(T); best = scores.masked_fill(o, -torch.inf).
        o, -torch -> o[:, :, None], -torch
            You take the best beginning, then the best end for it. The best sum may begin elsewhere.
        best = scores. -> o = end.argmax(1, True) != torch.arange(T); best = scores.masked_fill(o, -torch.inf).
        o, -torch -> o[:, None], -torch
            You take the best end, then the best beginning for it. The best sum may end elsewhere.
        .triu().tril(longest - 1) -> .tril(longest - 1)
            The end may lie before the beginning in yours: only pairs with i <= j are answers.
        .triu().tril(longest - 1) -> .triu()
            Your answers may be longer than `longest`: j is at most i + longest - 1.
        tril(longest - 1) -> tril(longest)
            Your longest answer is one piece too long: from i to j are j - i + 1 pieces.
        tril(longest - 1) -> tril(longest - 2)
            Your longest answer is one piece too short: from i to j are j - i + 1 pieces.
        .triu().tril -> .triu(1).tril
            An answer of a single piece, i = j, is not allowed in yours. It is one.
        [best // T, best % T] -> [best % T, best // T]
            Beginning and end are exchanged: first i, then j.
        [best // T, best % T] -> [best // T, best % T + 1]
            Your end stands one place behind the answer, as in a slice. Asked is its last place.
        [best // T, best % T] -> [best // T, best % T - best // T + 1]
            Your second number is how long the answer is. Asked is its last place, j.
        start[:, :, None] + end[:, None] -> start[:, :, None] * end[:, None]
            You multiply the two scores. They are logits: start_i + end_j.
        start[:, :, None] + end[:, None] -> start.softmax(1)[:, :, None] + end.softmax(1)[:, None]
            You add probabilities. Of logits the sum counts; of probabilities it would be the product.
        ~allowed, -torch.inf -> ~allowed, 0.0
            What is not allowed has a score of 0 in yours, which beats scores below zero: -torch.inf.
        start[:, :, None] + end[:, None] -> start[:, None] + end[:, :, None]
            Your rows are the ends and your columns the beginnings, so that i <= j becomes j <= i.
        .flatten(1).argmax(dim=1) -> .flatten().argmax().expand(len(start)) % T**2
            You look for the best pair of the whole batch. Each text has an answer of its own.
    """),
)


def my_mix(layers, scores, gamma):
    shares = torch.softmax(scores, dim=0)  # (L,)
    return gamma * sum(share * layer for share, layer in zip(shares, layers, strict=True))


def stacked(L=4, B=2, T=3, D=5, scale=1.0, dtype=torch.float64):
    """A list of L layers (B, T, D), a score for each, and gamma."""
    layers = [torch.randn(B, T, D).to(dtype) for _ in range(L)]
    return layers, (2 * scale * torch.randn(L)).to(dtype), torch.tensor(1.5 + torch.rand(1).item(), dtype=dtype)


def sure():
    """Three layers (1, 1, 3), scores in the hundreds, and gamma, in single precision."""
    return list(torch.eye(3).view(3, 1, 1, 3)), torch.tensor([300.0, 299.0, -300.0]), torch.tensor(2.0)


def gradient(answer, layers, scores, gamma):
    """For `Case.ask`: the way back to scores and gamma, which are learned, and to the layers."""
    return pulled(lambda whole, *learned: answer(list(whole.unbind(0)), *learned), torch.stack(layers), scores, gamma)


def alike(given):
    """A step of `narrowed`: all scores are the same, and gamma is 1."""
    return given["layers"], torch.zeros_like(given["scores"]), torch.ones_like(given["gamma"])


MIX = Exercise(
    solution=my_mix,
    cases=(
        Case(
            stacked,
            narrowed(
                (alike, "With equal scores and gamma = 1 it is wrong already: that is the mean of the layers."),
                (
                    lambda given: (given["layers"], given["scores"], torch.ones_like(given["gamma"])),
                    "Equal scores are right, different ones are not: the weights are softmax(scores).",
                ),
                otherwise="With gamma = 1 you are right. gamma multiplies the whole sum.",
            ),
        ),
        Case(lambda: stacked(1, 1, 1, 2), OTHER_SIZES),
        Case(lambda: stacked(scale=1000.0), LARGE),
        Case(sure, OVERFLOW),
        Case(stacked, NO_GRADIENT, gradient),
        Case(lambda: stacked(dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        torch.softmax(scores, dim=0) -> scores
            The scores are used as they are. Their softmax makes weights of them that add up to 1.
        torch.softmax(scores, dim=0) -> scores / scores.sum()
            You divide the scores by their sum: a score below zero would be a weight below zero. Take the softmax.
        torch.softmax(scores, dim=0) -> torch.sigmoid(scores)
            sigmoid weighs each layer by itself. With softmax the weights share out 1 among the layers.
        torch.softmax(scores, dim=0) -> torch.log_softmax(scores, dim=0)
            Those are logarithms of weights, below zero. Take the softmax itself.
        torch.softmax(scores, dim=0) -> torch.softmax(gamma * scores, dim=0)
        return gamma * sum -> return sum
            gamma stands inside your softmax, like a temperature. It multiplies the sum of the layers.
        return gamma * sum -> return sum
            gamma is left out: it makes the whole mix larger or smaller.
        return gamma * -> return gamma +
            You add gamma. It multiplies the whole sum.
        torch.softmax(scores, dim=0) -> torch.ones_like(scores) / len(layers)
            You take the mean of the layers. The scores say how much each one counts.
        torch.softmax(scores, dim=0) -> torch.softmax(scores, dim=0).flip(0)
            You read the layers from the last to the first. scores[0] belongs to layers[0], the embedding.
        sum(share -> sum(len(layers) ** -1 * share
            You divide by the number of layers once more. The weights make 1 already.
        torch.softmax(scores, dim=0) -> F.one_hot(scores.argmax(), len(layers)).to(scores.dtype)
            You take the layer with the highest score alone, and no score can learn from that. Mix them all.
        torch.softmax(scores, dim=0) -> F.pad(torch.softmax(scores[1:], dim=0), (1, 0))
            You leave out layer 0, what stands before the first block. It is mixed in like the others.
        share * layer -> share * F.layer_norm(layer, layer.shape[-1:])
            You normalise each layer first. The paper says that it helps at times; here the layers stay as they are.
    """),
)

EXERCISES = [FILL, SPAN, MIX]
