"""How a language writes a date and joins several: the patterns of Unicode CLDR, as the package `babel` ships them.

A pattern such as "EEEE, d. MMMM y" is filled in here field by field, so that of every token it is known which field
made it. The text is babel's own, letter by letter; a test holds the two equal in every language.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from babel import Locale

PACKAGES = ("babel==2.18.0", "num2words==0.5.14")
STYLES = ("full", "long", "words")
DIGITS = ("cldr", "native", "latin")
# CLDR names a language's digits; the first part of their Unicode name tells which ten characters those are.
DIGIT_NAMES = {
    "adlm": "ADLAM", "arab": "ARABIC-INDIC", "arabext": "EXTENDED ARABIC-INDIC", "beng": "BENGALI", "cakm": "CHAKMA",
    "deva": "DEVANAGARI", "gujr": "GUJARATI", "guru": "GURMUKHI", "hmnp": "NYIAKENG PUACHUE HMONG",
    "java": "JAVANESE", "khmr": "KHMER", "knda": "KANNADA", "laoo": "LAO", "mlym": "MALAYALAM", "mong": "MONGOLIAN",
    "mtei": "MEETEI MAYEK", "mymr": "MYANMAR", "nkoo": "NKO", "olck": "OL CHIKI", "orya": "ORIYA", "tamldec": "TAMIL",
    "telu": "TELUGU", "thai": "THAI", "tibt": "TIBETAN", "vaii": "VAI",
}  # fmt: skip
FIELDS = {"E": "weekday", "c": "weekday", "M": "month", "L": "month", "d": "day", "y": "year", "G": "era"}
CONVERTERS = {"nb": "no", "kk": "kz"}  # languages that num2words calls by another code
CARDINALS = {"ja", "ko"}  # its years name the emperor's era, or repeat the "year" that the pattern holds already
INVISIBLE = dict.fromkeys(map(ord, "\u061c\u200b\u200e\u200f"), " ")  # marks of direction, possible line breaks
JOINERS = "-'\u2019"


class Sentence(NamedTuple):
    """A list of dates in one language: its text, its tokens in logical order, and what made each token.

    A role is (which date, which field), (which gap, "and" or "mark"), or None: nothing that could have a counterpart.
    """

    text: str
    tokens: list[str]
    roles: tuple


class Language:
    """One language's way to write dates, in one style and with one kind of digits.

    Styles: "full" has the weekday, "long" has not, "words" is long with the year in words. Digits: "cldr" are those
    that the language writes by default, "native" those of its own script, "latin" 0 to 9.
    Raises ModuleNotFoundError without babel or num2words, TypeError or ValueError for a code that is none or that
    CLDR cannot write dates in, and ValueError for an unknown style or kind of digits, or years without words.
    """

    def __init__(self, code: str, style: str = "full", digits: str = "cldr") -> None:
        for name, value, known in (("style", style, STYLES), ("digits", digits, DIGITS)):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}.")
        self.locale = find_locale(code)
        from babel.dates import get_date_format

        self.pattern = get_date_format("full" if style == "full" else "long", self.locale).pattern
        self._parts = list(_parts(self.pattern))
        self._digits = _digits(self.locale, digits)
        self._year = _years_in_words(self.locale) if style == "words" else None
        self._values: dict[tuple, tuple[str, list[str]]] = {}  # of each field so far: there are few
        self._frames: dict[int, list[int | tuple]] = {}

    def write(self, days: Sequence[date]) -> Sentence:
        """The list of `days`, joined as the language joins a list with "and"."""
        text, tokens, roles = [], [], []
        if (n := len(days)) not in self._frames:
            self._frames[n] = self._frame(n)
        for part in self._frames[n]:
            if isinstance(part, int):
                for letters, value, words, what in self._parts:
                    if letters:
                        value, words = self._fill(letters, what[0], days[part])
                        what = what * len(words)
                    text.append(value)
                    tokens += words
                    roles += [w and (part, w) for w in what]
            else:
                text.append(part[0])
                tokens += part[1]
                roles += part[2]
        return Sentence("".join(text), tokens, tuple(roles))

    def _fill(self, letters: str, field: str, day: date) -> tuple[str, list[str]]:
        """The text and the tokens of one field of one day."""
        number = day.weekday() if field == "weekday" else getattr(day, field, None)  # an era has no number
        if (letters, number) not in self._values:
            from babel.dates import DateTimeFormat

            value = DateTimeFormat(day, self.locale)[letters]
            if field == "year" and self._year:
                self._values[letters, number] = (value := self._year(number)), split(value)
            else:
                value = value.translate(self._digits) if value.isdigit() else value
                self._values[letters, number] = value, value.split()
        return self._values[letters, number]

    def _frame(self, n: int) -> list[int | tuple]:
        """A list of n dates: the number of a date, or what stands around it (text, tokens, roles)."""
        whole: list[int | tuple] = [0]
        for k in range(1, n):
            name = "2" if n == 2 else "start" if k == 1 else "end" if k == n - 1 else "middle"
            longer: list[int | tuple] = []
            for i, piece in enumerate(re.split(r"\{([01])\}", self.locale.list_patterns["standard"][name])):
                if i % 2:
                    longer += whole if piece == "0" else [k]
                elif piece:
                    words = split(piece)
                    longer.append((piece, words, [_separates(word, words, k - 1) for word in words]))
            whole = longer
        return whole


@lru_cache(maxsize=4096)
def align(source: tuple, target: tuple) -> tuple[tuple[int, int], ...]:
    """The pairs (i, j) of tokens with one role, from the roles of two sentences that say the same dates.

    In a gap between dates, an "and" answers the other language's "and", or its mark where it has no "and".
    """
    here, there = _positions(source), _positions(target)
    links = {(i, j) for role, where in here.items() for i in where for j in there.get(role, ())}
    for gap in {role[0] for role in (*here, *there)}:
        word, mark = (gap, "and"), (gap, "mark")
        if word not in there:
            links |= {(i, j) for i in here.get(word, ()) for j in there.get(mark, ())}
        if word not in here:
            links |= {(i, j) for i in here.get(mark, ()) for j in there.get(word, ())}
    return tuple(sorted(links))


def find_locale(code: str) -> Locale:
    """The CLDR locale that a code such as "fr", "pt-BR" or "zh_Hant" names.

    Raises ValueError, naming near ones, for a language that CLDR lacks or for which it has no names of months.
    """
    if not isinstance(code, str):
        raise TypeError(f"A language is a code such as 'fr' or 'pt_BR', not {code!r}.")
    try:
        import babel
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"The dates need {PACKAGES[0]}: pip install {' '.join(PACKAGES)}") from error
    try:
        locale = babel.Locale.parse(code.replace("-", "_"))
    except (ValueError, babel.UnknownLocaleError) as error:
        near = " or ".join(_near(code)) or "a code such as 'fr', 'pt_BR' or 'zh_Hant'"
        raise ValueError(f"CLDR knows no language {code!r}; try {near}.") from error
    if locale.months["format"]["wide"][8] == "M08" or locale.days["format"]["wide"][3] == "Thu":
        raise ValueError(f"CLDR has no names of months and weekdays for {code!r} yet: choose another language.")
    return locale


def split(text: str) -> list[str]:
    """Words and punctuation marks; a hyphen or an apostrophe stays with its word."""
    text = text.translate(INVISIBLE)
    return "".join(f" {c} " if unicodedata.category(c)[0] in "PS" and c not in JOINERS else c for c in text).split()


def _parts(pattern: str) -> Iterator[tuple[str, str, list[str], list]]:
    """A pattern's parts: (letters, "", [], [field]) to be filled, or ("", text, its tokens, their roles) as it is.

    A comma's role is what it parts from the month, so that it answers the comma that does the same elsewhere.
    """
    from babel.dates import tokenize_pattern

    parts = tokenize_pattern(pattern)
    fields = [FIELDS[value[0]] if kind == "field" else None for kind, value in parts]
    for i, (kind, value) in enumerate(parts):
        if kind == "field":
            yield value[0] * value[1], "", [], [fields[i]]
        else:
            side = fields[:i] if "month" in fields[i:] else fields[i:]
            parted = ("comma", *sorted({"weekday", "day", "year"} & set(side)))
            words = split(value)
            yield "", value, words, [parted if _is_comma(word) else None for word in words]


def _separates(word: str, words: list[str], gap: int) -> tuple | None:
    """The role of a token between two dates: the word "and", the mark that stands for it, or a stray mark."""
    if any(c.isalpha() for c in word):
        return gap, "and"
    return (gap, "mark") if _is_comma(word) or len(words) == 1 else None


def _is_comma(word: str) -> bool:  # of any script
    return len(word) == 1 and "COMMA" in unicodedata.name(word, "")


def _positions(roles: tuple) -> dict[tuple, list[int]]:
    found: dict[tuple, list[int]] = {}
    for i, role in enumerate(roles):
        if role:
            found.setdefault(role, []).append(i)
    return found


def _digits(locale: Locale, digits: str) -> dict[int, str]:
    """A table for str.translate, from 0 to 9 to the language's digits."""
    system = locale.default_numbering_system
    if digits == "native":
        system = locale.other_numbering_systems.get("native", system)
    if digits == "latin" or system == "latn":
        return {}
    if system == "hanidec":
        return dict(zip(range(48, 58), "〇一二三四五六七八九", strict=True))
    zero = ord(unicodedata.lookup(f"{DIGIT_NAMES[system]} DIGIT ZERO"))
    return {48 + i: chr(zero + i) for i in range(10)}


def _years_in_words(locale: Locale) -> Callable[[int], str]:
    """A function from a year to its words; raises ValueError where num2words has none for the language."""
    try:
        from num2words import CONVERTER_CLASSES
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"Years in words need {PACKAGES[1]}: pip install {PACKAGES[1]}") from error
    codes = (str(locale), locale.language, CONVERTERS.get(locale.language))
    converter = next((CONVERTER_CLASSES[code] for code in codes if code in CONVERTER_CLASSES), None)
    to_year = getattr(converter, "to_cardinal" if locale.language in CARDINALS else "to_year", None)
    lacks = f"num2words writes no years in {locale}: choose style 'full' or 'long', or another language."
    try:
        words = to_year(1992) if to_year else ""
    except NotImplementedError as error:
        raise ValueError(lacks) from error
    # Serbian is one of those that CLDR writes in one script and num2words in another.
    scripts = {unicodedata.name(w[0]).split()[0] for w in (words, locale.days["format"]["wide"][3]) if w}
    if not words or len(scripts) > 1:
        raise ValueError(lacks)
    return to_year


def _near(code: str) -> list[str]:
    """Codes that `code` may stand for: close spellings, the language of that name, those of that country."""
    from babel import Locale, localedata
    from babel.languages import get_official_languages

    names = {name.lower(): short for short, name in Locale("en").languages.items() if localedata.exists(short)}
    codes = re.findall(r"^[a-z]+(?=[-_])", code)  # the language without its country
    codes += [names[n] for n in difflib.get_close_matches(code.lower(), names, n=2, cutoff=0.75)]
    codes += get_official_languages(code[-2:].upper())[:2] if re.fullmatch(r"(\w+[-_])?\w\w", code) else []
    codes += difflib.get_close_matches(code.replace("-", "_"), localedata.locale_identifiers(), n=2, cutoff=0.75)
    return [f"{c!r} ({Locale.parse(c).english_name})" for c in dict.fromkeys(codes) if localedata.exists(c)][:4]
