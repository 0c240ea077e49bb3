"""A small convolutional network, the Vision Transformer's fair partner, and a stem of convolutions for it. Lesson 09.

Shapes: B batch, C channels, H height, W width, F channels inside, K classes, P side of a patch, N patches, D d_model.
Batch first, always.
"""

from collections.abc import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.inputs.shapes import check_shapes
from course_lib.vision.images import image_batch


class ConvLayer(nn.Module):
    """relu(norm(x * w)): a 3 x 3 window at every place, the same weights everywhere: (B, C, H, W) -> (B, F, H', W').

    With stride s the image shrinks to H' = H / s, rounded up. The norm is over all channels and places of one image
    (group norm with one group; Wu and He, 2018, section 3.1), so an image's answer does not hang on its batch.
    """

    def __init__(self, channels: int, width: int, stride: int = 1):
        super().__init__()
        self.window = nn.Conv2d(channels, width, kernel_size=3, stride=stride, padding=1, bias=False)
        self.norm = nn.GroupNorm(1, width)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.window(x)))


class ConvNet(nn.Module):
    """Pairs of convolutions, half the height and width and twice the channels each time, a mean at the end.

    images (B, C, H, W), or (B, H, W) for one channel -> logits (B, K), for any height and width. The plan is that of
    Simonyan and Zisserman (2015, section 2.1); the mean over all places instead of large layers is Lin et al.'s (2014,
    section 3.2). Stage s has width * 2^s channels. Raises ValueError or TypeError as `image_batch` does.
    """

    def __init__(self, channels: int, n_classes: int, width: int, n_stages: int = 2):
        super().__init__()
        self.channels, layers, before = channels, [], channels
        for stage in range(n_stages):
            own = width * 2**stage
            layers += [ConvLayer(before, own, stride=2 if stage else 1), ConvLayer(own, own)]
            before = own
        self.layers, self.readout = nn.Sequential(*layers), nn.Linear(before, n_classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.layers(image_batch(images, self.channels, self.readout.weight))  # (B, F, H', W')
        return self.readout(x.mean(dim=(2, 3)))  # (B, K)


class ConvStem(nn.Module):
    """Convolutions in place of the patch embedding (Xiao et al., 2021, section 3): images (B, C, H, W) -> (B, N, D).

    Each layer halves the image and doubles the channels, until a place stands for a patch of P pixels; a 1 x 1 window
    brings the width to D. N is as many as patches of P have. Their stem has batch norm; this one has `ConvLayer`'s. P
    is 2, 4, 8, 16 ... Raises ValueError for another P, other channels, and images that whole patches do not fill.
    """

    def __init__(self, channels: int, patch: int, d_model: int, width: int = 16):
        super().__init__()
        _check_power(patch)
        self.channels, self.patch, layers, before = channels, patch, [], channels
        for halving in range(patch.bit_length() - 1):
            layers.append(ConvLayer(before, width * 2**halving, stride=2))
            before = width * 2**halving
        self.layers, self.project = nn.Sequential(*layers), nn.Conv2d(before, d_model, kernel_size=1)

    def forward(self, images: Tensor) -> Tensor:
        _check_fits(images, self.channels, self.patch)
        return self.project(self.layers(images)).flatten(2).transpose(1, 2)  # (B, N, D)


def width_for(n_parameters: int, make: Callable[[int], nn.Module]) -> int:
    """The width at which make(width) comes nearest to so many parameters: so two kinds of model get equal means.

        width_for(40_000, lambda width: ConvNet(1, 10, width))

    The models are built on a device that keeps no numbers. Raises ValueError for fewer parameters than make(1) has.
    """

    def count(width: int) -> int:
        with torch.device("meta"):
            return sum(p.numel() for p in make(width).parameters())

    _check_enough(n_parameters, count(1))
    width = 1
    while count(2 * width) <= n_parameters:
        width *= 2
    step = width
    while step := step // 2:  # the largest width that is not above, bit by bit
        width += step if count(width + step) <= n_parameters else 0
    return min((width, width + 1), key=lambda one: abs(count(one) - n_parameters))


def _check_power(patch: int) -> None:
    if patch < 2 or patch & (patch - 1):
        raise ValueError(f"A stem halves the image again and again: the patch must be 2, 4, 8, 16 ...; got {patch}.")


def _check_fits(images: Tensor, channels: int, patch: int) -> None:
    check_shapes("The stem", images=(images, f"B+ {channels} height+ width+"))
    if images.shape[-2] % patch or images.shape[-1] % patch:
        raise ValueError(f"The sides of an image must be multiples of {patch}; got {tuple(images.shape)}.")


def _check_enough(n_parameters: int, least: int) -> None:
    if n_parameters < least:
        raise ValueError(f"At width 1 this model has {least} parameters already; got n_parameters={n_parameters}.")
