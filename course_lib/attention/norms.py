"""Norms: what keeps the numbers of each place at one size, so that a deep stack of blocks can be trained. Lesson 06.

`layer_norm` is that of the Transformer and of GPT, `rms_norm` that of today's decoders (lesson 07).
Shapes: D width; dots stand for any number of dimensions before it.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.inputs.shapes import check_shapes


def layer_norm(x: Tensor, gain: Tensor, shift: Tensor, eps: float = 1e-5) -> Tensor:
    """gain * (x - mean) / sqrt(variance + eps) + shift, over the width of each place (Ba, Kiros and Hinton, 2016).

    x (..., D), gain and shift (D,) -> (..., D). Mean and variance are sums over the D numbers times 1 / D, the variance
    too: torch.var divides by D - 1 unless it is told not to.
    """
    mean = x.mean(dim=-1, keepdim=True)  # (..., 1)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)  # (..., 1)
    return gain * (x - mean) / torch.sqrt(variance + eps) + shift


class LayerNorm(nn.Module):
    """`layer_norm` with a learned gain, at first 1, and shift, at first 0: x (..., D) -> (..., D), by PyTorch's kernel.

    eps is added to the variance. Raises ValueError for x of another width.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.gain, self.shift, self.eps = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model)), eps

    def forward(self, x: Tensor) -> Tensor:
        check_shapes(type(self).__name__, x=(x, f"... {len(self.gain)}"))
        return F.layer_norm(x, self.gain.shape, self.gain, self.shift, self.eps)


def rms_norm(x: Tensor, gain: Tensor, eps: float = 1e-5) -> Tensor:
    """gain * x / sqrt(mean of x^2 + eps), over the width of each place (Zhang and Sennrich, 2019, equation 4).

    x (..., D), gain (D,) -> (..., D). `layer_norm` without the mean that it takes away and the shift that it adds.
    """
    return gain * x / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps)


class RMSNorm(nn.Module):
    """`rms_norm` with a learned gain, at first 1: x (..., D) -> (..., D), by PyTorch's kernel.

    eps is added to the mean square. Raises ValueError for x of another width.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.gain, self.eps = nn.Parameter(torch.ones(d_model)), eps

    def forward(self, x: Tensor) -> Tensor:
        check_shapes(type(self).__name__, x=(x, f"... {len(self.gain)}"))
        return F.rms_norm(x, self.gain.shape, self.gain, self.eps)
