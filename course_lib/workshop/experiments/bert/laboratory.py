"""Lesson 08's laboratory: what heads look at, which layer to read, readers that meet late, masks, one-sided tasks."""

import math
from functools import partial
from random import Random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.bert.bert_heads import LayerMix
from course_lib.bert.masked_words import mask_tokens
from course_lib.bert.pretraining import masked_bits
from course_lib.data import emoji, play_tasks, plays
from course_lib.data.baselines import bag_of_words, right
from course_lib.show.record import capture
from course_lib.text.tokenizers import CharTokenizer
from course_lib.train import cosine, fit
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.bert.core import (
    CPU,
    ONE,
    PLAYS_BERT,
    agreement,
    drawn_names,
    draws,
    emoji_states,
    minilm,
    pieces_of_plays,
    read_out,
    sense_sentences,
    shuffled,
)
from course_lib.workshop.recipes import plays as recipe
from course_lib.workshop.recipes.stored import load

# --- what heads look at, and what is missed without them

LOOKS = ("piece before", "piece after", "itself", "same piece", "[CLS], [SEP]")


def census_texts(seed):
    """100 speeches of test plays, the short ones first."""
    some = [row.text for row in plays.rows("test") if row.kind == "speech" and 8 <= len(row.text.split()) <= 20]
    return sorted(Random(seed).sample(some, 100), key=len)


@torch.no_grad()
def census(bert, pieces, texts):
    """Mean share of attention of each kind: (layers, heads, 5), and what a head that looks evenly would give: (5,)."""
    total, even, asked = 0, 0, 0
    for at in range(0, len(texts), 25):
        read = pieces.batch(texts[at : at + 25])
        with capture(bert, "*.attention.weights") as heard:
            bert(*read[:3])
        weights = torch.stack([heard[f"blocks.{layer}.attention.weights"][0] for layer in range(len(bert.blocks))])
        word, T = read.words >= 0, read.ids.shape[1]
        both = word[:, :, None] & word[:, None]  # (B, T, T): from a word to a word
        step = torch.arange(T) - torch.arange(T)[:, None]
        alike = read.ids[:, :, None] == read.ids[:, None]
        special = word[:, :, None] & (read.mask & ~word)[:, None]
        kinds = torch.stack([both & (step == -1), both & (step == 1), both & (step == 0), both & alike & (step != 0),
                             special])  # (5, B, T, T)  # fmt: skip
        there = kinds.any(dim=-1)  # asked only where there is such a piece
        total = total + torch.einsum("lbhij,kbij->lhk", weights, kinds.float())
        even = even + (kinds.sum(-1) / read.mask.sum(1)[:, None]).sum((1, 2))
        asked = asked + there.sum((1, 2))
    return total / asked, even / asked


@experiment(cpus=ONE, files=PLAYS_BERT)
def head_looks(seed):
    """The share of its attention that each head gives to five kinds of pieces, in 100 speeches of test plays."""
    (model, pieces), ours, texts = minilm(), load(recipe.BERT)[0].bert, census_texts(seed)
    found, even = census(model, pieces, texts)
    twin, _ = census(shuffled(model, seed), pieces, texts)
    most = {look: found[..., k].max() for k, look in enumerate(LOOKS)}
    return {"MiniLM": found, "ours, on plays": census(ours, pieces_of_plays(), texts)[0], "even": even, "most": most,
            "specials over even": found[..., 4].mean() / even[4],
            "shuffled, neighbour over even": twin[..., :2].max() / even[:2].max()}  # fmt: skip


def quarters(looks):
    """In each layer the quarter of the heads that looks most at the piece before or after, and that at the specials."""
    groups = {"at the neighbours": looks[..., :2].amax(-1), "at [CLS], [SEP]": looks[..., 4]}
    return {name: [(layer, int(h)) for layer, row in enumerate(part) for h in row.topk(looks.shape[1] // 4).indices]
            for name, part in groups.items()}  # fmt: skip


def drawn_others(bert, groups, random):
    """As many heads of each layer that are in neither group."""
    taken, heads = set().union(*groups.values()), range(bert.config.n_heads)
    return [(layer, h) for layer in range(bert.config.n_layers)
            for h in random.sample([h for h in heads if (layer, h) not in taken], len(heads) // 4)]  # fmt: skip


@torch.no_grad()
def judged_without(bert, gone, judge):
    """What `judge()` says while these heads are silent: the columns of W_o that read them are 0."""
    kept = [block.attention.w_o.weight.clone() for block in bert.blocks]
    width = bert.config.d_model // bert.config.n_heads
    for layer, h in gone:
        bert.blocks[layer].attention.w_o.weight[:, h * width : (h + 1) * width] = 0
    said = judge()
    for block, weight in zip(bert.blocks, kept, strict=True):
        block.attention.w_o.weight.copy_(weight)
    return said


@experiment(cpus=ONE)
def heads_out(seed):
    """Senses that the published model finds with a quarter of the heads of each layer taken out, by where they look."""
    (model, pieces), random = minilm(), Random(seed)
    read, is_word = sense_sentences(pieces)
    looks, _ = census(model, pieces, census_texts(seed))
    groups, before = quarters(looks), looks[..., 0]

    def without(gone):
        return judged_without(model, gone, lambda: float(agreement(model(*read[:3])[is_word]).mean()))

    clearest = tuple(int(i) for i in np.unravel_index(int(before.argmax()), before.shape))
    left = {"none": without([])} | {name: without(gone) for name, gone in groups.items()}
    others = [without(drawn_others(model, groups, random)) for _ in range(5)]
    return {"left": left, "others": others, "mean of others": float(np.mean(others)),
            "the clearest": without([clearest]), "none, afterwards": without([])}  # fmt: skip


@experiment(cpus=ONE, files=PLAYS_BERT)
def ours_out(seed):
    """Bits of a hidden piece for the stored BERT without the heads that look at a neighbour, and without others."""
    model, pieces = load(recipe.BERT)[0], pieces_of_plays()
    look = census(model.bert, pieces, census_texts(seed))[0][..., :2].amax(-1)  # (layers, heads)
    clear = [tuple(at) for at in (look >= 0.5).nonzero().tolist()]  # they look at one neighbour
    heads = range(model.bert.config.n_heads)
    beside = [(layer, h) for layer in {layer for layer, _ in clear} for h in heads if (layer, h) not in clear]
    ids = pieces.encode(plays.text("test")[:40_000])

    def without(gone):
        return judged_without(model.bert, gone, lambda: masked_bits(model, ids, pieces, seed))

    return {"none": without([]), "one of the two": max(without([head]) for head in clear),
            "both that look at a neighbour": without(clear),
            "the two others of that layer": without(beside)}  # fmt: skip


# --- which layer to read

TAKE = {
    "word vectors (layer 0)": lambda h: h[:, 0],
    **{f"layer {n}": partial(lambda h, n: h[:, n], n=n) for n in range(1, 5)},
    "layer 5, second-to-last": lambda h: h[:, 5],
    "layer 6, last": lambda h: h[:, 6],
    "sum of all seven": lambda h: h.sum(1),
    "sum of the last four": lambda h: h[:, -4:].sum(1),
    "last four side by side": lambda h: h[:, -4:].reshape(len(h), -1),
}


class MixedReadOut(nn.Module):
    """A linear read-out of a mixture of layers; both are learned together. mix=False: of their plain mean."""

    def __init__(self, n_layers, d_model, n_out, mix):
        super().__init__()
        self.mix = LayerMix(n_layers) if mix else lambda layers: torch.stack(layers).mean(0)
        self.readout = nn.Linear(d_model, n_out)

    def forward(self, states):  # (texts, layers, D)
        return self.readout(self.mix(list(states[:, None].unbind(2)))[:, 0])  # (texts, n_out)


def batch_loss(model, batch):
    """Nats an answer, for batches (x, y)."""
    return F.cross_entropy(model(batch[0]), batch[1])


@experiment()
def emoji_layers(seed):
    """Share of emoji names put into their group with 100 labels, read from each layer of MiniLM and from mixtures."""
    known, asked, [(learned, new)] = emoji_states(minilm())
    groups, truth = (np.array([row.group for row in rows]) for rows in (known, asked))
    at, found = drawn_names(known, 100, seed), {}
    for name, take in TAKE.items():
        said = read_out(take(learned[at]), groups[at]).predict(take(new))
        found[name] = right(list(said), list(truth))
    x, y = torch.tensor(learned[at]), torch.tensor([emoji.GROUPS.index(group) for group in groups[at]])
    for name, mix in (("plain mean, same training", False), ("ELMo's mixture", True)):
        torch.manual_seed(seed)
        model = MixedReadOut(x.shape[1], x.shape[2], len(emoji.GROUPS), mix)
        fit(model, iter(lambda: (x, y), None), batch_loss, steps=120, lr=2e-2, weight_decay=0.01, device=CPU,
            progress=False)  # fmt: skip
        with torch.no_grad():
            said = [emoji.GROUPS[i] for i in model(torch.tensor(new)).argmax(-1).tolist()]
        found[name] = right(said, list(truth))
    return {"right": found, "share of each layer": model.mix.scores.softmax(0)}


# --- two readers who meet only at the end

READERS = (recipe.FORWARD, recipe.BACKWARD)
BEFORE, INSIDE = 64, 128  # characters read before a blank at least; blanks a row
WINDOW, WIDE = 8, 128  # characters seen on a side; hidden units
SEEN = {"left": torch.arange(-WINDOW, 0), "right": torch.arange(1, WINDOW + 1)}
SEEN["both"] = torch.cat([SEEN["left"], SEEN["right"]])


def blank_rows(tokens, seed):
    """Stretches of validation plays, to tune on, and of test plays, to be asked: ids (24, span) and (48, span)."""
    generator, span = draws(seed), 2 * BEFORE + INSIDE
    for split, rows in (("validation", 24), ("test", 48)):
        ids = tokens.encode(plays.text(split))
        yield ids[torch.randint(len(ids) - span, (rows, 1), generator=generator) + torch.arange(span)]


def in_the_blanks(ids):
    """What stood there: (N,)."""
    return ids[:, BEFORE : BEFORE + INSIDE].flatten()


@torch.no_grad()
def stored_say(readers, ids):
    """log p of each blank by the reader before it and by the one behind it: two (N, V)."""
    said = []
    for reader, backwards in zip(readers, (False, True), strict=True):
        states = reader.rnn(reader.embed(ids.flip(1) if backwards else ids))[0]
        out = states[:, BEFORE - 1 : BEFORE + INSIDE - 1]  # one place before each blank
        out = out.flip(1) if backwards else out
        said.append(reader.readout(out).log_softmax(dim=-1).flatten(0, 1))
    return said


def blank_bits(scores, answers):
    """Bits a blank of scores (N, V), which need not be normalised."""
    return float(F.cross_entropy(scores, answers)) / math.log(2)


def frequencies(ids, n_tokens):
    """log p of each character, counted: (V,)."""
    return (torch.bincount(ids, minlength=n_tokens) + 0.5).log().log_softmax(dim=0)


def mixed_scores(weights, said, prior):
    """a log p(forwards) + b log p(backwards) + c log p(alone), not yet normalised: (N, V)."""
    return weights[0] * said[0] + weights[1] * said[1] + weights[2] * prior


def tuned_weights(answers, said, prior):
    """The a, b, c that cost fewest bits on these blanks."""
    weights = torch.tensor([1.0, 1.0, 0.0], requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=30, line_search_fn="strong_wolfe")

    def cost():
        optimiser.zero_grad()
        loss = F.cross_entropy(mixed_scores(weights, said, prior), answers)
        loss.backward()
        return loss

    optimiser.step(cost)
    return weights.detach()


@experiment(cpus=ONE, files=[one.file for one in READERS])
def two_readers(seed):
    """Bits of a hidden character for two stored readers, one a direction: alone, multiplied, mixed, and mixed up."""
    tokens, readers = CharTokenizer(plays.text("train")), [load(one)[0] for one in READERS]
    prior = frequencies(tokens.encode(plays.text("train")), len(tokens))
    rows = list(blank_rows(tokens, seed))
    (tuned, answers), (tuned_said, said) = map(in_the_blanks, rows), [stored_say(readers, ids) for ids in rows]
    strange = [[one[0], one[1].roll(INSIDE * 7 + 5, dims=0)] for one in (tuned_said, said)]  # another's right side
    weights = tuned_weights(tuned, tuned_said, prior)
    bits = {
        "no reader, letter frequencies": blank_bits(prior.expand(len(answers), -1), answers),
        "forwards alone": blank_bits(said[0], answers),
        "backwards alone": blank_bits(said[1], answers),
        "forwards, and a wrong right side": blank_bits(
            mixed_scores(tuned_weights(tuned, strange[0], prior), strange[1], prior), answers
        ),
        "product of both": blank_bits(mixed_scores((1, 1, 0), said, prior), answers),
        "product, divided by the frequencies": blank_bits(mixed_scores((1, 1, -1), said, prior), answers),
        "mixed with three tuned weights": blank_bits(mixed_scores(weights, said, prior), answers),
    }
    names = ("forwards", "backwards", "frequencies")
    return {"bits": bits, "weights": dict(zip(names, weights.tolist(), strict=True))}


def window_model(ids, n_tokens, places, seed):
    """A network that guesses a character from those at `places` around it; learned on a text, 250 steps."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Embedding(n_tokens, 24), nn.Flatten(), nn.Linear(24 * len(places), WIDE), nn.GELU(),
                          nn.Linear(WIDE, n_tokens))  # fmt: skip

    def some(generator):
        while True:
            at = torch.randint(WINDOW, len(ids) - WINDOW, (512, 1), generator=generator)
            yield ids[at + places], ids[at[:, 0]]

    fit(model, some(draws(seed)), batch_loss, steps=250, lr=1e-2, schedule=partial(cosine, warmup=20), device=CPU,
        progress=False)  # fmt: skip
    return model


@torch.no_grad()
def window_says(model, places, ids):
    """log p of each blank, (N, V)."""
    return model(ids[:, torch.arange(BEFORE, BEFORE + INSIDE)[:, None] + places].flatten(0, 1)).log_softmax(dim=-1)


@experiment()
def window_networks(seed):
    """Bits of a hidden character for small networks that see eight characters on one side, mixed, and on both."""
    tokens = CharTokenizer(plays.text("train"))
    ids = tokens.encode(plays.text("train"))
    prior, rows = frequencies(ids, len(tokens)), list(blank_rows(tokens, seed))
    tuned, answers = map(in_the_blanks, rows)
    models = {side: window_model(ids, len(tokens), places, seed) for side, places in SEEN.items()}
    tuned_said, said = ({side: window_says(models[side], SEEN[side], ids) for side in SEEN} for ids in rows)
    weights = tuned_weights(tuned, [tuned_said["left"], tuned_said["right"]], prior)
    mixed = mixed_scores(weights, [said["left"], said["right"]], prior)
    bits = {"left alone": blank_bits(said["left"], answers), "right alone": blank_bits(said["right"], answers),
            "left and right, mixed at the end": blank_bits(mixed, answers),
            "one network sees both": blank_bits(said["both"], answers)}  # fmt: skip
    return {"bits": bits, "numbers": {side: sum(p.numel() for p in m.parameters()) for side, m in models.items()}}


# --- draws of masks, and a task answered from one side


@experiment(seeds=range(10), cpus=ONE)
def mask_rates(seed):
    """How often `mask_tokens` asks, hides, exchanges and leaves in 1,500 speeches, and how far from its rates."""
    pieces = pieces_of_plays()
    read = pieces.batch([row.text for row in plays.rows("test")[:1500]])
    inner, before = (read.words >= 0).flatten(), read.ids.flatten()  # neither padding nor [CLS] nor [SEP]
    word = (read.words + 10_000 * torch.arange(len(read.ids))[:, None]).flatten()[inner].unique(return_inverse=True)[1]
    in_part = {}
    for name, whole in (("whole words", True), ("pieces by themselves", False)):
        shown, asked = (part.flatten() for part in mask_tokens(read.ids, pieces, draws(seed), whole_words=whole))
        n_pieces, n_asked = word.bincount(), word.bincount(asked[inner].float())
        hit = (n_pieces > 1) & (n_asked > 0)  # words of several pieces of which one or more is asked for
        in_part[name] = (n_asked < n_pieces)[hit].float().mean()
    n, same = int(asked.sum()), int((asked & (shown == before)).sum())
    masks = int((asked & (shown == pieces.mask)).sum())
    counts = {"asked for": (n, int(inner.sum()), 0.15), "of these [MASK]": (masks, n, 0.8), "left": (same, n, 0.1),
              "another": (n - masks - same, n, 0.1)}  # fmt: skip
    rates = {name: {"share": k / of, "wanted": p, "standard errors away": abs(k / of - p) / math.sqrt(p * (1 - p) / of),
                    "of": of} for name, (k, of, p) in counts.items()}  # fmt: skip
    return {"rates": rates, "furthest": max(one["standard errors away"] for one in rates.values()),
            "specials asked for": int((asked & ~inner).sum()), "hidden in part": in_part}  # fmt: skip


def even(pairs, random):
    """As many of each label: then always saying one label is right half of the time."""
    kinds = [[row for row in pairs if row.label == label] for label in ("yes", "no")]
    most = min(map(len, kinds))
    return [row for kind in kinds for row in random.sample(kind, most)]


def right_by_length(told, asked):
    """The share right for one rule: "no" for a second speech of n words or more, n as it suits the train pairs."""

    def rule(rows, n):
        return right(["no" if len(row.second.split()) >= n else "yes" for row in rows], [row.label for row in rows])

    return rule(asked, max(range(1, 60), key=partial(rule, told)))


@experiment(each(made=["as made", "careless"]), cpus=ONE)
def one_sided(seed, made):
    """Share of test pairs of speeches that a bag of words gets right from one of the two, or a rule from a length."""
    pairs = {split: play_tasks.rows("answer", split) for split in ("train", "test")}
    if made == "careless":  # "no" only where the second speech is long
        pairs = {split: [row for row in rows if row.label == "yes" or len(row.second.split()) >= 20]
                 for split, rows in pairs.items()}  # fmt: skip
    told, asked = (even(pairs[split], Random(seed)) for split in ("train", "test"))
    labels, truth = ([row.label for row in rows] for rows in (told, asked))
    said = {side: bag_of_words([getattr(row, side) for row in told], labels, [getattr(row, side) for row in asked])
            for side in ("second", "first")}  # fmt: skip
    return {"second speech alone": right(said["second"], truth), "first speech alone": right(said["first"], truth),
            "length of the second alone": right_by_length(told, asked),
            "learned": len(told), "judged": len(asked)}  # fmt: skip
