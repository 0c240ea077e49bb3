"""Every task as text in, text out: what spoils a text so that writing it again teaches, and how a task is asked."""

from course_lib.text_to_text.noise import (
    MEAN,
    SHARE,
    check_noise,
    document_rotation,
    sentence_permutation,
    span_lengths,
    text_infilling,
    token_deletion,
    token_masking,
)
from course_lib.text_to_text.spans import corrupt, draw_spans, restore, span_corruption
from course_lib.text_to_text.tasks import mixing_rates, number_as_text, prefix_mask, prefixed, target_loss

__all__ = [
    "MEAN",
    "SHARE",
    "check_noise",
    "corrupt",
    "document_rotation",
    "draw_spans",
    "mixing_rates",
    "number_as_text",
    "prefix_mask",
    "prefixed",
    "restore",
    "sentence_permutation",
    "span_corruption",
    "span_lengths",
    "target_loss",
    "text_infilling",
    "token_deletion",
    "token_masking",
]
