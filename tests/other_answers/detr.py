"""Lesson 10: other correct answers."""

from itertools import combinations, permutations

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment

from course_lib.detection.average_precision import average_precision, precision_recall
from course_lib.detection.boxes import giou, iou
from course_lib.detection.matching import best_permutation, hungarian, match

from . import answers

# Intersection over union --------------------------------------------------------------------------------------


def sides(box):
    return box.unbind(-1)


def area(box):
    left, top, right, bottom = sides(box)
    return (right - left) * (bottom - top)


def shared(a, b):
    (l_1, t_1, r_1, b_1), (l_2, t_2, r_2, b_2) = sides(a), sides(b)
    width, height = torch.min(r_1, r_2) - torch.max(l_1, l_2), torch.min(b_1, b_2) - torch.max(t_1, t_2)
    return width.relu() * height.relu()


@answers("my_iou")
def with_a_millionth_more(a, b):
    both = shared(a, b)
    return both / (area(a) + area(b) - both + 1e-6)


@answers("my_iou")
def with_less_more(a, b):
    both = shared(a, b)
    return both / (area(a) + area(b) - both + 1e-9)


@answers("my_iou")
def with_the_least_union(a, b):
    both = shared(a, b)
    return both / (area(a) + area(b) - both).clamp(min=1e-6)


@answers("my_iou")
def where_they_meet(a, b):
    """Nothing is clamped: where two boxes do not meet the answer is 0."""
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    meet = (high > low).all(dim=-1)
    both = (high - low).prod(-1)
    return torch.where(meet, both / torch.where(meet, area(a) + area(b) - both, 1), 0)


@answers("my_iou")
def pair_by_pair(a, b):
    a, b = torch.broadcast_tensors(a, b)
    found = []
    for one, other in zip(a.reshape(-1, 4), b.reshape(-1, 4), strict=True):
        width = min(one[2], other[2]) - max(one[0], other[0])
        height = min(one[3], other[3]) - max(one[1], other[1])
        both = width * height if width > 0 and height > 0 else 0 * width
        union = area(one) + area(other) - both
        found.append(both / union if union > 0 else both)
    return torch.stack(found).view(a.shape[:-1])


@answers("my_iou")
def nan_made_zero(a, b):
    both = shared(a, b)
    return (both / (area(a) + area(b) - both)).nan_to_num()


@answers("my_iou")
def of_the_library(a, b):
    return iou(a, b)


# Generalised IoU ----------------------------------------------------------------------------------------------


def hull(a, b):
    first, last = torch.minimum(a, b), torch.maximum(a, b)
    return (last[..., 2] - first[..., 0]) * (last[..., 3] - first[..., 1])


@answers("my_giou")
def with_a_millionth_in_both(a, b):
    both = shared(a, b)
    union, around = area(a) + area(b) - both, hull(a, b)
    return both / (union + 1e-6) - (around - union) / (around + 1e-6)


@answers("my_giou")
def as_two_shares(a, b):
    both = shared(a, b)
    union = area(a) + area(b) - both
    return both.div(union).add(union.div(hull(a, b))).sub(1)


@answers("my_giou")
def by_the_library(a, b):
    return giou(a, b)


# The cheapest matching ----------------------------------------------------------------------------------------


@answers("my_matching")
def by_scipy(costs):
    return linear_sum_assignment(costs.T)[1].tolist()


@answers("my_matching")
def by_numpy(costs):
    rows, columns = linear_sum_assignment(costs.numpy())
    return list(rows[np.argsort(columns)])


@answers("my_matching")
def by_match(costs):
    given = match(costs[None], torch.ones(1, costs.shape[1]).bool())[0]
    return [(given == m).nonzero().item() for m in range(costs.shape[1])]


@answers("my_matching")
def with_the_rest(costs):
    """Q places in every way, of which the first M have an object."""
    Q, M = costs.shape
    return list(min(permutations(range(Q)), key=lambda who: sum(costs[who[m], m].item() for m in range(M)))[:M])


@answers("my_matching")
def who_first_then_what(costs):
    Q, M = costs.shape
    ways = [who for some in combinations(range(Q), M) for who in permutations(some)]
    return ways[int(torch.tensor([[float(costs[q, m]) for m, q in enumerate(who)] for who in ways]).sum(1).argmin())]


@answers("my_matching")
def object_by_object(costs, taken=()):
    """The first object has each answer that is left, and the others the cheapest of what is left then."""

    def cheapest(m, taken):
        if m == costs.shape[1]:
            return 0.0, []
        ways = [(q, cheapest(m + 1, {*taken, q})) for q in range(costs.shape[0]) if q not in taken]
        return min((costs[q, m].item() + price, [q, *rest]) for q, (price, rest) in ways)

    return cheapest(0, set())[1]


@answers("my_matching")
def all_ways_of_the_library(costs):
    return best_permutation(costs)


@answers("my_matching")
def hungarian_of_the_library(costs):
    return hungarian(costs)


# "No object" weighs less --------------------------------------------------------------------------------------


@answers("my_naming_loss")
def by_cross_entropy(logits, asked, nothing):
    weight = torch.tensor([1.0] * (logits.shape[-1] - 1) + [nothing]).to(logits)
    return F.cross_entropy(logits.flatten(0, 1), asked.flatten(), weight)


@answers("my_naming_loss")
def classes_second(logits, asked, nothing):
    weight = torch.tensor([1.0] * (logits.shape[-1] - 1) + [nothing]).to(logits)
    return F.cross_entropy(logits.transpose(1, 2), asked, weight)


@answers("my_naming_loss")
def answer_by_answer(logits, asked, nothing):
    above = below = 0.0
    for row, which in zip(logits.flatten(0, 1), asked.flatten().tolist(), strict=True):
        weight = nothing if which == len(row) - 1 else 1
        above = above - weight * (row[which] - row.logsumexp(0))
        below += weight
    return above / below


@answers("my_naming_loss")
def the_largest_taken_out(logits, asked, nothing):
    logits = logits - logits.max(dim=-1, keepdim=True).values
    log_p = logits - logits.exp().sum(-1, keepdim=True).log()
    missed = -(F.one_hot(asked, logits.shape[-1]) * log_p).sum(-1)
    weight = torch.ones_like(missed)
    weight[asked == logits.shape[-1] - 1] = nothing
    return torch.einsum("bq,bq->", weight, missed) / weight.sum()


# Find the bug: a loss that never says "no object" ------------------------------------------------------------


@answers("mended_set_loss")
def matched_by_scipy(logits, boxes, labels, truth):
    p = logits.detach().softmax(-1)
    costs = 5 * torch.cdist(boxes.detach(), truth, p=1) - p[:, labels]
    rows, columns = map(torch.as_tensor, linear_sum_assignment(costs))
    asked = torch.full((len(logits),), logits.shape[-1] - 1)
    asked[rows] = labels[columns]
    return F.cross_entropy(logits, asked) + 5 * F.l1_loss(boxes[rows], truth[columns], reduction="sum") / len(labels)


@answers("mended_set_loss")
def object_after_object(logits, boxes, labels, truth):
    with torch.no_grad():
        p = torch.exp(logits - logits.logsumexp(dim=1, keepdim=True))
        costs = torch.stack([5 * (boxes - box).abs().sum(1) - p[:, c] for c, box in zip(labels, truth, strict=True)], 1)
    owners = best_permutation(costs)
    log_p = F.log_softmax(logits, dim=-1)
    named = -log_p[:, -1].sum()
    placed = 0
    for m, q in enumerate(owners):
        named = named + log_p[q, -1] - log_p[q, labels[m]]
        placed = placed + (boxes[q] - truth[m]).abs().sum()
    return named / len(logits) + 5 * placed / len(owners)


# Average precision --------------------------------------------------------------------------------------------


@answers("my_average_precision")
def by_envelope(right, scores, objects):
    hits = right[scores.argsort(descending=True)].cumsum(0)
    best = (hits / torch.arange(1, len(hits) + 1)).flip(0).cummax(0).values.flip(0)
    first = torch.searchsorted(hits / objects, torch.arange(101) / 100)
    return torch.cat([best, torch.zeros(1)])[first].mean().item()


@answers("my_average_precision")
def by_numpy_and_linspace(right, scores, objects):
    hits = np.cumsum(right.numpy()[np.argsort(-scores.numpy())])
    precision, recall = hits / np.arange(1, len(hits) + 1), hits / objects
    return np.mean([np.max(precision, where=recall >= t, initial=0) for t in np.linspace(0, 1, 101)])


@answers("my_average_precision")
def in_plain_python(right, scores, objects):
    boxes = sorted(zip(scores.tolist(), right.tolist(), strict=True), reverse=True)
    points, hits = [], 0
    for n, (_, good) in enumerate(boxes, start=1):
        hits += good
        points.append((hits, hits / n))
    return sum(max([p for h, p in points if 100 * h >= step * objects], default=0) for step in range(101)) / 101


@answers("my_average_precision")
def a_table_and_a_tensor(right, scores, objects):
    hits = right[torch.sort(scores, descending=True).indices].float().cumsum(0)
    precision, recall = hits / torch.arange(1, len(hits) + 1), hits / objects
    table = torch.where(recall >= torch.linspace(0, 1, 101)[:, None], precision, 0.0)  # (101, N)
    return table.amax(1).mean()


@answers("my_average_precision")
def of_two_of_the_library(right, scores, objects):
    return average_precision(*precision_recall(right, scores, objects))
