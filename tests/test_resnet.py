"""detection/resnet.py: Hugging Face's ResNet backbone, both kinds; bad input."""

import pytest
import torch
from parity import hf_model, shaken
from torch.testing import assert_close

from course_lib.detection.resnet import FrozenNorm, Residual, ResNet


def hugging_faces(kind="basic", **config):
    sizes = {"num_channels": 3, "embedding_size": 6, "hidden_sizes": [8, 8, 12], "depths": [1, 2, 1]}
    return shaken(hf_model("ResNetBackbone", **(sizes | {"layer_type": kind, "out_features": ["stage3"]} | config)))


@pytest.mark.parametrize("kind", ["basic", "bottleneck"])
@pytest.mark.parametrize("sides", [(64, 64), (33, 70)], ids=str)
def test_it_is_hugging_faces(kind, sides):
    """ResNet, ResNet.forward, Residual: the same last stage and gradients in float64."""
    torch.manual_seed(0)
    model = hugging_faces(kind).double()
    ours, images = ResNet.from_hf(model), torch.randn(2, 3, *sides, dtype=torch.float64)
    maps = ours(images)
    expected = model(images).feature_maps[-1]
    assert maps.shape[1] == ours.width == 12
    assert_close(maps, expected, atol=1e-10, rtol=1e-10)
    own = torch.autograd.grad(maps.square().sum(), ours.first[0].weight)[0]
    its = torch.autograd.grad(expected.square().sum(), model.embedder.embedder.convolution.weight)[0]
    assert_close(own, its, atol=1e-7, rtol=1e-9)


def test_a_shortcut_is_x_itself_where_the_sizes_allow_it():
    layer, x = Residual(4, 4, 1, bottleneck=False).double(), torch.rand(1, 4, 5, 5, dtype=torch.float64)
    with torch.no_grad():
        layer.windows[-1][0].weight.zero_()
    assert torch.equal(layer(x), x)
    assert Residual(4, 8, 2, bottleneck=True)(torch.rand(1, 4, 5, 5)).shape == (1, 8, 3, 3)


def test_a_frozen_norm_learns_nothing():
    assert not list(FrozenNorm(3).parameters())


def test_others_are_refused_in_words():
    with pytest.raises(TypeError, match=r"copies a transformers\.ResNetBackbone; got Linear"):
        ResNet.from_hf(torch.nn.Linear(2, 2))
    for odd in ({"hidden_act": "gelu"}, {"downsample_in_first_stage": True}, {"out_features": ["stage2"]}):
        with pytest.raises(ValueError, match="copies a ResNet with ReLU"):
            ResNet.from_hf(hugging_faces(**odd))
