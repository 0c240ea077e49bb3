"""Lesson 12, what the records show: what reconstructing images is worth for naming them, and what windows cost."""

from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.masked_images import core as masked_images
from course_lib.workshop.experiments.masked_images import windows as masked_images_windows

GUESS = 1 / 52  # of the letters
MEAN_IMAGE = 1.0  # an error, of the mean image's


def _named(start, n, part="test"):
    return recorded(masked_images.few_names).numbers(part, str(n), start=start)


def _rule(rule, n):
    return recorded(masked_images.rules).numbers(rule, names=n)


@finding(
    "With patches of 4 × 4, three quarters masked, mask tokens in the encoder cost half as much time again or more",
    chance=1.0,
)
def mask_tokens_cost_time():
    pace = recorded(masked_images.pace)
    way = {"patch": 4, "hidden": 0.75}
    return pace.numbers("as a token", **way) / pace.numbers("left out", **way), ">=", 1.5


@finding(
    "With 1,000 labels, a ViT that has reconstructed images names at least 5 points more letters in new typefaces than"
    " a new one",
    chance=GUESS,
)
def reconstructing_helps():
    return _named("painting", 1000) - _named("random weights", 1000), ">=", 0.05


@finding("With 300 labels, a linear model of the pixels is at least 2 points ahead of it", chance=GUESS)
def linear_model_is_ahead():
    return _rule("linear", 300) - _named("painting", 300), ">=", 0.02


@finding("Reconstructing shuffled patches helps at least 5 points less, with 1,000 labels", chance=GUESS)
def shuffled_patches_help_less():
    return (
        _named("painting", 1000) - recorded(masked_images.few_names_disorder).numbers("test", "1000").most,
        ">=",
        0.05,
    )


@finding("As many seconds of training with 1,000 labels alone reach at least 2 points less", chance=GUESS)
def as_many_seconds_reach_less():
    return _named("painting", 1000) - recorded(masked_images.as_long).numbers("test", names=1000).most, ">=", 0.02


@finding("After 1,000 steps the ViT reconstructs the masked half at least 5 % worse than a linear model", chance=1.0)
def a_short_training_is_behind_a_linear_model():
    error = recorded(masked_images.how_much).numbers("error", hidden=0.5)
    return error / recorded(masked_images.painting_rules).numbers("linear", hidden=0.5).mean, ">=", 1.05


@finding("Shifting the windows takes away at least 70 % of what windows lose beside their borders", chance=MEAN_IMAGE)
def shifts_mend_the_borders():
    shifts = recorded(masked_images_windows.shifts)
    windows, shifted, every = (
        shifts.numbers("seam", look=one) for one in ("windows", "shifted windows", "all patches")
    )
    return windows - shifted, ">=", 0.7 * (windows.mean - every.mean), windows - every.mean, ">=", 0.05


@finding(
    "With the borders elsewhere, the old borders are reconstructed at least 0.06 better and the other patches 0.03 "
    "worse",
    chance=MEAN_IMAGE,
)
def it_is_the_border():
    shifts = recorded(masked_images_windows.shifts)
    better = shifts.numbers("seam", look="windows") - shifts.numbers("seam", look="windows elsewhere")
    worse = shifts.numbers("inside", look="windows elsewhere") - shifts.numbers("inside", look="shifted windows")
    return better, ">=", 0.06, worse, ">=", 0.03


@finding(
    "Frozen, with 1,000 labels, the pre-trained ViT is read out at least 8 points better than random weights and 5 "
    "points worse than the pixels",
    chance=GUESS,
)
def frozen_between_random_and_pixels():
    frozen = _named("painting", 1000, "frozen")
    return frozen - _named("random weights", 1000, "frozen"), ">=", 0.08, _rule("linear", 1000) - frozen, ">=", 0.05


@finding("Blocks over all patches take at least 10 times as long as windows, for 256 × 256 pixels", chance=1.0)
def windows_save_time():
    cost = recorded(masked_images_windows.cost)
    return cost.numbers("all patches", pixels=256) / cost.numbers("windows", pixels=256), ">=", 10
