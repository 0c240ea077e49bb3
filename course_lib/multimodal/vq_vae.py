"""An image as a few whole numbers, and back: convolutions down, a quantiser, convolutions up. Lesson 18.

Shapes: B batch, C channels, H, W height and width, h, w the grid of codes, n = h w codes an image, E width of a code.
Batch first, always.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.inputs.sequences import visible
from course_lib.inputs.shapes import check_shapes
from course_lib.multimodal.quantiser import Quantiser, nearest_code
from course_lib.vision.convnet import ConvLayer


class VQVAE(nn.Module):
    """Images as codes (van den Oord et al., 2017, section 3): images (B, C, H, W) -> logits (B, C, H, W), ids, loss.

    Each stage halves the height and width and doubles the channels; so does the decoder backwards. ids (B, n) are the
    codes, row by row; the third result is the quantiser's loss. Ink is from 0 to 1, and a logit says how likely a pixel
    is inked. Raises ValueError or TypeError, in words, for images whose sides the stages do not divide.
    """

    def __init__(self, n_codes: int, code_width: int, width: int, n_stages: int = 3, channels: int = 1):
        super().__init__()
        sizes = [width * 2**stage for stage in range(n_stages)]
        down, up, before = [], [], channels
        for own in sizes:
            down.append(ConvLayer(before, own, stride=2))
            before = own
        for own in [*sizes[-2::-1], width]:
            up += [nn.Upsample(scale_factor=2), ConvLayer(before, own)]
            before = own
        last = sizes[-1]
        self.encoder = nn.Sequential(*down, ConvLayer(last, last), nn.Conv2d(last, code_width, 1))
        self.quantiser = Quantiser(n_codes, code_width)
        self.decoder = nn.Sequential(nn.Conv2d(code_width, last, 1), ConvLayer(last, last), *up,
                                     nn.Conv2d(width, channels, 3, padding=1))  # fmt: skip
        self.channels, self.n_stages = channels, n_stages

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        vectors = self.vectors(images)  # (B, h, w, E)
        quantised, ids, loss = self.quantiser(vectors)
        return self.decoder(quantised.permute(0, 3, 1, 2)), ids.flatten(1), loss

    def vectors(self, images: Tensor) -> Tensor:
        """The encoder's vector at each position, before a code replaces it: (B, h, w, E)."""
        check_shapes(type(self).__name__, images=(images, f"B {self.channels} H+ W+"))
        _check_sides(images, 2**self.n_stages)
        return self.encoder(images).permute(0, 2, 3, 1)

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        """The codes of images, row by row: (B, C, H, W) -> whole numbers (B, n). In training too it counts none."""
        return nearest_code(self.vectors(images), self.quantiser.codes).flatten(1)

    @torch.no_grad()
    def paint(self, ids: Tensor) -> Tensor:
        """The image that codes stand for: whole numbers (B, h, w), or (B, n) for a square -> ink (B, C, H, W)."""
        codes = self.quantiser.codes
        side = _check_ids(ids, len(codes))
        grid = ids if ids.ndim == 3 else ids.unflatten(1, (side, side))
        return self.decoder(codes[grid].permute(0, 3, 1, 2)).sigmoid()

    def loss(self, images: Tensor, per_pixel: float = 10.0) -> Tensor:
        """What training lessens: the cross-entropy of a pixel's ink, nats times per_pixel, and the quantiser's loss."""
        logits, _, quantising = self(images)
        return per_pixel * F.binary_cross_entropy_with_logits(logits, images) + quantising


def _check_sides(images: Tensor, multiple: int) -> None:
    if images.shape[-2] % multiple or images.shape[-1] % multiple:
        raise ValueError(
            f"This VQVAE halves height and width until one code stands for {multiple} x {multiple} pixels: both must "
            f"be multiples of {multiple}; got {tuple(images.shape)}."
        )


def _check_ids(ids: Tensor, n_codes: int) -> int:
    if not isinstance(ids, Tensor) or ids.dtype != torch.long or ids.ndim not in (2, 3):
        raise TypeError("VQVAE.paint needs codes as whole numbers (B, n) or (B, h, w), a tensor of int64.")
    if 0 in ids.shape[1:]:
        raise ValueError(f"An image has a code or more; got codes of the shape {tuple(ids.shape)}.")
    side = round(ids.shape[1] ** 0.5)
    if ids.ndim == 2 and side**2 != ids.shape[1]:
        raise ValueError(f"{ids.shape[1]} codes are no square: give them as (B, h, w).")
    if visible(ids) and ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < n_codes:
        raise ValueError(f"The codes are 0 to {n_codes - 1}; got {int(ids.min())} to {int(ids.max())}.")
    return side
