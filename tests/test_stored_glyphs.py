"""The stored models that read glyphs: the task, what their records say, and Muon for windows held to Muon's step."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from course_lib.data import glyphs
from course_lib.language.muon import Muon
from course_lib.vision.convnet import ConvNet, width_for
from course_lib.vision.images import accuracy
from course_lib.workshop.recipes.glyphs import (
    CONV,
    CONV_SIZES,
    VIT,
    VIT_SIZES,
    WindowMuon,
    as_matrices,
    base_letters,
    latin,
    lettered,
    muon,
)
from course_lib.workshop.recipes.stored import load

both = pytest.mark.parametrize("recipe", [VIT, CONV], ids=lambda recipe: recipe.name)


def test_the_classes_are_the_letters_of_the_training_faces_and_others_are_never_right():
    assert [len(lettered(split)[1]) for split in ("train", "validation", "test")] == [6994, 666, 3418]
    assert len(base_letters()) == 129 and "E" in base_letters()
    for split, unknown in (("train", 0), ("validation", 0), ("test", 52)):
        images, labels = lettered(split)
        rows = latin(split)[1]
        assert images.shape == (len(rows), 1, glyphs.SIDE, glyphs.SIDE) and int((labels == -1).sum()) == unknown
        told = [base_letters()[label] if label >= 0 else None for label in labels.tolist()]
        assert all(letter in (None, row.letter) for letter, row in zip(told, rows, strict=True))
        assert {row.script for row in rows} == {"LATIN"}


def test_the_two_models_have_about_the_same_number_of_weights():
    vit, conv = (sum(p.numel() for p in recipe.build().parameters()) for recipe in (VIT, CONV))
    channels, kinds, width, stages = CONV_SIZES
    assert width == width_for(vit, lambda width: ConvNet(channels, kinds, width, stages)) and 0.97 < conv / vit < 1.03
    assert kinds == VIT_SIZES[2] == len(base_letters())


def test_windows_are_stepped_as_muon_steps_a_matrix():
    """The second convolution's windows move as the matrix (F, 9 C) does; the first's as AdamW moves them."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 6, 3))
    flat, first = nn.Parameter(net[1].weight.detach().flatten(1).clone()), nn.Parameter(net[0].weight.detach().clone())
    other = Muon([{"params": [flat], "matrices": True}, {"params": [first], "matrices": False}], lr=0.1, rounds=3)
    ours = WindowMuon(net, lr=0.1, rounds=3)
    before = net[1].weight.detach().clone()
    for _ in range(3):
        ours.zero_grad()
        net(torch.rand(2, 1, 8, 8)).square().sum().backward()
        flat.grad, first.grad = net[1].weight.grad.flatten(1).clone(), net[0].weight.grad.clone()
        ours.step()
        other.step()
    assert net[1].weight.shape == net[1].weight.grad.shape == (6, 4, 3, 3) and not net[1].weight.equal(before)
    torch.testing.assert_close(net[1].weight.flatten(1), flat)
    torch.testing.assert_close(net[0].weight, first)


def test_windows_are_windows_again_after_an_error():
    window = nn.Parameter(torch.rand(2, 3, 3, 3))
    with pytest.raises(RuntimeError, match="stop"), as_matrices([window]):
        assert window.shape == (2, 27)
        raise RuntimeError("stop")
    assert window.shape == (2, 3, 3, 3)


def test_both_kinds_of_network_have_every_weight_in_one_group():
    for recipe in (VIT, CONV):
        model = recipe.build()
        matrices, rest = muon(model).param_groups
        held = [id(weight) for group in (matrices, rest) for weight in group["params"]]
        assert sorted(held) == sorted(map(id, model.parameters())), recipe.name
        assert all(weight.ndim == (2 if recipe is VIT else 4) for weight in matrices["params"])
        assert len(matrices["params"]) == (6 * 4 if recipe is VIT else 7)


@pytest.mark.slow
@both
def test_a_stored_model_is_worth_what_it_says(recipe):
    model, record = load(recipe)
    (_, first), *_, (_, last) = record["curve"]
    assert first < 0.1 and list(record["test_by_face"]) == list(glyphs.FACES["test"])
    images, labels = lettered("test")
    some = slice(None, None, 8)
    assert abs(accuracy(model, images[some], labels[some]) - record["test_accuracy"]) < 0.05
    validation = accuracy(model, *lettered("validation"))  # in half precision as stored, and in full when it was seen
    assert abs(validation - last) <= 2 / 666


@pytest.mark.slow
@both
def test_a_run_makes_a_model_that_comes_back(recipe, short_run, monkeypatch):
    some = {split: tuple(part[::40] for part in lettered(split)) for split in ("train", "validation", "test")}
    rows = {split: (None, latin(split)[1][::40]) for split in some}
    monkeypatch.setattr("course_lib.workshop.recipes.glyphs.lettered", some.__getitem__)
    monkeypatch.setattr("course_lib.workshop.recipes.glyphs.latin", rows.__getitem__)
    model, record = short_run(replace(recipe, train=partial(recipe.train, data=some.__getitem__)))
    assert record["test_accuracy"] == accuracy(model, *some["test"])
