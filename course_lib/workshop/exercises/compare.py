"""Whether two results are the same, and what a result is, in words."""

import itertools
import math
import numbers as number_types
from collections.abc import Iterator

import torch
from torch import Tensor

SINGLE_TOLERANCE = 1e-4  # of a tensor in single precision, and of a number that was computed in it


def is_number(value) -> bool:
    """Whether it is one real number: a Python or NumPy one, or a tensor without dimensions; no truth value."""
    if isinstance(value, Tensor):
        return value.shape == () and not value.is_complex() and value.dtype != torch.bool
    return isinstance(value, number_types.Real) and not isinstance(value, bool)


def same(a, b, tolerance: float = 1e-6) -> bool:
    """Whether two results hold the same, but for rounding; two NaN at one position are the same, an error is its type.

    One number is one number, be it a float, a tensor without dimensions or in another precision. A tensor of real
    numbers has its dtype; one of whole numbers may hold them in 32 bits or in 64.
    """
    if is_number(a) and is_number(b):
        tolerance = max(tolerance, _tolerance(a), _tolerance(b))
        a, b = (float(number.detach() if isinstance(number, Tensor) else number) for number in (a, b))
        return a == b or a != a and b != b or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.shape != b.shape or _dtype(a) != _dtype(b):
            return False
        if not a.is_floating_point():
            return bool((a == b).all())
        tolerance = SINGLE_TOLERANCE if a.dtype == torch.float32 else tolerance
        return torch.allclose(a, b, atol=tolerance, rtol=10 * tolerance, equal_nan=True)
    if isinstance(a, Exception) or isinstance(b, Exception):
        return type(a) is type(b)
    if isinstance(a, (list, tuple, Iterator)) and isinstance(b, (list, tuple)):
        nothing = object()
        return all(same(x, y, tolerance) for x, y in itertools.zip_longest(a, b, fillvalue=nothing))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key], tolerance) for key in b)
    return type(a) is type(b) and isinstance(a, str | bool) and a == b


def _tolerance(number):
    """What rounding may do to a number: more in a tensor of single precision."""
    return SINGLE_TOLERANCE / 10 if isinstance(number, Tensor) and number.dtype == torch.float32 else 0.0


def _dtype(tensor):
    """The dtype, but one for whole numbers of all sizes."""
    real = tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool
    return tensor.dtype if real else "whole"


def described(value) -> str:
    """What a value is, for a sentence: "a tensor of shape (2, 3), float32", "a list of 0", "the int 7", "None"."""
    try:
        return _described(value)
    except Exception:  # a nested tensor has no shape, an int of 5,000 digits no text, and some objects only raise
        return f"a {type(value).__name__}"


def _described(value):
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}, {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, (list, tuple)) and value and all(isinstance(part, Tensor) for part in value):
        return f"a {type(value).__name__}: {' and '.join(map(_described, value))}"
    if isinstance(value, (list, tuple, set, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, bool | int | float | complex | str):
        text = repr(value)
        return f"the {type(value).__name__} {text if len(text) <= 40 else text[:40] + '…'}"
    return "None" if value is None else f"a {type(value).__name__}"


def misfit(got, right) -> tuple[str, str] | None:
    """The two in words where they differ in kind, shape or dtype; None where they differ in their numbers alone."""
    if is_number(right):
        fits = is_number(got)
    elif isinstance(right, Tensor):
        fits = isinstance(got, Tensor) and (got.shape, _dtype(got)) == (right.shape, _dtype(right))
    elif isinstance(right, (list, tuple)):
        fits = isinstance(got, (list, tuple))
        if fits and not all(map(is_number, right)):  # a list of numbers may have any length
            parts = [misfit(*pair) for pair in zip(got, right, strict=False)]
            fits = len(got) == len(right) and not any(parts)
            if not fits and isinstance(right[0], list):
                return next(filter(None, parts), None)
        fits = fits and (all(map(is_number, got)) or not all(map(is_number, right)))
    else:
        fits = type(got) is type(right)
    return None if fits else (described(got), described(right))


def not_finite(got) -> str:
    """ "There is NaN in yours. " where there is; "" otherwise."""
    if isinstance(got, (list, tuple, dict)):
        return next(filter(None, map(not_finite, got.values() if isinstance(got, dict) else got)), "")
    if not isinstance(got, Tensor) and not is_number(got):
        return ""
    got = torch.as_tensor(got)
    return f"There is {'NaN' if got.isnan().any() else 'infinity'} in yours. " if not got.isfinite().all() else ""
