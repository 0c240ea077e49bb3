"""Lesson 07's laboratory: stored models, heads that copy, and a loss foretold."""

import math
from contextlib import contextmanager
from functools import cache, partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention.multi_head import MultiHead
from course_lib.attention.norms import RMSNorm
from course_lib.attention.positions import rotate
from course_lib.data import plays, word_tasks
from course_lib.language.gpt import GPT, GPTConfig, parameter_count
from course_lib.language.in_context import accuracy, draw, prompt, read
from course_lib.language.next_token import next_token_loss, three_rounds, windows
from course_lib.recurrent.language_model import bits_per_character
from course_lib.show.record import capture
from course_lib.text.counts import count_bits
from course_lib.train.loop import cosine, fit
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.gpt.core import ASKED, CPU, DRAWS, held_out_bits, reader, smollm2, tokens
from course_lib.workshop.recipes import plays as recipe
from course_lib.workshop.recipes.stored import load

# --- stored models: nothing is trained here

STORED = {one.name: one for one in (recipe.RNN, recipe.LSTM, recipe.GRU, recipe.GPT)}
FILES = [one.file for one in STORED.values()]


@experiment(each(name=STORED), seeds=[0], files=FILES)
def stored_on_plays(seed, name):
    """Bits per character of the stored models on test plays."""
    model = load(STORED[name])[0]
    if name == "plays_gpt":
        return {"bits": held_out_bits(model, "test")}
    return {"bits": bits_per_character(model, tokens("characters", "test"))}


@cache
def middles():
    """Where in the text of the test plays the middle of each of the six stands."""
    text, rows = plays.text("test"), plays.rows("test")
    of = [[row.text for row in rows if row.play == play and len(row.text) > 80] for play in plays.TEST_PLAYS]
    return [text.index(speeches[len(speeches) // 2]) for speeches in of]


def passages(tokenizer, n):
    """One of each test play: tokens of much text before it, then n of the passage, and the characters of those n."""
    text = plays.text("test")
    for at in middles():
        at = text.index("\n", at) + 1
        before, these = (
            torch.as_tensor(tokenizer.encode(part)) for part in (text[at - 3000 : at], text[at : at + 4 * n + 40])
        )
        yield torch.cat([before, these[:n]]), len(tokenizer.decode(these[:n]))


@torch.no_grad()
def bits_by_memory(model, tokenizer, n, memories):
    """Bits per character of the passages, each token read after at least k and fewer than 2 k others, by characters."""
    found = {"remembered": [], "bits": []}
    for k in memories:
        bits, letters = 0.0, 0
        for ids, length in passages(tokenizer, n):
            cuts = ids[-n - k :].unfold(0, 2 * k, k)  # (n / k, 2 k): k to remember, k to guess
            logits = model(cuts[:, :-1])
            logits = (logits[0] if isinstance(logits, tuple) else logits)[:, k - 1 :]
            bits += float(F.cross_entropy(logits.flatten(0, 1), cuts[:, k:].flatten(), reduction="sum")) / math.log(2)
            letters += length
        found["remembered"].append(k * letters / (n * len(middles())))
        found["bits"].append(bits / letters)
    return found


@experiment(seeds=[0], cpus=["default"])
def characters_counted(seed):
    """Bits per character of validation plays by counts of 1, 2, ... 6 characters in a row, of a third of the plays."""
    train, asked = (tokens("characters", part) for part in ("train", "validation"))
    return {"bits": count_bits(train[:1_500_000], asked, len(reader("characters")), 6)}


@experiment(each(name=["RNN", "LSTM", "our GPT", "SmolLM2"]), seeds=[0], files=FILES)
def by_memory(seed, name):
    """Bits per character on test plays where a model's memory is cut to the last k tokens."""
    if name == "SmolLM2":
        return bits_by_memory(*smollm2(), 256, [64, 256])
    if name == "our GPT":
        return bits_by_memory(load(recipe.GPT)[0], reader("pieces"), 256, [2**i for i in range(7)])
    return bits_by_memory(load(STORED[f"plays_{name.lower()}"])[0], reader("characters"), 768, [2**i for i in range(9)])


# --- tasks that stay low


@experiment(cpus=["default"])
def turned_round(seed):
    """Exact answers from French to English, and of words that are reversed letter by letter, behind eight examples."""
    pool, asked = ([(answer, word) for word, answer in word_tasks.pairs("English to French", part)]
                   for part in ("train", "test"))  # fmt: skip
    right = [accuracy(*smollm2(), draw(pool, 8, torch.Generator().manual_seed(1000 * seed + number)),
                      asked[ASKED * number : ASKED * (number + 1)]) for number in range(DRAWS)]  # fmt: skip
    spaced, spaced_asked = ([(" ".join(word), " ".join(answer)) for word, answer in word_tasks.pairs(
        "letters reversed", part)] for part in ("train", "test"))  # fmt: skip
    shown = draw(spaced, 8, torch.Generator().manual_seed(seed))
    return {"French to English": np.mean(right), "with spaces": accuracy(*smollm2(), shown, spaced_asked[:ASKED])}


# --- models that have nothing but heads, on tokens that repeat

KINDS, LONG = 32, 32  # kinds of tokens; length of a text
WIDTHS_OF_LOOKS = {2: 48, 1: 68}  # by layers: about equally many weights


class Looks(nn.Module):
    """Attention and nothing else: an embedding, layers of two heads that are added to it, a read-out."""

    def __init__(self, d_model, n_layers):
        super().__init__()
        self.embed, self.readout = nn.Embedding(KINDS, d_model), nn.Linear(d_model, KINDS, bias=False)
        self.blocks = nn.ModuleList(MultiHead(d_model, 2, bias=False, turn=rotate) for _ in range(n_layers))
        for part in self.blocks.modules():
            if isinstance(part, nn.Linear):
                part.reset_parameters()  # they begin smaller than MultiHead's own would
        self.norms = nn.ModuleList(RMSNorm(d_model) for _ in range(n_layers + 1))

    def forward(self, ids):  # (B, T) -> (B, T, KINDS)
        x = self.embed(ids)
        for norm, look in zip(self.norms, self.blocks, strict=False):
            x = x + look(norm(x), causal=True)
        return self.readout(self.norms[-1](x))


def repeated(n, generator):
    """n texts (n, LONG): 4 to 14 different tokens, drawn anew for each text, over and over again."""
    period = torch.randint(4, 15, (n, 1), generator=generator)
    drawn = torch.rand(n, KINDS, generator=generator).argsort(1)
    return drawn.gather(1, torch.arange(LONG) % period)


def after_the_same(ids):
    """Bool (B, T, T): in the row of a place that looks, which places follow an earlier copy of its own token?"""
    same = ids[:, :, None] == ids[:, None, :]
    return F.pad(same[..., :-1], (1, 0)).tril()  # the looker itself may be the place that follows


@torch.no_grad()
def bits_of_copies(model, ids):
    """Mean -log2 p of the tokens that follow a token which stood there before."""
    bits = F.cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:], reduction="none") / math.log(2)
    return float(bits[after_the_same(ids)[:, :-1].any(-1)].mean())


def heads_that_copy(model, ids):
    """The weight of each head on what follows an earlier copy of the looker's token, where there is one: (L, H)."""
    follows = after_the_same(ids)
    asked = follows.any(-1)  # (B, T)
    with torch.no_grad(), capture(model, "*.weights") as heard:
        getattr(model, "states", model)(ids)  # a large model can spare its read-out
    on_it = [(weights * follows[:, None]).sum(-1) for (weights,) in heard.values()]  # (B, H, T) a layer
    return torch.stack([w.transpose(1, 2)[asked].mean(0) for w in on_it])


@contextmanager
def blind(model, layer, back):
    """In this layer nothing looks at the place `back` places before it: a hook at `weights` sets those to 0."""

    def hide(module, arguments, weights):  # (B, H, T, T)
        return weights * ~torch.ones(weights.shape[-2:], dtype=torch.bool).tril(-back).triu(-back)

    hook = model.blocks[layer].weights.register_forward_hook(hide)
    try:
        yield
    finally:
        hook.remove()


def taught_to_copy(model, seed):
    """Trains it for 260 steps on texts of its own -> bits of copied tokens on the way, and what came of it."""
    generator, judged = torch.Generator().manual_seed(seed), repeated(256, torch.Generator().manual_seed(10_000 + seed))
    batches = iter(lambda: repeated(16, generator), None)
    run = fit(model, batches, next_token_loss, steps=260, lr=8e-3, device=CPU, progress=False,
              watch=lambda step: bits_of_copies(model, judged[:64]), watch_every=26)  # fmt: skip
    steps, bits = zip(*run.watched, strict=True)
    hidden = {}
    for back in (1, 2):
        with blind(model, 0, back):
            hidden[back] = bits_of_copies(model, judged)
    return {"steps": steps, "bits": bits, "hidden": hidden, "best head": heads_that_copy(model, judged)[-1].max()}


@experiment(each(layers=WIDTHS_OF_LOOKS))
def copying(seed, layers):
    """Bits of a token that stood before, in models of heads alone: while learning, and where a place is hidden."""
    return taught_to_copy(Looks(WIDTHS_OF_LOOKS[layers], layers), seed)


# --- the heads of the published model that copy, found and taken out


def random_twice(tokenizer, n, seed, length=30):
    """n texts (n, 1 + 2 length): the mark that begins a text, random tokens, and the same again."""
    drawn = torch.randint(len(tokenizer.specials), len(tokenizer), (n, length),
                          generator=torch.Generator().manual_seed(seed))  # fmt: skip
    start = torch.full((n, 1), tokenizer.specials["<|endoftext|>"])
    return torch.cat([start, drawn, drawn], dim=1)


@contextmanager
def silent(model, gone):
    """These heads, each (layer, head), give nothing: a hook at `weights` hands on zeros, as in lesson 06."""

    def mute(heads, module, arguments, weights):  # weights (B, H, T, T_all)
        return weights * ~torch.isin(torch.arange(weights.shape[1]), torch.tensor(heads))[:, None, None]

    by_layer = {layer: [head for other, head in gone if other == layer] for layer, _ in gone}
    hooks = [model.blocks[layer].attention.weights.register_forward_hook(partial(mute, heads))
             for layer, heads in by_layer.items()]  # fmt: skip
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def as_many_others(gone, seed, number):
    """Other heads, of each layer as many as are gone there."""
    lots, others = np.random.default_rng([seed, number]), []
    for layer in sorted({layer for layer, _ in gone}):
        taken = [head for other, head in gone if other == layer]
        free = [head for head in range(9) if head not in taken]
        others += [(layer, head) for head in lots.permutation(free)[: len(taken)].tolist()]
    return others


@torch.no_grad()
def readings(gone, seed):
    """Bits: a copied random token, right answers after eight examples, a character of plain text."""
    model, tokenizer = smollm2()
    unseen = random_twice(tokenizer, 2, 2000 + seed)
    text = plays.text("test")
    plain = torch.stack([torch.as_tensor(tokenizer.encode(text[at : at + 400]))[:41] for at in middles()])  # (6, 41)
    pool, asked = (word_tasks.pairs("made-up suffix", part) for part in ("train", "test"))
    shown = draw(pool, 8, torch.Generator().manual_seed(seed))
    words, answers = zip(*asked[:8], strict=True)
    with silent(model, gone):
        states = model.states(unseen)[:, 31:-1]  # the second copy, which predicts itself
        again = F.cross_entropy(model.read_out(states).flatten(0, 1), unseen[:, 32:].flatten()) / math.log(2)
        suffix = read(model, tokenizer, [prompt(shown, word) for word in words], answers).bits.mean()
        bits = next_token_loss(model, plain) * plain[:, 1:].numel() / math.log(2)
    letters = sum(len(tokenizer.decode(ids[1:])) for ids in plain)
    return {"random tokens": again, "made-up suffix": suffix, "plain text": bits / letters}


@experiment(cpus=["default"])
def copiers_out(seed):
    """What a published model loses without the eight heads that copy, and without eight others of their layers."""
    model, tokenizer = smollm2()
    score = heads_that_copy(model, random_twice(tokenizer, 2, seed))  # (30, 9)
    again = heads_that_copy(model, random_twice(tokenizer, 2, 1000 + seed))  # other tokens
    copiers = [divmod(i, 9) for i in score.flatten().argsort(descending=True).tolist()][:8]  # (layer, head)
    return {"score": score, "correlation": np.corrcoef(score.flatten(), again.flatten())[0, 1], "copiers": copiers,
            "all heads": readings([], seed), "copiers out": readings(copiers, seed),
            "others out": [readings(as_many_others(copiers, seed, number), seed) for number in range(2)]}  # fmt: skip


# --- is a sixth model's loss foretold by five?

WIDTHS, PLACES = (8, 12, 20, 32, 48, 96), 64  # the last is the sixth, which no fit has seen


@cache
def outside(width):
    """The weights of a model outside the embeddings."""
    config = GPTConfig(len(reader("characters")), PLACES, width, n_heads=2, n_layers=1)
    return parameter_count(config) - (config.vocab_size + PLACES) * width


def straight(x, y):
    """The line nearest to the points, by least squares, as a function."""
    return np.poly1d(np.polyfit(x, y, 1))


@experiment()
def sixth_model(seed):
    """The losses of six GPTs of growing width, and what three formulas fitted to five of them say of the sixth."""
    asked, losses = tokens("characters", "test").unfold(0, PLACES + 1, 500), []  # (rows, PLACES + 1)
    for width in WIDTHS:
        torch.manual_seed(seed)
        model = GPT(GPTConfig(len(reader("characters")), PLACES, width, n_heads=2, n_layers=1))
        fit(model, windows(tokens("characters", "train"), 8, PLACES, seed), next_token_loss, steps=240, lr=0.02,
            schedule=partial(cosine, warmup=20), optimiser=three_rounds, device=CPU, progress=False)  # fmt: skip
        with torch.no_grad():
            losses.append(float(next_token_loss(model, asked)))  # nats
    *n, sixth = (float(outside(width)) for width in WIDTHS)
    logs, log_n = straight(np.log(n), np.log(losses[:-1])), straight(np.log(n), losses[:-1])
    foretold = {"power law": np.exp(logs(np.log(sixth))), "line in log N": log_n(np.log(sixth)),
                "line in N": straight(n, losses[:-1])(sixth), "same as the fifth": losses[-2]}  # fmt: skip
    return {"losses": losses, "exponent": -logs.coeffs[0], "foretold": foretold,
            "miss": {name: abs(value - losses[-1]) for name, value in foretold.items()}}  # fmt: skip
