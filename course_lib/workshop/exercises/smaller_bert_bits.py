"""Lesson 16: the loss of distillation, and a matrix as integers of few bits."""

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import (
    NO_GRADIENT,
    OTHER_SIZES,
    OVERFLOW,
    SINGLE,
    Case,
    narrowed,
    pulled,
    same,
)


def my_distillation_loss(student, teacher, temperature):
    meant = (teacher.detach() / temperature).log_softmax(dim=1)  # (N, V), log p(teacher)
    said = (student / temperature).log_softmax(dim=1)
    divergence = (meant.exp() * (meant - said)).sum(dim=1)  # (N,)
    return temperature**2 * divergence.mean()


def two_logits(N=5, V=7, temperature=2.5, scale=1.5, dtype=torch.float64):
    """Logits of a student and of a teacher (N, V), and a temperature."""
    return (scale * torch.randn(N, V)).to(dtype), (scale * torch.randn(N, V)).to(dtype), temperature


def certain():
    """Logits of hundreds in single precision, far apart between rows; in the last the student is sure, and wrong."""
    teacher = torch.tensor([[300.0, 299, 0], [-300, -301, -299], [0, 0, 300]])
    return torch.tensor([[299.0, 300, -300], [-600, -602, -601], [0, 300, -300]]), teacher, 1.0


def which_pull(answer, solution, arguments):
    """Which of the two gradients is wrong."""
    _, to_teacher = pulled(answer, *arguments)
    if to_teacher.any():
        return "The number is right, but a gradient reaches the teacher. It is a constant here: teacher.detach()."
    return NO_GRADIENT


def teacher_learns(student, teacher, temperature):
    meant, said = ((logits / temperature).log_softmax(dim=1) for logits in (teacher, student))
    return temperature**2 * F.kl_div(said, meant, log_target=True, reduction="batchmean")


def best_token(student, teacher, temperature):
    return temperature**2 * F.cross_entropy(student / temperature, teacher.argmax(dim=1))


def cross_entropy(student, teacher, temperature):
    return temperature**2 * F.cross_entropy(student / temperature, (teacher / temperature).softmax(dim=1))


DISTILLATION_LOSS = Exercise(
    solution=my_distillation_loss,
    cases=(
        Case(
            two_logits,
            narrowed(
                (
                    lambda given: (given["student"], given["student"].clone(), 1.0),
                    "It is wrong even if both give the same logits, at temperature 1. There the divergence is 0.",
                ),
                (
                    lambda given: (given["student"][:1, :2], given["teacher"][:1, :2], 1.0),
                    "It is wrong even for one position, two tokens and temperature 1. It is the sum over tokens of "
                    "p(teacher) (log p(teacher) - log p(student)).",
                ),
                (
                    lambda given: (given["student"], given["teacher"], 1.0),
                    "It is right for one position but not for several: average over positions the sums over tokens.",
                ),
                otherwise="At temperature 1 it is right. At another temperature, divide both logits by it before the "
                "softmax, and multiply the result by its square.",
            ),
        ),
        Case(two_logits, which_pull, pulled),
        Case(lambda: two_logits(1, 2, 0.5), OTHER_SIZES),
        Case(lambda: two_logits(2, 4, 1.0, 0.0), "It must be 0 if both give the same logits."),
        Case(certain, OVERFLOW),
        Case(lambda: two_logits(3, 4, 1.5, 1000.0), "It is wrong for logits as large as a thousand: exp overflows."),
        Case(lambda: two_logits(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "without_square": lambda student, teacher, T: my_distillation_loss(student, teacher, T) / T**2,
        "reverse": lambda student, teacher, T: my_distillation_loss(teacher, student, T),
        "student_detached": lambda student, *more: my_distillation_loss(student.detach(), *more),
        "best_token": best_token,
        "cross_entropy": cross_entropy,
        "summed": lambda student, *more: my_distillation_loss(student, *more) * len(student),
        "mean_over_tokens": lambda student, *more: my_distillation_loss(student, *more) / student.shape[1],
        "teacher_learns": teacher_learns,
    },
)


def my_quantise(weights, bits):
    most = 2 ** (bits - 1) - 1  # 127 for 8 bits
    scales = weights.abs().amax(dim=1) / most  # (m,)
    steps = scales.where(scales > 0, 1.0)  # a row of zeros: 0 / 1, and not 0 / 0
    whole = (weights / steps[:, None]).round()
    return whole.to(torch.int8), scales


def matrix(m=6, n=9, bits=4, dtype=torch.float64):
    """A matrix (m, n) with rows of very different sizes, the largest weight negative in every other row; and bits."""
    weights = torch.rand(m, n) * 2 - 1
    weights[:, n // 2] = torch.tensor([1.5, -1.5]).repeat(m)[:m]  # by far the largest
    return (weights * torch.logspace(-1, 1, m)[torch.randperm(m), None]).to(dtype), bits


def zeros_too(m=4, n=5, bits=5):
    """The same with a row of zeros."""
    weights, bits = matrix(m, n, bits)
    weights[m // 2] = 0
    return weights, bits


class NaNMadeWhole(TorchFunctionMode):
    """Notices where NaN becomes an integer: no rule says which one, and often it is 0."""

    seen = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and out.dtype == torch.int8:
            self.seen |= any(isinstance(x, torch.Tensor) and bool(x.isnan().any()) for x in args)
        return out


def watched(answer, weights, bits):
    """For `Case.ask`: the answer, and whether it turned NaN into an integer."""
    with NaNMadeWhole() as watch:
        found = answer(weights, bits)
    return [*found, watch.seen] if isinstance(found, (tuple, list)) else found


def kind(answer, weights, bits):
    """For `Case.ask`: the type of the integers."""
    return str(answer(weights, bits)[0].dtype)


def which_numbers(answer, solution, arguments):
    """Whether the scales are wrong, or the integers."""
    (whole, scales), (right, sizes) = (one(*arguments) for one in (answer, solution))
    if not same(scales, sizes):
        return "The scales are wrong: for each row, divide the largest absolute weight by the largest integer."
    off = (whole.long() - right.long()).abs().max()
    return f"The scales are right. The integers are wrong, by up to {off}: divide each weight by its row's scale."


def quantising(
    most=lambda bits: 2 ** (bits - 1) - 1,
    largest=lambda weights: weights.abs().amax(dim=1),
    whole=torch.round,
):
    """A wrong answer to `my_quantise`: another largest integer, another largest weight, another rounding."""

    def quantise(weights, bits):
        scales = largest(weights) / most(bits)
        steps = scales.where(scales > 0, 1.0)
        return whole(weights / steps[:, None]).to(torch.int8), scales

    return quantise


def zeros_divided(weights, bits):
    scales = weights.abs().amax(dim=1) / (2 ** (bits - 1) - 1)
    return (weights / scales[:, None]).round().to(torch.int8), scales


def floats(weights, bits):
    whole, scales = my_quantise(weights, bits)
    return whole.to(weights), scales


QUANTISE = Exercise(
    solution=my_quantise,
    cases=(
        Case(matrix, which_numbers),
        Case(matrix, "The numbers are right, but each takes more than a byte: .to(torch.int8), after rounding.", kind),
        Case(lambda: matrix(1, 1, 8), OTHER_SIZES),
        Case(lambda: matrix(7, 7, 8), "It is wrong with 8 bits: the integers go from -127 to 127."),
        Case(lambda: matrix(3, 8, 2), "It is wrong with 2 bits: the integers are -1, 0 and 1."),
        Case(zeros_too, "It is wrong for a row of zeros: its integers are 0, and so is its scale.", watched),
        Case(lambda: matrix(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "one_scale": quantising(largest=lambda weights: weights.abs().amax().expand(len(weights))),
        "sign_forgotten": quantising(most=lambda bits: 2**bits - 1),
        "one_too_far": quantising(most=lambda bits: 2 ** (bits - 1)),
        "always_127": quantising(most=lambda bits: 127),
        "rounded_down": quantising(whole=torch.floor),
        "without_abs": quantising(largest=lambda weights: weights.amax(dim=1)),
        "zeros_divided": zeros_divided,
        "floats": floats,
    },
)

EXERCISES = [DISTILLATION_LOSS, QUANTISE]
