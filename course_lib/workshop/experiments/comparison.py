"""A value, a sign, a bound: what a claim and a finding are made of."""

import math
import operator

HOLDS = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}
SHOWN = {"<=": "≤", "<": "<", ">=": "≥", ">": ">", "==": "=", "!=": "≠"}


def holds(value: float, sign: str, bound: float) -> bool:
    """Whether the comparison is true; a comparison with nan never is."""
    return not (math.isnan(value) or math.isnan(bound)) and HOLDS[sign](value, bound)


def room(value: float, sign: str, bound: float) -> float:
    """How far the value lies from its bound on the side where it holds; negative where it does not hold."""
    gap = value - bound
    return {"<=": -gap, "<": -gap, ">=": gap, ">": gap, "==": -abs(gap), "!=": abs(gap)}[sign]


def triples(condition: tuple, what: str) -> list[tuple]:
    """(value, sign, bound), one after another, as a list of threes; TypeError, in words, for anything else."""
    signs = condition[1::3]
    if not condition or len(condition) % 3 or any(not isinstance(sign, str) or sign not in HOLDS for sign in signs):
        raise TypeError(
            f'{what} is a sentence, then a value, a sign and a bound, such as accuracy, ">=", 0.9 (more of these '
            f"threes may follow, and all must hold). The signs are {', '.join(HOLDS)}."
        )
    return list(zip(condition[::3], signs, condition[2::3], strict=True))
