"""Lesson 17: other correct answers."""

import torch
import torch.nn.functional as F

from course_lib.long_context.hashing import hash_buckets
from course_lib.long_context.linear_attention import linear_step
from course_lib.long_context.reversible import reversed_step
from course_lib.long_context.window import band_mask

from . import answers

# A window and global places -----------------------------------------------------------------------------------


@answers("my_band_mask")
def by_loops(T, window, n_global):
    return torch.tensor([[abs(i - j) < window or min(i, j) < n_global for j in range(T)] for i in range(T)])


@answers("my_band_mask")
def by_slices(T, window, n_global):
    mask = torch.ones(T, T).triu(1 - window).tril(window - 1).bool()
    mask[:n_global], mask[:, :n_global] = True, True
    return mask


@answers("my_band_mask")
def by_the_smaller_of_both(T, window, n_global):
    row, column = torch.meshgrid(torch.arange(T), torch.arange(T), indexing="ij")
    return torch.logical_or((row - column).square() < window**2, torch.minimum(row, column) < n_global)


@answers("my_band_mask")
def of_the_library(T, window, n_global):
    return band_mask(T, window, n_global)


# A memory in front --------------------------------------------------------------------------------------------


@answers("my_recalled")
def by_parts(memory, x, w_k, w_v):
    with torch.no_grad():
        states = memory.clone()
    return tuple(torch.cat([states @ w, x @ w], dim=1) for w in (w_k, w_v))


@answers("my_recalled")
def both_at_once(memory, x, w_k, w_v):
    seen = torch.hstack((memory.data, x))
    return list((seen @ torch.cat([w_k, w_v], dim=1)).chunk(2, dim=-1))


@answers("my_recalled")
def by_einsum_into_one_tensor(memory, x, w_k, w_v):
    constant = torch.empty_like(memory).copy_(memory.detach())
    return torch.einsum("bmd,wde->wbme", torch.cat((constant, x), 1), torch.stack((w_k, w_v))).unbind()


# One round of hashing -----------------------------------------------------------------------------------------


@answers("my_hash_round")
def by_both_signs(x, turns):
    return (x @ torch.hstack([turns, -turns])).max(dim=1).indices


@answers("my_hash_round")
def by_size_and_sign(x, turns):
    sides = F.normalize(x, dim=-1) @ turns
    best = sides.abs().argmax(dim=1)
    return best + turns.shape[1] * (sides.gather(1, best[:, None])[:, 0] < 0)


@answers("my_hash_round")
def vector_by_vector(x, turns):
    half = turns.shape[1]
    sides = [[float(one @ turns[:, i % half]) * (1 if i < half else -1) for i in range(2 * half)] for one in x]
    return torch.tensor([row.index(max(row)) for row in sides])


@answers("my_hash_round")
def hash_of_the_library(x, turns):
    return hash_buckets(x, turns[None])[0]


# A layer, back again ------------------------------------------------------------------------------------------


@answers("my_reversed_step")
def in_one_line(f, g, y_1, y_2):
    return y_1 - f(y_2 - g(y_1)), y_2 - g(y_1)


@answers("my_reversed_step")
def in_place_on_copies(f, g, y_1, y_2):
    second = y_2.clone().sub_(g(y_1))
    return [y_1.clone().sub_(f(second)), second]


@answers("my_reversed_step")
def step_of_the_library(f, g, y_1, y_2):
    return reversed_step(f, g, y_1, y_2)


# Attention as a state -----------------------------------------------------------------------------------------


@answers("my_linear_step")
def by_einsum(S, z, q, k, v):
    S, z = S + torch.einsum("bi,bj->bij", k, v), torch.add(z, k)
    return [torch.einsum("bi,bij->bj", q, S) / torch.einsum("bi,bi->b", q, z)[:, None], S, z]


@answers("my_linear_step")
def row_by_row(S, z, q, k, v):
    S = torch.stack([one + torch.outer(key, value) for one, key, value in zip(S, k, v, strict=True)])
    z = z + k
    return torch.stack([a @ b / (a @ c) for a, b, c in zip(q, S, z, strict=True)]), S, z


@answers("my_linear_step")
def with_a_millionth_more(S, z, q, k, v):
    """As Katharopoulos et al.'s own code."""
    S, z = torch.baddbmm(S, k.unsqueeze(2), v.unsqueeze(1)), z + k
    return (q.unsqueeze(1) @ S)[:, 0] / ((q * z).sum(-1, keepdim=True) + 1e-6), S, z


@answers("my_linear_step")
def one_of_the_library(S, z, q, k, v):
    return linear_step(S, z, q, k, v)


# Find the bug: a memory that lets gradients through -----------------------------------------------------------


@answers("mended_segments")
def a_detached_memory_that_is_retained(model, segments):
    memory, total = None, 0
    for x, y in segments:
        logits, memory = model(x, memory)
        memory = [states.data for states in memory]
        loss = F.cross_entropy(logits.transpose(1, 2), y)
        (loss / len(segments)).backward(retain_graph=True)  # of no use, and of no harm
        total = total + loss.detach()
    return total / len(segments)


@answers("mended_segments")
def cut_before_it_is_read(model, segments):
    memory, losses = None, []
    for x, y in segments:
        logits, memory = model(x, memory and tuple(states.detach() for states in memory))
        losses.append(F.cross_entropy(logits.flatten(0, 1), y.flatten()))
    loss = torch.stack(losses).mean()
    loss.backward()
    return loss


@answers("mended_segments")
def numbers_by_item(model, segments):
    memory, losses = None, []
    for x, y in segments:
        logits, memory = model(x, memory)
        memory = tuple(states.detach() for states in memory)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        (loss / len(segments)).backward()
        losses.append(loss.item())
    return sum(losses) / len(losses)


@answers("mended_segments")
def a_tensor_of_numbers(model, segments):
    memory, total = None, 0.0
    for x, y in segments:
        logits, left = model(x, memory)
        memory = [states.clone().detach_() for states in left]
        loss = -logits.log_softmax(-1).gather(-1, y[..., None]).mean() / len(segments)
        loss.backward()
        total += float(loss.detach())
    return torch.tensor(total)
