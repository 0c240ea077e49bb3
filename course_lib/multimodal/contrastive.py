"""The contrastive loss: each image is to find its name in the batch, and each name its image. Lesson 11.

Shapes: B images, M texts, D width of the features. Scores are scaled cosines, a row for each image.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.inputs.sequences import visible
from course_lib.inputs.shapes import check_shapes


def scores_of(images: Tensor, texts: Tensor, scale: Tensor | float) -> Tensor:
    """scale * cosine of every image and every text: images (B, D), texts (M, D), features of length 1 -> (B, M)."""
    check_shapes("scores_of", images=(images, "B D"), texts=(texts, "M D"))
    return scale * images @ texts.T


def contrastive_loss(scores: Tensor, right: Tensor) -> Tensor:
    """The mean of two cross-entropies: each image among the texts, each text among the images -> a number.

    scores (B, M); right bool (B, M): is text m right for image b? Several right ones share the target equally. With one
    right one in each row and column, the diagonal, it is the loss of CLIP (Radford et al., 2021, section 2.3, figure
    3). Raises ValueError, where it can be seen, for a row or a column without a right one.
    """
    check_shapes("contrastive_loss", scores=(scores, "B+ M+"), right=(right, "bool B M"))
    _check_right(right)
    to_texts = right / right.sum(dim=1, keepdim=True).to(scores)  # (B, M): each row sums to 1
    to_images = right / right.sum(dim=0, keepdim=True).to(scores)  # (B, M): each column sums to 1
    rows, columns = F.cross_entropy(scores, to_texts), F.cross_entropy(scores.T, to_images.T)
    return (rows + columns) / 2


def diagonal(scores: Tensor) -> Tensor:
    """Index targets: text b alone is right for image b, whatever the others say: scores (B, B) -> bool (B, B)."""
    check_shapes("diagonal", scores=(scores, "B B"))
    return torch.eye(len(scores), dtype=torch.bool, device=scores.device)


def _check_right(right: Tensor) -> None:
    if visible(right) and not (right.any(dim=0).all() and right.any(dim=1).all()):
        raise ValueError("Each image needs a right text in the batch, and each text a right image: a row or column of "
                         "`right` holds none.")  # fmt: skip
