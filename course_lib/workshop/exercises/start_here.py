"""Lesson 00: a memory of one number, the smallest recurrent network."""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, SINGLE, Case, narrowed, pulled


def given_memory(x, w):
    h, states = torch.zeros_like(x[0]), []
    for x_t in x:  # noqa: B007
        h = ...
        states.append(h)
    return torch.stack(states)


def my_memory(x, w):
    h, states = torch.zeros_like(x[0]), []
    for x_t in x:
        h = w * h + x_t
        states.append(h)
    return torch.stack(states)


def inputs(steps, w, dtype=torch.float64):
    """For `Case.draw`: so many inputs, none of them small, and the factor."""
    return lambda: (1 + 0.3 * torch.randn(steps, dtype=dtype), w)


def stepping(step):
    """A wrong answer: the loop is right, its step is not."""

    def memory(x, w):
        h, states = torch.zeros_like(x[0]), []
        for x_t in x:
            h = step(h, x_t, w)
            states.append(h)
        return torch.stack(states)

    return memory


MEMORY = Exercise(
    solution=my_memory,
    stub=given_memory,
    cases=(
        Case(
            inputs(6, 0.8),
            narrowed(
                (lambda given: (given["x"], 0.0), "With w = 0 nothing is remembered: the states must be the inputs."),
                (
                    lambda given: (given["x"], 1.0),
                    "With w = 1 all is remembered: each state must be the sum of the inputs so far.",
                ),
                otherwise="With w = 0.5 and x = [4, 0, 0] the states must be 4, 2, 1. Print yours.",
            ),
        ),
        Case(inputs(1, 0.8), "With a single input the answer is wrong: it must be that input, (1,)."),
        Case(inputs(9, -1.1), "With another length and w = -1.1 it is wrong: is a number written into the code?"),
        Case(inputs(6, 0.8, torch.float32), SINGLE),
        Case(inputs(6, 0.8), NO_GRADIENT, ask=pulled),
    ),
    mistakes={
        "all_times_w": stepping(lambda h, x_t, w: w * (h + x_t)),
        "input_times_w": stepping(lambda h, x_t, w: h + w * x_t),
        "without_w": stepping(lambda h, x_t, w: h + x_t),
        "without_input": stepping(lambda h, x_t, w: w * h),
        "weighted_mean": stepping(lambda h, x_t, w: w * h + (1 - w) * x_t),
        "in_place": stepping(lambda h, x_t, w: h.mul_(w).add_(x_t)),
        "no_memory": lambda x, w: x.clone(),
        "one_step_late": lambda x, w: torch.cat([0 * x[:1], my_memory(x, w)[:-1]]),
    },
)

EXERCISES = [MEMORY]
