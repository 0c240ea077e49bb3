"""T5's span corruption: spans give way to sentinels, and only what was taken out is written. Lesson 13.

    text    Thank you for inviting me to your party last week
    source  Thank you <X> me to your party <Y> week
    target  <X> for inviting <Y> last <Z>
    (Raffel et al., 2020, "T5", section 3.1.4 and figure 2; spans of several tokens, section 3.3.4)

Tokens are a list of ids, or of words. Sentinels are tokens that no text holds, X, Y, Z ... in their order.
"""

from collections.abc import Sequence

import torch

from course_lib.text_to_text.noise import check_noise


def draw_spans(n: int, generator: torch.Generator, share: float = 0.15, mean: float = 3.0) -> list[tuple[int, int]]:
    """Which of n positions are removed: spans (start, end), in order, at least one token between two of them.

    round(share n) positions, from 1 to n - 1, in round(that / mean) spans, so that `mean` is their average length; of a
    text of one token none. Both are the paper's numbers (section 3.3.4). All ways to cut and to place are equally
    likely, so tokens at both ends are removed less often than in the middle. T5's own code begins each text with a
    token that stays and ends it with a removed one.
    """
    hidden = min(max(1, round(share * n)), n - 1) if n > 1 and share else 0
    k = min(max(1, round(min(hidden / mean, hidden))), hidden, n - hidden + 1)  # spans
    if not k:
        return []
    cuts = torch.randperm(hidden - 1, generator=generator)[: k - 1].sort().values.add(1).tolist()
    gaps = torch.randperm(n - hidden + 1, generator=generator)[:k].sort().values.tolist()  # tokens that stay before
    borders = [0, *cuts, hidden]  # of the spans, where all hidden tokens are pushed together
    return [(gap + a, gap + b) for gap, a, b in zip(gaps, borders, borders[1:], strict=False)]


def corrupt(tokens: Sequence, spans: Sequence[tuple[int, int]], sentinels: Sequence) -> tuple[list, list]:
    """Source and target for these spans (start, end), in order: one more sentinel ends the target.

    Raises ValueError, in words, for spans that overlap or leave the text, for too few sentinels, for one that the text
    holds or that comes twice.
    """
    _check_corrupted(tokens, spans, sentinels)
    source, target, at = [], [], 0
    for (start, end), sentinel in zip(spans, sentinels, strict=False):
        source += [*tokens[at:start], sentinel]
        target += [sentinel, *tokens[start:end]]
        at = end
    return source + list(tokens[at:]), [*target, sentinels[len(spans)]]


def restore(source: Sequence, target: Sequence, sentinels: Sequence) -> list:
    """`corrupt` undone: each sentinel of the source gives way to what the target has behind it.

    The target may be a model's: what comes before its first sentinel is left out, a sentinel that it lacks counts as
    nothing, and for one that it writes twice both are put in.
    """
    check_noise(source)
    known, parts, part = set(sentinels), {}, []
    for token in target:
        if token in known:
            part = parts.setdefault(token, [])
        else:
            part.append(token)
    return [one for token in source for one in (parts.get(token, []) if token in known else [token])]


def span_corruption(
    tokens: Sequence, generator: torch.Generator, sentinels: Sequence, share: float = 0.15, mean: float = 3.0
) -> tuple[list, list]:
    """Source and target with new random spans: `draw_spans`, then `corrupt`; raises what they raise."""
    return corrupt(tokens, draw_spans(len(tokens), generator, share, mean), sentinels)


def _check_corrupted(tokens: Sequence, spans: Sequence[tuple[int, int]], sentinels: Sequence) -> None:
    check_noise(tokens)
    if len(sentinels) <= len(spans):
        raise ValueError(
            f"{len(spans)} spans need {len(spans) + 1} sentinels, for one ends the target; got {len(sentinels)}."
        )
    if len(set(sentinels)) < len(sentinels) or set(sentinels) & set(tokens):
        raise ValueError("Each sentinel is a token of its own, which no text holds: else the target cannot be read.")
    borders = [0, *(border for span in spans for border in span), len(tokens)]
    if borders != sorted(borders):
        raise ValueError(f"Spans are (start, end) in order, within {len(tokens)} tokens, none over another: {spans}.")
