"""Lesson 13, what the records show: many tasks in one model, languages by a token, what pre-training is worth."""

from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.text_to_text import (
    bytes as text_to_text_bytes,
)
from course_lib.workshop.experiments.text_to_text import (
    core as text_to_text,
)
from course_lib.workshop.experiments.text_to_text import (
    languages as text_to_text_languages,
)
from course_lib.workshop.experiments.text_to_text import (
    tasks as text_to_text_tasks,
)

NOTHING = 0.0  # BLEU and share of correct answers of an untrained model
READING = {"text": "sentences", "noise": "infilling"}


def _bleu(n, **variant):
    return recorded(text_to_text.few_pairs).numbers(n, "BLEU", **variant)


def _ahead(n):
    return _bleu(n, **READING) - recorded(text_to_text.as_many_seconds).numbers("BLEU", n_pairs=n)


@finding(
    "After 240 steps per task, one model for four tasks judges word order at least 4 points better than a model for "
    "it alone",
    chance=0.5,
)
def order_gains_from_other_tasks():
    together = recorded(text_to_text_tasks.one_model).numbers("in order", "exact", few=False)
    return together - recorded(text_to_text_tasks.one_each).numbers("exact", task="in order"), ">=", 0.04


@finding(
    "After 960 steps a model that spends all of them on French is at least 15 BLEU ahead of the one for four tasks",
    chance=NOTHING,
)
def french_alone_is_ahead():
    together = recorded(text_to_text_tasks.one_model).numbers("to French", "BLEU", few=False)
    return recorded(text_to_text_tasks.french_alone).numbers("BLEU") - together, ">=", 15


@finding(
    "After 960 steps the prefix decides: at least 95 % of French sentences are answered in English words after one "
    "prefix, and with a judgement after the other",
    chance=0.5,
)
def prefix_decides():
    together = recorded(text_to_text_tasks.one_model)
    english, judged = (
        together.numbers("asked otherwise", task, task, few=False) for task in ("to English", "in order")
    )
    return english, ">=", 0.95, judged, ">=", 0.95


@finding(
    "After 1,200 steps through English only, at most 45 % of dates are correct in untrained directions; after as "
    "many on all but nine directions, at least 95 % in those nine",
    chance=NOTHING,
)
def unseen_directions():
    ways = recorded(text_to_text_languages.directions)
    through = ways.numbers("without English", "right", taught="through English", told=True)
    return through, "<=", 0.45, ways.numbers("held out", "right", taught="all but nine", told=True), ">=", 0.95


@finding(
    "With 200 pairs, 600 steps of pre-training and 100 of fine-tuning are at least 10 BLEU ahead of equal training "
    "time on the pairs alone; with 1,000 pairs they are at least 9 behind",
    chance=NOTHING,
)
def reading_helps_with_few_pairs():
    return _ahead(200), ">=", 10, _ahead(1000), "<=", -9


@finding(
    "After 600 steps of pre-training each, sentences are at least 6 BLEU ahead of their words shuffled (200 pairs)",
    chance=NOTHING,
)
def word_order_helps_at_first():
    return _bleu(200, **READING) - _bleu(200, text="shuffled", noise="infilling"), ">=", 6


@finding(
    "After 6,000 steps of pre-training each, shuffled words are ahead of sentences (200 pairs)",
    chance=NOTHING,
    at_least=4,
)
def shuffled_words_catch_up():
    shuffled, sentences = (
        recorded(text_to_text.read_for_longer).numbers(200, "BLEU", reads=one)
        for one in ("words shuffled", "gaps filled")
    )
    return shuffled - sentences, ">", 0


@finding(
    "After 600 steps of pre-training, filling gaps is at most 6 BLEU ahead of copying sentences with 200 pairs, and "
    "at least 2 ahead with 1,000",
    chance=NOTHING,
)
def gaps_against_copies():
    copied = recorded(text_to_text.copied)
    few, many = (_bleu(n, **READING) - copied.numbers(n, "BLEU", text="sentences") for n in (200, 1000))
    return few, "<=", 6, many, ">=", 2


@finding(
    "After 1,500 steps one wrong letter costs a model that reads bytes at most 15 points of correct dates, and one "
    "that reads subwords 60 or more",
    chance=NOTHING,
)
def bytes_bear_typing_errors():
    def lost(reads):
        spelling = recorded(text_to_text_bytes.spelling)
        right, wrong = (spelling.numbers("right", n, reads=reads, noisy=False) for n in (0, 1))
        return right - wrong

    return lost("bytes"), "<=", 0.15, lost("pieces"), ">=", 0.6
