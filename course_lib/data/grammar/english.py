"""English as the grammar needs it: plurals, third persons, pasts, and "a" or "an"."""

from __future__ import annotations

import re

BE = {("sg", "1st"): "am", ("sg", "3rd"): "is"}  # "are" otherwise
# Written with a vowel and spoken with a consonant, or the other way round.
NO_AN = re.compile(r"(eu|uni([^nm]|$)|use|one\b)")
AN = re.compile(r"([aeiou]|hour|hon(est|our)|heir)")


def plural(noun: str) -> str:
    """The regular plural of a noun: box, boxes; city, cities; boy, boys."""
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search(r"(s|x|z|ch|sh)$", noun) else "s")


def third(verb: str) -> str:
    """The regular third person of a verb: go, goes; cry, cries; play, plays."""
    return verb + "es" if verb.endswith("o") else plural(verb)


def past(verb: str) -> str:
    """The regular simple past of a verb: love, loved; cry, cried; play, played. A doubled letter is not known."""
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else "ed")


def inflect(kind: str, forms: tuple[str, ...], form: str, values: dict[str, str]) -> str:
    """A word of `kind` in its form: `forms` as words.txt lists them, `form` as the rule asks, `values` its features."""
    if kind == "noun":
        return forms[0] if values["number"] == "sg" else forms[1] if len(forms) > 1 else plural(forms[0])
    if kind == "determiner":
        return forms[-1] if values["number"] == "pl" else forms[0]
    if form == "past":
        return forms[1] if len(forms) > 1 else past(forms[0])
    if form == "agree":
        if forms[0] == "be":
            return BE.get((values["number"], values["pers"]), "are")
        if (values["number"], values["pers"]) == ("sg", "3rd"):
            return forms[2] if len(forms) > 2 else third(forms[0])
    return forms[0]


def join(tokens: list[tuple[str, tuple[int, ...]]]) -> list[tuple[str, tuple[int, ...]]]:
    """The tokens of a sentence, each a word and its links, with "an" for "a" before a vowel that is heard."""
    joined = list(tokens)
    for n, (word, links) in enumerate(tokens[:-1]):
        if word == "a" and needs_an(tokens[n + 1][0]):
            joined[n] = ("an", links)
    return joined


def written(words: set[str]) -> set[str]:
    """All that `join` can make of these words."""
    return words | {"an" for word in words if word == "a"}


def needs_an(word: str) -> bool:
    """True if "an" stands before the word: an apple, an hour; but a union, a European."""
    return bool(AN.match(word)) and not NO_AN.match(word)
