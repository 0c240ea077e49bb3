"""The stored models that say how words sound: how each is made, trained and measured. `stored` keeps them. Lesson 04.

speaker = reads_aloud(load("sounds_attention")[0])
speaker.translate(["photograph"], max_len=40)
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from course_lib.data import sounds
from course_lib.text.pairs import batches
from course_lib.text.tokenizers import WordTokenizer
from course_lib.train import History, cosine, fit
from course_lib.translation.decode import exact_match
from course_lib.translation.error_rate import error_rate
from course_lib.translation.seq2seq import Seq2Seq
from course_lib.translation.translator import Translator, translation_loss
from course_lib.weights.g2p_weights import LETTERS, SOUNDS

CPU = torch.device("cpu")  # models this small are no faster on a GPU
LONGEST = 40  # sounds at most: 28 are the most in the dictionary


@dataclass(frozen=True)
class SoundsRecipe:
    """How one model is made, a Seq2Seq of GRUs whose encoder reads both ways, and the run that trains it on words.

    `about`: what it is, for the card. `attention`: as in `Seq2Seq`. `sizes`: width of its tables and of its states.
    `update_bias` is where the update gates start, so that old states are kept for longer (lesson 02). `words`: it
    learns from so many of the train split. `half`: stored in half precision.
    """

    about: str
    attention: str | None
    sizes: tuple[int, int]
    lr: float
    steps: int
    dropout: float = 0.1
    update_bias: float = 3.0
    words: int | None = None
    batch: int = 128
    warmup: int = 200
    seed: int = 0
    half: bool = True

    MEASURED: ClassVar = {"test_exact", "test_error_rate"}  # what a record holds besides what every record does

    def model(self) -> nn.Module:
        """A new model with weights drawn at random: letters (B, S), sounds so far (B, T) -> logits (B, T, 74)."""
        speaker = reads_aloud(None)
        sizes = (len(speaker.reads), len(speaker.writes), *self.sizes)
        model = Seq2Seq(*sizes, self.attention, "gru", bidirectional=True, dropout=self.dropout)
        for layer in (model.encoder.rnn, model.decoder.rnn):
            for bias in layer.gate_biases(1):
                bias.fill_(self.update_bias)
        return model

    def model_of(self, record: dict) -> nn.Module:
        """A new model of the size that a record tells: there is one size."""
        return self.model()

    def train(self, steps: int, **how) -> tuple[nn.Module, History, dict]:
        """Train a new model for so many of its steps -> the model, its history, and what was measured.

        The history's looks are [step, share of 1,000 validation words said rightly]. how: for `fit`. Raises what
        `sounds.words` raises where the dictionary is not there.
        """
        train, validation, test = (sounds.words(split) for split in ("train", "validation", "test"))
        speaker = reads_aloud(self.model())
        history = fit(
            speaker.model,
            batches(speaker.ids(train[: self.words]), self.batch, self.seed),
            translation_loss,
            steps=steps,
            lr=self.lr,
            schedule=lambda step, _: cosine(step, self.steps, self.warmup),
            device=CPU,
            watch=lambda step: [step, self.measured(speaker, validation[:1000])["exact"]],
            watch_every=1000,
            **how,
        )
        return speaker.model, history, {f"test_{name}": one for name, one in self.measured(speaker, test).items()}

    @staticmethod
    def measured(speaker: Translator, words: list[sounds.Word]) -> dict[str, float]:
        """The share of words that it says rightly in every sound, and its errors over the right sounds."""
        said, right = speaker.translate([row.word for row in words], max_len=LONGEST), [row.sounds for row in words]
        return {"exact": round(exact_match(said, right), 4), "error_rate": round(error_rate(said, right), 4)}

    def result(self, record: dict) -> str:
        """What a record says that the model is worth."""
        return (
            f"{record['test_exact']:.1%} of the test words right in every sound, {record['test_error_rate']:.1%} of "
            "the sounds wrong"
        )

    def batches_in_words(self) -> str:
        """What it reads in a step."""
        return f"{self.batch} words"


# Equal numbers of weights, as near as a width can bring them, and seconds equal within a tenth: a step with attention
# takes a quarter longer (the experiment `pace`). For each the learning rate is the best of 0.002, 0.004, 0.008, the
# largest tried, after 600 steps without dropout, on 1,000 validation words.
SPEAKERS = {
    "sounds_attention": SoundsRecipe(
        "GRUs that say how a word sounds, 224 units, with attention", "additive", (64, 224), lr=8e-3, steps=15000
    ),
    "sounds_one_vector": SoundsRecipe(
        "GRUs that say how a word sounds, 296 units, one vector between them", None, (64, 296), lr=8e-3, steps=17500
    ),
}


def reads_aloud(model: nn.Module | None) -> Translator:
    """A translator of words, text such as "photograph", into sounds, around a model of these recipes."""
    return Translator(model, WordTokenizer([LETTERS], characters=True), WordTokenizer([SOUNDS]))
