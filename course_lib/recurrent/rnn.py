"""The Elman recurrent network and back-propagation through time. Lesson 01.

Shapes: B batch, T time, D d_in, H d_hidden, L n_layers. Batch first, always.
Symbols are the lesson's: x_t input, h_t hidden state, w_x, w_h, b the weights that every step shares.
"""

import math
from typing import NamedTuple

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.inputs.sequences import check_sequence, full_precision, transformed


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


def bptt(
    x: Tensor, h0: Tensor, w_x: Tensor, w_h: Tensor, b: Tensor, grad_hs: Tensor, hs: Tensor | None = None
) -> RNNGrads:
    """Back-propagation through time by hand (Werbos, 1990, section III): dL/d(x, h0, w_x, w_h, b).

        da_t = (dL/dh_t + da_{t+1} w_h^T) * (1 - h_t^2)      from t = T down to 1, da_{T+1} = 0

    grad_hs (B, T, H) is what the loss sends into each h_t directly, not through later states.
    hs (B, T, H) may hand in the states that `unroll` already made; without it they are made anew.
    """
    if hs is None:
        hs = unroll(x, h0, w_x, w_h, b)
    da, from_later = torch.empty_like(grad_hs, memory_format=torch.contiguous_format), torch.zeros_like(h0)
    for t in reversed(range(hs.shape[1])):
        da[:, t] = (grad_hs[:, t] + from_later) * (1 - hs[:, t] ** 2)  # (B, H)
        from_later = da[:, t] @ w_h.T  # (B, H), what reaches h_{t-1}
    before = torch.cat([h0[:, None], hs[:, :-1]], dim=1)  # (B, T, H), the state that each step read
    rows = da.reshape(
        -1, da.shape[-1]
    )  # (B*T, H): the parameters are shared, so their gradient is a sum over batch and time
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
    def forward(ctx, x, h0, w_x, w_h, b):
        hs = unroll(x, h0, w_x, w_h, b)
        ctx.save_for_backward(x, h0, w_x, w_h, b, hs)
        return hs

    @staticmethod
    def backward(ctx, grad_hs):
        *arguments, hs = ctx.saved_tensors
        with full_precision(hs):
            if not torch.is_grad_enabled():
                return tuple(bptt(*arguments, grad_hs, hs))
            # create_graph=True: somebody wants the gradient of this gradient, so autograd takes it, and records it. By
            # views, for an argument may have been computed from another: that way is the outer pass's, not this one's.
            own = [a.view_as(a) for a in arguments]
            hs, wanted = unroll(*own), [a for a in own if a.requires_grad]
            grads = iter(torch.autograd.grad(hs, wanted, grad_hs, create_graph=True))
            return tuple(next(grads) if a.requires_grad else None for a in own)


class RNN(nn.Module):
    """Stacked Elman layers: layer l reads the states of layer l - 1 (Elman, 1990; Schmidhuber, 1992, for stacks).

    x (B, T, D), state (L, B, H) or None for zeros -> out (B, T, H) of the top layer, last state (L, B, H).
    Raises ValueError or TypeError, in words, for empty, misshapen or wrongly typed input.
    While `record.capture` listens at `hidden`, the same steps run one by one, so that every h_t can be seen.
    Under autocast it computes in the precision of its weights: T small products gain nothing from half of it.
    """

    def __init__(self, d_in: int, d_hidden: int, n_layers: int = 1):
        super().__init__()
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
        with full_precision(x):
            return self._run(x.to(self.w_x[0].dtype), state.to(self.w_x[0].dtype))

    def _run(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        # The hand-written backward pass is for plain training; a compiler or a transform reads the steps themselves.
        run = unroll if torch.compiler.is_compiling() or transformed() else _Unroll.apply
        last = []
        for w_x, w_h, b, hidden, h in zip(self.w_x, self.w_h, self.b, self.hidden, state, strict=True):
            if hidden._forward_hooks:  # being recorded: each state passes the listener and stays in the graph
                steps = []
                for x_t in x.unbind(1):
                    h = hidden(rnn_step(x_t, h, w_x, w_h, b))  # (B, H)
                    steps.append(h)
                x = torch.stack(steps, dim=1)  # (B, T, H)
            else:
                x = run(x, h, w_x, w_h, b)  # (B, T, H)
            last.append(x[:, -1])
        return x, torch.stack(last)  # (B, T, H), (L, B, H)

    @classmethod
    def from_torch(cls, rnn: nn.RNN) -> "RNN":
        """Our RNN with the weights of a `torch.nn.RNN`; its two biases add up to our one. Ours is batch first."""
        _check_copied(rnn)
        ours = cls(rnn.input_size, rnn.hidden_size, rnn.num_layers).to(rnn.weight_hh_l0)
        with torch.no_grad():
            for i in range(rnn.num_layers):
                ours.w_x[i].copy_(getattr(rnn, f"weight_ih_l{i}").T)
                ours.w_h[i].copy_(getattr(rnn, f"weight_hh_l{i}").T)
                if rnn.bias:
                    ours.b[i].copy_(getattr(rnn, f"bias_ih_l{i}") + getattr(rnn, f"bias_hh_l{i}"))
        return ours


def _check_copied(rnn: nn.RNN) -> None:
    if rnn.nonlinearity != "tanh" or rnn.bidirectional or rnn.dropout:
        raise ValueError(
            "RNN.from_torch copies a one-directional tanh network without dropout; got nonlinearity="
            f"{rnn.nonlinearity!r}, bidirectional={rnn.bidirectional}, dropout={rnn.dropout}."
        )
