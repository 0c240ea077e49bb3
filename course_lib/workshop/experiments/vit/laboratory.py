"""Lesson 09's laboratory: a teacher names the rest, larger images with the same weights, half of the image hidden."""

from dataclasses import replace
from functools import cache, partial

import torch
import torch.nn.functional as F

from course_lib.language.muon import Muon, split
from course_lib.train import cosine, fit
from course_lib.vision.distillation import taught_by
from course_lib.vision.images import accuracy, labelled_batches, share_of_each
from course_lib.vision.masked_patches import MaskedAutoencoder, draw_seen
from course_lib.vision.patches import patchify, resize_places
from course_lib.vision.vit import ViT
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.vit.core import (
    BATCH,
    CPU,
    SMALL,
    THREE,
    digit_tensors,
    fitted,
    judged,
    learned,
    network,
    said,
    some_digits,
)

# --- a teacher


def named_by(model, seed):
    """All training images: a tenth with their labels, the others with what this model says."""
    images, labels = digit_tensors("train")
    names, tenth = said(model, images), share_of_each(labels, 0.1, seed)
    names[tenth] = labels[tenth]
    return images, names


@experiment([{"teacher": "ConvNet", "others": False}, *each(teacher=["ConvNet", "ViT", "SVM"], others=[True])], THREE)
def taught(seed, teacher, others):
    """Share of test digits named rightly by a ViT with 117 labels and a teacher, for the same images or the others."""
    few = some_digits(0.1, seed)
    master = learned(teacher, *few, seed)
    images, names = named_by(master, seed)
    found = {"repeats": (said(master, few[0]) == few[1]).double().mean(),
             "named rightly": (names == digit_tensors("train")[1]).double().mean()}  # fmt: skip
    if others:
        pupil = learned("ViT", images, names, seed)
    else:
        pupil = learned("ViT", *few, seed, loss=taught_by(master))
    return judged(pupil) | found


# --- larger images

NEAREST = torch.tensor([0, 0, 1, 2, 2, 3])  # which of four rows, or columns, each of six is nearest to
WAYS = ("a picture, bicubic", "a picture, nearest", "a line", "no places")
PRACTICE = ("places drawn", "places at random", "all from the start")
PRACTICE_STEPS, PRACTICE_EVERY = 30, 5


def larger(split):
    """The digits drawn 12 by 12, and their labels."""
    images, labels = digit_tensors(split)
    return F.interpolate(images, (12, 12), mode="bilinear", align_corners=False), labels


def ways_to_place(model):
    """36 places made of the 16 that were learned, in each way: (1 + 36, D)."""
    places = model.places.detach()
    at_nearest = places[1:].view(4, 4, -1)[NEAREST][:, NEAREST]  # (6, 6, D)
    as_line = F.interpolate(places[1:].T[None], 36, mode="linear")[0].T
    made = (resize_places(places, (4, 4), (6, 6)), torch.cat([places[:1], at_nearest.flatten(0, 1)]),
            torch.cat([places[:1], as_line]), torch.cat([places[:1], torch.zeros(36, places.shape[1])]))  # fmt: skip
    return dict(zip(WAYS, made, strict=True))


@torch.no_grad()
def placed(model, places):
    """The model for 12 by 12, with these places: (1 + 36, D)."""
    wider = model.resized(12)
    wider.places.copy_(places)
    return wider


def right_at_once(model):
    """The share of larger test digits named rightly without more training, for each way to make the places."""
    return {way: accuracy(placed(model, places), *larger("test")) for way, places in ways_to_place(model).items()}


def beginners(model, seed):
    """Who practises at 12 by 12: the model with its places drawn larger, with others at random, and a new one."""
    made, generator = ways_to_place(model)["a picture, bicubic"], torch.Generator().manual_seed(seed)
    random = torch.cat([made[:1], torch.empty_like(made[1:]).normal_(std=0.02, generator=generator)])
    torch.manual_seed(seed)
    fresh = ViT(replace(SMALL, image_size=12))
    return dict(zip(PRACTICE, (placed(model, made), placed(model, random), fresh), strict=True))


def found_larger(model):
    """What `resized` records of a trained ViT."""
    return {"at once": right_at_once(model), "8 x 8": accuracy(model, *digit_tensors("test"))}


@experiment()
def resized(seed):
    """Share of digits of 12 by 12 named rightly by a ViT of 8 by 8, untrained for them, by how it gets its places."""
    return found_larger(fitted(network("ViT", seed), *digit_tensors("train"), seed)[0])


@experiment()
def practised(seed):
    """Share of digits of 12 by 12 named rightly while a ViT of 8 by 8, and a new one, practise for 30 steps."""
    found, vit = {}, fitted(network("ViT", seed), *digit_tensors("train"), seed)[0]
    for name, model in beginners(vit, seed).items():
        watch = partial(lambda step, model: accuracy(model, *larger("test")), model=model)
        watching = {"watch": watch, "watch_every": PRACTICE_EVERY}
        watched = fitted(model, *larger("train"), seed, steps=PRACTICE_STEPS, **watching)[1]
        found[name] = [right for _, right in watched]
    return found


# --- half of the image hidden

HIDDEN, FEW, MANY = 0.5, 200, 1000  # the share of the patches, and steps


def muon_twice(model):
    """Muon for the matrices in the blocks of encoder and decoder, AdamW for the rest."""
    inside = [weight for stack in (model.vit.encoder, model.decoder) for weight in split(stack)[0]["params"]]
    known = {id(weight) for weight in inside}
    rest = [weight for weight in model.parameters() if id(weight) not in known]
    return Muon([{"params": inside, "matrices": True}, {"params": rest, "matrices": False}])


def painter(seed, steps):
    """A masked autoencoder of digits, trained: other patches are hidden in each batch, and no label is looked at."""
    torch.manual_seed(seed)
    model, generator = MaskedAutoencoder(ViT(replace(SMALL, n_layers=2))), torch.Generator().manual_seed(seed)
    fit(model, labelled_batches(*digit_tensors("train"), BATCH, seed),
        lambda model, batch: model.loss(batch[0], draw_seen(len(batch[0]), 16, HIDDEN, generator)), steps=steps,
        lr=0.02, optimiser=muon_twice, schedule=partial(cosine, warmup=10), device=CPU, progress=False)  # fmt: skip
    return model.eval()


def seen_in_test(seed):
    """The patches that each test digit shows, (N, 8)."""
    return draw_seen(len(digit_tensors("test")[0]), 16, HIDDEN, torch.Generator().manual_seed(seed))


def seen_alone(images, seen):
    """What a linear model reads: the seen patches less their mean, zeros for the others, and which are which."""
    mean = patchify(digit_tensors("train")[0], 2).mean(dim=0)
    known = torch.zeros(len(images), 16).scatter(1, seen, 1.0)
    patches = (patchify(images, 2) - mean) * known[..., None]
    return torch.cat([patches.flatten(1), known, torch.ones(len(images), 1)], dim=1).double()


@cache
def linear_painter():
    """The matrix (81, 64) that paints with the least square error, over ten draws of what is hidden: no steps."""
    images = digit_tensors("train")[0]
    hidings = [draw_seen(len(images), 16, HIDDEN, torch.Generator().manual_seed(draw)) for draw in range(10)]
    read = torch.cat([seen_alone(images, seen) for seen in hidings])  # (10 N, 81)
    wanted = patchify(images, 2).flatten(1).double().repeat(10, 1)
    return torch.linalg.solve(read.T @ read + 10 * torch.eye(read.shape[1]).double(), read.T @ wanted)


def painted_by_line(seen):
    """What the linear model paints of the test digits: (N, 16, 4)."""
    return (seen_alone(digit_tensors("test")[0], seen) @ linear_painter()).float().view(-1, 16, 4)


def hidden_error(painted, seen):
    """The mean square error of the hidden patches of the test digits: painted (N, 16, 4)."""
    hidden = torch.ones(len(painted), 16).scatter(1, seen, 0.0)
    error = (painted - patchify(digit_tensors("test")[0], 2)).square().mean(-1)
    return ((error * hidden).sum() / hidden.sum()).item()


def one_of_each():
    """Ten test digits, the second of each: places (10,)."""
    labels = digit_tensors("test")[1]
    return torch.stack([(labels == digit).nonzero()[1, 0] for digit in range(10)])


@experiment(seeds=THREE)
def painted(seed):
    """Mean square error of the hidden half of test digits, painted by a ViT after 200 and 1,000 steps and by others."""
    images, seen, few, many = digit_tensors("test")[0], seen_in_test(seed), painter(seed, FEW), painter(seed, MANY)
    mean = patchify(digit_tensors("train")[0], 2).mean(dim=0)
    with torch.no_grad():
        by = {"200 steps": few(images, seen), "1,000 steps": many(images, seen)}
        by_stranger = many(images.roll(1, 0), seen)  # it sees another image
    others = {
        "1,000 steps, seeing another image": by_stranger,
        "the mean training image": mean.expand(len(images), -1, -1),
        "a linear model": painted_by_line(seen),
    }
    paintings = {name: (100 * patches[one_of_each()]).round().int() for name, patches in by.items()}
    errors = {name: hidden_error(patches, seen) for name, patches in (by | others).items()}
    return {"error": errors, "ten digits, in hundredths": paintings}
