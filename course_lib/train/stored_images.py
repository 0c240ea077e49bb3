"""The stored models that see Fashion-MNIST: how each is made, trained and measured. `stored` keeps them. Lesson 09."""

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import ClassVar

import torch
from torch import Tensor, nn

from course_lib.data import fashion
from course_lib.train import History, cosine, fit, pick_device


@dataclass(frozen=True)
class ImageRecipe:
    """How one model is made: its `reader` with its `sizes`, and the run that trains it on Fashion-MNIST.

    `about`: what it is, for the card. Names are "module:name": `config`, where there is one, takes the sizes, and the
    reader that; `batches`, `loss` and `accuracy` train and measure it. `half`: stored in half precision.
    """

    about: str
    reader: str
    sizes: tuple[int, ...]
    lr: float
    steps: int
    config: str | None = None
    batch: int = 64
    seed: int = 0
    batches: str = "course_lib.vision.images:varied_batches"
    loss: str = "course_lib.vision.images:image_loss"
    accuracy: str = "course_lib.vision.images:accuracy"
    optimiser: str | None = None
    weight_decay: float = 0.0
    warmup: int = 100
    half: bool = True
    MEASURED: ClassVar = {"test_accuracy", "test_by_kind"}  # what a record holds besides what every record does

    def model(self) -> nn.Module:
        """A new model with weights drawn at random: images (B, 1, 28, 28) -> logits (B, 10)."""
        parts = (resolve_name(self.config)(*self.sizes),) if self.config else self.sizes
        return resolve_name(self.reader)(*parts)

    def model_of(self, record: dict) -> nn.Module:
        """A new model of the size that a record tells: there is one size."""
        return self.model()

    def train(self, steps: int, **how) -> tuple[nn.Module, History, dict]:
        """Train a new model for so many of its steps -> the model, its history, and what was measured.

        The history's looks are [step, share of the 5,000 validation images named rightly]. how: for `fit`. Raises
        FileNotFoundError, in words, where Fashion-MNIST is not installed.
        """
        seen = {split: images_and_labels(split) for split in ("train", "validation", "test")}
        device = pick_device()
        model, accuracy = self.model().to(device), resolve_name(self.accuracy)
        history = fit(
            model,
            resolve_name(self.batches)(*seen["train"], self.batch),
            resolve_name(self.loss),
            steps=steps,
            lr=self.lr,
            weight_decay=self.weight_decay,
            schedule=lambda step, _: cosine(step, self.steps, self.warmup),
            device=device,
            watch=lambda step: [step, accuracy(model, *seen["validation"])],
            watch_every=500,
            optimiser=resolve_name(self.optimiser) if self.optimiser else None,
            **how,
        )
        images, labels = seen["test"]
        by_kind = {
            name: accuracy(model, images[labels == n], labels[labels == n]) for n, name in enumerate(fashion.NAMES)
        }
        return model, history, {"test_accuracy": accuracy(model, images, labels), "test_by_kind": by_kind}

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
        "course_lib.vision.vit:ViT",
        (28, 4, 10, 96, 4, 4, 1),
        config="course_lib.vision.vit:ViTConfig",
        lr=0.01,
        steps=11_000,
        optimiser="course_lib.language.next_token:three_rounds",
    ),
    "fashion_conv": ImageRecipe(
        "convolutional network of three stages, 40 to 160 channels",
        "course_lib.vision.convnet:ConvNet",
        (1, 10, 40, 3),
        lr=2e-3,
        steps=6_000,
    ),
}


def images_and_labels(split: str) -> tuple[Tensor, Tensor]:
    """The images (N, 1, 28, 28) from 0 to 1 and the labels (N,) of one split; raises as `fashion.arrays` does."""
    images, labels = fashion.arrays(split)
    return torch.as_tensor(images)[:, None], torch.as_tensor(labels)
