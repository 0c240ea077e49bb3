"""The decoder of today, and the weights that others trained for it: what has changed since GPT-2. Lesson 07.

The block is lesson 06's, of four other parts: a norm without a mean (`RMSNorm`), places that turn queries and keys
(`rotate`), a feed-forward network with a gate (`GatedFeedForward`), and heads that share keys and values.
Shapes: B batch, T time (T_all with what a cache holds), D d_model, V vocab_size. Batch first, always. Masks are
boolean, True = a real token.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn as nn
from torch import Tensor

from course_lib.attention.block import Block, GatedFeedForward
from course_lib.attention.multi_head import MultiHead, check_heads
from course_lib.attention.norms import RMSNorm
from course_lib.attention.positions import rotate
from course_lib.inputs.sequences import check_text, text_places, token_ids
from course_lib.inputs.shapes import check_same_shapes
from course_lib.language.generate import generate
from course_lib.weights.llama_weights import from_gguf, from_llama


@dataclass(frozen=True)
class DecoderConfig:
    """The sizes of a `Decoder`; raises ValueError for what cannot be.

    n_kv_heads: heads of keys and values, n_heads where None. d_head: d_model / n_heads where None. base: of the angles
    of `rotate`. eps: of the norms.
    """

    vocab_size: int
    max_len: int
    d_model: int
    n_heads: int
    n_layers: int
    d_ff: int
    n_kv_heads: int | None = None
    d_head: int | None = None
    base: float = 10000.0
    eps: float = 1e-5

    def __post_init__(self):
        object.__setattr__(self, "n_kv_heads", self.n_heads if self.n_kv_heads is None else self.n_kv_heads)
        _check_sizes(self)
        object.__setattr__(self, "d_head", self.d_head or self.d_model // self.n_heads)


def decoder_block(config: DecoderConfig) -> Block:
    """One layer: `Block` with the parts of today, none of which has a bias."""
    sizes = {"d_k": config.d_head, "d_v": config.d_head, "n_kv_heads": config.n_kv_heads}
    attention = MultiHead(config.d_model, config.n_heads, **sizes, bias=False, turn=partial(rotate, base=config.base))
    feed_forward = GatedFeedForward(config.d_model, config.d_ff)
    return Block(attention, feed_forward, norm=partial(RMSNorm, eps=config.eps), pre_norm=True)


class Decoder(nn.Module):
    """A language model as they are built today (Touvron et al., 2023, section 2.2; grouped heads since LLaMA 2).

    ids (B, T) -> logits (B, T, V), of the next token at each place; the read-out is the table of embeddings once more.
    mask bool (B, T_all), True = a real token; padding stands on the left, and a row's places are counted from its first
    real token, so padding changes nothing. What stands at padding means nothing.
    cache: a list of one dict a block, empty at first ([{} for _ in model.blocks]); ids are then what comes next.
    Raises ValueError or TypeError, in words, for ids, masks and lengths that do not fit.
    """

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.config, self.max_len = config, config.max_len
        self.embed = nn.Embedding.from_pretrained(torch.empty(config.vocab_size, config.d_model), freeze=False)
        self.blocks = nn.ModuleList(decoder_block(config) for _ in range(config.n_layers))
        self.norm = RMSNorm(config.d_model, config.eps)
        for part in self.parameters():
            if part.ndim == 2 and not part.is_meta:
                nn.init.normal_(part, std=0.02)  # as GPT-2 begins, and those after it

    def forward(self, ids: Tensor, mask: Tensor | None = None, cache: list[dict] | None = None) -> Tensor:
        return self.read_out(self.states(ids, mask, cache))  # (B, T, V)

    def states(self, ids: Tensor, mask: Tensor | None = None, cache: list[dict] | None = None) -> Tensor:
        """What `read_out` reads, (B, T, D): V numbers a place are many, whoever needs a few places picks them here."""
        ids = token_ids("ids", ids, self.embed, shortest=1)
        past = cache[0]["own"]["k"].shape[2] if cache and cache[0] else 0  # tokens that the cache holds
        check_text(self, ids, mask, past)
        places = None if mask is None else text_places(ids, mask)  # (B, T_all): each row from its first real token
        x = self.embed(ids)  # (B, T, D)
        for block, kept in zip(self.blocks, cache or [None] * len(self.blocks), strict=True):
            x = block(x, mask, causal=True, cache=kept, places=places)
        return self.norm(x)

    def read_out(self, x: Tensor) -> Tensor:
        """Scores of all tokens, x E^T: (..., D) -> (..., V)."""
        return x @ self.embed.weight.T

    def generate(self, prompts, n_tokens: int, **how) -> list[list[int]]:
        """What the model writes after each prompt: `course_lib.language.generate.generate`, with all its arguments."""
        return generate(self, prompts, n_tokens, **how)

    @classmethod
    def from_hf(cls, theirs: nn.Module) -> "Decoder":
        """Our model with the weights of Hugging Face's LlamaForCausalLM, copied; raises what `from_llama` raises."""
        return cls._filled(*from_llama(theirs)).train(theirs.training)

    @classmethod
    def from_gguf(cls, path: str | Path) -> "Decoder":
        """The model of a GGUF file, its weights unpacked; raises what `llama_weights.from_gguf` raises."""
        return cls._filled(*from_gguf(path)).eval()

    @classmethod
    def _filled(cls, sizes: dict, weights: dict[str, Tensor]) -> "Decoder":
        with torch.device("meta"):  # no memory yet, and nothing drawn: the weights are there already
            ours = cls(DecoderConfig(**sizes))
        check_same_shapes("Decoder", dict(ours.named_parameters()), weights)
        ours.load_state_dict(weights, assign=True)
        return ours


def _check_sizes(config: DecoderConfig) -> None:
    if config.d_head is None:
        check_heads(config.d_model, config.n_heads)
