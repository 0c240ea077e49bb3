"""README.md and CONTRIBUTING.md: short, with links that lead somewhere, three doors, and a picture that moves."""

import base64
import io
import re

import pytest
from PIL import Image

from course_lib.workshop.publish import motion
from course_lib.workshop.publish.measured import ROOT
from course_lib.workshop.publish.site import PAGES

README = (ROOT / "README.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_link_leads_to_a_file(name):
    links = LINK.findall((ROOT / name).read_text(encoding="utf-8"))
    assert links and [link for link in links if not (ROOT / link.partition("#")[0]).exists()] == []


def test_pages_lead_to_pages():
    """In the pages' own texts a link leads to a page beside it."""
    for path in PAGES.glob("*.md"):
        for link in LINK.findall(path.read_text(encoding="utf-8")):
            assert (PAGES / link).exists() or link in {"results.md", "claims.md", "contributing.md"}, (path.name, link)


def test_the_readme_is_short_and_its_doors_stand_at_its_beginning():
    lines = README.splitlines()
    assert len(lines) <= 120
    top = "\n".join(lines[:40])
    for door, way in {
        "**Learn.**": "notebooks/00_start_here.ipynb",
        "**Teach.**": "course_lib/workshop/publish/pages/teach.md",
        "**Write.**": "CONTRIBUTING.md",
    }.items():
        assert door in top and f"]({way})" in top.partition(door)[2].partition("\n\n")[0].replace("\n", " ")


def test_the_picture_moves_is_light_and_has_words_that_stand_for_it():
    ((words, name),) = PICTURE.findall(README)
    with Image.open(ROOT / name) as picture:
        assert picture.n_frames > 10
    assert (ROOT / name).stat().st_size < 1_000_000
    assert len(words) > 80


# --- the picture


def shade(n):
    file = io.BytesIO()
    Image.new("RGB", (90, 30), (20 * n, 0, 0)).save(file, format="png")
    return {"png": base64.b64encode(file.getvalue()).decode(), "alt": f"shade {n}", "width": 90}


def slider(*pictures):
    axis = {"label": "how dark", "kind": "slider", "shown": [str(n) for n in range(len(pictures))], "start": 0}
    return {"axes": [axis], "pictures": list(pictures), "seconds": 0}


def test_each_position_is_a_frame_with_the_slider_where_it_stands():
    made = Image.open(io.BytesIO(motion.motion(slider(shade(0), shade(5), {"says": "none here"}, shade(10)))))
    assert made.n_frames == 3 and made.size == (motion.WIDTH, motion.WIDTH // 3 + motion.ROW)
    knobs, reds = [], []
    for n in range(3):
        made.seek(n)
        seen = made.convert("RGB")
        row = [seen.getpixel((x, made.height - motion.ROW // 2 - 7)) for x in range(motion.WIDTH)]
        knobs.append(next(x for x, (red, _, blue) in enumerate(row) if blue > 120 and red < 80))
        reds.append(seen.getpixel((5, 5))[0])
    assert knobs == sorted(knobs) and knobs[2] - knobs[1] > 1.5 * (knobs[1] - knobs[0])
    assert reds == pytest.approx([0, 100, 200], abs=6)


def test_what_has_two_sliders_or_none_is_no_motion():
    menu = slider(shade(0))
    menu["axes"][0]["kind"] = "menu"
    two = slider(shade(0))
    two["axes"] *= 2
    for other in (menu, two):
        with pytest.raises(ValueError, match="one slider"):
            motion.motion(other)


def test_pictures_that_were_not_drawn_are_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(motion.frames, "KEPT", tmp_path)
    assert motion.main() == 1
    assert f"make frames FILES=notebooks/{motion.LESSON}" in capsys.readouterr().err
