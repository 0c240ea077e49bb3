"""Numbers as a lesson takes them, shows them and stores them."""

import math


def number(value, what: str) -> int | float:
    """`value` as a Python number; TypeError if it is not one number, in a sentence about `what`."""
    given = value
    if hasattr(value, "item"):  # torch tensors, NumPy arrays and NumPy numbers
        try:
            size = math.prod(getattr(value, "shape", ()))
            value = value.item() if size == 1 else value
        except (RuntimeError, NotImplementedError) as error:  # nested, or without numbers
            first = str(error).split("\n")[0][:100]
            raise TypeError(f"{what} must be one number; got a {type(given).__name__} without one ({first})") from None
        if size != 1:
            raise TypeError(
                f"{what} must be one number; got {size} of them, shape {tuple(value.shape)}. "
                "Take .max() or .mean() first."
            )
    if hasattr(value, "value") and hasattr(value, "unit"):  # a measured number
        value = value.value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} must be one number; got {type(given).__name__}")
    if isinstance(value, int) and value.bit_length() > 1000:
        raise TypeError(f"{what} must be a number that can be shown; got an int of {value.bit_length():,} bits")
    return value


def shown(value: int | float, digits: int = 3) -> str:
    """`value` for people: whole numbers in full, others to `digits` significant digits."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    if not 1e-3 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def shown_bound(value: int | float, digits: int = 3) -> str:
    """A bound for people: as it was typed (0.05, 1e-10); a computed one to `digits` significant digits."""
    if isinstance(value, int):
        return f"{value:,}"
    typed = f"{value:g}"
    return typed.replace("e-0", "e-") if float(typed) == value else shown(value, digits)


def jsonable(value: int | float) -> int | float | str:
    """`value` as JSON can hold it: infinities and nan as words."""
    return value if math.isfinite(value) else str(value)
