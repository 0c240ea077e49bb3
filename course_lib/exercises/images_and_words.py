"""Lesson 11, images and words: the contrastive loss, a classifier made of prompts, and a loss to mend.

The notebook holds the broken function word for word, under the name of its exercise. What is asked is in
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
    """What two towers give for B images and their texts, each of another length, 0.5 or more, and a scale."""
    directions, lengths = F.normalize(torch.randn(2, B, E, dtype=dtype), dim=-1), 0.5 + 3 * torch.rand(2, B, 1)
    lengths[:, 0] = 0.5
    return *directions * lengths.to(dtype), scale


def against_each_other(scale=300.0):
    """Images and texts in single precision; the first pair agrees, the last points to opposite sides."""
    images = torch.tensor([[3.0, 4.0], [-4.0, 3.0], [0.0, 2.0]])
    return images, torch.tensor([[3.0, 4.0], [3.0, -4.0], [0.0, -5.0]]), scale


def of_length_one(given):
    """A step of `narrowed`: the features have length 1 already."""
    return F.normalize(given["images"], dim=-1), F.normalize(given["texts"], dim=-1), given["scale"]


def of_length_one_at_scale_one(given):
    """A step of `narrowed`: and the scale changes nothing."""
    return *of_length_one(given)[:2], 1.0


about = partial(Case, tolerance=3e-5)  # who adds a millionth to a length or a sum, against 0 / 0, is right


LOSS = Exercise(
    title="The contrastive loss",
    solution=my_contrastive_loss,
    returns="the loss, a number",
    cases=(
        about(
            features,
            narrowed(
                (
                    of_length_one_at_scale_one,
                    "With features of length 1 and the scale 1 it is wrong already: two cross-entropies of "
                    "images @ texts.T, and their mean.",
                ),
                (of_length_one, "With the scale 1 it is right: the scores are scale times the cosines."),
                otherwise="With features of length 1 it is right. The towers give others: normalise each row.",
            ),
        ),
        about(lambda: features(1), OTHER_SIZES),
        about(lambda: features(4, 4), "With as many images as numbers in a feature it is wrong: over which dimension?"),
        about(lambda: features(scale=100.0), "With a large scale it is wrong: leave exp and log to F.cross_entropy."),
        about(against_each_other, OVERFLOW),
        about(features, NO_GRADIENT, ask=pulled),
        about(lambda: features(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "Bring every feature to length 1: F.normalize(x, dim=-1). Then a product of two is their cosine.",
        "scale * images @ texts.T has a row for each image and a column for each text, (B, B).",
        "Text b is right for image b: the right column of row b is b, torch.arange(B).",
        "F.cross_entropy(scores, right) asks each image for its text; scores.T asks each text. Take the mean.",
    ),
    mistakes=slips("""
        scale * images @ texts.T -> torch.tensor(scale).exp() * images @ texts.T
            You take exp of the scale. It comes as the scale itself; the library's log_scale is its logarithm.
        images, texts = F.normalize(images, dim=-1), F.normalize(texts, dim=-1) -> images, texts = images / images.norm(), texts / texts.norm()
            You divide by one length of the whole batch. Each row has its own: norm(dim=-1, keepdim=True).
        return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2 -> return (scores.log_softmax(1).diagonal().mean() + scores.log_softmax(0).diagonal().mean()) / 2
            Your minus is forgotten: that is the mean of log p, which training would make small. The loss is -log p.
        return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2 -> return F.binary_cross_entropy_with_logits(scores, torch.eye(len(scores)).to(scores))
            You ask of each pair by itself whether it fits (SigLIP's loss). Here the names of a batch compete: softmax.
        images, texts = F.normalize(images, dim=-1), F.normalize(texts, dim=-1) -> pass
            Your features keep their length, so a long one wins whatever its direction: normalise both.
        F.normalize(texts, dim=-1) -> texts
            Your texts keep their length. Both towers' features are normalised.
        F.normalize(images, dim=-1), -> images,
            Your images keep their length. Both towers' features are normalised.
        F.normalize(images, dim=-1), F.normalize(texts, dim=-1) -> F.normalize(images, dim=0), F.normalize(texts, dim=0)
            You normalise over the batch. Each feature, a row, is brought to length 1: dim=-1.
        (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2 -> F.cross_entropy(scores, right)
            Each image is asked for its text, and no text for its image: there is a second half, of scores.T.
        (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2 -> F.cross_entropy(scores.T, right)
            Each text is asked for its image, and no image for its text: there is a second half, of scores.
        (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2 -> F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)
            That is the sum of both halves. Their mean is asked: / 2.
        scale * images @ texts.T -> images @ texts.T
            You leave the scale out: cosines lie between -1 and 1, and a softmax of such numbers is nearly flat.
        scale * images @ texts.T -> images @ texts.T / scale
            You divide by the scale. It is one through the temperature, and multiplies.
        scale * images @ texts.T -> scale * texts @ texts.T
            You compare texts with texts. A score is of an image and a text.
        torch.arange(len(scores)) -> torch.zeros(len(scores), dtype=torch.long)
            You ask every image for the first text. Text b is right for image b.
        F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right) -> F.cross_entropy(scores.softmax(1), right) + F.cross_entropy(scores.T.softmax(1), right)
            F.cross_entropy takes scores, and has the softmax inside: in yours it is taken twice.
        return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2 -> return -scores.diagonal().mean()
            You pull right pairs together and push nothing apart: all features at one place would be best.
        return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2 -> return (F.cross_entropy(scores, right, reduction="sum") + F.cross_entropy(scores.T, right, reduction="sum")) / 2
            You add up over the batch. Take the mean, as F.cross_entropy does by itself.
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
    """Images in single precision that agree with the first class, with none, and with two alike; prompts of each."""
    images = torch.tensor([[1.0, 0.0], [-0.8, 0.6], [0.6, -0.8]])
    return images, torch.tensor([[[1.0, 0.0]], [[0.6, -0.8]], [[0.8, -0.6]]]).expand(-1, 2, -1), scale


ZERO_SHOT = Exercise(
    title="A classifier made of prompts",
    solution=my_zero_shot,
    returns="p of each class for each image, (B, K)",
    cases=(
        about(
            asked,
            narrowed(
                (
                    lambda given: (given["images"], given["prompts"][:, :1], given["scale"]),
                    "With one prompt a class it is wrong already: softmax over classes, of scale * images @ classes.T.",
                ),
                otherwise="With one prompt a class it is right. Of several take the mean, and bring it to length 1.",
            ),
        ),
        about(lambda: asked(1, 2, 1), OTHER_SIZES),
        about(lambda: asked(3, 3, 3), "With as many prompts as classes it is wrong: the mean is over dim=1, prompts."),
        about(lambda: asked(scale=2.0), "With another scale it is wrong: use the `scale` that is passed in."),
        about(all_against, OVERFLOW),
        about(asked, NO_GRADIENT, ask=pulled),
        about(lambda: asked(dtype=torch.float32), SINGLE),
    ),
    hints=(
        "A class is where its prompts are: the mean over dim=1, (K, E).",
        "The mean of directions is shorter than 1, the more they differ: F.normalize(..., dim=-1).",
        "Then it is a linear classifier whose weights are the classes: scale * images @ classes.T, (B, K).",
        "Its softmax over the classes, dim=-1, is p.",
    ),
    mistakes=slips("""
        F.normalize(prompts.mean(dim=1), dim=-1) -> (prompts.mean(dim=1) / prompts.mean(dim=1).norm())
            You divide by one length of all classes. Each class has its own: norm(dim=-1, keepdim=True).
        return (scale * images @ classes.T).softmax(dim=-1) -> classes = prompts.mean(dim=1); return (images @ classes.T).softmax(dim=-1)
            Two things are left out: the mean is not brought back to length 1, and the scale is missing.
        F.normalize(prompts.mean(dim=1), dim=-1) -> prompts.mean(dim=1)
            A mean of directions is shorter than 1: a class whose prompts differ would lose. Normalise it again.
        prompts.mean(dim=1) -> prompts[:, 0]
            You take the first prompt of each class alone.
        prompts.mean(dim=1) -> prompts.mean(dim=0)
            You take the mean over the classes. It is over the prompts of a class: dim=1.
        prompts.mean(dim=1) -> prompts.amax(dim=1)
            You take the largest of each number. The mean of the prompts is asked.
        return (scale * images @ classes.T).softmax(dim=-1) -> return (scale * torch.einsum("be,kpe->bkp", images, prompts)).amax(-1).softmax(dim=-1)
            You take the best prompt of each class. Their mean is asked: one text for a class.
        return (scale * images @ classes.T).softmax(dim=-1) -> return (scale * torch.einsum("be,kpe->bpk", images, prompts)).softmax(-1).mean(1)
            You take the mean of p over the prompts. It is taken in the space of features, before the softmax.
        softmax(dim=-1) -> softmax(dim=0)
            Your softmax is over the images. Each image shares out its own p over the classes: dim=-1.
        softmax(dim=-1) -> sigmoid()
            A sigmoid asks each class by itself. One of them is right: softmax.
        softmax(dim=-1) -> log_softmax(dim=-1)
            That is log p. Asked is p.
        return (scale * images @ classes.T).softmax(dim=-1) -> return scale * images @ classes.T
            Those are the scores. p is their softmax.
        scale * images @ classes.T -> images @ classes.T
            You leave the scale out: then p is nearly the same for all classes.
        scale * images @ classes.T -> images @ classes.T / scale
            You divide by the scale. It is one through the temperature, and multiplies.
        return (scale * images @ classes.T).softmax(dim=-1) -> return F.one_hot((images @ classes.T).argmax(-1), len(classes)).to(images)
            You give the best class all. p of each class is asked.
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
    """Scores (B, B), and which texts are right for an image: its own, and some that are right for it alone."""
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
    title="Find the bug: targets that are turned",
    solution=mended_name_loss,
    returns="the loss, a number",
    cases=(
        about(
            table,
            narrowed(
                (
                    lambda given: (given["scores"], torch.eye(len(given["scores"]), dtype=torch.bool)),
                    "With the diagonal alone it is wrong already: the loss of `my_contrastive_loss`.",
                ),
                (
                    lambda given: (given["scores"], given["right"] | given["right"].T),
                    "On the diagonal it is right. With a symmetric table it is not: each row of targets sums to 1.",
                ),
                otherwise="With a symmetric table it is right. This one is not: text 1 is right for image 0, and not "
                "text 0 for image 1.",
            ),
        ),
        about(lambda: table(1, 0.0), "With one image it is wrong."),
        about(lambda: table(5, 0.0), "With the diagonal alone it is wrong."),
        about(far_from_zero, OVERFLOW),
        about(table, NO_GRADIENT, ask=pulled),
        about(lambda: table(dtype=torch.float32), SINGLE),
    ),
    stub=broken_name_loss,
    hints=(
        "Write down a table of two images and two texts: text 1 is right for both images, text 0 for image 0 alone.",
        "What is asked of text 1, the second row of scores.T? And what do the broken targets ask of it?",
        "Row j of scores.T belongs to text j. Which images are right for it stands in column j of right.",
        "So the targets are right.T, each row of it brought to the sum 1: right.T / right.T.sum(dim=1, keepdim=True).",
    ),
    mistakes=slips("""
        asked = right.T / right.T.sum(dim=1, keepdim=True).to(scores) -> asked = right / right.sum(dim=1, keepdim=True).to(scores)
            The bug is still there: the scores are turned, the targets are not. Where the table is symmetric nobody sees
            it, and it trains.
        asked = right.T / right.T.sum(dim=1, keepdim=True).to(scores) -> asked = (right / right.sum(dim=1, keepdim=True).to(scores)).T
            You turn the targets of the images. Each was divided by its own row, so those of a text do not sum to 1.
        right.T / right.T.sum(dim=1, keepdim=True) -> right / right.sum(dim=0, keepdim=True)
            You divide by the columns and do not turn the table: row j of scores.T belongs to text j.
        F.cross_entropy(scores.T, asked) -> F.cross_entropy(scores, asked)
            The targets are turned in yours, the scores are not: texts are asked with scores.T.
        asked = right.T / right.T.sum(dim=1, keepdim=True).to(scores) -> asked = right.T.to(scores)
            Your targets are not shared: a text with two images counts twice. Divide each row by its sum.
        asked = right.T / right.T.sum(dim=1, keepdim=True).to(scores) -> asked = torch.eye(len(scores)).to(scores)
            Text j is asked for image j alone: another image of the same name counts as a mistake.
        right / right.sum(dim=1, keepdim=True).to(scores)) -> torch.eye(len(scores)).to(scores))
            Image i is asked for text i alone: the same name beside it counts as a mistake.
        asked = right.T / right.T.sum(dim=1, keepdim=True).to(scores) -> asked = right.T.int().argmax(dim=1)
            A text is asked for the first image that is right for it. All that are right share the target.
        right.T / right.T.sum(dim=1, keepdim=True) -> right.T / right.T.sum()
            You divide by all right ones of the table. Each row sums to 1.
        (to_texts + to_images) / 2 -> to_texts + to_images
            That is the sum of both halves. Their mean is asked: / 2.
        (to_texts + to_images) / 2 -> to_images
            The images are not asked any more. Both halves count.
        (to_texts + to_images) / 2 -> to_texts
            You leave out the half with the bug. The texts must be asked as well.
        return (to_texts + to_images) / 2 -> return -((scores.softmax(1) * right).sum(1).log().mean() + (scores.softmax(0) * right).sum(0).log().mean()) / 2
            You take -log of the sum of p of all right ones: then one of them is enough. Here each has its share.
    """),  # noqa: E501
)


EXERCISES = [LOSS, ZERO_SHOT, NAMES]
