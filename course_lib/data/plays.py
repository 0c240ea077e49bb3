"""Shakespeare's plays: real text, every speech with its speaker, play, genre, act and scene."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from course_lib.data import SPLITS, check_split, from_hub, sha256, tables
from course_lib.data.plays_source import PACKAGE, PLAIN, Row, parse, sources

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
    """What the corpus is, its source, licence, size and splits, and what it cannot show, in Markdown."""
    everything = [row for split in SPLITS for row in rows(split)]
    speeches = [row for row in everything if row.speaker]
    alphabet = "".join(sorted(set(text("train")))).strip()
    table = "\n".join(
        f"| {split} | {len({r.play for r in part})} | {len({r[:4] for r in part})} | "
        f"{sum(bool(r.speaker) for r in part):,} | {sum(not r.speaker for r in part):,} | "
        f"{len(text(split)):,} |"
        for split, part in ((split, rows(split)) for split in SPLITS)
    )
    replaced = ", ".join(f"`{odd}` by {f'`{plain}`' if plain else 'nothing'}" for odd, plain in PLAIN.items())
    return f"""## Plays (`course_lib.data.plays`)

**What it is.** {len({r.play for r in everything})} plays of William Shakespeare, *Edward III* among them:
{len(speeches):,} speeches under {len({r.speaker for r in speeches}):,} names, and the stage directions.
One row is one speech or one direction, with play, genre, act, scene and speaker.

**Where from, licence.** The Markdown files inside `{PACKAGE}` (MIT licence); the plays are in the public
domain. Nothing is copied into this repository, nothing is downloaded. The genres are the folders of that
package: {", ".join(GENRES)}.

**Size and split.**

| split | plays | scenes | speeches | directions | characters of `text()` |
| --- | --- | --- | --- | --- | --- |
{table}

Test is whole plays, one of each genre: {", ".join(TEST_PLAYS)}. Validation is whole scenes of the other
plays, about {VALIDATION_SHARE:.0%} of each genre, taken in the order of a hash of their place. Train is
the rest. Scenes that repeat a long passage of another stay together in train. No speech of 80 characters
or more, and no run of twelve spoken words, stands on both sides.

**How it was read.** Names are in capitals. Speeches that the files give to nobody or to a wrong name are
repaired (`course_lib/data/plays_source.py` lists every repair). The alphabet is a line break, a space and
{len(alphabet)} other characters: `{alphabet}`. Replaced: {replaced}. A place named in a scene's heading is
read as a direction. A direction inside a speech stays there, in brackets.

**Not to be concluded.** How well a model knows English, or Shakespeare apart from his editors: spelling,
punctuation and most directions are modern, and *Edward III* and a few other plays are only partly his.
Validation shares its plays, people and plots with train; only test shows what carries over to a play never
read. The same name in two plays (MESSENGER, SERVANT) is not the same person, and one person can go by two
names.

**Version** {VERSION}, checksum `{checksum()}`.
"""
