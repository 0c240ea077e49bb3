"""BERT: the Transformer's encoder, which looks both ways, so that it can be taught to fill in masked words. Lesson 08.

    h_0 = norm(E[token] + P[place] + S[segment]),   h_l = block(h_(l-1)),   pooled = tanh(W h_L[CLS] + b)
    (Devlin et al., 2019, section 3 and figure 2; the blocks are those of Vaswani et al., 2017)

Shapes: B batch, T pieces of a text, D d_model, F d_ff, L n_layers, V vocab_size. Batch first, always. Masks are
boolean, True = a real piece.
"""

from dataclasses import dataclass

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.attention.block import ACTIVATIONS, Block, check_blocks
from course_lib.attention.norms import LayerNorm
from course_lib.inputs.sequences import token_ids
from course_lib.inputs.shapes import check_same_shapes, check_shapes
from course_lib.weights.bert_weights import check_class, from_bert


@dataclass(frozen=True)
class BertConfig:
    """The sizes of a `Bert`; those of BERT base where nothing is said. Raises ValueError for what cannot be.

    d_ff is 4 d_model where None; activation is a name in `block.ACTIVATIONS`; eps is the norms'. n_segments: how many
    sentences may stand in a text. pooler: whether there is a layer behind [CLS], for answers about the whole text.
    """

    vocab_size: int = 30_522
    max_len: int = 512
    d_model: int = 768
    n_heads: int = 12
    n_layers: int = 12
    dropout: float = 0.1
    d_ff: int | None = None
    activation: str = "gelu"
    eps: float = 1e-12
    n_segments: int = 2
    pooler: bool = True

    def __post_init__(self):
        check_blocks(self)


def parameter_count(config: BertConfig, masked_words: bool = False) -> int:
    """How many numbers a `Bert` learns: three tables of embeddings, about 12 D^2 a layer, biases and norms, the pooler.

        (V + max_len + n_segments) D + 2 D + L (4 D^2 + 2 D F + 9 D + F) + (D + 1) D,   F = 4 D

    masked_words: with the head for masked words, (D + 1) D + 2 D + V more; its read-out is the table of tokens.
    Base: 109.5 million, said to be 110; large: 335.1, said to be 340. The table of the 24 small ones (Turc et al.,
    2019, table 1) counts the head too.
    """
    D, d_ff = config.d_model, 4 * config.d_model if config.d_ff is None else config.d_ff
    square, norm = (D + 1) * D, 2 * D
    layer = 4 * square + (D + 1) * d_ff + (d_ff + 1) * D + 2 * norm
    embeddings = (config.vocab_size + config.max_len + config.n_segments) * D + norm
    head = (square + norm + config.vocab_size) * masked_words
    return embeddings + config.n_layers * layer + square * config.pooler + head


class Bert(nn.Module):
    """An encoder of `Block`s, norms after the sums, with three embeddings (Devlin et al., 2019, section 3).

    ids (B, T); segments (B, T), 0 in the first sentence and 1 in the second, all 0 where None; mask bool (B, T), True
    at real pieces, or None -> the states of the last layer (B, T, D). Padding changes nothing for the others.
    `record.capture` hears "blocks.*.attention.weights". Begins with matrices N(0, 0.02), as Google's did but for the
    tails. Dropout falls on the embedding and on each term of a block, not on the weights of attention.
    Raises ValueError or TypeError, in words, for ids, segments and masks that do not fit, and for more than max_len
    pieces.
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.config, self.max_len = config, config.max_len
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)  # E
        self.places = nn.Embedding(config.max_len, config.d_model)  # P
        self.segments = nn.Embedding(config.n_segments, config.d_model)  # S
        self.norm, self.dropout = LayerNorm(config.d_model), nn.Dropout(config.dropout)
        sizes = (config.d_model, config.n_heads, config.d_ff, config.dropout, ACTIVATIONS[config.activation])
        self.blocks = nn.ModuleList(Block.from_sizes(*sizes) for _ in range(config.n_layers))
        self.pooler = nn.Linear(config.d_model, config.d_model) if config.pooler else None
        begin(self, config.eps)

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.layers(ids, segments, mask)[-1]

    def layers(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> list[Tensor]:
        """What every layer makes of a text: h_0 ... h_L, each (B, T, D); arguments as for the model itself."""
        ids = token_ids("ids", ids, self.tokens, shortest=1)
        segments = torch.zeros_like(ids) if segments is None else token_ids("segments", segments, self.segments)
        _check_text(self, ids, segments, mask)
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]] + self.segments(segments)  # (B, T, D)
        found = [self.dropout(self.norm(x))]
        for block in self.blocks:
            found.append(block(found[-1], mask))
        return found

    def pool(self, states: Tensor) -> Tensor:
        """One vector for the whole text, from the state at [CLS]: (B, T, D) -> (B, D)."""
        return torch.tanh(self.pooler(states[:, 0]))

    @classmethod
    def from_hf(cls, model: nn.Module) -> "Bert":
        """Our Bert with the weights of Hugging Face's BertModel: the same states.

        Theirs may drop weights of attention too, ours never does. Raises TypeError for another model, ValueError for
        one that computes what ours does not.
        """
        check_class("BertModel", model)
        return cls.from_weights(model.config.to_dict(), model.state_dict()).train(model.training)

    @classmethod
    def from_weights(cls, config: dict, weights: dict[str, Tensor]) -> "Bert":
        """A published BERT, ready to be used: `Bert.from_weights(*published.read("minilm"))`.

        config: as in its config.json; weights: by Hugging Face's names. Raises ValueError for what does not fit.
        """
        return filled(lambda sizes, _: cls(BertConfig(**sizes)), *from_bert(config, weights)).eval()


def mean_state(states: Tensor, mask: Tensor | None = None) -> Tensor:
    """The mean of the states at real places: (B, T, D), mask bool (B, T) or None -> (B, D); zeros for a row of padding.

    How MiniLM makes one vector of a sentence, [CLS] and [SEP] counted too (Reimers and Gurevych, 2019, section 3).
    """
    if mask is None:
        return states.mean(dim=1)
    return (states * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)


def begin(module: nn.Module, eps: float) -> None:
    """Draw every matrix and table from N(0, 0.02); biases are 0, norms as they are, with this eps."""
    for part in module.modules():
        if isinstance(part, LayerNorm):
            part.eps = eps
        elif isinstance(part, (nn.Linear, nn.Embedding)):
            nn.init.normal_(part.weight, std=0.02)
            if getattr(part, "bias", None) is not None:
                nn.init.zeros_(part.bias)


def filled(build, sizes: dict, weights: dict[str, Tensor]) -> nn.Module:
    """What `build(sizes, weights)` builds, with these weights, not drawn ones; ValueError where they do not fit."""
    with torch.device("meta"):  # no memory yet, and nothing drawn: the weights are there already
        ours = build(sizes, weights)
    check_same_shapes("Bert", dict(ours.named_parameters()), weights)
    ours.load_state_dict(weights, assign=True)
    return ours


def _check_text(model: Bert, ids: Tensor, segments: Tensor, mask: Tensor | None) -> None:
    if ids.shape[1] > model.max_len:
        raise ValueError(
            f"The text is {ids.shape[1]} pieces long, and this model was taught {model.max_len} places: cut it, as "
            f"`WordPiece.batch(texts, max_len={model.max_len})` does."
        )
    check_shapes("Bert", ids=(ids, "int B T"), segments=(segments, "int B T"), mask=(mask, "bool B T"))


# As published: Devlin et al. (2019, section 3), Wang et al. (2020) as Reimers cut it, Turc et al. (2019, table 1).
PUBLISHED = {
    "base": BertConfig(),
    "large": BertConfig(d_model=1024, n_heads=16, n_layers=24),
    "MiniLM": BertConfig(d_model=384, n_layers=6),
}
SMALL = {
    (n_layers, d_model): BertConfig(d_model=d_model, n_heads=d_model // 64, n_layers=n_layers)
    for n_layers in (2, 4, 6, 8, 10, 12)
    for d_model in (128, 256, 512, 768)
}
