"""Lesson 03, on words: what a published pair of networks says right, by length, and what its one vector keeps."""

import random
import string
from functools import cache

import numpy as np
import torch

from course_lib.data import sounds
from course_lib.text.pairs import PADDING, shift
from course_lib.weights.g2p_weights import spelled
from course_lib.workshop.experiments import experiment
from course_lib.workshop.experiments.seq2seq.sounds import published_speaker

N_LETTERS = (4, 6, 8, 10, 12, 14)  # lengths of words that are compared
EACH = 400  # words of each length


@cache
def words_of(n_letters):
    """Words of so many letters with their sounds: of the corpus's test split first, then of the others."""
    rows = [row for split in ("test", "validation", "train") for row in sounds.words(split)]
    return [row for row in rows if len(row.word) == n_letters][:EACH]


@torch.no_grad()
def kept(translator, word, said):
    """What a state keeps of each letter, (S, steps), and the states themselves, (steps, H): it reads, then it writes.

    Each letter is exchanged for each of the 25 others. Kept is how far that moves the state on average, as a part of
    the state's own length. The decoder reads what it `said`, whatever the letters are.
    """
    others = [word[:at] + letter + word[at + 1 :] for at, old in enumerate(word) for letter in string.ascii_lowercase
              if letter != old]  # fmt: skip
    source, _ = translator.reads.batch([spelled(one) for one in (word, *others)])  # (1 + 25 S, S + 1)
    target = translator.writes.encode(said, start=True).expand(len(source), -1)
    memory, state = translator.model.encode(source)
    written, _ = translator.model.decoder.rnn(translator.model.decoder.embed(target), state)
    states = torch.cat([memory, written], dim=1)
    moved = (states[1:] - states[0]).norm(dim=-1) / states[0].norm(dim=-1)
    return moved.unflatten(0, (len(word), -1)).mean(1), states[0]


@torch.no_grad()
def kept_in_the_vector(translator, rows, generator):
    """The same for the last state alone, each letter of each word exchanged once: the mean over letters and words."""
    pairs = []
    for word in (row.word for row in rows):
        for at, old in enumerate(word):
            pairs.append((word, word[:at] + generator.choice(string.ascii_lowercase.replace(old, "")) + word[at + 1 :]))
    mine, other = (translator.model.encode(translator.reads.batch(list(map(spelled, side)))[0])[1]
                   for side in zip(*pairs, strict=True))  # fmt: skip
    return float(((other - mine).norm(dim=-1) / mine.norm(dim=-1)).mean())


@torch.no_grad()
def missed_when_told(translator, rows):
    """The share of sounds, ends counted, that it misses when it is told the right ones before them."""
    source, real = translator.reads.batch([spelled(row.word) for row in rows])
    target_in, target_out = shift(translator.writes.batch([row.sounds for row in rows], start=True, end=True)[0])
    guess = translator.model(source, real.sum(1), target_in)[0].argmax(-1)
    return float((guess != target_out)[target_out != PADDING].float().mean())


@experiment(seeds=[0], cpus=["default"])
def published_pair(seed):
    """What g2p_en says right by number of letters, what it misses when told, and what its vector keeps of a letter."""
    translator = published_speaker()
    found = {name: {} for name in ("exact", "missed when told", "kept", "sounds")}
    for n in N_LETTERS:
        rows = words_of(n)
        said = translator.translate([spelled(row.word) for row in rows])
        found["exact"][n] = np.mean([mine == row.sounds for mine, row in zip(said, rows, strict=True)])
        found["missed when told"][n] = missed_when_told(translator, rows)
        found["sounds"][n] = np.mean([len(row.sounds) for row in rows])
        found["kept"][n] = kept_in_the_vector(translator, rows, random.Random(seed))
    return found
