"""Pictures of numbers: every function takes arrays and an optional Axes and gives the Axes back. No model, no widget.

    ax = lines(lags, {"sigma = 0.9": norms}, xlabel="lag (steps)", ylabel="gradient norm", log="y")
    picture(ax, alt="Gradient norm falls by ... over 50 steps.")
"""

import base64
import html
import importlib.util
import io
import math
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, fontManager, get_font
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from numpy.typing import ArrayLike
from PIL import Image

plt.style.use(Path(__file__).with_name("unrolled.mplstyle"))

BLUE, ORANGE, GREEN, PURPLE, GREY = plt.rcParams["axes.prop_cycle"].by_key()["color"]
INK = plt.rcParams["text.color"]
PALE = {BLUE: "#DCEAF6", ORANGE: "#FBE5D6", GREEN: "#DDF1E7", GREY: "#ECEEF1"}  # fills under dark text
DIVERGING = "PuOr_r"  # purple below zero, white at zero, orange above: safe for colour-blind readers
PAINT = LinearSegmentedColormap.from_list("paint", plt.get_cmap(DIVERGING)(np.linspace(0.27, 0.73, 64)))  # under text
TEXT_SIZE = 13.5  # points, of painted text
# Fonts for what the plots' own has no letters for: Chinese characters and kana, then Thai. (Arabic, Hebrew it has.)
MORE_FONTS = {"matplotlib_fontja": "fonts/ipaexg.ttf", "fontpkg_noto_sans_thai": "files/NotoSansThai[wdth,wght].ttf"}
MONOSPACE_ADVANCE = 0.602  # width of one DejaVu Sans Mono character, in units of its font size


def _fonts() -> tuple[str, ...]:
    """The names of the plots' fonts: its own, and those of MORE_FONTS that are installed, made known to matplotlib."""
    names = ["DejaVu Sans"]
    for package, file in MORE_FONTS.items():
        found = importlib.util.find_spec(package)  # the package is not run: it would change every plot's font
        path = Path(found.submodule_search_locations[0]) / file if found else None
        if path and path.exists():
            fontManager.addfont(path)
            names.append(get_font(path).family_name)
    return tuple(names)


FONTS = _fonts()


class Picture:
    """A finished figure: its PNG, alternative text and width on a page. Jupyter shows it as a cell's last line."""

    def __init__(self, png: bytes, alt: str, width: int = 960):
        self.png, self.alt, self.width = png, alt, width

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png).decode()
        return (f'<img src="data:image/png;base64,{data}" alt="{html.escape(self.alt, quote=True)}" '
                f'width="{self.width}" style="max-width:100%;height:auto">')

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
    else:  # 256 colours are enough for a plot and make the notebook a third of the size
        Image.open(drawn).convert("RGB").quantize(256).save(png, format="png", optimize=True)
    return Picture(png.getvalue(), " ".join(alt.split()), round(figure.get_size_inches()[0] * figure.dpi))


def quickly():
    """A context for a control that moves: pictures no finer than shown and loosely packed, in about half the time."""
    return plt.rc_context({"savefig.dpi": "figure"})


def axes(ax: Axes | None = None, size: tuple[float, float] | None = None) -> Axes:
    """The Axes handed in, or new ones of the course's size (inches)."""
    return ax if ax is not None else plt.subplots(figsize=size)[1]


def lines(x: ArrayLike, series: Mapping[str, ArrayLike], ax: Axes | None = None, *, xlabel: str, ylabel: str,
          title: str = "", log: str = "", marker: str = "", levels: Mapping[str, float] | None = None) -> Axes:
    """Curves y(x), each (N,) or a pair (x, y) of its own; log: "", "x", "y" or "xy"; levels: named horizontal lines.

    A curve's points that are not finite are left out. Names stand in a legend, names of levels on their lines.
    """
    ax = axes(ax)
    for name, y in series.items():
        own_x, y = y if isinstance(y, tuple) and np.ndim(y[0]) == 1 else (x, y)
        own_x, y = np.asarray(own_x, float), np.asarray(y, float)
        keep = np.isfinite(y) & ((y > 0) if "y" in log else True)
        ax.plot(own_x[keep], y[keep], marker=marker, label=name)
    if "x" in log:
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:g}")
    if "y" in log:
        ax.set_yscale("log")
    for name, level in (levels or {}).items():
        ax.axhline(level, color=GREY, linewidth=1.2, linestyle=(0, (1, 2)))
        ax.annotate(name, (1, level), xycoords=("axes fraction", "data"), xytext=(-2, 3),
                    textcoords="offset points", ha="right", fontsize=12, color=GREY)
    if len(series) > 1:
        ax.legend()
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    return ax


def bottleneck(curves: Mapping[str, ArrayLike], ax: Axes | None = None, *, seen: int = 4, title: str = "",
               xlabel: str = "number of dates in the list", ylabel: str = "exact match") -> Axes:
    """Exact match, 0 to 1, of lists of 1, 2, ... dates; a vertical line behind the longest list seen in training."""
    longest = max(map(len, curves.values()))
    ax = lines([], {name: (range(1, len(y) + 1), y) for name, y in curves.items()}, ax, xlabel=xlabel, ylabel=ylabel,
               title=title, marker="o")
    ax.axvline(seen + 0.5, color=GREY, linewidth=1.2, linestyle=(0, (1, 2)))
    for x, text, side in ((seen + 0.42, "seen in training", "right"), (seen + 0.58, "longer", "left")):
        ax.text(x, 1.06, text, color=GREY, fontsize=12, ha=side, va="center")
    ax.set(xlim=(0.7, longest + 0.3), ylim=(-0.04, 1.12), xticks=range(1, longest + 1))
    return ax


def bars(values: Mapping[str, float], ax: Axes | None = None, *, xlabel: str, title: str = "",
         highlight: Sequence[str] = (), digits: int = 2) -> Axes:
    """Horizontal bars, the first on top, each with its number written out; highlighted ones in orange."""
    ax = axes(ax)
    names = list(values)
    colours = [ORANGE if name in highlight else BLUE for name in names]
    drawn = ax.barh(names, list(values.values()), color=colours, height=0.65)
    ax.bar_label(drawn, [f"{value:.{digits}f}" for value in values.values()], padding=5)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.margins(x=0.12)
    ax.set(xlabel=xlabel, title=title)
    return ax


def heatmap(matrix: ArrayLike, ax: Axes | None = None, *, rows: Sequence[str] = (), columns: Sequence[str] = (),
            xlabel: str = "", ylabel: str = "", title: str = "", signed: bool = False, numbers: str = "",
            limit: float | None = None, frame: Sequence[tuple[int, int]] = ()) -> Axes:
    """A matrix (R, C) as colours: signed ones around white at zero; numbers: a format such as ".1f" writes them in.

    limit fixes the end of the colour scale. frame lists cells (row, column) to put a heavy frame around.
    """
    matrix = np.atleast_2d(np.asarray(matrix, float))
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
            ax.text(c, r, format(value, numbers), ha="center", va="center", fontsize=12,
                    color="white" if light < 0.179 else "black", in_layout=False)  # inside its cell: nothing to lay out
    for r, c in frame:
        ax.add_patch(plt.Rectangle((c - 0.5, r - 0.5), 1, 1, fill=False, edgecolor=INK, linewidth=2.5))
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    return ax


def attention(weights: ArrayLike, queries: Sequence[str], keys: Sequence[str], ax: Axes | None = None, *,
              title: str = "", limit: float | None = None, most: int = 40) -> Axes:
    """Attention weights (T_q, T_k) as colours: a row for each token that looks, a column for each it may look at.

    The scale ends at `limit`, or at the largest weight. Beyond `most` tokens not every one is named. Raises ValueError
    when weights and tokens do not match, or a weight is not finite.
    """
    weights = np.asarray(weights, float)
    if weights.shape != (len(queries), len(keys)):
        raise ValueError(f"A row for each query and a column for each key: got weights of shape {weights.shape} "
                         f"for {len(queries)} queries and {len(keys)} keys.")
    if not weights.size or not np.isfinite(weights).all():
        raise ValueError("At least one weight, and every one finite: got none, or one that is NaN or infinite.")
    names = [[drawable(token_label(token), FONTS) for token in side] for side in (queries, keys)]
    longest = [max(map(len, side)) for side in names]
    cell = 0.32 if max(weights.shape) <= 16 else 0.24 if max(weights.shape) <= 40 else 8.4 / max(weights.shape)
    ax = axes(ax, size=(max(3.0, cell * len(keys)) + 0.11 * longest[0] + 1.8,
                        max(1.6, cell * len(queries)) + 0.11 * longest[1] + (1.0 if title else 0.7)))
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


def alignment(weights: ArrayLike, source: Sequence[str], target: Sequence[str], ax: Axes | None = None, *,
              gold: Sequence[tuple[int, int]] = (), right_to_left: bool | str = False, title: str = "") -> Axes:
    """Attention (T_target, T_source) between two sentences: a row for each target token, gold links (i, j) framed.

    A link says that source token i and target token j say the same. right_to_left names the sentence that is written
    so: "source" (its axis then runs from right to left), "target" or True (its words, from the top down, then stand at
    the right, where its reader begins), or "both". The scale ends at 1, so that pictures compare. Up to 60 tokens are
    all named. Raises ValueError for a table of another shape or a link that is not in it.
    """
    weights = np.asarray(weights, float)
    if weights.shape != (len(target), len(source)):
        raise ValueError("A row for each target token and a column for each source token: got weights of shape "
                         f"{weights.shape} for {len(target)} target and {len(source)} source tokens.")
    if right_to_left not in (False, True, "source", "target", "both"):
        raise ValueError(f'right_to_left must be False, True, "source", "target" or "both"; got {right_to_left!r}.')
    outside = [(i, j) for i, j in gold if not (0 <= i < len(source) and 0 <= j < len(target))]
    if outside:
        raise ValueError(f"A gold link is (source place, target place), from 0; got {outside[0]} for {len(source)} "
                         f"source and {len(target)} target tokens.")
    ax = attention(weights, target, source, ax, title=title, limit=max(1.0, weights.max(initial=0)), most=60)
    ax.set(xlabel="source", ylabel="target")
    for i, j in gold:
        ax.add_patch(Rectangle((i - 0.42, j - 0.42), 0.84, 0.84, fill=False, edgecolor=ORANGE, linewidth=2,
                               in_layout=False))  # inside its cell: nothing to lay out
    if gold:
        ax.legend(ax.patches[-1:], ["gold"], loc="upper left", bbox_to_anchor=(0, 0), borderaxespad=0.3)
    if right_to_left in ("source", "both"):
        ax.invert_xaxis()
    if right_to_left in (True, "target", "both"):
        ax.yaxis.set(ticks_position="right", label_position="right")
    return ax


def token_label(token: str, longest: int = 12) -> str:
    """A token as it can be seen: marks for spaces, line ends and the empty token, cut to `longest` characters.

    Characters that would act instead of being seen (control characters, changes of writing direction) become a mark.
    Raises TypeError for anything but text.
    """
    if not isinstance(token, str):
        raise TypeError(f"A token is a piece of text; got {token!r}. Turn numbers back into text before drawing them.")
    marks = {"\n": "↵", "\t": "⇥", "\u200c": "\u200c", "\u200d": "\u200d"}  # the last two join and part letters
    kinds = {"Zs": "␣", "Cc": "\ufffd", "Cf": "\ufffd", "Cs": "\ufffd", "Zl": "\ufffd", "Zp": "\ufffd"}
    seen = "".join(marks.get(c) or kinds.get(unicodedata.category(c), c) for c in token) or "∅"
    return seen if len(seen) <= longest else seen[:longest - 1] + "…"


def drawable(text: str, fonts: Sequence[str] = FONTS[:1]) -> str:
    """The text with a box for each character that none of the fonts has, which would warn and draw one."""
    known = [_charmap(name) for name in fonts]
    return "".join(character if any(ord(character) in font for font in known) else "□" for character in text)


@cache
def _charmap(font: str) -> dict[int, int]:
    return get_font(findfont(font)).get_charmap()


def painted_text(text: str, values: ArrayLike, ax: Axes | None = None, *, width: int = 64, limit: float = 1.0,
                 title: str = "", label: str = "") -> Axes:
    """Text with one number a character painted behind it: purple below zero, orange above, full colour at `limit`.

    A line breaks at a newline and after `width` characters; the newline keeps its colour, as a square of its own.
    """
    values = np.asarray(values, float)
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
        grid[r, :len(row)] = row
    scale = None
    if ax is None:  # a figure just as wide as the text, so that every character stands on its own colour
        across, down = width * TEXT_SIZE * MONOSPACE_ADVANCE / 72, 0.3 * len(rows)
        wide, high = across + 0.3, down + (1.3 if label else 0.55)
        figure = plt.figure(figsize=(wide, high), layout="none")
        ax = figure.add_axes((0.15 / wide, 1 - (0.45 + down) / high, across / wide, down / high))
        scale = figure.add_axes((0.3, 0.55 / high, 0.4, 0.12 / high)) if label else None
    image = ax.imshow(grid, cmap=PAINT, vmin=-limit, vmax=limit, aspect="auto", extent=(0, width, len(rows), 0))
    for r, row in enumerate(rows):
        ax.text(0, r + 0.5, row.replace("\n", "↵"), family="DejaVu Sans Mono", fontsize=TEXT_SIZE,
                va="center_baseline", parse_math=False)
    ax.set_axis_off()
    ax.set_title(title)
    if scale:
        ax.figure.colorbar(image, cax=scale, orientation="horizontal", label=label)
    return ax


def unrolled(inputs: Sequence[str], outputs: Sequence[str], ax: Axes | None = None, *, title: str = "",
             states: Sequence[str] | None = None) -> Axes:
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


def box(ax: Axes, x: float, y: float, text: str, colour: str, width: float = 0.56) -> None:
    """A rounded box around (x, y) with a text, in a pale fill and a frame of the given palette colour."""
    ax.add_patch(FancyBboxPatch((x - width / 2, y - 0.22), width, 0.44, boxstyle="round,pad=0,rounding_size=0.08",
                                facecolor=PALE.get(colour, "white"), edgecolor=colour, linewidth=1.8))
    ax.text(x, y, text, ha="center", va="center", fontsize=14)


def arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], colour: str = INK, bend: float = 0.0,
          style: str = "-") -> None:
    """An arrow from start to end in data coordinates, bent by `bend` of its length."""
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=13, color=colour, linewidth=1.8,
                                 shrinkA=0, shrinkB=0, linestyle=style, connectionstyle=f"arc3,rad={bend}"))
