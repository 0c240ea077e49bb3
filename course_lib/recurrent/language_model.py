"""A recurrent language model: predict the next character, train on a text too long to unroll. Lessons 01 and 02.

Shapes: B batch, T time, H d_hidden, L n_layers, V vocab_size, N tokens of a text. Batch first, always.
"""

import math
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.inputs.sequences import token_ids

COLDEST = 1e-8  # below this temperature the best token wins every time, to the last digit


class CharRNN(nn.Module):
    """A character language model: embedding, a recurrent layer, linear read-out (Mikolov et al., 2010, section 2).

    recurrent: a layer such as RNN(d_in, d_hidden) or LSTM(d_in, d_hidden); d_in is the width of the embedding.
    tokens (B, T) of ids below V, the layer's state or None -> logits (B, T, V) for the next token, last state.
    Raises ValueError or TypeError, in words, for what is no text in ids and for a state that does not fit.
    """

    def __init__(self, vocab_size: int, recurrent: nn.Module):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, recurrent.d_in)
        self.rnn = recurrent
        self.readout = nn.Linear(recurrent.d_hidden, vocab_size)

    def forward(self, tokens: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        tokens = token_ids("The text", tokens, self.embed, shortest=1)
        out, state = self.rnn(self.embed(tokens), state)  # (B, T, H), (L, B, H)
        return self.readout(out), state  # (B, T, V), (L, B, H)

    @torch.no_grad()
    def sample(
        self, prompt: Tensor, n_tokens: int, temperature: float = 1.0, generator: torch.Generator | None = None
    ) -> Tensor:
        """Continue each prompt (B, T) by n_tokens drawn from softmax(logits / temperature): (B, T + n_tokens).

        Temperature 0 takes the most probable token; 1 is the model's own distribution.
        """
        tokens, state = [token_ids("The prompt", prompt, self.embed, shortest=1)], None
        for _ in range(n_tokens):
            logits, state = self(tokens[-1], state)
            if temperature < COLDEST:
                tokens.append(logits[:, -1:].argmax(-1))  # (B, 1)
            else:
                weights = torch.softmax(logits[:, -1] / temperature, dim=-1)  # (B, V)
                tokens.append(torch.multinomial(weights, 1, generator=generator))  # (B, 1)
        return torch.cat(tokens, dim=1)


def streams(ids: Tensor, batch_size: int, chunk: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless (x, y) pairs (batch_size, chunk): the text cut into parallel streams, each read chunk after chunk.

    Row i of a pair continues row i of the pair before it, so the state may be carried; y is x one token later.
    ids (N,), a tensor or a list. Raises ValueError for a text that is too short.
    """
    ids = torch.as_tensor(ids)
    _check_long_enough(ids, batch_size, chunk)
    length = (len(ids) - 1) // batch_size // chunk * chunk
    x = ids[: length * batch_size].view(batch_size, length)
    y = ids[1 : length * batch_size + 1].view(batch_size, length)
    while True:
        for start in range(0, length, chunk):
            yield x[:, start : start + chunk], y[:, start : start + chunk]


class TruncatedBPTT:
    """Loss of one chunk: the state is carried in from the chunk before, the gradient is not.

    (Williams and Peng, 1990: their BPTT(h; h') starts back every h' steps and goes h steps back; here h = h'.)

    Call it with a model (tokens, state) -> (logits, state) and a pair from `streams`; nats per token come back.
    """

    def __init__(self):
        self.state = None

    def __call__(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        logits, state = model(x, self.state)
        # The next chunk starts here and knows nothing of how it came about. An LSTM's state is a pair (h, c).
        self.state = tuple(part.detach() for part in state) if isinstance(state, tuple) else state.detach()
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())

    def state_dict(self) -> dict[str, Tensor | None]:
        if isinstance(self.state, tuple):
            return {f"state.{k}": part for k, part in enumerate(self.state)}
        return {"state": self.state}

    def load_state_dict(self, saved: dict[str, Tensor | None]) -> None:
        parts = tuple(saved[name] for name in sorted(saved) if name != "state")
        self.state = parts or saved.get("state")


@torch.no_grad()
def bits_per_character(model: nn.Module, ids: Tensor, n_streams: int = 64, chunk: int = 256) -> float:
    """Mean -log2 p(next character) over a text of ids (N,), read in n_streams parallel streams with state carried."""
    loss, device = TruncatedBPTT(), next(model.parameters()).device
    steps = (len(ids) - 1) // n_streams // chunk
    once = zip(streams(ids, n_streams, chunk), range(steps), strict=False)
    nats = torch.stack([loss(model, (x.to(device), y.to(device))) for (x, y), _ in once])  # a mean for each chunk
    tokens = n_streams * chunk
    return sum(mean * tokens for mean in nats.tolist()) / (steps * tokens) / math.log(2)


def _check_long_enough(ids: Tensor, batch_size: int, chunk: int) -> None:
    if ids.ndim != 1 or len(ids) <= batch_size * chunk:
        raise ValueError(
            f"{batch_size} streams in chunks of {chunk} need more than {batch_size * chunk} tokens in one row; got "
            f"{tuple(ids.shape)}."
        )
