"""Lesson 12's models: a masked autoencoder paints glyphs that nobody has named; then a few names are learned with it.

The images are all signs of the training faces, letters or not. What a letter is called (its base letter, as in lesson
09) is told for a few Latin letters of the same faces, and asked of letters in faces never seen.
"""

from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.data import glyphs
from course_lib.language.muon import Muon, split
from course_lib.train import History, cosine, fit
from course_lib.vision.images import accuracy, labelled_batches
from course_lib.vision.masked_patches import MaskedAutoencoder, draw_seen
from course_lib.vision.patches import patchify
from course_lib.vision.vit import ViT, ViTConfig
from course_lib.workshop.recipes.glyphs import base_letters, lettered, muon
from course_lib.workshop.recipes.recipe import Recipe

CPU = torch.device("cpu")  # models this small are no faster on a GPU
SIDE, PATCH, WIDTH, HEADS, LAYERS = 32, 8, 64, 4, 4
N_PATCHES = (SIDE // PATCH) ** 2
D_DECODER, DECODER_LAYERS = 64, 2
HIDDEN, LEFT_OUT = 0.5, 0.5  # of the patches: where the model paints, and while it learns names
BATCH, RATE, STEPS = 64, 0.02, 4_000
# What was tried, one seed each, by the validation faces, 100 to 1,000 names. To paint: patches of 4, three quarters
# hidden, rates 0.01 and 0.02, 1,500 and 4,000 steps; patches of 8, half hidden, 1,500 steps with a decoder of one
# layer of 32, 6,000 with two of 64; three quarters hidden, 3,000. To name: rates 0.005 and 0.02; from [CLS] or from the
# mean over the patches (better); all patches read, or half of them left out at random, for twice the steps (better).
NAMING = {100: 300, 300: 300, 1000: 600, 6994: 800}  # how many names are told: steps


@cache
def unlabelled() -> Tensor:
    """Every sign of the training faces, (N, 1, 32, 32): letters of all scripts, digits, arrows."""
    return torch.from_numpy(glyphs.glyphs(faces="train")[0])[:, None]


def vit(seed: int, patch: int = PATCH) -> ViT:
    """The ViT that reads, untrained."""
    torch.manual_seed(seed)
    return ViT(ViTConfig(SIDE, patch, len(base_letters()), WIDTH, HEADS, LAYERS, 1))


def painter(seed: int) -> MaskedAutoencoder:
    """The ViT with the decoder that paints, untrained."""
    return MaskedAutoencoder(vit(seed), D_DECODER, HEADS, DECODER_LAYERS)


def both_stacks(model: MaskedAutoencoder) -> Muon:
    """Muon for the matrices in the blocks of encoder and decoder, AdamW for the rest; three rounds."""
    inside = [weight for stack in (model.vit.encoder, model.decoder) for weight in split(stack)[0]["params"]]
    known = {id(weight) for weight in inside}
    rest = [weight for weight in model.parameters() if id(weight) not in known]
    return Muon([{"params": inside, "matrices": True}, {"params": rest, "matrices": False}], rounds=3)


def images_alone(images: Tensor, seed: int):
    """Batches of images, mixed anew in each round: labels there are none."""
    for batch, _ in labelled_batches(images, torch.zeros(len(images), dtype=torch.long), BATCH, seed):
        yield batch


def painted(model, seed: int, steps: int = STEPS, hidden: float = HIDDEN, change=None, whole=None, **how) -> History:
    """Train a masked autoencoder in place: other patches are hidden of each image, each time.

    change: what is done to each batch of images before it is looked at (nothing, if None). whole: of how many steps
    these are the first. how: for `fit`.
    """
    generator = torch.Generator().manual_seed(seed)

    def loss(model, images):
        images = images if change is None else change(images, generator)
        return model.loss(images, draw_seen(len(images), N_PATCHES, hidden, generator).to(images.device))

    schedule = lambda step, all_steps: cosine(step, whole or all_steps, 20)  # noqa: E731
    return fit(model, images_alone(unlabelled(), seed), loss, steps=steps, lr=RATE, schedule=schedule,
               optimiser=both_stacks, **{"device": CPU, "progress": False, **how})  # fmt: skip


class Namer(nn.Module):
    """A ViT that names a letter by the mean of its patches: images (B, 1, 32, 32) -> logits (B, K).

    [CLS] had no task of its own while the model painted. seen: int64 (B, n), the patches that are read.
    """

    def __init__(self, vit: ViT):
        super().__init__()
        self.vit, self.blocks = vit, vit.blocks  # by this name `split` finds the matrices
        self.head = nn.Linear(vit.config.d_model, vit.config.n_classes)
        nn.init.zeros_(self.head.weight)

    def forward(self, images: Tensor, seen: Tensor | None = None) -> Tensor:
        return self.head(self.vit.encode(images, seen)[:, 1:].mean(dim=1))


def named(model: Namer, images: Tensor, labels: Tensor, seed: int, steps: int, **how) -> History:
    """Train a namer in place; of each image half of the patches, drawn anew each time, are left out."""
    generator = torch.Generator().manual_seed(seed)

    def loss(model, batch):
        seen = draw_seen(len(batch[0]), N_PATCHES, LEFT_OUT, generator).to(batch[0].device)
        return F.cross_entropy(model(batch[0], seen), batch[1])

    return fit(model, labelled_batches(images, labels, BATCH, seed), loss, steps=steps, lr=RATE, optimiser=muon,
               schedule=partial(cosine, warmup=20), **{"device": CPU, "progress": False, **how})  # fmt: skip


def judged(model: nn.Module) -> dict:
    """The shares of letters named rightly, all patches read: in faces never seen, and in the validation faces."""
    return {split: accuracy(model, *lettered(split)) for split in ("test", "validation")}


@cache
def asked(split: str = "test") -> Tensor:
    """What is to be painted: every fourth Latin letter in the faces of a split, (N, 1, 32, 32)."""
    return lettered(split)[0][::4]


def seen_of(images: Tensor, hidden: float, n_patches: int = N_PATCHES, seed: int = 0) -> Tensor:
    """Which patches of each image are seen where painters are compared, (N, n): the same for all."""
    return draw_seen(len(images), n_patches, hidden, torch.Generator().manual_seed(seed))


def hidden_error(painted: Tensor, images: Tensor, seen: Tensor, patch: int = PATCH) -> float:
    """The mean square error of the hidden patches: painted (N, n_patches, P P)."""
    error = (painted - patchify(images, patch)).square().mean(dim=-1)
    hidden = torch.ones_like(error).scatter(1, seen, 0.0)
    return ((error * hidden).sum() / hidden.sum()).item()


def train_painter(recipe: Recipe, steps: int, **how) -> tuple[MaskedAutoencoder, History, dict]:
    """Train a masked autoencoder; looks are [step, error of the hidden patches of validation letters]."""
    model = recipe.build()

    def error(split):
        with torch.no_grad():
            images, seen = asked(split), seen_of(asked(split), HIDDEN)
            return hidden_error(model(images, seen), images, seen)

    history = painted(model, recipe.seed, steps, whole=recipe.steps, watch=lambda step: [step, error("validation")],
                      **how)  # fmt: skip
    return model, history, {"test_error": error("test")}


# As the recorded ones, of a seed that no record holds, for longer.
PAINTER = Recipe(
    "glyphs_painter",
    "masked autoencoder: ViT of four blocks, 64 wide, patches of 8 × 8, and a decoder of two blocks",
    partial(painter, 5),
    train_painter,
    "mean square error {test_error:.4f} of the hidden half of letters in four faces never seen",
    ("test_error",),
    "half of each of {} images",
    lr=RATE,
    steps=2 * STEPS,
    batch=BATCH,
    look=STEPS // 4,
    seed=5,
)
