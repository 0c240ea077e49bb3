"""A control's pictures drawn beforehand, one for each position, so that it moves where no kernel runs."""

import base64
import html
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import product
from math import floor, prod
from typing import NamedTuple

import numpy as np

from course_lib.show.plots import Picture, quickly

MIME = "application/vnd.unrolled.frames+json"
ASKED = "COURSE_FRAMES"  # set while the pages' and slides' pictures are drawn; a student's run draws none
UNDER_TEST = "few"  # its value where fewer are enough, and coarser ones: every menu, the ends and start of each slider
STANDS = '<p style="margin:.2em 0;opacity:.8">Still picture. Run the cell to move: '  # what is under a control's still
ALONE, TOGETHER, FEW = 24, 60, 8  # positions of one slider, of all that a control has, and under test; menus are whole


class Axis(NamedTuple):
    """One control: its values, what is shown for each, and where it starts. A line of text has its start alone."""

    name: str
    label: str
    kind: str  # slider, menu or text
    values: list
    shown: list[str]
    start: int


def axes(controls: dict[str, tuple], together: int = TOGETHER) -> list[Axis]:
    """The controls of `explore`, each with the positions to be drawn.

    A slider with more positions than there is room for is sampled evenly, its ends and its start among them. Where
    there are too many together, the longest slider gives way first.
    """
    rooms = dict.fromkeys(controls, min(ALONE, together))
    while True:
        along = [_axis(name, spec, rooms[name]) for name, spec in controls.items()]
        longest = max(
            (axis for axis in along if axis.kind == "slider"), key=lambda axis: len(axis.values), default=None
        )
        full = prod(len(axis.values) for axis in along) > together
        if not full or longest is None or rooms[longest.name] == 2:
            return along
        rooms[longest.name] = max(2, min(rooms[longest.name], len(longest.values)) - 1)


def _axis(name, spec, room):
    label, start = spec[:2]
    if len(spec) == 2:
        return Axis(name, label, "text", [start], [start], 0)
    if len(spec) == 3:
        pairs = [one if isinstance(one, tuple) else (str(one), one) for one in spec[2]]
        shown, values = map(list, zip(*pairs, strict=True))
        return Axis(name, label, "menu", values, shown, values.index(start))
    low, high, step = spec[2:]
    last = floor((high - low) / step + 1e-9)
    begins = round((start - low) / step)
    # Whole steps as far apart as the room asks for, counted from the start, and the two ends.
    apart = max(1, -(-last // (room - 1)))
    places = sorted({0, last, *range(begins % apart, last + 1, apart)})
    values = [low + place * step for place in places]
    if not all(isinstance(value, int) for value in spec[1:]):
        values = [round(value, 10) for value in values]
    return Axis(name, label, "slider", values, [f"{value:.6g}" for value in values], places.index(begins))


def picture_of(draw: Callable[..., Picture], values: dict) -> Picture:
    """What `draw` gives for these values; TypeError where that is no Picture."""
    found = draw(**values)
    if not isinstance(found, Picture):
        raise TypeError(
            f"What a control draws must come back as picture(ax, alt=...); got {type(found).__name__}: "
            "is there a `return picture(...)` missing?"
        )
    return found


def drawn(draw: Callable[..., Picture], values: dict) -> Picture | str:
    """The picture of these values; where it cannot be drawn, the sentence that says why, as HTML."""
    try:
        return picture_of(draw, values)
    except Exception as error:
        text = (str(error) or type(error).__name__).encode("utf-8", "backslashreplace").decode()
        return html.escape(text)


def asked() -> bool:
    """Whether this run draws every position, for pages and slides."""
    return bool(os.environ.get(ASKED))


def frames(draw: Callable[..., Picture], controls: dict[str, tuple]) -> dict:
    """Every position of a control as data: its axes, a picture for each point of their grid, the seconds it took.

    The last axis moves fastest. A picture is {"png": base64, "alt", "width"}, or {"says": why there is none}. Under
    test "tried" tells what was said instead of a picture where one control alone was moved: {"moved", "to", "says",
    "typed": whether it is a line of text, which may be answered by a sentence}.
    """
    few = os.environ.get(ASKED) == UNDER_TEST
    began, along = time.perf_counter(), axes(controls, FEW if few else TOGETHER)
    grid = product(*(range(len(axis.values)) for axis in along))
    with _undisturbed(), quickly() if few else nullcontext():
        at = {point: drawn(draw, _values(along, point)) for point in grid}
        tried = {"tried": _tried(draw, controls, along, at)} if few else {}
    return tried | {
        "axes": [{"label": axis.label, "kind": axis.kind, "shown": axis.shown, "start": axis.start} for axis in along],
        "pictures": [
            {"says": one}
            if isinstance(one, str)
            else {"png": base64.b64encode(one.png).decode(), "alt": one.alt, "width": one.width}
            for one in at.values()
        ],
        "seconds": time.perf_counter() - began,
    }


def _values(along, point):
    """The value of each control at a point of the grid."""
    return {axis.name: axis.values[n] for axis, n in zip(along, point, strict=True)}


def _tried(draw, controls, along, at):
    """What is said where each control alone is moved: a slider to its ends and its middle, a menu to each option.

    A line of text is emptied; where it is empty, a word is typed. at: what the points of the grid have shown.
    """
    start = tuple(axis.start for axis in along)
    found = []
    for n, axis in enumerate(along):
        moved = [(value, at[*start[:n], m, *start[n + 1 :]]) for m, value in enumerate(axis.values)]
        beyond = []
        if axis.kind == "slider":
            low, high, step = controls[axis.name][2:]
            middle = low + floor((high - low) / step / 2 + 1e-9) * step
            beyond = [middle if isinstance(middle, int) else round(middle, 10)]
        elif axis.kind == "text":
            beyond = ["" if axis.values[0] else "tough"]
        values = (value for value in beyond if value not in axis.values)
        moved += [(value, drawn(draw, _values(along, start) | {axis.name: value})) for value in values]
        found += [
            {"moved": axis.label, "to": str(value), "says": says, "typed": axis.kind == "text"}
            for value, says in moved
            if isinstance(says, str)
        ]
    return found


@contextmanager
def _undisturbed() -> Iterator[None]:
    """What is drawn at random after this block is what it would have been without it."""
    torch = sys.modules.get("torch")
    python, numpy, tensors = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch:
            torch.set_rng_state(tensors)
