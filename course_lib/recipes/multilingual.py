"""How lesson 14's models are made: two languages, one encoder, masked words; and how to measure what they share.

one = learned(seed=0)              # it has read English and fake English: other sentences, no word in common
found = twins(one)                 # for 200 test sentences: is the nearest one of the other language the same?

English: sentences of the plays with their marks, at most 16 words and marks, of 499 frequent ones and one that stands
for all rarer ones. Fake English is English with every word's number moved (K et al., 2020): it has English
grammar, and no word of it.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention.block import Block
from course_lib.bert.bert import BertConfig
from course_lib.bert.xlm import XLM, sentence_vectors, twins_found
from course_lib.data import plays
from course_lib.language.muon import Muon, split
from course_lib.text.tokenizers import WordTokenizer
from course_lib.train import History, cosine, fit

CPU = torch.device("cpu")  # models this small are no faster on a GPU
WORDS, SHORTEST, LONGEST, TESTS = 500, 4, 16, 200
RARE = 2  # words of a sentence that is read may be rare ones, at most; none of a sentence that is judged
PAD, MASK, START, SEP = range(4)  # the same in all languages
SPECIALS = 4
WIDTH, N_HEADS, N_LAYERS, MAX_LEN = 64, 4, 2, 40
BATCH, STEPS, RATE, SHARE = 64, 2400, 0.02, 0.3
MIDDLE = 1  # the layer whose states are compared: of 0, 1 and 2 the best on validation sentences, under one seed
ORDERS = ("as it is", "shuffled", "reversed")
Sentence = tuple[int, ...]


class Batch(NamedTuple):
    """Rows with masked words: ids, languages (B, T), mask bool (B, T); places (N,) in B * T, answers (N,)."""

    ids: Tensor
    languages: Tensor
    mask: Tensor
    places: Tensor
    answers: Tensor


@cache
def sentences(split: str) -> list[list[str]]:
    """Sentences of the plays in words and marks, each once, in a mixed order; what is rare is "<unk>"."""
    words, rare = tokenizer(), RARE if split == "train" else 0
    kept = {}
    for one in _cut(split):
        unknown = sum(word not in vocabulary() for word in one)
        if SHORTEST <= len(one) <= LONGEST and unknown <= rare:
            kept[tuple(word if word in vocabulary() else words.vocab[words.unknown] for word in one)] = None
    found = [list(one) for one in kept]
    random.Random(0).shuffle(found)
    return found


@cache
def vocabulary() -> frozenset[str]:
    """The words and marks that are most frequent in sentences of the training part; with the rare one, WORDS."""
    counts = Counter(word for one in _cut("train") if SHORTEST <= len(one) <= LONGEST for word in one)
    return frozenset(word for word, _ in counts.most_common(WORDS - 1))


@cache
def _cut(split: str) -> list[list[str]]:
    found = []
    for row in plays.rows(split):
        if row.speaker:
            spoken = re.sub(r"\[[^\]]*\]", " ", row.text).lower()  # no directions
            parts = re.split(r"(?<=[.!?;:])\s|--", spoken)
            found += [re.findall(r"[a-z]+(?:['’][a-z]+)*|[.,;:!?]", part) for part in parts]
    return found


@cache
def tokenizer() -> WordTokenizer:
    """The frequent words and marks, each with a number."""
    return WordTokenizer([sorted(vocabulary())])


@cache
def numbers(split: str) -> list[Sentence]:
    """The sentences as numbers of words: 0 is the rare word, and the others follow."""
    first = len(tokenizer()) - WORDS + 1
    return [tuple(max(0, i - first + 1) for i in tokenizer().encode(one).tolist()) for one in sentences(split)]


def in_words(one: Sentence) -> list[str]:
    """The words of a sentence of `numbers`."""
    words = tokenizer()
    return [words.vocab[len(words) - WORDS + word] if word else words.vocab[words.unknown] for word in one]


def in_language(one: Sentence, language: int) -> Sentence:
    """The ids of a sentence: word w is SPECIALS + w in English (0), and WORDS further in each language after it."""
    return tuple(SPECIALS + language * WORDS + word for word in one)


def ordered(one: Sentence, order: str, draw: random.Random) -> Sentence:
    """The words of a sentence as they are, in a new random order, or reversed; ValueError for another order."""
    _check_name("order", order, ORDERS)
    if order == "shuffled":
        return tuple(draw.sample(one, len(one)))
    return one[::-1] if order == "reversed" else one


def halves(seed: int) -> list[list[Sentence]]:
    """The sentences of the training part in two parts of equal size, none in both, sampled by the seed."""
    every = random.Random(seed).sample(numbers("train"), len(numbers("train")))
    return [every[: len(every) // 2], every[len(every) // 2 : 2 * (len(every) // 2)]]


def texts(seed: int, order: str = "as it is", same: bool = False) -> list[list[Sentence]]:
    """What English and fake English read, as ids: a half each; order: of fake English. same: both read one half."""
    draw, (here, there) = random.Random(seed), halves(seed)
    fake = [ordered(one, order, draw) for one in (here if same else there)]
    return [[in_language(one, n) for one in part] for n, part in enumerate((here, fake))]


def rows(some: Sequence[Sentence], language: int) -> tuple[Tensor, Tensor, Tensor]:
    """start words sep for each sentence, padded: ids, languages (B, T), mask bool (B, T)."""
    T = max(map(len, some)) + 2
    ids = torch.tensor([[START, *one, SEP] + [PAD] * (T - 2 - len(one)) for one in some])
    return ids, torch.full_like(ids, language), ids != PAD


def hidden(ids: Tensor, languages: Tensor, mask: Tensor, generator: torch.Generator, block: int = WORDS) -> Batch:
    """Rows with SHARE of the words masked, 80 in 100 as [MASK], 10 as another word of their language, 10 as they are.

    block: the words of a language lie side by side, so many each, so that another one of it is sampled as a number.
    """
    drawn = torch.rand(3, *ids.shape, generator=generator)
    chosen = (drawn[0] < SHARE) & (ids >= SPECIALS)
    first = SPECIALS + (ids - SPECIALS) // block * block
    other = first + (drawn[2] * block).long().clamp(max=block - 1)
    read = torch.where(chosen & (drawn[1] < 0.9), other, ids)
    read = torch.where(chosen & (drawn[1] < 0.8), MASK, read)
    return Batch(read, languages, mask, chosen.flatten().nonzero()[:, 0], ids[chosen])


def batches(
    languages: Sequence[Sequence[Sentence]], seed: int, batch: int = BATCH, block: int = WORDS
) -> Iterator[Batch]:
    """Endless batches, as many sentences of each language, each row in one language alone."""
    generator, draw = torch.Generator().manual_seed(seed), random.Random(seed)
    each = batch // len(languages)
    while True:
        some = [(one, n) for n, texts in enumerate(languages) for one in draw.choices(texts, k=each)]
        ids, _, mask = rows([one for one, _ in some], 0)
        which = torch.tensor([n for _, n in some])[:, None].expand_as(ids)
        yield hidden(ids, which, mask, generator, block)


def loss(model: XLM, batch: Batch) -> Tensor:
    """Nats per masked word, mean -log p(answer)."""
    states = model(batch.ids, batch.languages, batch.mask).flatten(0, 1)[batch.places]  # (N, D)
    return F.cross_entropy(model.read_out(states), batch.answers)


class PlacesApart(XLM):
    """The control: the second language has positions of its own, which the first never uses."""

    def places_of(self, languages: Tensor) -> Tensor:
        return super().places_of(languages) + languages * (self.max_len // 2)


class NoPlaces(XLM):
    """The control: every token gets the same position, so that a sentence is a bag of words."""

    def places_of(self, languages: Tensor) -> Tensor:
        return torch.zeros_like(languages)


KINDS = {"one table": XLM, "apart": PlacesApart, "none": NoPlaces}


def model(
    seed: int, n_words: int = 2 * WORDS, places: str = "one table", tell: bool = False, n_languages: int = 2
) -> XLM:
    """A new encoder with random weights, by the seed; places: one table for all, each language's apart, or none."""
    _check_name("places", places, KINDS)
    torch.manual_seed(seed)
    config = BertConfig(
        SPECIALS + n_words, MAX_LEN, WIDTH, N_HEADS, N_LAYERS, 0.0, n_segments=n_languages, pooler=False
    )
    one = KINDS[places](config, tell)
    # Blocks begin as in lesson 06: from Google's smaller weights a model this small stays long at word frequencies.
    one.blocks = nn.ModuleList(Block.from_sizes(WIDTH, N_HEADS, activation=F.gelu) for _ in range(N_LAYERS))
    return one


def learned(
    seed: int,
    languages: Sequence[Sequence[Sentence]] | None = None,
    steps: int = STEPS,
    places: str = "one table",
    tell: bool = False,
    **how,
) -> XLM:
    """A model that has filled in masked words of these languages, English and fake English where None."""
    one = model(seed, places=places, tell=tell)
    taught(one, batches(texts(seed) if languages is None else languages, seed), steps, **how)
    return one


def taught(one: XLM, data: Iterator[Batch], steps: int, lr: float = RATE, **how) -> History:
    """Fill in masked words for so many steps; how: what else `fit` takes."""
    how = {"schedule": warmed, "optimiser": muon, "device": CPU, "progress": False} | how
    return fit(one, data, loss, steps=steps, lr=lr, **how)


def muon(one: XLM) -> Muon:
    """Muon for the matrices of the blocks, AdamW for the rest; three rounds, as in lesson 07."""
    return Muon(split(one), rounds=3)


def warmed(step: int, steps: int) -> float:
    """`cosine` behind a rise over the first twentieth of the steps."""
    return cosine(step, steps, steps // 20)


def judged(split: str = "test") -> list[Sentence]:
    """The TESTS sentences, of plays that nobody has read, by which everything is judged."""
    return numbers(split)[:TESTS]


@torch.no_grad()
def vectors(one: XLM, some: Sequence[Sentence], language: int, layer: int = MIDDLE) -> Tensor:
    """Sentences in a language, as ids -> the mean of each one's states (S, D)."""
    return sentence_vectors(one, *rows(some, language), layer)


def twins(one: XLM, order: str = "as it is", layer: int = MIDDLE, split: str = "test") -> Tensor:
    """Of each judged sentence: is the nearest one of fake English the same sentence? bool (TESTS,)"""
    draw = random.Random(0)
    here, there = (
        vectors(one, [in_language(ordered(some, how, draw), n) for some in judged(split)], n, layer)
        for n, how in enumerate(("as it is", order))
    )
    return twins_found(here, there)


@torch.no_grad()
def word_twins(one: XLM) -> Tensor:
    """Of each word: is the nearest of fake English's in the table of tokens the same word? bool (WORDS,)"""
    table = one.tokens.weight[SPECIALS:]
    return twins_found(table[:WORDS], table[WORDS : 2 * WORDS])


def read_out(seen: Tensor, labels: Tensor, new: Tensor) -> Tensor:
    """Scores of classes for new vectors (N, D), by a linear layer taught on seen ones (S, D), labels (S, K) -> (N, K).

    Ridge regression: least squares with a little weight decay. Each side's own mean is taken off, as for twins: it says
    which language it is.
    """
    size = seen.std(dim=0).clamp(min=1e-6)
    known, asked = ((part - part.mean(dim=0)) / size for part in (seen, new))
    decay = 3.0 * torch.eye(seen.shape[1])
    goal = torch.cat([labels - labels.mean(dim=0), torch.zeros(seen.shape[1], labels.shape[1])])
    return asked @ torch.linalg.lstsq(torch.cat([known, decay]), goal).solution + labels.mean(dim=0)


@dataclass(frozen=True)
class LanguagesRecipe:
    """How the stored model is made: `learned`, of a seed that no record holds, so that a lesson can ask it.

    `about`: what it is, for the card. `half`: stored in half precision.
    """

    about: str
    lr: float = RATE
    steps: int = STEPS
    batch: int = BATCH
    seed: int = 5
    half: bool = True

    MEASURED: ClassVar = {"twins"}  # what a record holds besides what every record does

    @property
    def sizes(self) -> tuple[int, int]:
        """Width, and number of layers."""
        return WIDTH, N_LAYERS

    def model(self) -> XLM:
        """A new model with random weights."""
        return model(self.seed)

    def model_of(self, record: dict) -> XLM:
        """A new model of the size that a record tells: there is one size."""
        return self.model()

    def train(self, steps: int, **how) -> tuple[XLM, History, dict]:
        """Train a new model for so many of its steps -> the model, its history, and the share of twins found.

        The history's records are [step, share of twins of validation sentences found]. how: for `fit`.
        """
        one = self.model()

        def look(step: int) -> list:
            return [step, round(float(twins(one, split="validation").double().mean()), 4)]

        data = batches(texts(self.seed), self.seed, self.batch)
        history = taught(one, data, steps, self.lr, watch=look, watch_every=400, **how)
        return one, history, {"twins": round(float(twins(one).double().mean()), 4)}

    def result(self, record: dict) -> str:
        """What a record says that the model is worth."""
        return f"{record['twins']:.1%} of the test sentences find their twin"

    def batches_in_words(self) -> str:
        """What it reads in a step."""
        return f"{self.batch} sentences, half of each language"


LANGUAGES = {"two_languages": LanguagesRecipe("An encoder that has filled gaps in English and in fake English")}


def _check_name(what: str, name: str, known: Sequence[str] | dict[str, Callable]) -> None:
    if name not in known:
        raise ValueError(f"The {what} is one of {', '.join(known)}; got {name!r}.")
