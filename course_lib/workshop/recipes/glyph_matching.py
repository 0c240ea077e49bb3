"""Does this name belong to this picture? One Transformer for both is asked, and CLIP chooses what it is taught with.

    model, _ = learned(Matcher(), pairs(known, rivals(known, among, scores)), match_loss)

The question is ViLBERT's (Lu et al., 2019, section 2.3), the head, one layer upon the first state, UNITER's (Chen et
al., 2020); wrong names that are hard to tell are those that two towers think likely (Li et al., 2021, "ALBEF", section
3.2). Lesson 11, laboratory.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.data.glyph_names import Named
from course_lib.inputs.sequences import reading
from course_lib.multimodal.one_stream import OneStream
from course_lib.text.pairs import PADDING
from course_lib.workshop.recipes.glyph_captions import BATCH, D_MODEL, stream
from course_lib.workshop.recipes.glyph_names import name_ids

# One rate for both kinds of wrong names; others were not tried. RIVALS: wrong names an image, of which one is drawn.
RATE, RIVALS = 0.01, 10


class Matcher(nn.Module):
    """grids (B, 64, 8, 8), ids (B, T), mask bool (B, T) -> logits (B,): is it this picture's name?

    A `OneStream`; the state of the start is read, as BERT's [CLS].
    """

    def __init__(self):
        super().__init__()
        self.both, self.fits = stream(OneStream), nn.Linear(D_MODEL, 1)

    @property
    def blocks(self) -> nn.ModuleList:
        """Its encoder's."""
        return self.both.blocks

    def forward(self, images: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        return self.fits(self.both.encode(images, ids, mask)[0][:, 0])[:, 0]


def rivals(known: Named, among: Tensor, scores: Tensor, k: int = RIVALS) -> Tensor:
    """For each image the k wrong names that score best: places in `names()`, int64 (N, k).

    among: places of the names that may be taken, (M,); scores (N, M), of any sort: random ones draw at random.
    Raises ValueError where an image has fewer than k wrong names.
    """
    wrong = ~known.right[:, among]
    if (wrong.sum(dim=1) < k).any():
        raise ValueError(f"{k} wrong names for each image are asked for, and some have fewer among {len(among)}.")
    return among[scores.masked_fill(~wrong, -torch.inf).topk(k, dim=1).indices]


def words_of(places: Tensor) -> tuple[Tensor, Tensor]:
    """The ids of names at these places in `names()`, (N, T), and which are no padding."""
    ids = name_ids()[places]
    return ids, ids != PADDING


def pairs(known: Named, wrong: Tensor, batch: int = BATCH, seed: int = 0) -> Iterator[tuple]:
    """Endless batches: grids (2B, 64, 8, 8), ids (2B, T), mask (2B, T), fits (2B,) of 1 and 0.

    Each image stands there twice: with its own name, and with one of its wrong ones, (N, K), drawn anew each time.
    """
    generator = torch.Generator().manual_seed(seed)
    while True:
        for some in torch.randperm(len(known.own), generator=generator).split(batch):
            if len(some) == batch:
                drawn = torch.randint(wrong.shape[1], (batch, 1), generator=generator)
                ids, mask = words_of(torch.cat([known.own[some], wrong[some].gather(1, drawn)[:, 0]]))
                fits = torch.cat([torch.ones(batch), torch.zeros(batch)])
                yield known.images[some].repeat(2, 1, 1, 1), ids, mask, fits


def match_loss(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
    """Nats a pair, for `fit`: log 2 for who guesses."""
    images, ids, mask, fits = batch
    return F.binary_cross_entropy_with_logits(model(images, ids, mask), fits)


@torch.no_grad()
def matched(model: nn.Module, images: Tensor, names_of: Tensor) -> Tensor:
    """A logit for each image with each of its names: grids (N, 64, 8, 8), places in `names()` (N, K) -> (N, K)."""
    with reading(model):
        columns = []
        for places in names_of.unbind(dim=1):
            parts = zip(images.split(500), *(part.split(500) for part in words_of(places)), strict=True)
            columns.append(torch.cat([model(*part) for part in parts]))
    return torch.stack(columns, dim=1)
