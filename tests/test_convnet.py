"""vision/convnet.py: shapes and sizes, what a convolution knows by its build, the stem; bad input."""

import pytest
import torch
from torch.testing import assert_close

from course_lib.vision.convnet import ConvLayer, ConvNet, ConvStem, width_for
from course_lib.vision.images import shift
from course_lib.vision.vit import ViT, ViTConfig, parameter_count


@pytest.mark.parametrize("sides", [(8, 8), (28, 28), (5, 9), (1, 1)], ids=str)
@pytest.mark.parametrize("channels", [1, 3])
def test_it_reads_images_of_any_size(sides, channels):
    """ConvNet, ConvNet.forward: and one image answers as it does among others."""
    torch.manual_seed(0)
    model, images = ConvNet(channels, 7, 4).double(), torch.rand(3, channels, *sides, dtype=torch.float64)
    logits = model(images)
    assert logits.shape == (3, 7)
    assert_close(torch.cat([model(one) for one in images.split(1)]), logits, atol=1e-12, rtol=0)
    if channels == 1:
        assert torch.equal(model(images[:, 0]), logits)
    assert model.layers[2].window.stride == (2, 2) and model.layers[3].window.out_channels == 8


def test_a_layer_is_the_formula():
    """ConvLayer, ConvLayer.forward: relu of the norm of the sum over a window, place by place."""
    torch.manual_seed(0)
    layer, x = ConvLayer(2, 3).double(), torch.randn(2, 2, 5, 4, dtype=torch.float64)
    around = torch.nn.functional.pad(x, (1, 1, 1, 1))
    sums = torch.zeros(2, 3, 5, 4, dtype=torch.float64)
    for row in range(5):
        for column in range(4):
            window = around[:, :, row : row + 3, column : column + 3]
            sums[:, :, row, column] = torch.einsum("bcij,fcij->bf", window, layer.window.weight)
    mean, variance = sums.mean((1, 2, 3), keepdim=True), sums.var((1, 2, 3), keepdim=True, correction=0)
    assert_close(layer(x), ((sums - mean) / (variance + 1e-5).sqrt()).relu(), atol=1e-10, rtol=0)


def test_a_thing_that_moves_keeps_its_answer_where_nothing_is_cut_off():
    """What the bias of a convolution is: a shift by two steps moves every map by one, and the mean forgets where."""
    torch.manual_seed(0)
    model, images = ConvNet(1, 5, 4).double(), torch.zeros(2, 1, 48, 48, dtype=torch.float64)
    images[:, :, 22:26, 22:26] = torch.rand(2, 1, 4, 4, dtype=torch.float64)
    assert_close(model(shift(images, 2, -2)), model(images), atol=1e-8, rtol=0)
    vit = ViT(ViTConfig(48, 4, 5, 8, 2, 1, channels=1)).double()
    with torch.no_grad():
        vit.head.weight.normal_()
    assert (vit(shift(images, 2, -2)) - vit(images)).abs().max() > 1e-6


@pytest.mark.parametrize("patch", [2, 4, 8])
def test_a_stem_gives_as_many_tokens_as_patches(patch):
    """ConvStem, ConvStem.forward: row by row."""
    torch.manual_seed(0)
    stem, images = ConvStem(3, patch, 6, width=2).double(), torch.rand(2, 3, 2 * patch, 3 * patch, dtype=torch.float64)
    tokens = stem(images)
    assert tokens.shape == (2, 6, 6)
    maps = stem.project(stem.layers(images))  # (B, D, h, w)
    assert torch.equal(tokens[:, 4], maps[:, :, 1, 1])


def test_the_width_with_the_nearest_number_of_parameters_is_found():
    """width_for: no other width comes nearer."""

    def count(width):
        return sum(p.numel() for p in ConvNet(1, 10, width).parameters())

    for wanted in (count(1), 5_000, count(13), count(13) + 1, 100_000):
        found = width_for(wanted, lambda width: ConvNet(1, 10, width))
        assert all(abs(count(found) - wanted) <= abs(count(w) - wanted) for w in range(max(1, found - 2), found + 3))
    config = ViTConfig(8, 2, 10, 32, 4, 3, channels=1)
    fair = count(width_for(parameter_count(config), lambda width: ConvNet(1, 10, width)))
    assert abs(fair / parameter_count(config) - 1) < 0.05


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda: ConvNet(1, 10, 4)(torch.zeros(2, 1, 8, 8).int()), TypeError, "got torch.int32"),
        (lambda: ConvStem(1, 4, 4)(torch.zeros(2, 1, 8, 9)), ValueError, "must be multiples of 4; got .2, 1, 8, 9."),
        (lambda: width_for(3, lambda width: ConvNet(1, 10, width)), ValueError, "At width 1 this model has .* already"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong()
