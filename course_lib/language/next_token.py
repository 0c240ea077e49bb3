"""Predicting the next token: windows of a text, the loss, bits on held-out text, the stored GPT's parts. Lesson 07.

Shapes: B batch, T tokens that a model reads, N tokens of a text, V vocab_size. Batch first, always.
"""

import math
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.inputs.sequences import reading
from course_lib.language.gpt import GPT, GPTConfig
from course_lib.language.muon import Muon, split
from course_lib.text.bpe import BPE


def windows(ids: Tensor, batch: int, length: int, seed: int = 0) -> Iterator[Tensor]:
    """Endless batches (batch, length + 1): stretches of the text from anywhere, each place as likely as the other.

    ids (N,), a tensor or a list. One token more than a model reads: the last one is only an answer. Raises ValueError
    for a text that is no longer than `length`.
    """
    ids = torch.as_tensor(ids)
    _check_windows(ids, length)
    generator = torch.Generator().manual_seed(seed)
    while True:
        at = torch.randint(len(ids) - length, (batch, 1), generator=generator)
        yield ids[at + torch.arange(length + 1)]


def next_token_loss(model: nn.Module, ids: Tensor) -> Tensor:
    """Nats a token: mean -log p of every token but the first, ids (B, T + 1) (Radford et al., 2018, equation 1)."""
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


@torch.no_grad()
def bits_per_token(model: nn.Module, ids: Tensor, length: int | None = None) -> float:
    """-log2 p of a token, the mean over a text (N,), each predicted from at least half a window before it.

    The text is read in windows of `length` tokens (the model's max_len where None), each half a window further on, and
    only the second half of a window is asked; so the first half of the first is not, nor is what fills no window.
    Raises ValueError for a text no longer than `length`.
    """
    ids, length = torch.as_tensor(ids), model.max_len if length is None else length
    _check_windows(ids, length)
    device = next(model.parameters()).device
    skipped, total, rows = length // 2, 0.0, ids.unfold(0, length + 1, length - length // 2)  # (rows, T + 1)
    with reading(model):
        for some in rows.to(device).split(max(1, 2048 // length)):  # logits of 2,048 tokens at a time fit anywhere
            logits = model(some[:, :-1])[:, skipped:]  # (B, T - skipped, V)
            total += F.cross_entropy(logits.flatten(0, 1), some[:, skipped + 1 :].flatten(), reduction="sum")
    return total.tolist() / (len(rows) * (length - skipped)) / math.log(2)


def subwords(text: str) -> BPE:
    """The stored GPT's tokenizer: 256 bytes and the 1,000 merges that the text gives."""
    return BPE.train(text, 256 + 1000)


def small_gpt(vocab_size: int, max_len: int, d_model: int, n_heads: int, n_layers: int, dropout: float) -> GPT:
    """A `GPT` of these sizes; they mean what they mean in `GPTConfig`, which raises for what does not fit."""
    return GPT(GPTConfig(vocab_size, max_len, d_model, n_heads, n_layers, dropout))


def three_rounds(model: nn.Module) -> Muon:
    """`Muon` for `fit`, with three rounds where Jordan et al. (2024) take five: on one core each round is felt."""
    return Muon(split(model), rounds=3)


def _check_windows(ids: Tensor, length: int) -> None:
    if ids.ndim != 1 or len(ids) <= length:
        raise ValueError(
            f"Windows of {length} tokens and the one behind them need a text (N,) longer than that; got "
            f"{tuple(ids.shape)}."
        )
