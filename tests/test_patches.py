"""vision/patches.py: an image cut and put together, embedded as by a convolution; places on grids; bad input."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from course_lib.vision.patches import (
    PatchEmbedding,
    grid_of,
    only_seen,
    pad_to_patches,
    patchify,
    place_similarity,
    resize_places,
    unpatchify,
)

SHAPES = [(2, 3, 4, 6, 2), (1, 1, 3, 3, 3), (3, 2, 5, 5, 1), (0, 1, 4, 4, 2), (2, 1, 6, 9, 3)]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}


def test_patches_of_an_image_that_can_be_seen():
    """patchify: an image of 4 x 4, its numbers written down."""
    image = torch.arange(16.0).view(1, 1, 4, 4)
    assert patchify(image, 2)[0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]


@pytest.mark.parametrize("B, C, H, W, P", SHAPES)
def test_patches_are_torchs_unfold_and_come_back(B, C, H, W, P):
    """patchify, unpatchify: each patch channel by channel, and nothing is lost."""
    images = torch.randn(B, C, H, W)
    patches = patchify(images, P)
    assert patches.shape == (B, H // P * (W // P), C * P * P)
    if B:
        assert torch.equal(patches, F.unfold(images, P, stride=P).mT)
    assert torch.equal(unpatchify(patches, H, W, C), images)


@pytest.mark.parametrize("H, W, P", [(5, 7, 2), (1, 1, 4), (4, 6, 2), (9, 4, 4)])
def test_what_is_padded_is_cut_off_again(H, W, P):
    """pad_to_patches, grid_of: zeros below and to the right."""
    images = torch.rand(2, 3, H, W) + 1
    padded = pad_to_patches(images, P)
    h, w = grid_of(H, W, P)
    assert padded.shape == (2, 3, h * P, w * P) and (h - 1) * P < H <= h * P and (w - 1) * P < W <= w * P
    assert torch.equal(padded[:, :, :H, :W], images) and padded.sum() == pytest.approx(images.sum().item(), rel=1e-5)
    assert torch.equal(unpatchify(patchify(padded, P), H, W, 3), images)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_the_embedding_is_a_strided_convolution(seed, dtype):
    """PatchEmbedding, PatchEmbedding.forward, PatchEmbedding.as_convolution: values and gradients."""
    torch.manual_seed(seed)
    C, P, D, h, w = (int(n) for n in torch.randint(1, 6, (5,)))
    ours = PatchEmbedding(C, P, D).to(dtype)
    theirs, images = ours.as_convolution(), torch.randn(3, C, h * P, w * P, dtype=dtype)
    found, expected = ours(images), theirs(images).flatten(2).mT
    assert found.shape == (3, h * w, D)
    assert_close(found, expected, atol=TOLERANCE[dtype] * 10, rtol=0)
    (found.square().sum() + expected.square().sum()).backward()
    scale = max(1.0, theirs.weight.grad.abs().max().item())
    assert_close(ours.project.weight.grad, theirs.weight.grad.flatten(1), atol=TOLERANCE[dtype] * 10 * scale, rtol=0)
    back = PatchEmbedding.from_convolution(theirs)
    assert torch.equal(back(images), found) and back.patch == P


def test_what_is_seen_is_taken_from_each_image():
    """only_seen: in the order asked for, repeats allowed."""
    patches, seen = torch.rand(2, 4, 3), torch.tensor([[3, 0], [1, 1]])
    found = only_seen(patches, seen)
    assert all(torch.equal(found[b, n], patches[b, seen[b, n]]) for b in range(2) for n in range(2))
    assert torch.equal(only_seen(patches, torch.arange(4).expand(2, -1)), patches)
    with pytest.raises(TypeError, match="seen .batch, n. of whole numbers.*got torch.float32"):
        only_seen(patches, torch.zeros(2, 3))
    with pytest.raises(ValueError, match="patches .batch, number, width. and seen .batch, n., not empty"):
        only_seen(patches, torch.zeros(3, 3).long())


def test_the_same_grid_keeps_its_places():
    """resize_places: and [CLS] keeps its row on any grid; a straight ramp stays straight in the middle."""
    places = torch.randn(1 + 6, 4)
    assert torch.equal(resize_places(places, (2, 3), (2, 3)), places)
    for mode in ("bicubic", "bilinear"):
        larger = resize_places(places, (2, 3), (5, 7), mode=mode)
        assert larger.shape == (36, 4) and torch.equal(larger[0], places[0])
        assert resize_places(places[1:], (2, 3), (1, 1), before=0, mode=mode).shape == (1, 4)
    ramp = torch.arange(8.0)[:, None, None] + 10 * torch.arange(8.0)[:, None]
    doubled = resize_places(ramp.reshape(64, 1), (8, 8), (16, 16), before=0, mode="bilinear").view(16, 16)
    inner = (torch.arange(2.0, 14) - 0.5) / 2
    assert_close(doubled[2:14, 2:14], inner[:, None] + 10 * inner, atol=1e-4, rtol=0)


def test_a_gradient_goes_back_to_the_places():
    places = torch.randn(1 + 4, 3, requires_grad=True, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda p: resize_places(p, (2, 2), (3, 4)), places)


def test_similarity_of_places():
    """place_similarity: cosines, 1 with itself."""
    places = torch.randn(1 + 6, 5, dtype=torch.float64)
    found = place_similarity(places, (2, 3))
    assert found.shape == (2, 3, 2, 3)
    assert_close(found.reshape(6, 6).diagonal(), torch.ones(6, dtype=torch.float64))
    assert_close(found[1, 0, 0, 2], F.cosine_similarity(places[4], places[3], dim=0))
    assert place_similarity(torch.zeros(4, 2), (2, 2), before=0).eq(0).all()  # a place of nothing is like nobody


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda: patchify(torch.zeros(1, 1, 5, 4), 2), "Whole patches of 2 x 2 do not fill an image of 5 x 4.*6 x 4"),
        (lambda: unpatchify(torch.zeros(1, 4, 4), 4, 6), "4 x 6 is 2 x 3 = 6 patches of 2 x 2; got 4"),
        (lambda: unpatchify(torch.zeros(1, 4, 5), 4, 4), "channels . side . side., here with 1 channel and"),
        (
            lambda: PatchEmbedding(1, 2, 3)(torch.zeros(1, 3, 4, 4)),
            "PatchEmbedding needs images .batch, 1, height, width., .* got .1, 3, 4, 4",
        ),
        (lambda: PatchEmbedding.from_convolution(nn.Conv2d(1, 2, 3, stride=2)), "steps as long as the window is wide"),
        (lambda: PatchEmbedding.from_convolution(nn.Conv2d(1, 2, 3, stride=3, padding=1)), "no padding"),
        (lambda: resize_places(torch.zeros(6, 2), (2, 3), (4, 4)), "2 x 3 with 1 before it has places .7, width."),
    ],
)
def test_bad_input_is_refused_in_words(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()
