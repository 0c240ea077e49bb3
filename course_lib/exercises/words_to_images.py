"""Lesson 18, how a vector becomes a code: the nearest one, the straight-through gradient, the quantiser's loss.

The codes after the words, and a codebook to fix, are in `words_to_images_draw.py`; what is asked of the reader in
`words_to_images_questions.py`.
"""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import OTHER_SIZES, SINGLE, Case, narrowed, pulled, same
from course_lib.exercises.slips import slips


def my_nearest(vectors, codes):
    distances = (vectors[:, None] - codes).square().sum(dim=2)  # (N, K): of each vector to each code
    return distances.argmin(dim=1)  # (N,)


def near(N=80, K=7, E=3, dtype=torch.float64):
    """Vectors (N, E), and codes (K, E) of very different lengths."""
    codes = torch.randn(K, E) * torch.linspace(0.3, 2.5, K)[torch.randperm(K)][:, None]
    return torch.randn(N, E).to(dtype), codes.to(dtype)


NEAREST = Exercise(
    solution=my_nearest,
    cases=(
        Case(
            near,
            narrowed(
                (
                    lambda given: (given["vectors"][:1, :1], given["codes"][:2, :1]),
                    "With one vector and two codes of one number it is wrong already: return the index, 0 or 1, of the "
                    "nearer code.",
                ),
                (
                    lambda given: (given["vectors"][:1], given["codes"]),
                    "With one number per vector it is right, with several it is wrong: squared differences, added up.",
                ),
                otherwise="One vector is right, several are not: each has a nearest code of its own.",
            ),
        ),
        Case(lambda: near(1, 4, 2), OTHER_SIZES),
        Case(lambda: near(3, 9, 5), "Where there are more codes than vectors it is wrong."),
        Case(lambda: near(6, 1, 4), "With a single code it is wrong: that one is nearest to every vector."),
        Case(lambda: near(dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        argmin(dim=1) -> argmax(dim=1)
            You take the code that is farthest away.
        argmin(dim=1) -> argmin(dim=0)
            You give each code its nearest vector, (K,). Return the nearest code of each vector, (N,).
        (vectors[:, None] - codes).square().sum(dim=2) -> -vectors @ codes.T
            You take the largest dot product. There a long code beats a near one: the codes' own squares are missing.
        (vectors[:, None] - codes).square().sum(dim=2) -> -vectors @ (codes / codes.norm(dim=1, keepdim=True)).T
            You take the smallest angle. A code in the same direction may lie far away.
        (vectors[:, None] - codes).square().sum(dim=2) -> codes.square().sum(dim=1) - vectors @ codes.T
            You forgot the 2 of the mixed term: |z - e|^2 is |z|^2 - 2 z.e + |e|^2.
        (vectors[:, None] - codes).square().sum(dim=2) -> codes.square().sum(dim=1) + 2 * vectors @ codes.T
            The mixed term has the wrong sign: |z - e|^2 is |z|^2 - 2 z.e + |e|^2.
        (vectors[:, None] - codes).square().sum(dim=2) -> codes.norm(dim=1) - 2 * vectors @ codes.T
            |z - e|^2 is |z|^2 - 2 z.e + |e|^2. You add the length of a code, and not its square.
        .square().sum(dim=2) -> .abs().sum(dim=2)
            You add up absolute differences. Square them.
        .square().sum(dim=2) -> .abs().amax(dim=2)
            You compare only the largest difference. Add up the squares of all E.
        .square().sum(dim=2) -> .sum(dim=2)
            You forgot to square: positive and negative differences cancel.
        .square().sum(dim=2) -> .sum(dim=2).square()
            You add up before you square, so positive and negative differences cancel.
        return distances.argmin(dim=1) -> return distances.min(dim=1).values
            Those are the distances. Return which code it is: argmin.
        return distances.argmin(dim=1) -> return codes[distances.argmin(dim=1)]
            Those are the codes themselves, (N, E). Return their indices, (N,).
        return distances.argmin(dim=1) -> return distances.argsort(dim=1)
            Those are all codes in the order of their distance, (N, K). Return the first of each row.
        return distances.argmin(dim=1) -> return torch.nn.functional.one_hot(distances.argmin(dim=1), len(codes))
            That is one-hot, (N, K). Return the indices themselves, (N,).
        argmin(dim=1) -> argmin()
            You look for the smallest of all N K numbers. Each vector has its own nearest code: dim=1.
        argmin(dim=1) -> argmin(dim=1, keepdim=True)
            Yours is (N, 1). Leave out keepdim.
        argmin(dim=1) -> argmin(dim=1).to(codes)
            Your indices are floats. An embedding is looked up by integers.
        argmin(dim=1) -> argmin(dim=1) + 1
            You count codes from 1. The first is code 0.
    """),
)


def my_straight_through(vectors, chosen):
    return vectors + (chosen - vectors).detach()  # what is detached is a constant: the slope by vectors is 1


def pairs(N=5, E=4, dtype=torch.float64):
    """Vectors and the codes that were chosen for them, both (N, E), no number near 0."""
    return tuple((0.5 + torch.rand(N, E)).mul(torch.randn(N, E).sign()).to(dtype) for _ in range(2))


def which_way_back(answer, solution, arguments):
    """Which of the two gradients is wrong."""
    (to_vectors, to_chosen), (right, none) = (pulled(one, *arguments) for one in (answer, solution))
    if not same(to_vectors, right):
        return (
            "The forward pass is right, the backward pass is not: `vectors` gets the gradient of the result, unchanged."
        )
    return "The forward pass is right, and so is the gradient by `vectors`. By `chosen` there should be none."


STRAIGHT_THROUGH = Exercise(
    solution=my_straight_through,
    cases=(
        Case(pairs, "The forward pass is wrong: the result equals `chosen`."),
        Case(pairs, which_way_back, pulled),
        Case(lambda: pairs(1, 1), OTHER_SIZES),
        Case(lambda: pairs(1, 3), which_way_back, pulled),
        Case(lambda: pairs(dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        vectors + (chosen - vectors).detach() -> chosen
            You return `chosen`, and no gradient reaches `vectors`. (In vectors + (chosen - vectors), without detach,
            the two cancel.)
        vectors + (chosen - vectors).detach() -> vectors
            In the forward pass yours returns `vectors`. It has to be `chosen`, because the decoder may see nothing but
            codes. (In chosen + (vectors - chosen).detach() the two are swapped.)
        vectors + (chosen - vectors).detach() -> vectors.detach() + (chosen - vectors).detach()
            All of yours is detached, so no gradient flows anywhere. One `vectors` has to stay as it is.
        vectors + (chosen - vectors).detach() -> vectors.detach() + chosen - vectors
            You detached the other `vectors`: now its gradient has the wrong sign, and `chosen` gets one, too.
        vectors + (chosen - vectors).detach() -> chosen.detach() + vectors.detach() - vectors
            The forward pass is right, but the gradient by `vectors` has the wrong sign.
        vectors + (chosen - vectors).detach() -> chosen + vectors - vectors.detach()
            `chosen` gets a gradient, too. Here it is a constant: codes are learned by the quantiser's loss.
        chosen - vectors -> vectors - chosen
            The difference has the wrong sign: vectors + (vectors - chosen) is not `chosen`.
        vectors + (chosen - vectors).detach() -> (vectors + chosen) / 2
            You return the mean of both. In the forward pass it should be `chosen` alone.
        vectors + (chosen - vectors).detach() -> vectors + chosen.detach()
            You add `chosen` itself. Add only the difference: chosen - vectors.
        vectors + (chosen - vectors).detach() -> (chosen - vectors).detach()
            That is the difference alone. Add it to `vectors`.
        vectors + (chosen - vectors).detach() -> 2 * vectors + (chosen - 2 * vectors).detach()
            The forward pass is right, but the gradient is twice what it should be.
        vectors + (chosen - vectors).detach() -> (vectors + chosen) / 2 + ((chosen - vectors) / 2).detach()
            Half of the gradient goes to `vectors` and half to `chosen`. All of it should go to `vectors`.
        vectors + (chosen - vectors).detach() -> vectors * (chosen / vectors).detach()
            The forward pass is right. The backward pass multiplies by chosen / vectors: add a constant instead of
            multiplying by one.
    """),
)


def my_quantiser_loss(vectors, chosen, commitment):
    codes_move = (chosen - vectors.detach()).square().mean()  # the vectors are constants
    vectors_move = (vectors - chosen.detach()).square().mean()  # the codes are
    return codes_move + commitment * vectors_move


def quantised(N=5, E=4, commitment=0.4, dtype=torch.float64):
    """Vectors and the codes chosen for them, (N, E), and a factor."""
    return torch.randn(N, E).to(dtype), torch.randn(N, E).to(dtype), commitment


def which_gradient(answer, solution, arguments):
    """Which of the two gradients is wrong."""
    (to_vectors, to_chosen), (right, _) = (pulled(one, *arguments) for one in (answer, solution))
    if not same(to_vectors, right):
        return (
            "The value is right, its gradient by `vectors` is not: it comes from the second term, times `commitment`."
        )
    return "The value is right, its gradient by `chosen` is not: it comes from the first term alone."


QUANTISER_LOSS = Exercise(
    solution=my_quantiser_loss,
    cases=(
        Case(
            quantised,
            narrowed(
                (
                    lambda given: (given["vectors"][:1, :1], given["chosen"][:1, :1], 0.0),
                    "With one number and commitment = 0 it is wrong already: the square of the difference.",
                ),
                (
                    lambda given: (given["vectors"], given["chosen"], 0.0),
                    "With one number it is right, with several it is wrong: the mean over all N E of them.",
                ),
                otherwise="With commitment = 0 it is right, with another it is wrong: add that times the second term.",
            ),
        ),
        Case(quantised, which_gradient, pulled),
        Case(lambda: quantised(1, 1, 0.25), OTHER_SIZES),
        Case(lambda: quantised(3, 2, 0.0), "With commitment = 0 nothing pulls `vectors`: there it is wrong.", pulled),
        Case(lambda: quantised(commitment=1.5), "With a commitment above 1 it is wrong."),
        Case(lambda: quantised(dtype=torch.float32), SINGLE),
    ),
    mistakes=slips("""
        vectors.detach() -> vectors
        chosen.detach() -> chosen
            You detach nothing, so both terms move both sides. In each of them one side is a constant.
        return codes_move -> return codes_move.detach()
        commitment * vectors_move -> commitment * vectors_move.detach()
            All of yours is detached, or made a number by .item(), so nothing can be learned from it.
        return codes_move + commitment * vectors_move -> return commitment * codes_move + vectors_move
            The value is right, but the terms have swapped their roles: `commitment` belongs to the term that moves
            `vectors`, the one in which `chosen` is detached.
        (chosen - vectors.detach()) -> (chosen.detach() - vectors)
            You detach `chosen` in both terms, so the codes learn nothing. In the first term `vectors` is the constant.
        (vectors - chosen.detach()) -> (vectors.detach() - chosen)
            You detach `vectors` in both terms, so the encoder is not pulled. In the second term `chosen` is the
            constant.
        chosen.detach() -> chosen
            Your second term moves the codes as well: detach `chosen` there.
        vectors.detach() -> vectors
            Your first term moves the vectors as well: detach `vectors` there.
        commitment * vectors_move -> vectors_move
            You left out `commitment`, the weight of the second term.
        commitment * vectors_move -> 0.25 * vectors_move
            You wrote 0.25 into the code. Use the argument `commitment`.
        codes_move + commitment * vectors_move -> codes_move
            You return the mean square once, but it should be 1 + commitment times that: the first term counts once, and
            `commitment` times the second is added. Is the second missing, or does the first count less than once?
        codes_move + commitment * vectors_move -> commitment * vectors_move
            The first term is missing: the mean square that moves the codes.
        codes_move + commitment * vectors_move -> codes_move - commitment * vectors_move
            You subtract the second term. Both should become small, so add it.
        .square().mean() -> .square().sum()
            You sum over all numbers. Take the mean.
        .square().mean() -> .square().sum(dim=1).mean()
            You sum over the E numbers of a vector and take the mean over vectors. Here it is the mean over all N E.
        .square().mean() -> .square().mean(dim=1)
            You return a number for each vector. Return one number.
        .square().mean() -> .mean()
            You forgot to square: positive and negative differences cancel.
        .square().mean() -> .abs().mean()
            You take absolute differences. Square them.
        .square().mean() -> .mean().square()
            You take the mean before you square, so positive and negative differences cancel.
        .square().mean() -> .square().mean().sqrt()
            You take the root. A mean square has none.
        .square().mean() -> .square().mean() / 2
            You take half of it. Return the means of the squares.
    """),
)

EXERCISES = [NEAREST, STRAIGHT_THROUGH, QUANTISER_LOSS]
