"""BART's noises: five ways to spoil a text, of which the model then writes the whole again. Lesson 13.

Each is (tokens, generator) -> (source, target), as in Lewis et al. (2020, "BART", section 2.2): what the encoder reads,
and the text as it was. Tokens are a list of ids, or of words; none is too short, an empty list included.
"""

from collections.abc import Sequence

import torch

SHARE, MEAN = 0.3, 3.0  # "30% of tokens" (section 5.1), spans of lambda = 3 (section 2.2)
_LEAST, _MOST = 0.01, 2.0**40  # of a mean: so many more spans of length 0 than others, and more tokens than any text


def token_masking(tokens: Sequence, generator: torch.Generator, mask, share: float = SHARE) -> tuple[list, list]:
    """Each token becomes the mask with probability `share`: the source is as long as the text, and shows where."""
    check_noise(tokens)
    drawn = torch.rand(len(tokens), generator=generator).tolist()
    return [mask if u < share else token for token, u in zip(tokens, drawn, strict=True)], list(tokens)


def token_deletion(tokens: Sequence, generator: torch.Generator, share: float = SHARE) -> tuple[list, list]:
    """Each token is left out with probability `share`: the model must find out where as well."""
    check_noise(tokens)
    drawn = torch.rand(len(tokens), generator=generator).tolist()
    return [token for token, u in zip(tokens, drawn, strict=True) if u >= share], list(tokens)


def text_infilling(
    tokens: Sequence, generator: torch.Generator, mask, share: float = SHARE, mean: float = MEAN
) -> tuple[list, list]:
    """Spans of a random length, Poisson(mean), become one mask each, which does not say how many tokens it replaces.

    A span of length 0 is a mask put between two tokens. `share` of all tokens are masked, on average; spans lie
    anywhere, two of them side by side as well, and so reach a token at an end less often than one in the middle. A mean
    above the length of the text, infinity included, makes one span of them. Raises what `span_lengths` raises.
    """
    check_noise(tokens)
    lengths = span_lengths(len(tokens), generator, share, mean)
    places = len(tokens) - sum(lengths) + len(lengths)  # of the source: tokens that stay, and masks
    hides = dict(zip(torch.randperm(places, generator=generator).tolist(), lengths, strict=False))
    source, at = [], 0
    for place in range(places):
        source.append(mask if place in hides else tokens[at])
        at += hides.get(place, 1)
    return source, list(tokens)


def sentence_permutation(tokens: Sequence, generator: torch.Generator, stops: Sequence) -> tuple[list, list]:
    """The sentences in another order: one ends with each token of `stops`, and the last where the text does."""
    check_noise(tokens)
    ends = [at + 1 for at, token in enumerate(tokens) if token in stops]
    ends += [len(tokens)] if ends[-1:] != [len(tokens)] else []
    sentences = [list(tokens[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    order = torch.randperm(len(sentences), generator=generator).tolist()
    return [token for i in order for token in sentences[i]], list(tokens)


def document_rotation(tokens: Sequence, generator: torch.Generator) -> tuple[list, list]:
    """The text turned so that it begins with a random token: the model must find where it began."""
    check_noise(tokens)
    start = int(torch.randint(max(1, len(tokens)), (), generator=generator))
    return [*tokens[start:], *tokens[:start]], list(tokens)


def span_lengths(n: int, generator: torch.Generator, share: float = SHARE, mean: float = MEAN) -> list[int]:
    """Lengths from Poisson(mean) that mask share * n of n tokens together, the last cut to fit.

    A part of a token is masked as often as it is large: 0.3 of one token is one token, three times in ten. Raises
    ValueError for a mean below 0.01, where nearly all spans would have length 0.
    """
    _check_mean(mean)
    rate = torch.tensor(min(float(mean), _MOST))
    left = int(share * n + torch.rand((), generator=generator).item())
    lengths = []
    while left:
        lengths.append(min(left, int(torch.poisson(rate, generator=generator))))
        left -= lengths[-1]
    return lengths


def check_noise(tokens: Sequence) -> None:
    """Raise TypeError for a tensor: its numbers are not equal to ids as the keys of a table."""
    if isinstance(tokens, torch.Tensor):
        raise TypeError("Noise is drawn for a list of tokens; got a tensor: call .tolist().")


def _check_mean(mean: float) -> None:
    if not mean >= _LEAST:
        raise ValueError(
            f"mean is the average length of a span and must be {_LEAST} or more: spans of length 0 hide nothing, and "
            f"below that there are over {1 / _LEAST:.0f} of them for each other one; got {mean}."
        )
