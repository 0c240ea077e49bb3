"""Lesson 12: other correct answers."""

import numpy as np
import torch
import torch.nn.functional as F

from course_lib.vision.patches import patchify
from course_lib.vision.windows import to_windows

from . import answers

# Which patches are seen ---------------------------------------------------------------------------------------


@answers("my_seen")
def by_topk(noise, n):
    return noise.topk(n, dim=1, largest=False).indices.sort(dim=1).values


@answers("my_seen")
def by_ranks(noise, n):
    chosen = noise.argsort(dim=1).argsort(dim=1) < n  # (B, N)
    return chosen.nonzero()[:, 1].view(len(noise), n)


@answers("my_seen")
def image_by_image(noise, n):
    return torch.tensor([sorted(sorted(range(len(row)), key=row.__getitem__)[:n]) for row in noise.tolist()])


@answers("my_seen")
def below_the_nth(noise, n):
    last = noise.kthvalue(n, dim=1, keepdim=True).values
    return torch.stack([torch.where(row)[0] for row in noise <= last])


@answers("my_seen")
def by_numpy_in_32_bits(noise, n):
    return torch.from_numpy(np.sort(np.argpartition(noise.numpy(), n - 1, axis=1)[:, :n], axis=1).astype(np.int32))


# Back to their places -----------------------------------------------------------------------------------------


@answers("my_spread")
def by_loops(known, seen, hidden, N):
    rows = []
    for vectors, places in zip(known, seen.tolist(), strict=True):
        rows.append(torch.stack([vectors[places.index(i)] if i in places else hidden for i in range(N)]))
    return torch.stack(rows)


@answers("my_spread")
def by_index(known, seen, hidden, N):
    spread = hidden.repeat(len(known), N, 1)
    spread[torch.arange(len(known))[:, None], seen] = known
    return spread


@answers("my_spread")
def by_the_inverse(known, seen, hidden, N):
    """He et al.'s own way: seen first, then hidden, and back by the inverse of the order."""
    order = torch.ones(len(seen), N).scatter(1, seen, 0.0).argsort(dim=1, stable=True)
    order[:, : seen.shape[1]] = seen
    row = torch.cat([known, hidden.expand(len(known), N - seen.shape[1], -1)], dim=1)
    return row.gather(1, order.argsort(dim=1)[:, :, None].expand(-1, -1, known.shape[2]))


@answers("my_spread")
def one_hot(known, seen, hidden, N):
    where = F.one_hot(seen, N).to(known)  # (B, n, N)
    return where.mT @ known + (1 - where.sum(dim=1))[:, :, None] * hidden


@answers("my_spread")
def by_a_mask(known, seen, hidden, N):
    B, n, E = known.shape
    mask = torch.zeros(B, N, dtype=torch.bool)
    mask[torch.arange(B).repeat_interleave(n), seen.flatten()] = True
    in_order = torch.stack([one[order] for one, order in zip(known, seen.argsort(dim=1), strict=True)])
    return hidden.expand(B, N, E).masked_scatter(mask[..., None], in_order)


@answers("my_spread")
def one_long_row(known, seen, hidden, N):
    B, _, E = known.shape
    long = hidden.repeat(B * N, 1)
    places = (seen + N * torch.arange(B)[:, None]).flatten()
    return long.index_copy(0, places, known.reshape(-1, E)).view(B, N, E)


# The loss of what is hidden -----------------------------------------------------------------------------------


@answers("my_hidden_loss")
def chosen_ones(painted, true, seen):
    hidden = torch.ones(painted.shape[:2], dtype=torch.bool).scatter(1, seen, False)
    return F.mse_loss(painted[hidden], true[hidden])


@answers("my_hidden_loss")
def mean_of_images(painted, true, seen):
    total = 0
    for one, other, places in zip(painted, true, seen.tolist(), strict=True):
        hidden = [i for i in range(len(one)) if i not in places]
        total = total + (one[hidden] - other[hidden].detach()).square().mean()
    return total / len(painted)


@answers("my_hidden_loss")
def with_a_millionth_more(painted, true, seen):
    mask = 1 - F.one_hot(seen, painted.shape[1]).sum(1)  # (B, N)
    return (((painted - true) ** 2).mean(-1) * mask).sum() / (mask.sum() + 1e-6)


@answers("my_hidden_loss")
def all_less_what_is_seen(painted, true, seen):
    B, N, F_ = painted.shape
    squares = (painted - true).pow(2).sum(2)
    return (squares.sum() - squares.gather(1, seen).sum()) / (F_ * (B * N - seen.numel()))


# A grid becomes windows ---------------------------------------------------------------------------------------


@answers("my_windows")
def by_slices(x, side):
    _, h, w, D = x.shape
    cut = [
        one[top : top + side, left : left + side].reshape(-1, D)
        for one in x
        for top in range(0, h, side)
        for left in range(0, w, side)
    ]
    return torch.stack(cut)


@answers("my_windows")
def one_tall_grid(x, side):
    _, _, w, D = x.shape
    cut = x.reshape(-1, side, w // side, side, D)  # the images over each other
    return cut.transpose(1, 2).reshape(-1, side * side, D)


@answers("my_windows")
def by_patchify(x, side):
    cut = patchify(x.permute(0, 3, 1, 2), side)  # (B, n, D M M)
    return cut.unflatten(2, (x.shape[3], -1)).mT.flatten(0, 1)


@answers("my_windows")
def by_unfold(x, side):
    cut = x.unfold(1, side, side).unfold(2, side, side)  # (B, rows, columns, D, M, M)
    return torch.einsum("brcdij->brcijd", cut).flatten(0, 2).flatten(1, 2)


@answers("my_windows")
def by_splits(x, side):
    rows = [torch.stack(row.split(side, dim=2), 1) for row in x.split(side, dim=1)]  # each (B, columns, M, M, D)
    return torch.cat(rows, dim=1).reshape(-1, side**2, x.shape[-1])


@answers("my_windows")
def of_the_library(x, side):
    return to_windows(x, side)


# Find the bug: the hidden patches are told ---------------------------------------------------------------------


@answers("mended_encode")
def index_first(blocks, x, seen):
    x = torch.stack([one[places] for one, places in zip(x, seen, strict=True)])
    for block in blocks:
        x = block(x)
    return x


@answers("mended_encode")
def image_by_image_through_all(blocks, x, seen):
    def through(row):
        for block in blocks:
            row = block(row)
        return row

    return torch.cat([through(one[None, places]) for one, places in zip(x, seen, strict=True)])


@answers("mended_encode")
def by_take_along_dim(blocks, x, seen):
    states = torch.take_along_dim(x, seen.unsqueeze(-1), dim=1)
    for block in list(blocks):
        states = block(states)
    return states
