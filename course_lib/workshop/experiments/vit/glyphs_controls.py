"""Lesson 09 on glyphs, controls: what a ViT's read-out sees, ten times as long, one map for all images, every pace."""

import time
from dataclasses import replace

import torch
from torch import Tensor, nn

from course_lib.vision.images import accuracy, image_loss
from course_lib.vision.rollout import brightness, rollout
from course_lib.vision.vit import ViT, ViTConfig
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.vit.glyphs import (
    ALL,
    BATCH,
    CONFIG,
    HERE,
    STEPS,
    THREE,
    WindowNet,
    few,
    fitted,
    judged,
    moved_test,
    network,
)
from course_lib.workshop.experiments.vit.glyphs_looks import PATCH, asked, attention_maps, correlation, found_under
from course_lib.workshop.recipes.glyphs import RATES, VIT, lettered, muon
from course_lib.workshop.recipes.stored import load

# --- does the window make the rival's lead, or a read-out that sees every place?


class TokenViT(ViT):
    """A ViT whose read-out has the patches' tokens in place of [CLS]: all of them, one after the other, or their mean.

    read: "all", a matrix of N D rows, as `WindowNet` has one, or "mean". [CLS] stays in the row, and is not read.
    """

    def __init__(self, config: ViTConfig, read: str):
        super().__init__(config)
        self.read = read
        if read == "all":
            self.head = nn.Linear((len(self.places) - 1) * config.d_model, config.n_classes)
            nn.init.zeros_(self.head.weight)  # as every ViT's
            nn.init.zeros_(self.head.bias)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.encode(images)[:, 1:]  # (B, N, D)
        return self.head(tokens.flatten(1) if self.read == "all" else tokens.mean(dim=1))


READ = [
    *each(read=["all", "mean"], width=[64], rounds=[1]),
    *each(read=["all"], width=[48], rounds=[1, 3]),  # as many weights as the plain ViT, and as `all_places`
]


@experiment(READ, THREE, HERE)
def read_outs(seed, read, width, rounds):
    """Share of letters in faces never seen named rightly by a ViT that reads all its patches' tokens, or their mean."""
    torch.manual_seed(seed)
    model = TokenViT(replace(CONFIG, d_model=width), read)
    trained, watched = fitted(
        model, *lettered("train"), seed, steps=round(rounds * STEPS["ViT"]), rate=RATES["ViT"], optimiser=muon
    )
    return judged(trained, *few(1000, seed)) | {
        "curve": watched, "moved by 2": accuracy(trained, *moved_test(2)), "weights": weights_of(model),
    }  # fmt: skip


def weights_of(model: nn.Module) -> int:
    """How many numbers a model learns."""
    return sum(weight.numel() for weight in model.parameters())


# --- what needs the longest


@experiment(each(rounds=[10]), [1, 2], HERE)
def longest(seed, rounds):
    """Share of letters in faces never seen named rightly by a ViT trained ten times as long as the live one."""
    known, names = few(ALL, seed)
    trained, watched = fitted(network("ViT", seed), known, names, seed, steps=rounds * STEPS["ViT"])
    return judged(trained, known, names) | {"curve": watched}


# --- is what rollout marks the same place in every image?

ONE = ("trained rollout", "mean rollout", "mean ink")


@torch.no_grad()
def marked_by(model: ViT, images: Tensor) -> Tensor:
    """What [CLS] has from each patch, by rollout: (B, N)."""
    return torch.cat([rollout(attention_maps(model, some))[:, 0, 1:] for some in images.split(500)])


def under_one_map(model: ViT) -> dict:
    """What is lost under covers by each image's own map and by one map for all; how alike the two maps are."""
    known, images = lettered("train")[0], asked()[0]
    own, mean, ink = marked_by(model, images), marked_by(model, known).mean(dim=0), brightness(known, PATCH).mean(dim=0)
    scores = dict(zip(ONE, (own, mean.expand_as(own), ink.expand_as(own)), strict=True))
    return {
        "covered": found_under({"ViT": model}, scores), "mean rollout": mean, "mean ink": ink,
        "own and mean": correlation(own, mean.expand_as(own)),
        "rollout and ink, means": correlation(mean[None], ink[None]),
    }  # fmt: skip


@experiment(seeds=THREE, cpus=HERE)
def one_map(seed):
    """Share of right answers lost where one map, the mean of training images, chooses what is covered everywhere."""
    return under_one_map(fitted(network("ViT", seed), *lettered("train"), seed)[0].eval())


@experiment(seeds=[0], cpus=HERE, files=[VIT.file])
def stored_one_map(seed):
    """The same of the stored ViT, ten times as long trained."""
    return under_one_map(load(VIT)[0].eval())


# --- seconds


@experiment(seeds=[0], cpus=HERE)
def pace_all(seed):
    """Seconds of one core that a step takes of every network that the curve compares, measured in turns."""
    torch.manual_seed(seed)
    models = {
        "ViT": network("ViT", seed),
        "ViT, all tokens": TokenViT(replace(CONFIG, d_model=48), "all"),
        "ConvNet": network("ConvNet", seed),
        "all places": WindowNet(16, shared=True, pooled=False),
    }
    optimisers = {name: muon(model.train()) for name, model in models.items()}
    batch, taken = tuple(part[:BATCH] for part in lettered("train")), {name: [] for name in models}
    for _ in range(16):
        for name, model in models.items():
            start = time.thread_time()
            optimisers[name].zero_grad()
            image_loss(model, batch).backward()
            optimisers[name].step()
            taken[name].append(time.thread_time() - start)
    step = {name: sorted(seconds)[len(seconds) // 2] for name, seconds in taken.items()}
    return {"step": step, "weights": {name: weights_of(model) for name, model in models.items()}}
