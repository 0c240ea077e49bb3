"""Lesson 09: other correct answers."""

import torch
import torch.nn.functional as F

from course_lib.vision.patches import patchify, resize_places, unpatchify
from course_lib.vision.rollout import attention_distance, rollout

from . import answers

# An image becomes patches -------------------------------------------------------------------------------------


@answers("my_patches")
def with_loops(images, P):
    B, C, H, W = images.shape
    cut = [images[:, :, y : y + P, x : x + P].reshape(B, -1) for y in range(0, H, P) for x in range(0, W, P)]
    return torch.stack(cut, dim=1)


@answers("my_patches")
def by_unfold(images, P):
    return F.unfold(images, P, stride=P).transpose(1, 2)


@answers("my_patches")
def by_unfold_twice(images, P):
    cut = images.unfold(2, P, P).unfold(3, P, P)  # (B, C, h, w, P, P)
    return cut.permute(0, 2, 3, 1, 4, 5).reshape(len(images), -1, images.shape[1] * P * P)


@answers("my_patches")
def by_a_convolution_of_ones(images, P):
    """A kernel for each number of a patch, which is 1 there and 0 elsewhere."""
    C = images.shape[1]
    kernels = torch.eye(C * P * P, dtype=images.dtype).view(-1, C, P, P)
    return F.conv2d(images, kernels, stride=P).flatten(2).mT


@answers("my_patches")
def written_in_place(images, P):
    B, C, H, W = images.shape
    cut = images.new_empty(B, H // P * (W // P), C * P * P)
    for n in range(cut.shape[1]):
        y, x = divmod(n, W // P)
        cut[:, n] = images[..., y * P : (y + 1) * P, x * P : (x + 1) * P].flatten(1)
    return cut


@answers("my_patches")
def of_the_library(images, P):
    return patchify(images, P)


# Patches become an image again --------------------------------------------------------------------------------


@answers("my_image")
def by_fold(patches, C, H, W):
    P = int((patches.shape[-1] // C) ** 0.5)
    return F.fold(patches.transpose(1, 2), (H, W), P, stride=P)


@answers("my_image")
def rows_of_patches_joined(patches, C, H, W):
    P = next(P for P in range(1, H + 1) if C * P * P == patches.shape[2])
    pieces = patches.unflatten(2, (C, P, P)).unbind(1)  # N of (B, C, P, P)
    rows = [torch.cat(pieces[n : n + W // P], dim=3) for n in range(0, len(pieces), W // P)]
    return torch.cat(rows, dim=2)


@answers("my_image")
def by_a_transposed_convolution(patches, C, H, W):
    P = round((H * W / patches.shape[1]) ** 0.5)
    kernels = torch.eye(C * P * P, dtype=patches.dtype).view(-1, C, P, P)
    return F.conv_transpose2d(patches.mT.unflatten(2, (H // P, W // P)), kernels, stride=P)


@answers("my_image")
def put_together_by_the_library(patches, C, H, W):
    return unpatchify(patches, H, W, C)


# Places for another resolution --------------------------------------------------------------------------------


@answers("my_places")
def number_by_number(places, grid, new_grid):
    drawn = [
        F.interpolate(column.view(1, 1, *grid), new_grid, mode="bicubic", align_corners=False).flatten()
        for column in places[1:].T
    ]
    return torch.cat([places[:1], torch.stack(drawn, dim=1)])


@answers("my_places")
def a_batch_of_pictures(places, grid, new_grid):
    """Each number of the vectors is an image of its own, of one channel."""
    cls, rest = places.split([1, len(places) - 1])
    pictures = torch.einsum("hwd->dhw", rest.view(*grid, -1)).unsqueeze(1)
    drawn = F.interpolate(pictures, size=list(new_grid), mode="bicubic").squeeze(1)
    return torch.vstack((cls, drawn.permute(1, 2, 0).reshape(-1, places.shape[1])))


@answers("my_places")
def resized_by_the_library(places, grid, new_grid):
    return resize_places(places, grid, new_grid)


# Rollout ------------------------------------------------------------------------------------------------------


@answers("my_rollout")
def normalised(maps):
    mixed = None
    for layer in maps.mean(dim=2):
        layer = layer + torch.eye(layer.shape[-1], dtype=layer.dtype)
        layer = layer / layer.sum(-1, keepdim=True)
        mixed = layer if mixed is None else torch.einsum("bij,bjk->bik", layer, mixed)
    return mixed


@answers("my_rollout")
def from_the_last_layer_back(maps):
    half = maps.mean(2) / 2
    half.diagonal(dim1=-2, dim2=-1).add_(0.5)
    mixed = half[-1]
    for layer in reversed(half[:-1]):
        mixed = torch.bmm(mixed, layer)
    return mixed


@answers("my_rollout")
@torch.no_grad()
def without_a_gradient(maps):
    layers = maps.mean(dim=2).add(torch.eye(maps.shape[-1], dtype=maps.dtype)).div(2)
    return torch.stack(
        [torch.linalg.multi_dot([*one.flip(0), torch.eye(one.shape[-1]).to(one)]) for one in layers.transpose(0, 1)]
    )


@answers("my_rollout")
def rolled_out_by_the_library(maps):
    return rollout(list(maps))


# How far a head looks -----------------------------------------------------------------------------------------


@answers("my_distance")
def pair_by_pair(weights, grid):
    h, w = grid
    told = []
    for q in range(h * w):
        total, far = 0, 0
        for k in range(h * w):
            way = ((q // w - k // w) ** 2 + (q % w - k % w) ** 2) ** 0.5
            total, far = total + weights[:, :, 1 + q, 1 + k], far + way * weights[:, :, 1 + q, 1 + k]
        told.append(far / total)
    return torch.stack(told).mean(dim=0)


@answers("my_distance")
def by_einsum(weights, grid):
    rows, columns = torch.meshgrid(*map(torch.arange, grid), indexing="ij")
    place = torch.complex(rows.flatten().double(), columns.flatten().double())
    way = (place[:, None] - place[None]).abs().to(weights.dtype)
    among = weights[..., 1:, 1:]
    return torch.einsum("bhqk,qk->bhq", among, way).div(among.sum(3)).mean(-1)


@answers("my_distance")
def distance_of_the_library(weights, grid):
    return attention_distance(weights, grid)


# Find the bug: places one patch too early ---------------------------------------------------------------------


@answers("mended_start")
def added_apart(patches, w, cls, places):
    first = (cls + places[0]).repeat(len(patches), 1, 1)
    return torch.cat([first, patches @ w + places[1:]], dim=1)


@answers("mended_start")
def written_over_the_places(patches, w, cls, places):
    x = places.expand(len(patches), -1, -1).clone()
    x[:, 0] += cls
    x[:, 1:] += torch.einsum("bnf,fd->bnd", patches, w)
    return x
