"""The settings of one training. Each is an option of the command, and its default, help and limits stand here."""

import math
from dataclasses import MISSING, dataclass, field, fields


def setting(default=MISSING, help="", choices=None, least=0, how=False):
    """A field of `Config`. how: it says how the training is computed, so it may change when a run continues."""
    return field(default=default, metadata={"help": help, "choices": choices, "least": least, "how": how})


@dataclass(frozen=True, kw_only=True)
class Config:
    """One training. A step reads `batch` rows in pieces of `micro` rows; each process computes its share of the pieces.

    The content of a piece follows from the seed, the step and the number of the piece alone. So the batches do not
    depend on how many processes there are, and a run can continue from any step. Raises ValueError for settings that
    cannot be trained.
    """

    model: str = setting(choices=("gpt", "bert", "vit"))
    size: str = setting("tiny", "one of the model's sizes: a number of weights, tiny or small")
    data: str = setting(help="plays, a text file, hub:name[:config]; for vit: digits, fashion, hub:name[:config]")
    out: str = setting(help="the run's folder; a run that is there continues from its newest snapshot", how=True)
    steps: int = setting(help="of the whole training; 0 only makes the data")
    batch: int = setting(help="rows per step, of all processes together", least=1)
    micro: int = setting(help="rows that a process reads at a time", least=1)
    tokens: int = setting(1, "per row (gpt, bert)", least=1)
    image: int = setting(1, "side of an image, in pixels (vit)", least=1)
    patch: int = setting(1, "side of a patch, in pixels (vit)", least=1)
    lr: float = setting(help="learning rate of AdamW")
    matrix_lr: float = setting(0.02, "learning rate of Muon's matrices")
    warmup: int = setting(help="steps in which the learning rate rises")
    weight_decay: float = setting(help="of all but biases and gains")
    clip: float = setting(1.0, "largest norm of the gradient; 0: any")
    optimiser: str = setting("adamw", choices=("adamw", "muon"))
    tokenizer: str = setting(
        "auto",
        "own: learned from the text; published: GPT-2's or BERT's; auto: published for hub:name, else own",
        choices=("auto", "own", "published"),
    )
    fetch: int = setting(0, "tokens, or images, to read from the hub; 0: all")
    seed: int = setting(0)
    parallel: str = setting("ddp", "each process holds the whole model, or a share of it", ("ddp", "fsdp"), how=True)
    precision: str = setting("float32", choices=("float32", "bf16"), how=True)
    compile: bool = setting(False, "with torch.compile", how=True)
    recompute: bool = setting(False, "keep less of the forward pass and compute it again in the backward", how=True)
    save_every: int = setting(500, "steps between snapshots", least=1, how=True)
    keep: int = setting(2, "snapshots that are kept", least=1, how=True)
    log_every: int = setting(10, "steps between lines of the log", least=1, how=True)
    evaluate_every: int = setting(250, "steps between evaluations", least=1, how=True)
    tensorboard: bool = setting(False, "log for TensorBoard as well", how=True)
    peak: float = setting(0.0, "FLOPs per second of a device, where its name is not known", how=True)

    def __post_init__(self):
        for one in fields(self):
            option, value = f"--{one.name.replace('_', '-')}", getattr(self, one.name)
            if (choices := one.metadata["choices"]) and value not in choices:
                raise ValueError(f"{option} must be one of {', '.join(choices)}; got {value!r}.")
            if one.type in (int, float) and not one.metadata["least"] <= value < math.inf:
                raise ValueError(f"{option} must be {one.metadata['least']} or more; got {value}.")
        if self.batch % self.micro:
            raise ValueError(f"A batch of {self.batch} rows is not made of pieces of {self.micro}: see --micro.")
        if self.model == "vit" and self.image % self.patch:
            raise ValueError(f"Patches of {self.patch} pixels do not fill images of {self.image}: see --patch.")

    @property
    def pieces(self) -> int:
        """How many pieces a step is made of."""
        return self.batch // self.micro


# Brown et al. (2020, table 2.1) for GPT-2's sizes, Touvron et al. (2023, table 2) for 7B, Devlin et al. (2019, appendix
# A.2) for BERT, Touvron et al. (2021, table 9) for ViT: rate, rows and decay. No paper speaks of the tiny ones.
GPT = {"tokens": 1024, "batch": 512, "micro": 16, "warmup": 700, "weight_decay": 0.1, "steps": 19_073}
BERT = {"tokens": 512, "batch": 256, "micro": 16, "warmup": 10_000, "weight_decay": 0.01, "steps": 1_000_000}
VIT = {"image": 224, "patch": 16, "batch": 1024, "micro": 64, "warmup": 6_250, "weight_decay": 0.05, "steps": 375_000}
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
        "tiny": VIT | {"batch": 64, "micro": 16, "steps": 400, "warmup": 40, "lr": 2e-3},
        "86m": VIT | {"lr": 1e-3},
        "304m": VIT | {"lr": 1e-3, "micro": 32},
        "632m": VIT | {"patch": 14, "lr": 1e-3, "micro": 16},
    },
}
DATA = {"gpt": "plays", "bert": "plays", "vit": "digits"}
IMAGES = {"digits": {"image": 8, "patch": 2}, "fashion": {"image": 28, "patch": 4}}


def configured(model: str, size: str = "tiny", **asked) -> Config:
    """The `Config` of a model's size, with what is asked for in place of its defaults.

    A batch without a micro is read in pieces as large as fit it. Raises ValueError for what cannot be trained.
    """
    if size not in SIZES.get(model, {}):
        known = ", ".join(f"{name} ({', '.join(sizes)})" for name, sizes in SIZES.items())
        raise ValueError(f"There is no {model} of size {size!r}. There are {known}.")
    own = {"data": DATA[model], "out": f"runs/{model}-{size}"} | SIZES[model][size]
    if model == "vit":
        own |= IMAGES.get(asked.get("data", own["data"]), {})
    own["micro"] = math.gcd(asked.get("batch", own["batch"]), own["micro"])
    if "steps" in asked:
        own["warmup"] = min(own["warmup"], asked["steps"] // 10)
    return Config(model=model, size=size, **own | asked)
