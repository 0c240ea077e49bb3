"""Lesson 10, the cheapest matching: which answer each object has."""

from itertools import permutations

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.detr import noted
from course_lib.exercises.probes import Case, narrowed
from course_lib.exercises.slips import slips


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
    lesson="detr",
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


EXERCISES = [MATCHING]
