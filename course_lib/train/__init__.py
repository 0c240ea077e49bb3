"""Training: the loop of lesson 01 grown up, its checkpoints, the models that the course stored. Knows no model."""

from course_lib.train.device import course_seed, pick_device, seed_everything, to_device
from course_lib.train.loop import cosine, fit
from course_lib.train.readings import History
from course_lib.train.together import stopping, train_together

__all__ = [
    "History",
    "cosine",
    "course_seed",
    "fit",
    "pick_device",
    "seed_everything",
    "stopping",
    "to_device",
    "train_together",
]
