"""How an answer is tried: beside the solution and beside every known mistake, on inputs that are drawn each time.

A `Case` is one way to call an answer. The first case in which it differs from the solution decides what is said: the
message of the known mistake that gives the same up to there; or what is wrong with its form; or the case's sentence.
"""

import copy
import inspect
import itertools
import math
import numbers as number_types
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

# Mistakes that are made alike in every exercise on tensors; each is the sentence of a case below.
OTHER_SIZES = (
    "With other sizes, here a batch of one, the answer is wrong: is a size written into the code, or a dimension of "
    "length 1 squeezed away?"
)
LARGE = "Numbers a thousand times as large come out wrong: where exp overflows, torch.sigmoid and torch.tanh do not."
NO_GRADIENT = "The numbers are right, but their gradient is not: leave out detach, .data, .item() and no_grad."
SINGLE = "In single precision (float32) the answer is wrong: what you make must have the dtype of what came in."


def call(answer: Callable, *arguments):
    """The usual way to ask."""
    return answer(*arguments)


class Case(NamedTuple):
    """One way to call an answer.

    draw  draw() gives the arguments
    says  the sentence for who is wrong here in an unknown way, or says(answer, solution, arguments), which finds it
    ask   ask(answer, *arguments) makes the call, where it is not just answer(*arguments); an iterator is compared
          only as far as it takes
    tolerance  how far the results may lie apart, and ten times as far in proportion; float32 has a wider one of its own
    """

    draw: Callable[[], tuple]
    says: str | Callable[[Callable, Callable, tuple], str]
    ask: Callable = call
    tolerance: float = 1e-6


def fault(cases: Iterable[Case], solution: Callable, mistakes: Iterable[tuple], answer, returns: str) -> str | None:
    """What is wrong with `answer`, in a sentence, or None; `returns` says what it should give. Errors pass through."""
    tried = []
    for case in cases:
        arguments = case.draw()
        right, got = _result(case, solution, arguments), _result(case, answer, arguments)
        tried.insert(0, (case, arguments, got))
        if same(got, right, case.tolerance):
            continue
        for wrong, message in mistakes:
            if all(_agrees(wrong, *trial) for trial in tried):
                return message
        if isinstance(got, Exception):
            if len(tried) > 1 and isinstance(case.says, str):  # in the usual case its line says enough
                got.add_note(case.says)
            raise got
        if misfit := _misfit(got, right):
            return f"Return {returns}. Here that is {misfit[1]}; yours is {misfit[0]}."
        says = case.says if isinstance(case.says, str) else case.says(answer, solution, arguments)
        return f"{not_finite(got)}{says}"
    return _wrong_default(cases, solution, answer)


def _wrong_default(cases, solution, answer) -> str | None:
    """What is wrong where the answer is not handed what the solution has as a default, in a sentence, or None."""
    parameters = list(inspect.signature(solution).parameters.values())
    defaults = [p for p in parameters if p.default is not p.empty]
    if not defaults:
        return None

    def shorter(*given):
        while given and parameters[len(given) - 1] in defaults and _is(given[-1], parameters[len(given) - 1].default):
            given = given[:-1]
        return answer(*given)

    for case in cases:
        arguments = case.draw()
        if not same(_result(case, shorter, arguments), _result(case, solution, arguments), case.tolerance):
            told = " and ".join(f"`{p.name}` is {p.default}" for p in defaults)
            return f"With all arguments given it is right, and where some are left out it is not: there {told}."
    return None


def _is(value, default) -> bool:
    return (
        value is default or type(value) is type(default) and isinstance(value, bool | int | float) and value == default
    )


def _result(case, answer, arguments):
    """What comes back, or the error that was raised."""
    try:
        result = case.ask(answer, *fresh(arguments))
        return list(result) if isinstance(result, Iterator) else result
    except Exception as error:
        return error


def _agrees(wrong, case, arguments, got):
    """Whether a known mistake gives what the answer gave."""
    try:
        return same(case.ask(wrong, *fresh(arguments)), got, case.tolerance)
    except Exception as error:
        return type(error) is type(got)


def fresh(value):
    """A copy, so that nobody sees what somebody else did to it; a function or a generator is handed on as it is."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, (tuple, list, set)):
        return type(value)(map(fresh, value))
    return copy.deepcopy(value) if isinstance(value, torch.nn.Module) else value


# Are two answers the same? ----------------------------------------------------------------------------------


def is_number(value) -> bool:
    """Whether it is one real number: a Python or NumPy one, or a tensor without dimensions; no truth value."""
    if isinstance(value, Tensor):
        return value.shape == () and not value.is_complex() and value.dtype != torch.bool
    return isinstance(value, number_types.Real) and not isinstance(value, bool)


def same(a, b, tolerance: float = 1e-6) -> bool:
    """Whether two results hold the same, but for rounding; two NaN at one place are the same, an error is its type."""
    tensors = isinstance(a, Tensor) and isinstance(b, Tensor)
    if tensors and a.is_floating_point() and b.is_floating_point() and a.dtype != b.dtype:
        return False  # also of numbers: a loss in double precision has left what came in
    if tensors and (a.shape or b.shape):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return False
        tolerance = 1e-4 if a.dtype == torch.float32 else tolerance
        return torch.allclose(a, b, atol=tolerance, rtol=10 * tolerance, equal_nan=True)
    if is_number(a) and is_number(b):
        a, b = float(a), float(b)
        return a == b or a != a and b != b or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(a, Exception) or isinstance(b, Exception):
        return type(a) is type(b)
    if isinstance(a, (list, tuple, Iterator)) and isinstance(b, (list, tuple)):
        nothing = object()
        return all(same(x, y, tolerance) for x, y in itertools.zip_longest(a, b, fillvalue=nothing))
    return type(a) is type(b) and isinstance(a, str | bool) and a == b


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


def _misfit(got, right) -> tuple[str, str] | None:
    """The two in words where they differ in kind, shape or dtype; None where they differ in their numbers alone."""
    if is_number(right):
        fits = is_number(got)
    elif isinstance(right, Tensor):
        fits = isinstance(got, Tensor) and (got.shape, got.dtype) == (right.shape, right.dtype)
    elif isinstance(right, (list, tuple)):
        fits = isinstance(got, (list, tuple))
        if fits and not all(map(is_number, right)):  # a list of numbers may have any length
            parts = [_misfit(*pair) for pair in zip(got, right, strict=False)]
            fits = len(got) == len(right) and not any(parts)
            if not fits and isinstance(right[0], list):
                return next(filter(None, parts), None)
        fits = fits and (all(map(is_number, got)) or not all(map(is_number, right)))
    else:
        fits = type(got) is type(right)
    return None if fits else (described(got), described(right))


def not_finite(got) -> str:
    """ "There is NaN in yours. " where there is; "" otherwise."""
    if isinstance(got, (list, tuple)):
        return next(filter(None, map(not_finite, got)), "")
    if not isinstance(got, Tensor) and not is_number(got):
        return ""
    got = torch.as_tensor(got)
    return f"There is {'NaN' if got.isnan().any() else 'infinity'} in yours. " if not got.isfinite().all() else ""


# Cases that many exercises share --------------------------------------------------------------------------------

SIZES = {"B": 3, "T": 10, "D": 4, "H": 5, "V": 6, "S": 6, "K": 8, "N": 9}
SMALL = {"B": 1, "T": 1, "D": 2, "H": 1, "V": 2, "S": 2, "K": 1, "N": 1}


def tensors(shapes: str, *more, sizes: dict[str, int] = SIZES, scale: float = 0.5) -> Callable[[], tuple]:
    """For `Case.draw`: random tensors in double precision, "B D, D 4H" as (3, 4) and (4, 20), and then `more`."""

    def length(name):
        return int(name[:-1] or 1) * sizes[name[-1]]

    return lambda: (
        *(scale * torch.randn(*map(length, shape.split()), dtype=torch.float64) for shape in shapes.split(",")),
        *more,
    )


def on(shapes: str, says, *more, plain: bool = False) -> tuple[Case, ...]:
    """The usual case on tensors of these shapes, then what it does not show.

    That is: other sizes, single precision and, where not `plain`, large numbers and the way back.
    """
    usual = tensors(shapes, *more)

    def single():
        return tuple(a.float() if isinstance(a, Tensor) else a for a in usual())

    return (
        Case(usual, says),
        Case(tensors(shapes, *more, sizes=SMALL), OTHER_SIZES),
        Case(single, SINGLE),
        *(() if plain else (Case(tensors(shapes, *more, scale=1000.0), LARGE), Case(usual, NO_GRADIENT, ask=pulled))),
    )


def pulled(answer: Callable, *arguments) -> list[Tensor]:
    """The gradient of a fixed mixture of all results, by each argument that can have one."""
    asked = [a.requires_grad_() for a in arguments if isinstance(a, Tensor) and a.is_floating_point()]
    result = answer(*arguments)
    results = result if isinstance(result, (tuple, list)) else [result]
    parts = [part for part in results if getattr(part, "requires_grad", False)]
    if not parts:
        return [torch.zeros_like(a) for a in asked]
    mixture = sum((part * torch.linspace(1, 2, part.numel()).view_as(part)).sum() for part in parts)
    return list(torch.autograd.grad(mixture, asked, materialize_grads=True))


# Sentences that look for the place --------------------------------------------------------------------------


def narrowed(*steps: tuple[Callable, str], otherwise: str) -> Callable:
    """For `Case.says`: the sentence of the first simpler call that goes wrong already.

    `steps` are pairs: a function that makes the arguments simpler, given their names, and the sentence.
    """

    def says(answer, solution, arguments):
        names = list(inspect.signature(solution).parameters)
        for simpler, sentence in steps:
            easy = simpler(dict(zip(names, arguments, strict=False)))  # what may be left out is left out
            if not same(answer(*fresh(easy)), solution(*fresh(easy))):
                return sentence
        return otherwise

    return says


def without(*absent: str) -> Callable:
    """A step of `narrowed`: these arguments are zero."""
    return lambda given: tuple(torch.zeros_like(a) if name in absent else a for name, a in given.items())


def first_step(given: dict) -> tuple:
    """A step of `narrowed`: of each sequence (B, T, ...) only the first step is left."""
    return tuple(a[:, :1] if a.dim() == 3 else a for a in given.values())


def order_read(letters: str, place: int, otherwise: Callable) -> Callable:
    """For `Case.says`: the order in which an answer reads the parts side by side in arguments number `place` on."""

    def says(answer, solution, arguments):
        got = answer(*fresh(arguments))
        for order in itertools.permutations(letters):
            parts = [dict(zip(order, a.chunk(len(letters), -1), strict=True)) for a in arguments[place:]]
            moved = [torch.cat([part[letter] for letter in letters], -1) for part in parts]
            if same(got, solution(*fresh(arguments[:place]), *moved)):
                return f"You read the parts in the order {', '.join(order)}. Here they lie {', '.join(letters)}."
        return otherwise(answer, solution, arguments)

    return says
