"""Two toy exercises, a function and a value, for the tests of whatever judges, hints and marks."""

import torch

from course_lib.workshop.exercises import Exercise


def check_double(double):
    x = torch.tensor([1.0, 3.0])
    got = double(x)
    if got.shape != x.shape:
        return f"The result has shape {tuple(got.shape)}, and x has {tuple(x.shape)}."
    if torch.equal(got, x * x):
        return "Each number is multiplied by itself."
    return None if torch.equal(got, 2 * x) else "The numbers are not twice those of x."


def twice(x):
    return 2 * x


DOUBLE = Exercise(
    "double",
    "rnn_bptt",
    "Twice a number",
    check=check_double,
    hints=("What is 2 + 2?", "Add `x` to itself."),
    solution=twice,
    mistakes=(),
)
PREDICT = Exercise(
    "predict",
    "rnn_bptt",
    "Predict",
    check=lambda answer: None if answer + 0 == 3 else f"It is not {answer}.",
    hints=("Count.", "Count again."),
    solution=lambda: 3,
    mistakes=((2, "You begin to count at zero."), (4, "You count the fence posts.")),
    value=True,
)
TOYS = [DOUBLE, PREDICT]


class Hostile:
    """Raises whatever it is asked."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    def refuse(self, *args):
        raise RuntimeError("no")

    __class__ = property(refuse)
    __eq__ = __ne__ = __bool__ = __repr__ = __str__ = __len__ = __iter__ = __add__ = __mul__ = __getitem__ = refuse
    __hash__ = None
