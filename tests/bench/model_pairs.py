"""Our GPT, BERT and ViT beside Hugging Face's of equal sizes and weights, each pair with one job for both sides.

Theirs runs as fast as it can: PyTorch's fused attention (sdpa), no dropout, no cache. Both sides answer the same
questions with the same function for the loss, and a pair is handed out only when both find the same loss.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from course_lib.bert.bert_heads import MaskedWords
from course_lib.language.gpt import GPT
from course_lib.vision.vit import ViT

ASKED = 0.15  # of the places of a text, by BERT's masked words
THEIRS = "Hugging Face"


@dataclass
class Side:
    """A model, and what it makes of the pair's input: logits, one row for each answer or one for each place."""

    model: nn.Module
    logits: Callable[[nn.Module], Tensor]
    answers: Tensor

    def loss(self) -> Tensor:
        return F.cross_entropy(self.logits(self.model).flatten(0, -2), self.answers.flatten())

    def infer(self) -> None:
        with torch.no_grad():
            self.logits(self.model)

    def train(self) -> None:
        self.model.zero_grad(set_to_none=True)
        self.loss().backward()


@dataclass
class Pair:
    """One input, the tokens in it (an image's patches and its [CLS] are tokens), and two or three sides to read it."""

    name: str
    sizes: dict[str, int]
    tokens: int
    sides: dict[str, Side]

    def __post_init__(self):
        wanted = self.sides[THEIRS].loss()
        for side in self.sides.values():
            torch.testing.assert_close(side.loss(), wanted, rtol=1e-4, atol=1e-4)


def their_gpt(
    vocab_size: int, max_len: int, d_model: int, n_heads: int, n_layers: int, fused_gelu: bool = False
) -> nn.Module:
    """Hugging Face's GPT-2, not trained, without dropout, and without an end of text that would stop it.

    Their GPT-2 writes its GELU as five operations ("gelu_new"); fused_gelu puts PyTorch's one in the place of these,
    which is the same function, and what ours calls.
    """
    sizes = {"vocab_size": vocab_size, "n_positions": max_len, "n_embd": d_model, "n_head": n_heads}
    off = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": None, "eos_token_id": None}
    off |= {"activation_function": "gelu_pytorch_tanh" if fused_gelu else "gelu_new"}
    return transformers.GPT2LMHeadModel(_fast(transformers.GPT2Config(**sizes, n_layer=n_layers, **off)))


def gpt(
    batch: int, T: int, d_model: int, n_heads: int, n_layers: int, vocab_size: int, fused: bool, device: torch.device
) -> Pair:
    """The next token at every place. fused: theirs with PyTorch's own GELU, which theirs by itself has not."""
    theirs = their_gpt(vocab_size, T, d_model, n_heads, n_layers, fused).to(device)
    ids = torch.randint(vocab_size, (batch, T + 1), device=device)
    read, answers = ids[:, :-1], ids[:, 1:]
    sides = {
        THEIRS: Side(theirs, lambda model: model(read, use_cache=False).logits, answers),
        "ours": Side(GPT.from_hf(theirs), lambda model: model(read), answers),
    }
    name = "GPT, theirs with fused GELU" if fused else "GPT"
    return Pair(name, _sizes(batch, T, d_model, n_layers, vocab_size), batch * T, sides)


def bert(
    batch: int, T: int, d_model: int, n_heads: int, n_layers: int, vocab_size: int, padding: int, device: torch.device
) -> Pair:
    """The masked words. Theirs reads out every place; so does "ours, all places"; "ours" those that are asked.

    padding: how many pieces the texts lack at most, each another number; 0 for none, and then no mask is handed over.
    """
    sizes = {"vocab_size": vocab_size, "max_position_embeddings": T, "hidden_size": d_model}
    sizes |= {"num_attention_heads": n_heads, "num_hidden_layers": n_layers, "intermediate_size": 4 * d_model}
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    theirs = transformers.BertForMaskedLM(_fast(transformers.BertConfig(**sizes, **off))).to(device)
    ids, segments = torch.randint(vocab_size, (batch, T), device=device), torch.zeros(batch, T, dtype=torch.long)
    segments[:, T // 2 :] = 1
    lengths = T - torch.linspace(0, padding, batch).long()
    real = torch.arange(T) < lengths[:, None]  # (B, T)
    asked = ((torch.rand(batch, T) < ASKED) & real).to(device)
    segments, mask = segments.to(device), real.to(device) if padding else None
    places, answers = asked.flatten().nonzero()[:, 0], ids.masked_fill(~asked, -100)  # cross_entropy leaves out -100
    ours = MaskedWords.from_hf(theirs)
    sides = {
        THEIRS: Side(theirs, lambda model: model(ids, mask, segments).logits, answers),
        "ours": Side(ours, lambda model: model(ids, segments, mask, places), ids.flatten()[places]),
        "ours, all places": Side(ours, lambda model: model(ids, segments, mask), answers),
    }
    name = f"BERT, {padding} padded" if padding else "BERT"
    return Pair(name, _sizes(batch, T, d_model, n_layers, vocab_size), batch * T, sides)


def vit(
    batch: int, side: int, patch: int, channels: int, d_model: int, n_heads: int, n_layers: int, device: torch.device
) -> Pair:
    """One of ten classes for an image."""
    sizes = {"image_size": side, "patch_size": patch, "num_channels": channels, "hidden_size": d_model}
    sizes |= {"num_attention_heads": n_heads, "num_hidden_layers": n_layers, "intermediate_size": 4 * d_model}
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "num_labels": 10}
    theirs = transformers.ViTForImageClassification(_fast(transformers.ViTConfig(**sizes, **off))).to(device)
    images, answers = torch.randn(batch, channels, side, side, device=device), torch.randint(10, (batch,)).to(device)
    sides = {
        THEIRS: Side(theirs, lambda model: model(images).logits, answers),
        "ours": Side(ViT.from_hf(theirs), lambda model: model(images), answers),
    }
    T = 1 + (side // patch) ** 2
    return Pair("ViT", _sizes(batch, T, d_model, n_layers, 10), batch * T, sides)


# Small as a lesson trains it, then wider ones.
PAIRS = [
    (gpt, (12, 64, 128, 4, 4, 65, False)),  # the plain recipe on the plays
    (gpt, (12, 64, 128, 4, 4, 65, True)),
    (gpt, (8, 128, 192, 6, 6, 65, False)),
    (gpt, (2, 256, 384, 6, 4, 1024, False)),
    (gpt, (2, 256, 384, 6, 4, 1024, True)),
    (bert, (16, 64, 128, 4, 2, 2000, 0)),
    (bert, (16, 64, 128, 4, 2, 2000, 32)),
    (bert, (4, 128, 256, 4, 4, 8000, 0)),
    (vit, (32, 28, 4, 1, 64, 4, 4)),  # Fashion-MNIST
    (vit, (8, 64, 8, 3, 192, 3, 6)),
]


def pairs(device: torch.device):
    """Each pair in its turn, so that no more than one is held."""
    for make, sizes in PAIRS:
        yield make(*sizes, device)


def _fast(config: transformers.PreTrainedConfig) -> transformers.PreTrainedConfig:
    config._attn_implementation = "sdpa"  # transformers' own choice too; named, so that it stays
    return config


def _sizes(batch: int, T: int, d_model: int, n_layers: int, answers: int) -> dict[str, int]:
    return {"batch": batch, "time": T, "d_model": d_model, "layers": n_layers, "answers": answers}
