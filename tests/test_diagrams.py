"""Declared drawings: the figures that lessons need, and random ones; nothing overlaps, is cut off or too small."""

import random
from itertools import combinations, pairwise

import matplotlib.pyplot as plt
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from test_plots import contrast

from course_lib.show import plots
from course_lib.show.diagrams import arrow, box, chain, draw, drawing, frame, grid, plan, plus, row, stack, words
from course_lib.show.diagrams.layout import NOTE, TEXT
from course_lib.show.diagrams.routes import Rect
from course_lib.show.plots import GREEN, GREY, ORANGE, picture


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


# --- what lessons draw: a layout and its arrows


def attention_head():
    layout = grid(
        [words("x", "$x$")],
        [box("q", "$W_q$"), box("k", "$W_k$"), box("v", "$W_v$")],
        [box("bias", colour=ORANGE), box("scores"), None],
        [None, box("softmax"), None],
        [None, box("sum", "weighted sum", GREEN), None],
        [words("out", "one vector a token")],
        gap=(24, 36),
    )
    in_and_out = [arrow("x", "q"), arrow("x", "k"), arrow("x", "v"), *chain("scores", "softmax", "sum", "out")]
    turned = [arrow("q", "scores", "turn"), arrow("k", "scores", "turn")]
    return layout, [*in_and_out, *turned, arrow("bias", "scores", colour=ORANGE), arrow("v", "sum")]


def position_schemes():
    cards, arrows = [], []
    for scheme, adds, to in [("sinusoids", "sin, cos", "input"), ("learned", "table", "input"),
                             ("rotary", "turn", "q, k"), ("bias", "distance", "scores")]:  # fmt: skip
        column = {level: f"{level} of {scheme}" for level in ("input", "q, k", "scores")}
        rows = [[box(name, level, GREY), box(scheme, adds, ORANGE) if level == to else None]
                for level, name in column.items()]  # fmt: skip
        cards.append(frame(f"card of {scheme}", grid(*rows), scheme))
        arrows += [*chain(*column.values()), arrow(scheme, column[to], colour=ORANGE)]
    return row(*cards), arrows


def blocks():
    cards, arrows = [], []
    for kind, order in (("pre", "norm f + norm g +"), ("post", "f + norm g + norm")):
        parts, came, made = [words(f"{kind} x", "$x$")], f"{kind} x", {"norm": "layer norm", "f": "attention"}
        for k, part in enumerate(order.split()):
            name = f"{kind} {k}"
            parts.append(plus(name) if part == "+" else box(name, made.get(part, "feed-forward"), GREY))
            if part == "+":
                arrows.append(arrow(came, name, side="right", colour=ORANGE))
            if part == ("+" if kind == "pre" else "norm"):
                came = name
        parts.append(words(f"{kind} y", "$y$"))
        arrows += chain(*(part.name for part in parts))
        cards.append(frame(kind, stack(*parts, gap=20), f"{kind}-norm"))
    return row(*cards), arrows


def transformer():
    def half(side, where, *parts):
        boxes = [
            made for part in parts for made in (box(f"{side} {part}", part), box(f"{side} norm {part}", "add & norm"))
        ]
        names = [f"{side} words", f"{side} embedding", *(made.name for made in boxes)]
        skips = zip(["embedding", *(f"norm {part}" for part in parts)], parts, strict=False)
        around = [arrow(f"{side} {start}", f"{side} norm {part}", side=where) for start, part in skips]
        below = [words(names[0]), box(names[1], "embedding + positions", GREY)]
        return [*below, frame(side, stack(*boxes, gap=16), "N ×", side=where)], [*chain(*names), *around]

    encoder, up = half("encoder", "left", "self-attention", "feed-forward")
    decoder, down = half("decoder", "right", "masked self-attention", "cross-attention", "feed-forward")
    layout = row(stack(*encoder, gap=16), stack(*decoder, box("linear + softmax"), gap=16), align="bottom", gap=48)
    cross = arrow("encoder norm feed-forward", "decoder cross-attention", side="left", colour=ORANGE)
    return layout, [*up, *down, arrow("decoder norm feed-forward", "linear + softmax"), cross]


def unrolled():
    steps = range(1, 6)
    layout = grid(
        [box(f"x{t}", f"$x_{t}$", GREY) for t in steps],
        [box(f"h{t}", f"$h_{t}$") for t in steps],
        [box(f"y{t}", f"$y_{t}$", ORANGE) if t > 2 else None for t in steps],
    )
    return layout, [*chain(*(f"h{t}" for t in steps)), *(arrow(f"x{t}", f"h{t}") for t in steps),
                    *(arrow(f"h{t}", f"y{t}") for t in steps if t > 2)]  # fmt: skip


def vision_transformer():
    patches = [[box(f"patch {3 * r + c}", str(3 * r + c), GREY) for c in (1, 2, 3)] for r in (2, 1, 0)]
    tokens = [box("[CLS]", colour=ORANGE), *(box(f"token {k}", str(k), GREY) for k in range(1, 5)), words("…")]
    row_of_tokens = frame("tokens", row(*tokens, gap=12), "patches, + positions", side="bottom")
    layout = row(
        frame("image", grid(*patches, gap=4)),
        stack(row_of_tokens, box("encoder", "encoder: N blocks", wide=True), box("head", colour=GREEN), words("class")),
        gap=130,
        align="bottom",
    )
    up = [arrow(token.name, "encoder") for token in tokens[:-1]]
    return layout, [arrow("image", "tokens", "flatten, linear"), *up, *chain("encoder", "head", "class")]


FIGURES = [attention_head, position_schemes, blocks, transformer, unrolled, vision_transformer]


def random_tree(rng, names, depth):
    """A layout of at most `depth` levels; its boxes' and sums' names are added to `names`."""
    kind = rng.choice(["row", "stack", "grid", "frame"]) if depth else "leaf"
    if kind == "leaf":
        names.append(f"box {len(names)}")
        label = rng.choice(["x", "softmax", "a longer label", "two\nlines", r"$\sqrt{d}$", "", "$5 & <b> 日"])
        return rng.choice([box, box, words, plus])(names[-1], label)
    if kind == "frame":
        inside = random_tree(rng, names, depth - 1)
        side = rng.choice(["top", "right", "bottom", "left"])
        return frame(f"frame {len(names)} {depth}", inside, rng.choice(["", "N ×", "a card"]), side=side)
    parts = [random_tree(rng, names, depth - 1) for _ in range(4 if kind == "grid" else rng.randint(1, 3))]
    return (
        grid(parts[:2], [parts[2], None], parts[3:]) if kind == "grid" else {"row": row, "stack": stack}[kind](*parts)
    )


def random_drawing(seed):
    rng, names = random.Random(seed), []
    layout = random_tree(rng, names, rng.randint(1, 3))
    rng.shuffle(names)
    return layout, chain(*names[:9])


EVERY = [*FIGURES, *(pytest.param(lambda seed=seed: random_drawing(seed), id=f"random {seed}") for seed in range(24))]

# --- properties


def on_border(point, place):
    (x, y), (x0, y0, x1, y1) = point, place
    return (x in (x0, x1) and y0 <= y <= y1) or (y in (y0, y1) and x0 <= x <= x1)


def holds(outer, inner):
    return outer.x0 <= inner.x0 and outer.y0 <= inner.y0 and inner.x1 <= outer.x1 and inner.y1 <= outer.y1


def pieces(path):
    return [Rect(min(a[0], b[0]), min(a[1], b[1]), max(a[0], b[0]), max(a[1], b[1])) for a, b in pairwise(path)]


@pytest.mark.slow
@pytest.mark.parametrize("figure", EVERY)
def test_boxes_stand_apart_and_lines_keep_off_them(figure):
    layout, arrows = figure()
    drawn = plan(layout, arrows)
    solid = [item for item in drawn.placed if item.kind != "frame"]
    frames = [item.place for item in drawn.placed if item.kind == "frame"]
    assert not [(a.name, b.name) for a, b in combinations(solid, 2) if a.place.meets(b.place)]
    for card, other in ((card, item.place) for card in frames for item in drawn.placed if item.place != card):
        assert holds(card, other) or holds(other, card) or not card.meets(other)

    ends = {item.name: item.place for item in drawn.placed if item.kind != "label"}
    assert len(drawn.lines) == len(arrows)
    for one, path in drawn.lines:
        assert on_border(path[0], ends[one.start]) and on_border(path[-1], ends[one.end])
        assert (
            not one.side
            or dict(zip(("left", "bottom", "right", "top"), ends[one.end], strict=True))[one.side] in path[-1]
        )
        assert all((a[0] == b[0]) != (a[1] == b[1]) for a, b in pairwise(path))  # upright or level
        assert not [(one, item) for item in solid for line in pieces(path) if line.meets(item.place)]
    for (one, path), (other, way) in combinations(drawn.lines, 2):
        if one.start != other.start:  # two lines cross in a point; they never run side by side, or one on the other
            for a, b in ((a, b) for a in pieces(path) for b in pieces(way) if (a.x0 == a.x1) == (b.x0 == b.x1)):
                assert not a.meets(b, 4)
    for k, (_, place) in enumerate(drawn.notes):
        others = [*(item.place for item in solid), *(note for _, note in drawn.notes[:k])]
        assert not [
            other for other in others + [p for _, path in drawn.lines for p in pieces(path)] if place.meets(other)
        ]
    everything = [*(item.place for item in drawn.placed), *(note for _, note in drawn.notes)]
    assert all(holds(drawn.extent, place) for place in everything)


@pytest.mark.parametrize("figure", EVERY[:14])
def test_text_stays_in_its_box_and_the_drawing_in_its_figure(figure, monkeypatch):
    monkeypatch.setattr(drawing, "READABLE", 0)  # random ones may be as large as they like
    layout, arrows = figure()
    ax = draw(layout, arrows, title="A title that may be longer than the drawing")
    ax.figure.set_dpi(140)
    renderer = FigureCanvasAgg(ax.figure).get_renderer()
    page = Rect(*ax.figure.bbox.extents)
    drawn = plan(layout, arrows)
    boxes = {item.name: item for item in drawn.placed if item.kind != "label"}
    shapes = {patch.get_gid(): Rect(*patch.get_window_extent(renderer).extents) for patch in ax.patches}
    assert len(ax.patches) == len(arrows) + sum(item.kind != "words" for item in boxes.values())
    assert all(holds(page, shape) for shape in shapes.values())
    texts = [Rect(*text.get_window_extent(renderer).extents) for text in ax.texts if text.get_text()]
    assert all(holds(page, text) for text in [*texts, Rect(*ax.title.get_window_extent(renderer).extents)])
    assert not [pair for pair in combinations(texts, 2) if pair[0].meets(pair[1])]
    for text in ax.texts:
        if text.get_gid() in shapes and boxes[text.get_gid()].kind != "frame":
            assert holds(shapes[text.get_gid()], Rect(*text.get_window_extent(renderer).extents))
    assert {text.get_fontsize() for text in ax.texts} <= {TEXT, NOTE}


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_of_a_lesson_is_readable_on_a_slide(figure):
    ax = draw(*figure())
    wide, high = ax.figure.get_size_inches() * 100  # pixels in which a page shows it
    smallest = min(text.get_fontsize() for text in ax.texts) * 100 / 72
    assert smallest * min(1168 / wide, 606 / high) >= 16


def test_text_on_a_card_can_be_read():
    assert contrast(plots.INK, drawing.CARD_FILL) >= 4.5


# --- the ways that a reader expects


def corners(layout, arrows):
    return {(one.start, one.end): path for one, path in plan(layout, arrows).lines}


def test_neighbours_are_joined_by_straight_lines():
    assert all(len(path) == 2 for path in corners(*unrolled()).values())


def test_what_leaves_a_box_leaves_it_in_one_place():
    paths = corners(*attention_head())
    assert len({paths["x", end][0] for end in "qkv"}) == 1
    assert paths["q", "scores"][-1] != paths["k", "scores"][-1]  # but two things arrive in two places


def test_a_residual_path_goes_round_what_it_skips():
    layout = stack(box("x"), box("f"), plus("sum"))
    drawn = plan(layout, [*chain("x", "f", "sum"), arrow("x", "sum", side="right")])
    skipped = next(item.place for item in drawn.placed if item.name == "f")
    path = next(path for one, path in drawn.lines if (one.start, one.end) == ("x", "sum"))
    assert max(x for x, _ in path) > skipped.x1 and path[-1][1] == path[-2][1]


def test_boxes_of_a_row_are_of_one_size_and_a_stack_has_one_middle():
    placed = {item.name: item.place for item in plan(attention_head()[0]).placed}
    assert len({(place.x1 - place.x0, place.y1 - place.y0) for name, place in placed.items() if name in "qkv"}) == 1
    assert len({placed[name].middle[0] for name in ("x", "k", "scores", "softmax", "sum", "out")}) == 1
    assert placed["x"].y1 < placed["q"].y0 < placed["scores"].y0


def test_a_wide_box_is_as_wide_as_its_column():
    placed = {item.name: item.place for item in plan(vision_transformer()[0]).placed if item.kind != "label"}
    assert (placed["encoder"].x0, placed["encoder"].x1) == (placed["tokens"].x0, placed["tokens"].x1)


@pytest.mark.parametrize("align", ["top", "middle", "bottom"])
def test_a_row_is_aligned(align):
    placed = {item.name: item.place for item in plan(row(stack(box("a"), box("b")), words("c"), align=align)).placed}
    low, high = placed["c"].y0 - placed["a"].y0, placed["b"].y1 - placed["c"].y1
    assert {"top": high == 0 < low, "middle": low == high > 0, "bottom": low == 0 < high}[align]


@pytest.mark.slow
def test_it_is_drawn_in_the_middle_of_axes_at_its_own_size():
    layout, arrows = attention_head()
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 6))
    assert draw(layout, arrows, left, title="One head") is left
    plots.lines([1, 2], {"y": [1, 2]}, right, xlabel="x", ylabel="a label that takes room")
    picture(figure, alt="One head beside a line.")
    renderer = FigureCanvasAgg(figure).get_renderer()
    shapes = [Rect(*patch.get_window_extent(renderer).extents) for patch in left.patches]
    assert all(holds(Rect(*left.get_window_extent().extents), shape) for shape in shapes)
    assert {text.get_fontsize() for text in left.texts} == {TEXT, NOTE}


# --- refusals


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: draw(row(box("a"), box("a"))), "'a' is there 2 times"),
        (lambda: draw(frame("a", box("a"))), "'a' is there 2 times"),
        (lambda: draw(row(box("a"), box("b")), [arrow("a", "c")]), "no 'c' for the arrow from 'a' to 'c', only 'a'"),
        (lambda: draw(row(box("a"), box("b")), chain("c", "a")), "no 'c'"),
        (lambda: draw(box("a"), [arrow("a", "a")]), "'a' to itself"),
        (lambda: draw(row(box("a"), box("b")), 2 * chain("a", "b")), "there are 2"),
        (lambda: draw(frame("f", box("a")), chain("a", "f")), "'a' stands in 'f'"),
        (lambda: arrow("a", "b", side="above"), "side must be one of 'right', 'left', 'top', 'bottom'; got 'above'"),
        (lambda: frame("a", box("b"), side="under"), "got 'under'"),
        (lambda: row(box("a"), align="left"), "got 'left'"),
        (lambda: row(), "rows of 0"),
        (lambda: grid([box("a"), box("b")], [None, None, None]), "rows of 2, 3"),
        (lambda: stack(box("a"), gap=-1), "gap must be whole points"),
        (lambda: draw(box("a", r"$\frac{1$")), "cannot be set"),
        (lambda: draw(row(box("a"), box("b"), gap=4), [arrow("a", "b", "a note")]), "no room for the note 'a note'"),
        (lambda: draw(stack(box("a"), box("b"), box("c"), gap=2), [arrow("a", "c", side="bottom")]), "No free way"),
        (lambda: draw(stack(*(box(str(k)) for k in range(30)))), "pixels high, and 16 are needed"),
        (lambda: draw(*attention_head(), plt.subplots(figsize=(3, 3))[1]), "needs Axes of"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused_in_a_sentence(wrong, said):
    with pytest.raises(ValueError) as refused:
        wrong()
    assert said in str(refused.value) and str(refused.value).endswith(".")


@pytest.mark.parametrize("wrong", [lambda: row("a"), lambda: frame("a", "b"), lambda: draw(box("a", 5))])
def test_what_is_no_layout_and_no_text_is_refused(wrong):
    with pytest.raises(TypeError, match="got"):
        wrong()
