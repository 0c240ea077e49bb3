"""Numbers with fewer bits: a matrix as small whole numbers, with one scale for some of them. Lesson 16.

    q = round(w / s), s = max|w| / (2^(b-1) - 1) over a group of weights,   w' = s q
    (absmax: Dettmers et al., 2022, LLM.int8(), section 2.1; a scale for a block of weights, as in lesson 07's files)

Shapes: a matrix is (m, n), cut into groups of `group` weights that follow each other in a row.
"""

import copy
from operator import index

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.inputs.shapes import check_shapes

FULL, SCALE_BITS = 32, 16  # bits of a weight as it was trained, and of a scale


def quantise(weights: Tensor, bits: int, group: int | None = None) -> tuple[Tensor, Tensor]:
    """Whole numbers q from -(2^(bits-1) - 1) to that, int8 (m, n), and the scale of each group, (m, n / group).

    group: how many weights of a row share a scale; all of it where None. A group of zeros has scale 0. Raises
    ValueError for fewer than 2 or more than 8 bits.
    """
    check_shapes("quantise", weights=(weights, "m n"))
    _check_bits(bits)
    rows = weights.detach().float().unflatten(1, (-1, group or weights.shape[1]))  # (m, n / group, group)
    most = 2 ** (index(bits) - 1) - 1
    scales = rows.abs().amax(dim=-1) / most  # (m, n / group)
    whole = (rows / scales[..., None].clamp(min=torch.finfo(scales.dtype).tiny)).round().clamp(-most, most)
    return whole.flatten(1).to(torch.int8), scales


def dequantise(whole: Tensor, scales: Tensor) -> Tensor:
    """w' = s q: whole int8 (m, n), scales (m, groups of a row) -> (m, n), in the scales' dtype."""
    check_shapes("dequantise", whole=(whole, "int8 m n"), scales=(scales, "m groups"))
    return (whole.unflatten(1, (scales.shape[1], -1)) * scales[..., None]).flatten(1)


def rounded(weights: Tensor, bits: int, group: int | None = None) -> Tensor:
    """The weights as `bits` bits can represent them: quantised, and back again; (m, n) -> (m, n)."""
    return dequantise(*quantise(weights, bits, group)).to(weights.dtype)


@torch.no_grad()
def with_fewer_bits(model: nn.Module, bits: int, group: int | None = None) -> nn.Module:
    """A copy of the model in which every matrix, of layers and tables, holds what `bits` bits can represent.

    Vectors (biases, norms) stay as they are. What is rounded is worth what a quantised model is worth, in floats.
    """
    twin = copy.deepcopy(model)
    for part in twin.modules():
        if isinstance(part, (nn.Linear, nn.Embedding)):
            part.weight.copy_(rounded(part.weight, bits, group))
    return twin


def megabytes(model: nn.Module, bits: int = FULL, group: int | None = None) -> float:
    """How large the model's weights are in a file, in millions of bytes: matrices with `bits` bits, the rest with 32.

    A quantised matrix has its scales too, 16 bits each; a weight that is used twice is counted once.
    """
    matrices = {id(part.weight): part.weight for part in model.modules() if isinstance(part, (nn.Linear, nn.Embedding))}
    rest = sum(weight.numel() for weight in model.parameters() if id(weight) not in matrices)
    total = FULL * rest
    for weight in matrices.values():
        m, n = weight.shape
        total += bits * weight.numel() + (SCALE_BITS * m * (n // (group or n)) if bits < FULL else 0)
    return total / 8 / 1e6


def _check_bits(bits: int) -> None:
    if not 2 <= bits <= 8:
        raise ValueError(f"bits is a whole number from 2 to 8: a sign and something to count with; got {bits}.")
