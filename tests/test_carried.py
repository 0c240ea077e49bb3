"""What one symbol left in a cell, drawn: the lane and the side roads mixed, later steps blank, sizes refused."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from plain import in_plain_pictures

from course_lib.show.carried import LANE, SIDE, carried, mixed


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def parts(steps=25, units=30):
    draws = np.random.default_rng(0)
    return draws.normal(size=(steps, units)), draws.normal(size=(steps, units))


def test_each_part_has_its_colour_and_both_are_darker_than_either():
    none, full = np.zeros((1, 1)), np.ones((1, 1))
    assert np.allclose(mixed(none, none), 1)
    assert np.allclose(mixed(full, none), to_rgb(LANE)) and np.allclose(mixed(none, full), to_rgb(SIDE))
    assert mixed(full, full).sum() < min(sum(to_rgb(LANE)), sum(to_rgb(SIDE)))


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 7, 24])
def test_what_comes_after_the_step_is_blank(step):
    figure = carried({"b = 0": parts(), "b = 4": parts()}, "A" * 25, step)
    images, curves = figure.axes[:2], figure.axes[2:]
    assert [ax.images[0].get_array().shape for ax in images] == 2 * [(30, step + 1, 3)]
    assert {len(line.get_xdata()) for ax in curves for line in ax.lines} <= {1, step + 1}
    assert {ax.get_xlim() for ax in curves} == {(-0.5, 24.5)}, "the axis does not move with the step"


def test_the_unit_that_was_given_most_is_on_top_and_has_the_full_colour():
    lane, side = np.zeros((3, 4)), np.zeros((3, 4))
    lane[0] = [0.1, -2.0, 0.5, 1.0]
    image = carried({"one": (lane, side)}, "ABC", 0).axes[0].images[0].get_array()
    assert np.allclose(image[0, 0], to_rgb(LANE)) and (np.diff(image[:, 0].sum(1)) > 0).all()


def test_sizes_that_do_not_fit_are_refused_in_words():
    lane, side = parts()
    for networks, symbols, step in (
        ({"a": (lane, side[:-1])}, "A" * 25, 3),
        ({"a": (lane, side)}, "A" * 24, 3),
        ({"a": (lane, side)}, "A" * 25, 25),
    ):
        with pytest.raises(ValueError, match="a row for each of"):
            carried(networks, symbols, step)


@pytest.mark.slow
def test_a_move_is_quick():
    networks = {"b = 0": parts(), "b = 4": parts()}
    assert in_plain_pictures(lambda: carried(networks, "A" * 25, 24)) < 3
