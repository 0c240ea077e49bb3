"""What models are given: sequences in batches, which of their places are real, and the checks that all layers share."""

from course_lib.inputs.reach import reach
from course_lib.inputs.sequences import (
    autocast_is_on,
    check_sequence,
    check_text,
    full_precision,
    is_whole,
    map_state,
    reading,
    select_rows,
    text_places,
    token_ids,
    transformed,
    visible,
    whole_lengths,
    widened,
)
from course_lib.inputs.shapes import broadcasts, check_same_shapes, check_shapes

__all__ = [
    "autocast_is_on",
    "broadcasts",
    "check_same_shapes",
    "check_sequence",
    "check_shapes",
    "check_text",
    "full_precision",
    "is_whole",
    "map_state",
    "reach",
    "reading",
    "select_rows",
    "text_places",
    "token_ids",
    "transformed",
    "visible",
    "whole_lengths",
    "widened",
]
