"""The one vector between two networks: how it fills while a source is read, and what is left of it while they write.

one_vector(kept, states, ["k", "n", "i", "t", "<end>"], ["<start>", "N", "IH1", "T"], step=5)
"""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from course_lib.show.letters import drawable
from course_lib.show.plots import GREEN, INK, ORANGE, array, heatmap

SIDE = 16  # cells of the state in a row


def one_vector(
    kept: ArrayLike,
    states: ArrayLike,
    read: Sequence[str],
    written: Sequence[str],
    step: int,
    *,
    limit: float = 1.0,
) -> Figure:
    """A state after `step` of S + T steps: its numbers, and what it keeps of each token of the source that it read.

    kept (N, S + T): a row for each of the first N tokens of the source, a number from 0 to `limit` for each step;
    states (S + T, H). What comes after `step`, counted from 1, is left blank. Raises ValueError where sizes do not fit.
    """
    kept, states = array(kept), array(states)
    steps = len(read) + len(written)
    if kept.shape[1:] != (steps,) or len(kept) > len(read) or states.shape[:1] != (steps,) or not 1 <= step <= steps:
        raise ValueError(
            f"A column of `kept` and a row of `states` for each of {len(read)} + {len(written)} tokens, a step from 1 "
            f"to {steps}: got {kept.shape}, {states.shape} and {step}."
        )
    figure = plt.figure(figsize=(12, 3.5), layout="none")
    left, right = figure.add_axes((0.055, 0.215, 0.685, 0.68)), figure.add_axes((0.79, 0.215, 0.198, 0.68))
    names = [drawable(token) for token in (*read, *written)]
    heatmap(np.where(np.arange(steps) < step, kept, np.nan), left, rows=names[: len(kept)], columns=names, limit=limit)
    left.set(xlabel="it reads, then it writes: a column for each step", title="kept of each letter")
    for at, label in enumerate(left.get_xticklabels()):
        label.set(color=INK if at < len(read) else GREEN, weight="bold" if at == step - 1 else "normal")
        label.set_rotation(90 * (len(names[at]) > 1))
    left.xaxis.set_label_coords(0.5, -0.225)
    left.axvline(len(read) - 0.5, color=ORANGE, linewidth=3, linestyle="-")
    look = {"fontsize": 13, "ha": "center"}
    left.text(len(read) - 0.5, -0.65, "one vector", color=ORANGE, weight="bold", va="bottom", **look)
    left.add_patch(Rectangle((step - 1.5, -0.5), 1, len(kept), fill=False, edgecolor=INK, linewidth=2))
    now = np.full(-(-states.shape[1] // SIDE) * SIDE, np.nan)
    now[: states.shape[1]] = states[step - 1]
    heatmap(now.reshape(-1, SIDE), right, signed=True, limit=1.0, title="the state now")
    below = f"{states.shape[1]} numbers, behind “{names[step - 1]}”"
    right.text(0.5, -0.05, below, transform=right.transAxes, va="top", **look)
    return figure
