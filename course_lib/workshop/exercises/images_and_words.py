"""Lesson 11, images and words: the contrastive loss, a classifier made of prompts, and a loss with a bug.

The notebook holds the broken function word for word, under the name of its exercise.
"""

from functools import partial

import torch
import torch.nn.functional as F

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, narrowed, pulled


def my_contrastive_loss(images, texts, scale):
    images, texts = F.normalize(images, dim=-1), F.normalize(texts, dim=-1)
    scores = scale * images @ texts.T  # (B, B)
    right = torch.arange(len(scores))
    return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2


def features(B=6, E=4, scale=3.0, dtype=torch.float64):
    """The outputs of two towers for B images and their texts, each of another length, 0.5 or more, and a scale."""
    directions, lengths = F.normalize(torch.randn(2, B, E, dtype=dtype), dim=-1), 0.5 + 3 * torch.rand(2, B, 1)
    lengths[:, 0] = 0.5
    return *directions * lengths.to(dtype), scale


def against_each_other(scale=300.0):
    """Images and texts in single precision; the first pair agrees, the last points in opposite directions."""
    images = torch.tensor([[3.0, 4.0], [-4.0, 3.0], [0.0, 2.0]])
    return images, torch.tensor([[3.0, 4.0], [3.0, -4.0], [0.0, -5.0]]), scale


def of_length_one(given):
    """A step of `narrowed`: the features have length 1 already."""
    return F.normalize(given["images"], dim=-1), F.normalize(given["texts"], dim=-1), given["scale"]


def of_length_one_at_scale_one(given):
    """A step of `narrowed`: the scale, too, changes nothing."""
    return *of_length_one(given)[:2], 1.0


about = partial(Case, tolerance=3e-5)  # a millionth added to a length or a sum, against 0 / 0, is accepted


def both_choose(scores):
    right = torch.arange(len(scores))
    return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2


def over_the_batch(images, texts, scale):
    return both_choose(scale * F.normalize(images, dim=0) @ F.normalize(texts, dim=0).T)


def images_choose(images, texts, scale):
    scores = scale * F.normalize(images, dim=-1) @ F.normalize(texts, dim=-1).T
    return F.cross_entropy(scores, torch.arange(len(scores)))


LOSS = Exercise(
    solution=my_contrastive_loss,
    cases=(
        about(
            features,
            narrowed(
                (
                    of_length_one_at_scale_one,
                    "With features of length 1 and the scale 1 it is wrong already: take the mean of two "
                    "cross-entropies of images @ texts.T.",
                ),
                (of_length_one, "With the scale 1 it is correct. The scores are the scale times the cosines."),
                otherwise="With features of length 1 it is correct. The towers return others: normalise each row.",
            ),
        ),
        about(lambda: features(1), OTHER_SIZES),
        about(lambda: features(4, 4), "With as many images as features it is wrong: which dimension do you use?"),
        about(lambda: features(scale=100.0), "With a large scale it is wrong: leave exp and log to F.cross_entropy."),
        about(against_each_other, OVERFLOW),
        about(features, NO_GRADIENT, ask=pulled),
        about(lambda: features(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "not_normalised": lambda images, texts, scale: both_choose(scale * images @ texts.T),
        "over_the_batch": over_the_batch,
        "images_choose": images_choose,
        "sum_of_halves": lambda images, texts, scale: 2 * my_contrastive_loss(images, texts, scale),
        "without_scale": lambda images, texts, scale: my_contrastive_loss(images, texts, 1.0),
        "divided_by_scale": lambda images, texts, scale: my_contrastive_loss(images, texts, 1 / scale),
        "exp_of_scale": lambda images, texts, scale: my_contrastive_loss(images, texts, torch.tensor(scale).exp()),
        "wrong_sign": lambda images, texts, scale: -my_contrastive_loss(images, texts, scale),
    },
)


def my_zero_shot(images, prompts, scale):
    classes = F.normalize(prompts.mean(dim=1), dim=-1)  # (K, E)
    return (scale * images @ classes.T).softmax(dim=-1)  # (B, K)


def asked(B=4, K=3, P=5, E=6, scale=8.0, dtype=torch.float64):
    """Features of images (B, E) and of P prompts for each of K classes (K, P, E), of length 1, and a scale."""
    shapes = (B, E), (K, P, E)
    return *(F.normalize(torch.randn(shape, dtype=dtype), dim=-1) for shape in shapes), scale


def all_against(scale=300.0):
    """Images in single precision that agree with the first class, with none, and equally with two; their prompts."""
    images = torch.tensor([[1.0, 0.0], [-0.8, 0.6], [0.6, -0.8]])
    return images, torch.tensor([[[1.0, 0.0]], [[0.6, -0.8]], [[0.8, -0.6]]]).expand(-1, 2, -1), scale


def class_scores(images, prompts, scale):
    return scale * images @ F.normalize(prompts.mean(dim=1), dim=-1).T


def not_normalised(images, prompts, scale):
    return (scale * images @ prompts.mean(dim=1).T).softmax(dim=-1)


def mean_of_p(images, prompts, scale):
    return (scale * torch.einsum("be,kpe->bpk", images, prompts)).softmax(dim=-1).mean(dim=1)


ZERO_SHOT = Exercise(
    solution=my_zero_shot,
    cases=(
        about(
            asked,
            narrowed(
                (
                    lambda given: (given["images"], given["prompts"][:, :1], given["scale"]),
                    "Even one prompt per class is wrong: softmax over the classes of scale * images @ classes.T.",
                ),
                otherwise="With one prompt per class it is correct. With several, take the mean and normalise it.",
            ),
        ),
        about(lambda: asked(1, 2, 1), OTHER_SIZES),
        about(
            lambda: asked(3, 3, 3),
            "With as many prompts as classes it is wrong: take the mean over the prompts, dim=1.",
        ),
        about(lambda: asked(scale=2.0), "With another scale it is wrong: use the `scale` that is passed in."),
        about(all_against, OVERFLOW),
        about(asked, NO_GRADIENT, ask=pulled),
        about(lambda: asked(dtype=torch.float32), SINGLE),
    ),
    mistakes={
        "not_normalised": not_normalised,
        "first_prompt": lambda images, prompts, scale: my_zero_shot(images, prompts[:, :1], scale),
        "mean_over_classes": lambda images, prompts, scale: my_zero_shot(images, prompts.transpose(0, 1), scale),
        "mean_of_p": mean_of_p,
        "over_images": lambda images, prompts, scale: class_scores(images, prompts, scale).softmax(dim=0),
        "scores": class_scores,
        "without_scale": lambda images, prompts, scale: my_zero_shot(images, prompts, 1.0),
    },
)


def broken_name_loss(scores, right):
    """scores (B, B); right bool (B, B): is text j right for image i? Several may be."""
    targets = right / right.sum(dim=1, keepdim=True).to(scores)  # (B, B): each row sums to 1
    to_texts = F.cross_entropy(scores, targets)
    to_images = F.cross_entropy(scores.T, targets)
    return (to_texts + to_images) / 2


def mended_name_loss(scores, right):
    to_texts = F.cross_entropy(scores, right / right.sum(dim=1, keepdim=True).to(scores))
    asked = right.T / right.T.sum(dim=1, keepdim=True).to(scores)  # (B, B): a row for each text
    to_images = F.cross_entropy(scores.T, asked)
    return (to_texts + to_images) / 2


def table(B=6, more=0.3, dtype=torch.float64):
    """Scores (B, B), and which texts are correct for an image: its own, and some that are correct for it alone."""
    right = torch.eye(B, dtype=torch.bool)
    if more:
        right |= torch.rand(B, B) < more
        right[0, 1:3], right[1:3, 0] = True, False  # text 1 is right for image 0, text 0 is not for image 1
    return 2 * torch.randn(B, B, dtype=dtype), right


def far_from_zero():
    """A table in single precision: the first image has high scores alone, the second low ones, the third is wrong."""
    scores = torch.tensor([[300.0, 299, 100], [-300, -301, -299], [0, 300, -300]])
    return scores, torch.tensor([[1, 1, 0], [0, 1, 0], [0, 0, 1]]) > 0


def shares(right):
    return right / right.sum(dim=1, keepdim=True)


def texts_asked(targets):
    """A wrong answer to `mended_name_loss`: targets(right) for the texts."""

    def loss(scores, right):
        to_texts = F.cross_entropy(scores, shares(right).to(scores))
        return (to_texts + F.cross_entropy(scores.T, targets(right).to(scores))) / 2

    return loss


NAMES = Exercise(
    solution=mended_name_loss,
    cases=(
        about(
            table,
            narrowed(
                (
                    lambda given: (given["scores"], torch.eye(len(given["scores"]), dtype=torch.bool)),
                    "It is wrong even with the diagonal alone, where it is the loss of `my_contrastive_loss`.",
                ),
                (
                    lambda given: (given["scores"], given["right"] | given["right"].T),
                    "With the diagonal it is correct, with a symmetric table it is not: each row of targets sums to 1.",
                ),
                otherwise="With a symmetric table it is correct. This one is not: text 1 is correct for image 0, but "
                "text 0 is wrong for image 1.",
            ),
        ),
        about(lambda: table(1, 0.0), "With one image it is wrong."),
        about(lambda: table(5, 0.0), "With the diagonal alone it is wrong."),
        about(far_from_zero, OVERFLOW),
        about(table, NO_GRADIENT, ask=pulled),
        about(lambda: table(dtype=torch.float32), SINGLE),
    ),
    stub=broken_name_loss,
    mistakes={
        "bug_still_there": broken_name_loss,
        "transposed_afterwards": texts_asked(lambda right: shares(right).T),
        "not_divided": texts_asked(lambda right: right.T),
        "own_image_only": texts_asked(lambda right: torch.eye(len(right))),
        "divided_by_all": texts_asked(lambda right: right.T / right.sum()),
        "sum_of_halves": lambda scores, right: 2 * mended_name_loss(scores, right),
        "images_choose": lambda scores, right: F.cross_entropy(scores, shares(right).to(scores)),
    },
)


EXERCISES = [LOSS, ZERO_SHOT, NAMES]
