"""The stored discriminator of lesson 16: which pieces of a text were exchanged for frequent ones?"""

from functools import cache

import torch
from torch import Tensor

from course_lib.bert.masked_words import mask_tokens
from course_lib.bert.replaced_words import Discriminator, Replaced, replace, replaced_loss
from course_lib.train import History
from course_lib.workshop.recipes.recipe import Recipe
from course_lib.workshop.recipes.smaller_bert import BATCH, RATE, ROW, lean, pieces, rows, taught, text, worth


@cache
def frequency() -> Tensor:
    """p(piece) in the training plays, specials never: (V,)."""
    n = torch.bincount(text("train"), minlength=len(pieces())).float() + 1
    n[list(pieces().specials.values())] = 0
    return n / n.sum()


def exchanged(ids: Tensor, generator: torch.Generator) -> Replaced:
    """Rows (B, T) with 15 pieces of 100 chosen and exchanged for pieces drawn as often as they are in the plays."""
    _, chosen = mask_tokens(ids, pieces(), generator)
    n = int(chosen.sum())
    return replace(ids, chosen, torch.multinomial(frequency(), n, replacement=True, generator=generator))


@torch.no_grad()
def found(model: Discriminator, split: str) -> dict[str, float]:
    """Of the exchanged pieces of a split the share that is found; of the others, the share that is called exchanged."""
    ids = text(split)[: 600 * ROW].view(-1, ROW)
    some = exchanged(ids, torch.Generator().manual_seed(1))
    said = model(some.ids) > 0
    share = lambda which: ((said & which).sum() / which.sum()).item()  # noqa: E731
    return {"found": share(some.replaced), "false alarms": share(~some.replaced)}


def build_spotter(n_layers: int = 2) -> Discriminator:
    """The stored discriminator, untrained: its seed is one that no record holds."""
    return Discriminator(lean(5, n_layers))


def train_spotter(recipe: Recipe, steps: int, **how) -> tuple[Discriminator, History, dict]:
    """Train a discriminator; looks are [step, share of exchanged pieces of validation plays that is found]."""
    model, draws = recipe.build(), torch.Generator().manual_seed(1 + recipe.seed)
    batches = (exchanged(ids, draws) for ids in rows(recipe.seed))
    watch = lambda step: [step, round(found(model, "validation")["found"], 4)]  # noqa: E731
    history = taught(model, batches, replaced_loss, steps, recipe.lr, recipe.steps, watch=watch, **how)
    test, marks = found(model, "test"), worth(model.bert, recipe.seed)["places"]
    return model, history, {"test_found": test["found"], "test_false_alarms": test["false alarms"], "test_marks": marks}


SPOTTER = Recipe(
    "plays_spotter",
    "Discriminator of two blocks, 64 wide, rotary places (ELECTRA's second half)",
    build_spotter,
    train_spotter,
    "finds {test_found:.0%} of the exchanged pieces of the test plays, and calls {test_false_alarms:.1%} of the others "
    "exchanged",
    ("test_found", "test_false_alarms", "test_marks"),
    "{} × {} pieces of words",
    lr=RATE,
    steps=4_000,
    batch=BATCH,
    length=ROW,
    look=500,
    seed=5,
)
