"""Gated recurrent cells: LSTM and GRU, one step of each, and layers of them. Lesson 02.

Shapes: B batch, T time, D d_in, H d_hidden, L n_layers, N n_directions (1 or 2). Batch first, always.
Symbols are the lesson's: gates i, f, o and candidate g, side by side in that order in weights of width 4H.
PyTorch's own layers lay them out i, f, g, o, and store each weight transposed.
"""

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.recurrent.stacked import Stacked


def lstm_gates(x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Three gates and a candidate, i, f, o = sigmoid(.), g = tanh(.), each from x w + h w + b of its own.

    x (B, D), h (B, H), w_x (D, 4H), w_h (H, 4H), b (4H) -> i, f, o in (0, 1) and g in (-1, 1), (B, H) each.
    (Hochreiter and Schmidhuber, 1997, section 4; the forget gate: Gers, Schmidhuber and Cummins, 2000, section 3.)
    """
    i, f, o, g = (x @ w_x + h @ w_h + b).chunk(4, dim=-1)  # (B, H) each
    return torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o), torch.tanh(g)


def lstm_cell(c: Tensor, i: Tensor, f: Tensor, o: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """What the gates do: c' = f * c + i * g, h' = o * tanh(c'). All (B, H) -> h' (B, H), c' (B, H)."""
    c = f * c + i * g
    return o * torch.tanh(c), c


def lstm_step(x: Tensor, h: Tensor, c: Tensor, w_x: Tensor, w_h: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """One step of the LSTM: `lstm_gates` from x and h, then `lstm_cell` on c.

    x (B, D), h and c (B, H), w_x (D, 4H), w_h (H, 4H), b (4H), in the order i, f, o, g -> h' (B, H), c' (B, H).
    """
    return lstm_cell(c, *lstm_gates(x, h, w_x, w_h, b))


def gru_gates(
    x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Reset gate r, update gate z and candidate n as `torch.nn.GRU` computes them: r * (h w_h + b_h) inside n.

    x (B, D), h (B, H), w_x (D, 3H), w_h (H, 3H), b_x and b_h (3H), in the order r, z, n -> (B, H) each.
    """
    (r_x, z_x, n_x), (r_h, z_h, n_h) = (x @ w_x + b_x).chunk(3, dim=-1), (h @ w_h + b_h).chunk(3, dim=-1)
    r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    return r, z, torch.tanh(n_x + r * n_h)


def gru_gates_cho(
    x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same as first published, reset before the product: (r * h) w_h inside n (Cho et al., 2014, section 2.3).

    Arguments and results as in `gru_gates`. (The paper has no biases.)
    """
    (r_x, z_x, n_x), (r_w, z_w, n_w), (r_b, z_b, n_b) = (
        (x @ w_x + b_x).chunk(3, dim=-1),
        w_h.chunk(3, dim=-1),
        b_h.chunk(3, dim=-1),
    )
    r, z = torch.sigmoid(r_x + h @ r_w + r_b), torch.sigmoid(z_x + h @ z_w + z_b)
    return r, z, torch.tanh(n_x + (r * h) @ n_w + n_b)


def gru_cell(h: Tensor, r: Tensor, z: Tensor, n: Tensor) -> Tensor:
    """What the gates do: h' = z * h + (1 - z) * n, so z = 1 keeps the old state. All (B, H); r is inside n already."""
    return z * h + (1 - z) * n


def gru_step(x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor) -> Tensor:
    """One step of the GRU that `torch.nn.GRU` computes; arguments as in `gru_gates` -> h' (B, H)."""
    return gru_cell(h, *gru_gates(x, h, w_x, w_h, b_x, b_h))


def gru_step_cho(x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor, b_h: Tensor) -> Tensor:
    """One step of the GRU of Cho et al. (2014), section 2.3; arguments as in `gru_gates` -> h' (B, H)."""
    return gru_cell(h, *gru_gates_cho(x, h, w_x, w_h, b_x, b_h))


class LSTM(Stacked):
    """Stacked LSTM layers, one- or bidirectional (Hochreiter and Schmidhuber, 1997; Gers et al., 2000).

    x (B, T, D), state (h, c) of (L*N, B, H) each or None, lengths (B) of real steps (tensor, array, list) or None
    -> out (B, T, N*H) of the top layer, zero behind a sequence's end; last state (h, c).
    forget_bias is where the forget gate's bias starts (1: Jozefowicz, Zaremba and Sutskever, 2015).
    `record.capture` hears input_gate, forget_gate, output_gate, candidate, cell and hidden, each at "0", "0_reverse",
    "1" ...; a reverse direction is heard in the order in which it reads, last step first.
    Raises ValueError or TypeError, in words, for empty, misshapen or wrongly typed input.
    Lengths that lie on a device cost time: the layer then goes step by step, where packing would have to wait for them.
    """

    fused_type = nn.LSTM
    traced = ("input_gate", "forget_gate", "output_gate", "candidate", "cell", "hidden")

    def __init__(
        self, d_in: int, d_hidden: int, n_layers: int = 1, bidirectional: bool = False, forget_bias: float = 1.0
    ):
        super().__init__(d_in, d_hidden, n_layers, bidirectional)
        for bias in self.gate_biases(1):
            bias.fill_(forget_bias)

    def weights(self, place: str = "0") -> tuple[Tensor, Tensor, Tensor]:
        """w_x (D, 4H), w_h (H, 4H), b (4H) of one layer and direction, in the order i, f, o, g of `lstm_step`."""

        def in_order(name):
            i, f, g, o = getattr(self.fused, f"{name}_l{place}").chunk(4)
            return torch.cat([i, f, o, g])

        return in_order("weight_ih").T, in_order("weight_hh").T, in_order("bias_ih") + in_order("bias_hh")

    def step(self, place: str, x: Tensor, state: tuple[Tensor, Tensor], weights) -> tuple[Tensor, Tensor]:
        """`lstm_step`, with every part said aloud for whoever listens. -> h' (B, H), c' (B, H)."""
        h, c = state
        i, f, o, g = (
            getattr(self, name)[place](value)
            for name, value in zip(self.traced[:4], lstm_gates(x, h, *weights), strict=True)
        )
        h, c = lstm_cell(c, i, f, o, g)
        return self.hidden[place](h), self.cell[place](c)


class GRU(Stacked):
    """Stacked GRU layers, one- or bidirectional, in the form of `torch.nn.GRU` (after Cho et al., 2014, section 2.3).

    As `LSTM`, with one state h; `record.capture` hears reset_gate, update_gate, candidate and hidden.
    update_bias is where the bias of the update gate starts; above zero the old state is kept for longer.
    """

    fused_type = nn.GRU
    traced = ("reset_gate", "update_gate", "candidate", "hidden")

    def __init__(
        self, d_in: int, d_hidden: int, n_layers: int = 1, bidirectional: bool = False, update_bias: float = 0.0
    ):
        super().__init__(d_in, d_hidden, n_layers, bidirectional)
        for bias in self.gate_biases(1):
            bias.fill_(update_bias)

    def weights(self, place: str = "0") -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """w_x (D, 3H), w_h (H, 3H), b_x (3H), b_h (3H) of one layer and direction, in the order r, z, n."""
        w_x, w_h, b_x, b_h = (
            getattr(self.fused, f"{name}_l{place}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        return w_x.T, w_h.T, b_x, b_h

    def step(self, place: str, x: Tensor, state: tuple[Tensor], weights) -> tuple[Tensor]:
        """`gru_step`, with every part said aloud for whoever listens. -> (h' (B, H),)."""
        r, z, n = (
            getattr(self, name)[place](value)
            for name, value in zip(self.traced[:3], gru_gates(x, *state, *weights), strict=True)
        )
        return (self.hidden[place](gru_cell(*state, r, z, n)),)


def chrono_(layer: LSTM | GRU, longest: int) -> LSTM | GRU:
    """Start gates so that units forget after 2 ... `longest` steps: b_f = log u, u uniform in [1, longest - 1].

    The LSTM's input gate gets -b_f ("chrono initialization", Tallec and Ollivier, 2018). Changes and returns
    the layer.
    """
    keep, let_in = layer.gate_biases(1), layer.gate_biases(0)
    for bias, other in zip(keep, let_in, strict=True):
        bias.uniform_(1, longest - 1).log_() if longest > 2 else bias.zero_()
        if isinstance(layer, LSTM):
            other.copy_(-bias)
    return layer
