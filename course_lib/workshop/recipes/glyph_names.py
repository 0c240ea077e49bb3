"""How lesson 11's models of images and names are made and trained: the words of a name, sizes, optimiser, loss.

tokens = tokenizer()
model, history = learned(clip(), batches(named("train"), BATCH), clip_loss, steps=STEPS)
"""

from functools import cache, partial

import torch
from torch import Tensor, nn

from course_lib.data.glyph_names import Named, hits, named, names
from course_lib.data.glyphs import SIDE
from course_lib.inputs.sequences import reading
from course_lib.multimodal.clip import CLIP, TextTower
from course_lib.multimodal.contrastive import contrastive_loss, diagonal
from course_lib.text.tokenizers import WordTokenizer
from course_lib.train import cosine, fit
from course_lib.vision.convnet import ConvLayer
from course_lib.workshop.recipes.scenes import ScenesMuon

CPU = torch.device("cpu")  # models this small are no faster on a GPU
BATCH, STEPS = 128, 250
# Two settings were tried, one seed each, 250 steps, by the share of 100 validation names that are named rightly and of
# validation faces among all learned names: channels 16, 32, 64 with two blocks (0.82, 0.53), 8, 16, 64 with one (0.84,
# 0.44) in two thirds of the time. No other rate than this was tried.
WIDTH, CHANNELS, D_MODEL, N_HEADS, N_LAYERS = 64, (8, 16, 64), 64, 4, 1
RATE, SHARE = 0.02, 0.15
schedule = partial(cosine, warmup=20)


@cache
def tokenizer() -> WordTokenizer:
    """The words of the training names, a comma among them: LATIN, SMALL, LETTER, E, WITH, ACUTE ..."""
    return WordTokenizer(sorted({row.name for row in named("train").rows}))


@cache
def name_ids() -> Tensor:
    """Every name of `names()` in words: ids int64 (V, T), start before and end behind, then padding."""
    return tokenizer().batch(names(), start=True, end=True)[0]


def image_tower(width: int = WIDTH) -> nn.Sequential:
    """Lesson 09's convolutions, half the side from stage to stage, and a layer that sees all places: -> (B, width).

    Of lesson 09's networks it names most letters in faces never seen, in half the time of the others (`all_places`).
    """
    layers, before = [], 1
    for own in CHANNELS:
        layers += [ConvLayer(before, own, stride=2), ConvLayer(own, own)]
        before = own
    side = SIDE // 2 ** len(CHANNELS)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * side**2, width))


def text_tower(width: int = WIDTH) -> TextTower:
    """The Transformer that reads names."""
    return TextTower(len(tokenizer()), name_ids().shape[1], D_MODEL, N_HEADS, N_LAYERS, width, WordTokenizer.end)


def clip() -> CLIP:
    """A CLIP for glyphs and their names, untrained."""
    return CLIP(image_tower(), text_tower())


def clip_loss(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor], index: bool = False) -> Tensor:
    """The contrastive loss of a batch of `glyph_names.batches`, for `fit`; index: the diagonal alone is right."""
    images, own, right = batch
    scores = model(images, name_ids()[own].to(own.device))
    return contrastive_loss(scores, diagonal(scores) if index else right)


def muon(model: nn.Module) -> ScenesMuon:
    """Muon with three rounds for matrices of blocks and for windows, AdamW for the rest at SHARE of the rate."""
    return ScenesMuon(model, SHARE, rounds=3)


def learned(model: nn.Module, batches, loss, steps: int, **how):
    """The model, trained for so many steps on the CPU, and its `History`; how: what else `fit` takes."""
    how = {"lr": RATE, "optimiser": muon} | how
    return model, fit(model, batches, loss, steps=steps, schedule=schedule, device=CPU, progress=False, **how)


@torch.no_grad()
def features(model: nn.Module, of: str, asked: Tensor, at_once: int = 500) -> Tensor:
    """`image_features` or `text_features` of many, read in eval mode, some at a time: (N, ...) -> (N, E)."""
    with reading(model):
        return torch.cat([getattr(model, f"{of}_features")(some) for some in asked.split(at_once)])


def scored(model: nn.Module, known: Named, among: Tensor) -> Tensor:
    """Cosines of images with the names at these places, (M,) -> (N, M)."""
    return features(model, "image", known.images) @ features(model, "text", name_ids()[among]).T


def candidates(known: Named) -> Tensor:
    """The names that are right for some image of a part: their places in `names()`, (M,)."""
    return known.right.any(dim=0).nonzero().flatten()


def share_right(model: nn.Module, known: Named, among: Tensor | None = None, k: int = 1) -> float:
    """The share of images for which a right name is among the k best of `among`, of the part's names where None."""
    among = candidates(known) if among is None else among
    return hits(scored(model, known, among), known.right[:, among], k).double().mean().item()
