"""Lesson 08: what a loss can copy, what a blank must first find, which side it uses, senses, and frozen states."""

import math
from functools import cache, partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention.block import Block
from course_lib.attention.norms import LayerNorm
from course_lib.bert.bert import Bert, mean_state
from course_lib.bert.masked_words import mask_tokens
from course_lib.bert.pretraining import play_pieces
from course_lib.data import emoji, plays, senses
from course_lib.data.baselines import bag_of_words
from course_lib.language.gpt import GPT, GPTConfig
from course_lib.language.next_token import next_token_loss, three_rounds, windows
from course_lib.text.wordpiece import WordPiece
from course_lib.train import cosine, fit, published
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.recipes import plays as recipe
from course_lib.workshop.recipes.stored import load

CPU = torch.device("cpu")  # models this small are no faster on a GPU
ONE = ("default",)  # where nothing of PyTorch's is trained, another processor changes the last digit only
PLAYS_BERT = [recipe.BERT.file]


@cache
def pieces_of_plays():
    """The tokenizer of 2,000 pieces."""
    return play_pieces(plays.text("train"))


def draws(seed):
    """A generator of its own: what is drawn depends on the seed alone."""
    return torch.Generator().manual_seed(seed)


# --- a model that looks both ways, asked for the next piece

PLACES = 16


class Reader(GPT):
    """Lesson 07's GPT; triangle=False lets every place look at all others."""

    def __init__(self, sizes, triangle):
        super().__init__(sizes)
        self.triangle = triangle

    def forward(self, ids):
        h = self.tokens(ids) + self.places.weight[: ids.shape[1]]  # (B, T, D)
        for block in self.blocks:
            h = block(h, causal=self.triangle)
        return F.linear(self.norm(h), self.tokens.weight)  # (B, T, V)


@torch.no_grad()
def bits_at_places(model, ids, length, n=1_200):
    """-log2 p of the next piece at each place of n windows spread over a whole text, the means: (length,)."""
    rows = ids.unfold(0, length + 1, len(ids) // n)  # (rows, length + 1)
    nats = F.cross_entropy(model(rows[:, :-1]).transpose(1, 2), rows[:, 1:], reduction="none")
    return nats.mean(dim=0) / math.log(2)


def some_of_the_plays():
    """Pieces to learn from, and those of the six plays that are not read."""
    read, unread = plays.text("train")[:1_000_000], plays.text("test")
    return pieces_of_plays().encode(read), pieces_of_plays().encode(unread)


@experiment(each(triangle=[True, False]))
def next_piece(seed, triangle):
    """Bits for the next piece of the test plays at each of sixteen places: a small GPT with its triangle or without."""
    read, unread = some_of_the_plays()
    torch.manual_seed(seed)  # the same weights at first
    model = Reader(GPTConfig(len(pieces_of_plays()), PLACES, d_model=64, n_heads=4, n_layers=1), triangle)
    fit(model, windows(read, 32, PLACES, seed), next_token_loss, steps=200, lr=2e-2,
        schedule=partial(cosine, warmup=20), optimiser=three_rounds, device=CPU, progress=False)  # fmt: skip
    bits = bits_at_places(model, unread, PLACES)
    return {"bits": bits, "in view": bits[:-1].mean(), "last": bits[-1]}


# --- a blank must look first

ROW, STEPS, EVERY = 24, 300, 50
HOW = {
    "next": "every next piece",
    "next, 15 of 100": "15 of 100 next pieces",
    "next, alone": "15 of 100, seeing one piece",
    "hidden": "15 of 100 hidden pieces",
    "hidden, handed": "15 of 100, handed the piece before",
}


class Pupil(nn.Module):
    """Two of lesson 06's blocks: a GPT with the triangle, a BERT without; what else it gets or not, `how` says."""

    def __init__(self, how, n_pieces):
        super().__init__()
        self.tokens, self.places = nn.Embedding(n_pieces, 64), nn.Embedding(ROW, 64)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.02)
        self.norm, self.bias = LayerNorm(64), nn.Parameter(torch.zeros(n_pieces))
        self.blocks, self.how = nn.ModuleList(), how
        self.blocks.extend(Block.from_sizes(64, 4, activation=F.gelu) for _ in range(2))

    def forward(self, ids, places):  # (B, T), (N,) -> (N, V): asked at these places alone
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        if self.how == "hidden, handed":  # each place gets the piece before it, without a look
            x[:, 1:] += self.tokens(ids[:, :-1])
        h = self.norm(x)  # (B, T, 64)
        if self.how == "next, alone":  # each place can look at itself, and nowhere else
            h = h.flatten(0, 1)[:, None]
        for block in self.blocks:
            h = block(h, causal=self.how.startswith("next"))
        return h.flatten(0, 1)[places] @ self.tokens.weight.T + self.bias


def questions(rows, how, generator, **kinds):
    """What is read (B, T), which places are asked (N,), and what stood there (N,); rows (B, T + 1)."""
    if how.startswith("hidden"):
        read, chosen = mask_tokens(rows[:, :-1], pieces_of_plays(), generator, **kinds)
        return read, chosen.flatten().nonzero()[:, 0], rows[:, :-1][chosen]
    chosen = torch.rand(rows[:, 1:].shape, generator=generator) < (1.0 if how == "next" else 0.15)
    return rows[:, :-1], chosen.flatten().nonzero()[:, 0], rows[:, 1:][chosen]


def asked_loss(model, batch):
    """Nats an answer."""
    read, places, answers = batch
    return F.cross_entropy(model(read, places), answers)


@experiment(each(how=HOW))
def pupil(seed, how):
    """Bits a piece that a small GPT or BERT saves against counts of single pieces, on test plays, in 300 steps."""
    pieces = pieces_of_plays()
    train, test = pieces.encode(plays.text("train")), pieces.encode(plays.text("test")[:60_000])
    torch.manual_seed(seed)  # the same first weights for all
    generator, model = draws(seed), Pupil(how, len(pieces))
    batches = (questions(rows, how, generator) for rows in windows(train, 64, ROW, seed))
    if how.startswith("hidden"):  # in the test every hidden piece is a [MASK]
        asked = questions(test.unfold(0, ROW + 1, ROW), how, draws(1), kinds=(1.0, 0.0, 0.0))
    else:
        asked = questions(test[:8_000].unfold(0, ROW + 1, ROW), "next", draws(1))
    shares = (torch.bincount(train, minlength=len(pieces)) + 1) / len(train)
    counted = float(-shares[asked[2]].log2().mean())  # bits of the same answers

    @torch.no_grad()
    def saved(step):
        return counted - asked_loss(model, asked).item() / math.log(2)

    found = fit(model, batches, asked_loss, steps=STEPS, lr=2e-3, schedule=partial(cosine, warmup=50), device=CPU,
                watch=saved, watch_every=EVERY, progress=False)  # fmt: skip
    return {"saved": [bits for _, bits in found.watched], "in the end": found.watched[-1][1]}


# --- the stored BERT: which side of a blank it uses

ROOM = 61  # pieces of a stretch with the hole in its middle
SIDES = ("both sides", "one piece on each side", "left side alone", "right side alone", "neither")


@torch.no_grad()
def hole_bits(model, pieces, left, right, answers):
    """-log2 p of the answer between left (n, l) and right (n, r): (n,). Either may be empty."""
    cls, mask, sep = (torch.full((len(answers), 1), i) for i in (pieces.cls, pieces.mask, pieces.sep))
    ids = torch.cat([cls, left, mask, right, sep], dim=1)
    places = torch.arange(len(ids)) * ids.shape[1] + 1 + left.shape[1]
    scores, _ = model(ids, None, None, places)
    return -scores.log_softmax(-1).gather(1, answers[:, None])[:, 0] / math.log(2)


@experiment(cpus=ONE, files=PLAYS_BERT)
def holes(seed):
    """Bits of a hidden piece for the stored BERT with both sides, one or none in view, and with one piece exchanged."""
    model, pieces, generator, half = load(recipe.BERT)[0], pieces_of_plays(), draws(seed), ROOM // 2
    unread = pieces.encode(plays.text("test"))
    rows, strange = (unread[torch.randint(len(unread) - ROOM, (400, 1), generator=generator) + torch.arange(ROOM)]
                     for _ in range(2))  # fmt: skip
    left, right, nothing, answers = rows[:, :half], rows[:, half + 1 :], rows[:, :0], rows[:, half]
    views = [(left, right), (left[:, -1:], right[:, :1]), (left, nothing), (nothing, right), (nothing, nothing)]
    bits = {side: hole_bits(model, pieces, *view, answers).mean() for side, view in zip(SIDES, views, strict=True)}
    lost = {}
    for d in (-14, -9, -4, -2, -1, 1, 2, 4, 9, 14):  # one piece exchanged, at this distance from the hole
        changed = rows.clone()
        changed[:, half + d] = strange[:, half + d]
        now = hole_bits(model, pieces, changed[:, :half], changed[:, half + 1 :], answers).mean()
        lost[d] = now - bits["both sides"]
    return {"bits": bits, "lost": lost}


# --- the published model: senses, heads, labels


def minilm():
    """The published model and its tokenizer."""
    model = Bert.from_weights(*published.read("minilm")).eval()
    return model, WordPiece(published.fetch("minilm").with_name("vocab.txt"))


def shuffled(bert, number):
    """A copy of a Bert in which the numbers of each matrix stand in another order."""
    generator, twin = draws(number), Bert(bert.config).eval()
    twin.load_state_dict({name: part.flatten()[torch.randperm(part.numel(), generator=generator)].view_as(part)
                          if part.ndim == 2 else part for name, part in bert.state_dict().items()})  # fmt: skip
    return twin


def sense_sentences(pieces):
    """12 words x 8 sentences, read, and where in each its word stands: bool (96, T)."""
    rows = senses.rows()
    read = pieces.batch([row.sentence for row in rows])
    word = torch.tensor([pieces.vocab.index(row.word) for row in rows])
    return read, F.one_hot((read.ids == word[:, None]).int().argmax(dim=1), read.ids.shape[1]).bool()


def agreement(vectors):
    """How often the nearest of a word's other 7 sentences has the same sense: (96, D) -> (12,), a word each."""
    same = torch.arange(8) // 4 == torch.arange(8)[:, None] // 4  # four of each sense
    v = F.normalize(vectors.double(), dim=1).view(12, 8, -1)
    cosine = (v @ v.mT).masked_fill(torch.eye(8, dtype=torch.bool), -2)  # not itself
    nearest = cosine >= cosine.amax(dim=2, keepdim=True) - 1e-9  # several, where they tie
    return ((nearest & same).sum(2) / nearest.sum(2)).mean(1)  # a tie: its expected value


@torch.no_grad()
def by_layer(bert, read, places, ids=None):
    """Agreement in each layer of the mean state at these places, bool (96, T): (layers + 1, 12)."""
    layers = bert.layers(read.ids if ids is None else ids, read.segments, read.mask)
    return torch.stack([agreement((layer * places[..., None]).sum(1)) for layer in layers])


@experiment(cpus=ONE)
def shuffled_senses(seed):
    """How often the nearest sentence has the same sense, by layer, in the published model with shuffled weights."""
    model, pieces = minilm()
    found = by_layer(shuffled(model, seed), *sense_sentences(pieces)).mean(1)
    return {"layers": found, "best": found.max()}


# --- frozen: emoji names, ten draws of the labels

SIZES = (40, 100, 300, 823)  # labelled names; 823 are all of them
SYSTEMS = {
    "real BERT": ("real", -1),
    "its word vectors alone": ("real", 0),
    "weights shuffled": ("random", -1),
    "word vectors shuffled": ("random", 0),
    "bag of words": None,
    "our BERT of the plays": ("plays", -1),
    "ours, weights shuffled": ("plays, random", -1),
}


@torch.no_grad()
def name_states(bert, pieces, texts):
    """The mean state of each text, in every layer: (texts, layers, D). Short texts are read with short ones."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    found = torch.empty(len(texts), len(bert.blocks) + 1, bert.config.d_model)
    for at in range(0, len(order), 64):
        some = order[at : at + 64]
        part = pieces.batch([texts[i] for i in some])
        layers = bert.layers(part.ids, part.segments, part.mask)
        found[some] = torch.stack([mean_state(h, part.mask) for h in layers], dim=1)
    return found.numpy()


def read_out(states, labels):
    """A linear read-out. C was chosen on validation names, of six from 0.001 to 1: from 0.03 on they differ little."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000)).fit(states, labels)


def drawn_names(known, n, seed):
    """Which names are labelled: n of them, drawn anew under each seed."""
    return np.random.default_rng(seed).permutation(len(known))[:n]


def emoji_states(*readers):
    """Known and asked names, and what each reader (bert, pieces) makes of both: two arrays (names, layers, D)."""
    known, asked = emoji.rows("train"), emoji.rows("test")
    texts = [row.name for row in (*known, *asked)]
    return known, asked, [np.split(name_states(*reader, texts), [len(known)]) for reader in readers]


def told_apart(known, asked):
    """Which of the asked names are not close to a known one: no name's words are all in the other's; bool (names,)."""
    words = [set(row.name.lower().split()) for row in known]
    return np.array([not any(one <= other or other <= one for other in words)
                     for one in (set(row.name.lower().split()) for row in asked)])  # fmt: skip


@experiment(seeds=range(10), cpus=ONE, files=PLAYS_BERT)
def emoji_labels(seed):
    """Share of emoji names put into their group, after 40 to 823 labels, from frozen states and from a bag of words."""
    (real, pieces), ours = minilm(), load(recipe.BERT)[0].bert
    readers = {"real": (real, pieces), "random": (shuffled(real, seed), pieces), "plays": (ours, pieces_of_plays()),
               "plays, random": (shuffled(ours, seed), pieces_of_plays())}  # fmt: skip
    known, asked, states = emoji_states(*readers.values())
    states, far = dict(zip(readers, states, strict=True)), told_apart(known, asked)
    groups, truth = (np.array([row.group for row in rows]) for rows in (known, asked))
    found = {}
    for system, how in SYSTEMS.items():
        hits = {}
        for n in SIZES:
            at = drawn_names(known, n, seed)
            if how is None:
                said = bag_of_words([known[i].name for i in at], groups[at], [row.name for row in asked])
            else:
                (learned, new), layer = states[how[0]], how[1]
                said = read_out(learned[at, layer], groups[at]).predict(new[:, layer])
            hits[n] = np.array(said) == truth
        found[system] = {n: hit.mean() for n, hit in hits.items()} | {"100, far": hits[100][far].mean()}
    return found
