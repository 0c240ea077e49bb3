"""Lesson 10, a set of objects: how well two boxes agree, the cheapest matching, "no object" in the loss.

How a detector is judged, and the loss that is only a cost, are in `detr_judge.py`; what is asked in
`detr_questions.py`.
"""

from itertools import permutations

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips


def my_agreement(a, b):
    def area(low, high):
        width, height = (high - low).clamp(min=0).unbind(-1)  # nothing is wider than it is: 0 where they are apart
        return width * height

    both = area(torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:]))  # (N,)
    union = area(a[:, :2], a[:, 2:]) + area(b[:, :2], b[:, 2:]) - both
    hull = area(torch.minimum(a[:, :2], b[:, :2]), torch.maximum(a[:, 2:], b[:, 2:]))
    return both / union, both / union - (hull - union) / hull


def pairs(n=40, dtype=torch.float64):
    """n pairs of boxes by their corners, some apart, some inside each other."""
    low = torch.rand(2, n, 2, dtype=dtype)
    size = torch.rand(2, n, 2, dtype=dtype) + 0.1
    return tuple(torch.cat([low, low + size], dim=-1))


def overlapping(n=6):
    """Pairs that overlap, neither inside the other."""
    low = torch.rand(n, 2, dtype=torch.float64)
    a = torch.cat([low, low + 1], dim=-1)
    return a, a + 0.4


AGREEMENT = Exercise(
    title="IoU and generalised IoU",
    solution=my_agreement,
    returns="IoU and GIoU of each pair, (N,) and (N,)",
    cases=(
        Case(
            pairs,
            narrowed(
                (
                    lambda given: (given["a"], given["a"]),
                    "Of a box with itself both are 1. There yours is wrong.",
                ),
                (
                    lambda given: overlapping(),
                    "Pairs that overlap are wrong already: intersection, union, and the box around both.",
                ),
                otherwise="Pairs that overlap are right. Some here are apart: then the intersection is 0, not below.",
            ),
        ),
        Case(lambda: pairs(1), OTHER_SIZES),
        Case(pairs, NO_GRADIENT, ask=pulled),
        Case(lambda: pairs(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "Where does the intersection begin: at the smaller or the larger of the two left sides? And where does it end?",
        "Its corners are torch.maximum of the low corners and torch.minimum of the high ones.",
        "Apart, high - low is negative: .clamp(min=0). Union: both areas less the intersection, which both count.",
        "The hull is the box around both: torch.minimum, torch.maximum. GIoU is IoU - (hull - union) / hull.",
    ),
    mistakes=slips("""
        (high - low).clamp(min=0).unbind(-1) -> (high - low).unbind(-1)
            Two boxes that are apart have negative widths in yours, and two negative ones make an area: clamp(min=0).
        width * height -> (width * height).clamp(min=0)
        (high - low).clamp(min=0) -> (high - low)
            You clamp the area. Left of and above each other both widths are negative, and their product is not.
        area(b[:, :2], b[:, 2:]) - both -> area(b[:, :2], b[:, 2:])
            What both cover is counted twice in your union: subtract the intersection.
        area(b[:, :2], b[:, 2:]) - both -> area(b[:, :2], b[:, 2:]) - 2 * both
            Your union lacks the intersection: it is in both areas, so it is taken away once.
        both = area(torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])) -> both = area(torch.minimum(a[:, :2], b[:, :2]), torch.maximum(a[:, 2:], b[:, 2:]))
            That is the box around both. The intersection begins at the larger of the low corners.
        hull = area(torch.minimum(a[:, :2], b[:, :2]), torch.maximum(a[:, 2:], b[:, 2:])) -> hull = area(torch.minimum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:]))
            Your hull ends too early: it holds both boxes, so it ends at the larger of the high corners.
        (hull - union) / hull -> (hull - both) / hull
            Counted is the part of the hull that neither covers: hull - union, not less the intersection.
        (hull - union) / hull -> (hull - union) / union
            Divide by the hull: then the penalty is a share, and GIoU never falls below -1.
        both / union - (hull - union) / hull -> (hull - union) / hull
            That is the penalty alone. GIoU is IoU less that.
        both / union - (hull - union) / hull -> both / union + (hull - union) / hull
            You add the penalty: boxes that are further apart would agree better.
        return both / union, both / union - (hull - union) / hull -> return both / union, both / hull
            You divide by the hull in place of the union. Apart, that is 0 as IoU is, and silent.
        return both / union, both / union - (hull - union) / hull -> return both / union, both / union
            The second is IoU once more. What is missing is the share of the hull that neither covers.
        return both / union, both / union - (hull - union) / hull -> return both / union - (hull - union) / hull, both / union
            They stand the other way round: IoU first, then GIoU.
        area(a[:, :2], a[:, 2:]) + area(b[:, :2], b[:, 2:]) - both -> a[:, 2] * a[:, 3] + b[:, 2] * b[:, 3] - both
            You take the last two numbers for width and height. Here a box is its corners: right and bottom.
    """),  # noqa: E501
)


def my_matching(costs):
    Q, M = costs.shape
    ways = permutations(range(Q), M)  # each way to give every object a query of its own
    return list(min(ways, key=lambda queries: sum(costs[q, m].item() for m, q in enumerate(queries))))


def prices(Q=5, M=3):
    """Costs of Q queries and M objects, no two sums alike."""
    return (torch.randn(Q, M, dtype=torch.float64),)


def torn():
    """A table in which every wrong way ends elsewhere, and a little that is drawn."""
    table = [[6.0, -4, 7, 4], [4, 3, 8, 8], [2, 2, 7, 4], [8, 1, 1, -3], [-1, 0, 3, 2]]
    return (torch.tensor(table, dtype=torch.float64) + torch.rand(5, 4, dtype=torch.float64) / 20,)


MATCHING = Exercise(
    title="The cheapest matching",
    solution=my_matching,
    returns="the query of each object, a list of M numbers",
    cases=(
        Case(
            torn,
            narrowed(
                (
                    lambda given: (given["costs"][:, :1],),
                    "With a single object it is wrong already: the query that costs least.",
                ),
                (
                    lambda given: (given["costs"][:2, :2],),
                    "One object is right, two queries for two objects are not: there are two ways, compare their sums.",
                ),
                otherwise="Two by two is right, more is not: is every way tried, and is no query used twice?",
            ),
        ),
        Case(prices, "With five queries and three objects it is wrong: some queries stay without an object."),
        Case(lambda: prices(1, 1), "With one query and one object it is wrong."),
        Case(lambda: prices(6, 2), "With six queries and two objects it is wrong: four queries stay without."),
    ),
    hints=(
        "A way to match says which query each object has: M different numbers out of Q.",
        "itertools.permutations(range(Q), M) gives them all, as tuples: object m has query queries[m].",
        "What a way costs is sum(costs[q, m] for m, q in enumerate(queries)).",
        "min(ways, key=what_it_costs) is the cheapest of them.",
    ),
    mistakes=slips("""
        return list(min(ways, key=lambda queries: sum(costs[q, m].item() for m, q in enumerate(queries)))) -> return costs.argmin(dim=0).tolist()
            You take the cheapest query of each object. Two objects may want the same one: it answers for one only.
        ways = permutations(range(Q), M) -> taken = []; [taken.append(min((q for q in range(Q) if q not in taken), key=lambda q: costs[q, m].item())) for m in range(M)]; return taken
            Your objects choose one after the other, and the first takes what a later one needs more. Compare whole ways.
        ways = permutations(range(Q), M) -> cells = sorted((costs[q, m].item(), q, m) for q in range(Q) for m in range(M)); own = {}; [own.setdefault(m, q) for _, q, m in cells if m not in own and q not in own.values()]; return [own[m] for m in range(M)]
            You take the cheapest pair of all first. What is left may be dear: the sum of the whole way is to be least.
        min(ways -> max(ways
            That is the dearest way. The cheapest is asked.
        sum(costs -> max(costs
            You compare the dearest pair of each way. The sum of all pairs is to be least.
        sum(costs[q, m].item() for m, q in enumerate(queries)) -> sum(costs[q, m].item() ** 2 for m, q in enumerate(queries))
            You add up squares: a cost may be below 0, and then its square is large.
        sum(costs[q, m].item() for m, q in enumerate(queries)) -> sum(abs(costs[q, m].item()) for m, q in enumerate(queries))
            You take the costs without their sign. One below 0 is cheap, not dear.
        return list(min(ways, -> return sorted(min(ways,
            Your queries are sorted, and it is lost which object each has: the m-th number is object m's query.
        permutations(range(Q), M) -> (tuple(range(M)),)
            Your objects have the queries in their own order: that is no matching yet, but a list.
        permutations(range(Q), M) -> permutations(range(M), M)
            Only the first M queries are tried in yours. Any of the Q may be the one: permutations(range(Q), M).
        permutations(range(Q), M) -> __import__("itertools").combinations(range(Q), M)
            Your ways are always in rising order: combinations leaves out that two objects could change queries.
    """),  # noqa: E501
)


def my_naming(logits, given, labels, nothing):
    has = given >= 0  # (Q,)
    K = logits.shape[-1] - 1  # the last class is "no object"
    asked = torch.where(has, labels[given.clamp(min=0)], K)  # (Q,): what each query should say
    missed = -logits.log_softmax(dim=-1)[torch.arange(len(asked)), asked]  # (Q,): -log p of that
    weight = torch.where(has, 1.0, nothing).to(missed)
    return (weight * missed).sum() / weight.sum()


def answered(Q=6, M=3, K=4, nothing=0.1, dtype=torch.float64):
    """Logits (Q, K + 1), the object of each query or -1, labels (M,), and the weight of "no object"."""
    given = torch.full((Q,), -1)
    given[torch.randperm(Q)[:M]] = torch.randperm(M)
    return 2 * torch.randn(Q, K + 1, dtype=dtype), given, torch.randint(0, K, (M,)), nothing


NAMING = Exercise(
    title='The loss, and "no object"',
    solution=my_naming,
    returns="the weighted mean of -log p, a number",
    cases=(
        Case(
            answered,
            narrowed(
                (
                    lambda given: (given["logits"][:2], torch.tensor([1, 0]), given["labels"], given["nothing"]),
                    "Where every query has an object it is wrong already: -log p(label) of each, and their mean.",
                ),
                (
                    lambda given: (given["logits"], given["given"], given["labels"], 1.0),
                    "With the weight 1 it is wrong already: a query without an object should say the last class.",
                ),
                otherwise="Without a weight it is right. With it, divide by the sum of the weights, not their number.",
            ),
        ),
        Case(lambda: answered(1, 1, 2), OTHER_SIZES),
        Case(lambda: answered(3, 3, 5), 'Where no query is left over it is wrong: nobody has to say "no object".'),
        Case(answered, NO_GRADIENT, ask=pulled),
        Case(lambda: answered(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "What should each query say? Its object's label, labels[given]; and class K, the last one, where given is -1.",
        "torch.where(given >= 0, labels[given.clamp(min=0)], K) is that for all queries at once.",
        "-logits.log_softmax(-1) at that class is what the query has missed.",
        'A weight of 1, or `nothing` for "no object". The weighted mean: (weight * missed).sum() / weight.sum().',
    ),
    mistakes=slips("""
        .sum() / weight.sum() -> .mean()
            You divide by the number of queries. A weighted mean is divided by the sum of its weights.
        weight = torch.where(has, 1.0, nothing).to(missed) -> weight = torch.ones_like(missed)
            "No object" weighs as much as a digit in yours. Most queries have none, and would drown the others.
        torch.where(has, 1.0, nothing) -> torch.where(has, nothing, 1.0)
            The weights are the wrong way round: `nothing` is for the queries without an object.
        return (weight * missed).sum() / weight.sum() -> return missed[has].mean()
            Queries without an object count nothing in yours: then nobody learns to say "no object".
        (weight * missed).sum() / weight.sum() -> (weight * missed).sum()
            That is a sum. Divide it by the sum of the weights.
        (weight * missed).sum() / weight.sum() -> (weight * missed).sum() / has.sum()
            You divide by the number of objects. That is for the boxes; the classes are divided by the sum of weights.
        labels[given.clamp(min=0)], K) -> labels[given.clamp(min=0)], 0)
            "No object" is the last class, K. You ask those queries for class 0, a digit.
        asked = torch.where(has, labels[given.clamp(min=0)], K) -> asked = labels[given]
            given is -1 where a query has no object, and labels[-1] is the last label: ask those for class K.
        labels[given.clamp(min=0)] -> labels[torch.arange(len(given)) % len(labels)]
            You hand the labels out in the order of the list. Query q has object given[q].
        labels[given.clamp(min=0)], K) -> given, K)
            given is which object, not what it is: its label is labels[given].
        -logits.log_softmax(dim=-1) -> -logits.softmax(dim=-1)
            That is -p, as in the cost of a matching. The loss has -log p.
        -logits.log_softmax(dim=-1) -> logits.log_softmax(dim=-1)
            The sign is wrong: the surer a query is of what is right, the smaller the loss.
        logits.log_softmax(dim=-1)[torch.arange -> logits[..., :-1].log_softmax(dim=-1)[torch.arange
            "No object" is left out of your softmax. It is a class as the others, the last one.
    """),
)

EXERCISES = [AGREEMENT, MATCHING, NAMING]
