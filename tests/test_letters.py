"""Letters: every script is drawn in its own font; a font that is missing or damaged costs its letters only."""

import numpy as np
from matplotlib.textpath import TextPath

from course_lib.show import letters
from course_lib.show.letters import FONTS, drawable


def test_arabic_letters_are_joined_and_run_from_right_to_left():
    def width(text):
        return TextPath((0, 0), text, size=100, prop={"family": FONTS}).get_extents().width

    assert width("ببب") < 0.8 * 3 * width("ب"), "joined letters are narrower than single ones"
    a_then_b = TextPath((0, 0), "اب", size=100, prop={"family": FONTS}).to_polygons()
    tall = max(a_then_b, key=lambda polygon: np.ptp(polygon[:, 1]))  # the alif, the first letter
    assert tall[:, 0].min() > min(polygon[:, 0].min() for polygon in a_then_b)


def test_a_missing_font_costs_its_letters_only(monkeypatch):
    assert FONTS == ("DejaVu Sans", "IPAexGothic", "Noto Sans Thai")
    assert drawable("a日ก🥑", FONTS) == "a日ก□" and drawable("a日ก") == "a□□"
    monkeypatch.setattr(letters.importlib.util, "find_spec", lambda name: None)
    assert letters._fonts() == ("DejaVu Sans",)


def test_a_damaged_font_costs_its_letters_only(monkeypatch, tmp_path):
    package, file = next(iter(letters.MORE_FONTS.items()))
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_bytes(b"no font")
    found = letters.importlib.util.find_spec
    damaged = type("Spec", (), {"submodule_search_locations": [str(tmp_path)]})
    monkeypatch.setattr(letters.importlib.util, "find_spec", lambda name: damaged if name == package else found(name))
    assert letters._fonts() == ("DejaVu Sans", "Noto Sans Thai")
