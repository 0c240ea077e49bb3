"""Lesson 03: what the recorded runs show of encoders and decoders with one vector between them."""

import math

from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.runs import least_of, most_of
from course_lib.workshop.experiments.seq2seq.core import (
    brute_force,
    dates_translator,
    harder_corpus,
    hundred_steps,
    starts,
    used_to_gaps,
)
from course_lib.workshop.experiments.seq2seq.sounds import published_network
from course_lib.workshop.experiments.seq2seq.words import published_pair

A_GUESS = math.log(256)  # nats per word of a uniform guess over the French vocabulary
FOUR, FOURTEEN = 1, 11  # where words of 4 and of 14 letters stand in the published network's table


def dates(*path):
    """A number of the lesson's translator of dates."""
    return recorded(dates_translator).numbers(*path)


def hundred(*path):
    """A number of the models that were trained for 100 steps."""
    return recorded(hundred_steps).numbers(*path)


def start(what, bias, backwards=False):
    """A number after 800 steps from a start of the forget gates."""
    what = what if isinstance(what, tuple) else (what,)
    return recorded(starts).numbers(*what, forget_bias=bias, backwards=backwards)


# --- a published pair, on words


@finding(
    "The vector keeps about half as much of each letter of a word of 14 as of a letter of a word of 4",
    chance=1.0,
)
def letters_fade():
    kept = {n: recorded(published_pair).numbers("kept", str(n)) for n in (4, 14)}
    return kept[14] / kept[4], "<=", 0.55


@finding(
    "Words of 14 letters come out right less than half as often as words of 4. With teacher forcing, a sound is wrong "
    "1.5 times as often at 14 letters as at 6",
    chance={"dictionary": 0.01, "missed when told": 0.95},
)
def long_words_come_out_wrong():
    right = [recorded(published_network).numbers("dictionary", "by length", "exact", at) for at in (FOUR, FOURTEEN)]
    missed = {n: recorded(published_pair).numbers("missed when told", str(n)) for n in (6, 14)}
    return right[1] / right[0], "<=", 0.5, missed[14] / missed[6], ">=", 1.5


# --- the shifted target, and padding


@finding(
    "After 100 steps the loss without the shift is below 0.04 nats; with the shift it is still 2.5 nats or more",
    chance=A_GUESS,
)
def without_the_shift_it_copies():
    return hundred("unshifted", "loss"), "<=", 0.04, hundred("masked", "real tokens"), ">=", 2.5


@finding(
    "A loss that counts padding misreports: real tokens cost 0.9 nats more than it says, and padding costs at most "
    "0.01 nats",
    chance=A_GUESS,
)
def counting_padding_misreports():
    real, everywhere, padding = (hundred("padding counted", of) for of in ("real tokens", "all places", "padding"))
    return real - everywhere, ">=", 0.9, padding, "<=", 0.01


@finding("After 100 steps, training with padding counted has not harmed the loss on real tokens", chance=A_GUESS)
def counting_padding_trains_no_worse():
    mine, masked = (hundred(name, "real tokens") for name in ("padding counted", "masked"))
    return mine - masked, "<=", 0, mine, "<=", 3


# --- the translator of dates: teacher-forced and free-running, with beams, and its last state


@finding(
    "After 1,700 steps the free-running model gets 5 points more words of lists of four dates wrong than with "
    "teacher forcing",
    1.0,
)
def forcing_flatters():
    return dates("free missed", 3) - dates("forced missed", 3), ">=", 0.05


@finding(
    "After 1,700 steps teacher forcing flatters BLEU, too, by 5 points or more in lists of three dates", chance=0.0
)
def forcing_flatters_bleu():
    return dates("forced BLEU", 2) - dates("free BLEU", 2), ">=", 5


@finding(
    "After 1,700 steps a beam of 10 gets 3 points more lists of two dates right than greedy search; of the lists "
    "that it gets wrong, at most 4 % are search errors",
    chance=0.0,
)
def a_beam_mends_some_lists_of_two():
    blamed = most_of(*(dates("blamed", 10, n) for n in range(3)))
    return dates("beam", 10, 0) - dates("beam", 1, 0), ">=", 0.03, blamed, "<=", 0.04


@finding(
    "After 1,700 steps, with teacher forcing, the first of three years is wrong 10 points more often than the others",
    chance=1.0,
)
def the_first_year_is_the_hardest():
    first, second, last = (dates("told at place", at) for at in (3, 8, 13))
    return first - most_of(second, last), ">=", 0.1


@finding(
    "After 1,700 steps the model gets the last of three years wrong 45 points more often if it reads two random "
    "years before it than if it reads the correct ones; with the correct ones in the wrong order, at most 10 points "
    "more often",
    chance=0.995,
)
def the_order_of_the_years_hardly_counts():
    right, flipped, random = (
        dates("last year", what)
        for what in ("told both years right", "told both, in the wrong order", "both drawn at random")
    )
    return random - right, ">=", 0.45, flipped - right, "<=", 0.1


@finding(
    "After 1,700 steps a model that is used to gaps gets the last year wrong more often after unknown years than "
    "after the correct ones (by 10 points), and even more often after its own years (by 5 points)",
    chance=0.995,
)
def years_carry_news_and_own_errors_harm():
    right, nothing, own = (recorded(used_to_gaps).numbers(name) for name in ("right", "nothing", "its own"))
    return nothing - right, ">=", 0.1, own - nothing, ">=", 0.05


@finding(
    "After 1,700 steps the number of dates, up to eight, can be read off the last state of 85 % of unseen lists, "
    "and less often off an untrained encoder's",
    chance=1 / 8,
)
def the_state_counts_the_dates():
    counted = dates("dates counted")
    return counted, ">=", 0.85, counted - dates("dates counted, untrained"), ">=", 0.05


# --- the start of the forget gates, and the order of reading


@finding("After 800 steps the loss is 0.12 nats lower with a forget bias of 3 than with a bias of 1", chance=A_GUESS)
def a_forget_bias_of_3_learns_faster():
    return start("validation", 1.0) - start("validation", 3.0), ">=", 0.12


@finding(
    "After 800 steps a forget bias of 3 beats a bias of 1 in either reading order, in the loss (by 0.02 nats) and in "
    "single dates (by 15 points)",
    chance={"validation": A_GUESS, "1 date": 0.0},
)
def the_bias_counts_in_either_order():
    saved = [start("validation", 1.0, back) - start("validation", 3.0, back) for back in (False, True)]
    more = [start("1 date", 3.0, back) - start("1 date", 1.0, back) for back in (False, True)]
    return least_of(*saved), ">=", 0.02, least_of(*more), ">=", 0.15


@finding("After 800 steps from a forget bias of 1, reading backwards gets more single dates right", 0.0, at_least=9)
def backwards_helps_from_a_bias_of_1():
    return start("1 date", 1.0, True) - start("1 date", 1.0), ">", 0


@finding(
    "Untrained, a forget bias of 3 reaches the first of four dates 50 times as strongly as a bias of 1", chance=1.0
)
def untrained_a_bias_of_3_reaches_further():
    first = ("reach", "untrained", 0)
    return start(first, 3.0) / start(first, 1.0), ">=", 50


@finding(
    "Training for 800 steps at least doubles the reach of a forget bias of 1 and lowers that of 3, until they are "
    "within a factor of 3",
    chance=1.0,
)
def training_evens_the_reach():
    before, after = ([start(("reach", when, 0), bias) for bias in (1.0, 3.0)] for when in ("untrained", "trained"))
    nearness = least_of(after[1] / after[0], after[0] / after[1])
    return after[0] / before[0], ">=", 2, after[1] / before[1], "<=", 0.9, nearness, ">=", 1 / 3


# --- two harder corpora


@finding(
    "After 700 steps the validation loss on the interface strings is 1.5 nats per token above the training loss, a "
    "wider gap than on the grammar's sentences",
    chance=0.0,
)
def the_interface_is_over_fitted():
    wide, narrow = (recorded(harder_corpus).numbers("gap", corpus=name) for name in ("interface", "grammar"))
    return wide, ">=", 1.5, wide, ">", narrow


@finding(
    "After 700 steps the model's interface translations share more words with a training string than with a "
    "person's translation, and more than a person's translations share with a training string",
    chance=0.0,
)
def translations_resemble_training_strings():
    shares = {
        name: recorded(harder_corpus).numbers(name, corpus="interface")
        for name in ("overlap with neighbour", "overlap with person", "person's with neighbour")
    }
    near = shares["overlap with neighbour"]
    return near - shares["overlap with person"], ">=", 0.15, near - shares["person's with neighbour"], ">=", 0.03


@finding("A larger α makes the winner longer in at least 20 % of the tiny translators", chance=0.0)
def a_larger_alpha_prefers_longer_sentences():
    return recorded(brute_force).numbers("got longer"), ">=", 0.2
