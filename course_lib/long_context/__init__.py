"""Reading far: windows, memories, buckets and states in place of a look at every place. Lesson 17."""

from course_lib.long_context.all_orders import AllOrders, order_masks
from course_lib.long_context.hashing import SELF_SCORE, HashedHeads, hash_buckets, hashed_attention, meetings
from course_lib.long_context.linear_attention import (
    DeltaHeads,
    LinearHeads,
    delta_step,
    features,
    linear_attention,
    linear_step,
)
from course_lib.long_context.reversible import ReversibleStack, reversed_step, reversible_step
from course_lib.long_context.segments import SegmentConfig, SegmentReader, recalled, relative_scores
from course_lib.long_context.window import LocalHeads, band_mask, check_alone, check_whole_row, cone, local_attention

__all__ = [
    "SELF_SCORE",
    "DeltaHeads",
    "HashedHeads",
    "LinearHeads",
    "LocalHeads",
    "ReversibleStack",
    "SegmentConfig",
    "SegmentReader",
    "AllOrders",
    "band_mask",
    "check_alone",
    "check_whole_row",
    "cone",
    "delta_step",
    "features",
    "hash_buckets",
    "hashed_attention",
    "linear_attention",
    "linear_step",
    "local_attention",
    "meetings",
    "order_masks",
    "recalled",
    "relative_scores",
    "reversed_step",
    "reversible_step",
]
