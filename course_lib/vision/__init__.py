"""Images as sequences: patches, the Vision Transformer, a convolutional network beside it, and what both see."""

from course_lib.vision.convnet import ConvLayer, ConvNet, ConvStem, width_for
from course_lib.vision.distillation import hard_distillation, soft_distillation, taught_by
from course_lib.vision.images import (
    LARGEST,
    accuracy,
    answers,
    image_batch,
    image_loss,
    labelled_batches,
    pixel_order,
    random_shift,
    share_of_each,
    shift,
    shuffle_pixels,
    varied_batches,
)
from course_lib.vision.masked_patches import MaskedAutoencoder, draw_seen
from course_lib.vision.patches import (
    PatchEmbedding,
    grid_of,
    only_seen,
    pad_to_patches,
    patchify,
    place_similarity,
    resize_places,
    unpatchify,
)
from course_lib.vision.rollout import attention_distance, brightness, cover, most, rollout
from course_lib.vision.vit import PUBLISHED, ViT, ViTConfig, parameter_count

__all__ = [
    "ConvLayer",
    "ConvNet",
    "ConvStem",
    "LARGEST",
    "MaskedAutoencoder",
    "PUBLISHED",
    "PatchEmbedding",
    "ViT",
    "ViTConfig",
    "accuracy",
    "answers",
    "attention_distance",
    "brightness",
    "cover",
    "draw_seen",
    "grid_of",
    "hard_distillation",
    "image_batch",
    "image_loss",
    "labelled_batches",
    "most",
    "only_seen",
    "pad_to_patches",
    "parameter_count",
    "patchify",
    "pixel_order",
    "place_similarity",
    "random_shift",
    "resize_places",
    "rollout",
    "share_of_each",
    "shift",
    "shuffle_pixels",
    "soft_distillation",
    "taught_by",
    "unpatchify",
    "varied_batches",
    "width_for",
]
