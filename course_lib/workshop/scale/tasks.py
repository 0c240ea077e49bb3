"""What is learned: the next token (gpt), masked tokens (bert), the label of an image (vit).

A task gives `model()`; `piece(step, k)` and `held_out(k)`, batches on the CPU that follow from their place alone; and
`loss(model, batch)`, the lesson's own. `per_row` is how many positions a row has, `reach` how many of them a position
attends to on average, and `read_out` the share of them that scores are computed for.
"""

import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from course_lib.bert.bert import Bert, BertConfig
from course_lib.bert.bert_heads import MaskedWords
from course_lib.bert.masked_words import Masked, masked_loss
from course_lib.bert.pretraining import small_bert, span_pairs
from course_lib.language.decoder import Decoder, DecoderConfig
from course_lib.language.gpt import GPT, GPTConfig
from course_lib.language.next_token import next_token_loss
from course_lib.text.wordpiece import WordPiece
from course_lib.vision.images import image_loss, random_shift
from course_lib.vision.vit import ViT, ViTConfig
from course_lib.workshop.scale.config import Config
from course_lib.workshop.scale.corpus import SPLITS, TOKENIZER
from course_lib.workshop.scale.rows import Order, Windows, draw
from course_lib.workshop.scale.tokens import Tokens, read_index

# d_model, heads, layers. Of GPT: Radford et al. (2019, table 2); of BERT: Devlin et al. (2019, section 3); of ViT:
# Dosovitskiy et al. (2021, table 1).
WIDTHS = {
    "gpt": {"tiny": (64, 4, 2), "small": (128, 4, 4), "124m": (768, 12, 12), "355m": (1024, 16, 24),
            "774m": (1280, 20, 36), "1558m": (1600, 25, 48), "7b": (4096, 32, 32)},
    "bert": {"tiny": (64, 4, 2), "110m": (768, 12, 12), "340m": (1024, 16, 24)},
    "vit": {"tiny": (64, 4, 2), "86m": (768, 12, 12), "304m": (1024, 16, 24), "632m": (1280, 16, 32)},
}  # fmt: skip
HELD_OUT_STEP = 1 << 32  # where held-out pieces are drawn, far from any step


class NextToken:
    """A GPT that predicts the next token (Radford et al., 2018); with 7 billion weights, a decoder of today."""

    read_out, loss = 1.0, staticmethod(next_token_loss)

    def __init__(self, config: Config, place: Path):
        self.config, self.vocab_size = config, _padded(len(_vocab(place)))
        self.windows = Windows(Tokens(place, "train"), config.tokens, config.seed)
        held = Tokens(place, "validation")
        self.held = Windows(held, config.tokens, 0) if len(held) > config.tokens else None
        self.per_row = self.reach = config.tokens

    def model(self) -> nn.Module:
        return gpt(self.config.size, self.vocab_size, self.config.tokens)

    def piece(self, step: int, k: int) -> Tensor:
        c = self.config
        return torch.from_numpy(self.windows.rows(step * c.batch + k * c.micro, c.micro))  # (micro, T + 1)

    def held_out(self, k: int) -> Tensor | None:
        return None if self.held is None else torch.from_numpy(self.held.rows(k * self.config.micro, self.config.micro))


class MaskedTokens:
    """A BERT that fills in masked tokens and says whether the second span follows the first (Devlin et al., 2019)."""

    STRETCH = 64  # a piece draws its spans from a stretch of the text that is as long as so many of its rows
    read_out, loss = 0.15, staticmethod(masked_loss)  # the share of masked tokens (Devlin et al., 2019, section 3.1)

    def __init__(self, config: Config, place: Path):
        vocab = _vocab(place)
        self.config, self.tokenizer, self.vocab_size = config, WordPiece(vocab), _padded(len(vocab))
        self.text, held = Tokens(place, "train"), Tokens(place, "validation")
        self.held = held if len(held) > config.tokens else None
        self.per_row = config.tokens
        self.reach = config.tokens * 7 / 12  # rows are whole, halves and quarters in turn

    def model(self) -> nn.Module:
        return bert(self.config.size, self.vocab_size, self.config.tokens)

    def piece(self, step: int, k: int) -> Masked:
        return self._spans(self.text, draw(self.config.seed, step, k))

    def held_out(self, k: int) -> Masked | None:
        return None if self.held is None else self._spans(self.held, draw(0, HELD_OUT_STEP, k))

    def _spans(self, text: Tokens, seed: int) -> Masked:
        micro, length = self.config.micro, self.config.tokens
        n = min(len(text), self.STRETCH * micro * length)
        start = int(np.random.default_rng([seed, 1]).integers(len(text) - n + 1))
        ids = torch.from_numpy(text.read(start, n))
        batch = next(span_pairs(ids, self.tokenizer, micro, length, seed % 2**62))
        return batch._replace(mask=None)  # all its rows have the same length


class Labels:
    """A Vision Transformer that classifies images, shifted at random (Dosovitskiy et al., 2021)."""

    read_out, loss = 1.0, staticmethod(image_loss)

    def __init__(self, config: Config, place: Path):
        about = read_index(place)
        self.config, self.shapes, self.classes = config, about["shapes"], about["classes"]
        self.images = {
            split: np.memmap(place / f"images-{split}.bin", np.uint8, "r", shape=tuple(self.shapes[split]))
            for split in SPLITS
        }
        self.labels = {split: np.load(place / f"labels-{split}.npy") for split in SPLITS}
        self.order = Order(len(self.labels["train"]), config.seed)
        self.per_row = self.reach = (config.image // config.patch) ** 2 + 1

    def model(self) -> nn.Module:
        return vit(self.config.size, self.config.image, self.config.patch, self.classes, self.shapes["train"][1])

    def piece(self, step: int, k: int) -> tuple[Tensor, Tensor]:
        c = self.config
        images, labels = self._read("train", [row for _, row in self.order.rows(step * c.batch + k * c.micro, c.micro)])
        generator = torch.Generator().manual_seed(draw(c.seed, step, k))
        images = random_shift(images, max(1, c.image // 16), generator)
        flipped = torch.rand(len(images), generator=generator) < 0.5 * (c.data != "digits")
        return torch.where(flipped[:, None, None, None], images.flip(-1), images), labels

    def held_out(self, k: int) -> tuple[Tensor, Tensor]:
        n, micro = len(self.labels["validation"]), self.config.micro
        return self._read("validation", [place % n for place in range(k * micro, (k + 1) * micro)])

    def _read(self, split: str, rows: list[int]) -> tuple[Tensor, Tensor]:
        images = torch.from_numpy(self.images[split][rows]).float() / 127.5 - 1
        return images, torch.from_numpy(self.labels[split][rows])


TASKS = {"gpt": NextToken, "bert": MaskedTokens, "vit": Labels}
Task = NextToken | MaskedTokens | Labels


def gpt(size: str, vocab_size: int, length: int) -> nn.Module:
    """A new GPT of one of the sizes."""
    d_model, heads, layers = WIDTHS["gpt"][size]
    if size == "7b":  # Touvron et al. (2023, table 2); here the read-out is tied to the embeddings
        return Decoder(DecoderConfig(vocab_size, length, d_model, heads, layers, 11_008))
    return GPT(GPTConfig(vocab_size, length, d_model, heads, layers))


def bert(size: str, vocab_size: int, length: int) -> nn.Module:
    """A new BERT of one of the sizes, with both heads of its pre-training."""
    if size == "tiny":
        return small_bert(vocab_size, length, *WIDTHS["bert"]["tiny"], 0.0)
    return MaskedWords(Bert(BertConfig(vocab_size, length, *WIDTHS["bert"][size])), pairs=True)


def vit(size: str, image: int, patch: int, classes: int, channels: int) -> nn.Module:
    """A new ViT of one of the sizes."""
    return ViT(ViTConfig(image, patch, classes, *WIDTHS["vit"][size], channels))


def _vocab(place: Path) -> list[str]:
    return json.loads((place / TOKENIZER).read_text(encoding="utf-8"))["vocab"]


def _padded(vocab_size: int) -> int:
    """The next multiple of 64: matrices of odd sizes are slow on a GPU."""
    return -(-vocab_size // 64) * 64
