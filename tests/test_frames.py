"""Controls without a kernel: which positions are drawn, how they are kept, and what a page is given of them."""

import base64
import io
import json
import random

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
import torch
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image

from course_lib.show.frames import ALONE, ASKED, FEW, MIME, TOGETHER, UNDER_TEST, axes
from course_lib.show.frames import frames as positions
from course_lib.show.plots import Picture
from course_lib.show.widgets import explore
from course_lib.workshop.publish import draw, execute, frames
from course_lib.workshop.publish import measured as told
from course_lib.workshop.publish.normalise import normalise

CONTROL = """
import io
from PIL import Image
from course_lib.show.plots import Picture
from course_lib.show.widgets import explore

def shade(n):
    png = io.BytesIO()
    Image.new("RGB", (4, 2), (40 * n, 0, 0)).save(png, format="png")
    return Picture(png.getvalue(), f"shade {n}")
"""
SHOWN = 'explore(shade, n=("how dark", 1, 0, 5, 1))'


def shade(n):
    png = io.BytesIO()
    Image.new("RGB", (4, 2), (40 * n, 0, 0)).save(png, format="png")
    return Picture(png.getvalue(), f"shade {n}")


@pytest.mark.parametrize("start", [0, 1, 7, 50, 99, 100])
@pytest.mark.parametrize("last", [1, 5, 23, 24, 100, 255])
def test_a_slider_keeps_its_start_and_its_ends_and_few_positions_between(start, last):
    start = min(start, last)
    (axis,) = axes({"n": ("n", start, 0, last, 1)})
    assert axis.values[0] == 0 and axis.values[-1] == last and axis.values[axis.start] == start
    assert axis.values == sorted(set(axis.values)) and len(axis.values) <= ALONE + 2
    assert len(axis.values) == last + 1 or len(axis.values) > ALONE / 2
    gaps = [b - a for a, b in zip(axis.values[1:-2], axis.values[2:-1], strict=True)]
    assert len(set(gaps)) <= 1, "sampled evenly"


def test_fractions_are_the_ones_that_a_reader_sees():
    (axis,) = axes({"x": ("x", 0.7, 0.1, 2.0, 0.1)})
    assert axis.shown == [f"{n / 10:g}" for n in range(1, 21)] and axis.shown[axis.start] == "0.7"
    assert all(type(value) is float for value in axis.values)


def test_menus_are_taken_whole_and_leave_a_slider_less_room():
    menu, slider = axes({"m": ("m", "b", ["a", "b", "c", "d"]), "n": ("n", 3, 0, 99, 1)})
    many = axes({"a": ("a", 3, 0, 359, 1), "b": ("b", 0, -2, 2, 1), "c": ("c", 0, -2, 2, 1)})
    counts = [len(axis.values) for axis in many]
    assert counts[0] * counts[1] * counts[2] <= TOGETHER and min(counts) >= 2
    assert [axis.values[axis.start] for axis in many] == [3, 0, 0] and many[0].values[-1] == 359
    assert menu.values == menu.shown == ["a", "b", "c", "d"] and menu.start == 1
    assert len(menu.values) * len(slider.values) <= TOGETHER
    (pairs,) = axes({"m": ("m", 10, [("one", 1), ("ten", 10)])})
    assert (pairs.values, pairs.shown, pairs.start) == ([1, 10], ["one", "ten"], 1)
    (text,) = axes({"t": ("t", "to be")})
    assert (text.kind, text.values) == ("text", ["to be"])


def test_every_point_of_the_grid_has_its_picture_or_its_sentence():
    def drawing(kind, n):
        if n == 1:
            raise ValueError("no <one>")
        return Picture(f"{kind}{n}".encode(), f"{kind} {n}")

    found = positions(drawing, {"kind": ("kind", "a", ["a", "b"]), "n": ("n", 0, 0, 2, 1)})
    said = [one.get("says") or (base64.b64decode(one["png"]).decode(), one["alt"]) for one in found["pictures"]]
    no = "no &lt;one&gt;"
    assert said == [("a0", "a 0"), no, ("a2", "a 2"), ("b0", "b 0"), no, ("b2", "b 2")]
    assert [axis["label"] for axis in found["axes"]] == ["kind", "n"] and found["seconds"] >= 0
    json.dumps(found)


def test_positions_are_drawn_only_where_they_are_asked_for(monkeypatch):
    spec = {"n": ("how dark", 1, 0, 5, 1)}
    monkeypatch.delenv(ASKED, raising=False)
    assert MIME not in explore(shade, **spec)._repr_mimebundle_()
    monkeypatch.setenv(ASKED, "1")
    found = explore(shade, **spec)._repr_mimebundle_()
    assert len(found[MIME]["pictures"]) == 6 and "shade 1" in found["text/html"]


def test_under_test_few_are_drawn_and_coarsely(monkeypatch):
    """Menus whole, of each slider its ends and its start; what is published is drawn as finely as ever."""
    drawn_at = []

    def drawing(kind, n):
        drawn_at.append((kind, n, plt.rcParams["savefig.dpi"]))
        return shade(0)

    spec = {"kind": ("kind", "b", ["a", "b", "c"]), "n": ("n", 7, 0, 40, 1)}
    fine = plt.rcParams["savefig.dpi"]
    found = {}
    for asked in (UNDER_TEST, "1"):
        monkeypatch.setenv(ASKED, asked)
        drawn_at.clear()
        positions(drawing, spec)
        found[asked] = list(drawn_at)
    few = {n for _, n, _ in found[UNDER_TEST]}
    assert {0, 7, 40} <= few and {kind for kind, _, _ in found[UNDER_TEST]} == {"a", "b", "c"}
    assert len(found[UNDER_TEST]) <= FEW + len("abc") < len(found["1"]), "the start is one more where it is no end"
    assert {dpi for *_, dpi in found[UNDER_TEST]} == {"figure"} and {dpi for *_, dpi in found["1"]} == {fine}
    (alone,) = axes({"n": ("n", 7, 0, 99, 1)}, FEW)
    assert len(alone.values) <= FEW + 2 and {0, 7, 99} <= set(alone.values)


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        (dict(n=0), [("how dark", "0")]),
        (dict(n=40), [("how dark", "40")]),
        (dict(n=20), [("how dark", "20")]),
        (dict(kind="c"), [("kind", "c")]),
        (dict(text=""), [("said", "")]),
        (dict(n=40, kind="c"), []),  # two that are moved together
    ],
)
def test_under_test_it_is_told_what_cannot_be_drawn(monkeypatch, fails, told):
    """A slider at its ends and in its middle, each option of a menu, an empty line of text."""

    def drawing(**values):
        if all(values[name] == value for name, value in fails.items()):
            raise KeyError("n")
        return shade(0)

    spec = {"kind": ("kind", "b", ["a", "b", "c"]), "n": ("how dark", 7, 0, 40, 1), "text": ("said", "so")}
    monkeypatch.setenv(ASKED, UNDER_TEST)
    found = positions(drawing, spec)
    assert [(one["moved"], one["to"]) for one in found["tried"]] == told
    assert any("says" in one for one in found["pictures"]) == ("text" not in fails and fails != {"n": 20})
    monkeypatch.setenv(ASKED, "1")
    assert "tried" not in positions(drawing, spec)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(frames, "KEPT", tmp_path / "build" / "frames")
    return frames.KEPT


def notebook(shown=SHOWN):
    cells = [new_markdown_cell("# A"), new_code_cell(CONTROL, id="setup"), new_code_cell(shown, id="dark")]
    return new_notebook(cells=cells)


def drawn(monkeypatch, shown=SHOWN):
    """A notebook as its run leaves it, positions and all."""
    monkeypatch.setenv(ASKED, "1")
    made = notebook(shown)
    data = explore(shade, n=("how dark", 1, 0, 5, 1))._repr_mimebundle_()
    made.cells[2].outputs = [nbformat.v4.new_output("display_data", json.loads(json.dumps(data)))]
    return made


def test_they_are_taken_out_of_a_run_and_never_stored_with_the_notebook(monkeypatch):
    ran = drawn(monkeypatch)
    assert MIME not in json.dumps(normalise(drawn(monkeypatch)))
    found = frames.taken(ran)
    assert list(found) == ["dark"] and MIME not in json.dumps(ran)
    assert frames.seconds(found) == found["dark"]["seconds"]


def test_what_other_code_has_drawn_is_not_found(monkeypatch, kept, tmp_path):
    ran = drawn(monkeypatch)
    found = frames.taken(ran)
    assert frames.of(ran, "01_a.ipynb") is None
    frames.keep(frames.kept_at(ran, "01_a.ipynb"), found)
    assert frames.of(ran, "01_a.ipynb") == found
    words = notebook()
    words.cells[0].source = "# Other words"
    assert frames.of(words, "01_a.ipynb") == found, "what is not code does not count"
    other = notebook(SHOWN + "  # other code")
    assert frames.of(other, "01_a.ipynb") is None
    frames.keep(frames.kept_at(other, "01_a.ipynb"), found)
    assert len(list(kept.iterdir())) == 1 and frames.of(ran, "01_a.ipynb") is None
    library = tmp_path / "library"
    library.mkdir()
    (library / "rnn.py").write_text("other = 1")
    monkeypatch.setattr(frames, "LIBRARY", library)
    assert frames.of(other, "01_a.ipynb") is None, "drawn with another library"


def fewer(found):
    found["dark"]["pictures"].pop()


def without_start(found):
    del found["dark"]["axes"][0]["start"]


def no_png(found):
    found["dark"]["pictures"][0]["png"] = "!"


@pytest.mark.parametrize(
    "damage", [fewer, without_start, no_png, "[]", "null", '{"dark": 1}', '{"dark', "[" * 9999, ""]
)
def test_a_damaged_file_is_none_and_is_drawn_anew(damage, monkeypatch, kept):
    ran = drawn(monkeypatch)
    found, path = frames.taken(ran), frames.kept_at(ran, "01_a.ipynb")
    frames.keep(path, found)
    assert frames.of(ran, "01_a.ipynb") == found
    if callable(damage):
        damage(found)
    path.write_text(json.dumps(found) if callable(damage) else damage)
    assert frames.of(ran, "01_a.ipynb") is None


def test_drawing_disturbs_no_later_number(monkeypatch):
    """Where a picture draws at random, what comes after it is what a student's run gives."""

    def noisy(n):
        return Picture(b"x", f"{torch.rand(())} {np.random.rand()} {random.random()}")

    def after():
        torch.manual_seed(0), np.random.seed(0), random.seed(0)
        explore(noisy, n=("n", 0, 0, 5, 1))
        return float(torch.rand(())), np.random.rand(), random.random()

    monkeypatch.delenv(ASKED, raising=False)
    plain = after()
    monkeypatch.setenv(ASKED, "1")
    assert after() == plain


def test_a_range_that_is_no_multiple_of_its_step_ends_below_its_end():
    (axis,) = axes({"n": ("n", 0, 0, 11, 3)})
    assert axis.values == [0, 3, 6, 9]
    with pytest.raises(ValueError, match="starts at 5, which is none of 0, 2"):
        explore(shade, n=("n", 5, 0, 10, 2))
    with pytest.raises(ValueError, match="starts at 12"):
        explore(shade, n=("n", 12, 0, 10, 2))
    with pytest.raises(ValueError, match="a menu with nothing to choose"):
        explore(shade, n=("n", None, []))


def test_a_page_gets_rows_that_wait_for_the_script_and_a_file_a_picture(monkeypatch, tmp_path):
    ran = drawn(monkeypatch)
    found = frames.taken(ran)
    frames.set_moving(ran, "01_a.ipynb", found, tmp_path / "frames")
    page = BeautifulSoup(ran.cells[2].outputs[0].data["text/html"], "html.parser")
    assert page.find("img")["alt"] == "shade 1" and page.find("form").has_attr("hidden")
    slider = page.find("input")
    assert page.find("label", {"for": slider["id"]}).text == "how dark"
    assert (slider["min"], slider["max"], slider["value"], page.find("output").text) == ("0", "5", "1", "1")
    assert page.find("form").find_next_sibling("p").text.startswith("Still picture.")
    told = json.loads(page.find("script").text)
    assert [one["alt"] for one in told] == [f"shade {n}" for n in range(6)]
    for n, one in enumerate(told):
        assert Image.open(tmp_path / one["src"]).getpixel((0, 0)) == (40 * n, 0, 0)


def test_hostile_words_stay_words(tmp_path, monkeypatch):
    monkeypatch.setenv(ASKED, "1")
    nasty = '</script><script>alert("x")</script>'
    control = explore(lambda m: Picture(b"x", nasty), m=(nasty, "a", ["a", nasty]))
    ran = notebook()
    ran.cells[2].outputs = [nbformat.v4.new_output("display_data", json.loads(json.dumps(control._repr_mimebundle_())))]
    frames.set_moving(ran, "01_a.ipynb", frames.taken(ran), tmp_path / "frames")
    page = BeautifulSoup(ran.cells[2].outputs[0].data["text/html"], "html.parser")
    assert len(page.find_all("script")) == 1 and page.find("script")["type"] == "application/json"
    assert page.find_all("option")[1].text == nasty == json.loads(page.find("script").text)[0]["alt"]


@pytest.mark.parametrize(
    ("spec", "note"),
    [({"t": ("t", "to be")}, "Type where"), ({"t": ("t", "to be"), "n": ("n", 0, 0, 2, 1)}, "What is typed")],
)
def test_what_is_typed_is_said_to_stand_still(spec, note, monkeypatch, tmp_path):
    monkeypatch.setenv(ASKED, "1")
    control = explore(lambda **values: Picture(b"x", "x"), **spec)
    ran = notebook()
    ran.cells[2].outputs = [nbformat.v4.new_output("display_data", json.loads(json.dumps(control._repr_mimebundle_())))]
    frames.set_moving(ran, "01_a.ipynb", frames.taken(ran), tmp_path / "frames")
    page = BeautifulSoup(ran.cells[2].outputs[0].data["text/html"], "html.parser")
    assert page.find("small").text.startswith(note) and len(page.find_all("input")) == len(spec) - 1


def test_notebooks_without_pictures_are_named(monkeypatch, kept, tmp_path):
    ran = drawn(monkeypatch)
    found = frames.taken(ran)
    path = tmp_path / "01_a.ipynb"
    nbformat.write(ran, path)
    nbformat.write(new_notebook(cells=[new_markdown_cell("# B")]), tmp_path / "02_b.ipynb")
    paths = sorted(tmp_path.glob("*.ipynb"))
    assert frames.standing(paths) == ["01_a.ipynb"]
    told = frames.told_of(paths)
    assert told.startswith("Controls stand still in 01: `make frames`") and "\n" not in told
    frames.keep(frames.kept_at(ran, path.name), found)
    assert frames.standing(paths) == [] and frames.told_of(paths) == ""


def test_pictures_of_another_record_are_not_found(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(told, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    record = tmp_path / "data" / "records" / "a.json"
    record.parent.mkdir(parents=True)
    places = []
    for text in (None, "{}", '{"a": 1}', "{}"):
        if text:
            record.write_text(text)
        places.append(frames.kept_at(notebook(), "01_a.ipynb"))
    assert len(set(places)) == 3 and places[1] == places[3]


@pytest.mark.slow
def test_a_run_draws_them_and_both_commands_keep_them(kept, tmp_path, monkeypatch, capsys):
    path = tmp_path / "01_a.ipynb"
    nbformat.write(notebook(), path)
    before = path.read_bytes()
    assert draw.main([str(path)]) == 0
    assert "01_a.ipynb: 6 pictures of 1 controls" in capsys.readouterr().out
    assert path.read_bytes() == before
    found = frames.of(notebook(), path.name)
    assert len(found["dark"]["pictures"]) == 6
    assert draw.main([str(path)]) == 0 and capsys.readouterr().out == "", "drawn once"
    frames.kept_at(notebook(), path.name).unlink()
    assert execute.execute(path) == [] and frames.of(notebook(), path.name) is None, "no notebook of the course"
    monkeypatch.setattr(told, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr(told, "MEASURED", tmp_path / "measured.json")
    assert execute.execute(path) == []
    assert len(frames.of(notebook(), path.name)["dark"]["pictures"]) == 6
    assert MIME not in path.read_text() and "Still picture." in path.read_text()
    nbformat.write(notebook("1 / 0"), path)
    assert draw.main([str(path)]) == 1
    assert "01_a.ipynb: its controls stand still: cell 3" in capsys.readouterr().err
    assert draw.main([str(tmp_path / "02_b.ipynb")]) == 2
    (tmp_path / "03_c.ipynb").write_text("no notebook")
    assert draw.main([str(tmp_path / "03_c.ipynb")]) == 2
    assert "03_c.ipynb is no notebook that can be read" in capsys.readouterr().err
