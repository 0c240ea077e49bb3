"""Lesson 07: small GPTs and rivals, what stored models know, what examples in a prompt buy, and which heads copy."""

import math
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention.multi_head import MultiHead
from course_lib.attention.norms import RMSNorm
from course_lib.attention.positions import rotate
from course_lib.data import plays, word_tasks
from course_lib.experiments import each, experiment
from course_lib.language.decoder import Decoder, DecoderConfig
from course_lib.language.gpt import GPT, GPTConfig, parameter_count
from course_lib.language.in_context import accuracy, draw, prompt, read, wrong_labels
from course_lib.language.muon import split
from course_lib.language.next_token import bits_per_token, next_token_loss, three_rounds, windows
from course_lib.recipes.stored import load
from course_lib.recurrent.language_model import CharRNN, TruncatedBPTT, bits_per_character, streams
from course_lib.recurrent.rnn import RNN
from course_lib.show.record import capture
from course_lib.text.tokenizers import CharTokenizer
from course_lib.train import published
from course_lib.train.loop import cosine, fit
from course_lib.weights.llama_weights import gguf_tokenizer

CPU = torch.device("cpu")
PIECES = "data/checkpoints/plays_gpt.safetensors"  # holds the 1,000 merges, too
LETTERS = {"train": None, "validation": 20_000, "test": 60_000}  # characters of a split that are read, or all


@cache
def reader(reads: str):
    """The tokenizer of characters, or the stored GPT's: 256 bytes and 1,000 merges."""
    return load("plays_gpt")[1]["tokenizer"] if reads == "pieces" else CharTokenizer(plays.text("train"))


@cache
def tokens(reads: str, part: str) -> Tensor:
    """A split of the plays as tokens (N,), read as characters or as pieces."""
    return reader(reads).encode(plays.text(part)[: LETTERS[part]])


@cache
def smollm2():
    """The published model and its tokenizer."""
    path = published.fetch("smollm2")
    return Decoder.from_gguf(path), gguf_tokenizer(path)


# --- a GPT and a recurrent network, characters and pieces, about equal seconds of one core

STEPS = {("RNN", "characters"): 130, ("RNN", "pieces"): 42, ("GPT", "characters"): 185, ("GPT", "pieces"): 130}
RATES = {("RNN", "characters"): 8e-3, ("RNN", "pieces"): 1.6e-2, ("GPT", "characters"): 2e-2, ("GPT", "pieces"): 2e-2}


def small_model(kind, reads):
    """The RNN or the GPT, for the tokens that it reads."""
    if kind == "RNN":
        return CharRNN(len(reader(reads)), RNN(64, 256))  # lesson 01's
    return GPT(GPTConfig(len(reader(reads)), max_len=32, d_model=64, n_heads=4, n_layers=2))


def held_out_bits(model, reads, part):
    """Bits per character of held-out plays."""
    ids = tokens(reads, part)
    ask = bits_per_token if isinstance(model, GPT) else partial(bits_per_character, n_streams=16, chunk=128)
    return ask(model, ids) * len(ids) / LETTERS[part]


def watching(model, reads):
    """For fit: the seconds of training so far, without these looks, and the bits on validation plays."""
    spent = []  # seconds of this thread when each look began and ended, by turns

    def watch(step):
        spent.append(time.thread_time())
        bits = held_out_bits(model, reads, "validation")
        spent.append(time.thread_time())
        return sum(spent[2::2]) - sum(spent[1:-2:2]), bits

    return watch


@experiment([{"kind": kind, "reads": reads} for kind, reads in STEPS], files=[PIECES])
def in_equal_seconds(seed, kind, reads):
    """Bits per character on held-out plays of a small GPT and an RNN after about equal seconds of training."""
    model, ids, steps = small_model(kind, reads), tokens(reads, "train"), STEPS[kind, reads]
    if kind == "RNN":
        how = {"batches": streams(ids, 128, 32), "loss_fn": TruncatedBPTT(), "schedule": cosine}
    else:
        how = {"batches": windows(ids, 48, 32, seed), "loss_fn": next_token_loss, "optimiser": three_rounds,
               "schedule": partial(cosine, warmup=20)}  # fmt: skip
    run = fit(model, **how, steps=steps, lr=RATES[kind, reads], device=CPU, progress=False,
              watch=watching(model, reads), watch_every=steps // 3)  # fmt: skip
    return told(model, reads, run)


def told(model, reads, run):
    """What the record holds of a training: its looks, and the bits on test plays."""
    seconds, validation = zip(*(seen for _, seen in run.watched), strict=True)
    weights = sum(part.numel() for part in model.parameters())
    return {"test": held_out_bits(model, reads, "test"), "validation": validation, "seconds": seconds,
            "weights": weights}  # fmt: skip


# --- stored models: nothing is trained here

STORED = ("plays_rnn", "plays_lstm", "plays_gru", "plays_gpt")
FILES = [f"data/checkpoints/{name}.safetensors" for name in STORED]


@experiment(each(name=STORED), seeds=[0], files=FILES)
def stored_on_plays(seed, name):
    """Bits per character of the stored models on test plays."""
    model = load(name)[0]
    if name == "plays_gpt":
        return {"bits": held_out_bits(model, "pieces", "test")}
    return {"bits": bits_per_character(model, tokens("characters", "test"))}


AFTER = (120_000, 420_000)  # where in the test plays the passages begin


def passages(tokenizer, n, places):
    """For each passage: tokens of much text before it, then n of the passage itself, and the characters of those n."""
    text = plays.text("test")
    for at in places:
        at = text.index("\n", at) + 1
        before, these = (
            torch.as_tensor(tokenizer.encode(part)) for part in (text[at - 3000 : at], text[at : at + 4 * n + 40])
        )
        yield torch.cat([before, these[:n]]), len(tokenizer.decode(these[:n]))


@torch.no_grad()
def bits_by_memory(model, tokenizer, n, memories, places=AFTER):
    """Bits per character of the passages, each token read after at least k and fewer than 2 k others, by characters."""
    found = {"remembered": [], "bits": []}
    for k in memories:
        bits, letters = 0.0, 0
        for ids, length in passages(tokenizer, n, places):
            cuts = ids[-n - k :].unfold(0, 2 * k, k)  # (n / k, 2 k): k to remember, k to guess
            logits = model(cuts[:, :-1])
            logits = (logits[0] if isinstance(logits, tuple) else logits)[:, k - 1 :]
            bits += float(F.cross_entropy(logits.flatten(0, 1), cuts[:, k:].flatten(), reduction="sum")) / math.log(2)
            letters += length
        found["remembered"].append(k * letters / (n * len(places)))
        found["bits"].append(bits / letters)
    return found


@experiment(each(name=["RNN", "LSTM", "our GPT", "SmolLM2"]), seeds=[0], files=FILES)
def by_memory(seed, name):
    """Bits per character on test plays where a model's memory is cut to the last k tokens."""
    if name == "SmolLM2":
        return bits_by_memory(*smollm2(), 256, [64, 256], AFTER[:1])
    if name == "our GPT":
        return bits_by_memory(load("plays_gpt")[0], reader("pieces"), 256, [2**i for i in range(7)])
    return bits_by_memory(load(f"plays_{name.lower()}")[0], reader("characters"), 768, [2**i for i in range(9)])


# --- examples in the prompt of the published model. The seed draws examples; nothing is trained, so one instruction set

DRAWS, ASKED = 3, 6  # random choices of examples; words asked behind each
ASKED_ABOUT = ("capitals", "antonyms", "made-up suffix")


def another_task(task, n, generator):
    """Examples of the next task on the list: the same form, another relation."""
    other = word_tasks.TASKS[(word_tasks.TASKS.index(task) + 1) % len(word_tasks.TASKS)]
    return draw(word_tasks.pairs(other, "train"), n, generator)


def behind_examples(seed, task, n, show="right answers"):
    """Share of exact answers, and bits of the right one, behind each choice of n examples; each asks other words."""
    pool, asked, found = word_tasks.pairs(task, "train"), word_tasks.pairs(task, "test"), []
    for number in range(DRAWS):
        generator = torch.Generator().manual_seed(1000 * seed + number)
        shown = draw(pool, n, generator)
        if show == "wrong answers":
            shown = wrong_labels(shown, pool, generator)  # an answer of another word of the task
        elif show == "another task's":
            shown = another_task(task, n, generator)
        words, answers = zip(*asked[ASKED * number : ASKED * (number + 1)], strict=True)
        found.append(read(*smollm2(), [prompt(shown, word) for word in words], answers))
    return {"exact": np.mean([float(right.float().mean()) for right, _ in found]),
            "bits": np.mean([float(bits.mean()) for _, bits in found])}  # fmt: skip


@experiment(each(task=word_tasks.TASKS), seeds=[0], cpus=["default"])
def without_examples(seed, task):
    """Exact answers of a published model, and bits of the right one, to 18 words of a task without an example."""
    return behind_examples(seed, task, 0)


EXAMPLES = each(task=ASKED_ABOUT, n=[8], show=["another task's", "wrong answers"])


@experiment(each(task=word_tasks.TASKS, n=[2, 8], show=["right answers"]) + EXAMPLES, cpus=["default"])
def with_examples(seed, task, n, show):
    """Exact answers of a published model, and bits of the right one, to 18 words of a task behind examples."""
    return behind_examples(seed, task, n, show)


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
    passage = torch.as_tensor(tokenizer.encode(plays.text("test")[100_000:101_000]))[:120]
    pool, asked = (word_tasks.pairs("made-up suffix", part) for part in ("train", "test"))
    shown = draw(pool, 8, torch.Generator().manual_seed(seed))
    words, answers = zip(*asked[:8], strict=True)
    with silent(model, gone):
        states = model.states(unseen)[:, 31:-1]  # the second copy, which predicts itself
        again = F.cross_entropy(model.read_out(states).flatten(0, 1), unseen[:, 32:].flatten()) / math.log(2)
        suffix = read(model, tokenizer, [prompt(shown, word) for word in words], answers).bits.mean()
        bits = F.cross_entropy(model(passage[None, :-1])[0], passage[1:], reduction="sum") / math.log(2)
    return {"random tokens": again, "made-up suffix": suffix, "plain text": bits / len(tokenizer.decode(passage[1:]))}


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


# --- fine-tuning: was it a question?

TOLD, MARKED, SHOWN = 120, 200, 24  # texts of each kind to learn and to be asked, and their tokens


class TunedGPT(nn.Module):
    """A GPT with two more tokens, start and end, and W_y on what stands behind the last block at the end."""

    def __init__(self, old, n_classes=2):
        super().__init__()
        self.gpt = GPT(replace(old.config, vocab_size=old.config.vocab_size + 2, dropout=0.0))
        weights = old.state_dict()
        added = self.gpt.tokens.weight.detach()[-2:]  # drawn at random
        weights["tokens.weight"] = torch.cat([weights["tokens.weight"], added])  # (V + 2, D)
        self.gpt.load_state_dict(weights)
        self.w_y = nn.Linear(old.config.d_model, n_classes)

    def forward(self, ids):  # (B, T), the end is last
        with capture(self.gpt, "norm") as seen:
            token_logits = self.gpt(ids)  # (B, T, V + 2)
        return token_logits, self.w_y(seen["norm"][0][:, -1])  # and (B, C)


def tuning_loss(model, batch, lam):
    """L2 + lam L1 (Radford et al., 2018, equation 5); nothing is padded here."""
    ids, labels = batch
    token_logits, class_logits = model(ids)
    return F.cross_entropy(class_logits, labels) + lam * F.cross_entropy(token_logits[:, :-1].mT, ids[:, 1:])


def before_mark(part, n, seed):
    """Speeches without their last mark, (2 n, SHOWN + 2), half of them questions, and which (2 n,)."""
    pieces, generator, kinds = reader("pieces"), torch.Generator().manual_seed(seed), []
    for mark in ".?":
        ends = [r.text[-101:-1] for r in plays.rows(part)
                if r.speaker and len(r.text) > 70 and r.text.endswith(mark) and "[" not in r.text[-160:]]  # fmt: skip
        order = torch.randperm(len(ends), generator=generator).tolist()
        cut_up = (pieces.encode(ends[at])[-SHOWN:] for at in order)
        kinds += islice((ids for ids in cut_up if len(ids) == SHOWN), n)
    first, last = (torch.full((2 * n, 1), len(pieces) + more) for more in (0, 1))
    return torch.cat([first, torch.stack(kinds), last], dim=1), torch.arange(2).repeat_interleave(n)


def told_batches(ids, labels, seed, size=16):
    generator = torch.Generator().manual_seed(seed)
    while True:
        for some in torch.randperm(len(ids), generator=generator).split(size):
            yield ids[some], labels[some]


@experiment(each(lam=[0.0, 0.5]), files=[PIECES])
def fine_tuned(seed, lam):
    """The share of right marks of the stored GPT, fine-tuned on 240 speeches, and its loss on the language after it."""
    model, (ids, labels) = TunedGPT(load("plays_gpt")[0]), before_mark("train", TOLD, seed)
    steps = 3 * len(ids) // 16  # three times through, as in the paper
    fit(model, told_batches(ids, labels, seed), partial(tuning_loss, lam=lam), steps=steps, lr=1e-3,
        schedule=partial(cosine, warmup=steps // 10), device=CPU, progress=False)  # fmt: skip
    asked, answers = before_mark("test", MARKED, 0)  # always the same
    with torch.no_grad():
        token_logits, class_logits = model(asked)
    right = (class_logits.argmax(dim=1) == answers).float().mean()
    return {"right": right, "language": F.cross_entropy(token_logits[:, :-2].mT, asked[:, 1:-1])}


def shuffled_weights(model, seed):
    """The same numbers in every matrix, at other places: nothing that was learned is left but their sizes."""
    generator, copy = torch.Generator().manual_seed(seed), GPT(model.config)
    copy.load_state_dict({
        name: value.flatten()[torch.randperm(value.numel(), generator=generator)].view_as(value) if value.ndim > 1
        else value for name, value in model.state_dict().items()})  # fmt: skip
    return copy.eval()


def linear_right(features, labels, asked_features, answers):
    """The share of right answers of a linear classifier on features (N, F), each brought to one scale."""
    middle, spread = features.mean(dim=0), features.std(dim=0) + 1e-6
    x, asked_x = ((some - middle) / spread for some in (features, asked_features))
    w = torch.zeros(x.shape[1], requires_grad=True)
    optimiser = torch.optim.LBFGS([w], max_iter=50, line_search_fn="strong_wolfe")

    def loss():
        optimiser.zero_grad()
        value = F.binary_cross_entropy_with_logits(x @ w, labels.float()) + 0.1 * w.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    return ((asked_x @ w > 0) == answers.bool()).float().mean()


@torch.no_grad()
def at_last_token(model, ids):
    """Behind the last token of the text: the last block's vector (N, D), and the logits (N, V)."""
    with capture(model, "norm") as seen:
        logits = model(ids[:, 1:-1])
    return seen["norm"][0][:, -1], logits[:, -1]


@experiment(files=[PIECES])
def not_tuned(seed):
    """The share of right marks where no weight of the GPT learns: a linear layer on it or on tokens, or nothing."""
    model, pieces = load("plays_gpt")[0], reader("pieces")
    (ids, labels), (asked, answers) = before_mark("train", TOLD, seed), before_mark("test", MARKED, 0)

    def right(features):
        return linear_right(features(ids), labels, features(asked), answers)

    def which_tokens(some):
        return torch.zeros(len(some), len(pieces)).scatter(1, some[:, 1:-1], 1.0)  # (N, V), 1 where it occurs

    shuffled = shuffled_weights(model, seed)
    question, stop = (int(pieces.encode(mark)[0]) for mark in "?.")
    odds = at_last_token(model, asked)[1]
    odds = odds[:, question] - odds[:, stop]  # log p("?") / p(".")
    return {"frozen, linear layer only": right(lambda some: at_last_token(model, some)[0]),
            "frozen, weights shuffled": right(lambda some: at_last_token(shuffled, some)[0]),
            "bag of tokens, linear": right(which_tokens),
            "no label: p(?) against p(.)": ((odds > odds.median()) == answers.bool()).float().mean()}  # fmt: skip


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


# --- a race of recipes


class PairEmbedding(nn.Embedding):
    """E[token] + P[token before, token]; the first has token 0 before it. ids (B, T) -> (B, T, D)."""

    def __init__(self, vocab_size, d):
        super().__init__(vocab_size, d)
        self.pairs = nn.Embedding(vocab_size**2, d)
        for table in (self, self.pairs):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids):
        before = F.pad(ids[:, :-1], (1, 0))
        return super().forward(ids) + self.pairs(before * self.num_embeddings + ids)


def race_decoder(d=136, layers=1, d_ff=98, pairs=True):
    """The race's model, or what a control puts in its place."""
    model = Decoder(DecoderConfig(len(reader("characters")), 64, d, 4, layers, d_ff))
    if pairs:
        model.embed = PairEmbedding(len(reader("characters")), d)
    return model


def two_rates(model, tables=0.02, matrices=0.004):
    """AdamW with one rate for the matrices inside the blocks, and another for all the rest."""
    inside, rest = (group["params"] for group in split(model))
    groups = [{"params": rest, "lr": tables}, {"params": inside, "lr": matrices}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), weight_decay=0.0, fused=True)


def falling(step, steps):
    """Ten steps up, then a straight line to zero."""
    return min((step + 1) / 11, 1 - step / steps)


def nanogpt():
    """The model of the recipe that is often shown (Karpathy, 2022)."""
    return GPT(GPTConfig(len(reader("characters")), 64, 128, 4, 4, activation="gelu"))


def one_rate(model):
    """That recipe's AdamW; the fused kernel is not in it, and saves it time."""
    return torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)


RACERS = {  # what makes the model, its optimiser, its schedule and steps
    "ours": (race_decoder, two_rates, falling, 360),
    "ours without the table": (partial(race_decoder, pairs=False), two_rates, falling, 360),
    "often shown": (nanogpt, one_rate, partial(cosine, warmup=100), 2000),
}


class Racer:
    """A training that goes on in turns, and knows its seconds of one core."""

    def __init__(self, name, seed):
        make, optimiser, self.schedule, self.steps = RACERS[name]
        torch.manual_seed(seed)
        self.model = make()
        self.optimiser = optimiser(self.model)
        self.rates = [group["lr"] for group in self.optimiser.param_groups]
        self.batches = windows(tokens("characters", "train"), 12, 64, seed)
        self.done, self.seconds, self.curve = 0, 0.0, {"seconds": [], "validation": []}

    def step(self):
        began = time.thread_time()
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * self.schedule(self.done, self.steps)
        self.optimiser.zero_grad()
        next_token_loss(self.model, next(self.batches)).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.done, self.seconds = self.done + 1, self.seconds + time.thread_time() - began

    def look(self):  # not counted
        rows = tokens("characters", "validation").unfold(0, 65, 780)
        self.curve["seconds"].append(self.seconds)
        self.curve["validation"].append(nats(self.model, rows))

    def told(self):
        rows = reader("characters").encode(plays.text("test")[:200_000]).unfold(0, 65, 256)
        weights = sum(part.numel() for part in self.model.parameters())
        return self.curve | {"test": nats(self.model, rows), "trained for": self.seconds, "weights": weights}


@torch.no_grad()
def nats(model, rows):
    """Mean -ln p of a character, windows (rows, 65), all 64 answers of each."""
    return sum(float(next_token_loss(model, some)) * len(some) for some in rows.split(64)) / len(rows)


@experiment(cpus=["default"])
def race(seed):
    """Nats a character of two recipes, one given three times the seconds of the other, and without a table."""
    racers = {name: Racer(name, seed) for name in RACERS}
    ours, bare, shown = racers.values()
    for turn in range(1, 11):  # in turns: whatever else the machine does slows all of them
        while ours.done < 36 * turn:
            ours.step()
            bare.step()
        while shown.seconds < 3 * ours.seconds:
            shown.step()
        for one in racers.values():
            one.look()
    three = tokens("characters", "test").unfold(0, 3, 8)  # two characters, and the one behind them
    with torch.no_grad():
        two = F.cross_entropy(ours.model(three[:, :-1])[:, -1], three[:, -1])
    in_table = ours.model.embed.pairs.weight.numel() / sum(part.numel() for part in ours.model.parameters())
    return {name: one.told() for name, one in racers.items()} | {"two characters": two, "share in the table": in_table}
