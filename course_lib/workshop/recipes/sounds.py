"""The stored models that say how words sound, `ATTENTION` and `ONE_VECTOR`. Lesson 04.

speaker = reads_aloud(load(sounds.ATTENTION)[0])
speaker.translate(["photograph"], max_len=40)
"""

from functools import partial

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
from course_lib.workshop.recipes.recipe import Recipe

CPU = torch.device("cpu")  # models this small are no faster on a GPU
LONGEST = 40  # sounds at most: 28 are the most in the dictionary


def build_speaker(attention: str | None, d_words: int, d_hidden: int) -> Seq2Seq:
    """A Seq2Seq of GRUs whose encoder reads both ways: letters (B, S), sounds so far (B, T) -> logits (B, T, 74).

    Its update gates start at 3, so that old states are kept for longer (lesson 02).
    """
    speaker = reads_aloud(None)
    sizes = (len(speaker.reads), len(speaker.writes), d_words, d_hidden)
    model = Seq2Seq(*sizes, attention, "gru", bidirectional=True, dropout=0.1)
    for layer in (model.encoder.rnn, model.decoder.rnn):
        for bias in layer.gate_biases(1):
            bias.fill_(3.0)
    return model


def train_speaker(recipe: Recipe, steps: int, **how) -> tuple[nn.Module, History, dict]:
    """Train a network on the words; looks are [step, share of 1,000 validation words said rightly].

    Raises what `sounds.words` raises where the dictionary is not there.
    """
    train, validation, test = (sounds.words(split) for split in ("train", "validation", "test"))
    speaker = reads_aloud(recipe.build())
    history = fit(
        speaker.model,
        batches(speaker.ids(train), recipe.batch, recipe.seed),
        translation_loss,
        steps=steps,
        lr=recipe.lr,
        schedule=lambda step, _: cosine(step, recipe.steps, 200),
        device=CPU,
        watch=lambda step: [step, measure_sounds(speaker, validation[:1000])["exact"]],
        **how,
    )
    return speaker.model, history, {f"test_{name}": one for name, one in measure_sounds(speaker, test).items()}


def measure_sounds(speaker: Translator, words: list[sounds.Word]) -> dict[str, float]:
    """The share of words that it says rightly in every sound, and its errors over the right sounds."""
    said, right = speaker.translate([row.word for row in words], max_len=LONGEST), [row.sounds for row in words]
    return {"exact": round(exact_match(said, right), 4), "error_rate": round(error_rate(said, right), 4)}


# Equal numbers of weights, as near as a width can bring them, and seconds equal within a tenth: a step with attention
# takes a quarter longer (the experiment `pace`). For each the learning rate is the best of 0.002, 0.004, 0.008, the
# largest tried, after 600 steps without dropout, on 1,000 validation words.
WORDS = {
    "train": train_speaker,
    "worth": "{test_exact:.1%} of the test words right in every sound, {test_error_rate:.1%} of the sounds wrong",
    "holds": ("test_exact", "test_error_rate"),
    "reads": "{} words",
    "lr": 8e-3,
    "batch": 128,
    "look": 1000,
}
ATTENTION = Recipe(
    "sounds_attention",
    "GRUs that say how a word sounds, 224 units, with attention",
    partial(build_speaker, "additive", 64, 224),
    steps=15_000,
    **WORDS,
)
ONE_VECTOR = Recipe(
    "sounds_one_vector",
    "GRUs that say how a word sounds, 296 units, one vector between them",
    partial(build_speaker, None, 64, 296),
    steps=17_500,
    **WORDS,
)


def reads_aloud(model: nn.Module | None) -> Translator:
    """A translator of words, text such as "photograph", into sounds, around a model of these recipes."""
    return Translator(model, WordTokenizer([LETTERS], characters=True), WordTokenizer([SOUNDS]))
