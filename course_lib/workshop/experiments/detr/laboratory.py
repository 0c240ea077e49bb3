"""Lesson 10's laboratory: noised boxes beside the queries, queries that stand nowhere, the rival trained for longer."""

from functools import partial

import torch
from torch import Tensor, nn

from course_lib.data import scenes
from course_lib.detection.detr import DETR, grid_points, sine_places
from course_lib.detection.set_loss import in_order, loss_given
from course_lib.train import fit
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.detr.core import HERE, LOOKS, STEPS, NoLook, fitted, judged, made, seen
from course_lib.workshop.recipes.scenes import (
    BATCH,
    CLASSES,
    CPU,
    RATES,
    ScenesMuon,
    ap,
    detr_loss,
    heat_map,
    map_loss,
    schedule,
)

NOISE = 0.4  # a middle moves by up to half of this share of the box's size, a size by up to this share
FLIPPED = 0.2  # of the digits told, so many are others

# --- denoising queries


class Told(nn.Module):
    """A DETR that in training is also asked with true boxes that noise has moved (Li et al., 2022, DN-DETR).

    Their queries go through the same decoder in a pass of their own: so neither kind hears the other, which the paper
    does by a mask. Each knows whose it is, so nothing is matched. Called, it is the DETR.
    """

    def __init__(self, model: DETR, seed: int):
        super().__init__()
        self.model, self.told = model, nn.Embedding(CLASSES, model.d_model)
        self.draws = torch.Generator().manual_seed(seed)
        self.blocks = model.blocks  # for `muon.split`

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return self.model(images)

    def noised(self, labels: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """The objects with some digits replaced and their boxes moved: labels (B, M), boxes (B, M, 4)."""
        flips = torch.rand(labels.shape, generator=self.draws) < FLIPPED
        others = torch.randint(0, CLASSES, labels.shape, generator=self.draws)
        noise = NOISE * (2 * torch.rand(boxes.shape, generator=self.draws) - 1)  # (B, M, 4)
        moved = boxes + noise * torch.cat([boxes[..., 2:] / 2, boxes[..., 2:]], dim=-1)
        return torch.where(flips, others, labels.clamp(min=0)), moved.clamp(0.01, 0.99)

    def layers(self, images: Tensor, labels: Tensor, boxes: Tensor) -> list[tuple[Tensor, Tensor]]:
        """What each block says of the noised objects: logits (B, M, K + 1), boxes (B, M, 4), as `DETR.layers`."""
        model = self.model
        seen = model.project(model.backbone(images))
        grid = grid_points(*seen.shape[2:], model.at)
        memory, memory_places = seen.flatten(2).mT, sine_places(grid, model.d_model)
        names, start = self.noised(labels, boxes)
        points = start[..., :2]  # (B, M, 2)
        apart = (points[:, :, None] - grid).square().sum(-1)  # (B, M, S)
        near = -apart[:, None] / model.queries.widths.exp().square()[:, None, None]  # (B, H, M, S)
        places, x, found = model.queries.turn(sine_places(points, model.d_model)), self.told(names), []
        alone = torch.eye(x.shape[1]).log()  # each hears itself alone: (M, M), 0 on the diagonal, else -inf
        for block in model.decoder:
            x = block.norm_1(x + block.attention(x, places, bias=alone))
            x = block.norm_cross(x + block.cross(x, places, memory, memory_places, near))
            x = block.norm_2(x + block.feed_forward(x))
            out = model.norm(x)
            found.append((model.naming(out), (model.placing(out) + start.logit()).sigmoid()))
        return found


def told_loss(told: Told, batch: scenes.Scenes) -> Tensor:
    """The loss of the lesson's DETR, and that of the noised objects, each taught by its own."""
    images, labels, boxes = batch
    own = in_order(labels, labels.shape[1])  # (B, M): object m for query m
    again = sum(given_only(own, *layer, labels, boxes) for layer in told.layers(images, labels, boxes))
    return detr_loss(told.model, batch) + again


def given_only(given: Tensor, logits: Tensor, boxes: Tensor, labels: Tensor, truth: Tensor) -> Tensor:
    """`loss_given` where what pads is asked nothing: "no object" weighs 0."""
    return loss_given(given, logits, boxes, labels, truth, nothing=0.0)


@experiment(cpus=HERE)
def denoised(seed):
    """AP on test scenes of the DETR of `rivals`, trained on noised boxes too; the rate is that of `rivals`."""
    told = Told(made(seed), seed)
    rate, share = RATES["DETR"]
    history = fit(told, scenes.batches(BATCH, seed), told_loss, steps=STEPS, lr=rate, schedule=schedule, device=CPU,
                  optimiser=partial(ScenesMuon, share=share, rounds=3), progress=False, watch_every=STEPS // LOOKS,
                  watch=lambda step: ap(told.model, seen("validation", False, 200)) if step else 0.0)  # fmt: skip
    return judged(told.model) | {"curve": [right for _, right in history.watched[1 : LOOKS + 1]]}


# --- queries that stand nowhere


@experiment(each(look=[True, False]), range(3), HERE)
def nowhere(seed, look):
    """AP and duplicates of a DETR with the paper's queries, 900 steps, with the look at each other and without."""
    model = made(seed, anchors=False)
    for block in model.decoder if not look else ():
        block.attention = NoLook(model.d_model)
    model, watched = fitted(model, seed, steps=900)
    return judged(model) | {"curve": watched}


# --- the rival, three times as long


@experiment(each(steps=[900]), range(3), HERE)
def longer_map(seed, steps):
    """AP and duplicates on test scenes of the heat map of `rivals`, trained three times as long."""
    torch.manual_seed(seed)
    model, watched = fitted(heat_map(), seed, map_loss, steps=steps)
    return judged(model) | {"curve": watched}
