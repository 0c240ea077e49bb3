"""multimodal/vq_vae.py: shapes for many stages, codes and back, the gradient that passes through the codes."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from course_lib.multimodal.vq_vae import VQVAE

EXACT = {"atol": 1e-10, "rtol": 0}


def a_model(n_stages=2, channels=1, K=7, seed=0):
    """A VQVAE in double precision whose codes lie among its vectors: at its first ones a few would stand for all."""
    torch.manual_seed(seed)
    model = VQVAE(K, 3, 4, n_stages, channels).double()
    side = 2**n_stages
    with torch.no_grad():
        vectors = model.vectors(ink(4, channels, 3 * side, 3 * side, seed=9)).flatten(0, 2)
        model.quantiser.codes.copy_(vectors[torch.randperm(len(vectors))[:K]])
    return model


def ink(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- shapes


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("n_stages", [1, 2, 3, 4])
def test_each_stage_halves_the_image_and_the_decoder_doubles_it(n_stages, channels):
    """VQVAE, VQVAE.forward: logits as the images, a code for 2^stages x 2^stages pixels, also where sides differ."""
    side = 2**n_stages
    model = a_model(n_stages, channels)
    for h, w in [(1, 1), (2, 2), (1, 3), (3, 2)]:
        logits, ids, loss = model(ink(2, channels, h * side, w * side))
        assert logits.shape == (2, channels, h * side, w * side) and loss.shape == ()
        assert ids.shape == (2, h * w) and ids.dtype == torch.int64


def test_channels_double_on_the_way_down_and_halve_on_the_way_up():
    model = VQVAE(7, 3, 4, 3, 2)
    windows = [part for part in model.modules() if isinstance(part, nn.Conv2d)]
    widths = [(part.in_channels, part.out_channels) for part in windows]
    assert widths[:5] == [(2, 4), (4, 8), (8, 16), (16, 16), (16, 3)]
    assert widths[5:] == [(3, 16), (16, 16), (16, 8), (8, 4), (4, 4), (4, 2)]
    assert [part.stride for part in windows[:5]] == [(2, 2)] * 3 + [(1, 1)] * 2


def test_vectors_are_those_of_each_place():
    """VQVAE.vectors: (B, h, w, E), of which each is replaced by the nearest code."""
    model, images = a_model(), ink(2, 1, 8, 12)
    vectors = model.vectors(images)
    assert vectors.shape == (2, 2, 3, 3) and vectors.requires_grad
    assert_close(vectors, model.encoder(images).movedim(1, -1), **EXACT)
    nearest = torch.cdist(vectors.flatten(0, 2), model.quantiser.codes).argmin(dim=1)
    assert torch.equal(model(images)[1], nearest.view(2, 6))


# --- codes and back


@pytest.mark.parametrize("n_stages", [1, 3])
def test_an_image_of_codes_is_what_the_model_says_of_the_image(n_stages):
    """VQVAE.encode, VQVAE.paint: encode and then paint is forward's logits as ink, squares and others."""
    model, side = a_model(n_stages, 2).eval(), 2**n_stages
    for h, w in [(3, 3), (1, 4), (2, 1)]:
        images = ink(3, 2, h * side, w * side)
        ids, (logits, same, _) = model.encode(images), model(images)
        assert torch.equal(ids, same) and len(ids.unique()) > 1
        painted = model.paint(ids.view(3, h, w))
        assert_close(painted, logits.sigmoid(), **EXACT)
        assert not ids.requires_grad and not painted.requires_grad and 0 < painted.min() and painted.max() < 1
        if h == w:
            assert torch.equal(model.paint(ids), painted)


def test_each_code_stands_where_it_was_read():
    """Row by row, as the decoder is handed them, and channels first."""
    model = a_model()
    model.decoder = nn.Identity()
    codes, ids = model.quantiser.codes.detach().sigmoid(), [[0, 1, 2], [3, 4, 5]]
    painted = model.paint(torch.tensor([ids]))
    assert painted.shape == (1, 3, 2, 3)
    for row in range(2):
        for column in range(3):
            assert_close(painted[0, :, row, column], codes[ids[row][column]], **EXACT)
    assert model.paint(torch.tensor([[1, 2, 3, 4]])).equal(model.paint(torch.tensor([[[1, 2], [3, 4]]])))


def test_an_image_does_not_hang_on_its_batch():
    model, images = a_model(), ink(5, 1, 8, 8)
    for training in (True, False):
        ids = model.train(training).encode(images)
        assert torch.equal(ids, torch.cat([model.encode(image[None]) for image in images]))
        assert torch.equal(model.encode(images.flip(0)), ids.flip(0))
    assert_close(model.paint(ids)[2:3], model.paint(ids[2:3]), **EXACT)


def test_encode_leaves_the_mode_and_counts_nothing():
    model, images = a_model(), ink(3, 1, 8, 8)
    for training in (True, False):
        model.train(training).encode(images)
        assert all(part.training == training for part in model.modules())
        model.paint(torch.zeros(1, 4, dtype=torch.long))
        assert all(part.training == training for part in model.modules())
    model, before = a_model(), torch.ones(7).double()
    for training in (True, False):
        model.train(training).encode(images)
        model.paint(torch.zeros(1, 4, dtype=torch.long))
        model.vectors(images)
        assert torch.equal(model.quantiser.share, before)
    model.train()(images)
    assert not torch.equal(model.quantiser.share, before)


def test_no_images_have_no_codes():
    model = a_model()
    assert model.encode(ink(0, 1, 8, 8)).shape == (0, 4)
    assert model.paint(torch.zeros(0, 4, dtype=torch.long)).shape == (0, 1, 8, 8)


# --- the loss and its gradient


def test_the_loss_is_the_sum_of_both():
    """VQVAE.loss: cross-entropy of each pixel by hand times per_pixel, and the quantiser's loss."""
    model, images = a_model().eval(), ink(2, 1, 8, 8)
    logits, _, quantising = model(images)
    p = logits.sigmoid()
    by_hand = -(images * p.log() + (1 - images) * (1 - p).log()).mean()
    assert_close(model.loss(images), 10 * by_hand + quantising, **EXACT)
    assert_close(model.loss(images, 0.0), quantising, **EXACT)
    assert_close(model.loss(images, per_pixel=2.5), 2.5 * by_hand + quantising, **EXACT)


def reconstruction(model, images):
    """The pixels' loss alone: what goes back to the encoder has come through the codes."""
    model.zero_grad()
    F.binary_cross_entropy_with_logits(model(images)[0], images).backward()
    return model.encoder[0].window.weight.grad


def test_the_gradient_reaches_the_encoder_through_the_codes_and_only_straight_through(monkeypatch):
    model, images = a_model(), ink(2, 1, 8, 8)
    assert reconstruction(model, images).abs().max() > 0
    assert model.quantiser.codes.grad is None
    monkeypatch.setattr("course_lib.multimodal.quantiser.straight_through", lambda vectors, chosen: chosen)
    assert reconstruction(model, images) is None, "without the trick the nearest code is a constant to the encoder"
    assert model.quantiser.codes.grad.abs().max() > 0


def test_every_weight_learns():
    model = a_model(3, 2)
    model.loss(ink(4, 2, 16, 16)).backward()
    assert all(weight.grad is not None and weight.grad.abs().max() > 0 for weight in model.parameters())


@pytest.mark.slow
def test_it_learns_to_tell_two_images_apart():
    torch.manual_seed(0)
    model = VQVAE(4, 2, 4, 1)
    images = torch.zeros(2, 1, 4, 4)
    images[0, :, :2], images[1, :, :, 2:] = 1, 1
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(150):
        if step % 20 == 19:
            model.quantiser.revive(model.vectors(images))
        optimiser.zero_grad()
        model.loss(images).backward()
        optimiser.step()
    ids = model.eval().encode(images)
    assert (model.paint(ids) - images).abs().mean() < 0.1 and not torch.equal(ids[0], ids[1])


# --- bad input


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (
            lambda m: m(torch.zeros(2, 1, 6, 8).double()),
            ValueError,
            r"4 x 4 pixels.*multiples of 4; got \(2, 1, 6, 8\)",
        ),
        (lambda m: m.paint(torch.tensor([[0, 1, 2, 7]])), ValueError, "The codes are 0 to 6; got 0 to 7"),
        (lambda m: m.paint(torch.zeros(2, 6, dtype=torch.long)), ValueError, "6 codes are no square"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(a_model())


def test_a_broken_image_breaks_no_other():
    """NaN in one image is no news to the other."""
    model, images = a_model().eval(), ink(2, 1, 8, 8)
    images[1, 0, 0, 0] = torch.nan
    assert_close(model(images)[0][0], model(images[:1])[0][0], **EXACT)
