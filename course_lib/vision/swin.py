"""The Swin Transformer: attention within windows, on grids that become coarser stage by stage. Lesson 12.

    z_0 = norm(patches E);   a stage: blocks that look within windows, every second one shifted
    between two stages: 2 x 2 places become one, twice as wide
    logits = mean over the places of norm(z) W   (Liu et al., 2021, section 3.1 and figure 3)

Shapes: B batch, C channels, P side of a patch, h and w the grid of a stage, N = h w places, D d_model of the stage,
which is twice that of the stage before, M side of a window, K n_classes.
"""

from dataclasses import dataclass

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.attention.block import ACTIVATIONS, check_activation
from course_lib.attention.norms import LayerNorm
from course_lib.inputs.shapes import check_same_shapes, check_shapes
from course_lib.vision.images import image_batch
from course_lib.vision.patches import PatchEmbedding
from course_lib.vision.windows import window_blocks
from course_lib.weights.bert_weights import check_class
from course_lib.weights.swin_weights import from_swin


@dataclass(frozen=True)
class SwinConfig:
    """The sizes of a `Swin`. image_size is the side of a square or (height, width); d_model that of the first stage.

    depths: how many blocks each stage has; heads: how many heads; side: that of a window, in places; activation is a
    name in `block.ACTIVATIONS`; eps that of the norms in blocks and at the end. Raises ValueError for what does not fit
    together: nothing is padded, so patches must fill the image, and a grid that is merged is even.
    """

    image_size: int | tuple[int, int]
    patch_size: int
    n_classes: int
    d_model: int
    depths: tuple[int, ...]
    heads: tuple[int, ...]
    side: int = 7
    channels: int = 3
    dropout: float = 0.0
    activation: str = "gelu"
    eps: float = 1e-5

    def __post_init__(self):
        _check_config(self)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of an image."""
        return (self.image_size, self.image_size) if isinstance(self.image_size, int) else tuple(self.image_size)

    @property
    def stages(self) -> list[tuple[tuple[int, int], int]]:
        """The grid and the width of each stage: half as high and wide, and twice as deep, as the one before."""
        h, w = (length // self.patch_size for length in self.size)
        return [((h // 2**s, w // 2**s), self.d_model * 2**s) for s in range(len(self.depths))]


def swin_parameter_count(config: SwinConfig) -> int:
    """How many numbers a `Swin` learns: its ends, and for each stage of width D its blocks and the way to the next.

        (C P^2 + 3) D_1 + sum over stages of L (12 D^2 + 13 D + (2 M - 1)^2 H) + sum over all but the last of
        8 (D^2 + D) + (K + 2) D_S + K

    Table 1 of Liu et al. (2021) says 29, 50 and 88 million for Swin-T, Swin-S and Swin-B; this says 28.3, 49.6, 87.8.
    """
    count, last = (config.channels * config.patch_size**2 + 3) * config.d_model, config.stages[-1][1]
    for (grid, D), depth, heads in zip(config.stages, config.depths, config.heads, strict=True):
        count += depth * (12 * D**2 + 13 * D + (2 * min(config.side, *grid) - 1) ** 2 * heads)
    count += sum(8 * (D**2 + D) for _, D in config.stages[:-1])
    return count + (config.n_classes + 2) * last + config.n_classes


class PatchMerging(nn.Module):
    """2 x 2 neighbours side by side, a norm, and a matrix: norm([x_00, x_10, x_01, x_11]) W (Liu et al., 2021, 3.1).

    x (B, h w, D), the places of the grid row by row -> (B, h w / 4, 2 D). Raises ValueError for a grid that is odd, and
    for x of other shapes.
    """

    def __init__(self, d_model: int, grid: tuple[int, int]):
        super().__init__()
        _check_even(grid)
        self.d_model, self.grid = d_model, tuple(grid)
        self.norm, self.narrow = LayerNorm(4 * d_model), nn.Linear(4 * d_model, 2 * d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h, w = self.grid
        check_shapes("PatchMerging", x=(x, f"B {h * w} {self.d_model}"))
        x = x.unflatten(1, (h, w))  # (B, h, w, D)
        four = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]  # each (B, h/2, w/2, D)
        return self.narrow(self.norm(torch.cat(four, dim=-1).flatten(1, 2)))  # (B, h w / 4, 2 D)


class Swin(nn.Module):
    """A classifier of images whose blocks look within windows, on ever coarser grids (Liu et al., 2021, section 3).

    images (B, C, H, W), or (B, H, W) for one channel -> logits (B, K). `record.capture` hears
    "stages.*.*.attention.weights", (B n, heads, M M, M M). Matrices begin as in the paper's code, N(0, 0.02),
    tables of offsets at 0. The paper drops whole blocks while it trains (stochastic depth); this does not, and what was
    learned so is read alike. Raises ValueError or TypeError, in words, for images of another size or of other channels.
    """

    def __init__(self, config: SwinConfig):
        super().__init__()
        self.config, (_, last) = config, config.stages[-1]
        self.embed = PatchEmbedding(config.channels, config.patch_size, config.d_model)  # E
        self.norm_embed, self.dropout = LayerNorm(config.d_model), nn.Dropout(config.dropout)
        sizes = {"dropout": config.dropout, "activation": ACTIVATIONS[config.activation]}
        self.stages = nn.ModuleList(
            window_blocks(D, heads, grid, config.side, depth, **sizes)
            for (grid, D), depth, heads in zip(config.stages, config.depths, config.heads, strict=True)
        )
        self.merges = nn.ModuleList(PatchMerging(D, grid) for grid, D in config.stages[:-1])
        self.norm, self.head = LayerNorm(last, config.eps), nn.Linear(last, config.n_classes)
        for part in self.modules():
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=0.02)
                if part.bias is not None:
                    nn.init.zeros_(part.bias)
        for part in self.stages.modules():
            if isinstance(part, LayerNorm):
                part.eps = config.eps

    @property
    def blocks(self) -> nn.ModuleList:
        """The stages, by the name that blocks have in `GPT`: so `muon.split` finds them."""
        return self.stages

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.encode(images).mean(dim=1))  # (B, K)

    def encode(self, images: Tensor) -> Tensor:
        """What stands at the places of the last stage: (B, N of it, D of it). Raises as the class does."""
        images = image_batch(images, self.config.channels, self.head.weight)
        _check_size(self.config, images)
        x = self.dropout(self.norm_embed(self.embed(images)))  # (B, N, D)
        for number, stage in enumerate(self.stages):
            x = self.merges[number - 1](x) if number else x  # (B, N / 4, 2 D)
            for block in stage:
                x = block(x)
        return self.norm(x)

    @classmethod
    def from_hf(cls, model) -> "Swin":
        """Our Swin with the weights of Hugging Face's SwinForImageClassification: the same logits.

        Theirs drops whole blocks while it trains, ours never. Raises TypeError for another model, ValueError for one
        that computes what ours does not: it pads, or has a feed-forward network of another width.
        """
        check_class("SwinForImageClassification", model)
        sizes, weights = from_swin(model.config.to_dict(), model.state_dict())
        ours = cls(SwinConfig(**sizes)).to(weights["head.weight"])
        check_same_shapes("Swin", dict(ours.named_parameters()), weights)
        ours.load_state_dict(weights)
        return ours.train(model.training)


def _check_config(config: SwinConfig) -> None:
    factor = config.patch_size * 2 ** (len(config.depths) - 1)
    if any(side % factor for side in config.size):
        raise ValueError(
            f"Patches of {config.patch_size} and {len(config.depths)} stages, each of half the grid, need images whose "
            f"sides are multiples of {factor}, for nothing is padded; got {config.size}."
        )
    check_activation(config.activation)


def _check_even(grid: tuple[int, int]) -> None:
    if grid[0] % 2 or grid[1] % 2:
        raise ValueError(f"PatchMerging joins 2 x 2 places: its grid is (rows, columns), both even; got {grid}.")


def _check_size(config: SwinConfig, images: Tensor) -> None:
    if images.shape[-2:] != config.size:
        (H, W), (height, width) = config.size, images.shape[-2:]
        raise ValueError(f"This model was made for images of {H} x {W}, and these are {height} x {width}.")


# Section 3.3 of Liu et al. (2021): how wide, how many blocks; with a head for ImageNet's 1,000 classes.
SWIN_PUBLISHED = {
    "Tiny": SwinConfig(224, 4, 1000, 96, (2, 2, 6, 2), (3, 6, 12, 24)),
    "Small": SwinConfig(224, 4, 1000, 96, (2, 2, 18, 2), (3, 6, 12, 24)),
    "Base": SwinConfig(224, 4, 1000, 128, (2, 2, 18, 2), (4, 8, 16, 32)),
}
