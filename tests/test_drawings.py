"""Drawings: text on the colours of its numbers, a network unrolled; readable, whole, refused where it does not fit."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from test_plots import KINDS, SQUARE, contrast

from course_lib.show import drawings, plots
from course_lib.show.drawings import painted_text, unrolled
from course_lib.show.plots import picture


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_text_stays_readable_on_the_painted_colours_and_in_boxes():
    fills = [drawings.PAINT(v) for v in np.linspace(0, 1, 11)]
    fills = ["#" + "".join(f"{round(255 * c):02x}" for c in fill[:3]) for fill in fills] + list(drawings.PALE.values())
    assert min(contrast(plots.INK, fill) for fill in fills) >= 4.5


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


@pytest.mark.parametrize("kind", KINDS)
def test_text_is_painted_with_numbers_wherever_they_come_from(kind):
    assert list(painted_text("ab", KINDS[kind](SQUARE[0]), width=2).images[0].get_array()[0]) == [0.25, 0.5]


def test_what_its_font_has_no_letter_for_is_boxed():
    ax = painted_text("a\ud800日", torch.zeros(3))
    assert ax.texts[0].get_text() == "a□□"
    picture(ax, "x")
