"""Lesson 16's controls and laboratory: cleverer generators, longer training, which layers, temperature, bits."""

import itertools

import torch
import torch.nn.functional as F

from course_lib.bert.soft_targets import distillation_loss
from course_lib.bert.fewer_bits import megabytes, rounded, with_fewer_bits
from course_lib.bert.lean_bert import LeanWords
from course_lib.bert.replaced_words import replaced_loss
from course_lib.experiments import each, experiment
from course_lib.experiments import smaller_bert as main
from course_lib.experiments.smaller_bert import HERE, STORED, TWO, half, replaced_rows, replaced_run, teacher
from course_lib.recipes import smaller_bert as recipe
from course_lib.recipes.smaller_bert import bits, lean, masked_rows, taught, words_loss, worth

THREE = (0, 1, 2)
LONGER = 2 * main.STEPS


@experiment(each(generator=["after the piece before", "stored"]), seeds=THREE, cpus=HERE, files=STORED)
def cleverer(seed, generator):
    """Marks found after 1,200 steps of replaced words, by two more generators: one counts, one is the stored BERT."""
    return replaced_run(seed, generator)


@experiment(each(task=["masked", "by frequency"]), seeds=THREE, cpus=HERE)
def longer(seed, task):
    """Marks found after 1,200 and 2,400 steps of masked or of replaced words, on the way of one run."""
    body = lean(seed, TWO)
    model, loss = (LeanWords(body), words_loss) if task == "masked" else (main.Discriminator(body), replaced_loss)
    batches = masked_rows(seed) if task == "masked" else replaced_rows(seed, task)
    seen = taught(model, batches, loss, LONGER, watch_every=main.STEPS,
                  watch=lambda step: worth(body, seed)["places"] if step else None).watched  # fmt: skip
    return {"places": [found for _, found in seen if found is not None]}


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


@experiment(each(temperature=[0.0, 4.0]), seeds=THREE, cpus=HERE, files=STORED)
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
