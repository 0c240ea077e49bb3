"""Lesson 04: what the recorded runs show of translators that attend to the source, or do not."""

import statistics

from course_lib.workshop.experiments import Runs, finding, recorded
from course_lib.workshop.experiments.attention_alignment.core import (
    FRESH,
    LOOKING,
    ORDERS,
    RECIPES,
    date_translators,
    fresh_reach,
    grammar_translator,
    other_orders,
)
from course_lib.workshop.experiments.attention_alignment.sounds import OURS, looks, pace, stored_network
from course_lib.workshop.experiments.runs import least_of, most_of

TWO_WAYS, ONE_WAY = LOOKING
EQUAL, NONE = "two ways, equal weights", "two ways, no attention"
LETTERS = range(3, 15)  # lengths of words in the table of the stored networks; the last row holds longer ones too


def dates(*path, model=TWO_WAYS):
    """A number of one of the four translators of dates."""
    return recorded(date_translators).numbers(*path, model=model)


def exact(model, n_dates):
    """Exact match on lists of so many dates."""
    return dates("exact", n_dates - 1, model=model)


def words(what, letters, model):
    """A number of a stored network, "attention" or "one vector", on test words of so many letters."""
    return recorded(stored_network).numbers("by length", what, letters - LETTERS[0], model=model)


# --- what attention fixes


@finding(
    "With attention at least 97 % of the lists of one to four dates come out right after 600 steps, with two "
    "directions and with one; of lists longer than in training, no model gets more than 1 in 6 right",
    chance=0.0,
)
def attention_learns_lists_of_four():
    seen = least_of(*(exact(model, n) for model in LOOKING for n in (1, 2, 3, 4)))
    longer = most_of(*(exact(model, n) for model in RECIPES for n in (5, 6)))
    return seen, ">=", 0.97, longer, "<=", 1 / 6


@finding(
    "After 1,500 steps with equal weights or with no attention, exact match falls by 70 points or more from lists "
    "of two dates to lists of four; of the lists of three, equal weights get 10 points more right than no attention",
    chance=0.0,
)
def without_chosen_weights_exact_match_falls():
    fall = least_of(*(exact(model, 2) - exact(model, 4) for model in (EQUAL, NONE)))
    return fall, ">=", 0.7, exact(EQUAL, 3) - exact(NONE, 3), ">=", 0.1


# --- letters and sounds, from one training each


@finding(
    "From four to six letters the exact match of attention and of one vector differs by at most 3 points at each "
    "length; from seven on, attention is ahead by 2 points or more at each",
    chance=0.0,
)
def attention_leads_in_long_words():
    lead = {n: words("exact", n, "attention") - words("exact", n, "one vector") for n in LETTERS}
    short, long = ([lead[n] for n in some] for some in (range(4, 7), range(7, 15)))
    return most_of(*map(abs, short)), "<=", 0.03, least_of(*long), ">=", 0.02


@finding(
    "The errors per sound of one vector, divided by those of attention, are at least 1.5 times as large at 13 letters "
    "and more as at 4 (training time and parameters agree within 10 %)",
    chance=1.0,
)
def one_vector_misses_more_sounds_of_long_words():
    seconds = {name: recorded(pace).numbers(name) * OURS[name].steps for name in OURS}
    weights = {name: recorded(stored_network).numbers("weights", model=name) for name in OURS}
    uneven = most_of(*(abs(some["attention"] / some["one vector"] - 1) for some in (seconds, weights)))
    times = {n: words("error rate", n, "one vector") / words("error rate", n, "attention") for n in (4, 13, 14)}
    return uneven, "<=", 0.1, least_of(times[13] / times[4], times[14] / times[4]), ">=", 1.5


@finding(
    "Where *ph* is pronounced F, its p gets at least 85 % of the weight; a silent k of *kn* and a silent last e get at "
    "most a third of what a pronounced letter gets there",
    chance={"ph": 0.13, "silent": 1.0},
)
def silent_letters_get_little_weight():
    def share(silent, sounding):
        return recorded(looks).numbers("silent", silent, "looks") / recorded(looks).numbers("silent", sounding, "looks")

    silent = most_of(share("k of kn", "k that sounds"), share("last e", "last letter that sounds"))
    return recorded(looks).numbers("ph", "first"), ">=", 0.85, silent, "<=", 1 / 3


# --- alignment, and what the weights explain


@finding("After 600 steps the alignment error rate is higher with one direction than with two", chance=0.94)
def one_direction_aligns_worse():
    return dates("AER", model=ONE_WAY) - dates("AER"), ">", 0


@finding(
    "After 600 steps, without the largest weight, at least 80 % of the days, months and years change; without all "
    "the weight before their own word, at most 10 % of the words of any kind do",
    chance=0.0,
    at_least=8,
)
def the_largest_weight_is_needed():
    return dates("least changed"), ">=", 0.8, dates("most changed from its word on"), "<=", 0.1


@finding(
    "After 600 steps with attention, the first word, which is due, moves the output at least 20 times as much as "
    "the median word; without attention, after 1,500 steps, at most 5 times",
    chance=1.0,
)
def attention_makes_one_word_stand_out():
    return first_over_median(TWO_WAYS), ">=", 20, first_over_median(NONE), "<=", 5


def first_over_median(model):
    """How many times as far the first word reaches as the median word, in each run."""
    words_of_a_list = [dates("reach", at, model=model) for at in range(28)]
    curves = zip(*(one.recorded for one in words_of_a_list), strict=True)
    return Runs([curve[0] / statistics.median(curve) for curve in curves])


@finding(
    "After 600 steps with two directions, at least 90 % of the weekdays, days, months and years are linked correctly",
    chance=0.94,
)
def words_with_content_are_linked_right():
    return dates("wrong, content"), "<=", 0.1


@finding("After 600 steps with two directions, more than half of the wrong links are commas and *et*", chance=0.13)
def most_wrong_links_are_commas_and_et():
    return dates("marks among wrong"), ">", 0.5


@finding(
    "After 600 steps, given the context of a list with one date more or fewer, at least 70 % of *et* and of the "
    "commas follow that list, in the worst of four pairs",
    chance=0.0,
)
def the_context_is_followed():
    return dates("follows"), ">=", 0.7


# --- reach before training, to the first output from each of 41 words


def fresh(model, at):
    """The reach of the word at this position in an untrained network."""
    return recorded(fresh_reach).numbers("reach", at, model=model)


PLAIN, BOTH_WAYS, REMEMBERS, ATTENDS, TO_EIGHT = FRESH


@finding(
    "With update biases at 0, attention makes the first of 41 words move the first output at least 100,000 times as "
    "much; attention to eight words only, at most 10 times",
    chance=1.0,
)
def attention_shortens_the_path():
    return fresh(ATTENDS, 0) / fresh(PLAIN, 0), ">=", 1e5, fresh(TO_EIGHT, 0) / fresh(PLAIN, 0), "<=", 10


@finding(
    "Without attention, two directions reach the middle at most a hundredth as strongly as either end; update biases "
    "at 3 reach the first word at least half as strongly as attention does",
    chance=1.0,
)
def without_attention_the_middle_is_far():
    middle, ends = fresh(BOTH_WAYS, 20), least_of(fresh(BOTH_WAYS, 0), fresh(BOTH_WAYS, 40))
    return middle / ends, "<=", 0.01, fresh(REMEMBERS, 0) / fresh(ATTENDS, 0), ">=", 0.5


# --- other orders, and sentences


@finding(
    "After 600 steps at least 90 % of the weekdays, days, months and years are linked correctly in Hungarian and "
    "Persian",
    chance=0.83,
)
def other_orders_are_linked_right():
    wrong = [recorded(other_orders).numbers("wrong, content", language=language) for language in ORDERS]
    return most_of(*wrong), "<=", 0.1


@finding(
    "After 800 steps the grammar's translator has a BLEU of 60 or more on unseen sentences, and an alignment error "
    "rate of at most 0.15 with links from either side",
    chance={"BLEU": 0.0, "AER": 0.34},
)
def a_grammar_is_learned_and_aligned():
    found = recorded(grammar_translator)
    return found.numbers("BLEU"), ">=", 60, found.numbers("either way", "AER"), "<=", 0.15
