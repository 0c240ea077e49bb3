"""T5: the Transformer of lesson 06 without biases, and with positions in its scores alone. Lesson 13.

    x + f(rms_norm(x)),   scores q k + bias[bucket(key position - query position)],   no b anywhere
    (Raffel et al., 2020, section 2.1; that matrices have no b either is how their code has it)

Of version 1.1, mT5 and ByT5 (Xue et al., 2021, section 3.2; 2022, section 3.1) the feed-forward network has a gate,
and, as the notes to that release say, the read-out is a matrix of its own.
Shapes: B batch, S source time, T target time, D d_model, F d_ff, V vocab_size. Batch first. Token ids: 0 padding, and
what a target begins with; 1 end.
"""

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.attention.block import (
    ACTIVATIONS,
    Block,
    Decoder,
    Encoder,
    FeedForward,
    GatedFeedForward,
    check_activation,
)
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.norms import RMSNorm
from course_lib.attention.positions import RelativeBias, t5_bucket
from course_lib.attention.transformer import PlacedEmbedding, Transformer
from course_lib.inputs.shapes import check_same_shapes, check_shapes
from course_lib.weights.t5_weights import from_t5

T5_END = 1


@dataclass(frozen=True)
class T5Config:
    """The sizes of a `T5`; those of T5 small where nothing is said. Raises ValueError for what cannot be.

    n_layers of the encoder, and of the decoder where n_decoder_layers is None. n_buckets, max_distance as in
    `t5_bucket`. gated: `GatedActivation` instead of `FeedForward`; tied: the read-out is the embedding, transposed.
    """

    vocab_size: int = 32_128
    d_model: int = 512
    n_heads: int = 8
    n_layers: int = 6
    d_ff: int = 2048
    d_head: int = 64
    n_decoder_layers: int | None = None
    n_buckets: int = 32
    max_distance: int = 128
    dropout: float = 0.1
    eps: float = 1e-6
    gated: bool = False
    tied: bool = True
    activation: str = "relu"

    def __post_init__(self):
        if self.n_decoder_layers is None:
            object.__setattr__(self, "n_decoder_layers", self.n_layers)
        check_activation(self.activation)


class GatedActivation(GatedFeedForward):
    """(f(x W_gate) * x W_in) W_out (Shazeer, 2020, section 2; GEGLU with f = gelu): (B, T, D) -> as x."""

    def __init__(self, d_model: int, d_ff: int, activation: str = "gelu_tanh"):
        super().__init__(d_model, d_ff)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        check_shapes(type(self).__name__, x=(x, f"... {self.w_in.in_features}"))
        return self.w_out(self.activation(self.w_gate(x)) * self.w_in(x))  # (B, T, F) inside


class UntiedEmbedding(PlacedEmbedding):
    """An embedding whose read-out is a matrix of its own, x W: ids (B, T) -> (B, T, D), and (B, T, D) -> (B, T, V)."""

    def __init__(self, vocab_size: int, d_model: int, *more):
        super().__init__(vocab_size, d_model, *more)
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def readout(self, x: Tensor) -> Tensor:
        return self.head(x)


def t5_block(config: T5Config, position_bias: nn.Module, cross: bool) -> Block:
    """One layer: `Block` of T5's parts, with attention to a memory where cross; none of them has a bias."""
    heads = partial(MultiHead, config.d_model, config.n_heads, config.d_head, bias=False, d_v=config.d_head)
    if config.gated:
        feed_forward = GatedActivation(config.d_model, config.d_ff, config.activation)
    else:
        feed_forward = FeedForward(config.d_model, config.d_ff, ACTIVATIONS[config.activation])
        feed_forward.w_1.bias = feed_forward.w_2.bias = None
    look = heads() if cross else None
    norm = partial(RMSNorm, eps=config.eps)
    return Block(heads(position_bias=position_bias), feed_forward, look, norm, config.dropout, pre_norm=True)


class T5Encoder(Encoder):
    """`Encoder` of T5's blocks, which share one table of distances, to both sides; a norm behind the last."""

    def __init__(self, config: T5Config, n_layers: int):
        nn.Module.__init__(self)
        bucket = partial(t5_bucket, n_buckets=config.n_buckets, max_distance=config.max_distance)
        bucket = partial(bucket, bidirectional=not self.cross)  # who looks back only has all buckets for that
        bias = RelativeBias(bucket, config.n_buckets, config.n_heads)
        self.blocks = nn.ModuleList(t5_block(config, bias, self.cross) for _ in range(n_layers))
        self.norm = RMSNorm(config.d_model, config.eps)


class T5Decoder(T5Encoder, Decoder):
    """`Decoder` of T5's blocks, as `T5Encoder`: only self-attention uses distances, cross-attention does not."""


class T5(Transformer):
    """Reads a text and writes one, whatever the task (Raffel et al., 2020): `Transformer` with T5's stacks.

    source (B, S), lengths (B) or None (all up to the padding), target_in (B, T), which begins with 0 -> logits
    (B, T, V), None. One vocabulary for both sides. Dropout falls where lesson 06 has it, not on weights of attention.
    `decode` searches with it; raises what `Transformer` raises.
    """

    def __init__(self, config: T5Config):
        nn.Module.__init__(self)  # the parts are T5's, and what is done with them is the Transformer's
        self.config, self.align = config, None
        self.encoder = T5Encoder(config, config.n_layers)
        self.decoder = T5Decoder(config, config.n_decoder_layers)
        sizes = (config.vocab_size, config.d_model, config.dropout, nn.Identity)
        self.source = PlacedEmbedding(*sizes, "The source")
        self.target = (PlacedEmbedding if config.tied else UntiedEmbedding)(*sizes, "The target")
        self.target.tokens = self.source.tokens

    def decoding(self, source: Tensor, lengths: Tensor | None = None, mask: Tensor | None = None) -> dict:
        """As the Transformer's, with T5's ids: a target begins with padding, 0, and ends with 1."""
        search = super().decoding(source, lengths, mask)
        return search | {"start": torch.zeros_like(search["start"]), "end": T5_END}

    @classmethod
    def from_hf(cls, theirs: nn.Module) -> "T5":
        """Our model with the weights of Hugging Face's T5ForConditionalGeneration; raises what `from_t5` raises."""
        sizes, weights = from_t5(theirs)
        with torch.device("meta"):  # no memory yet, and nothing drawn: the weights are there already
            ours = cls(T5Config(**sizes))
        check_same_shapes("T5", ours.state_dict(), weights)
        ours.load_state_dict(weights, assign=True)
        return ours.train(theirs.training)


def t5_parameter_count(config: T5Config) -> int:
    """How many numbers a `T5` learns: V D + encoder's L (4 D H d + 2 D F) + decoder's L' (8 D H d + 2 D F) + norms.

    With a gate 3 D F; V D once more where the read-out is not tied; H n_buckets for the distances of each stack.
    """
    D = config.d_model
    attention = 4 * D * config.n_heads * config.d_head
    feed_forward = (3 if config.gated else 2) * D * config.d_ff
    encoder = config.n_layers * (attention + feed_forward + 2 * D) + D  # a norm before each part, one behind
    decoder = config.n_decoder_layers * (2 * attention + feed_forward + 3 * D) + D
    distances = 2 * config.n_buckets * config.n_heads
    return config.vocab_size * D * (1 if config.tied else 2) + encoder + decoder + distances


# As published. The first version: Raffel et al. (2020), section 3.7.
T5_PUBLISHED = {
    "small": T5Config(),
    "base": T5Config(d_model=768, n_heads=12, n_layers=12, d_ff=3072),
    "large": T5Config(d_model=1024, n_heads=16, n_layers=24, d_ff=4096),
    "3B": T5Config(d_model=1024, n_heads=32, n_layers=24, d_ff=16_384, d_head=128),
    "11B": T5Config(d_model=1024, n_heads=128, n_layers=24, d_ff=65_536, d_head=128),
}
# Widths and layers: Xue et al. (2022), table 1, which has mT5 beside ByT5; heads: the published configurations. 250,000
# pieces of 101 languages (Xue et al., 2021, section 3.2), and some rows to spare.
_gated = partial(T5Config, gated=True, tied=False, activation="gelu_tanh")
_pieces = partial(_gated, 250_112)
MT5_PUBLISHED = {
    "small": _pieces(d_model=512, n_heads=6, n_layers=8, d_ff=1024),
    "base": _pieces(d_model=768, n_heads=12, n_layers=12, d_ff=2048),
    "large": _pieces(d_model=1024, n_heads=16, n_layers=24, d_ff=2816),
    "XL": _pieces(d_model=2048, n_heads=32, n_layers=24, d_ff=5120),
    "XXL": _pieces(d_model=4096, n_heads=64, n_layers=24, d_ff=10_240),
}
# Xue et al. (2022), table 1; heads: the published configurations. 256 bytes, three specials, and rows up to 384; the
# encoder has three times the decoder's layers.
_bytes = partial(_gated, 384)
BYT5_PUBLISHED = {
    "small": _bytes(d_model=1472, n_heads=6, n_layers=12, n_decoder_layers=4, d_ff=3584),
    "base": _bytes(d_model=1536, n_heads=12, n_layers=18, n_decoder_layers=6, d_ff=3968),
    "large": _bytes(d_model=1536, n_heads=16, n_layers=36, n_decoder_layers=12, d_ff=3840),
    "XL": _bytes(d_model=2560, n_heads=32, n_layers=36, n_decoder_layers=12, d_ff=6720),
    "XXL": _bytes(d_model=4672, n_heads=64, n_layers=36, n_decoder_layers=12, d_ff=12_352),
}
