"""Lesson 09 on digits, its laboratory: how many each model needs, what neighbours and moves do, alike places."""

from functools import cache, partial

import torch
from torch import nn

from course_lib.data import digits
from course_lib.language.muon import Muon, split
from course_lib.train import cosine, fit
from course_lib.vision.convnet import ConvNet, ConvStem, width_for
from course_lib.vision.images import (
    accuracy,
    answers,
    image_loss,
    labelled_batches,
    pixel_order,
    random_shift,
    share_of_each,
    shift,
    shuffle_pixels,
)
from course_lib.vision.patches import place_similarity
from course_lib.vision.rollout import brightness
from course_lib.vision.vit import ViT, ViTConfig, parameter_count
from course_lib.workshop.experiments import each, experiment

CPU = torch.device("cpu")  # models this small are no faster on a GPU
SMALL = ViTConfig(image_size=8, patch_size=2, n_classes=10, d_model=48, n_heads=4, n_layers=3, channels=1)
CONV_WIDTH = width_for(parameter_count(SMALL), partial(ConvNet, 1, 10))
STEPS, EVERY, BATCH = 120, 10, 64
# What was tried, and compared on the validation images. ViT, 14 settings: 32 to 64 wide, two and three blocks, AdamW at
# 0.003 and 0.005 with 300 to 600 steps, Muon at 0.01 to 0.04 with 120 to 400. ConvNet, 3: AdamW at 0.003 and 0.01, 120
# and 200 steps. MLP: one. Linear: six C. SVM: four C, each with four gamma. More steps are a little better for ViT and
# ConvNet; few were taken so that nobody has to wait.
RATES = {"ViT": 0.03, "ConvNet": 0.01, "MLP": 0.003}
NETWORKS = tuple(RATES)
MODELS = (*NETWORKS, "linear", "SVM")
THREE = range(3)  # seeds of what has many variants
SHARES = (0.01, 0.03, 0.1, 0.3)  # of the training images; all of them have an experiment of their own
BY_ONE = ((-1, 0), (1, 0), (0, -1), (0, 1))


@cache
def digit_tensors(split):
    """Images (N, 1, 8, 8), ink from 0 to 1, and labels (N,)."""
    images, labels = digits.arrays(split)
    return torch.from_numpy(images)[:, None], torch.from_numpy(labels)


def some_digits(share, seed):
    """Training images and labels, so large a share of them, as many of each digit; the seed draws which."""
    images, labels = digit_tensors("train")
    few = share_of_each(labels, share, seed)
    return images[few], labels[few]


# --- five models


class MLP(nn.Sequential):
    """Three layers that look at all pixels at once, with as many weights as the others have."""

    def __init__(self, width=260):
        super().__init__(nn.Flatten(), nn.Linear(64, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, width),
                         nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 10))  # fmt: skip


def network(name, seed, stem=False):
    """A ViT, or another network of as many weights, untrained."""
    torch.manual_seed(seed)
    if name == "MLP":
        return MLP()
    if name == "ViT":
        return ViT(SMALL, ConvStem(1, SMALL.patch_size, SMALL.d_model) if stem else None)
    return ConvNet(1, 10, CONV_WIDTH)


def muon(vit):
    """Muon, of lesson 07, for the matrices in the blocks; AdamW for patches, places, [CLS] and head.

    Both step at one rate, 0.03: large for AdamW, and places, drawn at 0.02, soon forget how they began. On glyphs other
    rates for AdamW's part were tried, one seed each, and none was better (`vit_glyphs`).
    """
    return Muon(split(vit))


def moving(batches, seed):
    """The same batches, each image moved by its own draw, by up to one pixel."""
    generator = torch.Generator().manual_seed(seed)
    for images, labels in batches:
        yield random_shift(images, 1, generator), labels


def fitted(model, images, labels, seed, *, loss=image_loss, moves=False, steps=STEPS, **watching):
    """The network, trained on these images, and what was watched; the same for all of them but the rate."""
    name, batches = type(model).__name__, labelled_batches(images, labels, BATCH, seed)
    found = fit(model, moving(batches, seed) if moves else batches, loss, steps=steps, lr=RATES[name],
                schedule=partial(cosine, warmup=10), optimiser=muon if name == "ViT" else None, device=CPU,
                progress=False, **watching)  # fmt: skip
    return model, found.watched


def classic(name, images, labels):
    """The linear model or the SVM, trained to the end."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    makers = {"linear": partial(LogisticRegression, C=3, max_iter=5000, tol=1e-6), "SVM": partial(SVC, C=3)}
    return makers[name]().fit(images.flatten(1).double().numpy(), labels.numpy())


def learned(name, images, labels, seed, **how):
    """Any of the five, trained on these images."""
    if name in NETWORKS:
        return fitted(network(name, seed), images, labels, seed, **how)[0]
    return classic(name, images, labels)


def said(model, images):
    """The answer of any of the five to each image, (N,)."""
    if isinstance(model, nn.Module):
        return answers(model, images)
    return torch.from_numpy(model.predict(images.flatten(1).double().numpy()))


def share_right(model, images, labels):
    """The share of images that it names rightly."""
    return (said(model, images) == labels).double().mean().item()


def judged(model, turn=torch.Tensor.clone):
    """The share of test digits named rightly: as they are, and moved by a pixel up, down, left and right."""
    images, labels = digit_tensors("test")
    moved = torch.cat([shift(images, *way) for way in BY_ONE])
    return {
        "test": share_right(model, turn(images), labels),
        "moved": share_right(model, turn(moved), labels.repeat(4)),
    }


def by_move(model):
    """The share of test digits named rightly, moved by -2 to 2 pixels down (rows) and to the right (columns)."""
    images, labels = digit_tensors("test")
    return [[share_right(model, shift(images, down, right), labels) for right in range(-2, 3)] for down in range(-2, 3)]


# --- all digits, fewer, in another order, moved


def found_with_all(model, watched=()):
    """What `all_digits` records of a trained model."""
    return judged(model) | {"training": share_right(model, *digit_tensors("train")), "moves": by_move(model),
                            "curve": [right for _, right in watched]}  # fmt: skip


def right_on_test(model):
    """To be watched while a network is trained: the share of test digits named rightly."""
    return lambda step: accuracy(model, *digit_tensors("test"))


@experiment(each(model=MODELS))
def all_digits(seed, model):
    """Share of test digits named rightly by each of five models, trained on all 1,157 training digits."""
    if model not in NETWORKS:
        return found_with_all(classic(model, *digit_tensors("train")))
    fresh = network(model, seed)
    watching = {"watch": right_on_test(fresh), "watch_every": EVERY}
    return found_with_all(*fitted(fresh, *digit_tensors("train"), seed, **watching))


@experiment(each(model=MODELS, share=SHARES), THREE)
def few_digits(seed, model, share):
    """Share of test digits named rightly by each of five models, trained on a share of the training digits."""
    return judged(learned(model, *some_digits(share, seed), seed))


@experiment(each(model=MODELS, share=[0.1, 1.0]), THREE)
def other_order(seed, model, share):
    """Share of test digits named rightly after all pixels, in training and in test, were put into one other order."""
    images, labels = some_digits(share, seed)
    turn = partial(shuffle_pixels, order=pixel_order(8, 8, seed))
    mixed = learned(model, turn(images), labels, seed)
    found, test = judged(mixed, turn), digit_tensors("test")[0]
    if model not in NETWORKS:  # trained to the end: does it answer as the one that has the pixels as they are?
        same = said(mixed, turn(test)) == said(classic(model, images, labels), test)
        found["same answers"] = same.double().mean()
    return found


COPIES = [
    *each(model=["ViT", "ConvNet"], share=[0.1], rounds=[1]),
    *each(model=MODELS, share=[1.0], rounds=[1]),
    *each(model=NETWORKS, share=[1.0], rounds=[3]),
]


@experiment(COPIES, THREE)
def moved_copies(seed, model, share, rounds):
    """Share of test digits named rightly, standing and moved, after training on copies moved by up to a pixel."""
    images, labels = some_digits(share, seed)
    if model in NETWORKS:  # new copies in every batch
        trained = learned(model, images, labels, seed, moves=True, steps=rounds * STEPS)
    else:  # all nine copies at once
        ways = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
        trained = classic(model, torch.cat([shift(images, *way) for way in ways]), labels.repeat(9))
    return judged(trained) | {"moves": by_move(trained) if share == 1 else []}


@experiment(each(model=NETWORKS), THREE)
def longer(seed, model):
    """Share of test digits named rightly after three times the steps on digits in the middle: steps without copies."""
    return judged(learned(model, *digit_tensors("train"), seed, steps=3 * STEPS))


@experiment(each(share=[0.1, 1.0]), THREE)
def with_stem(seed, share):
    """Share of test digits named rightly by a ViT whose patches are read by a short stem of convolutions."""
    return judged(fitted(network("ViT", seed, stem=True), *some_digits(share, seed), seed)[0])


# --- which places are alike

STEPS_APART = torch.cdist(*[torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0))] * 2)  # (16, 16)
APART = sorted({round(d, 4) for d in STEPS_APART.flatten().tolist() if d})


def cosines(model):
    """Of the vectors of each two places: (4, 4, 4, 4)."""
    return place_similarity(model.places.detach(), (4, 4))


def cosine_by_distance(model):
    """The mean cosine of two places, for each distance on the grid."""
    return [cosines(model).view(16, 16)[(STEPS_APART - d).abs() < 1e-3].mean().item() for d in APART]


def cosine_within(model, group):
    """The mean cosine of two different places of a group, bool (16,)."""
    pairs = (group[:, None] & group) & ~torch.eye(16, dtype=torch.bool)
    return cosines(model).view(16, 16)[pairs].mean().item()


def place_ink():
    """How much ink there is on average in each patch of the training digits: (16,)."""
    return brightness(digit_tensors("train")[0], 2).mean(dim=0)


def found_in_places(model, first):
    """What `places` records of a trained ViT, and of the same with its first weights."""
    blank = place_ink() < 0.2
    return {"by distance": cosine_by_distance(model), "first weights": cosine_by_distance(first),
            "without ink": cosine_within(model, blank), "with ink": cosine_within(model, ~blank)}  # fmt: skip


@experiment(each(halves=["as they are", "exchanged"]))
def places(seed, halves):
    """Mean cosine of a trained ViT's places, by distance, and of those where digits have no ink and have some."""
    images, labels = digit_tensors("train")
    if halves == "exchanged":  # the right half in front of the left: the places without ink lie in the middle now
        images = torch.roll(images, 4, dims=-1)
    return found_in_places(fitted(network("ViT", seed), images, labels, seed)[0], network("ViT", seed))
