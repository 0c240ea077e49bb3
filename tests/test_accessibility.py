"""Colours that can be seen and told apart, also by eyes that lack one kind of cone; controls that have a name."""

import itertools
import json
import re

import ipywidgets
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from course_lib.lesson.quizzes import panel
from course_lib.show import drawings, plots, widgets
from course_lib.workshop import exercises
from course_lib.workshop.publish.measured import written

PALETTE = {name: getattr(plots, name) for name in ("BLUE", "ORANGE", "GREEN", "PURPLE", "GREY")}
# How linear sRGB looks without one kind of cone (Machado, Oliveira and Fernandes, 2009, table 1, severity 1.0).
EYES = {
    "all cones": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868],
                            [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968],
                              [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
}  # fmt: skip
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                [0.0193339, 0.1191920, 0.9503041]])  # fmt: skip
APART = 15  # CIE Lab; about six times what is just seen


def linear(colour):
    """Linear sRGB of a colour."""
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """WCAG's contrast ratio, 1 to 21."""
    dark, light = sorted(float(XYZ[1] @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def lab(rgb):
    """CIE Lab of linear sRGB, under its own white."""
    t = XYZ @ np.clip(rgb, 0, 1) / XYZ.sum(axis=1)
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one, other, eye):
    """How far apart two colours look to an eye, in CIE Lab."""
    return float(np.linalg.norm(lab(EYES[eye] @ linear(one)) - lab(EYES[eye] @ linear(other))))


# --- the yardsticks, on values that are known


def test_contrast_of_known_colours():
    assert contrast("white", "black") == pytest.approx(21)
    assert contrast("#777777", "white") == pytest.approx(4.48, abs=0.005)


def test_distance_of_known_colours():
    assert distance("white", "black", "all cones") == pytest.approx(100, abs=0.1)
    assert lab(linear("#FF0000")) == pytest.approx([53.2, 80.1, 67.2], abs=0.1)
    red, green = "#C0392B", "#5E7D1E"  # far apart, but not for an eye without the middle cones
    assert distance(red, green, "all cones") > 60 and distance(red, green, "deuteranopia") < APART


# --- plots


@pytest.mark.parametrize("name", PALETTE)
def test_a_curve_stands_out_from_the_paper(name):
    assert contrast(PALETTE[name], "white") >= 3


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("pair", list(itertools.combinations(PALETTE, 2)), ids="-".join)
def test_two_colours_are_told_apart(pair, eye):
    one, other = (PALETTE[name] for name in pair)
    assert distance(one, other, eye) >= APART


@pytest.mark.parametrize("text", ["text.color", "axes.labelcolor", "xtick.color", "ytick.color"])
def test_words_in_a_plot_can_be_read(text):
    assert contrast(plots.plt.rcParams[text], "white") >= 4.5


def test_grey_words_can_be_read():
    assert contrast(plots.GREY, "white") >= 4.5  # the names of levels


@pytest.mark.parametrize("fill", list(drawings.PALE.values()))
def test_words_in_a_box_can_be_read(fill):
    assert contrast(plots.INK, fill) >= 4.5


@pytest.mark.parametrize("signed", [False, True])
def test_numbers_in_a_heatmap_can_be_read(signed):
    values = np.linspace(-1 if signed else 0, 1, 81)
    ax = plots.heatmap(values[None], signed=signed, numbers=".0f")
    image = ax.images[0]
    paper = [image.cmap(image.norm(value)) for value in values]
    plots.plt.close(ax.figure)
    assert min(contrast(text.get_color(), fill) for text, fill in zip(ax.texts, paper, strict=True)) >= 4.5


def test_painted_text_can_be_read():
    assert min(contrast(plots.INK, drawings.PAINT(value)) for value in np.linspace(0, 1, 65)) >= 4.5


# --- controls


def unnamed(widget):
    """The controls inside a widget without a name; radio buttons are named one by one."""
    for child in getattr(widget, "children", ()):
        yield from unnamed(child)
    if isinstance(widget, ipywidgets.RadioButtons):
        if not all(label.strip() for label, _ in widget.options):
            yield widget
    elif isinstance(widget, ipywidgets.ValueWidget | ipywidgets.Button) and not isinstance(widget, ipywidgets.HTML):
        if not widget.description.strip():
            yield widget


def test_a_control_without_a_name_is_found():
    named = ipywidgets.IntSlider(description="lag")
    assert list(unnamed(ipywidgets.VBox([named]))) == []
    for nameless in (ipywidgets.IntSlider(), ipywidgets.Button(), ipywidgets.RadioButtons(options=[("", 1)])):
        assert list(unnamed(ipywidgets.VBox([named, nameless]))) == [nameless]


def test_explore_names_its_controls():
    def draw(lag, kind):
        return plots.picture(plots.lines([1, 2], {kind: [lag, 2]}, xlabel="x", ylabel="y"), alt="two points")

    control = widgets.explore(draw, lag=("lag (steps)", 1, 0, 5, 1), kind=("cell", "RNN", ["RNN", "LSTM"]))
    assert len(control.box.children) == 3 and list(unnamed(control.box)) == []


@pytest.mark.parametrize("path", written(), ids=lambda path: path.stem)
def test_every_control_and_quiz_of_a_lesson_is_named(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        if "control" in cell["metadata"].get("tags", []):
            text = "".join("".join(output["data"]["text/plain"]) for output in cell["outputs"] if "data" in output)
            labels = re.search(r"Run the cell to move: (.*)\.", text)
            assert labels and all(map(str.strip, labels[1].split(","))), f"{path.name}, cell {cell['id']}: {text!r}"
        for key in re.findall(r'^quiz\("(.+?)"\)', "".join(cell["source"]), re.MULTILINE):
            assert list(unnamed(panel(exercises.find_quiz(key)))) == [], f"{path.name}, cell {cell['id']}"
