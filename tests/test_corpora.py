"""What holds for every corpus: without the package that makes tables of it, one sentence, and its rows all the same."""

import importlib
import sys
from pathlib import Path

import pytest

WITHOUT = {
    "dates": lambda dates: dates.pairs("test", size=5),
    "emoji": lambda emoji: emoji.rows("test"),
    "emoji_names": lambda emoji_names: emoji_names.names("test", "ko"),
    "digits": lambda digits: digits.arrays("test")[0],
    "grammar": lambda grammar: grammar.pairs("test", 5),
    "interface": lambda interface: interface.rows("test"),
    "locale_names": lambda locale_names: locale_names.names("ka"),
    "plays": lambda plays: plays.rows("test"),
    "senses": lambda senses: senses.rows(),
    "sounds": lambda sounds: sounds.words("test"),
    "territories": lambda territories: territories.facts("test"),
    "word_tasks": lambda word_tasks: word_tasks.rows("test"),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_without_datasets_it_is_said_in_one_sentence_and_the_rows_are_there(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    corpus = importlib.import_module(f"course_lib.data.{name}")
    with pytest.raises(ModuleNotFoundError, match="needs the package datasets, which is missing: run `pip") as missing:
        corpus.load()
    pinned = str(missing.value).split("`")[1].removeprefix("pip install ")
    assert f'"{pinned}"' in (Path(__file__).parents[1] / "pyproject.toml").read_text()
    assert len(WITHOUT[name](corpus)) > 0


def test_the_hub_without_datasets_is_answered_in_the_same_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    from course_lib.data import plays

    with pytest.raises(ModuleNotFoundError, match="needs the package datasets, which is missing"):
        plays.load("hub:wikitext")
