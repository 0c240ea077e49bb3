"""Arrows between what is laid out, notes beside them, and all of it drawn on Axes."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path
from matplotlib.transforms import Affine2D, ScaledTranslation

from course_lib.show.diagrams.layout import NOTE, TEXT, Layout, Placed, seen, text_size
from course_lib.show.diagrams.routes import OUT, Map, Rect, piece
from course_lib.show.drawings import PALE
from course_lib.show.plots import INK

EDGE, BEND = 8, 6  # points: around the drawing, and of a line's round corner
SLIDE, READABLE = (1168, 606), 16  # pixels that a slide of 1280 x 720 leaves a figure; pixels of the smallest text
CARD_FILL = "#F7F8FA"
KINDS = ("box", "words", "circle", "frame", "label")


@dataclass(frozen=True)
class Arrow:
    """An arrow from one name to another; made by `arrow` and `chain`."""

    start: str
    end: str
    note: str
    side: str
    colour: str


class Plan(NamedTuple):
    """Where everything of a drawing stands, in points: what was laid out, the arrows' corners, the notes."""

    placed: list[Placed]
    lines: list[tuple[Arrow, list[tuple[float, float]]]]
    notes: list[tuple[str, Rect]]

    @property
    def extent(self) -> Rect:
        """What holds all of it, with a margin."""
        rects = [*(item.place for item in self.placed), *(place for _, place in self.notes)]
        xs = [x for r in rects for x in (r.x0, r.x1)] + [x for _, path in self.lines for x, _ in path]
        ys = [y for r in rects for y in (r.y0, r.y1)] + [y for _, path in self.lines for _, y in path]
        return Rect(min(xs) - EDGE, min(ys) - EDGE, max(xs) + EDGE, max(ys) + EDGE)


def arrow(start: str, end: str, note: str = "", *, side: str = "", colour: str = INK) -> Arrow:
    """An arrow between two names, round all that stands in its way, with a note beside it.

    side: where it ends, "top", "right", "bottom" or "left"; without one it goes where the way is best. A residual
    connection is an arrow from the input to the sum: it goes round what it skips. Raises ValueError for another side.
    """
    if side not in ("", *OUT):
        raise ValueError(f"side must be one of {', '.join(map(repr, OUT))}; got {side!r}.")
    return Arrow(start, end, note, side, colour)


def chain(*names: str, colour: str = INK) -> list[Arrow]:
    """Arrows from each name to the next."""
    return [arrow(start, end, colour=colour) for start, end in pairwise(names)]


def plan(layout: Layout, arrows: Iterable[Arrow] = ()) -> Plan:
    """Where everything stands, and the way of every arrow; `draw` draws it.

    Raises ValueError for a name that is there twice, an arrow to a name that is not there or to where it comes from,
    an arrow that finds no way and a note that finds no room.
    """
    wide, high = layout.size
    placed, arrows = list(layout.places(Rect(0, 0, wide, high))), list(arrows)
    _check_names([item.name for item in placed if item.kind != "label"], arrows)
    rects = {kind: {item.name: item.place for item in placed if item.kind == kind} for kind in KINDS}
    boxes, labels = rects["box"] | rects["words"] | rects["circle"], list(rects["label"].values())
    for one in arrows:
        for inner, outer in ((one.start, one.end), (one.end, one.start)):
            if outer in rects["frame"] and rects["frame"][outer].meets((boxes | rects["frame"])[inner]):
                raise ValueError(f"No arrow joins a frame and what stands in it; {inner!r} stands in {outer!r}.")
    ways = Map(boxes, rects["frame"], labels, rects["circle"])

    def distance(one: Arrow) -> float:
        return math.dist(ways.places[one.start].middle, ways.places[one.end].middle)

    order = sorted(arrows, key=distance)  # short ones first: a long one can go round them
    paths = {one: ways.way(one.start, one.end, one.side) for one in order}
    lines = [(one, paths[one]) for one in reversed(order)]  # and lies under them where they begin together
    strokes = [piece(*ends) for _, path in lines for ends in pairwise(path)]
    for x0, y0, x1, y1 in rects["frame"].values():
        strokes += [Rect(x0, y0, x1, y0), Rect(x0, y1, x1, y1), Rect(x0, y0, x0, y1), Rect(x1, y0, x1, y1)]
    drawn, full = Plan(placed, lines, []), [*boxes.values(), *labels, *strokes]
    for one, path in lines:
        if one.note:
            drawn.notes.append((one.note, _room(one, path, full)))
            full.append(drawn.notes[-1][1])
    return drawn


def _check_names(names: list[str], arrows: list[Arrow]) -> None:
    """Refuse a name, or an arrow between the same two, that is there twice, and an arrow between what is not there."""
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(f"Every box, sum and frame needs a name of its own; {name!r} is there {times} times.")
    for (start, end), times in Counter((one.start, one.end) for one in arrows).items():
        for name in (start, end):
            if name not in names:
                raise ValueError(
                    f"There is no {name!r} for the arrow from {start!r} to {end!r}, only {', '.join(map(repr, names))}."
                )
        if start == end:
            raise ValueError(f"An arrow joins two things; this one goes from {start!r} to itself.")
        if times > 1:
            raise ValueError(f"One arrow from {start!r} to {end!r} is enough; there are {times}.")


def _room(one: Arrow, path: list[tuple[float, float]], full: list[Rect]) -> Rect:
    """A free place beside an arrow for its note: along its longest piece, near the middle; `full` is taken."""
    wide, high = text_size(one.note, NOTE)
    for a, b in sorted(pairwise(path), key=lambda ends: -math.dist(*ends)):
        for part in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8):
            x, y = (p + part * (q - p) for p, q in zip(a, b, strict=True))
            upright = a[0] == b[0]
            for sign in (1, -1):
                dx, dy = (sign * (wide / 2 + 6), 0) if upright else (0, sign * (high / 2 + 3))
                place = Rect(x + dx - wide / 2, y + dy - high / 2, x + dx + wide / 2, y + dy + high / 2)
                if not any(place.meets(other, 2) for other in full):
                    return place
    raise ValueError(
        f"There is no room for the note {one.note!r} beside the arrow from {one.start!r} to {one.end!r}: "
        "give the rows and stacks around it a larger gap, or shorten it."
    )


def draw(layout: Layout, arrows: Iterable[Arrow] = (), ax: Axes | None = None, *, title: str = "") -> Axes:
    """The drawing on Axes of its own size, or in the middle of those handed in, at the size that its text needs.

    `picture(draw(...), alt=...)` shows it. Raises ValueError for what `plan` refuses, for Axes that are too small, and
    for a drawing on which a slide's smallest text would be under 16 pixels.
    """
    drawn = plan(layout, arrows)
    x0, y0, x1, y1 = drawn.extent
    wide, high = x1 - x0, y1 - y0
    if ax is None:
        across, up = text_size(title, plt.rcParams["axes.titlesize"], bold=True) if title else (0, 0)
        wide, head = max(wide, across + 2 * EDGE), up + 2 * EDGE if title else 0
        _check_readable(wide, high + head)
        figure = plt.figure(figsize=(wide / 72, (high + head) / 72), layout="none")
        ax = figure.add_axes((0, 0, 1, high / (high + head)))
        ax.set_title(title, x=EDGE / wide)
    else:
        ax.set_title(title)
        _check_room(ax, wide, high)
    ax.set_axis_off()
    # In points from the middle of the Axes, whatever becomes of them: no box shrinks under its text.
    points = Affine2D().translate(-(x0 + x1) / 2, -(y0 + y1) / 2).scale(1 / 72) + ax.figure.dpi_scale_trans
    points += ScaledTranslation(0.5, 0.5, ax.transAxes)
    _paint(ax, drawn, {"transform": points, "in_layout": False, "clip_on": False})
    return ax


def _check_readable(wide: float, high: float) -> None:
    """Refuse a drawing that must be made so small for a slide that its notes cannot be read."""
    pixels = NOTE * min(room / size for room, size in zip(SLIDE, (wide, high), strict=True))
    if pixels < READABLE:
        most = " × ".join(f"{NOTE * room / READABLE / 72:.1f}" for room in SLIDE)
        raise ValueError(
            f"This drawing is {wide / 72:.1f} × {high / 72:.1f} inches; on a slide its text would be {pixels:.0f} "
            f"pixels high, and {READABLE} are needed. Make two of it, or bring it under {most} inches: shorter labels, "
            "smaller gaps, rows for stacks."
        )


def _check_room(ax: Axes, wide: float, high: float) -> None:
    """Refuse Axes that are smaller than the drawing."""
    engine = ax.figure.get_layout_engine()
    if engine:
        engine.execute(ax.figure)
    have = [size / ax.figure.dpi for size in ax.get_window_extent().size]
    if have[0] < wide / 72 or have[1] < high / 72:
        raise ValueError(
            f"This drawing needs Axes of {wide / 72:.1f} × {high / 72:.1f} inches; these are {have[0]:.1f} × "
            f"{have[1]:.1f}. Make the figure larger, or give the drawing a larger share of it."
        )


def _paint(ax: Axes, drawn: Plan, on: dict) -> None:
    for item in drawn.placed:
        (x0, y0, x1, y1), (x, y) = item.place, item.place.middle
        if item.kind in ("box", "circle", "frame"):
            fill = CARD_FILL if item.kind == "frame" else PALE.get(item.colour, "white")
            look = {"facecolor": fill, "edgecolor": item.colour, "linewidth": 1.0 if item.kind == "frame" else 1.8}
            if item.kind == "circle":
                patch = Circle((x, y), (x1 - x0) / 2, **look, **on)
            else:
                patch = FancyBboxPatch((x0, y0), x1 - x0, y1 - y0, boxstyle="round,pad=0,rounding_size=6", **look, **on)
            ax.add_patch(patch).set(gid=item.name, zorder=1 if item.kind == "frame" else 3)
        if item.label:
            look = {"fontsize": NOTE, "fontweight": "bold"} if item.kind == "label" else {"fontsize": TEXT}
            ax.text(x, y, seen(item.label), ha="center", va="center", zorder=4, gid=item.name, **look, **on)
    for one, path in drawn.lines:
        look = {"arrowstyle": "-|>", "mutation_scale": 13, "color": one.colour, "linewidth": 1.8}
        ax.add_patch(FancyArrowPatch(path=_rounded(path), zorder=2, gid=f"{one.start} to {one.end}", **look, **on))
    for text, place in drawn.notes:
        ax.text(*place.middle, seen(text), ha="center", va="center", fontsize=NOTE, zorder=4, **on)


def _rounded(path: list[tuple[float, float]]) -> Path:
    """The path with round corners."""
    points, codes = [path[0]], [Path.MOVETO]
    for before, corner, after in zip(path, path[1:], path[2:], strict=False):
        for end in (before, after):
            far = max(abs(end[0] - corner[0]), abs(end[1] - corner[1]))
            part = min(BEND, far / 2) / far
            points.append((corner[0] + part * (end[0] - corner[0]), corner[1] + part * (end[1] - corner[1])))
        points.insert(-1, corner)
        codes += [Path.LINETO, Path.CURVE3, Path.CURVE3]
    return Path([*points, path[-1]], [*codes, Path.LINETO])
