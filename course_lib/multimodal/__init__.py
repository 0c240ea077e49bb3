"""Images and words: two towers with one space, captions written by looking, one Transformer for both."""

from course_lib.multimodal.captions import Captioner, over_image, share_inside
from course_lib.multimodal.clip import CLIP, TEMPERATURE, ImageTower, TextTower, quick_gelu
from course_lib.multimodal.contrastive import contrastive_loss, diagonal, scores_of
from course_lib.multimodal.one_stream import OneStream, WordsAndImage
from course_lib.multimodal.two_streams import CoLayer, OtherBlock, TwoStreams
from course_lib.multimodal.zero_shot import class_features, search, zero_shot

__all__ = [
    "CLIP",
    "Captioner",
    "CoLayer",
    "ImageTower",
    "OneStream",
    "OtherBlock",
    "TEMPERATURE",
    "TextTower",
    "TwoStreams",
    "WordsAndImage",
    "class_features",
    "contrastive_loss",
    "diagonal",
    "over_image",
    "quick_gelu",
    "scores_of",
    "search",
    "share_inside",
    "zero_shot",
]
