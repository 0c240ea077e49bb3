"""Windows: attention among the places of one small square, and the shift that joins the squares. Lesson 12.

    even blocks:  each place looks at the M x M places of its window
    odd blocks:   the same, on a grid that is rolled by M / 2 up and to the left
    (Liu et al., 2021, section 3.2, equation 3)

Global attention has N^2 scores, windows N M^2. Shapes: B batch, h and w the grid, N = h w places, row by row, M side of
a window, n = N / M^2 windows, D d_model, H n_heads. Masks are boolean, True = may attend.
"""

import math
from collections.abc import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.block import Block, FeedForward
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.norms import LayerNorm
from course_lib.inputs.shapes import check_shapes


def to_windows(x: Tensor, side: int) -> Tensor:
    """Cut a grid into windows, row by row, as are the places of each: (B, h, w, D) -> (B n, M M, D).

    Raises ValueError where windows of side M do not fill the grid: nothing is padded.
    """
    check_shapes("to_windows", x=(x, "any B h+ w+ D"))
    _check_fills((x.shape[1], x.shape[2]), side)
    _, h, w, _ = x.shape
    cut = x.unflatten(2, (w // side, side)).unflatten(1, (h // side, side))  # (B, h/M, M, w/M, M, D)
    return cut.transpose(2, 3).flatten(0, 2).flatten(1, 2)  # (B, h/M, w/M, M, M, D) -> (B n, M M, D)


def from_windows(windows: Tensor, h: int, w: int) -> Tensor:
    """The inverse of `to_windows`: (B n, M M, D) -> (B, h, w, D).

    Raises ValueError for windows that are no squares, and for as many as do not fill such grids.
    """
    check_shapes("from_windows", windows=(windows, "any number places+ D"))
    _check_windows(windows, h, w)
    side = math.isqrt(windows.shape[1])
    cut = windows.unflatten(1, (side, side)).unflatten(0, (-1, h // side, w // side))  # (B, h/M, w/M, M, M, D)
    return cut.transpose(2, 3).flatten(3, 4).flatten(1, 2)  # (B, h/M, M, w/M, M, D) -> (B, h, w, D)


def shift_mask(h: int, w: int, side: int, shift: int) -> Tensor:
    """Who may attend to whom on a rolled grid: those that stand together in the image (Liu et al., 2021, figure 4).

    The roll by -shift brings the first rows behind the last ones, and the first columns too: a window at that edge
    holds places from opposite sides of the image -> bool (n, M M, M M). Each rolled grid has two parts down and two
    across, and a place sees its own part of its window. Raises ValueError for a shift that is not from 0 to M - 1.
    """
    _check_fills((h, w), side)
    _check_shift(side, shift)
    part = torch.zeros(1, h, w, 1)
    part[:, h - shift :] += 2  # the rows that came from the top
    part[:, :, w - shift :] += 1  # the columns that came from the left: four parts, 0 to 3
    part = to_windows(part, side)  # (n, M M, 1)
    return part == part.mT  # (n, M M, M M)


class GridBias(nn.Module):
    """A learned number for each head and offset, added to the scores (Liu et al., 2021, section 3.2, equation 4).

    Two places of a window of side M are at most M - 1 rows and M - 1 columns apart: table ((2M - 1)^2, H), all 0 at
    first. Its rows are the offsets, key place - query place as in `RelativeBias`, row by row from (-(M-1), -(M-1)): as
    a picture of (2M - 1) x (2M - 1), the query in the middle. (The paper's code has query - key: its table reversed.)
    As `position_bias` of a `MultiHead` it is asked with places, and answers for the whole window -> (H, M M, M M).
    """

    def __init__(self, n_heads: int, side: int):
        super().__init__()
        self.table = nn.Parameter(torch.zeros((2 * side - 1) ** 2, n_heads))
        row, column = torch.arange(side * side) // side, torch.arange(side * side) % side  # (M M,)
        down, across = (place - place[:, None] + side - 1 for place in (row, column))  # (M M, M M), from 0 to 2M - 2
        self.register_buffer("index", down * (2 * side - 1) + across, persistent=False)

    def forward(self, queries: Tensor | None = None, keys: Tensor | None = None) -> Tensor:
        return self.table[self.index].movedim(-1, 0)  # (H, M M, M M)


class WindowAttention(MultiHead):
    """Multi-head attention within windows of side M, on a grid that is rolled by -shift first (Liu et al., 2021).

        windows = to_windows(roll(x, -shift), M),   out = roll(from_windows(attention(windows)), shift)

    x (B, N, D), the places of the grid (h, w) row by row -> (B, N, D). It is the `attention` of a `Block`. A grid whose
    shorter side is M or less has windows of that side and no shift, as the paper's code has it: where it is square, one
    window is the whole of it, and attention is global. `record.capture` hears weights (B n, H, M M, M M).
    Raises ValueError for a grid that windows do not fill (nothing is padded), a shift that is not from 0 to M - 1 or
    has nothing to join, for x of other shapes, and for masks and caches, for which windows have no use.
    """

    def __init__(self, d_model: int, n_heads: int, grid: tuple[int, int], side: int, shift: int = 0):
        side = min(side, *grid)
        _check_fills(grid, side)
        _check_shift(side, shift, grid)
        grid, side, shift = tuple(map(int, grid)), int(side), int(shift)  # a number of NumPy's may have no opposite
        super().__init__(d_model, n_heads, position_bias=GridBias(n_heads, side))
        self.grid, self.side, self.shift = grid, side, shift
        self.register_buffer("together", shift_mask(*grid, side, shift) if shift else None, persistent=False)

    def forward(self, x: Tensor, **other) -> Tensor:
        h, w = self.grid
        _check_alone(other)
        check_shapes("WindowAttention", x=(x, f"B+ {h * w} {self.d_model}"))
        rolled = x.unflatten(1, (h, w)).roll((-self.shift, -self.shift), (1, 2))  # (B, h, w, D)
        mask = None if self.together is None else self.together.repeat(len(x), 1, 1)  # (B n, M M, M M)
        out = super().forward(to_windows(rolled, self.side), mask=mask)  # (B n, M M, D)
        return from_windows(out, h, w).roll((self.shift, self.shift), (1, 2)).flatten(1, 2)  # (B, N, D)


def window_blocks(
    d_model: int,
    n_heads: int,
    grid: tuple[int, int],
    side: int,
    n_layers: int,
    shifted: bool = True,
    d_ff: int | None = None,
    dropout: float = 0.0,
    activation: Callable[[Tensor], Tensor] = F.gelu,
) -> nn.ModuleList:
    """Blocks of `WindowAttention`, norms before the parts, whose shifts are 0, M // 2, 0, M // 2 ...

    shifted=False: all are 0. All are 0 too where the shorter side of the grid is M or less: there is nothing to join.
    """
    shifts = (0, side // 2 if shifted and side < min(grid) else 0)
    return nn.ModuleList(
        Block(
            WindowAttention(d_model, n_heads, grid, side, shifts[number % 2]),
            FeedForward(d_model, 4 * d_model if d_ff is None else d_ff, activation),
            dropout=dropout,
            pre_norm=True,
        )
        for number in range(n_layers)
    )


class WindowEncoder(nn.Module):
    """A stack of `window_blocks` and a norm behind the last: x (B, N, D) -> (B, N, D). `sizes`: what they take.

    Without the shift nothing passes from a window to another, however many blocks there are.
    """

    def __init__(self, d_model: int, n_heads: int, grid: tuple[int, int], side: int, n_layers: int, **sizes):
        super().__init__()
        self.blocks = window_blocks(d_model, n_heads, grid, side, n_layers, **sizes)
        self.norm = LayerNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def _check_fills(grid: tuple[int, int], side: int) -> None:
    h, w = grid
    if h % side or w % side:
        raise ValueError(
            f"Windows of {side} x {side} do not fill a grid of {h} x {w}, and nothing is padded: choose a side that "
            "divides both."
        )


def _check_windows(windows: Tensor, h: int, w: int) -> None:
    number, places, _ = windows.shape
    _check_fills((h, w), side := math.isqrt(places))
    if side * side != places or number % (h * w // places):
        raise ValueError(
            f"A grid of {h} x {w} is cut into squares of {side} x {side}, as many as fill it for each image; got "
            f"{number} windows of {places} places."
        )


def _check_shift(side: int, shift: int, grid: tuple[int, int] | None = None) -> None:
    if not 0 <= shift < side:
        raise ValueError(f"The shift of windows of side {side} is a whole number from 0 to {side - 1}; got {shift}.")
    if shift and grid is not None and min(grid) <= side:
        raise ValueError(
            f"A grid of {grid[0]} x {grid[1]} has one row or column of windows of side {side}: there is nothing that a "
            f"shift could join there; got shift={shift}, use 0."
        )


def _check_alone(other: dict) -> None:
    used = [name for name, value in other.items() if value is not None and value is not False]
    if used:
        raise ValueError(
            f"Windows look at their own places, all of them, at once: there is no {' or '.join(used)} here."
        )
