"""Models that the course trained: what their cards say is so, they come back whole, and a bad file is refused."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from course_lib.data import plays
from course_lib.language_model import bits_per_character
from course_lib.tokenizers import CharTokenizer
from course_lib.train import stored
from course_lib.train.stored import CHECKPOINTS, RECIPES, cards, load, save, train


@pytest.fixture(scope="module")
def unread():
    """The test plays as ids."""
    return CharTokenizer(plays.text("train")).encode(plays.text("test"))


@pytest.mark.parametrize("name", RECIPES)
def test_a_stored_model_is_worth_what_its_record_says(name, unread):
    model, record = load(name)
    assert not model.training and record["command"].endswith(name)
    assert record["weights"] == sum(p.numel() for p in model.parameters())
    read = unread.flip(0) if RECIPES[name].backwards else unread
    assert abs(bits_per_character(model, read) - record["test_bits"]) < 2e-3
    steps, bits = zip(*record["curve"], strict=True)
    assert steps[0] == 0 and steps[-1] == record["steps"] == RECIPES[name].steps
    assert bits[-1] < 2.3 < 6 < bits[0]


def test_models_that_are_compared_have_about_the_same_number_of_weights():
    sizes = [load(name)[1]["weights"] for name in ("plays_rnn", "plays_lstm", "plays_gru")]
    assert max(sizes) / min(sizes) < 1.07


def test_a_run_makes_a_model_that_comes_back_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path / "checkpoints")
    threads = torch.get_num_threads()
    try:
        model, record = train("plays_lstm", steps=3, progress=False)
    finally:
        torch.set_num_threads(threads)
    assert record["steps"] == 3 and [step for step, _ in record["curve"]] == [0, 3] and record["seed"] == 0
    path = save("plays_lstm", model, record)
    assert [file.name for file in path.parent.iterdir()] == [path.name]  # nothing half-written is left
    back, same = load("plays_lstm")
    assert same == record
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), back.state_dict().values(), strict=True))


def test_unknown_missing_damaged_and_foreign_files_are_refused_in_words(tmp_path, monkeypatch):
    with pytest.raises(LookupError, match="no model called 'plays_gpt'. There are: plays_rnn"):
        load("plays_gpt")
    weights = {key: value.contiguous() for key, value in load("plays_rnn")[0].state_dict().items()}
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path)
    with pytest.raises(FileNotFoundError, match="python -m course_lib.train.stored plays_rnn"):
        load("plays_rnn")
    (tmp_path / "plays_rnn.safetensors").write_bytes((CHECKPOINTS / "plays_rnn.safetensors").read_bytes()[:5000])
    with pytest.raises(ValueError, match="plays_rnn.safetensors is damaged"):
        load("plays_rnn")
    save_file(weights, tmp_path / "plays_rnn.safetensors")
    with pytest.raises(ValueError, match="holds no weights of this course"):
        load("plays_rnn")
    (tmp_path / "plays_rnn.safetensors").write_bytes((CHECKPOINTS / "plays_lstm.safetensors").read_bytes())
    with pytest.raises(ValueError, match="does not fit its recipe"):
        load("plays_rnn")


@pytest.mark.parametrize(
    ("weights", "record", "words"),
    [
        ({}, lambda whole: {}, "its record lacks command, "),
        ({}, lambda whole: {"vocab_size": 71}, "its record lacks .*test_bits, weights"),
        ({}, lambda whole: [1], ""),
        ({}, lambda whole: whole | {"vocab_size": -1}, ""),
        ({}, lambda whole: whole | {"vocab_size": "many"}, ""),
        ({"readout.bias": None}, lambda whole: whole, "Missing key.*readout.bias"),
        ({"more": torch.zeros(1)}, lambda whole: whole, "Unexpected key.*more"),
        ({"readout.bias": torch.zeros(3)}, lambda whole: whole, "size mismatch for readout.bias"),
    ],
)
def test_a_file_whose_parts_do_not_fit_is_refused_in_words(tmp_path, monkeypatch, weights, record, words):
    model, whole = load("plays_rnn")
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path)
    kept = {key: tensor.contiguous() for key, tensor in (model.state_dict() | weights).items() if tensor is not None}
    header = {"format": stored.FORMAT, "record": json.dumps(record(whole))}
    save_file(kept, tmp_path / "plays_rnn.safetensors", metadata=header)
    with pytest.raises(ValueError, match=rf"plays_rnn.safetensors does not fit its recipe \(.*{words}"):
        load("plays_rnn")


def test_a_header_without_its_record_is_refused_in_words(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path)
    save_file({"w": torch.zeros(1)}, tmp_path / "plays_rnn.safetensors", metadata={"format": stored.FORMAT})
    with pytest.raises(ValueError, match="does not fit its recipe .its record lacks"):
        load("plays_rnn")


def test_nothing_is_imported_that_no_recipe_needs_before_a_model_is_asked_for():
    program = (
        "import sys, course_lib.train.stored as s; print(*[m for m in sys.modules if m.startswith('course_lib.')])"
    )
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {name.split(".")[1] for name in seen} == {"data", "train"}


def test_a_recipe_makes_a_new_model_of_its_layer():
    for recipe in RECIPES.values():
        model = recipe.model(7)
        assert (
            recipe.layer.endswith(f":{type(model.rnn).__name__}")
            and (model.rnn.d_in, model.rnn.d_hidden) == recipe.sizes[:2]
        )
        assert model(torch.zeros(2, 3, dtype=torch.long))[0].shape == (2, 3, 7)


def test_the_cards_are_those_of_the_stored_models():
    assert (CHECKPOINTS / "README.md").read_text(encoding="utf-8") == cards()
    assert cards().count("Again: `python -m course_lib.train.stored") == len(RECIPES)
