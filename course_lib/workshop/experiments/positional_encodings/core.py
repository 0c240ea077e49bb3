"""Lesson 05: which scheme of positions learns a distance or a place, how far beyond its training, and how."""

import time
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention.attention import SelfAttention, causal_mask
from course_lib.attention.order_model import OrderModel
from course_lib.attention.positions import (
    LearnedPositions,
    RelativeBias,
    SinusoidalPositions,
    alibi_bias,
    clipped_bucket,
    rotate,
    sinusoidal,
    t5_bucket,
)
from course_lib.data.order import N_SYMBOLS, N_TOKENS, NOT_ASKED, distance, endless, place
from course_lib.inputs.reach import reach
from course_lib.recurrent.lstm import LSTM
from course_lib.recurrent.rnn import RNN
from course_lib.train.loop import cosine, fit
from course_lib.workshop.experiments import each, experiment

# --- how far a word reaches before anything is learned


def at_most_8():
    """Self-attention in which no place looks further than eight places away."""
    near = (torch.arange(65)[:, None] - torch.arange(65)).abs() <= 8
    return partial(SelfAttention(64), mask=near[None])


LAYERS = {
    "RNN": partial(RNN, 64, 64),
    "LSTM": partial(LSTM, 64, 64),
    "LSTM, forget bias 4": partial(LSTM, 64, 64, forget_bias=4.0),
    "self-attention": partial(SelfAttention, 64),
    "attention, 8 places at most": at_most_8,
}


@experiment(each(layer=LAYERS))
def fresh_reach(seed, layer):
    """How far a change of one input moves the last of 65 outputs, in fresh recurrent and attention layers."""
    x = torch.randn(16, 65, 64, generator=torch.Generator().manual_seed(seed))
    found = reach(LAYERS[layer](), x)  # (65,), the last place at distance 0
    others = found[:-1]  # 64 to 1 places back
    return {"reach": found, "least over most": others.min() / others.max(), "beyond 8": found[:-9].max()}


# --- the lesson's reader: its schemes, its training, its two tasks

TASKS = {"distance": distance, "place": place}
LENGTHS = (16, 24, 48, 96)  # trained on lengths 8 to 24; two of these are longer
SCHEMES = ("none", "sinusoidal", "learned", "rotary", "T5's bias", "linear bias")


def reader(scheme: str) -> OrderModel:
    """A fresh reader that is told the order in one way; each comes in by one of three doors."""
    parts = {
        "none": dict,
        "sinusoidal": lambda: {"add": SinusoidalPositions(64)},
        "learned": lambda: {"add": LearnedPositions(96, 64)},
        "rotary": lambda: {"turn": rotate},
        "T5's bias": lambda: {"bias": RelativeBias(t5_bucket, n_buckets=32)},
        "linear bias": lambda: {"bias": lambda T: alibi_bias(8, T)[:1]},  # slope 1/2
    }
    return OrderModel(N_TOKENS, N_SYMBOLS, **parts[scheme]())


def loss(model, batch):
    """The mean cross-entropy of what is asked: batch of ids (B, T) and answers (B, T)."""
    ids, answers = batch
    return F.cross_entropy(model(ids).flatten(0, 1), answers.flatten(), ignore_index=NOT_ASKED)


def learn(model, task, seed, shortest=8, longest=24):
    """Train a reader for 400 steps, each on 24 new sequences of one length; gives the reader."""
    batches = endless(task, 24, shortest, longest, seed=seed)
    warm = partial(cosine, warmup=100)
    fit(model, batches, loss, steps=400, lr=8e-3, schedule=warm, device=torch.device("cpu"), progress=False)
    return model


@torch.no_grad()
def accuracy(model, task, length):
    """The share of right answers over 16,000 tokens that no training has seen."""
    ids, answers = task(16_000 // length, length, generator=torch.Generator().manual_seed(2 * 10**6 + length))
    asked = answers != NOT_ASKED
    return (model(ids).argmax(-1) == answers)[asked].float().mean().item()


def at_all_lengths(model, task):
    """The accuracy at each of LENGTHS, by length."""
    return {length: accuracy(model, task, length) for length in LENGTHS}


@experiment(each(task=TASKS, scheme=SCHEMES))
def learned_order(seed, task, scheme):
    """Accuracy at lengths 16 to 96 of a reader with one scheme of positions, trained on one task at lengths 8 to 24."""
    return {"accuracy": at_all_lengths(learn(reader(scheme), TASKS[task], seed), TASKS[task])}


@experiment(seeds=range(25), cpus=["default"])
def rotary_seeds(seed):
    """Accuracy at length 16 of rotary readers on three back, over more seeds: how often one gets stuck."""
    return {"accuracy": accuracy(learn(reader("rotary"), distance, seed), distance, 16)}


@experiment(each(task=TASKS))
def marked_twin(seed, task):
    """Accuracy at length 16 of a reader without positions on the task's twin, where the symbol to name wears a mark."""
    twin = partial(TASKS[task], marked=True)
    return {"accuracy": accuracy(learn(reader("none"), twin, seed), twin, 16)}


# --- what nobody taught: rows of a learned table, T5's buckets


def alike(rows: Tensor) -> Tensor:
    """The cosine of each row with each other: (T, 64) -> (T, T)."""
    return F.normalize(rows, dim=1) @ F.normalize(rows, dim=1).T


def neighbours(rows: Tensor) -> Tensor:
    """The mean cosine of a row with the next one."""
    return alike(rows).diagonal(1).mean()


@torch.no_grad()
def from_places(model, rows: Tensor) -> Tensor:
    """What the places alone give to the scores, P W_q (P W_k)^T / sqrt(64): (T, 64) -> (T, T)."""
    return model.attention.w_q(rows) @ model.attention.w_k(rows).T / 8


def finds(model, rows: Tensor) -> Tensor:
    """The share of places from which the part of the scores that comes from places is highest three back."""
    part = from_places(model, rows)
    return (part.argmax(1)[3:] == torch.arange(len(part) - 3)).float().mean()


def fresh(scheme: str, seed: int) -> OrderModel:
    """The reader as it was before it was trained from this seed."""
    torch.manual_seed(seed)
    return reader(scheme)


def put_back(model, seed, *names):
    """The accuracy of a trained reader after these of its weights got back the values they started with."""
    mixed = fresh("learned", seed)
    kept = {name: value for name, value in model.state_dict().items() if name not in names}
    mixed.load_state_dict(kept, strict=False)
    return accuracy(mixed, distance, 24)


@torch.no_grad()
def rows_of(model, seed):
    """What training did to the table of a reader with learned positions that was trained from this seed."""
    rows, before = model.add.places.weight, fresh("learned", seed).add.places.weight  # (96, 64) each
    moved = (rows - before).norm(dim=1)
    ids, answers = distance(1000, 48, generator=torch.Generator().manual_seed(10**6))
    right = (model(ids).argmax(-1) == answers).float().mean(0)  # (48,)
    return {
        "moved": moved,
        "share moved": (moved[:24] / before[:24].norm(dim=1)).mean(),
        "right up to 24": right[3:24].mean(),
        "right from 28": right[27:].mean(),
        "neighbours": neighbours(rows[:24]),
        "neighbours before": neighbours(before[:24]),
        "rows 1 to 24 find": finds(model, rows[:24]),
        "rows 25 to 48 find": finds(model, rows[24:48]),
        "nothing put back": put_back(model, seed),
        "the table put back": put_back(model, seed, "add.places.weight"),
        "W_q and W_k put back": put_back(model, seed, "attention.w_q.weight", "attention.w_k.weight"),
    }


@experiment()
def learned_rows(seed):
    """How far training on three back moves 96 learned positions, and whether it lies in them or in W_q and W_k."""
    return rows_of(learn(fresh("learned", seed), distance, seed), seed)


# T5's buckets that an asked place meets in a text of 24: the first three are not asked, so no key is 21 ahead
MET = torch.isin(torch.arange(32), t5_bucket(torch.arange(-23, 21)))
AS_IN_T5, ALL_TAUGHT = "32 buckets, as in T5", "16 buckets, all taught"
SET_TO_THE_MEAN = "the same, untaught ones set to the mean"


def with_mean(model):
    """One change to a trained reader with T5's bias: the numbers of untaught buckets become the mean of the others."""
    with torch.no_grad():
        table = model.bias.bias.weight
        table[~MET] = table[MET].mean()
    return model


def buckets_of(model):
    """The accuracy of a reader with T5's bias on three back by length, and the bias of each bucket."""
    return {"accuracy": at_all_lengths(model, distance), "bias": model.bias.bias.weight[:, 0]}


@experiment(each(buckets=[AS_IN_T5, SET_TO_THE_MEAN, ALL_TAUGHT]))
def t5_buckets(seed, buckets):
    """Accuracy on three back by length with T5's bias: as it is, with untaught buckets mended, with fewer buckets."""
    if buckets == ALL_TAUGHT:
        small = partial(t5_bucket, n_buckets=16, max_distance=16)  # every distance's bucket is met
        model = OrderModel(N_TOKENS, N_SYMBOLS, bias=RelativeBias(small, 16))
    else:
        model = reader("T5's bias")
    learn(model, distance, seed)
    return buckets_of(with_mean(model) if buckets == SET_TO_THE_MEAN else model)


# --- left and right, a place as a distance


class Causal(OrderModel):
    """The reader, looking to the left only."""

    def forward(self, ids):
        return super().forward(ids, causal_mask(ids.shape[1])[None])


def either_way():
    """A learned bias that knows how far, not to which side."""
    return RelativeBias(lambda d: d.abs().clamp(max=24), 25)


SIDES = {
    "a number for each distance": lambda: OrderModel(
        N_TOKENS, N_SYMBOLS, bias=RelativeBias(partial(clipped_bucket, max_distance=24), 49)
    ),
    "the same for left and right": lambda: OrderModel(N_TOKENS, N_SYMBOLS, bias=either_way()),
    "the same, causal mask": lambda: Causal(N_TOKENS, N_SYMBOLS, bias=either_way()),
    "a straight line, causal mask": lambda: Causal(N_TOKENS, N_SYMBOLS, bias=lambda T: alibi_bias(8, T)[:1]),
}


@experiment(each(bias=SIDES))
def sides(seed, bias):
    """Accuracy on three back at length 16 where a bias knows left from right, where it does not, and under a mask."""
    model = learn(SIDES[bias](), distance, seed)
    ids, answers = distance(3000, 16, generator=torch.Generator().manual_seed(2 * 10**6))
    with torch.no_grad():
        by_place = (model(ids).argmax(-1) == answers).float().mean(0)  # (16,)
    return {"accuracy": accuracy(model, distance, 16), "by place": by_place, "bias": model.bias(25)[0, 12]}


def at_the_end(batch, length, *, generator=None):
    """The fifth, asked at the last place only."""
    ids, answers = place(batch, length, generator=generator)
    answers[:, :-1] = NOT_ASKED
    return ids, answers


ASKED = {"every place asks": place, "the last place asks": at_the_end}
TRAINED = {"lengths 8 to 24": (8, 24), "length 20": (20, 20)}


@experiment(each(lengths=TRAINED, asked=ASKED))
def constant_distance(seed, lengths, asked):
    """Accuracy of rotary at naming the fifth symbol at length 20, where the fifth is or is not always equally far."""
    return {"accuracy": accuracy(learn(reader("rotary"), ASKED[asked], seed, *TRAINED[lengths]), ASKED[asked], 20)}


# --- a mask that tells the place


def own_place(batch, length, start=True, *, generator=None):
    """Name the place that you stand at, 0 to 14, among random symbols."""
    ids = torch.randint(N_SYMBOLS, (batch, length), generator=generator)
    if start:
        ids[:, 0] = N_SYMBOLS  # a token that stands nowhere else
    places = torch.arange(length).expand(batch, length)
    return ids, places.masked_fill(places >= N_SYMBOLS, NOT_ASKED)


class PlaceReader(OrderModel):
    """Attention without positions, then a small network that names the place."""

    def __init__(self, causal):
        super().__init__(N_TOKENS, 64)
        self.causal, self.after = causal, nn.Sequential(nn.ReLU(), nn.Linear(64, N_SYMBOLS))

    def forward(self, ids):
        return self.after(super().forward(ids, causal_mask(ids.shape[1])[None] if self.causal else None))


@torch.no_grad()
def told(model, ids, steps):
    """The places that the model names while each place has the start token's share of the place `steps` further on."""

    def steer(_module, _inputs, weights):
        share = weights[:, steps:, :1]  # of the places from `steps` on
        rest = weights[:, : share.shape[1], 1:]
        rest = rest * (1 - share) / rest.sum(-1, keepdim=True).clamp(min=1e-9)
        return torch.cat([torch.cat([share, rest], -1), weights[:, share.shape[1] :]], dim=1)

    handle = model.attention.weights.register_forward_hook(steer)
    try:
        return model(ids).argmax(-1)
    finally:
        handle.remove()


CASES = {
    "causal mask, start token": (True, True),
    "causal mask, no start token": (True, False),
    "no mask, start token": (False, True),
}


@experiment(each(case=CASES))
def place_told(seed, case):
    """Accuracy at naming one's own place without positions; with mask and start token also what the answer rests on."""
    causal, start = CASES[case]
    task = partial(own_place, start=start)
    model = learn(PlaceReader(causal), task, seed)
    found = {"accuracy": accuracy(model, task, 16)}
    if causal and start:
        ids, _ = task(1, 15, generator=torch.Generator().manual_seed(3))
        with torch.no_grad():
            found["weight on the start"] = model.attention(model.embed(ids), mask=causal_mask(15)[None])[1][0, :, 0]
        ids, _ = own_place(1000, 15, generator=torch.Generator().manual_seed(2 * 10**6))
        found["shift"] = (told(model, ids, 3) - told(model, ids, 0))[:, 2:10].float().mean()
    return found


# --- what sinusoids say about distance


def peaks_of(model):
    """The share of places from which sinusoids alone make the score three back the highest, by length of the text."""
    return {T: finds(model, sinusoidal(T, 64)) for T in (20, 48, 96)}


@experiment()
def sinusoidal_peaks(seed):
    """From how many places sinusoids, through trained W_q and W_k, look three back in texts of 20, 48 and 96."""
    return peaks_of(learn(reader("sinusoidal"), distance, seed))


# --- three ways to read, timed

SIZES, WIDTH = (128, 256, 512, 1024, 2048, 4096, 8192), 64


class Convolution(nn.Conv1d):
    """A convolution nine tokens wide: (B, T, D) -> (B, T, D)."""

    def __init__(self):
        super().__init__(WIDTH, WIDTH, 9, padding=4)

    def forward(self, x):
        return super().forward(x.transpose(1, 2))


WAYS = {
    "recurrent": partial(RNN, WIDTH, WIDTH),
    "convolution, 9 wide": Convolution,
    "self-attention": partial(SelfAttention, WIDTH),
}


@torch.no_grad()
def seconds(layer, n):
    """Seconds of this thread that a layer takes to read n tokens, forwards."""
    x = torch.randn(1, n, WIDTH)
    began = time.thread_time()
    layer(x)
    return time.thread_time() - began


def kept(layer, n):
    """Megabytes that a layer keeps for the way back, without its weights."""
    held, weights = {}, {weight.untyped_storage().data_ptr() for weight in layer.parameters()}

    def keep(tensor):
        return held.setdefault(tensor.untyped_storage().data_ptr(), tensor)

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        layer(torch.randn(1, n, WIDTH))
    return sum(t.untyped_storage().nbytes() for at, t in held.items() if at not in weights) / 1e6


def slope(values, first):
    """By which power of n the values grow from size number `first` on."""
    return np.polyfit(np.log(SIZES[first:]), np.log(values[first:]), 1)[0]


@experiment()
def reading_cost(seed):
    """Time and memory of three layers that read 128 to 8,192 tokens of width 64 on one core; the best of 3 rounds."""
    layers = {name: make() for name, make in WAYS.items()}
    for layer in layers.values():
        seconds(layer, 512)  # the first call also sets things up
    rounds = [{name: [seconds(layer, n) for n in SIZES] for name, layer in layers.items()} for _ in range(3)]
    times = {name: np.min([one[name] for one in rounds], axis=0) for name in layers}
    memory = {name: [kept(layer, n) for n in SIZES] for name, layer in layers.items()}

    def slopes(of):
        return {name: {SIZES[first]: slope(of[name], first) for first in (0, 3)} for name in of}

    return {"seconds": times, "slope of time": slopes(times), "megabytes": memory, "slope of memory": slopes(memory)}
