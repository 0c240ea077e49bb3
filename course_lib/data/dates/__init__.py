"""Dates in any two languages: translation whose word order and whose word alignment are known."""

from __future__ import annotations

import json
from datetime import date, timedelta
from functools import lru_cache
from numbers import Integral
from random import Random
from typing import TYPE_CHECKING

from course_lib.data import SPLITS, Pair, check_split, sha256, tables
from course_lib.data.dates.source import Language, Sentence, align

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datasets import DatasetDict

VERSION = 1  # of the draws: raise it when the split or the sentences change
FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)
MOST = 8  # dates in one sentence
SIZES = {"train": 20_000, "validation": 1_000, "test": 1_000}
SHOWN = ("fr", "de", "hu", "es", "fa", "ar", "th", "ja")  # in the card, and in the checksum


def load(
    source: str = "en",
    target: str = "fr",
    style: str = "full",
    n_dates: int | tuple[int, int] = (1, 4),
    sizes: dict[str, int] | None = None,
    seed: int = 0,
    digits: str = "cldr",
) -> DatasetDict:
    """Dates in two languages as a `datasets.DatasetDict` (train, validation, test), one row per sentence.

    Columns source and target (text), source_tokens and target_tokens, alignment (rows [i, j]: source token i says
    what target token j says), n_dates. A sentence lists `n_dates` dates, a number or (fewest, most). Styles: "full"
    has the weekday, "long" has not, "words" is long with the year in words. Digits: "cldr", those the language writes
    by default, "native", those of its script, or "latin". `sizes` may give another number of rows for a split.
    Raises ValueError, in words, for anything else, ModuleNotFoundError without babel, num2words or `datasets`.
    """
    wrong = set(sizes or {}) - set(SPLITS)
    if wrong:
        raise ValueError(f"sizes names the splits 'train', 'validation' and 'test', not {sorted(map(repr, wrong))}.")
    sizes = SIZES | (sizes or {})
    names = ("source", "target", "source_tokens", "target_tokens", "alignment", "n_dates")
    # Asked for all three before any is written: what is wrong with one is said at once.
    asked = {s: _sentences(s, source, target, n_dates, sizes[s], seed, style, digits) for s in SPLITS}

    def rows(split: str) -> Iterator[tuple]:
        for n, here, there in asked[split]:
            yield here.text, there.text, here.tokens, there.tokens, align(here.roles, there.roles), n

    return tables(names, {split: rows(split) for split in SPLITS})


def pairs(
    split: str,
    source: str = "en",
    target: str = "fr",
    n_dates: int | tuple[int, int] = (1, 4),
    size: int | None = None,
    seed: int = 0,
    style: str = "full",
    digits: str = "cldr",
) -> list[Pair]:
    """The sentences of one split in tokens, with their gold alignment, without `datasets`; arguments as in `load`.

    The dates depend on the split, the seed and `n_dates` only: any two languages say the same ones, in any style, and
    fewer sentences are the first of more. Raises what `load` raises.
    """
    check_split(split)
    size = SIZES[split] if size is None else size
    return [
        Pair(here.tokens, there.tokens, list(align(here.roles, there.roles)))
        for _, here, there in _sentences(split, source, target, n_dates, size, seed, style, digits)
    ]


def days(split: str) -> list[date]:
    """The days of one split, in order: eight in ten of 1900 to 2099 train, one validates, one tests.

    A hash of the day decides, so no date of one split is ever said in another, alone or in a list.
    Raises ValueError for an unknown split.
    """
    check_split(split)
    return list(_days()[split])


@lru_cache(maxsize=1)
def _days() -> dict[str, list[date]]:
    parts: dict[str, list[date]] = {split: [] for split in SPLITS}
    for n in range((LAST - FIRST).days + 1):
        day = FIRST + timedelta(n)
        drawn = int(sha256(f"dates {VERSION} {day}")[:8], 16) % 10
        parts[{8: "validation", 9: "test"}.get(drawn, "train")].append(day)
    return parts


def _sentences(
    split: str, source: str, target: str, n_dates: int | tuple[int, int], size: int, seed: int, style: str, digits: str
) -> Iterator[tuple[int, Sentence, Sentence]]:
    """How many dates a sentence has, and what both languages write."""
    drawn = _draw(split, n_dates, size, seed)
    here, there = Language(source, style, digits), Language(target, style, digits)
    return ((len(listed), here.write(listed), there.write(listed)) for listed in drawn)


def _draw(split: str, n_dates: int | tuple[int, int], size: int, seed: int) -> list[tuple[date, ...]]:
    """`size` different lists of days of one split."""
    known = days(split)
    low, high = n_dates if isinstance(n_dates, tuple | list) and len(n_dates) == 2 else (n_dates, n_dates)
    whole = all(isinstance(n, Integral) and not isinstance(n, bool) for n in (low, high))
    if not whole or not 1 <= low <= high <= MOST:
        raise ValueError(f"n_dates must be a number from 1 to {MOST}, or (fewest, most) of these, not {n_dates!r}.")
    if not isinstance(size, Integral) or size < 1:
        raise ValueError(f"A split's size must be a whole number, 1 or more, not {size!r}.")
    if not isinstance(seed, Integral):
        raise ValueError(f"seed must be a whole number, not {seed!r}.")
    if high == 1 and size > len(known):
        raise ValueError(f"The {split} split has {len(known):,} single dates: {size:,} are too many.")
    uniform = Random(f"dates {VERSION} {split} {seed}").random  # the one draw that Python promises to keep
    lists: dict[tuple[date, ...], None] = {}
    while len(lists) < size:
        n = low + int(uniform() * (high - low + 1))
        lists[tuple(known[int(uniform() * len(known))] for _ in range(n))] = None
    return list(lists)


def checksum() -> str:
    """SHA-256 of all English and French pairs, and of some in other languages and styles."""
    parts = [pairs(split) for split in SPLITS]
    parts += [pairs("test", "en", target, (1, MOST), 100, digits="native") for target in SHOWN]
    parts += [pairs("test", "en", target, (1, MOST), 100, style="words") for target in SHOWN]
    return sha256(json.dumps(parts))
