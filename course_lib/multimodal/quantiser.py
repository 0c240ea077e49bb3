"""A vector is replaced by the nearest of K learned ones, and gradients pass as if nothing had happened. Lesson 18.

    k = argmin_j |z - e_j|,   q = e_k,   dq/dz := 1        (van den Oord et al., 2017, sections 3.1 and 3.2)

Shapes: ... any number of positions, K codes, E width of a code.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.inputs.sequences import widened
from course_lib.inputs.shapes import check_shapes

COMMITMENT = 0.25  # van den Oord et al. (2017, section 3.2): results hardly change from 0.1 to 2
SELDOM = 0.03  # of an even share: a code that is chosen less often counts as dead


def nearest_code(vectors: Tensor, codes: Tensor) -> Tensor:
    """Which code is nearest to each vector: vectors (..., E), codes (K, E) -> whole numbers (...).

    By differences, number by number: |z|^2 - 2 z . e + |e|^2 is quicker, and far from the origin all its digits cancel.
    """
    check_shapes("nearest_code", vectors=(vectors, "... E+"), codes=(codes, "K+ E"))
    rows, exact = vectors.detach().reshape(-1, vectors.shape[-1]), "donot_use_mm_for_euclid_dist"
    distances = torch.cdist(widened(rows), widened(codes.detach()), compute_mode=exact)  # (N, K)
    return distances.argmin(dim=1).view(vectors.shape[:-1])


def straight_through(vectors: Tensor, chosen: Tensor) -> Tensor:
    """The chosen codes on the way forward (but for rounding), the vectors on the way back: (..., E) -> (..., E).

    What is detached is a constant, so the gradient of the result goes to `vectors` unchanged (Bengio et al., 2013;
    van den Oord et al., 2017, section 3.2).
    """
    check_shapes("straight_through", vectors=(vectors, "... E"), chosen=(chosen, "... E"))
    return vectors + (chosen - vectors).detach()


class Quantiser(nn.Module):
    """K learned codes: vectors (..., E) -> the same positions filled with codes (..., E), which codes (...), a loss.

        loss = |sg(z) - e_k|^2 + 0.25 |z - sg(e_k)|^2,   sg: a constant    (van den Oord et al., 2017, equation 3)

    The first term pulls codes to their vectors, the second vectors to their codes; means over all numbers. In training
    it counts how often each code is chosen (`share`, a running mean, 1 for an even share), and `revive` moves dead
    codes elsewhere. Raises ValueError or TypeError, in words, for vectors of another width.
    """

    def __init__(self, n_codes: int, width: int):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(n_codes, width))
        self.register_buffer("share", torch.ones(n_codes))

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ids = nearest_code(vectors, self.codes)  # (...)
        chosen = F.embedding(ids, self.codes)  # (..., E)
        loss = F.mse_loss(chosen, vectors.detach()) + COMMITMENT * F.mse_loss(vectors, chosen.detach())
        if self.training and ids.numel():  # of no vectors there is no share
            self._count(ids)
        return straight_through(vectors, chosen), ids, loss

    def dead(self) -> Tensor:
        """Which codes are chosen next to never: bool (K,)."""
        return self.share < SELDOM

    @torch.no_grad()
    def revive(self, vectors: Tensor, generator: torch.Generator | None = None) -> int:
        """Move each dead code onto one of these vectors (..., E), sampled at random; how many there were.

        ("Random restarts": Dhariwal et al., 2020.) Nothing is near a dead code, so no gradient moves it.
        generator: of the CPU. Raises ValueError or TypeError, in words, for no vectors and for those of another width.
        """
        check_shapes("Quantiser.revive", vectors=(vectors, "... E"), codes=(self.codes, "K+ E"))
        dead, known = self.dead().nonzero().flatten(), vectors.reshape(-1, self.codes.shape[1])
        check_shapes("Quantiser.revive", vectors=(known, "N+ E"))
        drawn = torch.randint(len(known), (len(dead),), generator=generator)
        self.codes[dead] = known[drawn.to(known.device)]
        self.share[dead] = 1.0
        return len(dead)

    @torch.no_grad()
    def _count(self, ids: Tensor, forget: float = 0.02) -> None:
        share = widened(self.share)  # half precision cannot count beyond 2,048, or 256
        counts = torch.zeros_like(share).scatter_add(0, ids.flatten(), share.new_ones(ids.numel()))
        self.share.copy_(share.lerp(counts * len(share) / ids.numel(), forget))
