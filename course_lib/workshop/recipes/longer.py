"""Lesson 17's models: readers of keys and values that differ in their attention, and readers of the plays.

The readers of pairs have two blocks, 64 wide, and no positions: a question names its key. The readers of plays read
characters, segment by segment, and are trained by lesson 01's `TruncatedBPTT`.
"""

from collections.abc import Iterator
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention.block import Block, FeedForward
from course_lib.attention.multi_head import MultiHead
from course_lib.data import plays
from course_lib.data.key_values import key_values
from course_lib.inputs.sequences import reading
from course_lib.long_context.hashing import HashedHeads
from course_lib.long_context.linear_attention import DeltaHeads, LinearHeads
from course_lib.long_context.segments import SegmentConfig, SegmentReader
from course_lib.long_context.window import LocalHeads
from course_lib.recurrent.language_model import TruncatedBPTT, streams
from course_lib.text.tokenizers import CharTokenizer
from course_lib.train import cosine, fit

CPU = torch.device("cpu")  # models this small are no faster on a GPU

# --- pairs of a key and a value

SYMBOLS, HALF = 64, 32  # keys and values that there are; places in which pairs stand, and in which keys are asked
WIDTH, HEADS, LAYERS, NEAR = 64, 4, 2, 8
PAIRS = (1, 4, 16, 32)  # in a row, in turns
KEY_STEPS, KEY_BATCH, KEY_RATE = 600, 32, 3e-3  # one rate for all kinds, and no other was tried
ASKED_ROWS = 256

# How the heads of a block look, and how many blocks.
KINDS = {
    "full": (partial(MultiHead, WIDTH, HEADS), LAYERS),
    "window": (partial(LocalHeads, WIDTH, HEADS, NEAR), LAYERS),
    "window, 1 global": (partial(LocalHeads, WIDTH, HEADS, NEAR, 1), LAYERS),
    "window, 4 global": (partial(LocalHeads, WIDTH, HEADS, NEAR, 4), LAYERS),
    "window, 16 global": (partial(LocalHeads, WIDTH, HEADS, NEAR, 16), LAYERS),
    "window of 16, 4 layers": (partial(LocalHeads, WIDTH, HEADS, 2 * NEAR), 2 * LAYERS),
    "buckets, 1 round": (partial(HashedHeads, WIDTH, HEADS, 1, 16, 8), LAYERS),
    "buckets, 2 rounds": (partial(HashedHeads, WIDTH, HEADS, 2, 16, 8), LAYERS),
    "linear, 1 head": (partial(LinearHeads, WIDTH, 1), LAYERS),
    "linear": (partial(LinearHeads, WIDTH, HEADS), LAYERS),
    "linear, 16 heads": (partial(LinearHeads, WIDTH, 16), LAYERS),
    "delta rule": (partial(DeltaHeads, WIDTH, HEADS), LAYERS),
}


class KeyReader(nn.Module):
    """Names the value of each key that is asked: x int64 (B, T, 2), a key and a value per position -> logits (B, T, V).

    kind: one of `KINDS`. Global tokens, where it has some, are learned vectors in front of the row.
    """

    def __init__(self, kind: str):
        super().__init__()
        self.keys, self.values = nn.Embedding(SYMBOLS + 1, WIDTH), nn.Embedding(SYMBOLS + 1, WIDTH)
        heads, n_layers = KINDS[kind]
        blocks = [Block(heads(), FeedForward(WIDTH, 2 * WIDTH), pre_norm=True) for _ in range(n_layers)]
        self.in_front = nn.Parameter(torch.randn(getattr(blocks[0].attention, "n_global", 0), WIDTH))
        self.blocks, self.norm, self.out = nn.ModuleList(blocks), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, SYMBOLS + 1)

    def forward(self, x: Tensor) -> Tensor:
        states = self.keys(x[..., 0]) + self.values(x[..., 1])
        states = torch.cat([self.in_front.expand(len(x), -1, -1), states], dim=1)
        for block in self.blocks:
            states = block(states)
        return self.out(self.norm(states[:, len(self.in_front) :]))


def key_batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless rows with 1, 4, 16 and 32 pairs, in turns."""
    draws = torch.Generator().manual_seed(seed)
    while True:
        for n in PAIRS:
            yield key_values(KEY_BATCH, n, HALF, SYMBOLS, draws)


def key_loss(model: KeyReader, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Nats a question."""
    x, y = batch
    return F.cross_entropy(model(x)[y > 0], y[y > 0])


def key_reader(seed: int, kind: str, steps: int = KEY_STEPS, **how) -> KeyReader:
    """A reader of one of `KINDS`, trained."""
    torch.manual_seed(seed)
    model = KeyReader(kind)
    schedule = partial(cosine, warmup=50)
    fit(model, key_batches(seed), key_loss, steps=steps, lr=KEY_RATE, weight_decay=0.01, schedule=schedule,
        **{"device": CPU, "progress": False, **how})  # fmt: skip
    return model


@torch.no_grad()
def right_keys(model: KeyReader, n_pairs: int) -> float:
    """The share of questions that are answered correctly in rows of so many pairs, the same for all models."""
    x, y = key_values(ASKED_ROWS, n_pairs, HALF, SYMBOLS, torch.Generator().manual_seed(10_000))
    with reading(model):
        return (model(x).argmax(dim=-1) == y)[y > 0].float().mean().item()


# --- the plays, segment by segment

PLAY_WIDTH, PLAY_HEADS, PLAY_LAYERS = 96, 4, 2
PLAY_RATE, STREAMS, SEGMENT = 6e-3, 32, 64


@cache
def characters(split: str) -> Tensor:
    """A split of the plays: (N,)."""
    return tokenizer().encode(plays.text(split))


@cache
def tokenizer() -> CharTokenizer:
    """A character a token."""
    return CharTokenizer(plays.text("train"))


def untrained_reader(
    seed: int, segment: int = SEGMENT, memory: int = 0, relative: bool = True, window: int | None = None
) -> SegmentReader:
    """A reader of the plays as it begins, for segments of this length."""
    torch.manual_seed(seed)
    sizes = (len(tokenizer()), PLAY_WIDTH, PLAY_HEADS, PLAY_LAYERS)
    return SegmentReader(SegmentConfig(*sizes, memory, relative, window, max_len=max(SEGMENT, segment)))


def play_batches(seed: int, segment: int = SEGMENT) -> Iterator[tuple[Tensor, Tensor]]:
    """Streams of the training plays, begun somewhere: as many characters a step, however long the segments are."""
    ids = characters("train")
    begin = int(torch.randint(len(ids), (1,), generator=torch.Generator().manual_seed(seed)))
    return streams(ids.roll(-begin), STREAMS * SEGMENT // segment, segment)


def play_reader(
    seed: int, steps: int, segment: int = SEGMENT, rate: float = PLAY_RATE, loss=TruncatedBPTT, **sizes
) -> SegmentReader:
    """A reader of the plays, trained segment by segment; loss: makes what carries the memory; sizes: as above."""
    model = untrained_reader(seed, segment, **sizes)
    fit(model, play_batches(seed, segment), loss(), steps=steps, lr=rate, weight_decay=0.01,
        schedule=partial(cosine, warmup=50), device=CPU, progress=False)  # fmt: skip
    return model
