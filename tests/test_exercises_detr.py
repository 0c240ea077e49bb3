"""Lesson 10's exercises: they name wrong ways, and say more than PyTorch's own error."""

from itertools import permutations

import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment

from course_lib.detection.boxes import area, giou, iou, to_corners
from course_lib.detection.matching import match
from course_lib.lesson.judge import judge
from course_lib.workshop.exercises import all_exercises, find
from course_lib.workshop.exercises.detr import my_iou
from course_lib.workshop.exercises.detr_loss import mended_set_loss, unlikely

# What Python or PyTorch refuses -------------------------------------------------------------------------------


def of_a_square_table(costs):
    sums = {who: sum(costs[q, m].item() for m, q in enumerate(who)) for who in permutations(range(len(costs)))}
    return list(min(sums, key=sums.get))


def turned(costs):
    Q, M = costs.shape
    return list(min(permutations(range(Q), M), key=lambda who: sum(costs[m, q].item() for m, q in enumerate(who))))


def of_single_boxes(a, b):
    both = (min(a[2], b[2]) - max(a[0], b[0])) * (min(a[3], b[3]) - max(a[1], b[1]))
    return both / (area(a) + area(b) - both)


def clamped_by_max(a, b):
    size = max(torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2]), 0)
    return size.prod(-1) / (area(a) + area(b) - size.prod(-1))


def hull_by_min(a, b):
    hull = (max(a[..., 2], b[..., 2]) - min(a[..., 0], b[..., 0])) * (
        max(a[..., 3], b[..., 3]) - min(a[..., 1], b[..., 1])
    )
    return iou(a, b) - 1 + (area(a) + area(b)) / hull


def classes_last(logits, asked, nothing):
    return F.cross_entropy(logits, asked, torch.tensor([1.0] * (logits.shape[-1] - 1) + [nothing]))


def weight_in_single_precision(logits, asked, nothing):
    weight = torch.tensor([1.0] * (logits.shape[-1] - 1) + [nothing])
    return F.cross_entropy(logits.flatten(0, 1), asked.flatten(), weight)


def slide_weight(logits, boxes, labels, truth):
    asked = torch.zeros(len(logits), dtype=torch.long)
    return F.cross_entropy(logits, asked, torch.tensor([1.0] * (logits.shape[-1] - 1) + [0.1]))


@pytest.mark.parametrize(
    ("name", "answer", "error", "said"),
    [
        ("my_matching", of_a_square_table, "IndexError", "Q may be larger than M: permutations(range(Q), M)"),
        ("my_matching", turned, "IndexError", "costs[q, m] has a row for each prediction"),
        ("my_iou", of_single_boxes, "RuntimeError", "torch.minimum, torch.maximum"),
        ("my_iou", clamped_by_max, "RuntimeError", ".clamp(min=0)"),
        ("my_giou", hull_by_min, "RuntimeError", "torch.minimum, torch.maximum"),
        ("my_naming_loss", classes_last, "RuntimeError", "wants the classes second: logits.flatten(0, 1)"),
        ("my_naming_loss", weight_in_single_precision, "RuntimeError", "the dtype of the logits: .to(logits)"),
        ("mended_set_loss", slide_weight, "RuntimeError", "the dtype of the logits: .to(logits)"),
    ],
)
def test_an_error_that_does_not_say_what_is_wrong_carries_a_note(name, answer, error, said):
    verdict = judge(find(name), answer)
    assert verdict.kind == "error" and error in verdict.message and said in verdict.message, verdict


def test_another_error_carries_no_note():
    def lost(a, b):
        return (a.mT @ b).sum(7)

    verdict = judge(find("my_iou"), lost)
    assert verdict.kind == "error" and "min and max" not in verdict.message


def test_a_matching_as_a_numpy_array_is_told_how_it_becomes_a_list():
    verdict = judge(find("my_matching"), lambda costs: linear_sum_assignment(costs.T)[1])
    assert verdict.kind == "wrong" and ".tolist()" in verdict.message


# Wrong ways as a student writes them --------------------------------------------------------------------------


def centres_taken(a, b):
    return my_iou(to_corners(a), to_corners(b))


def union_of_the_penalty(a, b):
    first, last = torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])
    hull = (last - first).prod(-1)
    return iou(a, b) - (hull - (area(a) + area(b))) / hull


def log_in_the_costs(logits, boxes, labels, truth):
    costs = F.cross_entropy(logits[:, None].expand(-1, len(labels), -1).transpose(1, 2),
                            labels.expand(len(logits), -1), reduction="none")  # fmt: skip
    costs = costs + 5 * (boxes[:, None] - truth).abs().sum(-1)
    given = match(costs[None], labels[None] >= 0)[0]
    has = given >= 0
    asked = torch.where(has, labels[given], logits.shape[-1] - 1)
    return F.cross_entropy(logits, asked) + 5 * (boxes[has] - truth[given[has]]).abs().sum(-1).mean()


def best_so_far(right, scores, objects):
    hits = right[scores.argsort(descending=True)].cumsum(0)
    best = (hits / torch.arange(1, len(hits) + 1)).cummax(0).values
    first = torch.searchsorted(hits / objects, torch.arange(101) / 100)
    return torch.cat([best, torch.zeros(1)])[first].mean().item()


def by_trapezoids(right, scores, objects):
    hits = right[scores.argsort(descending=True)].cumsum(0)
    precision, recall = hits / torch.arange(1, len(hits) + 1), hits / objects
    return torch.trapezoid(torch.cat([torch.ones(1), precision]), torch.cat([torch.zeros(1), recall])).item()


def by_steps(right, scores, objects):
    hits = right[scores.argsort(descending=True)].cumsum(0)
    steps = (hits / objects).diff(prepend=torch.zeros(1))
    return (steps * hits / torch.arange(1, len(hits) + 1)).sum().item()


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("my_matching", lambda costs: linear_sum_assignment(costs)[1].tolist(), "the object of each prediction"),
        ("my_matching", lambda costs: linear_sum_assignment(costs)[0].tolist(), "Your predictions are sorted"),
        ("my_iou", centres_taken, "a and b are corners already"),
        ("my_giou", lambda a, b: giou(to_corners(a), to_corners(b)), "a and b are corners already"),
        ("my_giou", union_of_the_penalty, "The union in the penalty is the sum of both areas"),
        ("mended_set_loss", log_in_the_costs, "You changed the costs too"),
        ("my_average_precision", best_so_far, "flip before cummax"),
        ("my_average_precision", by_trapezoids, "trapezoids"),
        ("my_average_precision", by_steps, "the precision at each correct box, over the objects"),
    ],
)
def test_a_wrong_way_is_named(name, answer, said):
    verdict = judge(find(name), answer)
    assert verdict.kind == "wrong" and said in verdict.message, verdict


def test_log_p_in_the_costs_chooses_another_answer_in_the_unlikely_scene():
    """unlikely: whatever is drawn, -p takes the better box and -log p the better name, so no such loss passes."""
    torch.manual_seed(0)
    for _ in range(100):
        given = unlikely()
        assert (mended_set_loss(*given) - log_in_the_costs(*given)).abs() > 0.5


# What is asked ------------------------------------------------------------------------------------------------


def test_the_lesson_asks_what_its_plan_lists():
    own = [one for one in all_exercises() if one.lesson == "detr"]
    names = {"my_matching", "my_iou", "my_giou", "my_naming_loss", "mended_set_loss", "my_average_precision"}
    assert {one.name for one in own} == names


def test_no_sentence_speaks_of_queries_before_the_lesson_does():
    """The first five exercises stand before the model: what is matched is an answer there."""
    for name in ("my_matching", "my_naming_loss", "mended_set_loss"):
        one = find(name)
        told = [one.returns, one.title, *one.hints, *(said for _, said in one.mistakes)]
        told += [case.says for case in one.cases if isinstance(case.says, str)]
        assert [text for text in told if "quer" in text.lower()] == []
