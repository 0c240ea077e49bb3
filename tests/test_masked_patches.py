"""vision/masked_patches.py: what is drawn, what is seen, painted and counted; bad input."""

import pytest
import torch
from torch.testing import assert_close

from course_lib.vision.masked_patches import MaskedAutoencoder, draw_seen
from course_lib.vision.patches import pad_to_patches, patchify
from course_lib.vision.vit import ViT, ViTConfig


def a_model(image_size=8, channels=1, **config):
    torch.manual_seed(0)
    vit = ViT(ViTConfig(image_size, 2, 5, 12, 3, 2, channels=channels, **config))
    return MaskedAutoencoder(vit, d_decoder=8, n_heads=2).double()


def test_a_draw_is_a_choice_for_each_image():
    """draw_seen: each patch as often as another, none twice."""
    seen = draw_seen(2000, 16, 0.75, torch.Generator().manual_seed(0))
    assert seen.shape == (2000, 4) and (seen.diff(dim=1) > 0).all()
    counts = torch.bincount(seen.flatten(), minlength=16)
    assert counts.min() > 400 and counts.max() < 600
    assert draw_seen(1, 5, 1.0).shape == (1, 1) and draw_seen(1, 5, 0.0).shape == (1, 4)
    assert torch.equal(draw_seen(3, 9, 0.5, torch.Generator().manual_seed(1)),
                       draw_seen(3, 9, 0.5, torch.Generator().manual_seed(1)))  # fmt: skip


@pytest.mark.parametrize("image_size, channels, config", [(8, 1, {}), ((4, 6), 3, {}), ((5, 7), 1, {"pad": True})])
def test_what_is_hidden_is_not_read_and_is_all_that_counts(image_size, channels, config):
    """MaskedAutoencoder, MaskedAutoencoder.forward, MaskedAutoencoder.loss: the formula, and what may change."""
    m = a_model(image_size, channels, **config)
    images, N = torch.rand(3, channels, *m.vit.config.size, dtype=torch.float64), len(m.places) - 1
    seen = draw_seen(3, N, 0.6)
    hidden = torch.ones(3, N, dtype=torch.bool).scatter(1, seen, False)
    painted = m(images, seen)
    true = patchify(pad_to_patches(images, 2), 2)
    assert painted.shape == true.shape
    assert_close(m.loss(images, seen), (painted - true).square()[hidden].mean(), atol=1e-12, rtol=0)


def test_a_change_of_what_is_hidden_changes_nothing_that_is_painted():
    m, images, seen = a_model(), torch.rand(2, 1, 8, 8, dtype=torch.float64), torch.tensor([[0, 1], [0, 1]])
    other = images.clone()
    other[:, :, 2:] = torch.rand(2, 1, 6, 8, dtype=torch.float64)
    assert torch.equal(m(other, seen), m(images, seen)) and m.loss(other, seen) != m.loss(images, seen)
    other[:, :, 0, 0] += 0.5
    assert not torch.equal(m(other, seen), m(images, seen))


@pytest.mark.slow
def test_it_learns_to_paint_what_it_does_not_see():
    """Each image has one colour, and the patch that is seen says which."""
    torch.manual_seed(0)
    m = MaskedAutoencoder(ViT(ViTConfig(8, 4, 2, 16, 2, 1, channels=1)), d_decoder=16, n_heads=2)
    optimiser, losses = torch.optim.Adam(m.parameters(), 3e-3), []
    for _ in range(200):
        images = torch.rand(32, 1, 1, 1).expand(-1, -1, 8, 8)
        loss = m.loss(images, draw_seen(32, 4, 0.75))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.02 < 1 / 12 < losses[0]  # 1 / 12: who paints all grey


@pytest.mark.parametrize(
    "wrong, words",
    [
        (
            lambda m, x: m(x, torch.arange(16).expand(2, -1)),
            "Of 16 patches one at least must be hidden; got .* .2, 16.",
        ),
        (lambda m, x: m.loss(x, torch.tensor([[0, 4], [7, 7]])), "each patch once; image 1 has one of them twice"),
        (lambda m, x: m.loss(x[:, :, :4], torch.zeros(2, 1).long()), "images of 8 x 8, and these are 4 x 8"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong(a_model(), torch.rand(2, 1, 8, 8, dtype=torch.float64))


def test_half_precision_paints_too():
    model, images, seen = a_model().float(), torch.rand(2, 1, 8, 8), draw_seen(2, 16, 0.5)
    with torch.autocast("cpu", torch.bfloat16):
        painted = model(images, seen)
    assert_close(painted.float(), model(images, seen), atol=0.1, rtol=0.1)
