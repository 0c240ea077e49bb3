"""What is learned: the next token (gpt), masked pieces (bert), the label of an image (vit). Model, pieces, nats.

A task gives `model()`, `piece(step, k)` and `held_out(k)`, batches on the CPU that follow from their place alone;
`answers(batch)`, how many answers each term of its loss has, and `nats(model, batch)`, the sums over them. The loss of
a step is the sum of its terms' means over all pieces, whoever computes them. `per_row` are the places of a row, `reach`
how many of them attention looks at, on average, and `read_out` the share of them that scores are computed for.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.bert.bert import Bert, BertConfig
from course_lib.bert.bert_heads import MaskedWords
from course_lib.bert.pretraining import small_bert, span_pairs
from course_lib.language.decoder import Decoder, DecoderConfig
from course_lib.language.gpt import GPT, GPTConfig
from course_lib.scale import corpus
from course_lib.scale.config import Config
from course_lib.scale.rows import Order, Windows, draw
from course_lib.scale.tokens import Tokens
from course_lib.vision.images import random_shift
from course_lib.vision.vit import ViT, ViTConfig

TABLE_OF = 64  # a vocabulary is filled up to a multiple of this: matrices of odd sizes are slow on a GPU
# d_model, heads, layers. Of GPT: Radford et al. (2019, table 2); of BERT: Devlin et al. (2019, section 3); of ViT:
# Dosovitskiy et al. (2021, table 1).
WIDTHS = {
    "gpt": {"tiny": (64, 4, 2), "small": (128, 4, 4), "124m": (768, 12, 12), "355m": (1024, 16, 24),
            "774m": (1280, 20, 36), "1558m": (1600, 25, 48), "7b": (4096, 32, 32)},
    "bert": {"tiny": (64, 4, 2), "110m": (768, 12, 12), "340m": (1024, 16, 24)},
    "vit": {"tiny": (64, 4, 2), "86m": (768, 12, 12), "304m": (1024, 16, 24), "632m": (1280, 16, 32)},
}  # fmt: skip
ASKED = 0.15  # of BERT's pieces (Devlin et al., 2019, section 3.1)
ELSEWHERE = 1 << 32  # steps of pieces that are held out, far from any step


class NextToken:
    """A GPT that says the next token (Radford et al., 2018); of 7 billion weights a decoder of today."""

    def __init__(self, config: Config, place: Path):
        self.config, self.vocab_size = config, _filled_up(corpus.tokenizer_of(place, "gpt")["size"])
        self.windows = Windows(Tokens(place, "train", checked=True), config.tokens, config.seed)
        held = Tokens(place, "validation", checked=True) if "validation" in self.windows.tokens.index["splits"] else ()
        self.held = Windows(held, config.tokens, 0) if len(held) > config.tokens else None
        self.per_row = self.reach = config.tokens
        self.read_out = 1.0

    def model(self) -> nn.Module:
        return gpt(self.config.size, self.vocab_size, self.config.tokens)

    def piece(self, step: int, k: int) -> Tensor:
        c = self.config
        return torch.from_numpy(self.windows.rows(step * c.batch + k * c.micro, c.micro))  # (micro, T + 1)

    def held_out(self, k: int) -> Tensor | None:
        return None if self.held is None else torch.from_numpy(self.held.rows(k * self.config.micro, self.config.micro))

    def answers(self, batch: Tensor) -> list[int]:
        return [batch[:, 1:].numel()]

    def nats(self, model: nn.Module, batch: Tensor) -> Tensor:
        logits = model(batch[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum")[None]


class MaskedPieces:
    """A BERT that fills in masked pieces and says whether a second span follows on the first (Devlin et al., 2019)."""

    REACH = 64  # a piece draws its spans from a stretch of the text as long as so many of its rows

    def __init__(self, config: Config, place: Path):
        self.config, self.tokenizer = config, corpus.tokenizer_of(place, "bert")
        self.text, self.vocab_size = Tokens(place, "train", checked=True), _filled_up(len(self.tokenizer))
        _check_text(len(self.text), config.tokens)
        held = Tokens(place, "validation", checked=True) if "validation" in self.text.index["splits"] else ()
        self.held = held if len(held) > config.tokens else None
        self.per_row, self.read_out = config.tokens, ASKED
        self.reach = config.tokens * 7 / 12  # rows are whole, halves and quarters in turn

    def model(self) -> nn.Module:
        return bert(self.config.size, self.vocab_size, self.config.tokens)

    def piece(self, step: int, k: int):
        return self._spans(self.text, self.config.seed, step, k)

    def held_out(self, k: int):
        return None if self.held is None else self._spans(self.held, 0, ELSEWHERE, k)

    def _spans(self, text: Tokens, *place: int):
        micro, length, seed = self.config.micro, self.config.tokens, draw(*place)
        n = min(len(text), self.REACH * micro * length)
        start = int(np.random.default_rng([seed, 1]).integers(len(text) - n + 1))
        ids = torch.from_numpy(text.read(start, n))
        return next(span_pairs(ids, self.tokenizer, micro, length, seed % 2**62, short=0))

    def answers(self, batch) -> list[int]:
        return [len(batch.answers), len(batch.follows)]

    def nats(self, model: nn.Module, batch) -> Tensor:
        words, pairs = model(batch.ids, batch.segments, None, batch.places)  # rows of a batch are as long as each other
        asked = F.cross_entropy(words, batch.answers, reduction="sum")
        return torch.stack([asked, F.cross_entropy(pairs, batch.follows, reduction="sum")])


class Labels:
    """A Vision Transformer that names what is seen (Dosovitskiy et al., 2021), from images that are moved at random."""

    def __init__(self, config: Config, place: Path):
        self.config, self.place = config, place
        about = corpus.images_of(place)
        self.shapes, self.classes = about["shapes"], about["classes"]
        self.images = {split: self._images(split) for split in corpus.SPLITS}
        self.labels = {split: self._labels(split) for split in corpus.SPLITS}
        self.order = Order(len(self.labels["train"]), config.seed)
        self.mirrored = config.data != "digits"
        self.per_row = self.reach = (config.image // config.patch) ** 2 + 1
        self.read_out = 1.0

    def _images(self, split: str) -> np.ndarray:
        path, shape = self.place / f"images-{split}.bin", tuple(self.shapes[split])
        if not path.exists() or path.stat().st_size != int(np.prod(shape)):
            raise self._damaged(path)
        return np.memmap(path, np.uint8, "r", shape=shape)

    def _labels(self, split: str) -> np.ndarray:
        path, n = self.place / f"labels-{split}.npy", self.shapes[split][0]
        try:
            labels = np.load(path, mmap_mode="r")
            if labels.shape == (n,) and labels.dtype == np.int64 and 0 <= labels.min() <= labels.max() < self.classes:
                return labels
        except (OSError, ValueError, EOFError):
            pass
        raise self._damaged(path)

    def _damaged(self, path: Path) -> ValueError:
        return ValueError(f"{path} is damaged: delete the folder {self.place}, and it is made again.")

    def model(self) -> nn.Module:
        c = self.config
        return vit(c.size, c.image, c.patch, self.classes, self.shapes["train"][1])

    def piece(self, step: int, k: int) -> tuple[Tensor, Tensor]:
        c = self.config
        chosen = [row for _, row in self.order.rows(step * c.batch + k * c.micro, c.micro)]
        images, labels = self._read("train", chosen)
        generator = torch.Generator().manual_seed(draw(c.seed, step, k))
        moved = random_shift(images, max(1, c.image // 16), generator)
        turned = torch.rand(len(images), generator=generator) < 0.5 * self.mirrored
        return torch.where(turned[:, None, None, None], moved.flip(-1), moved), labels

    def held_out(self, k: int) -> tuple[Tensor, Tensor]:
        n = len(self.labels["validation"])
        return self._read("validation", [(k * self.config.micro + i) % n for i in range(self.config.micro)])

    def _read(self, split: str, rows: list[int]) -> tuple[Tensor, Tensor]:
        images = torch.from_numpy(np.stack([self.images[split][row] for row in rows]))
        return images.float() / 127.5 - 1, torch.tensor([int(self.labels[split][row]) for row in rows])

    def answers(self, batch: tuple[Tensor, Tensor]) -> list[int]:
        return [len(batch[1])]

    def nats(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1], reduction="sum")[None]


TASKS = {"gpt": NextToken, "bert": MaskedPieces, "vit": Labels}
Task = NextToken | MaskedPieces | Labels


def gpt(size: str, vocab_size: int, length: int) -> nn.Module:
    """A new GPT of one of the sizes."""
    d_model, heads, layers = WIDTHS["gpt"][size]
    if size == "7b":  # Touvron et al. (2023, table 2); here the read-out is the table of embeddings once more
        config = DecoderConfig(vocab_size, length, d_model, heads, layers, 11_008)
        return Decoder(config)
    config = GPTConfig(vocab_size, length, d_model, heads, layers)
    return GPT(config)


def bert(size: str, vocab_size: int, length: int) -> nn.Module:
    """A new BERT of one of the sizes with both heads of its pre-training."""
    if size == "tiny":
        return small_bert(vocab_size, length, *WIDTHS["bert"]["tiny"], 0.0)
    d_model, heads, layers = WIDTHS["bert"][size]
    config = BertConfig(vocab_size, length, d_model, heads, layers)
    return MaskedWords(Bert(config), pairs=True)


def vit(size: str, image: int, patch: int, classes: int, channels: int) -> nn.Module:
    """A new ViT of one of the sizes."""
    config = ViTConfig(image, patch, classes, *WIDTHS["vit"][size], channels)
    return ViT(config)


def _filled_up(vocab_size: int) -> int:
    return -(-vocab_size // TABLE_OF) * TABLE_OF


def _check_text(n: int, length: int) -> None:
    if n <= length:
        raise ValueError(f"A row needs more than {length} tokens, and the text has {n}: shorter rows with --tokens.")
