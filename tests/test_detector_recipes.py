"""recipes/scenes.py: sizes, losses, the optimiser of both detectors; a few steps make them better."""

import pytest
import torch
from torch.testing import assert_close

from course_lib.data import scenes
from course_lib.detection.set_loss import set_loss
from course_lib.language.muon import Muon
from course_lib.workshop.recipes.scenes import (
    RATES,
    ScenesMuon,
    ap,
    detr,
    detr_loss,
    found,
    heat_map,
    learned,
    map_loss,
    muon,
)

BATCH = scenes.scenes("train", 6)


def counted(model):
    return sum(weight.numel() for weight in model.parameters())


def test_both_have_as_many_parameters():
    assert abs(counted(detr()) / counted(heat_map()) - 1) < 0.005


def test_losses_are_the_librarys():
    """detr_loss: the sum over the blocks, and the last block alone."""
    torch.manual_seed(0)
    model = detr()
    layers = model.layers(BATCH.images)
    every = [set_loss(*layer, BATCH.labels, BATCH.boxes, 0.3) for layer in layers]
    assert_close(detr_loss(model, BATCH, nothing=0.3), sum(every))
    assert_close(detr_loss(model, BATCH, nothing=0.3, beside=False), every[-1])


@pytest.mark.parametrize("make", [detr, heat_map])
def test_the_optimiser_has_every_weight_once(make):
    """ScenesMuon: matrices of blocks and windows of 3 x 3 but the first; the rest at a share of the rate."""
    torch.manual_seed(0)
    model = make()
    ours = muon(model)
    matrices, rest = (group["params"] for group in ours.param_groups)
    assert sorted(map(id, matrices + rest)) == sorted(map(id, model.parameters()))
    windows = [weight for weight in matrices if weight.ndim == 4]
    first = model.backbone.layers[0].window.weight
    assert len(windows) == (5 if make is heat_map else 4) and any(first is weight for weight in rest)
    loss = (detr_loss if make is detr else map_loss)(model, BATCH)
    loss.backward()
    before = [weight.detach().clone() for weight in model.parameters()]
    shapes = [weight.shape for weight in model.parameters()]
    for group in ours.param_groups:
        group["lr"] = 0.01
    ours.step()
    assert [weight.shape for weight in model.parameters()] == shapes
    still = {
        name for (name, weight), old in zip(model.named_parameters(), before, strict=True) if (weight == old).all()
    }
    first = "decoder.0."  # its look at itself has no gradient in the first step, for it begins at zeros
    assert all(name.startswith((f"{first}attention", f"{first}norm_1.gain")) for name in still)


def test_a_share_of_one_is_plain_muon():
    """Beside Muon itself, for a model without windows."""
    torch.manual_seed(0)
    models = [torch.nn.Module() for _ in range(2)]
    for model in models:
        torch.manual_seed(1)
        model.blocks, model.out = torch.nn.ModuleList([torch.nn.Linear(4, 3)]), torch.nn.Linear(3, 2)
    groups = [{"params": [models[0].blocks[0].weight], "matrices": True},
              {"params": [models[0].blocks[0].bias, *models[0].out.parameters()], "matrices": False}]  # fmt: skip
    theirs, ours = Muon(groups, lr=0.1), ScenesMuon(models[1], share=1.0, lr=0.1)
    x = torch.randn(5, 4)
    for model, optimiser in zip(models, (theirs, ours), strict=True):
        for _ in range(3):
            optimiser.zero_grad()
            model.out(model.blocks[0](x)).square().sum().backward()
            optimiser.step()
            for group in optimiser.param_groups:
                group["lr"] = 0.1
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert_close(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("make, loss", [(detr, detr_loss), (heat_map, map_loss)])
def test_a_few_steps_make_it_better(make, loss):
    """learned, found, ap: and the same seed gives the same weights."""
    results = []
    for _ in range(2):
        torch.manual_seed(0)
        model, history = learned(make(), scenes.batches(8, 0), loss, 12)
        results.append([history.loss, found(model, BATCH.images)])
    (losses, one), (others, other) = results
    assert losses == others and sum(losses[-3:]) < sum(losses[:3])
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert one.labels.shape == one.scores.shape and 0 <= ap(model, scenes.scenes("validation", 20)) <= 1
    assert set(RATES) >= {type(model).__name__}
