"""Lesson 11, images and words: the contrastive loss, a classifier made of prompts, and a loss with a bug.

The notebook holds the broken function word for word, under the name of its exercise. The questions are in
`images_and_words_questions.py`.
"""

from functools import partial

import torch
import torch.nn.functional as F

from course_lib.exercises import Exercise
from course_lib.exercises.probes import NO_GRADIENT, OTHER_SIZES, OVERFLOW, SINGLE, Case, narrowed, pulled
from course_lib.exercises.slips import slips


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
    mistakes=slips("""
        scale * images @ texts.T -> torch.tensor(scale).exp() * images @ texts.T
            You apply exp to the scale, but you get the scale itself. Only the library's log_scale is a logarithm.
        images, texts = F.normalize(images, dim=-1), F.normalize(texts, dim=-1) -> images, texts = images / images.norm(), texts / texts.norm()
            You divide by one length for the whole batch. Each row has its own length: norm(dim=-1, keepdim=True).
        return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2 -> return (scores.log_softmax(1).diagonal().mean() + scores.log_softmax(0).diagonal().mean()) / 2
            The minus sign is missing: this is the mean of log p, which training would make small. The loss is -log p.
        return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2 -> return F.binary_cross_entropy_with_logits(scores, torch.eye(len(scores)).to(scores))
            You decide about each pair separately (SigLIP's loss). Here the names of a batch compete: use softmax.
        images, texts = F.normalize(images, dim=-1), F.normalize(texts, dim=-1) -> pass
            Your features keep their length, so a long one wins whatever its direction. Normalise both.
        F.normalize(texts, dim=-1) -> texts
            Your texts keep their length. Normalise the features of both towers.
        F.normalize(images, dim=-1), -> images,
            Your images keep their length. Normalise the features of both towers.
        F.normalize(images, dim=-1), F.normalize(texts, dim=-1) -> F.normalize(images, dim=0), F.normalize(texts, dim=0)
            You normalise over the batch. Normalise each feature, which is a row: dim=-1.
        (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2 -> F.cross_entropy(scores, right)
            Each image chooses a text, but no text chooses an image: add the second half, with scores.T.
        (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2 -> F.cross_entropy(scores.T, right)
            Each text chooses an image, but no image chooses a text: add the second half, with scores.
        (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2 -> F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)
            That is the sum of both halves. Return their mean: / 2.
        scale * images @ texts.T -> images @ texts.T
            You leave out the scale. Cosines lie between -1 and 1, and a softmax of such numbers is nearly flat.
        scale * images @ texts.T -> images @ texts.T / scale
            You divide by the scale. The scale is 1 / temperature, so multiply by it.
        scale * images @ texts.T -> scale * texts @ texts.T
            You compare texts with texts. A score compares an image with a text.
        torch.arange(len(scores)) -> torch.zeros(len(scores), dtype=torch.long)
            Your target is the first text for every image. Text b belongs to image b.
        F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right) -> F.cross_entropy(scores.softmax(1), right) + F.cross_entropy(scores.T.softmax(1), right)
            F.cross_entropy takes scores and applies softmax itself, so you apply it twice.
        return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2 -> return -scores.diagonal().mean()
            You pull correct pairs together and push nothing apart, so it would be best to map everything to one point.
        return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2 -> return (F.cross_entropy(scores, right, reduction="sum") + F.cross_entropy(scores.T, right, reduction="sum")) / 2
            You sum over the batch. Take the mean, which F.cross_entropy does by default.
    """),  # noqa: E501
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
    mistakes=slips("""
        F.normalize(prompts.mean(dim=1), dim=-1) -> (prompts.mean(dim=1) / prompts.mean(dim=1).norm())
            You divide by one length for all classes. Each class has its own length: norm(dim=-1, keepdim=True).
        return (scale * images @ classes.T).softmax(dim=-1) -> classes = prompts.mean(dim=1); return (images @ classes.T).softmax(dim=-1)
            Two things are missing: you do not normalise the mean, and you leave out the scale.
        F.normalize(prompts.mean(dim=1), dim=-1) -> prompts.mean(dim=1)
            A mean of unit vectors is shorter than 1, so a class whose prompts differ would lose. Normalise it again.
        prompts.mean(dim=1) -> prompts[:, 0]
            You use only the first prompt of each class. Take the mean over all of them.
        prompts.mean(dim=1) -> prompts.mean(dim=0)
            You take the mean over the classes. Take it over the prompts of each class: dim=1.
        prompts.mean(dim=1) -> prompts.amax(dim=1)
            You take the maximum of each component. Take the mean of the prompts.
        return (scale * images @ classes.T).softmax(dim=-1) -> return (scale * torch.einsum("be,kpe->bkp", images, prompts)).amax(-1).softmax(dim=-1)
            You use the best prompt of each class. Take their mean, one vector per class.
        return (scale * images @ classes.T).softmax(dim=-1) -> return (scale * torch.einsum("be,kpe->bpk", images, prompts)).softmax(-1).mean(1)
            You take the mean of p over the prompts. Take the mean of the features, before the softmax.
        softmax(dim=-1) -> softmax(dim=0)
            Your softmax is over the images. For each image, p sums to 1 over the classes: dim=-1.
        softmax(dim=-1) -> sigmoid()
            A sigmoid treats each class separately. Exactly one of them is correct: use softmax.
        softmax(dim=-1) -> log_softmax(dim=-1)
            That is log p. Return p.
        return (scale * images @ classes.T).softmax(dim=-1) -> return scale * images @ classes.T
            These are the scores. Return their softmax.
        scale * images @ classes.T -> images @ classes.T
            You leave out the scale, so p is nearly the same for all classes.
        scale * images @ classes.T -> images @ classes.T / scale
            You divide by the scale. The scale is 1 / temperature, so multiply by it.
        return (scale * images @ classes.T).softmax(dim=-1) -> return F.one_hot((images @ classes.T).argmax(-1), len(classes)).to(images)
            You give the best class a probability of 1. Return p of each class.
    """),  # noqa: E501
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
    mistakes=slips("""
        asked = right.T / right.T.sum(dim=1, keepdim=True).to(scores) -> asked = right / right.sum(dim=1, keepdim=True).to(scores)
            The bug is still there: you transpose the scores but not the targets. With a symmetric table nobody notices,
            and it trains.
        asked = right.T / right.T.sum(dim=1, keepdim=True).to(scores) -> asked = (right / right.sum(dim=1, keepdim=True).to(scores)).T
            You transpose the targets of the images. These were divided by their rows, so those of a text do not sum to 1.
        right.T / right.T.sum(dim=1, keepdim=True) -> right / right.sum(dim=0, keepdim=True)
            You divide by the columns and do not transpose the table: row j of scores.T belongs to text j.
        F.cross_entropy(scores.T, asked) -> F.cross_entropy(scores, asked)
            You transpose the targets but not the scores: the texts choose with scores.T.
        asked = right.T / right.T.sum(dim=1, keepdim=True).to(scores) -> asked = right.T.to(scores)
            Your targets do not sum to 1, so a text with two images counts twice. Divide each row by its sum.
        asked = right.T / right.T.sum(dim=1, keepdim=True).to(scores) -> asked = torch.eye(len(scores)).to(scores)
            The target of text j is image j alone, so another image with the same name counts as a mistake.
        right / right.sum(dim=1, keepdim=True).to(scores)) -> torch.eye(len(scores)).to(scores))
            The target of image i is text i alone, so the same name elsewhere in the batch counts as a mistake.
        asked = right.T / right.T.sum(dim=1, keepdim=True).to(scores) -> asked = right.T.int().argmax(dim=1)
            The target of a text is the first correct image. All correct images share the target.
        right.T / right.T.sum(dim=1, keepdim=True) -> right.T / right.T.sum()
            You divide by the sum of the whole table. Each row should sum to 1.
        (to_texts + to_images) / 2 -> to_texts + to_images
            That is the sum of both halves. Return their mean: / 2.
        (to_texts + to_images) / 2 -> to_images
            You leave out the half in which the images choose. Both halves count.
        (to_texts + to_images) / 2 -> to_texts
            You leave out the half with the bug. The texts must choose as well.
        return (to_texts + to_images) / 2 -> return -((scores.softmax(1) * right).sum(1).log().mean() + (scores.softmax(0) * right).sum(0).log().mean()) / 2
            You take -log of the summed p of all correct ones, so one of them is enough. Here each gets an equal share.
    """),  # noqa: E501
)


EXERCISES = [LOSS, ZERO_SHOT, NAMES]
