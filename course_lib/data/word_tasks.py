"""Eight tasks of word pairs, lists of our own: a model reads some pairs and is asked for the partner of one more word.

examples, asked = pairs("plurals", "train"), pairs("plurals", "test")      # [("child", "children"), ...]
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from course_lib.data import SPLITS, check_split, read_list, sha256, tables

if TYPE_CHECKING:
    from datasets import DatasetDict

VERSION = 1  # of the lists and the split: raise it when one of them changes
SIZES = {"train": 32, "validation": 16, "test": 32}  # pairs of each task
CHECKSUM = "1ea7e0aecc28dda11f98c4dc39a045330a275c19821007f2941c969459eae82a"  # of data/lists/word_tasks.tsv


class Row(NamedTuple):
    """One question: the task it belongs to, the word asked and its one right answer."""

    task: str
    word: str
    answer: str


ROWS = tuple(Row(*line) for line in read_list("word_tasks", CHECKSUM))
TASKS = tuple(dict.fromkeys(row.task for row in ROWS))


def load() -> DatasetDict:
    """All tasks as a `datasets.DatasetDict` (train, validation, test): task, word, answer.

    train: the pairs that a prompt shows; validation and test: the words that it asks. Raises ModuleNotFoundError
    without `datasets`; `pairs` needs no package.
    """
    return tables(Row._fields, {split: rows(split) for split in SPLITS})


def rows(split: str) -> list[Row]:
    """Every task's rows of one split, task by task; raises ValueError for an unknown split."""
    return [Row(task, word, answer) for task in TASKS for word, answer in pairs(task, split)]


def pairs(task: str, split: str) -> list[tuple[str, str]]:
    """(word, answer) of one task and split, in a fixed, mixed order; raises ValueError for an unknown task or split."""
    check_split(split)
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(map(repr, TASKS))}; got {task!r}.")
    return list(_splits(task)[split])


@cache
def _splits(task: str) -> dict[str, list[tuple[str, str]]]:
    """The pairs of each split: a hash of the word draws it, as often as SIZES says."""
    found = [(row.word, row.answer) for row in ROWS if row.task == task]
    mixed = iter(sorted(found, key=lambda pair: sha256(f"word tasks {VERSION} {pair[0]}")))
    return {split: [next(mixed) for _ in range(size)] for split, size in SIZES.items()}


def checksum() -> str:
    """SHA-256 of every row of every split, in order: it changes with the lists and with the draw."""
    return sha256(json.dumps([rows(split) for split in SPLITS]))
