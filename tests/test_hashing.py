"""long_context/hashing.py: buckets on a circle, meetings by hand, and the whole table under the union of rounds."""

import pytest
import torch
from largest import Largest
from torch.nn import functional as F
from torch.testing import assert_close

from course_lib.attention.attention import attend
from course_lib.attention.multi_head import MultiHead
from course_lib.long_context.hashing import SELF_SCORE, HashedHeads, hash_buckets, hashed_attention, meetings

CAUSAL = pytest.mark.parametrize("causal", [False, True])


def drawn(*shape, dtype=torch.float64, seed=0):
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return numbers.requires_grad_()


def some_buckets(*shape, n=3, seed=0):
    return torch.randint(n, shape, generator=torch.Generator().manual_seed(seed))


# --- the hash


def test_buckets_on_a_circle():
    """hash_buckets: with the two axes as directions a plane has four buckets, a quarter each around an axis."""
    turns = torch.eye(2)[None]
    angles = torch.tensor([0.0, 40, 50, 130, 140, 220, 230, 310, 320]).deg2rad()
    x = torch.stack([angles.cos(), angles.sin()], dim=-1)
    assert hash_buckets(x, turns).tolist() == [[0, 0, 1, 1, 2, 2, 3, 3, 0]]
    assert hash_buckets(x, torch.eye(2).flip(1)[None]).tolist() == [[1, 1, 0, 0, 3, 3, 2, 2, 1]]  # another round


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)], ids=str)
def test_the_nearest_of_all_directions_and_their_opposites(shape):
    """hash_buckets: argmax of [x R; -x R], vector by vector; x of no length falls in the first bucket."""
    x, turns = drawn(*shape, 5, 4), drawn(3, 4, 6, seed=1)
    found = hash_buckets(x, turns)
    assert found.shape == (*shape, 3, 5) and found.dtype == torch.int64 and not found.requires_grad
    for r in range(3):
        directions = torch.cat([turns[r], -turns[r]], dim=1).T  # (12, 4)
        scores = torch.stack([x @ direction for direction in directions], dim=-1)
        assert torch.equal(found[..., r, :], scores.argmax(dim=-1))
    assert hash_buckets(torch.zeros(2, 4), turns.float()).tolist() == [[0, 0]] * 3
    assert hash_buckets(torch.zeros(0, 4), turns.float()).shape == (3, 0)


def test_length_does_not_matter_and_opposites_are_apart():
    """hash_buckets: of 7 x it is that of x, of -x the opposite bucket, half of n further."""
    x, turns = drawn(200, 6), drawn(4, 6, 5, seed=1)
    found = hash_buckets(x, turns)
    assert torch.equal(hash_buckets(7 * x, turns), found)
    assert torch.equal(hash_buckets(-x, turns), (found + 5) % 10)
    assert found.unique().tolist() == list(range(10))


def test_the_nearer_two_vectors_are_the_more_often_they_collide():
    """hash_buckets: the share of rounds in which two share a bucket rises with the cosine; Andoni et al., 2015."""
    turns, x = drawn(2000, 8, 4), torch.eye(8, dtype=torch.float64)[0]
    shares = []
    for cosine in (-1.0, -0.5, 0, 0.5, 0.8, 0.95, 1):
        y = torch.tensor([cosine, (1 - cosine**2) ** 0.5, *[0] * 6], dtype=torch.float64)
        first, second = hash_buckets(torch.stack([x, y]), turns).T
        shares.append((first == second).double().mean().item())
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1
    assert shares[2] == pytest.approx(1 / 8, abs=0.03)  # at right angles: chance


# --- who meets


def test_meetings_by_hand():
    """meetings: 8 places in chunks of 2; by bucket, then by place, they stand as 0 3 | 5 2 | 6 7 | 1 4."""
    buckets = torch.tensor([[0, 2, 1, 0, 2, 0, 1, 1]])
    met = meetings(buckets, 2)[0]
    seen = {place: met[place].nonzero().flatten().tolist() for place in range(8)}
    assert seen == {
        0: [0, 3],
        3: [0, 3],
        5: [0, 3, 5],  # the chunk before, of the same bucket
        2: [2],  # 5 is in its chunk, but not in its bucket
        6: [2, 6, 7],
        7: [2, 6, 7],
        1: [1, 4],  # 6 and 7 stand before, in another bucket
        4: [1, 4],
    }
    assert meetings(buckets, 8)[0].tolist() == (buckets.T == buckets).tolist()  # one chunk: the bucket alone counts


def test_a_full_bucket_is_cut():
    """meetings: where all fall in one bucket, a place sees its chunk and the one before, and nobody ahead of it."""
    met = meetings(torch.zeros(1, 7, dtype=torch.int64), 2)[0]
    chunk = torch.arange(7) // 2
    steps = chunk[:, None] - chunk
    assert torch.equal(met, (steps == 0) | (steps == 1))


def test_more_rounds_only_add():
    """meetings: each round by itself, and everybody meets oneself in each."""
    buckets = some_buckets(2, 3, 9)
    met = meetings(buckets, 3)
    assert met.shape == (2, 3, 9, 9) and met.dtype == torch.bool
    for r in range(3):
        assert torch.equal(met[:, r], meetings(buckets[:, r : r + 1], 3)[:, 0])
        assert (met[:, : r + 1].any(dim=1) >= met[:, :r].any(dim=1)).all()
    assert met.diagonal(dim1=-2, dim2=-1).all()
    assert meetings(torch.zeros(1, 0, dtype=torch.int64), 4).shape == (1, 0, 0)


# --- attention in buckets


def whole_table(qk, v, buckets, chunk, causal):
    """`attend` among those who meet in any round: keys of length 1, and oneself only where there is nobody else."""
    T = qk.shape[-2]
    mask = meetings(buckets, chunk).any(dim=-3)
    mask = mask.tril() if causal else mask
    return attend(qk, F.normalize(qk, dim=-1), v, mask, SELF_SCORE * torch.eye(T, dtype=qk.dtype))[0]


SIZES = [(T, m, R, n) for T in (1, 2, 7, 16) for m in (1, 3, 4, 20) for R in (1, 3) for n in (1, 4)]


@CAUSAL
@pytest.mark.parametrize("T, m, R, n", SIZES)
def test_hashed_attention_is_the_whole_table_under_the_union_of_meetings(T, m, R, n, causal):
    """hashed_attention: values and gradients, whatever the length, the chunk, the rounds and the number of buckets."""
    leaves, buckets = [drawn(2, 3, T, 4), drawn(2, 3, T, 5, seed=1)], some_buckets(2, 3, R, T, n=n, seed=T)
    out, whole = hashed_attention(*leaves, buckets, m, causal), whole_table(*leaves, buckets, m, causal)
    assert out.shape == (2, 3, T, 5)
    assert_close(out, whole, atol=1e-11, rtol=0)
    cotangent = drawn(2, 3, T, 5, seed=9).detach()
    for one, other in zip(*(torch.autograd.grad(some, leaves, cotangent) for some in (out, whole)), strict=True):
        assert_close(one, other, atol=1e-11, rtol=0)


WHOLE = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64]


@pytest.mark.parametrize("dtype", WHOLE)
def test_buckets_may_be_whole_numbers_of_any_width(dtype):
    """hashed_attention, meetings: the last chunk is filled with a bucket that none of them has."""
    qk, v, buckets = drawn(7, 4), drawn(7, 5, seed=1), some_buckets(2, 7, n=100)
    for m in (1, 3, 20):
        assert torch.equal(hashed_attention(qk, v, buckets.to(dtype), m), hashed_attention(qk, v, buckets, m))
        assert torch.equal(meetings(buckets.to(dtype), m), meetings(buckets, m))
    far = torch.full((1, 7), 1_000_000_000)
    assert_close(hashed_attention(qk, v, far, 4), hashed_attention(qk, v, 0 * far, 4))


@CAUSAL
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_half_precision_is_computed_in_full(dtype, causal):
    """hashed_attention: what all digits would say of these numbers, rounded once; no input is too large."""
    buckets = some_buckets(2, 3, 3, 9)
    for scale in (1, 30):
        qk, v = ((scale * drawn(2, 3, 9, d)).detach().to(dtype).requires_grad_() for d in (4, 5))
        out = hashed_attention(qk, v, buckets, 4, causal)
        assert out.dtype == dtype
        wanted = hashed_attention(qk.double(), v.double(), buckets, 4, causal)
        eps = torch.finfo(dtype).eps
        assert_close(out.double(), wanted, atol=3e-5 * scale**2, rtol=2 * eps)
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(out.float().sum(), [qk, v]))


@pytest.mark.parametrize("shape", [(), (2,), (2, 1, 3)], ids=str)
def test_any_sizes_in_front_and_the_kind_of_number_stays(shape):
    qk, v = drawn(*shape, 9, 4, dtype=torch.float32), drawn(*shape, 9, 4, dtype=torch.float32, seed=1)
    buckets = some_buckets(*shape, 2, 9)
    out = hashed_attention(qk, v, buckets, 4)
    assert out.dtype == torch.float32 and out.shape == (*shape, 9, 4)
    assert_close(out, whole_table(qk, v, buckets, 4, False), atol=1e-5, rtol=1e-5)


def test_a_pair_that_meets_in_several_rounds_counts_once():
    """hashed_attention: the same round three times is that round once."""
    qk, v, buckets = drawn(12, 4), drawn(12, 3, seed=1), some_buckets(1, 12)
    once, thrice = (hashed_attention(qk, v, buckets.expand(R, 12), 4) for R in (1, 3))
    assert_close(thrice, once, atol=1e-12, rtol=0)


def test_one_chunk_and_one_bucket_are_full_attention_without_oneself():
    """hashed_attention: all meet; a place counts for itself only where it is alone."""
    qk, v, buckets = drawn(6, 4), drawn(6, 3, seed=1), torch.zeros(1, 6, dtype=torch.int64)
    others = ~torch.eye(6, dtype=torch.bool)
    wanted = attend(qk, F.normalize(qk, dim=-1), v, others)[0]
    assert_close(hashed_attention(qk, v, buckets, 6), wanted, atol=1e-12, rtol=0)
    causal = hashed_attention(qk, v, buckets, 6, causal=True)
    assert_close(causal[1:], attend(qk, F.normalize(qk, dim=-1), v, others.tril())[0][1:], atol=1e-12, rtol=0)
    assert_close(causal[0], v[0], atol=1e-12, rtol=0)  # nobody before it


def test_who_meets_nobody_gets_its_own_value():
    """hashed_attention: eight buckets for eight places; where another round brings somebody, that round decides."""
    qk, v = drawn(8, 4), drawn(8, 3, seed=1)
    alone = torch.arange(8)[None]
    assert_close(hashed_attention(qk, v, alone, 4), v, atol=1e-12, rtol=0)
    pairs = torch.arange(8)[None] // 2
    found = hashed_attention(qk, v, torch.cat([alone, pairs]), 4)
    assert_close(found, v.view(4, 2, 3).flip(1).reshape(8, 3), atol=1e-12, rtol=0)


def test_the_length_of_a_key_does_not_matter():
    """hashed_attention: a place that grows tenfold looks more sharply, and is looked at as before."""
    qk, v, buckets = drawn(6, 4).detach(), drawn(6, 3, seed=1), torch.zeros(1, 6, dtype=torch.int64)
    grown = torch.cat([10 * qk[:1], qk[1:]])
    one, other = (hashed_attention(some, v, buckets, 6) for some in (qk, grown))
    assert_close(one[1:], other[1:], atol=1e-12, rtol=0)
    assert (one[0] - other[0]).abs().max() > 0.01


def test_no_table_is_made():
    """hashed_attention: its largest tensor holds R T 2m (twice R) numbers, and not T T."""
    qk = drawn(1024, 4).detach()
    for R in (1, 2):
        buckets = some_buckets(R, 1024, n=64)
        with Largest() as listens:
            hashed_attention(qk, qk, buckets, 8)
        assert 0 < listens.numel <= R * 1024 * 2 * 8 * max(R, 4) < 1024**2 / 4


# --- heads


def test_query_and_key_are_one():
    """HashedHeads: W_k is W_q, so a matrix fewer than MultiHead has."""
    layer, plain = HashedHeads(8, 2, 2, 4, 4), MultiHead(8, 2)
    assert layer.w_k is layer.w_q
    size = sum(part.numel() for part in plain.parameters())
    assert sum(part.numel() for part in layer.parameters()) == size - 8 * 8 - 8


@CAUSAL
@pytest.mark.parametrize("T", [1, 5, 12])
def test_heads_draw_their_rounds_and_look_in_buckets(T, causal):
    """HashedHeads, HashedHeads.heads: with the rounds that the seed draws, `hashed_attention` between its matrices."""
    torch.manual_seed(0)
    layer, x = HashedHeads(8, 2, n_rounds=2, n_buckets=4, chunk=3, d_v=5).double(), drawn(2, T, 8)
    torch.manual_seed(1)
    out = layer(x, causal=causal)
    torch.manual_seed(1)
    q, v = layer.split(layer.w_q(x)), layer.split(layer.w_v(x))
    buckets = hash_buckets(q, torch.randn(2, 4, 2, dtype=torch.float64))
    heads = hashed_attention(q, v, buckets, 3, causal)
    assert_close(out, layer.w_o(heads.transpose(1, 2).flatten(2)), atol=1e-12, rtol=0)
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(out.sum(), list(layer.parameters())))


def test_another_draw_is_another_answer_and_a_seed_fixes_it():
    torch.manual_seed(0)
    layer, x = HashedHeads(8, 2, n_buckets=8, chunk=4), torch.randn(1, 32, 8)
    found = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        found.append(layer(x))
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_heads_of_any_precision(dtype):
    """HashedHeads: an output as the weights are, and gradients; with several rounds, and under autocast."""
    layer, x = HashedHeads(8, 2, n_rounds=3, chunk=4).to(dtype), torch.randn(2, 9, 8, dtype=dtype)
    out = layer(x, causal=True)
    out.float().square().sum().backward()
    assert out.dtype == dtype and all(part.grad.isfinite().all() for part in layer.parameters())
    with torch.autocast("cpu", torch.bfloat16):
        assert layer.float()(x.float()).isfinite().all()


def test_a_later_place_changes_nothing_before_it_while_buckets_stay():
    """hashed_attention: causal, in what it says; who meets whom is another matter, for a chunk is cut by all places."""
    qk, v, buckets = drawn(12, 4).detach(), drawn(12, 3, seed=1).detach(), some_buckets(2, 12)
    changed = [torch.cat([part[:7], 100 * part[7:].flip(0)]) for part in (qk, v)]
    one, other = (hashed_attention(*parts, buckets, 4, causal=True) for parts in ((qk, v), changed))
    assert_close(one[:7], other[:7], atol=1e-12, rtol=0)
    assert (one[7:] - other[7:]).abs().max() > 0.1


# --- bad input


def behind_a_cache(layer, x):
    cache = {}
    layer(x, causal=True, cache=cache)
    layer(x[:, :1], causal=True, cache=cache)


def heard(layer):
    layer.weights.register_forward_hook(lambda *given: None)
    return layer


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda layer, x: layer(x, x[:, :4]), ValueError, "HashedHeads looks at its own row alone"),
        (lambda layer, x: behind_a_cache(layer, x), ValueError, "reads a row as a whole.*got 1 queries and 6 keys"),
        (lambda layer, x: layer(x, mask=torch.ones(2, 5, dtype=torch.bool)), ValueError, "HashedHeads takes no mask"),
        (lambda layer, x: heard(layer)(x, causal=True), ValueError, "its weights cannot be captured"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(HashedHeads(8, 2, n_buckets=4, chunk=2), torch.randn(2, 5, 8))
