"""The glyphs: drawn whole on one line, named by Unicode, two splits that share no image; the card's numbers."""

import re
import unicodedata
from collections import Counter
from functools import cache

import datasets
import numpy as np
import pytest

from course_lib.data import SPLITS, glyphs


@cache
def every_glyph():
    return glyphs.glyphs()


def images():
    return every_glyph()[0]


def rows():
    return every_glyph()[1]


@pytest.mark.slow
def test_counts_and_checksum_are_pinned():
    assert {split: len(glyphs.letters(faces=split)[1]) for split in SPLITS} == {
        "train": 11686, "validation": 1018, "test": 5484,
    }  # fmt: skip
    assert len(rows()) == 41227
    assert glyphs.checksum() == "1b1cd73291012c72593db1b406ffeac05c0aa227c8e1956c97a0b6826ae68287"


def test_values_are_ink_and_no_image_is_blank_or_cut_at_the_edge_of_its_sign():
    assert images().dtype == np.float32 and images().shape == (len(rows()), 32, 32)
    assert images().min() == 0 and images().max() == 1 and images().any(axis=(1, 2)).all()


def test_letters_stand_on_one_line():
    """The lowest ink of E, H and x is the row above the line in every upright face; p goes below it."""
    found = {(row.face, row.sign): image for image, row in zip(images(), rows(), strict=True)}
    for face in (face for several in glyphs.FACES.values() for face in several):
        for sign in "EHx":
            assert np.flatnonzero(found[face, sign].max(1) > 0.3)[-1] == glyphs.BASELINE - 1, (face, sign)
        assert np.flatnonzero(found[face, "p"].max(1) > 0.3)[-1] > glyphs.BASELINE


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("LATIN SMALL LETTER E WITH CIRCUMFLEX AND ACUTE", ("LATIN", "SMALL", "E", ("CIRCUMFLEX", "ACUTE"))),
        ("GREEK CAPITAL LETTER OMEGA", ("GREEK", "CAPITAL", "OMEGA", ())),
        ("HEBREW LETTER ALEF WITH PATAH", ("HEBREW", "", "ALEF", ("PATAH",))),
        ("GREEK SMALL LETTER ALPHA WITH DASIA, OXIA AND YPOGEGRAMMENI",
         ("GREEK", "SMALL", "ALPHA", ("DASIA", "OXIA", "YPOGEGRAMMENI"))),
        ("LEFTWARDS ARROW", ("", "", "", ())),
        ("MODIFIER LETTER SMALL H", ("", "", "", ())),
        ("", ("", "", "", ())),
    ],
)  # fmt: skip
def test_a_name_tells_script_case_letter_and_marks(name, parts):
    assert glyphs.parts_of(name) == parts


def test_rows_say_what_unicode_says():
    for row in rows():
        assert unicodedata.name(row.sign) == row.name and glyphs.parts_of(row.name) == row[3:7]
    _, letters = glyphs.letters()
    assert {row.script for row in letters} == {"LATIN", "GREEK", "CYRILLIC"}
    assert {row.case for row in letters} == {"SMALL", "CAPITAL"}
    for row in letters:  # Unicode's own word on case; the exceptions are title-case digraphs such as Dž
        assert unicodedata.category(row.sign) in {"SMALL": ("Ll",), "CAPITAL": ("Lu", "Lt")}[row.case], row


@pytest.mark.slow
def test_no_image_is_in_two_faces_and_look_alikes_know_of_each_other():
    faces, names = {}, {}
    for image, row in zip(images(), rows(), strict=True):
        assert faces.setdefault(image.tobytes(), row.face) == row.face
        names.setdefault(image.tobytes(), []).append(row.name)
    for image, row in zip(images(), rows(), strict=True):
        assert {row.name, *row.alike} == set(names[image.tobytes()])
    a = next(row for row in rows() if row.name == "LATIN CAPITAL LETTER A")
    assert {"GREEK CAPITAL LETTER ALPHA", "CYRILLIC CAPITAL LETTER A"} <= set(a.alike)


def test_the_split_by_name_shares_no_image_and_a_new_name_is_made_of_known_parts():
    sides = {row.name: glyphs.name_split(row.name) for row in rows()}
    assert all(sides[other] == sides[row.name] for row in rows() for other in row.alike)
    known = {name: glyphs.parts_of(name) for name, side in sides.items() if side == "train"}
    bare = {parts[:3] for parts in known.values() if not parts[3]}
    marked = {(parts[0], mark) for parts in known.values() for mark in parts[3]}
    for name, side in sides.items():
        if side != "train":
            script, case, letter, marks = glyphs.parts_of(name)
            assert marks and {(script, mark) for mark in marks} <= marked, name
            assert (script, case, letter) in bare, name
    assert Counter(sides.values())["test"] > 200


@pytest.mark.slow
def test_the_two_splits_together_hold_every_image_once():
    parts = [glyphs.glyphs(faces, names)[1] for faces in SPLITS for names in SPLITS]
    assert sum(map(len, parts)) == len(rows()) and len({(row.face, row.sign) for part in parts for row in part}) == len(
        rows()
    )
    for wrong in ("faces", "names"):
        with pytest.raises(ValueError, match="'train', 'validation' or 'test', not 'all'"):
            glyphs.letters(**{wrong: "all"})


@pytest.mark.slow
def test_the_nearest_image_is_right_as_often_as_the_card_says():
    def latin(split):
        images, rows = glyphs.letters(faces=split)
        at = [n for n, row in enumerate(rows) if row.script == "LATIN"]
        return images[at].reshape(len(at), -1), np.array([rows[n].letter for n in at])

    (known, names), (asked, truth) = latin("train"), latin("test")
    mixed = np.random.default_rng(0).permutation(len(known))
    distance = (known**2).sum(1) - 2 * asked @ known.T
    right = [(names[at][distance[:, at].argmin(1)] == truth).mean() for at in (mixed[:100], mixed[:1000], mixed)]
    share = (truth == Counter(names).most_common(1)[0][0]).mean()
    said = glyphs.card().partition("**Baselines.**")[2].replace("1,000", "").replace("100", "")
    numbers = [int(number) for number in re.findall(r"\d+", said)[:4]]
    assert [100 * r for r in (*right, share)] == pytest.approx(numbers, abs=0.6)


@pytest.mark.slow
def test_load_gives_tensors():
    loaded = glyphs.load()
    assert isinstance(loaded, datasets.DatasetDict) and list(loaded) == list(SPLITS)
    images, rows = glyphs.letters(faces="validation")
    assert loaded["validation"][:]["image"].shape == images.shape
    assert loaded["validation"][3]["name"] == rows[3].name


def test_damaged_faces_say_what_to_do(monkeypatch):
    glyphs._drawn.cache_clear()
    monkeypatch.setattr(glyphs, "CHECKSUM", "0" * 64)
    with pytest.raises(RuntimeError, match="pip install --force-reinstall --no-deps matplotlib==3.11.2"):
        glyphs.letters()
