"""Attention views: a frame holds what was handed in, nothing in it can run or leave, and nonsense is refused."""

import base64
import gzip
import json
import re
import warnings
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from course_lib.show.attention_views import head_view, maps, model_view
from course_lib.show.letters import drawable, token_label
from course_lib.show.plots import attention, picture

UNRULY = [
    "<b>bold</b>",
    "</script>",
    "<script>x()</script>",
    "&amp;",
    "\"'`",
    "שלום",
    "مرحبا",
    "😀👩‍👧",
    "",
    " a\n",
    "$\\bad$",
    "\u202ex",
    "\ud800",
    "中文",
    "%(packed)s",
    "PYTHON_PARAMS",
]
WORDS = "The animal was tired .".split()


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def random_maps(layers=2, heads=3, n_queries=5, n_keys=None, seed=0):
    """What a model's attention gives: one tensor (1, heads, T_q, T_k) a layer, each row a softmax."""
    generator = torch.Generator().manual_seed(seed)
    shape = 1, heads, n_queries, n_keys or n_queries
    return [torch.softmax(2 * torch.randn(shape, generator=generator), -1) for _ in range(layers)]


class Tags(HTMLParser):
    """The tags of a piece of HTML, in order, with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def page(view):
    """The document in the view's frame."""
    [frame] = [attributes for tag, attributes in Tags(view._repr_html_()).found if tag == "iframe"]
    return frame["srcdoc"]


def script(view):
    """The script that the document unpacks."""
    return gzip.decompress(base64.b64decode(re.search(r'base64,([^"]+)"', page(view))[1])).decode()


def params(view):
    """What bertviz is handed, read back from the frame."""
    return json.loads(re.search(r"^window\.bertviz_params = (.*);$", script(view), re.MULTILINE)[1])


def every_view(tokens=WORDS):
    size = len(tokens)
    return {
        "head": head_view(random_maps(n_queries=size), tokens),
        "model": model_view(random_maps(n_queries=size), tokens),
    }


# --- what is shown is what was handed in


@pytest.mark.slow
@pytest.mark.parametrize("view", [head_view, model_view])
def test_a_frame_holds_the_weights_and_the_tokens(view):
    given = random_maps(layers=3)
    shown = params(view(given, WORDS, layers=[2, 0]))
    assert shown["include_layers"] == [2, 0]
    [one] = shown["attention"]
    assert one["left_text"] == one["right_text"] == WORDS
    np.testing.assert_allclose(one["attn"], torch.cat([given[2], given[0]]), atol=0.0005)


@pytest.mark.slow
def test_several_attentions_stand_in_one_view_by_name():
    encoder, decoder = random_maps(n_queries=5), random_maps(n_queries=3, seed=1)
    cross = random_maps(n_queries=3, n_keys=5, seed=2)
    view = head_view({"encoder": (encoder, WORDS), "decoder": (decoder, "abc"), "cross": (cross, "abc", WORDS)})
    shown = params(view)["attention"]
    assert [one["name"] for one in shown] == ["encoder", "decoder", "cross"]
    assert (shown[2]["left_text"], shown[2]["right_text"]) == (["a", "b", "c"], WORDS)
    assert np.shape(shown[2]["attn"]) == (2, 3, 3, 5)
    assert len(view.pictures) == 3
    assert [option for option in re.findall(r"<option[^>]*>(\w+)", page(view))] == ["encoder", "decoder", "cross"]


def test_a_model_view_keeps_the_heads_asked_for():
    given = random_maps(layers=1, heads=4)
    shown = params(model_view(given, WORDS, heads=[3, 1]))
    assert shown["include_heads"] == [3, 1]
    np.testing.assert_allclose(shown["attention"][0]["attn"], given[0][:, [3, 1]], atol=0.0005)


@pytest.mark.slow
def test_gradients_half_precision_and_arrays_are_taken():
    exact = random_maps(layers=1)[0]
    for given in (exact.clone().requires_grad_(), exact.bfloat16(), exact.double(), exact.numpy()):
        np.testing.assert_allclose(params(head_view(given, WORDS))["attention"][0]["attn"], exact, atol=0.005)


@pytest.mark.slow
def test_a_view_is_the_same_bytes_every_time():
    first, second = every_view(), every_view()
    assert all(first[kind]._repr_html_() == second[kind]._repr_html_() for kind in first)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["head", "model"])
def test_the_colours_below_and_above_zero_are_those_of_the_plots(kind):
    assert not re.search("#ff6318|#0c36d8", script(every_view()[kind]), re.IGNORECASE)


# --- nothing in it can run or leave


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["head", "model"])
def test_unruly_tokens_stay_text(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a glyph that the font lacks
        view = every_view(UNRULY)[kind]
    html = view._repr_html_()
    html.encode()  # a lone surrogate would stop a notebook from being saved
    outside = [tag for tag, _ in Tags(html).found]
    assert set(outside) == {"figure", "iframe", "span", "img", "figcaption"}
    assert outside.count("iframe") == 1 and outside.count("img") == len(view.pictures)
    inside = [tag for tag, _ in Tags(page(view)).found]
    assert inside.count("script") == 1 and not set(inside) & {"b", "img"}
    assert params(view)["attention"][0]["left_text"] == [token_label(token) for token in UNRULY]


def test_names_of_attentions_stay_text():
    name = "</option><script>x()</script>$\\bad$"
    view = model_view({name: (random_maps(), WORDS), "b": (random_maps(), WORDS)})
    assert [tag for tag, _ in Tags(page(view)).found].count("script") == 1
    assert {tag for tag, _ in Tags(view._repr_html_()).found} == {"figure", "iframe", "span", "img", "figcaption"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["head", "model"])
def test_nothing_is_loaded_from_anywhere(kind):
    view = every_view()[kind]
    for text in (view._repr_html_(), page(view)):
        for tag, attributes in Tags(text).found:
            source = attributes.get("src") or attributes.get("href") or "data:"
            assert source.startswith("data:"), f"<{tag}> loads {source[:60]}"
    [policy] = [a["content"] for tag, a in Tags(page(view)).found if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none';") and "http" not in policy
    [frame] = [attributes for tag, attributes in Tags(view._repr_html_()).found if tag == "iframe"]
    assert frame["sandbox"] == "allow-scripts"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["head", "model"])
def test_a_frame_is_named_and_every_picture_described(kind):
    tags = Tags(every_view()[kind]._repr_html_()).found
    assert [len(attributes["title"]) > 20 for tag, attributes in tags if tag == "iframe"] == [True]
    assert all(len(attributes["alt"]) > 40 for tag, attributes in tags if tag == "img")


@pytest.mark.slow
def test_the_picture_says_what_the_weights_say():
    weights = torch.full((1, 1, 5, 5), 0.2)
    weights[0, 0, 3] = torch.tensor([0.1, 0.6, 0.1, 0.1, 0.1])
    [still] = head_view([weights], WORDS).pictures
    assert "0.60, goes from tired to animal" in still.alt


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["head", "model"])
def test_a_view_is_small(kind):
    """Scripts and all: four of the usual size fit into a notebook of 1 MB."""
    assert len(every_view([f"word{i}" for i in range(14)])[kind]._repr_html_()) < 250_000


@pytest.mark.slow
def test_the_largest_view_still_leaves_room_in_a_notebook():
    size = int((maps.LARGEST / 16) ** 0.5)
    view = model_view(random_maps(layers=2, heads=8, n_queries=size), ["x"] * size)
    assert len(view._repr_html_()) < 700_000


# --- nonsense is refused, in words


def nan_maps():
    given = random_maps()
    given[1][0, 2, 3] = torch.nan
    return given


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((random_maps(), WORDS[:4]), "4 tokens for 5 queries"),
        ((random_maps(n_keys=7), WORDS), "5 tokens for 7 keys"),
        (([m[0] for m in random_maps()], WORDS), r"layer 0 has shape \(3, 5, 5\); expected \(1, heads, T, T\)"),
        (([torch.cat([m, m]) for m in random_maps()], WORDS), "one text at a time"),
        (([["not", "numbers"]], WORDS), "layer 0 has a list"),
        (([], WORDS), "one tensor"),
        ((None, WORDS), "got a NoneType"),
        (({}, None), "the dict is empty"),
        (({"a": (random_maps(), WORDS)}, WORDS), "tokens stand in it"),
        (({"a": random_maps()}, None), "must be"),
        (({"a": (random_maps(), WORDS), "b": (random_maps(3), WORDS)}, None), "same layers and heads"),
        ((random_maps(1) + random_maps(1, heads=2), WORDS), "equal shapes"),
        ((nan_maps(), WORDS), "layer 1, head 2, row 3 holds NaN"),
        (([m.log() for m in random_maps()], WORDS), "not be negative"),
        (([m * 2 for m in random_maps()], WORDS), r"add up to 2, not 1"),
        ((random_maps(8, 8, 60), ["x"] * 60), "at most 3 of the layers"),
        ((random_maps(1, 1, 320), ["x"] * 320), "shorter text"),
    ],
)
@pytest.mark.parametrize("view", [head_view, model_view])
def test_wrong_attention_is_refused(view, arguments, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        view(*arguments)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ({"layers": []}, "layers must be"),
        ({"layers": [2]}, "from 0 to 1"),
        ({"layers": [0, 0]}, "different"),
        ({"layers": 1}, "must be a list"),
        ({"layers": [0.0]}, "layers must be"),
        ({"heads": [-1]}, "heads must be"),
        ({"heads": [3]}, "from 0 to 2"),
        ({"layer": 1, "layers": [0]}, "one of"),
    ],
)
def test_wrong_choices_are_refused(named, sentence):
    with pytest.raises(ValueError, match=sentence):
        head_view(random_maps(), WORDS, **named)


@pytest.mark.parametrize("tokens", [None, [1, 2, 3, 4, 5], 5, b"bytes", [*WORDS[:4], None]])
@pytest.mark.parametrize("view", [head_view, model_view])
def test_tokens_that_are_no_text_are_refused(view, tokens):
    with pytest.raises(TypeError, match="text"):
        view(random_maps(), tokens)


def test_weights_that_do_not_add_up_are_shown_under_their_name():
    view = head_view([m * 4 for m in random_maps()], WORDS, unnormalised="weight times value norm")
    assert "weight times value norm" in view.how and "weight times value norm" in view.pictures[0].alt
    assert np.max(params(view)["attention"][0]["attn"]) == 1.0


def test_a_padded_row_of_zeros_is_let_through():
    given = random_maps()
    given[0][0, :, 4] = 0
    assert not np.any(np.array(params(head_view(given, WORDS))["attention"][0]["attn"])[0, :, 4])


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("course_lib.show.attention_views.frame.SCRIPTS", (("no_such.package", "a.js"),))
    with pytest.raises(ModuleNotFoundError, match=r"no_such\.package, which is not installed"):
        head_view(random_maps(), WORDS)


# --- the heat map itself


def test_a_heat_map_has_a_row_and_a_column_for_each_token():
    ax = attention(random_maps(1, 1, 3, 5)[0][0, 0], "abc", WORDS, title="T")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in ax.get_xticklabels()] == WORDS
    assert ax.images[0].get_array().shape == (3, 5)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 16, 30, 41, 90])
def test_names_in_a_heat_map_do_not_overlap(size):
    ax = attention(np.full((size, size), 1 / size), ["wordlike"] * size, ["wordlike"] * size)
    ax.figure.canvas.draw()
    for labels, low, high in ((ax.get_xticklabels(), "x0", "x1"), (ax.get_yticklabels(), "y1", "y0")):
        boxes = [label.get_window_extent() for label in labels]
        gaps = [
            abs(getattr(b, low) - getattr(a, low)) - abs(getattr(a, high) - getattr(a, low))
            for a, b in zip(boxes, boxes[1:], strict=False)
        ]
        assert min(gaps, default=0) > -0.5
    width, height = ax.figure.get_size_inches()
    assert width < 13 and height < 13


@pytest.mark.slow
def test_a_heat_map_draws_unruly_tokens_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        size = len(UNRULY)
        assert picture(attention(np.full((size, size), 1 / size), UNRULY, UNRULY), alt="unruly").png


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (np.ones((2, 2)), "got weights of shape"),
        (np.full((2, 3), np.nan), "finite"),
        (np.ones((0, 0)), "got weights"),
    ],
)
def test_a_heat_map_refuses_what_it_cannot_draw(weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        attention(weights, "ab", "abc")


@pytest.mark.parametrize(
    ("token", "seen"),
    [
        ("word", "word"),
        ("", "∅"),
        (" a b", "␣a␣b"),
        ("\n", "↵"),
        ("\t", "⇥"),
        ("\u202ex", "\ufffdx"),
        ("\ud800", "\ufffd"),
        ("\x00", "\ufffd"),
        ("exactlytwelv", "exactlytwelv"),
        ("thirteenchars", "thirteencha…"),
        ("👩‍👧", "👩‍👧"),
        ("é", "é"),
    ],
)
def test_every_token_can_be_seen(token, seen):
    assert token_label(token) == seen


def test_a_character_without_a_glyph_becomes_a_box():
    assert drawable("a中b") == "a□b"
