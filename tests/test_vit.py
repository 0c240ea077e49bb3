"""vision/vit.py: the logits and gradients of Hugging Face's ViT; resolutions, padding, sizes; bad input."""

import random
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from parity import TOLERANCE, exact_or_not, hf_model, shaken
from torch import nn
from torch.testing import assert_close

from course_lib.show.record import capture
from course_lib.vision.convnet import ConvStem
from course_lib.vision.vit import PUBLISHED, ViT, ViTConfig, parameter_count
from course_lib.weights.hf_activations import HF_ACTIVATIONS


def a_vit(dtype=torch.float64, embed=None, **sizes):
    torch.manual_seed(0)
    sizes = {"image_size": 8, "patch_size": 2, "n_classes": 5, "d_model": 12, "n_heads": 3, "n_layers": 2} | sizes
    return shaken(ViT(ViTConfig(**({"channels": 1} | sizes)), embed)).to(dtype)


def hugging_faces(**config):
    sizes = {"image_size": 8, "patch_size": 2, "num_channels": 1, "hidden_size": 12, "num_attention_heads": 3}
    sizes |= {"num_hidden_layers": 2, "intermediate_size": 20, "num_labels": 5}
    return hf_model("ViTForImageClassification", **(sizes | config))


# --- beside Hugging Face's


def drawn_config(seed):
    draw = random.Random(seed)
    heads, patch = draw.choice([1, 2, 3, 5]), draw.choice([1, 2, 3, 7])
    sides = [patch * draw.choice([1, 2, 3]) for _ in range(2)]
    return {
        "image_size": sides if draw.random() < 0.6 else sides[0],
        "patch_size": patch,
        "num_channels": draw.choice([1, 2, 3]),
        "hidden_size": heads * draw.choice([1, 4, 7]),
        "num_attention_heads": heads,
        "num_hidden_layers": draw.choice([1, 2, 3]),
        "intermediate_size": draw.choice([1, 13, 40]),
        "num_labels": draw.choice([1, 2, 10]),
        "hidden_act": draw.choice(list(HF_ACTIVATIONS)),
        "layer_norm_eps": draw.choice([1e-12, 1e-6, 1e-2]),
        "qkv_bias": draw.random() < 0.7,
    }


@exact_or_not
@pytest.mark.parametrize("seed", range(12))
def test_its_logits_and_gradients_are_hugging_faces(seed, dtype):
    """ViT, ViT.forward, ViT.from_hf: beside ViTForImageClassification of sizes drawn at random."""
    config = drawn_config(seed)
    torch.manual_seed(seed)
    theirs = shaken(hugging_faces(**config)).to(dtype)
    ours = ViT.from_hf(theirs)
    assert not ours.training and all(weight.dtype == dtype for weight in ours.parameters())
    without = 0 if config["qkv_bias"] else 3 * config["hidden_size"] * config["num_hidden_layers"]
    assert parameter_count(ours.config) == sum(p.numel() for p in ours.parameters())
    assert parameter_count(ours.config) == theirs.num_parameters() + without
    images = torch.randn(3, config["num_channels"], *ours.config.size, dtype=dtype)
    with capture(ours, "*.weights") if seed % 2 else capture(ours, "head"):
        found = ours(images)
    expected = theirs(images).logits
    assert found.shape == expected.shape and found.dtype == dtype
    assert_close(found, expected, atol=TOLERANCE[dtype] * max(1, expected.abs().max().item()), rtol=0)
    for logits in (found, expected):
        F.cross_entropy(logits, torch.zeros(3).long()).backward()
    embeddings, last = theirs.vit.embeddings, theirs.vit.layers[-1]
    pairs = [(ours.cls, embeddings.cls_token), (ours.places, embeddings.position_embeddings)]
    pairs += [(ours.embed.project.weight, embeddings.patch_embeddings.projection.weight)]
    pairs += [(ours.encoder.blocks[-1].norm_1.gain, last.layernorm_before.weight)]
    pairs += [(ours.encoder.blocks[0].attention.w_q.weight, theirs.vit.layers[0].attention.q_proj.weight)]
    pairs += [(ours.encoder.blocks[-1].feed_forward.w_1.bias, last.mlp.fc1.bias)]
    for mine, other in pairs:
        scale = max(1, other.grad.abs().max().item())
        assert_close(mine.grad, other.grad.view_as(mine), atol=TOLERANCE[dtype] * scale, rtol=0)


def test_its_maps_are_hugging_faces():
    theirs = shaken(hugging_faces(attn_implementation="eager")).double()
    ours, images = ViT.from_hf(theirs), torch.randn(2, 1, 8, 8, dtype=torch.float64)
    with capture(ours, "*.attention.weights") as maps:
        ours(images)
    # theirs are made in float32 whatever the model is
    for n, expected in enumerate(theirs(images, output_attentions=True).attentions):
        found = maps[f"encoder.blocks.{n}.attention.weights"][0]
        assert found.shape == (2, 3, 17, 17)
        assert_close(found, expected, atol=1e-6, rtol=0)


@exact_or_not
@pytest.mark.parametrize("sides", [(12, 12), (6, 10), (2, 2), (16, 4)], ids=str)
def test_another_resolution_is_hugging_faces(sides, dtype):
    """ViT.resized: beside Hugging Face's with interpolate_pos_encoding."""
    torch.manual_seed(0)
    theirs = shaken(hugging_faces()).to(dtype)
    ours, images = ViT.from_hf(theirs), torch.randn(2, 1, *sides, dtype=dtype)
    expected = theirs(images, interpolate_pos_encoding=True).logits
    assert_close(ours.resized(sides)(images), expected, atol=10 * TOLERANCE[dtype], rtol=0)
    assert ours.config.size == (8, 8)  # the model itself is as it was


def test_a_copy_is_a_copy_and_keeps_dropout_and_mode():
    theirs = hugging_faces(hidden_dropout_prob=0.3).train()
    ours = ViT.from_hf(theirs)
    assert ours.training and ours.config.dropout == ours.encoder.blocks[0].dropout.p == 0.3
    before = ours.places.clone()
    with torch.no_grad():
        theirs.vit.embeddings.position_embeddings.zero_()
    assert torch.equal(ours.places, before)
    other = ours.resized((16, 16))
    with torch.no_grad():
        other.head.weight.fill_(7)
    assert not ours.head.weight.eq(7).any() and other.training


@pytest.mark.parametrize(
    "strange, words",
    [
        ({"patch_size": [2, 4]}, "square patches that fill the image; got .2, 4. for .8, 8."),
        ({"image_size": 9}, "square patches that fill the image; got .2, 2. for .9, 9."),
        ({"hidden_act": "mish"}, "knows the activations gelu_new, .*got 'mish'"),
    ],
)
def test_what_ours_does_not_compute_is_refused(strange, words):
    with pytest.raises(ValueError, match=words):
        ViT.from_hf(hugging_faces(**strange))


# --- the formula, what is read, what is padded


@exact_or_not
def test_it_is_the_formula(dtype):
    """z_0 = [x_class; patches E] + places; the blocks; head(norm(z)[0])."""
    m, images = a_vit(dtype), torch.rand(3, 1, 8, 8, dtype=dtype)
    cut = images.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4).transpose(1, 3).transpose(1, 2)  # (B, h, w, C, P P)
    patches = cut.reshape(3, 16, 4) @ m.embed.project.weight.T + m.embed.project.bias
    z = torch.cat([m.cls.expand(3, 1, -1), patches], dim=1) + m.places
    for block in m.encoder.blocks:
        z = block(z)
    assert_close(m(images), m.head(m.encoder.norm(z)[:, 0]), atol=TOLERANCE[dtype], rtol=0)
    assert torch.equal(m(images[:, 0]), m(images))  # one channel may be left unsaid


def test_patches_in_another_order_with_their_places_are_the_same_image():
    """ViT.encode: attention knows no order but what the places say."""
    m, images = a_vit(), torch.rand(3, 1, 8, 8, dtype=torch.float64)
    order = torch.stack([torch.randperm(16) for _ in range(3)])
    assert_close(m.encode(images, order)[:, 0], m.encode(images)[:, 0], atol=1e-12, rtol=0)
    assert m.encode(images, order[:, :5]).shape == (3, 6, 12)
    with torch.no_grad():
        m.places[1:] = m.places[1]
    shuffled = images.view(3, 1, 4, 2, 8)[:, :, torch.tensor([2, 0, 3, 1])].view(3, 1, 8, 8)
    assert_close(m(shuffled), m(images), atol=1e-12, rtol=0)  # rows of patches exchanged: without places unseen


def test_what_is_not_seen_does_not_count():
    m, images = a_vit(), torch.rand(2, 1, 8, 8, dtype=torch.float64)
    seen = torch.tensor([[0, 1, 5], [3, 7, 15]])
    other = torch.rand_like(images)
    cut = other.view(2, 4, 2, 4, 2).transpose(2, 3).reshape(2, 16, 4)
    kept = images.view(2, 4, 2, 4, 2).transpose(2, 3).reshape(2, 16, 4)
    cut = cut.scatter(1, seen[:, :, None].expand(-1, -1, 4), kept.gather(1, seen[:, :, None].expand(-1, -1, 4)))
    other = cut.view(2, 4, 4, 2, 2).transpose(2, 3).reshape(2, 1, 8, 8)
    assert torch.equal(m.encode(other, seen), m.encode(images, seen))
    assert not torch.equal(m.encode(other), m.encode(images))


@pytest.mark.parametrize("sides", [(7, 8), (5, 3), (8, 8), (1, 1)], ids=str)
def test_an_image_that_patches_do_not_fill_is_padded_where_that_is_asked_for(sides):
    m, images = a_vit(image_size=sides, pad=True), torch.rand(2, 1, *sides, dtype=torch.float64)
    h, w = m.config.grid
    assert m.places.shape == (1 + h * w, 12)
    whole = m.resized((2 * h, 2 * w))
    assert_close(m(images), whole(F.pad(images, (0, 2 * w - sides[1], 0, 2 * h - sides[0]))), atol=1e-12, rtol=0)
    if sides != (8, 8):
        with pytest.raises(ValueError, match="Whole patches of 2 x 2 do not fill.*pad=True"):
            a_vit(image_size=sides)


def test_a_stem_of_convolutions_takes_the_place_of_the_embedding():
    m = a_vit(embed=ConvStem(1, 4, 12, width=4), patch_size=4)
    assert m(torch.rand(2, 1, 8, 8, dtype=torch.float64)).shape == (2, 5)
    assert m.resized((16, 8))(torch.rand(2, 1, 16, 8, dtype=torch.float64)).shape == (2, 5)


def test_one_image_has_the_answer_that_it_has_among_others():
    m, images = a_vit(), torch.rand(5, 1, 8, 8, dtype=torch.float64)
    assert_close(torch.cat([m(one) for one in images.split(1)]), m(images), atol=1e-12, rtol=0)


@pytest.mark.slow
def test_it_learns_images_by_heart():
    torch.manual_seed(0)
    m, images, labels = ViT(ViTConfig(8, 4, 4, 16, 2, 2, channels=1)), torch.rand(16, 1, 8, 8), torch.arange(16) % 4
    optimiser = torch.optim.AdamW(m.parameters(), lr=1e-2)
    for _ in range(150):
        loss = F.cross_entropy(m(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.1


# --- how it begins, how large it is


def test_it_begins_as_the_papers_code_does():
    torch.manual_seed(0)
    m = ViT(ViTConfig(64, 4, 10, 128, 4, 4))
    assert not m.cls.any() and not m.head.weight.any() and abs(m.places.std() / 0.02 - 1) < 0.05
    for name, weight in m.encoder.named_parameters():
        if weight.ndim > 1:
            assert abs(weight.std() * (sum(weight.shape) / 2) ** 0.5 - 1) < 0.05, name  # Xavier's
        else:
            assert (weight == (1 if name.endswith("gain") else 0)).all(), name
    assert {part.eps for part in m.modules() if hasattr(part, "eps")} == {1e-6}


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_formula_counts_the_model(name):
    """parameter_count: beside the model itself, on a device that keeps no numbers."""
    config = PUBLISHED[name]
    for one in (config, replace(config, d_ff=7), replace(config, image_size=(101, 33), pad=True, channels=1)):
        with torch.device("meta"):
            assert parameter_count(one) == sum(p.numel() for p in ViT(one).parameters())


def test_the_published_sizes():
    """parameter_count: 86, 307 and 632 million, and what gives them."""
    exact = {name: parameter_count(config) for name, config in PUBLISHED.items()}
    assert exact == {"Base": 86_567_656, "Large": 304_326_632, "Huge": 632_045_800}
    assert round(parameter_count(replace(PUBLISHED["Base"], n_classes=1)) / 1e6) == 86  # without the head
    large = replace(PUBLISHED["Large"], patch_size=32)
    assert parameter_count(large) == 306_535_400 and round(parameter_count(large) / 1e6) == 307


@pytest.mark.parametrize("name", PUBLISHED)
def test_hugging_face_counts_them_alike(name):
    from transformers import ViTConfig as Theirs
    from transformers import ViTForImageClassification

    c = PUBLISHED[name]
    sizes = {"image_size": c.image_size, "patch_size": c.patch_size, "hidden_size": c.d_model, "num_labels": 1000}
    sizes |= {"num_hidden_layers": c.n_layers, "num_attention_heads": c.n_heads, "intermediate_size": 4 * c.d_model}
    with torch.device("meta"):
        assert parameter_count(c) == ViTForImageClassification(Theirs(**sizes)).num_parameters()


# --- bad input


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (lambda m: m(torch.zeros(2, 1, 9, 8).double()), ValueError, "images of 8 x 8, and these are 9 x 8: model.res"),
        (lambda m: m(torch.zeros(2, 3, 8, 8).double()), ValueError, "images of 1 channel, dimension 1; got 3"),
        (lambda m: m(torch.zeros(0, 1, 8, 8).double()), ValueError, "one image of one pixel at least; got .0, 1, 8"),
        (lambda m: m(torch.zeros(8, 8).double()), ValueError, "must be .batch, 1, height, width. or, for one channel"),
        (lambda m: m(torch.zeros(2, 1, 8, 8).byte()), TypeError, "got torch.uint8.*float.. / 255"),
        (lambda m: m(255 * torch.ones(2, 1, 8, 8).double()), ValueError, "numbers from 0 to 1.*got 255.*by / 255"),
        (
            lambda m: a_vit(embed=ConvStem(1, 4, 12))(torch.zeros(2, 1, 8, 8).double()),
            ValueError,
            "embedded .batch, 16, 12.; got .2, 4, 12.",
        ),
        (lambda m: m.resized((9, 8)), ValueError, "do not fill an image of 9 x 8"),
        (lambda m: ViT.from_hf(nn.Linear(2, 2)), TypeError, "copies a transformers.ViTForImageCl.*; got Linear"),
        (lambda m: replace(m.config, n_heads=5), ValueError, "multiple of n_heads; got d_model=12, n_heads=5"),
        (lambda m: replace(m.config, activation="gelu_new"), ValueError, "one of gelu_tanh, gelu, .*got 'gelu_new'"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(a_vit())


def test_a_model_without_a_head_is_refused():
    with pytest.raises(TypeError, match="with a classifier"):
        ViT.from_hf(hugging_faces(num_labels=0))
