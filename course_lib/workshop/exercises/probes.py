"""How an answer is tried: beside the solution and beside every known mistake, on the same inputs for everybody.

A `Case` is one way to call an answer. The first case in which it differs from the solution decides what is said: the
message of the known mistake that gives the same up to there; or what is wrong with its form; or the case's sentence.
Inputs may be random numbers, but the judge draws them under one fixed seed; and what tells right from wrong by a hair
(large scores, class 0, a tie, a sum that is reached exactly) is written down in a case of its own.
"""

import copy
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.workshop.exercises.compare import is_number, misfit, not_finite, same

# Mistakes that are made alike in every exercise on tensors; each is the sentence of a case below.
OTHER_SIZES = (
    "With other sizes, here a batch of one, the answer is wrong: is a size written into the code, or a dimension of "
    "length 1 squeezed away?"
)
LARGE = "Numbers a thousand times as large come out wrong: where exp overflows, torch.sigmoid and torch.tanh do not."
NO_GRADIENT = "Your values are right, but their gradient is not."  # said in more words by `_about_gradient`
IN_PLACE = (
    "Your values are right, but no gradient can be computed: you change a tensor in place (by `+=`, `x[...] =` or a "
    "method that ends in `_`) whose old numbers the way back still needs. Make a new one instead."
)
OVERFLOW = (
    "With scores in the hundreds, in single precision (float32), it is wrong: exp(89) is infinite there. Subtract each "
    "row's largest score before exp, or leave both to torch.softmax or torch.log_softmax."
)
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
    drawn = [(case, case.draw()) for case in cases]  # before anybody else asks for random numbers
    tried = []
    for case, arguments in drawn:
        right, got = _result(case, solution, arguments), _result(case, answer, arguments)
        if is_number(right) and isinstance(got, Tensor) and got.numel() == 1:
            got = got.reshape(())  # where one number is asked, one number in brackets will do
        tried.insert(0, (case, arguments, got))
        if same(got, right, case.tolerance):
            continue
        for wrong, message in mistakes:
            if all(_agrees(wrong, *trial) for trial in tried):
                return message
        if isinstance(got, RuntimeError) and "modified by an inplace operation" in str(got):
            return IN_PLACE
        if isinstance(got, Exception):
            if len(tried) > 1 and isinstance(case.says, str):  # in the usual case its line says enough
                got.add_note(case.says)
            raise got
        if form := misfit(got, right):
            return f"Return {returns}. Here that is {form[1]}; yours is {form[0]}."
        if case.says == NO_GRADIENT:
            return _about_gradient(got, right, _names(solution, arguments) if case.ask is pulled else None)
        says = case.says if isinstance(case.says, str) else case.says(answer, solution, arguments)
        return f"{not_finite(got)}{says}"
    return _wrong_default(drawn, solution, answer)


def _about_gradient(got, right, names) -> str:
    """What is wrong with a gradient: `names` are the arguments that it belongs to, None where nobody knows them."""
    if not_finite(got):
        where = "On the way back 0 meets infinity: look at every exp, log, root and quotient."
        return f"{NO_GRADIENT} {not_finite(got)}{where}"
    lost = [i for i, (mine, other) in enumerate(zip(got, right, strict=True)) if other.any() and not mine.any()]
    if not lost:
        return f"{NO_GRADIENT} Is a part of it cut off, by `.detach()` or `.item()`, or was a small number added?"
    whom = f"`{names[lost[0]]}`" if names else "what came in"
    return (
        f"Your values are right, but no gradient flows back to {whom}. Something in between has cut it off: common "
        "culprits are `.item()`, `.detach()`, `.data`, `torch.tensor(...)` and `torch.no_grad()`."
    )


def _names(solution, arguments):
    """The names of the arguments that can have a gradient."""
    return [n for n, a in zip(inspect.signature(solution).parameters, arguments, strict=False) if _can_have_gradient(a)]


def _can_have_gradient(value) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _wrong_default(drawn, solution, answer) -> str | None:
    """What is wrong where the answer is not handed what the solution has as a default, in a sentence, or None."""
    parameters = list(inspect.signature(solution).parameters.values())
    defaults = [p for p in parameters if p.default is not p.empty]
    if not defaults:
        return None

    def shorter(*given):
        while given and parameters[len(given) - 1] in defaults and _is(given[-1], parameters[len(given) - 1].default):
            given = given[:-1]
        return answer(*given)

    for case, arguments in drawn:
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


def single(draw: Callable[[], tuple]) -> Callable[[], tuple]:
    """For `Case.draw`: what `draw` gives, in single precision."""
    return lambda: tuple(a.float() if _can_have_gradient(a) else a for a in draw())


def far_apart() -> Tensor:
    """Three vectors (1, 3, 2) in single precision; their scores, by the root of 2, are 636 and 636.2, -657 and 1273."""
    return torch.tensor([[[30.0, 0.0], [29.99, 1.0], [-30.0, -30.0]]])


def on(shapes: str, says, *more, plain: bool = False) -> tuple[Case, ...]:
    """The usual case on tensors of these shapes, then what it does not show.

    That is: other sizes, single precision and, where not `plain`, large numbers and the way back.
    """
    usual = tensors(shapes, *more)
    return (
        Case(usual, says),
        Case(tensors(shapes, *more, sizes=SMALL), OTHER_SIZES),
        Case(single(usual), SINGLE),
        *(() if plain else (Case(tensors(shapes, *more, scale=1000.0), LARGE), Case(usual, NO_GRADIENT, ask=pulled))),
    )


def pulled(answer: Callable, *arguments) -> list[Tensor]:
    """The gradient of a fixed mixture of all results, by each argument that can have one."""
    asked = [a.requires_grad_() for a in arguments if _can_have_gradient(a)]
    result = answer(*arguments)
    results = result if isinstance(result, (tuple, list)) else [result]
    parts = [part for part in results if getattr(part, "requires_grad", False)]
    if not parts:
        return [torch.zeros_like(a) for a in asked]
    mixture = sum((part * torch.linspace(1, 2, part.numel()).view_as(part)).sum() for part in parts)
    return list(torch.autograd.grad(mixture, asked, materialize_grads=True))


# Sentences that look for the place --------------------------------------------------------------------------


def narrowed(*steps: tuple[Callable, str], otherwise: str, tolerance: float = 1e-6) -> Callable:
    """For `Case.says`: the sentence of the first simpler call that goes wrong already.

    `steps` are pairs: a function that makes the arguments simpler, given their names, and the sentence. `tolerance` is
    that of the case.
    """

    def says(answer, solution, arguments):
        names = list(inspect.signature(solution).parameters)
        for simpler, sentence in steps:
            easy = simpler(dict(zip(names, arguments, strict=False)))  # what may be left out is left out
            if not same(answer(*fresh(easy)), solution(*fresh(easy)), tolerance):
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
