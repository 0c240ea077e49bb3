"""Matching: which of the found objects answers for which of the true ones, at the least cost in all. Lesson 10.

Shapes: B batch, Q queries, M true objects, K classes; class K is "no object". A label of -1 pads. Boxes are centres
and sizes. Nothing here has a gradient: who answers for what is a choice.
"""

import math
from itertools import permutations

import torch
from torch import Tensor

from course_lib.detection.boxes import giou, to_corners
from course_lib.inputs.sequences import visible, widened
from course_lib.inputs.shapes import check_shapes


@torch.no_grad()
def match_costs(
    logits: Tensor, boxes: Tensor, labels: Tensor, truth: Tensor, weights: tuple[float, float, float] = (1, 5, 2)
) -> Tensor:
    """-w_1 p(label) + w_2 |box - truth|_1 - w_3 GIoU, for each query and object (Carion et al., 2020, section 3.1).

    logits (B, Q, K + 1), boxes (B, Q, 4), labels int64 (B, M), truth (B, M, 4) -> (B, Q, M), without a gradient.
    Raises what `check_labels` raises.
    """
    check_shapes("match_costs", logits=(logits, "B Q K"), boxes=(boxes, "B Q 4"), labels=(labels, "int64 B M"),
                 truth=(truth, "B M 4"))  # fmt: skip
    check_labels(labels, logits.shape[-1] - 1)
    logits, boxes, truth = widened(logits), widened(boxes), widened(truth)
    p = logits.softmax(-1)  # (B, Q, K + 1)
    named = p.gather(2, labels.clamp(min=0)[:, None].expand(-1, p.shape[1], -1))  # (B, Q, M): p of each object's label
    apart = (boxes[:, :, None] - truth[:, None]).abs().sum(-1)  # (B, Q, M)
    agree = giou(to_corners(boxes)[:, :, None], to_corners(truth)[:, None])  # (B, Q, M)
    return -weights[0] * named + weights[1] * apart - weights[2] * agree


def match(costs: Tensor, real: Tensor) -> Tensor:
    """The object of each query, -1 for "no object": costs (B, Q, M), real bool (B, M) -> int64 (B, Q).

    Each real object has one query and no query has two: of all such choices the one whose costs add up to the least, by
    the Hungarian algorithm (Kuhn, 1955) as SciPy has it. With fewer queries than objects some objects have none. It
    reads the costs, so a GPU is waited for, once a batch. Raises ValueError for costs that are not finite.
    """
    check_shapes("match", costs=(costs, "B Q M"), real=(real, "bool B M"))
    _check_finite(costs)
    from scipy.optimize import linear_sum_assignment

    given = torch.full(costs.shape[:2], -1)  # (B, Q)
    for own, table, there in zip(given, widened(costs.detach()).cpu(), real.cpu(), strict=True):
        objects = there.nonzero().flatten()
        queries, columns = linear_sum_assignment(table[:, objects])
        own[torch.from_numpy(queries)] = objects[torch.from_numpy(columns)]
    return given.to(costs.device)


def best_permutation(costs: Tensor) -> tuple[int, ...]:
    """The query of each object, by trying all Q! / (Q - M)! choices: costs (Q, M), Q not below M -> M numbers.

    What the Hungarian algorithm finds in about Q M^2 steps. Raises ValueError for more objects than queries.
    """
    check_shapes("best_permutation", costs=(costs, "Q M"))
    _check_enough(costs)
    table = costs.tolist()
    return min(permutations(range(len(table)), costs.shape[1]),
               key=lambda queries: sum(table[q][m] for m, q in enumerate(queries)))  # fmt: skip


def hungarian(costs: Tensor) -> tuple[int, ...]:
    """The query of each object at the least cost: costs (Q, M), Q not below M -> M numbers (Kuhn, 1955).

    As `best_permutation`, by shortest paths (Jonker and Volgenant, 1987): objects come in one after the other. A new
    one may push others on to their next best query, along the path that raises the sum least. Prices of the queries
    and of the objects keep what is left of each cost at 0 or more, and at 0 for each pair. Raises ValueError for more
    objects than queries.
    """
    check_shapes("hungarian", costs=(costs, "Q M"))
    _check_enough(costs)
    table, n = costs.T.tolist(), len(costs)  # a row for each object, a column for each query
    of_object, of_query = [0.0] * len(table), [0.0] * n  # prices
    owner: list[int | None] = [None] * n  # the object of each query
    for new in range(len(table)):
        least, before, reached = [math.inf] * n, [-1] * n, set()  # the shortest path to each query, from the new object
        row, query, far = new, -1, 0.0
        while row is not None:  # go on from the query that is nearest, until one is free
            for q in set(range(n)) - reached:
                through = far + table[row][q] - of_object[row] - of_query[q]
                if through < least[q]:
                    least[q], before[q] = through, query
            query = min(set(range(n)) - reached, key=least.__getitem__)
            far, row = least[query], owner[query]
            reached.add(query)
        of_object[new] += far
        for q in reached - {query}:
            of_object[owner[q]] += far - least[q]
            of_query[q] -= far - least[q]
        while query >= 0:  # along the path, each query takes the object of the one before
            owner[query] = new if before[query] < 0 else owner[before[query]]
            query = before[query]
    return tuple(owner.index(m) for m in range(len(table)))


def check_labels(labels: Tensor, n_classes: int) -> None:
    """Raise ValueError, in words and where it can be seen, unless labels are 0 to n_classes - 1, or -1 for padding."""
    if visible(labels) and labels.numel() and not -1 <= int(labels.min()) <= int(labels.max()) < n_classes:
        raise ValueError(
            f"Labels are classes from 0 to {n_classes - 1}, or -1 for padding; got {int(labels.min())} to "
            f'{int(labels.max())}. "No object" is asked of queries, never of objects.'
        )


def _check_finite(costs: Tensor) -> None:
    if visible(costs) and not costs.isfinite().all():
        raise ValueError(
            "The costs of a matching must be finite; some are not: the model's logits or boxes are NaN or infinite. "
            "Lower the learning rate or clip the gradient."
        )


def _check_enough(costs: Tensor) -> None:
    if len(costs) < costs.shape[1]:
        raise ValueError(
            f"There are more objects than queries, {costs.shape[1]} and {len(costs)}: some object has none. Turn the "
            "table, costs.T, or use `match`."
        )
