"""DETR: an image goes in, a set of objects comes out, each with a class and a box. Lesson 10.

    memory = encoder(backbone(image)),   x_l = block_l(x_(l-1), memory),   class, box = heads(x_L)
    (Carion et al., 2020, section 3.2 and figure 2; x_0 = 0; positions are added to queries and keys, not to values)

Shapes: B batch, C channels, H, W height and width, F channels of the backbone, h, w its grid, S = h w positions, Q
queries, D d_model, K classes; class K is "no object". Batch first. Boxes are centres and sizes, parts of the image's.
"""

import math
from itertools import pairwise

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.block import Block, FeedForward
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.norms import LayerNorm
from course_lib.detection.resnet import ResNet
from course_lib.inputs.shapes import check_shapes
from course_lib.vision.convnet import ConvLayer
from course_lib.vision.images import image_batch


def grid_points(h: int, w: int, at: float = 0.5, dtype=None, device=None) -> Tensor:
    """The positions of a grid's cells, x and y from 0 to 1, row by row: (h w, 2). at: 0.5 is a cell's middle."""
    y, x = ((torch.arange(n, dtype=dtype, device=device) + at) / n for n in (h, w))
    return torch.cartesian_prod(y, x).flip(1)  # (S, 2)


def sine_places(points: Tensor, d_model: int, base: float = 10000.0) -> Tensor:
    """Lesson 05's sines on two axes, half of the width for y, half for x: points (..., 2) from 0 to 1 -> (..., D).

    One turn of the fastest hand is the whole image (appendix A.4). d_model is a multiple of 4.
    """
    check_shapes("sine_places", points=(points, "... 2"))
    _check_width(d_model)
    step = torch.arange(0, d_model // 2, 2, dtype=points.dtype, device=points.device)  # (D/4,)
    angles = 2 * math.pi * points.flip(-1)[..., None] * base ** (-2 * step / d_model)  # (..., 2, D/4): y, then x
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-3)


class Backbone(nn.Module):
    """Lesson 09's convolutions, the grid half as high and wide from width to width: (B, C, H, W) -> (B, F, h, w).

    F is the last of the widths, and a cell of the grid covers `stride` x `stride` pixels.
    """

    def __init__(self, channels: int, widths: tuple[int, ...] = (16, 32, 64)):
        super().__init__()
        layers = [ConvLayer(channels, widths[0])]
        for before, own in pairwise(widths):
            layers += [ConvLayer(before, own, stride=2), ConvLayer(own, own)]
        self.layers = nn.Sequential(*layers)
        self.channels, self.width, self.stride = channels, widths[-1], 2 ** (len(widths) - 1)

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(image_batch(images, self.channels, self.layers[0].window.weight))


class PlacedAttention(MultiHead):
    """`MultiHead` with positional encodings: q = (x + p) W_q, k = (m + p_m) W_k, v = m W_v.

    x (B, T, D) and its positions; memory (B, S, D) and its positions, x and its own where None; bias of shape
    (B, H, T, S), added to the scores, or None -> (B, T, D).
    """

    def forward(self, x, places, memory=None, memory_places=None, bias=None):
        memory, memory_places = (x, places) if memory is None else (memory, memory_places)
        q = self.split(self.w_q(x + places))  # (B, H, T, d_k)
        k, v = self.split(self.w_k(memory + memory_places)), self.split(self.w_v(memory))  # (B, H, S, d_k)
        return self.w_o(self.heads(q, k, v, bias=bias).transpose(1, 2).flatten(2))  # (B, T, D)


class PlacedBlock(Block):
    """Lesson 06's block of `PlacedAttention`: self-attention, cross-attention if it has a cross, feed-forward."""

    def forward(self, x, places, memory=None, memory_places=None, bias=None):
        x = self.norm_1(x + self.dropout(self.attention(x, places)))
        if self.cross is not None:
            x = self.norm_cross(x + self.dropout(self.cross(x, places, memory, memory_places, bias)))
        return self.norm_2(x + self.dropout(self.feed_forward(x)))

    @classmethod
    def from_sizes(cls, d_model: int, n_heads: int, d_ff: int, cross: bool = False, dropout: float = 0.0):
        """The block of the usual parts, with attention to a memory where cross is True."""
        own, memory = PlacedAttention(d_model, n_heads), PlacedAttention(d_model, n_heads) if cross else None
        return cls(own, FeedForward(d_model, d_ff), memory, dropout=dropout)


class Queries(nn.Module):
    """Object queries: a learned vector each, as in the paper -> positions (Q, D), tied to no point."""

    def __init__(self, n_queries: int, d_model: int):
        super().__init__()
        self.places = nn.Parameter(torch.randn(n_queries, d_model))

    def forward(self, grid: Tensor) -> tuple[Tensor, Tensor | None, Tensor | float]:
        """grid (S, 2) -> positions (Q, D), what is added to the scores of queries and grid, where boxes begin."""
        return self.places, None, 0.0


class Anchors(nn.Module):
    """Object queries with a learned point each, encoded by its sines (Wang et al., 2022, section 3).

    They begin on a grid. near: each head adds -(distance / width)^2 to the scores, its width learned, so that a query
    first attends around its point.
    """

    def __init__(self, n_queries: int, d_model: int, n_heads: int, near: bool = True):
        super().__init__()
        rows = math.ceil(math.sqrt(n_queries))
        points = grid_points(rows, math.ceil(n_queries / rows))[:n_queries]
        self.points = nn.Parameter(points.logit())  # (Q, 2), before the sigmoid
        self.widths = nn.Parameter(torch.full((n_heads,), 0.1).log()) if near else None  # parts of the image
        self.turn = nn.Linear(d_model, d_model)
        self.d_model = d_model

    def forward(self, grid: Tensor) -> tuple[Tensor, Tensor | None, Tensor | float]:
        """As `Queries`: positions (Q, D), bias (H, Q, S) or None, and points as a box's logits, (Q, 4)."""
        points = self.points.sigmoid()  # (Q, 2)
        apart = (points[:, None] - grid).square().sum(-1)  # (Q, S)
        bias = None if self.widths is None else -apart / self.widths.exp().square()[:, None, None]  # (H, Q, S)
        return self.turn(sine_places(points, self.d_model)), bias, F.pad(self.points, (0, 2))


class DETR(nn.Module):
    """Backbone, encoder, decoder, heads (Carion et al., 2020, figure 2): a set of Q classes and boxes for each image.

    backbone: images (B, C, H, W) -> (B, F, h, w), with F = its `width`; queries: `Queries` or `Anchors`.
    images -> logits (B, Q, K + 1), boxes (B, Q, 4). `layers` gives those of every decoder block, for auxiliary losses.
    `record.capture` records "decoder.*.cross.weights" (B, H, Q, S) and "decoder.*.attention.weights" (B, H, Q, Q).
    Norms come after the parts of a block, as in the paper. Raises ValueError or TypeError, in words, for images
    as `image_batch` does.
    """

    def __init__(
        self,
        backbone: nn.Module,
        queries: nn.Module,
        n_classes: int,
        d_model: int = 64,
        n_heads: int = 4,
        n_encoder: int = 0,
        n_decoder: int = 2,
        d_ff: int | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        d_ff = 4 * d_model if d_ff is None else d_ff
        self.backbone, self.project = backbone, nn.Conv2d(backbone.width, d_model, kernel_size=1)
        self.queries, self.d_model, self.at = queries, d_model, 0.5
        sizes = {"d_ff": d_ff, "dropout": dropout}
        self.encoder = nn.ModuleList(PlacedBlock.from_sizes(d_model, n_heads, **sizes) for _ in range(n_encoder))
        sizes["cross"] = True
        self.decoder = nn.ModuleList(PlacedBlock.from_sizes(d_model, n_heads, **sizes) for _ in range(n_decoder))
        self.norm, self.naming = LayerNorm(d_model), nn.Linear(d_model, n_classes + 1)
        inner = [part for _ in range(2) for part in (nn.Linear(d_model, d_model), nn.ReLU())]
        self.placing = nn.Sequential(*inner, nn.Linear(d_model, 4))

    @property
    def blocks(self) -> nn.ModuleList:
        """Encoder's and decoder's, by the name that they have in `GPT`: so `muon.split` finds them."""
        return nn.ModuleList([*self.encoder, *self.decoder])

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return self.layers(images)[-1]

    def layers(self, images: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Logits (B, Q, K + 1) and boxes (B, Q, 4) behind each block of the decoder, by the same heads."""
        seen = self.project(self.backbone(images))  # (B, D, h, w)
        grid = grid_points(*seen.shape[2:], self.at, seen.dtype, seen.device)  # (S, 2)
        memory, memory_places = seen.flatten(2).transpose(1, 2), sine_places(grid, self.d_model)  # (B, S, D), (S, D)
        for block in self.encoder:
            memory = block(memory, memory_places)
        places, bias, start = self.queries(grid)  # (Q, D)
        x, found = memory.new_zeros(len(images), *places.shape), []  # (B, Q, D)
        for block in self.decoder:
            x = block(x, places, memory, memory_places, bias)
            out = self.norm(x)
            found.append((self.naming(out), (self.placing(out) + start).sigmoid()))
        return found

    @classmethod
    def from_hf(cls, model) -> "DETR":
        """Our DETR with the weights of Hugging Face's DetrForObjectDetection with a ResNet: the same logits and boxes.

        For images without padding. Raises TypeError for another model, ValueError for what ours does not compute.
        """
        theirs = _check_copied(model)
        queries = Queries(theirs.num_queries, theirs.d_model)
        ours = cls(
            ResNet.from_hf(model.model.backbone.model),
            queries,
            model.class_labels_classifier.out_features - 1,
            theirs.d_model,
            theirs.encoder_attention_heads,
            theirs.encoder_layers,
            theirs.decoder_layers,
            theirs.encoder_ffn_dim,
            theirs.dropout,
        ).to(model.class_labels_classifier.weight)
        ours.at = 1.0  # the paper's code counts its cells from 1 to h, not by their middles
        with torch.no_grad():
            queries.places.copy_(model.model.query_position_embeddings.weight)
            norms = [(ours.norm, model.model.decoder.layernorm)]
            layers = [(ours.project, model.model.input_projection), (ours.naming, model.class_labels_classifier)]
            layers += zip(ours.placing[::2], model.bbox_predictor.layers, strict=True)
            for own, other in zip(ours.blocks, [*model.model.encoder.layers, *model.model.decoder.layers], strict=True):
                looks = [(own.attention, other.self_attn)]
                norms += [(own.norm_1, other.self_attn_layer_norm), (own.norm_2, other.final_layer_norm)]
                if own.cross is not None:
                    looks.append((own.cross, other.encoder_attn))
                    norms.append((own.norm_cross, other.encoder_attn_layer_norm))
                for look, its in looks:
                    layers += [(look.w_q, its.q_proj), (look.w_k, its.k_proj), (look.w_v, its.v_proj)]
                    layers.append((look.w_o, its.o_proj))
                layers += [(own.feed_forward.w_1, other.mlp.fc1), (own.feed_forward.w_2, other.mlp.fc2)]
            for own, other in layers:
                own.load_state_dict(other.state_dict())
            for own, other in norms:
                own.load_state_dict({"gain": other.weight, "shift": other.bias})
        return ours.train(model.training)


def _check_width(d_model: int) -> None:
    if d_model < 4 or d_model % 4:
        raise ValueError(
            f"Half of d_model is for y and half for x, each in pairs of sine and cosine: it must be a multiple of 4; "
            f"got {d_model}."
        )


def _check_copied(model):
    """The configuration of a model that ours can be."""
    from transformers import DetrForObjectDetection

    if not isinstance(model, DetrForObjectDetection):
        raise TypeError(f"DETR.from_hf copies a transformers.DetrForObjectDetection; got {type(model).__name__}.")
    theirs = model.config
    _check_decoder(theirs)
    same = theirs.encoder_ffn_dim == theirs.decoder_ffn_dim
    same = same and theirs.encoder_attention_heads == theirs.decoder_attention_heads
    if theirs.activation_function != "relu" or theirs.position_embedding_type != "sine" or not same:
        raise ValueError(
            "DETR.from_hf copies a model with ReLU, sine places, and the same heads and inner width in encoder and "
            "decoder."
        )
    return theirs


def _check_decoder(theirs) -> None:
    if theirs.auxiliary_loss:
        raise ValueError(
            "With auxiliary_loss=True Hugging Face's decoder norms its states between the blocks too, which the "
            "paper's does not, nor this one. For published weights set model.config.auxiliary_loss = False first."
        )
