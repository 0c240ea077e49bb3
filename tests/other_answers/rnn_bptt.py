"""Lesson 01."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from course_lib.recurrent.language_model import streams
from course_lib.recurrent.rnn import unroll
from other_answers import answers


@answers("my_step")
def one_product(x, h, w_x, w_h, b):
    return (
        torch.cat([torch.cat([x, h], dim=-1), torch.ones_like(x[:, :1])], dim=-1)
        .matmul(torch.cat([w_x, w_h, b[None]]))
        .tanh()
    )


@answers("my_step")
def added_in_place(x, h, w_x, w_h, b):
    new = x.mm(w_x)
    new += h.mm(w_h)
    new += b
    return new.tanh_()


@answers("my_step")
def by_linear_layers(x, h, w_x, w_h, b):
    return torch.tanh(input=F.linear(x, weight=w_x.t(), bias=b) + F.linear(h, w_h.t()))


@answers("my_step")
def unit_by_unit(x, h, w_x, w_h, b):
    units = [(x * w_x[:, j]).sum(1) + (h * w_h[:, j]).sum(1) + b[j] for j in range(len(b))]
    return 2 * torch.sigmoid(2 * torch.stack(units, dim=1)) - 1


@answers("my_bptt")
def all_shares_at_once(x, h0, w_x, w_h, b, grad_hs):
    hs = unroll(x, h0, w_x, w_h, b)
    da = [None] * hs.shape[1]
    for t in range(hs.shape[1] - 1, -1, -1):
        later = 0 if t == hs.shape[1] - 1 else da[t + 1] @ w_h.T
        da[t] = (1 - hs[:, t].square()) * (grad_hs[:, t] + later)
    return torch.einsum("bti,btj->ij", torch.cat([h0.unsqueeze(1), hs], dim=1)[:, :-1], torch.stack(da, dim=1))


@answers("my_bptt")
def sentence_by_sentence(x, h0, w_x, w_h, b, grad_hs):
    """With its own forward pass and an outer product for each step of each sentence."""
    total = w_h.new_zeros(w_h.shape)
    for row in range(len(x)):
        states = [h0[row]]
        for x_t in x[row]:
            states.append(torch.tanh(x_t @ w_x + states[-1] @ w_h + b))
        back = torch.zeros_like(h0[row])
        for t in range(len(states) - 1, 0, -1):
            back = (back + grad_hs[row, t - 1]) * (1 + states[t]) * (1 - states[t])
            total += torch.outer(states[t - 1], back)
            back = w_h @ back
    return total


@answers("my_bptt")
def in_numpy(x, h0, w_x, w_h, b, grad_hs):
    x, h, w_x, w_h, b, grad_hs = (a.numpy() for a in (x, h0, w_x, w_h, b, grad_hs))
    states = [h]
    for t in range(x.shape[1]):
        states.append(np.tanh(x[:, t] @ w_x + states[-1] @ w_h + b))
    grad, back = np.zeros_like(w_h), np.zeros_like(h)
    for t in reversed(range(x.shape[1])):
        back = (grad_hs[:, t] + back) * (1 - states[t + 1] ** 2)
        grad, back = grad + states[t].T @ back, back @ w_h.T
    return torch.from_numpy(grad)


@answers("my_clip")
def by_one_long_vector(grads, max_norm):
    norm = torch.linalg.vector_norm(torch.cat([g.flatten() for g in grads]))
    return [g * (max_norm / norm) if norm > max_norm else g.clone() for g in grads]


@answers("my_clip")
def as_pytorch_does(grads, max_norm):
    """With 1e-6 below the fraction line, and a factor that is never above 1."""
    norm = torch.stack([g.norm() for g in grads]).norm()
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    return tuple(g.mul(factor) for g in grads)


@answers("my_clip")
def by_pytorch_itself(grads, max_norm):
    holders = [torch.nn.Parameter(torch.empty_like(g)) for g in grads]
    for holder, g in zip(holders, grads, strict=True):
        holder.grad = g.clone()
    torch.nn.utils.clip_grad_norm_(holders, max_norm=max_norm)
    return [holder.grad for holder in holders]


@answers("my_clip")
def number_by_number(grads, max_norm):
    total = 0.0
    for g in grads:
        for number in g.flatten().tolist():
            total += number * number
    if math.sqrt(total) <= max_norm:
        return list(grads)
    return [g / (total**0.5 / max_norm) for g in grads]


@answers("my_truncated")
def chunk_by_chunk(grad_hs, hs, w_h, chunk):
    parts = []
    for g, h in zip(grad_hs.split(chunk, dim=1), hs.split(chunk, dim=1), strict=True):
        das, later = [], 0
        for t in range(g.shape[1] - 1, -1, -1):
            das.insert(0, (g[:, t] + later) * (1 - h[:, t] * h[:, t]))
            later = das[0] @ w_h.T
        parts.append(torch.stack(das, dim=1))
    return torch.cat(parts, dim=1)


@answers("my_truncated")
def masked_signal(grad_hs, hs, w_h, chunk):
    da = grad_hs * (1 - hs**2)
    for t in range(hs.shape[1] - 2, -1, -1):
        goes_on = float((t + 1) % chunk != 0)
        da[:, t] += goes_on * torch.einsum("bj,ij->bi", da[:, t + 1], w_h) * (1 - hs[:, t] ** 2)
    return da


@answers("my_truncated")
def by_recursion(grad_hs, hs, w_h, chunk):
    B, T, H = hs.shape

    def da(t):
        later = da(t + 1) @ w_h.T if t + 1 < T and (t + 1) // chunk == t // chunk else torch.zeros_like(hs[:, 0])
        return (grad_hs[:, t] + later) * (1 - hs[:, t] ** 2)

    return torch.cat([da(t) for t in range(T)], dim=1).view(B, T, H)


@answers("my_probabilities")
def by_the_logarithm(logits, temperature):
    scaled = logits / temperature
    return (scaled - scaled.logsumexp(dim=-1, keepdim=True)).exp()


@answers("my_probabilities")
def row_by_row(logits, temperature):
    rows = []
    for row in logits:
        weights = ((row - max(row)) / temperature).exp()
        rows.append(weights / sum(weights))
    return torch.stack(rows)


@answers("my_probabilities")
def by_differences(logits, temperature):
    """1 over the sum of exp(other - own): where exp is infinite, the quotient is 0, as it should be."""
    return 1 / torch.exp((logits[:, None] - logits[:, :, None]) / temperature).sum(dim=2)


@answers("my_probabilities")
def by_a_distribution(logits, temperature):
    return torch.distributions.Categorical(logits=logits.div(temperature)).probs


@answers("mended_streams")
def by_the_library(ids, batch, chunk):
    pairs = streams(ids, batch, chunk)
    return [next(pairs) for _ in range((len(ids) - 1) // (batch * chunk))]


@answers("mended_streams")
def start_by_start(ids, batch, chunk):
    length = (len(ids) - 1) // batch // chunk * chunk
    starts = [row * length for row in range(batch)]
    return [
        tuple(torch.stack([ids[s + at + late : s + at + late + chunk] for s in starts]) for late in (0, 1))
        for at in range(0, length, chunk)
    ]


@answers("mended_streams")
def long_rows_cut_into_chunks(ids, batch, chunk):
    """The usual layout: a row is as long as it can be, and what is left of each row is not read."""
    length = (len(ids) - 1) // batch
    x, y = ids[: length * batch].view(batch, length), ids[1 : length * batch + 1].view(batch, length)
    return [(x[:, i : i + chunk], y[:, i : i + chunk]) for i in range(0, length - chunk + 1, chunk)]


@answers("mended_streams")
def by_views_of_one_more(ids, batch, chunk):
    """Each window holds chunk + 1 characters: all but the last are read, all but the first predicted."""
    n = (len(ids) - 1) // (batch * chunk)
    windows = ids[: n * batch * chunk + 1].unfold(0, chunk + 1, chunk).view(batch, n, chunk + 1)
    return [[rows[:, :-1], rows[:, 1:]] for rows in windows.unbind(dim=1)]


@answers("mended_streams")
def with_plain_lists(ids, batch, chunk):
    text, n = ids.tolist(), (len(ids) - 1) // (batch * chunk)
    pairs = []
    for k in range(n):
        places = [[(row * n + k) * chunk + i for i in range(chunk)] for row in range(batch)]
        x = torch.tensor([[text[p] for p in row] for row in places])
        y = torch.tensor([[text[p + 1] for p in row] for row in places], dtype=torch.int32)
        pairs.append((x, y))
    return pairs
