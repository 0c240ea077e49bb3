"""The Vision Transformer: an image is read as a sentence of patches, by the blocks of lesson 06. Lesson 09.

    z_0 = [x_class; patch_1 E; ... ; patch_N E] + places,   z_l = block(z_(l-1)),   logits = head(norm(z_L)[0])
    (Dosovitskiy et al., 2021, section 3.1, equations 1 to 4; norms before the parts of a block)

Shapes: B batch, C channels, H height, W width, P side of a patch, h and w the grid, N = h w patches, D d_model,
F d_ff, L n_layers, K n_classes. Batch first, always. Attention maps are (B, heads, 1 + N, 1 + N), [CLS] first.
"""

import copy
from dataclasses import dataclass, replace

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.attention.block import ACTIVATIONS, Encoder, check_blocks
from course_lib.attention.norms import LayerNorm
from course_lib.inputs.shapes import check_shapes
from course_lib.vision.images import image_batch
from course_lib.vision.patches import PatchEmbedding, grid_of, only_seen, pad_to_patches, resize_places
from course_lib.weights.hf_activations import HF_ACTIVATIONS


@dataclass(frozen=True)
class ViTConfig:
    """The sizes of a `ViT`. image_size is the side of a square or (height, width); d_ff is 4 d_model where None.

    pad: an image that whole patches do not fill gets zeros below and to the right; without it, it is refused.
    activation is a name in `block.ACTIVATIONS`; eps is the norms'. Raises ValueError for what does not fit together.
    """

    image_size: int | tuple[int, int]
    patch_size: int
    n_classes: int
    d_model: int
    n_heads: int
    n_layers: int
    channels: int = 3
    dropout: float = 0.0
    d_ff: int | None = None
    activation: str = "gelu"
    eps: float = 1e-6
    pad: bool = False

    def __post_init__(self):
        _check_config(self)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of an image."""
        return (self.image_size, self.image_size) if isinstance(self.image_size, int) else tuple(self.image_size)

    @property
    def grid(self) -> tuple[int, int]:
        """How many patches an image has, down and across."""
        return grid_of(*self.size, self.patch_size)


def parameter_count(config: ViTConfig) -> int:
    """How many numbers a `ViT` learns: its ends, and about 12 D^2 a layer.

        (C P^2 + 1) D + D + (1 + N) D + L (4 D^2 + 2 D F + 9 D + F) + 2 D + (D + 1) K,   F = 4 D

    Table 1 of Dosovitskiy et al. (2021) says 86, 307 and 632 million for Base, Large and Huge. With 1,000 classes and
    images of 224 x 224 Base has 86.6 with patches of 16, Huge 632.0 with patches of 14. Large has 304.3 with patches
    of 16; with patches of 32 it has 306.5.
    """
    D, d_ff, (h, w) = config.d_model, 4 * config.d_model if config.d_ff is None else config.d_ff, config.grid
    embedding = (config.channels * config.patch_size**2 + 1) * D
    attention = 4 * (D + 1) * D
    feed_forward = (D + 1) * d_ff + (d_ff + 1) * D
    norm = 2 * D
    ends = embedding + D + (1 + h * w) * D + norm + (D + 1) * config.n_classes
    return ends + config.n_layers * (attention + feed_forward + 2 * norm)


class ViT(nn.Module):
    """A classifier of images made of `Block`s that look at all patches (Dosovitskiy et al., 2021, section 3.1).

    images (B, C, H, W), or (B, H, W) for one channel -> logits (B, K). `record.capture` hears
    "encoder.blocks.*.attention.weights", (B, heads, 1 + N, 1 + N). embed: what makes patches of images, (B, C, H, W) ->
    (B, N, D), in place of `PatchEmbedding`; `ConvStem` is one. Begins as the paper's own code does: places N(0, 0.02),
    [CLS] and head 0, the matrices of the blocks Xavier's. Dropout falls on the embedding and on each term of a block.
    Raises ValueError or TypeError, in words, for images of another size, of other channels, none at all, whole numbers.
    """

    def __init__(self, config: ViTConfig, embed: nn.Module | None = None):
        super().__init__()
        self.config, D, (h, w) = config, config.d_model, config.grid
        self.embed = PatchEmbedding(config.channels, config.patch_size, D) if embed is None else embed  # E
        self.cls = nn.Parameter(torch.zeros(D))  # x_class
        self.places = nn.Parameter(0.02 * torch.randn(1 + h * w, D))  # [CLS]'s first, then row by row
        self.dropout = nn.Dropout(config.dropout)
        sizes = {"d_ff": config.d_ff, "dropout": config.dropout, "activation": ACTIVATIONS[config.activation]}
        self.encoder = Encoder(D, config.n_heads, config.n_layers, pre_norm=True, **sizes)
        self.head = nn.Linear(D, config.n_classes)
        for part in self.encoder.modules():
            if isinstance(part, LayerNorm):
                part.eps = config.eps
            elif isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                nn.init.zeros_(part.bias)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @property
    def blocks(self) -> nn.ModuleList:
        """The encoder's, by the name that they have in `GPT`: so `muon.split` finds them."""
        return self.encoder.blocks

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.encode(images)[:, 0])  # (B, K): what [CLS] has gathered

    def encode(self, images: Tensor, seen: Tensor | None = None) -> Tensor:
        """What stands behind the last block, [CLS] first: (B, 1 + N, D).

        seen: whole numbers (B, n), the patches of each image that are read; the others are left out, with their
        places, as a masked autoencoder does it, -> (B, 1 + n, D). Raises as the class and `only_seen` do.
        """
        images = image_batch(images, self.config.channels, self.places)
        _check_size(self.config, images)
        images = pad_to_patches(images, self.config.patch_size) if self.config.pad else images
        x = self.embed(images)  # (B, N, D)
        check_shapes("ViT", embedded=(x, f"any B {len(self.places) - 1} {self.places.shape[1]}"))
        x = x + self.places[1:]
        x = x if seen is None else only_seen(x, seen)  # (B, n, D)
        cls = (self.cls + self.places[0]).expand(len(x), 1, -1)  # (B, 1, D)
        return self.encoder(self.dropout(torch.cat([cls, x], dim=1)))

    def resized(self, image_size: int | tuple[int, int], mode: str = "bicubic") -> "ViT":
        """A copy that reads images of another size: `resize_places` makes its places, the other weights are these.

        Raises ValueError for a size that whole patches do not fill, where the config does not pad.
        """
        ours = copy.deepcopy(self)
        ours.config = replace(self.config, image_size=image_size)
        places = resize_places(self.places.detach(), self.config.grid, ours.config.grid, mode=mode)
        ours.places = nn.Parameter(places.clone())
        return ours

    @classmethod
    def from_hf(cls, model) -> "ViT":
        """Our ViT with the weights of Hugging Face's ViTForImageClassification: the same logits.

        Where theirs has no biases for queries, keys and values, ours has zeros. Theirs may drop attention weights too,
        ours never does. Raises TypeError for another model, ValueError for one that computes what ours does not.
        """
        config = _check_copied(model)
        theirs, ours = model.vit, cls(config).to(model.vit.embeddings.cls_token)
        ours.embed = PatchEmbedding.from_convolution(theirs.embeddings.patch_embeddings.projection)
        with torch.no_grad():
            ours.cls.copy_(theirs.embeddings.cls_token[0, 0])
            ours.places.copy_(theirs.embeddings.position_embeddings[0])
            norms = [(ours.encoder.norm, theirs.layernorm)]
            linears = [(ours.head, model.classifier)]
            for own, other in zip(ours.encoder.blocks, theirs.layers, strict=True):
                norms += [(own.norm_1, other.layernorm_before), (own.norm_2, other.layernorm_after)]
                heads, parts = own.attention, other.attention
                linears += [(heads.w_q, parts.q_proj), (heads.w_k, parts.k_proj), (heads.w_v, parts.v_proj)]
                linears += [(heads.w_o, parts.o_proj), (own.feed_forward.w_1, other.mlp.fc1)]
                linears += [(own.feed_forward.w_2, other.mlp.fc2)]
            for own, other in linears:
                own.weight.copy_(other.weight)
                own.bias.zero_() if other.bias is None else own.bias.copy_(other.bias)
            for own, other in norms:
                own.gain.copy_(other.weight)
                own.shift.copy_(other.bias)
        return ours.train(model.training)


def _check_config(config: ViTConfig) -> None:
    check_blocks(config)
    (H, W), P = config.size, config.patch_size
    if not config.pad and (H % P or W % P):
        raise ValueError(
            f"Whole patches of {P} x {P} do not fill an image of {H} x {W}: choose a patch that divides both sides, or "
            "build the config with pad=True, which adds zeros below and to the right."
        )


def _check_size(config: ViTConfig, images: Tensor) -> None:
    if images.shape[-2:] != config.size:
        (H, W), (height, width) = config.size, images.shape[-2:]
        raise ValueError(
            f"This model was made for images of {H} x {W}, and these are {height} x {width}: "
            f"model.resized(({height}, {width})) is a copy with its places interpolated."
        )


def _check_copied(model) -> ViTConfig:
    """The configuration of ours that computes the same."""
    from transformers import ViTForImageClassification

    if not isinstance(model, ViTForImageClassification) or not isinstance(model.classifier, nn.Linear):
        raise TypeError(
            "ViT.from_hf copies a transformers.ViTForImageClassification with a classifier; got "
            f"{type(model).__name__}."
        )
    theirs = model.config
    sizes = (theirs.image_size, theirs.patch_size)
    sides, patch = (tuple(size) if isinstance(size, (list, tuple)) else (size, size) for size in sizes)
    if len({*patch}) > 1 or any(side % patch[0] for side in sides):
        raise ValueError(f"ViT.from_hf copies square patches that fill the image; got {patch} for {sides}.")
    if theirs.hidden_act not in HF_ACTIVATIONS:
        raise ValueError(f"ViT.from_hf knows the activations {', '.join(HF_ACTIVATIONS)}; got {theirs.hidden_act!r}.")
    return ViTConfig(
        sides,
        patch[0],
        model.classifier.out_features,
        theirs.hidden_size,
        theirs.num_attention_heads,
        theirs.num_hidden_layers,
        theirs.num_channels,
        theirs.hidden_dropout_prob,
        theirs.intermediate_size,
        HF_ACTIVATIONS[theirs.hidden_act],
        theirs.layer_norm_eps,
    )


# Table 1 of Dosovitskiy et al. (2021), with patches of 16, of 14 for Huge, and a head for ImageNet's 1,000 classes.
PUBLISHED = {
    "Base": ViTConfig(224, 16, 1000, 768, 12, 12),
    "Large": ViTConfig(224, 16, 1000, 1024, 16, 24),
    "Huge": ViTConfig(224, 14, 1000, 1280, 16, 32),
}
