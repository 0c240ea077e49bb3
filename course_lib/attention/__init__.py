"""Attention and what is built of it: scores, masks, positions, heads, blocks, and the Transformer of 2017."""

from course_lib.attention.attention import (
    AdditiveAttention,
    Attention,
    ConcatAttention,
    DotAttention,
    GeneralAttention,
    SelfAttention,
    attend,
    causal_mask,
    masked_softmax,
    padding_mask,
)
from course_lib.attention.block import ACTIVATIONS, Block, Decoder, Encoder, FeedForward, GatedFeedForward, check_blocks
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.norms import LayerNorm, RMSNorm, layer_norm, rms_norm
from course_lib.attention.order_model import OrderModel
from course_lib.attention.positions import (
    PAIRINGS,
    LearnedPositions,
    RelativeBias,
    SinusoidalPositions,
    alibi_bias,
    alibi_slopes,
    clipped_bucket,
    rotate,
    sinusoidal,
    t5_bucket,
)
from course_lib.attention.transformer import PlacedEmbedding, Transformer, parameter_count

__all__ = [
    "ACTIVATIONS",
    "AdditiveAttention",
    "Attention",
    "Block",
    "ConcatAttention",
    "Decoder",
    "DotAttention",
    "Encoder",
    "FeedForward",
    "GatedFeedForward",
    "GeneralAttention",
    "LayerNorm",
    "LearnedPositions",
    "MultiHead",
    "OrderModel",
    "PAIRINGS",
    "PlacedEmbedding",
    "RMSNorm",
    "RelativeBias",
    "SelfAttention",
    "SinusoidalPositions",
    "Transformer",
    "alibi_bias",
    "alibi_slopes",
    "attend",
    "causal_mask",
    "check_blocks",
    "clipped_bucket",
    "layer_norm",
    "masked_softmax",
    "padding_mask",
    "parameter_count",
    "rms_norm",
    "rotate",
    "sinusoidal",
    "t5_bucket",
]
