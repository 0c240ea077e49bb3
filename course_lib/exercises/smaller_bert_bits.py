"""Lesson 16, what a student learns from a teacher, and a matrix as whole numbers with few bits."""

import torch
from torch.overrides import TorchFunctionMode

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, narrowed, pulled, same
from course_lib.exercises.slips import slips

LESSON = "smaller_bert"


def my_distillation_loss(student, teacher, temperature):
    meant = (teacher.detach() / temperature).log_softmax(dim=1)  # (N, V), log p(teacher)
    said = (student / temperature).log_softmax(dim=1)
    divergence = (meant.exp() * (meant - said)).sum(dim=1)  # (N,)
    return temperature**2 * divergence.mean()


def two_logits(N=5, V=7, temperature=2.5, scale=1.5, dtype=torch.float64):
    """Logits of a student and of a teacher (N, V), and a temperature."""
    return (scale * torch.randn(N, V)).to(dtype), (scale * torch.randn(N, V)).to(dtype), temperature


def certain():
    """Logits of hundreds in single precision, far apart from row to row; in the last the student is sure, and wrong."""
    teacher = torch.tensor([[300.0, 299, 0], [-300, -301, -299], [0, 0, 300]])
    return torch.tensor([[299.0, 300, -300], [-600, -602, -601], [0, 300, -300]]), teacher, 1.0


def which_pull(answer, solution, arguments):
    """Which of the two gradients is wrong."""
    _, to_teacher = pulled(answer, *arguments)
    if to_teacher.any():
        return "The number is right, and a gradient reaches the teacher. It is a constant here: teacher.detach()."
    return NO_GRADIENT


DISTILLATION_LOSS = Exercise(
    lesson=LESSON,
    title="What the teacher says",
    solution=my_distillation_loss,
    returns="one number, a tensor without dimensions",
    cases=(
        Case(
            two_logits,
            narrowed(
                (
                    lambda given: (given["student"], given["student"].clone(), 1.0),
                    "Where both say the same, at temperature 1, it is wrong already: the divergence is 0 there.",
                ),
                (
                    lambda given: (given["student"][:1, :2], given["teacher"][:1, :2], 1.0),
                    "With one place, two pieces and temperature 1 it is wrong already: the sum over pieces of "
                    "p(teacher) (log p(teacher) - log p(student)).",
                ),
                (
                    lambda given: (given["student"], given["teacher"], 1.0),
                    "One place is right, several are not: the mean over places of the sums over pieces.",
                ),
                otherwise="At temperature 1 it is right. At another both logits are divided by it before the softmax, "
                "and the result is multiplied by its square.",
            ),
        ),
        Case(two_logits, which_pull, pulled),
        Case(lambda: two_logits(1, 2, 0.5), OTHER_SIZES),
        Case(lambda: two_logits(2, 4, 1.0, 0.0), "Where both say the same it is 0."),
        Case(certain, OVERFLOW),
        Case(lambda: two_logits(3, 4, 1.5, 1000.0), "Logits as large as a thousand come out wrong: exp overflows."),
        Case(lambda: two_logits(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "KL(teacher || student) at one place: the sum over pieces of p(teacher) (log p(teacher) - log p(student)).",
        "(student / temperature).log_softmax(dim=1) is log p(student), (N, V). The teacher's is made alike.",
        "The teacher does not learn: teacher.detach(). Its probabilities are the exp of its log probabilities.",
        "Add up over pieces, take the mean over places, and multiply by temperature**2.",
    ),
    mistakes=slips("""
        temperature**2 * -> 1.0 *
            You left out the square of the temperature. Without it the gradients shrink with its square, and beside
            another loss this one would vanish.
        temperature**2 * -> temperature *
            You multiply by the temperature. Its square is wanted: it is in the gradient twice.
        temperature**2 * -> temperature**-2 *
            You divide by the square of the temperature. Multiply.
        meant.exp() * (meant - said) -> said.exp() * (said - meant)
            Yours is the divergence the other way round, KL(student || teacher): that one lets the student leave out
            pieces that the teacher holds possible. The weights are p(teacher).
        meant.exp() * (meant - said) -> meant.exp() * (said - meant)
            The sign is wrong: a divergence is never below 0.
        (meant.exp() * (meant - said)).sum(dim=1) -> -said.gather(1, meant.argmax(dim=1, keepdim=True))
            You ask for the teacher's best piece alone. What it says of all the others is what is to be learned.
        meant.exp() * (meant - said) -> -meant.exp() * said
            Yours is the cross-entropy. It is larger by the teacher's own entropy, which the student cannot change, so
            its gradient is the same. The divergence is asked for: 0 where both say the same.
        meant.exp() * (meant - said) -> meant - said
            You forgot the weights: each difference of logs counts p(teacher) times.
        meant.exp() * (meant - said) -> meant.exp() - said.exp()
            Those are differences of probabilities. Differences of their logs are wanted, times p(teacher).
        (meant.exp() * (meant - said)).sum(dim=1) -> (meant.exp() - said.exp()).square().sum(dim=1)
            Those are squared differences of probabilities. The divergence has logs.
        divergence.mean() -> divergence.sum()
            You add up over places. Take their mean.
        divergence.mean() -> divergence.mean() / student.shape[1]
            You take the mean over pieces too, as F.kl_div does by default. Over pieces it is a sum
            (reduction="batchmean").
        return temperature**2 * divergence.mean() -> return temperature**2 * divergence
            You return a number for each place. Their mean is asked for.
        / temperature -> * temperature
            You multiply the logits by the temperature. Divided by it they become softer.
        (teacher.detach() / temperature) -> teacher.detach()
            You soften the student alone. Both logits are divided by the temperature.
        (student / temperature) -> student
            You soften the teacher alone. Both logits are divided by the temperature.
        log_softmax(dim=1) -> log_softmax(dim=0)
            Your softmax is over the places. It is over the pieces: dim=1.
        (teacher.detach() / temperature) -> (teacher / temperature)
            A gradient reaches the teacher. Then it could come to agree with the student, instead of the other way
            round: teacher.detach().
        student / temperature -> student.detach() / temperature
            You detach the student. It is the one that learns.
    """),
)


def my_quantise(weights, bits):
    most = 2 ** (bits - 1) - 1  # 127 for 8 bits
    scales = weights.abs().amax(dim=1) / most  # (m,)
    steps = scales.where(scales > 0, 1.0)  # a row of zeros: 0 / 1, and not 0 / 0
    whole = (weights / steps[:, None]).round()
    return whole.to(torch.int8), scales


def matrix(m=6, n=9, bits=4, dtype=torch.float64):
    """A matrix (m, n) whose rows are of very different sizes, the largest of each second row below 0; and bits."""
    weights = torch.rand(m, n) * 2 - 1
    weights[:, n // 2] = torch.tensor([1.5, -1.5]).repeat(m)[:m]  # by far the largest
    return (weights * torch.logspace(-1, 1, m)[torch.randperm(m), None]).to(dtype), bits


def zeros_too(m=4, n=5, bits=5):
    """The same with a row of zeros."""
    weights, bits = matrix(m, n, bits)
    weights[m // 2] = 0
    return weights, bits


class NaNMadeWhole(TorchFunctionMode):
    """Notices where NaN becomes a whole number: which one that is no rule says, and often it is 0."""

    seen = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and out.dtype == torch.int8:
            self.seen |= any(isinstance(x, torch.Tensor) and bool(x.isnan().any()) for x in args)
        return out


def watched(answer, weights, bits):
    """For `Case.ask`: the answer, and whether it made a whole number of NaN."""
    with NaNMadeWhole() as watch:
        found = answer(weights, bits)
    return [*found, watch.seen] if isinstance(found, (tuple, list)) else found


def kind(answer, weights, bits):
    """For `Case.ask`: what kind of whole numbers they are."""
    return str(answer(weights, bits)[0].dtype)


def which_numbers(answer, solution, arguments):
    """Whether it is the scales, or the whole numbers."""
    (whole, scales), (right, sizes) = (one(*arguments) for one in (answer, solution))
    if not same(scales, sizes):
        return "The scales are wrong: of each row the largest number without its sign, over the largest whole number."
    off = (whole.long() - right.long()).abs().max()
    return f"The scales are right. The whole numbers are wrong, by up to {off}: each weight over its row's scale."


QUANTISE = Exercise(
    lesson=LESSON,
    title="Whole numbers for weights",
    solution=my_quantise,
    returns="the whole numbers, int8 (m, n), and the scale of each row, (m,)",
    cases=(
        Case(matrix, which_numbers),
        Case(matrix, "The numbers are right, and each takes more than a byte: .to(torch.int8), after rounding.", kind),
        Case(lambda: matrix(1, 1, 8), OTHER_SIZES),
        Case(lambda: matrix(7, 7, 8), "With 8 bits it is wrong: from -127 to 127."),
        Case(lambda: matrix(3, 8, 2), "With 2 bits it is wrong: -1, 0 and 1."),
        Case(zeros_too, "A row of zeros is wrong: its whole numbers are 0, and so is its scale.", watched),
        Case(lambda: matrix(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "With 4 bits the whole numbers go from -7 to 7. Which weight of a row becomes 7 or -7?",
        "2 ** (bits - 1) - 1 is the largest. A row's scale is its largest weight, without the sign, divided by it.",
        "weights.abs().amax(dim=1) is (m,). To divide each row by its scale make that (m, 1): scales[:, None].",
        "Round, and then .to(torch.int8), which alone would cut off what is behind the point.",
        "A row of zeros has scale 0, and 0 / 0 is NaN: divide it by something else.",
    ),
    mistakes=slips("""
        weights.abs().amax(dim=1) -> weights.abs().amax().expand(len(weights))
            You have one scale for the whole matrix. Small rows become zeros so: each row has a scale of its own.
        weights.abs().amax(dim=1) -> weights.abs().amax(dim=0)
        steps[:, None] -> steps
            Your scales are by column. Each row has one: dim=1.
        2 ** (bits - 1) - 1 -> 2**bits - 1
            You count to 2^bits - 1. One bit is needed for the sign: 2^(bits - 1) - 1.
        2 ** (bits - 1) - 1 -> 2 ** (bits - 1)
            You count one too far: 2^(bits - 1) has no place in so many bits. The largest is 2^(bits - 1) - 1.
        2 ** (bits - 1) - 1 -> 127
            You wrote 127 into the code. That is for 8 bits.
        .round() -> .floor()
            You round down, so all weights shrink or grow to one side. To the nearest: .round().
        .round() -> .trunc()
            You cut off what is behind the point, as .to(torch.int8) does by itself. Round before.
        weights.abs().amax(dim=1) -> weights.amax(dim=1)
            You forgot the sign: where the largest weight is below 0 the row does not fit. Take abs() before amax,
            not behind it.
        weights.abs().amax(dim=1) / most -> (weights.amax(dim=1) - weights.amin(dim=1)) / (2 * most)
            Your scale is the range of a row, from its smallest to its largest. That fits with a zero point, which is
            not asked for here: the largest without its sign.
        whole.to(torch.int8), scales -> whole.to(torch.int8), 1 / steps
            Your scales are upside down. A whole number times its scale is the weight again.
        weights / steps[:, None] -> weights * steps[:, None]
            You multiply by the scale. That is the way back.
        weights / steps[:, None] -> weights / weights.abs().amax(dim=1, keepdim=True)
            You divide by the largest weight: -1, 0 and 1 are left. The scale is that over the largest whole number.
        whole.to(torch.int8), scales -> whole.to(torch.int8), scales * most
            You return the largest weight of each row. The scale is that over the largest whole number.
        weights.abs().amax(dim=1) -> weights.abs().mean(dim=1)
            Your scale is made of the mean. Then the large weights of a row do not fit: the largest decides.
        weights.abs().amax(dim=1) -> weights.std(dim=1, correction=0)
            Your scale is made of the spread. Then the large weights of a row do not fit: the largest decides.
        steps = scales.where(scales > 0, 1.0) -> steps = scales
            A row of zeros gives 0 / 0, NaN, and what a whole number makes of NaN differs from machine to machine.
        scales.where(scales > 0, 1.0) -> scales = scales.where(scales > 0, 1.0)
            Your row of zeros has another scale than 0. Divide by 1 there, but return 0.
        whole.to(torch.int8), scales -> whole, scales
            Your whole numbers are floats: they take as much room as before. int8 is one byte.
        whole.to(torch.int8), scales -> scales, whole.to(torch.int8)
            You exchanged the two: the whole numbers come first.
        whole.to(torch.int8), scales -> whole.to(torch.int8), scales[:, None]
            Your scales are (m, 1). One number for each row is (m,).
        whole.to(torch.int8), scales -> whole * scales[:, None], scales
            You return the weights again, rounded. The whole numbers themselves are asked for.
    """),
)

EXERCISES = [DISTILLATION_LOSS, QUANTISE]
