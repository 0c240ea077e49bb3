"""What one training is asked to be: model, data, numbers. Checked in words, printed, and kept beside the run."""

import json
import math
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: two runs in one folder are nobody's there
    fcntl = None

from course_lib.data.beside import write_beside

CHOICES = {
    "optimiser": ("adamw", "muon"),
    "tokenizer": ("auto", "own", "published"),
    "parallel": ("ddp", "fsdp"),
    "precision": ("float32", "bf16"),
}
FILE, FOLDER, LOG, LOCK = "config.json", "data", "log.jsonl", ".lock"
STEP = re.compile(r"step-(\d{8,})")  # a snapshot's folder; one that is called otherwise is somebody else's
MOST = {"batch": 1 << 20, "image": 1 << 14}


@dataclass(frozen=True)
class Config:
    """One training. A step reads `batch` rows, in pieces of `micro` rows; each process computes its share of them.

    Which piece holds what follows from seed, step and piece alone. So the number of processes changes no batch, and
    nothing but the number of steps has to be kept for a run to go on.
    steps: 0 makes the data alone. tokens: of a row (gpt, bert). lr: of AdamW; matrix_lr: of Muon's matrices. data:
    "plays", a text file, "digits", "fashion", "hub:name" or "hub:name:config". tokenizer: see `corpus`. fetch: tokens,
    or images, to read of it. HOW it is computed may change when a run goes on; everything else may not.
    """

    model: str
    size: str
    data: str
    out: str
    steps: int
    batch: int
    micro: int
    tokens: int
    lr: float
    warmup: int
    weight_decay: float
    clip: float = 1.0
    optimiser: str = "adamw"
    matrix_lr: float = 0.02
    tokenizer: str = "auto"
    fetch: int = 0
    image: int = 0
    patch: int = 0
    seed: int = 0
    parallel: str = "ddp"
    precision: str = "float32"
    compile: bool = False
    recompute: bool = False
    save_every: int = 500
    keep: int = 2
    log_every: int = 10
    evaluate_every: int = 250
    tensorboard: bool = False
    peak: float = 0.0

    def __post_init__(self):
        _check(self)

    @property
    def pieces(self) -> int:
        """How many pieces a step is made of."""
        return self.batch // self.micro


HOW = {"out", "parallel", "precision", "compile", "recompute", "save_every", "keep", "log_every", "evaluate_every",
       "tensorboard", "peak"}  # fmt: skip
OF_DATA = {"model", "data", "tokenizer", "fetch", "image"}  # what the files of the data follow from
# Brown et al. (2020, table 2.1) for GPT-2's sizes, Touvron et al. (2023, table 2) for 7B, Devlin et al. (2019, appendix
# A.2) for BERT, Touvron et al. (2021, table 9) for ViT: rate, rows and decay. Of the tiny ones no paper speaks.
GPT = {"tokens": 1024, "batch": 512, "micro": 16, "warmup": 700, "weight_decay": 0.1, "steps": 19_073}
BERT = {"tokens": 512, "batch": 256, "micro": 16, "warmup": 10_000, "weight_decay": 0.01, "steps": 1_000_000}
VIT = {"tokens": 0, "image": 224, "batch": 1024, "micro": 64, "warmup": 6_250, "weight_decay": 0.05, "steps": 375_000}
SIZES: dict[str, dict[str, dict]] = {
    "gpt": {
        "tiny": GPT | {"tokens": 64, "batch": 16, "micro": 4, "steps": 400, "warmup": 40, "lr": 2e-3},
        "small": GPT | {"tokens": 128, "batch": 16, "micro": 8, "steps": 2_000, "warmup": 100, "lr": 1e-3},
        "124m": GPT | {"lr": 6e-4},
        "355m": GPT | {"lr": 3e-4, "micro": 8},
        "774m": GPT | {"lr": 2.5e-4, "micro": 4},
        "1558m": GPT | {"lr": 2e-4, "micro": 4, "batch": 1024},
        "7b": GPT | {"lr": 3e-4, "micro": 2, "batch": 2048, "tokens": 2048, "warmup": 2_000, "steps": 238_419},
    },
    "bert": {
        "tiny": BERT | {"tokens": 64, "batch": 16, "micro": 4, "steps": 400, "warmup": 40, "lr": 1e-3},
        "110m": BERT | {"lr": 1e-4},
        "340m": BERT | {"lr": 1e-4, "micro": 8},
    },
    "vit": {
        "tiny": VIT | {"patch": 16, "batch": 64, "micro": 16, "steps": 400, "warmup": 40, "lr": 2e-3},
        "86m": VIT | {"patch": 16, "lr": 1e-3},
        "304m": VIT | {"patch": 16, "lr": 1e-3, "micro": 32},
        "632m": VIT | {"patch": 14, "lr": 1e-3, "micro": 16},
    },
}
DATA = {"gpt": "plays", "bert": "plays", "vit": "digits"}
IMAGES = {"digits": (8, 2), "fashion": (28, 4)}  # side of an image, and of a patch, where nothing else is asked for


def configured(model: str, size: str = "tiny", **asked) -> Config:
    """The `Config` of a model's size, with what is asked for in place of its own; ValueError for what is none.

    What is asked for as None is as the size has it. A batch that is asked for alone is read in as large pieces as fit
    it; pieces that are asked for must fit it.
    """
    _check_known(model, size)
    asked = {name: value for name, value in asked.items() if value is not None}
    own = {"data": DATA[model], "out": f"runs/{model}-{size}"} | SIZES[model][size]
    if model == "vit":
        own["image"], own["patch"] = IMAGES.get(asked.get("data", own["data"]), (own["image"], own["patch"]))
    if "batch" in asked and "micro" not in asked:
        own["micro"] = math.gcd(asked["batch"], own["micro"])
    if "steps" in asked and "warmup" not in asked:
        own["warmup"] = min(own["warmup"], asked["steps"] // 10)
    return Config(model=model, size=size, **own | asked)


def keep(config: Config) -> Config:
    """Write the configuration into the run's folder; where a run has taken a step there, check that it is this one.

    Of one that has taken none, only its data are of use, and they go where others are asked for.
    Raises ValueError for a run of other settings, or of settings that are gone, OSError where the folder cannot be
    written.
    """
    out = Path(config.out)
    begun = (out / LOG).exists() or bool(snapshots_in(out))
    if begun and not (out / FILE).exists():
        raise ValueError(
            f"{out} holds a run, but no {FILE} that would say which: put the file back, or name another folder with "
            "--out."
        )
    if (out / FILE).exists():
        old = kept(out)
        if begun:
            _check_same(old, config)
        if any(getattr(old, name) != getattr(config, name) for name in OF_DATA):
            shutil.rmtree(out / FOLDER, ignore_errors=True)
    write_beside(out / FILE, json.dumps(asdict(config), indent=1) + "\n")
    return config


@contextmanager
def alone(config: Config) -> Iterator[None]:
    """Inside, no other training writes to the run's folder. Raises ValueError where one does.

    On a file system without locks nobody is kept out.
    """
    out = Path(config.out)
    out.mkdir(parents=True, exist_ok=True)
    with open(out / LOCK, "a") as lock:
        _check_free(lock, out)
        yield


def kept(out: str | Path) -> Config:
    """The configuration of the run in folder `out`; ValueError where there is none, or it cannot be read."""
    path = Path(out) / FILE
    try:
        return Config(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no configuration of a run ({error}): name another folder with --out.") from None


def snapshots_in(out: str | Path) -> dict[int, Path]:
    """The folders of a run's snapshots, whole or not, by the step after which each was taken, in order."""
    found = {path: STEP.fullmatch(path.name) for path in Path(out).glob("step-*")}
    return dict(sorted((int(name[1]), path) for path, name in found.items() if name and path.is_dir()))


def in_words(config: Config) -> str:
    """All settings, a line each."""
    return "\n".join(f"  {field.name:14} {getattr(config, field.name)}" for field in fields(config))


def _check_known(model: str, size: str) -> None:
    if model not in SIZES:
        raise ValueError(f"There is no model {model!r} to train: {', '.join(SIZES)}.")
    if size not in SIZES[model]:
        raise ValueError(f"There is no {model} of size {size!r}: {', '.join(SIZES[model])}.")


def _check(config: Config) -> None:
    _check_known(config.model, config.size)
    for name, allowed in CHOICES.items():
        if getattr(config, name) not in allowed:
            raise ValueError(f"--{name} must be one of {', '.join(allowed)}; got {getattr(config, name)!r}.")
    least = {"steps": 0, "batch": 1, "micro": 1, "warmup": 0, "fetch": 0, "seed": 0, "save_every": 1, "keep": 1,
             "log_every": 1, "evaluate_every": 1, "tokens": 0 if config.model == "vit" else 2}  # fmt: skip
    if config.model == "vit":
        least |= {"image": 1, "patch": 1}
    for name, smallest in least.items():
        if not isinstance(value := getattr(config, name), int) or value < smallest:
            raise ValueError(f"--{name.replace('_', '-')} must be a whole number, {smallest} or more; got {value!r}.")
    for name, largest in MOST.items():
        if (value := getattr(config, name)) > largest:
            raise ValueError(f"--{name} must be {largest:,} or less; got {value:,}.")
    if config.model == "vit" and config.image % config.patch:
        fits = " or ".join(str(n) for n in range(1, config.image + 1) if config.image % n == 0)
        raise ValueError(
            f"Images of {config.image} by {config.image} are not made of patches of {config.patch}: ask for --patch "
            f"{fits}."
        )
    if config.seed >= 2**32:
        raise ValueError(f"--seed must be a whole number below {2**32}; got {config.seed}.")
    for name in ("lr", "matrix_lr", "weight_decay", "clip", "peak"):
        if not 0 <= (value := getattr(config, name)) < math.inf:
            raise ValueError(f"--{name.replace('_', '-')} must be a number of 0 or more; got {value!r}.")
    if config.batch % config.micro:
        raise ValueError(
            f"A batch of {config.batch} rows is not made of pieces of {config.micro}: --micro must divide it."
        )
    if config.model == "bert" and config.tokens < 20:  # it reads rows of a quarter too
        raise ValueError(f"A row of BERT's needs 20 pieces or more, so --tokens 20 at least; got {config.tokens}.")


def _check_free(lock, out: Path) -> None:
    try:
        if fcntl:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if not isinstance(error, BlockingIOError):
            return
        raise ValueError(f"Another training writes to {out}: wait for it, or name another folder with --out.") from None


def _check_same(old: Config, new: Config) -> None:
    wrong = [
        f"{field.name} was {getattr(old, field.name)!r} and is {getattr(new, field.name)!r}"
        for field in fields(Config)
        if field.name not in HOW and getattr(old, field.name) != getattr(new, field.name)
    ]
    if wrong:
        raise ValueError(
            f"{new.out} holds a run with other settings: {'; '.join(wrong)}. Ask for it as it was begun, or "
            "name another folder with --out."
        )
