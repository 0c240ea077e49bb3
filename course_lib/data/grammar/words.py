"""Reads data/grammar/words.txt and conjugation.txt: the words in both languages, and the irregular French verbs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from course_lib.data.grammar import english as in_english
from course_lib.data.grammar import french as in_french
from course_lib.data.grammar.features import CONTENT, At, Declared, GrammarError, read_lines
from course_lib.data.grammar.french import Conjugation

AUXILIARIES = {"avoir", "être"}
# How many forms a word of each kind may list in English and in French.
FORMS = {
    "noun": ({1, 2}, {1, 2}),
    "adjective": ({1}, {1, 2, 3, 4}),
    "determiner": ({1, 2}, {1, 3}),
    "verb": ({1, 2, 3}, {1}),
    "auxiliary": ({1, 2, 3}, {1}),
    "name": ({1}, {1}),
    "fixed": ({1}, {1}),
}


@dataclass(eq=False)
class Word:
    """One word, or expression, in both languages, with its features as bits (all bits where it says nothing).

    An expression is one string a token, with the forms that words.txt lists joined by "/".
    """

    category: str
    kind: str
    english: list[str]
    french: list[str]
    features: dict[str, int]
    weight: int = 1
    links: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] = ([], [])  # inside an expression, by token
    known: dict[tuple, list[str]] = field(default_factory=dict)  # forms made so far

    @cached_property
    def lemma(self) -> str:
        """The English base form: what sentences with the same content share."""
        return " ".join(token.split("/")[0] for token in self.english)


def read_words(path: Path, declared: Declared, verbs: dict[str, Conjugation]) -> dict[str, list[Word]]:
    """The words in a file by category; `verbs` are the irregular French ones.

    Raises GrammarError, with line and reason, for the first line that cannot be, FileNotFoundError without the file.
    """
    words: dict[str, list[Word]] = {category: [] for category in declared.kinds}
    heading: tuple[str, dict[str, int]] | None = None
    for at, line in read_lines(path):
        if line.startswith("["):
            category, *features = line.strip("[]").split() or [""]
            if not line.endswith("]"):
                at.refuse("a heading is written `[Category features]`")
            if category not in words:
                at.refuse(f"undefined category {category!r}")
            heading = category, _features(declared, category, features, at)
        elif heading is None:
            at.refuse("words stand below a heading [Category]")
        else:
            word = _word(declared, *heading, line, at)
            if word.kind in ("verb", "auxiliary") and word.french:
                _check_infinitive(word.french[0], verbs, at)
            for other in words[word.category]:
                both = (word.features[f] & other.features[f] for f in word.features)
                if word.english == other.english and all(both):
                    at.refuse(f"duplicate word {word.lemma!r}: {word.category} has it, and features that allow both")
            words[word.category].append(word)
    for category in words:
        if not words[category]:
            declared.lines[category].refuse(f"the category {category} has no words in {path.name}")
    return words


def _features(declared: Declared, category: str, said: list[str], at: At) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in said:
        feature, bits = declared.restricted(text, declared.symbols[category], category, at)
        if feature in found:
            at.refuse(f"{feature} is said twice")
        found[feature] = bits
    return found


def _word(declared: Declared, category: str, heading: dict[str, int], line: str, at: At) -> Word:
    parts = [part.strip() for part in line.split(":")]
    if len(parts) not in (2, 3) or not all(parts):
        at.refuse("a word is written `english : french : features`")
    said = parts[2].split() if len(parts) == 3 else []
    weights = [int(text[1:]) for text in said if re.fullmatch(r"x[1-9]\d*", text)]
    own = _features(declared, category, [text for text in said if not re.fullmatch(r"x[1-9]\d*", text)], at)
    for feature in own.keys() & heading.keys():
        at.refuse(f"{feature} is said here and in the heading")
    features = {**declared.defaults[category], **heading, **own}
    for feature in declared.required[category]:
        if feature not in features:
            at.refuse(f"missing {feature}: say {' or '.join(declared.features[feature])}")
    everything = {f: (1 << len(declared.features[f])) - 1 for f in declared.symbols[category]}
    (english, left), (french, right) = (_expression(part, at) for part in parts[:2])
    for link in sorted({n for links in left for n in links} ^ {n for links in right for n in links}):
        at.refuse(f"unbalanced alignment link ={link}: it stands in one language only")
    kind = declared.kinds[category]
    if not (english and french) and (kind in CONTENT | {"name", "determiner"} or english == french):
        at.refuse(f"a word of {category} needs both languages")
    for language, tokens, counts in zip(("English", "French"), (english, french), FORMS[kind], strict=True):
        for token in tokens:
            if len(token.split("/")) not in counts:
                allowed = " or ".join(map(str, sorted(counts)))
                at.refuse(f"{token!r} must list {allowed} {language} forms (kind: {kind})")
    if kind in ("adjective", "determiner") and (len(english) > 1 or len(french) > 1):
        at.refuse(f"a word of the kind {kind} cannot be an expression of several")
    return Word(category, kind, english, french, everything | features, *(weights or [1]), links=(left, right))


def _expression(text: str, at: At) -> tuple[list[str], list[tuple[int, ...]]]:
    """The tokens of an expression and the links of each; "-" is none."""
    tokens: list[str] = []
    links: list[tuple[int, ...]] = []
    for token in [] if text == "-" else text.split():
        match = re.fullmatch(r"([^=]+)((?:=[1-7])*)", token) or at.refuse(f"the links of {token!r} must be =1 to =7")
        if not all(re.fullmatch(r"\*?[\w'-]+", form) for form in match[1].split("/")):
            at.refuse(f"{match[1]!r} is no word: forms are letters, with / between them and perhaps * before them")
        if match[1] != match[1].lower():
            at.refuse(f"{match[1]!r} must be in small letters")
        tokens.append(match[1])
        links.append(tuple(int(n) for n in match[2].split("=")[1:]))
    return tokens, links


def _check_infinitive(verb: str, verbs: dict[str, Conjugation], at: At) -> None:
    if not re.search(r".(er|ir|re)$", verb):
        at.refuse(f"{verb!r} is no French infinitive")
    if verb.endswith("oir") and verb not in verbs:
        at.refuse(f"no rule conjugates {verb!r}: say its forms in conjugation.txt")


def inflected(word: Word, side: int, form: str, values: dict[str, str], verbs: dict[str, Conjugation]) -> list[str]:
    """The tokens of a word on a side (0 English, 1 French) in a form; `values` holds its features by name."""
    tokens = (word.english, word.french)[side]
    head = len(tokens) - 1 if side == 0 and word.kind == "noun" else 0

    def inflect(token: str) -> str:
        forms = tuple(token.split("/"))
        if side == 0:
            return in_english.inflect(word.kind, forms, form, values)
        return in_french.inflect(word.kind, forms, form, values, verbs)

    return [inflect(token) if n == head or "/" in token else token for n, token in enumerate(tokens)]


def read_conjugations(path: Path) -> dict[str, Conjugation]:
    """The verbs in conjugation.txt; raises GrammarError, with line and reason, FileNotFoundError without it."""
    verbs: dict[str, Conjugation] = {}
    for at, line in read_lines(path):
        infinitive, *parts = [part.strip() for part in line.split(":")]
        if not re.search(r".(er|ir|re)$", infinitive):
            at.refuse(f"{infinitive!r} is no French infinitive")
        if infinitive in verbs:
            at.refuse(f"duplicate verb {infinitive!r}")
        if len(parts) == 1 and parts[0].startswith("as "):
            model = parts[0].removeprefix("as ").strip()
            beginning = infinitive.removesuffix(model)
            if model not in verbs or beginning == infinitive:
                at.refuse(f"{infinitive!r} must end in {model!r}, and {model!r} must stand above it")
            present, participle, future = verbs[model]
            verbs[infinitive] = Conjugation(
                tuple(beginning + form for form in present), beginning + participle, beginning + future
            )
            continue
        if [len(part.split()) for part in parts] != [6, 1, 1]:
            at.refuse("a verb is written `infinitive : six forms : participle : stem of the future`")
        verbs[infinitive] = Conjugation(tuple(parts[0].split()), parts[1], parts[2])
    for auxiliary in AUXILIARIES - set(verbs):
        raise GrammarError(f"{path.name}: {auxiliary!r} is missing, with which the past is made.")
    return verbs
