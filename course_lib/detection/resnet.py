"""ResNet, the backbone of the published DETR: convolutions whose input is added to what they make of it. Lesson 10.

Shapes: B batch, C channels, H, W height and width, F channels of the last stage, h, w its grid: a 32nd of H and W.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.vision.images import image_batch


class FrozenNorm(nn.Module):
    """Batch norm that has stopped to learn: x * gain + shift, a constant each a channel: (B, C, H, W) -> as x."""

    def __init__(self, channels: int):
        super().__init__()
        self.register_buffer("gain", torch.ones(channels, 1, 1))
        self.register_buffer("shift", torch.zeros(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain + self.shift


def window(channels: int, width: int, side: int, stride: int = 1) -> nn.Sequential:
    """A convolution with windows of side x side, without a bias, and its `FrozenNorm`."""
    return nn.Sequential(nn.Conv2d(channels, width, side, stride, side // 2, bias=False), FrozenNorm(width))


class Residual(nn.Module):
    """relu(shortcut(x) + window(relu(window(x)))) (He et al., 2016, figure 5): (B, C, H, W) -> (B, F, H', W').

    bottleneck: three windows, 1 x 1 to a quarter of the channels, 3 x 3, and 1 x 1 back; else two of 3 x 3. The
    shortcut is x itself, or a window of 1 x 1 where the sizes change.
    """

    def __init__(self, channels: int, width: int, stride: int, bottleneck: bool):
        super().__init__()
        same, inner = channels == width and stride == 1, width // 4 if bottleneck else width
        self.shortcut = nn.Identity() if same else window(channels, width, 1, stride)
        if bottleneck:
            parts = [window(channels, inner, 1), window(inner, inner, 3, stride), window(inner, width, 1)]
        else:
            parts = [window(channels, width, 3, stride), window(width, width, 3)]
        self.windows = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        out = x
        for part in self.windows[:-1]:
            out = F.relu(part(out))
        return F.relu(self.shortcut(x) + self.windows[-1](out))


class ResNet(nn.Module):
    """Stages of `Residual`s, the grid half as high from stage to stage (He et al., 2016): (B, C, H, W) -> (B, F, h, w).

    first: channels of the first window of 7 x 7; widths and depths: channels and `Residual`s of each stage.
    """

    def __init__(
        self, channels: int, first: int, widths: tuple[int, ...], depths: tuple[int, ...], bottleneck: bool = True
    ):
        super().__init__()
        self.first, layers, before = window(channels, first, 7, 2), [], first
        for stage, (own, depth) in enumerate(zip(widths, depths, strict=True)):
            for n in range(depth):
                layers.append(Residual(before, own, 2 if stage and n == 0 else 1, bottleneck))
                before = own
        self.layers, self.channels, self.width = nn.Sequential(*layers), channels, before

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu(self.first(image_batch(images, self.channels, self.first[0].weight)))  # (B, first, H/2, W/2)
        return self.layers(F.max_pool2d(x, 3, 2, 1))

    @classmethod
    def from_hf(cls, model) -> "ResNet":
        """Our ResNet with the weights of the backbone in Hugging Face's DETR: the same last stage.

        Raises TypeError for another model, ValueError for what ours does not compute.
        """
        theirs = _check_copied(model)
        ours = cls(theirs.num_channels, theirs.embedding_size, theirs.hidden_sizes, theirs.depths,
                   theirs.layer_type == "bottleneck").to(next(model.parameters()))  # fmt: skip
        parts = [part for part in ours.modules() if isinstance(part, nn.Sequential) and len(part) == 2
                 and isinstance(part[1], FrozenNorm)]  # fmt: skip
        others = [part for part in model.modules() if hasattr(part, "convolution")]
        with torch.no_grad():
            for (conv, norm), other in zip(parts, others, strict=True):
                conv.weight.copy_(other.convolution.weight)
                frozen = other.normalization
                scale = frozen.weight * (frozen.running_var + 1e-5).rsqrt()
                norm.gain.copy_(scale[:, None, None])
                norm.shift.copy_((frozen.bias - frozen.running_mean * scale)[:, None, None])
        return ours.train(model.training)


def _check_copied(model):
    from transformers import ResNetBackbone

    if not isinstance(model, ResNetBackbone):
        raise TypeError(f"ResNet.from_hf copies a transformers.ResNetBackbone; got {type(model).__name__}.")
    theirs = model.config
    last = theirs.stage_names[-1] in theirs.out_features
    if theirs.hidden_act != "relu" or theirs.downsample_in_first_stage or theirs.downsample_in_bottleneck or not last:
        raise ValueError(
            "ResNet.from_hf copies a ResNet with ReLU that halves its grid in the windows of 3 x 3, between stages, "
            "and hands on its last stage."
        )
    return theirs
