"""The loss of a set: match first, then ask each query for its own object, and the rest for "no object". Lesson 10.

Shapes: B batch, Q queries, M true objects, K classes; class K is "no object". A label of -1 pads. Boxes are centres
and sizes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.detection.boxes import giou, to_corners
from course_lib.detection.matching import check_labels, match, match_costs
from course_lib.inputs.sequences import widened
from course_lib.inputs.shapes import check_shapes

NOTHING = 0.1  # the weight of "no object" in the paper


def set_loss(logits: Tensor, boxes: Tensor, labels: Tensor, truth: Tensor, nothing: float = NOTHING) -> Tensor:
    """The loss under the best matching (Carion et al., 2020, section 3.1): a number; the order of objects is nothing.

    logits (B, Q, K + 1), boxes (B, Q, 4), labels int64 (B, M), truth (B, M, 4); M may be 0. Raises ValueError for a
    label that is no class, where it can be seen.
    """
    check_shapes("set_loss", logits=(logits, "B Q K"), boxes=(boxes, "B Q 4"), labels=(labels, "int64 B M"),
                 truth=(truth, "B M 4"))  # fmt: skip
    check_labels(labels, logits.shape[-1] - 1)
    given = match(match_costs(logits, boxes, labels, truth), labels >= 0)  # (B, Q)
    return loss_given(given, logits, boxes, labels, truth, nothing)


def in_order(labels: Tensor, n_queries: int) -> Tensor:
    """A fixed order instead of a matching: query m answers for object m of the list -> int64 (B, Q)."""
    check_shapes("in_order", labels=(labels, "int64 B M"))
    own = F.pad(labels, (0, n_queries), value=-1)[:, :n_queries]  # (B, Q)
    return torch.where(own >= 0, torch.arange(n_queries, device=labels.device), -1)


def left_to_right(labels: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """The objects of each scene in the order of their middles' x, padding last: labels (B, M), truth (B, M, 4)."""
    check_shapes("left_to_right", labels=(labels, "int64 B M"), truth=(truth, "B M 4"))
    order = truth[..., 0].masked_fill(labels < 0, torch.inf).argsort(dim=1, stable=True)  # (B, M)
    return labels.gather(1, order), truth.gather(1, order[..., None].expand(-1, -1, 4))


def loss_given(
    given: Tensor, logits: Tensor, boxes: Tensor, labels: Tensor, truth: Tensor, nothing: float = NOTHING
) -> Tensor:
    """The loss when it is settled who answers for what: given int64 (B, Q), the object of each query or -1.

        cross-entropy, "no object" weighing less + 5 |box - truth|_1 + 2 (1 - GIoU)      (equation 2, appendix A.2)

    The first is a weighted mean over all queries, the other two are sums over the queries that have an object, through
    the number of these. -> a number; where no scene holds an object it is the first alone, and NaN if nothing is 0.
    Raises what `check_labels` raises.
    """
    check_shapes("loss_given", given=(given, "int64 B Q"), logits=(logits, "B Q K"), boxes=(boxes, "B Q 4"),
                 labels=(labels, "int64 B M"), truth=(truth, "B M 4"))  # fmt: skip
    check_labels(labels, logits.shape[-1] - 1)
    logits, boxes, truth = widened(logits), widened(boxes), widened(truth)
    labels, truth = F.pad(labels, (0, 1), value=-1), F.pad(truth, (0, 0, 0, 1))  # one object at least, if only padding
    has, own, K = given >= 0, given.clamp(min=0), logits.shape[-1] - 1
    asked = torch.where(has, labels.gather(1, own), K)  # (B, Q): what each query should name
    weight = torch.cat([logits.new_ones(K), logits.new_full((1,), nothing)])  # (K + 1,)
    naming = F.cross_entropy(logits.flatten(0, 1), asked.flatten(), weight)
    target = truth.gather(1, own[..., None].expand(-1, -1, 4))  # (B, Q, 4)
    apart = (boxes - target).abs().sum(-1)  # (B, Q)
    disagree = 1 - giou(to_corners(boxes), to_corners(target))  # (B, Q)
    return naming + ((5 * apart + 2 * disagree) * has).sum() / has.sum().clamp(min=1)
