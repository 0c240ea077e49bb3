"""Lesson 08."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from course_lib.bert.bert_labels import best_span
from other_answers import answers


@answers("my_masking")
def position_by_position(ids, special, mask_id, choice, kind, other):
    read, chosen = ids.clone(), torch.zeros_like(ids, dtype=torch.bool)
    for at in torch.cartesian_prod(*map(torch.arange, ids.shape)).tolist():
        at = tuple(at)
        if choice[at] < 0.15 and not special[ids[at]]:
            chosen[at] = True
            read[at] = mask_id if kind[at] < 0.8 else other[at] if kind[at] < 0.9 else ids[at]
    return read, chosen


@answers("my_masking")
def by_filling(ids, special, mask_id, choice, kind, other):
    chosen = (choice < 0.15).masked_fill(torch.isin(ids, special.nonzero()), False)
    read = ids.clone()
    read[chosen & (kind < 0.8)] = mask_id
    swapped = chosen & (kind >= 0.8) & (kind < 0.9)
    read[swapped] = other[swapped]
    return [read, chosen]  # a list will do


@answers("my_masking")
def by_arithmetic(ids, special, mask_id, choice, kind, other):
    """Truth values as ones and zeros; the ids in 32 bits."""
    asked = choice.lt(0.15) * special.logical_not().index_select(0, ids.flatten()).view_as(ids)
    masked, swapped = asked * (kind < 0.8), asked * (kind >= 0.8) * (kind < 0.9)
    return (masked * mask_id + swapped * other + ~(masked | swapped) * ids).int(), asked


@answers("my_pair")
def filled_up(first, second, cls, sep, padding, length):
    ids = torch.full((length,), padding)
    n, m = len(first) + 2, len(second) + bool(second)
    ids[: n + m] = torch.tensor([cls, *first, sep, *second, *[sep] * bool(second)])
    place = torch.arange(length)
    return ids, ((place >= n) & (place < n + m)).long(), place < n + m


@answers("my_pair")
def piece_by_piece(first, second, cls, sep, padding, length):
    row = [(cls, 0, True)] + [(piece, 0, True) for piece in first] + [(sep, 0, True)]
    for piece in [*second, sep] if len(second) > 0 else []:
        row.append((piece, 1, True))
    while len(row) < length:
        row.append((padding, 0, False))
    ids, segments, mask = zip(*row, strict=True)
    return [torch.tensor(ids), torch.tensor(segments, dtype=torch.uint8), torch.tensor(mask)]


@answers("my_pair")
def padded_by_pytorch(first, second, cls, sep, padding, length):
    parts = [torch.tensor([cls] + first + [sep])] + ([torch.tensor(second + [sep])] if second else [])
    ids, rest = torch.cat(parts), length - sum(map(len, parts))
    segments = torch.cat([torch.full_like(part, k) for k, part in enumerate(parts)])
    mask = F.pad(torch.ones_like(ids), (0, rest)) == 1
    return F.pad(ids, (0, rest), value=padding), F.pad(segments, (0, rest)), mask


@answers("my_fill")
def with_modules(states, places, table, w, b, gain, shift, bias):
    D = w.shape[0]
    h = F.gelu(F.linear(states.reshape(-1, D)[places], w.T, b))
    h = h - h.mean(-1, keepdim=True)
    h = h / (h.square().mean(-1, keepdim=True) + 1e-5).sqrt()  # PyTorch's usual eps
    return F.linear(gain * h + shift, table, bias)


@answers("my_fill")
def row_and_position(states, places, table, w, b, gain, shift, bias):
    """Picked by row and position, gelu by its formula, and the variance as the mean square less the squared mean."""
    T = states.shape[1]
    h = states[places // T, places % T].mm(w) + b
    h = h * (1 + torch.erf(h / 2**0.5)) / 2
    mean = h.mean(1, keepdim=True)
    normed = (h - mean) * (h.square().mean(1, keepdim=True) - mean.square()).rsqrt() * gain + shift
    return torch.einsum("nd,vd->nv", normed, table) + bias


@answers("my_fill")
def one_by_one(states, places, table, w, b, gain, shift, bias):
    norm = nn.LayerNorm(w.shape[0], elementwise_affine=False, dtype=w.dtype)
    logits = [norm(nn.functional.gelu(states.view(-1, w.shape[0])[p] @ w + b)) * gain + shift for p in places.tolist()]
    return torch.stack([h @ table.T + bias for h in logits]) if logits else table.new_zeros(0, len(table))


@answers("my_span")
def by_trying_all(start, end, longest):
    return torch.tensor([
        max(
            ((i, j) for i in range(len(s)) for j in range(i, min(i + longest, len(s)))),
            key=lambda ij, s=s, e=e: s[ij[0]] + e[ij[1]],
        )
        for s, e in zip(start.tolist(), end.tolist(), strict=True)
    ])  # fmt: skip


@answers("my_span")
def of_the_library(start, end, longest):
    return best_span(torch.stack([start, end], dim=1), longest=longest)


@answers("my_span")
def length_by_length(start, end, longest):
    """For each length the best beginning, then the best length: in 32 bits."""
    B, T = start.shape
    best, found = torch.full((B,), -torch.inf, dtype=start.dtype), torch.zeros(B, 2, dtype=torch.int32)
    for more in range(min(longest, T)):
        score, first = (start[:, : T - more] + end[:, more:]).max(dim=1)
        better = score > best
        best = torch.where(better, score, best)
        found[better] = torch.stack([first, first + more], dim=1)[better].int()
    return found


@answers("my_mix")
def in_one_product(layers, scores, gamma):
    return gamma * torch.einsum("l,l...->...", scores.softmax(0), torch.stack(list(layers)))


@answers("my_mix")
def added_in_place(layers, scores, gamma):
    mix = torch.zeros_like(layers[0])
    weights = torch.exp(scores - scores.logsumexp(0))
    for k in range(len(layers)):
        mix += weights[k] * layers[k]
    return mix * gamma


@answers("my_mix")
def divided_at_the_end(layers, scores, gamma):
    """Unnormalised weights, and one division at the end."""
    weights = (scores - scores.max()).exp()
    return torch.stack(layers, dim=-1).matmul(weights * gamma) / weights.sum()


@answers("mended_words")
def by_where(model, ids, special, mask_id, choice, kind, other):
    chosen = (choice < 0.15) & ~special[ids]
    read = torch.where(chosen & (kind < 0.8), mask_id, ids)
    read = torch.where(chosen & (kind >= 0.8) & (kind < 0.9), other, read)
    return F.cross_entropy(model(read).mT, torch.where(chosen, ids, -100))


@answers("mended_words")
def answers_kept_aside(model, ids, special, mask_id, choice, kind, other):
    chosen = (choice < 0.15) & ~special[ids]
    wanted, read = ids[chosen], torch.empty_like(ids).copy_(ids)
    read[chosen & (kind < 0.8)] = mask_id
    read[(kind >= 0.8) & chosen & (kind < 0.9)] = other[(kind >= 0.8) & chosen & (kind < 0.9)]
    log_p = model(read)[chosen].log_softmax(-1)
    total = 0.0
    for row, piece in zip(log_p, wanted, strict=True):
        total = total - row[piece]
    return total / len(wanted)


@answers("mended_words")
def in_a_loss_module(model, ids, special, mask_id, choice, kind, other):
    chosen = ((choice < 0.15) & ~special[ids]).flatten()
    read = ids + 0
    read.view(-1)[chosen & (kind.flatten() < 0.8)] = mask_id
    swapped = chosen & (0.8 <= kind.flatten()) & (kind.flatten() < 0.9)
    read.view(-1)[swapped] = other.flatten()[swapped]
    wanted = ids.flatten().masked_fill(~chosen, -1)
    return nn.CrossEntropyLoss(ignore_index=-1)(model(read).flatten(0, 1), wanted)
