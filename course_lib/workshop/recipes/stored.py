"""Models that the course trained itself, for longer than a lesson can: `load(plays.GPT)`, and how to train each again.

A file holds weights, a JSON header and, of a model that reads text, its tokenizer: loading one runs no code from it.
SHA256SUMS beside them lists the checksum that `load` holds each file to. Each recipe stands in the file of its
subject, such as `plays` or `glyphs`; only the command imports all of those (`__main__`).
"""

import json
import platform
import subprocess
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from course_lib.data import checksums
from course_lib.data.beside import beside
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
    path, how = CHECKPOINTS / f"{recipe.name}.safetensors", again(recipe)
    if not path.exists():
        raise FileNotFoundError(
            f"{path.name} is not in data/checkpoints: get it back from the repository, or train it again with {how}."
        )
    if checksums.damaged(path.parent, [path.name]):
        raise ValueError(
            f"{path.name} is damaged: its SHA-256 is not the one in {checksums.LIST}. Get both files back from the "
            f"repository, or train it again with {how}."
        )
    try:
        with safe_open(path, framework="pt") as file:
            header, weights = file.metadata() or {}, {key: file.get_tensor(key) for key in file.keys()}
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"{path.name} is damaged ({error}): get it back from the repository, or train it again with {how}."
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
            f"{how}."
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


def _vocabulary(record: dict) -> list[int]:
    """What a model that reads text is built with: the size of its vocabulary; of other models, nothing."""
    if "tokenizer" in record and len(record["tokenizer"]) != record["vocab_size"]:
        raise ValueError(f"its tokenizer has {len(record['tokenizer'])} tokens, and it {record['vocab_size']}")
    return [record["vocab_size"]] if "tokenizer" in record else []


def again(recipe: Recipe) -> str:
    """The command that trains and stores the model anew."""
    return f"`python -m course_lib.workshop.recipes {recipe.name}`"


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
