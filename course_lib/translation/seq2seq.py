"""Sequence to sequence: one network reads a sentence, another writes its translation. Lessons 03 and 04.

Shapes: B batch, S source time, T target time, D d_model, H d_hidden, L n_layers, V vocabulary. Batch first, always.
Token ids as in `pairs`: 0 padding, 1 start, 2 end, 3 unknown. Padding comes after a sentence.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.attention import (
    AdditiveAttention,
    ConcatAttention,
    DotAttention,
    GeneralAttention,
    padding_mask,
)
from course_lib.inputs.sequences import map_state, select_rows, token_ids, visible, whole_lengths
from course_lib.inputs.shapes import check_shapes
from course_lib.recurrent.lstm import GRU, LSTM
from course_lib.text.pairs import END, PADDING, START

CELLS = {"lstm": LSTM, "gru": GRU}
SCORES = {"additive": AdditiveAttention, "dot": DotAttention, "general": GeneralAttention, "concat": ConcatAttention}


class Encoder(nn.Module):
    """Reads the source: embedding and LSTM or GRU layers (Sutskever, Vinyals and Le, 2014, section 2).

    source (B, S), lengths (B) of real tokens -> memory (B, S, H), the top layer's states, zero behind a sentence's end;
    last state, (L, B, H) each part. Two directions have H / 2 units each, side by side: a decoder starts from either.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        d_hidden: int,
        n_layers: int = 1,
        cell: str = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        self.dropout = nn.Dropout(dropout)
        self.rnn = _choose("cell", cell, CELLS)(d_model, d_hidden // (1 + bidirectional), n_layers, bidirectional)

    def forward(self, source: Tensor, lengths: Tensor):
        source = token_ids("The source", source, self.embed)
        source = F.pad(source, (0, int(source.shape[1] == 0)), value=PADDING)  # one column where all are empty
        lengths = whole_lengths(lengths, source.shape[1], len(source))
        if visible(lengths) and (lengths == source.shape[1]).all():
            lengths = None  # packing, of no use then, costs a third of the time
        memory, state = self.rnn(self.dropout(self.embed(source)), None, lengths)
        if self.rnn.bidirectional:  # rows are layer 0 forward, layer 0 backward, layer 1 forward ...
            state = map_state(state, lambda part: torch.cat([part[0::2], part[1::2]], dim=-1))  # (L, B, H)
        return memory, state


class Decoder(nn.Module):
    """Writes the target from the encoder's last state, all that it knows of the source (Sutskever et al., 2014).

    target (B, T), the tokens so far, state -> logits (B, T, V) for the token behind each, state, no weights.
    Given the whole target, one call reads the correct tokens (teacher forcing); given one token, it takes one step.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        d_hidden: int,
        n_layers: int = 1,
        cell: str = "lstm",
        dropout: float = 0.0,
        d_fed: int = 0,
    ):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        self.dropout = nn.Dropout(dropout)
        self.rnn = _choose("cell", cell, CELLS)(d_model + d_fed, d_hidden, n_layers)
        self.readout = nn.Linear(d_hidden, vocab_size)
        self.d_fed = d_fed  # how much wider the input is, for a decoder that reads more than the last token

    def start(self, state):
        """The state before the first token: the encoder's last, and zeros (1, B, d_fed) for what is to be fed back."""
        h = state[0] if isinstance(state, tuple) else state  # (L, B, H)
        return (state, h.new_zeros(1, h.shape[1], self.d_fed)) if self.d_fed else state

    def forward(self, target: Tensor, state, memory: Tensor | None = None, mask: Tensor | None = None):
        target = token_ids("The target", target, self.embed, shortest=1)
        out, state = self.rnn(self.dropout(self.embed(target)), state)  # (B, T, H)
        return self.readout(self.dropout(out)), state, None


class AttentionDecoder(Decoder):
    """Attends to the whole source for every token that it writes (Luong, Pham and Manning, 2015, section 3, eq. 5).

        context c_t = attention(s_t, memory),  s~_t = tanh(W_c [c_t; s_t]),  logits_t = W s~_t + b

    The states s_t do not depend on any context, so a whole target is one call of the layer and one of the attention.
    With input_feeding=True s~_{t-1} joins the input at t (section 3.3): what it attends to depends on the step before,
    as in Bahdanau et al. (2015), at the price of one step after another.
    target (B, T), state, memory (B, S, H), mask bool (B, S) -> logits (B, T, V), state, weights (B, T, S).
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        d_hidden: int,
        n_layers: int = 1,
        cell: str = "lstm",
        dropout: float = 0.0,
        attention: str = "additive",
        input_feeding: bool = False,
    ):
        super().__init__(vocab_size, d_model, d_hidden, n_layers, cell, dropout, d_hidden * input_feeding)
        self.attention = _choose("attention", attention, SCORES)(d_hidden, d_hidden)
        self.combine = nn.Linear(2 * d_hidden, d_hidden, bias=False)
        self.input_feeding = input_feeding

    def forward(self, target: Tensor, state, memory: Tensor, mask: Tensor | None):
        target = token_ids("The target", target, self.embed, shortest=1)
        x = self.dropout(self.embed(target))  # (B, T, D)
        if self.input_feeding:
            (state, fed), steps = state, []
            for x_t in x.split(1, dim=1):
                out, state = self.rnn(torch.cat([x_t, fed.transpose(0, 1)], dim=-1), state)  # (B, 1, H)
                steps.append(self.look(out, memory, mask))  # (B, 1, H), (B, 1, S)
                fed = steps[-1][0].transpose(0, 1)  # (1, B, H): batch in dimension 1, as in every part of a state
            out, weights = (torch.cat(parts, dim=1) for parts in zip(*steps, strict=True))  # (B, T, H), (B, T, S)
            state = state, fed
        else:
            out, state = self.rnn(x, state)
            out, weights = self.look(out, memory, mask)  # (B, T, H), (B, T, S)
        return self.readout(self.dropout(out)), state, weights

    def look(self, out: Tensor, memory: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """From states (B, T, H) to s~ = tanh(W_c [context; state]) (B, T, H), and the weights (B, T, S)."""
        context, weights = self.attention(out, memory, memory, mask)
        return torch.tanh(self.combine(torch.cat([context, out], dim=-1))), weights


class Seq2Seq(nn.Module):
    """Encoder and decoder in one: the bottleneck without attention, alignment with it.

    attention: None, "additive", "dot", "general" or "concat"; cell: "lstm" or "gru".
    source (B, S), lengths (B) of its real tokens or None (all up to the padding), target_in (B, T), mask bool (B, S)
    where it may attend, None = to every real token -> logits (B, T, V), weights (B, T, S) or None. On a GPU give
    lengths that lie on the CPU, a tensor or a list as from `batches`: packing needs them there, and is the faster way.
    A batch of empty sentences counts as S = 1. Raises ValueError or TypeError, in words, for bad names, ids, lengths.
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        d_model: int,
        d_hidden: int,
        attention: str | None = None,
        cell: str = "lstm",
        n_layers: int = 1,
        bidirectional: bool = False,
        input_feeding: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        _check_fed(input_feeding, attention)
        self.encoder = Encoder(source_vocab, d_model, d_hidden, n_layers, cell, bidirectional, dropout)
        sizes = (target_vocab, d_model, d_hidden, n_layers, cell, dropout)
        self.decoder = Decoder(*sizes) if attention is None else AttentionDecoder(*sizes, attention, input_feeding)

    def forward(self, source: Tensor, lengths: Tensor | None, target_in: Tensor, mask: Tensor | None = None):
        logits, _, weights = self.decoder(target_in, *self._read(source, lengths, mask))
        return logits, weights

    def encode(self, source: Tensor, lengths: Tensor | None = None):
        """What the decoder starts with: memory (B, S, H), and its state before the first token."""
        state, memory, _ = self._read(source, lengths)
        return memory, state

    def step(self, token: Tensor, state, memory: Tensor, mask: Tensor | None):
        """One token (B,) further -> logits (B, V), state, weights (B, S) or None: `forward`'s numbers there."""
        logits, state, weights = self.decoder(token[:, None], state, memory, mask)
        return logits[:, 0], state, None if weights is None else weights[:, 0]

    @torch.no_grad()
    def decoding(self, source: Tensor, lengths: Tensor | None = None, mask: Tensor | None = None) -> dict:
        """What `decode.greedy` and `decode.beam_search` ask for: greedy(**model.decoding(source), max_len=40)."""

        def step(token: Tensor, now):
            logits, state, weights = self.step(token, *now)
            return logits, (state, *now[1:]), weights

        def select(now, rows: Tensor):  # the decoder's state has its batch in dimension 1, the memory in dimension 0
            return select_rows(now[0], rows, dim=1), *select_rows(now[1:], rows)

        state = self._read(source, lengths, mask)
        start = torch.full((len(source),), START, device=state[1].device)
        return {"step": step, "state": state, "start": start, "end": END, "select": select}

    def _read(self, source: Tensor, lengths: Tensor | None, mask: Tensor | None = None):
        """The decoder's state before the first token, memory (B, S, H), where it may attend, bool (B, S)."""
        if lengths is None:
            source = token_ids("The source", source, self.encoder.embed)
            place = torch.arange(1, source.shape[1] + 1, device=source.device)  # a real token makes it this long
            lengths = F.pad((source != PADDING) * place, (1, 0)).amax(dim=1)  # (B,)
        memory, state = self.encoder(source, lengths)
        real = padding_mask(lengths, memory.shape[1]).to(memory.device, non_blocking=True)  # (B, S)
        check_shapes("Seq2Seq", mask=(mask, "bool B S"), source=(real, "bool B S"))
        return self.decoder.start(state), memory, real if mask is None else mask & real


def _choose(what: str, name: str, known: dict):
    if name not in known:
        raise ValueError(f"There is no {what} {name!r}: choose one of {', '.join(known)}.")
    return known[name]


def _check_fed(input_feeding: bool, attention: str | None) -> None:
    if input_feeding and attention is None:
        raise ValueError("input_feeding feeds what attention found: choose an attention too.")
