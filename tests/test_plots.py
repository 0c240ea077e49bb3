"""Pictures: they draw over the whole range of a control, refuse nonsense, and can be told apart by everyone."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from course_lib.show import plots
from course_lib.show.plots import Picture, alignment, attention, bars, bottleneck, heatmap, lines, picture

# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
VISION = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
COLOURS = [plots.BLUE, plots.ORANGE, plots.GREEN, plots.PURPLE, plots.GREY]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def linear(colour):
    value = np.array([int(colour.lstrip("#")[i : i + 2], 16) for i in (0, 2, 4)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    a, b = (float(np.array([0.2126, 0.7152, 0.0722]) @ linear(c)) + 0.05 for c in (one, other))
    return max(a, b) / min(a, b)


def lab(rgb):
    xyz = (
        np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
        @ rgb
        / [0.9505, 1, 1.089]
    )
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("colour", [*COLOURS, plots.INK])
def test_colours_stand_out_as_text_on_white(colour):
    assert contrast(colour, "#ffffff") >= 4.5


@pytest.mark.parametrize("vision", VISION)
def test_any_two_colours_differ_for_every_eye(vision):
    seen = [lab(np.clip(VISION[vision] @ linear(c), 0, 1)) for c in COLOURS]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) >= 14


def test_picture_carries_its_alternative_text_escaped():
    shown = picture(lines([1, 2], {"a": [1, 2]}, xlabel="x", ylabel="y"), alt='a "b" <c>\n d')
    assert isinstance(shown, Picture) and shown.png[1:4] == b"PNG"
    assert 'alt="a &quot;b&quot; &lt;c&gt; d"' in shown._repr_html_() and repr(shown) == 'Figure: a "b" <c> d'
    assert not plt.get_fignums(), "the figure must be closed, or the notebook shows it twice"
    with pytest.raises(ValueError, match="alternative text"):
        picture(lines([1], {"a": [1]}, xlabel="x", ylabel="y"), alt="  ")


@pytest.mark.slow
def test_lines_leave_out_what_cannot_be_drawn():
    ax = lines([1, 2, 3, 4], {"a": [1.0, np.nan, np.inf, 0.0]}, xlabel="x", ylabel="y", log="y", levels={"one": 1})
    assert ax.lines[0].get_xdata().tolist() == [1]
    picture(ax, "x")
    picture(lines(0, {"own": (range(3), [1, 2, 3]), "b": ([], [])}, xlabel="x", ylabel="y"), "x")
    picture(lines([1, 2], {"pair of numbers": (3.0, 4.0)}, xlabel="x", ylabel="y"), "a tuple of two numbers is a curve")


@pytest.mark.slow
@pytest.mark.parametrize("matrix", [np.zeros((1, 1)), np.eye(4), -np.eye(3), np.full((2, 5), np.nan), np.ones(3)])
@pytest.mark.parametrize("signed", [True, False])
def test_heatmap_of_anything(matrix, signed):
    picture(heatmap(matrix, signed=signed, numbers=".1f", title="t", frame=[(0, 0)]), "x")


def test_a_bottleneck_has_the_same_axes_whatever_is_drawn():
    one, other = plots.bottleneck({"plain": [1, 0.5, 0.1]}), plots.bottleneck({"a": [0, 0, 0], "b": [1, 1, 1]}, seen=2)
    assert (one.get_xlim(), one.get_ylim()) == (other.get_xlim(), other.get_ylim())
    assert list(one.get_xticks()) == [1, 2, 3] and one.get_ylim()[1] > 1
    assert [line.get_xdata()[0] for line in (one.lines[-1], other.lines[-1])] == [4.5, 2.5]
    assert list(one.lines[0].get_xdata()) == [1, 2, 3]


def test_bars_write_their_numbers():
    ax = bars({"a": 1.234, "b": 0.0}, xlabel="x", highlight=["b"])
    assert {t.get_text() for t in ax.texts} == {"1.23", "0.00"}


# Alignment

ENGLISH, FRENCH = "Thursday , August 13".split(), "jeudi 13 août".split()
GOLD = [(0, 0), (3, 1), (2, 2)]
WEIGHTS = np.array([[0.9, 0.1, 0, 0], [0, 0, 0.2, 0.8], [0, 0.1, 0.7, 0.2]])
SCRIPTS = {
    "fa": "پنجشنبه ۲۲ مرداد".split(),
    "ar": "الخميس، ١٣ أغسطس".split(),
    "he": "יום חמישי".split(),
    "ja": "1992 年 8 月 13 日 木曜日".split(),
    "th": "วันพฤหัสบดี ที่ 13 สิงหาคม".split(),
    "zh": "日 期".split(),
    "odd": ["", "$x$", "🥑", "\u202eab", "a_b^c", "%1"],
}


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.slow
def test_an_alignment_by_eye():
    ax = alignment(WEIGHTS, ENGLISH, FRENCH, gold=GOLD, title="t")
    assert (labels(ax.xaxis), labels(ax.yaxis)) == (ENGLISH, FRENCH)
    assert np.array_equal(ax.images[0].get_array(), WEIGHTS) and ax.images[0].get_clim() == (0, 1)
    frames = {tuple(np.add(patch.get_xy(), patch.get_width() / 2).round(6)) for patch in ax.patches}
    assert frames == set(GOLD), "a link (source, target) is framed at (column, row)"
    assert ax.get_legend().get_texts()[0].get_text() == "gold"
    assert not ax.xaxis_inverted() and ax.yaxis.get_ticks_position() == "left"
    assert ax.get_window_extent().y1 < ax.xaxis.get_ticklabels()[0].get_window_extent().y1, "the source stands on top"
    picture(ax, "x")
    assert alignment(WEIGHTS, ENGLISH, FRENCH).get_legend() is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right_to_left", "source", "target"),
    [
        (False, False, False),
        (True, False, True),
        ("target", False, True),
        ("source", True, False),
        ("both", True, True),
    ],
)
def test_a_sentence_from_right_to_left_is_laid_out_so(right_to_left, source, target):
    ax = alignment(WEIGHTS, ENGLISH, FRENCH, gold=GOLD, right_to_left=right_to_left)
    ax.figure.draw_without_rendering()
    places = [label.get_window_extent().x0 for label in ax.xaxis.get_ticklabels()]
    assert places == sorted(places, reverse=source)
    beside = ax.yaxis.get_ticklabels()[0].get_window_extent()
    assert (beside.x0 > ax.bbox.x1) if target else (beside.x1 < ax.bbox.x0)
    assert len({label.get_window_extent().y0 for label in ax.yaxis.get_ticklabels()}) == 3
    above, (x, _) = ax.xaxis.get_ticklabels()[3].get_window_extent(), ax.transData.transform(GOLD[1])
    assert above.x0 < x < above.x1, "the cell of a link stands under its source token"


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("side", ["source", "target"])
def test_every_script_is_drawn_without_a_warning(script, side):
    words = {"source": ENGLISH, "target": ENGLISH, side: SCRIPTS[script]}
    weights = np.full((len(words["target"]), len(words["source"])), 0.1)
    ax = alignment(weights, **words, gold=[(0, 1)], right_to_left=side if script in ("fa", "ar", "he") else False)
    picture(ax, "x")
    shown = labels(ax.xaxis if side == "source" else ax.yaxis)
    assert ("□" in "".join(shown)) == (script == "odd"), "only the avocado has no letter in any of our fonts"


@pytest.mark.slow
@pytest.mark.parametrize(("n_target", "n_source"), [(1, 1), (1, 40), (40, 1), (40, 40), (38, 56), (60, 60), (61, 200)])
def test_long_sentences_stay_readable(n_target, n_source):
    ax = alignment(np.full((n_target, n_source), 0.5), ["source"] * n_source, ["target"] * n_target)
    ax.figure.draw_without_rendering()
    for axis, n in ((ax.xaxis, n_source), (ax.yaxis, n_target)):
        if max(n_source, n_target) <= 60:
            assert len(axis.get_ticklabels()) == n
        boxes = [label.get_window_extent() for label in axis.get_ticklabels()]
        starts, ends = ([getattr(b, k) for b in boxes] for k in (("x0", "x1") if axis is ax.xaxis else ("y1", "y0")))
        gaps = [after - before for before, after in zip(ends, starts[1:], strict=False)]
        assert all(abs(gap) > 0 and (gap > 0) == (axis is ax.xaxis) for gap in gaps), "labels stand apart"
        assert min(label.get_fontsize() for label in axis.get_ticklabels()) >= 8
    assert ax.figure.get_size_inches().max() < 14
    plt.close(ax.figure)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"weights": WEIGHTS.T}, r"A row for each target token .* \(4, 3\) for 3 target and 4 source tokens"),
        ({"weights": WEIGHTS * np.nan}, "finite"),
        ({"weights": np.zeros((0, 4)), "target": []}, "At least one weight"),
        ({"gold": [(0, 0), (1, 3)]}, r"A gold link is \(source place, target place\), from 0; got \(1, 3\)"),
        ({"gold": [(-1, 0)]}, r"got \(-1, 0\)"),
        ({"right_to_left": "yes"}, "right_to_left must be False, True"),
    ],
)
def test_an_alignment_refuses_what_it_cannot_draw(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        alignment(**({"weights": WEIGHTS, "source": ENGLISH, "target": FRENCH} | change))


@pytest.mark.slow
def test_an_alignment_draws_into_axes_that_are_handed_in():
    figure, both = plt.subplots(1, 2)
    assert [alignment(WEIGHTS, ENGLISH, FRENCH, ax, gold=GOLD) for ax in both] == list(both)
    picture(figure, "x")


# Numbers from anywhere

SQUARE = torch.tensor([[0.25, 0.5], [0.75, 1.0]])


class OnADevice:
    """A tensor as it lies on a GPU: NumPy cannot read it."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __len__(self):
        return len(self.tensor)

    def __array__(self, dtype=None, copy=None):
        raise TypeError("can't convert device type tensor to numpy. Use Tensor.cpu() first.")

    __float__ = __array__

    def detach(self):
        return self

    def cpu(self):
        return self.tensor


KINDS = {
    "list": lambda x: x.tolist(),
    "list of tensors": lambda x: [row.clone().requires_grad_() for row in x],
    "array": lambda x: x.numpy(),
    "in a graph": lambda x: x.clone().requires_grad_() * 1,
    "bfloat16": lambda x: x.bfloat16(),
    "on a device": OnADevice,
}
DRAW = {
    "lines": lambda x, table: lines(x, {"a": x, "b": (x, x)}, xlabel="x", ylabel="y").lines[1].get_xdata(),
    "bottleneck": lambda x, table: bottleneck({"a": x}).lines[0].get_ydata(),
    "heatmap": lambda x, table: heatmap(table, numbers=".1f").images[0].get_array()[0],
    "attention": lambda x, table: attention(table, ["a", "b"], ["c", "d"]).images[0].get_array()[0],
    "alignment": lambda x, table: alignment(table, ["a", "b"], ["c", "d"]).images[0].get_array()[0],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DRAW)
def test_numbers_are_drawn_wherever_they_come_from(name, kind):
    assert list(DRAW[name](KINDS[kind](SQUARE[0]), KINDS[kind](SQUARE))) == [0.25, 0.5]


@pytest.mark.parametrize("kind", ["array", "in a graph", "bfloat16", "on a device"])
def test_one_number_is_drawn_wherever_it_comes_from(kind):
    half = KINDS[kind](torch.tensor(0.5))
    assert bars({"a": half}, xlabel="x").texts[0].get_text() == "0.50"
    ax = lines([1, 2], {"a": [1, 2]}, xlabel="x", ylabel="y", levels={"half": half})
    assert list(ax.lines[-1].get_ydata()) == [0.5, 0.5]


@pytest.mark.parametrize(
    "numbers",
    ["abc", [[1, 2], [3]], {"a": 1}, object(), ["x"], torch.eye(2).to_sparse(), torch.ones(2, device="meta")],
    ids=lambda numbers: type(numbers).__name__,
)
def test_what_is_no_table_of_numbers_is_refused_in_words(numbers):
    with pytest.raises(ValueError, match="A picture is drawn of numbers, in rows of equal length; got "):
        heatmap(numbers)


def test_half_a_character_is_spelt_out_or_boxed():
    shown = picture(bars({"a\ud800": 1}, xlabel="x"), alt="half \udfff")
    assert shown.alt == "half \\udfff"
    shown._repr_html_().encode()


def test_a_dollar_in_a_name_is_a_dollar():
    ax = bars({"$$": 1.0, "$^$": 2.0}, xlabel="x")
    ax.figure.canvas.draw()
