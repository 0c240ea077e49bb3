"""The page on scale: what changes from a laptop to a cluster, with what it costs, computed when the page is made."""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from course_lib.workshop.scale import arithmetic
from course_lib.workshop.scale.arithmetic import Shape
from course_lib.workshop.scale.config import SIZES
from course_lib.workshop.scale.tasks import WIDTHS, gpt

TEXT = Path(__file__).with_name("pages") / "scale.md"
ONE_GPU = TEXT.with_name("one_gpu.json")  # what `make bench` and the command printed there
VOCABULARY = {"124m": 50_304, "1558m": 50_304, "7b": 32_000}  # GPT-2's and LLaMA's, filled up to a multiple of 64
GATED = {"7b": 11_008}  # the width of its gated feed-forward networks
AUTOCAST = 1.25  # times what a block keeps in bf16 throughout
ROOM = 80e9  # bytes of an H100
USED = 0.4  # of a chip's peak, for what is planned
A100, H100, TPU_V4 = arithmetic.PEAKS["A100"], arithmetic.PEAKS["H100"], 275e12


@dataclass(frozen=True)
class Published:
    """A training that others have told of: how many tokens, on how many chips of what peak, in how many seconds.

    said: the share of the peak that they name themselves, in their words, or nothing.
    """

    name: str
    source: str
    shape: Shape
    tokens: float
    chips: int
    peak: float
    seconds: float
    said: str = ""

    @property
    def utilisation(self) -> float:
        """The share of the peak that follows from what they tell."""
        return arithmetic.flops_per_token(self.shape) * self.tokens / (self.chips * self.peak * self.seconds)


@lru_cache
def shape(size: str) -> Shape:
    """The `Shape` of a GPT of the command's sizes, counted on a model without memory."""
    (width, _, layers), length = WIDTHS["gpt"][size], SIZES["gpt"][size]["tokens"]
    with torch.device("meta"):
        return arithmetic.shape_of(gpt(size, VOCABULARY[size], length), layers, width, length)


def runs() -> list[Published]:
    """Trainings to hold the arithmetic to."""
    palm = Shape(540_350_000_000, 0, 48 * 256, 118, 2048)
    llama = Shape(65_200_000_000, 32_000 * 8192, 8192, 80, 2048)
    return [
        Published(
            "GPT-2, 124 M",
            "Karpathy (2024), llm.c, discussion 481",
            shape("124m"),
            10e9,
            8,
            A100,
            90 * 60,
            "up to about 60%",
        ),
        Published("GPT-2, 1.5 B", "Karpathy (2024), llm.c, discussion 677", shape("1558m"), 33.6e9, 8, H100, 86_400),
        Published("LLaMA, 7 B", "Touvron et al. (2023), table 15", shape("7b"), 1e12, 1, A100, 82_432 * 3600),
        Published("LLaMA, 65 B", "Touvron et al. (2023), section 2.4", llama, 380, 1, A100, 1),
        Published("PaLM, 540 B", "Chowdhery et al. (2022), table 3", palm, 238_300, 6144, TPU_V4, 1, "46.2%"),
    ]


def page() -> str:
    """The page, as Markdown."""
    tables = {"costs": costs(), "published": published()} | one_gpu()
    (width, heads, layers), one = WIDTHS["gpt"]["124m"], shape("124m")
    block = AUTOCAST * arithmetic.block_bytes(1, one.length, width, 4 * width, heads, 2)
    kept = layers * block + arithmetic.read_out_bytes(1, one.length, VOCABULARY["124m"])
    told = runs()[0]
    half = 6 * one.n_layers * one.d_model * one.length / arithmetic.flops_per_token(one)  # of attention's work, by ours
    numbers = {"halved": f"{told.utilisation * (1 - half):.0%}"}
    numbers |= {"autocast": f"{kept / 1e9:.1f} GB", "made": f"{4 * shape('7b').weights / 1e9:.0f} GB"}
    return TEXT.read_text(encoding="utf-8").format(**tables, **numbers, used=f"{USED:.0%}")


def costs() -> str:
    """What each of three sizes needs, a row each kind of need."""
    sizes = [*VOCABULARY]
    shapes, width = [shape(size) for size in sizes], [WIDTHS["gpt"][size] for size in sizes]
    tokens = [SIZES["gpt"][size]["steps"] * SIZES["gpt"][size]["batch"] * shape(size).length for size in sizes]
    work = [arithmetic.flops_per_token(one) * n for one, n in zip(shapes, tokens, strict=True)]

    def row(name, numbers):
        return f"| {name} | {' | '.join(numbers)} |"

    blocks = [
        arithmetic.block_bytes(1, one.length, d, GATED.get(size, 4 * d), heads, 2, gated=size in GATED)
        for size, one, (d, heads, _) in zip(sizes, shapes, width, strict=True)
    ]
    whole = [layers * block for block, (_, _, layers) in zip(blocks, width, strict=True)]
    again = [
        arithmetic.recomputed_bytes(1, one.length, d, layers, block, 2)
        for block, one, (d, _, layers) in zip(blocks, shapes, width, strict=True)
    ]
    alone = [arithmetic.state_bytes(one.weights) < ROOM for one in shapes]
    scores = [
        arithmetic.read_out_bytes(1, one.length, VOCABULARY[size]) for size, one in zip(sizes, shapes, strict=True)
    ]

    return "\n".join([
        row("", [f"`gpt --size {size}`" for size in sizes]),
        row("---", ["---:"] * len(sizes)),
        row("weights", [f"{one.weights:,}" for one in shapes]),
        row("FLOPs a token", [f"{arithmetic.flops_per_token(one):.3g}" for one in shapes]),
        row("weights, gradients, moments (AdamW, float32)", _gigabytes(shapes, 1)),
        row("the same, shared out among 8", _gigabytes(shapes, 8)),
        row("kept by the blocks for the way back, a row of tokens (bf16)", [f"{n / 1e9:.2f} GB" for n in whole]),
        row("the same, with `--recompute`", [f"{n / 1e9:.2f} GB" for n in again]),
        row("kept by the loss, a row of tokens (float32)", [f"{n / 1e9:.2f} GB" for n in scores]),
        row("tokens of the run", [f"{n / 1e9:,.0f} billion" for n in tokens]),
        row("FLOPs of the run", [f"{one:.2g}" for one in work]),
        row("on one H100", [_time(one, 1) if fits else "has no room" for one, fits in zip(work, alone, strict=True)]),
        row("on eight", [_time(one, 8) for one in work]),
        row("on 64", [_time(one, 64) for one in work]),
        row("tokens a day on eight", [_billions(8, one) for one in shapes]),
    ])  # fmt: skip


def published() -> str:
    """What published runs say, and the share of the peak that follows."""
    head = ["| run | told by | share of the peak, from our count | share they name |", "| --- | --- | ---: | ---: |"]
    return "\n".join([*head, *(
        f"| {run.name} | {run.source} | {run.utilisation:.1%} | {run.said} |"
        for run in runs()
    )])  # fmt: skip


def one_gpu() -> dict[str, str]:
    """What was measured on one GPU: tables beside Hugging Face and of whole steps, and what follows from them."""
    seen = json.loads(ONE_GPU.read_text(encoding="utf-8"))
    rows = seen["beside Hugging Face"]
    beside = [
        "| what | training step | reading | memory at the peak, theirs over ours |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, kinds, side in (
        ("GPT", ["GPT"], "ours"),
        ("the same, where theirs computes GELU in one operation too", ["GPT, theirs with fused GELU"], "ours"),
        ("BERT, read out at the masked places", ["BERT", "BERT, 32 padded"], "ours"),
        ("the same, read out at every place", ["BERT", "BERT, 32 padded"], "ours, all places"),
        ("ViT", ["ViT"], "ours"),
    ):
        of_it = [row for row in rows if row["model"] in kinds and row["side"] == side]
        beside.append(
            f"| {name} | {' | '.join(_span([r[key] for r in of_it]) for key in ('step', 'infer', 'memory'))} |"
        )
    [command] = [key for key in seen if key.startswith("gpt ")]
    runs = sorted(seen[command], key=lambda run: min(run["tokens a second"]))
    steps = [f"| `{command}` | tokens a second | of the chip's peak in bf16 |", "| --- | ---: | ---: |"]
    for run in runs:
        how = f"`--precision {run['precision']}{' --compile' if run['compile'] else ''}`"
        fast = " to ".join(f"{n:,}" for n in (min(run["tokens a second"]), max(run["tokens a second"])))
        steps.append(f"| {how} | {fast} | {run['share of the peak']:.0%} |")
    slow, half, compiled = (sum(run["tokens a second"]) / len(run["tokens a second"]) for run in runs)
    losses = [run["held out"] for run in runs]
    return {
        "gpu": seen["machine"],
        "gpu_beside": "\n".join(beside),
        "gpu_steps": "\n".join(steps),
        "gpu_weights": f"{runs[0]['weights'] / 1e6:.0f} million",
        "gpu_half": f"{half / slow:.1f}",
        "gpu_compiled": f"{compiled / half:.1f}",
        "gpu_apart": f"{max(losses) - min(losses):.4f}",
    }


def _span(numbers: list[float]) -> str:
    low, high = f"{min(numbers):.2f}", f"{max(numbers):.2f}"
    return low if low == high else f"{low} to {high}"


def _gigabytes(shapes: list[Shape], processes: int) -> list[str]:
    return [f"{arithmetic.state_bytes(one.weights, processes=processes) / 1e9:,.1f} GB" for one in shapes]


def _time(flops: float, chips: int) -> str:
    """Days, or hours or minutes where they are few."""
    days = arithmetic.days(flops, chips, H100, USED)
    amount, unit = next(
        (days * n, unit) for n, unit in ((1, "days"), (24, "hours"), (1440, "minutes")) if days * n >= 1.5
    )
    return f"{amount:,.0f} {unit}"


def _billions(chips: int, one: Shape) -> str:
    return f"{chips * H100 * USED * 86_400 / arithmetic.flops_per_token(one) / 1e9:,.0f} billion"
