"""Lesson 09, what the records show: ViT, convolution and simple rules on letters in typefaces never seen."""

from course_lib.workshop.experiments import Runs, finding, recorded
from course_lib.workshop.experiments.runs import least_of, most_of
from course_lib.workshop.experiments.vit import (
    glyphs as vit_glyphs,
)
from course_lib.workshop.experiments.vit import (
    glyphs_controls as vit_glyphs_controls,
)
from course_lib.workshop.experiments.vit import (
    glyphs_looks as vit_glyphs_looks,
)

GUESS = 0.04  # the most frequent letter
ALL = vit_glyphs.ALL
ROUNDS = {100: 0.5, 300: 0.5, 1000: 1, ALL: 3}
STEPS_ALL = {100: 250, 300: 250, 1000: 250, ALL: 1500}


def _by_size(model, n):
    return recorded(vit_glyphs.by_images).numbers("test", model=model, images=n, rounds=ROUNDS[n])


def _all_places(n):
    return recorded(vit_glyphs.all_places).numbers("test", images=n, steps=STEPS_ALL[n])


def _rule(rule, n):
    return recorded(vit_glyphs.rules).numbers(rule, images=n)


@finding(
    "After 300 steps the ViT reads at least 66 % of the letters, and is still behind the nearest image",
    chance=GUESS,
    at_least=9,
)
def patches_can_be_read():
    read = recorded(vit_glyphs.live).numbers("test", model="ViT")
    return read, ">=", 0.66, _rule("nearest", ALL).mean - read, ">=", 0


@finding(
    "From 100 to 7,000 images the ViT is at least 2 points behind the convolution that reads all positions",
    chance=GUESS,
)
def convolution_is_ahead():
    return least_of(*(_all_places(n) - _by_size("ViT", n) for n in ROUNDS)), ">=", 0.02


@finding("With 100 and 300 images a linear model is at least 2 points ahead of every network", chance=GUESS)
def linear_model_is_ahead_of_networks():
    nets = [
        one for n in (100, 300) for one in ((n, _all_places(n)), (n, _by_size("ViT", n)), (n, _by_size("ConvNet", n)))
    ]
    return least_of(*(_rule("linear", n) - one for n, one in nets)), ">=", 0.02


@finding(
    "With all images the convolution is at least 4 points ahead of the linear model and the nearest image", chance=GUESS
)
def convolution_beats_the_rules():
    return _all_places(ALL) - max(_rule("nearest", ALL).mean, _rule("linear", ALL).mean), ">=", 0.04


@finding("A ViT that reads all its tokens is still at least 1.5 points behind that convolution", chance=GUESS)
def reading_all_tokens_is_not_enough():
    every = recorded(vit_glyphs_controls.read_outs).numbers("test", read="all", width=48, rounds=3)
    return Runs(_all_places(ALL).recorded[: len(every.recorded)]) - every, ">=", 0.015


@finding("A trained ViT's last block reaches at most 1.3 times as far as its first", chance=0.0)
def the_last_block_reaches_no_farther():
    looks = recorded(vit_glyphs_looks.looks)
    far = [looks.numbers("reach", "ViT", block, "far") for block in (3, 0)]
    return far[0], "<=", 1.3 * far[1].mean, far[0], ">", 0


@finding("A third or more of what changes an output of its first block is the token's own patch", chance=1 / 16)
def the_first_block_reads_its_own_patch():
    return recorded(vit_glyphs_looks.looks).numbers("reach", "ViT", 0, "by distance", 0), ">=", 0.33


def _costs_more(rule, other):
    looks = recorded(vit_glyphs_looks.looks)
    return [
        looks.numbers("covered", under, rule, "ViT") - looks.numbers("covered", under, other, "ViT")
        for under in ("paper", "mean")
    ]


@finding(
    "Covering the patches that rollout marks costs at least 1 point more than random patches, and at most 8 more than "
    "those marked for another image",
    chance=GUESS,
)
def rollout_marks_little_of_its_image():
    random, other = _costs_more("trained rollout", "random"), _costs_more("trained rollout", "another image's")
    return least_of(*random), ">=", 0.01, most_of(*other), "<=", 0.08
