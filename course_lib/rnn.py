"""The Elman recurrent network and back-propagation through time. Lesson 01.

Shapes: B batch, T time, D d_in, H d_hidden, L n_layers. Batch first, always.
Symbols are the lesson's: x_t input, h_t hidden state, w_x, w_h, b the weights that every step shares.
"""

import math
from typing import NamedTuple

import torch
import torch.nn as nn
from torch import Tensor


def rnn_step(x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b: Tensor) -> Tensor:
    """One step of the Elman network, h' = tanh(x w_x + h w_h + b) (after Elman, 1990, "Networks with memory").

    x (B, D), h (B, H), w_x (D, H), w_h (H, H), b (H) -> h' (B, H), each entry in [-1, 1].
    """
    return torch.tanh(x @ w_x + h @ w_h + b)  # (B, H)


def unroll(x: Tensor, h0: Tensor, w_x: Tensor, w_h: Tensor, b: Tensor) -> Tensor:
    """Every hidden state h_1 ... h_T of one layer, in order: `rnn_step` repeated with the same weights.

    x (B, T, D), h0 (B, H) -> hs (B, T, H). The product x w_x needs no state, so all T of them are one matmul.
    """
    pre = torch.matmul(x, w_x) + b  # (B, T, H)
    h, hs = h0, []
    for pre_t in pre.unbind(1):
        h = torch.tanh(torch.addmm(pre_t, h, w_h))  # pre_t + h w_h in one call: (B, H)
        hs.append(h)
    return torch.stack(hs, dim=1)  # (B, T, H)


class RNNGrads(NamedTuple):
    """Gradients of a loss with respect to the arguments of `unroll`, each of its argument's shape."""

    x: Tensor
    h0: Tensor
    w_x: Tensor
    w_h: Tensor
    b: Tensor


def bptt(x: Tensor, h0: Tensor, w_x: Tensor, w_h: Tensor, b: Tensor, grad_hs: Tensor,
         hs: Tensor | None = None) -> RNNGrads:
    """Back-propagation through time by hand (Werbos, 1990, section III): dL/d(x, h0, w_x, w_h, b).

        da_t = (dL/dh_t + da_{t+1} w_h^T) * (1 - h_t^2)      from t = T down to 1, da_{T+1} = 0

    grad_hs (B, T, H) is what the loss sends into each h_t directly, not through later states.
    hs (B, T, H) may hand in the states that `unroll` already made; without it they are made anew.
    """
    if hs is None:
        hs = unroll(x, h0, w_x, w_h, b)
    da, from_later = torch.empty_like(hs), torch.zeros_like(h0)
    for t in reversed(range(hs.shape[1])):
        da[:, t] = (grad_hs[:, t] + from_later) * (1 - hs[:, t] ** 2)  # (B, H)
        from_later = da[:, t] @ w_h.T  # (B, H), what reaches h_{t-1}
    before = torch.cat([h0[:, None], hs[:, :-1]], dim=1)  # (B, T, H), the state that each step read
    rows = da.flatten(0, 1)  # (B*T, H): the weights are shared, so their gradient is a sum over batch and time
    return RNNGrads(
        x=da @ w_x.T,  # (B, T, D)
        h0=from_later,  # (B, H)
        w_x=x.flatten(0, 1).T @ rows,  # (D, H)
        w_h=before.flatten(0, 1).T @ rows,  # (H, H)
        b=rows.sum(0),  # (H)
    )


class _Unroll(torch.autograd.Function):
    """`unroll` whose backward pass is `bptt`: autograd need not record T small steps, so training is faster."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.get_default_dtype())
    def forward(ctx, x, h0, w_x, w_h, b):
        hs = unroll(x, h0, w_x, w_h, b)
        ctx.save_for_backward(x, h0, w_x, w_h, b, hs)
        return hs

    @staticmethod
    @torch.autograd.function.once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad_hs):
        *arguments, hs = ctx.saved_tensors
        return tuple(bptt(*arguments, grad_hs, hs))


class RNN(nn.Module):
    """Stacked Elman layers: layer l reads the states of layer l - 1 (Elman, 1990; Schmidhuber, 1992, for stacks).

    x (B, T, D), state (L, B, H) or None for zeros -> out (B, T, H) of the top layer, last state (L, B, H).
    Raises ValueError or TypeError, in words, for empty, misshapen, non-finite or wrongly typed input.
    While `record.capture` listens at `hidden`, the same steps run one by one, so that every h_t can be seen.
    """

    def __init__(self, d_in: int, d_hidden: int, n_layers: int = 1):
        super().__init__()
        if min(d_in, d_hidden, n_layers) < 1:
            raise ValueError("RNN sizes must be 1 or more; got "
                             f"d_in={d_in}, d_hidden={d_hidden}, n_layers={n_layers}.")
        self.d_in, self.d_hidden, self.n_layers = d_in, d_hidden, n_layers
        widths = [d_in] + [d_hidden] * (n_layers - 1)
        self.w_x = nn.ParameterList(torch.randn(d, d_hidden) / math.sqrt(d) for d in widths)
        # Orthogonal: every singular value is 1, so that a gradient starts out neither growing nor shrinking.
        self.w_h = nn.ParameterList(nn.init.orthogonal_(torch.empty(d_hidden, d_hidden)) for _ in widths)
        self.b = nn.ParameterList(torch.zeros(d_hidden) for _ in widths)
        self.hidden = nn.ModuleList(nn.Identity() for _ in widths)  # a named place where a recorder can listen

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if state is None:
            state = self.w_h[0].new_zeros(self.n_layers, *x.shape[:1], self.d_hidden)  # (L, B, H)
        check_sequence(self, x, state)
        last = []
        for w_x, w_h, b, hidden, h in zip(self.w_x, self.w_h, self.b, self.hidden, state, strict=True):
            if hidden._forward_hooks:  # being recorded: each state passes the listener and stays in the graph
                steps = []
                for x_t in x.unbind(1):
                    h = hidden(rnn_step(x_t, h, w_x, w_h, b))  # (B, H)
                    steps.append(h)
                x = torch.stack(steps, dim=1)  # (B, T, H)
            else:
                x = _Unroll.apply(x, h, w_x, w_h, b)  # (B, T, H)
            last.append(x[:, -1])
        return x, torch.stack(last)  # (B, T, H), (L, B, H)

    @classmethod
    def from_torch(cls, rnn: nn.RNN) -> "RNN":
        """Our RNN with the weights of a `torch.nn.RNN`; its two biases add up to our one. Ours is batch first."""
        if not isinstance(rnn, nn.RNN):
            raise TypeError(f"RNN.from_torch copies a torch.nn.RNN; got {type(rnn).__name__}.")
        if rnn.nonlinearity != "tanh" or rnn.bidirectional or rnn.dropout:
            raise ValueError("RNN.from_torch copies a one-directional tanh network without dropout; got nonlinearity="
                             f"{rnn.nonlinearity!r}, bidirectional={rnn.bidirectional}, dropout={rnn.dropout}.")
        ours = cls(rnn.input_size, rnn.hidden_size, rnn.num_layers).to(rnn.weight_hh_l0)
        with torch.no_grad():
            for i in range(rnn.num_layers):
                ours.w_x[i].copy_(getattr(rnn, f"weight_ih_l{i}").T)
                ours.w_h[i].copy_(getattr(rnn, f"weight_hh_l{i}").T)
                if rnn.bias:
                    ours.b[i].copy_(getattr(rnn, f"bias_ih_l{i}") + getattr(rnn, f"bias_hh_l{i}"))
        return ours


def check_sequence(layer: nn.Module, x: Tensor, *states: Tensor, n_directions: int = 1) -> None:
    """Raise ValueError or TypeError, in words, unless a recurrent layer can read x (B, T, D) from these states."""
    name, weight = type(layer).__name__, next(layer.parameters())
    if x.ndim != 3 or x.shape[-1] != layer.d_in:
        raise ValueError(f"{name} reads x of shape (batch, time, {layer.d_in}); got {tuple(x.shape)}.")
    if 0 in x.shape:
        raise ValueError(f"{name} needs at least one sequence of at least one step; got x of shape {tuple(x.shape)}.")
    shape = (layer.n_layers * n_directions, x.shape[0], layer.d_hidden)
    for state in states:
        if state.shape != shape:
            rows = "n_layers" if n_directions == 1 else "n_layers * 2 directions"
            raise ValueError(f"The state must have shape ({rows}, batch, d_hidden) = {shape}; "
                             f"got {tuple(state.shape)}.")
    for name, tensor in (("x", x), *(("The state", state) for state in states)):
        if tensor.device != weight.device:
            raise ValueError(f"{name} is on {tensor.device}, the weights on {weight.device}: move one of them.")
        if tensor.dtype != weight.dtype and not torch.is_autocast_enabled(weight.device.type):
            raise TypeError(f"{name} is {tensor.dtype} but the weights are {weight.dtype}: convert it with "
                            f".to({weight.dtype}), or embed it first if it holds token ids.")
        if not torch.isfinite(tensor).all():
            raise ValueError(f"{name} holds NaN or infinity: look for a division by zero in the data "
                             "or a learning rate that is too high.")
