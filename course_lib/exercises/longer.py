"""Lesson 17: TO BE WRITTEN, what a student builds, mends and finds out.

What a list holds is told in course_lib/exercises/__init__.py; tests/test_exercises.py proves every entry: the stub
counts as not attempted, the solution passes, and each known mistake is caught with its own sentence. About ten mistakes
an exercise; `slips` writes them as changes of the solution.
"""

import torch

from course_lib.exercises import Exercise, Investigation, questions
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, SINGLE, Case, pulled
from course_lib.exercises.slips import slips


def my_longer(x):
    return x - x.mean(dim=-1, keepdim=True)


def rows(B=3, D=5, dtype=torch.float64):
    """Vectors (B, D)."""
    return (torch.randn(B, D, dtype=dtype),)


EXERCISES = [
    Exercise(
        title="TO BE WRITTEN",
        solution=my_longer,
        returns="the rows without their means, (B, D)",
        cases=(
            Case(rows, "The shape is right, the numbers are not: the mean is over the width, one for each row."),
            Case(lambda: rows(1, 7), OTHER_SIZES),
            Case(rows, NO_GRADIENT, ask=pulled),
            Case(lambda: rows(dtype=torch.float32), SINGLE),
        ),
        hints=(
            "Which dimension is the width?",
            "x.mean(dim=-1) is one number for each row, (B,).",
            "With keepdim=True it is (B, 1), and can be taken from x.",
        ),
        mistakes=slips("""
            x.mean(dim=-1, keepdim=True) -> x.mean()
                You take one mean of all rows: each row has its own.
            dim=-1 -> dim=0
                You take the mean over the batch: it is over the width.
            x - x.mean(dim=-1, keepdim=True) -> x.mean(dim=-1, keepdim=True).expand_as(x)
                This is the mean itself. What is left without it is asked for.
            x - x -> x + x
                You add the mean: take it away.
            .mean( -> .sum(
                You take the sum away, not the mean.
            .mean(dim=-1, keepdim=True) -> .median(dim=-1, keepdim=True).values
                You take the median for the mean.
            x - x.mean(dim=-1, keepdim=True) -> (x - x.mean(dim=-1, keepdim=True)).abs()
                The signs are lost: a number below the mean stays negative.
            x - x.mean(dim=-1, keepdim=True) -> (x - x.mean(-1, True)) / x.std(-1, keepdim=True)
                You divide by the spread as well: only the mean goes.
        """),
    ),
]

QUIZ = questions("""
    what_is_longer: TO BE WRITTEN: which question does only somebody answer who has understood it?
    + The first answer
        Why it is right. (Options are of equal length, and the right one stands at every place in turn.)
    - The other answer
        A mistake that somebody makes, in their words: why it is wrong, and what is true about it.
    - The third answer
        Another mistake. Each wrong one has its own reason.
""")

INVESTIGATIONS = [
    Investigation(
        name="what_moves_longer",
        question="TO BE WRITTEN: an open question, with its rubric?",
        rubric=(
            "I varied one thing, and nothing else",
            "I ran it with three seeds at least",
            "I wrote down before what would change my mind",
        ),
        answer="One answer among many.",
    ),
]
