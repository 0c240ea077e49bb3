"""Lessons 03 and 04, on real words: how they sound, as a published network says it, rules, and two networks of ours.

The published one is lesson 03's architecture: an encoder, one vector, a decoder. Of our two one has attention, and its
partner has not; their weights, seconds of training and start are equal, and each has the best of three learning rates.
"""

from collections import Counter
from functools import cache

import numpy as np

from course_lib.data import sounds
from course_lib.experiments import experiment
from course_lib.recipes.sounds import LONGEST, reads_aloud
from course_lib.recipes.stored import load
from course_lib.train import published
from course_lib.translation.error_rate import edit_distance
from course_lib.weights.g2p_weights import LETTERS, from_g2p, spelled

OURS = {"attention": "sounds_attention", "one vector": "sounds_one_vector"}
FILES = {name: f"data/checkpoints/{file}.safetensors" for name, file in OURS.items()}
SHORTEST, LONG, VERY_LONG = 3, 14, 18  # letters: shorter words count with the first, longer ones with the last


@cache
def speaker(name):
    """A network that reads words aloud: "published", "attention" or "one vector"."""
    return from_g2p(published.read("g2p")[1]) if name == "published" else reads_aloud(load(OURS[name])[0])


def said_by(name, words):
    """What a network says of words, each a list of sounds."""
    read = [spelled(word) if name == "published" else word for word in words]
    parts = [read[at : at + 500] for at in range(0, len(read), 500)]
    return [row for part in parts for row in speaker(name).translate(part, max_len=LONGEST)]


def plain_sounds(row):
    """Sounds without the stress of their vowels."""
    return [sound.rstrip("012") for sound in row]


def judged(said, rows):
    """Of what was said of some words: right in every sound, right but for stress, errors over the right sounds."""
    pairs = [(mine, row.sounds) for mine, row in zip(said, rows, strict=True)]
    return {
        "words": len(pairs),
        "exact": np.mean([mine == right for mine, right in pairs]),
        "exact but for stress": np.mean([plain_sounds(mine) == plain_sounds(right) for mine, right in pairs]),
        "error rate": sum(edit_distance(*pair) for pair in pairs) / sum(len(right) for _, right in pairs),
        "too short": np.mean([len(mine) < len(right) for mine, right in pairs]),
        "too long": np.mean([len(mine) > len(right) for mine, right in pairs]),
    }


def by_length(said, rows, longest=LONG):
    """`judged`, of all words, and of those of each length a list for each key, beside their "letters"."""
    sorted_in = {}
    for mine, row in zip(said, rows, strict=True):
        sorted_in.setdefault(min(max(len(row.word), SHORTEST), longest), []).append((mine, row))
    letters = sorted(sorted_in)
    of_each = [judged(*zip(*sorted_in[n], strict=True)) for n in letters]
    columns = {key: [one[key] for one in of_each] for key in of_each[0]}
    return judged(said, rows) | {"by length": columns | {"letters": letters}}


# --- the published network, and rules


@experiment(seeds=[0], cpus=["avx2"])
def published_network(seed):
    """How many words the published network says rightly, by length: of the whole dictionary, and of our test split."""
    found = {}
    for name, some, longest in (("dictionary", sounds.dictionary(), VERY_LONG), ("test", sounds.words("test"), LONG)):
        found[name] = by_length(said_by("published", [row.word for row in some]), some, longest)
    return found


@experiment(seeds=[0], cpus=["avx2"])
def rules(seed):
    """How many test words two rules say rightly, by length: a sound for each letter, and the nearest known word."""
    train, test = sounds.words("train"), sounds.words("test")
    found = {"letter by letter": by_length(list(map(letter_by_letter(train), (row.word for row in test))), test)}
    some = test[:2000]
    return found | {"nearest word": by_length(nearest_words(train, [row.word for row in some]), some)}


def letter_by_letter(train):
    """A rule: each letter's most frequent sound, counted in words that have as many sounds as letters."""
    counts = {letter: Counter() for letter in LETTERS}
    for word, said in train:
        if len(word) == len(said):
            for letter, sound in zip(word, said, strict=True):
                counts[letter][sound] += 1
    table = {letter: count.most_common(1)[0][0] for letter, count in counts.items()}
    return lambda word: [table[letter] for letter in word]


def nearest_words(train, words):
    """A rule: the sounds of the known word that the fewest changes of letters make of it; of several, the first."""
    longest = max(len(row.word) for row in train)
    known = np.array([[ord(letter) for letter in row.word.ljust(longest)] for row in train], np.int16).T  # (L, N)
    lengths = np.array([len(row.word) for row in train])
    found = []
    for word in words:
        near = np.abs(lengths - len(word)) <= 2
        there = distances(word, known[:, near], lengths[near])
        found.append(train[np.flatnonzero(near)[there.argmin()]].sounds)
    return found


def distances(word, known, lengths):
    """`edit_distance` of a word to many at once: known (L, N) letters, lengths (N) -> (N)."""
    before = np.arange(len(known) + 1, dtype=np.int16)[:, None] * np.ones(known.shape[1], np.int16)
    for i, letter in enumerate(map(ord, word), 1):
        now = np.empty_like(before)
        now[0] = i
        for j, wanted in enumerate(known, 1):
            now[j] = np.minimum(np.minimum(before[j], now[j - 1]) + 1, before[j - 1] + (wanted != letter))
        before = now
    return before[lengths, np.arange(known.shape[1])]
