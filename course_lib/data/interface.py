"""JupyterLab's interface strings with the translations that people wrote: small, real, and not always consistent."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from course_lib.data import SPLITS, Pair, check_split, sha256, tables
from course_lib.data.interface_source import (
    PLACEHOLDER,
    bare_words,
    find_locale,
    tokenize,
    translations,
)

if TYPE_CHECKING:
    from datasets import DatasetDict

VERSION = 1  # of the reading, the tokens and the split: raise it when one of them changes
HELD_OUT = 0.1  # of the families of strings, for validation and for test each
RUN = 6  # strings that share so many words in a row belong together


class Row(NamedTuple):
    """One string of the interface and its translation, as text and as tokens."""

    source: str
    target: str
    source_tokens: list[str]
    target_tokens: list[str]


def load(language: str = "fr") -> DatasetDict:
    """The pairs as a `datasets.DatasetDict` (train, validation, test): source, target, source_tokens, target_tokens.

    `language` is one of 29, "de" or "zh_TW" for example; all but French need a package of their own. Raises
    ValueError for a language that has none, ModuleNotFoundError where it is missing, RuntimeError when damaged.
    """
    return tables(Row._fields, {split: rows(split, language) for split in SPLITS})


def pairs(split: str, language: str = "fr") -> list[Pair]:
    """The pairs of one split in tokens. Nobody has aligned their words: `alignment` is empty. Raises as `rows` does."""
    return [Pair(row.source_tokens, row.target_tokens, []) for row in rows(split, language)]


def rows(split: str, language: str = "fr") -> list[Row]:
    """The pairs of one split in a fixed, mixed order, without `datasets`; raises what `load` raises.

    Raises ValueError for an unknown split too.
    """
    check_split(split)
    return [row._replace(source_tokens=list(row.source_tokens), target_tokens=list(row.target_tokens))
            for row in _splits(find_locale(language))[split]]  # fmt: skip


@lru_cache(maxsize=4)
def _splits(locale: str) -> dict[str, list[Row]]:
    """All rows of a language by split: a family, of strings that are nearly the same, is in one split."""
    found = _rows(locale)
    splits: dict[str, list[Row]] = {split: [] for split in SPLITS}
    for row, family in zip(found, _families(found), strict=True):
        draw = int(sha256(f"interface {VERSION} {family}")[:8], 16) / 2**32
        splits["test" if draw < HELD_OUT else "validation" if draw < 2 * HELD_OUT else "train"].append(row)
    for part in splits.values():
        part.sort(key=lambda row: sha256(row.source))  # else strings that begin alike would stand together
    return splits


def _rows(locale: str) -> list[Row]:
    """One row for each source string that is translated, with the translation that it has most often."""
    of_source: dict[tuple[str, ...], list[Row]] = {}
    for source, target in translations(locale):
        if row := _row(source, target, locale):
            of_source.setdefault(tuple(row.source_tokens), []).append(row)
    return [max(same, key=lambda row: sum(other.target == row.target for other in same))  # the first, when they tie
            for same in of_source.values()]  # fmt: skip


def _row(source: str, target: str, locale: str) -> Row | None:
    """The row of two cleaned strings, or None for what is no translation: empty, equal, code, lost placeholders."""
    words = bare_words(source), bare_words(target)
    if not all(words) or words[0] == words[1]:
        return None
    if re.search(r"[{}]", re.sub(PLACEHOLDER, "", source + target)):  # a piece of a settings file as an example
        return None
    if sorted(re.findall(PLACEHOLDER, source)) != sorted(re.findall(PLACEHOLDER, target)):
        return None
    return Row(source, target, tokenize(source), tokenize(target, locale))


def _families(found: list[Row]) -> list[str]:
    """For each row the name of its family: linked by equal letters on either side or a run of words they share."""
    leader: dict[str, str] = {}

    def lead(key: str) -> str:
        while leader.setdefault(key, key) != key:
            leader[key] = key = leader[leader[key]]  # halves the way for the next one who asks
        return key

    firsts = []
    for row in found:
        words = [word.removesuffix("s") for word in bare_words(row.source)]  # one cell, two cells: one family
        runs = [" ".join(words[i : i + RUN]) for i in range(len(words) - RUN + 1)]
        first, *others = [f"source {''.join(words)}", f"target {''.join(bare_words(row.target))}", *runs]
        for other in others:
            one, two = sorted((lead(first), lead(other)))
            leader[two] = one  # the smaller name leads, whatever the order of the rows
        firsts.append(first)
    return [lead(first) for first in firsts]


def checksum(language: str = "fr") -> str:
    """SHA-256 of every row of every split, in order: it changes with the source, the reading and the draw."""
    return sha256(json.dumps([rows(split, language) for split in SPLITS]))
