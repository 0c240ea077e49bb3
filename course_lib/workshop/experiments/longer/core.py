"""Lesson 17: who names the value of a key, what a memory is worth to a reader of plays, and what a look costs."""

import math
import time
from dataclasses import replace
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.block import FeedForward
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.positions import rotate
from course_lib.long_context.hashing import HashedHeads
from course_lib.long_context.linear_attention import LinearHeads
from course_lib.long_context.reversible import ReversibleStack
from course_lib.long_context.segments import SegmentReader
from course_lib.long_context.window import LocalHeads
from course_lib.recurrent.language_model import TruncatedBPTT
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.recipes import longer as recipe

HERE = ("default",)  # one instruction set: what was recorded says so

# --- pairs of a key and a value

COUNTS = (1, 2, 4, 8, 16, 32)  # pairs in a row
CORE = tuple(kind for kind in recipe.KINDS if kind != "delta rule")  # which goes place by place, and takes long


@experiment(each(kind=CORE), cpus=HERE)
def keys(seed, kind):
    """The share of keys whose value is named, by the number of pairs in a row of 64, after 600 steps."""
    return answers(recipe.key_reader(seed, kind))


def answers(model: recipe.KeyReader) -> dict:
    """The share that is right, for each number of pairs."""
    return {"right": {str(n): recipe.right_keys(model, n) for n in COUNTS}}


# --- the plays, with a memory and without

# As many seconds for all: what a step costs is measured by `pace`.
READERS = {
    "64 alone": {"segment": 64, "steps": 700},
    "64 after 64": {"segment": 64, "memory": 64, "steps": 580},
    "128 alone": {"segment": 128, "steps": 640},
    "64 alone, places added": {"segment": 64, "relative": False, "steps": 700},
    "64 after 64, places added": {"segment": 64, "memory": 64, "relative": False, "steps": 580},
}
ROWS, LENGTH, BEGIN = 128, 1024, 128  # rows of test plays, characters of each, and the first of them that counts


@experiment(each(trained=READERS), cpus=HERE)
def memory(seed, trained):
    """Bits a character of test plays, by how a reader was trained, and by how it reads: with a memory, or without."""
    return read_so(recipe.play_reader(seed, **READERS[trained]))


def read_so(model: SegmentReader) -> dict:
    """Bits a character by ways to read, and by the place in a segment."""
    ways = {"64 alone": (64, 0), "64 after 64": (64, 64)}
    if model.config.relative:
        ways |= {
            "64 after 64, no farther than 64": (64, 64, 64),
            "64 after 128": (64, 128),
            "128 alone": (128, 0),
            "128 alone, places halved": (128, 0, None, halved),
            "128 alone, larger base": (128, 0, None, partial(rotate, base=LARGER_BASE)),
        }
    found = {
        name: bits_each(reading_as(model, memory, *how), segment) for name, (segment, memory, *how) in ways.items()
    }
    by_place = {name: each_bits.unflatten(1, (-1, ways[name][0])).mean(dim=(0, 1)) for name, each_bits in found.items()}
    return {
        "bits": {name: each_bits.mean() for name, each_bits in found.items()},
        "by place": {name: by_place[name] for name in ("64 alone", "64 after 64", "128 alone") if name in by_place},
    }


@cache
def asked() -> Tensor:
    """Rows of test plays, evenly spread over all of them: (ROWS, LENGTH + 1)."""
    ids = recipe.characters("test")
    return ids.unfold(0, LENGTH + 1, (len(ids) - LENGTH - 1) // (ROWS - 1))[:ROWS]


@torch.no_grad()
def bits_each(model: SegmentReader, segment: int) -> Tensor:
    """-log2 p of each character of `asked` from the 129th on, read in segments one after the other: (ROWS, 896)."""
    state, found, ids = None, [], asked()
    for at in range(0, LENGTH, segment):
        logits, state = model(ids[:, at : at + segment], state)
        found.append(F.cross_entropy(logits.transpose(1, 2), ids[:, at + 1 : at + segment + 1], reduction="none"))
    return torch.cat(found, dim=1)[:, BEGIN:] / math.log(2)


# Where twice the base's slowest turn stays below what was seen, and the fastest turns as before: base 2^(d / (d - 2)).
LARGER_BASE = 10_000.0 * 2 ** (24 / 22)


def halved(x: Tensor, places: Tensor) -> Tensor:
    """Rotary places squeezed into half of the room (Chen et al., 2023, section 2.3, equation 4)."""
    return rotate(x, places / 2)


def reading_as(model: SegmentReader, memory: int, window: int | None = None, turn=None) -> SegmentReader:
    """A twin with the same weights that remembers so many places, looks back over a window, or turns otherwise."""
    twin = SegmentReader(replace(model.config, memory=memory, window=window))
    twin.load_state_dict(model.state_dict())
    for block in twin.blocks if turn else ():
        block.attention.turn = turn
    return twin.eval()


# --- what it costs

LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
LOOKS = {
    "full": partial(MultiHead, 64, 4),
    "window": partial(LocalHeads, 64, 4, 64),
    "buckets": partial(HashedHeads, 64, 4, 1, 64, 64),
    "linear": partial(LinearHeads, 64, 4),
}


@experiment(seeds=[0], cpus=HERE)
def cost(seed):
    """Seconds of one core that one layer of four heads takes to read a row, by its length; measured in turns."""
    layers, found = {name: make() for name, make in LOOKS.items()}, {name: {} for name in LOOKS}
    for T in LENGTHS:
        x, runs = torch.randn(1, T, 64), 3 if T > 2_000 else 9
        for name, seconds in in_turns({name: partial(layer, x) for name, layer in layers.items()}, runs).items():
            found[name][str(T)] = seconds
    return found


def in_turns(calls: dict, runs: int) -> dict:
    """The median of the seconds of a core that each call takes, measured in turns, after one that does not count."""
    taken = {name: [] for name in calls}
    with torch.no_grad():
        for call in calls.values():
            call()
        for _ in range(runs):
            for name, call in calls.items():
                start = time.thread_time()
                call()
                taken[name].append(time.thread_time() - start)
    return {name: sorted(seconds)[len(seconds) // 2] for name, seconds in taken.items()}


@experiment(seeds=[0], cpus=HERE)
def pace(seed):
    """Seconds of one core that a training step takes: readers of plays, readers of pairs, and reversible layers."""
    steps, batch = {}, next(recipe.key_batches(seed))
    for name in CORE:
        model = recipe.KeyReader(name)
        steps[f"pairs, {name}"] = partial(step, model, partial(recipe.key_loss, model, batch))
    for name, how in READERS.items():
        sizes = {key: value for key, value in how.items() if key != "steps"}
        model, loss = recipe.untrained_reader(seed, **sizes), TruncatedBPTT()
        rows = recipe.play_batches(seed, sizes["segment"])
        loss(model, next(rows))  # fills the memory
        steps[f"plays, {name}"] = partial(step, model, partial(loss, model, next(rows)))
    for name, keep in (("all kept", True), ("computed back", False)):
        stack, x = reversible(seed, keep), torch.randn(8, 128, 64)
        steps[f"reversible, {name}"] = partial(step, stack, lambda stack=stack, x=x: stack(x).square().mean())
    return in_turns(steps, 9)


def reversible(seed: int, keep: bool, n_layers: int = 8) -> ReversibleStack:
    """Layers of attention and a feed-forward network, 64 wide, that keep what they read, or compute it back."""
    torch.manual_seed(seed)
    return ReversibleStack([(MultiHead(64, 4), FeedForward(64, 256)) for _ in range(n_layers)], keep)


@torch.enable_grad()
def step(model, loss) -> None:
    """One step of training, without the optimiser's own part."""
    model.zero_grad()
    loss().backward()
