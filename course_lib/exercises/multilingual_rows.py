"""Lesson 14, a sentence and its translation in one row, as translation language modeling reads them."""

import torch

from course_lib.exercises import Exercise
from course_lib.exercises.probes import Case, narrowed
from course_lib.exercises.slips import slips


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
    mistakes=slips("""
        *range(len(second))] -> *range(len(first), len(first) + len(second))]
            Your positions run on over both sentences, as in BERT. Here they start at 0 again for the translation.
        [start, *target, sep] -> [*target, sep]
            Your translation has no start, as in BERT's pairs. Here each half begins with one.
        [start, *source, sep] -> [start, *source]
            Nothing ends your first sentence. Put `sep` after each of the two.
        [start, *target, sep] -> [start, *target]
            Nothing ends your translation. Put `sep` after each of the two.
        [0] * len(first) + [1] * len(second) -> [0] * (len(first) + len(second))
            All your tokens are language 0. The translation is language 1.
        [0] * len(first) + [1] * len(second) -> [1] * len(first) + [0] * len(second)
            Your languages are the wrong way round: 0 comes first.
        [0] * len(first) + [1] * len(second) -> [1] * len(first) + [2] * len(second)
            You count languages from 1. The first is 0.
        [0] * len(first) + [1] * len(second) -> [0] * (len(first) - 1) + [1] * (len(second) + 1)
            Your first `sep` has language 1. It belongs to the sentence that it ends.
        [0] * len(first) + [1] * len(second) -> [0] * (len(first) + 1) + [1] * (len(second) - 1)
            Your second `start` has language 0. It belongs to the sentence that it begins.
        [*range(len(first)), *range(len(second))] -> [*range(1, len(first) + 1), *range(1, len(second) + 1)]
            You count positions from 1. `start` has position 0.
        [*range(len(first)), *range(len(second))] -> [*range(len(first)), *range(1, len(second) + 1)]
            The positions of your translation start at 1. They must start at 0, as in the first sentence.
        ids = first + second -> ids = second + first
            You put the translation first. The sentence comes first.
        [start, *target, sep] -> [start, *source, sep]
            You put the first sentence twice.
        return ids, languages, places -> return ids, places, languages
            You return positions before languages. The order is ids, languages, positions.
        return ids, languages, places -> return ids, languages
            The positions are missing: return ids, languages, positions.
    """),
)

EXERCISES = [ROW]
