"""A reader of one layer, small enough to see through, and the three places where it can be told the order. Lesson 05.

Shapes: B batch, T time, D d_model, V vocab_size.
"""

from collections.abc import Callable

import torch.nn as nn
from torch import Tensor

from course_lib.attention.attention import SelfAttention
from course_lib.inputs.sequences import token_ids


class OrderModel(nn.Module):
    """Embed, look once, answer at every place: logits = W (x + SelfAttention(x)), x = add(embedding of the token).

    A scheme of positions enters at one of three places, each a module or a function, or None:
    add   (B, T, D) -> (B, T, D), to the input (`SinusoidalPositions`, `LearnedPositions`);
    turn  (B, T, D) -> (B, T, D), to queries and keys (`rotate`);
    bias  T -> (1, T, T), to the scores (`RelativeBias`, `alibi_bias`).

    ids (B, T) of whole numbers below vocab_size -> logits (B, T, n_answers). Raises ValueError or TypeError, in words,
    for other ids.
    """

    def __init__(
        self,
        vocab_size: int,
        n_answers: int,
        d_model: int = 64,
        add: Callable[[Tensor], Tensor] | None = None,
        turn: Callable[[Tensor], Tensor] | None = None,
        bias: Callable[[int], Tensor] | None = None,
    ):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        self.add, self.bias = add, bias
        self.attention = SelfAttention(d_model, turn=turn)
        self.answer = nn.Linear(d_model, n_answers)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.embed(token_ids("The reader's input", ids, self.embed))  # (B, T, D)
        if self.add is not None:
            x = self.add(x)
        bias = None if self.bias is None else self.bias(x.shape[1])  # (1, T, T)
        looked, _ = self.attention(x, mask=mask, bias=bias)  # (B, T, D)
        return self.answer(x + looked)  # (B, T, V)
