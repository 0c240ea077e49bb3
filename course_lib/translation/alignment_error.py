"""How well attention aligns: links read off its weights, and scored against gold.

A link (i, j) says that source token i and target token j say the same, as in the `alignment` of a `Pair`. Counted from
zero. A score for one sentence is the score of a corpus of one; a corpus pools its counts over all its links, so that a
long sentence weighs more than a short one.

Legend: S source length, T target length; A the links that are scored, S and P the sure and the possible gold links.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral

import torch
from torch import Tensor

Link = tuple[int, int]
Links = Iterable[Link]


def hard_alignment(weights: Tensor, threshold: float | None = None) -> set[Link]:
    """The links (i, j) that attention weights (T, S) make: a row for each target token, a column for each source token.

    Without a threshold each target token is linked to the source token with the largest weight, the first of equals;
    with one, to every source token whose weight is at least that, be it none or many. A row of zeros makes no link.
    Take out rows and columns of start, end and padding first. Raises ValueError for a tensor that is no such table,
    NaN or infinity.
    """
    weights = torch.as_tensor(weights).detach().cpu()  # every link is looked at
    _check_table(weights)
    if not weights.numel():
        return set()
    if threshold is None:
        largest = weights.argmax(dim=1)  # (T,)
        return {(i, j) for j, i in enumerate(largest.tolist()) if weights[j, i] > 0}
    return {(i, j) for j, i in (weights >= threshold).nonzero().tolist()}


def mutual_alignment(weights: Tensor) -> set[Link]:
    """The links of `hard_alignment` on which both sides agree: source token i, too, has its largest weight at j."""
    weights = torch.as_tensor(weights).detach().cpu()
    back = weights.argmax(dim=0) if weights.numel() else weights  # (S,)
    return {(i, j) for i, j in hard_alignment(weights) if int(back[i]) == j}


def either_alignment(weights: Tensor) -> set[Link]:
    """The links that either side makes: those of `hard_alignment`, and each source token's with its largest weight."""
    weights = torch.as_tensor(weights)
    return hard_alignment(weights) | {(i, j) for j, i in hard_alignment(weights.T)}


def diagonal_guess(n_source: int, n_target: int) -> set[Link]:
    """Links made without reading a word: target token j goes with the source token as far along its sentence.

    i = floor((j + 1/2) S / T). The yardstick for an aligner: what word order alone gives.
    """
    return {((2 * j + 1) * n_source // (2 * n_target), j) for j in range(n_target) if n_source}


def corpus_precision(links: Iterable[Links], gold: Iterable[Links]) -> float:
    """|A ∩ G| / |A|: the share of the links that are gold. 1 where there is no link, for then none is wrong.

    `gold` is the possible links where sure and possible ones are distinguished (Och and Ney, 2003, section 5).
    """
    pairs = _sentences(links, gold)
    return _ratio(sum(len(a & g) for a, g in pairs), sum(len(a) for a, _ in pairs))


def corpus_recall(links: Iterable[Links], gold: Iterable[Links]) -> float:
    """|A ∩ G| / |G|: the share of the gold links that were found. 1 where gold has none, for then none is missed.

    `gold` is the sure links where sure and possible ones are distinguished (Och and Ney, 2003, section 5).
    """
    pairs = _sentences(links, gold)
    return _ratio(sum(len(a & g) for a, g in pairs), sum(len(g) for _, g in pairs))


def corpus_alignment_error_rate(
    links: Iterable[Links], sure: Iterable[Links], possible: Iterable[Links] | None = None
) -> float:
    """1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), from 0, no error, to 1 (Och and Ney, 2003, section 5).

    Without `possible` P = S, and the rate is one minus the F score; every sure link counts as possible too. 0 where
    there is neither a link nor a sure one, 1 where there is no link and a sure one.
    """
    sure = list(sure)
    triples = [(a, s, s | p) for a, s, p in _sentences(links, sure, sure if possible is None else possible)]
    right = sum(len(a & s) + len(a & p) for a, s, p in triples)
    return 1 - _ratio(right, sum(len(a) + len(s) for a, s, _ in triples))


def where_gold(links: Iterable[Links], gold: Iterable[Links]) -> list[set[Link]]:
    """The links, sentence by sentence, of the target tokens that gold links at all: the others cannot be judged."""
    return [{(i, j) for i, j in a if j in {b for _, b in g}} for a, g in _sentences(links, gold)]


def alignment_scores(links: Iterable[Links], gold: Iterable[Links]) -> dict[str, float]:
    """AER, precision and recall of a corpus in one table: links of sentences and their gold links."""
    links, gold = list(links), list(gold)
    measures = {"AER": corpus_alignment_error_rate, "precision": corpus_precision, "recall": corpus_recall}
    return {name: measure(links, gold) for name, measure in measures.items()}


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _check_table(weights: Tensor) -> None:
    if weights.ndim != 2:
        raise ValueError(f"One sentence at a time: weights (target, source); got shape {tuple(weights.shape)}.")
    if not torch.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            "Attention weights are finite and not negative; got others: look for a mask that left "
            "nothing to attend to, or hand in the weights instead of the scores."
        )


def _sentences(*sides: Iterable[Links]) -> list[tuple[set[Link], ...]]:
    """Sentence by sentence a set of links from each side; ValueError or TypeError, in words, for anything else."""
    sides = [list(side) for side in sides]
    if len({len(side) for side in sides}) != 1:
        raise ValueError("Links and gold must have as many sentences; got " + " and ".join(str(len(s)) for s in sides))
    return [tuple(_checked(links) for links in sentence) for sentence in zip(*sides, strict=True)]


def _checked(links: Links) -> set[Link]:
    found = set()
    for link in links:
        whole = isinstance(link, (tuple, list)) and [isinstance(place, Integral) for place in link] == [True, True]
        if not whole:
            raise TypeError(f"A link is a pair of whole numbers, (source place, target place); got {link!r}.")
        if min(link) < 0:
            raise ValueError(f"Places are counted from 0; got the link {tuple(link)}.")
        found.add((int(link[0]), int(link[1])))
    return found
