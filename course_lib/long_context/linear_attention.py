"""Linear attention: without the softmax, attention is a recurrence with a state of fixed size. Lesson 17.

    out_t = phi(q_t) S_t / (phi(q_t) z_t),   S_t = S_(t-1) + phi(k_t)^T v_t,   z_t = z_(t-1) + phi(k_t)
    (Katharopoulos et al., 2020, section 3.2 to 3.4, equations 16 to 20)

Shapes: B batch, H heads, T time, d width of query and key, d_v of a value.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.multi_head import MultiHead
from course_lib.inputs.sequences import full_precision, widened
from course_lib.inputs.shapes import check_shapes
from course_lib.long_context.window import check_alone


def features(x: Tensor) -> Tensor:
    """phi(x) = elu(x) + 1, positive: x + 1 above 0, exp(x) below (Katharopoulos et al., 2020, equation 7): as x.

    elu(x) is exp(x) - 1 below 0. Adding the 1 again would lose digits: in float32 all of them from -17 on.
    """
    return torch.where(x >= 0, x + 1, x.clamp(max=0).exp())


def linear_step(S: Tensor, z: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One position of a row: S (..., d, d_v), z (..., d), q, k (..., d), v (..., d_v) -> out (..., d_v), S, z.

    q and k have been through `features`. Zeros where all weights are 0. Raises ValueError for shapes that do not fit.
    """
    check_shapes("linear_step", S=(S, "... d d_v"), z=(z, "... d"), q=(q, "... d"), k=(k, "... d"), v=(v, "... d_v"))
    S = S + k[..., :, None] * v[..., None, :]  # (..., d, d_v): the state of lesson 01, a matrix
    z = z + k
    out = _mean((q[..., None, :] @ S).squeeze(-2), (q * z).sum(dim=-1, keepdim=True))
    return out, S, z


def delta_step(S: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """The delta rule: what the state says for this key is taken out before the new value is written.

        S = S + beta k^T (v - k S),   out = q S        (Schlag, Irie and Schmidhuber, 2021, section 4.2, equation 24)

    S (..., d, d_v), q, k (..., d), v (..., d_v), beta (..., 1), 0 to 1; k of length 1 -> out (..., d_v), S.
    """
    check_shapes("delta_step", S=(S, "... d d_v"), q=(q, "... d"), k=(k, "... d"), v=(v, "... d_v"), beta=(beta, "..."))
    known = (k[..., None, :] @ S).squeeze(-2)  # (..., d_v)
    S = S + k[..., :, None] * (beta * (v - known))[..., None, :]
    return (q[..., None, :] @ S).squeeze(-2), S


def linear_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = True, chunk: int = 64) -> Tensor:
    """All positions at once: q, k (..., T, d) after `features`, v (..., T, d_v) -> (..., T, d_v).

    Not causal: one state, of the whole row, which may have another length than the queries'. Causal: `linear_step` at
    each position; inside a chunk the scores are made as usual, and what came before it is read from the state,
    T (chunk + d) products in all. Half precision is summed in full and rounded once. A query whose weights are all 0
    gets zeros. Raises ValueError for shapes that do not fit.
    """
    keys = "T" if causal else "T_k"
    check_shapes("linear_attention", q=(q, "... T d"), k=(k, f"... {keys} d"), v=(v, f"... {keys} d_v"))
    kind, (q, k, v) = v.dtype, map(widened, (q, k, v))
    v = F.pad(v, (0, 1), value=1.0)  # a value of 1 beside each: its sum is z, and the division comes last
    if not causal:
        out = q @ (k.transpose(-2, -1) @ v)  # (..., T, d_v + 1)
    else:
        T = q.shape[-2]
        q, k, v = (F.pad(part, (0, 0, 0, -T % chunk)).unflatten(-2, (-1, chunk)) for part in (q, k, v))
        written = k.transpose(-2, -1) @ v  # (..., n, d, d_v + 1): what each chunk adds to the state
        state = F.pad(written, (0, 0, 0, 0, 1, 0)).cumsum(dim=-3)[..., :-1, :, :]  # before the chunk
        out = q @ state + (q @ k.transpose(-2, -1)).tril() @ v
        out = out.flatten(-3, -2)[..., :T, :]
    return _mean(out[..., :-1], out[..., -1:]).to(kind)


class LinearHeads(MultiHead):
    """`MultiHead` whose heads are `linear_attention`. x (B, T, D) -> (B, T, D), causal or not.

    Takes no mask and no bias, behind a cache one position at a time, has keys for each head, and its weights cannot be
    captured: raises ValueError for the rest.
    """

    def heads(self, q, k, v, mask=None, causal=False, bias=None):
        """`linear_attention` for every head at once: q, k (B, H, T, d_k), v (B, H, T, d_v) -> (B, H, T, d_v)."""
        check_alone(self, mask, bias)
        q, k = widened(q), widened(k)
        q = q - q.amax(dim=-1, keepdim=True).clamp(max=0)  # a factor of all weights of a query, which cancels
        with full_precision(v):
            return linear_attention(features(q), features(k), v, causal)


class DeltaHeads(MultiHead):
    """`MultiHead` whose heads keep a state by `delta_step`, step by step: x (B, T, D) -> (B, T, D), always causal.

    How much is rewritten, beta, is sigmoid(k w), w learned. Keys and queries have length 1 (Schlag et al., 2021,
    section 4.2, sum to 1 there; length 1 in Yang et al., 2024). A cache keeps keys and values, of which the state is
    made anew. Half precision is summed in full. Raises ValueError for a mask, a bias or a memory.
    """

    takes_memory = False

    def __init__(self, d_model: int, n_heads: int, **others):
        super().__init__(d_model, n_heads, **others)
        self.w_beta = torch.nn.Linear(self.w_k.out_features // self.n_kv_heads, 1)

    def heads(self, q, k, v, mask=None, causal=True, bias=None):
        """`delta_step` along the row for every head: q (B, H, T, d_k), k, v (B, H, T_k, d) -> (B, H, T, d_v).

        The queries are the last of the T_k positions.
        """
        check_alone(self, mask, bias)
        kind, past = v.dtype, k.shape[2] - q.shape[2]
        q, k, v, beta = map(widened, (F.pad(q, (0, 0, past, 0)), k, v, self.w_beta(k).sigmoid()))
        q, k = F.normalize(q, dim=-1), F.normalize(F.silu(k), dim=-1)
        S, said = k.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1]), []
        with full_precision(v):
            for parts in zip(*(part.unbind(dim=2) for part in (q, k, v, beta)), strict=True):
                out, S = delta_step(S, *parts)
                said.append(out)
        return torch.stack(said[past:], dim=2).to(kind)


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    """A sum of weighted values over the sum of the weights, (..., d_v) and (..., 1); 0 where there is no weight."""
    empty = weight.abs() < torch.finfo(weight.dtype).tiny
    return (values / weight.masked_fill(empty, 1)).masked_fill(empty, 0)
