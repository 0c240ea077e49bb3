"""Models that the course trained itself, for longer than a lesson can: `load(name)`, and how to train each again.

`python -m course_lib.workshop.recipes.stored plays_lstm` trains one, writes its file in data/checkpoints and the
cards anew. A file holds weights, a JSON header and, of a model that reads text, its tokenizer: loading one runs no
code from it. SHA256SUMS beside them lists the checksum that `load` holds each file to.
Recipes stand in `plays`, `images`, `sounds`, `glyphs`, `glyph_captions`, `glyph_writers`, `text_to_text`,
`multilingual`, `masked_images`, `words_to_images`, `smaller_bert` and `replaced_words`.
"""

import argparse
import json
import platform
import subprocess
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from course_lib.data import checksums
from course_lib.data.beside import beside, write_beside
from course_lib.train import seed_everything
from course_lib.workshop.recipes.glyph_captions import SPOTTERS
from course_lib.workshop.recipes.glyph_writers import WRITERS
from course_lib.workshop.recipes.glyphs import GLYPHS
from course_lib.workshop.recipes.images import IMAGES
from course_lib.workshop.recipes.masked_images import PAINTERS
from course_lib.workshop.recipes.multilingual import LANGUAGES
from course_lib.workshop.recipes.plays import PLAYS, tokenizer_from
from course_lib.workshop.recipes.replaced_words import SPOTTERS_OF_WORDS
from course_lib.workshop.recipes.smaller_bert import TEACHERS
from course_lib.workshop.recipes.sounds import SPEAKERS
from course_lib.workshop.recipes.text_to_text import READERS
from course_lib.workshop.recipes.words_to_images import LETTERS

CHECKPOINTS = Path(__file__).resolve().parents[3] / "data" / "checkpoints"
FORMAT = "unrolled weights 1"
# What every record holds, besides its recipe's MEASURED: `cards` and lessons read it.
RECORD = {"seed", "commit", "machine", "weights", "steps", "seconds", "curve"}
RECIPES = PLAYS | IMAGES
RECIPES.update(SPEAKERS)  # apart, so that records that read other stored models stay those of today's code
RECIPES.update(GLYPHS)
RECIPES.update(SPOTTERS)
RECIPES.update(WRITERS)
RECIPES.update(READERS)
RECIPES.update(LANGUAGES)
RECIPES.update(PAINTERS)
RECIPES.update(LETTERS)
RECIPES.update(TEACHERS)
RECIPES.update(SPOTTERS_OF_WORDS)


def load(name: str) -> tuple[nn.Module, dict]:
    """The model called `name`, trained, on the CPU, and its record: steps, seconds, bits, validation curve, machine.

    record["tokenizer"] is the tokenizer that a model of the plays reads with.
    Raises LookupError for an unknown name, FileNotFoundError or ValueError, in words, for a missing or damaged file.
    """
    path = CHECKPOINTS / f"{_known(name)}.safetensors"
    if not path.exists():
        raise FileNotFoundError(
            f"{path.name} is not in data/checkpoints: get it back from the repository, or train "
            f"it again with `{_again(name)}`."
        )
    _check_whole(path, name)
    try:
        with safe_open(path, framework="pt") as file:
            header, weights = file.metadata() or {}, {key: file.get_tensor(key) for key in file.keys()}
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"{path.name} is damaged ({error}): get it back from the repository, or train it again with "
            f"`{_again(name)}`."
        ) from None
    if header.get("format") != FORMAT:
        raise ValueError(f"{path.name} holds no weights of this course (mark {FORMAT!r} is missing).")
    try:
        record = json.loads(header.get("record", "{}"))
        if "tokenizer" in header:
            record["tokenizer"] = tokenizer_from(header["tokenizer"])
        if missing := sorted((RECORD | RECIPES[name].MEASURED) - record.keys()):
            raise ValueError(f"its record lacks {', '.join(missing)}")
        model = RECIPES[name].model_of(record)
        model.load_state_dict(weights)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        why = str(error).strip().rpartition("\n")[2].strip()
        raise ValueError(
            f"{path.name} does not fit its recipe ({why}): get it back from the repository, or train it again with "
            f"`{_again(name)}`."
        ) from None
    return model.eval(), record


def train(
    name: str, steps: int | None = None, progress: bool = True, checkpoint: Path | None = None
) -> tuple[nn.Module, dict]:
    """Train the model called `name` by its recipe (or only the first `steps` of it) -> the model and its record.

    record["curve"] lists [step, what the recipe measures on its validation part]. checkpoint: as in `fit`, so that a
    run that was killed can go on. One CPU thread.
    """
    recipe = RECIPES[_known(name)]
    steps = steps or recipe.steps
    torch.set_num_threads(1)
    seed_everything(recipe.seed)
    model, history, measured = recipe.train(steps, progress=progress, checkpoint=checkpoint)
    device = next(model.parameters()).device
    record = {
        "seed": recipe.seed,
        "commit": _commit(),
        "machine": f"{platform.machine()}, {device.type}, PyTorch {torch.__version__.split('+')[0]}",
        "weights": sum(p.numel() for p in model.parameters()),
        "steps": steps,
        "seconds": round(history.seconds),
        "curve": [seen for _, seen in history.watched],
        "recipe": _told(recipe),
    }
    return model.cpu(), record | measured


def save(name: str, model: nn.Module, record: dict) -> Path:
    """Write data/checkpoints/<name>.safetensors and its checksum; the old file stays whole until the new one is."""
    path, dtype = CHECKPOINTS / f"{name}.safetensors", torch.half if RECIPES[name].half else torch.float32
    weights = {key: value.to(dtype).contiguous() for key, value in model.state_dict().items()}
    plain = {key: value for key, value in record.items() if key != "tokenizer"}
    header = {"format": FORMAT, "record": json.dumps(plain)}
    if "tokenizer" in record:
        header["tokenizer"] = record["tokenizer"].to_json()
    with beside(path) as new:
        save_file(weights, new, metadata=header)
    list_checksum(path)
    return path


def list_checksum(path: Path) -> None:
    """Put a stored file's SHA-256 into the list beside it, which `load` holds it to; ValueError for a damaged list."""
    checksums.write_list(path.parent, checksums.listed(path.parent) | {path.name: checksums.checksum(path)})


def cards() -> str:
    """A card for each stored model, in Markdown: what it is, command, seed, commit, time, what it is worth."""
    parts = [
        "# Models that the course trained\n\nThis file is written by `python -m course_lib.workshop.recipes.stored`. "
        "Weights are safetensors: plain numbers, no code.\n`plays_…` have read the train split of the plays; bits per "
        "character, or per masked piece, are those of its test plays.\nA model of this size writes like a play and "
        "means nothing by it. Each keeps its tokenizer in its own file.\n`fashion_…` have seen the train split of "
        "Fashion-MNIST; their accuracy is that on its test images, by which nothing was\nchosen. "
        "`sounds_…` have read the train split of the sounds; what they are worth is measured on its test words.\n"
        "`glyphs_…` have seen the Latin letters of ten typefaces; their accuracy is that on four faces of another "
        "family; `glyphs_painter` has seen all signs of those ten, and no name.\n"
        "`names_…` have seen letters and their names; what they are worth is that on names and faces never "
        "seen.\n"
        "`sentences_reader` has read sentences of the grammar, and no pair of a sentence and its translation.\n"
        "`letters_…` have seen letters of training names in sixteen typefaces; what they are worth is that on new "
        "names.\n"
        "`two_languages` has read sentences of the plays, half of them in words of another language's numbers.\n"
        "([Cards of the corpora](../README.md).)"
    ]
    for name, recipe in RECIPES.items():
        if (CHECKPOINTS / f"{name}.safetensors").exists():
            r = load(name)[1]
            parts.append(
                f"## `{name}`\n\n<!-- made:card -->\n{recipe.about}; {r['weights']:,} weights; {recipe.result(r)}.\n\n"
                f"{r['steps']:,} steps of {recipe.batches_in_words()}, learning rate "
                f"`{recipe.lr:g}`, seed {r['seed']}, {r['seconds'] / 60:.1f} minutes ({r['machine']}, one "
                f"thread), commit {r['commit']}.\n<!-- /made -->\n\nAgain: `{_again(name)}`"
            )
    return "\n\n".join(parts) + "\n"


def _told(recipe) -> dict:
    """A recipe as JSON keeps it: of what it is made of, the names."""
    return {name: getattr(part, "__name__", part) for name, part in asdict(recipe).items()} | {
        "sizes": list(recipe.sizes)
    }


def _check_whole(path: Path, name: str) -> None:
    if checksums.damaged(path.parent, [path.name]):
        raise ValueError(
            f"{path.name} is damaged: its SHA-256 is not the one in {checksums.LIST}. Get both files back from the "
            f"repository, or train it again with `{_again(name)}`."
        )


def _again(name: str) -> str:
    return f"python -m course_lib.workshop.recipes.stored {name}"


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
    parser.add_argument(
        "--checkpoints", type=Path, metavar="FOLDER", help="where to keep each run, so that a killed one can go on"
    )
    asked = parser.parse_args()
    for name in asked.names:
        model, record = train(name, checkpoint=asked.checkpoints and asked.checkpoints / f"{name}.run")
        path, minutes = save(name, model, record), record["seconds"] / 60
        print(f"{path.name}: {RECIPES[name].result(record)}, {minutes:.1f} minutes")
    write_beside(CHECKPOINTS / "README.md", cards())


if __name__ == "__main__":
    main()
