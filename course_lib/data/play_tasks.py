"""Five tasks with labels on the plays: who speaks, which genre, does this answer that, names and places, who enters."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from course_lib.data import SPLITS, check_split, plays, sha256, tables
from course_lib.data.baselines import bag_of_words, most_frequent, right

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
    Afric Africa Agincourt Albion Alexandria Alps Anjou Antioch Antium Aragon Arabia Arden Asia Athens Aumerle Barbary
    Baynard Belmont Berwick Bohemia Bordeaux Bretagne Bristol Britain Britany Burgundy Calais Capitol Carthage
    Christendom Corinth Corioli Cyprus Delphos Denmark Dover Dunsinane Egypt Elsinore England Ephesus Epidamnum Eastcheap
    Europe Fife Florence Forres France Gascony Gaunt Genoa Germany Greece Harfleur Hereford Holland Illyria India
    Inverness Ireland Italy Jerusalem Kenilworth Libya London Lombardy Macedon Mantua Marseilles Mauritania Messina Milan
    Naples Navarre Nile Normandy Norway Olympus Orleans Padua Paris Parthia Persia Philippi Picardy Pisa Poitiers Poland
    Pomfret Pontus Ravenspurgh Rhodes Rialto Rome Rouen Russia Sardis Scone Scotland Shrewsbury Sicilia Sicily Smithfield
    Spain Sparta Syracuse Syria Tarsus Tewksbury Thebes Tiber Touraine Tripolis Troy Tunis Tyre Venice Verona Vienna
    Wales Westminster Windsor Birnam Cawdor Glamis Angiers Swinstead
""".split()
)
WHAT = {
    "speaker": "which of eight people says this speech?",
    "genre": "from a play of which of six genres is this speech?",
    "answer": "does the second speech answer the first?",
    "names": "which words of a speech name a person, which a place?",
    "who": "who enters, or who leaves, in this passage?",
}
BASELINES = {  # as measured; a test measures them again
    "speaker": "@speaker@",
    "genre": "@genre@",
    "answer": "@answer@",
    "names": "@names@",
    "who": "@who@",
}
QUESTIONS = {"Enter": "Who enters?", "Exit": "Who leaves?"}


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

    "speaker", "genre": `Text`; "answer": `Pair`; "names": `Tagged`; "who": `Span`. Raises ValueError for an unknown task
    or split, and what `plays.rows` raises.
    """
    check_split(split)
    _check_task(task)
    return list(_drawn(task, split))


@lru_cache(maxsize=None)
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
    rare = _rare_words()
    people = {}
    for row in plays.rows(split):
        people.setdefault(row.play, set()).add(row.speaker)
    for row in plays.rows(split):
        words = re.findall(r"[A-Za-z]+(?:-[A-Za-z]+)*(?:'[a-z]+)?|[^\w\s]", _spoken(row)) if row.speaker else []
        if 6 <= len(words) <= 60:
            tags = [_tag(word, people[row.play], rare) for word in words]
            if set(tags) != {"other"} or int(sha256(row.text)[:4], 16) % 8 == 0:
                yield Tagged(words, tags)


def _tag(word: str, people: set[str], rare: set[str]) -> str:
    """A person of this play, if the word is part of a speaker's name and stands for nothing else; or a place."""
    name = re.sub(r"'\w*$", "", word)
    if not name[:1].isupper():
        return "other"
    if name in PLACES and name.upper() not in people:
        return "place"
    named = any(name.upper() in speaker.split() for speaker in people)
    return "person" if named and name.lower() in rare else "other"


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


def _who(split: str):
    """Stretches of a scene in which one direction brings somebody in and one leads somebody off, both by name."""
    for members in _scenes(split).values():
        moves = [(i, kind, found) for i, row in enumerate(members) for kind, found in _moves(row)]
        for (i, kind, one), (j, other, two) in pairwise(moves):
            words, answer = [], {}
            for at in range(max(0, i - 1), min(len(members), j + 2)):
                row = members[at]
                cut = re.findall(r"[\w'-]+|[^\w\s]", f"{row.speaker}. {row.text}" if row.speaker else f"[{row.text}]")
                for k, verb, names in ((i, kind, one), (j, other, two)):
                    if at == k:
                        answer[verb] = _place(cut, names, len(words))
                words += cut
            asked = ("Enter", "Exit")[int(sha256(" ".join(words))[:4], 16) % 2]
            if kind != other and answer[asked] and 20 <= len(words) <= 120:
                yield Span(QUESTIONS[asked], words, *answer[asked])


def _moves(row: Row) -> list[tuple[str, list[str]]]:
    """Whether a direction brings in or leads off people by name: "Enter" or "Exit", and the words from first to last."""
    found = re.match(r"(Re-enter|Enter|Exit|Exeunt)\b(.*)", row.text) if not row.speaker else None
    if not found:
        return []
    words = re.findall(r"[\w'-]+|[^\w\s]", found[2])
    at = [i for i, word in enumerate(words) if len(word) > 1 and word.isupper()]
    return [("Exit" if found[1][:2] == "Ex" else "Enter", words[at[0] : at[-1] + 1] if at else [])]


def _place(words: list[str], names: list[str], before: int) -> tuple[int, int] | None:
    """The places of `names` in a row's words, in the whole passage, in which `before` words stand before this row."""
    starts = [i for i in range(len(words)) if names and words[i : i + len(names)] == names]
    return (before + starts[0], before + starts[0] + len(names) - 1) if starts else None


TASKS = {"speaker": _speaker, "genre": _genre, "answer": _answer, "names": _names, "who": _who}


def baseline(task: str, n: int | None = None) -> dict[str, float]:
    """What the test examples are worth to those who know little, by name; they learn from the first n of train.

    Share right, for "names" F1 (below); `most frequent` is the most frequent label. For "names" `dictionary` gives each
    word the tag that it had most often; for "who" `word before` takes the word behind the one that stood before most
    answers. Raises what `rows` raises.
    """
    train, test = rows(task, "train")[:n], rows(task, "test")
    if task == "names":
        return {"dictionary": f1([_dictionary(train, row.words) for row in test], [row.tags for row in test])}
    if task == "who":
        return {"word before": right([_word_before(train, row) for row in test], [(r.first, r.last) for r in test])}
    labels, truth = [row.label for row in train], [row.label for row in test]
    texts, asked = ([_one_text(row) for row in part] for part in (train, test))
    return {
        "most frequent": most_frequent(labels, truth),
        "bag of words": right(bag_of_words(texts, labels, asked), truth),
    }


def f1(said: list[list[str]], truth: list[list[str]]) -> float:
    """2 hits / (said + meant): over all words, a hit is the right tag, and "other" is no tag. 0 for no tag at all."""
    pairs = [pair for one, other in zip(said, truth, strict=True) for pair in zip(one, other, strict=True)]
    hits = sum(a == b != "other" for a, b in pairs)
    return 2 * hits / max(1, sum((a != "other") + (b != "other") for a, b in pairs))


def _one_text(row: Text | Pair) -> str:
    """Of a pair, the words of the first and those of the second are different words, and those of both once more."""
    if isinstance(row, Text):
        return row.text
    first, second = ({word.lower() for word in re.findall(r"[^\W_]+", part)} for part in row[:2])
    return " ".join([f"a{w}" for w in first] + [f"b{w}" for w in second] + [f"ab{w}" for w in first & second])


@lru_cache(maxsize=4)
def _tags_seen(train: tuple) -> dict[str, str]:
    seen: dict[str, Counter[str]] = {}
    for words, tags in train:
        for word, tag in zip(words, tags, strict=True):
            seen.setdefault(word.lower(), Counter())[tag] += 1
    return {word: counts.most_common(1)[0][0] for word, counts in seen.items()}


def _dictionary(train: list[Tagged], words: list[str]) -> list[str]:
    seen = _tags_seen(tuple((tuple(row.words), tuple(row.tags)) for row in train))
    return [seen.get(word.lower(), "other") for word in words]


def _word_before(train: list[Span], asked: Span) -> tuple[int, int]:
    before = Counter(row.words[row.first - 1] for row in train if row.question == asked.question and row.first)
    lengths = Counter(row.last - row.first for row in train)
    places = [asked.words.index(word) + 1 for word, _ in before.most_common(3) if word in asked.words]
    first = places[0] if places else 0
    return first, first + (lengths.most_common(1)[0][0] if lengths else 0)


def checksum() -> str:
    """SHA-256 of every row of every task and split, in order."""
    return sha256(json.dumps([rows(task, split) for task in TASKS for split in SPLITS]))


def card() -> str:
    """What the tasks are, where their labels come from, their sizes and baselines, in Markdown."""
    table = "\n".join(
        f"| `{task}` | {WHAT[task]} | {' · '.join(f'{len(rows(task, split)):,}' for split in SPLITS)} | {BASELINES[task]} |"
        for task in TASKS
    )
    return f"""## Tasks on the plays (`course_lib.data.play_tasks`)

**What it is.** {len(TASKS)} tasks with labels, for a model that is fine-tuned: one sentence, a pair, tags, a span.

| task | what is asked | train · validation · test | baselines on test, all of train |
| --- | --- | --- | --- |
{table}

**Where from, licence.** The plays (above). Speaker, genre and order are the editors' and the author's. Tags and spans
are made by rule. A *person* is a word that is part of the name of somebody who speaks in this play and is elsewhere
nearly always written with a capital; a *place* is one of {len(PLACES)} in a list of our own, unless somebody in the
play is called so. In *who* a passage has one direction that brings people in and one that leads people off, both by
name; the answer is those names, and a hash says which of the two is asked.

**Split.** That of the plays: test is whole plays that nothing else was learnt from. Only *speaker* asks for people of
train plays, in the scenes of the plays' validation split. *answer*: a speech and the next one, or another of the same
scene by the same speaker; about half and half, and no speech stands first twice with two labels.

**Not to be concluded.** Nobody checked the tags by hand: titles that are places (*York*), nicknames (*Hal*) and people
who do not speak are missed or mixed. A genre is not a property of one speech, and *problems* is a name that critics
gave. A reply that was taken from elsewhere in the scene may fit as well as the right one.

**Version** {VERSION}, checksum `{checksum()}`.
"""


def _check_task(task: str) -> None:
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(map(repr, TASKS))}; got {task!r}.")
