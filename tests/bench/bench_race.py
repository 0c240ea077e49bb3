"""`python tests/bench/bench_race.py`: which of two recipes reaches 1.91 nats a character on test plays first?

Both have 0.81 million weights and read the characters of the plays in windows of 64, twelve a step. The plain one is
often shown on the web (a GPT, 4 blocks, 128 wide, AdamW, 2,000 steps); the other, "race", is one block and a table
of pairs, chosen among about fifty settings. `stretched` is that one with as many steps as fit in the plain recipe's
seconds. `--runs` takes the controls too, each with one thing changed. All runs of a seed advance in turns, each a tenth
of its way, so whatever else the machine does slows all of them; the scoring is not counted. One thread, CPU seconds.
The table goes to the screen, the numbers to build/bench_race.json, seed after seed.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from course_lib.data import plays
from course_lib.language.decoder import Decoder, DecoderConfig
from course_lib.language.gpt import GPT, GPTConfig
from course_lib.language.muon import Muon, split
from course_lib.language.next_token import next_token_loss, windows
from course_lib.text.tokenizers import CharTokenizer
from course_lib.train import cosine

OUT = Path(__file__).resolve().parents[2] / "build" / "bench_race.json"
GOAL = 1.91  # nats a character
TURNS = 10
STEPS, PLAIN_STEPS = 360, 2000
READER = CharTokenizer(plays.text("train"))


class PairEmbedding(nn.Embedding):
    """E[token] + P[token before, token]; the first has token 0 before it. ids (B, T) -> (B, T, D)."""

    def __init__(self, vocab_size, d):
        super().__init__(vocab_size, d)
        self.pairs = nn.Embedding(vocab_size**2, d)
        for table in (self, self.pairs):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids):
        before = F.pad(ids[:, :-1], (1, 0))
        return super().forward(ids) + self.pairs(before * self.num_embeddings + ids)


def race_decoder(d=136, layers=1, d_ff=98, pairs=True):
    """The race's model, or what a control puts in its place."""
    model = Decoder(DecoderConfig(len(READER), 64, d, 4, layers, d_ff))
    if pairs:
        model.embed = PairEmbedding(len(READER), d)
    return model


def two_rates(model, tables=0.02, matrices=0.004):
    """AdamW with one rate for the matrices inside the blocks, and another for all the rest."""
    inside, rest = (group["params"] for group in split(model))
    groups = [{"params": rest, "lr": tables}, {"params": inside, "lr": matrices}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), weight_decay=0.0, fused=True)


def falling(step, steps):
    """Ten steps up, then a straight line to zero."""
    return min((step + 1) / 11, 1 - step / steps)


def nanogpt():
    """The model of the recipe that is often shown (Karpathy, 2022)."""
    return GPT(GPTConfig(len(READER), 64, 128, 4, 4, activation="gelu"))


def one_rate(model):
    """That recipe's AdamW; the fused kernel is not in it, and saves it time."""
    return torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)


@torch.no_grad()
def nats(model, rows):
    """Mean -ln p of a character, windows (rows, 65), all 64 answers of each."""
    return sum(float(next_token_loss(model, some)) * len(some) for some in rows.split(64)) / len(rows)


def plain_with_table() -> GPT:
    """The model of the recipe that is often shown, with the table of pairs in front of it."""
    model = nanogpt()
    read_out, model.tokens = model.tokens, PairEmbedding(model.config.vocab_size, model.config.d_model)
    model.tokens.weight = read_out.weight
    return model


def muon(model: nn.Module) -> list[torch.optim.Optimizer]:
    """Muon inside the blocks, and the same AdamW as before outside."""
    inside, rest = split(model)
    return [
        Muon([inside], lr=0.02, rounds=3),
        torch.optim.AdamW(rest["params"], lr=0.02, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]


plain_schedule = partial(cosine, warmup=100)
# name: what makes the model, optimiser of a model, schedule, steps, or a share of another run's seconds
RUNS: dict[str, tuple[Callable, Callable, Callable, int | tuple[str, float]]] = {
    "plain": (nanogpt, one_rate, plain_schedule, PLAIN_STEPS),
    "race": (race_decoder, two_rates, falling, STEPS),
    "stretched": (race_decoder, two_rates, falling, ("plain", 1.0)),
    "plain, cut to 3 times": (nanogpt, one_rate, plain_schedule, ("race", 3.0)),
    "plain with table": (plain_with_table, one_rate, plain_schedule, ("race", 3.0)),
    "no table": (partial(race_decoder, pairs=False), two_rates, falling, STEPS),
    "no table, as many weights": (
        partial(race_decoder, d=128, layers=4, d_ff=344, pairs=False),
        two_rates,
        falling,
        ("race", 1),
    ),
    "one rate": (race_decoder, partial(two_rates, tables=0.004), falling, STEPS),
    "Muon": (race_decoder, muon, falling, ("race", 1.0)),
}


class Run:
    """A training that goes on for some steps, and knows its CPU seconds."""

    def __init__(self, name: str, train: Tensor, seed: int):
        make, optimiser, self.schedule, self.steps = RUNS[name]
        torch.manual_seed(seed)
        self.model = make()
        made = optimiser(self.model)
        self.optimisers = made if isinstance(made, list) else [made]
        self.rates = [[group["lr"] for group in one.param_groups] for one in self.optimisers]
        self.batches = windows(train, 12, 64, seed)
        self.done, self.seconds, self.curve = 0, 0.0, []

    def go_to(self, last: int) -> None:
        while self.done < last:
            began = time.process_time()
            batch, factor = next(self.batches), self.schedule(self.done, self.steps)
            for one, rates in zip(self.optimisers, self.rates, strict=True):
                for group, rate in zip(one.param_groups, rates, strict=True):
                    group["lr"] = rate * factor
                one.zero_grad()
            next_token_loss(self.model, batch).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            for one in self.optimisers:
                one.step()
            self.seconds += time.process_time() - began
            self.done += 1

    def look(self, rows: Tensor) -> None:
        self.model.eval()
        self.curve.append((self.done, self.seconds, nats(self.model, rows)))
        self.model.train()


def judged(ids: Tensor) -> Tensor:
    """Every fourth window of 64 of a text: (rows, 65)."""
    return ids.unfold(0, 65, 4 * 64)


def speeds(names: list[str], train: Tensor) -> dict[str, float]:
    """CPU seconds a step, each run beside the others."""
    trial = {name: Run(name, train, 0) for name in names}
    for run in trial.values():
        run.steps = STEPS
    for until in range(2, 14, 2):
        for run in trial.values():
            run.go_to(until)
            if until == 2:
                run.seconds = 0.0  # the first steps are slow
    return {name: run.seconds / (run.done - 2) for name, run in trial.items()}


def race(names: list[str], seed: int, train: Tensor, rows: Tensor) -> list[dict]:
    """All of these runs, side by side."""
    seconds = speeds(names, train)
    runs = {name: Run(name, train, seed) for name in names}
    for name, run in runs.items():
        if isinstance(run.steps, tuple):
            other, share = run.steps
            run.steps = round(share * runs[other].steps * seconds[other] / seconds[name])
    for turn in range(1, TURNS + 1):
        for run in runs.values():
            run.go_to(run.steps * turn // TURNS)
            run.look(rows)
        shown = ", ".join(f"{name} {run.curve[-1][2]:.3f}" for name, run in runs.items())
        print(f"seed {seed}, turn {turn} of {TURNS}: {shown}", flush=True)
    return [
        {
            "run": name,
            "seed": seed,
            "weights": sum(part.numel() for part in run.model.parameters()),
            "steps": run.steps,
            "seconds": run.seconds,
            "nats": run.curve[-1][2],
            "seconds_to_goal": reached(run.curve),
            "curve": run.curve,
        }
        for name, run in runs.items()
    ]


def reached(curve: list[tuple]) -> float | None:
    """Seconds until GOAL, on the line between two looks, or at the first look; None where it is not reached."""
    if curve[0][2] <= GOAL:
        return curve[0][1]
    for (_, began, worse), (_, ended, better) in zip(curve, curve[1:], strict=False):
        if better <= GOAL < worse:
            return began + (ended - began) * (worse - GOAL) / (worse - better)
    return None


def main() -> None:
    """Run what is not in the file yet, and print all that is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=["plain", "race", "stretched"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    tokens = READER
    train, rows = tokens.encode(plays.text("train")), judged(tokens.encode(plays.text("test")[:200_000]))
    done = json.loads(OUT.read_text()) if OUT.exists() else []
    for seed in asked.seeds:
        known = {(row["run"], row["seed"]) for row in done}
        missing = {name for name in asked.runs if (name, seed) not in known}
        if missing:
            lengths = [RUNS[name][-1] for name in missing]
            missing |= {length[0] for length in lengths if isinstance(length, tuple)}  # whose seconds they share
            names = [name for name in RUNS if name in missing]
            again = race(names, seed, train, rows)
            done = [row for row in done if (row["run"], row["seed"]) not in {(name, seed) for name in names}] + again
            OUT.parent.mkdir(exist_ok=True)
            OUT.write_text(json.dumps(done, indent=1) + "\n")
    print(f"{'run':26} seed   weights  steps   CPU s   to {GOAL}   nats   at each tenth of its steps")
    for row in sorted(done, key=lambda row: (list(RUNS).index(row["run"]), row["seed"])):
        goal = f"{row['seconds_to_goal']:7.1f}" if row["seconds_to_goal"] else "  never"
        line = "{run:26} {seed:4} {weights:9} {steps:6} {seconds:7.1f}  ".format(**row)
        print(line, f"{goal}  {row['nats']:.3f} ", *(f"{score:.2f}" for _, _, score in row["curve"]))


if __name__ == "__main__":
    main()
