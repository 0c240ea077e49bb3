"""Sentences of the course's own English-French grammar: translation whose every pair carries its gold alignment.

The grammar is text to read and to extend: data/grammar/rules.txt, words.txt and conjugation.txt.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from numbers import Integral
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from course_lib.data import SPLITS, Pair, check_split, datasets_package, sha256, tables
from course_lib.data.grammar.derive import Grammar, Sentence

if TYPE_CHECKING:
    from datasets import DatasetDict

VERSION = 1  # of the grammar, the draws and the split: raise it when one of them changes
FOLDER = Path(__file__).resolve().parents[3] / "data" / "grammar"
SIZES = {"train": 20_000, "validation": 1_000, "test": 1_000}
FEWEST, MOST = 5, 40  # English tokens, punctuation counted
PATIENCE = 20_000  # draws in a row that bring no new sentence: then there are no more


def load(sizes: dict[str, int] | None = None, max_words: int = MOST, seed: int = 0) -> DatasetDict:
    """The pairs as a `datasets.DatasetDict` (train, validation, test), one row per sentence, in small letters.

    Columns source and target (text), source_tokens and target_tokens, alignment (rows [i, j]: source token i says
    what target token j says). `sizes` may give another number of rows for a split; an English sentence has
    5 to `max_words` tokens. Raises ValueError, in words, for anything else, FileNotFoundError without the grammar's
    files, GrammarError, with line and reason, where they cannot be.
    """
    wrong = set(sizes or {}) - set(SPLITS)
    if wrong:
        raise ValueError(f"sizes names the splits 'train', 'validation' and 'test', not {sorted(map(repr, wrong))}.")
    datasets_package()  # where it is missing, that is said before the time that drawing takes
    drawn = {split: pairs(split, (sizes or {}).get(split), max_words, seed) for split in SPLITS}
    names = ("source", "target", "source_tokens", "target_tokens", "alignment")
    return tables(names, {s: [(join(p.source), join(p.target), *p) for p in drawn[s]] for s in SPLITS})


def pairs(split: str, size: int | None = None, max_words: int = MOST, seed: int = 0) -> list[Pair]:
    """The first `size` pairs of one split in tokens, all different, without `datasets`; raises what `load` raises.

    Fewer pairs are the first of more. What a split holds depends on the content of a sentence alone, so that no
    two splits share one, whatever `max_words` and `seed`.
    """
    check_split(split)
    size = SIZES[split] if size is None else size
    if not isinstance(size, Integral) or size < 1:
        raise ValueError(f"A split's size must be a whole number, 1 or more, not {size!r}.")
    if not isinstance(max_words, Integral) or not FEWEST <= max_words <= MOST:
        raise ValueError(f"max_words must be a whole number from {FEWEST} to {MOST}, not {max_words!r}.")
    if not isinstance(seed, Integral):
        raise ValueError(f"seed must be a whole number, not {seed!r}.")
    drawn = _stream(max_words, seed).take(split, size)
    return [Pair(list(pair.source), list(pair.target), list(pair.alignment)) for pair in drawn]


def generate(rng: Random, max_words: int = MOST) -> Sentence:
    """One sentence at random, of any split: its pair, and its content (base forms of nouns, adjectives and verbs).

    Raises ValueError for a `max_words` that no sentence keeps.
    """
    while True:
        sentence = grammar().sentence(rng, max_words)
        if len(sentence.pair.source) >= min(FEWEST, max_words):
            return sentence


def split_of(content: tuple[str, ...]) -> str:
    """The split that a sentence with this content belongs to: eight in ten train, by a hash.

    Names, numbers, pronouns, articles, tense and negation are no content: they may vary freely within a split.
    """
    drawn = int(sha256(f"grammar {VERSION} {' '.join(content)}")[:8], 16) % 10
    return {8: "validation", 9: "test"}.get(drawn, "train")


@lru_cache(maxsize=1)
def grammar() -> Grammar:
    """The grammar in data/grammar/; raises GrammarError, with line and reason, or FileNotFoundError."""
    return Grammar(FOLDER)


@lru_cache(maxsize=1)
def vocabulary() -> tuple[frozenset[str], frozenset[str]]:
    """Every token that the grammar can write, in English and in French."""
    english, french = grammar().vocabulary()
    return frozenset(english), frozenset(french)


def unknown(sentence: str, language: str = "en") -> list[str]:
    """The words of a sentence that the grammar does not have, as typed; raises ValueError for another language."""
    known = vocabulary()[("en", "fr").index(language) if language in ("en", "fr") else _refuse(language)]
    return [word for word in tokenize(sentence, language) if word not in known]


def tokenize(sentence: str, language: str = "en") -> list[str]:
    """The tokens of a sentence as the corpus writes them: small letters, "l'" and "'s" and marks by themselves.

    Raises TypeError for anything but text, ValueError for a language other than "en" and "fr".
    """
    if not isinstance(sentence, str):
        raise TypeError(f"A sentence is a string, not {type(sentence).__name__}.")
    text = sentence.lower().replace("’", "'")
    if language == "en":
        return re.findall(r"'s\b|\w+(?:-\w+)*|[^\w\s]", text)
    return re.findall(r"aujourd'hui|\w+'|\w+(?:-\w+)*|[^\w\s]", text) if language == "fr" else _refuse(language)


def join(tokens: list[str]) -> str:
    """The running text of tokens in either language: no space after "l'", none before "'s", commas and full stops."""
    text = " ".join(tokens)
    return re.sub(r"(?<=\w') (?=\w)", "", re.sub(r" (?='s |[.,])", "", text))


def _refuse(language: str):
    raise ValueError(f"language must be 'en' or 'fr', not {language!r}.")


class _Stream:
    """One row of draws, each put into the split that it belongs to; drawn on as long as a split wants more."""

    def __init__(self, max_words: int, seed: int):
        self.rng = Random(f"grammar {VERSION} {max_words} {seed}")
        self.max_words = max_words
        self.parts: dict[str, list[Pair]] = {split: [] for split in SPLITS}
        self.seen: set[str] = set()

    def take(self, split: str, size: int) -> list[Pair]:
        part, missed = self.parts[split], 0
        while len(part) < size:
            pair, content = generate(self.rng, self.max_words)
            text = " ".join(pair.source)
            missed = missed + 1 if text in self.seen else 0
            if missed == PATIENCE:
                raise ValueError(
                    f"The {split} split has about {len(part):,} sentences of at most {self.max_words} words: "
                    f"{size:,} are too many."
                )
            if not missed:
                self.seen.add(text)
                self.parts[split_of(content)].append(pair)
        return part[:size]


@lru_cache(maxsize=4)
def _stream(max_words: int, seed: int) -> _Stream:
    return _Stream(max_words, seed)


def checksum() -> str:
    """SHA-256 of the first 300 pairs of each split, of 20 and of 40 words at most."""
    return sha256(json.dumps([pairs(split, 300, most) for split in SPLITS for most in (20, MOST)]))
