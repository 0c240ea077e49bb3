"""Lesson 18, how a vector becomes a code: the nearest one, the straight-through gradient, the quantiser's loss.

The codes after the words, and a codebook to fix, are in `words_to_images_draw.py`.
"""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import OTHER_SIZES, SINGLE, Case, narrowed, pulled, same


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
    mistakes={
        "farthest": lambda vectors, codes: torch.cdist(vectors, codes).argmax(dim=1),
        "nearest_vector": lambda vectors, codes: torch.cdist(vectors, codes).argmin(dim=0),
        "dot_product": lambda vectors, codes: (vectors @ codes.T).argmax(dim=1),
        "angle": lambda vectors, codes: (vectors @ (codes / codes.norm(dim=1, keepdim=True)).T).argmax(dim=1),
        "without_2": lambda vectors, codes: (codes.square().sum(dim=1) - vectors @ codes.T).argmin(dim=1),
        "absolute": lambda vectors, codes: torch.cdist(vectors, codes, p=1).argmin(dim=1),
        "codes_themselves": lambda vectors, codes: codes[my_nearest(vectors, codes)],
        "counted_from_1": lambda vectors, codes: my_nearest(vectors, codes) + 1,
    },
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
    mistakes={
        "no_gradient": lambda vectors, chosen: chosen.clone(),
        "vectors_themselves": lambda vectors, chosen: vectors.clone(),
        "all_detached": lambda vectors, chosen: chosen.detach().clone(),
        "other_detached": lambda vectors, chosen: vectors.detach() + chosen - vectors,
        "codes_learn": lambda vectors, chosen: chosen + vectors - vectors.detach(),
        "difference_reversed": lambda vectors, chosen: vectors + (vectors - chosen).detach(),
        "mean": lambda vectors, chosen: (vectors + chosen) / 2,
    },
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


def one_way(vectors, chosen, commitment):
    return (1 + commitment) * (vectors - chosen).square().mean()


def summed(vectors, chosen, commitment):
    return my_quantiser_loss(vectors, chosen, commitment) * vectors.numel()


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
    mistakes={
        "nothing_detached": one_way,
        "terms_exchanged": lambda vectors, chosen, commitment: my_quantiser_loss(chosen, vectors, commitment),
        "codes_learn_nothing": lambda vectors, chosen, commitment: one_way(vectors, chosen.detach(), commitment),
        "encoder_not_pulled": lambda vectors, chosen, commitment: one_way(vectors.detach(), chosen, commitment),
        "without_commitment": lambda vectors, chosen, commitment: my_quantiser_loss(vectors, chosen, 1.0),
        "all_detached": lambda vectors, chosen, commitment: my_quantiser_loss(vectors, chosen, commitment).detach(),
        "one_term": lambda vectors, chosen, commitment: my_quantiser_loss(vectors, chosen, 0.0),
        "summed": summed,
    },
)

EXERCISES = [NEAREST, STRAIGHT_THROUGH, QUANTISER_LOSS]
