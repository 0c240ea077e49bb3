"""Dates: babel's own text in every language, links that a changed date confirms, splits without leaks."""

import importlib.metadata
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import cache

import datasets
import pytest
from babel import localedata
from babel.dates import format_date, get_date_format
from babel.lists import format_list

from course_lib.data import SPLITS, Pair, dates, read_card
from course_lib.data.dates import source as dates_source
from course_lib.data.dates.source import Language, align, find_locale, split

DAYS = [date(1992, 8, 13), date(1900, 1, 1), date(2044, 2, 29), date(1999, 5, 4),
        date(2005, 12, 31), date(1961, 6, 18), date(2099, 11, 7), date(2000, 3, 10)]  # fmt: skip
NAMED = "ar bn de en es fa fr he hi hu ja ko pt_BR ru sw th tr vi zh zh_Hant".split()


@cache
def known_languages():
    """The codes, without country or script, of every language that CLDR can write dates in."""
    found = []
    for code in sorted(localedata.locale_identifiers()):
        with suppress(ValueError):
            find_locale(code)
            found += [code] if "_" not in code else []
    return found


def links(source, target, days=DAYS[:1], style="full"):
    """The linked tokens, by name, of the same days in two languages."""
    here, there = Language(source, style).write(days), Language(target, style).write(days)
    return [(here.tokens[i], there.tokens[j]) for i, j in align(here.roles, there.roles)]


def alone(source, target, days=DAYS[:1]):
    """The target's tokens that are linked with nothing."""
    here, there = Language(source).write(days), Language(target).write(days)
    linked = {j for _, j in align(here.roles, there.roles)}
    return [token for j, token in enumerate(there.tokens) if j not in linked]


# What is written


def test_by_eye():
    [pair] = dates.pairs("train", "en", "hu", n_dates=2, size=1)
    assert pair == Pair(
        ["Thursday", ",", "April", "5", ",", "1951", "and", "Saturday", ",", "April", "20", ",", "2024"],
        ["1951", ".", "április", "5", ".", ",", "csütörtök", "és", "2024", ".", "április", "20", ".", ",", "szombat"],
        [(0, 6), (1, 5), (2, 2), (3, 3), (5, 0), (6, 7), (7, 14), (8, 13), (9, 10), (10, 11), (12, 8)],
    )


@pytest.mark.slow
@pytest.mark.parametrize("style", ["full", pytest.param("long", marks=pytest.mark.full)])
def test_the_text_is_babels_own_in_every_language(style):
    for code in {*known_languages(), *NAMED}:
        language = Language(code, style, "latin")
        for n in (1, 2, 3, 8):  # a list of four is joined as one of eight
            babels = [format_date(day, style, language.locale) for day in DAYS[-n:]]
            assert language.write(DAYS[-n:]).text == format_list(babels, locale=language.locale), (code, n)


def test_every_month_and_weekday_is_babels_own():
    for code in NAMED:
        for k in range(0, 380, 3):
            day = date(1951, 1, 1) + timedelta(k)
            assert Language(code, digits="latin").write([day]).text == format_date(day, "full", code), code


@pytest.mark.parametrize("code", ["ar", "de", "en", "es", "fa", "fr", "hu", "ja", "ru", "th"])
def test_a_year_in_words_stands_in_babels_pattern(code):
    language = Language(code, "words", "latin")
    for day in DAYS:
        [_, year] = language._fill("y", "year", day)
        words = language._values["y", day.year][0].replace("'", "''")
        pattern = re.sub("y+", f"'{words}'", get_date_format("long", code).pattern)
        text = language.write([day]).text
        assert text == format_date(day, pattern, code) and not re.search(r"\d{3}", text) and year


@pytest.mark.parametrize("code, written", [
    ("en", "August 13, nineteen ninety-two"),
    ("fr", "13 août mille neuf cent quatre-vingt-douze"),
    ("de", "13. August neunzehnhundertzweiundneunzig"),
    ("nb", "13. august nitten hundre og nittito"),
    ("ja", "千九百九十二年8月13日"),
])  # fmt: skip
def test_years_in_words(code, written):
    assert Language(code, "words").write(DAYS[:1]).text == written


@pytest.mark.parametrize("code, digits, written", [
    ("fa", "cldr", "پنجشنبه ۱۳ اوت ۱۹۹۲"),
    ("fa", "latin", "پنجشنبه 13 اوت 1992"),
    ("ar", "cldr", "الخميس، 13 أغسطس 1992"),
    ("ar", "native", "الخميس، ١٣ أغسطس ١٩٩٢"),
    ("ar_EG", "cldr", "الخميس، ١٣ أغسطس ١٩٩٢"),
    ("th", "native", "วันพฤหัสบดีที่ ๑๓ สิงหาคม ค.ศ. ๑๙๙๒"),
    ("zh", "native", "一九九二年八月一三日星期四"),
    ("fr", "native", "jeudi 13 août 1992"),
])  # fmt: skip
def test_digits(code, digits, written):
    assert Language(code, digits=digits).write(DAYS[:1]).text == written


def test_native_digits_are_the_same_numbers_in_every_language():
    for code in known_languages():
        native, latin = (Language(code, "long", digits).write(DAYS) for digits in ("native", "latin"))
        for token, plain, role in zip(native.tokens, latin.tokens, native.roles, strict=True):
            if role and role[1] in ("day", "year"):
                assert int("".join(str(int(unicodedata.numeric(c))) for c in token)) == int(plain), code


def test_the_tokens_make_up_the_text():
    for code in {*known_languages(), *NAMED}:
        for style in ("full", "long"):
            sentence = Language(code, style).write(DAYS[:4])
            assert "".join(sentence.tokens) == "".join(sentence.text.translate(dates_source.INVISIBLE).split()), code
            assert all(sentence.tokens) and len(sentence.roles) == len(sentence.tokens)


@pytest.mark.parametrize("code", "en en_GB fr de es pt_BR hu ru sw vi hi tr fa".split())
def test_a_typed_sentence_is_cut_as_the_corpus_is(code):
    sentence = Language(code).write(DAYS)
    assert split(sentence.text) == sentence.tokens


# What is linked


@pytest.mark.parametrize("target", "ar de es fa fr hi hu ja ru sw th tr zh".split())
@pytest.mark.parametrize("field", ["day", "month", "year"])
def test_what_changes_with_one_field_on_both_sides_is_what_is_linked(field, target):
    base = date(1992, 8, 13)
    other = {
        "day": date(1992, 8, 20),
        "month": next(d for m in range(1, 8) if (d := date(1992, m, 13)).weekday() == base.weekday()),
        "year": next(d for y in range(1993, 2050) if (d := date(y, 8, 13)).weekday() == base.weekday()),
    }[field]
    around = [date(2001, 3, 5), date(2044, 2, 29)]
    changed = []
    for code in ("en", target):
        before, after = (Language(code).write([around[0], day, around[1]]).tokens for day in (base, other))
        changed.append([i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b])
    here, there = (Language(code).write([around[0], base, around[1]]) for code in ("en", target))
    found = align(here.roles, there.roles)
    expected = {(i, j) for i in changed[0] for j in changed[1]}
    assert expected and {(i, j) for i, j in found if i in changed[0] or j in changed[1]} == expected


def test_fields_are_linked_with_all_their_tokens():
    assert links("en", "he")[:2] == [("Thursday", "יום"), ("Thursday", "חמישי")]
    assert links("en", "vi")[3:5] == [("August", "tháng"), ("August", "8")]
    year = [(a, b) for a in ("nineteen", "ninety-two") for b in "mille neuf cent quatre-vingt-douze".split()]
    assert links("en", "fr", style="words") == [("August", "août"), ("13", "13"), *year]
    assert links("fr", "en", style="words")[2:6] == [
        (b, a) for b in ("mille", "neuf") for a in ("nineteen", "ninety-two")
    ]


@pytest.mark.parametrize("target, separators", [
    ("fr", [(",", ","), ("and", "et")]),
    ("en_GB", [(",", ","), ("and", "and")]),
    ("hi", [(",", ","), (",", ","), ("and", "और")]),
    ("fa", [(",", "،"), (",", "،"), ("and", "و")]),
    ("ar", [(",", "و"), ("and", "و")]),
    ("ja", [(",", "、"), (",", "、"), ("and", "、")]),
    ("zh", [(",", "、"), ("and", "和")]),
    ("my", [(",", "-"), ("and", "နှင့်")]),
    ("th", [("and", "และ")]),
    ("ti", [(",", "፣"), ("and", "ን"), ("and", "ን")]),
    ("zu", [(",", ","), (",", ","), ("and", "ne-")]),
])  # fmt: skip
def test_separators_between_dates(target, separators):
    here, there = Language("en", "long").write(DAYS[:3]), Language(target, "long").write(DAYS[:3])
    found = [
        (here.tokens[i], there.tokens[j])
        for i, j in align(here.roles, there.roles)
        if here.roles[i][1] in ("and", "mark")
    ]
    assert found == separators


@pytest.mark.parametrize(
    "target, commas", [("fr", 0), ("de", 1), ("hu", 1), ("ar", 1), ("vi", 2), ("bn", 2), ("tr", 0)]
)
def test_a_comma_inside_a_date_answers_the_one_that_parts_the_same_fields(target, commas):
    assert [a for a, _ in links("en", target)].count(",") == commas
    assert [b for _, b in links(target, "en")].count(",") == commas


@pytest.mark.parametrize("target, without", [
    ("fr", []), ("en", []), ("de", ["."]), ("hu", [".", "."]), ("es", ["de", "de"]), ("fa", []), ("ar", []),
    ("th", ["ที่", "ค.ศ."]), ("ja", ["年", "月", "日"]), ("he", ["ב"]), ("ru", ["г", "."]), ("pt", ["de", "de"]),
])  # fmt: skip
def test_what_has_no_counterpart_is_linked_with_nothing(target, without):
    assert alone("en", target) == without


def test_the_other_direction_is_the_transpose_and_a_language_with_itself_the_diagonal():
    sentences = {code: Language(code).write(DAYS[:4]) for code in (*NAMED, "eu", "ti", "ml", "my")}
    for code, here in sentences.items():
        for there in sentences.values():
            back = {(i, j) for j, i in align(there.roles, here.roles)}
            assert set(align(here.roles, there.roles)) == back
        tokens = zip(here.tokens, here.roles, strict=True)
        found = align(here.roles, here.roles)
        assert {(i, i) for i, (_, role) in enumerate(tokens) if role} <= set(found), code
        assert all(here.roles[i] == here.roles[j] for i, j in found), code


def test_every_language_links_every_field_of_every_date():
    english = Language("en").write(DAYS[:3])
    for code in known_languages():
        there = Language(code).write(DAYS[:3])
        linked = {english.roles[i] for i, _ in align(english.roles, there.roles)}
        for k in range(3):
            assert {(k, "day"), (k, "month"), (k, "year")} <= linked, code


# Splitting


def said(split_, **asked):
    """The dates that the English side of a split says, read back from its text."""
    found = set()
    for pair in dates.pairs(split_, "en", "fr", **asked):
        for weekday, rest in re.findall(r"([A-Z]\w+day) , (\w+ \d+ , \d{4})", " ".join(pair.source)):
            day = datetime.strptime(rest, "%B %d , %Y").date()
            assert day.strftime("%A") == weekday
            found.add(day)
    return found


@pytest.mark.slow
def test_no_date_of_one_split_is_said_in_another():
    train = said("train") | said("train", n_dates=(5, 8), size=3_000, seed=7)
    test = said("test") | said("test", n_dates=(5, 8), seed=7) | said("test", n_dates=1, seed=3)
    validation = said("validation") | said("validation", n_dates=8, seed=7)
    assert min(map(len, (train, validation, test))) > 2_500
    assert not train & test and not train & validation and not validation & test
    assert train <= set(dates.days("train")) and test <= set(dates.days("test"))


@pytest.mark.slow
def test_every_day_is_in_one_split_and_every_word_is_trained():
    parts = {part: dates.days(part) for part in SPLITS}
    assert sorted(day for part in parts.values() for day in part) == [
        date(1900, 1, 1) + timedelta(k) for k in range(73_049)
    ]
    assert {part: len(found) for part, found in parts.items()} == {"train": 58_580, "validation": 7_272, "test": 7_197}
    assert {word for pair in dates.pairs("test") for word in pair.target} <= {
        word for pair in dates.pairs("train") for word in pair.target
    }


@pytest.mark.slow
def test_the_checksum_is_pinned():
    assert dates.checksum() == "a3c6aa63dea0f8ef2d2e4fc96ff84d10c24021976bc438db46753744e37ed19c"


def test_the_dates_depend_on_split_seed_and_number_only():
    few = dates.pairs("train", size=50)
    assert few == dates.pairs("train", size=80)[:50] == dates.pairs("train", size=50)
    assert few != dates.pairs("train", size=50, seed=1)
    same = [[t for t in pair.target if re.fullmatch(r"\d{4}", t)] for pair in few]
    german = dates.pairs("train", "hu", "de", size=50, style="long")
    assert [[t for t in pair.target if re.fullmatch(r"\d{4}", t)] for pair in german] == same


@pytest.mark.slow
def test_no_sentence_stands_twice_and_every_length_comes_equally_often():
    for part in SPLITS:
        assert len({tuple(pair.source) for pair in dates.pairs(part)}) == dates.SIZES[part]
    counts = Counter(pair.source.count("and") + pair.source.count(",") for pair in dates.pairs("train"))
    assert len(counts) == 4 and min(counts.values()) > 4_700
    assert len({tuple(pair.source) for pair in dates.pairs("test", n_dates=1, size=7_197)}) == 7_197


# Loading


@pytest.mark.slow
def test_load_gives_the_pairs_with_their_text():
    sizes = {"train": 300, "test": 20}
    loaded = dates.load("en", "fa", n_dates=(2, 3), sizes=sizes, seed=5)
    assert isinstance(loaded, datasets.DatasetDict) and list(loaded) == list(SPLITS)
    for part in SPLITS:
        rows, expected = loaded[part], dates.pairs(part, "en", "fa", (2, 3), sizes.get(part), 5)
        assert len(rows) == sizes.get(part, 1_000)
        for row, pair in zip(rows, expected, strict=True):
            assert (row["source_tokens"], row["target_tokens"]) == (pair.source, pair.target)
            assert [tuple(link) for link in row["alignment"]] == pair.alignment
            assert split(row["source"]) == pair.source and split(row["target"]) == pair.target
            assert row["n_dates"] == sum(bool(re.fullmatch(r"\d{4}", token)) for token in pair.source) in (2, 3)


@pytest.mark.slow
def test_links_point_at_tokens():
    for target in dates.SHOWN:
        for pair in dates.pairs("validation", "en", target, (1, 8), 200, style="words"):
            assert pair.alignment == sorted(set(pair.alignment))
            assert all(0 <= i < len(pair.source) and 0 <= j < len(pair.target) for i, j in pair.alignment)


def test_what_a_caller_does_to_the_pairs_stays_with_the_caller():
    before = dates.pairs("test", size=5)
    for pair in dates.pairs("test", size=5):
        pair.source.clear(), pair.target.clear(), pair.alignment.clear()
    dates.days("test").clear()
    assert dates.pairs("test", size=5) == before


@pytest.mark.slow
def test_pairs_need_no_heavy_import():
    code = "import sys; from course_lib.data import dates; assert 'babel' not in sys.modules; dates.pairs('test'); "
    code += "print({'datasets', 'torch', 'numpy', 'num2words', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.slow
def test_the_card_counts_rightly():
    def speaks(code):
        try:
            return bool(Language(code, "words"))
        except ValueError:
            return False

    card = read_card("dates")
    assert f"any two of the {len(known_languages())} languages" in card
    assert f"({sum(map(speaks, known_languages()))} languages)" in card


def test_the_packages_are_those_that_the_card_names():
    for pinned in dates_source.PACKAGES:
        name, version = pinned.split("==")
        assert importlib.metadata.version(name) == version


# Refusing


@pytest.mark.slow
@pytest.mark.parametrize("code, message", [
    ("french", r"no language 'french'; try 'fr' \(French\)\."),
    ("jp", r"try 'ja' \(Japanese\)"),
    ("gr", r"try 'el' \(Greek\)"),
    ("fr_JP", r"try 'fr' \(French\) or 'ja' \(Japanese\)"),
    ("qqq", "try a code such as 'fr'"),
    ("", "knows no language ''"),
    ("fr fr", "knows no language 'fr fr'"),
    ("wa", "no names of months and weekdays for 'wa' yet"),
    ("mzn", "no names of months and weekdays for 'mzn' yet"),
])  # fmt: skip
def test_an_unknown_language_is_refused(code, message):
    for languages in ((code, "fr"), ("fr", code)):
        with pytest.raises(ValueError, match=message):
            dates.pairs("test", *languages)
        with pytest.raises(ValueError, match=message):
            dates.load(*languages)


@pytest.mark.parametrize("code", [None, 3, ["fr"], b"fr"])
def test_a_language_is_a_string(code):
    with pytest.raises(TypeError, match="A language is a code such as 'fr'"):
        dates.pairs("test", "en", code)


@pytest.mark.parametrize("code", ["pt-BR", "pt_br", "PT_BR"])
def test_a_code_is_taken_in_any_spelling(code):
    assert dates.pairs("test", "en", code, size=3) == dates.pairs("test", "en", "pt_BR", size=3)


@pytest.mark.parametrize("code", ["sv", "sw", "vi", "zh", "sr"])  # sr: num2words writes the other script
def test_years_without_words_are_refused(code):
    with pytest.raises(ValueError, match=f"num2words writes no years in {code}: choose style 'full'"):
        dates.pairs("test", "en", code, style="words")
    assert "hiljada" in dates.pairs("test", "en", "sr_Latn", style="words")[0].target


@pytest.mark.parametrize("asked, message", [
    ({"n_dates": 0}, r"n_dates must be a number from 1 to 8, .* not 0\."),
    ({"n_dates": 9}, "not 9"),
    ({"n_dates": (0, 4)}, r"not \(0, 4\)"),
    ({"n_dates": (3, 2)}, r"not \(3, 2\)"),
    ({"n_dates": (1, 9)}, r"not \(1, 9\)"),
    ({"n_dates": (1, 2, 3)}, r"not \(1, 2, 3\)"),
    ({"n_dates": 1.5}, "not 1.5"),
    ({"n_dates": True}, "not True"),
    ({"n_dates": None}, "not None"),
    ({"style": "short"}, "style must be one of full, long, words, not 'short'"),
    ({"digits": "roman"}, "digits must be one of cldr, native, latin, not 'roman'"),
    ({"size": 0}, "size must be a whole number, 1 or more, not 0"),
    ({"size": 2.0}, "not 2.0"),
    ({"seed": "a"}, "seed must be a whole number, not 'a'"),
    ({"size": 7_198, "n_dates": 1}, "The test split has 7,197 single dates: 7,198 are too many"),
])  # fmt: skip
def test_bad_numbers_and_styles_are_refused(asked, message):
    with pytest.raises(ValueError, match=message):
        dates.pairs("test", **asked)


def test_an_unknown_split_is_refused():
    for ask in (dates.pairs, dates.days):
        with pytest.raises(ValueError, match="'train', 'validation' or 'test', not 'dev'"):
            ask("dev")
    with pytest.raises(ValueError, match="sizes names the splits .* not .*'dev'"):
        dates.load(sizes={"dev": 3})
    with pytest.raises(ValueError, match="size must be a whole number, 1 or more, not -1"):
        dates.load(sizes={"test": -1})


@pytest.mark.parametrize("name, style", [("babel", "full"), ("num2words", "words")])
def test_a_missing_package_says_what_to_install(monkeypatch, name, style):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=f"pip install .*{name}=="):
        dates.pairs("test", style=style)
