"""Reversible layers: what a layer read is computed back from what it gave, so nothing has to be kept. Lesson 17.

    y_1 = x_1 + f(x_2),   y_2 = x_2 + g(y_1)         and back:  x_2 = y_2 - g(y_1),   x_1 = y_1 - f(x_2)
    (Gomez et al., 2017, section 3; in a Transformer f is attention, g the feed-forward network: Kitaev et al., 2020,
    section 3, equations 7 to 9)

Shapes: B batch, T time, D width.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn as nn
from torch import Tensor
from torch.autograd.function import once_differentiable

from course_lib.inputs.sequences import autocast_is_on, full_precision
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
        ctx.layers, ctx.mixed = layers, torch.get_autocast_dtype(x_1.device.type) if autocast_is_on(x_1) else None
        ctx.drawn = []  # where the generators stood before f and before g, layer by layer
        with torch.no_grad():
            for f, g in layers:
                x_1, x_2 = reversible_step(_noted(f, ctx.drawn), _noted(g, ctx.drawn), x_1, x_2)
        ctx.save_for_backward(x_1, x_2)  # what the last layer gave: the only activations that are kept
        return x_1.clone(), x_2.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, d_1, d_2):
        y_1, y_2 = ctx.saved_tensors
        found, drawn = {}, list(ctx.drawn)
        with _as_before(y_1, ctx.mixed):
            for f, g in reversed(ctx.layers):
                gave, d = _again(g, y_1, d_2, found, drawn.pop())
                x_2, d_1 = y_2 - gave, d_1 + d
                gave, d = _again(f, x_2, d_1, found, drawn.pop())
                y_1, y_2, d_2 = y_1 - gave, x_2, d_2 + d
        wanted = [w for f, g in ctx.layers for part in (f, g) for w in part.parameters()]
        return d_1, d_2, None, *(found.pop(w, None) for w in wanted)


def _noted(part: Callable, drawn: list) -> Callable:
    """The part, which first notes where the random generators stand."""

    def noting(x):
        drawn.append(_generators(x))
        return part(x)

    return noting


def _generators(x: Tensor) -> tuple[Tensor, Tensor | None]:
    """The states of PyTorch's random generators: the CPU's, and that of the device of x, if that is another."""
    own = getattr(torch.get_device_module(x.device), "get_rng_state", None)
    return torch.get_rng_state(), own and own()


def _set_generators(x: Tensor, states: tuple[Tensor, Tensor | None]) -> None:
    torch.set_rng_state(states[0])
    if states[1] is not None:
        torch.get_device_module(x.device).set_rng_state(states[1])


@contextmanager
def _as_before(y: Tensor, mixed: torch.dtype | None) -> Iterator[None]:
    """A block with autocast as the way there had it; behind it the random generators are where they were."""
    states = _generators(y)
    # The casts that autocast remembers from the way there have no gradient.
    autocast = full_precision(y) if mixed is None else torch.autocast(y.device.type, mixed, cache_enabled=False)
    try:
        with autocast:
            yield
    finally:
        _set_generators(y, states)


def _again(part: nn.Module, x: Tensor, d: Tensor, found: dict, drawn: tuple) -> tuple[Tensor, Tensor | float]:
    """What a part gives for x, computed once more, and the gradient by x; those by its weights are added to `found`."""
    _set_generators(x, drawn)
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
    seconds, and second derivatives, which PyTorch refuses without. What a part draws from PyTorch's own generators
    (dropout, the hashes of `HashedHeads`) is drawn again alike; otherwise parts must give the same twice.
    """

    def __init__(self, parts: list[tuple[nn.Module, nn.Module]], keep: bool = False):
        super().__init__()
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
