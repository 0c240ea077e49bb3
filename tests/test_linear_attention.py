"""long_context/linear_attention.py: the whole table, a state along the row, and what the delta rule writes over."""

import math

import pytest
import torch
from largest import Largest
from torch.nn import functional as F
from torch.testing import assert_close

from course_lib.attention.multi_head import MultiHead
from course_lib.long_context.linear_attention import (
    DeltaHeads,
    LinearHeads,
    delta_step,
    features,
    linear_attention,
    linear_step,
)

CAUSAL = pytest.mark.parametrize("causal", [False, True])


def drawn(*shape, dtype=torch.float64, seed=0):
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return numbers.requires_grad_()


def by_weights(q, k, v, causal):
    """The same with all weights written down: phi(q) phi(k)^T over the sum of its row."""
    weights = q @ k.transpose(-2, -1)
    weights = weights.tril() if causal else weights
    return weights / weights.sum(dim=-1, keepdim=True) @ v


# --- features


def test_features_by_hand():
    """features: x + 1 above 0, exp(x) below, equation 7; all positive, and rising."""
    x = torch.tensor([-2.0, -0.5, 0, 0.5, 3], dtype=torch.float64)
    assert_close(features(x), torch.tensor([-2.0, -0.5, 0, 0, 0]).double().exp() + torch.tensor([0, 0, 0, 0.5, 3]))
    x = torch.linspace(-15, 15, 301, dtype=torch.float64)
    assert (features(x) > 0).all() and (features(x).diff() > 0).all()
    assert features(torch.zeros(2, 0, 3)).shape == (2, 0, 3) and features(torch.tensor(torch.nan)).isnan()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_features_keep_their_digits_far_below_zero(dtype):
    """features: exp(x) to the last digit and above 0, where (exp(x) - 1) + 1 has none; so is its slope."""
    lowest = math.log(torch.finfo(dtype).tiny)
    x = torch.linspace(max(lowest, -100), 0, 201).to(dtype).requires_grad_()
    found = features(x)
    assert found.dtype == dtype and (found > 0).all()
    wanted = x.detach().double().exp()
    assert_close(found.double(), wanted, atol=0, rtol=2 * torch.finfo(dtype).eps)
    (slope,) = torch.autograd.grad(found.sum(), x)
    assert_close(slope.double(), wanted, atol=0, rtol=2 * torch.finfo(dtype).eps)
    assert features(torch.tensor([-math.inf, math.inf], dtype=dtype)).tolist() == [0, math.inf]


# --- attention


SIZES = [(T, chunk) for T in (0, 1, 5, 8, 13) for chunk in (1, 4, 8, 64)]


@CAUSAL
@pytest.mark.parametrize("T, chunk", SIZES)
def test_linear_attention_has_the_weights_of_the_features(T, chunk, causal):
    """linear_attention: phi(q) phi(k)^T / its sum, in values and gradients, for every length and chunk."""
    leaves = [drawn(2, 3, T, d, seed=seed) for seed, d in enumerate((4, 4, 5))]
    out = linear_attention(features(leaves[0]), features(leaves[1]), leaves[2], causal, chunk)
    whole = by_weights(features(leaves[0]), features(leaves[1]), leaves[2], causal)
    assert out.shape == (2, 3, T, 5)
    assert_close(out, whole, atol=1e-12, rtol=0)
    cotangent = drawn(2, 3, T, 5, seed=9).detach()
    for one, other in zip(*(torch.autograd.grad(some, leaves, cotangent) for some in (out, whole)), strict=True):
        assert_close(one, other, atol=1e-12, rtol=0)


@pytest.mark.parametrize("shape", [(), (2,), (2, 1, 3)], ids=str)
def test_a_state_along_the_row_says_the_same(shape):
    """linear_step, linear_attention: the recurrence of equations 16 to 20 from zeros, place by place."""
    q, k, v = features(drawn(*shape, 9, 4)), features(drawn(*shape, 9, 4, seed=1)), drawn(*shape, 9, 5, seed=2)
    S, z, said = torch.zeros(*shape, 4, 5).double(), torch.zeros(*shape, 4).double(), []
    for t in range(9):
        out, S, z = linear_step(S, z, q[..., t, :], k[..., t, :], v[..., t, :])
        said.append(out)
        assert S.shape == (*shape, 4, 5) and z.shape == (*shape, 4)  # however long the row
    assert_close(torch.stack(said, dim=-2), linear_attention(q, k, v, chunk=4), atol=1e-12, rtol=0)
    assert_close(S, k.transpose(-2, -1) @ v, atol=1e-12, rtol=0)
    assert_close(z, k.sum(dim=-2), atol=1e-12, rtol=0)


def test_a_step_by_hand():
    """linear_step: what is written under one key is read by it; the first place reads its own value."""
    S, z = torch.zeros(2, 1), torch.zeros(2)
    out, S, z = linear_step(S, z, torch.tensor([3.0, 1]), torch.tensor([1.0, 0]), torch.tensor([5.0]))
    assert (out.tolist(), S.tolist(), z.tolist()) == ([5], [[5], [0]], [1, 0])
    out, S, z = linear_step(S, z, torch.tensor([1.0, 1]), torch.tensor([0.0, 3]), torch.tensor([1.0]))
    assert (out.tolist(), S.tolist(), z.tolist()) == ([(5 + 3) / (1 + 3)], [[5], [3]], [1, 3])


def test_out_lies_among_the_values():
    """linear_attention: weights are positive and sum to 1, so equal values give that value; the first place its own."""
    q, k = features(drawn(11, 4)), features(drawn(11, 4, seed=1))
    for causal in (False, True):
        assert_close(
            linear_attention(q, k, torch.full((11, 2), 3.5).double(), causal), torch.full((11, 2), 3.5).double()
        )
        out = linear_attention(q, k, torch.arange(11.0).double()[:, None], causal)
        assert 0 <= out.min() and out.max() <= 10
    assert out[0].abs() < 1e-12 and (out[:, 0] <= torch.arange(11) + 1e-9).all()


def test_no_table_is_made():
    """linear_attention: the largest tensor grows with T (chunk + d), not with T T."""
    q = features(drawn(1024, 4)).detach()
    for causal in (False, True):
        with Largest() as listens:
            linear_attention(q, q, q, causal, chunk=16)
        assert 0 < listens.numel <= 1024 * 16 < 1024**2


@CAUSAL
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_kind_of_number_stays_and_half_precision_is_summed_in_full(dtype, causal):
    """linear_attention: of what it is given in few digits it computes what all digits would, and rounds once."""
    q, k, v = (drawn(300, 4, seed=seed).detach().to(dtype) for seed in range(3))
    q, k = features(q), features(k)
    out = linear_attention(q, k, v, causal)
    assert out.dtype == dtype
    wanted = by_weights(q.double(), k.double(), v.double(), causal)
    eps = torch.finfo(dtype).eps
    assert_close(out.double(), wanted, atol=2 * eps, rtol=2 * eps)


def test_a_large_key_ahead_takes_no_digit_from_what_came_before():
    """linear_attention: the state before a chunk is a sum of what was written, with nothing taken away again."""
    q, k, v = features(drawn(9, 3)), features(drawn(9, 3, seed=1)) * 1e-12, drawn(9, 2, seed=2)
    k = torch.cat([k[:7], 1e12 * k[7:]])  # 1e12 larger, in the last chunk but behind two small ones
    assert_close(linear_attention(q, k, v, chunk=5), by_weights(q, k, v, True), atol=1e-12, rtol=0)
    ahead = torch.cat([k[:7], 1e9 * k[7:]])
    assert torch.equal(linear_attention(q, ahead, v, chunk=5)[:7], linear_attention(q, k, v, chunk=5)[:7])


@CAUSAL
def test_without_any_weight_there_is_nothing(causal):
    """linear_attention, linear_step: zeros and a gradient of zero, where 0 / 0 would be NaN; the others stay."""
    q, k, v = features(drawn(4, 3)).detach(), features(drawn(4, 3, seed=1)).detach(), drawn(4, 2, seed=2)
    q[1] = 0
    out = linear_attention(q, k, v, causal)
    assert not out[1].any() and torch.equal(out[2], linear_attention(q[[0, 2, 2, 3]], k, v, causal)[2])
    k = torch.zeros(4, 3).double().requires_grad_()
    out = linear_attention(q, k, v, causal)
    assert not out.any() and all(not grad.any() for grad in torch.autograd.grad(out.sum(), [k, v]))
    out, _, _ = linear_step(torch.zeros(3, 2).double(), torch.zeros(3).double(), q[0], k[0], v[0])
    assert not out.any()


def test_queries_may_be_fewer_than_keys_where_nothing_is_hidden():
    """linear_attention: not causal, the state is of the whole row, whoever asks."""
    q, k, v = features(drawn(2, 3, 4)), features(drawn(2, 7, 4, seed=1)), drawn(2, 7, 5, seed=2)
    assert_close(linear_attention(q, k, v, causal=False), by_weights(q, k, v, False), atol=1e-12, rtol=0)


# --- the delta rule


def test_what_keys_at_right_angles_wrote_is_read_exactly():
    """delta_step: as many pairs as the keys are wide, each read back without a trace of the others."""
    keys, values = torch.linalg.qr(drawn(6, 6).detach())[0], drawn(6, 3, seed=1).detach()
    S = torch.zeros(6, 3).double()
    for k, v in zip(keys, values, strict=True):
        out, S = delta_step(S, k, k, v, torch.ones(1).double())
        assert_close(out, v, atol=1e-12, rtol=0)
    assert_close(keys @ S, values, atol=1e-12, rtol=0)


def test_a_key_that_is_written_again_has_the_new_value_alone():
    """delta_step: beta of 1 replaces, of 0 writes nothing, of a half goes half of the way; a plain sum would add."""
    k, old, new = torch.tensor([0.6, 0.8]), torch.tensor([2.0, -1]), torch.tensor([5.0, 7])
    _, S = delta_step(torch.zeros(2, 2), k, k, old, torch.ones(1))
    assert_close(delta_step(S, k, k, new, torch.ones(1))[0], new)
    assert_close(delta_step(S, k, k, new, torch.full((1,), 0.5))[0], (old + new) / 2)
    out, same = delta_step(S, k, k, new, torch.zeros(1))
    assert_close(out, old)
    assert torch.equal(same, S)
    assert_close(k @ (S + k[:, None] * new), old + new)  # the state of `linear_step`


def test_a_step_of_the_delta_rule_by_its_formula():
    """delta_step: S + beta k^T (v - k S), then q S, for sizes in front; by loops over single numbers."""
    S, q, k, v = drawn(2, 3, 4), drawn(2, 3, seed=1), F.normalize(drawn(2, 3, seed=2), dim=-1), drawn(2, 4, seed=3)
    beta = drawn(2, 1, seed=4).sigmoid()
    out, after = delta_step(S, q, k, v, beta)
    for b in range(2):
        for j in range(4):
            known = sum(k[b, i] * S[b, i, j] for i in range(3))
            column = [S[b, i, j] + beta[b, 0] * k[b, i] * (v[b, j] - known) for i in range(3)]
            assert_close(after[b, :, j], torch.stack(column), atol=1e-12, rtol=0)
            assert_close(out[b, j], sum(q[b, i] * column[i] for i in range(3)), atol=1e-12, rtol=0)


def test_a_state_of_the_delta_rule_does_not_grow_when_a_row_repeats():
    """delta_step: the same pair a hundred times is the pair once."""
    k, v, S = F.normalize(drawn(4), dim=-1).detach(), drawn(3, seed=1).detach(), torch.zeros(4, 3).double()
    for _ in range(100):
        _, S = delta_step(S, k, k, v, torch.full((1,), 0.7).double())
    assert_close(S, k[:, None] * v, atol=1e-12, rtol=0)


# --- heads


@CAUSAL
@pytest.mark.parametrize("T", [1, 6])
def test_linear_heads_are_linear_attention_between_multi_heads_matrices(T, causal):
    """LinearHeads, LinearHeads.heads: all weights written down; parameters as MultiHead's."""
    torch.manual_seed(0)
    layer, x = LinearHeads(8, 2).double(), drawn(2, T, 8)
    q, k, v = (layer.split(part(x)) for part in (layer.w_q, layer.w_k, layer.w_v))
    wanted = layer.w_o(by_weights(features(q), features(k), v, causal).transpose(1, 2).flatten(2))
    assert_close(layer(x, causal=causal), wanted, atol=1e-12, rtol=0)
    assert {name: part.shape for name, part in layer.state_dict().items()} == {
        name: part.shape for name, part in MultiHead(8, 2).state_dict().items()
    }


@pytest.mark.parametrize("T", [1, 6])
def test_delta_heads_are_the_delta_rule_along_the_row(T):
    """DeltaHeads, DeltaHeads.heads: head by head and place by place; lengths of 1, beta by the key; always causal."""
    torch.manual_seed(0)
    layer, x = DeltaHeads(8, 2, d_k=3, d_v=5).double(), drawn(2, T, 8)
    q, k, v = (layer.split(part(x)) for part in (layer.w_q, layer.w_k, layer.w_v))
    heads = torch.zeros(2, 2, T, 5).double()
    for b in range(2):
        for h in range(2):
            S = torch.zeros(3, 5).double()
            for t in range(T):
                beta = layer.w_beta(k[b, h, t]).sigmoid()
                key = F.silu(k[b, h, t])
                heads[b, h, t], S = delta_step(S, q[b, h, t] / q[b, h, t].norm(), key / key.norm(), v[b, h, t], beta)
    wanted = layer.w_o(heads.transpose(1, 2).flatten(2))
    for causal in (True, False):
        assert_close(layer(x, causal=causal), wanted, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", [LinearHeads, DeltaHeads])
def test_a_later_place_changes_nothing_before_it(kind):
    torch.manual_seed(0)
    layer, x = kind(8, 2).double(), drawn(2, 12, 8).detach()
    changed = torch.cat([x[:, :7], 100 * drawn(2, 5, 8, seed=1).detach()], dim=1)
    assert_close(layer(changed, causal=True)[:, :7], layer(x, causal=True)[:, :7], atol=1e-12, rtol=0)
    assert (layer(changed, causal=True)[:, 7:] - layer(x, causal=True)[:, 7:]).abs().max() > 0.1


@pytest.mark.parametrize("kind", [LinearHeads, DeltaHeads])
def test_every_weight_learns_and_zeros_stay_finite(kind):
    torch.manual_seed(0)
    layer = kind(8, 2, bias=False)
    for x in (torch.randn(2, 5, 8), torch.zeros(2, 5, 8)):
        out = layer(x, causal=True)
        grads = torch.autograd.grad(out.square().sum(), list(layer.parameters()))
        assert out.isfinite().all() and all(grad.isfinite().all() for grad in grads)
        assert not x.any() or all(grad.any() for grad in grads)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", [LinearHeads, DeltaHeads])
@pytest.mark.parametrize("scale", [0, 1, 4, 30])
def test_heads_in_half_precision(kind, scale, dtype):
    """LinearHeads, DeltaHeads: as in single precision but for the rounding, however large the input; zeros too."""
    torch.manual_seed(0)
    layer, x = kind(8, 2), scale * torch.randn(2, 70, 8)
    wanted = layer.to(dtype).float()(x.to(dtype).float(), causal=True)
    out = layer.to(dtype)(x.to(dtype), causal=True)
    assert out.dtype == dtype and out.isfinite().all()
    near = 40 * torch.finfo(dtype).eps * max(1, scale)
    assert_close(out.float(), wanted, atol=near, rtol=0)
    out.float().square().mean().backward()
    assert all(part.grad is None or part.grad.isfinite().all() for part in layer.parameters())


@CAUSAL
def test_no_input_is_too_large_for_linear_heads(causal):
    """LinearHeads: queries whose features all are too small for single precision look as with more digits."""
    torch.manual_seed(0)
    layer, x = LinearHeads(8, 4), 100 * torch.randn(2, 40, 8)
    with torch.no_grad():
        layer.w_q.bias.fill_(-300.0)
        layer.w_k.weight.mul_(0.01)
    out = layer(x, causal=causal)
    assert_close(out.double(), layer.double()(x.double(), causal=causal), atol=1e-2, rtol=1e-4)


@pytest.mark.parametrize("kind", [LinearHeads, DeltaHeads])
def test_heads_under_autocast_sum_in_full(kind):
    torch.manual_seed(0)
    layer, x = kind(8, 2), torch.randn(2, 300, 8)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x, causal=True)
    assert_close(out.float(), layer(x, causal=True), atol=0.05, rtol=0)


@pytest.mark.parametrize("kind", [LinearHeads, DeltaHeads])
@pytest.mark.parametrize("first", [1, 4])
def test_behind_a_cache_one_place_at_a_time_says_what_the_whole_row_says(kind, first):
    """LinearHeads, DeltaHeads: after a first stretch of any length, or none but a place."""
    torch.manual_seed(0)
    layer, x, cache = kind(8, 2).double(), drawn(2, 7, 8), {}
    said = [layer(x[:, :first], causal=True, cache=cache)]
    said += [layer(x[:, t : t + 1], causal=True, cache=cache) for t in range(first, 7)]
    assert_close(torch.cat(said, dim=1), layer(x, causal=True), atol=1e-12, rtol=0)


def test_linear_heads_look_at_a_memory():
    torch.manual_seed(0)
    layer, x, memory = LinearHeads(8, 2).double(), drawn(2, 5, 8), drawn(2, 3, 8, seed=1)
    q, k, v = layer.split(layer.w_q(x)), layer.split(layer.w_k(memory)), layer.split(layer.w_v(memory))
    wanted = layer.w_o(by_weights(features(q), features(k), v, False).transpose(1, 2).flatten(2))
    assert_close(layer(x, memory), wanted, atol=1e-12, rtol=0)


# --- bad input


def heard(layer):
    layer.weights.register_forward_hook(lambda *given: None)
    return layer


@pytest.mark.parametrize("kind", [LinearHeads, DeltaHeads])
@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda layer, x: layer(x, mask=torch.ones(2, 5, dtype=torch.bool)), "Heads takes no mask and no bias"),
        (lambda layer, x: heard(layer)(x, causal=True), "its weights cannot be captured"),
        (lambda layer, x: type(layer)(8, 2, window=2)(x), "Heads takes no mask"),
        (lambda layer, x: layer(x, x[:, :4], causal=True), "takes no mask|looks at its own row alone"),
    ],
)
def test_heads_refuse_what_they_cannot_do(wrong, words, kind):
    with pytest.raises(ValueError, match=words):
        wrong(kind(8, 2), torch.randn(2, 5, 8))
