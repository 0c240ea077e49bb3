"""Lesson 13's laboratory: each noise by itself, beams and lengths, a scene's first lines under ROUGE, published sizes.

Models are those of `recipes/text_to_text.py`, tuned on FEW pairs; "BLEU" and "exact" are those of 200 test sentences.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from random import Random
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from course_lib.data import SPLITS, Pair, plays
from course_lib.text.pairs import batches
from course_lib.text_to_text.noise import (
    document_rotation,
    sentence_permutation,
    text_infilling,
    token_deletion,
    token_masking,
)
from course_lib.text_to_text.rouge import rouge_l, rouge_n
from course_lib.text_to_text.t5 import BYT5_PUBLISHED, MT5_PUBLISHED, T5_PUBLISHED, t5_parameter_count
from course_lib.text_to_text.tasks import prefixed
from course_lib.train.loop import cosine, fit
from course_lib.translation.translator import Translator, translation_loss
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.seq2seq.core import search_errors
from course_lib.workshop.experiments.text_to_text.core import HERE, judged, worth
from course_lib.workshop.recipes.stored import load
from course_lib.workshop.recipes.text_to_text import (
    BATCH,
    COPIES,
    CPU,
    MEAN,
    RATE,
    READER,
    SENTINELS,
    SHARE,
    STEPS,
    asked,
    model,
    pairs,
    tests,
    texts,
    tokenizer,
    tuned,
)

FEW = 200  # pairs that a model is tuned on

# --- one noise at a time

# A sentence alone has no order of sentences; three make a document, which BART's noises are for. The sentences of one
# are drawn by themselves, so that nothing in them tells which came first. "None" is the control: the text is copied.
# For a single sentence, `text_to_text.copied` is that control and `text_to_text.few_pairs` holds infilling.
SENTENCES = {"a sentence": 1, "three sentences": 3}
OF_A_SENTENCE = ("token masking", "token deletion", "rotation")
OF_A_DOCUMENT = ("none", "text infilling", "rotation", "sentence permutation")


def spoilers() -> dict[str, Callable]:
    """Each noise as (ids, generator) -> (source, target); "none" is a text to be copied."""
    mask, stop = tokenizer().encode([SENTINELS[0], "."]).tolist()
    return {
        "none": lambda ids, generator: (list(ids), list(ids)),
        "token masking": partial(token_masking, mask=mask, share=SHARE),
        "token deletion": partial(token_deletion, share=SHARE),
        "text infilling": partial(text_infilling, mask=mask, share=SHARE, mean=MEAN),
        "rotation": document_rotation,
        "sentence permutation": partial(sentence_permutation, stops=[stop]),
    }


def documents(of: str) -> list[tuple[str, list[str]]]:
    """What is read: (the token of its language, as many sentences of it as `of` says, in one row)."""
    n, found = SENTENCES[of], []
    for language in dict.fromkeys(to for to, _ in texts()):
        own = [text for to, text in texts() if to == language]
        found += [(language, sum(own[i : i + n], [])) for i in range(0, len(own) - n + 1, n)]
    return found


def spoiled_by(noise: str, of: str, seed: int) -> list[tuple]:
    """Each document COPIES times, spoiled anew each time: pairs of ids, the language's token before the source."""
    generator, words, spoil = torch.Generator().manual_seed(seed), tokenizer(), spoilers()[noise]
    rows = []
    for to, text in documents(of) * COPIES:
        source, target = spoil(words.encode(text).tolist(), generator)
        rows.append((prefixed(words.encode([to]).tolist(), source), target))
    return rows


@experiment([*each(of=["a sentence"], noise=OF_A_SENTENCE), *each(of=["three sentences"], noise=OF_A_DOCUMENT)],
            seeds=range(3), cpus=HERE)  # fmt: skip
def one_noise(seed, of, noise):
    """A model that has read texts spoiled by one noise, tuned on 200 pairs: BLEU, exact match; its loss in reading."""
    one = model(seed)
    rows = batches(spoiled_by(noise, of, seed), BATCH // SENTENCES[of], seed)  # as many words a step
    read = fit(one, rows, translation_loss, steps=STEPS, lr=RATE, schedule=partial(cosine, warmup=100), device=CPU,
               progress=False)  # fmt: skip
    tuned(one, pairs()[:FEW], seed)
    return judged(one) | {"nats a word read": float(np.mean(read.loss[-50:]))}


# --- beams and lengths

WIDTHS, PENALTIES = (1, 2, 4, 8), (0.0, 0.6, 1.0, 2.0)
LONGEST = 20  # steps of a search


@experiment(files=[READER.file])
def beams(seed):
    """The stored model tuned on 200 pairs: BLEU, exact match and length by beam width and length penalty."""
    one = load(READER)[0]
    tuned(one, pairs()[:FEW], seed)
    return by_width(one)


def by_width(one: nn.Module) -> dict:
    """`worth`, mean words and search errors of each width and penalty; a beam of 1 is greedy and knows no penalty."""
    reads = Translator(one, tokenizer(), tokenizer())
    wanted = [Pair(*asked(pair), []) for pair in tests()]
    found = {"right words": np.mean([len(pair.target) for pair in wanted])}
    for width in WIDTHS:
        found[width] = {}
        for penalty in PENALTIES if width > 1 else PENALTIES[:1]:
            said = reads.translate(
                [pair.source for pair in wanted], max_len=LONGEST, width=width, length_penalty=penalty
            )
            found[width][penalty] = worth(said, tests()) | {
                "words": np.mean([len(text) for text in said]),
                "search errors": search_errors(reads, said, wanted),
            }
    return found


# --- a scene's first lines

SCENES, LEAST, MOST = 200, 20, 60  # scenes drawn; words of a reference
COMMON = 100  # words that are most frequent in the speeches, which say little
DIRECTION, WORD = re.compile(r"\[(.*?)\]", re.DOTALL), re.compile(r"[a-z]+(?:['-][a-z]+)*")


class Scene(NamedTuple):
    """One scene in words of small letters: its spoken lines, its stage directions, and who speaks, by first speech."""

    play: str
    lines: list[list[str]]
    directions: list[str]
    speakers: list[str]

    @property
    def spoken(self) -> list[str]:
        """All that is spoken."""
        return sum(self.lines, [])

    @property
    def before(self) -> list[list[str]]:
        """The lines that stand wholly before the last MOST words, which are a reference."""
        n, left = len(self.lines), MOST
        while left > 0:
            n -= 1
            left -= len(self.lines[n])
        return self.lines[:n]


def words_of(text: str) -> list[str]:
    """The words of a text in small letters, without marks."""
    return WORD.findall(text.lower())


@cache
def scenes() -> list[Scene]:
    """The scenes of all plays with LEAST words of directions or more, and enough speech for several references."""
    rows = {}
    for row in (row for split in SPLITS for row in plays.rows(split)):
        rows.setdefault(row[:4], []).append(row)
    found = [_scene(some) for some in rows.values()]
    return [one for one in found if len(one.directions) >= LEAST and len(one.spoken) >= 4 * MOST]


def _scene(rows: list) -> Scene:
    lines, directions = [], []
    for row in rows:
        if row.speaker:
            lines += filter(None, map(words_of, DIRECTION.sub(" ", row.text).splitlines()))
            directions += words_of(" ".join(DIRECTION.findall(row.text)))
        else:
            directions += words_of(row.text)
    return Scene(rows[0].play, lines, directions, list(dict.fromkeys(row.speaker for row in rows if row.speaker)))


@cache
def common_words() -> frozenset[str]:
    """The COMMON words that are most frequent in the speeches of these scenes."""
    counts = Counter(word for one in scenes() for word in one.spoken)
    return frozenset(word for word, _ in counts.most_common(COMMON))


def references(scene: Scene) -> dict[str, list[str]]:
    """What stands in for a summary, MOST words at most: what an editor tells of the stage, or how the scene ends.

    Nobody has summarised these scenes. Directions are another text about the same scene; the last lines are of its own
    kind, as the summaries of news are.
    """
    return {"directions": scene.directions[:MOST], "last lines": scene.spoken[-MOST:]}


def summaries(scene: Scene, n: int, draw: Random) -> dict[str, list[str]]:
    """Texts of n words, or fewer where there are no more; those of another scene or play say nothing of this one."""
    same = draw.choice([one for one in scenes() if one.play == scene.play and one is not scene] or scenes())
    other = draw.choice([one for one in scenes() if one.play != scene.play])
    first = scene.spoken[:n]
    return {
        "first lines": first,
        "random lines": random_lines(scene.before, n, draw),
        "first lines, shuffled": draw.sample(first, len(first)),
        "another scene of the play": same.spoken[:n],
        "another play": other.spoken[:n],
        "another play's directions": other.directions[:n],
        "who speaks": ["enter", *words_of(" ".join(scene.speakers))][:n],
    }


def random_lines(lines: list[list[str]], n: int, draw: Random) -> list[str]:
    """n words of lines drawn at random, in the order in which they stand."""
    order, taken = draw.sample(range(len(lines)), len(lines)), []
    while order and sum(len(lines[i]) for i in taken) < n:
        taken.append(order.pop())
    return sum((lines[i] for i in sorted(taken)), [])[:n]


def scored(said: list[str], right: list[str]) -> dict[str, float]:
    """f1 of ROUGE-1, ROUGE-2, ROUGE-L, and of ROUGE-1 without common words."""
    rare = [[word for word in text if word not in common_words()] for text in (said, right)]
    return {
        "ROUGE-1": rouge_n(said, right).f1,
        "ROUGE-2": rouge_n(said, right, 2).f1,
        "ROUGE-L": rouge_l(said, right).f1,
        "rare words": rouge_n(*rare).f1,
    }


@experiment(each(reference=["directions", "last lines"]), seeds=range(3), cpus=HERE)
def first_lines(seed, reference):
    """ROUGE of a scene's first lines, of random ones, of other scenes' and of their words shuffled."""
    draw, found = Random(seed), {}
    for scene in draw.sample(scenes(), SCENES):
        right = references(scene)[reference]
        for name, said in summaries(scene, len(right), draw).items():
            found.setdefault(name, []).append(scored(said, right))
    return {name: {what: np.mean([one[what] for one in some]) for what in some[0]} for name, some in found.items()}


# --- sizes

# Million weights, as the papers say: Raffel et al. (2020), section 3.7; Xue et al. (2021), section 3.2; Xue et al.
# (2022), table 1.
SAID = {
    "T5": (T5_PUBLISHED, {"small": 60, "base": 220, "large": 770, "3B": 2800, "11B": 11_000}),
    "mT5": (MT5_PUBLISHED, {"small": 300, "base": 580, "large": 1200, "XL": 3700, "XXL": 13_000}),
    "ByT5": (BYT5_PUBLISHED, {"small": 300, "base": 582, "large": 1230, "XL": 3740, "XXL": 12_900}),
}


class Size(NamedTuple):
    """A published model: million weights as its paper says and as counted, and the share that is one a token."""

    family: str
    size: str
    said: float
    counted: float
    vocabulary: float


def sizes() -> list[Size]:
    """T5, mT5 and ByT5 in all published sizes, counted by `t5_parameter_count`: nothing is built.

    T5 large is the one that is not what its paper says: 738 of "770" million come of the sizes that the paper gives,
    771 with a read-out of its own.
    """
    found = []
    for family, (configs, said) in SAID.items():
        for size, config in configs.items():
            counted = t5_parameter_count(config)
            table = config.vocab_size * config.d_model * (1 if config.tied else 2)
            found.append(Size(family, size, said[size], counted / 1e6, table / counted))
    return found
