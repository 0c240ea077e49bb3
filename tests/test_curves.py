"""Pictures of reach: the same axes whatever is drawn, a curve's last place at distance 0."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from course_lib.show.curves import LEAST, MOST, reach_plot
from course_lib.show.plots import picture


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


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
