"""retrieval/dense.py: k-means beside scikit-learn's; with all lists read the search is exact; what few probes cost."""

import pytest
import torch
from torch.testing import assert_close

from course_lib.multimodal.zero_shot import search
from course_lib.retrieval.dense import Clusters, k_means


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("N", "C", "rounds"), [(40, 5, 10), (30, 30, 3), (7, 1, 2), (50, 4, 0)])
def test_k_means_is_lloyds_algorithm(N, C, rounds):
    """k_means: the centres that scikit-learn finds from the same beginning in as many rounds."""
    from sklearn.cluster import KMeans

    vectors = drawn(N, 3)
    centres, own = k_means(vectors, C, rounds, seeded())
    first = vectors[torch.randperm(N, generator=seeded())[:C]]
    if rounds:
        theirs = KMeans(C, init=first.numpy(), n_init=1, max_iter=rounds, tol=0, algorithm="lloyd").fit(vectors.numpy())
        assert_close(centres, torch.tensor(theirs.cluster_centers_), atol=1e-10, rtol=0)
    else:
        assert_close(centres, first)
    assert own.tolist() == torch.cdist(vectors, centres).argmin(1).tolist()


def test_a_centre_without_vectors_stays():
    """Two equal vectors drawn as centres: one of them gets nothing."""
    vectors = torch.tensor([[1.0], [1.0], [1.0]])
    centres, own = k_means(vectors, 2, 4, seeded())
    assert centres.isfinite().all() and own.tolist() == [0, 0, 0]


@pytest.mark.parametrize("offset", [0.0, 3000.0, 1e6])
def test_clusters_far_from_the_origin(offset):
    """k_means, Clusters: in single precision the means and the nearest ones are those of double precision."""
    vectors = ((drawn(60, 3) * 16).round() / 16 + offset).float()  # exact wherever they are moved
    centres, own = k_means(vectors, 6, 8, seeded())
    far = torch.cdist(vectors.double(), centres.double())
    assert_close(far.gather(1, own[:, None])[:, 0], far.amin(1), atol=1e-6, rtol=0)
    again, _ = k_means(vectors, 6, 9, seeded())
    means = torch.stack([vectors[own == c].double().mean(0) for c in range(6)])
    assert_close(again.double(), means, atol=2e-7 * max(1, offset), rtol=0)
    near = Clusters(vectors, 6, 8, seeded())
    assert [rows.tolist() for rows in near.lists] == [(own == c).nonzero().flatten().tolist() for c in range(6)]
    _, scores = near.search(vectors, 1, probes=1)
    read = [vectors[own == c] for c in own]
    assert_close(scores[:, 0], torch.stack([(known @ one).max() for known, one in zip(read, vectors, strict=True)]))


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_has_the_clusters_of_its_numbers(half):
    """k_means: 600 vectors in two lists, more than bfloat16 can count; the centres are rounded at the end alone."""
    vectors = torch.cat([drawn(300, 2) + 4, drawn(300, 2, seed=1) + 12]).to(half)
    centres, own = k_means(vectors, 2, 5, seeded())
    wide, _ = k_means(vectors.float(), 2, 5, seeded())
    assert centres.dtype == half and centres.equal(wide.to(half))
    assert own.equal(torch.cdist(vectors.double(), centres.double()).argmin(1))
    index = Clusters(vectors, 2, 5, seeded())
    places, scores = index.search(vectors[:3], 2, probes=2)
    assert places.shape == (3, 2) and scores.dtype == half


def test_all_lists_read_is_the_search_by_brute_force():
    """Clusters: the same places and scores as when every passage is compared; each passage lies in one list."""
    vectors, asked = drawn(60, 5), drawn(9, 5, seed=1)
    index = Clusters(vectors, 7, generator=seeded())
    assert torch.cat(index.lists).sort().values.tolist() == list(range(60))
    places, scores = index.search(asked, 4, probes=7)
    exact, cosines = search(asked, vectors, 4)
    assert places.equal(exact)
    assert_close(scores, cosines)
    assert index.compared == 9 * (7 + 60)


def test_few_probes_compare_less_and_find_less():
    """What is found lies in the lists that are nearest; the share found grows with the probes to all."""
    vectors, asked = drawn(400, 6), drawn(50, 6, seed=1)
    index = Clusters(vectors, 20, generator=seeded())
    exact = search(asked, vectors, 1)[0]
    found, compared = [], []
    for probes in (1, 5, 20):
        found.append((index.search(asked, 1, probes)[0] == exact).double().mean().item())
        compared.append(index.compared)
    assert found[0] < found[1] < found[2] == 1.0
    assert compared[0] < compared[1] < compared[2] == 50 * 420
    near = torch.cdist(asked, index.centres).argmin(1)
    for row, place in enumerate(index.search(asked, 1, 1)[0][:, 0].tolist()):
        assert place in index.lists[near[row]].tolist()


def test_lists_that_hold_too_few_leave_places_empty():
    index = Clusters(torch.tensor([[0.0, 1], [1, 0], [1, 0.1]]), 3, generator=seeded())
    places, scores = index.search(torch.tensor([[0.0, 2]]), 2)
    assert places.tolist() == [[0, -1]] and scores[0, 1] == -torch.inf
    assert_close(scores[0, 0], torch.tensor(2.0))
