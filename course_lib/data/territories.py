"""Facts about the territories of the world, each as a sentence to be found and as questions about it. Lesson 15.

one = facts("test")[0]                       # one.place, one.kind, one.answer
passage(one), question(one, "other words")   # a sentence that holds the answer, a question in other words than its own
passage(one, answer=one.false)               # the same sentence, falsified
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from course_lib.data import SPLITS, check_split, sha256, tables
from course_lib.data.territory_wordings import KINDS, VOCABULARIES, WORDINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from datasets import DatasetDict

VERSION = 1  # of the choice of facts, of the split and of the draws: raise it when one of them changes
PACKAGE = "babel==2.18.0"
SHARES = {"test": 0.4, "validation": 0.2}  # of the families of places; train has the rest
NO_PLACES = ("EU", "EZ", "QO", "UN", "XA", "XB", "ZZ")  # unions, oceans, made-up codes
SHORTER = {"Hong Kong SAR China": "Hong Kong", "Macao SAR China": "Macao"}
WITH_ARTICLE = re.compile(
    r"Islands$|Republic$|Territor(y|ies)$|^United |Netherlands$|^(Bahamas|Comoros|Gambia|Isle of Man|Maldives|"
    r"Philippines)$"
)
# Words that make two names no relatives.
PLAIN = set("american british central french islands island north northern republic south united states".split())
RELATED = 5  # letters of a word, at least, that makes names with the same beginning relatives: Niger, Nigeria
WORDS = ("same words", "other words", "any words")


class Fact(NamedTuple):
    """A fact about a territory: its kind, the answer, and a false one, which is correct for another territory.

    language: the most spoken language, of the kinds whose sentences name it; else "".
    """

    place: str
    kind: str
    answer: str
    false: str
    language: str


def load() -> DatasetDict:
    """The facts as a `datasets.DatasetDict` (train, validation, test): a fact, its sentence and a question, draw 0.

    Raises ModuleNotFoundError without babel or `datasets`.
    """
    columns = (*Fact._fields, "passage", "question")
    return tables(columns, {split: [(*one, passage(one), question(one)) for one in facts(split)] for split in SPLITS})


def facts(split: str) -> list[Fact]:
    """The facts of one split, in a fixed, mixed order: the first n are a random sample.

    Raises ValueError for an unknown split, ModuleNotFoundError without babel.
    """
    check_split(split)
    return list(_splits()[split])


def passage(fact: Fact, draw: int = 0, answer: str | None = None) -> str:
    """A sentence that holds the fact, in one of its six wordings; or another answer instead.

    `draw` numbers the random wording, for each fact its own.
    """
    vocabulary, number = _drawn(fact, draw, "passage")
    return _filled(WORDINGS[fact.kind][vocabulary].passages[number], fact._replace(answer=answer or fact.answer))


def question(fact: Fact, words: str = "any words", draw: int = 0) -> str:
    """A question that the fact answers, its wording sampled independently of the sentence's.

    words: "same words", a question with the words of the sentence that `passage` gives for this draw; "other words", of
    the other vocabulary, which shares the territory's name with it and no other content word; "any words", of
    either. Raises ValueError for anything else.
    """
    _check_words(words)
    vocabulary, number = _drawn(fact, draw, "question")
    if words != "any words":
        here = _drawn(fact, draw, "passage")[0]
        vocabulary = here if words == "same words" else 1 - here
    return _filled(WORDINGS[fact.kind][vocabulary].questions[number], fact)


def say(answer: str, text: str) -> bool:
    """Whether a text gives an answer: every word of it stands there, in any order, capitals aside."""
    return set(_words(answer)) <= set(_words(text))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _drawn(fact: Fact, draw: int, role: str) -> tuple[int, int]:
    """Which vocabulary, and which of its wordings."""
    random = Random(sha256(f"territories {VERSION} {draw} {role} {fact.place} {fact.kind}"))
    return random.randrange(VOCABULARIES), random.randrange(3)


def _filled(wording: str, fact: Fact) -> str:
    place = f"the {fact.place}" if WITH_ARTICLE.search(fact.place) else fact.place
    text = wording.format(place=place, answer=fact.answer, language=fact.language)
    return text[0].upper() + text[1:]


@lru_cache(maxsize=1)
def _splits() -> dict[str, list[Fact]]:
    """A hash of a family of territories chooses its split, a hash of the fact its position there."""
    found = _found()
    sides = _sides(sorted({place for place, *_ in found}))
    answers = {kind: sorted({answer for _, k, answer, _ in found if k == kind}) for kind in KINDS}
    splits: dict[str, list[tuple[str, Fact]]] = {split: [] for split in SPLITS}
    for place, kind, answer, language in found:
        key = sha256(f"territories {VERSION} {place} {kind}")
        false = Random(key).choice([one for one in answers[kind] if one != answer])
        splits[sides[place]].append((key, Fact(place, kind, answer, false, language)))
    return {split: [fact for _, fact in sorted(part)] for split, part in splits.items()}


def _sides(places: list[str]) -> dict[str, str]:
    """The split of each territory; those with related names are in one split."""
    family = {place: place for place in places}
    for one, other in combinations(places, 2):
        if _related(one, other):
            old, new = family[other], family[one]
            family = {place: new if first == old else first for place, first in family.items()}
    order = sorted(set(family.values()), key=lambda first: sha256(f"territories {VERSION} {first}"))
    n_test, n_validation = (round(SHARES[split] * len(order)) for split in ("test", "validation"))
    side = dict.fromkeys(order, "train") | dict.fromkeys(order[:n_test], "test")
    side |= dict.fromkeys(order[n_test : n_test + n_validation], "validation")
    return {place: side[first] for place, first in family.items()}


def _related(one: str, other: str) -> bool:
    here, there = ({w for w in _words(name) if len(w) >= RELATED and w not in PLAIN} for name in (one, other))
    return any(a.startswith(b) or b.startswith(a) for a in here for b in there)


@cache
def _found() -> list[tuple[str, str, str, str]]:
    """(place, kind, answer, language) of every fact that CLDR has."""
    locale, data, money_name = _cldr()
    found = []
    for code, name in sorted(locale.territories.items()):
        if len(code) == 2 and code not in NO_PLACES:
            place = re.sub(r" \(.*\)", "", SHORTER.get(name, name)).replace("&", "and")
            about = _about_money(data("territory_currencies").get(code, ()), money_name)
            shares = data("territory_languages").get(code, {})
            first, of_languages = _about_languages(shares, locale.languages)
            found += [(place, kind, answer, "") for kind, answer in about.items()]
            found += [(place, kind, answer, first) for kind, answer in of_languages.items()]
    return found


def _about_money(rows, name: Callable[[str], str]) -> dict[str, str]:
    """What is paid with now, since which year, and with what before, where CLDR knows one answer."""
    tender = [(code, start, end) for code, start, end, legal in rows if legal and start]
    now = [row for row in tender if not row[2]]
    if len(now) != 1:
        return {}
    [(code, start, _)] = now
    found = {"money": name(code), "since": str(start[0])}
    ended = [(end, start, code) for code, start, end in tender if end]
    before = name(max(ended)[2]) if ended else ""
    return found | ({"before": before} if before not in ("", found["money"]) else {})


def _about_languages(shares: dict, names: dict) -> tuple[str, dict[str, str]]:
    """The most spoken language; of how many in a hundred it is, and which one comes next."""
    ranked = sorted(((row["population_percent"], code) for code, row in shares.items()), reverse=True)[:3]
    known = [(share, names.get(code.partition("_")[0])) for share, code in ranked]
    if not known or known[0][1] in (None, "Unknown language") or known[0][0] < 1:
        return "", {}
    (share, first), rest = known[0], known[1:]
    found = {"share": f"{share:.0f}"}
    apart = len({share for share, _ in known}) == len(known)  # no two of the first three tie
    if rest and apart and rest[0][1] not in (None, "Unknown language", first):
        found["second"] = rest[0][1]
    return first, found


def _cldr():
    """English names, the tables of CLDR by name, and what a currency is called by its code."""
    try:
        from babel import Locale
        from babel.core import get_global
        from babel.numbers import get_currency_name
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(f"This corpus needs babel, which is missing: pip install {PACKAGE}") from missing

    def money_name(code: str) -> str:
        return re.sub(r" \(.*\)", "", get_currency_name(code, 1, locale="en"))

    return Locale("en"), get_global, money_name


def _check_words(words: str) -> None:
    if words not in WORDS:
        raise ValueError(f"words must be one of {', '.join(map(repr, WORDS))}; got {words!r}.")


def checksum() -> str:
    """SHA-256 of every fact of every split, in order, with a sentence and questions: it changes with all of them."""
    texts = [[one, passage(one), *(question(one, words) for words in WORDS)] for s in SPLITS for one in facts(s)]
    return sha256(json.dumps(texts))
