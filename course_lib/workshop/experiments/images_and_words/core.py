"""Lesson 11: images of letters and their names: CLIP, its rivals, and what each part of it does.

Every model is trained on the same images and names, and asked for names: "new names" are letters with marks that nobody
was shown together, "new faces" letters in a family of faces never seen, "both new" is both. A right answer is any name
that the image has in its face.
"""

import time
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention.block import FeedForward
from course_lib.data.glyph_names import Named, batches, hits, learned_names, named, names
from course_lib.multimodal.clip import CLIP
from course_lib.multimodal.contrastive import contrastive_loss
from course_lib.recurrent.lstm import GRU
from course_lib.text.tokenizers import WordTokenizer
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.recipes.glyph_names import (
    BATCH,
    D_MODEL,
    RATE,
    STEPS,
    WIDTH,
    candidates,
    clip,
    clip_loss,
    image_tower,
    learned,
    muon,
    name_ids,
    scored,
    text_tower,
    tokenizer,
)

HERE = ["default"]  # the instruction set of what is dear
LOOKS = 5
# One seed each, by validation names: rates of 0.01, 0.02, 0.04, 0.06, 0.08 name 0.71, 0.75, 0.78, 0.78, 0.79: level.
WORDS_RATE = 0.04


@cache
def new_names() -> Tensor:
    """Every name that is only asked for, never learned, in some face: their places in `names()`."""
    return torch.cat([candidates(named("new names")), candidates(named("both new"))]).unique()


def share(scores, part: str, among: Tensor, k: int = 1) -> float:
    """The share of a part's images for which a right name is among the k best; scores: (part, among) -> (N, M)."""
    known = named(part)
    return hits(scores(known, among), known.right[:, among], k).double().mean().item()


def judged(scores) -> dict:
    """Shares of right answers on all that is tested, among new names, among learned ones, or among all."""
    every, old = torch.arange(len(names())), learned_names().nonzero().flatten()
    return {
        "new names": share(scores, "new names", new_names()),
        "new names, all": share(scores, "new names", every),
        "new names, all, 5": share(scores, "new names", every, 5),
        "new faces": share(scores, "new faces", old),
        "new faces, all": share(scores, "new faces", every),
        "both new": share(scores, "both new", new_names()),
    }


def fitted(model: nn.Module, seed: int, loss=clip_loss, stream=None, steps=STEPS, score=scored, looks=True, **how):
    """The model, trained, and its shares of the validation names that it named rightly, at five places on the way."""
    known, n = named("validation names"), LOOKS

    def look(step):
        among = candidates(known)
        return hits(score(model, known, among), known.right[:, among]).double().mean().item() if step else 0.0

    stream = batches(named("train"), BATCH, seed) if stream is None else stream
    watching = {"watch": look, "watch_every": steps // n} if looks else {}
    model, history = learned(model, stream, loss, steps, **watching, **how)
    return model, [right for _, right in history.watched[1 : n + 1]]


def made(seed: int, make=clip) -> nn.Module:
    """A model, untrained, from a seed."""
    torch.manual_seed(seed)
    return make()


def counted(model: nn.Module) -> int:
    """How many numbers it learns."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


# --- CLIP, and what it has to beat


@experiment()
def live(seed):
    """Share of images that CLIP names rightly, of new names, new faces and both, after 20 s of a core."""
    model, watched = fitted(made(seed), seed)
    return judged(partial(scored, model)) | {
        "curve": watched, "weights": counted(model), "scale": model.log_scale.exp(),
    }  # fmt: skip


@cache
def word_table() -> Tensor:
    """Which words each name has, of the tokenizer's: (V, W), 0 or 1; the specials are no words."""
    ids = name_ids()
    table = torch.zeros(len(ids), len(tokenizer())).scatter_(1, ids, 1.0)
    table[:, : WordTokenizer.unknown + 1] = 0
    return table


def words_loss(model: nn.Module, batch) -> Tensor:
    """-log p of each word's being in the name or not, the sum over the words, the mean over the images."""
    images, own, _ = batch
    wanted = word_table()[own]
    return F.binary_cross_entropy_with_logits(model(images), wanted, reduction="sum") / len(own)


@torch.no_grad()
def words_scored(model: nn.Module, known: Named, among: Tensor) -> Tensor:
    """log p of a name, but for what is the same for all names: the sum of its words' logits: (N, M)."""
    logits = torch.cat([model(some) for some in known.images.split(500)])
    return logits @ word_table()[among].T


def word_tower() -> nn.Module:
    """CLIP's image tower with a logit for each word, untrained. Most words are in few names: all logits begin low."""
    tower = image_tower(len(tokenizer()))
    nn.init.constant_(tower[-1].bias, -4.0)
    return tower


def words_fitted(seed: int, steps: int = STEPS, rate: float = WORDS_RATE) -> tuple[nn.Module, list[float]]:
    """A classifier of single words, trained, and its shares of validation names on the way, as `fitted` gives them."""
    return fitted(made(seed, word_tower), seed, words_loss, steps=steps, score=words_scored, lr=rate)


@experiment()
def single_words(seed):
    """Share of images that are named rightly by a classifier of single words: CLIP's image tower, a logit a word."""
    model, watched = words_fitted(seed)
    return judged(partial(words_scored, model)) | {"curve": watched, "weights": counted(model)}


def nearest_scored(known: Named, among: Tensor, k: int) -> Tensor:
    """How much each name has in common with those of the k nearest training images, pixel by pixel: (N, M).

    Of two names it is F1 of their words. The n-th nearest counts 1 / n.
    """
    learned_from, table = named("train"), word_table()
    common = 2 * table @ table[among].T / (table.sum(1)[:, None] + table[among].sum(1))  # (V, M)
    seen, asked = learned_from.images.flatten(1), known.images.flatten(1)
    near = (seen.square().sum(1) - 2 * asked @ seen.T).topk(k, largest=False).indices  # (N, k)
    return sum(common[learned_from.own[near[:, n]]] / (n + 1) for n in range(k))


@experiment(each(k=[1, 3, 10]), seeds=[0], cpus=HERE)
def nearest(seed, k):
    """Share of images whose name has most in common with the names of the nearest training images, by pixels."""
    known = named("validation names")
    among = candidates(known)
    right = hits(nearest_scored(known, among, k), known.right[:, among]).double().mean()
    return judged(partial(nearest_scored, k=k)) | {"validation": right}


@experiment(seeds=[0], cpus=HERE)
def chance(seed):
    """Share of images that are named rightly by a name drawn at random, and how many names and images there are."""

    def drawn(known, among):  # every name alike: what is right among them is the chance of each
        return known.right[:, among].double().mean(dim=1).mean().item()

    every, old = torch.arange(len(names())), learned_names().nonzero().flatten()
    among = {"new names": new_names(), "new faces": old, "both new": new_names()}
    return {part: drawn(named(part), those) for part, those in among.items()} | {
        "all": drawn(named("new names"), every), "new": len(new_names()), "learned": len(old), "names": len(every),
        "images": {part: len(named(part).own) for part in ("train", *among)},
    }  # fmt: skip


@experiment(seeds=[0], cpus=HERE)
def pace(seed):
    """Seconds of one core that a step takes: CLIP by the size of its batch, and the classifier of single words."""
    models = {f"CLIP {batch}": (clip(), clip_loss, batch) for batch in (8, 32, 128)}
    models["single words 128"] = (word_tower(), words_loss, 128)
    optimisers = {name: muon(model) for name, (model, *_) in models.items()}
    taken = {name: [] for name in models}
    for _ in range(12):
        for name, (model, loss, batch) in models.items():
            given = next(batches(named("train"), batch, seed))
            start = time.thread_time()
            optimisers[name].zero_grad()
            loss(model, given).backward()
            optimisers[name].step()
            taken[name].append(time.thread_time() - start)
    return {name: sorted(seconds)[len(seconds) // 2] for name, seconds in taken.items()}


# --- what each part does, one at a time


class BagTower(nn.Module):
    """A text tower that knows no order: the mean of the words, and a feed-forward network: ids (M, T) -> (M, E)."""

    def __init__(self, d_model: int = 76, width: int = WIDTH):
        super().__init__()
        self.tokens, self.think = nn.Embedding(len(tokenizer()), d_model), FeedForward(d_model, 4 * d_model)
        self.project = nn.Linear(d_model, width, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        real = (ids != WordTokenizer.padding)[..., None]  # (M, T, 1)
        x = (self.tokens(ids) * real).sum(1) / real.sum(1)  # (M, D)
        return self.project(x + self.think(x))


class RecurrentTower(nn.Module):
    """A text tower of lesson 02's GRU: its state at the end of a text: ids (M, T) -> (M, E)."""

    def __init__(self, d_hidden: int = 100, width: int = WIDTH):
        super().__init__()
        self.tokens, self.read = nn.Embedding(len(tokenizer()), D_MODEL), GRU(D_MODEL, d_hidden)
        self.project = nn.Linear(d_hidden, width, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        states, _ = self.read(self.tokens(ids))  # (M, T, H)
        last = (ids == WordTokenizer.end).int().argmax(dim=1)
        return self.project(states[torch.arange(len(ids), device=ids.device), last])


class NotNormalised(CLIP):
    """A CLIP whose features keep their length: a score is the scaled dot product."""

    def image_features(self, images: Tensor) -> Tensor:
        return self.image(images)

    def text_features(self, ids: Tensor) -> Tensor:
        return self.text(ids)


def changed(change: str) -> CLIP:
    """A CLIP with one thing other than in `live`, untrained."""
    text = {"bag of words": BagTower, "recurrent": RecurrentTower}.get(change, text_tower)()
    if change == "not normalised":  # at first the scale is 1: a product of two features is not bounded by it
        return NotNormalised(image_tower(), text, 1.0)
    fixed = {"temperature 1": 1.0, "temperature 0.07": 0.07, "temperature 0.01": 0.01}
    model = CLIP(image_tower(), text, fixed.get(change, 0.07))
    model.log_scale.requires_grad_(change not in fixed)
    return model


CHANGES = ("temperature 1", "temperature 0.07", "temperature 0.01", "bag of words", "recurrent", "not normalised")


@experiment(each(change=CHANGES), cpus=HERE)
def changes(seed, change):
    """Share of images named rightly by a CLIP with one change: temperature, text tower, features not normalised."""
    model, watched = fitted(made(seed, partial(changed, change)), seed)
    return judged(partial(scored, model)) | {
        "curve": watched, "weights": counted(model), "scale": model.log_scale.exp(),
    }  # fmt: skip


@experiment(cpus=HERE)
def from_one(seed):
    """Share of images named rightly by a CLIP whose temperature is learned, from 1 on."""
    model, watched = fitted(made(seed, lambda: CLIP(image_tower(), text_tower(), 1.0)), seed)
    return judged(partial(scored, model)) | {"curve": watched, "scale": model.log_scale.exp()}


BATCHES = {8: 810, 32: 570}  # steps that take about as many seconds as those of `live`, by `pace`


@experiment(each(batch=[8, 32], steps=[STEPS]) + [{"batch": b, "steps": n} for b, n in BATCHES.items()], cpus=HERE)
def by_batch(seed, batch, steps):
    """Share of images named rightly by the size of a batch, at as many steps as `live` and at as many seconds."""
    model, watched = fitted(made(seed), seed, stream=batches(named("train"), batch, seed), steps=steps)
    return judged(partial(scored, model)) | {"curve": watched, "scale": model.log_scale.exp()}


def grouped_loss(model: nn.Module, batch, group: int) -> Tensor:
    """The loss of a batch in which an image, and a name, choose among those of their own group only; its mean."""
    images, own, right = batch
    scores = model(images, name_ids()[own])
    parts = [slice(n, n + group) for n in range(0, len(own), group)]
    return torch.stack([contrastive_loss(scores[part, part], right[part, part]) for part in parts]).mean()


@experiment(each(group=[8, 32]), cpus=HERE)
def by_group(seed, group):
    """Share of images named rightly by a CLIP with batches of 128, in which each chooses among 8 or 32 names only."""
    model, watched = fitted(made(seed), seed, partial(grouped_loss, group=group))
    return judged(partial(scored, model)) | {"curve": watched, "scale": model.log_scale.exp()}


# A fourth of the images a step, half the rate: the root, as for the noise of a mean. One rate each, chosen beforehand.
@experiment([{"batch": 8, "rate": RATE / 4}, {"batch": 32, "rate": RATE / 2}], cpus=HERE)
def by_rate(seed, batch, rate):
    """Share of images named rightly after small batches at a lower rate, in about as many seconds as `live`."""
    stream = batches(named("train"), batch, seed)
    model, watched = fitted(made(seed), seed, stream=stream, steps=BATCHES[batch], lr=rate)
    return judged(partial(scored, model)) | {"curve": watched, "scale": model.log_scale.exp()}


# --- four times as long


@experiment(each(steps=[4 * STEPS]), range(3), HERE)
def longer(seed, steps):
    """Share of images named rightly by the CLIP of `live` and by the classifier of single words, four times as long."""
    model, watched = fitted(made(seed), seed, steps=steps)
    words, own = words_fitted(seed, steps)
    return {"CLIP": judged(partial(scored, model)) | {"curve": watched},
            "single words": judged(partial(words_scored, words)) | {"curve": own}}  # fmt: skip
