"""The block, attention and a feed-forward network, each inside a residual and a norm, and stacks of it. Lesson 06.

Shapes: B batch, T time, S time of the memory, D d_model, F d_ff. Batch first, always. Masks are boolean,
True = may be attended to.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.multi_head import MultiHead
from course_lib.inputs.sequences import check_sizes

ACTIVATIONS = {
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # what GPT-1, GPT-2 and GPT-3 computed
    "gelu": F.gelu,
    "relu": F.relu,
    "relu_squared": lambda x: F.relu(x).square(),
    "silu": F.silu,
}


def layer_norm(x: Tensor, gain: Tensor, shift: Tensor, eps: float = 1e-5) -> Tensor:
    """gain * (x - mean) / sqrt(variance + eps) + shift, over the width of each place (Ba, Kiros and Hinton, 2016).

    x (..., D), gain and shift (D,) -> (..., D). Mean and variance are sums over the D numbers times 1 / D, the variance
    too: torch.var divides by D - 1 unless it is told not to.
    """
    mean = x.mean(dim=-1, keepdim=True)  # (..., 1)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)  # (..., 1)
    return gain * (x - mean) / torch.sqrt(variance + eps) + shift


class LayerNorm(nn.Module):
    """`layer_norm` with a learned gain, at first 1, and shift, at first 0: x (..., D) -> (..., D), by PyTorch's kernel.

    eps is added to the variance. Raises ValueError for x of another width.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        check_sizes("LayerNorm", d_model=d_model)
        self.gain, self.shift, self.eps = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model)), eps

    def forward(self, x: Tensor) -> Tensor:
        _check_width(self, x, len(self.gain))
        return F.layer_norm(x, self.gain.shape, self.gain, self.shift, self.eps)


class FeedForward(nn.Module):
    """f(x W_1 + b_1) W_2 + b_2, at each place alone (Vaswani et al., 2017, section 3.3, eq. 2): (B, T, D) -> (B, T, D).

    activation: the function f, the paper's ReLU or another, such as F.gelu. Raises ValueError for x of another width.
    """

    def __init__(self, d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor] = F.relu):
        super().__init__()
        check_sizes("FeedForward", d_model=d_model, d_ff=d_ff)
        self.w_1, self.w_2, self.activation = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model), activation

    def forward(self, x: Tensor) -> Tensor:
        _check_width(self, x, self.w_1.in_features)
        return self.w_2(self.activation(self.w_1(x)))  # (B, T, F) inside


class Residual(nn.Module):
    """What stands around each part f of a block: x + f(x), with a norm (Vaswani et al., 2017, section 3.1).

        norm(x + f(x))  after the sum, the paper's;   x + f(norm(x))  before f (Xiong et al., 2020, figure 1)

    Dropout falls on what f gives, before it is added (section 5.4). x (B, T, D) -> (B, T, D).
    """

    def __init__(self, d_model: int, dropout: float = 0.0, pre_norm: bool = False):
        super().__init__()
        self.norm, self.dropout, self.pre_norm = LayerNorm(d_model), nn.Dropout(dropout), pre_norm

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre_norm:
            return x + self.dropout(f(self.norm(x)))
        return self.norm(x + self.dropout(f(x)))


class Block(nn.Module):
    """One layer of a Transformer: look at oneself, look at a memory where cross=True, think at each place.

    Vaswani et al. (2017), section 3.1: without cross the encoder's layer, with cross and causal the decoder's. Lesson
    07's GPT is causal without cross. d_ff is 4 d_model where None; activation as in `FeedForward`.
    x (B, T, D), mask as in `MultiHead` and causal for its look at itself, memory (B, S, D) and memory_mask bool (B, S)
    or (B, T, S) -> (B, T, D). cache: a dict that keeps keys and values between calls: x is then what comes next.
    `record.capture` hears attention.weights and cross.weights. Raises what MultiHead raises, and ValueError for a
    memory that is missing or not asked for.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Tensor], Tensor] = F.relu,
        pre_norm: bool = False,
        cross: bool = False,
        d_k: int | None = None,
    ):
        super().__init__()
        self.attention = MultiHead(d_model, n_heads, d_k)
        self.cross = MultiHead(d_model, n_heads, d_k) if cross else None
        self.feed_forward = FeedForward(d_model, 4 * d_model if d_ff is None else d_ff, activation)
        self.around = nn.ModuleList(Residual(d_model, dropout, pre_norm) for _ in range(2 + cross))

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: dict | None = None,
    ) -> Tensor:
        _check_memory(self, memory)
        own, read = (None, None) if cache is None else (cache.setdefault(part, {}) for part in ("own", "memory"))
        x = self.around[0](x, lambda x: self.attention(x, None, mask, causal, own))
        if self.cross is not None:
            x = self.around[1](x, lambda x: self.cross(x, memory, memory_mask, cache=read))
        return self.around[-1](x, self.feed_forward)

    @classmethod
    def from_torch(cls, layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> "Block":
        """Our block with the weights of PyTorch's layer, norms before or after as there; ours is batch first.

        PyTorch's has dropout inside the attention and the feed-forward too, ours only where the paper has it. Raises
        TypeError for another layer, ValueError for one without biases.
        """
        cross = _check_copied(layer)
        d_model, n_heads, d_ff = layer.self_attn.embed_dim, layer.self_attn.num_heads, layer.linear1.out_features
        ours = cls(d_model, n_heads, d_ff, layer.dropout1.p, layer.activation, layer.norm_first, cross)
        ours = ours.to(layer.linear1.weight)
        ours.attention = MultiHead.from_torch(layer.self_attn)
        norms = [layer.norm1, layer.norm2]
        if cross:
            ours.cross = MultiHead.from_torch(layer.multihead_attn)
            norms.append(layer.norm3)
        ours.feed_forward.w_1.load_state_dict(layer.linear1.state_dict())
        ours.feed_forward.w_2.load_state_dict(layer.linear2.state_dict())
        for around, norm in zip(ours.around, norms, strict=True):
            around.norm.load_state_dict({"gain": norm.weight, "shift": norm.bias})
            around.norm.eps = norm.eps
        return ours.train(layer.training)


class Encoder(nn.Module):
    """A stack of blocks that look at themselves (Vaswani et al., 2017, section 3.1, left half of figure 1).

    x (B, S, D), mask bool (B, S), the real places, or (B, S, S), or None -> (B, S, D). `block`: the further arguments
    of each `Block`, d_ff, dropout, activation, pre_norm, d_k. With norms before the parts, one stands behind the last.
    """

    cross = False  # whether the blocks look at a memory too

    def __init__(self, d_model: int, n_heads: int, n_layers: int = 6, **block):
        super().__init__()
        check_sizes(type(self).__name__, n_layers=n_layers)
        self.blocks = nn.ModuleList(Block(d_model, n_heads, cross=self.cross, **block) for _ in range(n_layers))
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


def check_blocks(config, **sizes) -> None:
    """Raise ValueError, in words, unless a configuration's blocks can be built, and `sizes` of its own."""
    sizes |= {name: getattr(config, name) for name in ("d_model", "n_heads", "n_layers")}
    sizes |= {} if config.d_ff is None else {"d_ff": config.d_ff}
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool):
            raise ValueError(f"{name} must be a whole number; got {size!r}.")
    check_sizes(type(config).__name__, **sizes)
    if config.d_model % config.n_heads:
        raise ValueError(
            f"The heads share d_model in equal parts: it must be a multiple of n_heads; got d_model={config.d_model}, "
            f"n_heads={config.n_heads}."
        )
    if not 0 <= config.dropout < 1:
        raise ValueError(f"dropout is the share that is dropped, from 0 to below 1; got {config.dropout}.")
    if config.activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}; got {config.activation!r}.")
    if not config.eps >= 0:
        raise ValueError(f"eps is added to a variance and must be 0 or more; got {config.eps}.")


def _check_width(layer: nn.Module, x: Tensor, d_model: int) -> None:
    if not x.is_floating_point():
        raise TypeError(f"{type(layer).__name__} needs vectors of real numbers; got {x.dtype}: embed token ids first.")
    if not x.ndim or x.shape[-1] != d_model:
        raise ValueError(f"{type(layer).__name__} needs x of shape (..., {d_model}); got {tuple(x.shape)}.")


def _check_memory(block: Block, memory: Tensor | None) -> None:
    if block.cross is not None and memory is None:
        raise ValueError("This block looks at a memory (batch, time, width) too, what an encoder gives: hand one over.")
    if block.cross is None and memory is not None:
        raise ValueError("This block looks at itself alone: build it with cross=True to hand it a memory.")


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
