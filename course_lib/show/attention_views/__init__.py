"""bertviz's head and model views of attention, from tensors of any model, with no network, each beside a still picture.

    head_view(weights, tokens)                              # self-attention: a list, one (1, heads, T, T) a layer
    head_view(weights, target_tokens, source_tokens)        # attention of one text to another
    model_view({"encoder": (weights, tokens), "cross": (weights, target_tokens, source_tokens)})

It is the cell's last line. Layers and heads count from 0. A text stands for its characters.
Vig, J. (2019): A Multiscale Visualization of Attention in the Transformer Model.
"""

import html
import math
from collections.abc import Mapping, Sequence

from course_lib.show.attention_views.frame import framed
from course_lib.show.attention_views.maps import Maps, bounded, chosen, kinds, rounded
from course_lib.show.attention_views.stills import map_still, mosaic_still, scaled
from course_lib.show.plots import Picture

# Sizes in pixels that bertviz draws with, read off its scripts; the browser tests hold the frames to them.
HEAD_ROW, HEAD_TOP, HEAD_WIDTH = 22.5, 30, 345
MODEL_WIDTH, MODEL_AXES, DETAIL_ROW, DETAIL_EDGE, DETAIL_WIDTH = 970, 38, 18, 58, 310
TRUST = "Where only the picture shows, run this cell: Jupyter keeps moving parts back until a notebook is trusted."


class View:
    """A moving view and the still pictures that say the same where nothing may move, under a line on how to use it."""

    def __init__(self, frame: str, pictures: list[Picture], how: str):
        self.frame, self.pictures, self.how = frame, pictures, how

    def _repr_html_(self) -> str:
        stills = "".join(still._repr_html_() for still in self.pictures)
        how = html.escape(f"{self.how} {TRUST}")
        return (
            '<figure class="attention-view" style="margin:0;display:flex;flex-wrap:wrap;gap:8px;'
            f'align-items:flex-start">{self.frame}'
            f'<span class="attention-still" style="flex:1 1 400px;min-width:0">{stills}</span>'
            f'<figcaption style="flex-basis:100%;font-size:.9em">{how}</figcaption></figure>'
        )

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.pictures))


def head_view(
    weights,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    layers: Sequence[int] | None = None,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    unnormalised: str = "",
) -> View:
    """Lines from each token to the tokens it attends to, one layer at a time, a colour a head (bertviz's head view).

    layers: those kept (all); layer: the first one shown; heads: those lit at first. unnormalised: what weights that do
    not add up to 1 are; the largest then counts as 1. Raises ValueError or TypeError in words for what does not fit.
    """
    maps, kept = kinds(weights, queries, keys, layers, unnormalised)
    first = next(iter(maps.values()))
    lit = chosen(heads, first.weights.shape[1], "heads")
    layer = kept[0] if layer is None else layer
    if layer not in kept:
        raise ValueError(f"layer is the one shown first, one of {kept}; got {layer}.")
    params = {
        "attention": _attention(maps),
        "default_filter": "0",
        "layer": layer,
        "heads": lit,
        "include_layers": kept,
    }
    height = math.ceil(max(max(len(m.queries), len(m.keys)) for m in maps.values()) * HEAD_ROW + HEAD_TOP)
    menus = {"layer": ("Layer", []), **_kinds_menu(maps)}
    at, of = kept.index(layer), f"mean of {len(lit)} heads" if len(lit) > 1 else f"head {lit[0]}"
    stills = [
        map_still(m.weights[at, lit].mean(0), m, f"{name} layer {layer}, {of}".strip(), unnormalised)
        for name, m in maps.items()
    ]
    title = f"Head view of attention: {_count(first)}"
    how = (
        "Point at a token on the left to see where it looks, on the right to see who looks at it. Each colour is a "
        f"head: a click switches it off and on, a double click leaves it alone.{scaled(unnormalised)}"
    )
    return View(
        framed(
            "head", params, title=title, menus=menus, height=height, width=max(HEAD_WIDTH, 20 * first.weights.shape[1])
        ),
        stills,
        how,
    )


def model_view(
    weights,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    unnormalised: str = "",
) -> View:
    """A small drawing for every head of every layer; a click opens one (bertviz's model view). Arguments as head_view.

    heads: those kept (all).
    """
    maps, kept = kinds(weights, queries, keys, layers, unnormalised)
    shown = chosen(heads, next(iter(maps.values())).weights.shape[1], "heads")
    maps = {name: m._replace(weights=m.weights[:, shown]) for name, m in maps.items()}
    longest = max(max(len(m.queries), len(m.keys)) for m in maps.values())
    # bertviz makes the drawings higher the fewer heads there are; claiming more heads keeps the whole on one screen.
    wanted = math.ceil(84 * longest * len(kept) / max(560 - 10 * len(kept), 100))
    columns = max(len(shown), min(wanted, 16))
    height = max(len(kept) * (longest * 84 / columns + 10) + MODEL_AXES, longest * DETAIL_ROW + DETAIL_EDGE)
    params = {
        "attention": _attention(maps),
        "default_filter": "0",
        "display_mode": "light",
        "include_layers": kept,
        "include_heads": shown,
        "total_heads": columns,
    }
    first = next(iter(maps.values()))
    stills = [mosaic_still(m, kept, shown, name, unnormalised) for name, m in maps.items()]
    # As wide as the drawings and the window that a click on the last one opens to its right, where there is room.
    each = (MODEL_WIDTH - MODEL_AXES) / columns
    width = math.ceil(min(MODEL_WIDTH, MODEL_AXES + (len(shown) - 0.2) * each + DETAIL_WIDTH))
    how = f"Rows are layers, columns heads. Click one to read it token by token.{scaled(unnormalised)}"
    return View(
        framed(
            "model",
            params,
            title=f"Model view of attention: {_count(first)}",
            menus=_kinds_menu(maps),
            width=width,
            height=math.ceil(height),
        ),
        stills,
        how,
    )


def _attention(maps: Mapping[str, Maps]) -> list[dict]:
    size = sum(m.weights.size for m in maps.values())
    bounded(size, size // len(next(iter(maps.values())).weights))
    return [
        {"name": name or None, "attn": rounded(m.weights), "left_text": m.queries, "right_text": m.keys}
        for name, m in maps.items()
    ]


def _kinds_menu(maps: Mapping[str, Maps]) -> dict[str, tuple[str, list[str]]]:
    return {"filter": ("Attention", list(maps))} if len(maps) > 1 else {}


def _count(maps: Maps) -> str:
    layers, heads = maps.weights.shape[:2]
    length = f"{len(maps.queries)} tokens"
    if maps.queries != maps.keys:
        length = f"{len(maps.queries)} queries, {len(maps.keys)} keys"
    return f"layers: {layers}, heads: {heads}, {length}"
