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
    lesson="multilingual",
    title="A row of two languages",
    solution=my_translation_row,
    returns="ids, languages and places, three lists of the same length",
    cases=(
        Case(
            pair,
            narrowed(
                (
                    lambda given: ([], [], given["start"], given["sep"]),
                    "With two empty sentences it is wrong already: start, sep, start, sep, in the languages 0, 0, 1, "
                    "1, at the places 0, 1, 0, 1.",
                ),
                (
                    lambda given: (given["source"], [], given["start"], given["sep"]),
                    "With an empty translation it is wrong: the first sentence stands between start and sep, all of "
                    "language 0, its places counted from 0.",
                ),
                otherwise="With an empty translation it is right. The second half is built as the first, in language "
                "1, and its places begin at 0 again.",
            ),
        ),
        Case(lambda: pair(2, 6), "Where the translation is longer it is wrong: each half has its own length."),
        Case(lambda: pair(4, 4, 0, 0), "Where start and sep are one token, as XLM has it, it is wrong."),
        Case(lambda: pair(0, 3), "With an empty sentence it is wrong: its start and its sep stay."),
        Case(lambda: pair(1, 1, 7, 9), "With one word each it is wrong: `start` and `sep` may be any ids."),
    ),
    hints=(
        "Build each half by itself. Which three lists does one sentence give?",
        "A half is [start, *sentence, sep], which is two longer than its sentence.",
        "languages: [0] * len(first) + [1] * len(second).",
        "places: range(len(first)), and then range(len(second)), which begins at 0 again.",
    ),
    mistakes=slips("""
        *range(len(second))] -> *range(len(first), len(first) + len(second))]
            Your places go on over both sentences, as BERT's do. Here the translation begins at 0 again.
        [start, *target, sep] -> [*target, sep]
            Your translation has no start, as in a pair of BERT's. Each half is built alike, and begins with one.
        [start, *source, sep] -> [start, *source]
            Nothing ends your first sentence: `sep` stands behind each of the two.
        [start, *target, sep] -> [start, *target]
            Nothing ends your translation: `sep` stands behind each of the two.
        [0] * len(first) + [1] * len(second) -> [0] * (len(first) + len(second))
            All of yours is language 0: the translation is language 1.
        [0] * len(first) + [1] * len(second) -> [1] * len(first) + [0] * len(second)
            Your languages are the wrong way round: 0 comes first.
        [0] * len(first) + [1] * len(second) -> [1] * len(first) + [2] * len(second)
            You count languages from 1: the first is 0.
        [0] * len(first) + [1] * len(second) -> [0] * (len(first) - 1) + [1] * (len(second) + 1)
            Your first `sep` has language 1: it belongs to the sentence that it ends.
        [0] * len(first) + [1] * len(second) -> [0] * (len(first) + 1) + [1] * (len(second) - 1)
            Your second `start` has language 0: it belongs to the sentence that it begins.
        [*range(len(first)), *range(len(second))] -> [*range(1, len(first) + 1), *range(1, len(second) + 1)]
            You count places from 1: `start` stands at place 0.
        [*range(len(first)), *range(len(second))] -> [*range(len(first)), *range(1, len(second) + 1)]
            The places of your translation begin at 1. They begin at 0, as those of the first sentence.
        ids = first + second -> ids = second + first
            Your translation stands first. The sentence does.
        [start, *target, sep] -> [start, *source, sep]
            The first sentence stands twice in yours.
        return ids, languages, places -> return ids, places, languages
            You return places before languages: ids, languages, places.
        return ids, languages, places -> return ids, languages
            The places are missing: ids, languages, places.
    """),
)

EXERCISES = [ROW]
