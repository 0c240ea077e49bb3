"""Lesson 18, what the records show: what codes keep, what a GPT draws, and who picks."""

from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.words_to_images import (
    controls as words_to_images_controls,
)
from course_lib.workshop.experiments.words_to_images import (
    core as words_to_images,
)

NONE_RIGHT = 0.0  # the share of new names that an untrained GPT draws correctly


def _drawn(*path):
    return recorded(words_to_images.names_drawn).numbers(*path)


@finding("Without a typeface in the name, painted means are at least 1.5 times as grey as drawings", chance=1.0)
def painted_means_are_greyer():
    painted = recorded(words_to_images.meant).numbers("grey, no typeface told")
    drawn = recorded(words_to_images.no_face_told).numbers("grey")
    return painted / drawn.mean, ">=", 1.5, drawn, ">", 0.0


@finding(
    "After 300 steps with a straight-through gradient, the codes preserve at least 15 points more letters than with an "
    "encoder that is never trained",
    chance=NONE_RIGHT,
)
def straight_through_helps():
    straight = recorded(words_to_images.quantised).numbers("right", way="straight through")
    return straight - recorded(words_to_images_controls.encoder_at_random).numbers("right"), ">=", 0.15


@finding(
    "The stored GPT (800 steps) draws new names correctly at least 15 points less often than training names",
    chance=NONE_RIGHT,
)
def new_names_are_harder():
    found = recorded(words_to_images_controls.marks_drawn)
    return found.numbers("learned", "right") - found.numbers("new", "right"), ">=", 0.15


@finding(
    "After 800 steps, a GPT that writes patches found by k-means draws the typeface of new names correctly at least "
    "5 points more often than one that writes learned codes",
    chance=NONE_RIGHT,
)
def patches_keep_the_typeface():
    patches = recorded(words_to_images_controls.patches_drawn).numbers("test", "face")
    return patches - _drawn("test, 0.5", "face").most, ">=", 0.05


@finding(
    "After 800 steps, the letter of a new name is drawn correctly at least 25 points more often than its accent",
    chance=NONE_RIGHT,
)
def letters_before_accents():
    return _drawn("test, 0.5", "letter") - _drawn("test, 0.5", "mark"), ">=", 0.25


@finding(
    "After 800 steps, the drawing of eight that CLIP picks is correct at least 5 points more often than the first",
    chance=NONE_RIGHT,
)
def clip_picks_better():
    return _drawn("best of eight", "CLIP") - _drawn("best of eight", "the first"), ">=", 0.05


@finding(
    "After 800 steps, at least 30 % of the drawings of new names are correct, and at most 1 % have the codes of a "
    "training image",
    chance=NONE_RIGHT,
)
def drawings_are_not_copies():
    return _drawn("test, 0.5", "right"), ">=", 0.3, _drawn("test, 0.5", "copied"), "<=", 0.01
