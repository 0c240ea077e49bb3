"""Masked patches: a model sees a quarter of an image and paints the rest. Lesson 09, a look at masked autoencoders.

Shapes: B batch, C channels, P side of a patch, N patches, n those that are seen, D d_model of the ViT, E that of the
decoder. Batch first, always.
"""

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.attention.block import ACTIVATIONS, Encoder
from course_lib.attention.norms import LayerNorm
from course_lib.inputs.sequences import visible
from course_lib.inputs.shapes import check_same_shapes
from course_lib.vision.images import image_batch
from course_lib.vision.patches import pad_to_patches, patchify
from course_lib.vision.vit import ViT, ViTConfig
from course_lib.weights.bert_weights import check_class
from course_lib.weights.mae_weights import from_mae


def draw_seen(batch: int, n_patches: int, hidden: float, generator: torch.Generator | None = None) -> Tensor:
    """Which patches each image shows, drawn anew for each: whole numbers (B, n), n = (1 - hidden) N, in order.

    At least one is seen and one hidden.
    """
    n = min(n_patches - 1, max(1, round((1 - hidden) * n_patches)))
    place = None if generator is None else generator.device
    return torch.rand(batch, n_patches, generator=generator, device=place).argsort(dim=1)[:, :n].sort(dim=1).values


class MaskedAutoencoder(nn.Module):
    """The ViT reads the patches that are seen, a small decoder paints them all (He et al., 2022, section 3).

    images (B, C, H, W), seen (B, n) -> patches (B, N, C P P), painted. What is hidden does not even enter the ViT: it
    reads n + 1 places, which costs a quarter or less. In the decoder one learned vector stands for every hidden patch,
    and its place says which it is. Afterwards `vit` can be trained on, as a classifier with few labels. block: further
    arguments of the decoder's `Encoder`, d_ff and activation. Raises as `ViT.encode` does, and ValueError where nothing
    is hidden and, where it can be seen, where a patch is named twice.
    """

    def __init__(self, vit: ViT, d_decoder: int = 32, n_heads: int = 4, n_layers: int = 1, **block):
        super().__init__()
        config, (h, w) = vit.config, vit.config.grid
        self.vit, self.narrow = vit, nn.Linear(config.d_model, d_decoder)
        self.hidden = nn.Parameter(0.02 * torch.randn(d_decoder))
        self.places = nn.Parameter(0.02 * torch.randn(1 + h * w, d_decoder))
        self.decoder = Encoder(d_decoder, n_heads, n_layers, pre_norm=True, **block)
        self.paint = nn.Linear(d_decoder, config.channels * config.patch_size**2)

    def forward(self, images: Tensor, seen: Tensor) -> Tensor:
        known = self.narrow(self.vit.encode(images, seen))  # (B, 1 + n, E)
        _check_hidden(seen, len(self.places) - 1)
        spread = self.hidden.to(known.dtype).expand(len(known), len(self.places) - 1, -1)  # (B, N, E)
        spread = spread.scatter(1, seen[:, :, None].expand(-1, -1, spread.shape[-1]), known[:, 1:])
        x = torch.cat([known[:, :1], spread], dim=1) + self.places  # (B, 1 + N, E)
        return self.paint(self.decoder(x)[:, 1:])  # (B, N, C P P)

    def loss(self, images: Tensor, seen: Tensor) -> Tensor:
        """The mean square error of the hidden patches, and of them alone (He et al., 2022, section 3): a number."""
        error = (self(images, seen) - self._patches(images)).square().mean(dim=-1)  # (B, N)
        hidden = torch.ones_like(error).scatter(1, seen, 0.0)
        return (error * hidden).sum() / hidden.sum()

    def _patches(self, images: Tensor) -> Tensor:
        images = image_batch(images, self.vit.config.channels, self.places)
        return patchify(pad_to_patches(images, self.vit.config.patch_size), self.vit.config.patch_size)

    @classmethod
    def from_hf(cls, model: nn.Module, n_classes: int = 1000) -> "MaskedAutoencoder":
        """Ours with the weights of Hugging Face's ViTMAEForPreTraining: the same patches painted, the same loss.

        Theirs has no classifier: `vit.head` is new, zeros for n_classes. Their places are fixed sines; here they are
        learned on from these numbers. Raises TypeError for another model, ValueError for one that computes what ours
        does not, and for one that was taught normalised pixels.
        """
        check_class("ViTMAEForPreTraining", model)
        sizes, decoder, weights = from_mae(model.config.to_dict(), model.state_dict())
        config = ViTConfig(n_classes=n_classes, **sizes)
        with torch.device("meta"):  # nothing is drawn: the weights are there already
            ours = cls(ViT(config), activation=ACTIVATIONS[config.activation], **decoder)
        for name, part in ours.vit.head.named_parameters():
            weights[f"vit.head.{name}"] = weights["hidden"].new_zeros(part.shape)
        check_same_shapes("MaskedAutoencoder", dict(ours.named_parameters()), weights)
        ours.load_state_dict(weights, assign=True)
        for part in ours.decoder.modules():
            if isinstance(part, LayerNorm):
                part.eps = config.eps
        return ours.train(model.training)


def _check_hidden(seen: Tensor, n_patches: int) -> None:
    if seen.shape[1] >= n_patches:
        raise ValueError(f"Of {n_patches} patches one at least must be hidden; got seen of shape {tuple(seen.shape)}.")
    if visible(seen) and (twice := (seen.sort(dim=1).values.diff(dim=1) == 0).any(dim=1)).any():
        raise ValueError(f"seen must name each patch once; image {int(twice.nonzero()[0])} has one of them twice.")
