"""Speeches of the plays without punctuation: after which word stood a comma, after which a full stop?"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from course_lib.data import check_split, plays

MARKS = ("", ",", ".", ";", ":", "?", "!")  # what may stand behind a word; at most one
SHORTEST, LONGEST = 6, 24  # words of a speech; of a longer one its first are taken
WORD_OR_MARK = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*['’]?|[,.;:?!]")


class Row(NamedTuple):
    """A speech: its words in small letters, and the punctuation mark after each of them, one of `MARKS`."""

    words: list[str]
    marks: list[str]


def rows(split: str) -> list[Row]:
    """The speeches of a split of the plays, in reading order; short ones and stage directions are left out.

    Raises ValueError for an unknown split.
    """
    check_split(split)
    return list(_rows(split))


def without_marks(text: str) -> Row:
    """A text's words in small letters, and the punctuation mark after each: of several the first, "" if there is none.

    Marks before the first word, and signs that are no punctuation, are left out. Raises TypeError for no string.
    """
    if not isinstance(text, str):
        raise TypeError(f"A text is a string; got {type(text).__name__}.")
    words, marks = [], []
    for part in WORD_OR_MARK.findall(text.lower()):
        if part not in MARKS:
            words.append(part)
            marks.append("")
        elif words and not marks[-1]:
            marks[-1] = part
    return Row(words, marks)


def with_marks(words: list[str], marks: list[str]) -> str:
    """The text that they make together: each mark after its word. Raises ValueError for two lengths."""
    if len(words) != len(marks):
        raise ValueError(f"There are {len(words)} words and {len(marks)} marks: one each, an empty one for none.")
    return " ".join(word + mark for word, mark in zip(words, marks, strict=True))


@lru_cache
def _rows(split: str) -> tuple[Row, ...]:
    spoken = (re.sub(r"\[.*?\]", " ", row.text) for row in plays.rows(split) if row.speaker)
    found = (without_marks(text) for text in spoken)
    return tuple(Row(row.words[:LONGEST], row.marks[:LONGEST]) for row in found if len(row.words) >= SHORTEST)
