"""Five tasks with labels on the plays: who speaks, which genre, is this the answer, names and places, who says what."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from course_lib.data import SPLITS, check_split, plays, sha256, tables

if TYPE_CHECKING:
    from datasets import DatasetDict

    from course_lib.data.plays_source import Row

VERSION = 1  # of the tasks, their labels and their draws: raise it when one of them changes
MOST = {"train": 4_000, "validation": 500, "test": 1_000}  # examples of one task
# Eight people of eight plays who speak at least 90 times in train and 20 times in the scenes that are kept for tests.
SPEAKERS = {
    ("Hamlet", "HAMLET"): "Hamlet", ("Antony and Cleopatra", "MARK ANTONY"): "Mark Antony",
    ("Much Ado About Nothing", "BENEDICK"): "Benedick", ("Measure for Measure", "ISABELLA"): "Isabella",
    ("A Winter's Tale", "LEONTES"): "Leontes", ("Cymbeline", "IMOGEN"): "Imogen",
    ("Henry IV, Part 2", "FALSTAFF"): "Falstaff", ("Richard III", "GLOUCESTER"): "Richard",
}  # fmt: skip
TAGS = ("other", "person", "place")
PLACES = set(
    """
    Afric Africa Agincourt Albion Alexandria Alps Angiers Anjou Antioch Antium Arabia Aragon Arden Asia Athens
    Barbary Belmont Berwick Birnam Bohemia Bordeaux Bretagne Bristol Britain Britany Burgundy Calais Capitol
    Carthage Cawdor Christendom Corinth Corioli Cyprus Delphos Denmark Dover Dunsinane Eastcheap Egypt Elsinore
    England Ephesus Epidamnum Europe Fife Florence Forres France Gascony Genoa Germany Glamis Greece Harfleur
    Hereford Holland Illyria India Inverness Ireland Italy Jerusalem Kenilworth Libya Lombardy London Macedon Mantua
    Marseilles Mauritania Messina Milan Naples Navarre Nile Normandy Norway Olympus Orleans Padua Paris Parthia
    Persia Philippi Picardy Pisa Poitiers Poland Pomfret Pontus Ravenspurgh Rhodes Rialto Rome Rouen Russia Sardis
    Scone Scotland Shrewsbury Sicilia Sicily Smithfield Spain Sparta Swinstead Syracuse Syria Tarsus Tewksbury
    Thebes Tiber Touraine Tripolis Troy Tunis Tyre Venice Verona Vienna Wales Westminster Windsor
""".split()
)
PEOPLES = set("english french goth goths irish roman romans scots scottish volsces volscian volscians welsh".split())


class Text(NamedTuple):
    """One text and its label."""

    text: str
    label: str


class Pair(NamedTuple):
    """A speech, another, and whether the second answers the first: "yes" or "no"."""

    first: str
    second: str
    label: str


class Tagged(NamedTuple):
    """The words of a speech, and a tag for each."""

    words: list[str]
    tags: list[str]


class Span(NamedTuple):
    """A question, the words of a passage, and the places of the first and the last word of the answer in it."""

    question: str
    words: list[str]
    first: int
    last: int


def load(task: str) -> DatasetDict:
    """One task as a `datasets.DatasetDict` (train, validation, test); its columns are those of its rows.

    Raises what `rows` raises, and ModuleNotFoundError without `datasets`.
    """
    found = {split: rows(task, split) for split in SPLITS}
    return tables(type(found["train"][0])._fields, found)


def rows(task: str, split: str) -> list:
    """The examples of one task and split, in a fixed, mixed order, so that the first n are a fair draw.

    "speaker", "genre": `Text`; "answer": `Pair`; "names": `Tagged`; "says": `Span`. Raises ValueError for an unknown
    task or split, and what `plays.rows` raises.
    """
    check_split(split)
    _check_task(task)
    return list(_drawn(task, split))


@cache
def _drawn(task: str, split: str) -> list:
    found = {json.dumps(row): row for row in TASKS[task](split)}  # none twice
    return [found[key] for key in sorted(found, key=lambda key: sha256(f"play tasks {VERSION} {key}"))][: MOST[split]]


def _scenes(split: str) -> dict[tuple, list[Row]]:
    """The rows of each scene of a split of the plays."""
    scenes: dict[tuple, list[Row]] = {}
    for row in plays.rows(split):
        scenes.setdefault(row[:4], []).append(row)
    return scenes


def _spoken(row: Row) -> str:
    """A speech as one line, without its directions."""
    return " ".join(re.sub(r"\[.*?\]", " ", row.text).split())


def _long_enough(text: str) -> bool:
    return 8 <= len(text.split()) <= 80


def _speaker(split: str):
    """Test is the scenes of validation, for the people of the test plays speak nowhere else; validation is of train."""
    for scene, members in _scenes("validation" if split == "test" else "train").items():
        kept = int(sha256(f"speaker {scene}")[:4], 16) % 8 == 0
        if split == "test" or kept == (split == "validation"):
            for row in members:
                if (row.play, row.speaker) in SPEAKERS and _long_enough(_spoken(row)):
                    yield Text(_spoken(row), SPEAKERS[row.play, row.speaker])


def _genre(split: str):
    for row in plays.rows(split):
        if row.speaker and _long_enough(_spoken(row)):
            yield Text(_spoken(row), row.genre)


def _answer(split: str):
    """The next speech of a scene, or another of the same scene by whoever speaks next: a hash says which of the two."""
    for scene, members in _scenes(split).items():
        said = [row for row in members if row.speaker and len(_spoken(row).split()) >= 4]
        for first, second in pairwise(said):
            if first.speaker == second.speaker:
                continue
            draw = int(sha256(f"answer {scene} {first.text}")[:8], 16)
            others = [row for row in said if row.speaker == second.speaker and row.text != second.text]
            if draw % 2 and others:
                yield Pair(_spoken(first), _spoken(others[draw // 2 % len(others)]), "no")
            elif others:
                yield Pair(_spoken(first), _spoken(second), "yes")


def _names(split: str):
    rare = _rare_words() - PEOPLES
    speakers: dict[str, set[str]] = {}
    for row in plays.rows(split):
        speakers.setdefault(row.play, set()).add(row.speaker)
    parts = {play: {word for name in names for word in name.split()} for play, names in speakers.items()}
    for row in plays.rows(split):
        words = _words(_spoken(row)) if row.speaker else []
        if 6 <= len(words) <= 60:
            tags = [_tag(word, speakers[row.play], parts[row.play], rare) for word in words]
            if set(tags) != {"other"} or int(sha256(row.text)[:4], 16) % 8 == 0:
                yield Tagged(words, tags)


def _tag(word: str, speakers: set[str], parts: set[str], rare: set[str]) -> str:
    """A person of this play, if the word is part of a speaker's name and stands for nothing else; or a place."""
    if not word[0].isupper():
        return "other"
    name = re.sub(r"'\w*$", "", word)
    if name in PLACES and name.upper() not in speakers:
        return "place"
    return "person" if name.upper() in parts and name.lower() in rare else "other"


@lru_cache(maxsize=1)
def _rare_words() -> set[str]:
    """Words of three letters or more that are written with a capital nine times in ten or more, all plays counted."""
    counts = Counter(
        word for split in SPLITS for row in plays.rows(split) for word in re.findall("[A-Za-z]+", row.text)
    )
    every: Counter[str] = Counter()
    for word, n in counts.items():
        every[word.lower()] += n
    return {word for word, n in every.items() if len(word) > 2 and counts[word] <= 0.1 * n}


def _says(split: str):
    """Three speeches in a row by three speakers, as the plays print them; a hash says whose is asked."""
    for members in _scenes(split).values():
        for three in zip(members, members[1:], members[2:], strict=False):
            names, said = [row.speaker for row in three], [_words(_spoken(row)) for row in three]
            short = all(3 <= len(words) <= 40 and not any(map(is_name, words)) for words in said)
            if not short or len(set(names)) < 3 or not all(names):
                continue
            words, spans = [], []
            for name, part in zip(names, said, strict=True):
                words += [*name.split(), "."]
                spans.append((len(words), len(words) + len(part) - 1))
                words += part
            asked = int(sha256(" ".join(words))[:8], 16) % 3
            yield Span(f"What does {names[asked]} say?", words, *spans[asked])


def is_name(word: str) -> bool:
    """Whether a word is in capitals, as a speaker's name is."""
    return len(word) > 1 and word.isupper()


def _words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z]+(?:-[A-Za-z]+)*(?:'[a-z]+)?|[^\w\s]", text)


TASKS = {"speaker": _speaker, "genre": _genre, "answer": _answer, "names": _names, "says": _says}


def checksum() -> str:
    """SHA-256 of every row of every task and split, in order."""
    return sha256(json.dumps([rows(task, split) for task in TASKS for split in SPLITS]))


def _check_task(task: str) -> None:
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(map(repr, TASKS))}; got {task!r}.")
