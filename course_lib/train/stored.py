"""Models that the course trained itself, for longer than a lesson can: `load(name)`, and how to train each again.

`python -m course_lib.train.stored plays_lstm` trains one, writes data/checkpoints/plays_lstm.safetensors and writes the
cards anew. A file holds weights and a JSON header: loading one runs no code from it. Recipes name what they are made of
("course_lib.lstm:LSTM"), so that nothing here needs a model before one is asked for.
"""

import argparse
import json
import platform
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from pkgutil import resolve_name

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from course_lib.data import plays
from course_lib.data.beside import beside, write_beside
from course_lib.train import cosine, fit, pick_device, seed_everything

CHECKPOINTS = Path(__file__).resolve().parents[2] / "data" / "checkpoints"
FORMAT = "unrolled weights 1"
# What every record holds: `cards` and lessons read it.
RECORD = {"command", "seed", "commit", "machine", "vocab_size", "weights", "steps", "seconds", "test_bits", "curve"}


@dataclass(frozen=True)
class Recipe:
    """How one model is made: its layer with its `sizes`, and the run that trains it on the plays.

    `backwards`: it reads the text from its end, and predicts the character before. `about`: what it is, for the card.
    Names are "module:name": `reader` is the model around the layer (or the whole model, where there is no layer),
    `batches`, `loss` and `bits` (per token) train and measure it. `masked`: it fills in masked pieces, so `batches` and
    `bits` are handed the tokenizer too, and bits are per masked piece, not per character. `half`: stored in half
    precision.
    """

    about: str
    layer: str | None
    sizes: tuple[float, ...]
    lr: float
    steps: int
    backwards: bool = False
    batch: int = 128
    chunk: int = 32
    seed: int = 0
    tokenizer: str = "course_lib.tokenizers:CharTokenizer"
    reader: str = "course_lib.language_model:CharRNN"
    batches: str = "course_lib.language_model:streams"
    loss: str = "course_lib.language_model:TruncatedBPTT"
    bits: str = "course_lib.language_model:bits_per_character"
    optimiser: str | None = None
    warmup: int = 0
    masked: bool = False
    half: bool = False

    def model(self, vocab_size: int) -> nn.Module:
        """A new model with weights drawn at random: ids (B, T) -> logits (B, T, vocab_size), and states if any."""
        parts = (resolve_name(self.layer)(*self.sizes),) if self.layer else self.sizes
        return resolve_name(self.reader)(vocab_size, *parts)


# One layer each, about 100,000 weights; the learning rate is the best of 0.004, 0.008, 0.016 on validation scenes.
# Then two of two layers, which read in opposite directions.
RECIPES = {
    "plays_rnn": Recipe("Elman network, 256 units", "course_lib.rnn:RNN", (64, 256), lr=8e-3, steps=10_000),
    "plays_lstm": Recipe("LSTM, 118 units", "course_lib.lstm:LSTM", (64, 118), lr=1.6e-2, steps=10_000),
    "plays_gru": Recipe("GRU, 138 units", "course_lib.lstm:GRU", (64, 138), lr=8e-3, steps=10_000),
    "plays_forward": Recipe(
        "two-layer LSTM, 96 units a layer, reading forwards", "course_lib.lstm:LSTM", (64, 96, 2), lr=8e-3, steps=4_000
    ),
    "plays_backward": Recipe(
        "two-layer LSTM, 96 units a layer, reading backwards",
        "course_lib.lstm:LSTM",
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
        tokenizer="course_lib.next_token:subwords",
        reader="course_lib.next_token:small_gpt",
        batches="course_lib.next_token:windows",
        loss="course_lib.next_token:next_token_loss",
        bits="course_lib.next_token:bits_per_token",
        optimiser="course_lib.next_token:three_rounds",
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
        tokenizer="course_lib.pretraining:play_pieces",
        reader="course_lib.pretraining:small_bert",
        batches="course_lib.pretraining:short_rows_first",
        loss="course_lib.masked_words:masked_loss",
        bits="course_lib.pretraining:masked_bits",
        masked=True,
        half=True,
    ),
}


def load(name: str) -> tuple[nn.Module, dict]:
    """The model called `name`, trained, on the CPU, and its record: steps, seconds, bits, validation curve, machine.

    Raises LookupError for an unknown name, FileNotFoundError or ValueError, in words, for a missing or damaged file.
    """
    path = CHECKPOINTS / f"{_known(name)}.safetensors"
    if not path.exists():
        raise FileNotFoundError(
            f"{path.name} is not in data/checkpoints: get it back from the repository, or train "
            f"it again with `python -m course_lib.train.stored {name}`."
        )
    try:
        with safe_open(path, framework="pt") as file:
            header, weights = file.metadata() or {}, {key: file.get_tensor(key) for key in file.keys()}
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"{path.name} is damaged ({error}): get it back from the repository, or train it again with "
            f"`python -m course_lib.train.stored {name}`."
        ) from None
    if header.get("format") != FORMAT:
        raise ValueError(f"{path.name} holds no weights of this course (mark {FORMAT!r} is missing).")
    try:
        record = json.loads(header.get("record", "{}"))
        if missing := sorted(RECORD - record.keys()):
            raise ValueError(f"its record lacks {', '.join(missing)}")
        model = RECIPES[name].model(record["vocab_size"])
        model.load_state_dict(weights)
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        why = str(error).strip().rpartition("\n")[2].strip()
        raise ValueError(
            f"{path.name} does not fit its recipe ({why}): get it back from the repository, or train it again with "
            f"`python -m course_lib.train.stored {name}`."
        ) from None
    return model.eval(), record


def train(name: str, steps: int | None = None, progress: bool = True) -> tuple[nn.Module, dict]:
    """Train the model called `name` by its recipe (or only the first `steps` of it) -> the model and its record.

    record["curve"] lists [step, bits per character (or masked piece) on validation scenes]. One CPU thread.
    """
    recipe = RECIPES[_known(name)]
    steps = steps or recipe.steps
    torch.set_num_threads(1)
    seed_everything(recipe.seed)
    device, texts = pick_device(), {split: plays.text(split) for split in ("train", "validation", "test")}
    tokenizer = resolve_name(recipe.tokenizer)(texts["train"])
    ids = tokenizer.encode(texts["train"])
    ids = ids.flip(0) if recipe.backwards else ids
    model, loss = recipe.model(len(tokenizer)).to(device), resolve_name(recipe.loss)
    optimiser = resolve_name(recipe.optimiser) if recipe.optimiser else None
    more = (tokenizer,) if recipe.masked else ()

    def bits(split: str, characters: int | None = None) -> float:
        """Per character of the split, or of its first characters: what the tokens that they are cut into cost."""
        text = texts[split][-(characters or 0) :] if recipe.backwards else texts[split][:characters]
        tokens = tokenizer.encode(text).flip(0) if recipe.backwards else tokenizer.encode(text)
        per_token = resolve_name(recipe.bits)(model, tokens, *more)
        return round(per_token if recipe.masked else per_token * len(tokens) / len(text), 4)

    history = fit(
        model,
        resolve_name(recipe.batches)(ids, *more, recipe.batch, recipe.chunk),
        loss() if isinstance(loss, type) else loss,
        steps=steps,
        lr=recipe.lr,
        schedule=lambda step, _: cosine(step, recipe.steps, recipe.warmup),
        device=device,
        watch=lambda step: [step, bits("validation", 33_000)],
        watch_every=250,
        progress=progress,
        optimiser=optimiser,
    )
    record = {
        "command": f"python -m course_lib.train.stored {name}",
        "seed": recipe.seed,
        "commit": _commit(),
        "machine": f"{platform.machine()}, {device.type}, PyTorch {torch.__version__.split('+')[0]}",
        "vocab_size": len(tokenizer),
        "weights": sum(p.numel() for p in model.parameters()),
        "steps": steps,
        "seconds": round(history.seconds),
        "test_bits": bits("test"),
        "curve": [seen for _, seen in history.watched],
        "recipe": asdict(recipe) | {"sizes": list(recipe.sizes)},
    }
    return model.cpu(), record


def save(name: str, model: nn.Module, record: dict) -> Path:
    """Write data/checkpoints/<name>.safetensors; the old file stays whole until the new one is."""
    path, dtype = CHECKPOINTS / f"{name}.safetensors", torch.half if RECIPES[name].half else torch.float32
    weights = {key: value.to(dtype).contiguous() for key, value in model.state_dict().items()}
    with beside(path) as new:
        save_file(weights, new, metadata={"format": FORMAT, "record": json.dumps(record)})
    return path


def cards() -> str:
    """A card for each stored model, in Markdown: what it is, command, seed, commit, time, final bits."""
    parts = [
        "# Models that the course trained\n\nThis file is written by `python -m course_lib.train.stored`. Weights "
        "are safetensors: plain numbers, no code.\nAll have read the train split of the plays "
        "([card of the corpus](../README.md)); bits per character, or per masked\npiece, are those of its "
        "test plays. A model of this size writes like a play and means nothing by it."
    ]
    for name, recipe in RECIPES.items():
        if (CHECKPOINTS / f"{name}.safetensors").exists():
            r = load(name)[1]
            tokens = "characters" if recipe.layer else "pieces of words" if recipe.masked else "subwords"
            unit = "masked piece" if recipe.masked else "character"
            parts.append(
                f"## `{name}`\n\n{recipe.about}; {r['weights']:,} weights; {r['test_bits']:.3f} bits per "
                f"{unit} on the test plays{' read backwards' if recipe.backwards else ''}.\n\n"
                f"{r['steps']:,} steps of {recipe.batch} × {recipe.chunk} {tokens}, learning rate "
                f"{recipe.lr:g}, seed {r['seed']}, {r['seconds'] / 60:.1f} minutes ({r['machine']}, one "
                f"thread), commit {r['commit']}.\n\nAgain: `python -m course_lib.train.stored {name}`"
            )
    return "\n\n".join(parts) + "\n"


def _known(name: str) -> str:
    if name not in RECIPES:
        raise LookupError(f"There is no model called {name!r}. There are: {', '.join(RECIPES)}.")
    return name


def _commit() -> str:
    try:
        return subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
            cwd=CHECKPOINTS.parents[1],
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def main() -> None:
    """Train the named models, store them, write the cards."""
    parser = argparse.ArgumentParser(description="Train and store models that lessons load.")
    parser.add_argument("names", nargs="+", choices=list(RECIPES), metavar="name", help=", ".join(RECIPES))
    for name in parser.parse_args().names:
        model, record = train(name)
        print(
            f"{save(name, model, record).name}: {record['test_bits']:.3f} bits on the test plays, "
            f"{record['seconds'] / 60:.1f} minutes"
        )
    write_beside(CHECKPOINTS / "README.md", cards())


if __name__ == "__main__":
    main()
