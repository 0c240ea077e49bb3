"""Drawings: boxes and arrows, a network unrolled in time, a change that runs through it, text on its numbers' colours.

ax = unrolled(["$x_1$", "$x_2$"], ["", "$y$"])
arrow(ax, (0.3, 1.1), (0.7, 1.1), ORANGE)
"""

import re
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from numpy.typing import ArrayLike

from course_lib.show.letters import drawable
from course_lib.show.plots import BLUE, DIVERGING, GREEN, GREY, INK, ORANGE, array, axes

PALE = {BLUE: "#DCEAF6", ORANGE: "#FBE5D6", GREEN: "#DDF1E7", GREY: "#ECEEF1"}  # fills under dark text
PAINT = LinearSegmentedColormap.from_list("paint", plt.get_cmap(DIVERGING)(np.linspace(0.27, 0.73, 64)))  # under text
TEXT_SIZE = 13.5  # points, of painted text
FONT, ADVANCE = ["DejaVu Sans Mono"], 0.602  # and the width of one of its characters, in units of its size


def unrolled(
    inputs: Sequence[str],
    outputs: Sequence[str],
    ax: Axes | None = None,
    *,
    title: str = "",
    states: Sequence[str] | None = None,
) -> Axes:
    """The network drawn step by step: inputs below, states in a row, outputs above; an empty string draws nothing."""
    if len(inputs) != len(outputs):
        raise ValueError(f"As many inputs as outputs, '' where there is none: got {len(inputs)} and {len(outputs)}.")
    steps = len(inputs)
    states = states or [f"$h_{t + 1}$" for t in range(steps)]
    ax = axes(ax, size=(max(3.0, 1.5 * steps), 3.6))
    for t in range(steps):
        box(ax, t, 1, states[t], BLUE)
        if t + 1 < steps:
            arrow(ax, (t + 0.3, 1), (t + 0.7, 1))
        if inputs[t]:
            box(ax, t, 0, inputs[t], GREY)
            arrow(ax, (t, 0.28), (t, 0.72))
        if outputs[t]:
            box(ax, t, 2, outputs[t], ORANGE)
            arrow(ax, (t, 1.28), (t, 1.72))
    ax.set(xlim=(-0.5, steps - 0.5), ylim=(-0.4, 2.4), title=title)
    ax.set_axis_off()
    return ax


def running_change(change: ArrayLike, place: int, step: int, *, least: float = 1e-3) -> Figure:
    """The chain read up to `step`, and what a small change of the input at `place` has done to each state so far.

    change (T,): the size of each state's change; it is drawn above its state as a part of the first that is not 0, on
    an axis of logarithms from `least`. Orange is where the change has come to, the deeper the larger it still is.
    place and step count from 1, as formulas do. Raises ValueError for one that lies outside the chain.
    """
    change = array(change)
    steps = len(change)
    if not (1 <= place <= steps and 1 <= step <= steps):
        raise ValueError(f"place and step count from 1 to the {steps} states; got {place} and {step}.")
    parts = change / (change[place - 1] or 1)
    reached = range(place - 1, step)
    figure = plt.figure(figsize=(12, 3.2), layout="none")
    bars, chain = figure.add_axes((0.07, 0.52, 0.925, 0.37)), figure.add_axes((0.07, 0, 0.925, 0.5))
    bars.bar(reached, parts[place - 1 : step], width=0.56, color=ORANGE)
    for t in reached:
        bars.annotate(_share(parts[t]), (t, max(parts[t], least)), (0, 3), textcoords="offset points", ha="center")
    bars.set(yscale="log", xlim=(-0.5, steps - 0.5), ylim=(least, 8), ylabel="change left")
    bars.set_title(f"x{_below(place)} is changed; {step} of {steps} are read")
    bars.grid(axis="x", visible=False)
    bars.set_xticks([])
    decades = 10.0 ** np.arange(np.floor(np.log10(least)), 1)
    bars.set_yticks(decades, [_share(part) for part in decades])  # plain text: formulas take too long for each move
    bars.yaxis.minorticks_off()
    for t in range(steps):
        here = t in reached
        strength = 1 + np.log10(max(parts[t], least)) / -np.log10(least) if here else 0
        colour = ORANGE if here else BLUE if t < step else GREY
        box(chain, t, 1, f"h{_below(t + 1)}", colour, fill=PAINT(0.5 + 0.5 * strength) if here else "")
        box(chain, t, 0, f"x{_below(t + 1)}", ORANGE if t == place - 1 else GREY)
        arrow(chain, (t, 0.26), (t, 0.74), ORANGE if here and t == place - 1 else INK if t < step else GREY)
        if t + 1 < steps:
            onward = ORANGE if here and t + 1 < step else INK if t + 1 < step else GREY
            arrow(chain, (t + 0.3, 1), (t + 0.7, 1), onward)
    chain.set(xlim=(-0.5, steps - 0.5), ylim=(-0.3, 1.3))
    chain.set_axis_off()
    return figure


def _below(number: int) -> str:
    """A number as a subscript, in letters of the font."""
    return "".join(chr(0x2080 + int(digit)) for digit in str(number))


def _share(part: float) -> str:
    """A part of 1 in few letters: 1, 0.27, 0.005, 4e-05."""
    return f"{part:.2g}" if part >= 1e-3 else f"{part:.0e}"


def box(ax: Axes, x: float, y: float, text: str, colour: str, width: float = 0.56, fill="") -> None:
    """A rounded box around (x, y) with a text, in a frame of a palette colour and, without `fill`, its pale fill."""
    look = {"facecolor": fill or PALE.get(colour, "white"), "edgecolor": colour, "linewidth": 1.8}
    corner, style = (x - width / 2, y - 0.22), "round,pad=0,rounding_size=0.08"
    ax.add_patch(FancyBboxPatch(corner, width, 0.44, boxstyle=style, **look))
    ax.text(x, y, text, ha="center", va="center", fontsize=14)


def arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str = INK,
    bend: float = 0.0,
    style: str = "-",
) -> None:
    """An arrow from start to end in data coordinates, bent by `bend` of its length."""
    look = {"arrowstyle": "-|>", "mutation_scale": 13, "color": colour, "linewidth": 1.8, "linestyle": style}
    ax.add_patch(FancyArrowPatch(start, end, shrinkA=0, shrinkB=0, connectionstyle=f"arc3,rad={bend}", **look))


def painted_text(
    text: str,
    values: ArrayLike,
    ax: Axes | None = None,
    *,
    width: int = 64,
    limit: float = 1.0,
    title: str = "",
    label: str = "",
) -> Axes:
    """Text with one number a character painted behind it: purple below zero, orange above, full colour at `limit`.

    A line breaks at a newline and after `width` characters; the newline keeps its colour, as a square of its own.
    """
    values = array(values)
    if len(values) != len(text):
        raise ValueError(f"One number a character: got {len(values)} numbers for {len(text)} characters.")
    rows, colours = [""], [[]]
    for character, value in zip(text, values, strict=True):
        if len(rows[-1]) == width or rows[-1].endswith("\n"):
            rows.append("")
            colours.append([])
        rows[-1] += character
        colours[-1].append(value)
    grid = np.full((len(rows), width), np.nan)
    for r, row in enumerate(colours):
        grid[r, : len(row)] = row
    scale = None
    if ax is None:  # a figure just as wide as the text, so that every character stands on its own colour
        across, down = width * TEXT_SIZE * ADVANCE / 72, 0.3 * len(rows)
        wide, high = across + 0.3, down + (1.3 if label else 0.55)
        figure = plt.figure(figsize=(wide, high), layout="none")
        ax = figure.add_axes((0.15 / wide, 1 - (0.45 + down) / high, across / wide, down / high))
        scale = figure.add_axes((0.3, 0.55 / high, 0.4, 0.12 / high)) if label else None
    image = ax.imshow(grid, cmap=PAINT, vmin=-limit, vmax=limit, aspect="auto", extent=(0, width, len(rows), 0))
    for r, row in enumerate(rows):
        look = {"family": FONT, "fontsize": TEXT_SIZE, "parse_math": False}
        for few in re.finditer(".{1,5}", row.replace("\n", "↵")):  # a font rounds its widths; few go astray
            ax.text(few.start(), r + 0.5, drawable(few.group(), FONT), va="center_baseline", **look)
    ax.set_axis_off()
    ax.set_title(title)
    if scale:
        ax.figure.colorbar(image, cax=scale, orientation="horizontal", label=label)
    return ax
