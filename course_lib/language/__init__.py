"""Models that say the next token: GPT and a LLaMA-like decoder; how they train, write, and learn from a prompt."""

from course_lib.language.decoder import (
    Decoder,
    DecoderBlock,
    DecoderConfig,
    GatedFeedForward,
    GroupedHeads,
    RMSNorm,
    rms_norm,
)
from course_lib.language.generate import generate, keep_top_k, keep_top_p, next_probs
from course_lib.language.gpt import GPT, PUBLISHED, GPTConfig, parameter_count
from course_lib.language.in_context import (
    ARROW,
    LINE_END,
    Pair,
    Reading,
    accuracy,
    answers,
    draw,
    prompt,
    read,
    shuffled_pairs,
    wrong_labels,
)
from course_lib.language.muon import NEWTON_SCHULZ, Muon, orthogonalise, split
from course_lib.language.next_token import bits_per_token, next_token_loss, small_gpt, subwords, three_rounds, windows

__all__ = [
    "ARROW",
    "Decoder",
    "DecoderBlock",
    "DecoderConfig",
    "GPT",
    "GPTConfig",
    "GatedFeedForward",
    "GroupedHeads",
    "LINE_END",
    "Muon",
    "NEWTON_SCHULZ",
    "PUBLISHED",
    "Pair",
    "RMSNorm",
    "Reading",
    "accuracy",
    "answers",
    "bits_per_token",
    "draw",
    "generate",
    "keep_top_k",
    "keep_top_p",
    "next_probs",
    "next_token_loss",
    "orthogonalise",
    "parameter_count",
    "prompt",
    "read",
    "rms_norm",
    "shuffled_pairs",
    "small_gpt",
    "split",
    "subwords",
    "three_rounds",
    "windows",
    "wrong_labels",
]
