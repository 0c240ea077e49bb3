"""Lesson 10, a set of objects: how well two boxes agree, and the cheapest matching.

"No object" in the loss, and the loss that is only a cost, are in `detr_loss.py`, how a detector is judged in
`detr_judge.py`, what is asked in `detr_questions.py`.
"""

from itertools import permutations

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips


def noted(notes):
    """For `Case.ask`: the usual way to ask; an error whose text holds a key of `notes` carries its note too."""

    def ask(answer, *arguments):
        try:
            return answer(*arguments)
        except Exception as error:
            for note in (note for part, note in notes.items() if part in str(error)):
                error.add_note(note)
            raise

    return ask


one_number = noted({
    "Boolean value of Tensor": "Python's min, max and if want a single number, and here are many, (...). For all at "
    "once there are torch.minimum, torch.maximum, .clamp(min=0) and torch.where; a[..., 2] is every box's right side.",
})  # fmt: skip


def my_iou(a, b):
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    width, height = (high - low).clamp(min=0).unbind(-1)  # apart, they share nothing
    both = width * height  # (...)
    areas = [(box[..., 2:] - box[..., :2]).prod(-1) for box in (a, b)]
    union = areas[0] + areas[1] - both
    return torch.where(union > 0, both / union.where(union > 0, torch.ones_like(union)), 0.0)


def pairs(n=40, dtype=torch.float64):
    """n pairs of boxes by their corners, some apart, some inside each other."""
    low = torch.rand(2, n, 2, dtype=dtype)
    size = torch.rand(2, n, 2, dtype=dtype) + 0.1
    return tuple(torch.cat([low, low + size], dim=-1))


def overlapping(given):
    """A step of `narrowed`: pairs that overlap, neither inside the other."""
    return given["a"], given["a"] + 0.3 * (given["a"][..., 2:] - given["a"][..., :2]).repeat(1, 2)


def every_pair(n=4, m=3, dtype=torch.float64):
    """(n, 1, 4) and (m, 4), for the whole table."""
    a, b = pairs(n, dtype)
    return a[:, None], b[:1].expand(m, -1) + torch.rand(m, 1, dtype=dtype)


def points():
    """Two boxes without any area, and one of them with a box."""
    return torch.tensor([[0.2, 0.2, 0.2, 0.2], [0.2, 0.2, 0.2, 0.2]]), torch.tensor([[0.2] * 4, [0.1, 0.1, 0.5, 0.5]])


IOU = Exercise(
    title="Intersection over union",
    solution=my_iou,
    returns="the IoU of each pair, (...)",
    cases=(
        Case(
            pairs,
            narrowed(
                (lambda given: (given["a"], given["a"]), "Of a box with itself it is 1. There yours is wrong."),
                (overlapping, "Pairs that overlap are wrong already: the intersection, over what both cover together."),
                otherwise="Pairs that overlap are right. Some here are apart: then the intersection is 0, not below.",
            ),
            ask=one_number,
        ),
        Case(
            every_pair,
            "For all pairs of (4, 1, 4) and (3, 4) it is wrong: box[..., 2], not box[:, 2].",
        ),
        Case(points, "Of two boxes without any area it is 0: there the union is 0 too, and 0 / 0 is NaN."),
        Case(lambda: pairs(1), OTHER_SIZES),
        Case(pairs, NO_GRADIENT, ask=pulled),
        Case(lambda: pairs(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "Where does the intersection begin: at the smaller or the larger of the two left sides? And where does it end?",
        "Its corners are torch.maximum of the low corners and torch.minimum of the high ones.",
        "Apart, high - low is negative: .clamp(min=0) before you multiply.",
        "Union: both areas less the intersection, which both count. Where it is 0, the answer is 0: torch.where.",
    ),
    mistakes=slips("""
        (high - low).clamp(min=0).unbind(-1) -> (high - low).unbind(-1)
            Two boxes that are apart have negative widths in yours, and two negative ones make an area: clamp(min=0).
        width * height -> (width * height).clamp(min=0)
        (high - low).clamp(min=0) -> (high - low)
            You clamp the area. Left of and above each other both widths are negative, and their product is not.
        areas[0] + areas[1] - both -> areas[0] + areas[1]
            What both cover is counted twice in your union: subtract the intersection.
        areas[0] + areas[1] - both -> areas[0] + areas[1] - 2 * both
            Your union lacks the intersection: it is in both areas, so it is taken away once.
        torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:]) -> torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])
            That is the box around both. The intersection begins at the larger of the low corners.
        low, high = -> a, b = (torch.cat([box[..., :2] - box[..., 2:] / 2, box[..., :2] + box[..., 2:] / 2], -1) for box in (a, b)); low, high =
            You take the boxes for centres and sizes. a and b are corners already: leave out to_corners.
        torch.minimum(a[..., 2:], b[..., 2:]) -> torch.maximum(a[..., 2:], b[..., 2:])
            It ends at the smaller of the high corners, where the first of the two boxes ends.
        union = areas[0] + areas[1] - both -> union = torch.minimum(areas[0], areas[1])
            You divide by the smaller box: then a small box inside a large one agrees with it wholly. Divide by the union.
        union = areas[0] + areas[1] - both -> union = torch.maximum(areas[0], areas[1])
            You divide by the larger box. What the smaller covers beside it belongs to the union too.
        union = areas[0] + areas[1] - both -> union = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(-1)
            You divide by the box around both. The union is what they cover, without the corners that neither does.
        (box[..., 2:] - box[..., :2]).prod(-1) for box -> box[..., 2] * box[..., 3] for box
            You take the last two numbers for width and height. Here a box is its corners: right and bottom.
        return torch.where(union > 0, both / union.where(union > 0, torch.ones_like(union)), 0.0) -> return both
            That is the area that both cover. Divide it by the union.
        both / union.where(union > 0, torch.ones_like(union)), 0.0) -> 2 * both / (areas[0] + areas[1]).where(union > 0, torch.ones_like(union)), 0.0)
            That is the Dice coefficient: twice the intersection over the sum of the areas. Divide by the union.
        return torch.where(union > 0, both / union.where(union > 0, torch.ones_like(union)), 0.0) -> return both / union
            Two boxes without any area give 0 / 0, which is NaN: there the answer is 0.
    """),  # noqa: E501
)


def my_giou(a, b):
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    both = (high - low).clamp(min=0).prod(-1)  # (...)
    areas = [(box[..., 2:] - box[..., :2]).prod(-1) for box in (a, b)]
    union = areas[0] + areas[1] - both
    first, last = torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])
    hull = (last - first).prod(-1)  # (...): the smallest box around both
    return both / union - (hull - union) / hull


GIOU = Exercise(
    title="Generalised IoU",
    solution=my_giou,
    returns="the GIoU of each pair, (...)",
    cases=(
        Case(
            pairs,
            narrowed(
                (lambda given: (given["a"], given["a"]), "Of a box with itself it is 1. There yours is wrong."),
                (overlapping, "Pairs that overlap are wrong already: IoU - (hull - union) / hull."),
                otherwise="Pairs that overlap are right. Some here are apart: IoU is 0 there, GIoU is below 0.",
            ),
            ask=one_number,
        ),
        Case(
            every_pair,
            "For all pairs of (4, 1, 4) and (3, 4) it is wrong: box[..., 2], not box[:, 2].",
        ),
        Case(lambda: pairs(1), OTHER_SIZES),
        Case(pairs, NO_GRADIENT, ask=pulled),
        Case(lambda: pairs(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "Begin with IoU as you have it: both, the union, both / union.",
        "The hull is the smallest box around both: where does it begin, and where does it end?",
        "torch.minimum of the low corners, torch.maximum of the high ones; its area is width times height.",
        "The share of the hull that neither covers is (hull - union) / hull. GIoU is IoU less that.",
    ),
    mistakes=slips("""
        (hull - union) / hull -> (hull - both) / hull
            Counted is the part of the hull that neither covers: hull - union, not less the intersection.
        (hull - union) / hull -> (hull - areas[0] - areas[1]) / hull
            Your IoU is right. The union in the penalty is the sum of both areas: subtract the intersection there too.
        low, high = -> a, b = (torch.cat([box[..., :2] - box[..., 2:] / 2, box[..., :2] + box[..., 2:] / 2], -1) for box in (a, b)); low, high =
            You take the boxes for centres and sizes. a and b are corners already: leave out to_corners.
        (hull - union) / hull -> (hull - union) / union
            Divide by the hull: then the penalty is a share, and GIoU never falls below -1.
        both / union - (hull -> (hull
            That is the penalty alone. GIoU is IoU less that.
        both / union - (hull -> both / union + (hull
            You add the penalty: boxes that are further apart would agree better.
        return both / union - (hull - union) / hull -> return both / union
            That is IoU. What is missing is the share of the hull that neither covers.
        return both / union - (hull - union) / hull -> return both / hull
            You divide by the hull in place of the union. Apart, that is 0 as IoU is, and silent.
        return both / union - (hull - union) / hull -> return both / union - hull
            You subtract the hull's area. A share is meant: of the hull, what neither covers.
        return both / union - (hull - union) / hull -> return 1 - (both / union - (hull - union) / hull)
            That is the loss, 1 - GIoU. Asked is GIoU.
        return both / union - (hull - union) / hull -> return (both / union - (hull - union) / hull).clamp(min=0)
            You clamp it at 0: then it is as silent as IoU where two boxes are apart.
        torch.maximum(a[..., 2:], b[..., 2:]) -> torch.minimum(a[..., 2:], b[..., 2:])
            Your hull ends too early: it holds both boxes, so it ends at the larger of the high corners.
        first, last = torch.minimum(a[..., :2], b[..., :2]) -> first, last = torch.maximum(a[..., :2], b[..., :2])
            Your hull begins too late: it holds both boxes, so it begins at the smaller of the low corners.
        (high - low).clamp(min=0) -> (high - low)
            Two boxes that are apart have negative widths in yours, and two negative ones make an area: clamp(min=0).
        areas[0] + areas[1] - both -> areas[0] + areas[1]
            What both cover is counted twice in your union: subtract the intersection.
        hull = (last - first).prod(-1) -> hull = areas[0] + areas[1]
            Your hull is the sum of the areas. It is a box: the smallest that holds both.
    """),  # noqa: E501
)


def my_matching(costs):
    Q, M = costs.shape
    ways = permutations(range(Q), M)  # each way to give every object an answer of its own
    return list(min(ways, key=lambda who: sum(costs[q, m].item() for m, q in enumerate(who))))


def prices(Q=5, M=3):
    """Costs of Q answers and M objects, no two sums alike."""
    return (torch.randn(Q, M, dtype=torch.float64),)


def torn():
    """A table in which every wrong way ends elsewhere, and a little that is drawn."""
    table = [[6.0, -4, 7, 4], [4, 3, 8, 8], [2, 2, 7, 4], [8, 1, 1, -3], [-1, 0, 3, 2]]
    return (torch.tensor(table, dtype=torch.float64) + torch.rand(5, 4, dtype=torch.float64) / 20,)


beyond = noted({  # out of bounds, of a tensor, or out of range, of a list
    " out of ": "Q may be larger than M: permutations(range(Q), M) gives the objects M of the Q answers. And "
    "costs[q, m] has a row for each answer, a column for each object.",
})  # fmt: skip

MATCHING = Exercise(
    title="The cheapest matching",
    solution=my_matching,
    returns="the answer of each object, a list of M numbers",
    cases=(
        Case(
            torn,
            narrowed(
                (
                    lambda given: (given["costs"][:, :1],),
                    "With a single object it is wrong already: the answer that costs least.",
                ),
                (
                    lambda given: (given["costs"][:2, :2],),
                    "One object is right, two answers for two objects are not: there are two ways, compare their sums.",
                ),
                otherwise="Two by two is right, more is not: is every way tried, and is no answer used twice?",
            ),
            ask=beyond,
        ),
        Case(prices, "With five answers and three objects it is wrong: some answers stay without an object."),
        Case(lambda: prices(1, 1), "With one answer and one object it is wrong."),
        Case(lambda: prices(6, 2), "With six answers and two objects it is wrong: four answers stay without."),
    ),
    hints=(
        "A way to match says which answer each object has: M different numbers out of Q.",
        "Q may be larger than M: permutations(range(Q), M) gives them all, as tuples, and object m has answer who[m].",
        "What a way costs is sum(costs[q, m] for m, q in enumerate(who)).",
        "min(ways, key=what_it_costs) is the cheapest of them.",
    ),
    mistakes=slips("""
        return list(min(ways, key=lambda who: sum(costs[q, m].item() for m, q in enumerate(who)))) -> return costs.argmin(dim=0).tolist()
            You take the cheapest answer of each object. Two objects may want the same one: it answers for one only.
        ways = permutations(range(Q), M) -> taken = []; [taken.append(min((q for q in range(Q) if q not in taken), key=lambda q: costs[q, m].item())) for m in range(M)]; return taken
            Your objects choose one after the other, and the first takes what a later one needs more. Compare whole ways.
        ways = permutations(range(Q), M) -> cells = sorted((costs[q, m].item(), q, m) for q in range(Q) for m in range(M)); own = {}; [own.setdefault(m, q) for _, q, m in cells if m not in own and q not in own.values()]; return [own[m] for m in range(M)]
            You take the cheapest pair of all first. What is left may be dear: the sum of the whole way is to be least.
        return list(min(ways, key=lambda who: sum(costs[q, m].item() for m, q in enumerate(who)))) -> who = min(ways, key=lambda who: sum(costs[q, m].item() for m, q in enumerate(who))); return [who.index(q) for q in sorted(who)]
            That is the object of each answer that has one. Asked is the answer of each object: match costs.T.
        min(ways -> max(ways
            That is the dearest way. The cheapest is asked.
        sum(costs -> max(costs
            You compare the dearest pair of each way. The sum of all pairs is to be least.
        sum(costs[q, m].item() for m, q in enumerate(who)) -> sum(costs[q, m].item() ** 2 for m, q in enumerate(who))
            You add up squares: a cost may be below 0, and then its square is large.
        sum(costs[q, m].item() for m, q in enumerate(who)) -> sum(abs(costs[q, m].item()) for m, q in enumerate(who))
            You take the costs without their sign. One below 0 is cheap, not dear.
        return list(min(ways, -> return sorted(min(ways,
            Your answers are sorted, and it is lost which object each has: the m-th number is object m's answer.
        permutations(range(Q), M) -> (tuple(range(M)),)
            Your objects have the answers in their own order: that is no matching yet, but a list.
        permutations(range(Q), M) -> permutations(range(M), M)
            Only the first M answers are tried in yours. Any of the Q may be the one: permutations(range(Q), M).
        permutations(range(Q), M) -> __import__("itertools").combinations(range(Q), M)
            Your ways are always in rising order: combinations leaves out that two objects could change answers.
    """),  # noqa: E501
)


EXERCISES = [IOU, GIOU, MATCHING]
