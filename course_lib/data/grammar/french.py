"""French as the grammar needs it: agreement, conjugation, elision and contraction."""

from __future__ import annotations

import re
from typing import NamedTuple

VOWELS = "aeiouyàâéèêëîïôûùœæh"  # h too: one that takes no elision is written with a star before it
ELIDED = {"je", "me", "te", "se", "le", "la", "ne", "de", "que"}
BEFORE_VOWEL = {"ma": "mon", "ta": "ton", "sa": "son", "ce": "cet"}
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}

PERSONS = [("sg", "1st"), ("sg", "2nd"), ("sg", "3rd"), ("pl", "1st"), ("pl", "2nd"), ("pl", "3rd")]
PRESENT = {
    "er": ["e", "es", "e", "ons", "ez", "ent"],
    "ir": ["is", "is", "it", "issons", "issez", "issent"],
    "re": ["s", "s", "", "ons", "ez", "ent"],
}
PARTICIPLE = {"er": "é", "ir": "i", "re": "u"}
FUTURE = ["ai", "as", "a", "ons", "ez", "ont"]


class Conjugation(NamedTuple):
    """The six forms of the present, the past participle, and the stem of the future."""

    present: tuple[str, ...]
    participle: str
    future: str


def conjugate(infinitive: str) -> Conjugation:
    """A regular verb's forms, with the changes of spelling that keep its sound: mangeons, achète, préfère, nettoie.

    Raises ValueError for a verb that does not end in -er, -ir or -re.
    """
    stem, group = infinitive[:-2], infinitive[-2:]
    if group not in PRESENT or not stem:
        raise ValueError(f"{infinitive!r} ends neither in -er nor in -ir nor in -re")
    silent = future = stem  # before an ending that is not heard, and in the future
    if group == "er":
        # The last e or é of the stem opens to è: acheter, il achète; préférer, il préfère.
        silent = re.sub(r"[eé]([^aeiouyéèêâî])$", r"è\1", stem)
        silent = re.sub(r"(?<=[ou])y$", "i", silent)
        future = stem if re.search(r"é[^aeiouyéèêâî]$", stem) else silent
    loud = re.sub(r"g$", "ge", re.sub(r"c$", "ç", stem)) if group == "er" else stem  # before "ons": mangeons
    stems = [silent, silent, silent, loud, stem, silent]
    present = tuple(s + ending for s, ending in zip(stems, PRESENT[group], strict=True))
    return Conjugation(present, stem + PARTICIPLE[group], future + {"er": "er", "ir": "ir", "re": "r"}[group])


def plural(word: str) -> str:
    """The regular plural of a noun or of a masculine adjective: chevaux, châteaux, neveux, souris, chats."""
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith(("au", "eu")) and word != "bleu" else "s")


def feminine(adjective: str) -> str:
    """The regular feminine of an adjective: petite, rouge, heureuse, légère, active."""
    if adjective.endswith("e"):
        return adjective
    for ending, other in (("eux", "euse"), ("er", "ère"), ("f", "ve")):
        if adjective.endswith(ending):
            return adjective.removesuffix(ending) + other
    return adjective + "e"


def agree(forms: tuple[str, ...], gender: str, number: str) -> str:
    """An adjective or a participle in a gender and a number; `forms` are those that words.txt lists for it."""
    if gender == "f":
        singular = forms[1] if len(forms) > 1 else feminine(forms[0])
        return singular if number == "sg" else plural(singular)
    if number == "sg":
        return forms[0]
    return forms[2] if len(forms) > 2 else plural(forms[0])


def inflect(kind: str, forms: tuple[str, ...], form: str, values: dict[str, str], verbs: dict[str, Conjugation]) -> str:
    """A word of `kind` in its form: `forms` as words.txt lists them, `form` as the rule asks, `values` its features.

    `verbs` are the irregular ones. An adjective with a form before vowels gives both: "beau|bel".
    """
    if kind == "noun":
        return forms[0] if values["number"] == "sg" else forms[1] if len(forms) > 1 else plural(forms[0])
    if kind == "adjective":
        word = agree(forms, values["gender"], values["number"])
        short = len(forms) > 3 and form != "alone" and (values["gender"], values["number"]) == ("m", "sg")
        return f"{word}|{forms[3]}" if short else word
    if kind == "determiner" and len(forms) > 1:
        return forms[2] if values["number"] == "pl" else forms[0] if values["gender"] == "m" else forms[1]
    if kind not in ("verb", "auxiliary"):
        return forms[0]
    if form == "participle":
        # With être the participle agrees with the subject, with avoir with an object that stands before it.
        who = ("gender", "number") if values["aux"] == "être" else ("ogender", "onumber")
        return agree((conjugated(forms[0], verbs).participle,), values[who[0]], values[who[1]])
    verb = conjugated(values["aux"] if form == "auxiliary" else forms[0], verbs)
    person = PERSONS.index((values["number"], values["pers"]))
    return verb.future + FUTURE[person] if form == "finite" and values["tense"] == "future" else verb.present[person]


def conjugated(infinitive: str, verbs: dict[str, Conjugation]) -> Conjugation:
    """The forms of any verb: those listed in `verbs`, else the regular ones."""
    return verbs[infinitive] if infinitive in verbs else conjugate(infinitive)


def join(tokens: list[tuple[str, tuple[int, ...]]]) -> list[tuple[str, tuple[int, ...]]]:
    """The tokens of a sentence as they are written side by side: elided (l', qu'), contracted (du, aux), bel for beau.

    A token is a word and its links; a contraction keeps those of both words. Read from the end, since each word
    looks at the next one: "de le homme" is first "de l' homme", and then there is nothing left to contract.
    """
    written: list[tuple[str, tuple[int, ...]]] = []
    follower, before_vowel = "", False
    for word, links in reversed(tokens):
        starred, word = word.startswith("*"), word.removeprefix("*")
        if "|" in word:
            word = word.split("|")[before_vowel]
        if before_vowel:
            word = word[:-1] + "'" if word in ELIDED else BEFORE_VOWEL.get(word, word)
        if word == "si" and follower in ("il", "ils"):
            word = "s'"
        if (word, follower) in CONTRACTED:
            word = CONTRACTED[word, follower]
            links += written.pop()[1]
        written.append((word, links))
        follower, before_vowel = word, not starred and word[0] in VOWELS
    return written[::-1]


def written(words: set[str]) -> set[str]:
    """All that `join` can make of these words."""
    single = {word for both in words for word in both.removeprefix("*").split("|")}
    single |= {word[:-1] + "'" for word in single & ELIDED} | {"s'" for word in single if word == "si"}
    single |= {BEFORE_VOWEL[word] for word in single & set(BEFORE_VOWEL)}
    return single | {short for both, short in CONTRACTED.items() if single.issuperset(both)}
