"""The stored models that read the plays: how each is made, trained and measured; `stored` keeps them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from course_lib.bert.masked_words import masked_loss
from course_lib.bert.pretraining import masked_bits, play_pieces, short_rows_first, small_bert
from course_lib.data import plays
from course_lib.language.next_token import bits_per_token, next_token_loss, small_gpt, subwords, three_rounds, windows
from course_lib.recurrent.language_model import CharRNN, TruncatedBPTT, bits_per_character, streams
from course_lib.recurrent.lstm import GRU, LSTM
from course_lib.recurrent.rnn import RNN
from course_lib.text.bpe import BPE
from course_lib.text.tokenizers import CharTokenizer, check_depth
from course_lib.text.wordpiece import WordPiece
from course_lib.train import History, cosine, fit, pick_device

TOKENIZERS = {"BPE": BPE, "CharTokenizer": CharTokenizer, "WordPiece": WordPiece}


@dataclass(frozen=True)
class Recipe:
    """How one model is made: its layer with its `sizes`, and the run that trains it on the plays.

    `backwards`: it reads the text from its end, and predicts the character before. `about`: what it is, for the card.
    `reader` is the model around the layer (or the whole model, where there is no layer), `tokenizer` makes a tokenizer
    from the train split; `batches`, `loss` and `bits` (per token) train and measure it. `masked`: it fills in masked
    pieces, so `batches` and `bits` are handed the tokenizer too, and bits are per masked piece, not per character.
    `half`: stored in half precision.
    """

    about: str
    layer: type[nn.Module] | None
    sizes: tuple[float, ...]
    lr: float
    steps: int
    backwards: bool = False
    batch: int = 128
    chunk: int = 32
    seed: int = 0
    tokenizer: Callable = CharTokenizer
    reader: Callable = CharRNN
    batches: Callable = streams
    loss: Callable = TruncatedBPTT
    bits: Callable = bits_per_character
    optimiser: Callable | None = None
    warmup: int = 0
    masked: bool = False
    half: bool = False

    MEASURED: ClassVar = {"vocab_size", "test_bits", "tokenizer"}  # what a record holds besides what every record does

    def model(self, vocab_size: int) -> nn.Module:
        """A new model with weights drawn at random: ids (B, T) -> logits (B, T, vocab_size), and states if any."""
        parts = (self.layer(*self.sizes),) if self.layer else self.sizes
        return self.reader(vocab_size, *parts)

    def model_of(self, record: dict) -> nn.Module:
        """A new model of the size that a record tells; ValueError where its tokenizer has another size."""
        if len(record["tokenizer"]) != record["vocab_size"]:
            raise ValueError(f"its tokenizer has {len(record['tokenizer'])} tokens, and it {record['vocab_size']}")
        return self.model(record["vocab_size"])

    def train(self, steps: int, **how) -> tuple[nn.Module, History, dict]:
        """Train a new model for so many of its steps -> the model, its history, and what was measured.

        The history's looks are [step, bits per character (or masked piece) on validation scenes]. how: for `fit`.
        """
        device, texts = pick_device(), {split: plays.text(split) for split in ("train", "validation", "test")}
        tokenizer = self.tokenizer(texts["train"])
        ids = tokenizer.encode(texts["train"])
        ids = ids.flip(0) if self.backwards else ids
        model = self.model(len(tokenizer)).to(device)
        more = (tokenizer,) if self.masked else ()

        def bits(split: str, characters: int | None = None) -> float:
            """Per character of the split, or of its first characters: what the tokens that they are cut into cost."""
            text = texts[split][-(characters or 0) :] if self.backwards else texts[split][:characters]
            tokens = tokenizer.encode(text).flip(0) if self.backwards else tokenizer.encode(text)
            per_token = self.bits(model, tokens, *more)
            return round(per_token if self.masked else per_token * len(tokens) / len(text), 4)

        history = fit(
            model,
            self.batches(ids, *more, self.batch, self.chunk),
            self.loss() if isinstance(self.loss, type) else self.loss,
            steps=steps,
            lr=self.lr,
            schedule=lambda step, _: cosine(step, self.steps, self.warmup),
            device=device,
            watch=lambda step: [step, bits("validation", 33_000)],
            watch_every=250,
            optimiser=self.optimiser,
            **how,
        )
        return model, history, {"vocab_size": len(tokenizer), "test_bits": bits("test"), "tokenizer": tokenizer}

    def result(self, record: dict) -> str:
        """What a record says that the model is worth."""
        unit = "masked piece" if self.masked else "character"
        backwards = " read backwards" if self.backwards else ""
        return f"{record['test_bits']:.3f} bits per {unit} on the test plays{backwards}"

    def batches_in_words(self) -> str:
        """What it reads in a step."""
        tokens = "characters" if self.layer else "pieces of words" if self.masked else "subwords"
        return f"{self.batch} × {self.chunk} {tokens}"


# One layer each, about 100,000 weights; the learning rate is the best of 0.004, 0.008, 0.016 on validation scenes.
# Then two of two layers, which read in opposite directions.
PLAYS = {
    "plays_rnn": Recipe("Elman network, 256 units", RNN, (64, 256), lr=8e-3, steps=10_000),
    "plays_lstm": Recipe("LSTM, 118 units", LSTM, (64, 118), lr=1.6e-2, steps=10_000),
    "plays_gru": Recipe("GRU, 138 units", GRU, (64, 138), lr=8e-3, steps=10_000),
    "plays_forward": Recipe(
        "two-layer LSTM, 96 units a layer, reading forwards", LSTM, (64, 96, 2), lr=8e-3, steps=4_000
    ),
    "plays_backward": Recipe(
        "two-layer LSTM, 96 units a layer, reading backwards",
        LSTM,
        (64, 96, 2),
        lr=8e-3,
        steps=4_000,
        backwards=True,
    ),
    "plays_gpt": Recipe(
        "GPT of four blocks, 160 wide, reading 128 subwords (1,000 merges)",
        None,
        (128, 160, 4, 4, 0.1),
        lr=0.02,
        steps=5_000,
        batch=16,
        chunk=128,
        tokenizer=subwords,
        reader=small_gpt,
        batches=windows,
        loss=next_token_loss,
        bits=bits_per_token,
        optimiser=three_rounds,
        half=True,
    ),
    "plays_bert": Recipe(
        "BERT of three blocks, 128 wide, reading 2,000 pieces of words (WordPiece)",
        None,
        (96, 128, 4, 3, 0.0),
        lr=1e-3,
        steps=12_000,
        warmup=200,
        batch=21,
        chunk=96,
        tokenizer=play_pieces,
        reader=small_bert,
        batches=short_rows_first,
        loss=masked_loss,
        bits=masked_bits,
        masked=True,
        half=True,
    ),
}


def tokenizer_from(data: str) -> BPE | CharTokenizer | WordPiece:
    """The tokenizer that a `to_json` wrote; ValueError or LookupError for anything else."""
    check_depth(data, "tokenizer")
    return TOKENIZERS[json.loads(data)["type"]].from_json(data)
