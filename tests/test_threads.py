"""Threads and the hull: what is drawn is what the weights say."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import PathPatch, Polygon
from matplotlib.path import Path
from plain import in_plain_pictures

from course_lib.show.attention_views.threads import in_hull, threads
from course_lib.show.plots import ORANGE, picture

SOURCE, TARGET = ["May", "4", ",", "1981"], ["4", "mai", "1981"]
WEIGHTS = np.array([[0.1, 0.9, 0, 0], [0.99, 0.01, 0, 0], [0, 0, 0.3, 0.7]])


def test_a_thread_is_as_thick_as_its_weight_and_only_this_steps_are_orange():
    ax = threads(WEIGHTS, SOURCE, TARGET, step=1)
    drawn = [patch for patch in ax.patches if isinstance(patch, PathPatch)]
    assert [patch.get_linewidth() / 12 for patch in drawn] == pytest.approx([0.1, 0.9, 0.99])  # 0.01 has no thread
    assert [to_hex(patch.get_edgecolor()).upper() == ORANGE.upper() for patch in drawn] == [False, False, True]


def test_only_what_is_written_by_now_stands_at_the_right():
    assert {text.get_text() for text in threads(WEIGHTS, SOURCE, TARGET, step=1).texts} == {*SOURCE, "4", "mai"}


def test_the_mean_lies_in_the_hull_of_the_states():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(7, 16))
    for _ in range(20):
        ax = in_hull(states, rng.dirichlet(np.full(7, 0.3)), list("abcdefg"))
        (hull,) = [patch for patch in ax.patches if isinstance(patch, Polygon)]
        assert Path(hull.get_xy()).contains_point(ax.lines[-1].get_xydata()[0], radius=1e-9)
        plt.close(ax.figure)


def test_all_weight_on_one_state_is_that_state():
    states = np.random.default_rng(1).normal(size=(4, 8))
    ax = in_hull(states, [0, 0, 1, 0], SOURCE)
    points = [line.get_xydata()[0] for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(points[-1], points[2])


@pytest.mark.parametrize("states", [np.ones((1, 3)), np.arange(6.0).reshape(2, 3), np.outer(np.arange(4.0), [1, 2, 3])])
def test_one_state_two_or_a_line_of_them_can_be_drawn(states):
    weights = np.full(len(states), 1 / len(states))
    assert picture(in_hull(states, weights, SOURCE[: len(states)]), alt="a hull").png


def test_weights_of_next_to_nothing_are_drawn_at_once():
    """Dashes of a line so thin would have no end: the picture would never be done."""
    weights = np.array([1 - 3e-9, 1e-9, 1e-9, 1e-9])
    ax = in_hull(np.random.default_rng(3).normal(size=(4, 8)), weights, SOURCE)
    assert all(line.get_linestyle() == "-" for line in ax.lines if line.get_marker() == "None")
    assert min(line.get_linewidth() for line in ax.lines if line.get_marker() == "None") > 0.1
    assert picture(ax, alt="a hull").png


def test_what_does_not_fit_is_refused_in_words():
    with pytest.raises(ValueError, match="A row for each word"):
        threads(WEIGHTS.T, SOURCE, TARGET, step=0)
    with pytest.raises(IndexError, match="0 to 2"):
        threads(WEIGHTS, SOURCE, TARGET, step=3)
    with pytest.raises(ValueError, match="A weight and a name"):
        in_hull(np.ones((4, 8)), [0.5, 0.5], SOURCE)


@pytest.mark.slow
def test_a_move_is_quick():
    rng = np.random.default_rng(2)
    words = [f"word{k}" for k in range(12)]
    looks, states = rng.dirichlet(np.ones(12), 12), rng.normal(size=(12, 128))
    assert in_plain_pictures(lambda: threads(looks, words, words, step=11)) < 3
    assert in_plain_pictures(lambda: in_hull(states, looks[0], words)) < 3
