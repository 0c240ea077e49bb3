"""Lesson 06: the Transformer against lesson 04's translator, what it looks at and leans on, its parts one at a time.

Also what needs no training: how alike words become in untrained blocks, how far they reach, and the speed of a step.
"""

import time
from contextlib import contextmanager
from functools import cache, partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from sacrebleu.metrics import BLEU
from torch import nn

from course_lib.attention.attention import SelfAttention
from course_lib.attention.block import Block, Encoder
from course_lib.attention.positions import LearnedPositions
from course_lib.attention.transformer import PlacedEmbedding, Transformer
from course_lib.data import dates, grammar
from course_lib.data.order import N_SYMBOLS
from course_lib.inputs.reach import reach
from course_lib.recurrent.lstm import LSTM
from course_lib.text.pairs import PADDING, batches, masked_loss
from course_lib.text.tokenizers import WordTokenizer
from course_lib.train.loop import cosine, fit
from course_lib.translation.alignment_error import alignment_scores, either_alignment, hard_alignment, where_gold
from course_lib.translation.decode import exact_match
from course_lib.translation.seq2seq import Seq2Seq
from course_lib.translation.translator import Translator, translation_loss
from course_lib.workshop.experiments import each, experiment

CPU = torch.device("cpu")  # models this small are no faster on a GPU
RACERS = ("GRU with attention", "Transformer")
DEAR = (0, 1, 2)  # the seeds of what takes half a minute or more

# --- the race on lists of dates


@cache
def date_lists():
    """Lists of dates, English and French: what is learned from, what is held out, and the words of each language."""
    train = dates.pairs("train")
    return SimpleNamespace(
        train=train,
        english=WordTokenizer([pair.source for pair in train]),
        french=WordTokenizer([pair.target for pair in train]),
        tests=[dates.pairs("test", n_dates=n, size=250) for n in range(1, 7)],  # lists of 1, 2, ... 6 dates
        looked=dates.pairs("validation", n_dates=4, size=60),  # what the learning curves are made of
        valid=dates.pairs("validation", n_dates=(1, 4), size=200),  # on which layer and head are chosen
        mixed=dates.pairs("test", n_dates=(1, 4), size=400),
    )


def racer(name, reads, writes):
    """One of the two, for so many words read and written."""
    if name == "Transformer":
        return Transformer(reads, writes, d_model=64, n_heads=4, n_layers=2, d_ff=256, pre_norm=True)
    return Seq2Seq(reads, writes, 64, 128, "additive", "gru", bidirectional=True)


def share_right(translator, pairs):
    return exact_match(translator.translate([pair.source for pair in pairs]), [pair.target for pair in pairs])


def watching(translator):
    """For fit: the seconds of training so far, without these looks, and exact match on the lists of `looked`."""
    lost = [0.0]

    def watch(step):
        began = time.thread_time()
        share = share_right(translator, date_lists().looked)
        lost.append(lost[-1] + time.thread_time() - began)
        return began - lost[-2], share

    return watch


STEPS = {"GRU with attention": (750, 50), "Transformer": (900, 100)}  # in all, and of warm-up


def learned(name, seed):
    """Train one of the two -> the translator, and what was watched: (step, (seconds, exact match)) on the way."""
    data, (steps, warmup) = date_lists(), STEPS[name]
    torch.manual_seed(seed)
    translator = Translator(racer(name, len(data.english), len(data.french)), data.english, data.french)
    history = fit(translator.model, batches(translator.ids(data.train), 32, seed), translation_loss, steps=steps,
                  lr=4e-3, schedule=partial(cosine, warmup=warmup), device=CPU, progress=False,
                  watch=watching(translator), watch_every=75)  # fmt: skip
    return translator, history.watched


@experiment(each(model=RACERS), seeds=DEAR)
def date_race(seed, model):
    """A translator learns lists of up to four dates: exact match on the way and after, BLEU, and what it looks at."""
    return measures(*learned(model, seed), seed)


def measures(translator, watched, seed):
    """All that is measured of a translator of dates; what needs many heads of a Transformer alone."""
    (_, (began, _)), *_ = watched
    found = {"seconds": [at - began for _, (at, _) in watched], "share": [share for _, (_, share) in watched]}
    right = [at for at, share in zip(*found.values(), strict=True) if share >= 0.9]
    found |= {"until nine in ten": right[0] if right else float("inf")}
    found |= {"weights": sum(p.numel() for p in translator.model.parameters())}
    found |= translated(translator) | far(translator)
    if isinstance(translator.model, Transformer):
        torch.manual_seed(seed)
        fresh = racer("Transformer", len(translator.reads), len(translator.writes))
        untrained = far(Translator(fresh, translator.reads, translator.writes))
        return found | many_looks(translator) | headless(translator, seed) | {"untrained": untrained}
    return found | {"AER": error_rate(date_lists().mixed, translator.attention(date_lists().mixed))}


def bleu(said, pairs):
    """BLEU of what was said, lists of words, against the right translations."""
    right = [" ".join(pair.target) for pair in pairs]
    return BLEU(tokenize="none", force=True).corpus_score([" ".join(words) for words in said], [right]).score


def translated(translator):
    """Exact match and BLEU of 250 test lists of each number of dates, 1 to 6."""
    tests = date_lists().tests
    said = [translator.translate([pair.source for pair in pairs]) for pairs in tests]
    exact = [exact_match(mine, [pair.target for pair in pairs]) for mine, pairs in zip(said, tests, strict=True)]
    return {"exact": exact, "BLEU": [bleu(mine, pairs) for mine, pairs in zip(said, tests, strict=True)]}


# --- what it looks at


@torch.no_grad()
def all_looks(translator, pairs):
    """The cross-attention of every (layer, head), a list of maps (T, S): one pair, one map."""
    looks = {}
    for place in product(range(2), range(4)):
        translator.model.align = place  # which one the model hands out
        looks[place] = translator.attention(pairs)
    translator.model.align = None
    return looks


def scored(links, pairs):
    gold = [pair.alignment for pair in pairs]
    return alignment_scores(where_gold(links, gold), gold)["AER"]


def error_rate(pairs, weights, reading=hard_alignment):
    return scored([reading(w) for w in weights], pairs)  # hard: each word's best partner


def best_head(translator, pairs, reading=hard_alignment):
    """The error rate of every (layer, head) on these pairs, and which is best."""
    rates = {place: error_rate(pairs, weights, reading) for place, weights in all_looks(translator, pairs).items()}
    return rates, min(rates, key=rates.get)


def many_looks(translator):
    """Alignment error rate of 400 test lists: of the head that was best on other lists, and of the mean of all."""
    mixed = date_lists().mixed
    rates, chosen = best_head(translator, date_lists().valid)
    looks = all_looks(translator, mixed)
    together = list(zip(*looks.values(), strict=True))  # of each pair its eight maps
    tops = [torch.stack([w.argmax(1) for w in many]) for many in together]  # (8, T) each
    apart = torch.cat([(top[a] != top[b]).float() for top in tops for a in range(8) for b in range(a)])
    return {
        "AER of each head": [[rates[layer, head] for head in range(4)] for layer in range(2)],  # on validation lists
        "best head": chosen,
        "AER": error_rate(mixed, looks[chosen]),
        "AER, mean of all": error_rate(mixed, [torch.stack(many).mean(0) for many in together]),
        "apart": apart.mean(),  # how often two heads look at different words
    }


def far(translator):
    """Reach of the last of 28 words in the encoder, from each word, and the size of an embedded word."""
    four_dates, _ = translator.reads.batch([pair.source for pair in dates.pairs("test", n_dates=4, size=16)])
    model = translator.model
    is_transformer = isinstance(model, Transformer)
    embed, reads = (model.source, model.encoder) if is_transformer else (model.encoder.embed, model.encoder.rnn)
    with torch.no_grad():
        vectors = embed(four_dates)  # lists of four dates are equally long: there is no padding
    curve = reach(reads, vectors)
    return {
        "reach": curve,  # (28,)
        "others": curve[:-1].mean() / curve[-1],  # over the word itself
        "far": curve[:8].mean() / curve[-1],  # 20 places back and more
        "embedded": vectors.square().mean().sqrt(),
    }


# --- which heads it leans on

ATTENTIONS = {
    "encoder": "encoder.blocks.{}.attention",
    "decoder": "decoder.blocks.{}.attention",
    "cross": "decoder.blocks.{}.cross",
}
LAYERS = {(place, layer): [(place, layer, head) for head in range(4)] for place, layer in product(ATTENTIONS, range(2))}
EVERY_HEAD = [head for heads in LAYERS.values() for head in heads]
COUNTS = range(0, 25, 3)  # of heads taken out


@contextmanager
def silent(model, *gone):
    """In the block these heads, each (place, layer, head), give nothing: a hook at `weights` hands on zeros."""

    def mute(head, module, arguments, weights):  # weights (B, H, T_q, T_k)
        return weights * (torch.arange(weights.shape[1]) != head)[:, None, None]

    hooks = [
        model.get_submodule(ATTENTIONS[place].format(layer)).weights.register_forward_hook(partial(mute, head))
        for place, layer, head in gone
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def without(translator, gone, batch):
    """Exact match and loss of the translator on the batch while these heads are silent."""
    source, lengths, target_in, target_out = batch
    with silent(translator.model, *gone):
        logits, _ = translator.model(source, lengths, target_in)
    right_words = (logits.argmax(-1) == target_out) | (target_out == PADDING)
    return float(right_words.all(dim=1).float().mean()), float(masked_loss(logits, target_out))


def headless(translator, seed):
    """What is still right on validation lists without one head or four, and on test lists without more and more."""
    valid, judged_on = (next(batches(translator.ids(pairs), 200, 0)) for pairs in
                        (date_lists().valid, date_lists().mixed[:200]))  # fmt: skip
    intact, _ = without(translator, [], valid)
    missed = {head: without(translator, [head], valid) for head in EVERY_HEAD}  # exact match, loss
    least_first = sorted(EVERY_HEAD, key=lambda head: missed[head][1])  # by the loss, finer than a count
    lots = [[EVERY_HEAD[i] for i in np.random.default_rng([seed, draw]).permutation(24)] for draw in range(3)]
    idle_first = [sorted(order, key=lambda head: head[0] != "encoder") for order in lots]  # the rest stays at random

    def pruned(order):
        return [without(translator, order[:count], judged_on)[0] for count in COUNTS]

    def by_layer(measure):
        return {place: [measure(LAYERS[place, layer]) for layer in range(2)] for place in ATTENTIONS}

    return {
        "intact": intact,
        "one out": by_layer(lambda heads: [missed[head][0] for head in heads]),
        "four out": by_layer(lambda heads: without(translator, heads, valid)[0]),
        "best alone": by_layer(
            lambda heads: max(without(translator, [head for head in heads if head != kept], valid)[0] for kept in heads)
        ),
        "encoder out": without(translator, [head for head in EVERY_HEAD if head[0] == "encoder"], valid)[0],
        "missed most": min(exact for exact, _ in missed.values()),  # what is right without that head
        "hardly missed": sum(exact >= intact - 0.05 for exact, _ in missed.values()),
        "chosen": pruned(least_first),
        "random": np.mean([pruned(order) for order in lots], axis=0),
        "encoder first": np.mean([pruned(order) for order in idle_first], axis=0),
    }


# --- sentences of the grammar

PHRASES = {"GRU with attention": (400, 6e-3), "Transformer": (340, 5e-3)}  # steps at budget 1, learning rate


def speaker(name, reads, writes):
    """One of the two, larger than for dates."""
    if name == "Transformer":
        return Transformer(reads, writes, d_model=96, n_heads=4, n_layers=2, pre_norm=True)
    return Seq2Seq(reads, writes, 128, 128, "additive", "gru", bidirectional=True)


@experiment(each(model=RACERS, budget=[1]), seeds=DEAR)
def grammar_race(seed, model, budget):
    """BLEU, exact match and alignment error rate on 300 sentences of the grammar after 400 or 340 steps x budget."""
    train = grammar.pairs("train", min(8000 * budget, 32_000), max_words=8)
    judged, asked = grammar.pairs("validation", 100, max_words=8), grammar.pairs("test", 300, max_words=8)
    reads, writes = (WordTokenizer([pair[side] for pair in train]) for side in (0, 1))
    one, (steps, lr) = Translator(speaker(model, len(reads), len(writes)), reads, writes), PHRASES[model]
    began = time.thread_time()
    fit(one.model, batches(one.ids(train), 32, seed), translation_loss, steps=steps * budget, lr=lr,
        schedule=partial(cosine, warmup=50), device=CPU, progress=False)  # fmt: skip
    seconds = time.thread_time() - began
    said = one.translate([pair.source for pair in asked])
    if model == "Transformer":  # the head is chosen on other sentences
        looks = all_looks(one, asked)[best_head(one, judged, either_alignment)[1]]
    else:
        looks = one.attention(asked)
    return {
        "BLEU": bleu(said, asked),
        "exact": exact_match(said, [pair.target for pair in asked]),
        "AER": error_rate(asked, looks, either_alignment),
        "seconds": seconds,
        "weights": sum(p.numel() for p in one.model.parameters()),
    }


# --- a small table 3: one change at a time, single dates

CHANGES = {
    "as it is: 4 heads": {},
    "1 head": {"n_heads": 1},
    "16 heads": {"n_heads": 16},
    "queries of width 1": {"d_k": 1},
    "dropout 0.1": {"dropout": 0.1},
    "learned positions": {"positions": partial(LearnedPositions, 40)},
    "no positions": {"positions": lambda d: nn.Identity()},
    "norms after": {"pre_norm": False},
}


@experiment(each(change=CHANGES), seeds=DEAR)
def one_change(seed, change):
    """Loss on single validation dates, nats a word, of a small Transformer with one change, after 250 steps."""
    data = date_lists()
    settings = {"d_model": 32, "n_heads": 4, "n_layers": 1, "pre_norm": True} | CHANGES[change]
    one = Translator(Transformer(len(data.english), len(data.french), **settings), data.english, data.french)
    single = one.ids([pair for pair in data.train if len(pair.target) == 4])
    fit(one.model, batches(single, 32, seed), translation_loss, steps=250, lr=6e-3,
        schedule=partial(cosine, warmup=50), device=CPU, progress=False)  # fmt: skip
    held_out = next(batches(one.ids(dates.pairs("validation", n_dates=1, size=400)), 400, 0))
    with torch.no_grad():
        return {"loss": translation_loss(one.model, held_out)}


# --- norm before or after; label smoothing: the easiest task, name the symbol that stands here


class Echo(nn.Module):
    """Embed, go through a stack of blocks, name the symbol at each place: ids (B, T) -> logits (B, T, 15)."""

    def __init__(self, depth, pre_norm, d=32):
        super().__init__()
        self.embed = PlacedEmbedding(N_SYMBOLS, d)
        self.stack = Encoder(d, 2, depth, d_ff=2 * d, pre_norm=pre_norm)
        self.answer = nn.Linear(d, N_SYMBOLS)
        for weight in self.stack.parameters():
            if weight.ndim > 1:
                nn.init.xavier_uniform_(weight)  # as `Transformer` begins

    def forward(self, ids):
        return self.answer(self.stack(self.embed(ids)))


def echo_loss(model, ids, smoothing=0.0):
    return F.cross_entropy(model(ids).flatten(0, 1), ids.flatten(), label_smoothing=smoothing)


def echo_train(model, seed, warmup=0, smoothing=0.0, steps=45, rate=0.015):
    """The loss at each step. No clipping and no schedule but the warm-up: nothing else shall help or hinder."""
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.0, fused=True)
    generator, losses = torch.Generator().manual_seed(seed), []
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / warmup) if warmup else rate
        loss = echo_loss(model, torch.randint(N_SYMBOLS, (16, 16), generator=generator), smoothing)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


DEPTHS = (1, 2, 4, 8, 16)


@experiment(each(norm=["post-norm", "pre-norm"]))
def gradient_at_start(seed, norm):
    """Size of the gradient of W_2, the last matrix of a block, in each block of untrained stacks of 1 to 16 blocks."""
    found = {}
    for depth in DEPTHS:
        model = Echo(depth, norm == "pre-norm")
        echo_loss(model, torch.randint(N_SYMBOLS, (64, 16), generator=torch.Generator().manual_seed(seed))).backward()
        found[depth] = [block.feed_forward.w_2.weight.grad.norm().item() for block in model.stack.blocks]
    last, (low, high) = {depth: by_block[-1] for depth, by_block in found.items()}, (found[16][:4], found[16][-4:])
    return {"last": last, "top over bottom": sum(high) / sum(low)}  # of 16 blocks the four last over the four first


WAYS = {  # blocks, norm before its part, what is set in training
    "post-norm": (6, False, {}),
    "post-norm, warm-up": (6, False, {"warmup": 30}),
    "pre-norm": (6, True, {}),
    "post-norm, a fifth of the rate": (6, False, {"rate": 0.003}),
    "post-norm, two blocks": (2, False, {}),
}


@experiment(each(way=WAYS))
def echoed(seed, way):
    """Loss while a stack of blocks learns to name the symbol that stands there, 45 steps at a high learning rate."""
    depth, pre_norm, settings = WAYS[way]
    losses = echo_train(Echo(depth, pre_norm), seed, **settings)
    return {"losses": losses, "end": np.mean(losses[-10:])}


@experiment(each(smoothing=[0.0, 0.1]))
def sureness(seed, smoothing):
    """How probable a model holds the right symbol after 60 steps with label smoothing, and how often it names it."""
    model = Echo(2, True)
    echo_train(model, seed, smoothing=smoothing, steps=60)
    ids = torch.randint(N_SYMBOLS, (64, 16), generator=torch.Generator().manual_seed(10**6))
    with torch.no_grad():
        p = model(ids).softmax(-1)  # (64, 16, 15)
    return {"probability": p.gather(-1, ids[..., None]).mean(), "accuracy": (p.argmax(-1) == ids).float().mean()}


# --- untrained blocks, and the speed of a step


def alike(x):
    """The mean cosine between two words of a sentence, x (B, T, D): 1 where all are the same."""
    x = F.normalize(x, dim=-1)
    return float((x @ x.transpose(1, 2)).mean() * x.shape[1] - 1) / (x.shape[1] - 1)


@experiment(each(residual=[True, False], attention=[True, False]))
def words_alike(seed, residual, attention):
    """Cosine between words of a random sentence after 1 to 12 untrained blocks, with and without two of their parts."""
    x, found = torch.randn(8, 20, 64), []
    with torch.no_grad():
        for block in [Block.from_sizes(64, 4) for _ in range(12)]:
            if attention:
                x = block.norm_1(residual * x + block.attention(x))
            x = block.norm_2(residual * x + block.feed_forward(x))
            found.append(alike(x))
    return {"cosine": found}


class Bare(nn.Module):
    """A stack with norms after its parts, the residuals taken away: norm(f(x)) for each part f."""

    def __init__(self, stack):
        super().__init__()
        self.stack = stack

    def forward(self, x):
        for block in self.stack.blocks:
            x = block.norm_1(block.attention(x))
            x = block.norm_2(block.feed_forward(x))
        return x


@experiment()
def untrained_reach(seed):
    """How far a change of one of 65 inputs moves the last output of untrained stacks, and of bare ones."""
    embedded = torch.randn(4, 65, 64)  # 4 sequences of 65 vectors
    stacks = {
        "LSTM": LSTM(64, 64),
        "LSTM, six layers": LSTM(64, 64, 6),
        "self-attention, one layer": SelfAttention(64),
        "six blocks, norms after": Encoder(64, 4, 6),
        "six blocks, norms before": Encoder(64, 4, 6, pre_norm=True),
    }
    after = stacks["six blocks, norms after"]
    controls = {"one block": after.blocks[0], "six blocks, no residual": Bare(after)}  # of the same weights
    curves = {name: reach(stack, embedded) for name, stack in (stacks | controls).items()}  # (65,) each
    return {
        name: {
            "reach": curve,
            "first": curve[0],
            "others": curve[:-1].mean(),
            "itself over others": curve[-1] / curve[:-1].mean(),
            "least over most": curve[:-1].min() / curve[:-1].max(),  # of the others
        }
        for name, curve in curves.items()
    }


LENGTHS = (16, 32, 64, 128, 256, 512)
TIMED = {
    "Transformer": lambda: racer("Transformer", 100, 100),
    "GRU, dot-product attention": lambda: Seq2Seq(100, 100, 64, 128, "general", "gru", bidirectional=True),
    "GRU, additive attention": lambda: racer("GRU with attention", 100, 100),
}


def one_step(model, n, words=2048):
    """Seconds of one core for a training step on about 2,048 source words, in sentences of n words."""
    batch = max(1, words // n)
    generator = torch.Generator().manual_seed(n)
    source, target = (torch.randint(4, 100, (batch, n + extra), generator=generator) for extra in (0, 1))
    lengths = torch.full((batch,), n)
    began = time.thread_time()
    translation_loss(model, (source, lengths, target[:, :-1], target[:, 1:])).backward()
    return time.thread_time() - began


@experiment(seeds=DEAR)
def training_speed(seed):
    """Words a second in training, on one core, in sentences of 16 to 512 words: the better of two steps, in turns."""
    models = {name: make() for name, make in TIMED.items()}
    for model in models.values():
        one_step(model, 16)  # the first call also sets things up
    speed = {name: [] for name in models}
    for n in LENGTHS:
        # At 512 words the additive score would take over a gigabyte of memory: there it is left out.
        now = {name: model for name, model in models.items() if n < 512 or "additive" not in name}
        seconds = [{name: one_step(model, n) for name, model in now.items()} for _ in range(2)]
        for name in now:
            speed[name].append(max(1, 2048 // n) * n / min(turn[name] for turn in seconds))
    return speed
