"""`python tests/bench/bench_budget.py`: at which budget does the Transformer of lesson 06 overtake lesson 04's model?

The experiment grammar_race of lesson 06 for once, twice, four times and eight times its number of steps, with several
seeds; a longer run reads more sentences too. It is not recorded: all of it takes half an hour of one core. One thread;
the seconds are CPU seconds of training. The table goes to the screen, the numbers to build/bench_budget.json, run
after run.
"""

import argparse
import json
from pathlib import Path

import torch

from course_lib.workshop.experiments.transformer.core import RACERS, grammar_race

OUT = Path(__file__).resolve().parents[2] / "build" / "bench_budget.json"


def main() -> None:
    """Run what is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budgets", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = json.loads(OUT.read_text()) if OUT.exists() else []
    done = {(row["model"], row["budget"], row["seed"]) for row in rows}
    for budget in asked.budgets:
        for seed in asked.seeds:
            for name in RACERS:
                if (name, budget, seed) not in done:
                    found = grammar_race(seed, model=name, budget=budget)
                    rows.append({"model": name, "budget": budget, "seed": seed, **found})
                    OUT.parent.mkdir(exist_ok=True)
                    OUT.write_text(json.dumps(rows, indent=1) + "\n")
    print("model                budget  seed   BLEU   CPU seconds")
    for row in sorted(rows, key=lambda row: (row["budget"], row["model"], row["seed"])):
        print("{model:20} {budget:6}  {seed:4}  {BLEU:5.1f}   {seconds:11.0f}".format(**row))


if __name__ == "__main__":
    main()
