"""Lesson 14, a sentence and its translation in one row, as translation language modeling reads them."""

import torch

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import Case, narrowed


def my_translation_row(source, target, start, sep):
    first, second = [start, *source, sep], [start, *target, sep]
    ids = first + second
    languages = [0] * len(first) + [1] * len(second)
    places = [*range(len(first)), *range(len(second))]
    return ids, languages, places


def pair(n=5, m=3, start=1, sep=2):
    """Ids of a sentence and of its translation, and the two tokens around each."""
    ids = torch.randint(4, 50, (n + m,)).tolist()
    return ids[:n], ids[n:], start, sep


def changed(change):
    """A wrong answer to `my_translation_row`: change(ids, languages, positions)."""
    return lambda source, target, start, sep: change(*my_translation_row(source, target, start, sep))


def without_second_start(source, target, start, sep):
    at = len(source) + 2
    ids, languages, places = my_translation_row(source, target, start, sep)
    return ids[:at] + ids[at + 1 :], languages[:-1], places[:-1]


ROW = Exercise(
    solution=my_translation_row,
    cases=(
        Case(
            pair,
            narrowed(
                (
                    lambda given: ([], [], given["start"], given["sep"]),
                    "It is wrong already with two empty sentences: start, sep, start, sep, in the languages 0, 0, 1, "
                    "1, at the positions 0, 1, 0, 1.",
                ),
                (
                    lambda given: (given["source"], [], given["start"], given["sep"]),
                    "It is wrong with an empty translation: the first sentence goes between start and sep, all in "
                    "language 0, with positions counted from 0.",
                ),
                otherwise="With an empty translation it is right. Build the second half like the first, in language 1, "
                "with positions that start at 0 again.",
            ),
        ),
        Case(lambda: pair(2, 6), "It is wrong if the translation is longer: each half has its own length."),
        Case(lambda: pair(4, 4, 0, 0), "It is wrong if start and sep are the same token, as in XLM."),
        Case(lambda: pair(0, 3), "It is wrong with an empty sentence: keep its start and its sep."),
        Case(lambda: pair(1, 1, 7, 9), "It is wrong with one word each: `start` and `sep` may be any ids."),
    ),
    mistakes={
        "positions_run_on": changed(lambda ids, languages, places: (ids, languages, list(range(len(ids))))),
        "without_second_start": without_second_start,
        "one_language": changed(lambda ids, languages, places: (ids, [0] * len(ids), places)),
        "languages_exchanged": changed(lambda ids, languages, places: (ids, [1 - k for k in languages], places)),
        "languages_from_1": changed(lambda ids, languages, places: (ids, [k + 1 for k in languages], places)),
        "positions_from_1": changed(lambda ids, languages, places: (ids, languages, [t + 1 for t in places])),
        "positions_first": changed(lambda ids, languages, places: (ids, places, languages)),
    },
)

EXERCISES = [ROW]
