"""Models that the course trained: what their cards say is so, they come back whole, and a bad file is refused."""

import json
import math
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from course_lib.bert.pretraining import masked_bits, play_pieces, small_bert
from course_lib.data import plays as texts
from course_lib.data.checksums import LIST
from course_lib.language import next_token
from course_lib.language.next_token import bits_per_token, small_gpt, subwords
from course_lib.lesson.syllabus import SHELF
from course_lib.recurrent import lstm
from course_lib.recurrent.language_model import bits_per_character, streams
from course_lib.text.tokenizers import CharTokenizer
from course_lib.text.wordpiece import WordPiece
from course_lib.workshop.recipes import plays, smaller_bert, stored
from course_lib.workshop.recipes.__main__ import cards, recipes
from course_lib.workshop.recipes.stored import CHECKPOINTS, list_checksum, load, save, train

ROOT = CHECKPOINTS.parents[1]
SOME = 20_000  # characters of the test plays
RECIPES = recipes()
PLAYS = [name for name, recipe in RECIPES.items() if "tokenizer" in recipe.holds]
LEARNERS = {"plays_gpt": subwords, "plays_bert": play_pieces}  # the others read characters


@pytest.fixture(autouse=True, scope="module")
def pieces():
    """The pieces that lesson 16's models read, as a file has them: to learn them takes most of a minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smaller_bert, "pieces", cache(lambda: load(plays.BERT)[1]["tokenizer"]))
        yield


@cache
def learnt(tokenizer):
    """The tokenizer that this function learns from the train split."""
    return tokenizer(texts.text("train"))


def bits_of(name, text):
    """Bits per character of a text, or per masked piece, by the stored model."""
    model, record = load(RECIPES[name])
    read = record["tokenizer"].encode(text)
    if name == "plays_bert":
        return masked_bits(model, read, record["tokenizer"])
    of_tokens = bits_per_token if name == "plays_gpt" else bits_per_character
    return of_tokens(model, read.flip(0) if name == "plays_backward" else read) * len(read) / len(text)


@pytest.mark.full  # half a minute for a GPT, which reads each token of the test plays twice
@pytest.mark.parametrize("name", PLAYS)
def test_a_stored_model_is_worth_what_its_record_says(name):
    assert abs(bits_of(name, texts.text("test")) - load(RECIPES[name])[1]["test_bits"]) < 2e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYS)
def test_a_stored_model_is_worth_about_what_its_record_says(name):
    """On the first thirtieth of the test plays, which is not as hard as the rest: given up is the third digit."""
    record, text = load(RECIPES[name])[1], texts.text("test")[:SOME]
    assert abs(bits_of(name, text) - record["test_bits"]) < 0.25
    per_character = len(record["tokenizer"].encode(text)) / len(text)
    unit = 1 if name == "plays_bert" else per_character
    (_, first), *_, (_, last) = record["curve"]
    assert last * per_character / unit < 2.3 and 0.9 * math.log2(record["vocab_size"]) * unit < first


@pytest.mark.parametrize("name", RECIPES)
def test_a_stored_model_has_a_whole_record_and_a_small_file(name):
    (model, record), recipe = load(RECIPES[name]), RECIPES[name]
    assert not model.training and all(weight.isfinite().all() for weight in model.state_dict().values())
    assert record["weights"] == sum(weight.numel() for weight in model.parameters())
    assert record.keys() >= stored.RECORD | {*recipe.holds} and record["seed"] == recipe.seed
    steps = [step for step, _ in record["curve"]]
    assert steps[0] == 0 and steps[1] == recipe.look and steps[-1] == record["steps"] == recipe.steps
    assert (ROOT / recipe.file).stat().st_size < 4e6


def test_models_that_are_compared_have_about_the_same_number_of_weights():
    sizes = [load(recipe)[1]["weights"] for recipe in (plays.RNN, plays.LSTM, plays.GRU)]
    assert max(sizes) / min(sizes) < 1.07


def test_lesson_02_loads_nothing_of_a_later_lesson():
    """Its import cell, and a stored model: so a fault in the recipes of lesson 18 breaks lesson 18 alone."""
    notebook = json.loads((ROOT / "notebooks" / "02_lstm_gradient_flow.ipynb").read_text(encoding="utf-8"))
    (cell,) = [cell["source"] for cell in notebook["cells"] if cell["id"] == "setup"]
    code = (
        "".join(line for line in cell if not line.startswith("%")) + "\nload(STORED['LSTM'])\nimport sys\n"
        "print(*(name for name in sys.modules if name.startswith('course_lib.')))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    names = [name.removeprefix("course_lib.") for name in loaded.split()]
    assert {name.partition(".")[0] for name in names} & {*SHELF} == {"inputs", "text", "recurrent"}
    recipes = {name.rpartition(".")[2] for name in names if name.startswith("workshop.recipes.")}
    assert recipes == {"plays", "recipe", "stored"}
    assert len(names) < 85


# --- files that are not as they should be


def test_missing_damaged_and_foreign_files_are_refused_in_words(tmp_path, monkeypatch):
    weights = {key: value.contiguous() for key, value in load(plays.RNN)[0].state_dict().items()}
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path)
    path = tmp_path / "plays_rnn.safetensors"
    with pytest.raises(FileNotFoundError, match="python -m course_lib.workshop.recipes plays_rnn"):
        load(plays.RNN)
    path.write_bytes((CHECKPOINTS / path.name).read_bytes()[:5000])
    with pytest.raises(ValueError, match="plays_rnn.safetensors is damaged"):
        load(plays.RNN)
    list_checksum(path)  # it was damaged before it was listed
    with pytest.raises(ValueError, match="plays_rnn.safetensors is damaged"):
        load(plays.RNN)
    save_file(weights, path)
    list_checksum(path)
    with pytest.raises(ValueError, match="holds no weights of this course"):
        load(plays.RNN)
    path.write_bytes((CHECKPOINTS / "plays_lstm.safetensors").read_bytes())
    list_checksum(path)
    with pytest.raises(ValueError, match="does not fit its recipe"):
        load(plays.RNN)


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
            load(RECIPES[name])
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
        load(plays.RNN)


def test_the_list_names_every_stored_file_and_stays_when_one_is_listed_again(tmp_path):
    listed = (CHECKPOINTS / LIST).read_text()
    assert [line.split()[1] for line in listed.splitlines()] == sorted(f"{name}.safetensors" for name in RECIPES)
    shutil.copy(CHECKPOINTS / LIST, tmp_path)
    list_checksum(Path(shutil.copy(CHECKPOINTS / "plays_rnn.safetensors", tmp_path)))
    assert (tmp_path / LIST).read_text() == listed


LETTERS = CharTokenizer("abc").to_json()


@pytest.mark.parametrize(
    ("weights", "record", "tokenizer", "words"),
    [
        ({}, lambda whole: {}, str, "its record lacks commit, "),
        ({}, lambda whole: {"vocab_size": 71}, str, "its record lacks .*test_bits, weights"),
        ({}, lambda whole: [1], str, ""),
        ({}, lambda whole: whole | {"vocab_size": -1}, str, ""),
        ({}, lambda whole: whole | {"vocab_size": "many"}, str, ""),
        ({"readout.bias": None}, dict, str, "Missing key.*readout.bias"),
        ({"more": torch.zeros(1)}, dict, str, "Unexpected key.*more"),
        ({"readout.bias": torch.zeros(3)}, dict, str, "size mismatch for readout.bias"),
        ({}, dict, lambda whole: None, "its record lacks tokenizer"),
        ({}, dict, lambda whole: LETTERS, "its tokenizer has 4 tokens"),
        ({}, dict, lambda whole: '{"type": "T5"}', ""),
    ],
)
def test_a_file_whose_parts_do_not_fit_is_refused_in_words(tmp_path, monkeypatch, weights, record, tokenizer, words):
    model, whole = load(plays.RNN)
    monkeypatch.setattr(stored, "CHECKPOINTS", tmp_path)
    kept = {key: tensor.contiguous() for key, tensor in (model.state_dict() | weights).items() if tensor is not None}
    said = tokenizer(whole.pop("tokenizer").to_json())
    header = {"format": stored.FORMAT, "record": json.dumps(record(whole)), "tokenizer": said}
    save_file(kept, tmp_path / "plays_rnn.safetensors", metadata={key: part for key, part in header.items() if part})
    list_checksum(tmp_path / "plays_rnn.safetensors")
    with pytest.raises(ValueError, match=rf"plays_rnn.safetensors does not fit its recipe \(.*{words}"):
        load(plays.RNN)


def of_characters(name):
    """To learn pieces of the train split takes a tokenizer from five seconds to a minute; characters take none."""
    return pytest.param(name, marks=pytest.mark.full) if name in LEARNERS else name


@pytest.mark.parametrize("name", [of_characters(name) for name in PLAYS])
def test_the_stored_tokenizer_is_the_learnt_one(name):
    kept, fresh = load(RECIPES[name])[1]["tokenizer"], learnt(LEARNERS.get(name, CharTokenizer))
    assert type(kept) is type(fresh) and kept.to_json() == fresh.to_json()
    text = texts.text("test")[:20_000]
    assert torch.equal(kept.encode(text), fresh.encode(text))


@pytest.mark.parametrize("name", PLAYS)
def test_a_model_and_its_tokenizer_need_no_plays(name, monkeypatch):
    monkeypatch.setattr(texts, "text", lambda split: pytest.fail("the plays were read"))
    model, record = load(RECIPES[name])
    ids = record["tokenizer"].encode("To be, or not to be")
    assert len(record["tokenizer"]) == record["vocab_size"] > ids.max()
    logits = model(ids[None])
    assert (logits[0] if isinstance(logits, tuple) else logits).shape == (1, len(ids), record["vocab_size"])


# --- a short run of each kind of reader, on a small text


def a_text(seed, length):
    draw = random.Random(seed)
    return " ".join(draw.choice(["thou", "art", "a", "noble", "knave", "said", "he,", "!"]) for _ in range(length))[
        :length
    ]


TEXTS = {"train": a_text(0, 20_000), "validation": a_text(1, 34_000), "test": a_text(2, 18_000)}
FEW = {"steps": 4, "batch": 2}
GPT = replace(plays.GPT, build=lambda vocab_size: small_gpt(vocab_size, 8, 32, 2, 1, 0.1), length=8, **FEW)
BERT = replace(plays.BERT, build=lambda vocab_size: small_bert(vocab_size, 20, 32, 2, 1, 0.1), length=20, **FEW)
BACKWARD = replace(
    plays.BACKWARD, build=lambda vocab_size: plays.build_reader(vocab_size, lstm.LSTM, 4, 8), length=8, **FEW
)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(texts, "text", TEXTS.get)


def test_bits_of_subwords_are_said_per_character(tiny, short_run, monkeypatch):
    """A token's bits times tokens over characters: so models that cut a text differently can be compared."""
    taken, fit = [], plays.fit
    monkeypatch.setattr(plays, "fit", lambda *args, **how: taken.append(how["optimiser"]) or fit(*args, **how))
    model, record = short_run(GPT)
    tokens = subwords(TEXTS["train"])
    for text, said in ((TEXTS["test"], record["test_bits"]), (TEXTS["validation"][:33_000], record["curve"][-1][1])):
        ids = tokens.encode(text)
        assert len(ids) < len(text) / 2
        assert abs(bits_per_token(model, ids) * len(ids) / len(text) - said) < 1e-4
    assert record["vocab_size"] == len(tokens) and taken == [next_token.three_rounds]


def test_bits_of_masked_pieces_are_said_per_piece(tiny, short_run):
    few = WordPiece.train(TEXTS["train"], 60)
    model, record = short_run(replace(BERT, train=partial(plays.train_bert, learn_tokenizer=lambda text: few)))
    assert record["vocab_size"] == len(few)
    assert abs(masked_bits(model, few.encode(TEXTS["test"]), few) - record["test_bits"]) < 1e-4


def test_half_precision_halves_a_file_and_hardly_moves_the_logits(tiny, short_run):
    model, record = short_run(GPT)
    half = stored.CHECKPOINTS / "plays_gpt.safetensors"
    size, kept = half.stat().st_size, load_file(half)
    assert {part.dtype for part in kept.values()} == {torch.float16}
    ids = torch.randint(record["vocab_size"], (4, 8))
    expected = model(ids)
    assert (load(GPT)[0](ids) - expected).abs().max() < 5e-3 * expected.abs().max()
    assert 0.45 < size / save(replace(GPT, half=False), model, record).stat().st_size < 0.6
    assert torch.equal(load(GPT)[0](ids), expected)


def test_a_backwards_recipe_reads_every_text_from_its_end(tiny, short_run):
    read = []
    batches = lambda ids, *sizes: read.append(ids) or streams(ids, *sizes)  # noqa: E731
    model, record = short_run(replace(BACKWARD, train=partial(BACKWARD.train, batches=batches)))
    tokens = CharTokenizer(TEXTS["train"])
    assert any(torch.equal(ids, tokens.encode(TEXTS["train"][::-1])) for ids in read)
    for text, said in ((TEXTS["test"], record["test_bits"]), (TEXTS["validation"][-33_000:], record["curve"][-1][1])):
        assert abs(bits_per_character(model, tokens.encode(text[::-1])) - said) < 1e-4


def test_a_run_that_was_killed_goes_on(tiny, short_run, tmp_path):
    whole, _ = short_run(BACKWARD, 3)
    train(BACKWARD, 1, progress=False, checkpoint=tmp_path / "run")
    model, record = train(BACKWARD, 3, progress=False, checkpoint=tmp_path / "run")
    assert [step for step, _ in record["curve"]] == [0, 1, 3]
    assert all(torch.equal(one, two) for one, two in zip(whole.parameters(), model.parameters(), strict=True))


@pytest.mark.slow
def test_the_cards_are_those_of_the_stored_models():
    told = cards()  # it opens every model
    assert (CHECKPOINTS / "README.md").read_text(encoding="utf-8") == told
    assert told.count("Again: `python -m course_lib.workshop.recipes") == len(RECIPES)
