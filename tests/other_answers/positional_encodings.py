"""Lesson 05."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from course_lib.attention.positions import rotate, sinusoidal
from other_answers import answers


@answers("my_self_attention")
def fused(x, w_q, w_k, w_v, turn=None):
    q, k, v = (x @ w for w in (w_q, w_k, w_v))
    q, k = (q, k) if turn is None else (turn(q), turn(k))
    return F.scaled_dot_product_attention(q, k, v)


@answers("my_self_attention")
def sentence_by_sentence(x, w_q, w_k, w_v, turn=None):
    turn = turn or (lambda y: y)
    rows = []
    for one in x:  # (T, D)
        scores = turn(one.mm(w_q)).mm(turn(one.mm(w_k)).t()) / math.sqrt(w_k.size(1))
        rows.append(F.softmax(scores, dim=1).mm(one.mm(w_v)))
    return torch.stack(rows)


@answers("my_self_attention")
def by_einsum(x, w_q, w_k, w_v, turn=None):
    """All three products at once, and both kinds turned in one call."""
    q, k, v = torch.einsum("btd,cdn->cbtn", x, torch.stack([w_q, w_k, w_v]))
    if turn:
        q, k = turn(torch.stack([q, k]))
    weights = torch.einsum("bqn,bkn->bqk", q, k * k.shape[-1] ** -0.5).softmax(-1)
    return torch.einsum("bqk,bkn->bqn", weights, v)


@answers("my_self_attention")
def query_by_query(x, w_q, w_k, w_v, turn=None):
    """With exponentials of its own: from each row its largest score is taken away."""
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    if turn is not None:
        q = turn(q)
        k = turn(k)
    found = []
    for t in range(x.shape[1]):
        scores = (k * q[:, t : t + 1]).sum(-1) / q.shape[-1] ** 0.5  # (B, T)
        weights = (scores - scores.max(1, keepdim=True)[0]).exp()
        found.append((weights[..., None] * v).sum(1) / weights.sum(1, keepdim=True))
    return torch.stack(found, 1)


@answers("my_sinusoids")
def in_double(max_len, d_model):
    return sinusoidal(max_len, d_model, dtype=torch.float64)


@answers("my_sinusoids")
def column_by_column(max_len, d_model):
    table = torch.zeros(max_len, d_model)
    for i in range(d_model):
        wave = torch.sin if i % 2 == 0 else torch.cos
        table[:, i] = wave(torch.arange(max_len) / 10000 ** (i // 2 * 2 / d_model))
    return table


@answers("my_sinusoids")
def by_exponentials(max_len, d_model):
    """The Annotated Transformer's way, in single precision."""
    speeds = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    angles = torch.arange(max_len)[:, None] * speeds
    table = torch.zeros(max_len, d_model)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
    return table


@answers("my_sinusoids")
def speed_by_speed(max_len, d_model):
    """Each speed from the one before: what is lost adds up."""
    speeds = torch.full((d_model // 2,), 10000 ** (-2 / d_model)).cumprod(0).roll(1)
    speeds[0] = 1
    angles = torch.arange(max_len)[:, None] * speeds
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


@answers("my_sinusoids")
def number_by_number(max_len, d_model):
    """Python's own sine, and a cosine that is a sine a quarter turn later."""
    return torch.tensor([
        [math.sin(t / 10000 ** ((i - i % 2) / d_model) + i % 2 * math.pi / 2) for i in range(d_model)]
        for t in range(max_len)
    ])  # fmt: skip


@answers("my_sinusoids")
def by_numpy(max_len, d_model):
    turns = np.exp(1j * np.outer(np.arange(max_len), 10000.0 ** -(np.arange(0, d_model, 2) / d_model)))
    return torch.from_numpy(np.stack([turns.imag, turns.real], axis=-1).reshape(max_len, d_model))


@answers("my_shift")
def block_by_block(k, d_model):
    angles = [torch.tensor(float(k)) / 10000 ** (2 * i / d_model) for i in range(d_model // 2)]
    return torch.block_diag(*(torch.stack([b.cos(), b.sin(), -b.sin(), b.cos()]).view(2, 2) for b in angles))


@answers("my_shift")
def from_a_row_of_the_table(k, d_model):
    row = sinusoidal(abs(k) + 1, d_model)[-1]
    sin, cos = row[0::2] * (1 if k >= 0 else -1), row[1::2]
    return torch.block_diag(*torch.stack([cos, sin, -sin, cos], dim=-1).view(-1, 2, 2))


@answers("my_shift")
def by_a_matrix_exponential(k, d_model):
    """k steps, each as small as can be."""
    speeds = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    turning = torch.zeros(d_model, d_model, dtype=torch.float64)
    turning[range(0, d_model, 2), range(1, d_model, 2)] = speeds
    return torch.matrix_exp(k * (turning - turning.T))


@answers("my_shift")
def with_plain_lists(k, d_model):
    rows = [[0.0] * d_model for _ in range(d_model)]
    for i in range(0, d_model, 2):
        angle = k * 10000 ** (-i / d_model)
        rows[i][i] = rows[i + 1][i + 1] = math.cos(angle)
        rows[i][i + 1], rows[i + 1][i] = math.sin(angle), -math.sin(angle)
    return torch.tensor(rows)


@answers("mended_rotate")
@answers("my_rotate")
def the_librarys(x, positions):
    return rotate(x, positions)


@answers("mended_rotate")
@answers("my_rotate")
def complex_turn(x, positions):
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    angles = positions[:, None] / 10000 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).to(x.dtype)


@answers("mended_rotate")
@answers("my_rotate")
def written_into_columns(x, positions):
    """Angles in double precision, whatever x has."""
    out = torch.empty_like(x)
    for i in range(0, x.shape[-1], 2):
        angle = positions.double() * 10000 ** (-i / x.shape[-1])
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        out[..., i] = x[..., i] * cos - x[..., i + 1] * sin
        out[..., i + 1] = x[..., i] * sin + x[..., i + 1] * cos
    return out


@answers("mended_rotate")
@answers("my_rotate")
def by_a_matrix_for_each_position(x, positions):
    """Pairs (..., T, D / 2, 2) times matrices (T, D / 2, 2, 2)."""
    speeds = torch.exp(torch.arange(x.shape[-1] // 2) * (-2 * math.log(10000) / x.shape[-1]))
    angles = torch.outer(positions.float(), speeds)
    matrices = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], dim=-1).unflatten(-1, (2, 2))
    return torch.einsum("tpij,...tpj->...tpi", matrices.to(x.dtype), x.unflatten(-1, (-1, 2))).flatten(-2)
