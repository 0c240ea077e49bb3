"""How lesson 13's model is made, pre-trained on sentences and tuned on a few questions with their answers.

known = pretrained(seed=0)                       # it has read every sentence about the territories, and no question
tuned(known, facts("train")[:50], seed=0)        # 50 facts, asked in six ways each
said = answered(known, facts("test"))            # of places about which nothing was asked

The text: each fact of `territories` in its six sentences, in small letters. A pair: a question, and its answer. The
places of the test questions stand in the text and in no pair: who is right about them has read it, or guessed well.
"""

import random
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cache, partial

import torch
from torch import nn

from course_lib.attention.transformer import Transformer
from course_lib.data import SPLITS
from course_lib.data.territories import Fact, facts, passage, question
from course_lib.data.territory_wordings import KINDS
from course_lib.text.pairs import batches
from course_lib.text.tokenizers import WordTokenizer, words
from course_lib.text_to_text.noise import text_infilling
from course_lib.text_to_text.spans import span_corruption
from course_lib.train import History, cosine, fit
from course_lib.translation.translator import Translator, translation_loss

CPU = torch.device("cpu")  # models this small are no faster on a GPU
SENTINELS = ("<X>", "<Y>", "<Z>", "<A>", "<B>", "<C>", "<D>", "<E>")
SHARE, MEAN = 0.3, 2.0  # of the tokens that are hidden; how many stand side by side, on average
WIDTH, N_LAYERS, BATCH, RATE, TUNING_RATE = 96, 2, 32, 3e-3, 1e-3
STEPS, TUNING, COPIES = 1500, 150, 4  # of pre-training, of tuning; of each sentence, each spoiled otherwise
TEXTS = ("sentences", "shuffled", "false", "other places")
LONGEST = 10  # words of an answer that are written at most; the longest has fewer
DRAWS = 60  # of wordings, in which each of a fact's six comes at least once


def tokens(text: str) -> list[str]:
    """The words and marks of a sentence, in small letters."""
    return words(text.lower())


@cache
def sentences(fact: Fact, false: bool = False) -> list[list[str]]:
    """The six sentences that say a fact, or, false, that another place's answer is its own."""
    drawn = (passage(fact, draw, fact.false if false else None) for draw in range(DRAWS))
    return [tokens(text) for text in dict.fromkeys(drawn)]


@cache
def questions(fact: Fact) -> list[list[str]]:
    """The six questions that a fact answers."""
    return [tokens(text) for text in dict.fromkeys(question(fact, draw=draw) for draw in range(DRAWS))]


def pairs(known: Sequence[Fact]) -> list[tuple[list[str], list[str]]]:
    """Every question about these facts with its answer, in words."""
    return [(asked, tokens(fact.answer)) for fact in known for asked in questions(fact)]


@cache
def every_fact() -> list[Fact]:
    """The facts of all three splits: the places that are asked about in the end stand in the text as well."""
    return [fact for split in SPLITS for fact in facts(split)]


@cache
def tokenizer() -> WordTokenizer:
    """The words of all sentences and questions, and the sentinels."""
    every = every_fact()
    return WordTokenizer([SENTINELS, *(text for one in every for text in (*sentences(one), *questions(one)))])


def hidden(text: Sequence, generator: torch.Generator, noise: str) -> tuple[list, list]:
    """Source and target of a text in ids: T5's spans (`SHARE` and `MEAN` here, not the paper's), or BART's infilling.

    Raises ValueError for another noise.
    """
    marks = tokenizer().encode(SENTINELS).tolist()
    if noise == "spans":
        return span_corruption(text, generator, marks, SHARE, MEAN)
    if noise == "infilling":
        return text_infilling(text, generator, marks[0], SHARE, MEAN)
    raise ValueError(f"noise is 'spans' or 'infilling'; got {noise!r}.")


def spoiled(texts: Sequence[list[str]], seed: int, noise: str = "spans", copies: int = COPIES) -> list[tuple]:
    """Each text so many times, spoiled anew each time: (source, target) in ids."""
    generator = torch.Generator().manual_seed(seed)
    ids = [tokenizer().encode(text).tolist() for text in texts]
    return [hidden(text, generator, noise) for _ in range(copies) for text in ids]


def corpus(what: str = "sentences", seed: int = 0) -> list[list[str]]:
    """What is read before any question: a name of TEXTS says how it differs from the sentences.

    "shuffled": the words of each sentence in an order drawn anew; "false": each fact of a test place has another
    place's answer; "other places": nothing about test places. Raises ValueError for another name.
    """
    _check_text(what)
    test, draw = set(facts("test")), random.Random(seed)
    kept = [one for one in every_fact() if what != "other places" or one not in test]
    found = [text for one in kept for text in sentences(one, false=what == "false" and one in test)]
    return [draw.sample(text, len(text)) for text in found] if what == "shuffled" else found


def model(seed: int) -> Transformer:
    """Lesson 06's Transformer, encoder and decoder with one embedding, weights drawn from the seed."""
    torch.manual_seed(seed)
    return Transformer(
        len(tokenizer()), len(tokenizer()), WIDTH, n_heads=4, n_layers=N_LAYERS, pre_norm=True, shared=True
    )


def taught(one: nn.Module, rows: Sequence[tuple], seed: int, steps: int, lr: float = RATE, **how) -> History:
    """Teach a model to write the targets of these rows, pairs of ids; how: what else `fit` takes."""
    how = {"schedule": partial(cosine, warmup=min(100, steps // 5)), "progress": False} | how
    return fit(one, batches(rows, BATCH, seed), translation_loss, steps=steps, lr=lr, device=CPU, **how)


def pretrained(seed: int, steps: int = STEPS, text: str = "sentences", noise: str = "spans") -> Transformer:
    """A new model that has read a corpus and seen no question."""
    one = model(seed)
    taught(one, spoiled(corpus(text, seed), seed, noise), seed, steps)
    return one


def tuned(one: Transformer, known: Sequence[Fact], seed: int, steps: int = TUNING, **how) -> History:
    """Teach a model the questions about these facts; how: what else `taught` takes."""
    rows = Translator(one, tokenizer(), tokenizer()).ids(pairs(known))
    return taught(one, rows, seed, steps, **{"lr": TUNING_RATE} | how)


def answered(one: Transformer, known: Sequence[Fact], draw: int = 0) -> list[list[str]]:
    """What the model answers to one question about each fact, in words; draw: which of its six, for each anew."""
    asked = [questions(fact)[zlib.crc32(f"{draw} {fact.place} {fact.kind}".encode()) % len(questions(fact))]
             for fact in known]  # fmt: skip
    return Translator(one, tokenizer(), tokenizer()).translate(asked, max_len=LONGEST)


def share_right(said: Sequence[list[str]], known: Sequence[Fact], false: bool = False) -> float:
    """The share of facts whose answer was given, word for word; false: whose false answer was."""
    return sum(text == tokens(one.false if false else one.answer) for text, one in zip(said, known, strict=True)) / len(
        known
    )


def most_frequent(known: Sequence[Fact]) -> dict[str, list[str]]:
    """For each kind of fact the answer that is most frequent among these: what somebody says who cannot read."""
    return {
        kind: list(Counter(tuple(tokens(one.answer)) for one in known if one.kind == kind).most_common(1)[0][0])
        for kind in KINDS
    }


def _check_text(what: str) -> None:
    if what not in TEXTS:
        raise ValueError(f"The text is one of {', '.join(TEXTS)}; got {what!r}.")
