"""BART: the Transformer of lesson 06, trained to reconstruct a corrupted text. Lesson 13.

    norm(E[token] + P[place]), dropout; blocks with GELU and norms after the sums; logits x E^T + b
    (Lewis et al., 2020, section 2.1; the norm on the embedding is their code's)

Shapes: B batch, S source time, T target time, D d_model, V vocab_size. Batch first. Token ids: 0 start of a text,
1 padding, 2 end, which a target begins with too.
"""

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.block import ACTIVATIONS, check_blocks
from course_lib.attention.norms import LayerNorm
from course_lib.attention.positions import LearnedPositions
from course_lib.attention.transformer import PlacedEmbedding, Transformer
from course_lib.inputs.sequences import token_ids
from course_lib.inputs.shapes import check_same_shapes
from course_lib.weights.bart_weights import from_bart

BART_PADDING, BART_END = 1, 2


@dataclass(frozen=True)
class BartConfig:
    """The sizes of a `Bart`; those of BART large where nothing is said. Raises ValueError for what cannot be.

    max_len: positions of a text. n_layers of the encoder, and as many of the decoder.
    """

    vocab_size: int = 50_265
    max_len: int = 1024
    d_model: int = 1024
    n_heads: int = 16
    n_layers: int = 12
    d_ff: int = 4096
    dropout: float = 0.1
    activation: str = "gelu"
    eps: float = 1e-5

    def __post_init__(self):
        check_blocks(self)


class NormedEmbedding(PlacedEmbedding):
    """norm(E[token] + P[place]), then dropout, with learned positions.

    ids (B, T), past: how many positions precede them -> (B, T, D). name as in `PlacedEmbedding`, which multiplies E.
    """

    def __init__(self, config: BartConfig, name: str):
        super().__init__(
            config.vocab_size,
            config.d_model,
            config.dropout,
            lambda width: LearnedPositions(config.max_len, width),
            name,
        )
        self.norm = LayerNorm(config.d_model, config.eps)

    def forward(self, ids: Tensor, past: int = 0) -> Tensor:
        x = self.tokens(token_ids(self.name, ids, self.tokens, shortest=1))  # (B, T, D)
        x = self.positions(F.pad(x, (0, 0, past, 0)))[:, past:]
        return self.dropout(self.norm(x))


class BiasedReadout(NormedEmbedding):
    """`NormedEmbedding` of what is written too: its read-out is x E^T + b, b a number a token that is not learned."""

    def __init__(self, config: BartConfig, name: str):
        super().__init__(config, name)
        self.register_buffer("bias", torch.zeros(config.vocab_size))

    def readout(self, x: Tensor) -> Tensor:
        return super().readout(x) + self.bias  # (B, T, V)


class Bart(Transformer):
    """An encoder that reads a spoiled text, and a decoder that writes it as it was (Lewis et al., 2020).

    source (B, S), lengths (B) or None (all up to the padding, 1), target_in (B, T), which begins with 2 -> logits
    (B, T, V), None. One vocabulary for both sides. Begins with matrices and tables N(0, 0.02). Dropout falls where
    lesson 06 has it. `decode` searches with it; raises what `Transformer` raises, ValueError for more than max_len
    positions.
    """

    def __init__(self, config: BartConfig):
        V, D = config.vocab_size, config.d_model
        block = {"d_ff": config.d_ff, "activation": ACTIVATIONS[config.activation]}
        super().__init__(V, V, D, config.n_heads, config.n_layers, config.dropout, nn.Identity, **block)
        self.config = config
        self.source, self.target = NormedEmbedding(config, "The source"), BiasedReadout(config, "The target")
        self.target.tokens = self.source.tokens
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=0.02)

    def decoding(self, source: Tensor, lengths: Tensor | None = None, mask: Tensor | None = None) -> dict:
        """As the Transformer's, with BART's ids: a target begins with 2 and ends with 2."""
        search = super().decoding(source, lengths, mask)
        return search | {"start": torch.full_like(search["start"], BART_END), "end": BART_END}

    def _read(self, source: Tensor, lengths: Tensor | None, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if lengths is None:  # the Transformer takes 0 for padding
            source = token_ids("The source", source, self.source.tokens, shortest=1)
            place = torch.arange(1, source.shape[1] + 1, device=source.device)  # a real token makes it this long
            lengths = ((source != BART_PADDING) * place).amax(dim=1)  # (B,)
        return super()._read(source, lengths, mask)

    @classmethod
    def from_hf(cls, theirs: nn.Module) -> "Bart":
        """Our model with the weights of a BartForConditionalGeneration; raises what `from_bart` raises."""
        sizes, weights = from_bart(theirs)
        with torch.device("meta"):  # no memory yet, and nothing drawn: the weights are there already
            ours = cls(BartConfig(**sizes))
        check_same_shapes("Bart", ours.state_dict(), weights)
        ours.load_state_dict(weights, assign=True)
        return ours.train(theirs.training)


# Lewis et al. (2020), sections 2.1, 4 and 5.1, and the code published with it.
BART_PUBLISHED = {
    "base": BartConfig(d_model=768, n_heads=12, n_layers=6, d_ff=3072),
    "large": BartConfig(),
}
