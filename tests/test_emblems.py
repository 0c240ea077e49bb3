"""The nine small drawings: each links what its lesson links, keeps to its square, and differs from the others."""

from itertools import pairwise

import matplotlib.pyplot as plt
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PatchCollection
from test_plots import contrast

from course_lib.lesson import LESSONS
from course_lib.show import emblems, plots
from course_lib.show.emblems import EMBLEMS, PARTS, course_row, emblem


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def links(name):
    """Who is linked to whom: pairs of places (x, y), the lower or the left one first."""
    _, lines = PARTS[name]()
    ends = [((line.start.x, line.start.y), (line.end.x, line.end.y)) for line in lines]
    return [tuple(sorted(pair, key=lambda place: place[::-1])) for pair in ends]


def between(name, low, high):
    """The links between two rows, as numbers of places from the left."""
    rows = {y: sorted({dot.x for dot in PARTS[name]()[0] if dot.y == y}) for y in (low, high)}
    return {(rows[low].index(a[0]), rows[high].index(b[0])) for a, b in links(name) if (a[1], b[1]) == (low, high)}


EVERY = {(i, j) for i in range(5) for j in range(5)}


def test_every_lesson_that_the_course_began_with_has_a_drawing():
    assert list(PARTS) == list(EMBLEMS) and len(EMBLEMS) == 9
    assert [lesson.number for lesson in LESSONS][1:10] == list(range(1, 10))
    assert len(set(EMBLEMS.values())) == 9 and all(said.endswith(".") for said in EMBLEMS.values())


def test_a_chain_reads_one_input_a_step_and_passes_its_state_on():
    assert between("chain", 0.2, 0.72) == {(i, i) for i in range(4)}
    assert between("chain", 0.72, 0.72) == set(pairwise(range(4)))
    assert between("lane", 0.12, 0.46) == between("lane", 0.46, 0.84) == {(i, i) for i in range(4)}


def test_all_that_goes_through_a_neck_goes_through_one_point():
    assert len(links("neck")) == 10 and all((0.5, 0.5) in pair for pair in links("neck"))


def test_a_fan_looks_at_every_place_and_at_one_most():
    dots, lines = PARTS["fan"]()
    looks = [line.width for line in lines if line.end == dots[-1]]
    assert len(looks) == 5 and sorted(looks)[-1] >= 2 * sorted(looks)[-2]


def test_in_a_complete_graph_every_two_are_joined_and_none_is_first():
    dots, lines = PARTS["complete"]()
    assert {frozenset(line[:2]) for line in lines} == {frozenset((a, b)) for a in dots for b in dots if a != b}
    assert len({dot._replace(x=0, y=0) for dot in dots}) == 1


def test_a_triangle_never_looks_to_the_right_and_a_full_square_does():
    assert between("triangle", 0.14, 0.86) == {(i, j) for i, j in EVERY if i <= j}
    assert between("full", 0.14, 0.86) == EVERY
    assert [dot.x for dot in PARTS["full"]()[0] if not dot.filled] == [0.5]  # the hidden one


def test_a_stack_joins_neighbouring_layers_and_a_grid_has_one_that_sees_all():
    below, above = between("stack", 0.09, 0.5), between("stack", 0.5, 0.91)
    assert below == above == {(i, j) for i in range(4) for j in range(4)}
    assert len(links("stack")) == 32
    dots, lines = PARTS["grid"]()
    assert (
        len(dots) == 9 and {line.end for line in lines} == {dots[-1]} and {line.start for line in lines} == {*dots[:-1]}
    )


@pytest.mark.parametrize("name", EMBLEMS)
def test_it_keeps_to_its_square_and_stands_out_from_paper(name):
    ax = plt.figure(figsize=(2, 2), layout="none").add_axes((0, 0, 1, 1), xlim=(0, 2), ylim=(0, 2))
    emblem(ax, name, (0.5, 0.5), 1.0)
    FigureCanvasAgg(ax.figure).draw()
    (shapes,) = [one for one in ax.collections if isinstance(one, PatchCollection)]
    for path in shapes.get_paths():
        places = path.vertices
        assert places.min() >= 0.5 - 1e-9 and places.max() <= 1.5 + 1e-9
    dots, _ = PARTS[name]()
    assert all(contrast(dot.colour, "#ffffff") >= 3 for dot in dots)


def test_the_row_points_at_the_lesson_that_is_meant():
    def drawn(here):
        (ax,) = course_row(here).axes
        return [tuple(one.get_edgecolor()[0]) for one in ax.collections], [text.get_text() for text in ax.texts]

    plain, names = drawn(None)
    meant, same_names = drawn(4)
    assert names == same_names == [f"{n:02d}\n{name}" for n, name in enumerate(EMBLEMS, 1)]
    kept = [i for i, (a, b) in enumerate(zip(plain, meant, strict=True)) if a == b]
    assert kept == [6, 7]  # the links and the dots of the fourth


def test_the_row_can_be_read_on_a_slide():
    (ax,) = course_row(1).axes
    figure = ax.figure
    FigureCanvasAgg(figure).draw()
    texts = [text.get_window_extent(figure.canvas.get_renderer()) for text in ax.texts]
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 for box in texts)
    assert not [1 for a, b in pairwise(texts) if a.overlaps(b)]
    wide = figure.get_size_inches()[0] * 100
    assert min(text.get_fontsize() for text in ax.texts) * 100 / 72 * min(1, 1168 / wide) >= 16
    plots.picture(figure, alt=f"The course; lesson 01 is {EMBLEMS['chain']}")


def test_what_is_not_there_is_refused_in_words():
    with pytest.raises(ValueError, match="no emblem 'star', only chain, lane, "):
        emblem(plt.figure(layout="none").add_axes((0, 0, 1, 1)), "star")
    for number in (0, 10):
        with pytest.raises(ValueError, match=f"lessons 1 to 9; got {number}"):
            course_row(number)


def test_pale_leaves_no_colour():
    ax = plt.figure(layout="none").add_axes((0, 0, 1, 1))
    emblem(ax, "full", pale=True)
    colours = {tuple(colour) for one in ax.collections for colour in one.get_edgecolor()}
    assert len(colours) == 1 and emblems.PALE.lower() == "#" + "".join(
        f"{round(255 * c):02x}" for c in colours.pop()[:3]
    )
