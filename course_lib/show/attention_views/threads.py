"""One look at a time: threads from the word that is written to all words that are read, and the mean that they make.

ax = threads(weights, source, target, step=2)
ax = in_hull(states, weights[2], source)
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch, Polygon
from matplotlib.path import Path as Line
from numpy.typing import ArrayLike

from course_lib.show.letters import FONTS, drawable, token_label
from course_lib.show.plots import BLUE, GREEN, GREY, INK, ORANGE, array, axes

SEEN = 0.02  # a thread of less weight is not drawn


def threads(
    weights: ArrayLike,
    source: Sequence[str],
    target: Sequence[str],
    step: int,
    ax: Axes | None = None,
    *,
    title: str = "",
) -> Axes:
    """Weights (T, S) as threads, as thick as they are heavy: those of row `step` in orange, those before it pale.

    Left stands the source, right what was written up to this step, from 0. Weights below 0.02 have no thread.
    Raises ValueError where weights and words do not match, IndexError for a step that is not there.
    """
    weights = _table(weights, target, source)
    if not 0 <= step < len(target):
        raise IndexError(f"step counts the words that are written, 0 to {len(target) - 1}; got {step}.")
    high = max(len(source), len(target))
    left, right = (-(np.arange(len(side)) + 0.5) * high / len(side) for side in (source, target))
    ax = axes(ax, size=(6, max(2.4, 0.34 * high)))
    for t in range(step + 1):
        for j in np.flatnonzero(weights[t] >= SEEN):
            bent = [(0.02, left[j]), (0.5, left[j]), (0.5, right[t]), (0.98, right[t])]
            colour, alpha, above = (ORANGE, 0.85, 2) if t == step else (GREY, 0.3, 1)
            look = {"edgecolor": colour, "alpha": alpha, "zorder": above, "linewidth": 12 * weights[t, j]}
            ax.add_patch(PathPatch(Line(bent, [Line.MOVETO, *[Line.CURVE4] * 3]), fill=False, capstyle="butt", **look))
    look = {"va": "center", "fontsize": 14 if high <= 10 else 12, "family": FONTS, "parse_math": False}
    for j, (y, word) in enumerate(zip(left, source, strict=True)):
        heavy = weights[step, j] == weights[step].max()
        ax.text(0, y, _name(word), ha="right", color=ORANGE if heavy else INK, **look)
    for t, (y, word) in enumerate(zip(right[: step + 1], target[: step + 1], strict=True)):
        ax.text(1, y, _name(word), ha="left", color=ORANGE if t == step else INK, **look)
    ax.set(xlim=(-0.45, 1.45), ylim=(-high, 0), title=title)
    ax.set_axis_off()
    return ax


def in_hull(
    states: ArrayLike,
    weights: ArrayLike,
    names: Sequence[str],
    ax: Axes | None = None,
    *,
    path: ArrayLike | None = None,
    title: str = "",
) -> Axes:
    """States (S, H) as points of a plane, their convex hull, and inside it their mean with these weights (S,).

    The plane is that of the two directions in which the states differ most. A mean with weights that are not negative
    and sum to one lies in the hull, and so it does in any such picture of it. path (n, S): weights of other means,
    drawn as a line. Raises ValueError for weights that do not match the states.
    """
    states, weights = array(states), array(weights)
    if states.ndim != 2 or weights.shape != (len(states),) or len(names) != len(states):
        raise ValueError(
            f"A weight and a name for each state: got states {states.shape}, weights {weights.shape} and "
            f"{len(names)} names."
        )
    middle = states.mean(0)
    _, _, directions = np.linalg.svd(states - middle, full_matrices=False)
    points = np.zeros((len(states), 2))
    points[:, : len(directions[:2])] = (states - middle) @ directions[:2].T  # (S, 2); one state has no direction
    context = weights @ points
    ax = axes(ax, size=(6, 4))
    ax.add_patch(Polygon(points[_around(points)], closed=True, facecolor=BLUE, alpha=0.1, edgecolor=BLUE, zorder=0))
    for point, weight, name in zip(points, weights, names, strict=True):
        if weight >= SEEN:  # a line is drawn solid: dashes scale with its width, and thin ones have no end
            look = {"linestyle": "-", "linewidth": 10 * weight, "alpha": 0.6, "zorder": 1}
            ax.plot(*zip(context, point, strict=True), color=ORANGE, **look)
        ax.plot(*point, "o", color=BLUE, markersize=8, zorder=3)
        ax.annotate(
            _name(name),
            point,
            (0, 9),
            textcoords="offset points",
            ha="center",
            fontsize=13,
            family=FONTS,
            parse_math=False,
        )
    if path is not None:
        ax.plot(*(array(path) @ points).T, color=GREEN, linewidth=1.8, linestyle=(0, (2, 2)), zorder=2)
    ax.plot(*context, "o", color=ORANGE, markersize=14, markeredgecolor="white", zorder=4)
    ax.margins(0.12, 0.18)
    ax.set(xticks=[], yticks=[], title=title)
    for side in ax.spines.values():
        side.set_visible(False)
    return ax


def _around(points: np.ndarray) -> list[int]:
    """The corners of the convex hull of points (S, 2), in turn: from the left below, then from the right above."""

    def turns_right(a, b, c):
        (x, y), (u, w) = points[b] - points[a], points[c] - points[a]
        return x * w - y * u <= 0

    order, corners = [int(k) for k in np.lexsort(points.T[::-1])], []
    for way in (order, order[::-1]):
        half = []
        for k in way:
            while len(half) > 1 and turns_right(half[-2], half[-1], k):
                half.pop()
            half.append(k)
        corners += half[:-1]
    return corners or order[:1]


def _name(word: str) -> str:
    return drawable(token_label(word), FONTS)


def _table(weights: ArrayLike, rows: Sequence[str], columns: Sequence[str]) -> np.ndarray:
    weights = array(weights)
    if weights.shape != (len(rows), len(columns)):
        raise ValueError(
            f"A row for each word that is written and a column for each that is read: got weights {weights.shape} "
            f"for {len(rows)} and {len(columns)} words."
        )
    return weights
