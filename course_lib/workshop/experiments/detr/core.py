"""Lesson 10: a set of digits found in scenes: matching or a fixed order, DETR and a heat map, and what each part does.

All detectors are trained on scenes that are drawn anew, STEPS batches of 32, and judged on test scenes: digits in other
hands, 500 plain scenes and 500 crowded ones. AP is the mean average precision, at IoU 0.5 and 0.75.
"""

import time
from functools import cache, partial

import torch
from torch import Tensor, nn

from course_lib.data import scenes
from course_lib.detection.average_precision import Found, duplicates, found_by, mean_average_precision, right_ones
from course_lib.detection.boxes import to_corners
from course_lib.detection.detr import DETR, Backbone, grid_points
from course_lib.detection.heat_map import suppress
from course_lib.detection.set_loss import in_order, left_to_right, loss_given, set_loss
from course_lib.inputs.sequences import reading
from course_lib.show.record import capture
from course_lib.train import fit
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.recipes.scenes import (
    BATCH,
    CLASSES,
    CPU,
    ScenesMuon,
    ap,
    detr,
    detr_loss,
    found,
    heat_map,
    learned,
    map_loss,
    muon,
    schedule,
)

HERE = ["default"]  # the instruction set of what is dear
STEPS = 300
LOOKS = 5
ADAM_RATE = 0.001  # 0.001, 0.003 and 0.006 were tried, 150 steps: 0.055, 0.044 and 0.036 on validation scenes


@cache
def seen(split: str, crowded: bool, n: int = 500) -> scenes.Scenes:
    """The scenes that detectors are judged on."""
    return scenes.scenes(split, n, crowded)


def fitted(model: nn.Module, seed: int, loss=detr_loss, crowded=False, steps=STEPS, **how):
    """The detector, trained, and its AP50 on validation scenes, at five places on the way."""
    model, history = learned(model, scenes.batches(BATCH, seed, crowded=crowded), loss, steps,
                             watch=lambda step: ap(model, seen("validation", crowded, 200)) if step else 0.0,
                             watch_every=steps // LOOKS, **how)  # fmt: skip
    return model, [right for _, right in history.watched[1 : LOOKS + 1]]


def judged(model: nn.Module) -> dict:
    """AP on test scenes, plain and crowded, as found and suppressed, and boxes a scene that are found twice."""
    results = {}
    for name, crowded in (("", False), ("crowded ", True)):
        images, labels, boxes = seen("test", crowded)
        raw = found(model, images)
        results[f"{name}duplicates"] = duplicates(raw, labels, boxes)
        for how, these in (("", raw), (" suppressed", suppress(raw))):
            for at in (50, 75):
                results[f"{name}AP{at}{how}"] = mean_average_precision(these, labels, boxes, at / 100)
    return results


def made(seed: int, **how) -> nn.Module:
    """`detr(**how)`, untrained, from a seed."""
    torch.manual_seed(seed)
    return detr(**how)


# --- a set against a list


ORDERS = ("matched", "left to right", "as listed")
LIST_STEPS = 400


class ListNet(nn.Module):
    """The obvious network: all places of the grid in one row, one layer, and five classes and boxes read out of it.

    images (B, 1, 32, 32) -> logits (B, 5, K + 1), boxes (B, 5, 4), as a DETR's.
    """

    def __init__(self, n_boxes: int = scenes.MOST, width: int = 256):
        super().__init__()
        self.backbone = Backbone(1)
        places = (scenes.SIDE // self.backbone.stride) ** 2 * self.backbone.width
        self.read = nn.Sequential(nn.Flatten(), nn.Linear(places, width), nn.ReLU())
        self.naming, self.placing = nn.Linear(width, n_boxes * (CLASSES + 1)), nn.Linear(width, n_boxes * 4)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x = self.read(self.backbone(images))  # (B, width)
        return self.naming(x).unflatten(1, (-1, CLASSES + 1)), self.placing(x).unflatten(1, (-1, 4)).sigmoid()


def list_loss(model: nn.Module, batch: scenes.Scenes, order: str) -> Tensor:
    """The loss where answer m is for object m of the list, sorted or not, or for the one that it is matched with."""
    images, labels, boxes = batch
    if order == "left to right":
        labels, boxes = left_to_right(labels, boxes)
    answers = model(images)
    if order == "matched":
        return set_loss(*answers, labels, boxes)
    return loss_given(in_order(labels, answers[1].shape[1]), *answers, labels, boxes)


@torch.no_grad()
def list_judged(model: nn.Module, split: str, n: int = 500) -> dict:
    """AP50 of a `ListNet` on plain scenes, and that of its boxes alone, whatever the digit."""
    images, labels, boxes = seen(split, False, n)
    with reading(model):
        answers = found_by(*model(images))
    alone = Found(torch.where(answers.labels >= 0, 0, -1), answers.boxes, answers.scores)
    return {"AP50": mean_average_precision(answers, labels, boxes),
            "boxes AP50": mean_average_precision(alone, torch.where(labels >= 0, 0, -1), boxes)}  # fmt: skip


@experiment(each(order=ORDERS), cpus=HERE)
def orders(seed, order):
    """AP50 on test scenes, of boxes alone and with digits, where answers are for a list, sorted or not, or matched."""
    torch.manual_seed(seed)
    model = ListNet()
    history = fit(model, scenes.batches(BATCH, seed), partial(list_loss, order=order), steps=LIST_STEPS, lr=0.04,
                  schedule=schedule, optimiser=partial(ScenesMuon, share=0.07, rounds=3), device=CPU, progress=False,
                  watch=lambda step: list_judged(model, "validation", 200)["boxes AP50"] if step else 0.0,
                  watch_every=LIST_STEPS // LOOKS)  # fmt: skip
    return list_judged(model, "test") | {"curve": [right for _, right in history.watched[1 : LOOKS + 1]]}


# --- and against a grid


@experiment(each(crowded=[False, True], detector=["DETR", "HeatMap"]), cpus=HERE)
def rivals(seed, detector, crowded):
    """AP on test scenes of DETR and a heat map of as many parameters and steps, with and without suppression."""
    torch.manual_seed(seed)
    model, loss = (detr(), detr_loss) if detector == "DETR" else (heat_map(), map_loss)
    model, watched = fitted(model, seed, loss, crowded)
    weights = sum(weight.numel() for weight in model.parameters())
    return judged(model) | {"curve": watched, "weights": weights}


@experiment(seeds=[0], cpus=HERE)
def pace(seed):
    """Seconds of one core that a step of DETR takes, and one of the heat map, and all steps, measured in turns."""
    models = {"DETR": (detr(), detr_loss), "HeatMap": (heat_map(), map_loss)}
    optimisers, batch = {name: muon(model) for name, (model, _) in models.items()}, next(scenes.batches(BATCH, seed))
    taken = {name: [] for name in models}
    for _ in range(15):
        for name, (model, loss) in models.items():
            start = time.thread_time()
            optimisers[name].zero_grad()
            loss(model, batch).backward()
            optimisers[name].step()
            taken[name].append(time.thread_time() - start)
    step = {name: sorted(seconds)[len(seconds) // 2] for name, seconds in taken.items()}
    return {"step": step, "all": {name: STEPS * seconds for name, seconds in step.items()}}


# --- what each part does, one at a time


class NoLook(nn.Module):
    """In the place of a block's look at itself: nothing is added."""

    def __init__(self, d_model: int):
        super().__init__()
        self.d_model = d_model

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        return torch.zeros_like(x)


# With the look they are the DETRs of `rivals`. The first block's look moves nothing: all its values are the same.
@experiment(each(look=[False], crowded=[False, True]), cpus=HERE)
def looks(seed, look, crowded):
    """AP and duplicates on test scenes of a DETR whose queries do not look at each other, in as many steps."""
    model = made(seed)
    for block in model.decoder if not look else ():
        block.attention = NoLook(model.d_model)
    model, watched = fitted(model, seed, crowded=crowded)
    return judged(model) | {"curve": watched}


@experiment(each(nothing=[0.03, 0.3, 1.0]), cpus=HERE)  # with 0.1 it is the DETR of `rivals`
def nothings(seed, nothing):
    """AP and duplicates on test scenes by the weight of "no object" in the loss."""
    model, watched = fitted(made(seed), seed, partial(detr_loss, nothing=nothing))
    return judged(model) | {"curve": watched}


@experiment(each(queries=[3, 5, 9, 36]), range(3), HERE)  # with 16 it is the DETR of `rivals`
def counts(seed, queries):
    """AP on test scenes by the number of queries; a scene has up to five objects."""
    model, watched = fitted(made(seed, n_queries=queries), seed)
    return judged(model) | {"curve": watched}


CHANGES = ("no distance weight", "no anchors", "no losses beside", "AdamW")


@experiment(each(change=CHANGES), cpus=HERE)
def parts(seed, change):
    """AP on test scenes of a DETR with one thing other than in `rivals`."""
    model = made(seed, anchors=change != "no anchors", near=change != "no distance weight")
    loss = partial(detr_loss, beside=False) if change == "no losses beside" else detr_loss
    how = {"optimiser": None, "lr": ADAM_RATE} if change == "AdamW" else {}
    model, watched = fitted(model, seed, loss, **how)
    return judged(model) | {"curve": watched}


@experiment(each(steps=[900]), range(3), HERE)
def longer(seed, steps):
    """AP and duplicates on test scenes of the DETR of `rivals`, trained three times as long."""
    model, watched = fitted(made(seed), seed, steps=steps)
    return judged(model) | {"curve": watched}


@experiment(each(look=[True, False]), range(3), HERE)
def depths(seed, look):
    """AP and duplicates on test scenes of a DETR of four blocks, with the look at the other queries and without."""
    model = made(seed, n_decoder=4)
    for block in model.decoder if not look else ():
        block.attention = NoLook(model.d_model)
    model, watched = fitted(model, seed)
    return judged(model) | {"curve": watched}


# --- what a query has become


@torch.no_grad()
def looked(model: DETR) -> dict:
    """Where the queries look and where their boxes lie, on plain test scenes, and what each block answers.

    Of queries that are right and sure (p of 0.5 or more): "inside" is the share of the last block's attention, the mean
    of its heads, in the cells whose middles lie in the box that was found; beside it the same with the attention to
    another scene, and the share of the cells. "spread" is the mean distance of a query's found middles from their mean,
    over the queries with ten or more; beside it that of all found middles.
    """
    images, labels, boxes = seen("test", False)
    with capture(model, "decoder.*.cross.weights") as maps:
        layers = model.layers(images)
    answers = [found_by(*layer) for layer in layers]
    last, side = answers[-1], images.shape[-1] // model.backbone.stride
    right = right_ones(last, labels, boxes) & (last.scores >= 0.5)  # (S, Q)
    weights = maps[f"decoder.{len(layers) - 1}.cross.weights"][0].mean(1)  # (S, Q, h w)
    corners, grid = to_corners(last.boxes)[:, :, None], grid_points(side, side)
    within = ((grid >= corners[..., :2]) & (grid <= corners[..., 2:])).all(-1)  # (S, Q, h w)
    middles = last.boxes[..., :2]
    own = [middles[:, q][right[:, q]] for q in range(right.shape[1])]

    def spread(points: Tensor) -> Tensor:
        return (points - points.mean(0)).norm(dim=-1).mean()

    return {
        "inside": (weights * within).sum(-1)[right].mean(),
        "inside, another scene": (weights.roll(1, 0) * within).sum(-1)[right].mean(),
        "area": within.float().mean(-1)[right].mean(),
        "spread": torch.stack([spread(points) for points in own if len(points) >= 10]).mean(),
        "spread, all": spread(middles[right]),
        "AP50 by block": [mean_average_precision(one, labels, boxes) for one in answers],
        "AP50 suppressed by block": [mean_average_precision(suppress(one), labels, boxes) for one in answers],
        "duplicates by block": [duplicates(one, labels, boxes) for one in answers],
    }


@experiment(cpus=HERE)
def sight(seed):
    """Where the queries of the DETR of `rivals` look, where their boxes lie, and what each of its blocks answers."""
    model, _ = fitted(made(seed), seed)
    return looked(model)
