"""How lesson 10's two detectors are made and trained: their sizes, optimiser and losses, for scenes of digits.

model, history = learned(detr(), scenes.batches(BATCH), detr_loss, steps=300)
"""

from functools import partial

import torch
from torch import Tensor, nn

from course_lib.data.scenes import Scenes
from course_lib.detection.average_precision import Found, found_by, mean_average_precision
from course_lib.detection.detr import DETR, Anchors, Backbone, Queries
from course_lib.detection.heat_map import HeatMap, found_on, heat_loss
from course_lib.detection.set_loss import NOTHING, set_loss
from course_lib.inputs.sequences import reading
from course_lib.language.muon import Muon
from course_lib.train import cosine, fit
from course_lib.workshop.recipes.glyphs import as_matrices

CPU = torch.device("cpu")  # models this small are no faster on a GPU
CLASSES, BATCH = 10, 32
D_MODEL, N_HEADS, D_FF, N_QUERIES, N_DECODER = 64, 4, 128, 16, 2
HEAT_WIDTH = 200  # of the layer before its heads: so it has the parameters of the other
# The rate of matrices and windows, and the share of it for all the rest. Six settings were tried for each detector, one
# seed, 150 steps, AP50 on validation scenes. DETR: 0.02 with 0.15 and 0.5 (0.72, 0.38), 0.04 with 0.15, 0.07 and 0.035
# (0.69, 0.82, 0.80), 0.08 with 0.035 (0.77). The heat map, as found: 0.01 with 0.15 (0.65), 0.02 with 0.15, 0.5 and 1
# (0.74, 0.83, 0.85), 0.04 with 0.15 and 0.5 (0.82, 0.85). DETR was tried in some fifteen settings more before that, of
# 200 and 400 steps: focal loss, weights of "no object", widths of the distance weight, Muon for the windows too.
RATES = {"DETR": (0.04, 0.07), "HeatMap": (0.04, 0.5)}
schedule = partial(cosine, warmup=20)


def detr(
    n_queries: int = N_QUERIES, anchors: bool = True, near: bool = True, n_encoder: int = 0, n_decoder: int = N_DECODER
) -> DETR:
    """A DETR for scenes, untrained; anchors: queries begin on a grid, else the paper's; near: the distance weight."""
    queries = Anchors(n_queries, D_MODEL, N_HEADS, near) if anchors else Queries(n_queries, D_MODEL)
    return DETR(Backbone(1), queries, CLASSES, D_MODEL, N_HEADS, n_encoder, n_decoder, D_FF)


def heat_map() -> HeatMap:
    """The rival for scenes, untrained, with as many parameters as `detr()` has, as near as a width comes."""
    return HeatMap(Backbone(1), CLASSES, HEAT_WIDTH)


def detr_loss(model: DETR, batch: Scenes, *, nothing: float = NOTHING, beside: bool = True) -> Tensor:
    """The set loss behind each block of the decoder, added up, for `fit`.

    beside: the blocks before the last count too (auxiliary losses; Carion et al., 2020, section 3.2).
    """
    images, labels, boxes = batch
    layers = model.layers(images)
    return sum(set_loss(*layer, labels, boxes, nothing) for layer in (layers if beside else layers[-1:]))


def map_loss(model: HeatMap, batch: Scenes) -> Tensor:
    """The heat map's loss, for `fit`."""
    images, labels, boxes = batch
    return heat_loss(*model(images), labels, boxes, images.shape[-1] // model.backbone.stride)


@torch.no_grad()
def found(model: nn.Module, images: Tensor, at_once: int = 250) -> Found:
    """What a detector finds in images (S, 1, H, W), nothing suppressed; read in eval mode."""
    with reading(model):
        parts = [torch.cat(part) for part in zip(*(model(some) for some in images.split(at_once)), strict=True)]
    return (found_by if isinstance(model, DETR) else found_on)(*parts)


def ap(model: nn.Module, scenes: Scenes, at: float = 0.5) -> float:
    """The mean average precision of a detector on scenes, nothing suppressed."""
    return mean_average_precision(found(model, scenes.images), scenes.labels, scenes.boxes, at)


class ScenesMuon(Muon):
    """Muon for the matrices of the blocks and for the windows of 3 x 3, all but the first, as matrices (F, 9 C).

    AdamW has the rest, at `share` of the rate. Both detectors are trained so.
    """

    def __init__(self, model: nn.Module, share: float, **how):
        blocks = getattr(model, "blocks", nn.ModuleList())
        layers = [part.weight for part in blocks.modules() if isinstance(part, nn.Linear)]
        windows = [part.weight for part in model.modules() if isinstance(part, nn.Conv2d) and part.kernel_size[0] == 3]
        inside = {id(weight): weight for weight in layers + windows[1:]}
        rest = [weight for weight in model.parameters() if id(weight) not in inside]
        self.share, matrices = share, list(inside.values())
        with as_matrices(windows[1:]):
            super().__init__([{"params": matrices, "matrices": True}, {"params": rest, "matrices": False}], **how)

    def step(self, closure=None):
        """One step, as Muon's."""
        matrices, rest = self.param_groups
        rest["lr"] *= self.share
        with as_matrices([weight for weight in matrices["params"] if weight.ndim == 4]):
            return super().step(closure)


def muon(model: nn.Module) -> ScenesMuon:
    """Muon with three rounds, for either detector; `fit` is given the rate, RATES[name][0]."""
    return ScenesMuon(model, RATES[type(model).__name__][1], rounds=3)


def learned(model: nn.Module, batches, loss, steps: int, **how):
    """The detector, trained for so many steps on one thread's CPU, and its `History`; how: what else `fit` takes."""
    how = {"lr": RATES[type(model).__name__][0], "optimiser": muon} | how
    return model, fit(model, batches, loss, steps=steps, schedule=schedule, device=CPU, progress=False, **how)
