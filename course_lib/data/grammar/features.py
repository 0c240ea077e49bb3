"""What the grammar's files declare: features and their values, categories of words, phrases; and how a line is refused.

A set of values of a feature is an int with one bit a value, so that "agree" is `&` and "impossible" is 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

VERB = {
    "agree": ("number", "pers"),
    "past": (),
    "base": (),
    "finite": ("number", "pers", "tense"),
    "auxiliary": ("aux", "number", "pers"),
    "participle": ("aux", "gender", "number", "ogender", "onumber"),
}
# The kinds of words, their forms, and the features that decide each form. A "name" is what may vary between two
# sentences that otherwise say the same; an "auxiliary" is a verb that says nothing by itself.
KINDS: dict[str, dict[str, tuple[str, ...]]] = {
    "noun": {"": ("number",)},
    "adjective": {"": ("gender", "number"), "alone": ("gender", "number")},  # alone: no noun follows, "beau et bon"
    "determiner": {"": ("gender", "number")},
    "verb": VERB,
    "auxiliary": VERB,
    "name": {"": ()},
    "fixed": {"": ()},
}
CONTENT = {"noun", "adjective", "verb"}
# The forms that can stand on the English side, and on the French.
SIDES = ({"", "agree", "past", "base"}, {"", "alone", "finite", "auxiliary", "participle"})


class GrammarError(ValueError):
    """A line of the grammar's files that cannot be: says which line and why."""


class At(NamedTuple):
    """A line of a file, to be named in a complaint."""

    file: str
    line: int

    def refuse(self, reason: str) -> NoReturn:
        """Raise GrammarError for this line."""
        raise GrammarError(f"{self.file}, line {self.line}: {reason}.")


def read_lines(path: Path) -> list[tuple[At, str]]:
    """The lines of a file that hold something, without comments.

    Raises FileNotFoundError, in words, without the file, GrammarError for one that is empty or no text.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileNotFoundError(
            f"The grammar's file {path} cannot be read: it belongs to the checkout of the course, in data/grammar/, "
            "and the course is installed from there (pip install -e .)."
        ) from error
    except UnicodeDecodeError as error:
        raise GrammarError(f"{path.name} is not text in UTF-8: save it as such.") from error
    stripped = ((n, line.split("#")[0].strip()) for n, line in enumerate(text.splitlines(), 1))
    return [(At(path.name, n), line) for n, line in stripped if line] or At(path.name, 1).refuse("the file is empty")


@dataclass
class Declared:
    """What rules.txt declares; `symbols` gives the features of each phrase and each category."""

    start: str = ""
    features: dict[str, dict[str, int]] = field(default_factory=dict)  # a feature: its values, one bit each
    values: dict[str, tuple[str, int]] = field(default_factory=dict)  # a value or a group: its feature, its bits
    symbols: dict[str, tuple[str, ...]] = field(default_factory=dict)
    lines: dict[str, At] = field(default_factory=dict)  # where each of them is declared
    phrases: set[str] = field(default_factory=set)
    kinds: dict[str, str] = field(default_factory=dict)  # of the categories
    required: dict[str, list[str]] = field(default_factory=dict)
    defaults: dict[str, dict[str, int]] = field(default_factory=dict)

    def declare(self, keyword: str, words: list[str], at: At) -> None:
        """Take in one line: start, feature, group, category or phrase; raises GrammarError for one that cannot be."""
        name = words[0] if words else at.refuse(f"write `{keyword} name ...`")
        if keyword == "start":
            self.start = name if not self.start else at.refuse("there is a start already")
        elif keyword == "feature":
            self._feature(name, words[1:], at)
        elif keyword == "group":
            if len(words) != 3 or words[1] != "=" or name in self.values or "=" in words[2]:
                at.refuse("write `group name = value/value`, with a new name")
            self.values[name] = self.restricted(words[2], tuple(self.features), name, at)
        else:
            self._symbol(keyword, name, words[1:], at)

    def _feature(self, name: str, values: list[str], at: At) -> None:
        if name in self.features or not values:
            at.refuse(f"the feature {name!r} is declared twice" if values else f"the feature {name!r} has no values")
        if values[0] == "like":
            self.features[name] = self.features.get(values[-1]) or at.refuse(f"unknown feature {values[-1]!r}")
            return
        self.features[name] = {value: 1 << n for n, value in enumerate(values)}
        for n, value in enumerate(values):
            if value in self.values:
                at.refuse(f"the value {value!r} is already one of {self.values[value][0]}")
            self.values[value] = (name, 1 << n)

    def _symbol(self, keyword: str, name: str, words: list[str], at: At) -> None:
        if name in self.symbols or not re.fullmatch("[A-Z][A-Za-z]*", name):
            at.refuse(f"{name!r} is declared twice" if name in self.symbols else f"{name!r} must be a capitalised name")
        kind, words = (words[0] if words else "", words[1:]) if keyword == "category" else ("", words)
        if keyword == "category" and kind not in KINDS:
            at.refuse(f"write `category {name} kind features`, where the kind is one of {', '.join(KINDS)}")
        self.lines[name] = at
        own = self.symbols[name] = tuple(re.split("[!=]", word)[0] for word in words)
        for feature in own:
            if feature not in self.features:
                at.refuse(f"unknown feature {feature!r}")
        if keyword == "phrase":
            self.phrases.add(name)
            return
        for feature in sorted(set(KINDS[kind].get("", ())) - set(own)):
            at.refuse(f"{name} is of the kind {kind}, so it needs the feature {feature!r}")
        self.kinds[name] = kind
        self.required[name] = [word[:-1] for word in words if word.endswith("!")]
        self.defaults[name] = dict(self.restricted(word, own, name, at) for word in words if "=" in word)

    def restricted(self, text: str, own: tuple[str, ...], owner: str, at: At) -> tuple[str, int]:
        """What "pl", "person/animal" or "number=pl" says: a feature and its bits.

        Raises GrammarError for an unknown feature or value, or one that `owner`, with the features `own`, lacks.
        """
        feature, bits = self.said(text, own, owner, at)
        return (feature, bits) if isinstance(bits, int) else at.refuse(f"{text!r} must name a value here")

    def each(self, said: str, own: tuple[str, ...], owner: str, at: At) -> dict[str, int | str]:
        """What brackets say, by feature; raises GrammarError for a feature that is said twice too."""
        found: dict[str, int | str] = {}
        for text in said.split():
            feature, value = self.said(text, own, owner, at)
            if feature in found:
                at.refuse(f"{feature} is said twice")
            found[feature] = value
        return found

    def said(self, text: str, own: tuple[str, ...], owner: str, at: At) -> tuple[str, int | str]:
        """As `restricted`, but "number=number2" gives the name of the other feature."""
        name, _, value = text.rpartition("=")
        bits: int | str = 0
        if name and name not in self.features:
            at.refuse(f"unknown feature {name!r}")
        if name and value in self.features:
            if self.features[value] is not self.features[name]:
                at.refuse(f"{name} and {value} have different values, so they cannot agree")
            bits = value
        else:
            for one in value.split("/"):
                feature, bit = self.values.get(one, ("", 0))
                name = name or feature
                if not feature:
                    at.refuse(f"unknown feature or value {one!r}")
                if self.features[feature] is not self.features[name]:
                    at.refuse(f"{one!r} is no value of {name}")
                bits |= bit
        if name not in own:
            at.refuse(f"{owner} has no feature {name!r}")
        return name, bits
