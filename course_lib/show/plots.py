"""Pictures of numbers: every function takes arrays and an optional Axes and gives the Axes back. No model, no widget.

ax = lines(lags, {"sigma = 0.9": norms}, xlabel="lag (steps)", ylabel="gradient norm", log="y")
picture(ax, alt="Gradient norm falls by ... over 50 steps.")
"""

import base64
import html
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike
from PIL import Image

from course_lib.show.letters import FONTS, drawable, token_label

plt.style.use(Path(__file__).with_name("unrolled.mplstyle"))

BLUE, ORANGE, GREEN, PURPLE, GREY = plt.rcParams["axes.prop_cycle"].by_key()["color"]
INK = plt.rcParams["text.color"]
DIVERGING = "PuOr_r"  # purple below zero, white at zero, orange above: safe for colour-blind readers


class Picture:
    """A finished figure: its PNG, alternative text and width on a page. Jupyter shows it as a cell's last line."""

    def __init__(self, png: bytes, alt: str, width: int = 960):
        self.png, self.alt, self.width = png, alt, width

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png).decode()
        return (
            f'<img src="data:image/png;base64,{data}" alt="{html.escape(self.alt, quote=True)}" '
            f'width="{self.width}" style="max-width:100%;height:auto">'
        )

    def __repr__(self) -> str:
        return f"Figure: {self.alt}"


def picture(drawn: Axes | Figure, alt: str) -> Picture:
    """Turn Axes or a Figure into a `Picture` with alternative text and close it; ValueError without such a text."""
    if not alt or not alt.strip():
        raise ValueError("A picture needs alternative text: say in a sentence what a reader who cannot see it misses.")
    figure = drawn if isinstance(drawn, Figure) else drawn.figure
    drawn, png = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", pil_kwargs={"compress_level": 1})  # packed for good below, if at all
    plt.close(figure)
    if plt.rcParams["savefig.dpi"] == "figure":
        png = drawn
    else:  # 128 colours are enough for a plot and make the notebook a third of the size
        Image.open(drawn).convert("RGB").quantize(128).save(png, format="png", optimize=True)
    alt = " ".join(alt.split()).encode("utf-8", "backslashreplace").decode()  # half a character cannot be sent
    return Picture(png.getvalue(), alt, round(figure.get_size_inches()[0] * figure.dpi))


def quickly():
    """A context for a control that moves: pictures no finer than shown and loosely packed, in about half the time."""
    return plt.rc_context({"savefig.dpi": "figure"})


def axes(ax: Axes | None = None, size: tuple[float, float] | None = None) -> Axes:
    """The Axes handed in, or new ones of the course's size (inches)."""
    return ax if ax is not None else plt.subplots(figsize=size)[1]


def array(values: ArrayLike) -> np.ndarray:
    """Numbers as an array of float64, wherever they come from: lists, NumPy, tensors on a device or in a graph.

    Raises ValueError where they are no numbers, or rows of unequal length.
    """
    try:
        return np.asarray(_on_cpu(values), float)
    except (TypeError, ValueError, RuntimeError) as error:
        what = f"A picture is drawn of numbers, in rows of equal length; got {type(values).__name__} ({error})."
        raise ValueError(what) from None


def _on_cpu(values):
    """`values` with every tensor in it on the CPU, out of its graph, and in a precision that NumPy knows."""
    if hasattr(values, "detach"):
        return values.detach().cpu().double().numpy()
    return [_on_cpu(value) for value in values] if isinstance(values, list | tuple) else values


def lines(
    x: ArrayLike,
    series: Mapping[str, ArrayLike],
    ax: Axes | None = None,
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    log: str = "",
    marker: str = "",
    levels: Mapping[str, float] | None = None,
) -> Axes:
    """Curves y(x), each (N,) or a pair (x, y) of its own; log: "", "x", "y" or "xy"; levels: named horizontal lines.

    A curve's points that are not finite are left out. Names stand in a legend, names of levels on their lines.
    """
    ax = axes(ax)
    for name, y in series.items():
        own_x, y = map(array, y if isinstance(y, tuple) and len(y) == 2 and array(y[0]).ndim == 1 else (x, y))
        keep = np.isfinite(y) & ((y > 0) if "y" in log else True)
        ax.plot(own_x[keep], y[keep], marker=marker, label=name)
    if "x" in log:
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:g}")
    if "y" in log:
        ax.set_yscale("log")
    for name, level in (levels or {}).items():
        level = float(array(level))
        ax.axhline(level, color=GREY, linewidth=1.2, linestyle=(0, (1, 2)))
        place = {"xycoords": ("axes fraction", "data"), "xytext": (-2, 3), "textcoords": "offset points"}
        ax.annotate(name, (1, level), **place, ha="right", fontsize=12, color=GREY)
    if len(series) > 1:
        ax.legend()
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    return ax


def bottleneck(
    curves: Mapping[str, ArrayLike],
    ax: Axes | None = None,
    *,
    seen: int = 4,
    title: str = "",
    xlabel: str = "number of dates in the list",
    ylabel: str = "exact match",
) -> Axes:
    """Exact match, 0 to 1, of lists of 1, 2, ... dates; a vertical line behind the longest list seen in training."""
    longest = max(map(len, curves.values()))
    series = {name: (range(1, len(y) + 1), y) for name, y in curves.items()}
    ax = lines([], series, ax, xlabel=xlabel, ylabel=ylabel, title=title, marker="o")
    ax.axvline(seen + 0.5, color=GREY, linewidth=1.2, linestyle=(0, (1, 2)))
    for x, text, side in ((seen + 0.42, "seen in training", "right"), (seen + 0.58, "longer", "left")):
        ax.text(x, 1.06, text, color=GREY, fontsize=12, ha=side, va="center")
    ax.set(xlim=(0.7, longest + 0.3), ylim=(-0.04, 1.12), xticks=range(1, longest + 1))
    return ax


def bars(
    values: Mapping[str, float],
    ax: Axes | None = None,
    *,
    xlabel: str,
    title: str = "",
    highlight: Sequence[str] = (),
    digits: int = 2,
) -> Axes:
    """Horizontal bars, the first on top, each with its number written out; highlighted ones in orange."""
    ax = axes(ax)
    names, lengths = [drawable(name) for name in values], array(list(values.values()))
    colours = [ORANGE if name in highlight else BLUE for name in values]
    drawn = ax.barh(names, lengths, color=colours, height=0.65)
    ax.bar_label(drawn, [f"{length:.{digits}f}" for length in lengths], padding=5)
    for label in ax.get_yticklabels():
        label.set_parse_math(False)  # a $ in a name is a $
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.margins(x=0.12)
    ax.set(xlabel=xlabel, title=title)
    return ax


def heatmap(
    matrix: ArrayLike,
    ax: Axes | None = None,
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
    signed: bool = False,
    numbers: str = "",
    limit: float | None = None,
    frame: Sequence[tuple[int, int]] = (),
) -> Axes:
    """A matrix (R, C) as colours: signed ones around white at zero; numbers: a format such as ".1f" writes them in.

    limit fixes the end of the colour scale. frame lists cells (row, column) to put a heavy frame around.
    """
    matrix = np.atleast_2d(array(matrix))
    ax = axes(ax)
    high = limit or max(float(np.abs(matrix).max(initial=0)), 1e-12)
    cmap, low = (DIVERGING, -high) if signed else ("Blues", 0)
    image = ax.imshow(matrix, aspect="auto", cmap=cmap, vmin=low, vmax=high)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.tick_params(length=0)
    ax.grid(False)
    if numbers:
        for (r, c), value in np.ndenumerate(matrix):
            red, green, blue, _ = image.cmap(image.norm(value))
            light = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2  # as WCAG measures it, nearly
            look = {"color": "white" if light < 0.179 else "black", "fontsize": 12, "in_layout": False}
            ax.text(c, r, format(value, numbers), ha="center", va="center", **look)  # in its cell: nothing to lay out
    for r, c in frame:
        ax.add_patch(Rectangle((c - 0.5, r - 0.5), 1, 1, fill=False, edgecolor=INK, linewidth=2.5))
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    return ax


def attention(
    weights: ArrayLike,
    queries: Sequence[str],
    keys: Sequence[str],
    ax: Axes | None = None,
    *,
    title: str = "",
    limit: float | None = None,
    most: int = 40,
) -> Axes:
    """Attention weights (T_q, T_k) as colours: a row for each token that looks, a column for each it may look at.

    The scale ends at `limit`, or at the largest weight. Beyond `most` tokens not every one is named. Raises ValueError
    when weights and tokens do not match, or a weight is not finite.
    """
    weights = array(weights)
    if weights.shape != (len(queries), len(keys)):
        raise ValueError(
            f"A row for each query and a column for each key: got weights of shape {weights.shape} "
            f"for {len(queries)} queries and {len(keys)} keys."
        )
    if not weights.size or not np.isfinite(weights).all():
        raise ValueError("At least one weight, and every one finite: got none, or one that is NaN or infinite.")
    names = [[drawable(token_label(token), FONTS) for token in side] for side in (queries, keys)]
    longest = [max(map(len, side)) for side in names]
    cell = 0.32 if max(weights.shape) <= 16 else 0.24 if max(weights.shape) <= 40 else 8.4 / max(weights.shape)
    wide = max(3.0, cell * len(keys)) + 0.11 * longest[0] + 1.8
    high = max(1.6, cell * len(queries)) + 0.11 * longest[1] + (1.0 if title else 0.7)
    ax = axes(ax, size=(wide, high))
    heatmap(weights, ax, title=title, ylabel="from", limit=limit or float(weights.max()) or 1.0)
    steps = [max(-(-len(side) // most), math.ceil(0.13 / cell)) for side in names]  # under 0.13 inch no text is read
    size = 12 if max(weights.shape) <= 16 else min(11, 61 * cell * min(steps))  # points, of which an inch has 72
    look = {"fontsize": size, "family": FONTS, "parse_math": False}  # a $ in a token is a $
    rows, columns = (range(0, len(side), step) for side, step in zip(names, steps, strict=True))
    ax.set_yticks(rows, [names[0][r] for r in rows], **look)
    ax.set_xticks(columns, [names[1][c] for c in columns], rotation=90 if longest[1] > 2 else 0, **look)
    ax.set_xlabel("to", labelpad=6)
    ax.xaxis.set(ticks_position="top", label_position="top")
    ax.tick_params(length=0)
    ax.figure.colorbar(ax.images[-1], ax=ax, label="weight", shrink=min(1.0, 3 / (cell * len(queries) + 0.1)))
    return ax


def alignment(
    weights: ArrayLike,
    source: Sequence[str],
    target: Sequence[str],
    ax: Axes | None = None,
    *,
    gold: Sequence[tuple[int, int]] = (),
    right_to_left: bool | str = False,
    title: str = "",
) -> Axes:
    """Attention (T_target, T_source) between two sentences: a row for each target token, gold links (i, j) framed.

    A link says that source token i and target token j say the same. right_to_left names the sentence that is written
    so: "source" (its axis then runs from right to left), "target" or True (its words, from the top down, then stand at
    the right, where its reader begins), or "both". The scale ends at 1, so that pictures compare. Up to 60 tokens are
    all named. Raises ValueError for a table of another shape or a link that is not in it.
    """
    weights = array(weights)
    if weights.shape != (len(target), len(source)):
        raise ValueError(
            "A row for each target token and a column for each source token: got weights of shape "
            f"{weights.shape} for {len(target)} target and {len(source)} source tokens."
        )
    if right_to_left not in (False, True, "source", "target", "both"):
        raise ValueError(f'right_to_left must be False, True, "source", "target" or "both"; got {right_to_left!r}.')
    outside = [(i, j) for i, j in gold if not (0 <= i < len(source) and 0 <= j < len(target))]
    if outside:
        raise ValueError(
            f"A gold link is (source place, target place), from 0; got {outside[0]} for {len(source)} "
            f"source and {len(target)} target tokens."
        )
    ax = attention(weights, target, source, ax, title=title, limit=max(1.0, weights.max(initial=0)), most=60)
    ax.set(xlabel="source", ylabel="target")
    for i, j in gold:
        look = {"edgecolor": ORANGE, "linewidth": 2, "in_layout": False}  # in its cell: nothing to lay out
        ax.add_patch(Rectangle((i - 0.42, j - 0.42), 0.84, 0.84, fill=False, **look))
    if gold:
        ax.legend(ax.patches[-1:], ["gold"], loc="upper left", bbox_to_anchor=(0, 0), borderaxespad=0.3)
    if right_to_left in ("source", "both"):
        ax.invert_xaxis()
    if right_to_left in (True, "target", "both"):
        ax.yaxis.set(ticks_position="right", label_position="right")
    return ax
