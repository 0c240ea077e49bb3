"""GPT: the Transformer's blocks, looking back only, trained to say the next token. Lesson 07.

    h_0 = E[token] + P[place],   h_l = block(h_(l-1)),   p(next) = softmax(norm(h_L) E^T)
    (Radford et al., 2018, section 3.1, equation 2; the norm behind the last block came with GPT-2)

Shapes: B batch, T tokens read now, T_all those and what a cache holds, D d_model, F d_ff, L n_layers, V vocab_size.
Batch first, always. Masks are boolean, True = a real token.
"""

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.block import ACTIVATIONS, Block, check_blocks
from course_lib.attention.norms import LayerNorm
from course_lib.inputs.sequences import check_text, text_places, token_ids
from course_lib.language.generate import generate
from course_lib.weights.hf_activations import HF_ACTIVATIONS


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of a `GPT`. d_ff is 4 d_model where None; activation is a name in ACTIVATIONS; eps is the norms'.

    tied: the read-out is the embedding once more. pre_norm: norms before the parts of a block and one behind the last
    block, as from GPT-2 on; False is GPT-1, norms after the sums. Raises ValueError for what does not fit together.
    """

    vocab_size: int
    max_len: int
    d_model: int
    n_heads: int
    n_layers: int
    dropout: float = 0.0
    d_ff: int | None = None
    activation: str = "gelu_tanh"
    eps: float = 1e-5
    tied: bool = True
    pre_norm: bool = True

    def __post_init__(self):
        check_blocks(self)


def parameter_count(config: GPTConfig) -> int:
    """How many numbers a `GPT` learns: V D + T D for tokens and places, about 12 D^2 a layer, biases and norms.

        V D + max_len D + L (4 D^2 + 2 D F + 9 D + F) + 2 D,   F = 4 D

    GPT-1: 116.5 million, said to be 117. GPT-2's table 2 says 117, 345, 762 and 1542 million; its own sizes give 124.4,
    354.8, 774.0 and 1557.6, and the table comes out to the million with GPT-1's 40,478 tokens in place of 50,257.
    GPT-3: 174.6 billion, said to be 175.0.
    """
    D, d_ff = config.d_model, 4 * config.d_model if config.d_ff is None else config.d_ff
    attention = 4 * (D + 1) * D
    feed_forward = (D + 1) * d_ff + (d_ff + 1) * D
    norm = 2 * D
    embeddings = (config.vocab_size * (1 if config.tied else 2) + config.max_len) * D
    return embeddings + config.n_layers * (attention + feed_forward + 2 * norm) + norm * config.pre_norm


class GPT(nn.Module):
    """A language model of `Block`s that look back only (Radford et al., 2018, section 3.1; 2019, section 2.3).

    ids (B, T), mask bool (B, T_all) or None -> logits (B, T, V) for the token behind each. The mask is True at real
    tokens, False at padding, which stands on the left; a row's places are counted from its first real token. Padding
    on the right needs no mask: nothing looks ahead. cache: a list of one dict a block, empty at first; ids are then
    what comes next, and mask counts what the cache holds too. `record.capture` hears "blocks.*.attention.weights".
    Begins as GPT-2: matrices N(0, 0.02), those that write into the sum of a block / sqrt(2 L), for it has 2 L terms.
    Dropout falls on the embedding and on each term. attention: what `MultiHead` takes beside its sizes, turn=rotate or
    position_bias=RelativeBias(...) for instance, one for all blocks; where one of these two tells the order, there is
    no P. Raises ValueError or TypeError, in words, for ids and a mask that do not fit, and for a text longer
    than max_len.
    """

    def __init__(self, config: GPTConfig, **attention):
        super().__init__()
        self.config, self.max_len = config, config.max_len
        placed = not any(attention.get(scheme) is not None for scheme in ("turn", "position_bias"))
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)  # E
        self.places = nn.Embedding(config.max_len, config.d_model) if placed else None  # P
        self.dropout = nn.Dropout(config.dropout)
        sizes = (config.d_model, config.n_heads, config.d_ff, config.dropout, ACTIVATIONS[config.activation])
        blocks = (Block.from_sizes(*sizes, config.pre_norm, **attention) for _ in range(config.n_layers))
        self.blocks = nn.ModuleList(blocks)
        self.norm = LayerNorm(config.d_model) if config.pre_norm else nn.Identity()
        self.readout = None if config.tied else nn.Linear(config.d_model, config.vocab_size, bias=False)
        for table in (self.tokens, self.places) if placed else (self.tokens,):
            nn.init.normal_(table.weight, std=0.02)
        for part in self.modules():
            if isinstance(part, LayerNorm):
                part.eps = config.eps
            elif isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=0.02)
                if part.bias is not None:
                    nn.init.zeros_(part.bias)
        for block in self.blocks:
            for writes in (block.attention.w_o, block.feed_forward.w_2):
                nn.init.normal_(writes.weight, std=0.02 / (2 * config.n_layers) ** 0.5)

    def forward(self, ids: Tensor, mask: Tensor | None = None, cache: list[dict] | None = None) -> Tensor:
        ids = token_ids("The text", ids, self.tokens, shortest=1)
        past = cache[0]["own"]["k"].shape[2] if cache and cache[0] else 0  # tokens that the cache holds
        check_text(self, ids, mask, past)
        x = self.tokens(ids)  # (B, T, D)
        x = self.dropout(x if self.places is None else x + self.places(text_places(ids, mask, past)))
        for block, kept in zip(self.blocks, cache or [None] * len(self.blocks), strict=True):
            x = block(x, mask, causal=True, cache=kept)
        return F.linear(self.norm(x), self.tokens.weight if self.readout is None else self.readout.weight)

    def generate(self, prompts, n_tokens: int, **knobs) -> list[list[int]]:
        """`generate.generate`, with its arguments: what this model writes behind each prompt."""
        return generate(self, prompts, n_tokens, **knobs)

    @classmethod
    def from_hf(cls, model) -> "GPT":
        """Our GPT with the weights of Hugging Face's GPT2LMHeadModel: the same logits.

        Theirs may drop attention weights too, ours never does; its dropout is their resid_pdrop. Raises TypeError for
        another model, ValueError for one that computes what ours does not.
        """
        config = _check_copied(model)
        theirs, ours = model.transformer, cls(config).to(model.transformer.wte.weight)
        with torch.no_grad():
            ours.tokens.weight.copy_(theirs.wte.weight)
            ours.places.weight.copy_(theirs.wpe.weight)
            if not config.tied:
                ours.readout.weight.copy_(model.lm_head.weight)
            norms = [(ours.norm, theirs.ln_f)]
            for own, other in zip(ours.blocks, theirs.h, strict=True):
                norms += [(own.norm_1, other.ln_1), (own.norm_2, other.ln_2)]
                weights = [*other.attn.c_attn.weight.chunk(3, dim=1), other.attn.c_proj.weight]  # each (in, out)
                biases = [*other.attn.c_attn.bias.chunk(3), other.attn.c_proj.bias]
                weights += [other.mlp.c_fc.weight, other.mlp.c_proj.weight]
                biases += [other.mlp.c_fc.bias, other.mlp.c_proj.bias]
                heads, inner = own.attention, own.feed_forward
                parts = (heads.w_q, heads.w_k, heads.w_v, heads.w_o, inner.w_1, inner.w_2)
                for part, weight, bias in zip(parts, weights, biases, strict=True):
                    part.weight.copy_(weight.T)
                    part.bias.copy_(bias)
            for norm, other in norms:
                norm.gain.copy_(other.weight)
                norm.shift.copy_(other.bias)
        return ours.train(model.training)


def _check_copied(model) -> GPTConfig:
    """The configuration of ours that computes the same."""
    from transformers import GPT2LMHeadModel

    if not isinstance(model, GPT2LMHeadModel):
        raise TypeError(f"GPT.from_hf copies a transformers.GPT2LMHeadModel; got {type(model).__name__}.")
    theirs = model.config
    strange = [name for name in ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention")
               if getattr(theirs, name)]  # fmt: skip
    strange += [] if theirs.scale_attn_weights else ["scale_attn_weights=False"]
    if strange:
        raise ValueError(f"GPT.from_hf has nothing like {', '.join(strange)}: build theirs without.")
    if theirs.activation_function not in HF_ACTIVATIONS:
        raise ValueError(
            f"GPT.from_hf knows the activations {', '.join(HF_ACTIVATIONS)}; got {theirs.activation_function!r}."
        )
    (vocab_size, d_model), max_len = model.transformer.wte.weight.shape, len(model.transformer.wpe.weight)
    return GPTConfig(
        vocab_size,
        max_len,
        d_model,
        theirs.n_head,
        theirs.n_layer,
        theirs.resid_pdrop,
        theirs.n_inner,
        HF_ACTIVATIONS[theirs.activation_function],
        theirs.layer_norm_epsilon,
        tied=model.lm_head.weight is model.transformer.wte.weight,
    )


# As published: Radford et al. (2018, section 4.1; 2019, table 2), Brown et al. (2020, table 2.1).
PUBLISHED = {
    "GPT-1": GPTConfig(40_478, 512, 768, 12, 12, 0.1, pre_norm=False),
    "GPT-2 small": GPTConfig(50_257, 1024, 768, 12, 12, 0.1),
    "GPT-2 medium": GPTConfig(50_257, 1024, 1024, 16, 24, 0.1),
    "GPT-2 large": GPTConfig(50_257, 1024, 1280, 20, 36, 0.1),
    "GPT-2": GPTConfig(50_257, 1024, 1600, 25, 48, 0.1),
    "GPT-3": GPTConfig(50_257, 2048, 12_288, 96, 96),
}
