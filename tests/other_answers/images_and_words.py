"""Lesson 11: other correct answers."""

import math

import torch
import torch.nn.functional as F

from . import answers

# The contrastive loss -----------------------------------------------------------------------------------------


@answers("my_contrastive_loss")
def by_norms_and_logsumexp(images, texts, scale):
    images = images / images.norm(dim=1, keepdim=True)
    texts = texts / texts.norm(dim=1, keepdim=True)
    scores = torch.einsum("be,ce->bc", images, texts) * scale
    asked = (scores.logsumexp(1) + scores.logsumexp(0)) / 2 - scores.diagonal()
    return asked.mean()


@answers("my_contrastive_loss")
def image_by_image(images, texts, scale):
    total = 0
    for i in range(len(images)):
        of_image = scale * F.cosine_similarity(images[i], texts, dim=-1)
        of_text = scale * F.cosine_similarity(images, texts[i], dim=-1)
        total = total - of_image.log_softmax(0)[i] - of_text.log_softmax(0)[i]
    return total / (2 * len(images))


@answers("my_contrastive_loss")
def both_halves_in_one_batch(images, texts, scale):
    scores = F.normalize(images) @ F.normalize(texts).mT * scale
    both, right = torch.cat([scores, scores.mT]), torch.arange(len(scores)).repeat(2)
    return F.nll_loss(torch.log_softmax(both, dim=1), right)


@answers("my_contrastive_loss")
def with_one_hot_targets(images, texts, scale):
    scores = scale * torch.cosine_similarity(images[:, None], texts[None], dim=2)
    targets = torch.eye(len(scores), dtype=scores.dtype)
    return 0.5 * sum(F.cross_entropy(table, targets) for table in (scores, scores.transpose(0, 1)))


# A classifier made of prompts ---------------------------------------------------------------------------------


@answers("my_zero_shot")
def sum_of_prompts(images, prompts, scale):
    classes = F.normalize(prompts.sum(1))
    return F.softmax(torch.einsum("be,ke->bk", images, classes) * scale, dim=1)


@answers("my_zero_shot")
def the_largest_taken_out(images, prompts, scale):
    classes = torch.stack([own.mean(0) / own.mean(0).norm() for own in prompts])
    scores = images.matmul(classes.T).mul(scale)
    weights = torch.exp(scores - scores.amax(dim=1, keepdim=True))
    return weights / weights.sum(dim=1, keepdim=True)


@answers("my_zero_shot")
def image_by_image_and_class_by_class(images, prompts, scale):
    rows = []
    for image in images:
        scores = [scale * (image @ own.mean(0)) / own.mean(0).square().sum().sqrt() for own in prompts]
        rows.append(torch.stack(scores).log_softmax(0).exp())
    return torch.stack(rows)


# Find the bug: targets that are turned ------------------------------------------------------------------------


@answers("mended_name_loss")
def targets_by_columns(scores, right):
    right = right.to(scores.dtype)
    to_texts = -(right / right.sum(1, keepdim=True) * scores.log_softmax(1)).sum() / len(scores)
    to_images = -(right / right.sum(0, keepdim=True) * scores.log_softmax(0)).sum() / len(scores)
    return (to_texts + to_images) / 2


@answers("mended_name_loss")
def one_function_used_twice(scores, right):
    def asked(scores, right):
        return F.cross_entropy(scores, F.normalize(right.to(scores), p=1, dim=1))

    return torch.lerp(asked(scores, right), asked(scores.mT, right.mT), 0.5)


@answers("mended_name_loss")
def row_by_row(scores, right):
    losses = []
    for table, true in ((scores, right), (scores.T, right.T)):
        losses += [-row.log_softmax(0)[own].mean() for row, own in zip(table, true, strict=True)]
    return sum(losses) / len(losses)


# Attention over a grid ----------------------------------------------------------------------------------------


@answers("my_grid_look")
def by_einsum(s, grid, u):
    places = torch.einsum("bfyx,fh->byxh", grid, u)
    weights = torch.einsum("byxh,bh->byx", places, s).flatten(1).softmax(-1).view(len(s), *grid.shape[2:])
    return torch.einsum("byx,byxh->bh", weights, places), weights


@answers("my_grid_look")
def the_state_through_u(s, grid, u):
    """Scores from the features themselves, by a state that went through `u` the other way."""
    B, _, h, w = grid.shape
    features = grid.reshape(B, -1, h * w)
    scores = ((s @ u.T)[:, None] @ features).squeeze(1)
    weights = torch.exp(scores - scores.logsumexp(dim=1, keepdim=True))
    context = (features @ weights[:, :, None]).squeeze(2) @ u
    return [context, weights.reshape(B, h, w)]


@answers("my_grid_look")
def image_by_image_with_a_convolution(s, grid, u):
    contexts, maps = [], []
    for state, picture in zip(s, F.conv2d(grid, u.T[:, :, None, None]), strict=True):
        scores = (picture * state[:, None, None]).sum(0)
        weights = scores.reshape(-1).softmax(0).view_as(scores)
        contexts.append((picture * weights).sum((1, 2)))
        maps.append(weights)
    return torch.stack(contexts), torch.stack(maps)


# Co-attention -------------------------------------------------------------------------------------------------


@answers("my_co_attention")
def by_the_fused_kernel(words, image, real, w, u):
    seen = real[:, None].expand(-1, image.shape[1], -1)
    fetched = F.scaled_dot_product_attention(words @ w[0], image @ w[1], image @ w[2])
    taken = F.scaled_dot_product_attention(image @ u[0], words @ u[1], words @ u[2], attn_mask=seen)
    return words + fetched, image + taken


@answers("my_co_attention")
def by_einsum_and_a_large_number(words, image, real, w, u):
    root = words.shape[-1] ** -0.5
    q, k, v = torch.einsum("btd,de->bte", words, w[0]), *(torch.einsum("bnd,xde->xbne", image, w[1:]))
    new_words = words + torch.einsum("btn,bne->bte", (root * torch.einsum("btd,bnd->btn", q, k)).softmax(-1), v)
    q, k, v = torch.einsum("bnd,de->bne", image, u[0]), *(torch.einsum("btd,xde->xbte", words, u[1:]))
    scores = root * torch.einsum("bnd,btd->bnt", q, k) + (~real[:, None]).to(words) * -1e9
    return new_words, image + torch.einsum("bnt,bte->bne", scores.softmax(-1), v)


@answers("my_co_attention")
def row_by_row_without_the_padding(words, image, real, w, u):
    def look(x, other, matrices):
        scores = (x @ matrices[0]) @ (other @ matrices[1]).T / math.sqrt(x.shape[1])
        return x + torch.softmax(scores, 1) @ (other @ matrices[2])

    first = [look(*pair, w) for pair in zip(words, image, strict=True)]
    second = [look(one, row[own], u) for one, row, own in zip(image, words, real, strict=True)]
    return torch.stack(first), torch.stack(second)
