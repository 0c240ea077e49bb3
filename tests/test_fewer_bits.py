"""bert/fewer_bits.py: half a scale is the largest error; scales by hand; copies; megabytes by hand; bad input."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from course_lib.bert.bert import Bert, BertConfig
from course_lib.bert.bert_heads import MaskedWords
from course_lib.bert.fewer_bits import FULL, SCALE_BITS, dequantise, megabytes, quantise, rounded, with_fewer_bits
from course_lib.bert.lean_bert import LeanBert, LeanBertConfig, LeanWords

every_bits = pytest.mark.parametrize("bits", range(2, 9))


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


# --- whole numbers and scales


@every_bits
@pytest.mark.parametrize("seed", range(4))
def test_whole_numbers_and_scales_by_the_formula(bits, seed):
    """quantise: q = round(w / s), s = max|w| / (2^(b-1) - 1), group by group of matrices drawn at random."""
    draw = random.Random(seed)
    group, m, many = draw.choice([1, 2, 5, 16]), draw.choice([1, 3, 10]), draw.choice([1, 2, 7])
    weights, most = normal(m, many * group, seed=seed), 2 ** (bits - 1) - 1
    whole, scales = quantise(weights, bits, group)
    assert whole.dtype == torch.int8 and whole.shape == weights.shape and scales.shape == (m, many)
    for row in range(m):
        for at in range(many):
            some = weights[row, at * group : (at + 1) * group].tolist()
            scale = max(abs(weight) for weight in some) / most
            assert scales[row, at].item() == pytest.approx(scale, rel=1e-6)
            found = whole[row, at * group : (at + 1) * group].tolist()
            for q, weight in zip(found, some, strict=True):
                assert abs(q) <= most and abs(q - weight / scale) <= 0.5 + 1e-4


def test_by_hand():
    """quantise, dequantise, rounded: three bits count from -3 to 3."""
    weights = torch.tensor([[6.0, -2.9, 0, 0.9], [0.3, 0.1, -0.1, 0.2]])
    whole, scales = quantise(weights, 3)
    assert whole.tolist() == [[3, -1, 0, 0], [3, 1, -1, 2]]
    assert_close(scales, torch.tensor([[2.0], [0.1]]))
    assert_close(dequantise(whole, scales), torch.tensor([[6.0, -2, 0, 0], [0.3, 0.1, -0.1, 0.2]]))
    whole, scales = quantise(weights, 3, group=2)
    assert whole.tolist() == [[3, -1, 0, 3], [3, 1, -2, 3]] and scales.shape == (2, 2)
    assert_close(rounded(weights, 3, 2)[0], torch.tensor([6.0, -2, 0, 0.9]))


@every_bits
@pytest.mark.parametrize("group", [None, 1, 4, 32])
def test_no_weight_moves_by_more_than_half_a_scale(bits, group):
    """rounded: and in each group the one that is furthest from 0 stays where it is."""
    weights = normal(20, 32, seed=bits)
    _, scales = quantise(weights, bits, group)
    moved = (rounded(weights, bits, group) - weights).abs().unflatten(1, (scales.shape[1], -1))
    share = moved / scales[..., None]
    assert share.max() <= 0.501 and (share.max() > 0.45 or group == 1)
    furthest = weights.unflatten(1, (scales.shape[1], -1)).abs().argmax(dim=-1, keepdim=True)
    assert_close(moved.gather(-1, furthest), torch.zeros(furthest.shape), atol=1e-6, rtol=0)


@every_bits
def test_a_group_of_one_keeps_every_weight(bits):
    weights = normal(5, 6)
    assert_close(rounded(weights, bits, 1), weights, atol=1e-6, rtol=0)


@every_bits
@pytest.mark.parametrize("group", [None, 2])
def test_a_group_of_zeros_stays_one(bits, group):
    """quantise: its scale is 0, and nothing is divided by it."""
    weights = normal(3, 4)
    weights[1] = 0
    whole, scales = quantise(weights, bits, group)
    assert not scales[1].any() and not whole[1].any() and scales[[0, 2]].all()
    assert torch.equal(rounded(weights, bits, group)[1], torch.zeros(4))
    assert torch.equal(rounded(torch.zeros(2, 4), bits), torch.zeros(2, 4))


def test_no_group_is_the_whole_row():
    """quantise: group=None and a group as long as the row are one; a row's scale does not look at other rows."""
    weights = normal(3, 8) * torch.tensor([[1.0], [100], [0.01]])
    for one, other in zip(quantise(weights, 4), quantise(weights, 4, 8), strict=True):
        assert torch.equal(one, other)
    for row in range(3):
        assert torch.equal(rounded(weights, 4)[row], rounded(weights[row : row + 1], 4)[0])


def test_signs_and_sizes_do_not_matter():
    """rounded: of -w it is the opposite, of 4 w four times as much."""
    weights = normal(4, 6)
    assert torch.equal(rounded(-weights, 4, 3), -rounded(weights, 4, 3))
    assert torch.equal(rounded(4 * weights, 4, 3), 4 * rounded(weights, 4, 3))


@every_bits
@pytest.mark.parametrize("group", [None, 4])
def test_what_was_rounded_stays_as_it_is(bits, group):
    """dequantise: quantising what it gives finds the same whole numbers."""
    whole, scales = quantise(normal(10, 16, seed=bits), bits, group)
    again, their_scales = quantise(dequantise(whole, scales), bits, group)
    assert torch.equal(again, whole)
    assert_close(their_scales, scales, atol=0, rtol=1e-6)


@pytest.mark.parametrize("group", [None, 8])
def test_more_bits_are_never_worse(group):
    """rounded: the mean square of the error falls with each bit, and with smaller groups, over matrices by chance."""
    errors = [sum((rounded(w, bits, group) - w).square().mean() for w in (normal(16, 32, seed=s) for s in range(20)))
              for bits in range(2, 9)]  # fmt: skip
    assert all(more < 0.5 * fewer for fewer, more in zip(errors, errors[1:], strict=False))
    weights = normal(64, 64)
    small, large = ((rounded(weights, 4, some) - weights).square().mean() for some in (4, 64))
    assert small < large


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_the_kind_of_number_stays(dtype):
    """quantise, rounded: other floats are computed as float32 and given back as they came."""
    weights = normal(4, 8, dtype=torch.float64).to(dtype)
    whole, scales = quantise(weights, 8, 4)
    assert whole.dtype == torch.int8 and scales.dtype == torch.float32
    found = rounded(weights, 8, 4)
    assert found.dtype == dtype
    assert_close(found, dequantise(*quantise(weights.float(), 8, 4)).to(dtype), atol=0, rtol=0)


@pytest.mark.parametrize("whole", [np.int64, np.int8, np.uint8])
def test_bits_and_groups_may_be_numbers_of_numpys(whole):
    for bits in (2, 8):
        for one, other in zip(
            quantise(normal(3, 6), whole(bits), whole(3)), quantise(normal(3, 6), bits, 3), strict=True
        ):
            assert torch.equal(one, other)


def test_no_gradient_goes_through():
    weights = normal(2, 4).requires_grad_()
    assert not any(part.requires_grad for part in quantise(weights, 4))


def test_what_is_no_number_stays_in_its_group():
    """rounded: a NaN spoils the numbers that share its scale, so it is seen, and no others."""
    weights = normal(2, 8)
    weights[1, 5] = torch.nan
    found = rounded(weights, 4, 4)
    assert found[1, 4:].isnan().all() and found[0].isfinite().all() and found[1, :4].isfinite().all()


def test_an_empty_matrix_has_no_numbers():
    assert rounded(torch.zeros(0, 4), 4).shape == (0, 4) and quantise(torch.zeros(0, 4), 4, 2)[1].shape == (0, 2)


# --- models


def a_model(G=2):
    torch.manual_seed(0)
    return LeanWords(LeanBert(LeanBertConfig(20, 8, 16, 2, 2, 8, G)))


@every_bits
@pytest.mark.parametrize("group", [None, 4])
def test_every_matrix_is_rounded_and_nothing_else(bits, group):
    """with_fewer_bits: layers and tables of the copy; vectors are as they were, and so is the model."""
    model, before = a_model(), a_model().state_dict()
    twin = with_fewer_bits(model, bits, group)
    assert all(torch.equal(part, before[name]) for name, part in model.state_dict().items())
    assert type(twin) is LeanWords and twin.bert.config == model.bert.config
    assert not {part.data_ptr() for part in twin.parameters()} & {part.data_ptr() for part in model.parameters()}
    for name, part in twin.state_dict().items():
        if part.ndim == 2:
            assert_close(part, rounded(before[name], bits, group), atol=0, rtol=0)
            assert not torch.equal(part, before[name]), name
        else:
            assert torch.equal(part, before[name]), name
    assert all(part.requires_grad for part in twin.parameters())


def test_a_copy_keeps_mode_and_reads_nearly_the_same():
    """with_fewer_bits: logits come nearer to the model's with more bits."""
    model, ids = a_model().eval(), torch.arange(16).view(2, 8)
    gaps = [(with_fewer_bits(model, bits)(ids) - model(ids)).abs().mean().item() for bits in (2, 4, 8)]
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert not with_fewer_bits(model, 8).training and with_fewer_bits(model.train(), 8).training


def test_tables_that_are_tied_stay_tied():
    """with_fewer_bits, megabytes: a weight that two layers share is one, in the copy and in the count."""
    model = nn.ModuleDict({"table": nn.Embedding(10, 4), "readout": nn.Linear(4, 10, bias=False)})
    apart = megabytes(model)
    model["readout"].weight = model["table"].weight
    twin = with_fewer_bits(model, 4)
    assert twin["readout"].weight is twin["table"].weight
    assert_close(twin["table"].weight.detach(), rounded(model["table"].weight, 4), atol=1e-6, rtol=1e-6)
    assert megabytes(model) == apart / 2 == 40 * 4 / 1e6
    words = MaskedWords(Bert(BertConfig(11, 9, 6, 2, 1)))
    assert megabytes(words) == pytest.approx(sum(p.numel() for p in words.parameters()) * 4 / 1e6)


def test_a_weight_that_is_no_layers_is_no_matrix():
    """with_fewer_bits, megabytes: norms, and parameters of a model's own, stay as they are and count 32 bits."""

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.free, self.layer = nn.Parameter(normal(3, 4)), nn.Linear(4, 2)

    model = Odd()
    assert torch.equal(with_fewer_bits(model, 2).free, model.free)
    assert megabytes(model, 2) == pytest.approx((12 * 32 + 2 * 32 + 8 * 2 + 2 * 16) / 8e6)


def test_megabytes_by_hand():
    """megabytes: a layer from 6 to 4 with its bias, a norm of 4; scales for each row or each group."""
    model = nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4))
    rest = (4 + 8) * FULL
    assert megabytes(model) == pytest.approx((24 * FULL + rest) / 8e6) and (FULL, SCALE_BITS) == (32, 16)
    assert megabytes(model, 8) == pytest.approx((24 * 8 + 4 * 16 + rest) / 8e6)
    assert megabytes(model, 4) == pytest.approx((24 * 4 + 4 * 16 + rest) / 8e6)
    assert megabytes(model, 4, group=2) == pytest.approx((24 * 4 + 4 * 3 * 16 + rest) / 8e6)
    assert megabytes(model, FULL, group=2) == megabytes(model)
    assert megabytes(nn.ReLU()) == megabytes(nn.ReLU(), 4) == 0


def test_a_shared_block_is_counted_once():
    """megabytes: four bytes for each number that the model learns, however often it is used."""
    for groups in (1, 2):
        model = a_model(groups)
        assert megabytes(model) == pytest.approx(4e-6 * sum(p.numel() for p in model.parameters()))
    assert megabytes(a_model(1)) < megabytes(a_model(2))


# --- bad input


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda w: quantise(w, 1), ValueError, "bits is a whole number from 2 to 8.*got 1"),
        (lambda w: quantise(w, 9), ValueError, "from 2 to 8.*got 9"),
        (lambda w: with_fewer_bits(nn.Linear(6, 2), 1), ValueError, "from 2 to 8"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(normal(3, 6))
