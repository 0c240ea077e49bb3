"""Pictures: they draw over the whole range of a control, refuse nonsense, and can be told apart by everyone."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest

from course_lib import plots
from course_lib.plots import Picture, bars, heatmap, lines, painted_text, picture, unrolled

# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
VISION = {
    "usual": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                            [0.004733, 0.691367, 0.303900]]),
}
COLOURS = [plots.BLUE, plots.ORANGE, plots.GREEN, plots.PURPLE, plots.GREY]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def linear(colour):
    value = np.array([int(colour.lstrip("#")[i:i + 2], 16) for i in (0, 2, 4)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    a, b = (float(np.array([0.2126, 0.7152, 0.0722]) @ linear(c)) + 0.05 for c in (one, other))
    return max(a, b) / min(a, b)


def lab(rgb):
    xyz = np.array([[.4124, .3576, .1805], [.2126, .7152, .0722], [.0193, .1192, .9505]]) @ rgb / [.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("colour", [*COLOURS, plots.INK])
def test_colours_stand_out_as_text_on_white(colour):
    assert contrast(colour, "#ffffff") >= 4.5


@pytest.mark.parametrize("vision", VISION)
def test_any_two_colours_differ_for_every_eye(vision):
    seen = [lab(np.clip(VISION[vision] @ linear(c), 0, 1)) for c in COLOURS]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) >= 14


def test_text_stays_readable_on_the_painted_colours_and_in_boxes():
    fills = [plots.PAINT(v) for v in np.linspace(0, 1, 11)]
    fills = ["#" + "".join(f"{round(255 * c):02x}" for c in fill[:3]) for fill in fills] + list(plots.PALE.values())
    assert min(contrast(plots.INK, fill) for fill in fills) >= 4.5


def test_picture_carries_its_alternative_text_escaped():
    shown = picture(lines([1, 2], {"a": [1, 2]}, xlabel="x", ylabel="y"), alt='a "b" <c>\n d')
    assert isinstance(shown, Picture) and shown.png[1:4] == b"PNG"
    assert 'alt="a &quot;b&quot; &lt;c&gt; d"' in shown._repr_html_() and repr(shown) == 'Figure: a "b" <c> d'
    assert not plt.get_fignums(), "the figure must be closed, or the notebook shows it twice"
    with pytest.raises(ValueError, match="alternative text"):
        picture(unrolled(["x"], ["y"]), alt="  ")


def test_lines_leave_out_what_cannot_be_drawn():
    ax = lines([1, 2, 3, 4], {"a": [1.0, np.nan, np.inf, 0.0]}, xlabel="x", ylabel="y", log="y", levels={"one": 1})
    assert ax.lines[0].get_xdata().tolist() == [1]
    picture(ax, "x")
    picture(lines(0, {"own": (range(3), [1, 2, 3]), "b": ([], [])}, xlabel="x", ylabel="y"), "x")
    picture(lines([1, 2], {"pair of numbers": (3.0, 4.0)}, xlabel="x", ylabel="y"), "a tuple of two numbers is a curve")


@pytest.mark.parametrize("matrix", [np.zeros((1, 1)), np.eye(4), -np.eye(3), np.full((2, 5), np.nan), np.ones(3)])
@pytest.mark.parametrize("signed", [True, False])
def test_heatmap_of_anything(matrix, signed):
    picture(heatmap(matrix, signed=signed, numbers=".1f", title="t", frame=[(0, 0)]), "x")


def test_bars_write_their_numbers():
    ax = bars({"a": 1.234, "b": 0.0}, xlabel="x", highlight=["b"])
    assert {t.get_text() for t in ax.texts} == {"1.23", "0.00"}


@pytest.mark.parametrize("text", ["a", "\n", "a\nbc\n\nd", "x" * 200, "$5 and_x^2 <b>", "é ſ"])
def test_painted_text_breaks_lines_and_keeps_every_character(text):
    ax = painted_text(text, np.linspace(-2, 2, len(text)), width=64, label="activation")
    assert "".join(t.get_text() for t in ax.texts) == text.replace("\n", "↵")
    picture(ax, "x")


def test_painted_text_and_unrolled_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="2 numbers for 3 characters"):
        painted_text("abc", [1, 2])
    with pytest.raises(ValueError, match="As many inputs as outputs"):
        unrolled(["a"], [])
    assert len(painted_text("", []).texts) <= 1
