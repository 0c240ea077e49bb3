"""What one symbol left in a cell, as an image: units times steps, the lane in one colour, the side roads in another.

carried({"b = 0": (lane, side), "b = 4": (lane, side)}, symbols="FBAHCCED", step=5)
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from course_lib.show.plots import BLUE, INK, ORANGE, array

LANE, SIDE = BLUE, ORANGE


def carried(
    networks: Mapping[str, tuple[ArrayLike, ArrayLike]],
    symbols: Sequence[str],
    step: int,
    *,
    size: tuple[float, float] = (12, 3.6),
) -> Figure:
    """What the first of T symbols left in the cells of each network up to `step` (0 to T - 1); later steps stay blank.

    networks: by name (lane, side), (T, H) each. Above, a row a unit: full colour where as much is left as the unit with
    most was given, both colours mixed. Below, how long each part is over all units, the first step's lane being 1.
    Raises ValueError where sizes do not fit.
    """
    networks = {name: tuple(map(array, parts)) for name, parts in networks.items()}
    for name, (lane, side) in networks.items():
        if lane.ndim != 2 or lane.shape != side.shape or len(lane) != len(symbols) or not 0 <= step < len(lane):
            raise ValueError(
                f"{name!r} needs a lane and side roads of a row for each of {len(symbols)} symbols, and a step below "
                f"that: got {lane.shape}, {side.shape} and {step}."
            )
    figure, panels = plt.subplots(2, len(networks), figsize=size, height_ratios=(1.7, 1), squeeze=False, layout="none")
    # Set by hand: a layout that looks for room takes as long as the whole drawing.
    figure.subplots_adjust(left=0.06, right=0.99, top=0.88, bottom=0.11, wspace=0.09, hspace=0.08)
    lengths = [_lengths(*parts) for parts in networks.values()]
    highest = max(float(both.max()) for both in lengths)
    for (name, parts), both, (image, curves) in zip(networks.items(), lengths, panels.T, strict=True):
        _paint(image, *parts, step)
        image.set_title(name, fontsize=15)
        for length, colour, label in zip(both, (LANE, SIDE), ("along the lane", "by side roads"), strict=True):
            curves.plot(length[: step + 1], color=colour, linewidth=2.5, linestyle="-", label=label)
            curves.plot(step, length[step], "o", color=colour, markersize=8)
        curves.set(xlim=(-0.5, len(symbols) - 0.5), ylim=(0, 1.1 * highest), yticks=range(int(highest) + 1))
        curves.set_xticks(range(len(symbols)), symbols, fontsize=12)
        curves.tick_params(axis="x", length=0)
        curves.grid(axis="x", visible=False)
    panels[0, 0].set_ylabel("units")
    panels[1, 0].set_ylabel("length")
    panels[1, 0].legend(loc="upper right", fontsize=12, ncols=2)
    return figure


def mixed(lane: np.ndarray, side: np.ndarray) -> np.ndarray:
    """Shares of 0 to 1 of the two colours as one: each takes its complement away from white. (R, C) -> (R, C, 3)."""
    taken = [
        np.clip(share, 0, 1)[..., None] * (1 - np.array(to_rgb(hue))) for share, hue in ((lane, LANE), (side, SIDE))
    ]
    return np.clip(1 - sum(taken), 0, 1)


def _paint(ax: Axes, lane: np.ndarray, side: np.ndarray, step: int) -> None:
    """The image, the unit that was given most on top."""
    order = np.argsort(-np.abs(lane[0]))
    lane, side = (np.abs(part[: step + 1, order]).T / np.abs(lane[0]).max() for part in (lane, side))  # (H, step + 1)
    ax.imshow(mixed(lane, side), aspect="auto", interpolation="nearest")
    ax.axvline(step + 0.5, color=INK, linewidth=1.5, linestyle="-")
    ax.set_yticks([])
    ax.tick_params(length=0, labelbottom=False)
    ax.grid(visible=False)


def _lengths(lane: np.ndarray, side: np.ndarray) -> np.ndarray:
    """How long each part is over all units, against the lane's first step: (2, T)."""
    return np.linalg.norm([lane, side], axis=2) / np.linalg.norm(lane[0])
