"""Lesson 17's controls: a state that corrects itself, more rounds, readers trained otherwise or for longer."""

from functools import partial

import torch

from course_lib.attention.multi_head import MultiHead
from course_lib.data.key_values import key_values
from course_lib.recurrent.language_model import TruncatedBPTT
from course_lib.train import cosine, fit
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.longer.core import HERE, READERS, answers, read_so
from course_lib.workshop.recipes import longer as recipe

THREE = (0, 1, 2)  # the seeds of what takes long


@experiment(seeds=THREE, cpus=HERE)
def delta(seed):
    """The share of keys whose value is named, by the number of pairs, where the state is written by the delta rule."""
    return answers(recipe.key_reader(seed, "delta rule"))


@experiment(seeds=THREE, cpus=HERE)
def sixteen_for_longer(seed):
    """The share of keys whose value is named by readers with 16 global places that learned three times as long."""
    return answers(recipe.key_reader(seed, "window, 16 global", 3 * recipe.KEY_STEPS))


@experiment(cpus=HERE)
def more_rounds(seed):
    """The share of 16 keys that a reader names which learned with one round of hashing, by the rounds that it reads."""
    model, found = recipe.key_reader(seed, "buckets, 1 round"), {}
    for rounds in (1, 2, 4, 8):
        for block in model.blocks:
            block.attention.n_rounds = rounds
        found[str(rounds)] = recipe.right_keys(model, 16)
    return {"right": found}


@experiment(each(kind=["window, 1 global", "window, 4 global"]), seeds=THREE, cpus=HERE)
def in_the_row(seed, kind):
    """Of 16 pairs: the share that is named right, and the share of answers that are values of the same row at all."""
    model = recipe.key_reader(seed, kind)
    x, y = key_values(recipe.ASKED_ROWS, 16, recipe.HALF, recipe.SYMBOLS, torch.Generator().manual_seed(10_000))
    with torch.no_grad():
        said = model(x).argmax(dim=-1)[y > 0].view(len(x), 16)
    meant = y[y > 0].view(len(x), 16)
    known = (said[..., None] == meant[:, None]).any(dim=-1)
    return {"right": (said == meant).float().mean(), "in the row": known.float().mean()}


@experiment(cpus=HERE)
def sixteen_heads(seed):
    """The share of keys whose value is named by full attention whose heads are as narrow as the narrowest states."""
    torch.manual_seed(seed)
    model = recipe.KeyReader("full")
    for block in model.blocks:
        block.attention = MultiHead(recipe.WIDTH, 16)
    schedule = partial(cosine, warmup=50)
    fit(model, recipe.key_batches(seed), recipe.key_loss, steps=recipe.KEY_STEPS, lr=recipe.KEY_RATE,
        weight_decay=0.01, schedule=schedule, device=recipe.CPU, progress=False)  # fmt: skip
    return answers(model)


class Forgetful(TruncatedBPTT):
    """`TruncatedBPTT` that drops the memory before every second segment or so, at random."""

    def __call__(self, model, batch):
        if torch.rand(()) < 0.5:
            self.state = None
        return super().__call__(model, batch)


OTHERWISE = {
    "half of the rate": {"rate": recipe.PLAY_RATE / 2},
    "memory dropped in half": {"loss": Forgetful},
    "twice as long": {"steps": 2 * READERS["64 after 64"]["steps"]},
}


@experiment(each(how=OTHERWISE), seeds=THREE, cpus=HERE)
def with_memory(seed, how):
    """Bits a character of test plays of readers trained with a memory: by another rate, with a gap, twice as long."""
    return read_so(recipe.play_reader(seed, **READERS["64 after 64"] | OTHERWISE[how]))
