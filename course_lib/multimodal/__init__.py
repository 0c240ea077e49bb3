"""Images and words: two towers with one space, captions written by looking, one Transformer for both."""

from course_lib.multimodal.captions import Captioner, over_image, share_inside
from course_lib.multimodal.clip import CLIP, TEMPERATURE, ImageTower, TextTower, quick_gelu
from course_lib.multimodal.contrastive import contrastive_loss, diagonal, scores_of
from course_lib.multimodal.one_stream import OneStream, WordsAndImage
from course_lib.multimodal.quantiser import COMMITMENT, SELDOM, Quantiser, nearest_code, straight_through
from course_lib.multimodal.two_streams import CoLayer, OtherBlock, TwoStreams
from course_lib.multimodal.vq_vae import VQVAE
from course_lib.multimodal.words_then_codes import codes_loss, draw, nats, row_of
from course_lib.multimodal.zero_shot import class_features, search, zero_shot

__all__ = [
    "CLIP",
    "COMMITMENT",
    "Captioner",
    "CoLayer",
    "ImageTower",
    "OneStream",
    "OtherBlock",
    "Quantiser",
    "SELDOM",
    "TEMPERATURE",
    "TextTower",
    "TwoStreams",
    "VQVAE",
    "WordsAndImage",
    "class_features",
    "codes_loss",
    "contrastive_loss",
    "diagonal",
    "draw",
    "nats",
    "nearest_code",
    "over_image",
    "quick_gelu",
    "row_of",
    "scores_of",
    "search",
    "share_inside",
    "straight_through",
    "zero_shot",
]
