"""The same short texts in many languages: names of territories, languages, scripts, money, months. Lesson 14.

names("en")[7], names("ka")[7]               # the same thing in English and in Georgian
shares(0.3)["am"]                            # how often Amharic is sampled where languages have unequal amounts of text
drawn(1000, exponent=0.3, seed=0)            # (language, name): what a shared vocabulary is learned from
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from functools import lru_cache
from numbers import Integral, Real
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from course_lib.data import SPLITS, check_split, sha256, tables

if TYPE_CHECKING:
    from datasets import DatasetDict

VERSION = 1  # of the choice of languages and names, of the split and of the draws: raise it when one of them changes
PACKAGE = "babel==2.18.0"
SPLIT_SHARES = {"test": 0.25, "validation": 0.1}  # of the families of names; train has the rest
KINDS = ("territory", "language", "script", "money", "month", "day")
NO_NAMES = ("ZZ", "XA", "XB", "und", "zxx", "mul", "mis", "root", "Zyyy", "Zzzz", "Zxxx", "Zinh", "XXX", "XTS")


class Language(NamedTuple):
    """A language: its English name, the script that CLDR writes it in, its family and, if given, the branch of it."""

    name: str
    script: str
    family: str


# In the order of the amounts of text that `shares` gives them, which is our choice and no count of anything.
LANGUAGES = {
    "en": Language("English", "Latin", "Indo-European, Germanic"),
    "ru": Language("Russian", "Cyrillic", "Indo-European, Slavic"),
    "de": Language("German", "Latin", "Indo-European, Germanic"),
    "es": Language("Spanish", "Latin", "Indo-European, Romance"),
    "fr": Language("French", "Latin", "Indo-European, Romance"),
    "ja": Language("Japanese", "Kanji and kana", "Japonic"),
    "zh": Language("Chinese", "Han", "Sino-Tibetan, Sinitic"),
    "it": Language("Italian", "Latin", "Indo-European, Romance"),
    "pt": Language("Portuguese", "Latin", "Indo-European, Romance"),
    "vi": Language("Vietnamese", "Latin", "Austroasiatic"),
    "id": Language("Indonesian", "Latin", "Austronesian"),
    "nl": Language("Dutch", "Latin", "Indo-European, Germanic"),
    "pl": Language("Polish", "Latin", "Indo-European, Slavic"),
    "tr": Language("Turkish", "Latin", "Turkic"),
    "fa": Language("Persian", "Arabic", "Indo-European, Iranian"),
    "ko": Language("Korean", "Hangul", "Koreanic"),
    "ar": Language("Arabic", "Arabic", "Afro-Asiatic, Semitic"),
    "uk": Language("Ukrainian", "Cyrillic", "Indo-European, Slavic"),
    "hu": Language("Hungarian", "Latin", "Uralic"),
    "fi": Language("Finnish", "Latin", "Uralic"),
    "el": Language("Greek", "Greek", "Indo-European, Greek"),
    "th": Language("Thai", "Thai", "Kra-Dai"),
    "he": Language("Hebrew", "Hebrew", "Afro-Asiatic, Semitic"),
    "hi": Language("Hindi", "Devanagari", "Indo-European, Indo-Aryan"),
    "bn": Language("Bangla", "Bengali", "Indo-European, Indo-Aryan"),
    "ta": Language("Tamil", "Tamil", "Dravidian"),
    "ur": Language("Urdu", "Arabic", "Indo-European, Indo-Aryan"),
    "ka": Language("Georgian", "Georgian", "Kartvelian"),
    "hy": Language("Armenian", "Armenian", "Indo-European, Armenian"),
    "sw": Language("Swahili", "Latin", "Niger-Congo, Bantu"),
    "am": Language("Amharic", "Ethiopic", "Afro-Asiatic, Semitic"),
    "my": Language("Burmese", "Myanmar", "Sino-Tibetan, Tibeto-Burman"),
}


class Item(NamedTuple):
    """One thing that all languages have a name for: its kind, CLDR's code, its names in the order of LANGUAGES."""

    kind: str
    code: str
    names: tuple[str, ...]


def load() -> DatasetDict:
    """The names as a `datasets.DatasetDict` (train, validation, test): kind, code, and a column for each language.

    Raises ModuleNotFoundError without babel or `datasets`.
    """
    rows = {split: [(one.kind, one.code, *one.names) for one in items(split)] for split in SPLITS}
    return tables(("kind", "code", *LANGUAGES), rows)


def items(split: str | None = None) -> list[Item]:
    """What is named, in a fixed, mixed order: of one split, or of train, validation and test one after the other.

    Raises ValueError for an unknown split, ModuleNotFoundError without babel.
    """
    if split is not None:
        check_split(split)
    return [one for part in (SPLITS if split is None else (split,)) for one in _splits()[part]]


def names(language: str, split: str | None = None) -> list[str]:
    """The names in one language, in the order of `items(split)`: entry i names the same thing in every language.

    Raises ValueError for a code that is not in LANGUAGES or an unknown split, ModuleNotFoundError without babel.
    """
    _check_language(language)
    place = list(LANGUAGES).index(language)
    return [one.names[place] for one in items(split)]


def amounts() -> dict[str, int]:
    """How many characters the names of train have in each language: the same things, written shorter or longer.

    Raises ModuleNotFoundError without babel.
    """
    return {language: sum(map(len, names(language, "train"))) for language in LANGUAGES}


def shares(exponent: float = 1.0) -> dict[str, float]:
    """How often each language is sampled, q_i = p_i^exponent / Σ_j p_j^exponent, if it has the share p_i of all text.

    The p_i are chosen, for no package tells how much text a language has: language i in the order of LANGUAGES has an
    amount in proportion to 1 / i (Zipf's law). exponent: 1 leaves the p_i as they are, 0 makes all languages equal,
    and what is between favours rare languages over their share. q_i: Lample and Conneau, Cross-lingual Language
    Model Pretraining, 2019, section 3.1, who take 0.5 for the sentences that the vocabulary is learned from; 0.7 in
    multilingual BERT (Devlin, multilingual.md of its repository, 2018), for the vocabulary and for training; 0.3 in
    XLM-R (Conneau et al., 2020, sections 3 and 5.1). Raises ValueError for no number from 0 to 1.
    """
    _check_exponent(exponent)
    weights = {language: (1 / rank) ** exponent for rank, language in enumerate(LANGUAGES, start=1)}
    total = sum(weights.values())
    return {language: weight / total for language, weight in weights.items()}


def drawn(size: int, exponent: float = 1.0, seed: int = 0, split: str = "train") -> list[tuple[str, str]]:
    """Names with their language, sampled with replacement: the language by `shares(exponent)`, then one of its names.

    Raises ValueError for a size below 1, an exponent or a split that is none, ModuleNotFoundError without babel.
    """
    _check_size(size)
    check_split(split)
    q = shares(exponent)
    random = Random(sha256(f"locale names {VERSION} {seed}"))
    pools = {language: names(language, split) for language in LANGUAGES}
    return [
        (language, random.choice(pools[language])) for language in random.choices(list(q), list(q.values()), k=size)
    ]


@lru_cache(maxsize=1)
def _splits() -> dict[str, tuple[Item, ...]]:
    """Items that have a name in common, in whatever languages, are one family; a hash of it chooses its split."""
    found = _found()
    first_of: dict[str, int] = {}  # name: the item that had it first
    leads = list(range(len(found)))  # to an earlier item of the same family, from the first of it to itself

    def first(i: int) -> int:
        while leads[i] != i:
            i = leads[i]
        return i

    for i, one in enumerate(found):
        for name in one.names:
            one_end, other_end = sorted((first(i), first(first_of.setdefault(name.casefold(), i))))
            leads[other_end] = one_end
    family = [first(i) for i in range(len(found))]
    key = {root: sha256(f"locale names {VERSION} {found[root].kind} {found[root].code}") for root in set(family)}
    order = sorted(key, key=key.__getitem__)
    n_test, n_validation = (round(SPLIT_SHARES[split] * len(order)) for split in ("test", "validation"))
    side = dict.fromkeys(order, "train") | dict.fromkeys(order[:n_test], "test")
    side |= dict.fromkeys(order[n_test : n_test + n_validation], "validation")
    mixed = sorted(range(len(found)), key=lambda i: sha256(f"{VERSION} {found[i].kind} {found[i].code}"))
    return {split: tuple(found[i] for i in mixed if side[family[i]] == split) for split in SPLITS}


def _found() -> list[Item]:
    """What all languages have a name for, and no language in another alphabet has the English one for."""
    tables_of = [_cldr(language) for language in LANGUAGES]
    latin = [language.script == "Latin" for language in LANGUAGES.values()]
    found = []
    for kind in KINDS:
        for code in sorted(set.intersection(*(set(table[kind]) for table in tables_of)) - set(NO_NAMES)):
            row = tuple(_plain(table[kind][code]) for table in tables_of)
            borrowed = any(name == row[0] and not here for name, here in zip(row, latin, strict=True))
            if all(row) and not borrowed:
                found.append(Item(kind, code, row))
    return found


def _plain(name: str) -> str:
    """A name with single spaces, composed letters and no marks of direction, which nobody sees."""
    return " ".join(unicodedata.normalize("NFC", re.sub("[\u200e\u200f\u061c]", "", name)).split())


def _cldr(language: str) -> dict[str, dict[str, str]]:
    """CLDR's tables of names in one language: kind to code to name."""
    try:
        from babel import Locale
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(f"This corpus needs babel, which is missing: pip install {PACKAGE}") from missing
    locale = Locale(language)
    # Months and days as in a date, "format": for a name that stands alone babel 2.18 hands one language's to another
    # where the language's own table says "as in a date".
    found = (
        locale.territories, locale.languages, locale.scripts, locale.currencies,
        locale.months["format"]["wide"], locale.days["format"]["wide"],
    )  # fmt: skip
    return {kind: {str(code): name for code, name in table.items()} for kind, table in zip(KINDS, found, strict=True)}


def _check_language(language: str) -> None:
    if not isinstance(language, str) or language not in LANGUAGES:
        raise ValueError(f"language must be one of the codes {', '.join(LANGUAGES)}; got {language!r}.")


def _check_exponent(exponent: float) -> None:
    number = isinstance(exponent, Real) and not isinstance(exponent, bool)
    if not number or math.isnan(exponent) or not 0 <= exponent <= 1:
        raise ValueError(
            f"exponent must be a number from 0 (every language equally often) to 1 (as much as there is of it); "
            f"got {exponent!r}."
        )


def _check_size(size: int) -> None:
    if not isinstance(size, Integral) or isinstance(size, bool) or size < 1:
        raise ValueError(f"size must be how many names to draw, 1 or more; got {size!r}.")


def checksum() -> str:
    """SHA-256 of every item of every split, in order, and of a draw: it changes with all of them."""
    return sha256(json.dumps([[items(split) for split in SPLITS], drawn(100, 0.3)]))
