"""Lesson 18, what its claims rest on: TO BE WRITTEN, what is measured, against which partner.

An experiment is a function of a seed and a variant, short enough to be shown. `make experiments LESSON=18` runs
what its record lacks, or holds from other code; the notebook reads `recorded(spread)` and adds a live run.
"""

import torch

from course_lib.experiments import each, experiment
from course_lib.multimodal.words_to_images import words_to_images


@experiment(each(width=[4, 16]))
def spread(seed, width):
    """TO BE WRITTEN: what this measures, in one sentence, which pages show."""
    return measures(torch.randn(1000, width))


def measures(x):
    """What a run is asked, the recorded one and the notebook's alike."""
    return {"before": x.var(), "after": words_to_images(x).var()}
