"""What holds for every corpus: without the package that makes tables of it, one sentence, and its rows all the same."""

import importlib
import sys
from pathlib import Path

import pytest

from course_lib.data import plays, read_card, read_list
from course_lib.data.senses import CHECKSUM

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


def test_a_list_that_was_changed_is_refused_and_its_new_checksum_told():
    """read_list: rows without the line of the columns; another file than the one that the code names is refused."""
    assert ["bank", "money", "The bank closed my account without a word of warning."] in read_list("senses", CHECKSUM)
    with pytest.raises(RuntimeError, match=f"write its new checksum {CHECKSUM} where it is read"):
        read_list("senses", "0" * 64)


@pytest.mark.parametrize(
    "name", ["digits", "emoji", "emoji_names", "glyphs", "locale_names", "photographs", "territories"]
)
def test_a_card_names_the_package_that_the_corpus_is_read_from(name):
    corpus = importlib.import_module(f"course_lib.data.{name}")
    assert f"`{corpus.PACKAGE}`" in read_card(name)


def test_a_card_is_read_from_its_title_to_the_next_without_the_marks_of_what_is_made():
    text = read_card("plays")
    assert text.startswith("## Plays (`course_lib.data.plays`)\n") and text == plays.card()
    assert text.count("## ") == 1 and "<!--" not in text and text.endswith(f"checksum `{plays.checksum()}`.\n")
    with pytest.raises(LookupError, match="no card of 'songs'"):
        read_card("songs")
