"""Lesson 01: how far an input reaches in a recurrent network, what clipping does, and a character model on plays.

Shapes: B batch, T time, H d_hidden, N images.
"""

import copy
import lzma
import math
import re
import time
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.data import digits, plays
from course_lib.data.long_memory import adding
from course_lib.inputs.reach import reach
from course_lib.recurrent.language_model import CharRNN, TruncatedBPTT, bits_per_character, streams
from course_lib.recurrent.rnn import RNN, unroll
from course_lib.show.record import capture
from course_lib.text.counts import count_bits
from course_lib.text.tokenizers import CharTokenizer
from course_lib.train.loop import fit
from course_lib.workshop.experiments.experiment import each, experiment

# --- four letters, and networks that nobody trained


@experiment(each(memory=[True, False]))
def hello(seed, memory):
    """How many of the four targets of "hello" have the highest score: after 100 steps, or after 300 with W_h held at 0.

    Rows 3 and 4 have the same input, so without memory one of their two answers must be wrong.
    """
    ids = torch.tensor(["helo".index(c) for c in "hello"])
    inputs, targets = F.one_hot(ids[:-1], 4).float()[None], ids[1:]  # (1, 4, 4), (4)
    rnn, readout = RNN(4, 3), nn.Linear(3, 4)
    if not memory:
        rnn.w_h[0].requires_grad_(False).zero_()  # no memory, and none to be learned
    weights = [part for part in [*rnn.parameters(), *readout.parameters()] if part.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=0.05)
    for _ in range(100 if memory else 300):
        optimiser.zero_grad()
        F.cross_entropy(readout(rnn(inputs)[0])[0], targets).backward()
        optimiser.step()
    return {"right": int((readout(rnn(inputs)[0])[0].argmax(1) == targets).sum())}


@experiment()
def fresh_reach(seed):
    """What is left of the reach of the nearest input at distance 10, 20 and 40, in an RNN before training."""
    reached = reach(RNN(64, 64), torch.randn(16, 65, 64))  # (65,)
    return {"left": {far: reached[-1 - far] / reached[-1] for far in (10, 20, 40)}}


FURTHEST = 50
SIGMAS = [round(0.5 + 0.1 * n, 1) for n in range(11)]  # 0.5 ... 1.5
KINDS = {"no tanh": (1.0, lambda a: a), "tanh, quiet input": (0.01, torch.tanh), "tanh, loud input": (1.0, torch.tanh)}


def network_of(w_h: Tensor, squash=torch.tanh):
    """A network with W_x = 1 and this W_h (H, H): a function x (B, T, H) -> states (B, T, H)."""

    def read(x):
        h, states = torch.zeros(len(x), len(w_h)), []
        for t in range(x.shape[1]):
            h = squash(x[:, t] + h @ w_h)
            states.append(h)
        return torch.stack(states, dim=1)

    return read


def reaches_by_sigma(sigmas=SIGMAS):
    """Reach at distances 50 to 0 where all singular values of W_h are sigma, (51,) by kind and sigma; mean slopes.

    The slope of tanh is 1 - h^2; its mean is taken at sigma = 1.2, over all states.
    """
    orthogonal = nn.init.orthogonal_(torch.empty(64, 64))
    noise = torch.randn(3, 2 * FURTHEST + 1, 64)
    reaches = {
        (kind, sigma): reach(network_of(sigma * orthogonal, squash), loudness * noise)[FURTHEST:]
        for kind, (loudness, squash) in KINDS.items()
        for sigma in sigmas
    }
    slopes = {
        kind: float(1 - network_of(1.2 * orthogonal)(KINDS[kind][0] * noise).square().mean())
        for kind in KINDS
        if kind != "no tanh"
    }
    return reaches, slopes


@experiment()
def vanishing(seed):
    """The reach left at distance 50, by the singular value of W_h, with and without tanh, with quiet and loud input."""
    reaches, slopes = reaches_by_sigma((0.5, 1.2, 1.5))
    left = {kind: {sigma: curve[0] / curve[-1] for (its, sigma), curve in reaches.items() if its == kind}
            for kind in KINDS}  # fmt: skip
    return {"left": left, "slope": slopes}


@experiment()
def paths(seed):
    """The share of each of 19 steps in the gradient of W_h, from the nearest on; all singular values are 0.9."""
    w_h = nn.init.orthogonal_(torch.empty(64, 64)) * 0.9
    hs = unroll(0.5 * torch.randn(16, 20, 64), torch.zeros(16, 64), torch.eye(64), w_h, torch.zeros(64))
    norms, delta = [], torch.randn(16, 64) * (1 - hs[:, -1] ** 2)
    for t in reversed(range(1, 20)):
        norms.append((hs[:, t - 1].T @ delta).norm())
        delta = delta @ w_h.T * (1 - hs[:, t - 1] ** 2)
    shares = torch.stack(norms) / sum(norms)
    return {"shares": shares, "nearest three": shares[:3].sum()}


# --- clipping

WAYS = {
    "plain": {"clip": None, "lr": 0.1, "sigma": 1.2},
    "clipped at 1": {"clip": 1.0, "lr": 0.1, "sigma": 1.2},
    "steps a tenth as long": {"clip": None, "lr": 0.01, "sigma": 1.2},
    "σ = 0.9": {"clip": None, "lr": 0.1, "sigma": 0.9},
}
SHORT = 5  # so few numbers in place of 50
LOST = 1e6  # beyond this squared error the weights are lost


@experiment([*WAYS.values(), *(way | {"length": SHORT} for way in WAYS.values())])
def descend(seed, clip, lr, sigma, length=50):
    """Squared error in 200 steps of gradient descent on the adding problem, clipped or not, by step length and σ.

    With `SHORT` numbers in place of 50 the same steps show what they can learn.
    """
    rnn, readout = RNN(2, 32), nn.Linear(32, 1)
    with torch.no_grad():
        rnn.w_h[0].mul_(sigma)
        rnn.w_x[0].mul_(0.3)
    weights, losses = [*rnn.parameters(), *readout.parameters()], []
    for _ in range(200):
        x, y = adding(64, length)  # numbers and marks (B, T, 2), the sum of the marked (B,)
        loss = (readout(rnn(x)[0][:, -1])[:, 0] - y).square().mean()
        losses.append(loss.item() if loss < LOST else LOST)  # LOST for one that is no number, too
        if losses[-1] == LOST:
            break
        grads = torch.autograd.grad(loss, weights)
        norm = torch.stack([g.norm() for g in grads]).norm()
        factor = min(1.0, clip / norm) if clip else 1.0  # one factor for all: the direction stays
        with torch.no_grad():
            for w, g in zip(weights, grads, strict=True):
                w -= lr * factor * g
    return {
        "losses": losses,
        "largest": max(losses),
        "late": max(losses[20:], default=LOST),
        "end": sum(losses[-40:]) / 40 if len(losses) == 200 else LOST,
    }


# --- digits, read row by row


class RowReader(nn.Module):
    """Many to one: only the answer after the last row trains the network. Seven more read-outs look on."""

    def __init__(self):
        super().__init__()
        self.rnn = RNN(8, 64)
        self.readouts = nn.ModuleList(nn.Linear(64, 10) for _ in range(8))

    def forward(self, rows):  # (B, 8, 8)
        hs = self.rnn(rows)[0]  # (B, 8, 64)
        hs = torch.cat([hs[:, :-1].detach(), hs[:, -1:]], dim=1)  # no gradient from those that look on
        return torch.stack([read(hs[:, t]) for t, read in enumerate(self.readouts)], dim=1)  # (B, 8, 10)


def scans(split: str) -> tuple[Tensor, Tensor]:
    """Images (N, 8, 8) and labels (N,) of one split."""
    images, labels = digits.arrays(split)
    return torch.from_numpy(images), torch.from_numpy(labels)


def answers_by_row(memory: bool = True) -> Tensor:
    """Probabilities for the test digits after each row: (N, 8, 10); without memory W_h stays 0."""
    reader = RowReader()
    if not memory:
        reader.rnn.w_h[0].requires_grad_(False).zero_()
    optimiser = torch.optim.AdamW(reader.parameters(), lr=5e-3)
    rows, labels = scans("train")
    for _ in range(400):
        batch = torch.randint(len(rows), (64,))
        loss = F.cross_entropy(reader(rows[batch]).flatten(0, 1), labels[batch].repeat_interleave(8))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        return reader(scans("test")[0]).softmax(-1)


def right_after(answers: Tensor) -> Tensor:
    """The share of test digits that is right after each row: (N, 8, 10) -> (8,)."""
    return (answers.argmax(-1) == scans("test")[1][:, None]).float().mean(0)


@experiment(each(memory=[True, False]))
def digit_reader(seed, memory):
    """The share of test digits that an RNN has right after each of eight rows, with its memory and with W_h at 0."""
    return {"right": right_after(answers_by_row(memory))}


class NoTranspose(torch.autograd.Function):
    """`unroll` with the usual mistake in its backward pass."""

    @staticmethod
    def forward(ctx, x, w_x, w_h):
        hs = unroll(x, x.new_zeros(len(x), 64), w_x, w_h, x.new_zeros(64))
        ctx.save_for_backward(x, w_h, hs)
        return hs

    @staticmethod
    def backward(ctx, grad_hs):
        x, w_h, hs = ctx.saved_tensors
        delta, from_later = torch.empty_like(hs), 0
        for t in reversed(range(hs.shape[1])):
            delta[:, t] = (grad_hs[:, t] + from_later) * (1 - hs[:, t] ** 2)
            from_later = delta[:, t] @ w_h  # the transpose is missing
        before = F.pad(hs[:, :-1], (0, 0, 1, 0))
        return None, torch.einsum("bti,btj->ij", x, delta), torch.einsum("bti,btj->ij", before, delta)


@experiment(each(gradient=["right", "no transpose", "none"]))
def transpose(seed, gradient):
    """The reader of digits with the right gradient, without its transpose, and with the recurrent weights as drawn."""
    start, readout = RNN(8, 64), nn.Linear(64, 10)
    w_x, w_h = start.w_x[0], start.w_h[0]
    learning = [*([] if gradient == "none" else [w_x, w_h]), *readout.parameters()]
    optimiser = torch.optim.AdamW(learning, lr=5e-3)

    def states(x):
        if gradient == "no transpose":
            return NoTranspose.apply(x, w_x, w_h)
        return unroll(x, x.new_zeros(len(x), 64), w_x, w_h, x.new_zeros(64))

    (images, labels), (test_images, test_labels) = scans("train"), scans("test")
    for _ in range(400):
        batch = torch.randint(len(images), (64,))
        loss = F.cross_entropy(readout(states(images[batch])[:, -1]), labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        found = readout(states(test_images)[:, -1]).argmax(-1)
    return {"accuracy": (found == test_labels).float().mean()}


# --- the character model on plays


@cache
def characters() -> tuple[CharTokenizer, dict[str, Tensor]]:
    """The tokenizer of the plays, made from the training plays alone, and the ids of each split (N,)."""
    texts = {split: plays.text(split) for split in ("train", "validation", "test")}
    tokenizer = CharTokenizer(texts["train"])
    return tokenizer, {split: tokenizer.encode(text) for split, text in texts.items()}


@experiment(seeds=[0])
def yardsticks(seed):
    """Bits per character on the test plays without a network: uniform, counts of 1, 3 and 6 in a row, and xz."""
    tokenizer, ids = characters()
    counted = count_bits(ids["train"], ids["test"], len(tokenizer), 6)  # of 1, 2, ... 6 characters in a row
    train, test = plays.text("train"), plays.text("test")
    both, alone = (len(lzma.compress(text.encode())) for text in (train + test, train))
    return {
        "uniform": math.log2(len(tokenizer)),
        "unigram": counted[0],
        "trigram": counted[2],
        "6-gram": counted[5],
        "xz": 8 * (both - alone) / len(test),
    }


@experiment()
def plays_model(seed):
    """The character RNN trained on the plays: bits on the test plays, reach, words that exist, a unit, its gradient.

    It is trained as the lesson trains its own, and measured by the functions below, which the lesson calls as well.
    """
    tokenizer, ids = characters()
    model = CharRNN(len(tokenizer), RNN(64, 256))
    fresh = copy.deepcopy(model)

    def look(step):
        return bits_per_character(model, ids["validation"][:33_000], chunk=256)

    history = fit(model, streams(ids["train"], 128, 32), TruncatedBPTT(), steps=750, lr=8e-3,
                  watch=look, watch_every=75, progress=False)  # fmt: skip
    return {
        "bits": bits_per_character(model, ids["test"]),
        "steps": [step for step, _ in history.watched],
        "validation": [value for _, value in history.watched],
        "left at 20": left_at_20(letters_reach(fresh), letters_reach(model)),
        "real words": {temperature: real_words(model, temperature, seed) for temperature in TEMPERATURES},
        "unit": {"trained": following_unit(model)[1], "untrained": following_unit(fresh)[1]},
        "cosine": {"before": direction(fresh), "after": direction(model)},
    }


def letters_reach(network: CharRNN) -> Tensor:
    """Reach of the 65 characters before a prediction, at 64 places of the test plays, each alone: (64, 65)."""
    _, ids = characters()
    rows = ids["test"][: 64 * 10_000].view(64, 10_000)[:, :65].to(network.embed.weight.device)
    return reach(lambda x: network.readout(network.rnn(x)[0]), network.embed(rows).detach(), each=True).cpu()


@experiment()
def fresh_letters(seed):
    """How much more of the reach is left at distance 20 at the furthest of 64 places than at the typical, untrained.

    The network is the one from which `plays_model` starts with this seed.
    """
    curves = letters_reach(CharRNN(len(characters()[0]), RNN(64, 256)))
    left = curves[:, -21] / curves[:, -1]
    return {"furthest over typical": left.max() / left.median()}


def left_at_20(before: Tensor, after: Tensor) -> dict[str, float]:
    """What training changed in the part of the reach that is left at distance 20: curves (64, 65) before and after."""
    before, after = (curves[:, -21] / curves[:, -1] for curves in (before, after))  # of each of the 64 places
    return {
        "typical, factor": float((after.median() / before.median()).log().abs().exp()),
        "furthest, times as much": float(after.max() / before.median()),
        "before, upper over lower": float(before.quantile(0.9) / before.quantile(0.1)),
        "after, upper over lower": float(after.quantile(0.9) / after.quantile(0.1)),
    }


TEMPERATURES = (0.1, 0.3, 0.5, 1.0, 1.5)


def words_of(text: str) -> list[str]:
    """The words of a text, in small letters."""
    return re.findall("[a-z]+", text.lower())


@cache
def vocabulary() -> frozenset[str]:
    """The words of the training plays."""
    return frozenset(words_of(plays.text("train")))


def real_words(model: CharRNN, temperature: float, seed: int) -> float:
    """Share of the words written at this temperature, in 32 samples, that occur in the training plays."""
    tokenizer, _ = characters()
    device = model.embed.weight.device
    prompt = tokenizer.encode("HAMLET.\n")[None].to(device)
    generator = torch.Generator(device).manual_seed(seed)
    lines = model.sample(prompt.expand(32, -1), 150, temperature, generator)[:, prompt.shape[1] :].cpu()
    words = [word for line in lines for word in words_of(tokenizer.decode(line))[1:-1]]  # whole words only
    return sum(word in vocabulary() for word in words) / len(words)


def following_unit(network: CharRNN) -> tuple[int, float]:
    """The unit that goes best with a letter's place in its word, beyond what two letters tell -> unit, |correlation|.

    It is chosen on one half of a held-out text and its correlation measured on the other, among letters only. What the
    letter and the one before it tell is taken away: from both, their mean over all places with the same two letters.
    """
    text, place = plays.text("test")[50_000:90_000], []
    for character in text:
        place.append(min(place[-1] + 1 if place else 1, 8) if character.isalpha() else 0)
    place = np.array(place)
    two = np.array([text[i - 1 : i + 1] for i in range(len(text))])  # a letter and the one before

    def beyond_two(values, at):
        _, group = np.unique(two[at], return_inverse=True)
        total = np.zeros((group.max() + 1, *values.shape[1:]))
        np.add.at(total, group, values)
        return values - (total.T / np.bincount(group)).T[group]

    tokens = characters()[0].encode(text)[None].to(network.embed.weight.device)
    with torch.no_grad(), capture(network, "rnn.hidden.0") as maps:
        network(tokens)
    activity = maps.over_time("rnn.hidden.0")[0].cpu().numpy()  # (T, H)
    first, second = np.flatnonzero(place[:20_000]), 20_000 + np.flatnonzero(place[20_000:])  # letters of either half
    by_unit = np.corrcoef(beyond_two(activity[first], first).T, beyond_two(place[first], first))[-1, :-1]
    unit = int(np.abs(by_unit).argmax())
    followed = np.corrcoef(beyond_two(activity[second, unit], second), beyond_two(place[second], second))[0, 1]
    return unit, abs(float(followed))


# --- truncation

CHUNKS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]


def chunked_gradient(model: CharRNN, chunk: int) -> tuple[Tensor, int, float]:
    """Gradient of the loss over 16 rows of 512 characters, cut every `chunk`; bytes kept for one backward; seconds.

    The seconds are those of a core. Without the read-out: truncation leaves its gradient as it is.
    """
    x, y = (ids.to(model.embed.weight.device) for ids in next(streams(characters()[1]["validation"], 16, 512)))
    model.zero_grad()
    loss_fn, most, began = TruncatedBPTT(), 0, time.thread_time()
    for start in range(0, 512, chunk):
        kept = {}  # storages that autograd holds for the backward pass

        def keep(tensor, kept=kept):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = loss_fn(model, (x[:, start : start + chunk].clone(), y[:, start : start + chunk].clone()))
        for p in model.parameters():  # the weights are there anyway
            kept.pop(p.untyped_storage().data_ptr(), None)
        most = max(most, sum(kept.values()))
        (loss * chunk / 512).backward()
    seconds = time.thread_time() - began
    parts = [p.grad.flatten() for name, p in model.named_parameters() if not name.startswith("readout")]
    model.zero_grad()
    return torch.cat(parts), most, seconds


def direction(model: CharRNN) -> list[float]:
    """Cosine of the gradient in chunks with the full one, by `CHUNKS`."""
    gradients = [chunked_gradient(model, chunk)[0] for chunk in CHUNKS]
    return [float(F.cosine_similarity(gradient, gradients[-1], dim=0)) for gradient in gradients]


@experiment()
def chunk_costs(seed):
    """What a chunk costs, by its length: kilobytes kept for the backward pass, and time over that of one of 512."""
    model = CharRNN(len(characters()[0]), RNN(64, 256))
    rounds = [[chunked_gradient(model, chunk)[1:] for chunk in CHUNKS] for _ in range(3)]  # in turn
    seconds = [min(one[1] for one in of_chunk) for of_chunk in zip(*rounds, strict=True)]  # the quietest of three
    return {"kilobytes": [kept / 1024 for kept, _ in rounds[0]], "time": [one / seconds[-1] for one in seconds]}
