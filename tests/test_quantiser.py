"""multimodal/quantiser.py: the nearest code by brute force; both gradients by hand; codes that die and come back."""

import random

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from course_lib.multimodal.quantiser import COMMITMENT, SELDOM, Quantiser, nearest_code, straight_through

EXACT = {"atol": 1e-12, "rtol": 0}


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def a_quantiser(K=5, E=3, seed=0):
    """A quantiser in double precision with codes of its own."""
    model = Quantiser(K, E).double()
    with torch.no_grad():
        model.codes.copy_(normal(K, E, seed=seed))
    return model


# --- the nearest code


@pytest.mark.parametrize("seed", range(12))
def test_the_nearest_code_by_brute_force(seed):
    """nearest_code: the argmin of cdist, and of distances that are written out, for shapes drawn at random."""
    draw = random.Random(seed)
    K, E = draw.choice([1, 2, 7, 40]), draw.choice([1, 3, 16])
    shape = [draw.choice([1, 2, 5]) for _ in range(draw.choice([0, 1, 3]))]
    vectors, codes = normal(*shape, E, seed=seed), normal(K, E, seed=100 + seed)
    found = nearest_code(vectors, codes)
    assert found.shape == tuple(shape) and found.dtype == torch.int64
    assert torch.equal(found, torch.cdist(vectors.reshape(-1, E), codes).argmin(dim=1).view(shape))
    for vector, k in zip(vectors.reshape(-1, E), found.flatten().tolist(), strict=True):
        distances = [sum((a - b) ** 2 for a, b in zip(vector.tolist(), code, strict=True)) for code in codes.tolist()]
        assert distances[k] == min(distances)


def test_a_code_is_nearest_to_itself_and_of_equals_the_first_is():
    codes = normal(4, 3)
    assert nearest_code(codes, codes).tolist() == [0, 1, 2, 3]
    assert nearest_code(codes, codes[[2, 0, 2, 0]]).tolist()[::2] == [1, 0]
    assert nearest_code(torch.zeros(2, 1), torch.tensor([[3.0], [-1], [1]])).tolist() == [1, 1]
    assert nearest_code(torch.zeros(6, 3), torch.ones(1, 3)).tolist() == [0] * 6


def test_the_nearest_code_far_from_the_origin():
    """nearest_code: neither a common offset nor one far code changes who is nearest."""
    assert nearest_code(torch.tensor([[3000.3, 0]]), torch.tensor([[3000.0, 0], [3000.25, 0], [3000.5, 0]])).item() == 1
    for offset in (0.0, 10.0, 3000.0, 1e6):
        codes = torch.tensor([[0.0, 1], [0.25, 0], [0.5, 0.5], [-1, 2]]) + offset
        wanted = torch.arange(4)
        assert nearest_code(codes + 0.0625, codes).equal(wanted)
        far = torch.cat([codes, -codes - 1e4])  # their mean lies far from all of them
        assert nearest_code(codes + 0.0625, far).equal(wanted)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("offset", [0.0, 10.0, 100.0])
def test_half_precision_chooses_as_its_numbers_are(half, offset):
    """nearest_code: as the same numbers in double precision."""
    vectors, codes = (offset + normal(200, 4)).to(half), (offset + normal(16, 4, seed=1)).to(half)
    far = (vectors.double()[:, None] - codes.double()).square().sum(-1)
    found = nearest_code(vectors, codes)
    assert_close(far.gather(1, found[:, None])[:, 0], far.amin(1), atol=0, rtol=1e-6)
    assert nearest_code(vectors, codes.float()).equal(found)


def test_of_no_vectors_there_is_no_code():
    assert nearest_code(torch.zeros(0, 3), torch.ones(2, 3)).shape == (0,)
    assert nearest_code(torch.zeros(2, 0, 3), torch.ones(2, 3)).shape == (2, 0)


# --- straight through


def test_forward_the_codes_backward_the_vectors():
    """straight_through: the value is that of the code, the gradient goes to the vectors as it is, to no code."""
    vectors, chosen = normal(2, 4, 3).requires_grad_(), normal(2, 4, 3, seed=1).requires_grad_()
    out, weight = straight_through(vectors, chosen), normal(2, 4, 3, seed=2)
    assert_close(out, chosen, **EXACT)
    (weight * out.square()).sum().backward()
    assert_close(vectors.grad, 2 * weight * chosen.detach(), **EXACT)  # that of chosen, at the value of chosen
    assert chosen.grad is None


# --- the loss


def test_loss_and_gradients_are_those_of_the_paper():
    """Quantiser, Quantiser.forward: van den Oord et al. (2017, equation 3), terms and gradients written out."""
    model, vectors = a_quantiser(), normal(2, 4, 3, seed=1).requires_grad_()
    out, ids, loss = model(vectors)
    z, codes, N = vectors.detach(), model.codes.detach(), vectors.numel()
    assert torch.equal(ids, nearest_code(z, codes))
    assert_close(out, codes[ids], **EXACT)
    assert_close(loss, (1 + COMMITMENT) * (z - codes[ids]).square().sum() / N, **EXACT)
    loss.backward()
    assert_close(vectors.grad, 2 * COMMITMENT * (z - codes[ids]) / N, **EXACT)
    pulled = torch.zeros_like(codes)
    for code, vector in zip(ids.flatten().tolist(), z.flatten(0, 1), strict=True):
        pulled[code] += 2 * (codes[code] - vector) / N
    assert_close(model.codes.grad, pulled, **EXACT)


def test_codes_that_are_not_chosen_get_no_gradient():
    model = a_quantiser(40)
    _, ids, loss = model(normal(6, 3, seed=1))
    loss.backward()
    chosen = torch.zeros(40, dtype=torch.bool).index_fill(0, ids, True)
    assert torch.equal(model.codes.grad.abs().sum(dim=1) > 0, chosen) and not chosen.all()


def test_what_follows_moves_the_vectors_and_no_code():
    model, vectors = a_quantiser(), normal(6, 3, seed=1).requires_grad_()
    weight = normal(6, 3, seed=2)
    (weight * model(vectors)[0]).sum().backward()
    assert_close(vectors.grad, weight, **EXACT)
    assert model.codes.grad is None


def test_one_code_stands_for_everything():
    model = a_quantiser(1)
    out, ids, _ = model(normal(6, 3, seed=1))
    assert not ids.any()
    assert_close(out, model.codes.expand(6, 3), **EXACT)
    assert_close(model.share, torch.ones(1).double(), **EXACT)


def test_training_pulls_codes_to_the_middles_of_their_vectors():
    """Two clouds, two codes: the loss alone finds both middles."""
    model = a_quantiser(2, 2)
    with torch.no_grad():
        model.codes.copy_(torch.tensor([[-1.0, 0], [1, 0]]))
    clouds = torch.cat([0.3 * normal(50, 2, seed=1) - 4, 0.3 * normal(50, 2, seed=2) + 4])
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(100):
        optimiser.zero_grad()
        model(clouds)[2].backward()
        optimiser.step()
    assert_close(
        model.codes.detach(), torch.stack([clouds[:50].mean(dim=0), clouds[50:].mean(dim=0)]), atol=1e-6, rtol=0
    )


# --- shares


def test_a_share_is_a_running_mean():
    """Counts over an even share, 0.02 of each batch and the rest of what was before; the sum stays K."""
    model = a_quantiser()
    share = torch.ones(5).double()
    for seed in range(8):
        ids = model(normal(2, 7, 3, seed=seed))[1]
        share = 0.98 * share + 0.02 * ids.flatten().bincount(minlength=5) * 5 / 14
        assert_close(model.share, share, atol=1e-7, rtol=0)
        assert_close(model.share.sum(), torch.tensor(5.0).double(), atol=1e-7, rtol=0)
    assert not model.share.requires_grad


def test_an_even_share_is_one_and_a_code_that_is_alone_has_all():
    model = a_quantiser()
    for _ in range(300):
        model(model.codes.detach())
    assert_close(model.share, torch.ones(5).double(), **EXACT)
    for _ in range(600):
        model(model.codes[[2, 2]].detach())
    assert_close(model.share, torch.tensor([0.0, 0, 5, 0, 0]).double(), atol=1e-3, rtol=0)


def test_shares_are_counted_in_training_alone_and_kept_with_the_weights():
    model = a_quantiser()
    model.eval()(normal(9, 3))
    assert torch.equal(model.share, torch.ones(5).double())
    model.train()(normal(9, 3))
    other = a_quantiser()
    assert {*model.state_dict()} == {"codes", "share"}
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.share, model.share) and not torch.equal(model.share, torch.ones(5).double())


def test_an_empty_batch_counts_for_nothing():
    model = a_quantiser()
    out, ids, _ = model(torch.zeros(0, 4, 3).double())
    assert out.shape == (0, 4, 3) and ids.shape == (0, 4) and torch.equal(model.share, torch.ones(5).double())


# --- the dead


def test_who_is_dead():
    """Quantiser.dead: whoever has less than `SELDOM` of an even share."""
    model = a_quantiser()
    assert not model.dead().any()
    model.share.copy_(torch.tensor([0, SELDOM - 1e-6, SELDOM + 1e-6, 1, 4.9]))
    assert model.dead().tolist() == [True, True, False, False, False] and model.dead().dtype == torch.bool


@pytest.mark.parametrize("shape", [(9,), (2, 3, 4), (1,), ()], ids=str)
def test_only_dead_codes_move_and_to_vectors_that_are_there(shape):
    """Quantiser.revive: the count, where they went, their new share; the others stay as they were."""
    model, vectors = a_quantiser(), normal(*shape, 3, seed=1)
    before, dead = model.codes.detach().clone(), [1, 4]
    model.share[dead] = 0.01
    model.share[0] = 3.0
    assert model.revive(vectors) == 2
    for k in range(5):
        if k in dead:
            assert (model.codes[k] == vectors.reshape(-1, 3)).all(dim=1).any()
        else:
            assert torch.equal(model.codes[k], before[k])
    assert model.share.tolist() == [3, 1, 1, 1, 1] and not model.dead().any()
    assert model.codes.requires_grad and model.codes.is_leaf


def test_where_nobody_is_dead_nothing_happens():
    model, before = a_quantiser(), a_quantiser().codes
    assert model.revive(normal(9, 3)) == 0
    assert torch.equal(model.codes, before) and torch.equal(model.share, torch.ones(5).double())


def test_a_generator_repeats_the_draw():
    def revived(seed):
        model = a_quantiser(30)
        model.share.zero_()
        generator = torch.Generator().manual_seed(seed)
        assert model.revive(normal(50, 3, seed=1), generator) == 30
        return model.codes.detach()

    assert torch.equal(revived(3), revived(3)) and not torch.equal(revived(3), revived(4))
    model = a_quantiser(30)
    state = torch.get_rng_state()
    model.share.zero_()
    model.revive(normal(50, 3), torch.Generator())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_revived_code_is_chosen_again():
    """A code far from everything is never chosen; one that is put on a vector is nearest to it."""
    model, vectors = a_quantiser(), normal(20, 3, seed=1)
    with torch.no_grad():
        model.codes[3] = 1000.0
    for _ in range(200):
        model(vectors)
    assert model.dead()[3]
    model.revive(vectors)
    assert (model(vectors)[1] == 3).any()


# --- bad input


@pytest.mark.slow
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_counts_beyond_what_it_holds(half):
    """Quantiser: 5,000 vectors at one code of four; the others die as they do in single precision."""
    model = Quantiser(4, 2).to(half)
    for _ in range(250):
        model(model.codes[2].detach().expand(5000, 2))
    assert model.dead().tolist() == [True, True, False, True]
    assert model.share[2] > 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_kind_of_number_stays(dtype):
    model = Quantiser(5, 3).to(dtype)
    out, ids, loss = model(normal(4, 3, dtype=dtype))
    assert out.dtype == loss.dtype == model.share.dtype == dtype and ids.dtype == torch.int64
    assert_close(out, F.embedding(ids, model.codes))
