"""What holds for every corpus: without the package that makes tables of it, one sentence, and its rows all the same."""

import importlib
import sys
from pathlib import Path

import datasets
import pytest

from course_lib.data import SPLITS, plays, read_card, read_list
from course_lib.data.senses import CHECKSUM

# How each corpus gives its rows, a list, without a package.
ROWS = {
    "dates": lambda dates, split: dates.pairs(split, size=5),
    "emoji": lambda emoji, split: emoji.rows(split),
    "emoji_names": lambda emoji_names, split: emoji_names.names(split, "ko"),
    "grammar": lambda grammar, split: grammar.pairs(split, 5),
    "interface": lambda interface, split: interface.rows(split),
    "locale_names": lambda locale_names, split: locale_names.names("ka", split),
    "plays": lambda plays, split: plays.rows(split),
    "sounds": lambda sounds, split: sounds.words(split),
    "territories": lambda territories, split: territories.facts(split),
    "word_tasks": lambda word_tasks, split: word_tasks.rows(split),
}
WITHOUT = ROWS | {
    "digits": lambda digits, split: digits.arrays(split)[0],
    "senses": lambda senses, split: senses.rows(),
}


def corpus(name):
    return importlib.import_module(f"course_lib.data.{name}")


@pytest.mark.parametrize("name", WITHOUT)
def test_without_datasets_it_is_said_in_one_sentence_and_the_rows_are_there(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ModuleNotFoundError, match="needs the package datasets, which is missing: run `pip") as missing:
        corpus(name).load()
    pinned = str(missing.value).split("`")[1].removeprefix("pip install ")
    assert f'"{pinned}"' in (Path(__file__).parents[1] / "pyproject.toml").read_text()
    assert len(WITHOUT[name](corpus(name), "test")) > 0


@pytest.mark.parametrize("name", [*ROWS, "digits"])
def test_an_unknown_split_is_refused(name):
    with pytest.raises(ValueError, match="split must be 'train', 'validation' or 'test', not 'dev'"):
        WITHOUT[name](corpus(name), "dev")


@pytest.mark.parametrize("name", ROWS)
def test_what_a_caller_does_to_the_rows_stays_with_the_caller(name):
    rows = ROWS[name](corpus(name), "test")
    before = [*rows]
    rows.clear()
    assert ROWS[name](corpus(name), "test") == before


@pytest.mark.parametrize("name", ["emoji", "interface", "plays", "word_tasks"])
def test_load_gives_the_rows_of_each_split(name):
    loaded = corpus(name).load()
    assert isinstance(loaded, datasets.DatasetDict) and list(loaded) == list(SPLITS)
    for split in SPLITS:
        rows = ROWS[name](corpus(name), split)
        assert loaded[split].column_names == list(rows[0]._fields)
        assert [tuple(row.values()) for row in loaded[split]] == rows


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
    assert f"`{corpus(name).PACKAGE}`" in read_card(name)


def test_a_card_is_read_from_its_title_to_the_next_without_the_marks_of_what_is_made():
    text = read_card("plays")
    assert text.startswith("## Plays (`course_lib.data.plays`)\n") and text == plays.card()
    assert text.count("## ") == 1 and "<!--" not in text and text.endswith(f"checksum `{plays.checksum()}`.\n")
    with pytest.raises(LookupError, match="no card of 'songs'"):
        read_card("songs")
