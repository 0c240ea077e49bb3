"""The stored models of lesson 11 that write: a name under its picture, or a hidden word of a name beside it."""

from typing import ClassVar

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
from course_lib.workshop.recipes.images import ImageRecipe

ASKED = ("case", "letter", "mark")


def written_rightly(model: Captioner, known: Named) -> float:
    """The share of letters under which the whole name is written rightly."""
    return judged(written(model, known.images), known)["exact"]


def filled_in(model: nn.Module, known: Named) -> float:
    """The mean, over case, letter and mark, of the share of letters for which that word is filled in rightly."""
    return sum(filled(model, asked(known, word)) for word in ASKED) / len(ASKED)


class WriterRecipe(ImageRecipe):
    """An `ImageRecipe` whose images are the grids that the stored eyes make of letters, with names to be written."""

    MEASURED: ClassVar = {"new_names", "new_faces"}

    def model(self) -> nn.Module:
        """A new model of grids and words; its weights are drawn at random, but for a captioner's vector."""
        return captioner("dot")

    def images(self, split: str) -> tuple[Named]:
        """The letters of one split, with grids in the place of images; for validation faces that are not learned."""
        return (looked_at(taught_spotter().eyes, named({"validation": "validation faces"}.get(split, split))),)

    def measured(self, model: nn.Module) -> dict:
        """What a trained model is worth on names and on faces never seen."""
        return {part.replace(" ", "_"): self.worth(model, *self.images(part)) for part in ("new names", "new faces")}

    def worth(self, model: nn.Module, known: Named) -> float | dict[str, float]:
        """The share of names that are written rightly."""
        return written_rightly(model, known)

    def result(self, record: dict) -> str:
        """What a record says that the model is worth."""
        return (
            f"written rightly: {record['new_names']:.1%} of the names never seen, of all names that there are, and "
            f"{record['new_faces']:.1%} of those in faces never seen"
        )

    def batches_in_words(self) -> str:
        """What it reads in a step."""
        return f"{self.batch} letters and their names"


class FillerRecipe(WriterRecipe):
    """The same for a model that is asked for one hidden word of a name."""

    def model(self) -> nn.Module:
        """A new model with weights drawn at random: grids, ids, mask -> logits of words."""
        return stream(self.reader)

    def worth(self, model: nn.Module, known: Named) -> dict[str, float]:
        """The share of each word that is filled in rightly."""
        return {word: filled(model, asked(known, word)) for word in ASKED}

    def result(self, record: dict) -> str:
        """What a record says that the model is worth."""
        parts = (f"{record['new_names'][word]:.1%} and {record['new_faces'][word]:.1%} of {word}s" for word in ASKED)
        return f"filled in rightly, with names and in faces never seen: {', '.join(parts)}"


HOW = {"steps": STEPS, "batch": BATCH, "optimiser": every_matrix, "warmup": 20, "look": 100}
WRITERS = {
    "names_writer": WriterRecipe(
        "LSTM with attention that writes a letter's name",
        Captioner,
        (),
        lr=RATE,
        batches=captions,
        loss=caption_loss,
        accuracy=written_rightly,
        **HOW,
    ),
    "names_filler": FillerRecipe(
        "Transformer of two streams that fills in a hidden word of a letter's name",
        TwoStreams,
        (),
        lr=RATES["TwoStreams"],
        batches=hidden_words,
        loss=word_loss,
        accuracy=filled_in,
        **HOW,
    ),
}
