"""`python tests/bench/bench_seq2seq.py`: the tables of lesson 03 that need more trainings than a notebook has time for.

order: 800 steps with a forget bias of 1 or 3, the source read forwards or backwards, five seeds.
longer: the lesson's model with its 1,700 steps, and with three times as many; three seeds.
told: the lesson's model, but half of the years that it reads in training are replaced by *unknown*, so that it is
used to being told nothing. Asked on lists of three for the last year, all other words read right, and of the first two:
the right ones; nothing (*unknown*); its own (what it writes there itself, the second after it has read its own first);
two drawn at random. Five seeds.

Data, layers, batch and rate are the lesson's; a seed draws the first weights and the batches. Exact match by greedy
search, on the test lists of one to eight dates. One thread. The tables go to the screen, the numbers to
build/bench_seq2seq.json, run after run; runs that stand there are not run again.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from course_lib.data import dates
from course_lib.text.pairs import UNKNOWN, batches, masked_loss, shift
from course_lib.text.tokenizers import WordTokenizer
from course_lib.train import cosine, fit
from course_lib.translation.decode import exact_match, translate
from course_lib.translation.seq2seq import Seq2Seq
from course_lib.translation.translator import translation_loss

OUT = Path(__file__).resolve().parents[2] / "build" / "bench_seq2seq.json"
FIRST, SECOND, LAST = 4, 9, 13  # where two years of three are read, and where the last is written
# name: the settings, each (steps, forget bias, backwards), and the seeds
EXPERIMENTS = {
    "order": ([(800, bias, backwards) for bias in (1.0, 3.0) for backwards in (False, True)], range(5)),
    "longer": ([(1700, 3.0, False), (5100, 3.0, False)], range(3)),
    "told": ([(1700, 3.0, False)], range(5)),
}


class Lists:
    """The lesson's lists of dates."""

    def __init__(self):
        self.train, self.validation = dates.pairs("train"), dates.pairs("validation", size=300)
        self.tests = [dates.pairs("test", n_dates=n, size=250) for n in range(1, 9)]
        self.english = WordTokenizer([pair.source for pair in self.train])
        self.french = WordTokenizer([pair.target for pair in self.train])
        self.ids = [(self.english.encode(p.source).tolist(), self.french.encode(p.target).tolist()) for p in self.train]
        self.years = torch.tensor([i for i, word in enumerate(self.french.vocab) if word.isdigit() and len(word) == 4])

    def read(self, pairs: list) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Source (B, S), its lengths, what is read and what is written (B, T)."""
        source, real = self.english.batch([pair.source for pair in pairs])
        target = self.french.batch([pair.target for pair in pairs], start=True, end=True)[0]
        return source, real.sum(1), *shift(target)


def trained(lists: Lists, steps: int, bias: float, backwards: bool, seed: int, loss=translation_loss) -> Seq2Seq:
    """The lesson's model, from its first weights on."""
    torch.manual_seed(seed)
    model = Seq2Seq(len(lists.english), len(lists.french), d_model=64, d_hidden=128)
    for one in model.encoder.rnn.gate_biases(1):
        one.fill_(bias)
    drawn = batches(lists.ids, 32, seed, reverse_source=backwards)
    schedule, cpu = partial(cosine, warmup=50), torch.device("cpu")
    fit(model, drawn, loss, steps=steps, lr=8e-3, schedule=schedule, device=cpu, progress=False)
    return model


def judged(lists: Lists, model: Seq2Seq, backwards: bool) -> dict:
    """The validation loss, in nats a token, and exact match on the test lists of each length."""
    turn = (lambda pair: pair._replace(source=pair.source[::-1])) if backwards else (lambda pair: pair)
    source, lengths, target_in, target_out = lists.read([turn(pair) for pair in lists.validation])
    with torch.no_grad():
        found = {"loss": float(masked_loss(model(source, lengths, target_in)[0], target_out))}
    for n, bucket in enumerate(lists.tests, 1):
        written = translate(model, lists.english, lists.french, [turn(pair).source for pair in bucket])
        found[f"exact {n}"] = exact_match(written, [pair.target for pair in bucket])
    return found


def with_gaps(lists: Lists, seed: int):
    """The loss of a model that reads *unknown* in place of every second year."""
    generator = torch.Generator().manual_seed(seed)

    def loss(model, batch):
        source, lengths, target_in, target_out = batch
        gaps = torch.isin(target_in, lists.years) & (torch.rand(target_in.shape, generator=generator) < 0.5)
        return masked_loss(model(source, lengths, target_in.masked_fill(gaps, UNKNOWN))[0], target_out)

    return loss


@torch.no_grad()
def told(lists: Lists, model: Seq2Seq, seed: int) -> dict:
    """The share of wrong last years of three, by what is read in the place of the first two."""
    source, lengths, target_in, target_out = lists.read(lists.tests[2])

    def writes(years: Tensor) -> Tensor:
        reads = target_in.clone()
        reads[:, [FIRST, SECOND]] = years
        return model(source, lengths, reads)[0].argmax(-1)

    right = target_in[:, [FIRST, SECOND]]
    own = right.clone()
    own[:, 0] = writes(own)[:, FIRST - 1]  # nothing of a year has been read there
    own[:, 1] = writes(own)[:, SECOND - 1]
    random = lists.years[torch.randint(len(lists.years), right.shape, generator=torch.Generator().manual_seed(seed))]
    asked = {"right": right, "nothing": torch.full_like(right, UNKNOWN), "its own": own, "random": random}
    return {name: (writes(some) != target_out)[:, LAST].float().mean().item() for name, some in asked.items()}


def table(rows: list[dict]) -> None:
    """Each setting, with mean and (range) of every number."""
    for setting in dict.fromkeys(tuple(row["setting"]) for row in rows):
        some = [row for row in rows if tuple(row["setting"]) == setting]
        print(*setting, f"{len(some)} seeds")
        for name in some[0]["found"]:
            values = [row["found"][name] for row in some]
            print(f"    {name:10} {sum(values) / len(values):.3f} ({min(values):.3f} to {max(values):.3f})", end="  ")
            print(*(f"{value:.3f}" for value in values))


def main() -> None:
    """Run what is not in the file yet, and print all that is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS))
    asked, lists = parser.parse_args(), Lists()
    torch.set_num_threads(1)
    rows = json.loads(OUT.read_text()) if OUT.exists() else []
    for name in asked.experiments:
        settings, seeds = EXPERIMENTS[name]
        for seed, (steps, bias, backwards) in ((seed, setting) for seed in seeds for setting in settings):
            setting, began = [name, steps, bias, "backwards" if backwards else "forwards"], time.process_time()
            if any((row["setting"], row["seed"]) == (setting, seed) for row in rows):
                continue
            if name == "told":
                found = told(lists, trained(lists, steps, bias, backwards, seed, with_gaps(lists, seed)), seed)
            else:
                found = judged(lists, trained(lists, steps, bias, backwards, seed), backwards)
            rows.append({"setting": setting, "seed": seed, "found": found, "seconds": time.process_time() - began})
            OUT.parent.mkdir(exist_ok=True)
            OUT.write_text(json.dumps(rows, indent=1) + "\n")
    table(rows)


if __name__ == "__main__":
    main()
