"""Letters, and sentences that ask for them: "small e with acute in serif bold italic". Lesson 18.

known = named("train")          # known.texts[0], known.images[0]
asked = "capital q with acute"  # no typeface has one: a name is made of parts

A Latin letter, A to Z, small or capital, with an accent of `marks()` or none, in one of `glyphs`' sixteen typefaces.
"""

from collections import Counter
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.data import check_split, glyphs
from course_lib.data.glyphs import Glyph

FAMILIES = {"DejaVuSans": "sans", "DejaVuSansMono": "mono", "DejaVuSerif": "serif", "STIXGeneral": "stix"}
STYLES = {"bol": "bold", "ita": "italic", "oblique": "italic"}
LEAST = 10  # letters that must bear a mark, for it to be one of `marks()`


class Named(NamedTuple):
    """Images (N, 1, 32, 32), ink from 0 to 1; name int64 (N,), indices of `names`; rows: what else is known of each."""

    images: Tensor
    name: Tensor
    rows: list[Glyph]

    @property
    def texts(self) -> list[str]:
        """What asks for each image, its typeface too."""
        return [f"{name_of(row)} in {face_of(row.face)}" for row in self.rows]


def name_of(row: Glyph) -> str:
    """What a letter is called here: "small e with acute"."""
    return f"{row.case} {row.letter}{''.join(f' with {mark}' for mark in row.marks)}".lower()


def face_of(face: str) -> str:
    """What a typeface is called here: face_of("DejaVuSerif-BoldItalic") = "serif bold italic".

    Raises ValueError for a typeface of another family.
    """
    _check_face(face)
    family = max((name for name in FAMILIES if face.startswith(name)), key=len)
    rest = face.removeprefix(family).lower()
    styles = dict.fromkeys(said for part, said in STYLES.items() if part in rest)
    return " ".join([FAMILIES[family], *styles])


@cache
def marks() -> tuple[str, ...]:
    """The accents that enough letters from A to Z have alone, in small letters and alphabetical order."""
    borne = Counter(row.marks[0].lower() for row in {row.name: row for row in _single()}.values() if row.marks)
    return tuple(sorted(mark for mark, count in borne.items() if count >= LEAST))


@cache
def names() -> tuple[str, ...]:
    """The names that some typeface can draw, in alphabetical order."""
    return tuple(sorted({name_of(row) for row in _rows(None)[1]}))


@cache
def named(split: str | None) -> Named:
    """The letters whose names stand on one side of the split by name, in all typefaces; None: all of them.

    A name of "validation" or "test" has an accent and is new as a whole, in all typefaces: its letter and accent are in
    "train", apart (`glyphs.name_split`). Raises ValueError for another split.
    """
    images, rows = _rows(split)
    place = {name: n for n, name in enumerate(names())}
    return Named(images, torch.tensor([place[name_of(row)] for row in rows]), rows)


def _rows(split: str | None) -> tuple[Tensor, list[Glyph]]:
    if split is not None:
        check_split(split)
    images, rows = glyphs.letters(names=split)
    at = [n for n, row in enumerate(rows) if _plain(row) and {mark.lower() for mark in row.marks} <= {*marks()}]
    return torch.from_numpy(images[at])[:, None], [rows[n] for n in at]


@cache
def _single() -> tuple[Glyph, ...]:
    return tuple(row for row in glyphs.letters()[1] if _plain(row))


def _plain(row: Glyph) -> bool:
    """A Latin letter from A to Z with one accent or none."""
    return row.script == "LATIN" and len(row.letter) == 1 and len(row.marks) <= 1


def _check_face(face: str) -> None:
    if not face.startswith(tuple(FAMILIES)):
        raise ValueError(f"A typeface here begins with {', '.join(FAMILIES)}; got {face!r}.")
