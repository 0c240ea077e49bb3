"""Lesson 04: attention that trains well and writes nothing, to be fixed.

The notebook holds the broken function word for word, under the name of its exercise. What it does is measured in
tests/test_exercises_attention.py.
"""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.attention_alignment import my_additive_scores, my_masked_softmax
from course_lib.exercises.probes import NO_GRADIENT, SINGLE, Case, fresh, pulled, same, tensors
from course_lib.exercises.slips import slips


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
    mistakes=slips("""
        dim=1 -> dim=2
        real[:, None].expand_as(e)) -> real[:, :, None].expand_as(e)).mT
            The bug is still there: softmax distributes a word's weight over the states. A single state then gives
            every word the weight 1, and in training information leaks from later states.
        dim=1 -> dim=2
        real[:, None].expand_as(e)) -> real[:, :, None].expand_as(e)).mT; a = a / a.sum(-1, keepdim=True)
            You repair the sums afterwards. The softmax still runs over the states, so later ones leak in.
        real[:, None].expand_as(e) -> torch.ones_like(e, dtype=torch.bool)
            Padding gets weight, because the mask is not used. real[:, None] is True where there is a word.
        softmax(e, real -> softmax(e, ~real  # Your mask is inverted: real is True where there is a word.
        softmax(e, real[:, None].expand_as(e)) -> torch.softmax(e.masked_fill(~real[:, None], 0), -1)
            A masked score of 0 is a score like any other. Pass scores and mask to softmax, which handles them.
        softmax(e, real -> softmax(e.flatten(1), real
        expand_as(e)) -> expand_as(e).flatten(1)).view_as(e)
            All weights of a sentence together sum to 1. The weights of each state should sum to 1.
        scores(s_t, h) for -> scores(s[:, 0], h) for
            Every row has the scores of the first state. Use the row's own state, s_t.
        scores(s_t, h) for -> scores(s[:, -1], h) for
            Every row has the scores of the last state. Use the row's own state, s_t.
        return a @ h, a -> return a @ h, a.mT  # The contexts are right. The weights should be (B, T, S).
        return a @ h, a -> return a @ h, e  # You return the scores. The second part should be the weights.
        return a @ h, a -> return a @ h  # You return only the contexts. Return the weights, too, as a pair.
        a @ h, a -> a @ h / real.sum(1)[:, None, None], a
            You divide by the number of words. The weights already sum to 1, so a @ h is the mean.
        a @ h, a -> a.mT @ s, a
            You take the mean of the states s. Take the mean of the source states h.
    """),
)

EXERCISES = [LOOK]
