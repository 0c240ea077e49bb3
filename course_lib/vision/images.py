"""Labelled images: batches, a share of them, accuracy; and what is done to them: pixels shuffled, moved. Lesson 09.

Shapes: B batch, C channels, H height, W width, K classes. Batch first, always. Values from 0 to 1, or standardised.
"""

from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.inputs.sequences import reading, visible
from course_lib.inputs.shapes import check_shapes

LARGEST = 32.0  # no standardised image has such values, and an image of whole numbers from 0 to 255 has


def image_batch(images: Tensor, channels: int, weight: Tensor) -> Tensor:
    """Images as a model with this weight reads them: (B, C, H, W), or (B, H, W) for one channel -> (B, C, H, W).

    Raises TypeError for whole numbers, ValueError for other shapes and channels, an empty batch and, where it can be
    seen, for values such as 255: those are the steps of a file, not ink from 0 to 1.
    """
    _check_numbers(images)
    images = images.unsqueeze(1) if images.ndim == 3 and channels == 1 else images
    _check_batch(images, channels, weight)
    return images


def labelled_batches(images: Tensor, labels: Tensor, batch: int, seed: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless batches of images (B, ...) and labels (B,): every image once, in a new order, then all over again.

    The last batch of a round may be smaller. Raises ValueError where there is not a label for each of the
    images, TypeError for labels that are no whole numbers.
    """
    _check_labelled(images, labels)
    generator = torch.Generator().manual_seed(seed)
    while True:
        for some in torch.randperm(len(images), generator=generator).split(batch):
            yield images[some], labels[some]


def varied_batches(
    images: Tensor, labels: Tensor, batch: int, farthest: int = 1, mirrored: bool = True, seed: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """`labelled_batches` of images that are never twice the same: each moved by its own draw, every other one mirrored.

    images (N, C, H, W). `random_shift` moves them by up to `farthest` pixels. Mirror what has no left and right:
    clothes, not digits. Raises as those two do.
    """
    generator = torch.Generator().manual_seed(seed)
    for some, kinds in labelled_batches(images, labels, batch, seed):
        some = random_shift(some, farthest, generator)
        turned = torch.rand(len(some), generator=generator).to(some.device) < 0.5 * mirrored
        yield torch.where(turned[:, None, None, None], some.flip(-1), some), kinds


def image_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """-log p(label), the mean over a batch of images and labels: a number, for `fit`."""
    images, labels = batch
    return F.cross_entropy(model(images), labels)


@torch.no_grad()
def answers(model: nn.Module, images: Tensor, at_once: int = 500) -> Tensor:
    """The most probable class of each image, (N,), on the CPU; read in eval mode, `at_once` images at a time."""
    device = next(model.parameters()).device
    with reading(model):
        return torch.cat([model(some.to(device)).argmax(dim=-1) for some in images.split(at_once)]).cpu()


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The share of images whose most probable class is their label; raises as `labelled_batches` does."""
    _check_labelled(images, labels)
    return (answers(model, images) == labels.cpu()).sum().item() / len(labels)


def share_of_each(labels: Tensor, share: float, seed: int = 0) -> Tensor:
    """Which images make up a share of the data: places (N',), in order, as many of each class, one at least.

    So 0.01 of 1,157 digits are 10 to 12 images, and none of the ten is missing. What a smaller share holds, a larger
    one of the same seed holds too.
    """
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).to(labels.device)
    chosen = []
    for label in labels.unique().tolist():
        those = order[labels[order] == label]
        chosen.append(those[: max(1, round(share * len(those)))])
    return torch.cat(chosen).sort().values


def pixel_order(height: int, width: int, seed: int = 0) -> Tensor:
    """A permutation of all pixels, drawn once: place p of the new image gets what stood at order[p], (H W,)."""
    return torch.randperm(height * width, generator=torch.Generator().manual_seed(seed))


def shuffle_pixels(images: Tensor, order: Tensor) -> Tensor:
    """Every image with its pixels in the same other order: (..., H, W), order (H W,) -> (..., H, W).

    Nothing is lost, `order.argsort()` undoes it, and a linear model does not notice: its weights can be permuted alike.
    What is gone is which pixels are neighbours. Raises ValueError for an order that is not one of H W pixels, whole
    numbers.
    """
    _check_order(images, order)
    return images.flatten(-2)[..., order].view(images.shape)


def shift(images: Tensor, down: int, right: int) -> Tensor:
    """Every image moved down and right by so many pixels, by minus so many up and left; zeros come in behind.

    images (B, C, H, W) -> as they were. Raises ValueError for other shapes.
    """
    check_shapes("shift", images=(images, "any B C+ height+ width+"))
    down, right = (torch.full((len(images),), steps, device=images.device) for steps in (down, right))
    return _moved(images, down, right)


def random_shift(images: Tensor, farthest: int, generator: torch.Generator | None = None) -> Tensor:
    """Each image moved by its own draw, from -farthest to farthest pixels down and to the right: as `shift` does it.

    Shown to a model that is being trained, it says: where a thing stands does not matter. A convolution knows that by
    its build. Raises ValueError for other shapes than (B, C, H, W).
    """
    check_shapes("random_shift", images=(images, "any B C+ height+ width+"))
    place = images.device if generator is None else generator.device
    steps = torch.randint(-farthest, farthest + 1, (2, len(images)), generator=generator, device=place)
    down, right = steps.to(images.device)
    return _moved(images, down, right)


def _moved(images: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """images (B, C, H, W), moved by down (B,) and right (B,)."""
    B, C, H, W = images.shape
    places = torch.arange(max(B, C, H, W), device=images.device)
    rows, columns = places[:H] - down[:, None], places[:W] - right[:, None]  # (B, H), (B, W): where each comes from
    inside = ((rows >= 0) & (rows < H))[:, :, None] & ((columns >= 0) & (columns < W))[:, None]  # (B, H, W)
    rows, columns = rows.clamp(0, H - 1), columns.clamp(0, W - 1)
    found = images[places[:B, None, None, None], places[:C, None, None], rows[:, None, :, None], columns[:, None, None]]
    return torch.where(inside[:, None], found, torch.zeros_like(found))  # (B, C, H, W)


def _check_numbers(images: Tensor) -> None:
    if not images.is_floating_point():
        raise TypeError(
            f"An image holds real numbers from 0 to 1; got {images.dtype}. Whole numbers from 0 to 255, as files have "
            "them, become such by .float() / 255."
        )


def _check_batch(images: Tensor, channels: int, weight: Tensor) -> None:
    if images.ndim != 4 or 0 in images.shape:
        flat = " or, for one channel, (batch, height, width)" if channels == 1 else ""
        raise ValueError(
            f"Images must be (batch, {channels}, height, width){flat}, one image of one pixel at least; got "
            f"{tuple(images.shape)}."
        )
    if images.shape[1] != channels:
        way = "Grey images become coloured by .expand(-1, 3, -1, -1), coloured ones grey by .mean(1, keepdim=True)."
        if images.shape[3] == channels:
            way = "Here the channels seem to stand last: .permute(0, 3, 1, 2) puts them in front."
        raise ValueError(
            f"This model reads images of {channels} channel{'s' * (channels != 1)}, dimension 1; got "
            f"{images.shape[1]}, in {tuple(images.shape)}. {way}"
        )
    if visible(images) and images.detach().abs().max() > LARGEST:
        raise ValueError(
            f"An image holds numbers from 0 to 1, or standardised ones; got {float(images.detach().abs().max()):g}. "
            "Steps from 0 to 255, as files have them, become such by / 255."
        )


def _check_labelled(images: Tensor, labels: Tensor) -> None:
    check_shapes("A class of images", labels=(labels, "int N+"))
    if len(images) != len(labels):
        raise ValueError(f"Each image needs its label; got {len(images)} images and {len(labels)} labels.")


def _check_order(images: Tensor, order: Tensor) -> None:
    check_shapes("shuffle_pixels", order=(order, "int64 pixels"))
    if visible(order) and not order.sort().values.equal(torch.arange(images.shape[-2:].numel())):
        raise ValueError("The order must hold each place of an image (..., H, W) once: pixel_order(H, W) gives one.")
