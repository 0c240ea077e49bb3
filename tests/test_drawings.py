"""Drawings: text on the colours of its numbers, a network unrolled; readable, whole, refused where it does not fit."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch
from test_plots import KINDS, SQUARE, contrast

from course_lib.show import drawings, plots
from course_lib.show.drawings import painted_text, running_change, unrolled
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


@pytest.mark.slow
def test_a_change_shows_what_is_left_of_it_in_each_state_that_is_read():
    change = torch.tensor([0.0, 4.0, 2.0, 0.004, 0.0008])
    bars, _ = running_change(change, 2, 4).axes
    assert [bar.get_height() for bar in bars.patches] == pytest.approx([1, 0.5, 0.001])
    assert [text.get_text() for text in bars.texts] == ["1", "0.5", "0.001"]
    assert not running_change(change, 2, 1).axes[0].patches  # nothing has come in
    bars, chain = running_change(change, 2, 5).axes
    assert bars.texts[-1].get_text() == "2e-04" and bars.texts[-1].xy[1] == 1e-3  # under the axis, at its foot
    assert [text.get_text() for text in chain.texts] == [a + b for b in "₁₂₃₄₅" for a in "hx"]


def test_a_change_is_orange_where_it_has_come_to_and_paler_the_less_is_left():
    _, chain = running_change([0.0, 1.0, 0.1, 0.01, 0.001], 2, 4).axes
    boxes = [patch for patch in chain.patches if isinstance(patch, FancyBboxPatch)]
    states, inputs = boxes[::2], boxes[1::2]
    orange = [to_hex(box.get_edgecolor()) == plots.ORANGE.lower() for box in states]
    assert orange == [False, True, True, True, False]
    assert [to_hex(box.get_edgecolor()) == plots.ORANGE.lower() for box in inputs] == [False, True, False, False, False]
    blue = [box.get_facecolor()[2] for box in states[1:4]]
    assert blue == sorted(blue) and len(set(blue)) == 3  # deeper orange has less blue


@pytest.mark.parametrize("place, step", [(0, 1), (4, 1), (1, 0), (1, 4)])
def test_a_change_outside_the_chain_is_refused(place, step):
    with pytest.raises(ValueError, match=f"from 1 to the 3 states; got {place} and {step}"):
        running_change([1, 1, 1], place, step)
