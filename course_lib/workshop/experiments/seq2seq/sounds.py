"""Lesson 03, on real words: how a published encoder-decoder says them, by their length, and what two rules say.

The published network has one vector between its two GRUs, as the lesson's own; it has read most of these words.
"""

from collections import Counter
from functools import cache

import numpy as np

from course_lib.data import sounds
from course_lib.train import published
from course_lib.translation.error_rate import edit_distance
from course_lib.weights.g2p_weights import END_SIGN, LETTERS, from_g2p, spelled
from course_lib.workshop.experiments import experiment

MOST_SOUNDS = 40  # after so many a network is stopped; 28 are the most in the dictionary
SHORTEST, LONG, VERY_LONG = 3, 14, 18  # letters: shorter words count with the first, longer ones with the last


@cache
def published_speaker():
    """The published network, a Translator of `spelled` words into sounds."""
    return from_g2p(published.arrays("g2p"))


def said(speaker, words):
    """What a network says of words, each a list of sounds."""
    reads = spelled if END_SIGN in speaker.reads.vocab else str.lower
    parts = [words[at : at + 500] for at in range(0, len(words), 500)]
    return [row for part in parts for row in speaker.translate([*map(reads, part)], max_len=MOST_SOUNDS)]


def plain_sounds(row):
    """Sounds without the stress of their vowels."""
    return [sound.rstrip("012") for sound in row]


def judged(told, rows):
    """Of what was said of some words: right in every sound, right but for stress, errors over the right sounds."""
    pairs = [(mine, row.sounds) for mine, row in zip(told, rows, strict=True)]
    return {
        "words": len(pairs),
        "exact": np.mean([mine == right for mine, right in pairs]),
        "exact but for stress": np.mean([plain_sounds(mine) == plain_sounds(right) for mine, right in pairs]),
        "error rate": sum(edit_distance(*pair) for pair in pairs) / sum(len(right) for _, right in pairs),
        "too short": np.mean([len(mine) < len(right) for mine, right in pairs]),
        "too long": np.mean([len(mine) > len(right) for mine, right in pairs]),
    }


def by_length(told, rows, longest=LONG):
    """`judged`, of all words, and of those of each length a list for each key, beside their "letters"."""
    sorted_in = {}
    for mine, row in zip(told, rows, strict=True):
        sorted_in.setdefault(min(max(len(row.word), SHORTEST), longest), []).append((mine, row))
    letters = sorted(sorted_in)
    of_each = [judged(*zip(*sorted_in[n], strict=True)) for n in letters]
    columns = {key: [one[key] for one in of_each] for key in of_each[0]}
    return judged(told, rows) | {"by length": columns | {"letters": letters}}


# --- the published network, and rules


@experiment(seeds=[0], cpus=["avx2"])
def published_network(seed):
    """How many words the published network says rightly, by length: of the whole dictionary, and of our test split."""
    found = {}
    for name, some, longest in (("dictionary", sounds.dictionary(), VERY_LONG), ("test", sounds.words("test"), LONG)):
        found[name] = by_length(said(published_speaker(), [row.word for row in some]), some, longest)
    return found


@experiment(seeds=[0], cpus=["avx2"])
def rules(seed):
    """How many test words two rules say rightly, by length: a sound for each letter, and the nearest known word."""
    train, test = sounds.words("train"), sounds.words("test")
    found = {"letter by letter": by_length(list(map(letter_by_letter(train), (row.word for row in test))), test)}
    some = test[:1000]  # each is compared with 100,000 known words
    return found | {"nearest word": by_length(nearest_words(train, [row.word for row in some]), some)}


def letter_by_letter(train):
    """A rule: each letter's most frequent sound, counted in words that have as many sounds as letters."""
    counts = {letter: Counter() for letter in LETTERS}
    for word, right in train:
        if len(word) == len(right):
            for letter, sound in zip(word, right, strict=True):
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
