"""The stored models that read the plays: `GPT`, `BERT`, and one `RNN`, `LSTM` or `GRU` and two of two layers.

What builds the GPT and the BERT is imported where they are built: lesson 02 loads neither.
"""

from collections.abc import Callable
from functools import partial

from torch import nn

from course_lib.data import plays
from course_lib.recurrent import lstm, rnn
from course_lib.recurrent.language_model import CharRNN, TruncatedBPTT, bits_per_character, streams
from course_lib.text.tokenizers import CharTokenizer
from course_lib.train import History, cosine, fit, pick_device
from course_lib.workshop.recipes.recipe import Recipe


def build_reader(vocab_size: int, layer: Callable[..., nn.Module], *sizes: int) -> CharRNN:
    """A reader of characters around one layer: ids (B, T) -> logits (B, T, vocab_size), and states."""
    return CharRNN(vocab_size, layer(*sizes))


def build_gpt(vocab_size: int) -> nn.Module:
    """The GPT: ids (B, T) -> logits (B, T, vocab_size)."""
    from course_lib.language.next_token import small_gpt

    return small_gpt(vocab_size, 128, 160, 4, 4, 0.1)


def build_bert(vocab_size: int) -> nn.Module:
    """The BERT, with the heads of pre-training."""
    from course_lib.bert.pretraining import small_bert

    return small_bert(vocab_size, 96, 128, 4, 3, 0.0)


def train_reader(
    recipe: Recipe,
    steps: int,
    *,
    learn_tokenizer: Callable = CharTokenizer,
    batches: Callable = streams,
    loss: Callable | None = None,
    bits: Callable = bits_per_character,
    warmup: int = 0,
    backwards: bool = False,
    masked: bool = False,
    **how,
) -> tuple[nn.Module, History, dict]:
    """Train a reader of the plays; looks are [step, bits per character (or masked piece) on validation scenes].

    backwards: it reads the text from its end, and predicts the character before. `batches`, `loss` and `bits` (per
    token) train and measure it. masked: it fills in masked pieces, so `batches` and `bits` are handed the tokenizer
    too, and bits are per masked piece, not per character.
    """
    device, texts = pick_device(), {split: plays.text(split) for split in ("train", "validation", "test")}
    tokenizer = learn_tokenizer(texts["train"])
    ids = tokenizer.encode(texts["train"])
    model = recipe.build(len(tokenizer)).to(device)
    more = (tokenizer,) if masked else ()

    def bits_of(split: str, characters: int | None = None) -> float:
        """Per character of the split, or of its first characters: what the tokens that they are cut into cost."""
        text = texts[split][-(characters or 0) :] if backwards else texts[split][:characters]
        tokens = tokenizer.encode(text).flip(0) if backwards else tokenizer.encode(text)
        per_token = bits(model, tokens, *more)
        return round(per_token if masked else per_token * len(tokens) / len(text), 4)

    history = fit(
        model,
        batches(ids.flip(0) if backwards else ids, *more, recipe.batch, recipe.length),
        loss or TruncatedBPTT(),
        steps=steps,
        lr=recipe.lr,
        schedule=lambda step, _: cosine(step, recipe.steps, warmup),
        device=device,
        watch=lambda step: [step, bits_of("validation", 33_000)],
        **how,
    )
    return model, history, {"vocab_size": len(tokenizer), "test_bits": bits_of("test"), "tokenizer": tokenizer}


def train_gpt(recipe: Recipe, steps: int, **how) -> tuple[nn.Module, History, dict]:
    """Train a GPT by `train_reader`, on windows of subwords."""
    from course_lib.language.next_token import bits_per_token, next_token_loss, subwords, three_rounds, windows

    how = {"learn_tokenizer": subwords, "batches": windows, "loss": next_token_loss, "bits": bits_per_token,
           "optimiser": three_rounds} | how  # fmt: skip
    return train_reader(recipe, steps, **how)


def train_bert(recipe: Recipe, steps: int, **how) -> tuple[nn.Module, History, dict]:
    """Train a BERT by `train_reader`, on pairs of spans with masked pieces."""
    from course_lib.bert.masked_words import masked_loss
    from course_lib.bert.pretraining import masked_bits, play_pieces, short_rows_first

    how = {"learn_tokenizer": play_pieces, "batches": short_rows_first, "loss": masked_loss, "bits": masked_bits,
           "warmup": 200, "masked": True} | how  # fmt: skip
    return train_reader(recipe, steps, **how)


READER = {
    "train": train_reader,
    "worth": "{test_bits:.3f} bits per character on the test plays",
    "holds": ("vocab_size", "test_bits", "tokenizer"),
    "reads": "{} × {} characters",
    "batch": 128,
    "length": 32,
    "look": 250,
    "half": False,
}
# One layer each, about 100,000 weights; the learning rate is the best of 0.004, 0.008, 0.016 on validation scenes.
RNN = Recipe(
    "plays_rnn",
    "Elman network, 256 units",
    lambda vocab_size: build_reader(vocab_size, rnn.RNN, 64, 256),
    lr=8e-3,
    steps=10_000,
    **READER,
)
LSTM = Recipe(
    "plays_lstm",
    "LSTM, 118 units",
    lambda vocab_size: build_reader(vocab_size, lstm.LSTM, 64, 118),
    lr=1.6e-2,
    steps=10_000,
    **READER,
)
GRU = Recipe(
    "plays_gru",
    "GRU, 138 units",
    lambda vocab_size: build_reader(vocab_size, lstm.GRU, 64, 138),
    lr=8e-3,
    steps=10_000,
    **READER,
)
# Two layers each, which read in opposite directions.
FORWARD = Recipe(
    "plays_forward",
    "two-layer LSTM, 96 units a layer, reading forwards",
    lambda vocab_size: build_reader(vocab_size, lstm.LSTM, 64, 96, 2),
    lr=8e-3,
    steps=4_000,
    **READER,
)
BACKWARD = Recipe(
    "plays_backward",
    "two-layer LSTM, 96 units a layer, reading backwards",
    FORWARD.build,
    lr=8e-3,
    steps=4_000,
    **READER
    | {
        "train": partial(train_reader, backwards=True),
        "worth": "{test_bits:.3f} bits per character on the test plays read backwards",
    },
)
GPT = Recipe(
    "plays_gpt",
    "GPT of four blocks, 160 wide, reading 128 subwords (1,000 merges)",
    build_gpt,
    train_gpt,
    "{test_bits:.3f} bits per character on the test plays",
    ("vocab_size", "test_bits", "tokenizer"),
    "{} × {} subwords",
    lr=0.02,
    steps=5_000,
    batch=16,
    length=128,
    look=250,
)
BERT = Recipe(
    "plays_bert",
    "BERT of three blocks, 128 wide, reading 2,000 pieces of words (WordPiece)",
    build_bert,
    train_bert,
    "{test_bits:.3f} bits per masked piece on the test plays",
    ("vocab_size", "test_bits", "tokenizer"),
    "{} × {} pieces of words",
    lr=1e-3,
    steps=12_000,
    batch=21,
    length=96,
    look=250,
)
