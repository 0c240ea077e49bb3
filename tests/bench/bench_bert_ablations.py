"""`python tests/bench/bench_bert_ablations.py`: which parts of BERT's recipe matter at our size? Lesson 08.

One thing is changed at a time in a small BERT's pre-training on the plays (Devlin et al., 2019, section 5.1, table 5;
appendix C.2, table 8). All runs have as many steps, rows and pieces, and are judged alike: bits
of the same masked pieces of validation plays, and linear read-outs on frozen states. Two processes, one thread each;
the seconds are CPU seconds of training. The table goes to the screen, the numbers to
build/bench_bert_ablations.json, run after run.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.bert.bert import Bert, BertConfig, mean_state
from course_lib.bert.bert_heads import MaskedWords
from course_lib.bert.masked_words import Masked, masked, masked_loss
from course_lib.bert.pretraining import play_pieces, small_bert, spans
from course_lib.data import play_tasks, plays
from course_lib.text.wordpiece import Read, WordPiece
from course_lib.train import cosine, fit, seed_everything

OUT = Path(__file__).resolve().parents[2] / "build" / "bench_bert_ablations.json"
BATCH, LENGTH, STEPS, RATE = 84, 24, 1_500, 1e-3  # rows as in the stored BERT's first steps
SIZES = 96, 4, 2  # width, heads, blocks
VARIANTS: dict[str, dict] = {
    "the paper's recipe": {},
    "no next sentence": {"pairs": False},
    "left to right, no next sentence": {"pairs": False, "causal": True},
    "the same, asked as little": {"pairs": False, "causal": True, "asked": 0.15},  # the control of the line above
    "always [MASK]": {"kinds": (1.0, 0.0, 0.0)},
    "40 of 100 masked": {"share": 0.4},
}
JUDGED = {"bits": 512, "names": (600, 300), "follows": (800, 600)}  # rows; learned, asked


class OneWay(Bert):
    """A Bert that looks to the left only: each place sees itself and what stands before it."""

    def layers(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> list[Tensor]:
        segments = torch.zeros_like(ids) if segments is None else segments
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]] + self.segments(segments)
        found = [self.dropout(self.norm(x))]
        for block in self.blocks:
            found.append(block(found[-1], mask, causal=True))
        return found


@cache
def texts() -> tuple[WordPiece, Tensor, Tensor]:
    """The tokenizer, and the pieces of the train and of the validation plays."""
    tokenizer = play_pieces(plays.text("train"))
    return tokenizer, *(tokenizer.encode(plays.text(split)) for split in ("train", "validation"))


def pairs_of(ids: Tensor, rows: int, generator: torch.Generator, follow: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Spans a and b (rows, S) and whether b does not follow on a, half of them; none of them where follow=True."""
    room = LENGTH - 3
    first = room // 2
    at, elsewhere = (torch.randint(len(ids) - room, (rows, 1), generator=generator) for _ in range(2))
    label = torch.randint(2, (rows,), generator=generator) * (not follow)
    start = torch.where(label[:, None] == 1, elsewhere, at + first)
    return ids[at + torch.arange(first)], ids[start + torch.arange(room - first)], label


def batches(
    ids: Tensor,
    tokenizer: WordPiece,
    seed: int,
    pairs: bool,
    causal: bool = False,
    asked: float = 1.0,
    **how,
) -> Iterator[Masked]:
    """Endless batches for one variant; asked: the share of next pieces that a model of one direction is asked for."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        a, b, label = pairs_of(ids, BATCH, generator, follow=not pairs)
        read = spans(a, b, tokenizer)
        if causal:
            yield every_next(read, tokenizer, asked, generator)
        else:
            yield masked(read, tokenizer, label if pairs else None, generator=generator, **how)


def every_next(read: Read, tokenizer: WordPiece, share: float, generator: torch.Generator) -> Masked:
    """What a model that looks to the left is asked: at each place for the next piece, [SEP] not among them.

    share: of these places, drawn at random.
    """
    after = read.ids[:, 1:]  # (B, T - 1)
    asked = F.pad((after != tokenizer.sep) & (torch.rand(after.shape, generator=generator) < share), (0, 1))  # (B, T)
    return Masked(read.ids, read.segments, read.mask, asked.flatten().nonzero()[:, 0], after[asked[:, :-1]])


def begun(pairs: bool, causal: bool, vocab_size: int) -> MaskedWords:
    """A model with fresh weights: its blocks begin as the stored BERT's do (`small_bert`)."""
    model = MaskedWords((OneWay if causal else Bert)(BertConfig(vocab_size, LENGTH, *SIZES, dropout=0.0)), pairs)
    like = small_bert(vocab_size, LENGTH, *SIZES, dropout=0.0)
    model.bert.blocks.load_state_dict(like.bert.blocks.state_dict())
    model.transform.load_state_dict(like.transform.state_dict())
    return model


def trained(variant: str, seed: int, steps: int) -> tuple[nn.Module, float, WordPiece, Tensor]:
    """One pre-training, its CPU seconds, the tokenizer, and the pieces of the validation plays."""
    tokenizer, train, validation = texts()
    change = dict(VARIANTS[variant])
    pairs, causal = change.pop("pairs", True), change.get("causal", False)
    seed_everything(seed)
    model = begun(pairs, causal, len(tokenizer))
    began = time.process_time()
    fit(
        model,
        batches(train, tokenizer, seed, pairs, **change),
        masked_loss,
        steps=steps,
        lr=RATE,
        schedule=partial(cosine, warmup=min(200, steps // 2)),
        device=torch.device("cpu"),
        progress=False,
    )
    return model, time.process_time() - began, tokenizer, validation


@torch.no_grad()
def bits(model: nn.Module, tokenizer: WordPiece, ids: Tensor) -> float:
    """Bits of masked pieces, the same ones for every model; each is a [MASK], and b follows on a.

    A model that looks to the left reads the row without a mask, up to the piece before: no piece that it sees is
    hidden from it, and it sees one side only.
    """
    generator = torch.Generator().manual_seed(0)
    total, n = 0.0, 0
    for _ in range(JUDGED["bits"] // 32):
        a, b, _ = pairs_of(ids, 32, generator, follow=True)
        read = spans(a, b, tokenizer)
        row = masked(read, tokenizer, generator=generator, kinds=(1.0, 0.0, 0.0))
        one_way = isinstance(model.bert, OneWay)
        logits = model(read.ids if one_way else row.ids, row.segments, None, row.places - int(one_way))
        logits = logits[0] if isinstance(logits, tuple) else logits
        total, n = total + float(F.cross_entropy(logits, row.answers, reduction="sum")), n + len(row.answers)
    return total / n / math.log(2)


def linear(told: Tensor, labels: Tensor, asked: Tensor, decay: float = 1e-2) -> Tensor:
    """Classes that a linear read-out says of `asked` (M, F), learned on `told` (N, F) with `labels` (N,)."""
    middle, spread = told.mean(dim=0), told.std(dim=0) + 1e-6
    x, y = (F.pad((some - middle) / spread, (0, 1), value=1.0) for some in (told, asked))
    weights = torch.zeros(x.shape[1], int(labels.max()) + 1, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=60, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = F.cross_entropy(x @ weights, labels) + decay * weights.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    return (y @ weights.detach()).argmax(dim=1)


@torch.no_grad()
def last_states(model: nn.Module, read: Read) -> Tensor:
    """States of the last layer (B, T, D), 64 rows at a time."""
    parts = zip(*(part.split(64) for part in read[:3]), strict=True)
    return torch.cat([model.bert(*part) for part in parts])


def of_a_pair(model: nn.Module, read: Read) -> Tensor:
    """What a read-out of a pair sees: the states of [CLS] and of the last [SEP], and the mean of all: (B, 3 D).

    A model that looks to the left knows nothing at [CLS], and has read everything at the end.
    """
    states = last_states(model, read)
    end = read.mask.sum(dim=1) - 1
    return torch.cat([states[:, 0], states[torch.arange(len(states)), end], mean_state(states, read.mask)], dim=1)


def follows(model: nn.Module, tokenizer: WordPiece, ids: Tensor) -> float:
    """The share of right answers to the very question of the pre-training, on spans of validation plays."""
    n, m = JUDGED["follows"]
    drawn = [pairs_of(part, rows, torch.Generator().manual_seed(1), False)
             for part, rows in ((texts()[1], n), (ids, m))]  # fmt: skip
    told, asked = (of_a_pair(model, spans(a, b, tokenizer)) for a, b, _ in drawn)
    return float((linear(told, drawn[0][2], asked) == drawn[1][2]).float().mean())


def names(model: nn.Module, tokenizer: WordPiece) -> float:
    """F1 of names of people and places, read at the first piece of each word."""
    features, tags = [], []
    for split, n in zip(("train", "test"), JUDGED["names"], strict=True):
        part = play_tasks.rows("names", split)[:n]
        read = tokenizer.batch([row.words for row in part], max_len=LENGTH)
        begins = (read.words >= 0) & (read.words != F.pad(read.words, (1, -1), value=-1))
        features.append(last_states(model, read)[begins])
        tags.append(torch.tensor([play_tasks.TAGS.index(row.tags[w]) for row, found, at in
                                  zip(part, read.words, begins, strict=True) for w in found[at].tolist()]))  # fmt: skip
    said, truth = linear(features[0], tags[0], features[1], decay=1e-4), tags[1]
    hits = int(((said == truth) & (truth > 0)).sum())
    return 2 * hits / max(1, int((said > 0).sum() + (truth > 0).sum()))


def run(variant: str, seed: int, steps: int = STEPS) -> dict:
    """One pre-training and all that it is judged by."""
    torch.set_num_threads(1)
    model, seconds, tokenizer, validation = trained(variant, seed, steps)
    model.eval()
    return {
        "variant": variant,
        "seed": seed,
        "steps": steps,
        "seconds": seconds,
        "weights": sum(part.numel() for part in model.parameters()),
        "bits": bits(model, tokenizer, validation),
        "names": names(model, tokenizer),
        "follows": follows(model, tokenizer, validation),
    }


def table(rows: list[dict]) -> Iterator[str]:
    """The mean and the range over seeds of each variant, in Markdown."""
    yield "| variant | seeds | bits, masked piece | names, F1 | follows, right | CPU s |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for variant in VARIANTS:
        if found := [row for row in rows if row["variant"] == variant]:
            cells = []
            for name, digits in (("bits", 3), ("names", 3), ("follows", 3), ("seconds", 0)):
                values = [row[name] for row in found]
                mean = sum(values) / len(values)
                cells.append(f"{mean:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})")
            yield f"| {variant} | {len(found)} | " + " | ".join(cells) + " |"


def for_the_notebook(rows: list[dict]) -> str:
    """The same means and ranges as Python, (mean, least, most), for the cell of the lesson that draws them."""
    found = {}
    for name in ("bits", "names", "follows"):
        for variant in VARIANTS:
            if values := [row[name] for row in rows if row["variant"] == variant]:
                numbers = sum(values) / len(values), min(values), max(values)
                found.setdefault(name, {})[variant] = tuple(round(x, 3) for x in numbers)
    return "\n".join(f"{name!r}: {variants}," for name, variants in found.items())


def main() -> None:
    """Run what is not in the file yet, and print all that is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=STEPS, help="fewer, to try the bench; other steps are other runs")
    asked = parser.parse_args()
    rows = json.loads(OUT.read_text()) if OUT.exists() else []
    done = {(row["variant"], row["seed"], row["steps"]) for row in rows}
    jobs = [(variant, seed, asked.steps) for seed in asked.seeds for variant in asked.variants]
    with ProcessPoolExecutor(asked.processes) as pool:
        for future in as_completed([pool.submit(run, *job) for job in jobs if job not in done]):
            rows.append(future.result())
            OUT.parent.mkdir(exist_ok=True)
            OUT.write_text(json.dumps(rows, indent=1) + "\n")
            print({name: round(x, 3) if isinstance(x, float) else x for name, x in rows[-1].items()}, flush=True)
    shown = [row for row in rows if row["steps"] == asked.steps and row["seed"] in asked.seeds]
    print("\n".join(table(shown)), for_the_notebook(shown), sep="\n\n")


if __name__ == "__main__":
    main()
