"""Lesson 06."""

import math

import torch
import torch.nn.functional as F

from course_lib.attention.attention import attend, causal_mask
from other_answers import answers


@answers("my_attention")
def the_librarys(q, k, v, mask=None):
    return attend(q, k, v, mask)[0]


@answers("my_attention")
def query_by_query(q, k, v, mask=None):
    rows = []
    for t in range(q.shape[-2]):
        scores = (q[..., t : t + 1, :] * k).sum(-1) / math.sqrt(k.shape[-1])  # (..., T_k)
        if mask is not None:
            seen = mask[..., t % mask.shape[-2], :].expand(scores.shape)
            scores = scores.masked_fill(~seen, -math.inf)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = torch.where(seen, weights, 0)
        rows.append((weights[..., None] * v).sum(-2))
    return torch.stack(rows, dim=-2)


@answers("my_attention")
def hidden_by_a_billion(q, k, v, mask=None):
    scores = torch.einsum("...td,...sd->...ts", q, k) * k.shape[-1] ** -0.5
    weights = scores.softmax(-1) if mask is None else scores.masked_fill(mask == 0, -1e9).softmax(-1) * mask
    return weights @ v


@answers("my_attention")
def by_pytorchs_own(q, k, v, mask=None):
    """F.scaled_dot_product_attention, which gives zeros to a query that sees nothing."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@answers("my_attention")
def own_exponentials(q, k, v, mask=None):
    scores = (q / q.size(-1) ** 0.25).matmul((k / k.size(-1) ** 0.25).mT)
    if mask is None:
        mask = torch.ones((), dtype=torch.bool)
    scores = torch.where(mask, scores, -torch.inf)
    largest = scores.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    weights = (scores - largest).exp()
    return weights.matmul(v) / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)


@answers("my_heads")
def head_by_head(x, w_q, w_k, w_v, w_o, n_heads, attend):
    wide = x.shape[-1] // n_heads
    parts = [slice(i * wide, (i + 1) * wide) for i in range(n_heads)]
    return torch.cat([attend(x @ w_q[:, i], x @ w_k[:, i], x @ w_v[:, i]) for i in parts], dim=-1) @ w_o


@answers("my_heads")
def a_sum_over_heads(x, w_q, w_k, w_v, w_o, n_heads, attend):
    q, k, v = ((x @ w).unflatten(-1, (n_heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    return torch.einsum("bhtd,hdn->btn", attend(q=q, k=k, v=v), w_o.unflatten(0, (n_heads, -1)))


@answers("my_heads")
def chunked(x, w_q, w_k, w_v, w_o, n_heads, attend):
    q, k, v = (torch.stack((x @ w).chunk(n_heads, dim=-1), dim=1) for w in (w_q, w_k, w_v))
    return torch.cat(list(attend(q, k, v).unbind(1)), dim=-1) @ w_o


@answers("my_mask")
def rows_of_padding_empty(target, padding=0):
    real = target != padding
    return causal_mask(target.shape[1]) & real[:, None] & real[:, :, None]


@answers("my_mask")
def by_comparing_positions(target, padding=0):
    place = torch.arange(target.shape[1])
    return (place <= place[:, None]) & (target != padding).unsqueeze(1).expand(-1, len(place), -1)


@answers("my_mask")
def padding_sees_itself(target, padding=0):
    seen = torch.tril((target != padding)[:, None].repeat(1, target.shape[1], 1))
    return seen | torch.eye(target.shape[1], dtype=torch.bool)


@answers("my_mask")
def with_plain_lists(target, padding=0):
    rows = target.tolist()
    size = range(len(rows[0]))
    return torch.tensor([[[u <= t and row[u] != padding for u in size] for t in size] for row in rows])


@answers("my_block")
def in_one_line(x, norm_1, attention, norm_2, feed_forward):
    return x + (looked := attention(norm_1(x))) + feed_forward(norm_2(x + looked))


@answers("my_block")
def part_after_part(x, norm_1, attention, norm_2, feed_forward):
    for norm, part in ((norm_1, attention), (norm_2, feed_forward)):
        x = torch.add(part(norm(x)), x)
    return x


@answers("my_block")
def written_into_a_copy(x, norm_1, attention, norm_2, feed_forward):
    stream = x.clone()
    stream += attention(norm_1(x))
    new = stream.clone()
    new += feed_forward(norm_2(stream))
    return new


@answers("mended_decoder")
def with_a_library_mask(target, memory, embed, self_attention, cross_attention, readout):
    x = embed(target[:, :-1])
    x = x + self_attention(x, causal_mask(x.shape[1])[None])
    return readout(x + cross_attention(x, memory))


@answers("mended_decoder")
def with_the_reversed_triangle(target, memory, embed, self_attention, cross_attention, readout):
    read = embed(target[..., : target.shape[1] - 1])
    ahead = torch.triu(torch.full((read.shape[1],) * 2, True), diagonal=1)
    looked = read + self_attention(read, mask=ahead.logical_not())
    return readout(cross_attention(looked, memory) + looked)


@answers("mended_decoder")
def position_by_position(target, memory, embed, self_attention, cross_attention, readout):
    """For each position its own past alone: no mask is needed."""
    logits = []
    for t in range(1, target.shape[1]):
        x = embed(target[:, :t])
        seen = x[:, -1:] + self_attention(x)[:, -1:] if t == 1 else None
        if seen is None:
            mask = torch.ones(t, t, dtype=torch.bool)
            seen = (x + self_attention(x, mask))[:, -1:]
        logits.append(readout(seen + cross_attention(seen, memory)))
    return torch.cat(logits, dim=1)
