"""Glyphs: images of letters and signs from the typefaces that matplotlib ships, each with the name Unicode gives it.

images, rows = letters(faces="train")     # (N, 32, 32); rows[0].name == "LATIN CAPITAL LETTER A"
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from course_lib.data import SPLITS, check_split, datasets_package, read_card, read_packaged, sha256

if TYPE_CHECKING:
    from datasets import DatasetDict

VERSION = 1  # of the choice of images and of the two splits: raise it when one changes
PACKAGE = "matplotlib==3.11.2"
CHECKSUM = "ab48e19b2bc1f9cbd8522bcbbfb98147e767c972b660e41c7b38d17e66362904"  # of its DejaVu and STIX faces
SIDE, SIZE, BASELINE = 32, 22, 25  # pixels: of an image, of an em, and the row on which letters stand, from the top
# Faces of one family resemble each other, so a family is kept for the test alone: a design that nobody has seen.
STYLES, STIX = ("", "-Bold", "-Oblique", "-BoldOblique"), ("", "Italic", "Bol", "BolIta")
FACES = {
    "train": (*(f"{family}{style}" for family in ("DejaVuSans", "DejaVuSansMono") for style in STYLES),
              *(f"STIXGeneral{style}" for style in STIX[:2])),
    "validation": tuple(f"STIXGeneral{style}" for style in STIX[2:]),
    "test": tuple(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
}  # fmt: skip
SHARES = {"test": 0.2, "validation": 0.1}  # of the names with marks; train has the rest, and all without marks
SCRIPTS = ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN", "HEBREW", "ARABIC", "COPTIC", "LAO", "OGHAM", "LISU")
STYLED = range(0x1D400, 0x1D800)  # bold, italic and other letters for mathematics: an upright face has them as well
LETTER = re.compile(rf"({'|'.join(SCRIPTS)})(?: (SMALL|CAPITAL))? LETTER (.+?)(?: WITH (.+))?")


class Glyph(NamedTuple):
    """What is known of one image: all of it from the name, but for the face and `alike`.

    `alike` holds the other names of the same face whose image is equal, dot for dot: Latin A, Greek Alpha, Cyrillic A.
    What is no letter has neither script, case, letter nor marks.
    """

    name: str  # LATIN SMALL LETTER E WITH CIRCUMFLEX AND ACUTE
    sign: str  # ế
    face: str  # DejaVuSans-Bold
    script: str  # LATIN
    case: str  # SMALL, CAPITAL, or nothing in scripts that have one case
    letter: str  # E
    marks: tuple[str, ...]  # CIRCUMFLEX, ACUTE
    alike: tuple[str, ...]


def load() -> DatasetDict:
    """Latin, Greek and Cyrillic letters as a `datasets.DatasetDict` (train, validation, test: by face), as tensors.

    Columns: image (32, 32), ink from 0 to 1; name, sign, face, script, case, letter. Raises ModuleNotFoundError without
    matplotlib or `datasets`, RuntimeError when its files are not those we know.
    """
    package = datasets_package()
    told = ("name", "sign", "face", "script", "case", "letter")
    features = package.Features(
        {"image": package.Array2D((SIDE, SIDE), "float32")} | {column: package.Value("string") for column in told}
    )

    def table(split: str):
        images, rows = letters(faces=split)
        columns = {column: [getattr(row, column) for row in rows] for column in told}
        return package.Dataset.from_dict({"image": images} | columns, features=features).with_format("torch")

    return package.DatasetDict({split: table(split) for split in SPLITS})


def letters(faces: str | None = None, names: str | None = None) -> tuple[np.ndarray, list[Glyph]]:
    """The Latin, Greek and Cyrillic letters among `glyphs(faces, names)`, those with a case."""
    return _taken(faces, names, _is_letter)


def glyphs(faces: str | None = None, names: str | None = None) -> tuple[np.ndarray, list[Glyph]]:
    """Images (N, 32, 32) float32, ink from 0 (none) to 1, and what is known of each.

    There are two splits, by face and by name: `faces` and `names` each take "train", "validation", "test", or None,
    which takes all. glyphs(faces="test") are faces never seen; glyphs("train", "test") are new names in known faces,
    where glyphs("train", "train") was learned from. Everything is drawn in two seconds, at the first call.
    Raises ValueError for an unknown split, ModuleNotFoundError and RuntimeError as `load` does.
    """
    return _taken(faces, names, _always)


def name_split(name: str) -> str:
    """On which side of the split by name a name stands.

    A name in validation or test is a letter with marks, new as a whole: the letter alone is in train, and each mark is
    there on another letter. Names whose images are equal stand on one side.
    """
    return _sides().get(name, "train")


def _taken(faces, names, wanted) -> tuple[np.ndarray, list[Glyph]]:
    at = _at(faces, names, wanted)
    images, rows = _drawn()
    return images[at].astype(np.float32) / np.float32(255), [rows[n] for n in at]


def _at(faces: str | None, names: str | None, wanted) -> list[int]:
    """The places of the images on these sides of both splits."""
    for split in (faces, names):
        if split is not None:
            check_split(split)
    of = {face: split for split, several in FACES.items() for face in several}
    return [
        n
        for n, row in enumerate(_drawn()[1])
        if faces in (None, of[row.face]) and names in (None, name_split(row.name)) and wanted(row)
    ]


def _always(row: Glyph) -> bool:
    return True


def _is_letter(row: Glyph) -> bool:
    return bool(row.case) and row.script in SCRIPTS[:3]


@lru_cache(maxsize=1)
def _drawn() -> tuple[np.ndarray, list[Glyph]]:
    """Every image, uint8 (N, 32, 32), and its row: by face, in Unicode's order.

    An image that an earlier face has already, dot for dot, is left out: no face is tested with images it was taught by.
    So are signs that are blank or do not fit.
    """
    files = {file.stem: file for file, _ in read_packaged(PACKAGE, "mpl-data/fonts/ttf/[DS]*.ttf", CHECKSUM)}
    met: set[bytes] = set()
    images, rows = [], []
    for face in (face for split in SPLITS for face in FACES[split]):
        signs = {}
        for sign, image in _signs_of(files[face]):
            if (dots := image.tobytes()) not in met:
                signs.setdefault(dots, []).append((unicodedata.name(sign), sign, image))
        met |= signs.keys()
        for same in signs.values():
            for name, sign, image in same:
                alike = tuple(other for other, *_ in same if other != name)
                images.append(image)
                rows.append(Glyph(name, sign, face, *parts_of(name), alike))
    return np.stack(images), rows


def _signs_of(file):
    """Each sign of a face that has a name, is not blank and fits, with its image (32, 32) uint8.

    It is centred from left to right and stands on one line with all others: height tells p from P.
    """
    from matplotlib.ft2font import FT2Font, LoadFlags

    font = FT2Font(str(file))
    font.set_size(SIZE, 72)
    for code in sorted(font.get_charmap()):
        if not unicodedata.name(sign := chr(code), "") or code in STYLED:
            continue
        glyph = font.load_char(code, flags=LoadFlags.NO_HINTING)
        x0, y0, x1, y1 = (edge / 64 for edge in glyph.bbox)
        left, top = round((SIDE - (x1 - x0)) / 2), BASELINE - ceil(y1)
        image = np.zeros((SIDE, SIDE), np.uint8)
        if left >= 0 and top >= 0 and BASELINE - y0 <= SIDE:
            font.draw_glyph_to_bitmap(image, left, top, glyph)
        if image.any():
            yield sign, image


def parts_of(name: str) -> tuple[str, str, str, tuple[str, ...]]:
    """Script, case, letter and marks, as a Unicode name tells them; empty where it is no letter's.

    parts_of("LATIN SMALL LETTER E WITH CIRCUMFLEX AND ACUTE") = ("LATIN", "SMALL", "E", ("CIRCUMFLEX", "ACUTE"))
    """
    found = LETTER.fullmatch(name)
    if not found:
        return "", "", "", ()
    script, case, letter, marks = found.groups()
    return script, case or "", letter, tuple(re.split(" AND |, ", marks)) if marks else ()


@lru_cache(maxsize=1)
def _sides() -> dict[str, str]:
    """The names that are not in train, and where they are: drawn by a hash of all names whose images are equal."""
    rows = _drawn()[1]
    group = {row.name: row.name for row in rows}

    def first(name):  # of all names that images join
        while group[name] != name:
            name = group[name]
        return name

    for row in rows:
        for other in row.alike:
            one, two = sorted((first(row.name), first(other)))
            group[two] = one
    members: dict[str, list[str]] = {}
    for name in sorted(group):
        members.setdefault(first(name), []).append(name)
    shuffled = sorted((sha256(f"glyphs {VERSION} {key}"), key) for key in members)
    drawn = [key for _, key in shuffled if all(parts_of(name)[3] for name in members[key])]
    n_test, n_validation = (round(SHARES[split] * len(drawn)) for split in ("test", "validation"))
    sides = {
        name: "test" if at < n_test else "validation"
        for at, key in enumerate(drawn[: n_test + n_validation])
        for name in members[key]
    }
    known = {part for name in group if name not in sides for part in _pieces(name)}
    return {
        name: sides[name]
        for key in drawn[: n_test + n_validation]
        if all(_pieces(other) <= known for other in members[key])
        for name in members[key]
    }


def _pieces(name: str) -> set[tuple]:
    """What a new name must be made of: its letter, which has to be known without marks, and each of its marks."""
    script, case, letter, marks = parts_of(name)
    return {(script, mark) for mark in marks} | {(script, case, letter)}


def checksum() -> str:
    """SHA-256 of every image, its name, its face and the side of its name, in order."""
    images, rows = _drawn()
    return sha256(
        images.tobytes() + "".join(f"{row.face} {row.name} {name_split(row.name)}\n" for row in rows).encode()
    )


def card() -> str:
    """The card of the glyphs, in Markdown."""
    return read_card("glyphs")
