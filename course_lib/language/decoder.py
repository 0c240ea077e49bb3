"""The decoder of today, and the weights that others trained for it: what has changed since GPT-2. Lesson 07.

Four parts are new: a norm without a mean (`rms_norm`), places that turn queries and keys (`rotate`), a feed-forward
network with a gate, and heads that share keys and values. The rest is lesson 06's: x + f(norm(x)), one part at a time.
Shapes: B batch, T time (T_all with what a cache holds), D d_model, H n_heads, G n_kv_heads, d d_head, F d_ff, V
vocab_size. Batch first, always. Masks are boolean, True = a real token.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from course_lib.attention.attention import attend
from course_lib.attention.positions import rotate
from course_lib.inputs.sequences import check_sizes, check_text, text_places, token_ids
from course_lib.language.generate import generate
from course_lib.weights.llama_weights import from_gguf, from_llama


def rms_norm(x: Tensor, gain: Tensor, eps: float = 1e-5) -> Tensor:
    """gain * x / sqrt(mean of x^2 + eps), over the width of each place (Zhang and Sennrich, 2019, equation 4).

    x (..., D), gain (D,) -> (..., D). `layer_norm` without the mean that it takes away and the shift that it adds.
    """
    return gain * x / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps)


class RMSNorm(nn.Module):
    """`rms_norm` with a learned gain, at first 1: x (..., D) -> (..., D), by PyTorch's kernel."""

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.gain, self.eps = nn.Parameter(torch.ones(d_model)), eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.gain.shape, self.gain, self.eps)


class GatedFeedForward(nn.Module):
    """(swish(x W_gate) * x W_in) W_out, at each place alone (SwiGLU; Shazeer, 2020, equation 6): (B, T, D) -> as x.

    One product opens or closes each of the F numbers of the other. swish(z) = z sigmoid(z), PyTorch's silu.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.w_gate, self.w_in = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_model, d_ff, bias=False)
        self.w_out = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w_out(F.silu(self.w_gate(x)) * self.w_in(x))  # (B, T, F) inside


class GroupedHeads(nn.Module):
    """H heads ask, G are looked at: H / G of them share a key and a value (Ainslie et al., 2023, section 2.2).

    Queries and keys are turned by their places (`rotate`, neighbours in pairs), so a cache holds turned keys.
    x (B, T, D); places, whole numbers (T,) or (B, 1, T); allowed bool, to fit (B, H, T, T_all), or None for all that
    came before, where T is T_all or 1 -> (B, T, D). cache: a dict that keeps keys and values (B, G, T_all, d).
    PyTorch's fused kernel does the work; while a hook listens at `weights` (`record.capture`), `attend` does: weights
    (B, H, T, T_all) are heard there, and a hook that returns others steers the model.
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, d_head: int, base: float = 10000.0):
        super().__init__()
        self.d_head, self.shared_by, self.base = d_head, n_heads // n_kv_heads, base
        self.w_q = nn.Linear(d_model, n_heads * d_head, bias=False)
        self.w_k = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.w_v = nn.Linear(d_model, n_kv_heads * d_head, bias=False)
        self.w_o = nn.Linear(n_heads * d_head, d_model, bias=False)
        self.weights = nn.Identity()  # a named place where a recorder can listen

    def forward(self, x: Tensor, places: Tensor, allowed: Tensor | None = None, cache: dict | None = None) -> Tensor:
        q, k, v = (self.split(part(x)) for part in (self.w_q, self.w_k, self.w_v))  # (B, H, T, d), (B, G, T, d) twice
        q, k = rotate(q, places, self.base), rotate(k, places, self.base)
        if cache:
            k, v = torch.cat([cache["k"], k], dim=2), torch.cat([cache["v"], v], dim=2)  # (B, G, T_all, d)
        if cache is not None:
            cache.update(k=k, v=v)
        out = self.heads(q, k, v, allowed)  # (B, H, T, d)
        return self.w_o(out.transpose(1, 2).flatten(2))  # (B, T, D)

    def split(self, x: Tensor) -> Tensor:
        """Cut the width into heads: (B, T, heads * d) -> (B, heads, T, d)."""
        return x.unflatten(-1, (-1, self.d_head)).transpose(1, 2)

    def heads(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None) -> Tensor:
        """`attend` for every head at once: q (B, H, T, d), k and v (B, G, T_all, d), allowed as above -> q's shape."""
        T, T_all = q.shape[2], k.shape[2]
        if not self.weights._forward_hooks:
            triangle = not (T < T_all or allowed is not None)  # the mask that the kernel knows
            return scaled_dot_product_attention(q, k, v, allowed, is_causal=triangle, enable_gqa=True)
        if allowed is None:
            allowed = torch.ones(T, T_all, dtype=torch.bool, device=q.device).tril(T_all - T)
        k, v = (part.repeat_interleave(self.shared_by, dim=1) for part in (k, v))  # (B, H, T_all, d): a copy a query
        out, weights = attend(q, k, v, allowed)
        heard = self.weights(weights)  # (B, H, T, T_all)
        return out if heard is weights else heard.to(v.dtype) @ v


class DecoderBlock(nn.Module):
    """One layer: look back, then think at each place, each part inside x + f(norm(x)); arguments as `GroupedHeads`."""

    def __init__(self, config: "DecoderConfig"):
        super().__init__()
        d_model = config.d_model
        self.norms = nn.ModuleList(RMSNorm(d_model, config.eps) for _ in range(2))
        self.attention = GroupedHeads(d_model, config.n_heads, config.n_kv_heads, config.d_head, config.base)
        self.feed_forward = GatedFeedForward(d_model, config.d_ff)

    def forward(self, x: Tensor, places: Tensor, allowed: Tensor | None = None, cache: dict | None = None) -> Tensor:
        x = x + self.attention(self.norms[0](x), places, allowed, cache)
        return x + self.feed_forward(self.norms[1](x))


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


class Decoder(nn.Module):
    """A language model as they are built today (Touvron et al., 2023, section 2.2; grouped heads since LLaMA 2).

    ids (B, T) -> logits (B, T, V), of the next token at each place; the read-out is the table of embeddings once more.
    mask bool (B, T_all), True = a real token; padding stands on the left, and a row's places are counted from its first
    real token, so padding changes nothing. What stands at padding means nothing: it looks at itself alone.
    cache: a list of one dict a block, empty at first ([{} for _ in model.blocks]); ids are then what comes next.
    Raises ValueError or TypeError, in words, for ids, masks and lengths that do not fit.
    """

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.config, self.max_len = config, config.max_len
        self.embed = nn.Embedding.from_pretrained(torch.empty(config.vocab_size, config.d_model), freeze=False)
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.n_layers))
        self.norm = RMSNorm(config.d_model, config.eps)
        for part in self.parameters():
            if part.ndim == 2 and not part.is_meta:
                nn.init.normal_(part, std=0.02)  # as GPT-2 begins, and those after it

    def forward(self, ids: Tensor, mask: Tensor | None = None, cache: list[dict] | None = None) -> Tensor:
        return self.read_out(self.states(ids, mask, cache))  # (B, T, V)

    def states(self, ids: Tensor, mask: Tensor | None = None, cache: list[dict] | None = None) -> Tensor:
        """What `read_out` reads, (B, T, D): V numbers a place are many, whoever needs a few places picks them here."""
        ids = token_ids("ids", ids, self.embed, shortest=1)
        past = cache[0]["k"].shape[2] if cache and cache[0] else 0  # tokens that the cache holds
        check_text(self, ids, mask, cache, past)
        places, allowed = _seen(ids, mask, past)
        x = self.embed(ids)  # (B, T, D)
        for block, kept in zip(self.blocks, cache or [None] * len(self.blocks), strict=True):
            x = block(x, places, allowed, kept)
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
        _check_weights(dict(ours.named_parameters()), weights)
        ours.load_state_dict(weights, assign=True)
        return ours


def _seen(ids: Tensor, mask: Tensor | None, past: int) -> tuple[Tensor, Tensor | None]:
    """The places of ids (B, T) that follow `past` others, (T,) or (B, 1, T), and what each may look at."""
    here, T_all = text_places(ids, past=past), past + ids.shape[1]  # (T,): columns; with padding, places are others
    if mask is None and len(here) in (1, T_all):  # all of it, or the triangle that the kernel knows
        return here, None
    there = torch.arange(T_all, device=ids.device)  # (T_all,)
    if mask is None:
        return here, there <= here[:, None]  # (T, T_all)
    places = text_places(ids, mask, past)[:, None]  # (B, 1, T)
    # Padding looks at itself alone, for a softmax over nothing would be 0 / 0; nothing real looks at padding.
    return places, (there < here[:, None]) & mask[:, None, None] | (there == here[:, None])  # (B, 1, T, T_all)


def _check_sizes(config: DecoderConfig) -> None:
    sizes = {name: getattr(config, name) for name in DecoderConfig.__annotations__ if name not in ("base", "eps")}
    check_sizes("DecoderConfig", **{name: size for name, size in sizes.items() if size is not None})
    if config.n_heads % config.n_kv_heads:
        got = f"n_heads={config.n_heads}, n_kv_heads={config.n_kv_heads}"
        raise ValueError(f"Equal groups of heads share keys: n_heads must be a multiple of n_kv_heads; got {got}.")
    if (d_head := config.d_head or config.d_model / config.n_heads) % 2:
        raise ValueError(f"Each head turns pairs of numbers: its width must be a whole, even number; got {d_head:g}.")


def _check_weights(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    ours, theirs = ({name: tuple(part.shape) for name, part in parts.items()} for parts in (ours, theirs))
    if differ := sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)):
        raise ValueError(f"The weights are not those of a Decoder of these sizes: {', '.join(differ[:3])} ...")
