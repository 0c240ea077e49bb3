"""Lesson 00."""

import itertools

import torch
import torch.nn.functional as F

from other_answers import answers


@answers("my_memory")
def by_index(x, w):
    states = torch.zeros_like(x)
    for t in range(len(x)):
        states = states + torch.eye(len(x), dtype=x.dtype)[t] * (x[t] + (w * states[t - 1] if t else 0))
    return states


@answers("my_memory")
def from_a_plain_zero(x, w):
    h, states = 0.0, []
    for x_t in x:
        h = h * w
        h = h + x_t
        states += [h]
    return torch.stack(states)


@answers("my_memory")
def by_a_triangle(x, w):
    t = torch.arange(len(x))
    back = t[:, None] - t
    return (torch.tensor(w, dtype=x.dtype) ** back.clamp(min=0)).tril() @ x


@answers("my_memory")
def accumulated(x, w):
    return torch.stack(list(itertools.accumulate(x, lambda h, x_t: w * h + x_t)))


@answers("my_memory")
def written_into_place(x, w):
    states = torch.empty_like(x)
    states[0] = x[0]
    for t in range(1, len(x)):
        states[t] = torch.add(x[t], states[t - 1].clone(), alpha=w)
    return states


@answers("my_memory")
def as_a_convolution(x, w):
    kernel = torch.tensor([w**k for k in range(len(x))], dtype=x.dtype).flip(0)
    return F.conv1d(F.pad(x, (len(x) - 1, 0))[None, None], kernel[None, None]).flatten()


@answers("my_memory")
def one_after_the_other(x, w):
    """No list: each state is glued to those before it."""
    states = x[:1]
    for x_t in x[1:]:
        states = torch.cat([states, (w * states[-1] + x_t).reshape(1)])
    return states
