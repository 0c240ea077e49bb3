"""Lesson 16's controls: a stored generator, plays without marks, other cuts, which layers, first choices, bits."""

import itertools
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.bert.fewer_bits import megabytes, rounded, with_fewer_bits
from course_lib.bert.lean_bert import LeanWords
from course_lib.bert.masked_words import mask_tokens
from course_lib.bert.replaced_words import draw_pieces, replace, replaced_loss
from course_lib.bert.soft_targets import distillation_loss
from course_lib.data import punctuation
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.smaller_bert import core as main
from course_lib.workshop.experiments.smaller_bert.core import (
    HERE,
    STORED,
    THREE,
    TWO,
    guesses,
    half,
    replaced_run,
    teacher,
)
from course_lib.workshop.recipes import smaller_bert as recipe
from course_lib.workshop.recipes.smaller_bert import (
    bits,
    lean,
    marker,
    marks_found,
    masked_rows,
    taught,
    words_loss,
    worth,
)


@experiment(each(generator=["stored"]), seeds=THREE, cpus=HERE, files=STORED)
def cleverer(seed, generator):
    """Marks found after 1,200 steps of replaced words, by one more generator: the stored BERT."""
    return replaced_run(seed, generator)


@cache
def bare_text() -> Tensor:
    """The training plays in pieces, with all marks taken out: (N,)."""
    ids, marks = recipe.text("train"), [recipe.pieces().vocab.index(mark) for mark in punctuation.MARKS[1:]]
    return ids[~torch.isin(ids, torch.tensor(marks))]


def bare_rows(seed: int):
    """Endless stretches of the training plays without their marks, as `recipe.rows` draws them."""
    generator, ids = torch.Generator().manual_seed(seed), bare_text()
    while True:
        at = torch.randint(len(ids) - recipe.ROW, (recipe.BATCH, 1), generator=generator)
        yield ids[at + torch.arange(recipe.ROW)]


@experiment(each(task=["masked", "any piece"]), seeds=THREE, cpus=HERE)
def no_marks_seen(seed, task):
    """Marks found after 1,200 steps on plays without their marks: no task could learn where one stands."""
    body, draws = lean(seed, TWO), torch.Generator().manual_seed(1 + seed)
    if task == "masked":
        model, loss = LeanWords(body), words_loss
        hidden = ((ids, *mask_tokens(ids, recipe.pieces(), draws)) for ids in bare_rows(seed))
        batches = ((read, chosen.flatten().nonzero()[:, 0], ids[chosen]) for ids, read, chosen in hidden)
    else:
        model, loss = main.Discriminator(body), replaced_loss
        places = ((ids, mask_tokens(ids, recipe.pieces(), draws)[1]) for ids in bare_rows(seed))
        batches = (replace(ids, chosen, draw_pieces(guesses(ids, chosen, task), draws)) for ids, chosen in places)
    taught(model, batches, loss, main.STEPS)
    return worth(body, seed)


@experiment(seeds=THREE, cpus=HERE, files=STORED)
def partners(seed):
    """Marks found by other cuts and by untrained models: layer 0 alone, tables under drawn blocks, all drawn."""
    wide = teacher().bert.config.d_model
    drawn, tables = lean(seed, TWO, width=wide), lean(seed, TWO, width=wide)
    for part in ("tokens", "norm", "last_norm"):
        getattr(tables, part).load_state_dict(getattr(teacher().bert, part).state_dict())
    found = {"layer 0 alone": half(seed, "its layers", (0,)).bert, "its tables, blocks drawn": tables,
             "all drawn, half": drawn, "all drawn, as the teacher": lean(seed, width=wide)}  # fmt: skip
    return {name: worth(bert, seed)["places"] for name, bert in found.items()}


@experiment(seeds=THREE, cpus=HERE, files=STORED)
def both_left_out(seed):
    """Marks found by the half that is cut out, fine-tuned, and rounded to four bits; its megabytes."""
    model = with_fewer_bits(marker(half(seed, "its layers").bert, seed), 4)
    return marks_found(model) | {"megabytes": megabytes(model, 4)}


@experiment([{"first": a, "second": b} for a, b in itertools.combinations(range(4), 2)], seeds=THREE, cpus=HERE,
            files=STORED)  # fmt: skip
def two_of_four(seed, first, second):
    """Marks found and bits of hidden pieces of two of the teacher's layers, cut out and fine-tuned for marks alone."""
    model = half(seed, "its layers", (first, second))
    return worth(model.bert, seed) | {"bits": bits(model)}


def at_temperature(master: LeanWords, temperature: float):
    """A loss for `fit`: distillation at this temperature; 0: the teacher's first choice is the label."""

    def loss(model, batch):
        read, places, _ = batch
        with torch.no_grad():
            meant = master(read, places=places)
        if temperature == 0:
            return F.cross_entropy(model(read, places=places), meant.argmax(dim=-1))
        return distillation_loss(model(read, places=places), meant, temperature)

    return loss


@experiment(each(temperature=[0.0]), seeds=THREE, cpus=HERE, files=STORED)
def temperatures(seed, temperature):
    """Marks and bits of half a model with drawn weights, taught at a temperature; 0: by the teacher's first choices."""
    model = half(seed, "drawn")
    steps = main.HALF_STEPS["the teacher"]
    taught(model, masked_rows(seed), at_temperature(teacher(), temperature), steps, recipe.RATE / 2)
    return worth(model.bert, seed) | {"bits": bits(model)}


@experiment(seeds=THREE, cpus=HERE, files=STORED)
def equal_steps(seed):
    """Marks and bits of half a model with drawn weights, by hidden pieces, in as many steps as with a teacher."""
    model = half(seed, "drawn")
    taught(model, masked_rows(seed), words_loss, main.HALF_STEPS["the teacher"], recipe.RATE / 2)
    return worth(model.bert, seed) | {"bits": bits(model)}


@experiment(seeds=[0], cpus=HERE, files=STORED)
def bits_by_bits(seed):
    """Bits of a hidden piece of the stored model with 8 to 2 bits a weight: rows, groups, one scale for a matrix."""
    model, found = teacher(), {}
    found["32"] = {"row": bits(model), "megabytes": megabytes(model)}
    for n in main.BITS:
        small = with_fewer_bits(model, n)
        found[str(n)] = {
            "row": bits(small),
            "group": bits(with_fewer_bits(model, n, main.GROUP)),
            "matrix": bits(one_scale(model, n)),
            "megabytes": megabytes(small, n),
        }
    return found


@torch.no_grad()
def one_scale(model, n):
    """A copy of the model in which each matrix has one scale for all of its rows."""
    twin = with_fewer_bits(model, 8)
    for part, source in zip(twin.modules(), model.modules(), strict=True):
        if isinstance(source, (torch.nn.Linear, torch.nn.Embedding)):
            flat = rounded(source.weight.reshape(1, -1), n)
            part.weight.copy_(flat.view_as(source.weight))
    return twin
