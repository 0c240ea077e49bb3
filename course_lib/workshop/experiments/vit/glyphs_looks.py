"""Lesson 09 on glyphs, what it sees: where heads look, against ink; reach, layer by layer; what covering does."""

from functools import cache, partial

import torch
from torch import Tensor, nn

from course_lib.inputs.reach import reach
from course_lib.show.record import capture
from course_lib.vision.convnet import ConvLayer
from course_lib.vision.images import answers
from course_lib.vision.patches import patchify, unpatchify
from course_lib.vision.rollout import attention_distance, brightness, rollout
from course_lib.vision.vit import ViT
from course_lib.workshop.experiments import experiment
from course_lib.workshop.experiments.vit.glyphs import CONFIG, HERE, THREE, fitted, network
from course_lib.workshop.recipes.glyphs import CONV, VIT, lettered
from course_lib.workshop.recipes.stored import load

STORED = [VIT.file, CONV.file]
PATCH, GRID = CONFIG.patch_size, CONFIG.grid
SIDE = GRID[0] * PATCH  # of an image, in pixels
ASKED = 4  # every fourth test image, 855 of four faces


def asked() -> tuple[Tensor, Tensor]:
    """Every fourth test image, and its label."""
    images, labels = lettered("test")
    return images[::ASKED], labels[::ASKED]


# --- where the heads look


@torch.no_grad()
def attention_maps(model: ViT, images: Tensor) -> list[Tensor]:
    """The attention weights of each layer, the first layer first: L tensors (B, heads, 1 + N, 1 + N)."""
    with capture(model, "*.attention.weights") as heard:
        model(images)
    return [heard[f"encoder.blocks.{layer}.attention.weights"][0] for layer in range(len(model.encoder.blocks))]


def one_look(weights: Tensor) -> Tensor:
    """All places of an image look as they do on average: the same weights (B, heads, 1 + N, 1 + N) in each row."""
    return weights.mean(dim=2, keepdim=True).expand_as(weights)


@cache
def neighbours() -> Tensor:
    """Which patches touch at a side: bool (N, N)."""
    place = torch.cartesian_prod(*(torch.arange(float(side)) for side in GRID))
    return torch.cdist(place, place, p=1).round() == 1


def to_neighbours(weights: Tensor) -> Tensor:
    """The mean weight of a patch on a patch at its side, over that on another patch than itself: (heads,)."""
    among, beside = weights[..., 1:, 1:].mean(dim=0), neighbours()  # (heads, N, N)
    other = ~torch.eye(len(beside), dtype=torch.bool)
    return among[:, beside].mean(dim=1) / among[:, other].mean(dim=1)


def correlation(one: Tensor, two: Tensor) -> Tensor:
    """Of two numbers a patch, over the patches of an image, the mean over images: (B, ..., N), (B, ..., N) -> (...)."""
    one, two = (part - part.mean(dim=-1, keepdim=True) for part in (one, two))
    length = one.norm(dim=-1) * two.norm(dim=-1)
    return ((one * two).sum(dim=-1) / length.clamp(min=1e-12)).mean(dim=0)


def seen_in(model: ViT) -> dict:
    """What each head of each layer does, (layers, heads): how far it looks, in pixels, at neighbours, and at ink."""
    images = asked()[0]
    maps, ink = attention_maps(model, images), brightness(images, PATCH)[:, None]  # (B, 1, N)

    def each_layer(measure) -> Tensor:
        return torch.stack([measure(weights) for weights in maps])

    far = partial(attention_distance, grid=GRID, patch=PATCH)
    return {
        "distance": each_layer(lambda weights: far(weights).mean(dim=0)),
        "distance, one look": each_layer(lambda weights: far(one_look(weights)).mean(dim=0)),
        "neighbours": each_layer(to_neighbours),
        "neighbours, one look": each_layer(lambda weights: to_neighbours(one_look(weights))),
        "[CLS] and ink": each_layer(lambda weights: correlation(weights[:, :, 0, 1:], ink)),
        "patches and ink": each_layer(lambda weights: correlation(weights[:, :, 1:, 1:].mean(dim=2), ink)),
        "rollout and ink": correlation(rollout(maps)[:, 0, 1:], ink[:, 0]),
    }


# --- reach: how far a change of the image moves one place of a layer

FINE = 4  # pixels: the side of the squares that are changed
BINS = (0, 4, 8, 12, 16, 20, 30)  # pixels


def layers_of(model: nn.Module) -> list[str]:
    """The names of the layers whose places are watched: the blocks of a ViT, the convolutions of the other."""
    if isinstance(model, ViT):
        return [f"encoder.blocks.{n}" for n in range(len(model.blocks))]
    return [name for name, part in model.named_modules() if isinstance(part, ConvLayer)]


def places_of(model: nn.Module, layer: str, images: Tensor) -> Tensor:
    """What a layer puts out at each place of its grid: (B, places, K)."""
    heard = []
    hook = model.get_submodule(layer).register_forward_hook(lambda *told: heard.append(told[-1]))
    model(images)
    hook.remove()
    return heard[0][:, 1:] if isinstance(model, ViT) else heard[0].flatten(2).transpose(1, 2)


def reach_of(model: nn.Module, layer: str, images: Tensor) -> dict:
    """The reach of the place in the middle of a layer's grid from each square of 4 pixels: shares of its square.

    By distance, in BINS of pixels; by place, as a map; far: the mean distance of what moves it, in pixels.
    """
    squares = patchify(images, FINE)  # (B, 64, 16)
    side = round(places_of(model, layer, images[:1]).shape[1] ** 0.5)
    middle = side // 2  # a patch's centre is between pixels, a window's lies on one: on every second, fourth, eighth
    centre = SIDE // 2 + (PATCH - 1) / 2 * isinstance(model, ViT)
    at = middle * side + middle
    found = reach(lambda x: places_of(model, layer, unpatchify(x, SIDE, SIDE)), squares, at=at).square()
    share = found / found.sum()
    lines = torch.arange(SIDE / FINE) * FINE + (FINE - 1) / 2 - centre
    distance = torch.cartesian_prod(lines, lines).norm(dim=1)  # (64,)
    bins = zip(BINS, BINS[1:], strict=False)
    return {"far": (share * distance).sum().item(), "by place": share,
            "by distance": [share[(distance >= low) & (distance < high)].sum().item() for low, high in bins],
            }  # fmt: skip


def reaches(model: nn.Module) -> list[dict]:
    """`reach_of` each layer, over 16 test images; the norm of a layer lets every pixel move every place a little."""
    images = lettered("test")[0][::214]
    return [reach_of(model.eval(), layer, images) for layer in layers_of(model)]


# --- what covering changes, at an equal change of the pixels

RULES = ("trained rollout", "another image's", "untrained rollout", "most ink", "random", "[CLS] in the last layer")
SHARE = 0.3  # of an image's ink: so much is changed, by every rule


@cache
def sheets() -> dict[str, Tensor]:
    """What lies over a covered patch, (N, P P): nothing, or what stands at each place on average."""
    mean = patchify(lettered("train")[0], PATCH).mean(dim=0)
    return {"paper": torch.zeros_like(mean), "mean": mean}


def changed_equally(images: Tensor, scores: Tensor, sheet: Tensor, share: float = SHARE) -> tuple[Tensor, Tensor]:
    """Patches covered in the order of their scores (B, N), until the sum of |new - old| is this share of the ink.

    The last one is covered in part, so that the change is equal to the last dot whatever chose the patches. -> the
    images, and how many patches were touched, (B,).
    """
    patches = patchify(images, PATCH)  # (B, N, P P)
    order = scores.argsort(dim=1, descending=True, stable=True)
    change = (sheet - patches).abs().sum(dim=2).gather(1, order)  # (B, N): of each patch, the first to be covered first
    before = change.cumsum(dim=1) - change
    asked_for = share * patches.sum(dim=(1, 2))[:, None]
    part = ((asked_for - before) / change.clamp(min=1e-6)).clamp(0, 1)  # of each that is covered
    part = torch.zeros_like(part).scatter(1, order, torch.where(before < asked_for, part, 0.0))
    return unpatchify(patches + part[..., None] * (sheet - patches), SIDE, SIDE), (part > 0).sum(dim=1)


def chosen_by(model: ViT, first: ViT, images: Tensor, seed: int) -> dict[str, Tensor]:
    """The score of each patch by each rule: (B, N)."""
    maps = attention_maps(model, images)
    marked, ink = rollout(maps)[:, 0, 1:], brightness(images, PATCH)
    fresh = rollout(attention_maps(first.eval(), images))[:, 0, 1:]
    random = torch.rand(ink.shape, generator=torch.Generator().manual_seed(seed))
    last = maps[-1].mean(dim=1)[:, 0, 1:]
    return dict(zip(RULES, (marked, marked.roll(1, 0), fresh, ink, random, last), strict=True))


def found_under(models: dict[str, nn.Module], scores: dict[str, Tensor]) -> dict:
    """By sheet, rule and model: the share of right answers that are wrong now; and the patches that were touched."""
    images, labels = asked()
    right = {name: answers(model, images) == labels for name, model in models.items()}
    found = {}
    for sheet, over in sheets().items():
        for rule, score in scores.items():
            covered, touched = changed_equally(images, score, over)
            lost = {name: (answers(model, covered) != labels)[right[name]].double().mean()
                    for name, model in models.items()}  # fmt: skip
            found.setdefault(sheet, {})[rule] = lost | {"patches": touched.double().mean()}
    return found


# --- what is recorded


@experiment(seeds=THREE, cpus=HERE)
def looks(seed):
    """Where the heads of a ViT trained for 14 s look, how far its layers reach, and what covering changes."""
    return measured({"ViT": fitted(network("ViT", seed), *lettered("train"), seed)[0].eval()}, seed)


@experiment(seeds=[0], cpus=HERE, files=STORED)
def stored_looks(seed):
    """The same of the stored ViT, ten times as long trained, and of the stored convolutional network."""
    return measured({"ViT": load(VIT)[0], "ConvNet": load(CONV)[0]}, seed)


def measured(trained: dict[str, nn.Module], seed: int) -> dict:
    """What both experiments record of trained networks: heads of the ViT, reach of all, answers under covers."""
    first = {name: network(name, seed).eval() for name in trained}
    scores = chosen_by(trained["ViT"], first["ViT"], asked()[0], seed)
    return {
        "heads": seen_in(trained["ViT"]), "heads, first weights": seen_in(first["ViT"]),
        "reach": {name: reaches(model) for name, model in trained.items()},
        "reach, first weights": {name: reaches(model) for name, model in first.items()},
        "covered": found_under(trained, scores),
    }  # fmt: skip
