"""The two models of lesson 09 that read glyphs, `VIT` and `CONV`: the task, their sizes, optimiser and recipes.

The task: the base letter of a Latin letter (e of ế), in faces never seen. A model knows the letters of the training
faces. A test image whose letter is none of these has the label -1: every answer to it is wrong, whoever gives it.
"""

from contextlib import contextmanager
from functools import cache, partial

import torch
from torch import Tensor, nn

from course_lib.data import glyphs
from course_lib.language.muon import Muon, split
from course_lib.vision.convnet import ConvNet
from course_lib.vision.images import accuracy, labelled_batches
from course_lib.vision.vit import ViT, ViTConfig
from course_lib.workshop.recipes.images import train_on_images
from course_lib.workshop.recipes.recipe import Recipe

FARTHEST = 2  # pixels by which copies are moved


@cache
def latin(faces: str) -> tuple[Tensor, list[glyphs.Glyph]]:
    """The Latin letters in the faces of a split: images (N, 1, 32, 32), ink from 0 to 1, and what is known of each."""
    images, rows = glyphs.letters(faces=faces)
    at = [n for n, row in enumerate(rows) if row.script == "LATIN"]
    return torch.from_numpy(images[at])[:, None], [rows[n] for n in at]


@cache
def base_letters() -> tuple[str, ...]:
    """The classes: every base letter of the training faces, A to Z and the rarer ones, by name."""
    return tuple(sorted({row.letter for row in latin("train")[1]}))


@cache
def lettered(faces: str) -> tuple[Tensor, Tensor]:
    """Images (N, 1, 32, 32) and their places in `base_letters`, (N,); -1 for a letter that is not there."""
    images, rows = latin(faces)
    place = {letter: n for n, letter in enumerate(base_letters())}
    return images, torch.tensor([place.get(row.letter, -1) for row in rows])


class WindowMuon(Muon):
    """Muon for a convolutional network: its windows (F, C, 3, 3) are stepped as matrices (F, 9 C), all but the first.

    AdamW has the rest, as in `Muon(split(vit))`: both networks are trained alike.
    """

    def __init__(self, model: nn.Module, **how):
        windows = [part.weight for part in model.modules() if isinstance(part, nn.Conv2d)][1:]
        inside = {id(weight) for weight in windows}
        rest = [weight for weight in model.parameters() if id(weight) not in inside]
        with as_matrices(windows):
            super().__init__([{"params": windows, "matrices": True}, {"params": rest, "matrices": False}], **how)

    def step(self, closure=None):
        """One step, as Muon's."""
        with as_matrices([weight for group in self.param_groups if group["matrices"] for weight in group["params"]]):
            return super().step(closure)


@contextmanager
def as_matrices(windows: list[nn.Parameter]):
    """Inside, windows (F, C, 3, 3) and their gradients are matrices (F, 9 C)."""
    shapes = [weight.shape for weight in windows]
    for weight in windows:
        grad, weight.grad = weight.grad, None
        weight.data = weight.data.flatten(1)
        weight.grad = grad if grad is None else grad.flatten(1)
    try:
        yield
    finally:
        for weight, shape in zip(windows, shapes, strict=True):
            grad, weight.grad = weight.grad, None
            weight.data = weight.data.view(shape)
            weight.grad = grad if grad is None else grad.view(shape)


def muon(model: nn.Module) -> Muon:
    """Muon, of lesson 07, for the matrices inside either network and AdamW for the rest; three rounds."""
    return Muon(split(model), rounds=3) if hasattr(model, "blocks") else WindowMuon(model, rounds=3)


def measure_faces(model: nn.Module) -> dict:
    """The share of the letters in faces never seen that a model names rightly, and that of each face."""
    images, labels = lettered("test")
    faces = [row.face for row in latin("test")[1]]
    of = {face: torch.tensor([one == face for one in faces]) for face in dict.fromkeys(faces)}
    by_face = {face: accuracy(model, images[at], labels[at]) for face, at in of.items()}
    return {"test_accuracy": accuracy(model, images, labels), "test_by_face": by_face}


VIT_SIZES, CONV_SIZES = (32, 8, 129, 64, 4, 4, 1), (1, 129, 13, 4)
RATES = {"ViT": 0.02, "ConvNet": 0.04}
LETTERS = {
    "train": partial(train_on_images, data=lettered, measure=measure_faces, batches=labelled_batches, optimiser=muon,
                     warmup=20),
    "worth": "{test_accuracy:.1%} of the base letters in four faces never seen named rightly",
    "holds": ("test_accuracy", "test_by_face"),
    "reads": "{} images",
    "batch": 64,
}  # fmt: skip
VIT = Recipe(
    "glyphs_vit",
    "ViT of four blocks, 64 wide, patches of 8 × 8",
    lambda: ViT(ViTConfig(*VIT_SIZES)),
    lr=RATES["ViT"],
    steps=3_000,
    look=300,
    **LETTERS,
)
CONV = Recipe(
    "glyphs_conv",
    "convolutional network of four stages, 13 to 104 channels",
    lambda: ConvNet(*CONV_SIZES),
    lr=RATES["ConvNet"],
    steps=1_700,
    look=170,
    **LETTERS,
)
