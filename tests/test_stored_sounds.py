"""The stored models that say how words sound: a fair pair, worth what their records say; a run of each on few words."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from course_lib.data import sounds
from course_lib.data.sounds import Word
from course_lib.train import published
from course_lib.workshop.experiments import recorded
from course_lib.workshop.experiments.attention_alignment.sounds import OURS, SMALL, pace
from course_lib.workshop.recipes.sounds import ATTENTION, ONE_VECTOR, build_speaker, measure_sounds, reads_aloud
from course_lib.workshop.recipes.stored import load

there = pytest.mark.skipif(
    published.find("cmudict") is None, reason="the dictionary is not here: python -m course_lib.train.published cmudict"
)


@pytest.mark.parametrize(
    "pair", [[ATTENTION.build, ONE_VECTOR.build], [partial(build_speaker, *s) for s in SMALL.values()]]
)
def test_the_two_differ_in_attention_alone(pair):
    """Equal weights within two in a hundred, one start, one kind of layers."""
    look, vector = models = [build() for build in pair]
    weights = [sum(p.numel() for p in model.parameters()) for model in models]
    assert 0.98 < weights[0] / weights[1] < 1.02
    assert [hasattr(model.decoder, "attention") for model in models] == [True, False]
    for model in models:
        assert model.encoder.rnn.bidirectional and not model.decoder.rnn.bidirectional
        for layer in (model.encoder.rnn, model.decoder.rnn):
            assert all(torch.equal(bias, torch.full_like(bias, 3.0)) for bias in layer.gate_biases(1))


def test_the_two_were_trained_for_about_the_same_time():
    """By milliseconds a step, taken in turns: what a record's seconds say depends on what else the machine did."""
    took = [recorded(pace).lists(model)[0] * recipe.steps for model, recipe in OURS.items()]
    assert 0.9 < took[0] / took[1] < 1.1


@pytest.mark.parametrize("recipe", OURS.values(), ids=OURS)
def test_a_stored_model_says_words(recipe):
    model, record = load(recipe)
    # of 1,000 words of validation, with a standard error of 0.016, beside that of all test words: four and a half
    (_, first), *_, (_, last) = record["curve"]
    assert first == 0 and abs(last - record["test_exact"]) < 0.07
    [said] = reads_aloud(model).translate(["photograph"], max_len=40)
    assert said[0] == "F" and said[-1] == "F"


@there
@pytest.mark.full  # the weights are those of their SHA-256; what they are worth, `make test-all` measures again
@pytest.mark.parametrize("recipe", OURS.values(), ids=OURS)
def test_a_stored_model_is_worth_what_its_record_says(recipe):
    """In full precision, as measured, and in half, as stored: three words in a thousand apart at most."""
    model, record = load(recipe)
    found = measure_sounds(reads_aloud(model), sounds.words("test"))
    assert abs(found["exact"] - record["test_exact"]) <= 3e-3
    assert abs(found["error_rate"] - record["test_error_rate"]) <= 1e-3


def test_what_it_looks_at_is_a_row_of_weights_for_each_sound():
    [looks] = reads_aloud(load(ATTENTION)[0]).attention([("photograph", "F OW1 T AH0 G R AE2 F".split())])
    assert looks.shape == (8, 10) and torch.allclose(looks.sum(1), torch.ones(8), atol=1e-5)
    assert looks[0].argmax() < looks[3].argmax() < looks[6].argmax()  # from left to right


# --- a run of each kind, on a few words

FEW = [Word("phone", ["F", "OW1", "N"]), Word("know", ["N", "OW1"]), Word("cat", ["K", "AE1", "T"])]


@pytest.mark.parametrize("recipe", OURS.values(), ids=OURS)
def test_a_run_makes_a_model_that_comes_back(short_run, monkeypatch, recipe):
    monkeypatch.setattr(sounds, "words", lambda split: list(FEW))
    small = partial(build_speaker, recipe.build.args[0], 4, 8)
    model, record = short_run(replace(recipe, build=small, batch=2))
    found = measure_sounds(reads_aloud(model), FEW)
    assert [record["test_exact"], record["test_error_rate"]] == [found["exact"], found["error_rate"]]


def test_measured_counts_words_and_sounds():
    class Speaker:
        def translate(self, words, max_len):
            return [["F", "OW1", "N"], ["K", "N", "OW1"], ["K", "AE1", "T"]]

    assert measure_sounds(Speaker(), FEW) == {"exact": 0.6667, "error_rate": 0.125}
