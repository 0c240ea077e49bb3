"""Positions: how a model that reads a set is told the order. Lesson 05.

By what a scheme touches: the input, to which it adds (`sinusoidal`, learned); queries and keys, which it turns
(`rotate`); the scores, to which it adds (`RelativeBias`). `MultiHead` takes a turn and a position_bias.
Shapes: B batch, T time (T_q queries, T_k keys), D d_model, H heads, d width of a query or key. A place is a number from
0; a distance is key place - query place (T5's memory_position - query_position), so what came before is negative.
"""

import math
from collections.abc import Callable

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.inputs.shapes import broadcasts, check_shapes

PAIRINGS = ("neighbours", "halves")


def sinusoidal(max_len: int, d_model: int, base: float = 10000.0, dtype=None, device=None) -> Tensor:
    """PE(t, 2i) = sin(t / base^(2i/D)), PE(t, 2i+1) = cos(of the same) (Vaswani et al., 2017, section 3.5).

    -> (max_len, D) of `dtype` (PyTorch's default where None). Every pair is the hand of a clock, and a step of k turns
    each by its own fixed angle: PE(t + k) = M_k PE(t). Raises ValueError for an odd D: sines and cosines come in pairs.
    """
    _check_pairs("sinusoidal", d_model)
    angles = _angles(torch.arange(max_len, device=device), d_model, base)  # (max_len, D/2)
    table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)  # (max_len, D): sin, cos, sin, cos, ...
    return table.to(dtype or torch.get_default_dtype())


class SinusoidalPositions(nn.Module):
    """x_t + PE(t): x (B, T, D) -> (B, T, D), for any T: the formula has no end.

    ready: how many rows are kept in a table; a longer text has its rows computed on the way. Nothing is learned and
    nothing is saved with the weights. Raises ValueError for an odd d_model or x of another width, TypeError for ids.
    """

    def __init__(self, d_model: int, ready: int = 1024):
        super().__init__()
        self.d_model = d_model
        self.register_buffer("table", sinusoidal(ready, d_model), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        check_shapes(type(self).__name__, x=(x, f"... T {self.d_model}"))
        T = x.shape[-2]
        table = self.table if T <= len(self.table) else sinusoidal(T, self.d_model, dtype=x.dtype, device=x.device)
        return x + table[:T].to(x.dtype)  # (B, T, D)

    def _apply(self, change, recurse=True):
        """Convert or move the module; the table is made anew, for float32 turned into float64 keeps its rounding."""
        super()._apply(change, recurse)
        self.table = sinusoidal(len(self.table), self.d_model, dtype=self.table.dtype).to(self.table.device)
        return self


class LearnedPositions(nn.Module):
    """x_t + p_t, a learned vector for each place (Gehring et al., 2017, section 3.1): x (B, T, D) -> (B, T, D).

    They start as torch.nn.Embedding starts the tokens', from N(0, 1). Raises ValueError for T > max_len: nobody taught
    those places.
    """

    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        self.max_len, self.d_model = max_len, d_model
        self.places = nn.Embedding(max_len, d_model)

    def forward(self, x: Tensor) -> Tensor:
        check_shapes(type(self).__name__, x=(x, f"... T {self.d_model}"))
        _check_taught(x.shape[-2], self.max_len)
        return x + self.places.weight[: x.shape[-2]]  # (B, T, D)


def rotate(x: Tensor, positions: Tensor | None = None, base: float = 10000.0, pairing: str = "neighbours") -> Tensor:
    """Rotary positions (Su et al., 2021, section 3.4.2): pair i of x_t is turned by the angle t / base^(2i/d).

    x (..., T, d), queries or keys, positions (T,) or broadcast to (..., T), 0 to T - 1 where None -> as x. A score of a
    turned query and a turned key depends on their offset only, so any places will do: negative, broken, far away.
    pairing: "neighbours" (x_0, x_1), (x_2, x_3) ... is the paper's, GPT-J's and LLaMA's own; "halves" (x_0, x_d/2),
    (x_1, x_d/2+1) ... is GPT-NeoX's and Hugging Face's LLaMA's, whose rows of W_q and W_k are permuted for it. One
    learns as well as the other, but weights trained with one are wrong with the other. Half precision is turned in full
    and rounded once. Raises ValueError or TypeError for what does not fit.
    """
    check_shapes("rotate", x=(x, "... T width"))
    _check_pairs("rotate", x.shape[-1])
    positions = torch.arange(x.shape[-2], device=x.device) if positions is None else positions
    _check_turn(x, positions, pairing)
    wide = torch.promote_types(x.dtype, torch.get_default_dtype())
    angles = _angles(positions, x.shape[-1], base)  # (..., T, d/2)
    cos, sin = angles.cos().to(wide), angles.sin().to(wide)
    near = pairing == "neighbours"
    a, b = (x[..., 0::2], x[..., 1::2]) if near else x.chunk(2, dim=-1)  # (..., T, d/2) each: the two of a pair
    turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1 if near else -2)
    return turned.flatten(-2).to(x.dtype)  # (..., T, d)


def clipped_bucket(distance: Tensor, max_distance: int) -> Tensor:
    """Shaw's buckets: one a distance from -k to k, further ones in the outermost (Shaw et al., 2018, section 3.2).

    distance (...), whole numbers -> int64 (...) from 0 to 2k, for k = max_distance: 2k + 1 buckets.
    """
    check_shapes("clipped_bucket", distance=(distance, "int ..."))
    return distance.long().clamp(-max_distance, max_distance) + max_distance


def t5_bucket(distance: Tensor, n_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> Tensor:
    """T5's buckets: near distances one each, further ones in logarithmic steps (Raffel et al., 2020, section 2.1).

    distance (...), whole numbers -> int64 (...) from 0 to n_buckets - 1; max_distance and beyond share the last one.
    The upper half is for keys after the query; bidirectional=False has every bucket for those before it.
    """
    check_shapes("t5_bucket", distance=(distance, "int ..."))
    _check_t5(n_buckets, max_distance, 2 if bidirectional else 1)
    distance = distance.long()  # in int8, -128 has no opposite, and in uint8 nothing is below 0
    if bidirectional:
        n_buckets //= 2
        offset, far = torch.where(distance > 0, n_buckets, 0), distance.abs()
    else:
        offset, far = 0, (-distance).clamp(min=0)
    exact = n_buckets // 2  # distances below have a bucket of their own
    # The logarithm in PyTorch's default precision, as in T5's own code: so every border falls where it does there.
    share = (far.clamp(min=exact) / exact).log() / math.log(max_distance / exact)
    coarse = (exact + (share * (n_buckets - exact)).long()).clamp(max=n_buckets - 1)
    return offset + torch.where(far < exact, far, coarse)


class RelativeBias(nn.Module):
    """A learned number a bucket of distances and head, to be added to the scores (Raffel et al., 2020, section 2.1).

    RelativeBias(t5_bucket, 32, n_heads) is T5's. RelativeBias(partial(clipped_bucket, max_distance=16), 33) takes the
    buckets of Shaw, whose own scheme (2018, equations 3 and 4) adds learned vectors to keys and values; this scalar is
    its common simplification. All numbers start at 0: as without positions.
    forward(queries, keys): their places, (T,) or (B, T), or how many they are, counted from 0; keys as queries where
    None -> (H, T_q, T_k), or (B, H, T_q, T_k).
    """

    def __init__(self, bucket: Callable[[Tensor], Tensor], n_buckets: int, n_heads: int = 1):
        super().__init__()
        self.bucket, self.n_buckets = bucket, n_buckets
        self.bias = nn.Embedding(n_buckets, n_heads)
        nn.init.zeros_(self.bias.weight)

    def forward(self, queries: Tensor | int, keys: Tensor | int | None = None) -> Tensor:
        buckets = self.bucket(_distances(queries, keys, self.bias.weight.device))  # (..., T_q, T_k)
        return self.bias(buckets).movedim(-1, -3)  # (..., H, T_q, T_k)


def alibi_slopes(n_heads: int, dtype=None, device=None) -> Tensor:
    """2^(-8/n), 2^(-16/n), ... 2^-8, a slope a head (Press et al., 2022, section 3) -> (H,).

    Where n is no power of two: those of the power m below it, then every second one of 2m, as in the paper's own code.
    """
    m = 2 ** (n_heads.bit_length() - 1)
    first = torch.arange(1, m + 1, dtype=dtype, device=device) / m  # (m,)
    rest = (2 * torch.arange(n_heads - m, dtype=dtype, device=device) + 1) / (2 * m)  # (n - m,)
    return 2.0 ** (-8 * torch.cat([first, rest]))


def alibi_bias(n_heads: int, T: int, dtype=None, device=None) -> Tensor:
    """Linear bias: -slope |i - j|, the further, the lower the score (Press et al., 2022, section 3) -> (H, T, T).

    The paper has it under a causal mask. Without one it cannot tell left from right, for it is the same to both sides.
    """
    dtype = dtype or torch.get_default_dtype()
    slopes = alibi_slopes(n_heads, torch.promote_types(dtype, torch.get_default_dtype()), device)
    return (-slopes[:, None, None] * _distances(T, T, device).abs()).to(dtype)  # (H, T, T)


def _angles(positions: Tensor, d: int, base: float) -> Tensor:
    """t / base^(2i/d) for each place t and pair i: positions (..., T) -> (..., T, d/2)."""
    try:  # in Python's own precision: float32 would be off by 0.0005 at place 8,191
        steps = torch.arange(0, d, 2, dtype=float, device=positions.device)
    except TypeError:  # on a device that has no such numbers, as Apple's, PyTorch's default has to do
        steps = torch.arange(0, d, 2, dtype=torch.get_default_dtype(), device=positions.device)
    return positions[..., None] * base ** (-steps / d)


def _distances(queries: Tensor | int, keys: Tensor | int | None, device=None) -> Tensor:
    """Key place - query place, for places (..., T) or so many, counted from 0: (..., T_q, T_k)."""
    queries, keys = (_counted(places, device) for places in (queries, queries if keys is None else keys))
    return keys[..., None, :] - queries[..., :, None]


def _counted(places: Tensor | int, device) -> Tensor:
    if isinstance(places, Tensor):
        # In uint8 nothing is below 0, and in int8 127 is the furthest.
        real = places.is_floating_point()
        return places.to(torch.promote_types(places.dtype, torch.get_default_dtype()) if real else torch.int64)
    return torch.arange(places, device=device)


def _check_pairs(name: str, d: int) -> None:
    if d < 2 or d % 2:
        raise ValueError(f"{name} works on pairs of numbers, so the width must be even and 2 or more; got {d}.")


def _check_taught(T: int, max_len: int) -> None:
    if T > max_len:
        raise ValueError(
            f"LearnedPositions was made for {max_len} places, x has {T}: cut x, make max_len larger and train, or use "
            "a scheme that goes on (SinusoidalPositions, rotate, RelativeBias)."
        )


def _check_turn(x: Tensor, positions: Tensor, pairing: str) -> None:
    if pairing not in PAIRINGS:
        raise ValueError(f"pairing must be {' or '.join(map(repr, PAIRINGS))}; got {pairing!r}.")
    if not broadcasts(positions, x.shape[:-1]):
        raise ValueError(
            f"positions must be ({x.shape[-2]},) or fit x without its width, {tuple(x.shape[:-1])}; got "
            f"{tuple(positions.shape)}."
        )


def _check_t5(n_buckets: int, max_distance: int, sides: int) -> None:
    exact = n_buckets // sides // 2
    if n_buckets % sides or not 1 <= exact < max_distance:
        raise ValueError(
            f"t5_bucket needs n_buckets, {2 * sides} or more{', even' * (sides - 1)}, and a max_distance beyond the "
            f"{exact} that have a bucket each; got n_buckets={n_buckets}, max_distance={max_distance}."
        )
