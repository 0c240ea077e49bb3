"""Linear attention: without the softmax, attention is a recurrence with a state of fixed size. Lesson 17.

    out_t = phi(q_t) S_t / (phi(q_t) z_t),   S_t = S_(t-1) + phi(k_t)^T v_t,   z_t = z_(t-1) + phi(k_t)
    (Katharopoulos et al., 2020, section 3.2 to 3.4, equations 16 to 20)

Shapes: B batch, H heads, T time, d width of query and key, d_v of a value.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.multi_head import MultiHead
from course_lib.inputs.shapes import check_shapes
from course_lib.long_context.window import check_alone


def features(x: Tensor) -> Tensor:
    """phi(x) = elu(x) + 1, positive (Katharopoulos et al., 2020, equation 7): as x."""
    return F.elu(x) + 1


def linear_step(S: Tensor, z: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One place of a row: S (..., d, d_v), z (..., d), q, k (..., d), v (..., d_v) -> out (..., d_v), S, z.

    q and k have been through `features`. Raises ValueError for shapes that do not fit.
    """
    check_shapes("linear_step", S=(S, "... d d_v"), z=(z, "... d"), q=(q, "... d"), k=(k, "... d"), v=(v, "... d_v"))
    S = S + k[..., :, None] * v[..., None, :]  # (..., d, d_v): the state of lesson 01, a matrix
    z = z + k
    out = (q[..., None, :] @ S).squeeze(-2) / (q * z).sum(dim=-1, keepdim=True)
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
    """All places at once: q, k (..., T, d) after `features`, v (..., T, d_v) -> (..., T, d_v).

    Not causal: one state, of the whole row. Causal: `linear_step` at each place; inside a chunk the scores are made
    as usual, and what came before it is read from the state, T (chunk + d) products in all.
    Raises ValueError for shapes that do not fit.
    """
    check_shapes("linear_attention", q=(q, "... T d"), k=(k, "... T d"), v=(v, "... T d_v"))
    v = F.pad(v, (0, 1), value=1.0)  # a value of 1 beside each: its sum is z, and the division comes last
    if not causal:
        out = q @ (k.transpose(-2, -1) @ v)  # (..., T, d_v + 1)
    else:
        T = q.shape[-2]
        q, k, v = (F.pad(part, (0, 0, 0, -T % chunk)).unflatten(-2, (-1, chunk)) for part in (q, k, v))
        written = k.transpose(-2, -1) @ v  # (..., n, d, d_v + 1): what each chunk adds to the state
        state = written.cumsum(dim=-3) - written  # before the chunk
        out = q @ state + (q @ k.transpose(-2, -1)).tril() @ v
        out = out.flatten(-3, -2)[..., :T, :]
    return out[..., :-1] / out[..., -1:]


class LinearHeads(MultiHead):
    """`MultiHead` whose heads are `linear_attention`. x (B, T, D) -> (B, T, D), causal or not.

    Takes no mask and no bias, has keys for each head, and nobody hears its weights: raises ValueError for these.
    """

    def heads(self, q, k, v, mask=None, causal=False, bias=None):
        """`linear_attention` for every head at once: q, k (B, H, T, d_k), v (B, H, T, d_v) -> (B, H, T, d_v)."""
        check_alone(self, mask, bias)
        return linear_attention(features(q), features(k), v, causal)


class DeltaHeads(MultiHead):
    """`MultiHead` whose heads keep a state by `delta_step`, place by place: x (B, T, D) -> (B, T, D), always causal.

    How much is rewritten, beta, is sigmoid(k w), w learned. Keys and queries have length 1 (Schlag et al., 2021,
    section 4.2, sum to 1 there; length 1 in Yang et al., 2024). Raises ValueError for a mask or a bias.
    """

    def __init__(self, d_model: int, n_heads: int, **others):
        super().__init__(d_model, n_heads, **others)
        self.w_beta = torch.nn.Linear(self.w_k.out_features // self.n_kv_heads, 1)

    def heads(self, q, k, v, mask=None, causal=True, bias=None):
        """`delta_step` along the row for every head: q, k (B, H, T, d_k), v (B, H, T, d_v) -> (B, H, T, d_v)."""
        check_alone(self, mask, bias)
        beta, q, k = self.w_beta(k).sigmoid(), F.normalize(q, dim=-1), F.normalize(F.silu(k), dim=-1)
        S, said = k.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1]), []
        for parts in zip(*(part.unbind(dim=2) for part in (q, k, v, beta)), strict=True):
            out, S = delta_step(S, *parts)
            said.append(out)
        return torch.stack(said, dim=2)
