"""Labels for a BERT's heads: the loss on them, tags at the first piece of a word, the best span. Lesson 08.

Shapes: B batch, T pieces of a text, K classes. Batch first, always. Masks are boolean, True = a real piece.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

IGNORED = -100  # the label of a place that is not asked, as in PyTorch's cross_entropy


def label_loss(model: nn.Module, batch: tuple) -> Tensor:
    """Nats a label: mean -log p of the right class, over all that are asked. For `fit`.

    model: a head of `bert_heads.py`. batch: ids, segments, mask and labels: (B,) for a class or a choice, (B, T) for
    tags, `IGNORED` where none is asked, (B, 2), the first place and the last, for a span. 0 where nothing is asked.
    Raises ValueError for labels of another shape.
    """
    *read, labels = batch
    logits = model(*read)  # (..., K)
    _check_labels(logits, labels)
    total = F.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED, reduction="sum")
    return total / (labels != IGNORED).sum().clamp(min=1)


def first_pieces(words: Tensor, labels: list[list[int]]) -> Tensor:
    """Labels of pieces out of labels of words: each at the first piece of its word, `IGNORED` elsewhere.

    words (B, T): the number of each piece's word, -1 for none, as `WordPiece.batch` gives them -> (B, T).
    Raises ValueError where a row has fewer labels than words.
    """
    before = F.pad(words, (1, -1), value=-1)  # (B, T): the word of the piece before
    _check_word_labels(words, labels)
    rows = [torch.tensor([*row, IGNORED], dtype=torch.long)[found] for row, found in zip(labels, words, strict=True)]
    return torch.stack(rows).masked_fill((words < 0) | (words == before), IGNORED)


def best_span(logits: Tensor, allowed: Tensor | None = None, longest: int = 30) -> Tensor:
    """The best answer of at most `longest` pieces: the i <= j with the highest start_i + end_j.

    logits (B, 2, T) of a `SpanFinder`; allowed bool (B, T), where an answer may stand, or None -> (B, 2): i and j.
    Devlin et al. (2019), section 4.2.
    """
    start, end = logits.unbind(dim=1)  # (B, T) each
    T, far = logits.shape[-1], torch.finfo(logits.dtype).min
    if allowed is not None:
        start, end = start.masked_fill(~allowed, -torch.inf), end.masked_fill(~allowed, -torch.inf)
    scores = (start[:, :, None] + end[:, None]).clamp(min=far)  # (B, T, T)
    i = torch.arange(T, device=logits.device)
    length = i - i[:, None] + 1  # (T, T)
    best = scores.masked_fill((length < 1) | (length > longest), -torch.inf).flatten(1).argmax(dim=1)  # (B,)
    return torch.stack([best // T, best % T], dim=1)


def _check_labels(logits: Tensor, labels: Tensor) -> None:
    if labels.shape != logits.shape[:-1]:
        raise ValueError(
            f"There must be one label for each of {tuple(logits.shape[:-1])} rows of logits; got {tuple(labels.shape)}."
        )


def _check_word_labels(words: Tensor, labels: list[list[int]]) -> None:
    for row, (found, given) in enumerate(zip(words, labels, strict=True)):
        if int(found.max()) >= len(given):
            raise ValueError(f"Text {row} has {int(found.max()) + 1} words or more and {len(given)} labels: one each.")
