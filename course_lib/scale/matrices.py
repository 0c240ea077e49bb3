"""Muon where weights are shared out: each matrix is gathered for its step, for its directions are those of the whole.

Its moments stay shared out. Every process computes the same step and keeps its part of it: the work is not shared.
"""

from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate

from course_lib.language.muon import Muon


class SharedMuon(Muon):
    """`muon.Muon` for weights that may lie in parts on many devices; arguments and errors are its own."""

    @staticmethod
    def along(matrix: Tensor, rounds: int) -> Tensor:
        if isinstance(matrix, DTensor):
            matrix = matrix.redistribute(placements=[Replicate()] * matrix.device_mesh.ndim)
        return Muon.along(matrix, rounds)


def matrices_of(blocks: nn.ModuleList) -> list[nn.Parameter]:
    """The matrices inside a model's blocks: the weights of their linear layers."""
    return [part.weight for part in blocks.modules() if isinstance(part, nn.Linear)]
