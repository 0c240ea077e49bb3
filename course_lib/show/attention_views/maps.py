"""What a view is given, checked: tensors of any model, one a layer, and the tokens that they belong to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from course_lib.show.letters import token_label

LARGEST = 100_000  # numbers in one view: 0.15 MB in the notebook beside the 0.2 MB that any view takes
DECIMALS = 3  # a weight is drawn as the strength of a line, which shows no more than 256 shades
ROW_SUM = 0.02  # how far from 1 the weights of a row may be; half precision and rounding stay well below


class Maps(NamedTuple):
    """One kind of attention: weights (layers, heads, T_q, T_k), and the tokens as they are shown."""

    weights: np.ndarray
    queries: list[str]
    keys: list[str]


def kinds(weights, queries, keys, layers, unnormalised: str) -> tuple[dict[str, Maps], list[int]]:
    """Every kind of attention by its name ("" where there is only one), and the numbers of the layers kept."""
    if not isinstance(weights, Mapping):
        weights, keys = {"": (weights, queries, queries if keys is None else keys)}, None
    elif queries is not None or keys is not None:
        raise ValueError(
            "With a dict of attentions the tokens stand in it: "
            '{"encoder": (weights, tokens), "cross": (weights, query_tokens, key_tokens)}.'
        )
    if not weights:
        raise ValueError("No attention to show: the dict is empty.")
    read, kept = {}, None
    for name, entry in weights.items():
        if not isinstance(entry, tuple) or len(entry) not in (2, 3):
            raise ValueError(f"Attention {name!r} must be (weights, tokens) or (weights, query_tokens, key_tokens).")
        values, numbers = layered(entry[0], f"attention {name!r}" if name else "the attention", layers)
        kept = kept or numbers
        first = next(iter(read.values()), None)
        if first and values.shape[:2] != first.weights.shape[:2]:
            raise ValueError(
                f"Attentions in one view need the same layers and heads: {name!r} has {values.shape[0]} "
                f"and {values.shape[1]}, not {first.weights.shape[0]} and {first.weights.shape[1]}. "
                "Choose layers=... that all of them have, or make a view for each."
            )
        sides = [tokens(entry[1]), tokens(entry[-1])]
        for side, length, role in zip(sides, values.shape[2:], ("queries", "keys"), strict=True):
            match(len(side), length, role, name)
        read[str(name)] = Maps(as_shares(values, numbers, sides[0], unnormalised), *sides)
    return read, kept


def layered(given, what: str, layers: Sequence[int] | None) -> tuple[np.ndarray, list[int]]:
    """(layers, heads, T, ...) from one tensor (1, heads, T, ...) a layer, and the numbers of the layers kept."""
    each = [given] if getattr(given, "ndim", 0) == 4 else list(given) if isinstance(given, list | tuple) else None
    if not each:
        raise ValueError(f"For {what}, give a list with one tensor (1, heads, T, T) a layer; got {_shape(given)}.")
    numbers = chosen(layers, len(each), "layers")
    arrays = []
    for number in numbers:
        array = _array(each[number])
        if array is None or array.ndim != 4 or array.shape[0] != 1 or 0 in array.shape:
            raise ValueError(
                f"For {what}, layer {number} has {_shape(each[number])}; expected (1, heads, T, T): "
                "one text at a time (weights[:1]), with the batch dimension kept (weights[None])."
            )
        if not np.isfinite(array).all():
            head, row = np.argwhere(~np.isfinite(array[0]))[0][:2]
            raise ValueError(
                f"For {what}, layer {number}, head {head}, row {row} holds NaN or infinity: a row with "
                "every key masked gives NaN in a softmax; scores before the softmax hold -inf."
            )
        if arrays and array.shape != arrays[0].shape:
            raise ValueError(
                f"For {what}, layer {number} has shape {array.shape}, layer {numbers[0]} has "
                f"{arrays[0].shape}: one view needs equal shapes. Choose layers=... that agree."
            )
        arrays.append(array)
    return np.concatenate(arrays), numbers


def chosen(numbers: Sequence[int] | None, count: int, what: str) -> list[int]:
    """The numbers asked for, all `count` of them for None; ValueError for any that is not there, or there twice."""
    every = range(count)
    if numbers is None:
        return list(every)
    wanted = list(numbers) if isinstance(numbers, Iterable) else []
    if (
        not wanted
        or any(not isinstance(n, int | np.integer) or n not in every for n in wanted)
        or (len(set(wanted)) < len(wanted))
    ):
        raise ValueError(
            f"{what} must be a list of different numbers from 0 to {count - 1}, at least one; got {numbers!r}."
        )
    return [int(n) for n in wanted]


def tokens(side: Sequence[str]) -> list[str]:
    """The tokens as a view shows them; a text stands for its characters. Raises TypeError for what is no text."""
    if side is None or isinstance(side, bytes) or not hasattr(side, "__len__"):
        raise TypeError(f"Tokens are a list of texts, one for each position, or a text; got {side!r}.")
    return [token_label(token) for token in side]


def match(tokens: int, positions: int, role: str, name: str = "") -> None:
    """ValueError unless there are as many tokens as positions."""
    if tokens != positions:
        where = f" of attention {name!r}" if name else ""
        raise ValueError(
            f"{tokens} tokens for {positions} {role}{where}: each position needs its token, also the "
            "special ones that a tokenizer adds (start, end, padding)."
        )


def as_shares(values: np.ndarray, numbers: list[int], queries: list[str], unnormalised: str) -> np.ndarray:
    """Weights between 0 and 1; unless the caller says what they are, each row must add up to 1, or be all zero."""
    if values.min() < 0:
        raise ValueError(
            f"Weights must not be negative; the smallest is {values.min():.3g}. "
            "These look like scores: show their softmax."
        )
    if unnormalised:
        return values / max(values.max(), 1e-12)
    sums = values.sum(-1)
    wrong = np.argwhere((np.abs(sums - 1) > ROW_SUM) & (sums > 0))
    if len(wrong):
        layer, head, row = wrong[0]
        raise ValueError(
            f"Layer {numbers[layer]}, head {head}, row {row} ({queries[row]}): the weights add up to "
            f"{sums[layer, head, row]:.3g}, not 1. Switch dropout off (model.eval()) and show softmax; "
            'if they are meant to be so, say what they are: unnormalised="weight times value norm".'
        )
    return values


def bounded(count: int, of_one_layer: int) -> None:
    """ValueError with advice when a view would hold too many numbers."""
    if count > LARGEST:
        fit = LARGEST // of_one_layer
        advice = f"show at most {fit} of the layers (layers=[0])" if fit else "take a shorter text"
        raise ValueError(
            f"This view would hold {count:,} numbers, and {LARGEST:,} is the most that a notebook should "
            f"keep and a browser can draw at once: {advice}, or use fewer tokens or heads."
        )


def rounded(values: np.ndarray) -> list:
    """Nested lists, rounded, with whole numbers short."""
    return np.round(values.astype(np.float64), DECIMALS).tolist()


def _array(value) -> np.ndarray | None:
    """A tensor of any device and precision, or an array, as float64; None for anything else."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().float().numpy()
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return None


def _shape(value) -> str:
    return f"shape {tuple(value.shape)}" if hasattr(value, "shape") else f"a {type(value).__name__}"
