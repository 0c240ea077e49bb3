"""The block, attention and a feed-forward network, each inside a residual and a norm, and stacks of it. Lesson 06.

Shapes: B batch, T time, S time of the memory, D d_model, F d_ff. Batch first, always. Masks are boolean,
True = may be attended to.
"""

from collections.abc import Callable
from functools import partial

import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.multi_head import MultiHead, check_heads
from course_lib.attention.norms import LayerNorm
from course_lib.inputs.shapes import check_shapes

ACTIVATIONS = {
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # what GPT-1, GPT-2 and GPT-3 computed
    "gelu": F.gelu,
    "relu": F.relu,
    "relu_squared": lambda x: F.relu(x).square(),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """f(x W_1 + b_1) W_2 + b_2, at each place alone (Vaswani et al., 2017, section 3.3, eq. 2): (B, T, D) -> (B, T, D).

    activation: the function f, the paper's ReLU or another, such as F.gelu. Raises ValueError for x of another width.
    """

    def __init__(self, d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor] = F.relu):
        super().__init__()
        self.w_1, self.w_2, self.activation = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model), activation

    def forward(self, x: Tensor) -> Tensor:
        check_shapes(type(self).__name__, x=(x, f"... {self.w_1.in_features}"))
        return self.w_2(self.activation(self.w_1(x)))  # (B, T, F) inside


class GatedFeedForward(nn.Module):
    """(swish(x W_gate) * x W_in) W_out, at each place alone (SwiGLU; Shazeer, 2020, equation 6): (B, T, D) -> as x.

    One product opens or closes each of the F numbers of the other. swish(z) = z sigmoid(z), PyTorch's silu.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.w_gate, self.w_in = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_model, d_ff, bias=False)
        self.w_out = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        check_shapes(type(self).__name__, x=(x, f"... {self.w_in.in_features}"))
        return self.w_out(F.silu(self.w_gate(x)) * self.w_in(x))  # (B, T, F) inside


class Block(nn.Module):
    """One layer of a Transformer: look at oneself, look at a memory where there is a cross, think at each place.

        x + f(norm(x))  for each part f, the norm before it (Xiong et al., 2020, figure 1), where pre_norm;
        norm(x + f(x))  else, as in the paper (Vaswani et al., 2017, section 3.1)

    attention: a `MultiHead`, or a module of such arguments that knows its d_model; feed_forward: (B, T, D) -> as x;
    cross: as attention, or None; norm: d_model -> a norm. Dropout falls on what a part gives, before it is added
    (section 5.4). `from_sizes` builds the usual parts. The encoder's layer has no cross, the decoder's has one and
    looks back only (causal); GPT's blocks are causal without a cross.
    x (B, T, D), mask, causal and places as in `MultiHead` for the look at itself, memory (B, S, D) and memory_mask bool
    (B, S) or (B, T, S) -> (B, T, D). cache: a dict that keeps keys and values between calls: x is then what comes next.
    `record.capture` hears attention.weights and cross.weights. Raises what its parts raise, and ValueError for a
    memory that is missing or not asked for.
    """

    def __init__(
        self,
        attention: nn.Module,
        feed_forward: nn.Module,
        cross: nn.Module | None = None,
        norm: Callable[[int], nn.Module] = LayerNorm,
        dropout: float = 0.0,
        pre_norm: bool = False,
    ):
        super().__init__()
        self.attention, self.cross, self.feed_forward = attention, cross, feed_forward
        self.norm_1 = norm(attention.d_model)
        self.norm_cross = None if cross is None else norm(attention.d_model)
        self.norm_2 = norm(attention.d_model)
        self.dropout, self.pre_norm = nn.Dropout(dropout), pre_norm
        self.register_load_state_dict_pre_hook(_renamed)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: dict | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        _check_memory(self, memory)
        own, read = (None, None) if cache is None else (cache.setdefault(part, {}) for part in ("own", "memory"))
        if self.pre_norm:
            x = x + self.dropout(self.attention(self.norm_1(x), mask=mask, causal=causal, cache=own, places=places))
            if self.cross is not None:
                x = x + self.dropout(self.cross(self.norm_cross(x), memory, memory_mask, cache=read))
            return x + self.dropout(self.feed_forward(self.norm_2(x)))
        x = self.norm_1(x + self.dropout(self.attention(x, mask=mask, causal=causal, cache=own, places=places)))
        if self.cross is not None:
            x = self.norm_cross(x + self.dropout(self.cross(x, memory, memory_mask, cache=read)))
        return self.norm_2(x + self.dropout(self.feed_forward(x)))

    @classmethod
    def from_sizes(
        cls,
        d_model: int,
        n_heads: int,
        d_ff: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Tensor], Tensor] = F.relu,
        pre_norm: bool = False,
        cross: bool = False,
        d_k: int | None = None,
        **attention,
    ) -> "Block":
        """The block of the usual parts: `MultiHead`, for a cross one more, `FeedForward` and `LayerNorm`.

        d_ff is 4 d_model where None; d_k for both looks; attention: what else `MultiHead` takes, for the look at
        itself: turn, position_bias, window, n_kv_heads, d_v, bias.
        """
        own, memory = MultiHead(d_model, n_heads, d_k, **attention), MultiHead(d_model, n_heads, d_k) if cross else None
        return cls(
            own,
            FeedForward(d_model, 4 * d_model if d_ff is None else d_ff, activation),
            memory,
            dropout=dropout,
            pre_norm=pre_norm,
        )

    @classmethod
    def from_torch(cls, layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> "Block":
        """Our block with the weights of PyTorch's layer, norms before or after as there; ours is batch first.

        PyTorch's has dropout inside the attention and the feed-forward too, ours only where the paper has it. Raises
        TypeError for another layer, ValueError for one without biases.
        """
        cross = _check_copied(layer)
        ours = cls(
            MultiHead.from_torch(layer.self_attn),
            FeedForward(layer.self_attn.embed_dim, layer.linear1.out_features, layer.activation),
            MultiHead.from_torch(layer.multihead_attn) if cross else None,
            dropout=layer.dropout1.p,
            pre_norm=layer.norm_first,
        ).to(layer.linear1.weight)
        ours.feed_forward.w_1.load_state_dict(layer.linear1.state_dict())
        ours.feed_forward.w_2.load_state_dict(layer.linear2.state_dict())
        norms = [(ours.norm_1, layer.norm1), (ours.norm_2, layer.norm3 if cross else layer.norm2)]
        norms += [(ours.norm_cross, layer.norm2)] if cross else []
        for own, norm in norms:
            own.load_state_dict({"gain": norm.weight, "shift": norm.bias})
            own.eps = norm.eps
        return ours.train(layer.training)


class Encoder(nn.Module):
    """A stack of blocks that look at themselves (Vaswani et al., 2017, section 3.1, left half of figure 1).

    x (B, S, D), mask bool (B, S), the real places, or (B, S, S), or None -> (B, S, D). `block`: the further arguments
    of `Block.from_sizes`: d_ff, dropout, activation, pre_norm, d_k, turn, position_bias (one for all blocks) and the
    like. With norms before the parts, one stands behind the last.
    """

    cross = False  # whether the blocks look at a memory too

    def __init__(self, d_model: int, n_heads: int, n_layers: int = 6, **block):
        super().__init__()
        self.blocks = nn.ModuleList(
            Block.from_sizes(d_model, n_heads, cross=self.cross, **block) for _ in range(n_layers)
        )
        self.norm = LayerNorm(d_model) if block.get("pre_norm") else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


class Decoder(Encoder):
    """A stack of blocks that look back at themselves, and at a memory (Vaswani et al., 2017, right half of figure 1).

    x (B, T, D), memory (B, S, D), mask bool (B, S), where the memory may be looked at, or None -> (B, T, D). Padding
    stands behind a target, where nothing real looks: so the decoder needs no mask of its own but the causal one.
    cache: a list of one dict a block, empty at first; x is then what comes next, and the dicts are filled.
    """

    cross = True

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None, cache: list[dict] | None = None) -> Tensor:
        for block, kept in zip(self.blocks, cache or [None] * len(self.blocks), strict=True):
            x = block(x, causal=True, memory=memory, memory_mask=mask, cache=kept)
        return self.norm(x)


def _renamed(block: Block, weights: dict[str, Tensor], prefix: str, *_) -> None:
    """Give weights that were stored under an older name today's; `Module.load_state_dict` calls it."""
    norms = ("norm_1", "norm_2") if block.cross is None else ("norm_1", "norm_cross", "norm_2")
    for number, norm in enumerate(norms):
        for old in (f"{prefix}around.{number}.norm.", f"{prefix}norms.{number}."):
            for name in [name for name in weights if name.startswith(old)]:
                weights[f"{prefix}{norm}.{name.removeprefix(old)}"] = weights.pop(name)


def check_blocks(config) -> None:
    """Raise ValueError, in words, unless a configuration's heads share its width and its activation is known."""
    check_heads(config.d_model, config.n_heads)
    check_activation(config.activation)


def check_activation(name: str) -> None:
    """Raise ValueError, with the names that there are, for an activation that is not known."""
    if name not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}; got {name!r}.")


def _check_memory(block: Block, memory: Tensor | None) -> None:
    if block.cross is not None and memory is None:
        raise ValueError("This block looks at a memory (batch, time, width) too, what an encoder gives: hand one over.")
    if block.cross is None and memory is not None:
        raise ValueError(
            "This block looks at itself alone: build it with a cross (`from_sizes` has cross=True) to hand it a memory."
        )


def _check_copied(layer: nn.Module) -> bool:
    """Whether the layer is a decoder's."""
    kinds = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    if not isinstance(layer, kinds):
        raise TypeError(
            "Block.from_torch copies a torch.nn.TransformerEncoderLayer or TransformerDecoderLayer; got "
            f"{type(layer).__name__}."
        )
    if layer.linear1.bias is None:
        raise ValueError("Block.from_torch copies a layer with biases: build PyTorch's with bias=True.")
    return isinstance(layer, kinds[1])
