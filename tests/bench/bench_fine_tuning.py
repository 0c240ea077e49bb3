"""`python tests/bench/bench_fine_tuning.py`: what pre-training buys in the tasks on the plays, by number of labels.

Four uses of a BERT (Devlin et al., 2019, figure 4): a speech's genre, whether a speech answers another, names of
persons and places, and what somebody says; with 40, 400 and 4,000 labels, drawn anew for each seed. Four ways to learn
them: the baselines of `play_baselines`; the stored `plays_bert`, fine-tuned; the same model from random weights,
trained the same way; and a read-out on the real model's frozen states. Texts are cut to 64 pieces (*says*: 96).
One thread a process. The table goes to the screen in Markdown, the numbers to build/bench_fine_tuning.json,
run after run; what is in there is not run again.
"""

import argparse
import json
import time
from collections.abc import Iterator
from copy import deepcopy
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor, nn

from course_lib.bert.bert import Bert, mean_state
from course_lib.bert.bert_heads import Classifier, SpanFinder, Tagger
from course_lib.bert.bert_labels import IGNORED, best_span, first_pieces, label_loss
from course_lib.bert.masked_words import texts_in_order
from course_lib.data import play_baselines, play_tasks
from course_lib.data.play_baselines import f1
from course_lib.recipes import stored
from course_lib.text.wordpiece import Read, WordPiece
from course_lib.train import cosine, fit, published

OUT = Path(__file__).resolve().parents[2] / "build" / "bench_fine_tuning.json"
TASKS = ("genre", "answer", "names", "says")
STEPS = {40: 60, 400: 120, 4_000: 300}  # of 16 texts, by number of labels
LR, TESTED = 1e-3, 500  # of 0.001 and 0.002 the better one for names on validation, both beginnings
LONGEST = {"says": 96}  # the others: 64
WAYS = ("baseline", "plays_bert", "random weights", "real model, frozen")
DEVICE = torch.device("cpu")


def classes(task: str) -> list[str]:
    """The labels that a task has, in order."""
    if task == "names":
        return list(play_tasks.TAGS)
    return sorted({row.label for row in play_tasks.rows(task, "train")})


def read(task: str, rows: list, pieces: WordPiece) -> Read:
    """The texts of `rows` in pieces, as a head reads them."""
    texts = {
        "genre": lambda row: row.text,
        "answer": lambda row: (row.first, row.second),
        "names": lambda row: row.words,
        "says": lambda row: (row.question, row.words),
    }
    return pieces.batch([texts[task](row) for row in rows], max_len=LONGEST.get(task, 64))


def labels(task: str, rows: list, part: Read) -> Tensor:
    """The right answers, as `label_loss` takes them; an answer that was cut off is not asked."""
    if task == "names":
        known = classes(task)
        return first_pieces(part.words, [[known.index(tag) for tag in row.tags] for row in rows])
    if task != "says":
        known = classes(task)
        return torch.tensor([known.index(row.label) for row in rows])
    found = []
    for row, words, segments in zip(rows, part.words, part.segments, strict=True):
        first, last = (((words == word) & (segments == 1)).nonzero()[:, 0] for word in row[2:])
        found.append([int(first[0]), int(last[-1])] if len(first) and len(last) else [IGNORED, IGNORED])
    return torch.tensor(found)


def score(task: str, rows: list, part: Read, logits: Tensor) -> float:
    """The share that is right; for names F1. Words that were cut off count as "other", answers as wrong."""
    if task == "names":
        said = [["other"] * len(row.words) for row in rows]
        asked = labels(task, rows, part) != IGNORED
        for tags, words, chosen, at in zip(said, part.words, logits.argmax(-1), asked, strict=True):
            for word, tag in zip(words[at].tolist(), chosen[at].tolist(), strict=True):
                tags[word] = play_tasks.TAGS[tag]
        return f1(said, [row.tags for row in rows])
    if task == "says":
        spans = best_span(logits, allowed=(part.segments == 1) & (part.words >= 0), longest=64)  # (B, 2)
        words = part.words.gather(1, spans).tolist()
        truth = labels(task, rows, part)[:, 0] != IGNORED
        pairs = zip(words, rows, truth.tolist(), strict=True)
        return sum(kept and tuple(pair) == row[2:] for pair, row, kept in pairs) / len(rows)
    return float((logits.argmax(-1) == labels(task, rows, part)).float().mean())


def head(task: str, bert: Bert) -> nn.Module:
    """The head that the task needs, on a copy of `bert`."""
    bert = deepcopy(bert)
    if task == "names":
        return Tagger(bert, len(play_tasks.TAGS))
    return SpanFinder(bert) if task == "says" else Classifier(bert, len(classes(task)))


def batches(task: str, rows: list, pieces: WordPiece, seed: int, size: int = 16) -> Iterator[tuple]:
    """Endless batches of texts with labels, for `fit`."""
    for some in texts_in_order(rows, min(size, len(rows)), torch.Generator().manual_seed(seed)):
        part = read(task, some, pieces)
        yield part.ids, part.segments, part.mask, labels(task, some, part)


@torch.no_grad()
def tested(task: str, model: nn.Module, pieces: WordPiece) -> float:
    """The head's score on the first `TESTED` test examples."""
    rows = sorted(play_tasks.rows(task, "test")[:TESTED], key=lambda row: len(str(row)))  # little padding
    total = read(task, rows, pieces)
    logits = [
        model(*(part[at : at + 32] for part in (total.ids, total.segments, total.mask)))
        for at in range(0, len(rows), 32)
    ]
    return score(task, rows, total, torch.cat(logits))


def drawn(task: str, n: int, seed: int) -> list:
    """n training examples, drawn anew for each seed."""
    rows = play_tasks.rows(task, "train")
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1000 + seed)).tolist()
    return [rows[i] for i in order[:n]]


@cache
def ours() -> tuple[Bert, WordPiece]:
    """The stored model and its tokenizer."""
    model, record = stored.load("plays_bert")
    return model.bert, record["tokenizer"]


@cache
def real() -> tuple[Bert, WordPiece]:
    """MiniLM and its tokenizer."""
    return Bert.from_weights(*published.read("minilm")), WordPiece(published.fetch("minilm").with_name("vocab.txt"))


def fine_tuned(task: str, n: int, seed: int, pretrained: bool) -> float:
    """Our BERT with a head, all of it trained on n examples: from its stored weights, or from fresh ones."""
    bert, pieces = ours()
    torch.manual_seed(seed)
    model = head(task, bert if pretrained else stored.RECIPES["plays_bert"].model(len(pieces)).bert)
    fit(
        model,
        batches(task, drawn(task, n, seed), pieces, seed),
        label_loss,
        steps=STEPS[n],
        lr=LR,
        schedule=partial(cosine, warmup=STEPS[n] // 10),
        device=DEVICE,
        progress=False,
    )
    return tested(task, model, pieces)


def known(task: str, n: int, seed: int) -> float:
    """The best baseline that knows the n labels and no language."""
    rows = {"train": drawn(task, n, seed), "test": play_tasks.rows(task, "test")[:TESTED]}
    with patch.object(play_baselines, "rows", lambda _, split: rows[split]):
        return list(play_baselines.baseline(task).values())[-1]


@cache
@torch.no_grad()
def states(task: str, split: str) -> list[Tensor]:
    """What the real model makes of each text: a vector (class), or a vector a piece (T, D), in half precision."""
    bert, pieces = real()
    rows = play_tasks.rows(task, split)[: TESTED if split == "test" else None]
    order = sorted(range(len(rows)), key=lambda i: len(str(rows[i])))
    found: list = [None] * len(rows)
    for at in range(0, len(order), 32):
        some = order[at : at + 32]
        if task == "answer":  # u, v and |u - v|: Reimers and Gurevych (2019), section 3
            u, v = (_vectors([rows[i][side] for i in some]) for side in (0, 1))
            made = torch.cat([u, v, (u - v).abs()], dim=1)
        elif task == "genre":
            made = _vectors([rows[i].text for i in some])
        else:
            part = read(task, [rows[i] for i in some], pieces)
            h = bert(part.ids, part.segments, part.mask)
            made = [row[real_piece] for row, real_piece in zip(h, part.mask, strict=True)]
        for i, vector in zip(some, made, strict=True):
            found[i] = vector.half()
    return found


def _vectors(texts: list[str]) -> Tensor:
    bert, pieces = real()
    part = pieces.batch(texts, max_len=64)
    return mean_state(bert(part.ids, part.segments, part.mask), part.mask)


class ReadOut(nn.Module):
    """One linear layer on frozen states: the head without its BERT."""

    def __init__(self, task: str, n_out: int, d_in: int):
        super().__init__()
        self.task, self.layer = task, nn.Linear(d_in, n_out)
        self.scale = 1.0

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        logits = self.layer(h * self.scale)
        if self.task == "says":
            logits = logits.transpose(1, 2).masked_fill(~mask[:, None], -torch.inf)
        return logits


def frozen(task: str, n: int, seed: int) -> float:
    """A linear read-out on the real model's states, learned from n examples; the model itself is not changed."""
    _, pieces = real()
    rows, vectors = play_tasks.rows(task, "train"), states(task, "train")
    chosen = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1000 + seed)).tolist()[:n]
    n_out = {"names": len(play_tasks.TAGS), "says": 2}.get(task) or len(classes(task))
    torch.manual_seed(seed)
    model = ReadOut(task, n_out, vectors[0].shape[-1])
    model.scale = 1 / float(torch.stack([vectors[i].float().flatten().std() for i in chosen[:64]]).mean())

    def padded(some: list[Tensor]) -> tuple[Tensor, Tensor]:
        if some[0].ndim == 1:
            return torch.stack(some).float(), torch.ones(len(some), dtype=torch.bool)
        h = nn.utils.rnn.pad_sequence(some, batch_first=True).float()
        return h, torch.arange(h.shape[1]) < torch.tensor([len(row) for row in some])[:, None]

    def parts() -> Iterator[tuple]:
        for some in texts_in_order(chosen, min(64, n), torch.Generator().manual_seed(seed)):
            picked = [rows[i] for i in some]
            yield *padded([vectors[i] for i in some]), labels(task, picked, read(task, picked, pieces))

    fit(model, parts(), label_loss, steps=STEPS[n], lr=1e-2, weight_decay=0.1, device=DEVICE, progress=False)
    test = play_tasks.rows(task, "test")[:TESTED]
    with torch.no_grad():
        logits = model(*padded(states(task, "test")))
    return score(task, test, read(task, test, pieces), logits)


def run(way: str, task: str, n: int, seed: int) -> dict:
    """One training and its score on the test examples, with its CPU seconds."""
    torch.set_num_threads(1)
    began = time.process_time()
    made = {
        "baseline": known,
        "plays_bert": partial(fine_tuned, pretrained=True),
        "random weights": partial(fine_tuned, pretrained=False),
        "real model, frozen": frozen,
    }[way](task, n, seed)
    return {
        "way": way, "task": task, "labels": n, "seed": seed, "score": made, "seconds": time.process_time() - began,
    }  # fmt: skip


def table(rows: list[dict]) -> str:
    """Mean and range over seeds, in Markdown."""
    lines = ["| task | labels | " + " | ".join(WAYS) + " |", "| --- | ---: |" + " ---: |" * len(WAYS)]
    for task in TASKS:
        for n in STEPS:
            cells = []
            for way in WAYS:
                found = [r["score"] for r in rows if (r["way"], r["task"], r["labels"]) == (way, task, n)]
                mean = sum(found) / len(found) if found else 0
                cells.append(f"{mean:.2f} ({min(found):.2f} to {max(found):.2f})" if found else "")
            lines.append(f"| {task} | {n:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def for_the_notebook(rows: list[dict]) -> str:
    """The same as Python, (mean, least, most) by task, way and labels, for the cell of the lesson that draws them."""
    lines = []
    for task in TASKS:
        lines.append(f"{task!r}: {{")
        for way in WAYS:
            results = {}
            for n in STEPS:
                if found := [r["score"] for r in rows if (r["way"], r["task"], r["labels"]) == (way, task, n)]:
                    results[n] = tuple(round(x, 2) for x in (sum(found) / len(found), min(found), max(found)))
            lines.append(f"    {way!r}: {results},")
        lines.append("},")
    return "\n".join(lines)


def main() -> None:
    """Run what is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--labels", type=int, nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    rows = json.loads(OUT.read_text()) if OUT.exists() else []
    done = {(r["way"], r["task"], r["labels"], r["seed"]) for r in rows}
    # A task's frozen states are read once in a process, so the runs of one way and task stand together.
    jobs = [(w, t, n, s) for w in asked.ways for t in asked.tasks for n in asked.labels for s in asked.seeds]
    jobs = [job for job in jobs if job not in done]
    chunks = [[job for job in jobs if job[:2] == pair] for pair in dict.fromkeys(job[:2] for job in jobs)]
    with get_context("spawn").Pool(asked.processes, maxtasksperchild=2) as pool:
        for made in pool.imap_unordered(_runs, sorted(chunks, key=lambda c: "random" not in c[0][0])):
            rows += made
            OUT.parent.mkdir(exist_ok=True)
            OUT.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows), for_the_notebook(rows), sep="\n\n")
    print(f"\n{sum(r['seconds'] for r in rows) / 60:.0f} CPU minutes")


def _runs(jobs: list[tuple]) -> list[dict]:
    return [run(*job) for job in jobs]


if __name__ == "__main__":
    main()
