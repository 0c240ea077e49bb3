"""Lesson 04: attention that trains well and writes nothing, to be fixed.

The notebook holds the broken function word for word, under the name of its exercise. What it does is measured in
tests/test_exercises_attention.py.
"""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.attention_alignment import my_additive_scores, my_masked_softmax
from course_lib.workshop.exercises.probes import NO_GRADIENT, SINGLE, Case, fresh, pulled, same, tensors


def broken_look(s, h, real, scores, softmax):
    """Contexts (B, T, H), weights (B, T, S): states s (B, T, H) attend to h (B, S, H); real (B, S), True at words."""
    e = torch.stack([scores(s_t, h) for s_t in s.unbind(1)], dim=2)  # unbind(1): one state (B, H) after the other
    a = softmax(e, real[:, :, None].expand_as(e)).mT  # expand_as: a mask as large as e; .mT gives (B, T, S)
    return a @ h, a


def mended_look(s, h, real, scores, softmax):
    # Why did the loss not reveal the bug? The broken softmax ran over the states, so they shared each word's weight.
    # In training all states exist at once, and the later ones have read the answer, so a weight leaked what was to
    # come, even on new sequences. When the model writes, there is only one state, and all its weights are 1.
    e = torch.stack([scores(s_t, h) for s_t in s.unbind(1)], dim=1)  # (B, T, S): a row for each state
    a = softmax(e, real[:, None].expand_as(e))
    return a @ h, a


SHAPES = "B T D, B S H, D N, H N, N"


def sentences(sizes="B3 T4 S6 D4 H5 N7", lengths=(6, 4, 2), dtype=torch.float64):
    """States s, memory h, the length of each sentence, and the three weights of an additive score."""
    numbers = {pair[0]: int(pair[1:]) for pair in sizes.split()}
    s, h, *matrices = (a.to(dtype) for a in tensors(SHAPES, sizes=numbers, scale=1.0)())
    return s, h, torch.tensor(lengths), matrices


def looked(answer, s, h, lengths, matrices):
    """For `Case.ask`: the answer with the functions of the other two exercises."""
    real = torch.arange(h.shape[1]) < lengths[:, None]
    return answer(s, h, real, lambda s_t, h: my_additive_scores(s_t, h, *matrices), my_masked_softmax)


def one_by_one(answer, s, h, lengths, matrices):
    """For `Case.ask`: one state at a time, as when a model writes."""
    return [looked(answer, s_t, h, lengths, matrices) for s_t in s.split(1, dim=1)]


def gradient(answer, s, h, lengths, matrices):
    """For `Case.ask`: the gradient with respect to states, memory and weights."""
    return pulled(lambda s, h, *matrices: looked(answer, s, h, lengths, matrices), s, h, *matrices)


def what_is_wrong(answer, solution, arguments):
    """Say which of three things is wrong: the sum of a row, the weights, or the mean."""
    _, weights = looked(answer, *fresh(arguments))
    if not same(weights.sum(-1), torch.ones_like(weights[..., 0])):
        return "The weights of one state, a row of a, do not sum to 1 over the words of its sentence."
    if not same(weights, looked(solution, *fresh(arguments))[1]):
        return "Each row sums to 1, but a row must be the softmax of the scores of its own state."
    return "The weights are right. A context is the mean of h with these weights: a @ h."


def sums_repaired(s, h, real, scores, softmax):
    _, a = broken_look(s, h, real, scores, softmax)
    a = a / a.sum(-1, keepdim=True)
    return a @ h, a


def mean_twice(s, h, real, scores, softmax):
    context, a = mended_look(s, h, real, scores, softmax)
    return context / real.sum(1)[:, None, None], a


def weights_transposed(s, h, real, scores, softmax):
    context, a = mended_look(s, h, real, scores, softmax)
    return context, a.mT


LOOK = Exercise(
    solution=mended_look,
    cases=(
        Case(sentences, what_is_wrong, looked),
        Case(sentences, "It is right for all states at once, and wrong for one state at a time.", one_by_one),
        Case(
            lambda: sentences("B5 T5 S5 D5 H5 N5", (5, 4, 3, 2, 1)),
            "When all sizes are equal it is wrong: there a transposed tensor fits, and raises no error.",
            looked,
        ),
        Case(lambda: sentences(lengths=(6, 0, 2)), "A sentence without any word must give zeros.", looked),
        Case(sentences, NO_GRADIENT, gradient),
        Case(lambda: sentences(dtype=torch.float32), SINGLE, looked),
    ),
    stub=broken_look,
    mistakes={
        "bug_still_there": broken_look,
        "sums_repaired": sums_repaired,
        "mask_unused": lambda s, h, real, *given: mended_look(s, h, torch.ones_like(real), *given),
        "mask_inverted": lambda s, h, real, *given: mended_look(s, h, ~real, *given),
        "first_state": lambda s, *given: mended_look(s[:, :1].expand_as(s), *given),
        "weights_transposed": weights_transposed,
        "contexts_only": lambda *given: mended_look(*given)[0],
        "mean_twice": mean_twice,
    },
)

EXERCISES = [LOOK]
