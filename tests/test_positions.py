"""attention/positions.py: each scheme by its formula, against published code on random shapes, by what it keeps."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from parity import TOLERANCE
from torch.testing import assert_close

from course_lib.attention import positions
from course_lib.attention.positions import (
    LearnedPositions,
    RelativeBias,
    SinusoidalPositions,
    alibi_bias,
    alibi_slopes,
    clipped_bucket,
    rotate,
    sinusoidal,
    t5_bucket,
)

DOUBLE, HALVES = torch.float64, (torch.float16, torch.bfloat16)


def random_shapes(n=12, seed=0):
    """(B, H, T, d) with an even d."""
    drawn = torch.Generator().manual_seed(seed)
    sizes = [(5, 5, 40, 33)] * n
    return [tuple(int(torch.randint(1, high, (), generator=drawn)) * (1 + (i == 3)) for i, high in enumerate(s))
            for s in sizes]  # fmt: skip


# --- sinusoids


def test_sinusoids_are_the_papers_formula():
    """sinusoidal: sine and cosine of t / 10000^(2i/D), number by number."""
    table = sinusoidal(40, 6, dtype=DOUBLE)
    for t in range(40):
        for i in range(3):
            angle = t / 10000 ** (2 * i / 6)
            assert table[t, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-13)
            assert table[t, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-13)
    assert table[0].tolist() == [0, 1] * 3
    assert sinusoidal(0, 4).shape == (0, 4) and sinusoidal(1, 2).tolist() == [[0, 1]]


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-7), (torch.float16, 1e-3), (torch.bfloat16, 1e-2)])
def test_a_row_far_away_is_as_exact_as_the_first(dtype, tolerance):
    table = sinusoidal(8192, 64, dtype=dtype)
    assert table.dtype == dtype and sinusoidal(2, 4).dtype == torch.float32
    angles = [8191 / 10000 ** (2 * i / 64) for i in range(32)]
    exact = torch.tensor([f(angle) for angle in angles for f in (math.sin, math.cos)], dtype=DOUBLE)
    assert_close(table[-1].double(), exact, atol=tolerance, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("d_model", [2, 16, 64])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_a_step_of_k_is_one_linear_map_solved_from_the_table_alone(d_model, dtype, tolerance):
    """PE(t + k) = M_k PE(t) for every k below 512: solved pair by pair on some rows, judged on all."""
    table, n = sinusoidal(1024, d_model, dtype=dtype), 512
    pairs = table.view(1024, -1, 2).transpose(0, 1)  # (D/2, 1024, 2)
    for k in range(n):
        # Two rows, a step of k apart, might say the same: every 16th, over the longest span, never does.
        steps = torch.linalg.lstsq(pairs[:, :n][:, ::16], pairs[:, k : k + n][:, ::16], driver="gelsd").solution
        reproduced = (pairs[:, :n] @ steps).transpose(0, 1).reshape(n, d_model)
        assert (reproduced - table[k : k + n]).abs().max() <= tolerance, k


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALVES])
def test_positions_are_added_at_any_length_and_precision(dtype):
    """SinusoidalPositions: x plus the table's rows, within what is kept ready and beyond it."""
    module = SinusoidalPositions(8, ready=16).to(dtype)
    for T in (0, 1, 16, 17, 100):
        x = torch.randn(2, T, 8, dtype=dtype)
        assert_close(module(x), x + sinusoidal(T, 8, dtype=dtype), atol=0, rtol=0)
    assert module.state_dict() == {} and list(module.parameters()) == []


def test_a_table_that_is_converted_is_made_anew():
    """float32 made double would keep float32's rounding, and half made float32 that of half."""
    module = SinusoidalPositions(8, ready=16)
    assert torch.equal(module.double().table, sinusoidal(16, 8, dtype=DOUBLE))
    assert torch.equal(module.half().float().table, sinusoidal(16, 8))
    assert torch.equal(module.to_empty(device=module.table.device).table, sinusoidal(16, 8))


def test_learned_positions_are_rows_that_learn_and_end():
    """LearnedPositions: x plus a row for each place, with a gradient to the places read and to no other."""
    module, x = LearnedPositions(6, 4), torch.randn(3, 5, 4)
    assert_close(module(x), x + module.places.weight[:5], atol=0, rtol=0)
    module(x).sum().backward()
    assert module.places.weight.grad.tolist() == [[3.0] * 4] * 5 + [[0.0] * 4]
    assert module(x[:, :0]).shape == (3, 0, 4) and module(x[:, :1]).shape == (3, 1, 4)
    with pytest.raises(ValueError, match="made for 6 places, x has 7: .*SinusoidalPositions"):
        module(torch.randn(1, 7, 4))


# --- rotary


def test_a_rotation_by_hand():
    """rotate: place 2 turns the first pair by 2 and the second by 2 / 100; "halves" pairs x_0 with x_2."""
    x = torch.tensor([1.0, 0.0, 0.0, 3.0], dtype=DOUBLE).expand(3, 4)
    slow, cos, sin = 2 / 100, math.cos, math.sin
    near = [cos(2), sin(2), -3 * sin(slow), 3 * cos(slow)]
    far = [cos(2), -3 * sin(slow), sin(2), 3 * cos(slow)]
    for pairing, expected in (("neighbours", near), ("halves", far)):
        turned = rotate(x, pairing=pairing)
        assert turned[0].tolist() == x[0].tolist()  # at place 0 nothing turns
        assert_close(turned[2], torch.tensor(expected, dtype=DOUBLE), atol=1e-12, rtol=0)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", random_shapes())
def test_halves_are_llamas_rotary(shape, dtype):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    B, H, T, d = shape
    base = 500.0 * B
    theirs = LlamaRotaryEmbedding(
        LlamaConfig(
            hidden_size=H * d,
            num_attention_heads=H,
            head_dim=d,
            rope_parameters={"rope_type": "default", "rope_theta": base},
        )
    )
    q, k = torch.randn(B, H, T, d, dtype=dtype), torch.randn(B, H, T, d, dtype=dtype)
    places = torch.randint(30, (B, T))
    cos, sin = theirs(q, places)
    if dtype == DOUBLE:  # theirs takes angles in float32: in float64 it is their pairing and turning that is compared
        angles = torch.cat([positions._angles(places, d, base)] * 2, dim=-1)
        assert_close(angles.cos(), cos, atol=1e-4, rtol=0)
        cos, sin = angles.cos(), angles.sin()
    for mine, other in zip((q, k), apply_rotary_pos_emb(q, k, cos, sin), strict=True):
        assert_close(rotate(mine, places[:, None], base, "halves"), other, atol=TOLERANCE[dtype], rtol=0)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", random_shapes(seed=1))
def test_neighbours_are_gptjs_rotary(shape, dtype):
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

    B, H, T, d = shape
    x, places = torch.randn(B, H, T, d, dtype=dtype), torch.randint(30, (B, T))
    if dtype == DOUBLE:  # as above
        angles = positions._angles(places, d, 10000.0)
        sin, cos = angles.sin(), angles.cos()
    else:
        sin, cos = create_sinusoidal_positions(30, d)[places].chunk(2, dim=-1)  # (B, T, d/2)
    theirs = apply_rotary_pos_emb(x.transpose(1, 2), sin, cos).transpose(1, 2)  # theirs has heads after time
    assert_close(rotate(x, places[:, None]), theirs, atol=TOLERANCE[dtype], rtol=0)


@pytest.mark.parametrize("pairing", ["neighbours", "halves"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("moved_by", [1000, -1000, 0.375, 1000.5])
def test_scores_of_rotated_vectors_depend_on_distance_only(dtype, moved_by, pairing):
    """Whole places or broken ones, before 0 or far after it: when all move together, no score changes."""
    q, k = (torch.randn(2, 3, 40, 32, dtype=dtype) / 32**0.25 for _ in range(2))  # so that q k^T is over sqrt(32)
    here = torch.arange(40)
    scores, moved = (rotate(q, t, pairing=pairing) @ rotate(k, t, pairing=pairing).mT for t in (here, here + moved_by))
    assert (scores - moved).abs().max() <= TOLERANCE[dtype]
    apart = rotate(q, here, pairing=pairing) @ rotate(k, here + moved_by, pairing=pairing).mT
    assert (scores - apart).abs().max() > 0.01, "where only the keys move, scores do change"


@pytest.mark.parametrize("pairing", ["neighbours", "halves"])
def test_turning_keeps_lengths_and_is_undone_by_turning_back(pairing):
    x, places = torch.randn(2, 7, 6, dtype=DOUBLE, requires_grad=True), torch.rand(2, 7, dtype=DOUBLE) * 100 - 50
    turned = rotate(x, places, pairing=pairing)
    assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert_close(rotate(turned, -places, pairing=pairing), x)
    assert torch.autograd.gradcheck(lambda x: rotate(x, places, pairing=pairing), x)


def test_positions_may_be_shared_or_differ_from_row_to_row():
    x, places = torch.randn(4, 3, 5, 6), torch.randint(50, (4, 5))
    together = rotate(x, places[:, None])
    assert_close(together[2, 1], rotate(x[2, 1], places[2]), atol=0, rtol=0)
    assert torch.equal(rotate(x), rotate(x, torch.arange(5)))
    assert torch.equal(rotate(x, torch.tensor([3])), rotate(x, torch.full((5,), 3)))
    assert [rotate(x[:, :, :T]).shape for T in (0, 1)] == [(4, 3, 0, 6), (4, 3, 1, 6)]
    assert torch.equal(rotate(x[:, :, :1]), x[:, :, :1])


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_is_rounded_once(dtype):
    x = torch.randn(3, 5000, 8).to(dtype)
    turned = rotate(x)
    assert turned.dtype == dtype
    assert_close(turned, rotate(x.double()).to(dtype), atol=1e-4, rtol=torch.finfo(dtype).eps)


def test_a_device_without_pythons_precision_gets_the_default(monkeypatch):
    """Apple's GPU refuses 64 bits: near places are as good, far ones are off as float32 is."""
    arange, x = torch.arange, torch.randn(2, 8192, 4)
    exact = rotate(x)

    def refusing(*arguments, dtype=None, **named):
        if dtype is float:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        return arange(*arguments, dtype=dtype, **named)

    monkeypatch.setattr(torch, "arange", refusing)
    assert_close(rotate(x)[:, :50], exact[:, :50], atol=1e-4, rtol=0)
    assert_close(rotate(x), exact, atol=1e-2, rtol=0)


# --- numbers added to the scores


def test_shaws_buckets():
    """clipped_bucket: a bucket a distance from -k to k, and the outermost for all beyond."""
    assert clipped_bucket(torch.tensor([-9, -3, -2, 0, 1, 2, 7]), 2).tolist() == [0, 0, 0, 2, 3, 4, 4]
    assert clipped_bucket(torch.zeros(2, 0, 3, dtype=torch.int32), 1).shape == (2, 0, 3)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_buckets_of_small_whole_numbers_are_those_of_large_ones(dtype):
    """clipped_bucket, t5_bucket: in int8 100 + 100 is negative, and so is the opposite of -128."""
    ends = torch.iinfo(dtype)
    distance = torch.arange(max(ends.min, -999), min(ends.max, 999) + 1)
    for bucket in (
        partial(clipped_bucket, max_distance=100),
        partial(clipped_bucket, max_distance=300),
        t5_bucket,
        partial(t5_bucket, n_buckets=400, max_distance=999),
        partial(t5_bucket, bidirectional=False),
    ):
        assert torch.equal(bucket(distance.to(dtype)), bucket(distance))


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    "n_buckets, max_distance", [(32, 128), (32, 64), (16, 20), (8, 1000), (4, 3), (64, 4096), (6, 17), (10, 50)]
)
def test_t5s_buckets_are_t5s(n_buckets, max_distance, bidirectional):
    """t5_bucket: that of the published code for every distance, on both sides."""
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-5000, 5001).view(73, 137)
    theirs = T5Attention._relative_position_bucket(distance, bidirectional, n_buckets, max_distance)
    mine = t5_bucket(distance, n_buckets, max_distance, bidirectional)
    assert torch.equal(mine, theirs) and set(mine.unique().tolist()) <= set(range(n_buckets))


def test_t5s_buckets_by_hand():
    assert t5_bucket(torch.tensor([0, -1, -7, -8, -127, -128, -9999])).tolist() == [0, 1, 7, 8, 15, 15, 15]
    assert t5_bucket(torch.tensor([1, 7, 8, 9999])).tolist() == [17, 23, 24, 31]
    assert t5_bucket(torch.tensor([5, 0, -15, -16, -9999]), bidirectional=False).tolist() == [0, 0, 15, 16, 31]


@pytest.mark.parametrize(
    "bucket, n_buckets", [(t5_bucket, 32), (partial(clipped_bucket, max_distance=3), 7)], ids=["t5", "clipped"]
)
def test_a_bias_is_a_number_for_each_bucket_and_head(bucket, n_buckets):
    """RelativeBias: entry (h, i, j) is head h's number for the bucket of j - i; it starts at 0 and learns."""
    module = RelativeBias(bucket, n_buckets, 3)
    assert not module(4, 6).any()
    torch.nn.init.normal_(module.bias.weight)
    bias = module(4, 6)
    assert bias.shape == (3, 4, 6)
    for i in range(4):
        for j in range(6):
            assert torch.equal(bias[:, i, j], module.bias.weight[bucket(torch.tensor(j - i))])
    assert torch.equal(module(6), module(6, 6)) and module(0).shape == (3, 0, 0) and module(1).shape == (3, 1, 1)
    bias[:, 0, 0].sum().backward()
    assert module.bias.weight.grad.sum() == 3 and module.bias.weight.grad[bucket(torch.tensor(0))].tolist() == [1] * 3


def test_t5s_bias_is_t5s():
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    theirs = T5Attention(T5Config(d_model=8, d_kv=2, num_heads=4), has_relative_attention_bias=True)
    module = RelativeBias(t5_bucket, 32, 4)
    module.bias.load_state_dict(theirs.relative_attention_bias.state_dict())
    assert_close(module(9, 300)[None], theirs.compute_bias(9, 300), atol=0, rtol=0)


@pytest.mark.parametrize("n_heads", [1, 2, 3, 6, 8, 12, 16, 20])
def test_slopes_and_bias_are_blooms(n_heads):
    """alibi_bias: under a causal mask the published bias, up to a number a row that softmax does not see."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    T = 30
    theirs = build_alibi_tensor(torch.ones(1, T), n_heads, torch.float32)  # (H, 1, T): slope times key place
    mine, seen = alibi_bias(n_heads, T), torch.ones(T, T).tril().bool()
    relative = theirs - theirs.mT  # (H, T, T): slope (j - i)
    assert_close(mine[:, seen], relative[:, seen], atol=1e-5, rtol=0)
    assert_close(alibi_slopes(n_heads), theirs[:, 0, 1], atol=1e-5, rtol=0)
    assert torch.equal(mine, mine.mT)


def test_slopes_by_hand():
    """alibi_slopes: 1/2, 1/4, ... 1/256 for eight heads, and from half of that for sixteen."""
    assert alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    assert_close(alibi_slopes(12)[8:], alibi_slopes(16)[0:8:2], atol=0, rtol=0)
    assert alibi_slopes(3, dtype=DOUBLE).tolist() == [2.0**-4, 2.0**-8, 2.0**-2]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALVES])
def test_a_linear_bias_in_any_precision_at_any_place(dtype):
    bias, exact = alibi_bias(5, 1030, dtype=dtype), alibi_bias(5, 1030, dtype=DOUBLE)
    assert bias.dtype == dtype
    assert_close(bias.double(), exact, atol=0, rtol=torch.finfo(dtype).eps)
    assert torch.equal(bias[:, 1000:, 1000:], alibi_bias(5, 30, dtype=dtype))  # it knows distances only
    assert alibi_bias(2, 0).shape == (2, 0, 0) and alibi_bias(2, 1).tolist() == [[[0.0]], [[0.0]]]


def test_a_relative_bias_between_any_places():
    module, queries, keys = RelativeBias(t5_bucket, 32, 3), torch.randint(50, (2, 4)), torch.randint(50, (2, 5))
    torch.nn.init.normal_(module.bias.weight)
    found = module(queries, keys)
    assert found.shape == (2, 3, 4, 5)
    for row in range(2):
        assert torch.equal(found[row], module(queries[row], keys[row]))
    assert torch.equal(module(torch.arange(2, 6), torch.arange(6)), module(6)[:, 2:])


WHOLE = [torch.int8, torch.int16, torch.int32, torch.uint8, torch.uint16, torch.uint32, torch.uint64]


@pytest.mark.parametrize("dtype", [*WHOLE, torch.float64, torch.float32, *HALVES])
def test_places_may_be_numbers_of_any_width(dtype):
    """RelativeBias, rotate: a distance has a sign, and may be longer than the number that tells a place."""
    module, places = RelativeBias(t5_bucket, 32, 2), torch.tensor([0, 3, 100, 127, 5])
    torch.nn.init.normal_(module.bias.weight)
    if not dtype.is_floating_point:
        keys = places.flip(0)
        wanted = module(places, keys)
        assert torch.equal(module(places.to(dtype), keys.to(dtype)), wanted)
        assert torch.equal(module(places.to(dtype), keys), wanted)
    assert rotate(torch.ones(5, 4), places.to(dtype)).equal(rotate(torch.ones(5, 4), places))


def test_how_many_places_there_are_may_be_a_number_of_numpys():
    module = RelativeBias(t5_bucket, 32, 2)
    torch.nn.init.normal_(module.bias.weight)
    assert torch.equal(module(np.uint8(5), np.int64(3)), module(5, 3))


# --- bad input


def test_bad_sizes_are_refused_in_words():
    for make in (lambda: sinusoidal(4, 5), lambda: SinusoidalPositions(5), lambda: rotate(torch.zeros(3, 5))):
        with pytest.raises(ValueError, match="pairs of numbers, so the width must be even and 2 or more; got 5"):
            make()
    for make, words in [
        (lambda: t5_bucket(torch.arange(3), 33), "n_buckets, 4 or more, even, .* got n_buckets=33"),
        (lambda: t5_bucket(torch.arange(3), 1, 128, False), "n_buckets, 2 or more, and"),
        (lambda: t5_bucket(torch.arange(3), 32, 8), "beyond the 8 that have a bucket each; .* max_distance=8"),
    ]:
        with pytest.raises(ValueError, match=words):
            make()


def test_bad_vectors_and_places_are_refused_in_words():
    x = torch.zeros(2, 3, 4)
    for run in (rotate, SinusoidalPositions(4), LearnedPositions(5, 4)):
        with pytest.raises(TypeError, match="vectors of real numbers; got x of torch.int64: embed"):
            run(x.long())
    for places in (torch.arange(4), torch.zeros(3, 3), torch.zeros(1, 2, 3), torch.zeros(0)):
        with pytest.raises(ValueError, match=r"positions must be \(3,\) or fit x without its width, \(2, 3\)"):
            rotate(x, places)
    with pytest.raises(ValueError, match="'neighbours' or 'halves'; got 'pairs'"):
        rotate(x, pairing="pairs")
