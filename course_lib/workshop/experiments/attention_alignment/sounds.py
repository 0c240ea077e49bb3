"""Lesson 04, on real words: how they sound, as a network with attention says it and its partner with one vector.

Both are stored: their weights and start are equal, their seconds of training within a tenth (`pace`), and each has the
best of three learning rates.
A smaller pair learns from fewer words in half a minute each.
"""

import time
from functools import cache
from types import SimpleNamespace

import numpy as np
import torch

from course_lib.data import sounds
from course_lib.text.pairs import batches
from course_lib.train.loop import cosine, fit
from course_lib.translation.translator import translation_loss
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.seq2seq.sounds import by_length, judged, said
from course_lib.workshop.recipes.sounds import ATTENTION, ONE_VECTOR, build_speaker, reads_aloud
from course_lib.workshop.recipes.stored import load

CPU = torch.device("cpu")  # models this small are no faster on a GPU
OURS = {"attention": ATTENTION, "one vector": ONE_VECTOR}
FILES = [recipe.file for recipe in OURS.values()]


@cache
def speaker(model):
    """A stored network, "attention" or "one vector": a Translator of words, as text, into sounds."""
    return reads_aloud(load(OURS[model])[0])


@experiment(each(model=OURS), seeds=[0], cpus=["avx2"], files=FILES)
def stored_network(seed, model):
    """How many test words a stored network says rightly, by length, with attention or with one vector."""
    test = sounds.words("test")
    weights = sum(part.numel() for part in speaker(model).model.parameters())
    return by_length(said(speaker(model), [row.word for row in test]), test) | {"weights": weights}


@experiment(seeds=[0], cpus=["avx2"])
def pace(seed):
    """Milliseconds of a step of training, with attention and with one vector, in turns and on the same words."""
    speakers = {name: reads_aloud(recipe.build()) for name, recipe in OURS.items()}
    drawn = batches(next(iter(speakers.values())).ids(sounds.words("train")[:4000]), 128, seed)
    same, took = [next(drawn) for _ in range(10)], {name: [] for name in OURS}
    for _ in range(8):
        for name, one in speakers.items():
            began = time.thread_time()
            fit(one.model, same, translation_loss, steps=len(same), device=CPU, progress=False)
            took[name].append(1000 * (time.thread_time() - began) / len(same))
    return {name: min(some) for name, some in took.items()}  # what else the machine did can only make it longer


# --- where it looks


def looked_at(rows):
    """Of the words that the stored network with attention says rightly: word, sounds, weights (sounds, letters)."""
    told = said(speaker("attention"), [row.word for row in rows])
    right = [row for row, mine in zip(rows, told, strict=True) if mine == row.sounds]
    maps = speaker("attention").attention(right)
    return [
        SimpleNamespace(word=row.word, sounds=row.sounds, looks=w.numpy()) for row, w in zip(right, maps, strict=True)
    ]


@experiment(seeds=[0], cpus=["avx2"], files=FILES)
def looks(seed):
    """Where the stored network with attention looks in test words that it says rightly: order, ph, silent letters."""
    rows = looked_at(sounds.words("test") + sounds.words("validation"))
    tops = [row.looks.argmax(1) for row in rows]
    even = [(row, top) for row, top in zip(rows, tops, strict=True) if len(row.word) == len(row.sounds)]
    return {
        "words": len(rows),
        "goes on": np.mean(np.concatenate([np.diff(top) >= 0 for top in tops])),
        "top weight": np.mean(np.concatenate([row.looks.max(1) for row in rows])),
        "as many sounds as letters": {
            "words": len(even),
            "at its letter": np.mean(np.concatenate([top == np.arange(len(top)) for _, top in even])),
            "behind it": np.mean(np.concatenate([top == np.arange(len(top)) + 1 for _, top in even])),
            "before it": np.mean(np.concatenate([top == np.arange(len(top)) - 1 for _, top in even])),
        },
        "ph": two_letters(rows, "ph", "F"),
        "silent": {
            "k of kn": seen(rows, lambda row: row.word.startswith("kn") and row.sounds[0] == "N", 0),
            "k that sounds": seen(rows, lambda row: row.word[0] == "k" and row.sounds[0] == "K", 0),
            "last e": seen(rows, silent_e, -1),
            "last letter that sounds": seen(rows, sounding_end, -1),
        },
    }


def two_letters(rows, letters, sound):
    """Two letters that are said as one sound: the weight on each when it is said, beside an equal share of the word."""
    some = [row for row in rows if row.word.count(letters) == 1 == row.sounds.count(sound) and "f" not in row.word]
    places = [(row, row.sounds.index(sound), row.word.index(letters)) for row in some]
    return {
        "words": len(some),
        "first": np.mean([row.looks[t, at] for row, t, at in places]),
        "second": np.mean([row.looks[t, at + 1] for row, t, at in places]),
        "letter behind": np.mean([row.looks[t, at + 2] for row, t, at in places if at + 2 < len(row.word)]),
        "equal share": np.mean([2 / len(row.word) for row, *_ in places]),
    }


def seen(rows, wanted, at):
    """What a letter gets of all looks in its word, in letters: 1 where it gets as much as the mean letter."""
    some = [row for row in rows if wanted(row)]
    shares = [row.looks[:, at].sum() / len(row.sounds) * len(row.word) for row in some]
    return {
        "words": len(some),
        "looks": np.mean(shares),
        "most at once": np.mean([row.looks[:, at].max() for row in some]),
    }


def silent_e(row):
    """Whether a word ends in a consonant and an e that is not said."""
    return row.word[-1] == "e" and row.word[-2:-1] not in "aeiouy" and not row.sounds[-1][-1].isdigit()


def sounding_end(row):
    """Whether a word ends in a letter that is mostly said as one sound, and is."""
    return row.word[-1] in "tnmk" and row.sounds[-1] == row.word[-1].upper()


# --- a smaller pair, in half a minute each

FEW_WORDS = 20_000
SMALL = {"attention": ("additive", 32, 96), "one vector": (None, 32, 126)}
SMALL_STEPS = {"attention": 700, "one vector": 850}  # a step with attention takes a quarter longer


def learned(model, seed):
    """Train a small network, "attention" or "one vector", on 20,000 words -> a translator, and its losses."""
    torch.manual_seed(seed)
    small = reads_aloud(build_speaker(*SMALL[model]))
    drawn = batches(small.ids(sounds.words("train")[:FEW_WORDS]), 128, seed)
    history = fit(small.model, drawn, translation_loss, steps=SMALL_STEPS[model], lr=8e-3, device=CPU, progress=False,
                  schedule=lambda step, steps: cosine(step, steps, 100))  # fmt: skip
    return small, history


@experiment(each(model=SMALL), seeds=range(3), cpus=["avx2"])
def fewer_words(seed, model):
    """How many of 2,000 test words a small network says rightly, by length, that learned from 20,000 words."""
    small, history = learned(model, seed)
    test = sounds.words("test")[:2000]
    told = said(small, [row.word for row in test])
    groups = {"to 5": (1, 5), "6 to 8": (6, 8), "9 to 11": (9, 11), "12 and more": (12, 99)}
    found = {"weights": sum(part.numel() for part in small.model.parameters())}
    for name, (least, most) in groups.items():
        found[name] = judged(*zip(*[(mine, row) for mine, row in zip(told, test, strict=True)
                                    if least <= len(row.word) <= most], strict=True))  # fmt: skip
    return found | {"all": judged(told, test), "loss": np.reshape(history.loss, (-1, 50)).mean(1)}
