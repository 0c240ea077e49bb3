"""A student's function, watched while the check calls it."""

import bisect
import dis
import functools
import inspect

import numpy as np
import torch


class Mistake(BaseException):
    """Something is wrong that no check needs to look for. Not an Exception, so that no check catches it."""


class NotAttempted(BaseException):
    """The answer is the stub as it was handed out, or still has a gap."""


class Watched:
    """Calls `fn`, and raises Mistake if it returns nothing or a NumPy array, or changes its arguments.

    Afterwards `returned` holds what came back last, and `error` what it raised.
    """

    def __init__(self, fn, in_place: bool = False):
        self.fn, self.in_place = fn, in_place
        self.returned, self.error = None, None
        functools.update_wrapper(self, fn)  # the check sees its name and its arguments

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
                f"Your function changes its input `{changed}` in place (by `+=`, `x[0] =` or a method that "
                "ends in `_`), so the caller's numbers are lost: make a new tensor instead."
            )
        if self.returned is None and not self.in_place:
            raise Mistake("Your function returns None: is there a `return` missing at its end?")
        if isinstance(self.returned, np.ndarray):
            raise Mistake(
                "Your function returns a NumPy array: stay with torch, or gradients cannot flow through it."
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
    """A copy of tensors, arrays, lists, tuples and dicts; anything else (models, generators) may change."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list | tuple):
        return [_copied(item) for item in value]
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return value


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
    return not isinstance(new, bool | int | float | str | None) or old == new


def is_untouched(fn, stub=None) -> bool:
    """Whether `fn` is the stub still: its body does nothing but return None or `...`, or is the stub's.

    The compiled body is looked at because it needs no source, and comments and docstrings are gone from it.
    """
    code = getattr(inspect.unwrap(fn), "__code__", None) if callable(fn) else None
    if code is None:
        return False
    steps = list(dis.get_instructions(code))
    idle = {"RESUME", "NOP", "POP_TOP", "COPY_FREE_VARS", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE"}
    results = [step.argval for step in steps if step.opname in ("LOAD_CONST", "RETURN_CONST")]
    if all(step.opname in idle for step in steps) and all(value is None or value is ... for value in results):
        return True
    theirs = getattr(stub, "__code__", None)
    return theirs is not None and _body(code) == _body(theirs)


def _body(code):
    """What the code does, step by step, without its docstring, its name, its lines and how it was compiled.

    The same text compiles differently beside its imports (`torch.tanh(x)` calls an attribute there, a method
    elsewhere), and a docstring shifts the numbers of the constants: so names, constants and the targets of jumps
    are taken for what they mean, and what only prepares a call is left out.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("PUSH_NULL", "NOP", "EXTENDED_ARG")]
    places = [step.offset for step in steps]

    def meaning(step):
        if step.opcode in dis.hasname:
            return step.argval
        if step.opcode in dis.hasconst:
            return _body(step.argval) if inspect.iscode(step.argval) else repr(step.argval)
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return bisect.bisect_left(places, step.argval)
        return step.arg

    return code.co_argcount, [(step.opname.replace("METHOD", "ATTR"), meaning(step)) for step in steps]


def kind_of(value) -> str:
    """What `value` is, for a sentence: "a tensor of shape (2, 3), float32", "None", "a tuple of 2"."""
    if value is None:
        return "None"
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}, {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, bool | int | float | str):
        text = repr(value)
        return f"the {type(value).__name__} {text if len(text) <= 40 else text[:40] + '…'}"
    return f"a {type(value).__name__}"
