"""Lesson 05, what the records show: what a model without positions can do, and sinusoids far beyond the training."""

from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.positional_encodings import (
    core as positional_encodings,
)
from course_lib.workshop.experiments.positional_encodings import (
    laboratory as positional_encodings_laboratory,
)
from course_lib.workshop.experiments.runs import least_of

GUESS = 0.125  # of 8 symbols


@finding("Without positions the model finds and names a marked symbol at least 95 % of the time", chance=GUESS)
def marks_need_no_positions():
    twin = recorded(positional_encodings.marked_twin)
    return least_of(*(twin.numbers("accuracy", task=task) for task in ("distance", "place"))), ">=", 0.95


@finding(
    "Sinusoids name the fifth symbol at four times the length of the training, at least 90 % correct, from 57 of 60 "
    "seeds",
    chance=GUESS,
    at_least=57,
)
def sinusoids_name_the_fifth_far_out():
    return recorded(positional_encodings_laboratory.fifth_far).numbers("accuracy", 96), ">=", 0.9


@finding("Rotary positions solve three back (at least 95 % correct) from 23 of 25 seeds", chance=GUESS, at_least=23)
def rotary_solves_three_back():
    return recorded(positional_encodings.rotary_seeds).numbers("accuracy"), ">=", 0.95


@finding(
    "With all rotations slowed by half, readers of three back mostly name the symbol six back instead", chance=GUESS
)
def slower_rotations_name_six_back():
    slower = recorded(positional_encodings_laboratory.slower_hands)
    return slower.numbers("six back", task="three back"), ">", 0.5
