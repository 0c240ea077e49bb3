"""Drawings of architectures: boxes and arrows are declared by name, where they stand is computed.

layout = stack(words("x"), row(box("q", "$W_q$"), box("k", "$W_k$")), box("scores"))
ax = draw(layout, [*chain("x", "q", "scores"), *chain("x", "k", "scores")])
picture(ax, alt="x goes through two matrices, W_q and W_k; scores come of both.")

layout: what stands beside and on top of what. routes: the way of a line. drawing: arrows, and all of it on Axes.
"""

from course_lib.show.diagrams.drawing import arrow, chain, draw, plan
from course_lib.show.diagrams.layout import box, frame, grid, plus, row, stack, words

__all__ = ["arrow", "box", "chain", "draw", "frame", "grid", "plan", "plus", "row", "stack", "words"]
