"""Lesson 13: what pre-training buys where there are few pairs, and whether as many seconds of tuning buy as much.

Questions about territories (`recipes/text_to_text.py`). "right" is the share of test questions that are answered word
for word; all are about places that stand in no tuned pair. "train" asks about places that do.
"""

import time
from functools import cache

from course_lib.data.territories import facts
from course_lib.data.territory_wordings import KINDS
from course_lib.experiments import each, experiment
from course_lib.recipes.text_to_text import (
    STEPS,
    TUNING,
    answered,
    model,
    most_frequent,
    pretrained,
    share_right,
    tokens,
    tuned,
)

HERE = ["default"]  # the instruction set of what is dear
ASKED = (10, 50, 200, 426)  # facts that are asked about in tuning, each in six ways; 426 are all


def judged(one, known) -> dict:
    """What a model answers about test places: right, by kind, falsely as in the false text; and about tuned places."""
    test = facts("test")
    said = answered(one, test)
    by_kind = {
        kind: share_right(*zip(*[(text, fact) for text, fact in zip(said, test, strict=True) if fact.kind == kind],
                               strict=True))
        for kind in KINDS
    }  # fmt: skip
    return {
        "right": share_right(said, test),
        "false": share_right(said, test, false=True),
        "by kind": by_kind,
        "train": share_right(answered(one, known), known),
    }
