"""Lesson 16's models: small BERTs that learn within a minute, and how what they know of sentences is measured.

Each reads the plays in 2,000 subwords and has rotary positions (lesson 05): with positions learned as in lesson 08, a
model of this size knows for minutes only how frequent each subword is. All are measured alike: fine-tuned on 1,000
speeches that have their punctuation, and asked for that of test speeches. (The plays that they are pre-trained on have
punctuation, too; `experiments.smaller_bert_controls.no_marks_seen` takes them out.)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.bert.bert_heads import Tagger
from course_lib.bert.bert_labels import IGNORED, first_pieces, label_loss
from course_lib.bert.lean_bert import LeanBert, LeanBertConfig, LeanWords
from course_lib.bert.masked_words import mask_tokens
from course_lib.bert.pretraining import play_pieces
from course_lib.data import plays, punctuation
from course_lib.inputs.sequences import reading
from course_lib.text.wordpiece import WordPiece
from course_lib.train import History, cosine, fit

CPU = torch.device("cpu")  # models this small are no faster on a GPU
WIDTH, HEADS, LAYERS = 64, 4, 4
BATCH, ROW = 64, 24  # rows of a step, pieces of a row
RATE, WARMUP = 4e-3, 100
# What was tried before, one seed each, 45 to 60 s: places learned, as biases (T5's, ALiBi's) or by turning; norms
# before the parts or behind; 64, 96 and 128 wide; AdamW at 2e-3 to 8e-3 and Muon. Speeches: rates 3e-4 and 1e-3.
LABELLED, TUNING, TUNING_RATE = 1_000, 200, 2e-3  # speeches with marks, steps and rate of learning them
ASKED = 800  # test speeches
LIKELY = 0.3  # a mark is set where one is likelier than this: of 0.2 to 0.5 the best F1 on validation speeches


@cache
def pieces() -> WordPiece:
    """The tokenizer of 2,000 subwords, lesson 08's."""
    return play_pieces(plays.text("train"))


@cache
def text(split: str) -> Tensor:
    """The plays of a split in subwords: (N,)."""
    return pieces().encode(plays.text(split))


def lean(seed: int, n_layers: int = LAYERS, n_groups: int | None = None, width: int = WIDTH) -> LeanBert:
    """A small BERT, untrained; n_groups: how many blocks it has, as many as layers where None."""
    torch.manual_seed(seed)
    return LeanBert(
        LeanBertConfig(
            len(pieces()), 128, width, HEADS, n_layers, width, n_groups or n_layers, activation="gelu",
            n_segments=0, pooler=False, rotary=True,
        )
    )  # fmt: skip


def rows(seed: int, batch: int = BATCH, length: int = ROW) -> Iterator[Tensor]:
    """Endless stretches of the training plays, int64 (batch, length), from anywhere."""
    generator, ids = torch.Generator().manual_seed(seed), text("train")
    while True:
        yield ids[torch.randint(len(ids) - length, (batch, 1), generator=generator) + torch.arange(length)]


def masked_rows(seed: int, batch: int = BATCH, length: int = ROW, **how) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Endless (what is read (B, T), which positions are asked (N,), the answers (N,)); how: for `mask_tokens`."""
    generator = torch.Generator().manual_seed(1 + seed)
    for some in rows(seed, batch, length):
        read, chosen = mask_tokens(some, pieces(), generator, **how)
        yield read, chosen.flatten().nonzero()[:, 0], some[chosen]


def words_loss(model: LeanWords, batch: tuple) -> Tensor:
    """Nats per masked subword."""
    read, places, answers = batch
    return F.cross_entropy(model(read, places=places), answers)


def taught(model: nn.Module, batches, loss, steps: int, rate: float = RATE, whole: int | None = None, **how) -> History:
    """Train in place with AdamW: the rate rises for 100 steps and falls along a cosine. whole: of how many steps."""
    schedule = lambda step, all_steps: cosine(step, whole or all_steps, WARMUP)  # noqa: E731
    return fit(model, batches, loss, steps=steps, lr=rate, schedule=schedule, weight_decay=0.01,
               **{"device": CPU, "progress": False, **how})  # fmt: skip


@cache
def blanks(split: str, n: int = 600) -> tuple[Tensor, Tensor, Tensor]:
    """n rows of a split with [MASK] for 15 % of the subwords: what is read, positions, answers; the same for all."""
    ids = text(split)
    some = ids.unfold(0, ROW, max(ROW, len(ids) // n))[:n]
    read, chosen = mask_tokens(some, pieces(), torch.Generator().manual_seed(1), kinds=(1.0, 0.0, 0.0))
    return read, chosen.flatten().nonzero()[:, 0], some[chosen]


@torch.no_grad()
def bits(model: LeanWords, split: str = "test") -> float:
    """-log2 p of a masked subword of a split, the mean."""
    read, places, answers = blanks(split)
    with reading(model):
        return F.cross_entropy(model(read, places=places), answers).item() / torch.tensor(2.0).log().item()


# --- marks: the measure that every model is put to


def marked_batch(some: list[punctuation.Row]) -> tuple[Tensor, None, Tensor, Tensor]:
    """Speeches as a `Tagger` reads them: ids (B, T), no segments, mask, labels (B, T); what ends a speech is not asked.

    The punctuation is asked at the first subword of the word that it follows.
    """
    read = pieces().batch([row.words for row in some])
    labels = [[punctuation.MARKS.index(mark) for mark in row.marks[:-1]] + [IGNORED] for row in some]
    return read.ids, None, read.mask, first_pieces(read.words, labels)


@cache
def asked(split: str) -> list[punctuation.Row]:
    """Speeches of a split, sampled once from all of it, short ones first."""
    found = punctuation.rows(split)
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(0))[:ASKED].tolist()
    return sorted((found[i] for i in order), key=lambda row: len(row.words))


def f1(said: Tensor, meant: Tensor) -> float:
    """2 correct / (said + meant), of punctuation: int64 (n,) each, 0 for no mark. 0 where nothing is said and meant."""
    right = ((said == meant) & (meant > 0)).sum().item()
    return 2 * right / max(1, (said > 0).sum().item() + (meant > 0).sum().item())


def marks_said(p: Tensor) -> Tensor:
    """Which mark is set, (n,), 0 for none, by the probabilities of none and of each mark, (n, marks): the likeliest."""
    return torch.where(1 - p[:, 0] > LIKELY, p[:, 1:].argmax(dim=-1) + 1, 0)


@torch.no_grad()
def marks_found(model: nn.Module, split: str = "test") -> dict[str, float]:
    """F1 over all marks of a split's speeches: "places", that one is there at all, and "marks", that it is this."""
    said, meant, some = [], [], asked(split)
    with reading(model):
        for at in range(0, len(some), 64):
            ids, _, mask, labels = marked_batch(some[at : at + 64])
            found = model(ids, None, mask)[labels != IGNORED]  # (n, marks)
            said.append(marks_said(found.softmax(dim=-1)))
            meant.append(labels[labels != IGNORED])
    said, meant = torch.cat(said), torch.cat(meant)
    return {"places": f1((said > 0).long(), (meant > 0).long()), "marks": f1(said, meant)}


def labelled_batches(seed: int, n: int = LABELLED, batch: int = 16) -> Iterator[tuple]:
    """Endless batches of n training speeches with their punctuation, sampled anew for each seed."""
    generator, found = torch.Generator().manual_seed(1000 + seed), punctuation.rows("train")
    some = [found[i] for i in torch.randperm(len(found), generator=generator)[:n].tolist()]
    while True:
        yield marked_batch([some[i] for i in torch.randint(n, (batch,), generator=generator).tolist()])


def marker(bert: LeanBert, seed: int, steps: int = TUNING) -> Tagger:
    """A copy of the model, fine-tuned to punctuate, on the labelled speeches of this seed."""
    twin = LeanBert(bert.config)
    twin.load_state_dict(bert.state_dict())
    torch.manual_seed(seed)
    head = Tagger(twin, len(punctuation.MARKS), dropout=0.0)
    fit(head, labelled_batches(seed), label_loss, steps=steps, lr=TUNING_RATE,
        schedule=partial(cosine, warmup=15), device=CPU, progress=False)  # fmt: skip
    return head


def worth(bert: LeanBert, seed: int) -> dict[str, float]:
    """What a pre-trained model is worth: F1 of the marks of test speeches, after fine-tuning."""
    return marks_found(marker(bert, seed))


@dataclass(frozen=True)
class LeanRecipe:
    """How a stored small BERT is made: as the recorded ones, wider and for longer, of a seed that no record holds.

    `about`: what it is, for the card. `half`: stored in half precision.
    """

    about: str
    width: int = 128
    n_layers: int = LAYERS
    lr: float = RATE / 2
    steps: int = 6_000
    batch: int = 48
    row: int = 32
    seed: int = 5
    half: bool = True

    MEASURED: ClassVar = {"test_bits", "test_marks"}  # what a record holds besides what every record does

    @property
    def sizes(self) -> tuple[int, ...]:
        """Width and number of layers."""
        return self.width, self.n_layers

    def model(self) -> LeanWords:
        """A new model with random weights."""
        return LeanWords(lean(self.seed, self.n_layers, width=self.width))

    def model_of(self, record: dict) -> LeanWords:
        """A new model of the size that a record tells: there is one size."""
        return self.model()

    def train(self, steps: int, **how) -> tuple[LeanWords, History, dict]:
        """Train a new model for so many of its steps -> the model, its history, and what was measured.

        The history's looks are [step, bits of a masked subword of validation plays]. how: for `fit`.
        """
        model = self.model()
        batches = masked_rows(self.seed, self.batch, self.row)
        history = taught(model, batches, words_loss, steps, self.lr, self.steps, watch_every=500,
                         watch=lambda step: [step, round(bits(model, "validation"), 4)], **how)  # fmt: skip
        found = {"test_bits": bits(model), "test_marks": worth(model.bert, self.seed)["places"]}
        return model, history, found

    def result(self, record: dict) -> str:
        """What a record says that the model is worth."""
        return (f"{record['test_bits']:.2f} bits per masked piece of the test plays; F1 of the places of marks "
                f"{record['test_marks']:.2f} after fine-tuning")  # fmt: skip

    def batches_in_words(self) -> str:
        """What it reads in a step."""
        return f"{self.batch} × {self.row} pieces of words"


TEACHERS = {
    "plays_teacher": LeanRecipe("BERT of four blocks, 128 wide, rotary places, reading 2,000 pieces (WordPiece)"),
}
