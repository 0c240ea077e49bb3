"""Lesson 11, what the records show: what captions get right, what CLIP learns, and what its temperature is for."""

from course_lib.workshop.experiments import Runs, finding, recorded
from course_lib.workshop.experiments.images_and_words import (
    captions as images_and_words_captions,
)
from course_lib.workshop.experiments.images_and_words import (
    core as images_and_words,
)
from course_lib.workshop.experiments.images_and_words import (
    laboratory as images_and_words_laboratory,
)
from course_lib.workshop.experiments.images_and_words import (
    matching as images_and_words_matching,
)

GUESS = 1 / 201  # of the new names
CLASS = 0.5  # of two cases, of the most frequent scripts


def _here(experiment, *path, **variant):
    """The runs on the instruction set that the partners have too."""
    record = recorded(experiment)
    cpus = [entry["cpu"] for entry in record.entries if variant.items() <= entry["variant"].items()]
    numbers = record.numbers(*path, **variant).recorded
    return Runs([number for number, cpu in zip(numbers, cpus, strict=True) if cpu == "default"])


def _clip(part="new names"):
    return _here(images_and_words.live, part)


def _changed(change, part="new names"):
    return recorded(images_and_words.changes).numbers(part, change=change)


def _nearest(part, k):
    return recorded(images_and_words.nearest).numbers(part, k=k).mean


@finding(
    "After 300 steps a captioner with one vector gets the case of new names right at least 15 points more often "
    "than the letter, and the letter 20 points more often than the accents",
    chance=0.1,
)
def captions_lose_accents():
    writers = recorded(images_and_words_captions.writers)
    case, letter, marks = (
        writers.numbers("new names", what, attention="none", deaf=0.0) for what in ("case", "letter", "marks")
    )
    return case - letter, ">=", 0.15, letter - marks, ">=", 0.2


@finding(
    "Where the image's vector is trained with the captions, for 300 steps, attention adds at least 7 points of new "
    "names",
    chance=GUESS,
)
def attention_helps_a_learned_vector():
    own = recorded(images_and_words_captions.own_vector)
    alone, attention = (own.numbers("new names", "exact", attention=one) for one in ("none", "dot"))
    return attention - alone, ">=", 0.07


@finding(
    "After 250 steps with the temperature fixed at 1, CLIP finds at least 28 points fewer new names than with a "
    "learned one, and 25 fewer than with features that keep their length",
    chance=GUESS,
)
def temperature_matters():
    fixed = _changed("temperature 1")
    return _clip() - fixed, ">=", 0.28, _changed("not normalised") - fixed, ">=", 0.25


@finding(
    "After 250 steps CLIP is at least 22 points ahead of the nearest training images among new names", chance=GUESS
)
def clip_beats_nearest_images():
    return recorded(images_and_words.live).numbers("new names") - _nearest("new names", 10), ">=", 0.22


@finding(
    "After 250 steps, among all names, CLIP finds at least 8 points more of the new ones than a word classifier does",
    chance=GUESS,
)
def clip_beats_single_words():
    return _clip("new names, all") - _here(images_and_words.single_words, "new names, all"), ">=", 0.08


@finding(
    "After 250 steps, with the mean of its learned names as a prompt, the case is correct for at least 92 % of "
    "letters in new typefaces, and the script at least 6 points less often than by always answering the most "
    "frequent one",
    chance=CLASS,
)
def prompts_from_names():
    prompted = recorded(images_and_words_laboratory.prompts)
    script = prompted.numbers("script", "majority") - prompted.numbers("script", "names")
    return prompted.numbers("case", "names"), ">=", 0.92, script, ">=", 0.06


@finding(
    "After 250 steps the best name predicts the script at least 15 points better than always answering the most "
    "frequent one",
    chance=CLASS,
)
def best_names_beat_the_majority():
    prompted = recorded(images_and_words_laboratory.prompts)
    return prompted.numbers("script", "best name") - prompted.numbers("script", "majority"), ">=", 0.15


@finding(
    "After 300 steps one stream predicts a masked accent correctly at least 42 points more often with its own image "
    "than with another image",
    chance=0.1,
)
def masked_accents_need_their_image():
    hidden = recorded(images_and_words_captions.hidden)
    own, other = (
        hidden.numbers("new faces", key, streams="one", image=True) for key in ("mark", "mark, another image")
    )
    return own - other, ">=", 0.42


@finding(
    "In as many seconds a batch of 128 finds at least 30 points more new names than one of 8, and 6 more than one of "
    "32, at their lower learning rates",
    chance=GUESS,
)
def large_batches_help():
    slower = recorded(images_and_words.by_rate)
    eight, more = (_runs(slower, batch) for batch in (8, 32))
    return _clip() - eight, ">=", 0.3, _clip() - more, ">=", 0.06


def _runs(record, batch):
    return Runs([run["result"]["new names"] for run in record.entries if run["variant"]["batch"] == batch])


@finding(
    "If each of 128 images chooses among only 8 names, CLIP learns at least 13 points fewer new names in 250 steps",
    chance=GUESS,
)
def many_negatives_help():
    return _clip() - recorded(images_and_words.by_group).numbers("new names", group=8), ">=", 0.13


@finding("A learned temperature that starts at 1 costs at least 22 points of new names after 250 steps", chance=GUESS)
def a_slow_start_costs():
    return _clip() - recorded(images_and_words.from_one).numbers("new names"), ">=", 0.22


@finding(
    "After 250 steps with a temperature fixed at 0.07, CLIP is within 7 points of a learned one on new names, and "
    "reaches at least 65 %",
    chance=GUESS,
)
def a_good_temperature_may_be_fixed():
    fixed = _changed("temperature 0.07")
    return abs(_clip() - fixed), "<=", 0.07, fixed, ">=", 0.65


@finding(
    "After 250 steps a bag of words as text tower is within 5 points of the Transformer on new names, and reaches "
    "at least 65 %",
    chance=GUESS,
)
def a_bag_of_words_is_enough():
    bag = _changed("bag of words")
    return abs(_clip() - bag), "<=", 0.05, bag, ">=", 0.65


@finding(
    "After 250 steps the trained Transformer finds at least 30 points fewer new names with shuffled words", chance=GUESS
)
def word_order_is_read():
    sight = recorded(images_and_words_laboratory.sight)
    return sight.numbers("reading", "new names") - sight.numbers("reading", "words out of order"), ">=", 0.3


@finding(
    "After 250 steps, among all names, CLIP gets the accents of new names right at least 32 points more often than "
    "the nearest image",
    chance=0.0,
)
def clip_reads_accents():
    sight = recorded(images_and_words_laboratory.sight)
    return sight.numbers("reading", "CLIP", "marks") - sight.numbers("reading", "nearest", "marks"), ">=", 0.32


@finding(
    "After 300 steps on random wrong names, a matcher ranks the correct name above these at least 10 points more "
    "often than above hard negatives",
    chance=0.5,
)
def easy_negatives_teach_little():
    found = recorded(images_and_words_matching.matching)
    above = [found.numbers("any", "new names", key) for key in ("above any", "above likely")]
    return above[0] - above[1], ">=", 0.1


@finding(
    "After 1,000 steps, four times the lesson's, CLIP is at least 5 points ahead of a word classifier on new names, "
    "and of the nearest image in new typefaces",
    chance=GUESS,
)
def longer_training_puts_clip_ahead():
    longer = recorded(images_and_words.longer)
    words = longer.numbers("CLIP", "new names") - longer.numbers("single words", "new names")
    return words, ">=", 0.05, longer.numbers("CLIP", "new faces") - _nearest("new faces", 1), ">=", 0.05


@finding(
    "After the lesson's 250 steps the nearest image is at least 3 points ahead of CLIP in new typefaces", chance=GUESS
)
def nearest_image_is_ahead_at_first():
    return _nearest("new faces", 1) - recorded(images_and_words.live).numbers("new faces"), ">=", 0.03
