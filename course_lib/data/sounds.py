"""English words and how they sound: letters in, sounds out, from the CMU Pronouncing Dictionary.

some = words("test")     # some[0].word is a string of letters, some[0].sounds a list such as ["F", "OW1", "N"]
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from course_lib.data import SPLITS, check_split, sha256, tables

if TYPE_CHECKING:
    from datasets import DatasetDict

VERSION = 1  # of the choice of words and of the split: raise it when either changes
SHARES = {"test": 0.1, "validation": 0.05}  # of the stems; train has the rest
LINE = re.compile(r"^([a-z]+) ([^#\n]+)", re.MULTILINE)  # a second pronunciation is listed as word(2): left out
# What may stand behind a stem, one ending after another; longer ones first.
ENDINGS = sorted(
    """
    s es ed ing e y i er or est ly li ful ment able abl abilit ible ibl ibilit ib ish ism ist ize iz ise al ally ic
    ical ation at ate ion ity iti ous ou ive iv ian an en ant ent ance anc ence enc ship hood age ag th ness less err
""".split(),
    key=len,
    reverse=True,
)
STEM = re.compile(rf"(..+?)(?:{'|'.join(ENDINGS)})*")
# The first of two equal letters: running is run, signalling is signal; but civilly is civil, thinness is thin.
DOUBLED = re.compile(r"([^sle])(?=\1(?!ess))|l(?=l(?![yi](?!ng)))")


class Word(NamedTuple):
    """A word, in small letters from a to z, and its sounds, a vowel with its stress: 1 main, 2 second, 0 none."""

    word: str
    sounds: list[str]


def load() -> DatasetDict:
    """The words as a `datasets.DatasetDict` (train, validation, test): word, sounds.

    Raises ModuleNotFoundError without `datasets`, ConnectionError, ValueError or OSError, each in a sentence, where the
    dictionary is neither there nor to be had.
    """
    return tables(Word._fields, {split: words(split) for split in SPLITS})


def words(split: str) -> list[Word]:
    """The words of one split with their sounds, in a fixed, mixed order: the first n are a fair draw.

    Raises ValueError for an unknown split, and what `load` raises for a dictionary that is missing.
    """
    check_split(split)
    return list(_splits()[split])


def stem(word: str) -> str:
    """What a word shares with its inflections and most of its derivations, by its letters alone.

    stem("running") = stem("runs") = "run". It is short where endings are many, so that some words that have nothing to
    do with each other share one (seal, seance): they stand on one side of the split together, which does no harm.
    """
    plain = DOUBLED.sub("", word)
    found = STEM.fullmatch(plain)
    short = found[1] if found else plain
    return f"{short[:-1]}i" if short.endswith("y") else short  # dying is die


def dictionary() -> list[Word]:
    """Every word of letters alone, in the order of the file, with the first of its pronunciations; raises as `words`.

    The file is fetched once, with the set-up or at the first call.
    """
    from course_lib.train import published

    text = published.fetch("cmudict").read_text(encoding="utf-8")
    return [Word(word, said.split()) for word, said in LINE.findall(text)]


@lru_cache(maxsize=1)
def _splits() -> dict[str, list[Word]]:
    """A hash of its stem draws a word's split, a hash of the word its place there."""
    found: dict[str, list[tuple[str, Word]]] = {split: [] for split in SPLITS}
    for row in dictionary():
        found[_side(stem(row.word))].append((sha256(row.word), row))
    return {split: [row for _, row in sorted(part)] for split, part in found.items()}


@cache
def _side(stem: str) -> str:
    drawn = int(sha256(f"sounds {VERSION} {stem}")[:8], 16) / 2**32
    if drawn < SHARES["test"]:
        return "test"
    return "validation" if drawn < SHARES["test"] + SHARES["validation"] else "train"


def checksum() -> str:
    """SHA-256 of every word of every split, in order: it changes with the source, the choice and the draw."""
    return sha256(json.dumps([words(split) for split in SPLITS]))
