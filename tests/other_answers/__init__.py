"""Correct but unusual answers to the exercises, a file per lesson: other algorithms, loops, einsum, in-place, views.

`@answers("my_iou")` above a function makes it an answer to that exercise; for an exercise whose answer is a value,
the function takes nothing and returns the value.
"""

from collections.abc import Callable

ANSWERS: list[tuple[str, Callable]] = []


def answers(exercise: str) -> Callable[[Callable], Callable]:
    """Register the function below as a correct answer to the exercise of this name."""

    def register(function: Callable) -> Callable:
        ANSWERS.append((exercise, function))
        return function

    return register
