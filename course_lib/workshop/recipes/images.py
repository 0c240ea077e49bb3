"""The stored models that see Fashion-MNIST, `VIT` and `CONV`, and how models that see images are trained. Lesson 09."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from course_lib.data import fashion
from course_lib.language.next_token import three_rounds
from course_lib.train import History, cosine, fit, pick_device
from course_lib.vision.convnet import ConvNet
from course_lib.vision.images import accuracy, image_loss, varied_batches
from course_lib.vision.vit import ViT, ViTConfig
from course_lib.workshop.recipes.recipe import Recipe


def train_on_images(
    recipe: Recipe,
    steps: int,
    *,
    data: Callable[[str], tuple],
    measure: Callable[[nn.Module], dict],
    batches: Callable = varied_batches,
    loss: Callable = image_loss,
    accuracy: Callable = accuracy,
    warmup: int = 100,
    **how,
) -> tuple[nn.Module, History, dict]:
    """Train a model that sees images; looks are [step, `accuracy` on the validation images].

    data: gives the images and labels of a split, which `batches` and `accuracy` take. measure: what a trained model is
    worth on test images.
    """
    known, device = {split: data(split) for split in ("train", "validation")}, pick_device()
    model = recipe.build().to(device)
    history = fit(
        model,
        batches(*known["train"], recipe.batch),
        loss,
        steps=steps,
        lr=recipe.lr,
        schedule=lambda step, _: cosine(step, recipe.steps, warmup),
        device=device,
        watch=lambda step: [step, accuracy(model, *known["validation"])],
        **how,
    )
    return model, history, measure(model)


def images_and_labels(split: str) -> tuple[Tensor, Tensor]:
    """The images (N, 1, 28, 28) from 0 to 1 and the labels (N,) of one split; raises as `fashion.arrays` does."""
    images, labels = fashion.arrays(split)
    return torch.as_tensor(images)[:, None], torch.as_tensor(labels)


def measure_clothes(model: nn.Module) -> dict:
    """The share of the test images that a model names rightly, and that of each kind."""
    images, labels = images_and_labels("test")
    by_kind = {name: accuracy(model, images[labels == n], labels[labels == n]) for n, name in enumerate(fashion.NAMES)}
    return {"test_accuracy": accuracy(model, images, labels), "test_by_kind": by_kind}


FASHION = {
    "worth": "{test_accuracy:.2%} of the 10,000 test images named rightly",
    "holds": ("test_accuracy", "test_by_kind"),
    "reads": "{} images",
    "batch": 64,
    "look": 500,
}
# Equal numbers of weights, as near as a width can bring them (`convnet.width_for`).
VIT = Recipe(
    "fashion_vit",
    "ViT of four blocks, 96 wide, patches of 4 × 4",
    lambda: ViT(ViTConfig(28, 4, 10, 96, 4, 4, 1)),
    partial(train_on_images, data=images_and_labels, measure=measure_clothes, optimiser=three_rounds),
    lr=0.01,
    steps=11_000,
    **FASHION,
)
CONV = Recipe(
    "fashion_conv",
    "convolutional network of three stages, 40 to 160 channels",
    lambda: ConvNet(1, 10, 40, 3),
    partial(train_on_images, data=images_and_labels, measure=measure_clothes),
    lr=2e-3,
    steps=6_000,
    **FASHION,
)
