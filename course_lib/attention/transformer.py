"""The Transformer: an encoder and a decoder made of blocks, and nothing that is read in order. Lesson 06.

Shapes: B batch, S source time, T target time, D d_model, H heads, F d_ff, L n_layers, V vocabulary. Batch first.
Token ids as in `pairs`: 0 padding, 1 start, 2 end, 3 unknown. Padding stands behind a sentence.
"""

import copy
import math
from collections.abc import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.attention import padding_mask
from course_lib.attention.block import Decoder, Encoder
from course_lib.attention.positions import SinusoidalPositions
from course_lib.inputs.sequences import map_state, token_ids, visible, whole_lengths
from course_lib.inputs.shapes import check_shapes
from course_lib.text.pairs import END, PADDING, START


class PlacedEmbedding(nn.Module):
    """sqrt(D) E[token] + PE(place), then dropout (Vaswani et al., 2017, sections 3.4, 3.5 and 5.4).

    ids (B, T), past: how many places stand before them -> (B, T, D). positions: d_model -> a module that adds places
    to x (B, T, D). E begins at N(0, 1 / D), so that its rows are of length 1 for the read-out x E^T, and sqrt(D) E as
    large as the places. name: what the ids are, for the errors of `token_ids`, which it raises.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        dropout: float = 0.0,
        positions: Callable[[int], nn.Module] = SinusoidalPositions,
        name: str = "The input",
    ):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.positions, self.dropout = positions(d_model), nn.Dropout(dropout)
        self.name = name
        nn.init.normal_(self.tokens.weight, std=d_model**-0.5)

    def forward(self, ids: Tensor, past: int = 0) -> Tensor:
        x = self.tokens(token_ids(self.name, ids, self.tokens, shortest=1)) * math.sqrt(self.tokens.embedding_dim)
        x = self.positions(F.pad(x, (0, 0, past, 0)))[:, past:] if past else self.positions(x)
        return self.dropout(x)  # (B, T, D)

    def readout(self, x: Tensor) -> Tensor:
        """Logits x E^T, the same weights once more (Press and Wolf, 2017): (B, T, D) -> (B, T, V)."""
        return F.linear(x, self.tokens.weight)


class Transformer(nn.Module):
    """Reads a source and writes a target, by attention alone (Vaswani et al., 2017).

    source (B, S), lengths (B) of its real tokens or None (all up to the padding), target_in (B, T), mask bool (B, S)
    where the source may be looked at, None = at every real token -> logits (B, T, V), weights (B, T, S) or None.
    positions as in `PlacedEmbedding`; where None, the paper's sinusoids, or nothing where a turn or a position_bias
    tells the order. shared=True: one vocabulary and one embedding for both sides, as in the paper; `block` as in
    `Encoder`, turn=rotate or position_bias=RelativeBias(t5_bucket, 32, n_heads) for instance, of which each stack has
    its own. The read-out is always the target's embedding, transposed.
    align: (layer, head) of the cross-attention whose weights are given, None for none; it may be set at any time, and
    `record.capture` hears all of them, at "decoder.blocks.*.cross.weights". While one is named, torch.compile cannot
    make one graph of the model: train with None.
    To be searched by `decode` and used by `Translator` as Seq2Seq is. Raises ValueError or TypeError, in words, for
    sizes, ids, lengths and masks that do not fit, and for an empty source or target; to `decoding` an empty source is
    one of padding, and a sentence of length 0 may stand in any batch.
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        d_model: int,
        n_heads: int,
        n_layers: int = 6,
        dropout: float = 0.0,
        positions: Callable[[int], nn.Module] | None = None,
        shared: bool = False,
        align: tuple[int, int] | None = None,
        **block,
    ):
        super().__init__()
        _check_shared(shared, source_vocab, target_vocab)
        if positions is None:
            told = any(block.get(scheme) is not None for scheme in ("turn", "position_bias"))
            positions = nn.Identity if told else SinusoidalPositions
        self.encoder = Encoder(d_model, n_heads, n_layers, dropout=dropout, **block)
        self.decoder = Decoder(d_model, n_heads, n_layers, dropout=dropout, **copy.deepcopy(block))
        for part in self.modules():
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)  # as torch.nn.Transformer begins
        self.source = PlacedEmbedding(source_vocab, d_model, dropout, positions, "The source")
        self.target = PlacedEmbedding(target_vocab, d_model, dropout, positions, "The target")
        if shared:
            self.target.tokens = self.source.tokens
        self.align = align

    def forward(self, source: Tensor, lengths: Tensor | None, target_in: Tensor, mask: Tensor | None = None):
        return self._write(target_in, *self._read(source, lengths, mask))

    def encode(self, source: Tensor, lengths: Tensor | None = None):
        """What the decoder starts with: memory (B, S, D), and its state before the first token, an empty cache."""
        return self._read(source, lengths)[0], [{} for _ in self.decoder.blocks]

    def step(self, token: Tensor, state: list[dict], memory: Tensor, mask: Tensor | None):
        """One token (B,) further -> logits (B, V), state, weights (B, S) or None: `forward`'s numbers at that place.

        The state holds keys and values of all tokens so far, and of the memory: they are not computed again.
        """
        cache = map_state(state, lambda part: part)  # a copy: the old state can be stepped from once more
        logits, weights = self._write(token[:, None], memory, mask, cache)
        return logits[:, 0], cache, None if weights is None else weights[:, 0]

    @torch.no_grad()
    def decoding(self, source: Tensor, lengths: Tensor | None = None, mask: Tensor | None = None) -> dict:
        """What `decode.greedy` and `decode.beam_search` ask for: greedy(**model.decoding(source), max_len=40)."""

        def step(token: Tensor, now):
            logits, state, weights = self.step(token, *now)
            return logits, (state, *now[1:]), weights

        source = token_ids("The source", source, self.source.tokens)
        padded = int(source.shape[1] == 0)  # one column where all are empty
        mask = mask if mask is None else F.pad(mask, (0, padded))
        memory, real = self._read(F.pad(source, (0, padded), value=PADDING), lengths, mask)
        start = torch.full((len(memory),), START, device=memory.device)
        return {"step": step, "state": ([{} for _ in self.decoder.blocks], memory, real), "start": start, "end": END}

    def _read(self, source: Tensor, lengths: Tensor | None, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Memory (B, S, D) of the source, and where it may be looked at, bool (B, S)."""
        source = token_ids("The source", source, self.source.tokens, shortest=1)
        B, S = source.shape
        if lengths is None:
            place = torch.arange(1, S + 1, device=source.device)  # a real token makes it this long
            lengths = ((source != PADDING) * place).amax(dim=1)  # (B,)
        real = padding_mask(whole_lengths(lengths, S, B), S).to(source.device, non_blocking=True)  # (B, S)
        _check_mask(mask, real)
        real = real if mask is None else mask & real
        return self.encoder(self.source(source), real), real

    def _write(self, target: Tensor, memory: Tensor, mask: Tensor | None, cache: list[dict] | None = None):
        """Logits (B, T, V) for the token behind each of the target's, and the weights that `align` names, (B, T, S)."""
        past = cache[0]["own"]["k"].shape[2] if cache and cache[0] else 0
        x = self.target(target, past)  # (B, T, D)
        if self.align is None:
            return self.target.readout(self.decoder(x, memory, mask, cache)), None
        (layer, head), heard = self.align, []
        place = self.decoder.blocks[layer].cross.weights
        listener = place.register_forward_hook(lambda module, arguments, weights: heard.append(weights[:, head]))
        try:
            return self.target.readout(self.decoder(x, memory, mask, cache)), heard[0]
        finally:
            listener.remove()


def parameter_count(vocab_size: int, d_model: int, n_heads: int, d_ff: int, n_layers: int, d_k: int | None = None):
    """How many numbers a `Transformer` with one shared vocabulary and the paper's norms learns: a sum over its parts.

        V D + L (encoder's 4 D^2 + 2 D F, decoder's 8 D^2 + 2 D F) + biases and norms, for d_k = D / H

    With the 37,000 tokens of the paper ("about 37000", section 5.1): base 63.1 million, where its table 3 says 65, and
    big 214.2, where it says 213. Every row of that table but the big one agrees to the million with 41,000 tokens, the
    big one with 36,000: no one vocabulary gives all of them.
    """
    D, d_k = d_model, d_model // n_heads if d_k is None else d_k
    attention = 2 * (D + 1) * n_heads * d_k + 2 * (D + 1) * D  # q and k; v and o
    feed_forward = (D + 1) * d_ff + (d_ff + 1) * D
    norm = 2 * D
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    return vocab_size * D + n_layers * (encoder + decoder)


def _check_shared(shared: bool, source_vocab: int, target_vocab: int) -> None:
    if shared and source_vocab != target_vocab:
        raise ValueError(
            f"A shared embedding needs one vocabulary for both sides; got {source_vocab} and {target_vocab} tokens."
        )


def _check_mask(mask: Tensor | None, real: Tensor) -> None:
    if mask is None:
        return
    check_shapes("Transformer", mask=(mask, "bool B S"), source=(real, "bool B S"))
    if visible(mask) and visible(real) and not real.all() and (mask == ~real).all():
        raise ValueError(
            "The mask is True at padding and nowhere else: True means 'may be looked at' here, the reverse of "
            "PyTorch's key_padding_mask. Hand over ~mask."
        )
