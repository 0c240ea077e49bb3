"""course_lib/attention/norms.py: equal to PyTorch's in values and gradients, by hand, bad input."""

import pytest
import torch
from parity import TOLERANCE, exact_or_not
from torch import nn
from torch.testing import assert_close

from course_lib.attention.norms import LayerNorm, RMSNorm, layer_norm, rms_norm


@exact_or_not
@pytest.mark.parametrize("shape", [(1, 2), (4, 5, 7), (2, 3, 64), (6,)], ids=str)
@pytest.mark.parametrize("eps", [1e-5, 1e-3])
def test_layer_norm_is_torchs(shape, eps, dtype):
    """layer_norm, LayerNorm: the formula, our layer and PyTorch's give the same."""
    torch.manual_seed(0)
    x, layer = torch.randn(shape, dtype=dtype, requires_grad=True), LayerNorm(shape[-1], eps).to(dtype)
    for part in layer.parameters():  # a gain of 1 and a shift of 0 would not show where they are left out
        nn.init.normal_(part)
    theirs = nn.LayerNorm(shape[-1], eps, dtype=dtype)
    theirs.load_state_dict({"weight": layer.gain, "bias": layer.shift})
    for ours in (layer(x), layer_norm(x, layer.gain, layer.shift, eps)):
        wanted, cotangent, tolerance = theirs(x), torch.randn(shape, dtype=dtype), TOLERANCE[dtype]
        assert ours.dtype == dtype
        grads = [torch.autograd.grad(out, x, cotangent, retain_graph=True)[0] for out in (ours, wanted)]
        for one, other in ((ours, wanted), grads):
            assert_close(one, other, atol=tolerance * max(1, other.abs().max().item()), rtol=0)
        assert_close(
            torch.autograd.grad(ours.square().sum(), list(layer.parameters())),
            torch.autograd.grad(theirs(x).square().sum(), list(theirs.parameters())),
            atol=TOLERANCE[dtype],
            rtol=TOLERANCE[dtype],
        )


def test_layer_norm_by_hand():
    x = torch.tensor([1.0, 2.0, 6.0])  # mean 3, variance (4 + 1 + 9) / 3
    found = layer_norm(x, torch.ones(3), torch.zeros(3), eps=0)
    assert_close(found, torch.tensor([-2.0, -1.0, 3.0]) / (14 / 3) ** 0.5)
    assert layer_norm(torch.full((4,), 7.0), torch.ones(4), torch.ones(4)).tolist() == [1] * 4


@exact_or_not
@pytest.mark.parametrize("shape", [(1,), (3, 1), (2, 5, 7), (4, 1, 33)], ids=str)
def test_rms_norm_is_torchs(shape, dtype):
    """rms_norm, RMSNorm: the formula and the layer beside nn.RMSNorm, of zeros and of large numbers too."""
    torch.manual_seed(0)
    x, gain = torch.randn(shape, dtype=dtype, requires_grad=True), torch.randn(shape[-1], dtype=dtype)
    reference, ours = nn.RMSNorm(shape[-1], 1e-5, dtype=dtype), RMSNorm(shape[-1]).to(dtype)
    reference.weight.data, ours.gain.data = gain.clone(), gain.clone()
    for factor in (1, 0, 1e3):
        wanted, cotangent = reference(x * factor), torch.randn(shape, dtype=dtype)
        for found in (ours(x * factor), rms_norm(x * factor, gain)):
            assert_close(found, wanted, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
            one, other = (torch.autograd.grad(out, x, cotangent, retain_graph=True)[0] for out in (found, wanted))
            assert_close(one, other, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def test_rms_norm_takes_no_mean_away():
    x, gain = torch.full((1, 4), 3.0), torch.ones(4)
    assert_close(rms_norm(x, gain, eps=0.0), torch.ones(1, 4))  # a layer norm would give zeros
    assert_close(rms_norm(7 * x, gain, eps=0.0), rms_norm(x, gain, eps=0.0))  # and no size is left
