"""Two streams: a model that learns all orders of a sentence, and must not see the word that it predicts. Lesson 17.

    g_i attends to h_j with rank(j) < rank(i): knows its own position, not its word
    h_i attends to h_j with rank(j) <= rank(i): knows both       (XLNet; Yang et al., 2019, section 2.3)

Shapes: B batch, T positions, D d_model, V vocab_size. Masks are boolean, True = may be attended to.
"""

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.attention.block import FeedForward
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.norms import LayerNorm
from course_lib.inputs.sequences import token_ids, visible
from course_lib.inputs.shapes import check_shapes


def order_masks(order: Tensor) -> tuple[Tensor, Tensor]:
    """What the content stream and the query stream may see where positions are read in this order: two masks (T, T).

    order (T,): the position that is read first, second, ... -> rank(j) <= rank(i), rank(j) < rank(i), for row i.
    Raises ValueError for what is no order.
    """
    _check_order(order)
    rank = order.argsort()
    return rank[None] <= rank[:, None], rank[None] < rank[:, None]


class AllOrders(nn.Module):
    """A small XLNet: ids (B, T), order (T,) -> logits (B, T, V) of each word by those read before it in this order.

    h_0 = word + position, g_0 = one learned vector + position; both streams go through the same layers. (The paper's
    positions are relative, with `segments.relative_scores`; here each adds a learned vector.) Raises ValueError for
    a row longer than max_len or an order that is none.
    """

    def __init__(self, vocab_size: int, max_len: int, d_model: int, n_heads: int, n_layers: int):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.asks = nn.Parameter(torch.randn(d_model))  # the w of section 2.3
        self.attention = nn.ModuleList(MultiHead(d_model, n_heads) for _ in range(n_layers))
        self.feed_forward = nn.ModuleList(FeedForward(d_model, 4 * d_model) for _ in range(n_layers))
        self.norms = nn.ModuleList(LayerNorm(d_model) for _ in range(2 * n_layers))
        self.readout = nn.Linear(d_model, vocab_size)

    def forward(self, ids: Tensor, order: Tensor) -> Tensor:
        ids = token_ids("The row", ids, self.tokens, shortest=1)
        _check_row(ids, order, len(self.places.weight))
        with_own, without = (mask[None] for mask in order_masks(order))  # (1, T, T) each
        place = self.places.weight[: ids.shape[1]]  # (T, D)
        h, g = self.tokens(ids) + place, (self.asks + place).expand(len(ids), -1, -1)
        for i, (look, think) in enumerate(zip(self.attention, self.feed_forward, strict=True)):
            streams = []
            for x, mask in ((g, without), (h, with_own)):
                x = self.norms[2 * i](x + look(x, memory=h, mask=mask))  # both look at the words
                streams.append(self.norms[2 * i + 1](x + think(x)))
            g, h = streams
        return self.readout(g)


def _check_order(order: Tensor) -> None:
    check_shapes("order_masks", order=(order, "int T+"))
    if visible(order) and sorted(order.tolist()) != list(range(len(order))):
        raise ValueError(f"An order names every place from 0 to {len(order) - 1} once; got {order.tolist()}.")


def _check_row(ids: Tensor, order: Tensor, max_len: int) -> None:
    check_shapes("AllOrders", ids=(ids, "int B T"), order=(order, "int T"))
    if ids.shape[1] > max_len:
        raise ValueError(f"A row has up to {max_len} places; got {ids.shape[1]}.")
