"""Models that the course trained: what their cards say is so, they come back whole, and a bad file is refused."""

import json
import math
import random
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from course_lib.bert.bert import BertConfig
from course_lib.bert.bert_heads import MaskedWords
from course_lib.bert.pretraining import masked_bits
from course_lib.data import plays
from course_lib.data.checksums import LIST
from course_lib.language import next_token
from course_lib.language.gpt import GPT, GPTConfig
from course_lib.language.next_token import bits_per_token
from course_lib.recurrent.language_model import bits_per_character
from course_lib.text.tokenizers import CharTokenizer
from course_lib.text.wordpiece import WordPiece
from course_lib.workshop.recipes import plays as plays_recipes
from course_lib.workshop.recipes import stored
from course_lib.workshop.recipes.plays import PLAYS
from course_lib.workshop.recipes.stored import CHECKPOINTS, RECIPES, cards, list_checksum, load, save, train

SOME = 20_000  # characters of the test plays


@cache
def learnt(tokenizer):
    """The tokenizer that this function learns from the train split."""
    return tokenizer(plays.text("train"))


def bits_of(model, record, recipe, text):
    """Bits per character of a text, or per masked piece."""
    tokenizer, read = record["tokenizer"], record["tokenizer"].encode(text)
    per_character = len(read) / len(text)
    more, unit = ((tokenizer,), 1) if recipe.masked else ((), per_character)
    return recipe.bits(model, read.flip(0) if recipe.backwards else read, *more) * unit


@pytest.mark.full  # half a minute for a GPT, which reads each token of the test plays twice
@pytest.mark.parametrize("name", PLAYS)
def test_a_stored_model_is_worth_what_its_record_says(name):
    model, record = load(name)
    assert abs(bits_of(model, record, RECIPES[name], plays.text("test")) - record["test_bits"]) < 2e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYS)
def test_a_stored_model_is_worth_about_what_its_record_says(name):
    """On the first thirtieth of the test plays, which is not as hard as the rest: given up is the third digit."""
    (model, record), recipe, text = load(name), RECIPES[name], plays.text("test")[:SOME]
    assert not model.training
    assert record["weights"] == sum(p.numel() for p in model.parameters())
    assert abs(bits_of(model, record, recipe, text) - record["test_bits"]) < 0.25
    per_character = len(record["tokenizer"].encode(text)) / len(text)
    unit = 1 if recipe.masked else per_character
    steps, bits = zip(*record["curve"], strict=True)
    assert steps[0] == 0 and steps[-1] == record["steps"] == recipe.steps
    assert bits[-1] * per_character / unit < 2.3 and 0.9 * math.log2(record["vocab_size"]) * unit < bits[0]


def test_models_that_are_compared_have_about_the_same_number_of_weights():
    sizes = [load(name)[1]["weights"] for name in ("plays_rnn", "plays_lstm", "plays_gru")]
    assert max(sizes) / min(sizes) < 1.07


@pytest.mark.slow
def test_a_run_makes_a_model_that_comes_back_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path / "checkpoints")
    threads = torch.get_num_threads()
    try:
        model, record = train("plays_lstm", steps=3, progress=False)
    finally:
        torch.set_num_threads(threads)
    assert record["steps"] == 3 and [step for step, _ in record["curve"]] == [0, 3] and record["seed"] == 0
    path = save("plays_lstm", model, record)
    assert {file.name for file in path.parent.iterdir()} == {path.name, LIST}  # nothing half-written is left
    back, same = load("plays_lstm")
    assert same_records(same, record)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), back.state_dict().values(), strict=True))


def test_unknown_missing_damaged_and_foreign_files_are_refused_in_words(tmp_path, monkeypatch):
    with pytest.raises(LookupError, match="no model called 'plays_t5'. There are: plays_rnn"):
        load("plays_t5")
    weights = {key: value.contiguous() for key, value in load("plays_rnn")[0].state_dict().items()}
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path)
    with pytest.raises(FileNotFoundError, match="python -m course_lib.workshop.recipes.stored plays_rnn"):
        load("plays_rnn")
    (tmp_path / "plays_rnn.safetensors").write_bytes((CHECKPOINTS / "plays_rnn.safetensors").read_bytes()[:5000])
    with pytest.raises(ValueError, match="plays_rnn.safetensors is damaged"):
        load("plays_rnn")
    list_checksum(tmp_path / "plays_rnn.safetensors")  # it was damaged before it was listed
    with pytest.raises(ValueError, match="plays_rnn.safetensors is damaged"):
        load("plays_rnn")
    save_file(weights, tmp_path / "plays_rnn.safetensors")
    list_checksum(tmp_path / "plays_rnn.safetensors")
    with pytest.raises(ValueError, match="holds no weights of this course"):
        load("plays_rnn")
    (tmp_path / "plays_rnn.safetensors").write_bytes((CHECKPOINTS / "plays_lstm.safetensors").read_bytes())
    list_checksum(tmp_path / "plays_rnn.safetensors")
    with pytest.raises(ValueError, match="does not fit its recipe"):
        load("plays_rnn")


@pytest.mark.parametrize("name", RECIPES)
def test_a_flipped_bit_is_refused_wherever_it_lies(name, tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path)
    content = bytearray((CHECKPOINTS / f"{name}.safetensors").read_bytes())
    shutil.copy(CHECKPOINTS / LIST, tmp_path)
    draw = random.Random(name)
    for place in (0, len(content) - 1, *(draw.randrange(len(content)) for _ in range(3))):
        content[place] ^= (bit := 1 << draw.randrange(8))
        (tmp_path / f"{name}.safetensors").write_bytes(content)
        with pytest.raises(ValueError, match=f"{name}.safetensors is damaged: its SHA-256 is not the one in {LIST}"):
            load(name)
        content[place] ^= bit


@pytest.mark.parametrize(
    ("listed", "words"),
    [(None, "is damaged: its SHA-256 is not"), ("", "is damaged: its SHA-256 is not"), ("one two three", LIST)],
)
def test_a_model_that_no_list_vouches_for_is_refused(listed, words, tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path)
    shutil.copy(CHECKPOINTS / "plays_rnn.safetensors", tmp_path)
    if listed is not None:
        (tmp_path / LIST).write_text(listed)
    with pytest.raises(ValueError, match=words):
        load("plays_rnn")


def test_the_list_names_every_stored_file_and_stays_when_one_is_listed_again(tmp_path):
    listed = (CHECKPOINTS / LIST).read_text()
    assert [line.split()[1] for line in listed.splitlines()] == sorted(f"{name}.safetensors" for name in RECIPES)
    shutil.copy(CHECKPOINTS / LIST, tmp_path)
    list_checksum(Path(shutil.copy(CHECKPOINTS / "plays_rnn.safetensors", tmp_path)))
    assert (tmp_path / LIST).read_text() == listed


@pytest.mark.parametrize(
    ("weights", "record", "words"),
    [
        ({}, lambda whole: {}, "its record lacks commit, "),
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
    tokenizer = whole.pop("tokenizer").to_json()
    header = {"format": stored.FORMAT, "record": json.dumps(record(whole)), "tokenizer": tokenizer}
    save_file(kept, tmp_path / "plays_rnn.safetensors", metadata=header)
    list_checksum(tmp_path / "plays_rnn.safetensors")
    with pytest.raises(ValueError, match=rf"plays_rnn.safetensors does not fit its recipe \(.*{words}"):
        load("plays_rnn")


def test_a_header_without_its_record_is_refused_in_words(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path)
    save_file({"w": torch.zeros(1)}, tmp_path / "plays_rnn.safetensors", metadata={"format": stored.FORMAT})
    list_checksum(tmp_path / "plays_rnn.safetensors")
    with pytest.raises(ValueError, match="does not fit its recipe .its record lacks"):
        load("plays_rnn")


def of_characters(name):
    """To learn pieces of the train split takes a tokenizer from five seconds to a minute; characters take none."""
    return name if RECIPES[name].tokenizer is CharTokenizer else pytest.param(name, marks=pytest.mark.full)


@pytest.mark.parametrize("name", [of_characters(name) for name in PLAYS])
def test_the_stored_tokenizer_is_the_learnt_one(name):
    kept, fresh = load(name)[1]["tokenizer"], learnt(RECIPES[name].tokenizer)
    assert type(kept) is type(fresh) and kept.to_json() == fresh.to_json()
    text = plays.text("test")[:20_000]
    assert torch.equal(kept.encode(text), fresh.encode(text))


@pytest.mark.parametrize("name", PLAYS)
def test_a_model_and_its_tokenizer_need_no_plays(name, monkeypatch):
    monkeypatch.setattr(plays, "text", lambda split: pytest.fail("the plays were read"))
    model, record = load(name)
    ids = record["tokenizer"].encode("To be, or not to be")
    assert len(record["tokenizer"]) == record["vocab_size"] > ids.max()
    logits = model(ids[None])
    assert (logits[0] if isinstance(logits, tuple) else logits).shape == (1, len(ids), record["vocab_size"])


@pytest.mark.parametrize("change", ["none", "another", "broken"])
def test_a_tokenizer_that_does_not_fit_is_refused_in_words(tmp_path, monkeypatch, change):
    model, record = load("plays_rnn")
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path)
    header = {"format": stored.FORMAT, "record": json.dumps({k: v for k, v in record.items() if k != "tokenizer"})}
    words = {
        "none": "its record lacks tokenizer",
        "another": "its tokenizer has 4 tokens",
        "broken": "does not fit its recipe",
    }[change]
    if change != "none":
        header["tokenizer"] = CharTokenizer("abc").to_json() if change == "another" else '{"type": "T5"}'
    weights = {key: value.contiguous() for key, value in model.state_dict().items()}
    save_file(weights, tmp_path / "plays_rnn.safetensors", metadata=header)
    list_checksum(tmp_path / "plays_rnn.safetensors")
    with pytest.raises(ValueError, match=rf"plays_rnn.safetensors does not fit.*{words}|{words}"):
        load("plays_rnn")


def test_a_recipe_makes_a_new_model_of_its_layer():
    for recipe in PLAYS.values():
        model, ids = recipe.model(7), torch.zeros(2, 3, dtype=torch.long)
        if recipe.masked:
            assert model.bert.config == BertConfig(7, *recipe.sizes)
            words, pairs = model(ids)
            assert words.shape == (2, 3, 7) and pairs.shape == (2, 2)
        elif recipe.layer:
            assert type(model.rnn) is recipe.layer
            assert (model.rnn.d_in, model.rnn.d_hidden) == recipe.sizes[:2]
            assert model(ids)[0].shape == (2, 3, 7)
        else:
            assert model.config == GPTConfig(7, *recipe.sizes) and model(ids).shape == (2, 3, 7)


# --- other kinds of recipes, each on a small text and for some steps


def same_records(one, other):
    """Of the tokenizer, what it writes; of the rest, what JSON makes of it."""
    plain = [{key: value for key, value in record.items() if key != "tokenizer"} for record in (one, other)]
    tokenizers = [record["tokenizer"].to_json() for record in (one, other)]
    return json.dumps(plain[0]) == json.dumps(plain[1]) and tokenizers[0] == tokenizers[1]


def a_text(seed, length):
    draw = random.Random(seed)
    return " ".join(draw.choice(["thou", "art", "a", "noble", "knave", "said", "he,", "!"]) for _ in range(length))[
        :length
    ]


TEXTS = {"train": a_text(0, 20_000), "validation": a_text(1, 34_000), "test": a_text(2, 18_000)}


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The recipe of the GPT and one that reads backwards, made small, their texts and their folder."""
    small = {
        "gpt": replace(RECIPES["plays_gpt"], sizes=(8, 32, 2, 1, 0.1), steps=4, batch=2, chunk=8),
        "bert": replace(RECIPES["plays_bert"], sizes=(20, 32, 2, 1, 0.1), steps=4, batch=2, chunk=20, half=False),
        "back": replace(RECIPES["plays_backward"], sizes=(4, 8), steps=3, batch=2, chunk=8),
    }
    monkeypatch.setattr(stored, "RECIPES", small)
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path / "data" / "checkpoints")
    monkeypatch.setattr(plays, "text", TEXTS.get)
    threads = torch.get_num_threads()
    yield small
    torch.set_num_threads(threads)


def test_a_recipe_without_a_layer_is_a_whole_model(tiny):
    model, record = train("gpt", progress=False)
    assert isinstance(model, GPT) and not model.training
    assert model.config == GPTConfig(record["vocab_size"], 8, 32, 2, 1, 0.1)
    assert record["vocab_size"] == len(next_token.subwords(TEXTS["train"]))
    assert [step for step, _ in record["curve"]] == [0, 4]
    assert record["recipe"]["layer"] is None and record["recipe"]["sizes"] == [8, 32, 2, 1, 0.1]


@pytest.mark.slow
def test_bits_of_subwords_are_said_per_character(tiny):
    """A token's bits times tokens over characters: so models that cut a text differently can be compared."""
    model, record = train("gpt", progress=False)
    tokens = next_token.subwords(TEXTS["train"])
    for text, said in ((TEXTS["test"], record["test_bits"]), (TEXTS["validation"][:33_000], record["curve"][-1][1])):
        ids = tokens.encode(text)
        assert len(ids) < len(text) / 2
        assert abs(bits_per_token(model, ids) * len(ids) / len(text) - said) < 1e-4


def test_bits_of_masked_pieces_are_said_per_piece(tiny):
    few = WordPiece.train(TEXTS["train"], 60)
    stored.RECIPES["bert"] = replace(tiny["bert"], tokenizer=lambda text: few)
    model, record = train("bert", progress=False)
    assert isinstance(model, MaskedWords) and record["vocab_size"] == len(few)
    ids = few.encode(TEXTS["test"])
    assert abs(masked_bits(model, ids, few) - record["test_bits"]) < 1e-4
    save("bert", model, record)
    assert same_records(load("bert")[1], record)


def test_half_precision_halves_a_file_and_hardly_moves_the_logits(tiny):
    model, record = train("gpt", progress=False)
    path = save("gpt", model, record)
    half, kept = path.stat().st_size, load_file(path)
    assert {part.dtype for part in kept.values()} == {torch.float16}
    back, same = load("gpt")
    assert same_records(same, record) and record["recipe"]["reader"] == "small_gpt"
    for name, weight in back.state_dict().items():
        assert weight.dtype == torch.float32 and torch.equal(weight, model.state_dict()[name].half().float())
    ids = torch.randint(record["vocab_size"], (4, 8))
    expected = model(ids)
    assert (back(ids) - expected).abs().max() < 5e-3 * expected.abs().max()
    stored.RECIPES["gpt"] = replace(tiny["gpt"], half=False)
    whole = save("gpt", model, record).stat().st_size
    assert 0.45 < half / whole < 0.6
    assert torch.equal(load("gpt")[0](ids), expected)


@pytest.mark.parametrize("name, expected", [("gpt", next_token.three_rounds), ("back", None)])
def test_a_recipe_may_name_its_optimiser(tiny, monkeypatch, name, expected):
    taken, fit = [], plays_recipes.fit
    monkeypatch.setattr(plays_recipes, "fit", lambda *args, **how: taken.append(how["optimiser"]) or fit(*args, **how))
    train(name, steps=1, progress=False)
    assert taken == [expected]


def test_a_backwards_recipe_reads_every_text_from_its_end(tiny, monkeypatch):
    read, streams = [], tiny["back"].batches
    watched = replace(tiny["back"], batches=lambda ids, *sizes: read.append(ids) or streams(ids, *sizes))
    monkeypatch.setitem(stored.RECIPES, "back", watched)
    model, record = train("back", progress=False)
    tokens = CharTokenizer(TEXTS["train"])
    assert any(torch.equal(ids, tokens.encode(TEXTS["train"][::-1])) for ids in read)
    for text, said in ((TEXTS["test"], record["test_bits"]), (TEXTS["validation"][-33_000:], record["curve"][-1][1])):
        assert abs(bits_per_character(model, tokens.encode(text[::-1])) - said) < 1e-4
    path = save("back", model, record)
    assert {part.dtype for part in load_file(path).values()} == {torch.float32}


@pytest.mark.slow
def test_a_card_says_what_a_model_reads_and_which_way(tiny):
    for name in tiny:
        model, record = train(name, steps=1, progress=False)
        save(name, model, record)
    gpt, bert, back = cards().split("## ")[1:]
    assert gpt.startswith("`gpt`") and "2 × 8 subwords" in gpt and "backwards" not in gpt
    assert bert.startswith("`bert`") and "2 × 20 pieces of words" in bert and "bits per masked piece" in bert
    assert back.startswith("`back`") and "2 × 8 characters" in back and "test plays read backwards" in back


@pytest.mark.slow
def test_the_cards_are_those_of_the_stored_models():
    told = cards()  # it opens every model
    assert (CHECKPOINTS / "README.md").read_text(encoding="utf-8") == told
    assert told.count("Again: `python -m course_lib.workshop.recipes.stored") == len(RECIPES)
