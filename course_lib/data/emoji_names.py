"""What the emoji of `emoji.py` are called in fourteen languages, with Unicode's own groups. Lesson 14.

names("test", "en")[3].name, names("test", "ko")[3].name    # the same emoji in English and in Korean
names("test", "ko")[3].group                                # and the same label
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from course_lib.data import SPLITS, check_split, emoji, read_packaged, sha256, tables
from course_lib.data.emoji import Row
from course_lib.data.locale_names import LANGUAGES as ALL_LANGUAGES

if TYPE_CHECKING:
    from datasets import DatasetDict

VERSION = 1  # of the choice of languages and of how names are cleaned: raise it when either changes
PACKAGE = "emoji==2.16.0"
CHECKSUM = "3e302016407103b1b4ceb3500412392311c4afea78f4e951c5c2114ca7a47352"  # of emoji.json and its kin
LANGUAGES = {code: ALL_LANGUAGES[code] for code in "en de es fr it pt tr id ru ar fa zh ja ko".split()}


def load() -> DatasetDict:
    """The names as a `datasets.DatasetDict` (train, validation, test): emoji, group, subgroup, a column a language.

    Raises ModuleNotFoundError without its packages or `datasets`, RuntimeError when a file is not the one we know.
    """
    rows = {}
    for split in SPLITS:
        parallel = zip(*(names(split, language) for language in LANGUAGES), strict=True)
        rows[split] = [(one[0].emoji, one[0].group, one[0].subgroup, *(row.name for row in one)) for one in parallel]
    return tables(("emoji", "group", "subgroup", *LANGUAGES), rows)


def names(split: str, language: str) -> list[Row]:
    """The emoji of one split with CLDR's short name in one language: rows (name, group, subgroup, emoji).

    Row i is the same emoji in every language. The emoji, their split and order are those of `emoji.rows`, less what
    has no name in some language. English names are CLDR's too ("ab button (blood type)"), where `emoji.rows` has
    Unicode's names of characters ("negative squared ab"). All letters are small. Raises ValueError for an unknown split
    or language, ModuleNotFoundError and RuntimeError as `load` does.
    """
    check_split(split)
    _check_language(language)
    called = _called()
    rows = [row for row in emoji.rows(split) if all(row.emoji in called[code] for code in LANGUAGES)]
    return [row._replace(name=called[language][row.emoji]) for row in rows]


@lru_cache(maxsize=1)
def _called() -> dict[str, dict[str, str]]:
    """Language to emoji to name."""
    found = {}
    for path, content in read_packaged(PACKAGE, "unicode_codes/emoji*.json", CHECKSUM):
        table = json.loads(content)
        language = path.stem.partition("_")[2] or "en"  # emoji.json has the English names, beside other things
        if language == "en":
            table = {sign: about["en"] for sign, about in table.items()}
        found[language] = {sign: plain for sign, name in table.items() if (plain := _plain(name))}
    return found


def _plain(name: str) -> str:
    """The package writes ":rote_rose:": without its colons, with spaces, in small letters."""
    return " ".join(name.strip(":").replace("_", " ").lower().split())


def _check_language(language: str) -> None:
    if not isinstance(language, str) or language not in LANGUAGES:
        raise ValueError(f"language must be one of the codes {', '.join(LANGUAGES)}; got {language!r}.")


def checksum() -> str:
    """SHA-256 of every row of every split in every language, in order: it changes with the source and the choice."""
    return sha256(json.dumps([[names(split, language) for language in LANGUAGES] for split in SPLITS]))
