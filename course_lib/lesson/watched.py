"""A student's function, watched while the check calls it."""

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterator

import numpy as np
import torch


class Mistake(BaseException):
    """Something is wrong that no check needs to look for. Not an Exception, so that no check catches it."""


class NotAttempted(BaseException):
    """The answer is the stub as it was handed out, or still has a gap."""


class Watched:
    """Calls `fn`, and raises Mistake if it returns nothing, a NumPy array or an iterator, or changes its arguments.

    Afterwards `returned` holds what came back last, and `error` what it raised.
    """

    def __init__(self, fn, in_place: bool = False):
        self.fn, self.in_place = fn, in_place
        self.returned, self.error = None, None
        functools.update_wrapper(self, fn, updated=())  # the check sees its name and its arguments

    def __call__(self, *args, **kwargs):
        before = None if self.in_place else (_copied(args), _copied(kwargs))
        try:
            self.returned = self.fn(*args, **kwargs)
        except BaseException as error:
            self.error = error
            raise
        if self.returned is ...:
            raise NotAttempted
        if before and (changed := self._changed(before, args, kwargs)):
            raise Mistake(
                f"Your function changes its input `{changed}` in place (by `+=`, `x[0] =`, `.append(...)` or a method "
                "that ends in `_`), so whoever called it loses what was there. Make a new one instead."
            )
        if isinstance(self.returned, Iterator):
            raise Mistake(
                "Your function hands its values out one by one (by `yield`, or as map, zip or a comprehension in round "
                "brackets do), so whoever calls it gets none of them before asking. Return all of them at the end."
            )
        if self.returned is None and not self.in_place:
            raise Mistake("Your function returns None: is there a `return` missing at its end?")
        if isinstance(self.returned, np.ndarray):
            raise Mistake(
                "Your function returns a NumPy array. Return a tensor (torch.from_numpy makes one, but no gradient "
                "flows through NumPy), or a list where a list is asked for (.tolist())."
            )
        return self.returned

    def _changed(self, before, args, kwargs):
        """The name of the first argument that is not what it was, or None."""
        try:
            names = list(inspect.signature(self.fn).parameters)
        except (TypeError, ValueError):
            names = []
        for i, (old, new) in enumerate(zip(before[0], args, strict=True)):
            if not _same(old, new):
                return names[i] if i < len(names) else f"argument {i + 1}"
        return next((name for name, new in kwargs.items() if not _same(before[1][name], new)), None)


def _copied(value):
    """A copy of tensors, arrays, lists, tuples, dicts and sets; anything else (models, generators) may change."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list | tuple):
        return [_copied(item) for item in value]
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return set(value) if isinstance(value, set) else value


def _same(old, new):
    if isinstance(new, torch.Tensor):
        alike = isinstance(old, torch.Tensor) and (old.shape, old.dtype) == (new.shape, new.dtype)
        return alike and bool(((old == new) | (old.isnan() & new.isnan())).all())
    if isinstance(new, np.ndarray):
        return np.array_equal(old, new, equal_nan=old.dtype.kind == "f")
    if isinstance(new, list | tuple):
        return len(old) == len(new) and all(map(_same, old, new))
    if isinstance(new, dict):
        return old.keys() == new.keys() and all(_same(old[key], new[key]) for key in new)
    return not isinstance(new, bool | int | float | str | set | None) or old == new


def is_untouched(fn, stub=None) -> bool:
    """Whether `fn` is the stub still: its body does nothing but return None or `...`, or is the stub's.

    What is compared is the source as Python reads it: comments, docstrings, layout, types and the function's own name
    do not count. Where there is no source (code run by exec), False: the check then speaks of what comes back.
    """
    text = _meaning(fn)
    return text is not None and (set(text[1:]) <= IDLE or text == _meaning(stub))


IDLE = {ast.dump(ast.parse(line).body[0]) for line in ("pass", "...", "return", "return None", "return ...")}


def _meaning(fn):
    """The arguments of a function and each statement of its body, without its docstring; None without a source."""
    try:
        made = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(fn)))).body[0]
    except (OSError, TypeError, ValueError, SyntaxError):
        return None
    if not isinstance(made, ast.FunctionDef):
        return None
    for argument in ast.walk(made.args):
        argument.annotation = None
    body = made.body if ast.get_docstring(made) is None else made.body[1:]
    return [ast.dump(made.args), *map(ast.dump, body)]
