"""Lesson 06, its parts one by one: a ladder from a layer of attention to the whole, the root trained, rotary places.

The ladder's task asks three kinds of question in one sequence, so that no single look can answer all of them.
"""

import math
from functools import partial
from itertools import accumulate
from operator import or_

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention.block import FeedForward
from course_lib.attention.multi_head import MultiHead
from course_lib.attention.norms import LayerNorm
from course_lib.attention.positions import SinusoidalPositions, rotate
from course_lib.attention.transformer import PlacedEmbedding, Transformer
from course_lib.data.order import N_SYMBOLS, N_TOKENS, NOT_ASKED, distance, endless
from course_lib.text.pairs import batches
from course_lib.train.loop import cosine, fit
from course_lib.translation.translator import Translator, translation_loss
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.experiments.transformer.core import CPU, DEAR, STEPS, date_lists, translated

# --- the ladder: three questions, and a stack whose every part can be left out

LETTERS = "abcdefghi"
KINDS = ("three places back", "fifth", "behind my last twin")


def three_questions(batch: int, length: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Each symbol asks for another one: ids (B, T) below 9 -> answers (B, T), NOT_ASKED where there is none; kinds.

    6 to 8 ask which symbol came behind the last one that was the same (kind 2). The others do what the symbol before
    them says, both lesson 05's: after 0 to 4 they ask which stands three places back (0), after 5 to 8 which stands
    fifth (1).
    """
    ids = torch.randint(len(LETTERS), (batch, length), generator=generator)  # (B, T)
    place = torch.arange(length)
    twins = (ids[:, :, None] == ids[:, None]).tril(-2)  # (B, T, T): the same, and another one behind it before me
    last = torch.where(twins, place, -1).amax(dim=-1)  # (B, T): where it stood, -1 for nowhere
    asked_for = torch.stack([place.expand_as(ids) - 3, torch.where(place > 4, 4, -1).expand_as(ids),
                             torch.where(last < 0, -1, last + 1)], dim=-1)  # (B, T, 3)  # fmt: skip
    kinds = torch.where(ids > 5, 2, (F.pad(ids, (1, 0))[:, :-1] > 4).long())  # (B, T)
    at = asked_for.gather(-1, kinds[..., None]).squeeze(-1)  # (B, T): where the answer stands
    return ids, torch.where(at < 0, NOT_ASKED, ids.gather(1, at.clamp(min=0))), kinds


class Layer(nn.Module):
    """A layer of a Transformer whose parts can be left out: x (B, T, D) -> (B, T, D), no place sees a later one."""

    def __init__(self, d_model: int, n_heads: int, feed_forward: bool, residual: bool, norm: bool):
        super().__init__()
        self.attention = MultiHead(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, 4 * d_model) if feed_forward else None
        self.norm_1, self.norm_2 = (LayerNorm(d_model) if norm else nn.Identity() for _ in range(2))
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        x = self.residual * x + self.attention(self.norm_1(x), causal=True)
        if self.feed_forward is None:
            return x
        return self.residual * x + self.feed_forward(self.norm_2(x))


class Stack(nn.Module):
    """Embed and add places, some layers, name a symbol at every place: ids (B, T) -> logits (B, T, 9)."""

    def __init__(self, d_model=32, n_heads=1, feed_forward=False, residual=False, norm=False, depth=1):
        super().__init__()
        self.embed = PlacedEmbedding(len(LETTERS), d_model)
        layers = [Layer(d_model, n_heads, feed_forward, residual, norm) for _ in range(depth)]
        self.layers = nn.Sequential(*layers, LayerNorm(d_model) if norm else nn.Identity())
        self.answer = nn.Linear(d_model, len(LETTERS))

    def forward(self, ids: Tensor) -> Tensor:
        return self.answer(self.layers(self.embed(ids)))


ADDED = {
    "lesson 05's layer": {},
    "+ heads": {"n_heads": 4},
    "+ feed-forward": {"feed_forward": True},
    "+ residual": {"residual": True},
    "+ norm": {"norm": True},
    "+ depth": {"depth": 2},
}
RUNGS = dict(zip(ADDED, accumulate(ADDED.values(), or_), strict=True))  # each with all that was put in before it
WHOLE = RUNGS["+ depth"]
TAKEN_OUT = {
    "one head": WHOLE | {"n_heads": 1},
    "no feed-forward": WHOLE | {"feed_forward": False},
    "no residual": WHOLE | {"residual": False},
    "no norm": WHOLE | {"norm": False},
}
EVERY = 30  # steps from look to look


@experiment(each(build=[*RUNGS, *TAKEN_OUT]))
def ladder(seed, build, steps=300, lr=1e-2, batch=32):
    """Share of right answers to three kinds of question, on the way and after 300 steps, of a stack with some parts."""
    model = Stack(**(RUNGS | TAKEN_OUT)[build])
    asked = three_questions(300, 24, torch.Generator().manual_seed(99))

    def watch(step):
        with torch.no_grad():
            right = (model(asked[0]).argmax(-1) == asked[1])[asked[1] != NOT_ASKED]
        return right.float().mean().item()

    def loss_of(model, rows):
        return F.cross_entropy(model(rows[0]).flatten(0, 1), rows[1].flatten(), ignore_index=NOT_ASKED)

    drawn = torch.Generator().manual_seed(seed)
    batches_of = iter(partial(three_questions, batch, 24, drawn), None)  # without end
    run = fit(model, batches_of, loss_of, steps=steps, lr=lr, schedule=partial(cosine, warmup=30), device=CPU,
              progress=False, watch=watch, watch_every=EVERY)  # fmt: skip
    right = (model(asked[0]).argmax(-1) == asked[1]).double()
    of_kind = [right[(asked[2] == kind) & (asked[1] != NOT_ASKED)].mean() for kind in range(len(KINDS))]
    share = [seen for _, seen in run.watched]
    return {
        "share": share,
        "end": share[-1],
        "of kind": of_kind,
        "parameters": sum(p.numel() for p in model.parameters()),
    }


# --- why the root: a head that is trained with it and without


class OneHead(nn.Module):
    """One head of width d_k that names a symbol at every place: ids (B, T) -> logits (B, T, 15).

    Scores are divided by `divide`; W_q begins `start` times as large as usual.
    """

    def __init__(self, d_k: int, divide: float, start: float = 1.0, d: int = 32):
        super().__init__()
        self.embed, self.places = nn.Embedding(N_TOKENS, d), SinusoidalPositions(d)
        self.answer = nn.Linear(d, N_SYMBOLS)
        self.w_q = nn.Parameter(start * torch.randn(d, d_k) / math.sqrt(d))
        self.w_k, self.w_v = (nn.Parameter(torch.randn(d, width) / math.sqrt(d)) for width in (d_k, d))
        self.divide = divide

    def scores(self, ids: Tensor) -> Tensor:
        x = self.places(self.embed(ids))  # (B, T, D)
        return (x @ self.w_q) @ (x @ self.w_k).mT / self.divide  # (B, T, T)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.places(self.embed(ids))  # (B, T, D)
        return self.answer(x + torch.softmax(self.scores(ids), dim=-1) @ (x @ self.w_v))


def trained(d_k, divide, start=1.0, slow=1.0, seed=0, steps=300, lr=5e-3, batch=24):
    """Train one head to name the symbol three places back; W_q learns `slow` times as fast as everything else.

    -> the share of right answers at the end, the loss at each step, and how far its scores are spread (their standard
    deviation) before training and after 20 steps, or at the end if there are fewer.
    """
    torch.manual_seed(seed)
    model = OneHead(d_k, divide, start)
    rest = [weight for name, weight in model.named_parameters() if name != "w_q"]
    optimiser = torch.optim.Adam([{"params": rest}, {"params": [model.w_q], "lr": lr * slow}], lr=lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: cosine(step, steps, 30))
    asked, answers = distance(300, 16, generator=torch.Generator().manual_seed(99))
    losses, spread = [], []
    for step, (ids, right) in zip(range(steps), endless(distance, batch, 16, 16, seed=seed), strict=False):
        if step in (0, 20):
            spread.append(model.scores(asked).std().item())
        loss = F.cross_entropy(model(ids).mT, right, ignore_index=NOT_ASKED)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    if steps <= 20:
        spread.append(model.scores(asked).std().item())
    with torch.no_grad():
        share = (model(asked).argmax(-1) == answers)[answers != NOT_ASKED].double().mean().item()
    return {"right": share, "losses": losses, "spread": spread}


WIDTHS = (4, 64, 512)
ROOTS = {  # what scores are divided by, and how large W_q begins
    "divided by √d_k": lambda d_k: {"divide": math.sqrt(d_k)},
    "not divided": lambda d_k: {"divide": 1.0},
    "not divided, W_q begins smaller": lambda d_k: {"divide": 1.0, "start": 1 / math.sqrt(d_k)},
}


@experiment(each(d_k=WIDTHS, way=ROOTS))
def root(seed, d_k, way):
    """Share of right answers of one head of width 4 to 512, its scores divided by the root or not, after 300 steps."""
    found = trained(d_k, **ROOTS[way](d_k), seed=seed)
    return {"right": found["right"], "spread": found["spread"]}


# --- the race's Transformer with other positions


@experiment(seeds=DEAR)
def rotary_dates(seed):
    """Exact match and BLEU of 1 to 6 dates of the race's Transformer with rotary positions in place of sinusoids."""
    data, (steps, warmup) = date_lists(), STEPS["Transformer"]
    torch.manual_seed(seed)
    model = Transformer(len(data.english), len(data.french), d_model=64, n_heads=4, n_layers=2, d_ff=256, pre_norm=True,
                        turn=rotate)  # fmt: skip
    translator = Translator(model, data.english, data.french)
    fit(model, batches(translator.ids(data.train), 32, seed), translation_loss, steps=steps, lr=4e-3,
        schedule=partial(cosine, warmup=warmup), device=CPU, progress=False)  # fmt: skip
    return translated(translator)
