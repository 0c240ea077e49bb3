"""The stored models that see Fashion-MNIST: how each is made, trained and measured. `stored` keeps them. Lesson 09."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from course_lib.data import fashion
from course_lib.language.next_token import three_rounds
from course_lib.train import History, cosine, fit, pick_device
from course_lib.vision.convnet import ConvNet
from course_lib.vision.images import accuracy, image_loss, varied_batches
from course_lib.vision.vit import ViT, ViTConfig


@dataclass(frozen=True)
class ImageRecipe:
    """How one model is made: its `reader` with its `sizes`, and the run that trains it on Fashion-MNIST (or `images`).

    `about`: what it is, for the card. `config`, where there is one, takes the sizes, and the reader that; `batches`,
    `loss` and `accuracy` train and measure it. `half`: stored in half precision.
    """

    about: str
    reader: type[nn.Module]
    sizes: tuple[int, ...]
    lr: float
    steps: int
    config: Callable | None = None
    batch: int = 64
    seed: int = 0
    batches: Callable = varied_batches
    loss: Callable = image_loss
    accuracy: Callable = accuracy
    optimiser: Callable | None = None
    weight_decay: float = 0.0
    warmup: int = 100
    half: bool = True
    look: int = 500  # steps between two looks at the validation images
    MEASURED: ClassVar = {"test_accuracy", "test_by_kind"}  # what a record holds besides what every record does

    def model(self) -> nn.Module:
        """A new model with weights drawn at random: images (B, 1, 28, 28) -> logits (B, 10)."""
        parts = (self.config(*self.sizes),) if self.config else self.sizes
        return self.reader(*parts)

    def model_of(self, record: dict) -> nn.Module:
        """A new model of the size that a record tells: there is one size."""
        return self.model()

    def train(self, steps: int, **how) -> tuple[nn.Module, History, dict]:
        """Train a new model for so many of its steps -> the model, its history, and what was measured.

        The history's looks are [step, share of the validation images named rightly]. how: for `fit`. Raises
        FileNotFoundError, in words, where Fashion-MNIST is not installed.
        """
        seen = {split: self.images(split) for split in ("train", "validation")}
        device = pick_device()
        model = self.model().to(device)
        history = fit(
            model,
            self.batches(*seen["train"], self.batch),
            self.loss,
            steps=steps,
            lr=self.lr,
            weight_decay=self.weight_decay,
            schedule=lambda step, _: cosine(step, self.steps, self.warmup),
            device=device,
            watch=lambda step: [step, self.accuracy(model, *seen["validation"])],
            watch_every=self.look,
            optimiser=self.optimiser,
            **how,
        )
        return model, history, self.measured(model)

    def images(self, split: str) -> tuple[Tensor, Tensor]:
        """The images and labels of one split."""
        return images_and_labels(split)

    def measured(self, model: nn.Module) -> dict:
        """What a trained model is worth on the test images."""
        images, labels = self.images("test")
        by_kind = {
            name: self.accuracy(model, images[labels == n], labels[labels == n]) for n, name in enumerate(fashion.NAMES)
        }
        return {"test_accuracy": self.accuracy(model, images, labels), "test_by_kind": by_kind}

    def result(self, record: dict) -> str:
        """What a record says that the model is worth."""
        return f"{record['test_accuracy']:.2%} of the 10,000 test images named rightly"

    def batches_in_words(self) -> str:
        """What it reads in a step."""
        return f"{self.batch} images"


# Equal numbers of weights, as near as a width can bring them (`convnet.width_for`).
IMAGES = {
    "fashion_vit": ImageRecipe(
        "ViT of four blocks, 96 wide, patches of 4 × 4",
        ViT,
        (28, 4, 10, 96, 4, 4, 1),
        config=ViTConfig,
        lr=0.01,
        steps=11_000,
        optimiser=three_rounds,
    ),
    "fashion_conv": ImageRecipe(
        "convolutional network of three stages, 40 to 160 channels",
        ConvNet,
        (1, 10, 40, 3),
        lr=2e-3,
        steps=6_000,
    ),
}


def images_and_labels(split: str) -> tuple[Tensor, Tensor]:
    """The images (N, 1, 28, 28) from 0 to 1 and the labels (N,) of one split; raises as `fashion.arrays` does."""
    images, labels = fashion.arrays(split)
    return torch.as_tensor(images)[:, None], torch.as_tensor(labels)
