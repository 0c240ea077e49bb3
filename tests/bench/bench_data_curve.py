"""`python tests/bench/bench_data_curve.py`: how many digits does a ViT need, and which bias helps it? Lesson 09.

Five models, at 1, 3, 10, 30 and 100 % of the training images (the MLP is the partner that knows no neighbours and
shares no weights); then, at 10 and 100 %, one thing changed at a time: all pixels in one other order, shifted copies in
training, a stem of convolutions, a teacher. Five seeds: each draws the images (as many of each digit), the first
weights, the order of the batches and of the pixels. All networks have as many steps, where no other number is named,
and equal batches. Optimiser and learning rate were chosen on the validation
images, with all training images and a seed or two (`CHOSEN`), and are the same at each share. Judged on the test
images: as they are, and moved by a pixel in each of four directions. One thread a process; the seconds are CPU seconds
of training. The tables go to the screen, the numbers to build/bench_data_curve.json, run after run.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from torch import Tensor, nn

from course_lib.data import digits
from course_lib.language.muon import Muon, split
from course_lib.train import cosine, fit
from course_lib.vision.convnet import ConvNet, ConvStem, width_for
from course_lib.vision.distillation import taught_by
from course_lib.vision.images import (
    answers,
    image_loss,
    labelled_batches,
    pixel_order,
    random_shift,
    share_of_each,
    shift,
    shuffle_pixels,
)
from course_lib.vision.vit import ViT, ViTConfig, parameter_count

OUT = Path(__file__).resolve().parents[2] / "build" / "bench_data_curve.json"
SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)
CONFIG = ViTConfig(8, 2, 10, d_model=48, n_heads=4, n_layers=3, channels=1)
STEPS, BATCH, WARMUP = 120, 64, 10
# What was tried, and compared on the validation images. ViT, 14 settings: 32 to 64 wide, two and three blocks, AdamW at
# 0.003 and 0.005 with 300 to 600 steps, Muon at 0.01 to 0.04 with 120 to 400. ConvNet, 3: AdamW at 0.003 and 0.01, 120
# and 200 steps. MLP: one. Linear: six C. SVM: four C, each with four gamma. More steps are a little better for ViT and
# ConvNet; few were taken so that a notebook can train them.
CHOSEN = {"ViT": 0.03, "ConvNet": 0.01, "MLP": 0.003, "linear": {"C": 3}, "SVM": {"C": 3, "gamma": "scale"}}
NETWORKS = ("ViT", "ConvNet", "MLP")
MODELS = (*NETWORKS, "linear", "SVM")
# name: models, shares
EXPERIMENTS: dict[str, tuple[tuple[str, ...], tuple[float, ...]]] = {
    "plain": (MODELS, SHARES),
    "pixels shuffled": (MODELS, (0.1, 1.0)),
    "shifted copies": (MODELS, (0.1, 1.0)),
    "stem": (("ViT",), (0.1, 1.0)),
    "taught": (("ViT",), (0.1, 1.0)),
    "taught, on all images": (("ViT",), (0.1,)),  # the teacher, from a tenth of the labels, names the other nine
    "taught by a ViT, on all images": (("ViT",), (0.1,)),  # two controls of the line above: as many images,
    "taught by an SVM, on all images": (("ViT",), (0.1,)),  # and a teacher that knows no neighbours
    "three times the steps": (NETWORKS, (1.0,)),
    "shifted copies, three times the steps": (NETWORKS, (1.0,)),
}
DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))


@cache
def images(split_name: str) -> tuple[Tensor, Tensor]:
    """Images (N, 1, 8, 8) and labels (N,)."""
    ink, labels = map(torch.from_numpy, digits.arrays(split_name))
    return ink[:, None], labels


def moved(some: Tensor) -> Tensor:
    """Each image four times, a pixel up, down, left and right: (4 N, C, H, W)."""
    return torch.cat([shift(some, *step) for step in DIRECTIONS])


def muon(vit: ViT) -> Muon:
    """Muon for the matrices in the blocks, AdamW for the ends: patches, places, [CLS], head."""
    return Muon(split(vit))


def network(name: str, seed: int, stem: bool = False) -> nn.Module:
    """A ViT, or a ConvNet or MLP of as many parameters, with its first weights."""
    torch.manual_seed(seed)
    if name == "ViT":
        return ViT(CONFIG, ConvStem(1, CONFIG.patch_size, CONFIG.d_model) if stem else None)
    if name == "MLP":
        hidden = (nn.Linear(64, 260), nn.LayerNorm(260), nn.ReLU(), nn.Linear(260, 260), nn.LayerNorm(260), nn.ReLU())
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(260, 10))
    return ConvNet(1, 10, width_for(parameter_count(CONFIG), partial(ConvNet, 1, 10)))


def trained(
    name: str,
    known: tuple[Tensor, Tensor],
    seed: int,
    loss: Callable = image_loss,
    stem: bool = False,
    shifts: bool = False,
    steps: int = STEPS,
) -> tuple[nn.Module, float]:
    """A network that has seen these images, and the CPU seconds it took."""
    model, began = network(name, seed, stem), time.process_time()
    batches = labelled_batches(*known, BATCH, seed)
    fit(
        model,
        shifted(batches, seed) if shifts else batches,
        loss,
        steps=steps,
        lr=CHOSEN[name],
        schedule=partial(cosine, warmup=WARMUP),
        device=torch.device("cpu"),
        progress=False,
        optimiser=muon if name == "ViT" else None,
    )
    return model, time.process_time() - began


def shifted(batches: Iterable[tuple[Tensor, Tensor]], seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The same batches, each image moved by up to one pixel, drawn anew."""
    generator = torch.Generator().manual_seed(seed)
    for some, labels in batches:
        yield random_shift(some, 1, generator), labels


def classic(name: str, known: tuple[Tensor, Tensor]) -> LogisticRegression | SVC:
    """The linear model or the SVM, to the end: what they compute does not depend on a seed."""
    some, labels = known
    kinds = {"linear": partial(LogisticRegression, max_iter=5_000, tol=1e-6), "SVM": SVC}
    return kinds[name](**CHOSEN[name]).fit(some.flatten(1).double().numpy(), labels.numpy())


def said(model: object, some: Tensor) -> Tensor:
    """The answer of any of the four to each image."""
    if isinstance(model, nn.Module):
        return answers(model, some)
    return torch.from_numpy(model.predict(some.flatten(1).double().numpy()))


def taught(teacher: object, known: tuple[Tensor, Tensor], few: Tensor) -> tuple[Tensor, Tensor]:
    """All training images: the few with their labels, the others with what the teacher says."""
    everything, labels = images("train")
    named = said(teacher, everything)
    named[few] = labels[few]
    return everything, named


def run(experiment: str, name: str, share: float, seed: int) -> dict:
    """One training, judged."""
    torch.set_num_threads(1)
    everything, labels = images("train")
    few = share_of_each(labels, share, seed)
    known, test, found = (everything[few], labels[few]), images("test")[0], {}
    turn = partial(shuffle_pixels, order=pixel_order(8, 8, seed)) if experiment == "pixels shuffled" else nn.Identity()
    known, began = (turn(known[0]), known[1]), time.process_time()
    if name in ("linear", "SVM"):
        if experiment == "shifted copies":
            steps = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
            known = torch.cat([shift(known[0], *step) for step in steps]), known[1].repeat(9)
        model = classic(name, known)
        seconds = time.process_time() - began
        if experiment == "pixels shuffled":
            unchanged = classic(name, (everything[few], labels[few]))
            found["same_answers"] = (said(model, turn(test)) == said(unchanged, test)).float().mean().item()
    else:
        loss = image_loss
        if experiment.startswith("taught"):
            if "by an SVM" in experiment:
                teacher = classic("SVM", known)
            else:
                teacher, _ = trained("ViT" if "by a ViT" in experiment else "ConvNet", known, seed)
            found["teacher_agrees"] = (said(teacher, known[0]) == known[1]).float().mean().item()
            if "all images" in experiment:
                known = taught(teacher, known, few)
                found["named_rightly"] = (known[1] == labels).float().mean().item()
            else:
                loss = taught_by(teacher)
        steps = STEPS * 3 if "three times" in experiment else STEPS
        model, seconds = trained(name, known, seed, loss, "stem" in experiment, "shifted" in experiment, steps)
        found["weights"] = sum(weight.numel() for weight in model.parameters())
    right = images("test")[1]
    return {
        "experiment": experiment,
        "model": name,
        "share": share,
        "seed": seed,
        "images": len(few),
        "seconds": seconds,
        "test": (said(model, turn(test)) == right).float().mean().item(),
        "moved": (said(model, turn(moved(test))) == right.repeat(4)).float().mean().item(),
        **found,
    }


def jobs(experiments: list[str], seeds: list[int]) -> list[tuple[str, str, float, int]]:
    """What there is to run; a model without a draw is run once."""
    found = [
        (experiment, name, share, seed)
        for experiment in experiments
        for seed in seeds
        for share in reversed(EXPERIMENTS[experiment][1])
        for name in EXPERIMENTS[experiment][0]
    ]
    return [job for job in found if job[3] == seeds[0] or has_a_draw(*job[:3])]


def has_a_draw(experiment: str, name: str, share: float) -> bool:
    """Whether another seed would be another run."""
    return name in NETWORKS or share < 1 or experiment == "pixels shuffled"


def table(rows: list[dict], column: str) -> Iterator[str]:
    """Markdown: a line for each model in each experiment, mean and range at each share."""
    yield f"| {column} | model | " + " | ".join(f"{share:.0%}" for share in SHARES) + " |"
    yield "|:--|:--|" + ":--|" * len(SHARES)
    for experiment, (names, _) in EXPERIMENTS.items():
        for name in names:
            cells = []
            for share in SHARES:
                key = (experiment, name, share)
                values = [row[column] for row in rows if (row["experiment"], row["model"], row["share"]) == key]
                mean = sum(values) / max(1, len(values))
                cells.append(f"{mean:.3f} ({min(values):.3f} to {max(values):.3f})" if values else "")
            if any(cells):
                yield f"| {experiment} | {name} | " + " | ".join(cells) + " |"


def for_the_notebook(rows: list[dict]) -> str:
    """The curve as the notebook has it: model -> share -> right answers, in thousandths, seed by seed."""
    plain = [row for row in rows if row["experiment"] == "plain"]
    curve = {
        name: {
            share: [round(1000 * row["test"]) for row in plain if (row["model"], row["share"]) == (name, share)]
            for share in SHARES
        }
        for name in MODELS
    }
    return "\n".join(f'    "{name}": {values},' for name, values in curve.items())


def main() -> None:
    """Run what is not in the file yet, and print all that is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    rows = json.loads(OUT.read_text()) if OUT.exists() else []
    done = {(row["experiment"], row["model"], row["share"], row["seed"]) for row in rows}
    with ProcessPoolExecutor(asked.processes, get_context("spawn")) as pool:
        missing = [job for job in jobs(asked.experiments, asked.seeds) if job not in done]
        for future in as_completed([pool.submit(run, *job) for job in missing]):
            rows.append(future.result())
            OUT.parent.mkdir(exist_ok=True)
            OUT.write_text(json.dumps(rows, indent=1) + "\n")
            print({name: round(x, 3) if isinstance(x, float) else x for name, x in rows[-1].items()}, flush=True)
    rows.sort(key=lambda row: row["seed"])
    print("\n".join([*table(rows, "test"), "", *table(rows, "moved"), "", for_the_notebook(rows)]))
    print(f"\n{sum(row['seconds'] for row in rows) / 60:.1f} CPU minutes of training")


if __name__ == "__main__":
    main()
