"""The stored models that say how words sound: a fair pair, worth what their records say; a run of each on few words."""

import json
from dataclasses import replace

import pytest
import torch

from course_lib.data import sounds
from course_lib.data.sounds import Word
from course_lib.train import published
from course_lib.workshop.experiments import recorded
from course_lib.workshop.experiments.attention_alignment.sounds import OURS, SMALL, pace
from course_lib.workshop.recipes import stored
from course_lib.workshop.recipes.sounds import SPEAKERS, SoundsRecipe, reads_aloud
from course_lib.workshop.recipes.stored import CHECKPOINTS, cards, load, save, train

there = pytest.mark.skipif(
    published.find("cmudict") is None, reason="the dictionary is not here: python -m course_lib.train.published cmudict"
)


@pytest.mark.parametrize("pair", [SPEAKERS, SMALL])
def test_the_two_differ_in_attention_alone(pair):
    """Equal weights within two in a hundred, one start, one kind of layers, one learning rate for each."""
    look, vector = pair.values()
    weights = [sum(p.numel() for p in recipe.model().parameters()) for recipe in (look, vector)]
    assert 0.98 < weights[0] / weights[1] < 1.02
    assert (look.attention, vector.attention) == ("additive", None)
    told = ("dropout", "update_bias", "batch", "warmup", "seed", "half", "words")
    assert [getattr(look, name) for name in told] == [getattr(vector, name) for name in told]
    for recipe in (look, vector):
        model = recipe.model()
        assert model.encoder.rnn.bidirectional and not model.decoder.rnn.bidirectional
        for layer in (model.encoder.rnn, model.decoder.rnn):
            assert all(torch.equal(bias, torch.full_like(bias, 3.0)) for bias in layer.gate_biases(1))


def test_the_two_were_trained_for_about_the_same_time():
    """By milliseconds a step, taken in turns: what a record's seconds say depends on what else the machine did."""
    took = [recorded(pace).lists(model)[0] * SPEAKERS[name].steps for model, name in OURS.items()]
    assert 0.9 < took[0] / took[1] < 1.1


@pytest.mark.parametrize("name", SPEAKERS)
def test_a_stored_model_has_a_whole_record_and_a_small_file(name):
    (model, record), recipe = load(name), SPEAKERS[name]
    assert not model.training
    assert record["weights"] == sum(p.numel() for p in model.parameters())
    steps, shares = zip(*record["curve"], strict=True)
    assert steps[0] == 0 and steps[-1] == record["steps"] == recipe.steps
    # of 1,000 words of validation, with a standard error of 0.016, beside that of all test words: four and a half
    assert shares[0] == 0 and abs(shares[-1] - record["test_exact"]) < 0.07
    assert (CHECKPOINTS / f"{name}.safetensors").stat().st_size < 2e6
    [said] = reads_aloud(model).translate(["photograph"], max_len=40)
    assert said[0] == "F" and said[-1] == "F"


@there
@pytest.mark.full  # the weights are those of their SHA-256; what they are worth, `make test-all` measures again
@pytest.mark.parametrize("name", SPEAKERS)
def test_a_stored_model_is_worth_what_its_record_says(name):
    """In full precision, as measured, and in half, as stored: three words in a thousand apart at most."""
    model, record = load(name)
    found = SoundsRecipe.measured(reads_aloud(model), sounds.words("test"))
    assert abs(found["exact"] - record["test_exact"]) <= 3e-3
    assert abs(found["error_rate"] - record["test_error_rate"]) <= 1e-3


def test_what_it_looks_at_is_a_row_of_weights_for_each_sound():
    [looks] = reads_aloud(load("sounds_attention")[0]).attention([("photograph", "F OW1 T AH0 G R AE2 F".split())])
    assert looks.shape == (8, 10) and torch.allclose(looks.sum(1), torch.ones(8), atol=1e-5)
    assert looks[0].argmax() < looks[3].argmax() < looks[6].argmax()  # from left to right


# --- a run of each kind, on a few words

FEW = [Word("phone", ["F", "OW1", "N"]), Word("know", ["N", "OW1"]), Word("cat", ["K", "AE1", "T"])]


@pytest.fixture
def few(tmp_path, monkeypatch):
    """Three words in each split, small recipes, and a folder for the checkpoints."""
    monkeypatch.setattr(sounds, "words", lambda split: list(FEW))
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path / "data" / "checkpoints")
    small = {name: replace(recipe, sizes=(4, 8), batch=2, steps=3) for name, recipe in SPEAKERS.items()}
    monkeypatch.setattr(stored, "RECIPES", small)
    threads = torch.get_num_threads()
    yield tmp_path
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", SPEAKERS)
def test_a_run_makes_a_model_that_comes_back_in_half_precision(few, name):
    model, record = train(name, steps=2, progress=False)
    assert record["steps"] == 2 and [step for step, _ in record["curve"]] == [0, 2]
    assert record["recipe"]["sizes"] == [4, 8]
    assert {f"test_{key}": one for key, one in SoundsRecipe.measured(reads_aloud(model), FEW).items()} == {
        key: record[key] for key in ("test_exact", "test_error_rate")
    }
    save(name, model, record)
    back, same = load(name)
    assert same == json.loads(json.dumps(record))
    for key, weight in back.state_dict().items():
        assert torch.equal(weight, model.state_dict()[key].half().float())
    card = cards().split("## ")[1]
    assert card.startswith(f"`{name}`") and "2 steps of 2 words, learning rate `0.008`" in card
    assert "of the test words right in every sound" in card


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on(few):
    whole, _ = train("sounds_attention", steps=3, progress=False)
    file = few / "run"
    train("sounds_attention", steps=1, progress=False, checkpoint=file)
    model, record = train("sounds_attention", steps=3, progress=False, checkpoint=file)
    assert all(torch.equal(one, two) for one, two in zip(whole.parameters(), model.parameters(), strict=True))


def test_measured_counts_words_and_sounds():
    class Speaker:
        def translate(self, words, max_len):
            return [["F", "OW1", "N"], ["K", "N", "OW1"], ["K", "AE1", "T"]]

    assert SoundsRecipe.measured(Speaker(), FEW) == {"exact": 0.6667, "error_rate": 0.125}
