"""Curves that more than one lesson draws: the same axes each time, so that a reader can lay them side by side."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from course_lib.show.plots import array, lines

LEAST, MOST = 1e-8, 1e2  # from a gradient that is lost in rounding to one that explodes


def reach_plot(
    curves: Mapping[str, ArrayLike],
    ax: Axes | None = None,
    *,
    at: int = -1,
    furthest: float | None = None,
    title: str = "",
) -> Axes:
    """Reach against distance: each curve (T,) as `course_lib.attention.reach.reach` gives it for the output `at`.

    The axis ends at `furthest` places back, or where the longest curve does; inputs after the output are at distances
    below 0. A reach of 0 has no place on an axis of logarithms and is left out. Raises ValueError for no curve, a curve
    that is no row of numbers, or one that has no place `at`.
    """
    curves = {name: array(curve) for name, curve in curves.items()}
    _check_curves(curves, at)
    series = {name: (at % len(curve) - np.arange(len(curve)), curve) for name, curve in curves.items()}
    ax = lines([], series, ax, xlabel="distance (places back)", ylabel="reach ‖∂ out / ∂ in‖", title=title, log="y")
    ends = np.concatenate([distances for distances, _ in series.values()])
    ax.set(xlim=(ends.min(), furthest or max(ends.max(), 1)), ylim=(LEAST, MOST))
    return ax


def _check_curves(curves: Mapping[str, np.ndarray], at: int) -> None:
    if not curves:
        raise ValueError("A picture of reach needs at least one curve, by its name.")
    for name, curve in curves.items():
        if curve.ndim != 1 or not -len(curve) <= at < len(curve):
            raise ValueError(
                f"The reach of {name!r} must be a row of numbers, one a place, with a place {at}; got {curve.shape}."
            )
