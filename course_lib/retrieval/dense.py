"""Dense search: a passage is found by its vector; all are compared, or those of the nearest clusters alone. Lesson 15.

Shapes: M questions, N passages, E width of a vector, C clusters. Scores are dot products, so of vectors of length 1
cosines. All compared, it is `zero_shot.search`, M N products of E numbers. An inverted file (Sivic and Zisserman, 2003;
the IVF of the library faiss: Johnson, Douze and Jégou, 2017, section 2.2) compares about N probes / C of them.
"""

import torch
from torch import Tensor

from course_lib.inputs.sequences import widened
from course_lib.inputs.shapes import check_shapes


def k_means(vectors: Tensor, n_clusters: int, rounds: int = 10, generator=None) -> tuple[Tensor, Tensor]:
    """Lloyd's algorithm (1957): to the nearest centre, each centre to its mean, so many rounds.

    vectors (N, E) -> centres (C, E), the nearest centre of each vector int64 (N,). It begins at C different vectors,
    sampled by the generator (of the vectors' device, PyTorch's own where None). A centre that no vector is nearest to
    stays where it is.
    """
    check_shapes("k_means", vectors=(vectors, "N+ E+"))
    first = torch.randperm(len(vectors), generator=generator, device=vectors.device)[:n_clusters]
    wide, centres = widened(vectors), widened(vectors[first])
    for _ in range(rounds):
        own = _nearest(wide, centres)
        # Means of what is left: far from the origin sums of the vectors themselves would lose their last digits.
        sums = torch.zeros_like(centres).index_add_(0, own, wide - centres[own])  # (C, E)
        counts = torch.zeros_like(centres[:, :1]).index_add_(0, own, torch.ones_like(wide[:, :1]))  # (C, 1)
        centres = centres + sums / counts.clamp(min=1)
    centres = centres.to(vectors.dtype)
    return centres, _nearest(vectors, centres)


class Clusters:
    """An inverted file: vectors in lists, one for each centre, of which a question reads the nearest few.

    vectors (N, E). n_clusters: about the square root of N is usual; rounds and generator as in `k_means`. A passage
    near a border may lie in a list that is not read: that is what the quickness costs, and more probes buy it back.
    `found.search(asked, k, probes)` -> indices int64 (M, k), scores (M, k), the highest first; where the lists hold
    fewer than k the rest is -1 with a score of minus infinity. `compared` counts the products of vectors with vectors
    that the last search took, centres included.
    """

    def __init__(self, vectors: Tensor, n_clusters: int, rounds: int = 10, generator=None):
        self.vectors = vectors
        self.centres, own = k_means(vectors, n_clusters, rounds, generator)
        self.lists = [(own == c).nonzero().flatten() for c in range(n_clusters)]
        self.compared = 0

    def search(self, asked: Tensor, k: int = 5, probes: int = 1) -> tuple[Tensor, Tensor]:
        """The k best of the lists of the `probes` nearest centres, for each that is asked (M, E)."""
        check_shapes("Clusters.search", asked=(asked, f"M {self.vectors.shape[1]}"))
        near = _distances(asked, self.centres).topk(probes, dim=1, largest=False).indices  # (M, probes)
        places = torch.full((len(asked), k), -1, device=asked.device)
        scores = asked.new_full((len(asked), k), -torch.inf)
        self.compared = len(asked) * len(self.centres)
        for row, lists in enumerate(near.tolist()):
            read = torch.cat([self.lists[c] for c in lists])
            best = (self.vectors[read] @ asked[row]).topk(min(k, len(read)))
            scores[row, : len(best.values)], places[row, : len(best.values)] = best.values, read[best.indices]
            self.compared += len(read)
        return places, scores


def _distances(vectors: Tensor, centres: Tensor) -> Tensor:
    """Distances to the centres, by differences, for products cancel far from the origin: (N, C)."""
    return torch.cdist(widened(vectors), widened(centres), compute_mode="donot_use_mm_for_euclid_dist")


def _nearest(vectors: Tensor, centres: Tensor) -> Tensor:
    return _distances(vectors, centres).argmin(dim=1)
