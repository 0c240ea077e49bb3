"""The still pictures beside the moving views: they say the same on paper, on a slide and where nothing may move."""

import numpy as np

from course_lib.show.attention_views.maps import Maps
from course_lib.show.letters import drawable
from course_lib.show.plots import GREY, Picture, attention, axes, heatmap, picture


def scaled(unnormalised: str) -> str:
    """The sentence that says what is drawn where weights do not add up to 1."""
    return f" Shown is {unnormalised}, divided by its largest value." if unnormalised else ""


def map_still(weights: np.ndarray, maps: Maps, where: str, unnormalised: str = "") -> Picture:
    """One map (T_q, T_k) as a picture whose text names what stands out in it."""
    row, column = np.unravel_index(weights.argmax(), weights.shape)
    alt = (
        f"Attention, {where}: {len(maps.queries)} rows that look, {len(maps.keys)} columns that are looked at."
        f"{scaled(unnormalised)} The largest weight, {weights[row, column]:.2f}, goes from {maps.queries[row]} to "
        f"{maps.keys[column]}."
    )
    return picture(attention(weights, maps.queries, maps.keys, title=_title(where)), alt=alt)


def mosaic_still(maps: Maps, layers: list[int], heads: list[int], name: str, unnormalised: str = "") -> Picture:
    """The maps of all layers and heads, a tile each."""
    rows, columns = len(maps.queries), len(maps.keys)
    tiles = maps.weights.transpose(0, 2, 1, 3).reshape(len(layers) * rows, len(heads) * columns)
    what = f"{name} attention, all layers and heads".strip()
    what = what[0].upper() + what[1:]
    tile = min(1.3, 9 / len(heads), 6 / len(layers))  # inches
    ax = axes(size=(max(3.6, tile * len(heads) + 0.7), max(1.2, tile * len(layers)) + 1.0))
    heatmap(tiles, ax, title=_title(what), xlabel="head", ylabel="layer", limit=float(maps.weights.max()) or 1.0)
    ax.set_xticks([(i + 0.5) * columns - 0.5 for i in range(len(heads))], heads)
    ax.set_yticks([(i + 0.5) * rows - 0.5 for i in range(len(layers))], layers)
    for i in range(1, len(heads)):
        ax.axvline(i * columns - 0.5, color=GREY, linewidth=1.5, linestyle="-")
    for i in range(1, len(layers)):
        ax.axhline(i * rows - 0.5, color=GREY, linewidth=1.5, linestyle="-")
    layer, head, row, column = np.unravel_index(maps.weights.argmax(), maps.weights.shape)
    alt = (
        f"{what}: {len(layers)} rows of {len(heads)} maps.{scaled(unnormalised)} The largest weight, "
        f"{maps.weights.max():.2f}, is in layer {layers[layer]}, head {heads[head]}, from {maps.queries[row]} to "
        f"{maps.keys[column]}."
    )
    return picture(ax, alt=alt)


def _title(what: str) -> str:
    """Capital first letter; nothing in a name is taken for a formula."""
    return drawable(what[0].upper() + what[1:]).replace("$", r"\$")
