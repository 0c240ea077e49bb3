"""Pre-training a BERT on a running text: pairs of spans, bits a masked piece, the stored BERT's parts. Lesson 08.

What the paper calls a sentence is "an arbitrary span of contiguous text" (Devlin et al., 2019, section 3), so a text
needs no full stops for it. Shapes: B batch, T pieces of a row, N pieces of the text. Batch first, always.
"""

import math
from collections.abc import Iterator
from itertools import count

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn import functional as F

from course_lib.attention.block import Block
from course_lib.bert.bert import Bert, BertConfig
from course_lib.bert.bert_heads import MaskedWords
from course_lib.bert.masked_words import Masked, masked
from course_lib.inputs.sequences import reading
from course_lib.language.muon import Muon, split
from course_lib.text.wordpiece import Read, WordPiece


def span_pairs(
    ids: Tensor, tokenizer: WordPiece, batch: int, length: int, seed: int = 0, short: int = 0, **how
) -> Iterator[Masked]:
    """Endless batches of [CLS] a [SEP] b [SEP], words masked: b is what follows on a, or a span from anywhere.

    ids (N,): a text, a tensor or a list. The first `short` batches have rows of `length` // 4 pieces; later ones have
    rows of a quarter, a half or the whole, in turn at random, each so many rows that the pieces are those of `batch`
    whole ones (the paper's rows are short in nine steps of ten, appendix A.2).
    Half of all b do not follow: label 1 (section 3.1, task 2). how: further arguments of `mask_tokens`.
    Raises ValueError for a text that is not longer than a row.
    """
    ids = torch.as_tensor(ids)
    _check_spans(ids, length)
    generator = torch.Generator().manual_seed(seed)

    def draw(most: int, *shape: int) -> Tensor:
        return torch.randint(most, shape, generator=generator)

    for n in count():
        part = 4 if n < short else (1, 2, 4)[draw(3, 1).item()]
        B, room = batch * part, length // part - 3  # three places are [CLS], [SEP], [SEP]
        first = 1 + draw(room - 1, 1).item()  # pieces of a; b has the others
        follows, at = draw(2, B), draw(len(ids) - room, B, 1)
        other = torch.where(follows[:, None] == 1, draw(len(ids) - room, B, 1), at + first)
        a, b = ids[at + torch.arange(first)], ids[other + torch.arange(room - first)]
        yield masked(spans(a, b, tokenizer), tokenizer, follows, generator=generator, **how)


def short_rows_first(ids: Tensor, tokenizer: WordPiece, batch: int, length: int) -> Iterator[Masked]:
    """`span_pairs` for the stored BERT: 9,000 batches of short rows, then rows of every length."""
    return span_pairs(ids, tokenizer, batch, length, short=9_000)


def spans(a: Tensor, b: Tensor, tokenizer: WordPiece) -> Read:
    """[CLS] a [SEP] b [SEP] for spans of pieces a (B, S) and b (B, S'): see `Read`; the numbers of words are all -1."""
    cls, sep = (a.new_full((len(a), 1), i) for i in (tokenizer.cls, tokenizer.sep))
    ids = torch.cat([cls, a, sep, b, sep], dim=1)  # (B, T)
    segments = (torch.arange(ids.shape[1]) >= a.shape[1] + 2).long().expand_as(ids)
    return Read(ids, segments, torch.ones_like(ids, dtype=torch.bool), torch.full_like(ids, -1))


@torch.no_grad()
def masked_bits(model: nn.Module, ids: Tensor, tokenizer: WordPiece, seed: int = 0) -> float:
    """-log2 p of a masked piece, the mean over a text (N,) that is read in rows as long as the model can read.

    15 of 100 pieces are asked for, the same ones for the same seed, and each is a [MASK]: one that was left as it is,
    as in training, could be copied. Raises ValueError for a text shorter than a row.
    """
    ids, device = torch.as_tensor(ids), model.bias.device
    room = model.bert.max_len - 3
    _check_spans(ids, room + 3)
    generator, total, n = torch.Generator().manual_seed(seed), 0.0, 0
    with reading(model):
        for rows in ids.unfold(0, room, room).split(32):  # (32, room)
            row = masked(
                spans(*rows.split([room // 2, room - room // 2], dim=1), tokenizer),
                tokenizer,
                generator=generator,
                kinds=(1.0, 0.0, 0.0),
            )
            logits = model(*(part.to(device) for part in (row.ids, row.segments, row.mask, row.places)))
            logits = logits[0] if isinstance(logits, tuple) else logits
            total, n = total + F.cross_entropy(logits, row.answers.to(device), reduction="sum"), n + len(row.answers)
    return float(total) / n / math.log(2)


def play_pieces(text: str) -> WordPiece:
    """The stored BERT's tokenizer: 2,000 pieces, learned from the text."""
    return WordPiece.train(text, 2_000)


def small_bert(vocab_size: int, max_len: int, d_model: int, n_heads: int, n_layers: int, dropout: float) -> MaskedWords:
    """A `Bert` of these sizes with the heads of pre-training; `BertConfig` raises for what does not fit.

    Its blocks begin as lesson 06's do, far above Google's N(0, 0.02). With that beginning, longer rows and Muon, trials
    stayed at guessing how frequent each piece is; which of the three it was has not been tested.
    """
    model = MaskedWords(Bert(BertConfig(vocab_size, max_len, d_model, n_heads, n_layers, dropout)), pairs=True)
    fresh = nn.ModuleList(Block.from_sizes(d_model, n_heads, activation=F.gelu) for _ in range(n_layers))
    model.bert.blocks.load_state_dict(fresh.state_dict())
    model.transform.reset_parameters()
    return model


def muon_on_blocks(model: nn.Module) -> Muon:
    """`Muon` for the matrices of a head's Bert, AdamW for all other weights; three rounds, as in lesson 07."""
    matrices, _ = split(model.bert)
    inside = {id(weight) for weight in matrices["params"]}
    rest = [weight for weight in model.parameters() if id(weight) not in inside]
    return Muon([matrices, {"params": rest, "matrices": False}], rounds=3)


def _check_spans(ids: Tensor, length: int) -> None:
    if ids.ndim != 1 or len(ids) <= length:
        raise ValueError(f"Rows of {length} pieces need a text (N,) longer than that; got {tuple(ids.shape)}.")
