"""weights/mae_weights.py: Hugging Face's ViTMAE paints and learns the same here; what computes something else."""

import random

import pytest
import torch
from parity import hf_model, shaken
from torch import nn
from torch.testing import assert_close

from course_lib.vision.masked_patches import MaskedAutoencoder
from course_lib.vision.patches import patchify
from course_lib.weights.hf_activations import HF_ACTIVATIONS
from course_lib.weights.mae_weights import MAE_DECODER, MAE_NAMES, MAE_SIZES, from_mae

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}
SIZES = {"image_size": 8, "patch_size": 2, "num_channels": 1, "hidden_size": 12, "num_attention_heads": 3}
SIZES |= {"num_hidden_layers": 2, "intermediate_size": 20, "decoder_hidden_size": 8, "decoder_num_attention_heads": 2}
SIZES |= {"decoder_num_hidden_layers": 1, "decoder_intermediate_size": 10}


def hugging_faces(**config):
    return shaken(hf_model("ViTMAEForPreTraining", **(SIZES | config)))


def drawn_config(seed):
    draw = random.Random(seed)
    heads, decoder_heads, patch = draw.choice([1, 2, 3]), draw.choice([1, 2]), draw.choice([1, 2, 3, 5])
    return {
        "image_size": patch * draw.choice([2, 3, 4]),
        "patch_size": patch,
        "num_channels": draw.choice([1, 2, 3]),
        "hidden_size": 4 * heads * draw.choice([1, 2]),
        "num_attention_heads": heads,
        "num_hidden_layers": draw.choice([1, 2, 3]),
        "intermediate_size": draw.choice([1, 13, 40]),
        "hidden_act": draw.choice(list(HF_ACTIVATIONS)),
        "layer_norm_eps": draw.choice([1e-12, 1e-6, 1e-2]),
        "qkv_bias": draw.random() < 0.7,
        "decoder_hidden_size": 4 * decoder_heads * draw.choice([1, 2]),
        "decoder_num_attention_heads": decoder_heads,
        "decoder_num_hidden_layers": draw.choice([1, 2]),
        "decoder_intermediate_size": draw.choice([1, 7, 32]),
        "mask_ratio": draw.choice([0.25, 0.5, 0.75]),
    }


def of_channels_first(patches, channels):
    """Hugging Face's patches, the numbers of each as (P, P, C), in our order, (C, P, P)."""
    side = round((patches.shape[-1] / channels) ** 0.5)
    return patches.unflatten(-1, (side, side, channels)).permute(0, 1, 4, 2, 3).flatten(2)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_it_paints_and_learns_what_hugging_faces_does(seed, dtype):
    """MaskedAutoencoder.from_hf, from_mae: the same patches seen, the same painted, one loss, all gradients."""
    config = drawn_config(seed)
    torch.manual_seed(seed)
    theirs = hugging_faces(**config).to(dtype)
    theirs.requires_grad_(True)  # their places are fixed; here their gradients are compared too
    ours = MaskedAutoencoder.from_hf(theirs, n_classes=4)
    assert not ours.training and all(weight.dtype == dtype for weight in ours.parameters())
    channels, N = config["num_channels"], len(ours.places) - 1
    images, noise = torch.randn(3, channels, *ours.vit.config.size, dtype=dtype), torch.rand(3, N)
    seen = noise.argsort(dim=1)[:, : int(N * (1 - config["mask_ratio"]))]  # drawn as theirs are, in no order
    expected, found = theirs(images, noise=noise), ours(images, seen)
    scale = max(1, expected.logits.abs().max().item())
    assert found.dtype == dtype
    assert_close(found, of_channels_first(expected.logits, channels), atol=TOLERANCE[dtype] * scale, rtol=0)
    assert_close(ours(images, seen.sort(dim=1).values), found, atol=TOLERANCE[dtype] * scale, rtol=0)
    assert_close(patchify(images, config["patch_size"]), of_channels_first(theirs.patchify(images), channels))
    loss = ours.loss(images, seen)
    assert_close(loss, expected.loss, atol=TOLERANCE[dtype] * scale**2, rtol=0)
    loss.backward()
    expected.loss.backward()
    grads = from_mae(theirs.config.to_dict(), {name: part.grad for name, part in theirs.named_parameters()})[2]
    for name, part in ours.named_parameters():
        if "head" in name:
            assert part.grad is None  # nobody has asked the classifier
        elif config["qkv_bias"] or not name.endswith(("w_q.bias", "w_k.bias", "w_v.bias")):
            scale = max(1, grads[name].abs().max().item())
            assert_close(
                part.grad, grads[name], atol=TOLERANCE[dtype] * scale, rtol=0, msg=lambda m, n=name: f"{n} {m}"
            )


def test_every_weight_has_a_name_here():
    """from_mae, MAE_NAMES, MAE_SIZES, MAE_DECODER: all of our own model but the classifier's."""
    theirs = hugging_faces()
    sizes, decoder, weights = from_mae(theirs.config.to_dict(), theirs.state_dict())
    names = MaskedAutoencoder.from_hf(theirs).state_dict().keys()
    assert names - weights.keys() == {"vit.head.weight", "vit.head.bias"} and weights.keys() < names
    assert {ours for ours, _ in MAE_SIZES} | {"activation"} == sizes.keys()
    assert {ours for ours, _ in MAE_DECODER} == decoder.keys()
    assert all(any(part in name for name in theirs.state_dict()) for _, part in MAE_NAMES)
    bare = from_mae(theirs.config.to_dict(), hugging_faces(qkv_bias=False).state_dict())[2]
    assert bare.keys() == weights.keys() and not bare["vit.encoder.blocks.1.attention.w_k.bias"].any()


def test_a_copy_is_a_copy_and_can_be_trained_on():
    theirs = hugging_faces().train()
    ours = MaskedAutoencoder.from_hf(theirs, n_classes=3)
    before = {name: part.clone() for name, part in ours.state_dict().items()}
    for part in theirs.parameters():
        nn.init.zeros_(part)
    assert all(torch.equal(part, before[name]) for name, part in ours.state_dict().items())
    assert ours.training and all(part.requires_grad for part in ours.parameters())
    assert torch.equal(ours.vit(torch.rand(2, 1, 8, 8)), torch.zeros(2, 3))  # its classifier has learned nothing yet
    assert MaskedAutoencoder.from_hf(hugging_faces()).vit.head.out_features == 1000


@pytest.mark.parametrize(
    "strange, words",
    [
        ({"norm_pix_loss": True}, "norm_pix_loss=True.*loss compares pixels.*set model.config.norm_pix_loss = False"),
        ({"hidden_dropout_prob": 0.1}, "without dropout.*set hidden_dropout_prob to 0"),
        ({"attention_probs_dropout_prob": 0.1}, "set attention_probs_dropout_prob to 0"),
        ({"hidden_act": "mish"}, "knows the activations gelu_new, .*got 'mish'"),
        ({"image_size": 9}, "Whole patches of 2 x 2 do not fill an image of 9 x 9"),
    ],
)
def test_what_ours_does_not_compute_is_refused(strange, words):
    with pytest.raises(ValueError, match=words):
        MaskedAutoencoder.from_hf(hugging_faces(**strange))


def test_normalised_pixels_are_painted_once_that_is_said():
    theirs = hugging_faces(norm_pix_loss=True).double()
    theirs.config.norm_pix_loss = False
    images, noise = torch.rand(2, 1, 8, 8, dtype=torch.float64), torch.rand(2, 16)
    found = MaskedAutoencoder.from_hf(theirs)(images, noise.argsort(dim=1)[:, :4])
    assert_close(found, theirs(images, noise=noise).logits, atol=1e-10, rtol=0)


@pytest.mark.parametrize("other", [None, "facebook/vit-mae-base", nn.Linear(2, 2)], ids=lambda o: type(o).__name__)
def test_another_model_is_refused(other):
    with pytest.raises(TypeError, match="copies a transformers.ViTMAEForPreTraining; got"):
        MaskedAutoencoder.from_hf(other)


def test_weights_of_other_sizes_are_refused():
    theirs = hugging_faces()
    theirs.config.hidden_size = 24
    with pytest.raises(ValueError, match="not those of a MaskedAutoencoder of these sizes: .*"):
        MaskedAutoencoder.from_hf(theirs)
