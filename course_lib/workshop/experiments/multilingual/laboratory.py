"""Lesson 14's laboratory: many languages in a model of one size.

Fake languages, each English in words of its own. Each batch has as many rows, each language an equal part of them, and
the steps are the same: the more languages, the less is read of each, and the more words share the weights. "nats" is
the loss of a hidden word of English sentences that nobody has read, "twins" as in `multilingual.py`.
"""

import random

import torch

from course_lib.workshop.experiments import experiment
from course_lib.workshop.experiments.multilingual.core import share
from course_lib.workshop.recipes.multilingual import (
    BATCH,
    STEPS,
    WORDS,
    batches,
    hidden,
    in_language,
    judged,
    loss,
    model,
    numbers,
    rows,
    taught,
    twins,
)

HERE = ["default"]  # the instruction set of what is dear
LANGUAGES = (1, 2, 4, 8)
HALF = STEPS // 2


@experiment([{"n": n} for n in LANGUAGES], seeds=[0, 1, 2], cpus=HERE)
def many(seed, n):
    """One model for 1, 2, 4 or 8 languages that share no word, in the same steps: nats an English word, twins found."""
    every = random.Random(seed).sample(numbers("train"), len(numbers("train")))
    languages = [[in_language(some, at) for some in every[at::n]] for at in range(n)]
    one = model(seed, n * WORDS, n_languages=n)
    taught(one, batches(languages, seed, BATCH), HALF)
    return {"nats": nats(one), "twins": share(twins(one)) if n > 1 else None}


@torch.no_grad()
def nats(one) -> float:
    """-log p of a hidden word of English, on average over the judged sentences, hidden in five ways."""
    ids, languages, mask = rows([in_language(some, 0) for some in judged()], 0)
    generator = torch.Generator().manual_seed(0)
    return sum(float(loss(one, hidden(ids, languages, mask, generator))) for _ in range(5)) / 5
