"""Layers on layers, both directions of reading, sequences of unequal length: what LSTM and GRU share. Lesson 02.

Shapes: B batch, T time, D d_in, H d_hidden, L n_layers, N n_directions (1 or 2). Batch first, always.
"""

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from course_lib.inputs.sequences import (
    autocast_is_on,
    check_sequence,
    full_precision,
    transformed,
    visible,
    whole_lengths,
)


class Stacked(nn.Module):
    """A stack of recurrent layers, one- or bidirectional, around a cell's `weights` and `step`.

    The weights are those of PyTorch's own layer, `fused`, which computes while nobody listens. `loop` is the same
    computation step by step, to be read; it runs while `record.capture` listens. A test holds the two equal.
    """

    fused_type: type[nn.RNNBase]
    traced: tuple[str, ...]  # what `record.capture` can hear: "forget_gate.0", "hidden.1_reverse", ...

    def __init__(self, d_in: int, d_hidden: int, n_layers: int = 1, bidirectional: bool = False):
        super().__init__()
        self.d_in, self.d_hidden, self.n_layers, self.bidirectional = d_in, d_hidden, n_layers, bidirectional
        self.fused = self.fused_type(d_in, d_hidden, n_layers, batch_first=True, bidirectional=bidirectional)
        with torch.no_grad():
            for name, weight in self.fused.named_parameters():
                if name.startswith("bias"):
                    weight.zero_()
                else:
                    for part in weight.split(d_hidden):  # one gate's share: (H, D) or (H, H)
                        if name.startswith("weight_hh"):
                            nn.init.orthogonal_(part)
                        else:
                            part.normal_(0, part.shape[1] ** -0.5)
        self.places = [f"{layer}{way}" for layer in range(n_layers) for way in ("", "_reverse")[: 1 + bidirectional]]
        for name in self.traced:
            setattr(self, name, nn.ModuleDict({place: nn.Identity() for place in self.places}))

    def gate_biases(self, gate: int) -> list[Tensor]:
        """The bias of one gate (0, 1, 2 ... in PyTorch's order) in every layer and direction: views (H) to write to."""
        return [getattr(self.fused, f"bias_ih_l{place}").data.split(self.d_hidden)[gate] for place in self.places]

    def forward(self, x: Tensor, state=None, lengths=None):
        states, lengths = self._prepare(x, state, lengths)
        listening = any(tap._forward_hooks for name in self.traced for tap in getattr(self, name).values())
        # PyTorch packs by lengths on the CPU alone. To fetch them from a device would be to wait for it: then by steps.
        out_of_reach = lengths is not None and not visible(lengths)
        stepwise = listening or out_of_reach or transformed()  # PyTorch's layer has no rule for vmap
        run = self.loop if stepwise else self._run_fused
        if not (x.is_cpu and autocast_is_on(x)):
            return run(x, states, lengths)
        # On a CPU half precision gains nothing here, and where the processor has no bf16 PyTorch's LSTM fails in it.
        with full_precision(x):
            exact = self.fused.weight_hh_l0.dtype
            return run(x.to(exact), tuple(part.to(exact) for part in states), lengths)

    def loop(self, x: Tensor, state=None, lengths: Tensor | None = None):
        """The forward pass one step at a time, to be read and to be listened to; the same numbers as the layer."""
        (states, lengths), last = self._prepare(x, state, lengths), []
        lengths = None if lengths is None else lengths.to(x.device)  # (B,)
        for layer in range(self.n_layers):
            outs = []
            for place in (place for place in self.places if place.split("_")[0] == str(layer)):
                weights, now = self.weights(place), tuple(part[len(last)] for part in states)
                steps = reversed(range(x.shape[1])) if place.endswith("reverse") else range(x.shape[1])
                hs = [None] * x.shape[1]
                for t in steps:
                    new = self.step(place, x[:, t], now, weights)  # each (B, H)
                    if lengths is not None:  # behind its end a sequence keeps its state and puts out zeros
                        real = (t < lengths)[:, None]  # (B, 1)
                        now = tuple(torch.where(real, fresh, old) for fresh, old in zip(new, now, strict=True))
                        hs[t] = new[0].masked_fill(~real, 0)
                    else:
                        now, hs[t] = new, new[0]
                outs.append(torch.stack(hs, dim=1))  # (B, T, H)
                last.append(now)
            x = torch.cat(outs, dim=-1)  # (B, T, N*H)
        return x, self._state(torch.stack(part) for part in zip(*last, strict=True))  # each (L*N, B, H)

    def _run_fused(self, x: Tensor, states: tuple[Tensor, ...], lengths: Tensor | None):
        if lengths is None:
            return self.fused(x, self._state(states))
        packed = pack_padded_sequence(x, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
        out, last = self.fused(packed, self._state(states))
        longest_first = PackedSequence(out.data, out.batch_sizes)  # asked to reorder, PyTorch would wait for the device
        out = pad_packed_sequence(longest_first, batch_first=True, total_length=x.shape[1])[0]
        out = out.index_select(0, packed.unsorted_indices)  # (B, T, N*H)
        # Packing knows no empty sequence: it read one step, take it back.
        empty = (lengths == 0).to(x.device, non_blocking=True)[:, None]  # (B, 1)
        last = last if isinstance(last, tuple) else (last,)
        return (
            out.masked_fill(empty[..., None], 0),
            self._state(torch.where(empty, old, new) for old, new in zip(states, last, strict=True)),
        )

    def _prepare(self, x: Tensor, state, lengths) -> tuple[tuple[Tensor, ...], Tensor | None]:
        """The parts of the state, zeros where there is none, and the lengths; raises what the layer raises."""
        n_states = 2 if self.fused_type is nn.LSTM else 1
        if state is None:
            zeros = self.fused.weight_hh_l0.new_zeros(len(self.places), *x.shape[:1], self.d_hidden)  # (L*N, B, H)
            states = (zeros,) * n_states
        else:
            states = tuple(state) if isinstance(state, (tuple, list)) else (state,)
            self._check_parts(states, n_states)
        check_sequence(self, x, *states, n_directions=1 + self.bidirectional)
        return states, None if lengths is None else whole_lengths(lengths, x.shape[1], len(x))

    @staticmethod
    def _state(parts):
        parts = tuple(parts)
        return parts if len(parts) == 2 else parts[0]

    @classmethod
    def from_torch(cls, layer: nn.RNNBase):
        """Our layer with the weights of PyTorch's. Ours is batch first; one without biases gets biases of zero."""
        cls._check_copied(layer)
        ours = cls(layer.input_size, layer.hidden_size, layer.num_layers, layer.bidirectional)
        ours = ours.to(layer.weight_hh_l0)
        with torch.no_grad():
            for name, weight in ours.fused.named_parameters():
                weight.copy_(getattr(layer, name)) if hasattr(layer, name) else weight.zero_()
        return ours

    def _check_parts(self, states: tuple, n_states: int) -> None:
        if len(states) != n_states:
            raise TypeError(
                f"{type(self).__name__} carries {n_states} state{'s (h, c)' if n_states == 2 else ''}; "
                f"got {len(states)}."
            )

    @classmethod
    def _check_copied(cls, layer: nn.RNNBase) -> None:
        if type(layer) is not cls.fused_type:
            raise TypeError(
                f"{cls.__name__}.from_torch copies a torch.nn.{cls.fused_type.__name__}; got {type(layer).__name__}."
            )
        if layer.dropout or layer.proj_size:
            raise ValueError(
                f"{cls.__name__}.from_torch copies a layer without dropout and projection; got "
                f"dropout={layer.dropout}, proj_size={layer.proj_size}."
            )
