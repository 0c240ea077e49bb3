"""Lesson 14: what else two languages have in common, taken away: special tokens, where a sentence begins, the plays.

"twins", "words" and "frequent words" as in `multilingual.py`.
"""

import random

import torch
from torch import Tensor

from course_lib.bert.xlm import XLM, sentence_vectors, twins_found
from course_lib.workshop.experiments import experiment
from course_lib.workshop.experiments.multilingual.core import share
from course_lib.workshop.experiments.multilingual.pairs import STEPS, drawn, ids, n_words, tests
from course_lib.workshop.recipes.multilingual import (
    BATCH,
    MIDDLE,
    SEP,
    SPECIALS,
    WORDS,
    batches,
    in_language,
    judged,
    model,
    rows,
    taught,
    texts,
    vectors,
    word_twins,
)
from course_lib.workshop.recipes.multilingual import STEPS as LONG

HERE = ["default"]  # the instruction set of what is dear
LATER = 3  # places


class PlacesLater(XLM):
    """Sentences of the second language begin LATER places on, in the same table: neighbours stay, places move."""

    def places_of(self, languages: Tensor) -> Tensor:
        return super().places_of(languages) + LATER * languages


@experiment(cpus=HERE)
def places_later(seed):
    """English and fake English, where fake sentences begin three places on, in the same table: twins found."""
    one = model(seed)
    one.__class__ = PlacesLater  # the same weights to begin with, other places
    taught(one, batches(texts(seed), seed), LONG)
    here, there = (vectors(one, [in_language(some, n) for some in judged()], n) for n in (0, 1))
    return {"twins": share(twins_found(here, there)), "words": share(word_twins(one))}


def with_own_marks(read: Tensor, languages: Tensor) -> Tensor:
    """Ids with mask, start and end of the second language's own, three tokens behind all words."""
    moved = (languages == 1) & (read > 0) & (read <= SEP)
    return torch.where(moved, read + SPECIALS + 2 * WORDS - 1, read)


@experiment(cpus=HERE)
def marks_apart(seed):
    """English and fake English, each with its own mask, start and end: then only blocks and places are common."""
    one = model(seed, 2 * WORDS + SEP)

    def data():
        for batch in batches(texts(seed), seed):
            yield batch._replace(ids=with_own_marks(batch.ids, batch.languages))

    taught(one, data(), LONG)
    found = []
    for n in (0, 1):
        read, languages, mask = rows([in_language(some, n) for some in judged()], n)
        with torch.no_grad():
            found.append(sentence_vectors(one, with_own_marks(read, languages), languages, mask, MIDDLE))
    return {"twins": share(twins_found(*found)), "words": share(word_twins(one))}


@experiment(cpus=HERE)
def fake_of_the_grammar(seed):
    """Fake English of the grammar's sentences, in as many steps as English and French: twins found."""
    every = random.Random(seed).sample(drawn("train"), len(drawn("train")))
    here, other = ([ids(pair.source) for pair in every[start::2]] for start in (0, 1))
    fake = [tuple(word + n_words() for word in one) for one in other]
    one = model(seed, 2 * n_words())
    taught(one, batches([here, fake], seed, BATCH, n_words()), STEPS)
    asked = [english for english, _ in tests()]
    there = [tuple(word + n_words() for word in english) for english in asked]
    return {"twins": share(twins_found(vectors(one, asked, 0), vectors(one, there, 1)))}
