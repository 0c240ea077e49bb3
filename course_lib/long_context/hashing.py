"""Buckets by hashing: vectors that point the same way meet, and only they are compared. Lesson 17.

(Reformer; Kitaev, Kaiser and Levskaya, 2020, section 2. The hash: Andoni et al., 2015.)
Shapes: B batch, H heads, T time, d width of a query, which is its key as well, d_v of a value, R rounds of hashing,
m positions of a chunk. Masks are boolean, True = may be attended to.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.multi_head import MultiHead
from course_lib.inputs.sequences import widened
from course_lib.inputs.shapes import check_shapes
from course_lib.long_context.window import check_alone, check_whole_row

SELF_SCORE = (
    -1e4
)  # the score of a place with itself: it counts only where nobody else is met (section 2, "Causal masking")


def hash_buckets(x: Tensor, turns: Tensor) -> Tensor:
    """argmax [x R; -x R]: the direction, of so many random ones and their opposites, that x is nearest to.

    x (..., T, d), turns (R, d, n / 2), a random matrix per round -> int64 (..., R, T), from 0 to n - 1.
    (Kitaev et al., 2020, section 2, "Locality sensitive hashing".) Raises ValueError for shapes that do not fit.
    """
    check_shapes("hash_buckets", x=(x, "... T d"), turns=(turns, "R d half"))
    sides = x.unsqueeze(-3) @ turns  # (..., R, T, n / 2)
    return torch.cat([sides, -sides], dim=-1).argmax(dim=-1)  # (..., R, T)


def meetings(buckets: Tensor, chunk: int) -> Tensor:
    """Which positions may attend to which in each round: int (..., R, T) -> bool (..., R, T, T).

    A round sorts them by bucket, then by position, and cuts them into chunks of m; a position sees those of its own
    bucket in its chunk and in the one before. (The whole table: for pictures and tests.)
    """
    check_shapes("meetings", buckets=(buckets, "int ... R T"))
    buckets = buckets.long()
    rank = buckets.argsort(dim=-1, stable=True).argsort(dim=-1) // chunk  # (..., R, T): in which chunk a place is
    steps = rank[..., :, None] - rank[..., None, :]
    return (buckets[..., :, None] == buckets[..., None, :]) & (steps >= 0) & (steps <= 1)


def hashed_attention(qk: Tensor, v: Tensor, buckets: Tensor, chunk: int, causal: bool = False) -> Tensor:
    """Attention among those who meet in any round, in about R T 2m scores: softmax over the union of `meetings`.

    qk (..., T, d), queries, and keys when divided by their length; v (..., T, d_v); buckets int (..., R, T)
    -> (..., T, d_v). The rounds are joined by the sums of their softmaxes; a pair that meets in several counts once
    (Kitaev et al., 2020, section 2, equations 5 and 6). Half precision is computed in full and rounded once. Raises
    ValueError for shapes that do not fit.
    """
    check_shapes("hashed_attention", qk=(qk, "... T+ d"), v=(v, "... T d_v"), buckets=(buckets, "int ... R T"))
    T, rest = qk.shape[-2], -qk.shape[-2] % chunk
    none = 2**62  # a bucket for what fills the last chunk; nobody else is in it
    kind, qk, v = v.dtype, F.pad(widened(qk), (0, 0, 0, rest)), F.pad(widened(v), (0, 0, 0, rest))
    buckets = F.pad(buckets.long(), (0, rest), value=none)
    order = buckets.argsort(dim=-1, stable=True)  # (..., R, T)
    back = order.argsort(dim=-1)
    cut = lambda part: part.unflatten(-2, (-1, chunk))  # noqa: E731
    pick = lambda part: cut(part.unsqueeze(-3).expand(*order.shape[:-1], -1, -1).gather(-2, _wide(order, part)))  # noqa: E731
    q, values = pick(qk), pick(v)  # (..., R, n, m, d), (..., R, n, m, d_v)
    signs = torch.stack([buckets, back // chunk], dim=-1).transpose(-3, -2).flatten(-2)  # (..., T, 2 R)
    signs = pick(signs).unflatten(-1, (-1, 2))  # (..., R, n, m, R, 2): of each place its bucket and chunk by round
    place = cut(order.unsqueeze(-1)).squeeze(-1)  # (..., R, n, m)
    keys, values = _with_former(F.normalize(q, dim=-1), 3), _with_former(values, 3)  # (..., R, n, 2 m, .)
    theirs, there = _with_former(signs, 4), _with_former(place, 2)
    steps = signs[..., :, None, :, 1] - theirs[..., None, :, :, 1]
    met = (signs[..., :, None, :, 0] == theirs[..., None, :, :, 0]) & (steps >= 0) & (steps <= 1)  # (..., m, 2 m, R)
    times = met.sum(dim=-1).clamp(min=1).to(q.dtype)  # in how many rounds the two meet
    own = torch.arange(buckets.shape[-2], device=v.device)[:, None, None, None, None]  # this round
    mask = met.gather(-1, own.expand(*met.shape[:-1], 1)).squeeze(-1) & (there >= 0)[..., None, :]
    if causal:
        mask = mask & (place[..., :, None] >= there[..., None, :])
    scores = q @ keys.transpose(-2, -1) / math.sqrt(q.shape[-1]) - times.log()  # (..., R, n, m, 2 m)
    scores = torch.where(place[..., :, None] == there[..., None, :], scores + SELF_SCORE, scores)
    scores = scores.masked_fill(~mask, -torch.inf)
    total = scores.logsumexp(dim=-1, keepdim=True)  # finite: a place always meets itself
    out = torch.cat([(scores - total).exp() @ values, total], dim=-1).flatten(-3, -2)  # (..., R, T, d_v + 1)
    out = out.gather(-2, _wide(back, out))[..., :T, :]
    return (out[..., -1:].softmax(dim=-3) * out[..., :-1]).sum(dim=-3).to(kind)  # (..., T, d_v)


class HashedHeads(MultiHead):
    """`MultiHead` whose heads compute `hashed_attention`: one vector is query and key; each call has new random rounds.

    x (B, T, D) -> (B, T, D), causal or not. Takes no mask, no bias and no memory, reads nothing behind a cache, has
    keys for each head, and its weights cannot be captured: raises ValueError for these.
    """

    takes_memory = False  # its keys are its own queries

    def __init__(self, d_model: int, n_heads: int, n_rounds: int = 1, n_buckets: int = 8, chunk: int = 16, **others):
        super().__init__(d_model, n_heads, **others)
        _check_buckets(n_buckets)
        self.n_rounds, self.n_buckets, self.chunk = n_rounds, n_buckets, chunk
        self.w_k = self.w_q  # query and key are one (section 2, "Shared-QK Transformer")

    def heads(self, q, k, v, mask=None, causal=False, bias=None):
        """`hashed_attention` for every head at once: q (B, H, T, d_k), v (B, H, T, d_v) -> (B, H, T, d_v)."""
        check_alone(self, mask, bias)
        check_whole_row(self, q, k)
        turns = torch.randn(self.n_rounds, q.shape[-1], self.n_buckets // 2, dtype=q.dtype, device=q.device)
        return hashed_attention(q, v, hash_buckets(q, turns), self.chunk, causal)


def _wide(order: Tensor, part: Tensor) -> Tensor:
    """An order (..., T) as `gather` wants it for all numbers of a position: (..., T, width)."""
    return order.unsqueeze(-1).expand(*order.shape, part.shape[-1])


def _with_former(part: Tensor, behind: int) -> Tensor:
    """Each chunk with the one before in front: (..., n, m, *) -> (..., n, 2 m, *); n is the `behind`-th from the end.

    Before the first stands -1 everywhere, which is no position and no bucket.
    """
    former = part.narrow(-behind, 0, part.shape[-behind] - 1)
    none = torch.full_like(part.narrow(-behind, 0, 1), -1)
    return torch.cat([torch.cat([none, former], dim=-behind), part], dim=-behind + 1)


def _check_buckets(n_buckets: int) -> None:
    if n_buckets % 2:
        raise ValueError(f"Buckets are directions and their opposites, an even number; got n_buckets={n_buckets}.")
