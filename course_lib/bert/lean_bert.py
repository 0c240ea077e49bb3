"""A BERT with parts left out: narrow tables, blocks that are used several times (ALBERT), fewer blocks. Lesson 16.

    x = norm(E[token] + P[position] + S[segment]) W + b,   h_0 = x,   h_l = block_g(l)(h_(l-1)),   g(l) = floor(G l / L)
    (Lan et al., 2020, section 3.1; ELECTRA and DistilBERT are other settings of the same stack)

Shapes: B batch, T tokens of a text, E d_embedding, D d_model, F d_ff, L n_layers, G n_groups, V vocab_size. Batch
first, always. Masks are boolean, True = a real token.
"""

from dataclasses import dataclass

import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.block import ACTIVATIONS, Block, check_blocks
from course_lib.attention.norms import LayerNorm
from course_lib.attention.positions import rotate
from course_lib.bert.bert import begin, filled
from course_lib.inputs.sequences import token_ids
from course_lib.inputs.shapes import check_shapes
from course_lib.weights.lean_bert_weights import from_lean_bert


@dataclass(frozen=True)
class LeanBertConfig:
    """The sizes of a `LeanBert`; those of ALBERT base where nothing is said. Raises ValueError for what cannot be.

    d_embedding: width of the tables. n_groups: how many blocks there are for n_layers layers; as many: none is shared.
    n_segments: 0 for a model without segments. rotary: positions rotate queries and keys (lesson 05); the norms come
    before each part: not what the papers have, and it learns within minutes. Others as in `BertConfig`.
    """

    vocab_size: int = 30_000
    max_len: int = 512
    d_model: int = 768
    n_heads: int = 12
    n_layers: int = 12
    d_embedding: int = 128
    n_groups: int = 1
    dropout: float = 0.0
    d_ff: int | None = None
    activation: str = "gelu_tanh"
    eps: float = 1e-12
    n_segments: int = 2
    pooler: bool = True
    rotary: bool = False

    def __post_init__(self):
        check_blocks(self)
        _check_groups(self)


def parts_of(config: LeanBertConfig) -> dict[str, int]:
    """How many numbers each part of a `LeanBert` holds; their sum is what it learns.

    tables (V + max_len + n_segments) E,   the way to the width D (E + 1) D, attention 4 (D + 1) D and feed-forward
    2 D F + D + F, G times each,   norms and the pooler
    """
    D, E = config.d_model, config.d_embedding
    d_ff = 4 * D if config.d_ff is None else config.d_ff
    n_places = 0 if config.rotary else config.max_len
    return {
        "tables": (config.vocab_size + n_places + config.n_segments) * E,
        "widening": (E + 1) * D * (E != D),
        "attention": config.n_groups * 4 * (D + 1) * D,
        "feed-forward": config.n_groups * (2 * D * d_ff + D + d_ff),
        "norms": 2 * E + config.n_groups * 4 * D + 2 * D * config.rotary,
        "pooler": (D + 1) * D * config.pooler,
    }


class LeanBert(nn.Module):
    """An encoder whose tables are E wide and whose L layers are G blocks, each used in L / G layers that follow.

    ids (B, T); segments (B, T), all 0 where None; mask bool (B, T), True at real tokens, or None -> the states of the
    last layer (B, T, D). G = L and E = D is a `Bert`; G = 1 is ALBERT's stack (Lan et al., 2020, section 3.1).
    `record.capture` receives "blocks.*.attention.weights", of a shared block each of its uses. Begins as Google's
    BERT; rotary, with blocks as lesson 06's, and E from N(0, 0.02).
    Raises ValueError or TypeError, in words, for ids, segments and masks that do not fit.
    """

    def __init__(self, config: LeanBertConfig):
        super().__init__()
        c, E = config, config.d_embedding
        self.config, self.max_len = config, config.max_len
        self.tokens = nn.Embedding(c.vocab_size, E)
        self.places = None if c.rotary else nn.Embedding(c.max_len, E)
        self.segments = nn.Embedding(c.n_segments, E) if c.n_segments else None
        self.norm, self.dropout = LayerNorm(E), nn.Dropout(c.dropout)
        self.widen = nn.Linear(E, c.d_model) if E != c.d_model else nn.Identity()  # W, b
        how = {"turn": rotate, "pre_norm": True} if c.rotary else {}
        sizes = (c.d_model, c.n_heads, c.d_ff, c.dropout, ACTIVATIONS[c.activation])
        self.blocks = nn.ModuleList(Block.from_sizes(*sizes, **how) for _ in range(c.n_groups))
        self.last_norm = LayerNorm(c.d_model) if c.rotary else nn.Identity()
        self.pooler = nn.Linear(c.d_model, c.d_model) if c.pooler else None
        _begin(self)

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.layers(ids, segments, mask)[-1]

    def layers(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> list[Tensor]:
        """What every layer makes of a text: h_0 ... h_L, each (B, T, D); arguments as for the model itself."""
        found = [self.embed(ids, segments, mask)]
        for block in self.in_order():
            found.append(block(found[-1], mask))
        return [*found[:-1], self.last_norm(found[-1])]

    def embed(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """h_0, what the first block reads: (B, T) -> (B, T, D)."""
        ids = token_ids("ids", ids, self.tokens, shortest=1)
        _check_text(self, ids, segments, mask)
        x = self.tokens(ids)  # (B, T, E)
        if self.places is not None:
            x = x + self.places.weight[: ids.shape[1]]
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        return self.widen(self.dropout(self.norm(x)))  # (B, T, D)

    def in_order(self) -> list[Block]:
        """The block of each layer, L of them: the first group's for the first layers, and so on."""
        L, G = self.config.n_layers, self.config.n_groups
        return [self.blocks[G * layer // L] for layer in range(L)]

    def pool(self, states: Tensor) -> Tensor:
        """One vector for the whole text, from the state at [CLS]: (B, T, D) -> (B, D)."""
        return self.pooler(states[:, 0]).tanh()

    @classmethod
    def from_hf(cls, model: nn.Module) -> "LeanBert":
        """Ours with the weights of Hugging Face's AlbertModel, ElectraModel or DistilBertModel: the same states.

        Raises TypeError for another model, ValueError for one that computes what ours does not.
        """
        sizes, weights = from_lean_bert(model, ("AlbertModel", "ElectraModel", "DistilBertModel"))
        return filled(lambda sizes, _: cls(LeanBertConfig(**sizes)), sizes, weights).train(model.training)


class LeanWords(nn.Module):
    """Which token stood here? norm(f(h W + b)) E^T + c, W (D, E): `MaskedWords` for narrow tables.

    ids (B, T) -> logits (B, T, V); places int64 (N,), which of the B * T positions are asked, counted row by row ->
    (N, V). Lan et al. (2020), section 3.1, and the generator of Clark et al. (2020), section 2.
    """

    def __init__(self, bert: LeanBert):
        super().__init__()
        c = bert.config
        self.bert, self.activation = bert, ACTIVATIONS[c.activation]
        self.transform, self.norm = nn.Linear(c.d_model, c.d_embedding), LayerNorm(c.d_embedding)
        self.bias = nn.Parameter(bert.tokens.weight.new_zeros(c.vocab_size))
        begin(nn.ModuleList([self.transform, self.norm]), c.eps)

    def forward(
        self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None, places: Tensor | None = None
    ) -> Tensor:
        states = self.bert(ids, segments, mask)
        return self.read_out(states if places is None else states.flatten(0, 1)[places])

    def read_out(self, states: Tensor) -> Tensor:
        """The scores of all tokens at each state: (..., D) -> (..., V)."""
        return F.linear(self.norm(self.activation(self.transform(states))), self.bert.tokens.weight, self.bias)

    @classmethod
    def from_hf(cls, model: nn.Module) -> "LeanWords":
        """Ours with the weights of Hugging Face's AlbertForMaskedLM or ElectraForMaskedLM: the same logits.

        Raises TypeError for another model, ValueError for one that computes what ours does not.
        """
        sizes, weights = from_lean_bert(model, ("AlbertForMaskedLM", "ElectraForMaskedLM"))
        return filled(lambda sizes, _: cls(LeanBert(LeanBertConfig(**sizes))), sizes, weights).train(model.training)


def _begin(model: LeanBert) -> None:
    if not model.config.rotary:
        return begin(model, model.config.eps)
    for table in (model.tokens, model.segments):
        if table is not None:
            nn.init.normal_(table.weight, std=0.02)


def _check_groups(config: LeanBertConfig) -> None:
    if config.n_layers % config.n_groups:
        raise ValueError(
            f"n_layers, {config.n_layers}, must be a multiple of n_groups, {config.n_groups}: each block is used in as "
            "many layers as any other."
        )


def _check_text(model: LeanBert, ids: Tensor, segments: Tensor | None, mask: Tensor | None) -> None:
    if ids.shape[1] > model.max_len:
        raise ValueError(
            f"The text is {ids.shape[1]} tokens long, and this model was built for {model.max_len}: cut it, as "
            f"`WordPiece.batch(texts, max_len={model.max_len})` does."
        )
    if segments is not None and model.segments is None:
        raise ValueError("This model has no segments (n_segments=0): hand over ids and mask alone.")
    if segments is not None:
        token_ids("segments", segments, model.segments)
    check_shapes("LeanBert", ids=(ids, "int B T"), segments=(segments, "int B T"), mask=(mask, "bool B T"))


# As published: Lan et al. (2020, table 1), Clark et al. (2020, table 6), Sanh et al. (2019, section 3).
LEAN = {
    "BERT base": LeanBertConfig(30_522, d_embedding=768, n_groups=12, activation="gelu", dropout=0.1),
    "DistilBERT": LeanBertConfig(30_522, n_layers=6, d_embedding=768, n_groups=6, activation="gelu", dropout=0.1,
                                 n_segments=0, pooler=False),
    "ELECTRA small": LeanBertConfig(30_522, d_model=256, n_heads=4, n_groups=12, activation="gelu", dropout=0.1,
                                    pooler=False),
    "ALBERT base": LeanBertConfig(),
    "ALBERT xxlarge": LeanBertConfig(d_model=4096, n_heads=64),
}  # fmt: skip
