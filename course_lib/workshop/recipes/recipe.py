"""A `Recipe` says how one stored model is built, trained and described; `stored` keeps and loads what it makes."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from course_lib.train import History


@dataclass(frozen=True)
class Recipe:
    """One stored model: `load(plays.GPT)` of `stored` gives it trained, with its record.

    name: of its file in data/checkpoints. about: what it is. worth: what its record says that it is worth, such as
    "{test_bits:.3f} bits per character". reads: what a step of training reads, such as "{} images", for `batch` and
    `length`. build() makes a new model with weights drawn at random, and build(vocab_size) one that reads text.
    train(recipe, steps, **how) trains a new model for so many of its `steps` -> the model, its `History`, whose looks
    are [step, what validation data say], and what was measured, which `holds` names; how: what else `fit` takes.
    look: steps between two looks. half: stored in half precision.
    """

    name: str
    about: str
    build: Callable[..., nn.Module]
    train: Callable[..., tuple[nn.Module, History, dict]]
    worth: str
    holds: tuple[str, ...]
    reads: str
    lr: float
    steps: int
    batch: int
    look: int
    length: int = 1
    seed: int = 0
    half: bool = True

    @property
    def file(self) -> str:
        """Where its model lies, below the checkout: what an experiment names that reads it."""
        return f"data/checkpoints/{self.name}.safetensors"
