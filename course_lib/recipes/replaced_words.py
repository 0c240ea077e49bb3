"""The stored discriminator of lesson 16: which tokens of a text were replaced by frequent ones?"""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from course_lib.bert.masked_words import mask_tokens
from course_lib.bert.replaced_words import Discriminator, Replaced, replace, replaced_loss
from course_lib.recipes.smaller_bert import BATCH, HEADS, RATE, ROW, WIDTH, lean, pieces, rows, taught, text, worth
from course_lib.train import History


@cache
def frequency() -> Tensor:
    """p(token) in the training plays, specials never: (V,)."""
    n = torch.bincount(text("train"), minlength=len(pieces())).float() + 1
    n[list(pieces().specials.values())] = 0
    return n / n.sum()


def exchanged(ids: Tensor, generator: torch.Generator) -> Replaced:
    """Rows (B, T) in which 15 % of the tokens are replaced by others, sampled by their frequency in the plays."""
    _, chosen = mask_tokens(ids, pieces(), generator)
    n = int(chosen.sum())
    return replace(ids, chosen, torch.multinomial(frequency(), n, replacement=True, generator=generator))


@torch.no_grad()
def found(model: Discriminator, split: str) -> dict[str, float]:
    """Of the replaced tokens of a split the share that is found; of the others, the share that is called replaced."""
    ids = text(split)[: 600 * ROW].view(-1, ROW)
    some = exchanged(ids, torch.Generator().manual_seed(1))
    said = model(some.ids) > 0
    share = lambda which: ((said & which).sum() / which.sum()).item()  # noqa: E731
    return {"found": share(some.replaced), "false alarms": share(~some.replaced)}


@dataclass(frozen=True)
class DiscriminatorRecipe:
    """How the stored discriminator is made: as the recorded ones, for longer, of a seed that no record holds.

    `about`: what it is, for the card. `half`: stored in half precision.
    """

    about: str
    n_layers: int = 2
    lr: float = RATE
    steps: int = 4_000
    batch: int = BATCH
    seed: int = 5
    half: bool = True

    MEASURED: ClassVar = {"test_found", "test_false_alarms", "test_marks"}

    @property
    def sizes(self) -> tuple[int, ...]:
        """Width, heads and number of layers."""
        return WIDTH, HEADS, self.n_layers

    def model(self) -> Discriminator:
        """A new model with random weights."""
        return Discriminator(lean(self.seed, self.n_layers))

    def model_of(self, record: dict) -> Discriminator:
        """A new model of the size that a record tells: there is one size."""
        return self.model()

    def train(self, steps: int, **how) -> tuple[Discriminator, History, dict]:
        """Train a new model for so many of its steps -> the model, its history, and what was measured.

        The history's looks are [step, share of replaced tokens of validation plays that is found]. how: for `fit`.
        """
        model, draws = self.model(), torch.Generator().manual_seed(1 + self.seed)
        batches = (exchanged(ids, draws) for ids in rows(self.seed))
        history = taught(model, batches, replaced_loss, steps, self.lr, self.steps, watch_every=500,
                         watch=lambda step: [step, round(found(model, "validation")["found"], 4)], **how)  # fmt: skip
        test = found(model, "test")
        return model, history, {"test_found": test["found"], "test_false_alarms": test["false alarms"],
                                "test_marks": worth(model.bert, self.seed)["places"]}  # fmt: skip

    def result(self, record: dict) -> str:
        """What a record says that the model is worth."""
        return (f"finds {record['test_found']:.0%} of the exchanged pieces of the test plays, and calls "
                f"{record['test_false_alarms']:.1%} of the others exchanged")  # fmt: skip

    def batches_in_words(self) -> str:
        """What it reads in a step."""
        return f"{self.batch} × {ROW} pieces of words"


SPOTTERS_OF_WORDS = {
    "plays_spotter": DiscriminatorRecipe("Discriminator of two blocks, 64 wide, rotary places (ELECTRA's second half)"),
}
