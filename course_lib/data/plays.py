"""Shakespeare's plays: real text, every speech with its speaker, play, genre, act and scene."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from course_lib.data import SPLITS, check_split, from_hub, read_card, sha256, tables
from course_lib.data.plays_source import Row, parse, sources

if TYPE_CHECKING:
    from datasets import DatasetDict

VERSION = 1  # of the reading and of the split: raise it when either changes
HUB = {"wikitext": ("Salesforce/wikitext", "wikitext-103-raw-v1")}
GENRES = ("comedies", "histories", "problems", "roman", "romances", "tragedies")

# Held out whole: one play of each genre, none with a sequel, so none of these people walks into another play.
TEST_PLAYS = (
    "The Comedy of Errors", "King John", "The Merchant of Venice",
    "Titus Andronicus", "The Tempest", "Macbeth",
)  # fmt: skip
VALIDATION_SHARE = 0.07  # of the rest of each genre, in whole scenes
# Scenes that repeat a long passage of another, as when a letter is read twice: both stay in train.
REPEATS = {
    "Cymbeline": [("V", "IV"), ("V", "V")],
    "Henry VI, Part 3": [("III", "III"), ("IV", "I")],
    "Twelfth Night": [("II", "V"), ("III", "IV")],
}


def load(source: str = "embedded") -> DatasetDict:
    """The plays as a `datasets.DatasetDict` (train, validation, test), one row per speech or stage direction.

    Columns play, genre, act, scene, speaker, kind ("speech" or "direction") and text. A direction that
    interrupts a speech stays in its text, in square brackets. `source="hub:wikitext"` fetches WikiText-103
    instead, with the one column text. Raises ModuleNotFoundError without its package or `datasets`, RuntimeError
    when its files are not those we know, ValueError for an unknown source, ConnectionError without the hub.
    """
    if source != "embedded":
        return from_hub(source, HUB, "plays.load()")
    return tables(Row._fields, {split: rows(split) for split in SPLITS})


def text(split: str) -> str:
    """The running text of one split, for a model that reads characters; raises what `rows` raises.

    A speech is its speaker's name in capitals and a full stop, then its lines; a direction stands in square
    brackets; an empty line follows each.
    """
    return "".join(f"{r.speaker}.\n{r.text}\n\n" if r.speaker else f"[{r.text}]\n\n" for r in rows(split))


def rows(split: str) -> list[Row]:
    """The rows of one split in reading order, without `datasets`.

    Raises ValueError for an unknown split, ModuleNotFoundError and RuntimeError as `load` does.
    """
    check_split(split)
    return list(_splits()[split])


@lru_cache(maxsize=1)
def _splits() -> dict[str, list[Row]]:
    everything = [row for genre, markdown in sources() for row in parse(genre, markdown)]
    rest = [row for row in everything if row.play not in TEST_PLAYS]
    drawn = _draw_scenes(rest)
    return {
        "train": [row for row in rest if row[:4] not in drawn],
        "validation": [row for row in rest if row[:4] in drawn],
        "test": [row for row in everything if row.play in TEST_PLAYS],
    }


def _draw_scenes(candidates: list[Row]) -> set[tuple[str, ...]]:
    """Scenes (play, genre, act, scene) for validation: by genre, in order of their hash, up to the share."""
    size: Counter[tuple[str, ...]] = Counter()
    for row in candidates:
        if (row.act, row.scene) not in REPEATS.get(row.play, []):
            size[row[:4]] += len(row.text)
    drawn = set()
    for genre in GENRES:
        scenes = sorted((s for s in size if s[1] == genre), key=lambda s: sha256(f"plays {VERSION} {s}"))
        wanted = VALIDATION_SHARE * sum(size[s] for s in scenes)
        for scene in scenes:
            if wanted > 0:
                drawn.add(scene)
                wanted -= size[scene]
    return drawn


def checksum() -> str:
    """SHA-256 of every row of every split, in order: it changes with the source, the reading and the draw."""
    return sha256(json.dumps([rows(split) for split in SPLITS]))


def card() -> str:
    """The card of the plays, in Markdown."""
    return read_card("plays")
