"""Lesson 14: real names in many languages: what they cost in pieces, and whether a classifier goes from one to another.

"pieces" are those of a test name, on average. For emoji a read-out of groups (animals, food, ...) is taught on the
English names of the training part and asked about other emoji in 14 languages: "right" is the share of their names,
"no piece in common" the same of names that hold no piece that an English name of the training part has, "own" that of a
read-out taught in the language itself.
"""

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from course_lib.bert.xlm import XLM, translation_row
from course_lib.data import emoji_names, locale_names
from course_lib.data.emoji import GROUPS
from course_lib.experiments import experiment
from course_lib.recipes.multilingual import (
    BATCH,
    MAX_LEN,
    PAD,
    SEP,
    SPECIALS,
    START,
    Batch,
    batches,
    hidden,
    model,
    read_out,
    taught,
    vectors,
)
from course_lib.text.unigram import Unigram

HERE = ["default"]  # the instruction set of what is dear
EXPONENTS = (1.0, 0.7, 0.5, 0.3)  # chosen: as it is; multilingual BERT's; XLM's; XLM-R's
DRAWN, PIECES = 20_000, 4_000
LANGUAGES = tuple(emoji_names.LANGUAGES)  # English first
EMOJI_PIECES, STEPS = 4_000, 1_500
WAYS = ("names alone", "true pairs", "shuffled pairs")


@experiment([{"exponent": exponent} for exponent in EXPONENTS], cpus=HERE)
def costs(seed, exponent):
    """Pieces a name in 32 languages, by a vocabulary learned from names that are drawn with this exponent."""
    texts = Counter(name for _, name in locale_names.drawn(DRAWN, exponent, seed))
    words = Unigram.train(texts, PIECES)
    return {language: pieces_of(words, locale_names.names(language, "test")) for language in locale_names.LANGUAGES}


def pieces_of(words: Unigram, names: list[str]) -> float:
    """Pieces of a name, on average."""
    return sum(len(words.encode(name)) for name in names) / len(names)


@experiment(seeds=[0], cpus=HERE)
def characters(seed):
    """Characters a name in 32 languages: what it costs where each character is a piece."""
    every = {language: locale_names.names(language, "test") for language in locale_names.LANGUAGES}
    return {language: sum(map(len, names)) / len(names) for language, names in every.items()}


@cache
def tokenizer() -> Unigram:
    """The pieces of the names of emoji in all 14 languages, as many names of each."""
    return Unigram.train([row.name for one in LANGUAGES for row in emoji_names.names("train", one)], EMOJI_PIECES)


def n_pieces() -> int:
    """How many pieces there are, the unknown one among them."""
    return len(tokenizer()) - len(tokenizer().specials) + 1


def ids(name: str) -> tuple[int, ...]:
    """The pieces of a name as a model reads them; the unknown one comes first of all."""
    first = len(tokenizer().specials) - 1
    return tuple(SPECIALS + max(0, i - first) for i in tokenizer().encode(name).tolist())


@cache
def names(split: str, language: str) -> list[tuple[int, ...]]:
    """The names of one split in a language, as ids: row i is the same emoji in each."""
    return [ids(row.name) for row in emoji_names.names(split, language)]


@cache
def groups(split: str) -> Tensor:
    """The group of each emoji as a number, (N,)."""
    return torch.tensor([GROUPS.index(row.group) for row in emoji_names.names(split, "en")])


def mixed(seed: int, way: str) -> Iterator[Batch]:
    """A batch of names in all languages, then one of English names with another language's, and so on."""
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    alone = batches([names("train", one) for one in LANGUAGES], seed, BATCH, n_pieces())
    n = len(names("train", "en"))
    others = draw.sample(range(n), n) if way == "shuffled pairs" else range(n)
    while True:
        yield next(alone)
        if way == WAYS[0]:
            yield next(alone)
            continue
        some = []
        while len(some) < BATCH // 2:
            at, language = draw.randrange(n), draw.randrange(1, len(LANGUAGES))
            other = names("train", LANGUAGES[language])[others[at]]
            row = translation_row(names("train", "en")[at], other, START, SEP)
            if len(row.ids) <= MAX_LEN:  # a few long names have no room beside each other
                some.append((row, language))
        T = max(len(row.ids) for row, _ in some)
        read = torch.tensor([row.ids + [PAD] * (T - len(row.ids)) for row, _ in some])
        which = torch.tensor([[n * of for n in row.languages] + [of] * (T - len(row.ids)) for row, of in some])
        yield hidden(read, which, read != PAD, generator, n_pieces())


@experiment([{"way": way} for way in WAYS], cpus=HERE)
def emoji_groups(seed, way):
    """A read-out of groups, taught on English names of emoji and asked in 14 languages."""
    one = model(seed, n_pieces())
    taught(one, mixed(seed, way), STEPS)
    return asked(one)


@experiment(cpus=HERE)
def emoji_untrained(seed):
    """The same for weights that are drawn."""
    return asked(model(seed, n_pieces()))


@experiment(seeds=[0], cpus=HERE)
def most_common_group(seed):
    """The share of test emoji that belong to the largest group: what always naming it gets."""
    return {"right": float((groups("test") == groups("train").bincount().argmax()).double().mean())}


def asked(one: XLM) -> dict:
    """Of each language the share of test names whose group is told; see above."""
    seen = {piece for name in names("train", "en") for piece in name}
    labels, right = torch.eye(len(GROUPS))[groups("train")], groups("test")
    states = {
        (split, at): vectors(one, names(split, language), at)
        for split in ("train", "test")
        for at, language in enumerate(LANGUAGES)
    }
    found = {}
    for at, language in enumerate(LANGUAGES):
        own = read_out(states["train", at], labels, states["test", at]).argmax(dim=1) == right
        told = read_out(states["train", 0], labels, states["test", at]).argmax(dim=1) == right
        apart = torch.tensor([seen.isdisjoint(name) for name in names("test", language)])
        found[language] = {
            "right": float(told.double().mean()),
            "own": float(own.double().mean()),
            "no piece in common": float(told[apart].double().mean()) if apart.any() else None,
            "names without": int(apart.sum()),
        }
    return found
