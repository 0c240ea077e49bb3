"""Lesson 10, the cheapest matching: which prediction each object gets."""

from itertools import permutations

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.detr import noted
from course_lib.workshop.exercises.probes import Case, narrowed


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


def one_after_another(costs):
    taken = []
    for column in costs.T:
        taken.append(min(set(range(len(costs))) - {*taken}, key=lambda q: column[q].item()))
    return taken


def cheapest_pair_first(costs):
    chosen = {}
    for cell in costs.flatten().argsort().tolist():
        q, m = divmod(cell, costs.shape[1])
        if m not in chosen and q not in chosen.values():
            chosen[m] = q
    return [chosen[m] for m in range(costs.shape[1])]


def object_of_each(costs):
    who = my_matching(costs)
    return [who.index(q) for q in sorted(who)]


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
    mistakes={
        "each_for_itself": lambda costs: costs.argmin(dim=0).tolist(),
        "one_after_another": one_after_another,
        "cheapest_pair_first": cheapest_pair_first,
        "object_of_each": object_of_each,
        "most_expensive": lambda costs: my_matching(-costs),
        "without_sign": lambda costs: my_matching(costs.abs()),
        "sorted": lambda costs: sorted(my_matching(costs)),
        "first_predictions": lambda costs: my_matching(costs[: costs.shape[1]]),
    },
)


EXERCISES = [MATCHING]
