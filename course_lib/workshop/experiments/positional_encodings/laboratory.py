"""Lesson 05's readers once they are trained: reach, rows met anywhere, rotary's hands, false twins; and memory."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from course_lib.attention.attention import SelfAttention
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.positions import LearnedPositions
from course_lib.data.order import N_SYMBOLS, N_TOKENS, NOT_ASKED, distance, place
from course_lib.inputs.reach import reach
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.positional_encodings.core import (
    LENGTHS,
    SIZES,
    TASKS,
    WIDTH,
    Causal,
    accuracy,
    at_all_lengths,
    kept,
    learn,
    reader,
)

# --- how far a word reaches, before and after training

BEFORE = "before training"
READERS = {BEFORE: ("rotary", None), "three back": ("rotary", distance), "the fifth": ("sinusoidal", place)}


def reach_of(model):
    """How far a change of one word moves what the last of 24 finds: the reach of its attention, and where it peaks."""
    ids, _ = distance(32, 24, generator=torch.Generator().manual_seed(2 * 10**6))

    def look(x):
        return model.attention(x if model.add is None else model.add(x))

    found = reach(look, model.embed(ids).detach())  # (24,), the last place last
    others = found[:-1]  # 23 to 1 places back
    peak = others.argmax()
    return {
        "reach": found,
        "least over most": others.min() / others.max(),
        "peak": 23 - peak,  # places back
        "peak over the rest": others[peak] / others[torch.arange(23) != peak].mean(),
    }


@experiment(each(task=READERS))
def trained_reach(seed, task):
    """How far a change of one of 24 words moves what the last one finds, before training and after it, on each task."""
    scheme, asked = READERS[task]
    model = reader(scheme)
    return reach_of(model if asked is None else learn(model, asked, seed))


# --- rows that no text reached, met through W_q and W_k all the same


class Begun(LearnedPositions):
    """A table of random rows that training leaves alone; a text of the training begins at its first row or anywhere."""

    def __init__(self, anywhere):
        super().__init__(96, 64)
        self.anywhere = anywhere
        self.places.weight.requires_grad_(False)

    def forward(self, x):
        T = x.shape[-2]
        first = int(torch.randint(97 - T, ())) if self.anywhere and self.training else 0
        return x + self.places.weight[first : first + T]


BEGINS = {"texts begin at row 1": False, "texts begin anywhere": True}


@experiment(each(begins=BEGINS))
def untouched_rows(seed, begins):
    """Accuracy on three back by length with a table that is never trained, where texts of 8 to 24 begin in it."""
    model = reader("none")
    model.add = Begun(BEGINS[begins])
    learn(model, distance, seed)
    return {"accuracy": at_all_lengths(model.eval(), distance)}


# --- a trained rotary head, hand by hand

SPEEDS = 10000 ** (-torch.arange(0, 64, 2) / 64)  # (32,), radians a place


@torch.no_grad()
def waves_of(model, offsets: Tensor) -> Tensor:
    """What each hand adds to the mean score of a trained rotary head: offsets (N,) -> (N, 32), key minus query.

    The mean over all pairs of symbols is the score of the mean query and the mean key; a pair is a complex number.
    """
    symbol = model.embed.weight[:N_SYMBOLS].mean(0)  # (64,)
    q, k = (
        torch.view_as_complex(part(symbol).unflatten(0, (32, 2))) for part in (model.attention.w_q, model.attention.w_k)
    )
    return (q.conj() * k * torch.exp(1j * offsets[:, None] * SPEEDS)).real / math.sqrt(64)


@torch.no_grad()
def accuracy_without(model, hidden: Tensor, length=96):
    """A reader's accuracy on three back when no place may look at these offsets: hidden (N,), key minus query."""
    ids, answers = distance(16_000 // length, length, generator=torch.Generator().manual_seed(2 * 10**6 + length))
    places = torch.arange(length)
    seen = ~torch.isin(places - places[:, None], hidden)  # (T, T)
    return (model(ids, seen[None]).argmax(-1) == answers)[:, 3:].float().mean()


def head_of(model):
    """How clearly three back beats the best offset beyond 20, and the accuracy at 96, also with far ones hidden."""
    offsets = torch.arange(-95, 96)
    score, far = waves_of(model, offsets).sum(1), offsets.abs() > 20
    ranked = offsets[far][score[far].argsort(descending=True)]  # (150,), the one most like three back first
    return {
        "lead": score[offsets == -3].item() - score[far].max(),
        "rival": ranked[0],
        "accuracy": accuracy(model, distance, 96),
        "far hidden": accuracy_without(model, ranked),
        "highest 20 hidden": accuracy_without(model, ranked[:20]),
        "lowest 130 hidden": accuracy_without(model, ranked[20:]),
        "strength": waves_of(model, offsets).abs().amax(0),
    }


@experiment(seeds=range(25), cpus=["default"])
def rotary_head(seed):
    """How clearly trained rotary heads prefer three back to far offsets; accuracy at 96, far ones hidden or not."""
    return head_of(learn(reader("rotary"), distance, seed))


# --- rotary's hands, slowed down for longer texts

LONGER = (24, 48, 96, 192)
TURNED = 24 * SPEEDS >= 2 * math.pi  # the five fast hands: in 24 places they go round once or more
WAYS_ON = {
    "left alone": torch.zeros(32, dtype=torch.bool),
    "all hands slower": torch.ones(32, dtype=torch.bool),
    "slow hands only": ~TURNED,
    "fast hands only": TURNED,
}


def turn_by(x: Tensor, speeds: Tensor) -> Tensor:
    """Rotary positions with a speed for each pair: x (B, T, d), speeds (d/2,) radians a place -> as x."""
    angles = torch.arange(x.shape[-2])[:, None] * speeds  # (T, d/2)
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


def slowed(model, task, length, way):
    """The accuracy of a rotary reader when some of its hands turn 24 / length as fast as in training."""
    speeds = torch.where(WAYS_ON[way], SPEEDS * 24 / length, SPEEDS)
    turn, model.attention.turn = model.attention.turn, partial(turn_by, speeds=speeds)
    try:
        return accuracy(model, task, length)
    finally:
        model.attention.turn = turn


def first_marked(batch, length, *, generator=None):
    """At every place, name the first symbol of the text that wears a mark; about four of a text do."""
    ids = torch.randint(N_SYMBOLS, (batch, length), generator=generator)
    marked = torch.rand(batch, length, generator=generator) < 4 / length
    marked[:, 0] |= ~marked.any(1)
    answers = ids.gather(1, marked.int().argmax(1, keepdim=True)).expand(batch, length).clone()
    return ids + N_SYMBOLS * marked, answers


def any_marked(length):
    """What naming the most frequent of a text's marked symbols is worth on the first marked: the best without order."""
    ids, _ = first_marked(16_000 // length, length, generator=torch.Generator().manual_seed(2 * 10**6 + length))
    count = F.one_hot(ids, N_TOKENS)[..., N_SYMBOLS:].sum(1)  # (B, 15): how often each symbol wears a mark
    return (count.amax(1) / count.sum(1)).mean().item()


ASKS = {"three back": distance, "the first marked": first_marked}


def slower_of(model, task):
    """A rotary reader's accuracy by way and length; on three back also how often it names the symbol six back."""
    found = {way: {n: slowed(model, ASKS[task], n, way) for n in LONGER} for way in WAYS_ON}
    if task == "three back":
        found["six back"] = slowed(model, partial(distance, back=6), 48, "all hands slower")
    return found


@experiment(each(task=ASKS))
def slower_hands(seed, task):
    """Accuracy of rotary in texts up to 192 when all, the slow or the fast hands turn slower than in training."""
    return slower_of(learn(reader("rotary"), ASKS[task], seed), task)


# --- where sinusoids look for the fifth, far beyond their training


@torch.no_grad()
def look_far(model):
    """The mean weight that each of 96 places gets from all places that are asked for the fifth: (96,)."""
    ids, _ = place(100, 96, generator=torch.Generator().manual_seed(2 * 10**6))
    return model.attention(model.add(model.embed(ids)))[1][:, 5:].mean((0, 1))


@experiment(seeds=range(60), cpus=["default"])
def fifth_far(seed):
    """Accuracy of sinusoids on the fifth at lengths 48 and 96 over more seeds, and the place that gets weight else."""
    model = learn(reader("sinusoidal"), place, seed)
    weights = look_far(model)
    rival = 24 + weights[24:].argmax()  # among the places that no training text had
    return {
        "accuracy": {n: accuracy(model, place, n) for n in LENGTHS},
        "weights": weights.round(decimals=4),
        "rival": rival,
        "weight on the rival": weights[rival],
    }


# --- what a mask alone is good for


@experiment(each(task=TASKS))
def masked_only(seed, task):
    """Accuracy by length of a reader that is told the order by nothing but a causal mask."""
    return {"accuracy": at_all_lengths(learn(Causal(N_TOKENS, N_SYMBOLS), TASKS[task], seed), TASKS[task])}


def bag_so_far(ids: Tensor, answers: Tensor) -> float:
    """The bag of tokens under a causal mask: the accuracy of naming the most frequent token before each place."""
    asked = (answers != NOT_ASKED)[:, 1:]  # from place 1 on: before place 0 there is none
    before = F.one_hot(ids, N_SYMBOLS).cumsum(1)[:, :-1]  # (B, T - 1, 15): each symbol's count before a place
    share = before.amax(-1) / torch.arange(1, ids.shape[1])
    return share[asked].mean().item()


# --- attention that keeps no table


def attend_in_blocks(q: Tensor, k: Tensor, v: Tensor, size: int = 128) -> Tensor:
    """softmax(q k^T / sqrt(d)) v, a block of keys at a time: q (..., T_q, d), k, v (..., T_k, d) -> (..., T_q, d)."""
    highest = torch.full_like(q[..., :1], -math.inf)  # (..., T_q, 1): the largest score so far
    total, out = torch.zeros_like(highest), torch.zeros_like(q)
    for some_k, some_v in zip(k.split(size, dim=-2), v.split(size, dim=-2), strict=True):
        scores = q @ some_k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (..., T_q, size)
        higher = torch.maximum(highest, scores.amax(-1, keepdim=True))
        weights, shrink = torch.exp(scores - higher), torch.exp(highest - higher)
        total = total * shrink + weights.sum(-1, keepdim=True)
        out = out * shrink + weights @ some_v
        highest = higher
    return out / total


class InBlocks(SelfAttention):
    """Self-attention by blocks of queries and of keys; on the way back each block is computed anew."""

    def forward(self, x):
        q, k, v = self.w_q(x), self.w_k(x), self.w_v(x)
        parts = [checkpoint(attend_in_blocks, part, k, v, use_reentrant=True) for part in q.split(128, dim=-2)]
        return torch.cat(parts, dim=-2)


KERNELS = {
    "the whole table (attend)": partial(SelfAttention, WIDTH),
    "in blocks of 128": partial(InBlocks, WIDTH),
    "PyTorch's fused kernel": partial(MultiHead, WIDTH, 1, bias=False),
}


@experiment(seeds=[0])
def attention_memory(seed):
    """Megabytes that one head of self-attention keeps for the way back, 128 to 8,192 tokens, computed in three ways."""
    found = {name: [kept(make(), n) for n in SIZES] for name, make in KERNELS.items()}
    return {"megabytes": found, "doubled": {name: kept_[-1] / kept_[-2] for name, kept_ in found.items()}}
