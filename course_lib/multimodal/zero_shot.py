"""Zero-shot: a classifier whose weights are texts, and search by words or by an image. Lesson 11.

Shapes: B images, K classes, P prompts of a class, M asked, N known, E width of the features. All features have length
1, as `CLIP.image_features` and `CLIP.text_features` give them.
"""

import torch.nn.functional as F
from torch import Tensor

from course_lib.inputs.shapes import check_shapes
from course_lib.multimodal.contrastive import scores_of


def class_features(prompts: Tensor) -> Tensor:
    """One feature for each class, of its prompts' features: (K, P, E) -> (K, E), of length 1.

    Their mean, brought back to length 1 (Radford et al., 2021, section 3.1.4: an ensemble in the space of features).
    """
    check_shapes("class_features", prompts=(prompts, "K P+ E"))
    return F.normalize(prompts.mean(dim=1), dim=-1)


def zero_shot(images: Tensor, classes: Tensor, scale: Tensor | float) -> Tensor:
    """p of each class for images (B, E), by the texts of the classes (K, E): softmax(scale i . t) -> (B, K).

    No weight is learned for the task: the texts are the classifier (section 3.1.2). scale: the model's.
    """
    return scores_of(images, classes, scale).softmax(dim=-1)


def search(asked: Tensor, known: Tensor, k: int = 5) -> tuple[Tensor, Tensor]:
    """The k nearest of the known (N, E) to each that is asked (M, E) -> indices int64 (M, k), cosines (M, k).

    By words among images, or by an image among words: it is the same. The nearest is first.
    """
    cosines, places = scores_of(asked, known, 1.0).topk(k, dim=1)
    return places, cosines
