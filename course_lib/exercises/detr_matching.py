"""Lesson 10, the cheapest matching: which prediction each object gets."""

from itertools import permutations

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.detr import noted
from course_lib.exercises.probes import Case, narrowed
from course_lib.exercises.slips import slips


def my_matching(costs):
    Q, M = costs.shape
    ways = permutations(range(Q), M)  # each way to give every object a prediction of its own
    return list(min(ways, key=lambda who: sum(costs[q, m].item() for m, q in enumerate(who))))


def prices(Q=5, M=3):
    """Costs of Q predictions and M objects, no two sums alike."""
    return (torch.randn(Q, M, dtype=torch.float64),)


def torn():
    """A table in which every wrong way ends elsewhere, plus a little random noise."""
    table = [[6.0, -4, 7, 4], [4, 3, 8, 8], [2, 2, 7, 4], [8, 1, 1, -3], [-1, 0, 3, 2]]
    return (torch.tensor(table, dtype=torch.float64) + torch.rand(5, 4, dtype=torch.float64) / 20,)


beyond = noted({  # out of bounds, of a tensor, or out of range, of a list
    " out of ": "Q may be larger than M: permutations(range(Q), M) gives the objects M of the Q predictions. And "
    "costs[q, m] has a row for each prediction, a column for each object.",
})  # fmt: skip

MATCHING = Exercise(
    solution=my_matching,
    cases=(
        Case(
            torn,
            narrowed(
                (
                    lambda given: (given["costs"][:, :1],),
                    "It is wrong even with a single object: take the prediction that costs least.",
                ),
                (
                    lambda given: (given["costs"][:2, :2],),
                    "One object is correct, two are not: compare the sums of the two assignments.",
                ),
                otherwise="Two by two is correct, more is not. Is every assignment tried? Is a prediction used twice?",
            ),
            ask=beyond,
        ),
        Case(prices, "With five predictions and three objects it is wrong: two predictions stay without an object."),
        Case(lambda: prices(1, 1), "With one prediction and one object it is wrong."),
        Case(
            lambda: prices(6, 2),
            "With six predictions and two objects it is wrong: four stay without an object.",
        ),
    ),
    mistakes=slips("""
        return list(min(ways, key=lambda who: sum(costs[q, m].item() for m, q in enumerate(who)))) -> return costs.argmin(dim=0).tolist()
            You take the cheapest prediction of each object. Two objects may want the same one, but only one can have it.
        ways = permutations(range(Q), M) -> taken = []; [taken.append(min((q for q in range(Q) if q not in taken), key=lambda q: costs[q, m].item())) for m in range(M)]; return taken
            Your objects choose one after another, and the first may take what a later one needs more. Compare whole assignments.
        ways = permutations(range(Q), M) -> cells = sorted((costs[q, m].item(), q, m) for q in range(Q) for m in range(M)); own = {}; [own.setdefault(m, q) for _, q, m in cells if m not in own and q not in own.values()]; return [own[m] for m in range(M)]
            You take the cheapest pair of all first. The rest may then be expensive: minimise the sum over all pairs.
        return list(min(ways, key=lambda who: sum(costs[q, m].item() for m, q in enumerate(who)))) -> who = min(ways, key=lambda who: sum(costs[q, m].item() for m, q in enumerate(who))); return [who.index(q) for q in sorted(who)]
            That is the object of each prediction that has one. Return the prediction of each object: match costs.T.
        min(ways -> max(ways
            That is the most expensive assignment. Return the cheapest.
        sum(costs -> max(costs
            You compare the most expensive pair of each assignment. Minimise the sum over all pairs.
        sum(costs[q, m].item() for m, q in enumerate(who)) -> sum(costs[q, m].item() ** 2 for m, q in enumerate(who))
            You add up squares. A cost may be negative, and then its square is large.
        sum(costs[q, m].item() for m, q in enumerate(who)) -> sum(abs(costs[q, m].item()) for m, q in enumerate(who))
            You drop the sign of the costs. A negative cost is cheap, not expensive.
        return list(min(ways, -> return sorted(min(ways,
            Your predictions are sorted, so it is lost which object each has: number m is the prediction of object m.
        permutations(range(Q), M) -> (tuple(range(M)),)
            You give object m prediction m. That is the order of the list, not a matching.
        permutations(range(Q), M) -> permutations(range(M), M)
            You try only the first M predictions. Any of the Q may be the best: permutations(range(Q), M).
        permutations(range(Q), M) -> __import__("itertools").combinations(range(Q), M)
            combinations gives rising order only, so it leaves out the assignments in which two objects swap predictions.
    """),  # noqa: E501
)


EXERCISES = [MATCHING]
