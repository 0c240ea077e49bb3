"""The lattice of a word, drawn: an arc for each piece that stands there, the ways in their colours, labels apart."""

import math
import random

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from plain import in_plain_pictures

from course_lib.show.lattice import lattice_plot
from course_lib.show.plots import BLUE, ORANGE, PURPLE
from course_lib.text.unigram import arcs, viterbi

HUG = {p: math.log(n / 10) for p, n in {"h": 1, "u": 1, "g": 1, "s": 1, "hu": 1, "ug": 2, "hug": 2, "gs": 1}.items()}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def crowded(word, seed=0, share=0.5):
    """A vocabulary of many of the word's substrings, with random p."""
    draw, n = random.Random(seed), len(word)
    pieces = {
        word[a:b] for a in range(n) for b in range(a + 1, min(a + 8, n) + 1) if b - a == 1 or draw.random() < share
    }
    return {piece: math.log(draw.random() / 10 + 1e-9) for piece in sorted(pieces)}


def drawn(ax, colour):
    """(start, end, height) of every arc of a colour."""
    return {
        (round(curve[0, 0]), round(curve[-1, 0]), float(curve[:, 1].max()))
        for lines in ax.collections
        for curve in lines.get_segments()
        if to_hex(lines.get_color()[0]) == to_hex(colour)
    }


def labels(ax):
    return [text for text in ax.texts if text.get_bbox_patch() is not None]


def test_an_arc_for_each_piece_and_the_ways_in_their_colours():
    ax = lattice_plot(None, "hugs", HUG, ["hug", "s"], ["h", "u", "gs"])
    spans = {colour: {arc[:2] for arc in drawn(ax, colour)} for colour in (BLUE, ORANGE, PURPLE)}
    assert spans[ORANGE] == {(0, 3), (3, 4)} and spans[PURPLE] == {(0, 1), (1, 2), (2, 4)}
    assert set.union(*spans.values()) == {*arcs("hugs", HUG)}
    assert {text.get_text() for text in labels(ax)} == {
        "h .10", "u .10", "g .10", "s .10", "hu .10", "ug .20", "hug .20", "gs .10"}  # fmt: skip
    written = [text.get_text() for text in ax.texts if text not in labels(ax)]
    assert written == ["0", "1", "2", "3", "4", "h", "u", "g", "s"]
    assert all(text.get_fontsize() >= 12 for text in ax.texts)


def test_a_longer_piece_is_higher_than_the_pieces_in_it():
    word = "▁internationalisierung"
    ax = lattice_plot(None, word, crowded(word, share=0.15))
    found = drawn(ax, BLUE)
    for a, b, high in found:
        assert all(high > low for c, d, low in found if a <= c and d <= b and (a, b) != (c, d))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "share"),
    [("▁unhappiness", 0.3), ("▁γλώσσες", 0.6), ("▁международный", 0.3), ("▁everything", 1), ("x" * 24, 0)],
)
def test_no_label_lies_on_another_and_the_ways_have_theirs(word, share):
    logp = crowded(word, share=share)
    path = viterbi(word, logp)
    ax = lattice_plot(None, word, logp, path)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in labels(ax)]
    for i, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[:i])
    named = [text for text in labels(ax) if to_hex(text.get_color()) == to_hex(ORANGE)]
    assert len(named) == len(path) and len(boxes) <= len(arcs(word, logp))
    area = ax.figure.bbox
    assert all(area.x0 <= box.x0 and box.x1 <= area.x1 and box.y1 <= area.y1 for box in boxes)


def test_what_is_odd_is_drawn():
    assert [text.get_text() for text in labels(lattice_plot(None, "a", {"a": 0.0}))] == ["a 1.00"]
    assert not labels(lattice_plot(None, "xyz", HUG)) and not labels(lattice_plot(None, "xyz", {}))
    texts = [text.get_text() for text in lattice_plot(None, "$\n\ud800 ", {"$": -900.0, "\n": -9.0}).texts]
    assert "$ 0" in texts and "↵ 1e-4" in texts and "␣" in texts
    _, ax = plt.subplots()
    assert lattice_plot(ax, "hug", HUG, title="The ways to write hug") is ax and ax.get_title(loc="left")


@pytest.mark.parametrize(
    ("word", "logp", "path", "error", "said"),
    [
        ("", HUG, None, ValueError, "1 to 24 characters"),
        ("h" * 25, HUG, None, ValueError, "this one has 25"),
        (3, HUG, None, TypeError, "a string"),
        ("hug", ["h"], None, TypeError, "piece -> log p"),
        ("hug", HUG, ["hu"], ValueError, "these spell 'hu'"),
        ("hug", HUG, "hug", TypeError, "list of pieces"),
        ("hug", HUG, [1], TypeError, "list of pieces"),
        ("shu", HUG, ["sh", "u"], ValueError, r"lacks \['sh'\]"),
        ("hug", {**HUG, "h": math.nan}, None, ValueError, "0 or less"),
        ("hug", {**HUG, "h": 0.5}, None, ValueError, "0 or less"),
        ("hug", {**HUG, "h": None}, None, ValueError, "0 or less"),
    ],
)
def test_what_is_no_lattice_is_refused(word, logp, path, error, said):
    for way in ({"path": path}, {"sampled": path}):
        with pytest.raises(error, match=said):
            lattice_plot(None, word, logp, **way)


@pytest.mark.slow
def test_it_is_drawn_while_a_control_moves():
    """A control redraws it: under 200 ms on a quiet machine, about six pictures of three curves."""
    logp = crowded("▁everything", share=1)
    assert in_plain_pictures(lambda: lattice_plot(None, "▁everything", logp, viterbi("▁everything", logp))) < 6
    assert np.isfinite(lattice_plot(None, "hug", HUG).get_ylim()).all()
