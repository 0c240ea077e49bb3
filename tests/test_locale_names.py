"""Names in many languages: parallel, by CLDR's own word, split without leaks; shares of languages, draws, the card."""

import math
import subprocess
import sys
import unicodedata
from collections import Counter

import datasets
import pytest

from course_lib.data import SPLITS, locale_names, read_card
from course_lib.data.locale_names import KINDS, LANGUAGES, amounts, drawn, items, names, shares

ALL = {split: items(split) for split in SPLITS}
EVERY = items()
OF_SCRIPT = {
    "Han": ["CJK"], "Kanji and kana": ["CJK", "HIRAGANA", "KATAKANA"],
}  # fmt: skip


def named(language, code):
    """What a language calls a territory."""
    place = next(i for i, one in enumerate(EVERY) if (one.kind, one.code) == ("territory", code))
    return names(language)[place]


def test_counts_and_checksum_are_pinned():
    assert {split: len(part) for split, part in ALL.items()} == {"train": 618, "validation": 98, "test": 241}
    assert locale_names.checksum() == "238babcf91ff6933327345f4ba8351ebe5d499ca32baffc7401d8933706aa3a0"
    assert len(LANGUAGES) == 32 and list(LANGUAGES)[0] == "en"
    assert len({one.script for one in LANGUAGES.values()}) == 16


@pytest.mark.slow
def test_the_names_do_not_depend_on_which_language_was_asked_first():
    """babel hands a month that stands alone from the language asked first to those that have none of their own."""
    script = (
        "from babel import Locale\n"
        "from course_lib.data import locale_names\n"
        "for code in ('hu', 'ja', 'de', 'ur'):\n"
        "    Locale(code).months['stand-alone']['wide'], Locale(code).days['stand-alone']['wide']\n"
        "print(locale_names.checksum())\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout.strip() == locale_names.checksum()


def test_no_language_has_another_ones_months_or_days():
    """A language in another alphabet than Japanese writes no month or day with a Japanese sign, and so on."""
    for one in EVERY:
        if one.kind in ("month", "day"):
            for (code, language), name in zip(LANGUAGES.items(), one.names, strict=True):
                letters = {unicodedata.name(letter).split()[0] for letter in name if letter.isalpha()}
                known = {"MODIFIER", "CJK" if language.script in OF_SCRIPT else language.script.upper()}
                assert letters <= known, (code, name)


def test_languages_are_called_as_cldr_calls_them():
    from babel import Locale

    for code, language in LANGUAGES.items():
        assert language.name == Locale(code).english_name


@pytest.mark.slow
def test_entry_i_names_the_same_thing_in_every_language():
    """names: CLDR's own name of the item's code, without marks of direction, in every language, at the same place."""
    from babel import Locale

    for language in LANGUAGES:
        here = names(language)
        assert len(here) == len(EVERY)
        for one, name in zip(EVERY, here, strict=True):
            assert _seen(name) == _seen(_own_name(Locale(language), one)), (language, one)


def _own_name(locale, one):
    from babel.numbers import get_currency_name

    if one.kind == "money":
        return get_currency_name(one.code, locale=locale)
    if one.kind in ("month", "day"):
        return {"month": locale.months, "day": locale.days}[one.kind]["format"]["wide"][int(one.code)]
    return {"territory": locale.territories, "language": locale.languages, "script": locale.scripts}[one.kind][one.code]


def _seen(name):
    return unicodedata.normalize("NFC", "".join(c for c in name if unicodedata.category(c) not in ("Cf", "Zs")))


def test_names_are_known_ones():
    assert named("de", "EG") == "Ägypten" and named("ru", "EG") == "Египет" and named("ka", "EG") == "ეგვიპტე"
    assert {one.kind for one in EVERY} == set(KINDS)
    assert len({(one.kind, one.code) for one in EVERY}) == len(EVERY)


def test_names_are_clean():
    for one in EVERY:
        for name in one.names:
            assert name and name == " ".join(name.split()) and unicodedata.is_normalized("NFC", name)
            assert not {"\u200e", "\u200f"} & set(name)


@pytest.mark.parametrize("code", LANGUAGES)
def test_names_are_in_the_script_that_is_told_of_them(code):
    script = LANGUAGES[code].script
    letters = [unicodedata.name(c) for name in names(code) for c in name if c.isalpha()]
    own = sum(any(letter.startswith(one) for one in OF_SCRIPT.get(script, [script.upper()])) for letter in letters)
    assert own > 0.95 * len(letters)
    same = sum(one == english for one, english in zip(names(code), names("en"), strict=True))
    assert (same > 0) == (script == "Latin")  # another alphabet's language that keeps the English name has no name


def test_no_name_is_on_two_sides():
    for here, there in (("train", "test"), ("train", "validation"), ("validation", "test")):
        on = [{name.casefold() for one in ALL[split] for name in one.names} for split in (here, there)]
        assert not on[0] & on[1]
    assert [*ALL["train"], *ALL["validation"], *ALL["test"]] == EVERY
    assert names("th") == [name for split in SPLITS for name in names("th", split)]


def test_the_split_is_mixed_and_the_callers_own():
    for kind in ("territory", "language", "script", "money"):
        assert all(any(one.kind == kind for one in part[: len(part) // 2]) for part in ALL.values())
    items("test").clear()
    names("th", "test").clear()
    assert len(items("test")) == len(names("th", "test")) == len(ALL["test"])


@pytest.mark.parametrize("code", ["", "EN", "xx", "Thai", None, 0, ["en"]])
def test_an_unknown_language_is_said_in_words(code):
    with pytest.raises(ValueError, match="language must be one of the codes en, ru, .* my; got "):
        names(code)


def test_amounts_are_the_characters_of_train():
    found = amounts()
    assert list(found) == list(LANGUAGES)
    assert found["th"] == len("".join(names("th", "train"))) and found["zh"] < found["ja"] < found["en"]


def test_shares_of_one_are_zipfs_and_of_zero_equal():
    p = shares()
    assert list(p) == list(LANGUAGES) and math.isclose(sum(p.values()), 1)
    for rank, language in enumerate(LANGUAGES, start=1):
        assert math.isclose(p[language], p["en"] / rank)
        assert math.isclose(shares(0)[language], 1 / len(LANGUAGES))


@pytest.mark.parametrize("exponent", [0.7, 0.5, 0.3])
def test_shares_are_the_formula(exponent):
    """shares: q_i = p_i^exponent / Σ_j p_j^exponent; between the p_i and equal ones, in the same order."""
    p, q = shares(), shares(exponent)
    total = sum(one**exponent for one in p.values())
    assert all(math.isclose(q[language], p[language] ** exponent / total) for language in LANGUAGES)
    assert q["en"] < p["en"] and q["my"] > p["my"] and sorted(q.values(), reverse=True) == list(q.values())
    assert math.isclose(q["en"] / q["my"], (p["en"] / p["my"]) ** exponent)


@pytest.mark.parametrize("exponent", [-0.1, 1.1, math.nan, math.inf, None, "0.3", True, [0.3]])
def test_no_exponent_is_said_in_words(exponent):
    for asked in (shares, lambda one: drawn(5, one)):
        with pytest.raises(ValueError, match="exponent must be a number from 0 .* to 1 .*; got "):
            asked(exponent)


def test_draws_follow_the_shares():
    """drawn: languages as often as their shares say, names of their own and of the split; the same for a seed."""
    for exponent in (1, 0.3, 0):
        rows, q = drawn(20_000, exponent, seed=3), shares(exponent)
        counts = Counter(language for language, _ in rows)
        for language in LANGUAGES:
            assert abs(counts[language] / 20_000 - q[language]) < 5 * math.sqrt(q[language] / 20_000)
    for split in ("train", "test"):
        known = {language: set(names(language, split)) for language in LANGUAGES}
        assert all(name in known[language] for language, name in drawn(500, 0, split=split))
    assert drawn(50, 0.3, 1) == drawn(50, 0.3, 1) != drawn(50, 0.3, 2) and len(drawn(1)) == 1


@pytest.mark.parametrize("size", [0, -1, 1.5, math.nan, None, "3", True])
def test_no_size_is_said_in_words(size):
    with pytest.raises(ValueError, match="size must be how many names to draw, 1 or more; got "):
        drawn(size)


def test_load_gives_a_column_for_each_language():
    loaded = locale_names.load()
    assert isinstance(loaded, datasets.DatasetDict) and list(loaded) == list(SPLITS)
    assert loaded["test"].column_names == ["kind", "code", *LANGUAGES]
    for language in ("en", "ka", "my"):
        assert list(loaded["test"][language]) == names(language, "test")


def test_without_babel_it_is_said_in_a_sentence(monkeypatch):
    locale_names._splits.cache_clear()
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(ModuleNotFoundError, match="needs babel, which is missing: pip install babel==2.18.0"):
        names("en")


@pytest.mark.slow
def test_the_card_states_what_the_names_hold():
    text = " ".join(read_card("locale_names").split())
    assert f"{len(EVERY):,} things" in text and "32 languages of 16 scripts" in text
    assert locale_names.checksum() in text
    for kind in KINDS:
        counts = " | ".join(str(sum(one.kind == kind for one in part)) for part in ALL.values())
        assert f"| {kind} | {counts} |" in text
    for code, language in LANGUAGES.items():
        same = sum(one == english for one, english in zip(names(code), names("en"), strict=True))
        row = f"{language.name} | {language.script} | {language.family} | {named(code, 'EG')} | {amounts()[code]:,}"
        assert f"| `{code}` | {row} | {same:,} |" in text
    words = [{word for name in names("en", split) for word in name.split()} for split in ("train", "test")]
    assert {"Islands", "Dollar"} <= words[0] & words[1]  # as the card says of words
