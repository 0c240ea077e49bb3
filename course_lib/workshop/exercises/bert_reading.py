"""Lesson 08, what is read out: the head that fills a blank, the best span of a text, a mix of all layers."""

import torch
import torch.nn.functional as F

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import (
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


def head(bend=F.gelu, norm=lambda h, gain, shift: F.layer_norm(h, h.shape[-1:], gain, shift, 1e-12)):
    """A wrong answer to `my_fill`: another function behind the matrix, or another norm."""

    def fill(states, places, table, w, b, gain, shift, bias):
        h = bend(states.flatten(0, 1)[places] @ w + b)
        return norm(h, gain, shift) @ table.T + bias

    return fill


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
                (plain("b", "gain", "shift"), "With the last bias it goes wrong: one number per token, (V,)."),
                (plain("gain", "shift"), "With the bias `b` it goes wrong: it is added before gelu."),
                otherwise="With gain and shift it goes wrong: the normalised row times `gain`, plus `shift`.",
            ),
        ),
        Case(lambda: asked(1, 1, 1, 12, 3), OTHER_SIZES),
        Case(lambda: (asked(N=0), asked(N=1)), "Where `places` is empty, give logits (0, V).", each),
        Case(asked, NO_GRADIENT, pulled),
        Case(lambda: asked(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "without_gelu": head(bend=lambda h: h),
        "relu": head(bend=F.relu),
        "approximate_gelu": head(bend=lambda h: F.gelu(h, approximate="tanh")),
        "without_norm": head(norm=lambda h, gain, shift: h),
        "transposed": lambda states, places, table, w, *more: my_fill(states, places, table, w.T, *more),
        "gain_for_shift": head(norm=lambda h, gain, shift: F.layer_norm(h, h.shape[-1:], shift, gain, 1e-12)),
        "without_bias": lambda *given: my_fill(*given[:-1], 0 * given[-1]),
        "probabilities": lambda *given: my_fill(*given).softmax(dim=-1),
    },
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


def among(allowed):
    """A wrong answer to `my_span`: allowed(all pairs, longest) are the pairs that count."""

    def span(start, end, longest):
        T = start.shape[1]
        scores = start[:, :, None] + end[:, None]
        pairs = allowed(torch.ones(T, T, dtype=torch.bool), longest)
        best = scores.masked_fill(~pairs, -torch.inf).flatten(1).argmax(dim=1)
        return torch.stack([best // T, best % T], dim=1)

    return span


def beginning_first(start, end, longest):
    others = torch.arange(start.shape[1]) != start.argmax(dim=1, keepdim=True)
    return my_span(start.masked_fill(others, -torch.inf), end, longest)


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
                otherwise="Any length is right, and so is a single token. With longest = 4, j is at most i + 3.",
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
    mistakes={
        "each_for_itself": lambda start, end, longest: torch.stack([start.argmax(1), end.argmax(1)], dim=1),
        "beginning_first": beginning_first,
        "end_before_beginning": among(lambda pairs, longest: pairs.tril(longest - 1)),
        "any_length": among(lambda pairs, longest: pairs.triu()),
        "one_too_long": lambda start, end, longest: my_span(start, end, longest + 1),
        "one_too_short": lambda start, end, longest: my_span(start, end, longest - 1),
        "one_token_excluded": among(lambda pairs, longest: pairs.triu(1).tril(longest - 1)),
        "end_as_in_a_slice": lambda start, end, longest: my_span(start, end, longest) + torch.tensor([0, 1]),
    },
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


def weighted(weights):
    """A wrong answer to `my_mix`: weights(scores) are not their softmax."""
    return lambda layers, scores, gamma: gamma * sum(w * h for w, h in zip(weights(scores), layers, strict=True))


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
    mistakes={
        "scores_as_weights": weighted(lambda scores: scores),
        "divided_by_sum": weighted(lambda scores: scores / scores.sum()),
        "sigmoid": weighted(torch.sigmoid),
        "gamma_inside": lambda layers, scores, gamma: my_mix(layers, gamma * scores, 1),
        "without_gamma": lambda layers, scores, gamma: my_mix(layers, scores, 1),
        "mean": lambda layers, scores, gamma: my_mix(layers, 0 * scores, gamma),
        "backwards": lambda layers, scores, gamma: my_mix(layers, scores.flip(0), gamma),
        "divided_again": lambda layers, scores, gamma: my_mix(layers, scores, gamma) / len(layers),
    },
)

EXERCISES = [FILL, SPAN, MIX]
