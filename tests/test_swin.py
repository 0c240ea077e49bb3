"""vision/swin.py: the logits and gradients of Hugging Face's Swin; stages, merging, sizes; bad input."""

import random
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from parity import TOLERANCE, exact_or_not, hf_model, shaken
from torch import nn
from torch.testing import assert_close

from course_lib.language.muon import split
from course_lib.show.record import capture
from course_lib.vision.swin import SWIN_PUBLISHED, PatchMerging, Swin, SwinConfig, swin_parameter_count
from course_lib.weights.hf_activations import HF_ACTIVATIONS
from course_lib.weights.swin_weights import from_swin


def a_swin(dtype=torch.float64, **sizes):
    torch.manual_seed(0)
    sizes = {"image_size": 8, "patch_size": 1, "n_classes": 5, "d_model": 4, "depths": (2, 2), "heads": (1, 2)} | sizes
    return shaken(Swin(SwinConfig(**({"channels": 1, "side": 2} | sizes)))).to(dtype)


def hugging_faces(**config):
    sizes = {"image_size": 8, "patch_size": 1, "num_channels": 1, "embed_dim": 4, "depths": [2, 2], "num_heads": [1, 2]}
    return hf_model("SwinForImageClassification", **(sizes | {"window_size": 2, "num_labels": 5} | config))


# --- beside Hugging Face's


def drawn_config(seed):
    """Stages of one window each way or more, in the last: there theirs does not shift, and ours must not either."""
    draw = random.Random(seed)
    side, patch, stages = draw.choice([2, 3, 4]), draw.choice([1, 2]), draw.choice([1, 2, 3])
    last = [side * (1 if seed % 2 else draw.choice([1, 2])) for _ in range(2)]
    sides = [patch * length * 2 ** (stages - 1) for length in last]
    heads = [draw.choice([1, 2]) for _ in range(stages)]
    return {
        "image_size": sides,
        "patch_size": patch if draw.random() < 0.5 else [patch, patch],
        "num_channels": draw.choice([1, 2, 3]),
        "embed_dim": draw.choice([2, 4, 6]),
        "depths": [draw.choice([1, 2, 3]) for _ in range(stages)],
        "num_heads": heads,
        "window_size": side,
        "num_labels": draw.choice([1, 2, 10]),
        "hidden_act": draw.choice(list(HF_ACTIVATIONS)),
        "layer_norm_eps": draw.choice([1e-12, 1e-5, 1e-2]),
        "qkv_bias": draw.random() < 0.7,
    }


@exact_or_not
@pytest.mark.parametrize("seed", range(8))
def test_its_logits_and_gradients_are_hugging_faces(seed, dtype):
    """Swin, Swin.forward, Swin.from_hf: beside SwinForImageClassification of sizes drawn at random."""
    config = drawn_config(seed)
    torch.manual_seed(seed)
    theirs = shaken(hugging_faces(**config)).to(dtype)
    ours = Swin.from_hf(theirs)
    assert not ours.training and all(weight.dtype == dtype for weight in ours.parameters())
    without = 0 if config["qkv_bias"] else 3 * sum(
        depth * width for depth, (_, width) in zip(config["depths"], ours.config.stages, strict=True)
    )  # fmt: skip
    assert swin_parameter_count(ours.config) == sum(p.numel() for p in ours.parameters())
    assert swin_parameter_count(ours.config) == theirs.num_parameters() + without
    images = torch.randn(2, config["num_channels"], *ours.config.size, dtype=dtype)
    with capture(ours, "*.weights" if seed % 2 else "head"):
        found = ours(images)
    expected = theirs(images).logits
    assert found.shape == expected.shape and found.dtype == dtype
    assert_close(found, expected, atol=TOLERANCE[dtype] * max(1, expected.abs().max().item()), rtol=0)
    for logits in (found, expected):
        F.cross_entropy(logits, torch.zeros(2).long()).backward()
    grads = {name: weight.grad for name, weight in theirs.named_parameters()}
    _, expected = from_swin(theirs.config.to_dict(), grads)
    for name, weight in ours.named_parameters():
        if config["qkv_bias"] or name.rpartition(".")[0][-3:] not in ("w_q", "w_k", "w_v") or "weight" in name:
            scale = max(1, expected[name].abs().max().item())
            assert_close(
                weight.grad, expected[name], atol=TOLERANCE[dtype] * scale, rtol=0, msg=lambda m, n=name: n + m
            )


def test_a_copy_is_a_copy_and_keeps_dropout_and_mode():
    theirs = hugging_faces(hidden_dropout_prob=0.3).train()
    ours = Swin.from_hf(theirs)
    assert ours.training and ours.config.dropout == ours.dropout.p == ours.stages[1][0].dropout.p == 0.3
    before = ours.head.weight.clone()
    with torch.no_grad():
        theirs.classifier.weight.zero_()
    assert torch.equal(ours.head.weight, before)


# --- merging


def test_merging_is_by_hand():
    """PatchMerging: the four of each square, down first, then across; a norm; a matrix without a bias."""
    merge, x = shaken(PatchMerging(3, (4, 6))).double(), torch.randn(2, 24, 3, dtype=torch.float64)
    found = merge(x)
    assert found.shape == (2, 6, 6)
    for row in range(2):
        for column in range(3):
            top = 2 * row * 6 + 2 * column
            four = torch.cat([x[:, top], x[:, top + 6], x[:, top + 1], x[:, top + 7]], dim=1)
            expected = F.layer_norm(four, (12,), merge.norm.gain, merge.norm.shift, 1e-5) @ merge.narrow.weight.T
            assert_close(found[:, row * 3 + column], expected, atol=1e-12, rtol=0)


def test_stages_halve_the_grid_and_double_the_width():
    config = SwinConfig((16, 32), 2, 5, 6, (1, 2, 1), (1, 2, 3), side=2)
    assert config.stages == [((8, 16), 6), ((4, 8), 12), ((2, 4), 24)]
    model = Swin(config)
    with capture(model, "*.attention.weights") as maps:
        assert model.encode(torch.rand(3, 3, 16, 32)).shape == (3, 8, 24)
    assert {name: part[0].shape for name, part in maps.items()} == {
        "stages.0.0.attention.weights": (3 * 32, 1, 4, 4),
        "stages.1.0.attention.weights": (3 * 8, 2, 4, 4),
        "stages.1.1.attention.weights": (3 * 8, 2, 4, 4),
        "stages.2.0.attention.weights": (3 * 2, 3, 4, 4),
    }
    assert [[block.attention.shift for block in stage] for stage in model.stages] == [[0], [0, 1], [0]]


def test_a_stage_that_is_smaller_than_a_window_has_one():
    model = a_swin(side=4)
    assert [[block.attention.shift for block in stage] for stage in model.stages] == [[0, 2], [0, 0]]
    assert a_swin(side=8).stages[1][0].attention.side == 4
    assert a_swin(image_size=2).stages[1][0].attention.side == 1


# --- sizes


def test_the_published_sizes():
    """swin_parameter_count: 29, 50 and 88 million, and the models themselves, which keep no numbers here."""
    counts = {name: swin_parameter_count(config) for name, config in SWIN_PUBLISHED.items()}
    assert counts == {"Tiny": 28_288_354, "Small": 49_606_258, "Base": 87_768_224}
    for config in (SWIN_PUBLISHED["Tiny"], SwinConfig((8, 16), 2, 3, 6, (1, 3), (2, 3), side=9, channels=1)):
        with torch.device("meta"):
            assert swin_parameter_count(config) == sum(p.numel() for p in Swin(config).parameters())


def test_it_begins_as_the_papers_code_does():
    torch.manual_seed(0)
    model = Swin(SwinConfig(8, 1, 5, 32, (1, 1), (2, 2), side=2, eps=1e-3))
    for name, weight in model.named_parameters():
        if weight.ndim > 1 and not name.endswith("table"):
            assert abs(weight.std() / 0.02 - 1) < 0.15, name
        else:
            assert (weight == (1 if name.endswith("gain") else 0)).all(), name
    assert model.norm.eps == model.stages[0][0].norm_1.eps == 1e-3 and model.merges[0].norm.eps == 1e-5


def test_muon_finds_the_matrices_of_the_blocks():
    inside, rest = split(a_swin())
    assert len(inside["params"]) == 4 * 6 and all(weight.ndim == 2 for weight in inside["params"])
    assert len(rest["params"]) + 24 == len([*a_swin().parameters()])


def test_one_image_has_the_answer_that_it_has_among_others():
    model, images = a_swin(), torch.rand(3, 1, 8, 8, dtype=torch.float64)
    assert_close(torch.cat([model(one) for one in images.split(1)]), model(images), atol=1e-12, rtol=0)
    assert torch.equal(model(images[:, 0]), model(images))  # one channel may be left unsaid


@pytest.mark.slow
def test_it_learns_images_by_heart():
    torch.manual_seed(0)
    model, labels = Swin(SwinConfig(8, 1, 4, 8, (2, 1), (2, 2), side=4, channels=1)), torch.arange(8) % 4
    images, optimiser = torch.rand(8, 1, 8, 8), torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        loss = F.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.1


# --- bad input


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda m: m(torch.zeros(2, 1, 9, 8).double()), ValueError, "made for images of 8 x 8, and these are 9 x 8"),
        (lambda m: Swin.from_hf(nn.Linear(2, 2)), TypeError, "copies a transformers.SwinForImageCl.*; got Linear"),
        (lambda m: PatchMerging(4, (3, 4)), ValueError, "rows, columns., both even; got .3, 4."),
        (lambda m: replace(m.config, image_size=9), ValueError, "2 stages, .* multiples of 2, .* got .9, 9."),
        (lambda m: replace(m.config, patch_size=3), ValueError, "Patches of 3 .* multiples of 6"),
        (lambda m: Swin(replace(m.config, side=3)), ValueError, "Windows of 3 x 3 do not fill a grid of 8 x 8"),
        (lambda m: Swin(replace(m.config, heads=(1, 3))), ValueError, "multiple of n_heads; got d_model=8, n_heads=3"),
        (lambda m: replace(m.config, activation="gelu_new"), ValueError, "one of gelu_tanh, gelu, .*got 'gelu_new'"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(a_swin())
