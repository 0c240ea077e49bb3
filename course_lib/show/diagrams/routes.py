"""The way of a line between boxes: right-angled, round every box and word, with few corners.

A `Map` knows where boxes, words and frames stand and which lines are drawn already. `Map.way` finds the cheapest path
from one border to another, by A* (Hart, Nilsson and Raphael, 1968) over the places that the boxes' borders suggest.
"""

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

LANES = (6, 12, 20)  # points between a border and the lines that may run along it
CLEAR, NEAR = 5, 10  # points beside a border in which none may, or only at twice the price
PARTED = 5  # points between two lines from different boxes that run side by side
APART = 12  # points from the middle of a side to another place where a line may end
# What a line pays, in points of way: for a corner, for an end beside the middle of a side, for leaving a box where no
# other line from it does (unless it runs straight), and for crossing another line.
CORNER, BESIDE, SECOND_DOOR, CROSSING = 120, 60, 400, 150
OUT = {"right": (1, 0), "left": (-1, 0), "top": (0, 1), "bottom": (0, -1)}  # the way out of a box on each side


class Rect(NamedTuple):
    """A rectangle in points, from (x0, y0) at the lower left to (x1, y1) at the upper right."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def middle(self) -> tuple[float, float]:
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2

    def meets(self, other: "Rect", margin: float = 0.0) -> bool:
        """Whether the two overlap, or come closer to each other than `margin`."""
        across = self.x0 < other.x1 + margin and other.x0 < self.x1 + margin
        return across and self.y0 < other.y1 + margin and other.y0 < self.y1 + margin


class Map:
    """Where lines may run: not through boxes and labels, through the borders of frames at right angles only.

    A line meets the middle of a side, or places of it well apart; of a box in `circles` the middle only.
    """

    def __init__(
        self, boxes: Mapping[str, Rect], frames: Mapping[str, Rect], labels: Sequence[Rect], circles: Collection[str]
    ):
        self.places, self.circles, walls = {**boxes, **frames}, circles, [*boxes.values(), *labels]
        self.xs, self.ys = (self._lines([*walls, *frames.values()], axis) for axis in (0, 1))
        # weight[0][i, j]: of a step from (x_i, y_j) to the right; weight[1][i, j]: upwards. Seen from a step's middle.
        x, y = self.xs[:, None], self.ys[None, :]
        self.middles = middles = ((x[1:] + x[:-1]) / 2, y), (x, (y[:, 1:] + y[:, :-1]) / 2)
        self.weight = [np.ones(np.broadcast_shapes(*map(np.shape, middle))) for middle in middles]
        for margin, weight in ((NEAR, 2), (CLEAR, np.inf)):
            for axis, (x, y) in enumerate(middles):
                for x0, y0, x1, y1 in walls:
                    near = _between(x0 - margin, x, x1 + margin) & _between(y0 - margin, y, y1 + margin)
                    beside = _between(y0, y, y1) & ~_between(x0, x, x1)
                    above = _between(x0, x, x1) & ~_between(y0, y, y1)
                    self.weight[axis][near & ~(beside, above)[axis]] = weight
        for axis, (x, y) in enumerate(middles):
            for x0, y0, x1, y1 in frames.values():
                for level, upright in ((y0, x0), (y1, x1)):
                    along = _between(level - CLEAR, y, level + CLEAR) & _between(x0, x, x1)
                    up = _between(upright - CLEAR, x, upright + CLEAR) & _between(y0, y, y1)
                    self.weight[axis][(along, up)[axis]] = np.inf
        self.pieces: list[tuple[str, Rect]] = []  # the straight pieces of the lines so far, and where they come from
        self.doors: dict[str, set[tuple]] = {}  # where lines leave a box

    @staticmethod
    def _lines(places: Sequence[Rect], axis: int) -> np.ndarray:
        """The x or y coordinates that a line may turn at: borders, middles, quarters, and lanes beside the borders."""
        low = np.array([place[axis] for place in places], float)
        high = np.array([place[axis + 2] for place in places], float)
        inside = [low + part * (high - low) for part in (0, 0.25, 0.5, 0.75, 1)]
        lanes = [line for lane in LANES for line in (low - lane, high + lane)]
        return np.unique(np.concatenate([*inside, *lanes]))

    def way(self, start: str, end: str, side: str = "") -> list[tuple[float, float]]:
        """A path from a border of `start` to one of `end` (the one on its `side`, if given) by its ends and corners.

        It is marked as taken. Raises ValueError where there is none: boxes stand too close for a line between them.
        """
        goals = {(i, j, (-dx, -dy)): cost for i, j, (dx, dy), cost in self._doors(end, side)}
        used, (x0, y0, x1, y1) = self.doors.get(start, set()), self.places[end]
        prices, (best, came, heap) = self._prices(start), ({}, {}, [])

        def reach(here, cost, before):  # here: place (i, j), direction, and what its first corner will cost more
            if cost < best.get(here, np.inf):
                best[here], came[here] = cost, before
                x, y = self.xs[here[0]], self.ys[here[1]]
                across, up = max(x0 - x, 0, x - x1), max(y0 - y, 0, y - y1)
                heapq.heappush(heap, (cost + across + up + CORNER * bool(across and up), cost, here))

        for i, j, out, cost in self._doors(start):
            reach((i, j, out, SECOND_DOOR if used and (i, j) not in used else 0), cost, None)
        arrived = (np.inf, None)
        while heap and heap[0][0] < arrived[0]:
            _, cost, here = heapq.heappop(heap)
            if cost > best[here]:
                continue
            if here[:3] in goals and came[here]:
                arrived = min(arrived, (cost + goals[here[:3]], here))
            i, j, (dx, dy), due = here
            for turn in [(dx, dy), (dy, dx), (-dy, -dx)] if came[here] else [(dx, dy)]:
                k, m, corner = i + turn[0], j + turn[1], turn != (dx, dy)
                if 0 <= k < len(self.xs) and 0 <= m < len(self.ys):
                    price = prices[turn[0] == 0][min(i, k)][min(j, m)] + corner * (CORNER + due)
                    if price < np.inf:
                        reach((k, m, turn, 0 if corner else due), cost + price, here)
        if arrived[1] is None:
            where = f"the {side} of {end!r}" if side else repr(end)
            raise ValueError(
                f"No free way for an arrow from {start!r} to {where}: boxes stand too close together, or other arrows "
                "have taken the last place. Give the rows and stacks there a larger gap, or let it end on another side."
            )
        path = [arrived[1]]
        while came[path[-1]]:
            path.append(came[path[-1]])
        return self._take(start, path[::-1])

    def _doors(self, name: str, side: str = "") -> Iterator[tuple[int, int, tuple[int, int], float]]:
        """Where a line may leave a box: place (i, j), direction out, and what it costs not to be in the middle."""
        place = self.places[name]
        for out, (dx, dy) in OUT.items():
            if side not in ("", out):
                continue
            axis, lines = (1, self.ys) if dx else (0, self.xs)
            border = self._index(1 - axis, place[(1 - axis) + 2 * (dx + dy > 0)])
            for k in np.flatnonzero(_between(place[axis], lines, place[axis + 2])):
                beside = float(abs(lines[k] - place.middle[axis]))
                inside = name not in self.circles and CLEAR < min(lines[k] - place[axis], place[axis + 2] - lines[k])
                if not beside or (beside >= APART and inside):
                    cost = beside and BESIDE + min(beside, BESIDE)
                    yield *((border, int(k)) if dx else (int(k), border)), (dx, dy), cost

    def _index(self, axis: int, value: float) -> int:
        return int(np.searchsorted((self.xs, self.ys)[axis], value))

    def _prices(self, start: str) -> list[list[list[float]]]:
        """What each step costs a line from `start`: infinitely much in a wall, or beside a line from elsewhere."""
        length = np.diff(self.xs)[:, None], np.diff(self.ys)[None, :]
        prices = [weight * step for weight, step in zip(self.weight, length, strict=True)]
        for source, (x0, y0, x1, y1) in self.pieces:
            if source != start:
                axis = 0 if y0 == y1 else 1
                x, y = self.middles[axis]
                beside = _between(x0 - PARTED, x, x1 + PARTED) & _between(y0 - PARTED, y, y1 + PARTED)
                prices[axis][beside] = np.inf
                level, (x, y) = self._index(1 - axis, (x0, y0)[1 - axis]), self.middles[1 - axis]
                across = _between(x0 - 1, x, x1 + 1)[:, 0] if axis == 0 else _between(y0 - 1, y, y1 + 1)[0]
                for step in (level - 1, level):  # half of it before the crossing, half of it after
                    if 0 <= step < prices[1 - axis].shape[1 - axis]:
                        prices[1 - axis][(across, step) if axis == 0 else (step, across)] += CROSSING / 2
        return [price.tolist() for price in prices]

    def _take(self, start: str, path: list[tuple]) -> list[tuple[float, float]]:
        """Mark a path as taken; its ends and corners."""
        self.doors.setdefault(start, set()).add(path[0][:2])
        turns = [a for a, b in pairwise(path) if a[2] != b[2]]
        corners = [(float(self.xs[i]), float(self.ys[j])) for i, j, *_ in (path[0], *turns, path[-1])]
        self.pieces += [(start, piece(*ends)) for ends in pairwise(corners)]
        return corners


def piece(a: tuple[float, float], b: tuple[float, float]) -> Rect:
    """The straight line between two points, as a rectangle without width or height."""
    return Rect(min(a[0], b[0]), min(a[1], b[1]), max(a[0], b[0]), max(a[1], b[1]))


def _between(low, values, high) -> np.ndarray:
    return (low < values) & (values < high)
