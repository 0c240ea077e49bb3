"""Lesson 18, its controls: what dead codes are worth, codes by k-means in place of learned ones, who picks by what.

Judged as in `words_to_images`: a drawing is right if the nearest of all real letters bears the name that was asked for.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.data.letter_names import Named, named
from course_lib.multimodal.quantiser import nearest_code
from course_lib.multimodal.vq_vae import VQVAE
from course_lib.vision.patches import patchify, unpatchify
from course_lib.workshop.experiments import experiment
from course_lib.workshop.experiments.words_to_images.core import HERE, SHORT, STORED, THREE, kept, some_of
from course_lib.workshop.recipes.stored import load
from course_lib.workshop.recipes.words_to_images import (
    AWAKE,
    CODES,
    DRAWER,
    N_CODES,
    PICKER,
    coded,
    drawn,
    fits,
    gpt,
    judged,
    nearest,
    painted,
    rows_of,
    unnamed,
    vq_vae,
    written,
)

DRAWERS = [*STORED, DRAWER.file]
BELOW = ("cedilla", "ogonek", "dot below", "line below", "circumflex below")  # marks that are written last


# --- an image as codes


@experiment([{"start": "vectors", "revived": 0}, {"start": "random", "revived": 1}], THREE, HERE)
def dead_codes(seed, start, revived):
    """As `quantised`, after 300 steps: codes begin on vectors or at random; dead ones are revived, or not."""
    model = vq_vae(seed)
    if start == "random":
        torch.manual_seed(seed)
        nn.init.normal_(model.quantiser.codes)
    coded(model, seed, SHORT, awake=AWAKE * revived)
    return kept(model)


def frozen(model: VQVAE, images: Tensor) -> Tensor:
    """`VQVAE.loss` with an encoder that stays as it was drawn: codes go to its vectors, the decoder learns."""
    vectors = model.vectors(images).detach()
    quantised, _, quantising = model.quantiser(vectors)
    logits = model.decoder(quantised.permute(0, 3, 1, 2))
    return 10 * F.binary_cross_entropy_with_logits(logits, images) + quantising


@experiment(seeds=THREE, cpus=HERE)
def encoder_at_random(seed):
    """As `quantised`, after 300 steps: the encoder never learns, so no commitment can pull its vectors together."""
    model = vq_vae(seed)
    coded(model, seed, SHORT, loss=frozen)
    return kept(model)


# --- codes that nobody has learned


@cache
def patch_list(seed: int = 0, rounds: int = 20) -> Tensor:
    """64 patches of 4 x 4, white and 63 that k-means has found in every fourth letter: (64, 16)."""
    generator = torch.Generator().manual_seed(seed)
    patches = patchify(unnamed()[::4], 4).flatten(0, 1)
    patches = patches[patches.amax(dim=1) > 0]
    codes = patches[torch.randperm(len(patches), generator=generator)[: N_CODES - 1]]
    for _ in range(rounds):
        near = nearest_code(patches, codes)
        counts = torch.bincount(near, minlength=len(codes)).clamp(min=1)
        codes = torch.zeros_like(codes).index_add(0, near, patches) / counts[:, None]
    return torch.cat([torch.zeros(1, 16), codes])


def pasted_patches(codes: Tensor) -> Tensor:
    """The images that rows of numbers stand for, patch beside patch: (N, 64) -> (N, 1, 32, 32)."""
    return unpatchify(patch_list()[codes], 32, 32)


@experiment(seeds=THREE, cpus=HERE)
def patches_drawn(seed):
    """Shares of new names drawn rightly by a GPT that writes patches found by k-means, in place of learned codes."""
    model, known = gpt(seed), named("train")
    codes = torch.cat([nearest_code(patchify(some, 4), patch_list()) for some in known.images.split(500)])
    written(model, rows_of(known, codes, seed))
    found = {}
    for split, asked in (("test", some_of("test")), ("train", marked(300))):
        found[split] = judged(pasted_patches(drawn(model, asked.texts, 0.5, seed)), asked)._asdict()
    return found


# --- the stored GPT, drawing again and again


def marked(n: int) -> Named:
    """n learned letters with a mark, as all new names have one."""
    known = named("train")
    at = [i for i, row in enumerate(known.rows) if row.marks]
    order = torch.randperm(len(at), generator=torch.Generator().manual_seed(0))[:n].tolist()
    return taken(known, [at[i] for i in order])


def taken(known: Named, at: list[int]) -> Named:
    """Some of the letters."""
    return Named(known.images[at], known.name[at], [known.rows[i] for i in at])


def pictures(texts: list[str], temperature: float, seed: int) -> Tensor:
    """What the stored models draw."""
    return painted(load(CODES)[0], drawn(load(DRAWER)[0], texts, temperature, seed))


@experiment(cpus=HERE, files=DRAWERS)
def marks_drawn(seed):
    """Shares drawn rightly by the stored GPT: learned names with a mark, new names, by where the mark stands."""
    new, old = some_of("test"), marked(300)
    is_below = [row.marks[0].lower() in BELOW for row in new.rows]
    parts = {"learned": old, "new": new, "new, mark below": taken(new, [i for i, one in enumerate(is_below) if one]),
             "new, mark elsewhere": taken(new, [i for i, one in enumerate(is_below) if not one])}  # fmt: skip
    return {name: judged(pictures(asked.texts, 0.5, seed), asked)._asdict() for name, asked in parts.items()}


@experiment(cpus=HERE, files=DRAWERS)
def picks(seed, several=8, n=150):
    """Shares of new names right: one drawing at each temperature; of eight, by CLIP with the name, with another's."""
    asked, clip = some_of("test", n, 1), load(PICKER)[0]
    images = torch.stack([pictures(asked.texts, 1.0, 1000 * seed + again) for again in range(several)])  # (8, n, ...)
    strange = asked.texts[n // 2 :] + asked.texts[: n // 2]
    chosen = {
        name: images[torch.stack([fits(clip, some, texts) for some in images]).argmax(dim=0), torch.arange(n)]
        for name, texts in (("CLIP", asked.texts), ("CLIP, another name", strange))
    }
    chosen |= {"one": images[0], "one, cooler": pictures(asked.texts, 0.5, seed)}
    return {name: judged(some, asked).right for name, some in chosen.items()}


@experiment(cpus=HERE, files=DRAWERS)
def face_told(seed, n=100):
    """As `no_face_told`, with the typeface told: in how many typefaces eight drawings of a name are."""
    asked = some_of("test", n)
    drawings = [pictures(asked.texts, 1.0, 8 * seed + again) for again in range(8)]
    faces = [[named(None).rows[i].face for i in nearest(some, named(None).images)[0].tolist()] for some in drawings]
    return {"typefaces among eight": sum(len(set(several)) for several in zip(*faces, strict=True)) / n}
