"""The names of emoji in many languages: row i is the same emoji in each, by the package's own word; the card."""

import sys
import unicodedata

import datasets
import emoji as reference
import pytest

from course_lib.data import SPLITS, emoji, emoji_names, read_card
from course_lib.data.emoji_names import LANGUAGES, names

ALL = {code: {split: names(split, code) for split in SPLITS} for code in LANGUAGES}
OF_SCRIPT = {
    "Latin": "LATIN", "Cyrillic": "CYRILLIC", "Arabic": "ARABIC", "Han": "CJK",
    "Kanji and kana": "CJK|HIRAGANA|KATAKANA", "Hangul": "HANGUL",
}  # fmt: skip


def test_counts_and_checksum_are_pinned():
    for code in LANGUAGES:
        assert {split: len(part) for split, part in ALL[code].items()} == {"train": 823, "validation": 125, "test": 316}
    assert emoji_names.checksum() == "97e84bc0818cf1b6ce4969f2413428423357c2d442fb1c60a67b27d7d373ad86"
    assert len(LANGUAGES) == 14 and set(LANGUAGES) == set(reference.LANGUAGES)


@pytest.mark.parametrize("code", LANGUAGES)
def test_row_i_is_the_same_emoji_in_every_language(code):
    """names: the emoji, group and subgroup of `emoji.rows`, in its order; the name is the package's for it."""
    for split, part in ALL[code].items():
        assert [row[1:] for row in part] == [row[1:] for row in emoji.rows(split)]
        for row in part:
            own = reference.demojize(row.emoji, language=code)
            assert own.startswith(":") and row.name == own.strip(":").replace("_", " ").strip().lower(), row


def test_names_are_known_ones():
    tomato = {code: next(row.name for part in ALL[code].values() for row in part if row.emoji == "🍅") for code in ALL}
    assert tomato == {
        "en": "tomato", "de": "tomate", "es": "tomate", "fr": "tomate", "it": "pomodoro", "pt": "tomate",
        "tr": "domates", "id": "tomat", "ru": "помидор", "ar": "طماطم", "fa": "گوجه فرنگی", "zh": "西红柿",
        "ja": "トマト", "ko": "토마토",
    }  # fmt: skip


@pytest.mark.parametrize("code", LANGUAGES)
def test_names_are_clean_and_tell_emoji_apart(code):
    every = [row.name for part in ALL[code].values() for row in part]
    assert len(set(every)) == len(every)
    for name in every:
        assert name and name == " ".join(name.split()) == name.lower() and not set(name) & set(":_")
        assert unicodedata.is_normalized("NFC", name)
    written = " ".join(every)
    letters = [unicodedata.name(c) for c in written if c.isalpha()]
    own = sum(any(letter.startswith(one) for one in OF_SCRIPT[LANGUAGES[code].script].split("|")) for letter in letters)
    assert own > 0.97 * len(letters)


def test_what_has_no_name_in_one_language_is_left_out_of_all(monkeypatch):
    called = emoji_names._called()
    gone = ALL["en"]["test"][5].emoji
    without = called | {"ko": {sign: name for sign, name in called["ko"].items() if sign != gone}}
    monkeypatch.setattr(emoji_names, "_called", lambda: without)
    for code in ("en", "ko", "fr"):
        assert [row.emoji for row in names("test", code)] == [
            row.emoji for row in ALL[code]["test"] if row.emoji != gone
        ]


@pytest.mark.parametrize("code", ["", "EN", "nl", "English", None, 0, ["en"]])
def test_an_unknown_language_is_said_in_words(code):
    with pytest.raises(ValueError, match="language must be one of the codes en, de, es, .* ko; got "):
        names("test", code)


def test_load_gives_a_column_for_each_language():
    loaded = emoji_names.load()
    assert isinstance(loaded, datasets.DatasetDict) and list(loaded) == list(SPLITS)
    assert loaded["test"].column_names == ["emoji", "group", "subgroup", *LANGUAGES]
    for code in LANGUAGES:
        assert list(loaded["test"][code]) == [row.name for row in ALL[code]["test"]]
    assert list(loaded["test"]["emoji"]) == [row.emoji for row in ALL["en"]["test"]]


def test_a_damaged_file_or_none_says_what_to_do(monkeypatch):
    emoji_names._called.cache_clear()
    monkeypatch.setattr(emoji_names, "CHECKSUM", "0" * 64)
    with pytest.raises(RuntimeError, match="pip install --force-reinstall --no-deps emoji==2.16.0"):
        names("test", "de")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "emoji")
    emoji._splits()  # of the other package, read before
    with pytest.raises(ModuleNotFoundError, match="inside emoji, which is missing: pip install emoji==2.16.0"):
        names("test", "de")


@pytest.mark.slow
def test_the_card_states_what_the_names_hold():
    text = " ".join(read_card("emoji_names").split())
    assert "1,264 emoji" in text and "14 languages" in text and emoji_names.checksum() in text
    assert "823 for train, 125 for validation, 316 for test" in text
    english = [row.name for split in SPLITS for row in ALL["en"][split]]
    for code, language in LANGUAGES.items():
        here = [row.name for split in SPLITS for row in ALL[code][split]]
        same = sum(one == other for one, other in zip(here, english, strict=True))
        assert f"| `{code}` | {language.name} | {language.script} | {language.family} |" in text
        assert f"| {len(''.join(here)):,} | {same:,} |" in text
    camera = {code: next(row.name for part in ALL[code].values() for row in part if row.emoji == "🎥") for code in ALL}
    assert (camera["en"], camera["fr"]) == ("movie camera", "caméra")  # as the card says of it
