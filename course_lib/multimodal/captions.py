"""A picture is described word by word: a decoder that starts from its vector and may attend to its grid. Lesson 11.

    grid = backbone(image),   state_0 = rnn(flat(grid) W),   state_t, p(word_t) = decoder(word_(t-1), state_(t-1), grid)
    (Vinyals et al., 2015, "Show and Tell", section 3.1; attention to the grid: Xu et al., 2015, section 3.1)

Shapes: B batch, C channels, H, W height and width, F channels of the backbone, h, w its grid, S = h w positions, T
words, V vocabulary. Batch first, always. Token ids as in `pairs`: 0 padding, 1 start, 2 end.
"""

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.inputs.sequences import select_rows
from course_lib.inputs.shapes import check_shapes
from course_lib.text.pairs import END, START
from course_lib.translation.seq2seq import AttentionDecoder, Decoder


class Captioner(nn.Module):
    """Lessons 03's and 04's decoder that writes what an image is called instead of a translation.

    backbone: images (B, C, H, W) -> (B, F, h, w), with F = its `width` and S = h w = n_places. One layer makes a vector
    of the whole grid, which is read as if it were the first word (Vinyals et al., 2015, equation 10). attention: None,
    and that vector is all that the decoder sees of the image; or "additive", "dot", "general", "concat": it attends to
    the positions of the grid for each word that it writes, as a translator to the words of the source (Xu et al., 2015,
    figure 1). Theirs starts from the mean of the grid and attends before each LSTM step; ours attends after it, as in
    lesson 04, so that a whole caption is one call.
    images, target_in (B, T) -> logits (B, T, V) for the next word of each, weights (B, T, S) or None, row by row.
    `record.capture` records "decoder.attention.weights". Raises ValueError or TypeError, in words, as its parts do, and
    for a name of an attention or a cell that is none.
    """

    def __init__(
        self,
        backbone: nn.Module,
        n_places: int,
        vocab_size: int,
        d_model: int,
        d_hidden: int,
        attention: str | None = None,
        cell: str = "lstm",
        dropout: float = 0.0,
    ):
        super().__init__()
        sizes = (vocab_size, d_model, d_hidden, 1, cell, dropout)
        self.backbone, self.n_places = backbone, n_places
        self.begin = nn.Linear(n_places * backbone.width, d_model)
        self.places = None if attention is None else nn.Linear(backbone.width, d_hidden)
        self.decoder = Decoder(*sizes) if attention is None else AttentionDecoder(*sizes, attention)

    def forward(self, images: Tensor, target_in: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """mask bool (B, S): where it may attend, everywhere if None."""
        state, memory = self.see(images)
        logits, _, weights = self.decoder(target_in, state, memory, mask)
        return logits, weights

    def see(self, images: Tensor) -> tuple:
        """The decoder's state when it has read the image's vector, and the grid as its memory (B, S, d_hidden)."""
        grid = self.backbone(images)
        check_shapes("Captioner", grid=(grid.flatten(2), f"B {self.backbone.width} {self.n_places}"))
        _, state = self.decoder.rnn(self.begin(grid.flatten(1))[:, None])  # the vector is the first "word"
        return state, None if self.places is None else self.places(grid.flatten(2).transpose(1, 2))  # (B, S, d_hidden)

    @torch.no_grad()
    def decoding(self, images: Tensor, mask: Tensor | None = None) -> dict:
        """What `decode.greedy` and `decode.beam_search` ask for: greedy(**model.decoding(images), max_len=12)."""

        def step(token: Tensor, now):
            logits, state, weights = self.decoder(token[:, None], *now)
            return logits[:, 0], (state, *now[1:]), None if weights is None else weights[:, 0]

        def select(now, rows: Tensor):  # the decoder's state has its batch in dimension 1, the grid in dimension 0
            return select_rows(now[0], rows, dim=1), *select_rows(now[1:], rows)

        start = torch.full((len(images),), START, device=self.begin.weight.device)
        return {"step": step, "state": (*self.see(images), mask), "start": start, "end": END, "select": select}


def over_image(weights: Tensor, grid: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """Weights of positions laid over their image: (..., S) -> (..., H, W), of the same sum.

    grid (h, w), size (H, W), its sides multiples of the grid's; the pixels of a position share its weight equally.
    Raises ValueError where that does not fit.
    """
    _check_grid(grid, size)
    (h, w), (H, W) = grid, size
    cells = weights.unflatten(-1, grid) / (H // h * (W // w))  # (..., h, w)
    return cells.repeat_interleave(H // h, dim=-2).repeat_interleave(W // w, dim=-1)


def share_inside(weights: Tensor, part: Tensor, grid: tuple[int, int]) -> Tensor:
    """How much of a map of weights lies in a part of the image: weights (..., S), part bool (..., H, W) -> (...).

    From 0 to 1 where the weights add up to 1. A pixel has its position's weight over the number of its pixels, so a
    uniform map gives the part's area. Raises ValueError where they do not fit.
    """
    check_shapes("share_inside", weights=(weights, "... S"), part=(part, "bool ... H W"))
    return (over_image(weights, grid, part.shape[-2:]) * part).sum(dim=(-2, -1))


def _check_grid(grid: tuple[int, int], size: tuple[int, int]) -> None:
    (h, w), (H, W) = grid, size
    if H % h or W % w:
        raise ValueError(f"A grid of {h} x {w} lies over an image whose sides are multiples of it; got {H} x {W}.")
