"""Curves that more than one lesson draws: the same axes each time, so that a reader can lay them side by side."""

import itertools
from collections.abc import Mapping, Sequence
from numbers import Real

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from course_lib.show.plots import INK, array, lines

LIVE = {"color": INK, "markersize": 6, "markerfacecolor": "white", "zorder": 4}  # the run made here and now
LEAST, MOST = 1e-8, 1e2  # from a gradient that is lost in rounding to one that explodes


def reach_plot(
    curves: Mapping[str, ArrayLike],
    ax: Axes | None = None,
    *,
    at: int = -1,
    furthest: float | None = None,
    title: str = "",
) -> Axes:
    """Reach against distance: each curve (T,) as `course_lib.inputs.reach.reach` gives it for the output `at`.

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


def runs_plot(
    runs: Mapping,
    ax: Axes | None = None,
    *,
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
    log: str = "",
    levels: Mapping[str, float] | None = None,
    colours: Sequence[str] = (),
) -> Axes:
    """Numbers measured in many runs: a dot at their mean, a pale bar from least to largest, a diamond for the live run.

    runs: {place: numbers}, or {series: {place: numbers}} for several side by side, where numbers have .mean, .least,
    .most and .live (None without one), as the experiments' `Runs` has. Places that are all numbers lie along an
    axis, and each series is joined by a line; others are categories. log and levels as in `plots.lines`; colours: of
    the series in their order, or of the places where there is one series only. Raises ValueError where there is nothing
    to draw.
    """
    if all(isinstance(one, Mapping) for one in runs.values()):
        series = list(runs.items())
    else:  # a colour for each place: each is drawn by itself
        series = [("", {place: numbers}) for place, numbers in runs.items()] if colours else [("", runs)]
    places = list(dict.fromkeys(place for _, one in series for place in one))
    if not places:
        raise ValueError("A picture of runs needs at least one number, by its place: {'LSTM': numbers}.")
    along = all(isinstance(place, Real) for place in places)
    ax = lines([], {}, ax, xlabel=xlabel, ylabel=ylabel, title=title, log=log, levels=levels)
    live = []
    for order, (name, one), colour in zip(range(len(series)), series, colours or _colours(), strict=False):
        shift = 0.7 * ((order + 0.5) / len(series) - 0.5) if name and not along else 0
        x = np.array([place if along else places.index(place) + shift for place in one], float)
        mean, least, most = (array([getattr(numbers, part) for numbers in one.values()])
                             for part in ("mean", "least", "most"))  # fmt: skip
        ax.vlines(x, least, most, color=colour, linewidth=11, alpha=0.28)
        ax.plot(x, mean, "o-" if along else "o", color=colour, markersize=9, label=name)
        live += [(at, numbers.live) for at, numbers in zip(x, one.values(), strict=True) if numbers.live is not None]
    if live:
        ax.plot(*zip(*live, strict=True), "D", label="live run", **LIVE)
    if not along:
        ax.set_xticks(range(len(places)), places)
        ax.set_xlim(-0.5, len(places) - 0.5)
        ax.grid(axis="x", visible=False)
    if live or any(name for name, _ in series):
        shown, names = ax.get_legend_handles_labels()
        named = [(handle, label) for handle, label in zip(shown, names, strict=True) if label]
        ax.legend(*zip(*named, strict=True), markerscale=0.8)
    return ax


def curves_plot(
    x: ArrayLike,
    curves: Mapping[str, ArrayLike],
    ax: Axes | None = None,
    *,
    live: Mapping[str, ArrayLike] | None = None,
    xlabel: str,
    ylabel: str,
    title: str = "",
    log: str = "",
    levels: Mapping[str, float] | None = None,
) -> Axes:
    """Curves measured in many runs, (R, N) each as `Record.lists` gives them: their mean, a band from least to largest.

    live: curves (N,) of live runs, by the name of theirs: a thin dark line each, a diamond at its end. Along a
    logarithmic y the mean is the geometric one. log and levels as in `plots.lines`. Raises ValueError for curves that
    are no rows of the length of x.
    """
    x, live = array(x), {name: array(curve) for name, curve in (live or {}).items()}
    curves = {name: np.atleast_2d(array(rows)) for name, rows in curves.items()}
    for name, rows in {**curves, **{f"{name}, live": curve[None] for name, curve in live.items()}}.items():
        if rows.ndim != 2 or rows.shape[1:] != x.shape:
            raise ValueError(f"The curves of {name!r} must be rows of {x.size} numbers, one an x; got {rows.shape}.")
    geometric = "y" in log
    with np.errstate(divide="ignore"):
        means = {name: np.exp(np.log(rows).mean(0)) if geometric else rows.mean(0) for name, rows in curves.items()}
    ax = lines(x, means, ax, xlabel=xlabel, ylabel=ylabel, title=title, log=log, levels=levels)
    for rows, colour in zip(curves.values(), _colours(), strict=False):
        ax.fill_between(x, rows.min(0), rows.max(0), color=colour, alpha=0.22, linewidth=0)
    for order, curve in enumerate(live.values()):
        ax.plot(x, curve, "-D", label="" if order else "live run", linewidth=1, markevery=[-1], **LIVE)
    if live or len(curves) > 1:
        ax.legend()
    return ax


def _colours():
    return itertools.cycle(plt.rcParams["axes.prop_cycle"].by_key()["color"])
