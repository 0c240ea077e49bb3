"""Lesson 12: what is painted of hidden patches, what a few names are worth afterwards, and what else could explain it.

Every share is that of Latin letters in faces never seen (test), of which the base letter is named rightly.
"""

import time

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.vision.images import accuracy
from course_lib.vision.masked_patches import MaskedAutoencoder, draw_seen
from course_lib.vision.patches import patchify, unpatchify
from course_lib.vision.vit import ViT
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.vit.glyphs import few, linear_model, nearest
from course_lib.workshop.recipes.glyphs import lettered, muon
from course_lib.workshop.recipes.masked_images import (
    BATCH,
    D_DECODER,
    DECODER_LAYERS,
    HEADS,
    HIDDEN,
    LEFT_OUT,
    N_PATCHES,
    NAMING,
    PAINTER,
    PATCH,
    SIDE,
    Namer,
    asked,
    both_stacks,
    hidden_error,
    judged,
    named,
    painted,
    painter,
    seen_of,
    unlabelled,
    vit,
)
from course_lib.workshop.recipes.stored import load

HERE = ["default"]  # the instruction set of what is dear
THREE = range(3)  # seeds of what has many variants
STARTS = ("random weights", "painting")


# --- does painting help to name?


def in_disorder(images: Tensor, generator: torch.Generator) -> Tensor:
    """The same patches, each image's in an order of its own: what is seen tells nothing of where a stroke goes on."""
    patches = patchify(images, PATCH)
    order = torch.rand(patches.shape[:2], generator=generator).argsort(dim=1)
    return unpatchify(patches.gather(1, order[:, :, None].expand_as(patches)), SIDE, SIDE)


def has_painted(seed: int, change=None) -> ViT:
    """The ViT of a masked autoencoder that was trained; change: what is done to the images first."""
    model = painter(seed)
    painted(model, seed, change=change)
    return model.vit


def with_names(start: ViT, seed: int, n: int, steps: int | None = None) -> Namer:
    """A namer that begins with these weights and is told n names."""
    ours = vit(seed)
    ours.load_state_dict(start.state_dict())
    torch.manual_seed(seed)
    model = Namer(ours)
    named(model, *few(n, seed), seed, steps or NAMING[n])
    return model


@torch.no_grad()
def states(reader: ViT, images: Tensor) -> Tensor:
    """The mean of the patches' states, as the namer's head reads it: (N, D)."""
    return torch.cat([reader.encode(some)[:, 1:].mean(dim=1) for some in images.split(512)])


def frozen(reader: ViT, seed: int, n: int) -> float:
    """The share named rightly by one matrix on the states of a ViT that learns no more."""
    images, labels = few(n, seed)
    known, truth = states(reader.eval(), images), lettered("test")
    middle, spread = known.mean(dim=0), known.std(dim=0) + 1e-4
    line = linear_model((known - middle) / spread, labels, seed)
    said = line((states(reader, truth[0]) - middle) / spread).argmax(dim=1)
    return (said == truth[1]).double().mean().item()


@experiment(each(start=STARTS), cpus=HERE)
def few_names(seed, start):
    """Share of letters named rightly by a ViT that painted before, by how many names it was told; or did not."""
    return worth(has_painted(seed) if start == "painting" else vit(seed), seed)


@experiment(seeds=THREE, cpus=HERE)
def few_names_disorder(seed):
    """Share of letters named rightly by a ViT that painted the same patches before, each image's in disorder."""
    return worth(has_painted(seed, in_disorder), seed)


def worth(reader: ViT, seed: int) -> dict:
    """What `few_names` records of a ViT to begin with."""
    found = {str(n): judged(with_names(reader, seed, n)) for n in NAMING}
    return {part: {n: found[n][part] for n in found} for part in ("test", "validation")} | {
        "frozen": {str(n): frozen(reader, seed, n) for n in NAMING}
    }


LONGER = 13  # times the steps: as many seconds as painting and naming together take, `pace` says how near


@experiment(each(names=[1000]), THREE, HERE)
def as_long(seed, names):
    """Share of letters named rightly from random weights, after as many seconds with names as the other has in all."""
    return judged(with_names(vit(seed), seed, names, LONGER * NAMING[names]))


@experiment(cpus=HERE, files=[PAINTER.file])
def read_outs(seed):
    """Share named rightly by one matrix, a thousand names: on states of the stored painter, their mean, on pixels."""
    reader, (images, labels), (asked_images, truth) = load(PAINTER)[0].vit, few(1000, seed), lettered("test")
    with torch.no_grad():
        known, new = (torch.cat([reader.encode(some)[:, 1:] for some in part.split(512)])
                      for part in (images, asked_images))  # fmt: skip
    _, _, main = torch.pca_lowrank(unlabelled()[::10].flatten(1), q=known.shape[2])  # (1024, 64)
    centre = unlabelled()[::10].flatten(1).mean(dim=0)
    views = {
        "mean of the states": (known.mean(dim=1), new.mean(dim=1)),
        "all states": (known.flatten(1), new.flatten(1)),
        "pixels": (images.flatten(1), asked_images.flatten(1)),
        "pixels, in as many numbers as the mean": tuple((part.flatten(1) - centre) @ main
                                                        for part in (images, asked_images)),
    }  # fmt: skip
    found = {}
    for name, (read, asked_rows) in views.items():
        middle, spread = (0.0, 1.0) if name == "pixels" else (read.mean(dim=0), read.std(dim=0) + 1e-4)
        line = linear_model((read - middle) / spread, labels, seed)
        found[name] = (line((asked_rows - middle) / spread).argmax(dim=1) == truth).double().mean()
    return found


@experiment(each(names=list(NAMING)), cpus=HERE)
def rules(seed, names):
    """Share of letters named rightly by the nearest image that has a name, and by a linear model of the pixels."""
    known, letters = few(names, seed)
    images, truth = lettered("test")
    return {"nearest": (nearest(known, letters, images) == truth).double().mean(),
            "linear": accuracy(linear_model(known, letters, seed), images, truth)}  # fmt: skip


# --- what is painted


def nearest_painting(images: Tensor, seen: Tensor, several: int = 1) -> Tensor:
    """The patches of the image that differs least where these are seen, or a mean of several: (N, n_patches, P P)."""
    patches, others = patchify(images, PATCH), patchify(unlabelled(), PATCH)
    known = torch.zeros(patches.shape[:2]).scatter(1, seen, 1.0)[:, :, None].expand_as(patches).flatten(1)
    differ = others.flatten(1).square() @ known.T - 2 * others.flatten(1) @ (patches.flatten(1) * known).T
    return others[differ.topk(several, dim=0, largest=False).indices].mean(dim=0)


def seen_alone(images: Tensor, seen: Tensor) -> Tensor:
    """What a linear model reads: the seen patches less their mean, zeros for the others, and which are which."""
    known = torch.zeros(len(images), N_PATCHES).scatter(1, seen, 1.0)
    patches = (patchify(images, PATCH) - patchify(unlabelled(), PATCH).mean(dim=0)) * known[..., None]
    return torch.cat([patches.flatten(1), known, torch.ones(len(images), 1)], dim=1)


def linear_painting(images: Tensor, seen: Tensor, hidden: float) -> Tensor:
    """What the matrix paints that has the least square error over two draws of what is hidden of every image."""
    known = [seen_alone(unlabelled(), seen_of(unlabelled(), hidden, seed=draw)) for draw in (1, 2)]
    products = sum(read.T @ read for read in known) + 100 * torch.eye(known[0].shape[1])
    wanted = sum(read.T @ patchify(unlabelled(), PATCH).flatten(1) for read in known)
    return (seen_alone(images, seen) @ torch.linalg.solve(products, wanted)).view(len(images), N_PATCHES, -1)


@experiment(each(hidden=[0.25, HIDDEN, 0.75]), seeds=[0], cpus=HERE)
def painting_rules(seed, hidden):
    """Mean square error of hidden patches: the nearest image's, a linear model's, the mean image's."""
    images, mean = asked(), patchify(unlabelled(), PATCH).mean(dim=0)
    seen = seen_of(images, hidden)
    by = {"nearest": nearest_painting(images, seen), "mean of 16 nearest": nearest_painting(images, seen, 16),
          "linear": linear_painting(images, seen, hidden), "mean": mean.expand(len(images), -1, -1)}  # fmt: skip
    return {name: hidden_error(patches, images, seen) for name, patches in by.items()}


@torch.no_grad()
def error_of(model: MaskedAutoencoder, hidden: float, stranger: bool = False) -> float:
    """The error of what it paints; with `stranger` it sees another image's patches."""
    images, seen = asked(), seen_of(asked(), hidden)
    return hidden_error(model.eval()(images.roll(1, 0) if stranger else images, seen), images, seen)


SHORT, SOME = 1000, 1000  # steps of painting, names


@experiment(each(hidden=[0.25, HIDDEN, 0.75]), THREE, HERE)
def how_much(seed, hidden):
    """By the share that is hidden while it paints: the error of what is painted, and letters named rightly."""
    model = painter(seed)
    history = painted(model, seed, steps=SHORT, hidden=hidden, watch_every=SHORT // 10,
                      watch=lambda step: [step, error_of(model, hidden)])  # fmt: skip
    return {
        "error": error_of(model, hidden), "of another image": error_of(model, hidden, stranger=True),
        "right": judged(with_names(model.vit, seed, SOME))["test"],
        "curve": [value for _, value in history.watched],
    }  # fmt: skip


# --- what it costs


def with_tokens(model: MaskedAutoencoder, images: Tensor, seen: Tensor) -> Tensor:
    """The loss where the ViT reads a place for every patch, as a BERT does: the hidden ones all as one vector."""
    x = model.vit.embed(images)  # (B, N, D)
    hidden = torch.ones(x.shape[:2], dtype=torch.bool).scatter(1, seen, False)
    x = torch.where(hidden[..., None], model.vit.cls, x) + model.vit.places[1:]
    cls = (model.vit.cls + model.vit.places[0]).expand(len(x), 1, -1)
    known = model.narrow(model.vit.encoder(torch.cat([cls, x], dim=1)))
    painting = model.paint(model.decoder(known + model.places)[:, 1:])
    error = (painting - patchify(images, model.vit.config.patch_size)).square().mean(dim=-1)
    return error[hidden].mean()


@experiment([{"patch": 8, "hidden": 0.5}, {"patch": 4, "hidden": 0.75}, {"patch": 2, "hidden": 0.75}], [0], HERE)
def pace(seed, patch, hidden):
    """Seconds of one core that a step takes: the hidden left out, or read as tokens; with names; measured in turns."""
    model, n = MaskedAutoencoder(vit(seed, patch), D_DECODER, HEADS, DECODER_LAYERS), (SIDE // patch) ** 2
    namer, (images, labels) = Namer(vit(seed, patch)), (part[:BATCH] for part in lettered("train"))
    paints, names = both_stacks(model), muon(namer)
    ways = {
        "left out": (paints, lambda: model.loss(images, draw_seen(BATCH, n, hidden))),
        "as a token": (paints, lambda: with_tokens(model, images, draw_seen(BATCH, n, hidden))),
        "with names": (names, lambda: F.cross_entropy(namer(images, draw_seen(BATCH, n, LEFT_OUT)), labels)),
    }
    taken = {name: [] for name in ways}
    for _ in range(7):
        for name, (optimiser, loss) in ways.items():
            start = time.thread_time()
            optimiser.zero_grad()
            loss().backward()
            optimiser.step()
            taken[name].append(time.thread_time() - start)
    return {name: sorted(seconds)[len(seconds) // 2] for name, seconds in taken.items()}
