"""Nine small drawings, one for each of the lessons 01 to 09: who is connected to whom. Readable at 100 pixels.

Dots are places of a sequence, from left to right, or from bottom to top where one is made of another. Orange is
what the lesson is about; who is linked to whom can be seen without colours.

emblem(ax, "fan", corner=(2, 0), size=1)
picture(course_row(here=4), alt=f"The course in nine drawings; lesson 04 is {EMBLEMS['fan']}")
"""

from itertools import combinations, pairwise, product
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from course_lib.show.plots import BLUE, GREY, INK, ORANGE

EMBLEMS = {  # in the order of the lessons, each with what it shows
    "chain": "a chain: each state is made of its input and of the state before.",
    "lane": "a lane: a straight line runs beside the chain and carries what is to be kept.",
    "neck": "a neck: all that was read goes through one point, and all that is written comes out of it.",
    "fan": "a fan: what writes looks at every place that was read, at some more than at others.",
    "complete": "a complete graph: every place is joined to every other, and none is first or last.",
    "stack": "a stack: layer on layer of such graphs, and a straight path up through all of them.",
    "triangle": "a triangle: each place looks at itself and at those to its left, never to its right.",
    "full": "a full square of links: each place looks at all, also the one that is hidden.",
    "grid": "a grid: an image cut into patches, and each patch looks at all the others.",
}
RADIUS = 0.075  # of a dot, where the drawing is 1 wide
PALE = "#C3C9D1"  # of a lesson that is not meant
THIN, HEAVY = 1.3, 3.4  # points


class Dot(NamedTuple):
    """A place: where its middle is, and how it looks."""

    x: float
    y: float
    colour: str = BLUE
    radius: float = RADIUS
    filled: bool = True
    square: bool = False


class Line(NamedTuple):
    """A link between two places."""

    start: Dot
    end: Dot
    colour: str = GREY
    width: float = THIN


def _row(n, y, first=0.1, last=0.9, **look):
    return [Dot(first + (last - first) * i / (n - 1), y, **look) for i in range(n)]


def _chained(dots, **look):
    return [Line(a, b, **look) for a, b in pairwise(dots)]


def _chain():
    inputs, states = _row(4, 0.2, colour=GREY), _row(4, 0.72, colour=ORANGE, radius=0.1)
    lines = [Line(a, b) for a, b in zip(inputs, states, strict=True)]
    return inputs + states, [*lines, *_chained(states, colour=ORANGE, width=HEAVY)]


def _lane():
    inputs, states, lane = _row(4, 0.12, colour=GREY), _row(4, 0.46), _row(4, 0.84, 0.0, 1.0)
    doors = [Dot(state.x, 0.84, ORANGE, 0.055, filled=False) for state in states]
    lines = [Line(a, b) for row in (inputs, doors) for a, b in zip(row, states, strict=True)]
    lines += [*_chained(states, colour=BLUE), Line(lane[0], lane[-1], ORANGE, 2 * HEAVY)]
    return inputs + states + doors, lines


def _neck():
    read, written, neck = _row(5, 0.1), _row(5, 0.9), Dot(0.5, 0.5, ORANGE, 0.12)
    return [*read, *written, neck], [Line(dot, neck, BLUE) for dot in read + written]


def _fan():
    read, writer = _row(5, 0.14), Dot(0.5, 0.86, ORANGE, 0.12)
    widths = (0.8, 1.6, 6.5, 3.2, 0.8)
    looks = [Line(dot, writer, ORANGE, width) for dot, width in zip(read, widths, strict=True)]
    return [*read, writer], [*looks, *_chained(read)]


def _complete():
    around = ((0.5, 0.91), (0.9, 0.7), (0.9, 0.3), (0.5, 0.09), (0.1, 0.3), (0.1, 0.7))
    dots = [Dot(x, y, ORANGE, 0.09) for x, y in around]
    return dots, [Line(a, b, ORANGE) for a, b in combinations(dots, 2)]


def _stack():
    layers = [_row(4, y) for y in (0.09, 0.5, 0.91)]
    pairs = [pair for low, high in pairwise(layers) for pair in product(low, high)]
    across = [Line(a, b, BLUE, 0.8) for a, b in pairs if a.x != b.x]
    return sum(layers, []), across + [Line(a, b, ORANGE, HEAVY) for a, b in pairs if a.x == b.x]


def _triangle():
    read, made = _row(5, 0.14), _row(5, 0.86, colour=ORANGE)
    return read + made, [Line(a, b, ORANGE) for i, b in enumerate(made) for a in read[: i + 1]]


def _full():
    read, made = _row(5, 0.14), _row(5, 0.86)
    read[2] = read[2]._replace(colour=ORANGE, filled=False, radius=0.1)
    made[2] = made[2]._replace(colour=ORANGE, radius=0.1)
    links = [Line(a, b, GREY, 0.9) for a, b in product(read, made) if b is not made[2]]
    return read + made, links + [Line(a, made[2], ORANGE, 2.4) for a in read]


def _grid():
    patches = [Dot(x, y, radius=0.1, square=True) for y in (0.12, 0.5, 0.88) for x in (0.12, 0.5, 0.88)]
    middle = patches.pop(4)._replace(colour=ORANGE, radius=0.13)
    return [*patches, middle], [Line(patch, middle, ORANGE, 2.2) for patch in patches]


PARTS = dict(
    chain=_chain, lane=_lane, neck=_neck, fan=_fan, complete=_complete, stack=_stack, triangle=_triangle, full=_full,
    grid=_grid,
)  # fmt: skip


def emblem(
    ax: Axes, name: str, corner: tuple[float, float] = (0.0, 0.0), size: float = 1.0, *, pale: bool = False
) -> None:
    """Draw the emblem `name` of `EMBLEMS` into a square of the Axes: its lower left corner and its side.

    A unit of the Axes must be as long upwards as it is to the side. pale: in grey alone, for a lesson that is not
    meant. Raises ValueError for another name.
    """
    if name not in PARTS:
        raise ValueError(f"There is no emblem {name!r}, only {', '.join(PARTS)}.")
    dots, lines = PARTS[name]()
    place = {dot: (corner[0] + size * dot.x, corner[1] + size * dot.y) for line in lines for dot in (*line[:2], *dots)}
    one = PALE if pale else ""
    ax.add_collection(
        LineCollection(
            [(place[line.start], place[line.end]) for line in lines],
            colors=[one or line.colour for line in lines],
            linewidths=[line.width for line in lines],
            zorder=2,
        )
    )
    shapes = [_shape(place[dot], size * dot.radius, dot.square) for dot in dots]
    edges = [one or dot.colour for dot in dots]
    fills = [edge if dot.filled else "white" for dot, edge in zip(dots, edges, strict=True)]
    ax.add_collection(PatchCollection(shapes, facecolors=fills, edgecolors=edges, linewidths=2, zorder=3))


def _shape(middle, radius, square):
    if square:
        return Rectangle((middle[0] - radius, middle[1] - radius), 2 * radius, 2 * radius)
    return Circle(middle, radius)


def course_row(here: int | None = None) -> Figure:
    """The course in one row: a drawing for each lesson 01 to 09, its number and its name below.

    here: the number of the lesson that is meant; the others are pale then. Raises ValueError for another number.
    """
    if here is not None and here not in range(1, len(EMBLEMS) + 1):
        raise ValueError(f"The row has the lessons 1 to {len(EMBLEMS)}; got {here}.")
    fig = plt.figure(figsize=(11.7, 1.75), layout="none")
    ax = fig.add_axes((0, 0, 1, 1), xlim=(0, 11.7), ylim=(0, 1.75))  # a unit is an inch
    ax.set_axis_off()
    for number, name in enumerate(EMBLEMS, 1):
        left, pale = 1.3 * number - 1.15, here not in (None, number)
        emblem(ax, name, (left, 0.65), 1.0, pale=pale)
        look = {"color": GREY if pale else INK, "fontweight": "bold" if number == here else "normal"}
        ax.text(left + 0.5, 0.47, f"{number:02d}\n{name}", ha="center", va="top", fontsize=12, **look)
    return fig
