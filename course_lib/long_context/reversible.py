"""Reversible layers: what a layer read is computed back from what it gave, so nothing has to be kept. Lesson 17.

    y_1 = x_1 + f(x_2),   y_2 = x_2 + g(y_1)         and back:  x_2 = y_2 - g(y_1),   x_1 = y_1 - f(x_2)
    (Gomez et al., 2017, section 3; in a Transformer f is attention, g the feed-forward network: Kitaev et al., 2020,
    section 3, equations 7 to 9)

Shapes: B batch, T time, D width.
"""

from collections.abc import Callable

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.inputs.shapes import check_shapes


def reversible_step(f: Callable, g: Callable, x_1: Tensor, x_2: Tensor) -> tuple[Tensor, Tensor]:
    """y_1 = x_1 + f(x_2), y_2 = x_2 + g(y_1): two streams as x (..., D) -> two of the same shape."""
    y_1 = x_1 + f(x_2)
    return y_1, x_2 + g(y_1)


def reversed_step(f: Callable, g: Callable, y_1: Tensor, y_2: Tensor) -> tuple[Tensor, Tensor]:
    """What `reversible_step` was given, from what it gave: x_2 = y_2 - g(y_1), x_1 = y_1 - f(x_2)."""
    x_2 = y_2 - g(y_1)
    return y_1 - f(x_2), x_2


class _Stack(torch.autograd.Function):
    """All layers; backward goes from the last to the first, and computes each part once more: for both of its uses."""

    @staticmethod
    def forward(ctx, x_1, x_2, layers, *parameters):
        ctx.layers = layers
        with torch.no_grad():
            for f, g in layers:
                x_1, x_2 = reversible_step(f, g, x_1, x_2)
        ctx.save_for_backward(x_1, x_2)  # what the last layer gave: all that is kept
        return x_1.clone(), x_2.clone()

    @staticmethod
    def backward(ctx, d_1, d_2):
        y_1, y_2 = ctx.saved_tensors
        found = {}
        for f, g in reversed(ctx.layers):
            gave, d = _again(g, y_1, d_2, found)
            x_2, d_1 = y_2 - gave, d_1 + d
            gave, d = _again(f, x_2, d_1, found)
            y_1, y_2, d_2 = y_1 - gave, x_2, d_2 + d
        wanted = [w for f, g in ctx.layers for part in (f, g) for w in part.parameters()]
        return d_1, d_2, None, *(found.pop(w, None) for w in wanted)


def _again(part: nn.Module, x: Tensor, d: Tensor, found: dict) -> tuple[Tensor, Tensor | float]:
    """What a part gives for x, computed once more, and the gradient by x; those by its weights are added to `found`."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        own = [w for w in part.parameters() if w.requires_grad]
        gave = part(x)
        d_x, *grads = torch.autograd.grad(gave, [x, *own], d, allow_unused=True)
    found |= {w: grad + found.get(w, 0) for w, grad in zip(own, grads, strict=True) if grad is not None}
    return gave.detach(), 0.0 if d_x is None else d_x


class ReversibleStack(nn.Module):
    """Layers of two streams that keep nothing for the way back: x (B, T, D) -> (B, T, D).

    parts: a pair (f, g) a layer, each (B, T, D) -> as it. Both streams begin as x, and the mean of the two is given.
    keep=True is the same computation with all inputs kept, as PyTorch does it: the same gradients, more memory, fewer
    seconds. Parts must give the same twice: no dropout, no drawn hashes. Raises ValueError for parts with dropout.
    """

    def __init__(self, parts: list[tuple[nn.Module, nn.Module]], keep: bool = False):
        super().__init__()
        _check_parts(parts)
        self.f, self.g = (nn.ModuleList(some) for some in zip(*parts, strict=True))
        self.keep = keep

    def forward(self, x: Tensor) -> Tensor:
        check_shapes("ReversibleStack", x=(x, "B T D"))
        layers = list(zip(self.f, self.g, strict=True))
        if self.keep:
            y_1 = y_2 = x
            for f, g in layers:
                y_1, y_2 = reversible_step(f, g, y_1, y_2)
        else:
            weights = [w for f, g in layers for part in (f, g) for w in part.parameters()]
            y_1, y_2 = _Stack.apply(x, x, layers, *weights)
        return (y_1 + y_2) / 2


def _check_parts(parts: list[tuple[nn.Module, nn.Module]]) -> None:
    if not parts or any(len(pair) != 2 for pair in parts):
        raise ValueError("ReversibleStack needs one pair (f, g) or more: what is added to each of the two streams.")
    dropouts = [part for pair in parts for whole in pair for part in whole.modules() if isinstance(part, nn.Dropout)]
    if any(part.p > 0 for part in dropouts):
        raise ValueError("A part with dropout gives another answer when it is computed again: build it with dropout=0.")
