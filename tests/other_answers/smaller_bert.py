"""Lesson 16: other correct answers."""

from functools import reduce

import numpy as np
import torch
import torch.nn.functional as F

from course_lib.bert.fewer_bits import quantise
from course_lib.bert.replaced_words import replace
from course_lib.bert.soft_targets import distillation_loss

from . import answers

# Shared blocks ------------------------------------------------------------------------------------------------


@answers("my_shared_stack")
def block_by_block(x, blocks, n_layers):
    for block in blocks:
        for _ in range(n_layers // len(blocks)):
            x = block(x)
    return x


@answers("my_shared_stack")
def by_recursion(x, blocks, n_layers):
    if not blocks:
        return x
    each = n_layers // len(blocks)
    for _ in range(each):
        x = blocks[0](x)
    return by_recursion(x, blocks[1:], n_layers - each)


@answers("my_shared_stack")
def a_list_of_layers(x, blocks, n_layers):
    layers = np.repeat(np.array(blocks, dtype=object), n_layers // len(blocks))
    return reduce(lambda states, layer: layer(states), layers, x)


# Replaced or not ----------------------------------------------------------------------------------------------


@answers("my_replace")
def place_by_place(ids, chosen, drawn):
    read, replaced, waiting = ids.clone(), torch.zeros_like(chosen), iter(drawn.tolist())
    for row, column in chosen.nonzero().tolist():
        piece = next(waiting)
        replaced[row, column] = piece != int(ids[row, column])
        read[row, column] = piece
    return [read, replaced]


@answers("my_replace")
def by_masked_scatter(ids, chosen, drawn):
    read = ids.masked_scatter(chosen, drawn)
    return read, ~torch.eq(read, ids)


@answers("my_replace")
def drawn_by_its_number(ids, chosen, drawn):
    """The n-th chosen place, row by row, takes draw n."""
    number = chosen.flatten().cumsum(0).view_as(ids) - 1
    padded = torch.cat([drawn, drawn.new_zeros(1)])
    read = torch.where(chosen, padded[number], ids)
    return read, (read - ids).bool()


@answers("my_replace")
def by_the_library(ids, chosen, drawn):
    return replace(ids, chosen, drawn)[:2]


# What the teacher says ----------------------------------------------------------------------------------------


@answers("my_distillation_loss")
def by_kl_div(student, teacher, temperature):
    said, meant = (student / temperature).log_softmax(-1), (teacher / temperature).softmax(-1).detach()
    return F.kl_div(said, meant, reduction="batchmean") * temperature * temperature


@answers("my_distillation_loss")
def cross_entropy_less_entropy(student, teacher, temperature):
    with torch.no_grad():
        meant = torch.softmax(teacher / temperature, dim=1)
        entropy = torch.special.entr(meant).sum(dim=1).mean()
    return temperature**2 * (F.cross_entropy(student / temperature, meant) - entropy)


@answers("my_distillation_loss")
def place_by_place_with_logsumexp(student, teacher, temperature):
    total = 0
    for q, p in zip(student / temperature, teacher.data / temperature, strict=True):
        log_q, log_p = q - q.logsumexp(0), p - p.logsumexp(0)
        total = total + log_p.exp() @ (log_p - log_q)
    return total * temperature**2 / len(student)


@answers("my_distillation_loss")
def by_kl_div_of_logs(student, teacher, temperature):
    both = torch.stack([student, teacher.detach()]).div(temperature).log_softmax(-1)
    return F.kl_div(both[0], both[1], reduction="none", log_target=True).sum(1).mean().mul(temperature**2)


@answers("my_distillation_loss")
def of_the_library(student, teacher, temperature):
    return distillation_loss(student, teacher, temperature)


# Whole numbers for weights ------------------------------------------------------------------------------------


@answers("my_quantise")
def row_by_row(weights, bits):
    whole, scales = torch.zeros(weights.shape, dtype=torch.int8), []
    for i, row in enumerate(weights):
        scales.append(max(float(row.max()), -float(row.min())) / (2 ** (bits - 1) - 1))
        if scales[-1]:
            whole[i] = torch.tensor([round(float(w) / scales[-1]) for w in row], dtype=torch.int8)
    return whole, torch.tensor(scales, dtype=weights.dtype)


@answers("my_quantise")
def nan_made_zero(weights, bits):
    scales = weights.abs().max(dim=1).values / (2 ** (bits - 1) - 1)
    return (weights / scales[:, None]).nan_to_num().round().char(), scales


@answers("my_quantise")
def a_tiny_step(weights, bits):
    scales = (weights.abs().amax(dim=-1) / (2 ** (bits - 1) - 1)).clamp(min=1e-12)
    return torch.round(weights / scales.unsqueeze(1)).type(torch.int8), scales


@answers("my_quantise")
def by_numpy(weights, bits):
    table, most = weights.detach().numpy(), 2 ** (bits - 1) - 1
    largest = np.abs(table).max(axis=1, keepdims=True)
    whole = np.rint(np.divide(table * most, largest, out=np.zeros_like(table), where=largest > 0))
    return torch.from_numpy(whole.astype(np.int8)), torch.from_numpy(largest[:, 0] / most)


@answers("my_quantise")
@torch.no_grad()
def by_the_largest_norm(weights, bits):
    most = (1 << bits - 1) - 1
    largest = weights.norm(p=torch.inf, dim=1)
    whole = torch.zeros_like(weights, dtype=torch.int8)
    some = largest > 0
    whole[some] = (weights[some] * (most / largest[some, None])).round().to(torch.int8)
    return whole, largest / most


@answers("my_quantise")
def by_the_library_by_row(weights, bits):
    whole, scales = quantise(weights, bits)
    return whole, scales[:, 0].to(weights.dtype)


# Find the bug: a discriminator that is right at once ----------------------------------------------------------


@answers("mended_replaced")
def written_where_chosen(ids, chosen, generator, mask_id):
    hidden, read = ids.clone(), ids.clone()
    hidden[chosen] = mask_id
    read[chosen] = generator(hidden)[chosen]
    return read, ~read.eq(ids)


@answers("mended_replaced")
def through_the_library(ids, chosen, generator, mask_id):
    return replace(ids, chosen, generator(ids.masked_fill(chosen, mask_id))[chosen])[:2]


@answers("mended_replaced")
def by_arithmetic(ids, chosen, generator, mask_id):
    drawn = generator(torch.where(chosen, torch.full_like(ids, mask_id), ids))
    replaced = chosen & (drawn != ids)
    return ids + (drawn - ids) * replaced, replaced
