"""One word, two senses: twelve words, four sentences of our own for each sense, to see what a model makes of a word.

[row, *_] = rows()      # Row(word="bank", sense="money", sentence="The bank closed my account ...")
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from course_lib.data import datasets_package, read_list, sha256

if TYPE_CHECKING:
    from datasets import DatasetDict

VERSION = 1  # of the sentences: raise it when one of them changes
CHECKSUM = "58237c89947acfdb5c06cda07d0bbb74df50f1183081c35d7d260fdf30213579"  # of data/lists/senses.tsv
EACH = 4  # sentences of each sense


class Row(NamedTuple):
    """One sentence: the word that is asked about, the sense that it has there, the sentence."""

    word: str
    sense: str
    sentence: str


# In the eight sentences of a word no other word comes twice that tells anything, and the word stands once in each, in
# the singular and in small letters.
ROWS = tuple(Row(*line) for line in read_list("senses", CHECKSUM))
WORDS = tuple(dict.fromkeys(row.word for row in ROWS))
SENTENCES: dict[str, dict[str, list[str]]] = {word: {} for word in WORDS}  # word: sense: sentences
for row in ROWS:
    SENTENCES[row.word].setdefault(row.sense, []).append(row.sentence)


def load() -> DatasetDict:
    """The sentences as a `datasets.DatasetDict` with one split, test: word, sense, sentence.

    Nothing is trained on them. Raises ModuleNotFoundError without `datasets`; `rows` needs no package.
    """
    package = datasets_package()
    columns = {name: list(column) for name, column in zip(Row._fields, zip(*rows(), strict=True), strict=True)}
    return package.DatasetDict({"test": package.Dataset.from_dict(columns)})


def rows(word: str | None = None) -> list[Row]:
    """The sentences of a word, four of its first sense, then four of its second; of all words where None.

    Raises ValueError for a word that is not among `WORDS`.
    """
    if word is not None and word not in WORDS:
        raise ValueError(f"word must be one of {', '.join(map(repr, WORDS))}; got {word!r}.")
    return [row for row in ROWS if word in (None, row.word)]


def checksum() -> str:
    """SHA-256 of every row, in order: it changes with the sentences."""
    return sha256(json.dumps(rows()))
