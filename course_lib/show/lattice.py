"""The lattice of a word: all ways to write it out of a vocabulary's pieces, as paths from its beginning to its end.

ax = lattice_plot(None, "hugs", {"h": log_p, "ug": ..., ...}, path=["hug", "s"])
"""

import math
from collections.abc import Mapping, Sequence
from numbers import Real

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from course_lib.show.letters import FONTS, drawable, token_label
from course_lib.show.plots import BLUE, GREY, INK, ORANGE, PURPLE, axes

MOST = 24  # characters: of more, no piece could be read
ROWS = 8  # of arcs that have their label: more do not fit a slide's picture
LETTER = 0.105  # width of a character of a label, inches


def lattice_plot(
    ax: Axes | None,
    word: str,
    logp: Mapping[str, float],
    path: Sequence[str] | None = None,
    sampled: Sequence[str] | None = None,
    title: str = "",
) -> Axes:
    """Places 0 to n between the characters, and an arc with its piece and p wherever a piece of the vocabulary stands.

    logp: piece -> log p. path: a way to write the word, thick and orange; sampled: another, thick, purple and dashed.
    The longer a piece, the higher its arc. Where too many stand above each other, the least probable are drawn without
    a label. Raises ValueError for a word of no characters, or of more than 24, and for a path that does not spell it.
    """
    _check_lattice(word, logp)
    ways = [_cut(word, logp, way) for way in (path or (), sampled or ())]
    found = [
        (start, end) for start in range(len(word)) for end in range(start + 1, len(word) + 1) if word[start:end] in logp
    ]
    ax = axes(ax, size=(12, 3.2))
    unit = ax.get_position().width * ax.figure.get_size_inches()[0] / (len(word) + 0.6)  # inches between two places
    labels = {(start, end): _label(word[start:end], logp[word[start:end]], unit) for start, end in found}
    rows = _rows(found, labels, logp, word, {*ways[0], *ways[1]}, unit)
    high = max(rows.values(), default=1)
    plain = [_curve(*arc, rows[arc]) for arc in found if arc not in ways[0] and arc not in ways[1]]
    ax.add_collection(LineCollection(plain, colors=BLUE, linewidths=1.2, alpha=0.55, zorder=1))
    for way, colour, style, width in ((ways[1], PURPLE, (0, (2, 1)), 6), (ways[0], ORANGE, "-", 3.6)):
        curves = [_curve(*arc, rows[arc]) for arc in way]
        ax.add_collection(LineCollection(curves, colors=colour, linewidths=width, linestyles=[style], zorder=2))
    for arc, text in labels.items():
        if text is not None:
            colour = ORANGE if arc in ways[0] else PURPLE if arc in ways[1] else INK
            _write(ax, sum(arc) / 2, rows[arc], text, colour)
    _characters(ax, word)
    ax.set(xlim=(-0.3, len(word) + 0.3), ylim=(-0.2 * (high + 0.6), high + 0.6), title=title)
    ax.set_axis_off()
    return ax


def _characters(ax: Axes, word: str) -> None:
    """The places as points on a line, their numbers below, and the characters between them."""
    places = np.arange(len(word) + 1)
    ax.plot(places, 0 * places, color=GREY, linewidth=1, marker="o", markersize=7, linestyle="-", zorder=3)
    below = {"ha": "center", "va": "top", "textcoords": "offset points", "in_layout": False}
    for place in places:
        ax.annotate(str(place), (place, 0), (0, -7), fontsize=12, color=GREY, **below)
    look = {"family": FONTS, "parse_math": False, "fontsize": 20}
    for place, character in enumerate(word):
        ax.annotate(_seen(character), (place + 0.5, 0), (0, -6), **look, **below)


def _rows(found, labels, logp, word, thick, unit) -> dict[tuple[int, int], float]:
    """How high each arc stands: above the arcs below it, and where no label lies on another.

    Arcs of `thick` are the first that get a label, then the most probable. One without stands between two rows.
    """
    kept = dict.fromkeys(found)
    while True:
        rows, taken = {}, []
        for start, end in sorted(kept, key=lambda arc: (arc[1] - arc[0], arc)):
            inside = [row for (a, b), row in rows.items() if start <= a and b <= end]
            row, half = max(inside, default=0) + 1, _width(labels[start, end]) / unit / 2
            middle = (start + end) / 2
            while any(row == other and abs(middle - at) < half + width for other, at, width in taken):
                row += 1
            rows[start, end] = row
            taken.append((row, middle, half))
        if max(rows.values(), default=0) <= ROWS or thick >= kept.keys():
            break
        least = min(kept.keys() - thick, key=lambda arc: (logp[word[arc[0] : arc[1]]], arc))
        labels[least] = None
        del kept[least]
    bare = {arc: max((row for (a, b), row in rows.items() if arc[0] <= a and b <= arc[1]), default=0) for arc in found}
    return {arc: row + 0.4 + 0.5 * (arc[1] - arc[0]) / len(word) for arc, row in bare.items()} | rows


def _curve(start: int, end: int, row: float) -> np.ndarray:
    """Half an ellipse, flat on top, from place to place (N, 2)."""
    angle = np.linspace(np.pi, 0, 41)
    across = np.sign(np.cos(angle)) * np.abs(np.cos(angle)) ** 0.7
    return np.stack([(start + end) / 2 + across * (end - start) / 2, row * np.sin(angle) ** 0.7], 1)


def _write(ax: Axes, x: float, y: float, text: str, colour: str) -> None:
    look = {"family": FONTS, "parse_math": False, "fontsize": 12, "in_layout": False}
    back = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    ax.text(x, y, text, ha="center", va="center", color=colour, bbox=back, zorder=4, **look)


def _label(piece: str, log_p: float, unit: float) -> str:
    """The piece and its p; p alone where no more fits between two places: which piece it is, the arc says."""
    whole = f"{_seen(piece)} {_short(math.exp(log_p))}"
    return whole if len(piece) > 1 or _width(whole) <= unit else _short(math.exp(log_p))


def _short(p: float) -> str:
    """A probability in few letters: .25, .004, 3e-5."""
    if p >= 0.0995:
        return f"{p:.2f}".removeprefix("0")
    if p >= 0.0005:
        return f"{p:.3f}".removeprefix("0")
    digit, _, power = f"{p:.0e}".partition("e")
    return f"{digit}e{int(power)}" if p > 0 else "0"


def _seen(piece: str) -> str:
    return drawable(token_label(piece, MOST), FONTS)


def _width(text: str | None) -> float:
    return LETTER * (len(text or "") + 0.6)


def _cut(word: str, logp: Mapping[str, float], way: Sequence[str]) -> list[tuple[int, int]]:
    """The arcs of a way to write the word, none for no way."""
    _check_way(word, logp, way)
    ends = np.cumsum([len(piece) for piece in way], dtype=int).tolist()
    return [(end - len(piece), end) for piece, end in zip(way, ends, strict=True)]


def _check_lattice(word: str, logp: Mapping[str, float]) -> None:
    if not isinstance(word, str) or not isinstance(logp, Mapping):
        raise TypeError("Give a word, a string, and a vocabulary, a dict piece -> log p.")
    for piece, log_p in logp.items():
        if not isinstance(log_p, Real) or not log_p <= 1e-9:
            raise ValueError(f"A log p is a number, 0 or less; {piece!r} has {log_p!r}. Is it p, and not log p?")
    if not 0 < len(word) <= MOST:
        raise ValueError(f"A word of 1 to {MOST} characters can be drawn; this one has {len(word)}.")


def _check_way(word: str, logp: Mapping[str, float], way: Sequence[str]) -> None:
    if isinstance(way, str) or not all(isinstance(piece, str) for piece in way):
        raise TypeError('A path is a list of pieces: ["hug", "s"].')
    if way and "".join(way) != word:
        raise ValueError(f"The pieces of a path spell the word {word!r}; these spell {''.join(way)!r}.")
    if missing := [piece for piece in way if piece not in logp]:
        raise ValueError(f"The vocabulary lacks {missing[:3]}, which stand in a path.")
