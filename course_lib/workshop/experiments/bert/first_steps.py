"""Lesson 08's first steps: what a small BERT fills into a blank after so many steps, and where the blank looks."""

from functools import cache, partial

import torch
from torch import nn

from course_lib.attention.norms import LayerNorm
from course_lib.data import plays
from course_lib.language.next_token import windows
from course_lib.show.record import capture
from course_lib.train import cosine, fit
from course_lib.workshop.experiments import experiment
from course_lib.workshop.experiments.bert.core import (
    CPU,
    ONE,
    PLAYS_BERT,
    Pupil,
    asked_loss,
    draws,
    hole_bits,
    pieces_of_plays,
    questions,
)
from course_lib.workshop.recipes import plays as recipe
from course_lib.workshop.recipes.stored import load

DEAR = (0, 1, 2)  # the seeds of what takes a quarter of a minute or more
BLANKS, STEP = 800, 1536  # rows of unread plays with one blank each; pieces a step, however long the rows
LOOKS = (0, 50, 100, 150, 200, 250, 300, 400, 500, 750, 1000)  # steps after which is measured


# --- the model and what is asked


class Learner(Pupil):
    """`experiments.bert`'s small BERT; pre_norm moves the norms of its blocks before each part, with one at the end."""

    def __init__(self, n_pieces, pre_norm):
        super().__init__("hidden", n_pieces)
        self.last = LayerNorm(64) if pre_norm else nn.Identity()
        for block in self.blocks:
            block.pre_norm = pre_norm  # the same first weights

    def forward(self, ids, places):  # (B, T), (N,) -> (N, V)
        h = self.norm(self.tokens(ids) + self.places.weight[: ids.shape[1]])
        for block in self.blocks:
            h = block(h)
        return self.last(h).flatten(0, 1)[places] @ self.tokens.weight.T + self.bias


@cache
def pieces_in(split):
    """The plays of a split in pieces: (N,)."""
    return pieces_of_plays().encode(plays.text(split))


@cache
def blanks(length):
    """Rows out of all test plays, (BLANKS, length), and the place of the one blank in each, not at an end."""
    ids, generator = pieces_in("test"), draws(1)
    rows = ids[torch.randint(len(ids) - length, (BLANKS, 1), generator=generator) + torch.arange(length)]
    return rows, torch.randint(1, length - 1, (BLANKS,), generator=generator)


def answers_of(rows, at):
    """What stood in the blanks: (B,)."""
    return rows.gather(1, at[:, None])[:, 0]


def hidden(rows, at):
    """The rows with [MASK] in their blanks, and the blanks' places counted row by row."""
    return rows.scatter(1, at[:, None], pieces_of_plays().mask), torch.arange(len(rows)) * rows.shape[1] + at


def other_neighbours(rows, at):
    """The rows with the two pieces beside the blank taken from another row's blank."""
    beside = at[:, None] + torch.tensor([-1, 1])
    return rows.scatter(1, beside, rows.gather(1, beside).roll(1, dims=0))


def others_further_away(rows, at):
    """The rows with all pieces taken from another row but the blank and the two beside it."""
    far = (torch.arange(rows.shape[1]) - at[:, None]).abs() > 1
    return torch.where(far, rows.roll(1, dims=0), rows)


# --- what counting knows


@cache
def single_counts():
    """How frequent each piece is, add one: (V,)."""
    n = torch.bincount(pieces_in("train"), minlength=len(pieces_of_plays())) + 1
    return n / n.sum()


@cache
def beside_counts():
    """p(piece | the piece before it) and p(piece | the piece after it), both (V, V) and smoothed by `single_counts`."""
    train, V, p = pieces_in("train"), len(pieces_of_plays()), single_counts()
    pairs = torch.bincount(train[:-1] * V + train[1:], minlength=V * V).view(V, V).float()
    return [(n + 5 * p) / (n.sum(1, keepdim=True) + 5) for n in (pairs, pairs.T)]


def neighbour_counts(rows, at, strength=20):
    """p(piece | the two beside the blank), (B, V): counts of all three, and where they are few the pairs' product.

    The product is p(w | left) p(w | right) / p(w), made to sum to 1; it weighs as much as `strength` sightings.
    """
    train, V, (after, before) = pieces_in("train"), len(pieces_of_plays()), beside_counts()
    left, right = (rows.gather(1, at[:, None] + d)[:, 0] for d in (-1, 1))
    product = after[left] * before[right] / single_counts()
    product = product / product.sum(1, keepdim=True)
    around, order = (train[:-2] * V + train[2:]).sort()
    first, end = (torch.searchsorted(around, left * V + right, right=side) for side in (False, True))
    middles = [train[1 + order[a:b]] for a, b in zip(first, end, strict=True)]
    seen = torch.stack([torch.bincount(some, minlength=V) for some in middles])  # (B, V)
    return (seen + strength * product) / (seen.sum(1, keepdim=True) + strength)


@cache
def counted(length):
    """What the two ways of counting say of the test blanks: name -> p, (BLANKS, V)."""
    rows, at = blanks(length)
    return {"single pieces": single_counts().expand(len(rows), -1), "both neighbours": neighbour_counts(rows, at)}


def bits(p, answers):
    """-log2 p of the answers, the mean; p (B, V)."""
    return -p.gather(1, answers[:, None]).log2().mean()


def divergence(p, q):
    """KL(p || q) in bits, the mean over rows: what it costs to take q for p."""
    return (p * (p.log2() - q.log2())).sum(1).mean()


# --- one measurement of a model in training


@torch.no_grad()
def measured(model, length):
    """Bits saved against single counts, the same with pieces exchanged, and how much each head looks beside a blank."""
    rows, at = blanks(length)
    base, answers = bits(counted(length)["single pieces"], answers_of(rows, at)), answers_of(rows, at)
    read, places = hidden(rows, at)
    with capture(model, "*.attention.weights") as heard:
        said = model(read, places).softmax(-1)
    changed = {"beside others": other_neighbours(rows, at), "among others": others_further_away(rows, at)}
    weights = torch.stack([layer[0] for layer in heard.values()])  # (layers, B, heads, T, T)
    row = torch.arange(len(at))
    beside = sum(weights[:, row, :, at, at + d] for d in (-1, 1))  # (B, layers, heads)
    return {
        "saved": base - bits(said, answers),
        **{
            f"saved {how}": base - bits(model(hidden(some, at)[0], places).softmax(-1), answers)
            for how, some in changed.items()
        },
        "heads": beside.mean(0),
        **{f"from {name}": divergence(p, said) for name, p in counted(length).items()},
    }


def trained(seed, length, pre_norm, rate, steps, look):
    """The small BERT after so many steps, and what `look(model)` saw after those numbers of steps that are in LOOKS.

    AdamW; the rate rises for 50 steps and falls along a cosine to a tenth; as many pieces a step, however long a row.
    """
    torch.manual_seed(seed)
    generator, model = draws(seed), Learner(len(pieces_of_plays()), pre_norm)
    rows = windows(pieces_in("train"), STEP // length, length, seed)
    found = fit(model, (questions(some, "hidden", generator) for some in rows), asked_loss, steps=steps, lr=rate,
                schedule=partial(cosine, warmup=50), device=CPU, progress=False, watch_every=50,
                watch=lambda step: look(model) if step in LOOKS else None)  # fmt: skip
    return model, {step: seen for step, seen in found.watched if seen is not None}


def by_step(seen):
    """Curves out of measurements: name -> what it was at each look."""
    return {"steps": list(seen)} | {name: [one[name] for one in seen.values()] for name in next(iter(seen.values()))}


# Both norms and both rates in short rows and in long ones; between them one row.
SWEEP = [
    {"length": length, "pre_norm": pre_norm, "rate": rate, "steps": 500}
    for length, pre_norm, rate in (
        *((8, pre_norm, rate) for rate in (4e-3, 2e-3) for pre_norm in (False, True)),
        (12, False, 4e-3),
        *((24, pre_norm, rate) for rate in (4e-3, 2e-3) for pre_norm in (False, True)),
    )
]


@experiment(SWEEP, seeds=DEAR, cpus=ONE)
def first_steps(seed, length, pre_norm, rate, steps):
    """Bits that a small BERT saves against single counts, and how much of its look a blank gives its neighbours."""
    _, seen = trained(seed, length, pre_norm, rate, steps, partial(measured, length=length))
    curves = by_step(seen)
    largest = [float(heads.max()) for heads in curves["heads"]]
    return curves | {"largest head": largest, "even": 2 / length, "in the end": curves["saved"][-1],
                     "looks in the end": largest[-1]}  # fmt: skip


# --- the same training, seen from a few sentences

# Out of 260 short lines of the test plays, chosen where the stored BERT fills the blank as Shakespeare did.
SENTENCES = {
    "My worthy [MASK], Your noble friends do": "lord",
    "moon shone, we did [MASK] see": "not",
    "Why dost [MASK] laugh?": "thou",
    "my lord: They [MASK] entirely": "are",
    "if you can: [MASK] are you?": "what",
}
BEST, SHOWN = {"length": 8, "pre_norm": True, "rate": 4e-3, "steps": 1000}, 6


@cache
def read_sentences():
    """Each of the sentences in pieces, (1, T), and the place of its blank, (1,)."""
    read = [pieces_of_plays().encode(text)[None] for text in SENTENCES]
    return [(ids, (ids[0] == pieces_of_plays().mask).nonzero()[:, 0]) for ids in read]


def likeliest(said, answer):
    """The likeliest pieces of a distribution (V,), their probabilities, and that of the right one."""
    vocab, (p, at) = pieces_of_plays().vocab, said.topk(SHOWN)
    return {"pieces": [vocab[i] for i in at], "p": p.round(decimals=4), "right": said[vocab.index(answer)]}


@torch.no_grad()
def fillings(model):
    """For each sentence the likeliest pieces, and each head's look from the blank at every piece."""
    found = []
    for (ids, at), answer in zip(read_sentences(), SENTENCES.values(), strict=True):
        with capture(model, "*.attention.weights") as heard:
            said = model(ids, at).softmax(-1)[0]
        looks = torch.stack([layer[0][0, :, at[0]] for layer in heard.values()])  # (layers, heads, T)
        found.append(likeliest(said, answer) | {"looks": looks.round(decimals=4)})
    return found


@experiment(seeds=[0], cpus=ONE, files=PLAYS_BERT)
@torch.no_grad()
def in_the_end(seed):
    """What fills the same five blanks: counts of single pieces, counts given both neighbours, and the stored BERT."""
    model, found = load(recipe.BERT)[0], {}
    for text, (ids, at), answer in zip(SENTENCES, read_sentences(), SENTENCES.values(), strict=True):
        read = pieces_of_plays().batch([text])
        said = model(*read[:3], at + 1)[0].softmax(-1)[0]  # [CLS] stands before
        found[text] = {"single pieces": likeliest(single_counts(), answer),
                       "both neighbours": likeliest(neighbour_counts(ids, at)[0], answer),
                       "stored BERT": likeliest(said, answer)}  # fmt: skip
    return found


@experiment(seeds=DEAR, cpus=ONE)
def through_training(seed):
    """What a small BERT fills into five blanks as it trains, where they look, and how far it is from two countings."""
    look = partial(measured, length=BEST["length"])
    _, seen = trained(seed, **BEST, look=lambda model: look(model) | {"sentences": fillings(model)})
    return by_step(seen)


@experiment(seeds=[0], cpus=ONE, files=PLAYS_BERT)
def counting_or_reading(seed):
    """Bits saved in unread plays by counting both neighbours, and by the stored BERT with those, 24 or 61 pieces."""
    model, wide = load(recipe.BERT)[0], 61
    rows, _ = blanks(wide)
    middle = wide // 2
    at, found = torch.full((len(rows),), middle), {}
    base = bits(single_counts().expand(len(rows), -1), rows[:, middle])
    found["both neighbours, counted"] = base - bits(neighbour_counts(rows, at), rows[:, middle])
    for name, side in (("both neighbours", 1), ("24 pieces", 12), ("61 pieces", middle)):
        left, right = rows[:, middle - side : middle], rows[:, middle + 1 : middle + 1 + side]
        found[f"stored BERT, {name}"] = base - hole_bits(model, pieces_of_plays(), left, right, rows[:, middle]).mean()
    return found
