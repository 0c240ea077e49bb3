"""`python tests/bench/bench_budget.py`: at which budget does the Transformer of lesson 06 overtake lesson 04's model?

Both are trained on the grammar's sentences with the recipes of lesson 06's laboratory, for once, twice, four times and
eight times its number of steps, with several seeds; a longer run reads more sentences too. One thread; the seconds are
CPU seconds of training. The table goes to the screen, the numbers to build/bench_budget.json, run after run.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import torch
from sacrebleu.metrics import BLEU

from course_lib.attention.transformer import Transformer
from course_lib.data import grammar
from course_lib.text.pairs import batches
from course_lib.text.tokenizers import WordTokenizer
from course_lib.train import cosine, fit, seed_everything
from course_lib.translation.seq2seq import Seq2Seq
from course_lib.translation.translator import Translator, translation_loss

OUT = Path(__file__).resolve().parents[2] / "build" / "bench_budget.json"
RECIPES = {"GRU with attention": (400, 6e-3), "Transformer": (340, 5e-3)}  # steps at budget 1, learning rate
SENTENCES = 8000  # at budget 1


def model(name: str, reads: int, writes: int) -> torch.nn.Module:
    """The two models of lesson 06's laboratory."""
    if name == "Transformer":
        return Transformer(reads, writes, d_model=96, n_heads=4, n_layers=2, pre_norm=True)
    return Seq2Seq(reads, writes, 128, 128, "additive", "gru", bidirectional=True)


def run(name: str, budget: int, seed: int) -> dict:
    """One training: BLEU on 300 test sentences of at most eight words, and its CPU seconds."""
    train = grammar.pairs("train", min(SENTENCES * budget, 32_000), max_words=8)
    test = grammar.pairs("test", 300, max_words=8)
    reads, writes = (WordTokenizer([pair[side] for pair in train]) for side in (0, 1))
    seed_everything(seed)
    speaker = Translator(model(name, len(reads), len(writes)), reads, writes)
    steps, lr = RECIPES[name]
    began = time.process_time()
    fit(
        speaker.model,
        batches(speaker.ids(train), 32, seed),
        translation_loss,
        steps=steps * budget,
        lr=lr,
        schedule=partial(cosine, warmup=50),
        device=torch.device("cpu"),
        progress=False,
    )
    seconds = time.process_time() - began
    said = [" ".join(words) for words in speaker.translate([pair.source for pair in test])]
    score = BLEU(tokenize="none", force=True).corpus_score(said, [[" ".join(pair.target) for pair in test]]).score
    return {"model": name, "budget": budget, "seed": seed, "bleu": score, "seconds": seconds, "sentences": len(train)}


def main() -> None:
    """Run what is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budgets", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = json.loads(OUT.read_text()) if OUT.exists() else []
    done = {(row["model"], row["budget"], row["seed"]) for row in rows}
    print("model                budget  seed   BLEU   CPU seconds   sentences")
    for budget in asked.budgets:
        for seed in asked.seeds:
            for name in RECIPES:
                if (name, budget, seed) not in done:
                    rows.append(run(name, budget, seed))
                    OUT.parent.mkdir(exist_ok=True)
                    OUT.write_text(json.dumps(rows, indent=1) + "\n")
    for row in sorted(rows, key=lambda row: (row["budget"], row["model"], row["seed"])):
        print("{model:20} {budget:6}  {seed:4}  {bleu:5.1f}   {seconds:11.0f}   {sentences:9}".format(**row))


if __name__ == "__main__":
    main()
