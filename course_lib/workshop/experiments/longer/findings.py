"""Lesson 17, what the records show: what a layer costs, which readers recall, and what a memory is worth."""

from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.longer import controls as longer_controls
from course_lib.workshop.experiments.longer import core as longer
from course_lib.workshop.experiments.runs import most_of

GUESS = 1 / 64  # of the values


def _right(kind, n_pairs):
    return recorded(longer.keys).numbers("right", str(n_pairs), kind=kind)


def _bits(how, trained):
    return recorded(longer.memory).numbers("bits", how, trained=trained)


@finding("Full attention takes more than 40 times as long for a sequence that is 8 times as long", chance=1.0)
def eight_times_the_length():
    cost = recorded(longer.cost)
    return cost.numbers("full", "4096") / cost.numbers("full", "512"), ">=", 40


@finding(
    "With 16 global tokens, 1,800 steps recall more than twice the share of 16 pairs that 600 steps do", chance=GUESS
)
def global_positions_need_training():
    trained_longer = recorded(longer_controls.sixteen_for_longer).numbers("right", "16")
    return trained_longer, ">=", 2 * _right("window, 16 global", 16).most


@finding(
    "Trained with a memory for 580 steps, a reader with absolute positions needs at least 0.4 bits per character more "
    "than one with relative positions",
    chance=6.0,
)
def a_memory_needs_relative_positions():
    return _bits("64 after 64", "64 after 64, places added") - _bits("64 after 64", "64 after 64").most, ">=", 0.4


@finding(
    "For a reader trained on 128 characters for 640 steps, masking what lies more than 64 characters back changes the "
    "bits per character by less than 0.01",
    chance=6.0,
)
def far_characters_are_worth_little():
    far, near = (_bits(how, "128 alone") for how in ("64 after 64", "64 after 64, no farther than 64"))
    return abs(far - near), "<=", 0.01, far, "<=", 3.0


@finding("A training step of reversible layers takes less than twice as long as one that keeps everything", chance=0.0)
def reversible_steps_cost_less_than_double():
    pace = recorded(longer.pace)
    back, kept = (pace.numbers(f"reversible, {how}") for how in ("computed back", "all kept"))
    return back, "<", 2 * kept.mean, back, ">", kept.mean


@finding(
    "After 600 steps, with 32 pairs, every linear reader is at least 8 points less accurate than full attention with 4 "
    "heads",
    chance=GUESS,
)
def linear_readers_lose_pairs():
    best = most_of(*(_right(kind, 32) for kind in ("linear", "linear, 1 head", "linear, 16 heads")))
    return _right("full", 32) - best, ">=", 0.08


@finding(
    "After 600 steps, with 16 pairs, linear heads of width 4 are at least 30 points less accurate than heads of width "
    "16",
    chance=GUESS,
)
def narrow_heads_lose_pairs():
    return _right("linear", 16) - _right("linear, 16 heads", 16), ">=", 0.3
