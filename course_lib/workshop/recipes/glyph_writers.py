"""The stored models of lesson 11 that write: a name under its picture, or a hidden word of a name beside it."""

from functools import partial

from torch import nn

from course_lib.data.glyph_names import Named, named
from course_lib.multimodal.captions import Captioner
from course_lib.multimodal.two_streams import TwoStreams
from course_lib.workshop.recipes.glyph_captions import (
    BATCH,
    RATE,
    RATES,
    STEPS,
    asked,
    caption_loss,
    captioner,
    captions,
    every_matrix,
    filled,
    hidden_words,
    judged,
    looked_at,
    stream,
    taught_spotter,
    word_loss,
    written,
)
from course_lib.workshop.recipes.images import train_on_images
from course_lib.workshop.recipes.recipe import Recipe

ASKED = ("case", "letter", "mark")


def written_rightly(model: Captioner, known: Named) -> float:
    """The share of letters under which the whole name is written rightly."""
    return judged(written(model, known.images), known)["exact"]


def filled_in(model: nn.Module, known: Named) -> float:
    """The mean, over case, letter and mark, of the share of letters for which that word is filled in rightly."""
    return sum(filled(model, asked(known, word)) for word in ASKED) / len(ASKED)


def grids_and_names(split: str) -> tuple[Named]:
    """The letters of a split, with the grids that the stored eyes make of them in the place of images.

    For validation, faces that are not learned.
    """
    return (looked_at(taught_spotter().eyes, named({"validation": "validation faces"}.get(split, split))),)


def measure_written(model: Captioner) -> dict:
    """The shares of names that are written rightly, of names and of faces never seen."""
    return {part.replace(" ", "_"): written_rightly(model, *grids_and_names(part)) for part in NEW}


def measure_filled(model: nn.Module) -> dict:
    """The shares of cases, letters and marks that are filled in rightly, of names and of faces never seen."""
    letters = {part: grids_and_names(part)[0] for part in NEW}
    return {part.replace(" ", "_"): {word: filled(model, asked(known, word)) for word in ASKED}
            for part, known in letters.items()}  # fmt: skip


NEW = ("new names", "new faces")
HOW = {
    "holds": ("new_names", "new_faces"),
    "reads": "{} letters and their names",
    "steps": STEPS,
    "batch": BATCH,
    "look": 100,
}
WRITER = Recipe(
    "names_writer",
    "LSTM with attention that writes a letter's name",
    captioner,
    partial(train_on_images, data=grids_and_names, measure=measure_written, batches=captions, loss=caption_loss,
            accuracy=written_rightly, optimiser=every_matrix, warmup=20),
    "written rightly: {new_names:.1%} of the names never seen, of all names that there are, and {new_faces:.1%} of "
    "those in faces never seen",
    lr=RATE,
    **HOW,
)  # fmt: skip
FILLER = Recipe(
    "names_filler",
    "Transformer of two streams that fills in a hidden word of a letter's name",
    partial(stream, TwoStreams),
    partial(train_on_images, data=grids_and_names, measure=measure_filled, batches=hidden_words, loss=word_loss,
            accuracy=filled_in, optimiser=every_matrix, warmup=20),
    "filled in rightly, with names and in faces never seen: "
    + ", ".join(f"{{new_names[{word}]:.1%}} and {{new_faces[{word}]:.1%}} of {word}s" for word in ASKED),
    lr=RATES["TwoStreams"],
    **HOW,
)  # fmt: skip
