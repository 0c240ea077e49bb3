"""What stands beside and on top of what: boxes, rows, stacks, grids and frames; their sizes come from their text.

All lengths are in points (1/72 inch), x to the right, y upwards: a stack grows from the bottom up, as data do in this
course. Sizes are whole multiples of four points, so that middles and quarters are exact.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from typing import NamedTuple

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from course_lib.show.diagrams.routes import OUT, Rect
from course_lib.show.letters import drawable
from course_lib.show.plots import BLUE, GREY, INK

TEXT, NOTE = 14, 13  # points: what stands in boxes, and beside arrows and frames
GAP, CARD = 24, 20  # between two neighbours, and between a frame and what it holds


class Placed(NamedTuple):
    """Something that has found its place: a "box", "words", a "circle", a "frame" or the "label" of that frame."""

    name: str
    kind: str
    place: Rect
    label: str
    colour: str


@dataclass(frozen=True)
class Box:
    """A name and a label; made by `box`, `words` and `plus`. kind: "box", "words" or "circle"."""

    name: str
    label: str
    colour: str
    kind: str
    wide: bool = False

    @property
    def size(self) -> tuple[int, int]:
        wide, high = text_size(self.label, TEXT)
        if self.kind == "circle":
            return max(wide, high) + 4, max(wide, high) + 4
        return (wide + 20, high + 8) if self.kind == "box" else (wide + 8, high + 4)

    def places(self, room: Rect) -> Iterator[Placed]:
        yield Placed(self.name, self.kind, room, self.label, self.colour)


@dataclass(frozen=True)
class Grid:
    """Rows of things, from the bottom up; made by `grid`, `row` and `stack`."""

    rows: tuple[tuple, ...]
    gap: tuple[int, int]
    align: float
    kind = "grid"

    @property
    def size(self) -> tuple[int, int]:
        _, columns, rows = self._sizes()
        return self._span(columns, 0), self._span(rows, 1)

    def _span(self, sizes: list[int], axis: int) -> int:
        return sum(sizes) + self.gap[axis] * (len(sizes) - 1)

    def _cells(self) -> list[tuple["Layout", int, slice]]:
        """Each thing, its row and its columns: what is alone in its row stands across all of them."""
        everywhere = slice(0, max(map(len, self.rows)))
        cells = [(r, c, item) for r, row in enumerate(self.rows) for c, item in enumerate(row) if item is not None]
        return [(item, r, slice(c, c + 1) if len(self.rows[r]) > 1 else everywhere) for r, c, item in cells]

    def _sizes(self) -> tuple[list[tuple[int, int]], list[int], list[int]]:
        """The size of each thing, the width of each column, the height of each row."""
        cells = self._cells()
        sizes = [item.size for item, _, _ in cells]
        boxes = [size for size, (item, _, _) in zip(sizes, cells, strict=True) if item.kind == "box" and not item.wide]
        rows, like = [0] * len(self.rows), {}
        for (item, r, _), (_, high) in zip(cells, sizes, strict=True):
            rows[r] = max(rows[r], high)
            like[item.kind, r] = max(like.get((item.kind, r), 0), high)
        columns = [0] * max(map(len, self.rows))
        for k in sorted(range(len(cells)), key=lambda k: len(columns[cells[k][2]])):  # what stands across all is last
            item, r, at = cells[k]
            if item.kind == "box":
                sizes[k] = max([sizes[k], *boxes])[0], like["box", r]
            elif item.kind == "frame":
                sizes[k] = sizes[k][0], like["frame", r]
            short = sizes[k][0] - self._span(columns[at], 0)
            columns[at] = [size + 4 * math.ceil(max(0, short) / len(columns[at]) / 4) for size in columns[at]]
        for k, (item, _, at) in enumerate(cells):
            if item.kind == "box" and item.wide:
                sizes[k] = self._span(columns[at], 0), sizes[k][1]
        return sizes, columns, rows

    def places(self, room: Rect) -> Iterator[Placed]:
        sizes, columns, rows = self._sizes()
        left, low = (middle - size / 2 for middle, size in zip(room.middle, self.size, strict=True))
        for (item, r, at), (wide, high) in zip(self._cells(), sizes, strict=True):
            x = left + self._span([*columns[: at.start], 0], 0) + (self._span(columns[at], 0) - wide) / 2
            y = low + self._span([*rows[:r], 0], 1) + (rows[r] - high) * self.align
            yield from item.places(Rect(x, y, x + wide, y + high))


@dataclass(frozen=True)
class Frame:
    """A pale card around a layout; made by `frame`. side: where its label stands."""

    name: str
    inside: "Layout"
    label: str
    side: str
    kind = "frame"

    @property
    def size(self) -> tuple[int, int]:
        (wide, high), (across, up) = self.inside.size, text_size(self.label, NOTE, bold=True)
        if not self.label:
            return wide + 2 * CARD, high + 2 * CARD
        if self.side in ("top", "bottom"):
            return max(wide, across) + 2 * CARD, high + 2 * CARD + up
        return wide + 2 * CARD + 2 * (across + 8), max(high + 2 * CARD, up)  # on both sides: the middle stays

    def places(self, room: Rect) -> Iterator[Placed]:
        across, up = text_size(self.label, NOTE, bold=True)
        x0, y0, x1, y1 = room
        if not self.label:
            label, inside = None, room
        elif self.side in ("top", "bottom"):
            y, low = (y1 - 8 - up, y0) if self.side == "top" else (y0 + 8, y0 + up)
            label, inside = Rect(x0 + 12, y, x0 + 12 + across, y + up), Rect(x0, low, x1, low + y1 - y0 - up)
        else:
            x0, x1, y = x0 + across + 8, x1 - across - 8, room.middle[1] - up / 2
            x = room.x0 if self.side == "left" else x1 + 8
            label, inside = Rect(x, y, x + across, y + up), Rect(x0, y0, x1, y1)
        yield Placed(self.name, "frame", Rect(x0, y0, x1, y1), "", GREY)
        if label:
            yield Placed(self.name, "label", label, self.label, INK)
        wide, high = self.inside.size
        x, y = inside.middle[0] - wide / 2, inside.middle[1] - high / 2
        yield from self.inside.places(Rect(x, y, x + wide, y + high))


Layout = Box | Grid | Frame


def box(name: str, label: str | None = None, colour: str = BLUE, *, wide: bool = False) -> Box:
    """A rounded box in a colour of the course; without a label, its name is written in it. "\\n" begins a line.

    Boxes that stand in one row, stack or grid are of one size. wide: as wide as the whole column that it stands in.
    """
    return Box(name, name if label is None else label, colour, "box", wide)


def words(name: str, label: str | None = None) -> Box:
    """Text without a box around it, at which arrows may start and end."""
    return Box(name, name if label is None else label, INK, "words")


def plus(name: str, label: str = "+") -> Box:
    """A small circle in which arrows meet: a sum, or the operation that the label names."""
    return Box(name, label, INK, "circle")


def row(*items: Layout, gap: int = GAP, align: str = "middle") -> Grid:
    """Things side by side, from the left; align: whether they meet at the "top", "middle" or "bottom"."""
    return grid(items, gap=gap, align=align)


def stack(*items: Layout, gap: int = GAP) -> Grid:
    """Things on top of each other, the first at the bottom, their middles on one line."""
    return grid(*((item,) for item in items), gap=gap)


def grid(*rows: Sequence[Layout | None], gap: int | tuple[int, int] = GAP, align: str = "middle") -> Grid:
    """Rows of things, the first at the bottom, each in the middle of its column; None leaves a cell empty.

    What is alone in its row stands in the middle of the whole grid.
    gap: whole points between neighbours, or a pair (side by side, on top of each other). Raises ValueError for another
    gap, an unknown `align`, no rows or rows of unequal length; TypeError for what cannot be laid out.
    """
    across, up = gap if isinstance(gap, tuple) else (gap, gap)
    if not all(isinstance(size, Integral) and size >= 0 for size in (across, up)):
        raise ValueError(f"gap must be whole points, 0 or more, or a pair of them; got {gap!r}.")
    if align not in ("bottom", "middle", "top"):
        raise ValueError(f'align must be "top", "middle" or "bottom"; got {align!r}.')
    if len({len(cells) for cells in rows} - {1}) > 1 or not any(item is not None for cells in rows for item in cells):
        raise ValueError(
            "Something to draw, in rows of equal length or alone in its row; got rows of "
            f"{', '.join(str(len(cells)) for cells in rows) or 'nothing'}."
        )
    for item in (item for cells in rows for item in cells if item is not None):
        if not isinstance(item, Layout):
            raise TypeError(f"A layout holds boxes, words, sums, rows, stacks, grids and frames; got {item!r}.")
    return Grid(tuple(map(tuple, rows)), (across, up), ("bottom", "middle", "top").index(align) / 2)


def frame(name: str, inside: Layout, label: str | None = None, *, side: str = "top") -> Frame:
    """A card around a layout; its label stands inside at the "top" or "bottom", or outside at the "left" or "right".

    Raises ValueError for another side, TypeError for what cannot be laid out.
    """
    if side not in OUT:
        raise ValueError(f"side must be one of {', '.join(map(repr, OUT))}; got {side!r}.")
    if not isinstance(inside, Layout):
        raise TypeError(f"A frame holds a box, a row, a stack, a grid or a frame; got {inside!r}.")
    return Frame(name, inside, name if label is None else label, side)


def seen(text: str) -> str:
    """The text with a square for each letter that the font of drawings does not have."""
    return "\n".join(map(drawable, text.split("\n")))


@cache
def text_size(text: str, size: float, bold: bool = False) -> tuple[int, int]:
    """Width and height of a text in points, up to the next four; a line is never lower than a letter may be.

    Raises TypeError for what is no text, ValueError for a formula that cannot be set.
    """
    if not isinstance(text, str):
        raise TypeError(f"A label, a note and a title are text; got {text!r}.")
    figure = Figure(dpi=288)
    look = {"fontsize": size, "fontweight": "bold" if bold else "normal"}
    try:
        extent = figure.text(0, 0, seen(text), **look).get_window_extent(FigureCanvasAgg(figure).get_renderer())
    except ValueError as error:
        raise ValueError(f"The formula in {text!r} cannot be set: {str(error).splitlines()[-1]}.") from None
    lines = 1.2 * size * len(text.split("\n"))
    return 4 * math.ceil(extent.width / 16), 4 * math.ceil(max(extent.height / 4, lines) / 4)
