"""Lesson 13: dates with spelling mistakes, read in words, in pieces of words or in bytes, and written in French.

"right" is the share of 300 test dates that are written in French without a mistake, by how many letters of the English
date are wrong. All three read with the same Transformer, of the same width, and write the same French words.
"""

import random
from collections.abc import Sequence
from functools import cache, partial

import torch
from torch.nn.utils.rnn import pad_sequence

from course_lib.attention.transformer import Transformer
from course_lib.data import dates
from course_lib.text.bpe import BPE
from course_lib.text.pairs import PADDING, batches
from course_lib.text.tokenizers import WORD_SPECIALS, WordTokenizer
from course_lib.train.loop import cosine, fit
from course_lib.translation.decode import exact_match, greedy
from course_lib.translation.translator import translation_loss
from course_lib.workshop.experiments import each, experiment

HERE = ["default"]  # the instruction set of what takes half a minute or more
CPU = torch.device("cpu")  # models this small are no faster on a GPU
SIZES = {"train": 4000, "test": 300}
READERS = ("words", "pieces", "bytes")
PIECES = 300  # tokens of the piece reader: the specials, the 256 bytes, and as many merges as that leaves
WRONG = (0, 1, 2, 3)  # letters of a date that are wrong
WIDTH, BATCH, STEPS, RATE = 64, 32, 1500, 4e-3
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@cache
def told(split: str) -> tuple[list[str], list[list[str]]]:
    """Dates in English, as text, and in French, in words: August 13 , 1992, and 13 août 1992."""
    pairs = dates.pairs(split, n_dates=1, size=SIZES[split], style="long")
    return [" ".join(pair.source) for pair in pairs], [pair.target for pair in pairs]


def misspelt(text: str, n: int, draw: random.Random) -> str:
    """The text with n mistakes in its words: a letter left out, put in, exchanged, or turned with the next one."""
    for _ in range(n):
        at = draw.choice([place for place, one in enumerate(text) if one.isalpha()])
        text = text[:at] + draw.choice(_mistakes(text, at, draw.choice(LETTERS))) + text[at + 2 :]
    return text


def _mistakes(text: str, at: int, letter: str) -> list[str]:
    """What the letter at this place and what stands behind it can become."""
    one, behind = text[at], text[at + 1 : at + 2]
    turned = [behind + one] if behind.isalpha() else []
    return [behind, one + letter + behind, letter + behind, *turned]


@cache
def reader(name: str) -> WordTokenizer | BPE:
    """The tokenizer of what is read; padding, start, end and unknown come first in all. Bytes: no merge is learned."""
    texts, _ = told("train")
    if name == "words":
        return WordTokenizer(texts)
    size = len(WORD_SPECIALS) + 256 if name == "bytes" else PIECES
    return BPE.train("\n".join(texts), size, WORD_SPECIALS)


@cache
def writer() -> WordTokenizer:
    """The French words."""
    return WordTokenizer(told("train")[1])


def learned(seed: int, name: str, noisy: bool) -> Transformer:
    """A model that reads dates so; noisy: three in four of them have one to three mistakes."""
    torch.manual_seed(seed)
    texts, targets = told("train")
    draw = random.Random(seed)
    if noisy:
        texts = [misspelt(text, draw.randrange(4), draw) for text in texts]
    reads, writes = reader(name), writer()
    model = Transformer(len(reads), len(writes), WIDTH, n_heads=4, n_layers=2, pre_norm=True)
    rows = [(reads.encode(text).tolist(), writes.encode(target).tolist())
            for text, target in zip(texts, targets, strict=True)]  # fmt: skip
    fit(model, batches(rows, BATCH, seed), translation_loss, steps=STEPS, lr=RATE,
        schedule=partial(cosine, warmup=50), device=CPU, progress=False)  # fmt: skip
    return model


def written(model: Transformer, name: str, texts: Sequence[str]) -> list[list[str]]:
    """What the model writes, in French words."""
    source = pad_sequence([reader(name).encode(text) for text in texts], batch_first=True, padding_value=PADDING)
    found = greedy(**model.decoding(source), max_len=8)
    return [writer().decode(tokens) for tokens in found.tokens]


def right(model: Transformer, name: str, n: int, seed: int) -> float:
    """The share of test dates with n mistakes that are written rightly."""
    texts, targets = told("test")
    draw = random.Random(f"{seed} {n}")
    return exact_match(written(model, name, [misspelt(text, n, draw) for text in texts]), targets)


@experiment([*each(reads=READERS, noisy=[False]), *each(reads=READERS[1:], noisy=[True])], cpus=HERE)
def spelling(seed, reads, noisy):
    """Dates written rightly by the number of wrong letters, taught without mistakes or with them; tokens of a date."""
    model = learned(seed, reads, noisy)
    texts, _ = told("test")
    return {
        "right": {n: right(model, reads, n, seed) for n in WRONG},
        "tokens": sum(len(reader(reads).encode(text)) for text in texts) / len(texts),
        "weights": sum(part.numel() for part in model.parameters()),
    }
