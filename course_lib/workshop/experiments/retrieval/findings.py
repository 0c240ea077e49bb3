"""Lesson 15, what the records show: what a passage adds, how it is found, and when answers train a retriever."""

from course_lib.workshop.experiments import finding, recorded
from course_lib.workshop.experiments.retrieval import (
    core as retrieval,
)
from course_lib.workshop.experiments.retrieval import (
    plays as retrieval_plays,
)
from course_lib.workshop.experiments.retrieval import (
    reading as retrieval_reading,
)
from course_lib.workshop.experiments.retrieval.reader import TEMPERATURE

GUESS = 1 / 64  # of 64 passages
NOTHING = 0.0


def _read(passage, what):
    return recorded(retrieval_reading.one_passage).numbers(passage, what, words="any words")


def _found(by, at):
    return recorded(retrieval_reading.found_by).numbers(by, at, words="other words")


def _changed(key, change, most):
    return recorded(retrieval.by_change).numbers(*key, change=change, most=most)


@finding(
    "Without a passage SmolLM2 answers at most 20 % correctly, with the passage that holds the answer at least 60 %",
    chance=NOTHING,
)
def passages_give_answers():
    alone = recorded(retrieval_reading.no_passage).numbers("the same examples", "right")
    return alone, "<=", 0.2, _read("the right one", "right"), ">=", 0.6


@finding(
    "With a falsified passage SmolLM2 gives the false answer at least 60 % of the time, and with the passage of "
    "another country it gives that country's answer at least 50 % of the time",
    chance=NOTHING,
)
def passages_are_believed():
    return _read("a falsified one", "false"), ">=", 0.6, _read("another place's", "false"), ">=", 0.5


@finding(
    "On paraphrases that share only the country's name with their passage, MiniLM ranks the passage first at least "
    "12 points more often than BM25, and among its first five at least 20 points more often than first",
    chance=GUESS,
)
def meaning_beats_words_in_other_words():
    first = _found("MiniLM", "at 1")
    return first - _found("BM25", "at 1"), ">=", 0.12, _found("MiniLM", "at 5") - first, ">=", 0.2


@finding(
    "Summed over five passages, the correct answer costs at least 0.3 bits less than with the first passage alone, and"
    " than with the first and four random ones",
    chance=10.0,
)
def summing_saves_bits():
    sums = recorded(retrieval_reading.sums)
    summed = sums.numbers("bits", TEMPERATURE, split="test")
    strangers = recorded(retrieval_reading.strangers).numbers("bits")
    return sums.numbers("bits", "the first", split="test") - summed, ">=", 0.3, strangers - summed, ">=", 0.3


@finding(
    "Trained on answers alone for 200 steps, the retriever ranks the correct passage first among 64 for at least 65 % "
    "of new names",
    chance=GUESS,
)
def search_is_learned_from_answers():
    return recorded(retrieval.live).numbers("recall"), ">=", 0.65


@finding(
    "A model that has memorised 64 facts in 200 steps gives the old answer at least 80 % of the time after all have "
    "changed",
    chance=NOTHING,
)
def memorised_facts_stay():
    return _changed(("moved", "old"), 0.0, 64), ">=", 0.8


@finding(
    "In 200 steps, 64 facts that never change are memorised: at least 90 % of the answers are correct, and the "
    "retriever finds at most 8 % of new names",
    chance=GUESS,
)
def few_fixed_facts_are_memorised():
    return _changed(("answers, train",), 0.0, 64), ">=", 0.9, _changed(("recall",), 0.0, 64), "<=", 0.08


@finding(
    "Trained for 200 steps, the retriever and its reader give the new answer at least 65 % of the time after all facts "
    "have changed, and the old one at most 10 %",
    chance=NOTHING,
)
def searches_follow_changed_facts():
    moved = recorded(retrieval.live)
    return moved.numbers("moved", "new"), ">=", 0.65, moved.numbers("moved", "old"), "<=", 0.1


@finding(
    "A model that reads five passages from the start finds at most 20 % of new names after 200 steps; one that first "
    "reads all passages for 80 steps finds at least 60 %",
    chance=GUESS,
)
def searches_begin_with_all_passages():
    few = recorded(retrieval.by_k)
    return few.numbers("recall", k=5, warm=0), "<=", 0.2, few.numbers("recall", k=5, warm=retrieval.WARM), ">=", 0.6


@finding(
    "After 200 steps with 64 facts, the retriever finds at least 10 points more new names when a tenth of them "
    "change per step than when one in a thousand does",
    chance=GUESS,
)
def change_teaches_the_search():
    return _changed(("recall",), 0.1, 64) - _changed(("recall",), 0.001, 64), ">=", 0.1


@finding(
    "After 200 steps with 412 facts that never change, the retriever still finds at least 40 % of new names",
    chance=GUESS,
)
def many_fixed_facts_teach_it_too():
    return _changed(("recall",), 0.0, 412), ">=", 0.4


@finding("Searching 4 of 64 clusters finds the best passage for at least 87 % of the questions", chance=GUESS)
def few_clusters_are_enough():
    return recorded(retrieval.clusters).numbers("probes", 4, "found"), ">=", 0.87


@finding(
    "With five passages in one prompt, at least 30 points more answers are correct with the correct passage last than "
    "first",
    chance=NOTHING,
)
def the_last_passage_is_read():
    crowd = recorded(retrieval_reading.five_in_one_prompt)
    first, last = (crowd.numbers(f"the right one at {at}", "right", examples="one passage") for at in (1, 5))
    return last - first, ">=", 0.3


@finding(
    "In the plays, BM25 is at least 6 points ahead of MiniLM where the sentence stays in its speech", chance=1 / 400
)
def words_win_on_the_same_words():
    cloze = recorded(retrieval_plays.inverse_cloze)
    return (
        cloze.numbers("BM25", "at 1", sentence="stays") - cloze.numbers("MiniLM", "at 1", sentence="stays"),
        ">=",
        0.06,
    )


@finding(
    "With one letter missing from the name, BM25 on character trigrams is at least 40 points ahead of BM25 on words "
    "and 5 points ahead of the retriever that learned for 200 steps",
    chance=GUESS,
)
def letters_bear_typing_errors():
    words = recorded(retrieval.words_alone)
    threes, learned = words.numbers("threes, misspelt"), recorded(retrieval.live).numbers("recall, misspelt")
    return threes - words.numbers("recall, misspelt"), ">=", 0.4, threes - learned.most, ">=", 0.05
