"""Lesson 16: the loss of distillation, and a matrix as integers of few bits."""

import torch
from torch.overrides import TorchFunctionMode

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, narrowed, pulled, same
from course_lib.exercises.slips import slips


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
    mistakes=slips("""
        temperature**2 * -> 1.0 *
            You left out the square of the temperature. Without it the gradients shrink with this square, and next to
            another loss this one would vanish.
        temperature**2 * -> temperature *
            You multiply by the temperature. Multiply by its square: it enters the gradient twice.
        temperature**2 * -> temperature**-2 *
            You divide by the square of the temperature. Multiply by it.
        meant.exp() * (meant - said) -> said.exp() * (said - meant)
            You compute the reverse divergence, KL(student || teacher), which lets the student leave out tokens that the
            teacher considers possible. The weights are p(teacher).
        meant.exp() * (meant - said) -> meant.exp() * (said - meant)
            The sign is wrong: a divergence is never below 0.
        (meant.exp() * (meant - said)).sum(dim=1) -> -said.gather(1, meant.argmax(dim=1, keepdim=True))
            You use only the teacher's best token. The student should learn the probabilities of all the others, too.
        meant.exp() * (meant - said) -> -meant.exp() * said
            You compute the cross-entropy. It is larger by the teacher's own entropy, which the student cannot change,
            so the gradient is the same. The exercise asks for the divergence, which is 0 if both agree.
        meant.exp() * (meant - said) -> meant - said
            You forgot the weights. Multiply each difference of logs by p(teacher).
        meant.exp() * (meant - said) -> meant.exp() - said.exp()
            You take differences of probabilities. Take differences of their logs, times p(teacher).
        (meant.exp() * (meant - said)).sum(dim=1) -> (meant.exp() - said.exp()).square().sum(dim=1)
            You take squared differences of probabilities. The divergence uses differences of logs.
        divergence.mean() -> divergence.sum()
            You sum over positions. Take the mean over them.
        divergence.mean() -> divergence.mean() / student.shape[1]
            You average over tokens too, as F.kl_div does by default. Sum over tokens
            (reduction="batchmean").
        return temperature**2 * divergence.mean() -> return temperature**2 * divergence
            You return a number for each position. Return their mean.
        / temperature -> * temperature
            You multiply the logits by the temperature. Divide by it to make them softer.
        (teacher.detach() / temperature) -> teacher.detach()
            You soften only the student. Divide both logits by the temperature.
        (student / temperature) -> student
            You soften only the teacher. Divide both logits by the temperature.
        log_softmax(dim=1) -> log_softmax(dim=0)
            Your softmax is over the positions. Take it over the tokens: dim=1.
        (teacher.detach() / temperature) -> (teacher / temperature)
            A gradient reaches the teacher, so the teacher could learn to agree with the student instead of the other
            way round. Use teacher.detach().
        student / temperature -> student.detach() / temperature
            You detach the student, but it is the one that has to learn.
    """),
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
    mistakes=slips("""
        weights.abs().amax(dim=1) -> weights.abs().amax().expand(len(weights))
            You have one scale for the whole matrix, which turns small rows into zeros. Give each row its own scale.
        weights.abs().amax(dim=1) -> weights.abs().amax(dim=0)
        steps[:, None] -> steps
            Your scales belong to columns. Each row has one: dim=1.
        2 ** (bits - 1) - 1 -> 2**bits - 1
            You count up to 2^bits - 1, but one bit is needed for the sign: 2^(bits - 1) - 1.
        2 ** (bits - 1) - 1 -> 2 ** (bits - 1)
            You count one too far: 2^(bits - 1) does not fit into so many bits. The largest is 2^(bits - 1) - 1.
        2 ** (bits - 1) - 1 -> 127
            You wrote 127 into the code, which is right for 8 bits only.
        .round() -> .floor()
            You round down, which shifts all weights to one side. Round to the nearest: .round().
        .round() -> .trunc()
            You cut off the decimals, as .to(torch.int8) does by itself. Round first.
        weights.abs().amax(dim=1) -> weights.amax(dim=1)
            You forgot the sign: if the largest weight is negative, the row does not fit. Take abs() before amax,
            not after it.
        weights.abs().amax(dim=1) / most -> (weights.amax(dim=1) - weights.amin(dim=1)) / (2 * most)
            Your scale is the range of a row, from its smallest to its largest weight. That goes with a zero point,
            which we do not use here. Take the largest absolute weight.
        whole.to(torch.int8), scales -> whole.to(torch.int8), 1 / steps
            Your scales are upside down. An integer times its scale gives back the weight.
        weights / steps[:, None] -> weights * steps[:, None]
            You multiply by the scale, which is dequantisation. Divide by it.
        weights / steps[:, None] -> weights / weights.abs().amax(dim=1, keepdim=True)
            You divide by the largest weight, which leaves only -1, 0 and 1. Divide the largest weight by the largest
            integer to get the scale.
        whole.to(torch.int8), scales -> whole.to(torch.int8), scales * most
            You return the largest weight of each row. Divide it by the largest integer to get the scale.
        weights.abs().amax(dim=1) -> weights.abs().mean(dim=1)
            You compute the scale from the mean, so the large weights of a row do not fit. The largest weight decides.
        weights.abs().amax(dim=1) -> weights.std(dim=1, correction=0)
            You compute the scale from the standard deviation, so large weights do not fit. The largest weight decides.
        steps = scales.where(scales > 0, 1.0) -> steps = scales
            A row of zeros gives 0 / 0, which is NaN, and the integer for NaN differs from machine to machine.
        scales.where(scales > 0, 1.0) -> scales = scales.where(scales > 0, 1.0)
            Your row of zeros has a scale other than 0. Divide by 1 there, but return 0.
        whole.to(torch.int8), scales -> whole, scales
            Your integers are stored as floats, which take as much memory as before. int8 takes one byte.
        whole.to(torch.int8), scales -> scales, whole.to(torch.int8)
            You swapped the two results. The integers come first.
        whole.to(torch.int8), scales -> whole.to(torch.int8), scales[:, None]
            Your scales have shape (m, 1). One number per row is (m,).
        whole.to(torch.int8), scales -> whole * scales[:, None], scales
            You return the rounded weights. Return the integers themselves.
    """),
)

EXERCISES = [DISTILLATION_LOSS, QUANTISE]
