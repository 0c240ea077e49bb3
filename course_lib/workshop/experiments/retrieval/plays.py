"""Lesson 15, searching the plays: a speech is looked for by a sentence of it (inverse cloze; Lee et al., 2019)."""

import re
from collections.abc import Callable
from functools import cache
from random import Random

from course_lib.data import plays
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.retrieval.reader import SEARCHES, Memory, first_of

SPEECHES, DRAWS = 400, range(3)  # of the test plays, in each draw
DIRECTION, END = re.compile(r"\[.*?\]"), re.compile(r"(?<=[.!?;])\s+")


def sentences(speech: str) -> list[str]:
    """The sentences of a speech, each on one line, without what is said of the stage; a semicolon ends one, too."""
    said = " ".join(DIRECTION.sub(" ", speech).split())
    return [one for one in END.split(said) if any(map(str.isalnum, one))]


@cache
def speeches(most: int = 80) -> list[list[str]]:
    """The sentences of each speech of the test plays that has three or more, 80 words at most."""
    spoken = (sentences(row.text) for row in plays.rows("test") if row.speaker)
    return [said for said in spoken if len(said) >= 3 and len(" ".join(said).split()) <= most]


def one_taken_out(said: list[str], choose: Callable) -> tuple[str, str]:
    """A sentence of a speech, of five words or more where there is one, and the rest of the speech."""
    places = range(len(said))
    taken = choose([place for place in places if len(said[place].split()) >= 5] or places)
    return said[taken], " ".join(one for place, one in enumerate(said) if place != taken)


@experiment(each(sentence=["stays", "taken out"]), seeds=DRAWS, cpus=["default"])
def inverse_cloze(seed, sentence):
    """Whether the speech comes first, or among five, of 400: asked by a sentence that stays in it or is taken out."""
    draw = Random(seed)
    pairs = [one_taken_out(said, draw.choice) for said in draw.sample(speeches(), SPEECHES)]
    known = Memory([rest if sentence == "taken out" else f"{rest} {asked}" for asked, rest in pairs])
    found = {}
    for name, search in SEARCHES.items():
        firsts = [first_of(search(known, asked)) for asked, _ in pairs]
        found[name] = {"at 1": sum(some[0] == place for place, some in enumerate(firsts)) / SPEECHES,
                       "at 5": sum(place in some for place, some in enumerate(firsts)) / SPEECHES}  # fmt: skip
    return found
