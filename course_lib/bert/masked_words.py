"""Masked words: which pieces are hidden and how, the loss on them, and what a model fills into a blank. Lesson 08.

A model that looks both ways cannot be asked for the next word: it sees it. So some words are taken away, and it is
asked for those (Devlin et al., 2019, section 3.1, task 1; Taylor, 1953, called it a cloze test).
Shapes: B batch, T pieces of a text, V vocab_size, N places asked in a batch. Batch first, always.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.inputs.shapes import check_shapes
from course_lib.text.wordpiece import Read, WordPiece, Words

SHARE, KINDS = 0.15, (0.8, 0.1, 0.1)  # chosen; of these [MASK], another piece, left as it is


def mask_tokens(
    ids: Tensor,
    tokenizer: WordPiece,
    generator: torch.Generator | None = None,
    share: float = SHARE,
    kinds: tuple[float, float, float] = KINDS,
    whole_words: bool = False,
) -> tuple[Tensor, Tensor]:
    """What the model reads, and which places it is asked for: ids (B, T) -> ids (B, T), chosen bool (B, T).

    Each piece is chosen with probability `share`, each by itself, but never a special, padding among them. Of the
    chosen 80 in 100 become [MASK], 10 another piece, drawn from all that are no specials, and 10 stay as they are
    (`kinds`, which make 1 together): the model cannot know which it is, so it must keep a view of every word.
    whole_words: words are chosen, with all their pieces. The answers are ids[chosen]. The generator is on ids' device.
    Raises TypeError and ValueError, in words, for ids and shares that are none.
    """
    check_shapes("mask_tokens", ids=(ids, "int64 B T"))
    _check_share(share)
    T, drawn = ids.shape[1], torch.rand(3, *ids.shape, generator=generator, device=ids.device)  # (3, B, T)
    choice, kind, other = drawn
    if whole_words:  # all pieces of a word look at what was drawn for its first
        begins = ~tokenizer.continues.to(ids.device)[ids]  # (B, T)
        at = torch.where(begins, torch.arange(T, device=ids.device), 0).cummax(dim=1).values
        choice = choice.gather(1, at)
    special, ordinary = (part.to(ids.device) for part in _kinds_of_pieces(tokenizer))
    chosen = (choice < share) & ~special[ids]  # (B, T)
    drawn_piece = ordinary[
        (other * len(ordinary)).long().clamp(max=len(ordinary) - 1)
    ]  # 1.0 is never drawn, but nearly
    read = torch.where(chosen & (kind < kinds[0] + kinds[1]), drawn_piece, ids)
    return torch.where(chosen & (kind < kinds[0]), tokenizer.mask, read), chosen


class Masked(NamedTuple):
    """A batch for `masked_loss`: what is read, ids, segments (B, T) and mask bool (B, T); what is asked.

    places (N,): where, counted row by row in B * T; answers (N,): the pieces that stood there; follows (B,): for pairs,
    0 where the second sentence follows on the first and 1 where it does not; None where that is not asked.
    """

    ids: Tensor
    segments: Tensor
    mask: Tensor
    places: Tensor
    answers: Tensor
    follows: Tensor | None = None


def masked(read: Read, tokenizer: WordPiece, follows: Tensor | None = None, **how) -> Masked:
    """A batch of `WordPiece.batch` with masked words; how: further arguments of `mask_tokens`. Made on the CPU."""
    ids, chosen = mask_tokens(read.ids, tokenizer, **how)
    return Masked(ids, read.segments, read.mask, chosen.flatten().nonzero()[:, 0], read.ids[chosen], follows)


def masked_loss(model: nn.Module, batch: Masked) -> Tensor:
    """Nats a masked word: mean -log p(answer), plus that of "does it follow" where it is asked. For `fit`.

    model: a `MaskedWords`, with pairs=True where the batch has `follows`. 0 for no masked word at all.
    """
    logits = model(batch.ids, batch.segments, batch.mask, batch.places)  # (N, V)
    logits, pairs = logits if isinstance(logits, tuple) else (logits, None)
    total = F.cross_entropy(logits, batch.answers, reduction="sum") / max(1, len(batch.answers))
    _check_follows(pairs, batch)
    return total if pairs is None else total + F.cross_entropy(pairs, batch.follows)


def texts_in_order(texts: Sequence, batch: int, generator: torch.Generator) -> Iterator[list]:
    """Endless lists of `batch` texts: each comes once a round, in an order drawn anew. ValueError for too few."""
    _check_enough(texts, batch)
    while True:
        order = torch.randperm(len(texts), generator=generator).tolist()
        for at in range(0, len(order) - batch + 1, batch):
            yield [texts[i] for i in order[at : at + batch]]


class Filled(NamedTuple):
    """One guess for a blank: the piece, and its probability."""

    piece: str
    p: float


@torch.no_grad()
def fill(model: nn.Module, tokenizer: WordPiece, text: Words | tuple[Words, Words], n: int = 5) -> list[list[Filled]]:
    """The n likeliest pieces for each [MASK] of a text, or of a pair, with their probabilities, in order.

    model: a `MaskedWords`; it is asked as it stands, so call `eval()` before. Raises ValueError, in words, for a text
    without [MASK], and what `WordPiece.batch` and `Bert` raise.
    """
    read = Read(*(part.to(model.bias.device) for part in tokenizer.batch([text])))
    places = (read.ids[0] == tokenizer.mask).nonzero()[:, 0]  # (N,)
    _check_blanks(places, text)
    found = model(read.ids, read.segments, read.mask, places)
    p, pieces = (found[0] if isinstance(found, tuple) else found).softmax(dim=-1).topk(min(n, len(tokenizer)))
    return [
        [Filled(tokenizer.vocab[i], q) for i, q in zip(*row, strict=True)]
        for row in zip(pieces.tolist(), p.tolist(), strict=True)
    ]


def _kinds_of_pieces(tokenizer: WordPiece) -> tuple[Tensor, Tensor]:
    """Which pieces are specials, bool (V,), and the indices of those that are not."""
    special = torch.zeros(len(tokenizer), dtype=torch.bool)
    special[list(tokenizer.specials.values())] = True
    return special, (~special).nonzero()[:, 0]


def _check_share(share: float) -> None:
    if not 0 <= share <= 1:
        raise ValueError(f"share is the part of all pieces that is chosen, from 0 to 1; got {share}.")


def _check_follows(pairs: Tensor | None, batch: Masked) -> None:
    if (pairs is None) != (batch.follows is None):
        raise ValueError("A MaskedWords with pairs=True needs a batch with `follows`, and another one without.")


def _check_enough(texts: Sequence, batch: int) -> None:
    if batch > len(texts):
        raise ValueError(f"A batch of {batch} needs as many texts; got {len(texts)}.")


def _check_blanks(places: Tensor, text: object) -> None:
    if not len(places):
        raise ValueError(f"There is no [MASK] in {text!r:.60}: write [MASK], in capitals, where the blank is.")
