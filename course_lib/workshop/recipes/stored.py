"""Models that the course trained itself, for longer than a lesson can: `load(plays.GPT)`, and how to train each again.

`python -m course_lib.workshop.recipes.stored plays_lstm` trains one, writes its file in data/checkpoints and the
cards anew. A file holds weights, a JSON header and, of a model that reads text, its tokenizer: loading one runs no
code from it. SHA256SUMS beside them lists the checksum that `load` holds each file to.
Each recipe stands in the file of its subject, such as `plays` or `glyphs`; only `recipes` imports all of those.
"""

import argparse
import json
import platform
import subprocess
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from course_lib.data import checksums
from course_lib.data.beside import beside, write_beside
from course_lib.text.bpe import BPE
from course_lib.text.tokenizers import CharTokenizer, check_depth
from course_lib.text.wordpiece import WordPiece
from course_lib.train import seed_everything
from course_lib.workshop.recipes.recipe import Recipe

CHECKPOINTS = Path(__file__).resolve().parents[3] / "data" / "checkpoints"
FORMAT = "unrolled weights 1"
# What every record holds, besides what its recipe says: `cards` and lessons read it.
RECORD = {"seed", "commit", "machine", "weights", "steps", "seconds", "curve"}
TOKENIZERS = {"BPE": BPE, "CharTokenizer": CharTokenizer, "WordPiece": WordPiece}


def load(recipe: Recipe) -> tuple[nn.Module, dict]:
    """The model of a recipe, trained, on the CPU, and its record: steps, seconds, validation curve, machine.

    record["tokenizer"] is the tokenizer that a model of the plays reads with.
    Raises FileNotFoundError or ValueError, in words, for a missing or damaged file.
    """
    path, again = CHECKPOINTS / f"{recipe.name}.safetensors", _again(recipe)
    if not path.exists():
        raise FileNotFoundError(
            f"{path.name} is not in data/checkpoints: get it back from the repository, or train it again with {again}."
        )
    if checksums.damaged(path.parent, [path.name]):
        raise ValueError(
            f"{path.name} is damaged: its SHA-256 is not the one in {checksums.LIST}. Get both files back from the "
            f"repository, or train it again with {again}."
        )
    try:
        with safe_open(path, framework="pt") as file:
            header, weights = file.metadata() or {}, {key: file.get_tensor(key) for key in file.keys()}
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"{path.name} is damaged ({error}): get it back from the repository, or train it again with {again}."
        ) from None
    if header.get("format") != FORMAT:
        raise ValueError(f"{path.name} holds no weights of this course (mark {FORMAT!r} is missing).")
    try:
        record = json.loads(header.get("record", "{}"))
        if "tokenizer" in header:
            record["tokenizer"] = tokenizer_from(header["tokenizer"])
        if missing := sorted((RECORD | {*recipe.holds}) - record.keys()):
            raise ValueError(f"its record lacks {', '.join(missing)}")
        model = recipe.build(*_vocabulary(record))
        model.load_state_dict(weights)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        why = str(error).strip().rpartition("\n")[2].strip()
        raise ValueError(
            f"{path.name} does not fit its recipe ({why}): get it back from the repository, or train it again with "
            f"{again}."
        ) from None
    return model.eval(), record


def train(
    recipe: Recipe, steps: int | None = None, progress: bool = True, checkpoint: Path | None = None
) -> tuple[nn.Module, dict]:
    """Train the model of a recipe (or only for its first `steps`) -> the model and its record.

    record["curve"] lists [step, what the recipe measures on its validation part]. checkpoint: as in `fit`, so that a
    run that was killed can go on. One CPU thread.
    """
    steps = steps or recipe.steps
    torch.set_num_threads(1)
    seed_everything(recipe.seed)
    how = {"watch_every": recipe.look, "progress": progress, "checkpoint": checkpoint}
    model, history, measured = recipe.train(recipe, steps, **how)
    device = next(model.parameters()).device
    record = {
        "seed": recipe.seed,
        "commit": _commit(),
        "machine": f"{platform.machine()}, {device.type}, PyTorch {torch.__version__.split('+')[0]}",
        "weights": sum(p.numel() for p in model.parameters()),
        "steps": steps,
        "seconds": round(history.seconds),
        "curve": [seen for _, seen in history.watched],
        "recipe": {key: value for key, value in vars(recipe).items() if isinstance(value, str | int | float)},
    }
    return model.cpu(), record | measured


def save(recipe: Recipe, model: nn.Module, record: dict) -> Path:
    """Write the model's file and its checksum in data/checkpoints; the old file stays whole until the new one is."""
    path, dtype = CHECKPOINTS / f"{recipe.name}.safetensors", torch.half if recipe.half else torch.float32
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


def tokenizer_from(data: str) -> BPE | CharTokenizer | WordPiece:
    """The tokenizer that a `to_json` wrote; ValueError or LookupError for anything else."""
    check_depth(data, "tokenizer")
    return TOKENIZERS[json.loads(data)["type"]].from_json(data)


def recipes() -> dict[str, Recipe]:
    """Every recipe by its name, in the order of the cards. Imports all files that have one, as `load` does not."""
    from course_lib.workshop.recipes import (
        glyph_captions,
        glyph_writers,
        glyphs,
        images,
        masked_images,
        multilingual,
        plays,
        replaced_words,
        smaller_bert,
        sounds,
        text_to_text,
        words_to_images,
    )

    files = (plays, images, sounds, glyphs, glyph_captions, glyph_writers, text_to_text, multilingual, masked_images,
             words_to_images, smaller_bert, replaced_words)  # fmt: skip
    return {one.name: one for file in files for one in vars(file).values() if isinstance(one, Recipe)}


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
    kept = [recipe for recipe in recipes().values() if (CHECKPOINTS / f"{recipe.name}.safetensors").exists()]
    return "\n\n".join(parts + [card(recipe, load(recipe)[1]) for recipe in kept]) + "\n"


def card(recipe: Recipe, r: dict) -> str:
    """The card of one model with the record r."""
    return (
        f"## `{recipe.name}`\n\n<!-- made:card -->\n{recipe.about}; {r['weights']:,} weights; "
        f"{recipe.worth.format(**r)}.\n\n{r['steps']:,} steps of {recipe.reads.format(recipe.batch, recipe.length)}, "
        f"learning rate `{recipe.lr:g}`, seed {r['seed']}, {r['seconds'] / 60:.1f} minutes ({r['machine']}, one "
        f"thread), commit {r['commit']}.\n<!-- /made -->\n\nAgain: {_again(recipe)}"
    )


def _vocabulary(record: dict) -> list[int]:
    """What a model that reads text is built with: the size of its vocabulary; of other models, nothing."""
    if "tokenizer" in record and len(record["tokenizer"]) != record["vocab_size"]:
        raise ValueError(f"its tokenizer has {len(record['tokenizer'])} tokens, and it {record['vocab_size']}")
    return [record["vocab_size"]] if "tokenizer" in record else []


def _again(recipe: Recipe) -> str:
    return f"`python -m course_lib.workshop.recipes.stored {recipe.name}`"


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
    known = recipes()
    parser = argparse.ArgumentParser(description="Train and store models that lessons load.")
    parser.add_argument("names", nargs="+", choices=list(known), metavar="name", help=", ".join(known))
    parser.add_argument(
        "--checkpoints", type=Path, metavar="FOLDER", help="where to keep each run, so that a killed one can go on"
    )
    asked = parser.parse_args()
    for recipe in map(known.get, asked.names):
        model, record = train(recipe, checkpoint=asked.checkpoints and asked.checkpoints / f"{recipe.name}.run")
        path, minutes = save(recipe, model, record), record["seconds"] / 60
        print(f"{path.name}: {recipe.worth.format(**record)}, {minutes:.1f} minutes")
    write_beside(CHECKPOINTS / "README.md", cards())


if __name__ == "__main__":
    main()
