"""Lesson 14, what the records show: what two languages share, and what translations add."""

from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.multilingual import (
    controls as multilingual_controls,
)
from course_lib.workshop.experiments.multilingual import (
    core as multilingual,
)
from course_lib.workshop.experiments.multilingual import (
    names as multilingual_names,
)
from course_lib.workshop.experiments.multilingual import (
    pairs as multilingual_pairs,
)
from course_lib.workshop.experiments.runs import most_of
from course_lib.workshop.recipes.multilingual import MIDDLE

GUESS = 1 / 200  # of 200 sentences
GROUP = 0.2  # about the share of the largest group of emoji


def _twins():
    return recorded(multilingual.no_word_shared).numbers("twins", MIDDLE)


def _lost(one, **variant):
    return one.numbers("questions", "English", **variant) - one.numbers("questions", "fake English", **variant)


@finding(
    "With a sampling exponent of 0.3 Burmese saves at least 0.6 subwords per name, and English pays at most 0.5",
    chance=8.0,
)
def rare_languages_save_subwords():
    cost = recorded(multilingual_names.costs)
    saved = cost.numbers("my", exponent=1.0) - cost.numbers("my", exponent=0.3)
    return saved, ">=", 0.6, cost.numbers("en", exponent=0.3) - cost.numbers("en", exponent=1.0), "<=", 0.5


@finding(
    "After 2,400 steps, with no word in common, at least 70 % of the sentences find their counterpart in fake English",
    chance=GUESS,
)
def languages_align():
    return _twins(), ">=", 0.7


@finding(
    "After 2,400 steps without common special tokens, at most half of the sentences do, in 4 of 5 runs",
    chance=GUESS,
    at_least=4,
)
def special_tokens_help():
    return recorded(multilingual_controls.marks_apart).numbers("twins"), "<=", 0.5, _twins(), ">=", 0.7


@finding(
    "After 2,400 steps without a common word order hardly any sentence finds its counterpart: at most 12 % with "
    "shuffled and 6 % with reversed words",
    chance=GUESS,
)
def word_order_is_needed():
    order = recorded(multilingual.other_order)
    shuffled, turned = (order.numbers("twins", MIDDLE, order=name) for name in ("shuffled", "reversed"))
    return shuffled, "<=", 0.12, turned, "<=", 0.06, _twins(), ">=", 0.7


@finding(
    "A linear probe trained on English is at most 5 points worse on fake English, and at least 85 % correct on English",
    chance=0.5,
)
def probes_transfer():
    whole = recorded(multilingual.no_word_shared)
    return _lost(whole), "<=", 0.05, whole.numbers("questions", "English"), ">=", 0.85


@finding(
    "After 2,400 steps with position embeddings of its own for each language, at most 10 % of the sentences find their "
    "counterpart, and the probe loses at least 15 points",
    chance=0.5,
)
def shared_positions_are_needed():
    places = recorded(multilingual.other_places)
    return places.numbers("twins", MIDDLE, places="apart"), "<=", 0.1, _lost(places, places="apart"), ">=", 0.15


@finding(
    "In 1,500 steps, 1,000 translations bring at least 35 points more English sentences next to their French ones "
    "than none, and 40 points more than shuffled ones",
    chance=GUESS,
)
def translations_align():
    both = recorded(multilingual_pairs.english_and_french)
    true, none, shuffled = (
        both.numbers("twins", MIDDLE, way=way) for way in ("true pairs", "hidden words alone", "shuffled pairs")
    )
    return true - none, ">=", 0.35, true - shuffled, ">=", 0.4


@finding(
    "Groups of emoji learned from English names: at least 33 % correct in English, at most 30 % in any of 13 other "
    "languages",
    chance=GROUP,
)
def emoji_groups_do_not_transfer():
    told = recorded(multilingual_names.emoji_groups)
    english, *others = (told.numbers(one, "right", way="names alone") for one in multilingual_names.LANGUAGES)
    return english, ">=", 0.33, most_of(*others), "<=", 0.3


@finding(
    "After 2,400 steps at least half of the 100 most frequent words find their counterpart, and at most 35 % of all "
    "500",
    chance=1 / 500,
)
def frequent_words_align():
    whole = recorded(multilingual.no_word_shared)
    return whole.numbers("frequent words"), ">=", 0.5, whole.numbers("words"), "<=", 0.35
