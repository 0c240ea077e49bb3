"""Pictures of reach: the same axes whatever is drawn, a curve's last place at distance 0."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from course_lib.show.curves import LEAST, MOST, curves_plot, reach_plot, runs_plot
from course_lib.show.plots import picture
from course_lib.workshop.experiments.runs import Runs


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.mark.slow
def test_distance_is_counted_back_from_the_output():
    """reach_plot: the output's own place is at distance 0, each one before it a place further."""
    ax = reach_plot({"a": [1e-3, 1e-2, 1e-1], "b": torch.tensor([0.5, 2.0])}, title="t")
    assert [line.get_xdata().tolist() for line in ax.lines] == [[2, 1, 0], [1, 0]]
    assert ax.lines[0].get_ydata().tolist() == [1e-3, 1e-2, 1e-1]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    both = reach_plot({"both ways": [1, 2, 3, 4]}, at=1)
    assert both.lines[0].get_xdata().tolist() == [1, 0, -1, -2] and both.get_xlim() == (-2, 1)
    picture(ax, "x"), picture(both, "x")


def test_the_axes_are_the_same_each_time():
    one, other = reach_plot({"a": [1, 1, 1]}), reach_plot({"b": [1e-30, np.nan, 0]}, furthest=2)
    for ax in (one, other):
        assert (ax.get_xlim(), ax.get_ylim(), ax.get_yscale()) == ((0, 2), (LEAST, MOST), "log")
    assert (one.get_xlabel(), one.get_ylabel()) == (other.get_xlabel(), other.get_ylabel())
    assert other.lines[0].get_xdata().tolist() == [2]  # what is 0 or no number has no place there
    picture(reach_plot({"one place": [1.0]}), "x")


@pytest.mark.parametrize(
    "curves, at", [({"a": [[1, 2]]}, -1), ({"a": 1.0}, 0), ({"a": [1, 2], "b": [1]}, 1), ({"a": []}, -1)]
)
def test_what_is_no_curve_is_refused_in_words(curves, at):
    with pytest.raises(ValueError, match="must be a row of numbers, one a place, with a place"):
        reach_plot(curves, at=at)
    with pytest.raises(ValueError, match="at least one curve"):
        reach_plot({})


def bars(ax):
    """Where the pale bars stand: (x, least, most), those of each series in a row."""
    return [[(float(a[0]), float(a[1]), float(b[1])) for a, b in drawn.get_segments()] for drawn in ax.collections]


def names(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_runs_are_a_mean_a_range_and_the_live_one():
    """runs_plot: categories stand at 0, 1, ...; the dot is the mean of the recorded runs, the bar ends at theirs."""
    ax = runs_plot({"lag 12": Runs([0.5, 0.6, 1.0], 0.9), "lag 24": Runs([0.1, 0.3])}, ylabel="y", levels={"c": 0.2})
    assert bars(ax) == [[(0, 0.5, 1.0), (1, 0.1, 0.3)]]
    level, dots, live = ax.lines
    assert dots.get_xydata().round(6).tolist() == [[0, 0.7], [1, 0.2]] and live.get_xydata().tolist() == [[0, 0.9]]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["lag 12", "lag 24"] and names(ax) == ["live run"]
    assert level.get_ydata() == [0.2, 0.2] and dots.get_linestyle() == "None" and ax.get_ylabel() == "y"
    picture(ax, "x")


def test_series_stand_side_by_side_and_a_missing_place_stays_empty():
    ax = runs_plot({"a": {"x": Runs([1, 3]), "y": Runs([2])}, "b": {"y": Runs([4, 6])}})
    (first, second), (other,) = bars(ax)
    assert first[0] < 0 < second[0] < 1 < other[0] and first[1:] == (1, 3) and other[1:] == (4, 6)
    assert names(ax) == ["a", "b"] and ax.lines[0].get_color() != ax.lines[1].get_color()
    picture(ax, "x")


def test_places_of_one_series_can_have_colours_of_their_own():
    ax = runs_plot({"x": Runs([1, 3]), "y": Runs([2], 2)}, colours=("red", "blue"))
    assert [line.get_color() for line in ax.lines[:2]] == ["red", "blue"] and names(ax) == ["live run"]
    assert bars(ax) == [[(0, 1, 3)], [(1, 2, 2)]] and [t.get_text() for t in ax.get_xticklabels()] == ["x", "y"]


def test_places_that_are_numbers_lie_along_an_axis():
    ax = runs_plot({"a": {10: Runs([1], 2), 20: Runs([3])}, "b": {10: Runs([5]), 40: Runs([6])}}, log="x")
    assert ax.lines[1].get_xdata().tolist() == [10, 40] and ax.lines[1].get_linestyle() == "-"
    assert ax.get_xscale() == "log" and names(ax) == ["a", "b", "live run"]
    picture(ax, "x")


@pytest.mark.slow
def test_curves_of_many_runs_are_a_mean_and_a_band():
    """curves_plot: the mean over runs place by place, the band from the least to the largest."""
    ax = curves_plot([1, 2], {"a": [[1, 2], [3, 6]]}, live={"a": [2, 5]}, xlabel="x", ylabel="y")
    mean, live = ax.lines
    assert (
        mean.get_ydata().tolist() == [2, 4] and live.get_ydata().tolist() == [2, 5] and names(ax) == ["a", "live run"]
    )
    corners = {tuple(corner) for corner in ax.collections[0].get_paths()[0].vertices.tolist()}
    assert corners == {(1, 1), (1, 3), (2, 2), (2, 6)}
    picture(ax, "x")
    ax = curves_plot([1, 2], {"a": [[1, 4], [100, 4]], "b": [[2, 2]]}, xlabel="x", ylabel="y", log="y")
    assert ax.lines[0].get_ydata().round(6).tolist() == [10, 4] and names(ax) == ["a", "b"]
    picture(ax, "x")


def test_pictures_of_runs_refuse_in_words_what_they_cannot_draw():
    with pytest.raises(ValueError, match="at least one number"):
        runs_plot({})
    with pytest.raises(ValueError, match="'a, live' must be rows of 2 numbers"):
        curves_plot([1, 2], {"a": [[1, 2]]}, live={"a": [1, 2, 3]}, xlabel="", ylabel="")
