"""Lesson 14: what two languages share that share no word. English, and fake English in the words of its own.

"twins" is the share of 200 sentences of plays that nobody has read whose nearest sentence of the other language is the
same one, for the states of each layer (0: the embeddings); "words" the share of 500 words whose nearest vector in the
table of tokens is the same word, and "frequent words" that of the 100 most frequent.
"""

import random
from collections import Counter
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.bert.xlm import XLM
from course_lib.workshop.experiments import experiment
from course_lib.workshop.recipes.multilingual import (
    N_LAYERS,
    WORDS,
    halves,
    in_language,
    in_words,
    judged,
    learned,
    model,
    numbers,
    read_out,
    texts,
    twins,
    vectors,
    word_twins,
)

HERE = ["default"]  # the instruction set of what is dear
FREQUENT = 100
ASKED = {"train": 4000, "test": 400}  # sentences, half of them questions
PLACES = ("one table", "apart", "none")


def found(one: XLM, order: str = "as it is") -> dict:
    """What of fake English a model finds: sentences by the states of each layer, words by its table."""
    words = word_twins(one)
    return {
        "twins": {layer: share(twins(one, order, layer)) for layer in range(N_LAYERS + 1)},
        "words": share(words),
        "frequent words": share(words[most_frequent()]),
    }


def share(right: Tensor) -> float:
    """How many of them, as a part of one."""
    return float(right.double().mean())


@cache
def most_frequent() -> list[int]:
    """The words that are most frequent in what is read; not the one that stands for all rare ones."""
    counts = Counter(word for one in numbers("train") for word in one if word)
    return [word for word, _ in counts.most_common(FREQUENT)]


@experiment()
def no_word_shared(seed):
    """English and fake English, other sentences and other words: sentences and words found after 2,400 steps."""
    one = learned(seed)
    return found(one) | {"questions": asked(one)}


@experiment([{"order": order} for order in ("shuffled", "reversed")], cpus=HERE)
def other_order(seed, order):
    """The same where the words of each fake sentence stand in an order drawn at random, or backwards."""
    return found(learned(seed, texts(seed, order)), order)


@experiment([{"places": places} for places in PLACES[1:]], cpus=HERE)
def other_places(seed, places):
    """The same where fake English has vectors of places of its own, or where no place is told."""
    one = learned(seed, places=places)
    return found(one) | {"questions": asked(one)}


@experiment([{"what": what} for what in ("language told", "same sentences")], seeds=[0, 1, 2], cpus=HERE)
def otherwise(seed, what):
    """The same where a vector says which language it is, or where both languages read the same sentences."""
    same = what == "same sentences"
    return found(learned(seed, texts(seed, same=same), tell=not same))


@experiment(cpus=HERE)
def untrained(seed):
    """A model whose weights are drawn: sentences and words found, and questions told from statements."""
    one = model(seed)
    return found(one) | {"questions": asked(one)}


@experiment(cpus=HERE)
def rules(seed):
    """What needs no model: sentences by their length or how frequent their words are; words by frequency and place."""
    here, there = halves(seed)
    logs = [(1.0 + _counts(half)).log() for half in (here, there)]
    stands = [_stands(half) for half in (here, there)]
    both = [torch.cat([F.normalize(a, dim=1), 0.1 * b[:, None]], dim=1) for a, b in zip(stands, logs, strict=True)]
    some = judged()
    in_order = [_rows([one[list(s)] for s in some]) for one in logs]
    by_size = [_rows([one[list(s)].sort().values for s in some]) for one in logs]
    length = [torch.tensor([[float(len(s))] for s in some])] * 2
    return {
        "length": nearest(*length),
        "frequencies, sorted": nearest(*by_size),
        "frequencies in order": nearest(*in_order),
        "words by frequency": nearest(*(one[:, None] for one in logs)),
        "words by place": nearest(*(F.normalize(one, dim=1) for one in stands)),
        "words by both": nearest(*both),
    }


def nearest(here: Tensor, there: Tensor) -> float:
    """How many rows have the same row of the other side nearest; of equally near ones each counts its part."""
    apart = torch.cdist(here.double(), there.double(), compute_mode="donot_use_mm_for_euclid_dist")
    ties = apart <= apart.min(dim=1, keepdim=True).values + 1e-9
    return float((ties.diagonal() / ties.sum(dim=1)).mean())


def _counts(half: list) -> Tensor:
    """How often each word stands in these sentences: (WORDS,)."""
    return torch.bincount(torch.tensor([word for one in half for word in one]), minlength=WORDS)


def _stands(half: list) -> Tensor:
    """How often each word stands at each of the first 8 places, and at the last 3, as shares: (WORDS, 11)."""
    counts = torch.zeros(WORDS, 11)
    for one in half:
        for at, word in enumerate(one):
            if at < 8:
                counts[word, at] += 1
            if (left := len(one) - 1 - at) < 3:
                counts[word, 8 + left] += 1
    return counts / counts.sum(dim=1, keepdim=True).clamp(min=1)


def _rows(rows: list) -> Tensor:
    """Rows of unlike lengths as one table; where a row has ended it holds -1, which no frequency is."""
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1.0)


@cache
def questions(split: str) -> tuple[list, Tensor]:
    """Sentences without their last mark, as many questions as statements, mixed; and whether each is a question."""
    kinds = {"?": [], ".": []}
    for one in numbers(split):
        if (mark := in_words(one)[-1]) in kinds:
            kinds[mark].append(one[:-1])
    n = min(ASKED[split] // 2, *map(len, kinds.values()))
    some = [(one, mark == "?") for mark, part in kinds.items() for one in part[:n]]
    random.Random(0).shuffle(some)
    return [one for one, _ in some], torch.tensor([float(is_one) for _, is_one in some])


def asked(one: XLM) -> dict[str, float]:
    """Is it a question? A read-out taught on English, asked in English and in the other: share right (0.5 by chance).

    By the mean of the middle layer's states, each language's own mean off, as for twins.
    """
    (seen, labels), (new, right) = questions("train"), questions("test")
    known = vectors(one, [in_language(words, 0) for words in seen], 0)
    told = {}
    for language, name in enumerate(("English", "fake English")):
        states = vectors(one, [in_language(words, language) for words in new], language)
        says = read_out(known, labels[:, None], states)[:, 0] > 0.5
        told[name] = share(says == (right > 0.5))
    return told
