"""The rival on a grid: a heat map of middles for each class, and suppression of what is found twice. Lesson 10.

Shapes: B batch, C channels, H, W height and width, h, w the grid, S = h w cells, M true objects, K classes. A label of
-1 pads. Boxes are centres and sizes, parts of the image's.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.detection.average_precision import Found
from course_lib.detection.boxes import giou, iou, to_corners
from course_lib.detection.detr import grid_points
from course_lib.detection.matching import check_labels
from course_lib.inputs.sequences import widened
from course_lib.inputs.shapes import check_shapes
from course_lib.vision.convnet import ConvLayer


class HeatMap(nn.Module):
    """Each cell says how surely an object of each class has its middle there, and its box (Zhou et al., 2019).

    backbone: images (B, C, H, W) -> (B, F, h, w), with F = its `width` -> logits (B, S, K), boxes (B, S, 4). A box is
    the cell's middle moved, and a size. Begins with p = 0.01 everywhere.
    """

    def __init__(self, backbone: nn.Module, n_classes: int, width: int = 64):
        super().__init__()
        self.backbone, self.head = backbone, ConvLayer(backbone.width, width)
        self.naming, self.placing = nn.Conv2d(width, n_classes, 1), nn.Conv2d(width, 4, 1)
        nn.init.constant_(self.naming.bias, -4.6)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x = self.head(self.backbone(images))  # (B, width, h, w)
        grid = grid_points(*x.shape[2:], dtype=x.dtype, device=x.device)  # (S, 2)
        logits, boxes = (part(x).flatten(2).transpose(1, 2) for part in (self.naming, self.placing))  # (B, S, ...)
        return logits, (boxes + F.pad(grid.logit(), (0, 2))).sigmoid()


def heat_of(labels: Tensor, truth: Tensor, h: int, w: int, n_classes: int) -> Tensor:
    """What a heat map should be: 1 in the cell of each middle, less around it, 0 far away -> (B, S, K).

    A bump exp(-d^2 / (2 s^2)), s a sixth of the object's size and at least half a cell; where two meet, the higher
    (Zhou et al., 2019, section 3). labels int64 (B, M), truth (B, M, 4). A middle outside of the image counts for the
    cell that is nearest to it. Raises ValueError for a label that is no class, where it can be seen.
    """
    check_shapes("heat_of", labels=(labels, "int64 B M"), truth=(truth, "B M 4"))
    check_labels(labels, n_classes)
    truth = widened(truth)
    grid = grid_points(h, w, dtype=truth.dtype, device=truth.device)  # (S, 2)
    sides = torch.cat([truth.new_full((1,), w), truth.new_full((1,), h)])
    cell = (_cells(truth, sides) + 0.5) / sides  # (B, M, 2): the middle of its cell
    spread = (truth[..., 2:] / 6).clamp(min=0.5 / max(h, w))[:, None]  # (B, 1, M, 2)
    far = ((grid[:, None] - cell[:, None]) / spread).square().sum(-1)  # (B, S, M)
    bumps = torch.exp(-far / 2) * (labels >= 0)[:, None]
    heat = truth.new_zeros(len(truth), h * w, n_classes)
    own = labels.clamp(min=0)[:, None].expand(-1, h * w, -1)  # (B, S, M)
    return heat.scatter_reduce(2, own, bumps, "amax")


def heat_loss(logits: Tensor, boxes: Tensor, labels: Tensor, truth: Tensor, w: int) -> Tensor:
    """Focal loss of the map (Zhou et al., 2019, equation 1), and a box's loss in each cell that has a middle: a number.

    -(1 - p)^2 log p  where the heat is 1,   -(1 - heat)^4 p^2 log(1 - p)  else,   through the number of objects

    logits (B, S, K), boxes (B, S, 4), labels int64 (B, M), truth (B, M, 4); w: cells across. Raises as `heat_of` does.
    """
    check_shapes("heat_loss", logits=(logits, "B S K"), boxes=(boxes, "B S 4"), labels=(labels, "int64 B M"),
                 truth=(truth, "B M 4"))  # fmt: skip
    logits, boxes, truth, h = widened(logits), widened(boxes), widened(truth), logits.shape[1] // w
    heat = heat_of(labels, truth, h, w, logits.shape[-1])  # (B, S, K)
    p, real = logits.sigmoid(), labels >= 0
    hit = -((1 - p) ** 2) * F.logsigmoid(logits)
    miss = -((1 - heat) ** 4) * p**2 * F.logsigmoid(-logits)
    objects = real.sum().clamp(min=1)
    naming = torch.where(heat == 1, hit, miss).sum() / objects
    sides = torch.cat([truth.new_full((1,), w), truth.new_full((1,), h)])
    x, y = _cells(truth, sides).unbind(-1)
    cell = (y * w + x).long()  # (B, M)
    own = boxes.gather(1, cell[..., None].expand(-1, -1, 4))  # (B, M, 4)
    placing = 5 * (own - truth).abs().sum(-1) + 2 * (1 - giou(to_corners(own), to_corners(truth)))
    return naming + (placing * real).sum() / objects


def _cells(truth: Tensor, sides: Tensor) -> Tensor:
    """The column and the row of the cell of each middle: truth (B, M, 4), sides (2,), w and h -> (B, M, 2)."""
    return (truth[..., :2] * sides).floor().clamp(torch.zeros_like(sides), sides - 1)


def found_on(logits: Tensor, boxes: Tensor) -> Found:
    """Each cell's best class and its p: logits (B, S, K), boxes (B, S, 4)."""
    check_shapes("found_on", logits=(logits, "B S K"), boxes=(boxes, "B S 4"))
    scores, labels = logits.sigmoid().max(-1)
    return Found(labels, boxes, scores)


def suppress(found: Found, at: float = 0.5) -> Found:
    """Non-maximum suppression: the surest stays, and strikes out every box of its class that it covers with IoU > at.

    Then the surest that is left, and so on, in each scene. What is struck out has label -1.
    """
    labels, boxes, scores = found
    corners, stays = to_corners(boxes), labels >= 0  # (S, Q)
    order, scene = scores.argsort(dim=1, descending=True, stable=True), torch.arange(len(labels), device=labels.device)
    for n, query in enumerate(order.T):  # (S,): the next one of each scene
        rest = order[:, n + 1 :]  # (S, Q - n - 1)
        own = corners[scene, query][:, None], corners.gather(1, rest[..., None].expand(-1, -1, 4))
        same = labels.gather(1, rest) == labels[scene, query][:, None]
        struck = same & (iou(*own) > at) & stays[scene, query][:, None]
        stays = stays.scatter(1, rest, stays.gather(1, rest) & ~struck)
    return Found(torch.where(stays, labels, -1), boxes, scores)
