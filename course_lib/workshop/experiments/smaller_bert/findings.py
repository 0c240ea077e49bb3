"""Lesson 16, what the records show: what a small BERT may leave out, measured by the punctuation that it finds."""

from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.smaller_bert import controls as smaller_bert_controls
from course_lib.workshop.experiments.smaller_bert import core as smaller_bert

UNTRAINED = 0.4  # F1 of a model that was fine-tuned from random weights


def _stored():
    return recorded(smaller_bert.untrained).numbers("stored", "places")


@finding(
    "Fine-tuned on 1,000 speeches, the stored BERT finds punctuation at least 15 points of F1 better than the same "
    "model from random weights",
    chance=UNTRAINED,
)
def pretraining_finds_punctuation():
    scratch = recorded(smaller_bert_controls.partners).numbers("all drawn, as the teacher")
    return _stored() - scratch.most, ">=", 0.15


@finding("A training step with shared layers takes as long as one without, within 10 %", chance=0.0)
def sharing_saves_no_time():
    pace = recorded(smaller_bert.pace)
    shared, own = (pace.numbers(f"masked, 4 layers, {blocks} blocks") for blocks in (1, 4))
    return abs(shared - own), "<=", 0.1 * own.mean, shared, ">", 0.0


@finding(
    "Two of four layers, cut out and fine-tuned for 200 steps, come within 3 points of F1 of all four on punctuation, "
    "and reach 0.55",
    chance=UNTRAINED,
)
def half_the_layers_are_nearly_as_good():
    half = recorded(smaller_bert.cut_half).numbers("places")
    return _stored() - half, "<=", 0.03, half, ">=", 0.55


@finding(
    "Two layers cut out of the teacher are at least 5 points of F1 ahead of two random layers after 220 steps of "
    "distillation",
    chance=UNTRAINED,
)
def cutting_beats_distilling_from_scratch():
    distilled = recorded(smaller_bert.taught_half).numbers("places", start="drawn", lesson="the teacher")
    return recorded(smaller_bert.cut_half).numbers("places") - distilled.most, ">=", 0.05


@finding("With 4 bits per weight F1 on punctuation changes by less than 0.005, and is at least 0.55", chance=UNTRAINED)
def four_bits_are_enough():
    few = recorded(smaller_bert.few_bits)
    return (
        abs(few.numbers("4", "places") - few.numbers("32", "places")),
        "<",
        0.005,
        few.numbers("4", "places"),
        ">=",
        0.55,
    )


@finding("With 2 bits per weight F1 on punctuation falls by at least 0.05", chance=UNTRAINED)
def two_bits_are_not():
    few = recorded(smaller_bert.few_bits)
    return few.numbers("32", "places") - few.numbers("2", "places"), ">=", 0.05
