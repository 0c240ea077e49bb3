"""data/letter_names.py: a name that is held back is new as a whole and known in its parts; typefaces by their names."""

from collections import Counter

import pytest
import torch

from course_lib.data import SPLITS, glyphs
from course_lib.data.glyphs import Glyph
from course_lib.data.letter_names import LEAST, face_of, marks, name_of, named, names

FACES = {
    "DejaVuSans": "sans",
    "DejaVuSans-Bold": "sans bold",
    "DejaVuSans-Oblique": "sans italic",
    "DejaVuSans-BoldOblique": "sans bold italic",
    "DejaVuSansMono": "mono",
    "DejaVuSansMono-Bold": "mono bold",
    "DejaVuSansMono-Oblique": "mono italic",
    "DejaVuSansMono-BoldOblique": "mono bold italic",
    "DejaVuSerif": "serif",
    "DejaVuSerif-Bold": "serif bold",
    "DejaVuSerif-Italic": "serif italic",
    "DejaVuSerif-BoldItalic": "serif bold italic",
    "STIXGeneral": "stix",
    "STIXGeneralItalic": "stix italic",
    "STIXGeneralBol": "stix bold",
    "STIXGeneralBolIta": "stix bold italic",
}


def letter_of(row):
    return row.case, row.letter


# --- what is new, and what is known of it


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_new_name_is_made_of_known_parts(split):
    """named: its letter, with its case, and its mark are in train, apart; never both together, in any typeface."""
    train = named("train").rows
    letters, borne = {letter_of(row) for row in train}, {mark for row in train for mark in row.marks}
    alone = {letter_of(row) for row in train if not row.marks}
    together = {(*letter_of(row), row.marks) for row in train}
    for row in named(split).rows:
        assert len(row.marks) == 1 and row.marks[0] in borne
        assert letter_of(row) in letters and letter_of(row) in alone
        assert (*letter_of(row), row.marks) not in together


def test_the_splits_share_no_name_no_image_and_are_all_together():
    parts, everything = [named(split) for split in SPLITS], named(None)
    of = [{name_of(row) for row in part.rows} for part in parts]
    assert not of[0] & of[1] and not of[0] & of[2] and not of[1] & of[2]
    assert set.union(*of) == {name_of(row) for row in everything.rows} == {*names()}
    assert sum(len(part.rows) for part in parts) == len(everything.rows)
    assert {(row.name, row.face) for part in parts for row in part.rows} == {
        (row.name, row.face) for row in everything.rows
    }
    images = [{image.numpy().tobytes() for image in part.images} for part in parts]
    assert not images[0] & images[1] and not images[0] & images[2] and not images[1] & images[2]


@pytest.mark.slow
@pytest.mark.parametrize("split", [*SPLITS, None])
def test_rows_images_and_names_belong_together(split):
    """Every image is that of `glyphs`, in all sixteen typefaces; a text is asked for by one image alone."""
    known = named(split)
    assert known.images.shape == (len(known.rows), 1, 32, 32) and known.images.dtype == torch.float32
    assert 0 <= known.images.min() and known.images.max() <= 1 and known.images.flatten(1).any(dim=1).all()
    assert known.name.dtype == torch.int64 and {row.face for row in known.rows} == {*FACES}
    assert [names()[place] for place in known.name.tolist()] == [name_of(row) for row in known.rows]
    images, rows = glyphs.letters(names=split)
    place = {(row.name, row.face): n for n, row in enumerate(rows)}
    at = [place[row.name, row.face] for row in known.rows]
    assert torch.equal(known.images[:, 0], torch.from_numpy(images[at]))
    for row, text in zip(known.rows, known.texts, strict=True):
        assert split is None or glyphs.name_split(row.name) == split
        assert row.script == "LATIN" and len(row.letter) == 1 and row.letter.isascii() and len(row.marks) < 2
        assert text == f"{name_of(row)} in {face_of(row.face)}"
    assert len({*known.texts}) == len(known.texts)


def test_all_letters_of_the_alphabet_are_there():
    """names: in alphabetical order, A to Z, small and capital, without a mark among them."""
    assert list(names()) == sorted({*names()})
    for letter in "abcdefghijklmnopqrstuvwxyz":
        assert f"small {letter}" in names() and f"capital {letter}" in names()
    assert "small e with acute" in names() and "capital q with acute" not in names()
    assert not any(" and " in name or name.count(" with ") > 1 for name in names())


def test_a_mark_is_borne_by_enough_letters():
    """marks: counted by name, one mark alone on a letter from A to Z; what is rarer is in no name."""
    single = {row.name: row for row in glyphs.letters()[1] if row.script == "LATIN" and len(row.letter) == 1}
    counts = Counter(row.marks[0].lower() for row in single.values() if len(row.marks) == 1)
    assert list(marks()) == sorted(mark for mark in counts if counts[mark] >= LEAST)
    assert "acute" in marks() and "ring above" not in marks() and min(counts.values()) < LEAST
    said = Counter(name.partition(" with ")[2] for name in names())
    assert {*said} == {"", *marks()} and all(said[mark] == counts[mark] for mark in marks())


# --- what things are called


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("LATIN SMALL LETTER E WITH ACUTE", "small e with acute"),
        ("LATIN CAPITAL LETTER Q", "capital q"),
        ("LATIN SMALL LETTER D WITH CIRCUMFLEX BELOW", "small d with circumflex below"),
        ("LATIN SMALL LETTER E WITH CIRCUMFLEX AND ACUTE", "small e with circumflex with acute"),
    ],
)
def test_what_a_letter_is_called(name, said):
    """name_of: in small letters, its case first."""
    assert name_of(Glyph(name, "?", "DejaVuSans", *glyphs.parts_of(name), ())) == said


def test_what_a_typeface_is_called():
    """face_of: all sixteen, each by a name of its own."""
    assert {face: face_of(face) for face in FACES} == FACES
    assert {*FACES} == {face for several in glyphs.FACES.values() for face in several}
    assert len({*FACES.values()}) == 16


def test_no_name_says_in():
    """What stands before the first " in " is the name, and behind it the typeface."""
    known = named(None)
    for row, text in zip(known.rows, known.texts, strict=True):
        assert text.partition(" in ") == (name_of(row), " in ", face_of(row.face))


@pytest.mark.parametrize("split", ["training", "", 3, "TEST"])
def test_another_split_is_refused_in_words(split):
    with pytest.raises(ValueError, match=f"'train', 'validation' or 'test', not {split!r}"):
        named(split)


@pytest.mark.parametrize("face", ["", "Times", "dejavusans", "Bold"])
def test_another_typeface_is_refused_in_words(face):
    with pytest.raises(ValueError, match=f"begins with DejaVuSans, .*; got {face!r}"):
        face_of(face)
