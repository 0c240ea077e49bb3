"""Objects as a set: boxes, matching, a detector that answers with a set, its rival on a grid, how both are judged."""

from course_lib.detection.average_precision import (
    Found,
    average_precision,
    duplicates,
    found_by,
    mean_average_precision,
    precision_recall,
    right_ones,
)
from course_lib.detection.boxes import area, giou, intersection, iou, to_centres, to_corners
from course_lib.detection.detr import (
    DETR,
    Anchors,
    Backbone,
    PlacedAttention,
    PlacedBlock,
    Queries,
    grid_points,
    sine_places,
)
from course_lib.detection.heat_map import HeatMap, found_on, heat_loss, heat_of, suppress
from course_lib.detection.matching import best_permutation, check_labels, hungarian, match, match_costs
from course_lib.detection.resnet import FrozenNorm, Residual, ResNet, window
from course_lib.detection.set_loss import NOTHING, in_order, left_to_right, loss_given, set_loss

__all__ = [
    "DETR",
    "NOTHING",
    "Anchors",
    "Backbone",
    "Found",
    "FrozenNorm",
    "HeatMap",
    "PlacedAttention",
    "PlacedBlock",
    "Queries",
    "ResNet",
    "Residual",
    "area",
    "average_precision",
    "best_permutation",
    "check_labels",
    "duplicates",
    "found_by",
    "found_on",
    "giou",
    "grid_points",
    "heat_loss",
    "heat_of",
    "hungarian",
    "in_order",
    "intersection",
    "iou",
    "left_to_right",
    "loss_given",
    "match",
    "match_costs",
    "mean_average_precision",
    "precision_recall",
    "right_ones",
    "set_loss",
    "sine_places",
    "suppress",
    "to_centres",
    "to_corners",
    "window",
]
