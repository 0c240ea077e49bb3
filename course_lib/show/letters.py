"""Letters in a picture: the fonts of the course, and a token made fit to be seen.

Every script that a lesson shows is drawn; a font that is missing costs its letters only.
"""

import importlib.util
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from matplotlib.font_manager import findfont, fontManager, get_font

# Fonts for what the plots' own has no letters for: Chinese characters and kana, then Thai. (Arabic, Hebrew it has.)
MORE_FONTS = {"matplotlib_fontja": "fonts/ipaexg.ttf", "fontpkg_noto_sans_thai": "files/NotoSansThai[wdth,wght].ttf"}


def _fonts() -> tuple[str, ...]:
    """The names of the plots' fonts: its own, and those of MORE_FONTS that are installed, made known to matplotlib."""
    names = ["DejaVu Sans"]
    for package, file in MORE_FONTS.items():
        found = importlib.util.find_spec(package)  # the package is not run: it would change every plot's font
        path = Path(found.submodule_search_locations[0]) / file if found else None
        try:
            fontManager.addfont(path)
            names.append(get_font(path).family_name)
        except (TypeError, OSError, RuntimeError):
            continue  # the package is not there, or its file is not, or is damaged
    return tuple(names)


FONTS = _fonts()


def token_label(token: str, longest: int = 12) -> str:
    """A token as it can be seen: marks for spaces, line ends and the empty token, cut to `longest` characters.

    Characters that would act instead of being seen (control characters, changes of writing direction) become a mark.
    Raises TypeError for anything but text.
    """
    if not isinstance(token, str):
        raise TypeError(f"A token is a piece of text; got {token!r}. Turn numbers back into text before drawing them.")
    marks = {"\n": "↵", "\t": "⇥", "\u200c": "\u200c", "\u200d": "\u200d"}  # the last two join and part letters
    kinds = {"Zs": "␣", "Cc": "\ufffd", "Cf": "\ufffd", "Cs": "\ufffd", "Zl": "\ufffd", "Zp": "\ufffd"}
    seen = "".join(marks.get(c) or kinds.get(unicodedata.category(c), c) for c in token) or "∅"
    return seen if len(seen) <= longest else seen[: longest - 1] + "…"


def drawable(text: str, fonts: Sequence[str] = FONTS[:1]) -> str:
    """The text with a box for each character that none of the fonts has, which would warn and draw one."""
    known = [_charmap(name) for name in fonts]
    return "".join(character if any(ord(character) in font for font in known) else "□" for character in text)


@cache
def _charmap(font: str) -> dict[int, int]:
    return get_font(findfont(font)).get_charmap()
