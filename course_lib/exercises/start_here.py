"""Lesson 00: a memory of one number, the smallest recurrent network."""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import Slip, slips


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
    mistakes=(
        *slips("""
            w * h + x_t -> w * (h + x_t)  # You multiply the new input by w, too. Only the old h is multiplied.
            w * h + x_t -> h + w * x_t  # You multiply the input by w. It is the old h that is multiplied.
            w * h + x_t -> h + x_t  # w changes nothing in your step: the old h is multiplied by it.
            w * h + x_t -> w * h  # The input changes nothing in your step: add x_t.
            w * h + x_t -> w * x_t  # You multiply the input, and the old h is not there: w belongs to the old h.
            w * h + x_t -> w * h + (1 - w) * x_t  # You take a mean of old and new. Here the input is added whole.
            w * h + x_t -> torch.tanh(w * h + x_t)  # You put a tanh around the step. That comes in lesson 01.
            w * h + x_t -> w * h + x  # You add all of x at every step: add x_t, the one input of this step.
            h = w * h + x_t -> h *= w; h += x_t
                All your states are one tensor: `*=` and `+=` change h in place. Write `h = ...`, which makes a new one.
            w * h + x_t -> x_t  # Your states are the inputs, so nothing is remembered. Add w times the old h.
            states.append(h) -> states = [h]  # Only the last state is left: append each h to the list.
            in x: -> in x.flip(0):  # You read from the last input to the first. Time runs from x[0] on.
            return torch.stack(states) -> return states
                You return a list of numbers. `torch.stack(states)` makes one tensor of it.
        """),
        (
            Slip(
                (
                    (
                        "        h = w * h + x_t\n        states.append(h)",
                        "        states.append(h)\n        h = w * h + x_t",
                    ),
                )
            ),
            "You append h before its step is made, so that all states come one step late. Append the new h.",
        ),
    ),
)

EXERCISES = [MEMORY]
