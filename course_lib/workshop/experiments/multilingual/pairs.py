"""Lesson 14: English and French, which do share words; and what a thousand translations add (XLM's TLM).

Sentences of the grammar, of at most 8 words, in one vocabulary of both languages. "twins" is the share of 200 test
sentences whose nearest French one is the translation, by the states of each layer; "shared" the share of the words of
both languages that are spelled alike, full stops and commas among them.
"""

import random
from collections.abc import Iterator
from functools import cache

import torch

from course_lib.bert.xlm import XLM, translation_row, twins_found
from course_lib.data import Pair, grammar
from course_lib.text.tokenizers import WordTokenizer
from course_lib.workshop.experiments import experiment
from course_lib.workshop.recipes.multilingual import (
    BATCH,
    N_LAYERS,
    PAD,
    SEP,
    SPECIALS,
    START,
    TESTS,
    Batch,
    batches,
    hidden,
    model,
    taught,
    vectors,
)

HERE = ["default"]  # the instruction set of what is dear
LONGEST, DRAWN, PAIRS, STEPS = 8, {"train": 12_000, "test": 1_500}, 1_000, 1_500
WAYS = ("hidden words alone", "true pairs", "shuffled pairs")


@cache
def drawn(split: str) -> list[Pair]:
    """Sentences and their translations."""
    return grammar.pairs(split, DRAWN[split], LONGEST)


@cache
def tokenizer() -> WordTokenizer:
    """All words of both languages, a word that both spell alike once."""
    return WordTokenizer([side for pair in drawn("train") for side in pair[:2]])


def n_words() -> int:
    """How many words there are, without the specials of the tokenizer, which a model has four of its own for."""
    return len(tokenizer()) - SPECIALS


def ids(words: list[str]) -> tuple[int, ...]:
    """The words of a sentence as a model reads them."""
    return tuple(tokenizer().encode(words).tolist())


@cache
def tests() -> list[tuple]:
    """Test sentences of known words in both languages, as ids."""
    known = set(tokenizer().vocab)
    return [(ids(one), ids(other)) for one, other, _ in drawn("test") if known.issuperset((*one, *other))][:TESTS]


def sides(seed: int) -> tuple[list, list, list]:
    """PAIRS pairs; and of the other sentences half in English, half in French, none in both; by the seed."""
    every = random.Random(seed).sample(drawn("train"), len(drawn("train")))
    pairs = [(ids(one.source), ids(one.target)) for one in every[:PAIRS]]
    known = {tuple(one.target) for one in every[:PAIRS]} | {tuple(one.target) for one in every[PAIRS::2]}
    french = [ids(one.target) for one in every[PAIRS + 1 :: 2] if tuple(one.target) not in known]
    return pairs, [ids(one.source) for one in every[PAIRS::2]], french


def pair_batches(pairs: list, seed: int, batch: int) -> Iterator[Batch]:
    """Endless batches of rows that hold a sentence and its translation, words of both hidden."""
    generator, draw = torch.Generator().manual_seed(seed), random.Random(seed)
    while True:
        some = [translation_row(*one, START, SEP) for one in draw.choices(pairs, k=batch)]
        T = max(len(one.ids) for one in some)
        read = torch.tensor([one.ids + [PAD] * (T - len(one.ids)) for one in some])
        languages = torch.tensor([one.languages + [1] * (T - len(one.ids)) for one in some])
        yield hidden(read, languages, read != PAD, generator, n_words())


def mixed(seed: int, way: str) -> Iterator[Batch]:
    """A batch of sentences in either language, then one of pairs, and so on; without pairs sentences every time.

    A row of a pair is twice as long as a sentence: half as many of them are as many words.
    """
    pairs, english, french = sides(seed)
    if way == "shuffled pairs":
        others = random.Random(seed).sample(pairs, len(pairs))
        pairs = [(one, other) for (one, _), (_, other) in zip(pairs, others, strict=True)]
    sentences = batches([english, french], seed, BATCH, n_words())
    in_pairs = pair_batches(pairs, seed, BATCH // 2)
    while True:
        yield next(sentences)
        yield next(sentences if way == WAYS[0] else in_pairs)


@experiment([{"way": way} for way in WAYS], cpus=HERE)
def english_and_french(seed, way):
    """English and French by hidden words, and by hidden words of 1,000 pairs besides, true or shuffled: twins found."""
    one = model(seed, n_words())
    taught(one, mixed(seed, way), STEPS)
    return {"twins": found(one), "shared": alike()}


@experiment(cpus=HERE)
def english_and_french_untrained(seed):
    """The same for weights that are drawn: what is found by words that both languages spell alike."""
    return {"twins": found(model(seed, n_words()))}


def found(one: XLM) -> dict[int, float]:
    """The share of test sentences whose nearest French one is the translation, by layer."""
    here, there = zip(*tests(), strict=True)
    right = (twins_found(vectors(one, here, 0, layer), vectors(one, there, 1, layer)) for layer in range(N_LAYERS + 1))
    return {layer: float(some.double().mean()) for layer, some in enumerate(right)}


def alike() -> float:
    """The share of all words of either language that both have."""
    english, french = ({word for pair in drawn("train") for word in pair[side]} for side in (0, 1))
    return len(english & french) / len(english | french)
