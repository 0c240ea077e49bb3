"""How lesson 15's retriever is made and trained: books on shelves, described in sentences, moved as often as one likes.

world = World("train", seed=0)
model, history = taught(search_model(), batches(world), answer_loss)
recall_and_answers(model, "test")

Each name (a territory or a language, by Unicode's CLDR as the package `babel` ships it) has a book, and each book a
shelf, chosen at random: nothing that is known of Manipur helps to find its book. A question and a passage of one name
are worded apart, each by a random template, and share the name, written alike, and few other words.
"""

import hashlib
import random
import re
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.retrieval.learned_search import LearnedSearch, Reader, Retriever
from course_lib.retrieval.marginal import log_marginal
from course_lib.train import fit

CPU = torch.device("cpu")  # models this small are no faster on a GPU
PASSAGES = (  # {0} is the name, {1} the shelf
    "the book on {0} stands on shelf {1}",
    "shelf {1} holds the volume about {0}",
    "{0} was put on {1} last week",
    "who wants {0} goes to number {1}",
    "on {1} there is one thick volume : {0}",
    "{0} has its place in row {1}",
)
QUESTIONS = (
    "where do i find the book on {0}",
    "on which shelf is {0}",
    "i look for something about {0}",
    "please show me where {0} belongs",
    "has anybody seen the one called {0}",
    "tell me the number for {0}",
)
SHELVES = tuple(map(str, range(100, 200)))
STEM = 3  # letters: names that begin with the same ones lie on one side (Finland, Finnish; Manipur, Manipuri)
PARTS = {"test": 20, "validation": 35, "train": 100}  # below which of a hundred numbers a stem's own number lies
ROWS, PIECES = 4096, 14  # of the table of pieces, and the most pieces of a word
D_MODEL, WIDTH, BATCH, STEPS = 64, 64, 32, 200
# Tried with one seed each, by recall of validation names among 64 after 200 steps: rates of 0.005, 0.01, 0.02 (0.04,
# 0.95, 0.95). Before that, with other sentences, towers that take the plain mean of the words (0.1 after 400 steps), a
# reader that is a Transformer's block over question and passage, and one whose values are projected: both began with
# nothing, for what is not copied from the beginning does not tell the search which passage has helped.
RATE = 0.02


@cache
def names(language: str = "en") -> tuple[str, ...]:
    """Territories and languages by their names of one word, of four letters or more, in alphabetical order.

    Raises ModuleNotFoundError without babel, babel's UnknownLocaleError for a language that it does not know.
    """
    from babel import Locale

    known = Locale.parse(language)
    every = {*known.territories.values(), *known.languages.values()}
    return tuple(sorted(name for name in every if re.fullmatch(r"[^\W\d_]{4,}", name)))


def part_of(name: str) -> str:
    """Which part a name belongs to, by its stem: "train", "validation" or "test"."""
    number = int(hashlib.sha256(name.casefold()[:STEM].encode()).hexdigest(), 16) % 100
    return next(part for part, below in PARTS.items() if number < below)


def names_of(part: str, language: str = "en", most: int | None = None) -> list[str]:
    """The names of a part; of more than `most` those whose digests are smallest. Raises ValueError for no part."""
    if part not in PARTS:
        raise ValueError(f"A part is one of {', '.join(PARTS)}; got {part!r}.")
    found = [name for name in names(language) if part_of(name) == part]
    return sorted(found, key=lambda name: hashlib.sha256(name.encode()).hexdigest())[:most]


def misspelt(name: str) -> str:
    """A name with one letter left out, neither the first nor the last, always the same one: Greece, Grece."""
    place = 1 + int(hashlib.sha256(f"{name} misspelt".encode()).hexdigest(), 16) % (len(name) - 2)
    return name[:place] + name[place + 1 :]


def pieces(word: str) -> list[str]:
    """A word as a whole and in threes of letters, with its borders: <owl>, <ow, owl, wl>."""
    bordered = f"<{word.casefold()}>"
    return [bordered, *(bordered[i : i + 3] for i in range(len(bordered) - 2))]


class Vocabulary(NamedTuple):
    """Every word that sentences are made of: its number, and the rows of the table that spell it (words, PIECES)."""

    number: dict[str, int]
    spelling: Tensor

    def batch(self, sentences: list[str]) -> Tensor:
        """Sentences in words, padded with 0: int64 (N, T)."""
        return torch.tensor([
            [self.number[word] for word in sentence.split()] + [0] * (longest() - len(sentence.split()))
            for sentence in sentences
        ])  # fmt: skip


@cache
def vocabulary(language: str = "en") -> Vocabulary:
    """The words of templates, shelves, names and `misspelt` names. A piece's row is a checksum: two may share one."""
    words = dict.fromkeys(word for text in (*PASSAGES, *QUESTIONS) for word in text.split() if "{" not in word)
    every = [*dict.fromkeys([*words, *SHELVES, *names(language), *map(misspelt, names(language))])]
    rows = [[1 + zlib.crc32(piece.encode()) % (ROWS - 1) for piece in pieces(word)][:PIECES] for word in every]
    spelling = torch.tensor([[0] * PIECES, *(row + [0] * (PIECES - len(row)) for row in rows)])
    return Vocabulary({word: place for place, word in enumerate(every, start=1)}, spelling)


@cache
def longest() -> int:
    """The most words of a sentence."""
    return max(len(text.split()) for text in (*PASSAGES, *QUESTIONS))


class Batch(NamedTuple):
    """Questions (B, T), the memory's passages (N, T), the answers (B,), and where each one's passage is (B,)."""

    questions: Tensor
    passages: Tensor
    answers: Tensor
    right: Tensor


class World:
    """Books and their shelves, as they are now, and sentences about them.

    change: the share of the books that are moved in a step, 1 for all, 0 for none ever. most: no more names than so
    many. Passages and questions are worded anew whenever they are asked for. seed: of every draw.
    """

    def __init__(self, part: str, seed: int, change: float = 1.0, language: str = "en", most: int | None = None):
        self.names, self.language, self.change = names_of(part, language, most), language, change
        self.draw = random.Random(f"{part} {seed}")
        self.shelf = {name: self.draw.choice(SHELVES) for name in self.names}

    def move(self) -> None:
        """One step of the world: each book is moved, or not."""
        for name in self.names:
            if self.change >= 1 or self.draw.random() < self.change:
                self.shelf[name] = self.draw.choice(SHELVES)

    def passages(self, about: list[str]) -> list[str]:
        """A sentence that says where each of these books stands."""
        return [self.draw.choice(PASSAGES).format(name, self.shelf[name]) for name in about]

    def questions(self, about: list[str]) -> list[str]:
        """A question for each of these books, or names that are written otherwise."""
        return [self.draw.choice(QUESTIONS).format(name) for name in about]

    def batch(
        self, n_passages: int | None = BATCH, n_questions: int = BATCH, spell: Callable[[str], str] = str
    ) -> Batch:
        """A memory of so many of its books, sampled, or of all where None, in the order of names; questions on some.

        spell: how a question writes a name: as it is, or `misspelt`.
        """
        memory = self.names if n_passages is None else self.draw.sample(self.names, n_passages)
        right = self.draw.sample(range(len(memory)), n_questions)
        asked, known = [memory[place] for place in right], vocabulary(self.language)
        return Batch(
            known.batch(self.questions([spell(name) for name in asked])),
            known.batch(self.passages(memory)),
            torch.tensor([SHELVES.index(self.shelf[name]) for name in asked]),
            torch.tensor(right),
        )


def batches(world: World, n_passages: int | None = BATCH, n_questions: int = BATCH) -> Iterator[Batch]:
    """Endless batches of a world that goes on: before each, books are moved."""
    while True:
        world.move()
        yield world.batch(n_passages, n_questions)


def search_model(language: str = "en") -> LearnedSearch:
    """A retriever and a reader of this lesson's size, untrained."""
    words = vocabulary(language)
    answers = torch.tensor([words.number[shelf] for shelf in SHELVES])
    return LearnedSearch(
        Retriever(words.spelling, ROWS, D_MODEL, WIDTH), Reader(words.spelling, ROWS, D_MODEL, answers, longest())
    )


def answer_loss(model: LearnedSearch, batch: Batch, k: int | None = None, index=None, cut: bool = False) -> Tensor:
    """-log p(answer | question), the mean over the questions: all the supervision that there is.

    k and index: as the model takes them; index may be a `KeptIndex`. cut: no gradient reaches the retriever.
    """
    kept = None if index is None else index(model, batch.passages)
    log_z, log_y, _ = model(batch.questions, batch.passages, k, kept)
    return F.nll_loss(log_marginal(log_z.detach() if cut else log_z, log_y), batch.answers)


def pair_loss(model: LearnedSearch, batch: Batch) -> Tensor:
    """-log p(z | x) of the correct passage, which somebody has labelled (Karpukhin et al., 2020, section 3.2)."""
    return F.cross_entropy(model.retriever(batch.questions, batch.passages), batch.right)


def adamw(model: nn.Module) -> torch.optim.AdamW:
    """The optimiser: AdamW without decay."""
    return torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.0, fused=True)


def warmed(step: int, steps: int, warmup: int = 20) -> float:
    """The rate of a step by RATE: up within twenty steps, then down to a twentieth in a straight line."""
    return min(1.0, (step + 1) / warmup) * max(0.05, 1 - step / steps)


def taught(model: LearnedSearch, stream: Iterator[Batch], loss=answer_loss, steps: int = STEPS, **how):
    """The model, taught for so many steps, and its `History`; how: what else `fit` takes."""
    how = {"lr": RATE, "optimiser": adamw, "schedule": warmed} | how
    return model, fit(model, stream, loss, steps=steps, device=CPU, progress=False, **how)


@torch.no_grad()
def recall_and_answers(
    model: LearnedSearch,
    world: World,
    n_passages: int = 64,
    times: int = 10,
    k: int | None = None,
    spell: Callable[[str], str] = str,
) -> tuple[float, float]:
    """How often the correct passage is first, and the answer correct, in memories of so many of the world's names."""
    first = answered = total = 0
    for _ in range(times):
        n = min(n_passages, len(world.names))
        batch = world.batch(n, n, spell)
        log_z, log_y, chosen = model(batch.questions, batch.passages, k)
        first += int((chosen[:, 0] == batch.right).sum())
        answered += int((log_marginal(log_z, log_y).argmax(dim=1) == batch.answers).sum())
        total += n
    return first / total, answered / total
