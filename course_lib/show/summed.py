"""An answer summed over passages: how much each passage weighs, how probable the answer is with it, what both give.

summed(["In Chad, people buy bread with ...", ...], weights, given, answer="Central African CFA franc")
"""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from course_lib.show.letters import drawable
from course_lib.show.plots import GREEN, GREY, INK, ORANGE, array

LETTERS = 46  # of a line of a passage
HALF = 0.3  # of a bar's height


def summed(
    passages: Sequence[str],
    weights: ArrayLike,
    given: ArrayLike,
    *,
    answer: str,
    question: str = "",
    lift: bool = False,
) -> Figure:
    """K passages, one a row: p(z|x), p(y|x,z) and their product, and below them the products' sum, p(y|x).

    weights (K,), which sum to 1; given (K,), the probability of `answer` with each passage. lift: an arrow leads from
    each weight to what it would be, were the answer known: p(z|x,y). Raises ValueError where sizes do not fit, and for
    what are no probabilities.
    """
    weights, given = array(weights), array(given)
    _check_summed(passages, weights, given)
    terms, total = weights * given, float(weights @ given)
    rows = np.arange(len(passages))
    figure = plt.figure(figsize=(12, 1.6 + 0.72 * len(passages)), layout="none")
    panels = [figure.add_axes((left, 0.1, 0.17, 0.72)) for left in (0.42, 0.615, 0.81)]
    columns = (
        ("weight  p(z | x)", weights, GREY),
        ("reader  p(y | x, z)", given, GREEN),
        ("product", terms, ORANGE),
    )
    for ax, (name, values, colour) in zip(panels, columns, strict=True):
        ax.barh(rows, values, height=2 * HALF, color=colour)
        for row, value in zip(rows, values, strict=True):
            _number(ax, row, value)
        ax.set_title(name, fontsize=14)
        ax.set(xlim=(0, 1.3), ylim=(len(rows) + 0.6, -0.6), xticks=[0, 1], yticks=[])
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines["left"].set_bounds(-0.6, len(rows) - 0.4 + (ax is panels[2]))
        ax.grid(False)
    for row, text in zip(rows, passages, strict=True):
        panels[0].text(-0.05, row, _lines(drawable(text)), ha="right", va="center", fontsize=12.5)
    if lift and total > 0:
        _arrows(panels[0], weights, terms / total)
    ends = np.cumsum(terms)
    for end, term in zip(ends, terms, strict=True):  # the sum, made of the products
        panels[2].barh(len(rows), term, left=end - term, height=2 * HALF, color=ORANGE, edgecolor="white")
    _number(panels[2], len(rows), total, weight="bold")
    said = f"p(“{drawable(answer)}” | x), the sum"
    panels[2].text(-0.05, len(rows), said, ha="right", va="center", fontsize=13, weight="bold")
    figure.text(0.01, 0.93, drawable(question), fontsize=14, weight="bold", va="center")
    return figure


def _number(ax: Axes, row: int, value: float, weight: str = "normal") -> None:
    ax.text(min(value, 1.0) + 0.03, row, f"{value:.2f}", va="center", fontsize=12.5, color=INK, weight=weight)


def _arrows(ax: Axes, before: np.ndarray, after: np.ndarray) -> None:
    """From each weight to what the answer makes of it, above its bar."""
    for row, (start, end) in enumerate(zip(before, after, strict=True)):
        if abs(end - start) > 0.01:
            look = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.8}
            ax.annotate("", (end, row - HALF - 0.08), (start, row - HALF - 0.08), arrowprops=look)


def _lines(text: str) -> str:
    """A passage in two lines at most, cut where it is longer."""
    if len(text) <= LETTERS:
        return text
    at = text.rfind(" ", 0, LETTERS)
    at = LETTERS if at < 0 else at
    rest = text[at:].strip()
    return f"{text[:at]}\n{rest if len(rest) <= LETTERS else rest[: LETTERS - 1] + '…'}"


def _check_summed(passages: Sequence[str], weights: np.ndarray, given: np.ndarray) -> None:
    if not len(passages) or weights.shape != (len(passages),) or given.shape != weights.shape:
        raise ValueError(
            f"A weight and a probability for each of {len(passages)} passages, one at least; got {weights.shape} and "
            f"{given.shape}."
        )
    if min(weights.min(), given.min()) < 0 or given.max() > 1 + 1e-6 or abs(weights.sum() - 1) > 1e-4:
        raise ValueError("Weights are 0 or more and sum to 1, and what the reader gives is a probability, 0 to 1.")
