"""The stored model of lesson 11 that fills in a hidden word of a name beside its picture: how it is made and trained."""

from typing import ClassVar

from torch import Tensor, nn

from course_lib.data.glyph_names import Named, named
from course_lib.multimodal.two_streams import TwoStreams
from course_lib.recipes.glyph_captions import (
    BATCH,
    RATES,
    STEPS,
    asked,
    every_matrix,
    filled,
    hidden_words,
    looked_at,
    stream,
    taught_spotter,
    word_loss,
)
from course_lib.recipes.images import ImageRecipe

ASKED = ("case", "letter", "mark")


def filled_in(model: nn.Module, known: Named) -> float:
    """The mean, over case, letter and mark, of the share of letters for which that word is filled in rightly."""
    return sum(filled(model, asked(known, word)) for word in ASKED) / len(ASKED)


class FillerRecipe(ImageRecipe):
    """An `ImageRecipe` whose images are the grids that the stored eyes make of letters; their names have hidden words."""

    MEASURED: ClassVar = {"new_names", "new_faces"}

    def model(self) -> nn.Module:
        """A new model with weights drawn at random: grids, ids, mask -> logits of words."""
        return stream(self.reader)

    def images(self, split: str) -> tuple[Named | Tensor, ...]:
        """The letters of one split, with grids in the place of images; for validation faces that are not learned."""
        return (looked_at(taught_spotter().eyes, named({"validation": "validation faces"}.get(split, split))),)

    def measured(self, model: nn.Module) -> dict:
        """What a trained model is worth on names and on faces never seen: the share of each word filled in rightly."""
        shares = {}
        for part in ("new names", "new faces"):
            (known,) = self.images(part)
            shares[part.replace(" ", "_")] = {word: filled(model, asked(known, word)) for word in ASKED}
        return shares

    def result(self, record: dict) -> str:
        """What a record says that the model is worth."""
        parts = (f"{record['new_names'][word]:.1%} and {record['new_faces'][word]:.1%} of {word}s" for word in ASKED)
        return f"filled in rightly, with names and in faces never seen: {', '.join(parts)}"

    def batches_in_words(self) -> str:
        """What it reads in a step."""
        return f"{self.batch} letters and their names"


FILLERS = {
    "names_filler": FillerRecipe(
        "Transformer of two streams that fills in a hidden word of a letter's name",
        TwoStreams,
        (),
        lr=RATES["TwoStreams"],
        steps=STEPS,
        batch=BATCH,
        batches=hidden_words,
        loss=word_loss,
        accuracy=filled_in,
        optimiser=every_matrix,
        warmup=20,
        look=100,
    )
}
