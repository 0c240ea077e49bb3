"""Lesson 18: other correct answers."""

import numpy as np
import torch
import torch.nn.functional as F

from course_lib.multimodal.quantiser import nearest_code, straight_through

from . import answers

# The nearest code ---------------------------------------------------------------------------------------------


@answers("my_nearest")
def by_cdist(vectors, codes):
    return torch.cdist(vectors, codes).argmin(dim=1)


@answers("my_nearest")
def by_the_formula(vectors, codes):
    squares = vectors.square().sum(1, keepdim=True) + codes.square().sum(1)
    return (squares - 2 * vectors @ codes.T).min(dim=1).indices


@answers("my_nearest")
def by_loops(vectors, codes):
    return torch.tensor([min(range(len(codes)), key=lambda k: float((z - codes[k]).norm())) for z in vectors])


@answers("my_nearest")
def by_numpy_in_32_bits(vectors, codes):
    differences = vectors.numpy()[:, np.newaxis] - codes.numpy()
    return torch.from_numpy(np.linalg.norm(differences, axis=-1).argmin(axis=1)).int()


@answers("my_nearest")
def one_code_after_the_other(vectors, codes):
    best = torch.full((len(vectors),), torch.inf, dtype=vectors.dtype)
    number = torch.zeros(len(vectors), dtype=torch.long)
    for k, code in enumerate(codes):
        distance = ((vectors - code) ** 2).sum(-1)
        number[distance < best] = k
        best = torch.minimum(best, distance)
    return number


@answers("my_nearest")
def of_the_library(vectors, codes):
    return nearest_code(vectors, codes)


# Straight through ---------------------------------------------------------------------------------------------


@answers("my_straight_through")
def brackets_elsewhere(vectors, chosen):
    return chosen.detach() + (vectors - vectors.detach())


class AsAFunction(torch.autograd.Function):
    """Forward the second argument, backward all to the first."""

    @staticmethod
    def forward(ctx, vectors, chosen):
        return chosen.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


@answers("my_straight_through")
def as_a_function_of_its_own(vectors, chosen):
    return AsAFunction.apply(vectors, chosen)


@answers("my_straight_through")
def without_a_graph(vectors, chosen):
    with torch.no_grad():
        difference = chosen - vectors
    return vectors + difference


@answers("my_straight_through")
def other_data_in_the_same_graph(vectors, chosen):
    passed = vectors * 1
    passed.data = chosen.detach().clone()
    return passed


@answers("my_straight_through")
def passed_by_the_library(vectors, chosen):
    return straight_through(vectors, chosen)


# The quantiser's loss -----------------------------------------------------------------------------------------


@answers("my_quantiser_loss")
def by_mse_loss(vectors, chosen, commitment):
    return F.mse_loss(vectors.detach(), chosen) + F.mse_loss(chosen.detach(), vectors) * commitment


@answers("my_quantiser_loss")
def row_by_row(vectors, chosen, commitment):
    total = 0
    for z, e in zip(vectors, chosen, strict=True):
        total = total + ((z.data - e) ** 2).sum() + commitment * ((z - e.data) ** 2).sum()
    return total / vectors.numel()


@answers("my_quantiser_loss")
def by_norms(vectors, chosen, commitment):
    with torch.no_grad():
        z, e = vectors.clone(), chosen.clone()
    return (torch.linalg.norm(chosen - z) ** 2 + commitment * torch.linalg.norm(e - vectors) ** 2) / e.numel()


# Codes behind words -------------------------------------------------------------------------------------------


@answers("my_draw")
def words_made_impossible(model, words, n, n_words):
    codes = []
    for _ in range(n):
        logits = model(torch.cat([words, *codes], dim=1))[:, -1].clone()
        logits[:, :n_words] = -torch.inf
        codes.append(logits.argmax(dim=1, keepdim=True))
    return torch.cat(codes, dim=1) - n_words


@answers("my_draw")
def name_by_name(model, words, n, n_words):
    drawn = []
    for name in words:
        row = name.tolist()
        for _ in range(n):
            row.append(n_words + int(model(torch.tensor([row]))[0, -1, n_words:].argmax()))
        drawn.append([token - n_words for token in row[len(name) :]])
    return torch.tensor(drawn)


@answers("my_draw")
@torch.no_grad()
def written_into_a_row_of_full_length(model, words, n, n_words):
    B, T = words.shape
    row = words.new_zeros(B, T + n)
    row[:, :T] = words
    for t in range(T, T + n):
        row[:, t] = model(row[:, :t])[:, t - 1, n_words:].softmax(-1).topk(1).indices.squeeze(1) + n_words
    return row[:, T:] - n_words


# Find the bug: codes that are woken at one place --------------------------------------------------------------


@answers("mended_revive")
def the_first_vectors(codes, share, vectors):
    dead = share < 0.03
    return codes.masked_scatter(dead[:, None], vectors[: int(dead.sum())])


@answers("mended_revive")
def the_farthest_vectors(codes, share, vectors):
    places = torch.cdist(vectors, codes).amin(dim=1).argsort(descending=True).tolist()
    moved = [vectors[places.pop(0)] if part < 0.03 else code for code, part in zip(codes, share, strict=True)]
    return torch.stack(moved)


@answers("mended_revive")
def drawn_without_replacement(codes, share, vectors):
    dead = torch.where(share < 0.03)[0]
    moved = codes.clone()
    if len(dead):
        moved[dead] = vectors[torch.ones(len(vectors)).multinomial(len(dead))]
    return moved


@answers("mended_revive")
def by_numpy(codes, share, vectors):
    moved = codes.numpy().copy()
    dead = np.flatnonzero(share.numpy() < 0.03)
    moved[dead] = vectors.numpy()[np.random.default_rng(0).choice(len(vectors), len(dead), replace=False)]
    return torch.from_numpy(moved)
