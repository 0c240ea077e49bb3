"""Lesson 02: how far gradients reach in fresh networks, which cells learn to recall, and what a stored model uses."""

import math
import time
from functools import partial
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.data import plays
from course_lib.data.long_memory import adding, endless, recall
from course_lib.inputs.reach import reach
from course_lib.recurrent.language_model import CharRNN, bits_per_character
from course_lib.recurrent.lstm import GRU, LSTM, chrono_, lstm_gates
from course_lib.recurrent.rnn import RNN
from course_lib.show.record import capture
from course_lib.text.tokenizers import CharTokenizer
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.recipes import plays as recipe
from course_lib.workshop.recipes.stored import load

# --- fresh networks: what reaches how far before anything is learned

FRESH = {
    "RNN": partial(RNN, 8, 32),
    "LSTM, b = 0": partial(LSTM, 8, 32, forget_bias=0.0),
    "LSTM, b = 1": partial(LSTM, 8, 32, forget_bias=1.0),
    "LSTM, b = 2": partial(LSTM, 8, 32, forget_bias=2.0),
    "LSTM, b = 4": partial(LSTM, 8, 32, forget_bias=4.0),
}


def noise(seed: int, *shape: int) -> Tensor:
    """Normal noise that depends on the seed alone, not on what was drawn before."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


RUN_IN = 400  # steps read before anything is measured: at b = 4 a cell needs some hundred to settle


@experiment(each(cell=FRESH, loud=[1.0, 0.3, 0.1]))
def fresh_reach(seed, cell, loud):
    """Behind a run-in, how far a change of one input moves the last output of a fresh network; input times `loud`."""
    layer, x = FRESH[cell](), loud * noise(seed, 16, RUN_IN + 81, 8)
    with torch.no_grad():
        state = layer(x[:, :RUN_IN])[1]
    return {"reach": reach(lambda last: layer(last, state), x[:, RUN_IN:])}  # (81,), the last place at distance 0


@experiment(each(bias=[0.0, 2.0, 4.0]))
def lane_and_whole(seed, bias):
    """Behind a run-in, at lags 1 to 60: the largest product of forget gates, and the norm of the whole Jacobian."""
    layer, x = LSTM(8, 32, forget_bias=bias).double(), noise(seed, 1, RUN_IN + 61, 8).double()
    with torch.no_grad():
        state = [part.expand(-1, 32, -1) for part in layer(x[:, :RUN_IN])[1]]  # (1, 32, 32) each
    with capture(layer, "cell.0", "forget_gate.0") as maps:
        layer(x[:, RUN_IN:].expand(32, -1, -1), state)  # 32 copies of the sequence
        cells, gates = maps["cell.0"], maps.over_time("forget_gate.0")[0]
        entries = cells[-1].diagonal().sum()  # copy k gives row k: entry k of its c_T
        rows = torch.stack(torch.autograd.grad(entries, cells[:-1]))  # (60, 32, 32), lag 60 first
    return {
        "whole": torch.linalg.matrix_norm(rows, ord=2).flip(0),
        "lane": gates.flip(0).cumprod(0)[:-1].amax(1),
    }


@torch.no_grad()
def lane_and_side(layer, x):
    """What the first input changed in the cell, along the lane and by side roads: x (B, T, D) -> (B, T, H) each.

    Changed: against the same run without the first input. The lane has what it wrote, times the forget gates since.
    """
    with capture(layer, "cell.0", "forget_gate.0") as maps:
        layer(x)
        cells, gates = maps.over_time("cell.0"), maps.over_time("forget_gate.0")
    with capture(layer, "cell.0") as maps:
        layer(x[:, 1:])
    changed = cells - F.pad(maps.over_time("cell.0"), (0, 0, 1, 0))  # without it, the cell is 0 after the first step
    gates[:, 0] = 1
    lane = cells[:, :1] * gates.cumprod(1)
    return lane, changed - lane


@experiment(each(bias=[0.0, 4.0]))
def first_symbol(seed, bias):
    """How much of the first of 25 symbols is in a fresh LSTM's cell, step by step, along the lane and by side roads."""
    model = Recaller(LSTM(16, 30, forget_bias=bias))
    tokens, _ = recall(100, 24, generator=torch.Generator().manual_seed(seed))
    parts = lane_and_side(model.layer, model.embed(tokens).detach())
    wrote = parts[0][:, 0].norm()
    return {name: part.norm(dim=(0, 2)) / wrote for name, part in zip(("lane", "side"), parts, strict=True)}  # (25,)


# --- recall: who can name the first of many symbols


class Recaller(nn.Module):
    """Reads symbols, names one at the end: tokens (B, T) -> scores (B, 8)."""

    def __init__(self, layer, n_tokens=8):
        super().__init__()
        self.embed, self.layer, self.readout = nn.Embedding(n_tokens, 16), layer, nn.Linear(layer.d_hidden, 8)

    def forward(self, tokens):
        return self.readout(self.layer(self.embed(tokens))[0][:, -1])


def learn(model, lag, seed, steps=300, task=recall):
    """Train on a task at one lag -> accuracy on 1,000 new sequences. Stops where a batch is solved."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.0)
    for tokens, answer in islice(endless(task, 32, lag, seed=seed), steps):
        loss = F.cross_entropy(model(tokens), answer)
        if loss < 0.01:
            break
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    tokens, answer = task(1000, lag, generator=torch.Generator().manual_seed(1_000_003 + seed))
    with torch.no_grad():
        return (model(tokens).argmax(-1) == answer).float().mean()


# Of about 6,000 weights each. Under one seed, cells of one shape start with the same weights but for the named bias.
CELLS = {
    "RNN": partial(RNN, 16, 64),
    "LSTM, b = 0": partial(LSTM, 16, 30, forget_bias=0.0),
    "LSTM, b = 2": partial(LSTM, 16, 30, forget_bias=2.0),
    "LSTM, b = 4": partial(LSTM, 16, 30, forget_bias=4.0),
}
GATED = {  # 4.97: where half of a cell is left after 100 steps
    "GRU, b = 4": partial(GRU, 16, 35, update_bias=4.0),
    "GRU, b = 4.97": partial(GRU, 16, 35, update_bias=4.97),
    "LSTM, b = 4.97": partial(LSTM, 16, 30, forget_bias=4.97),
}


@experiment(each(cell=CELLS, lag=[12, 24]) + each(cell=GATED, lag=[24]))
def recalled(seed, cell, lag):
    """Accuracy on recall after 300 steps, of a plain network, LSTMs and GRUs that differ in where their gates start."""
    return {"accuracy": learn(Recaller((CELLS | GATED)[cell]()), lag, seed)}


class Lane(torch.autograd.Function):  # with this class we write both ways ourselves
    """f * c forwards. Backwards, the gradient along the lane is multiplied by `back` in place of f."""

    @staticmethod
    def forward(ctx, c, f, back):
        ctx.save_for_backward(c)
        ctx.back = back
        return f * c

    @staticmethod
    def backward(ctx, grad):
        (c,) = ctx.saved_tensors
        return grad * ctx.back, grad * c, None  # to c, to f, to nothing


class FixedBack(LSTM):
    """An LSTM whose gradient along the cell is multiplied by a fixed `back` at every step; None: by the gates."""

    def __init__(self, d_in, d_hidden, forget_bias, back):
        super().__init__(d_in, d_hidden, forget_bias=forget_bias)
        self.back = back

    def forward(self, x):
        return self.loop(x)

    def step(self, place, x, state, weights):
        h, c = state
        i, f, o, g = lstm_gates(x, h, *weights)
        c = Lane.apply(c, f, f.detach() if self.back is None else self.back) + i * g
        return o * torch.tanh(c), c


HALVES = each(gates=[4.0], back=[0.98, 0.88, 0.5, 0.12, 0.0], steps=[300]) + each(
    gates=[0.0], back=[0.98, 0.5], steps=[300]
)
LONGER = each(gates=[4.0], back=[0.5, 0.0], steps=[900]) + each(gates=[0.0], back=[0.98], steps=[900])


@experiment(HALVES + LONGER)
def halves(seed, gates, back, steps):
    """Accuracy on recall at lag 24 where an LSTM's gates start at a bias, and its gradient is multiplied by `back`."""
    return {"accuracy": learn(Recaller(FixedBack(16, 30, gates, back)), 24, seed, steps)}


# --- the laboratory's variants of recall, and adding


def quiet():
    """A plain network that hears its input ten times more softly."""
    rnn = RNN(16, 64)
    with torch.no_grad():
        rnn.w_x[0].mul_(0.1)
    return rnn


STARTS = {"loud": partial(RNN, 16, 64), "quiet": quiet}


@experiment(each(start=STARTS))
def plain_starts(seed, start):
    """Two starts of a plain network: reach over 18 steps per size of the input weights, and recall at lag 18."""
    model = Recaller(STARTS[start]())
    tokens, _ = recall(32, 18, generator=torch.Generator().manual_seed(seed))
    far = reach(model.layer, model.embed(tokens).detach())[0] / model.layer.w_x[0].norm()
    return {"gradient": far.item(), "accuracy": learn(model, 18, seed)}


OTHERS = {"RNN, quiet": quiet, "GRU, b = 0": partial(GRU, 16, 35, update_bias=0.0)}


@experiment(each(cell=["RNN, quiet"], lag=[12, 24]) + each(cell=["GRU, b = 0"], lag=[24]))
def other_starts(seed, cell, lag):
    """Accuracy on recall after 300 steps: a plain network with a quiet input, a GRU whose update gates start at 0."""
    return {"accuracy": learn(Recaller(OTHERS[cell]()), lag, seed)}


@experiment(each(longest=[6, 48]))
def chrono(seed, longest):
    """Accuracy on recall at lag 24 of an LSTM whose gates start for times of 2 to `longest` steps."""
    return {"accuracy": learn(Recaller(chrono_(LSTM(16, 30), longest)), 24, seed)}


def marked(batch, lag, generator=None, places=1):
    """As many symbols; one of the first `places` has a mark (it is another token, 8 to 15) and is to be named."""
    x, _ = recall(batch, lag, generator=generator)
    row, place = torch.arange(batch), torch.randint(places, (batch,), generator=generator)
    y = x[row, place].clone()
    x[row, place] += 8
    return x, y


@experiment(each(places=[3, 13]))
def marked_recall(seed, places):
    """Accuracy from a forget bias of 0 where one of the first `places` of 13 symbols is marked and to be named."""
    model = Recaller(LSTM(16, 30, forget_bias=0.0), n_tokens=16)
    return {"accuracy": learn(model, 12, seed, task=partial(marked, places=places))}


ADDERS = {"RNN": partial(RNN, 2, 64), "LSTM, b = 0": partial(LSTM, 2, 30, forget_bias=0.0)}


@experiment(each(cell=ADDERS))
def added(seed, cell):
    """Squared error while learning to add two marked ones of 50 numbers: the mean of each 10 of 500 steps."""
    layer, losses = ADDERS[cell](), []
    readout = nn.Linear(layer.d_hidden, 1)
    weights = [*layer.parameters(), *readout.parameters()]
    optimiser = torch.optim.AdamW(weights, lr=1e-2, weight_decay=0.0)
    for x, y in islice(endless(adding, 32, 50, seed=seed), 500):
        loss = F.mse_loss(readout(layer(x)[0][:, -1])[:, 0], y)
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
    return {"curve": torch.tensor(losses).view(50, 10).mean(1)}


# --- gates that do not look at h: a scan in place of a loop


def by_loop(f: Tensor, u: Tensor) -> Tensor:
    """c_t = f_t * c_{t-1} + u_t, one step after the other: f and u (B, T, H) -> all c (B, T, H)."""
    c, cs = torch.zeros_like(u[:, 0]), []
    for f_t, u_t in zip(f.unbind(1), u.unbind(1), strict=True):
        c = f_t * c + u_t
        cs.append(c)
    return torch.stack(cs, dim=1)


def by_scan(f: Tensor, u: Tensor) -> Tensor:
    """The same in log2(T) rounds: each round joins stretches of `n` steps to stretches of 2 `n`, all at once."""
    n = 1
    while n < u.shape[1]:
        u = torch.cat([u[:, :n], u[:, n:] + f[:, n:] * u[:, :-n]], dim=1)  # what a stretch writes
        f = torch.cat([f[:, :n], f[:, n:] * f[:, :-n]], dim=1)  # what a stretch keeps
        n *= 2
    return u


SCANNED = [64, 128, 256, 512, 1024]


@experiment(each(batch=[1], units=[32]) + each(batch=[16], units=[128]))
def scan_speed(seed, batch, units):
    """How many times as fast as the loop the scan is, on one thread, for 64 to 1,024 steps: best of five, in turns."""
    ratios = []
    for length in SCANNED:
        f, u = torch.sigmoid(noise(seed, batch, length, units)), noise(seed + 100, batch, length, units)
        best = {by_loop: math.inf, by_scan: math.inf}
        for run in 5 * [by_loop, by_scan]:
            began = time.thread_time()
            run(f, u)
            best[run] = min(best[run], time.thread_time() - began)
        ratios.append(best[by_loop] / best[by_scan])
    return {"ratio": ratios}


# --- stored models of plays: nothing is trained here

STORED = {"RNN": recipe.RNN, "GRU": recipe.GRU, "LSTM": recipe.LSTM}
FILES = [one.file for one in STORED.values()]
EDGES = [0, 1, 2, 4, 8, 16, 32, 64]
KNOWN = ["1", "2", "3–4", "5–8", "9–16", "17–32", "33–64"]  # characters of the true text


@torch.no_grad()
def bits_late(model, read, asked):
    """Bits for each of the last 64 characters asked for: read and asked (N, 128) -> (N, 64)."""
    logits = torch.cat([model(some)[0][:, 64:] for some in read.split(100)])  # (N, 64, V)
    return F.cross_entropy(logits.transpose(1, 2), asked[:, 64:], reduction="none") / math.log(2)


@experiment(each(cell=STORED), seeds=[0], files=FILES)
def on_plays(seed, cell):
    """Bits per character of a stored cell on test plays, and how many more where the older past is another text's."""
    model, ids = load(STORED[cell])[0], CharTokenizer(plays.text("train")).encode(plays.text("test"))
    pieces = ids[: len(ids) // 129 * 129].view(-1, 129)
    pieces = pieces[torch.linspace(0, len(pieces) - 1, 1000).long()]  # from all of the test plays
    true, asked = pieces[:, :-1], pieces[:, 1:]
    strange = torch.cat([true.roll(500, dims=0)[:, :64], true[:, 64:]], dim=1)  # another past, the same rest
    worth = (bits_late(model, strange, asked) - bits_late(model, true, asked)).mean(0)  # (64,)
    parts = zip(KNOWN, EDGES, EDGES[1:], strict=False)
    return {"bits": bits_per_character(model, ids), "more": {known: worth[a:b].mean() for known, a, b in parts}}


def forget_gates(model, tokens):
    """The forget gates of a character model over a text: tokens (T,) -> (T, H)."""
    with torch.no_grad(), capture(model, "rnn.forget_gate.0") as maps:
        model(tokens[None])
    return maps.over_time("rnn.forget_gate.0")[0].numpy()


@experiment(files=FILES)
def word_ends(seed):
    """How much lower a forget gate stands at ends of words: the unit is chosen on one text, measured on the next."""
    half, tokenizer = 8_000, CharTokenizer(plays.text("train"))
    text = plays.text("test")[50_000 : 50_000 + 2 * half]
    ends = np.array([not character.isalpha() for character in text])  # spaces, line ends, full stops
    first = np.arange(2 * half) < half

    def chosen_and_measured(model):
        gates = forget_gates(model, tokenizer.encode(text))
        chosen, measured = (gates[part & ~ends].mean(0) - gates[part & ends].mean(0) for part in (first, ~first))
        return int(chosen.argmax()), measured[chosen.argmax()]

    trained = load(STORED["LSTM"])[0]
    (unit, fall), (_, fall_untrained) = map(chosen_and_measured, (trained, untrained_like(trained)))
    return {"unit": unit, "fall": fall, "fall, untrained": fall_untrained}


def untrained_like(model):
    """A character model of the same shape as it starts."""
    return CharRNN(model.embed.num_embeddings, LSTM(model.rnn.d_in, model.rnn.d_hidden))
