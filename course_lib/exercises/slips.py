"""Mistakes, written as what is changed in the solution, and the plain text in which the lessons list them."""

import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import NamedTuple


class Slip(NamedTuple):
    """A wrong answer: the solution with some of its text replaced, ((old, new), ...)."""

    edits: tuple[tuple[str, str], ...]

    def of(self, solution: Callable) -> Callable:
        """The wrong function. Raises ValueError where the text to be replaced is not in the solution."""
        return _rewritten(solution, self.edits)


@functools.cache
def _rewritten(solution, edits):
    source = textwrap.dedent(inspect.getsource(solution))
    for old, new in edits:
        if old not in source:
            raise ValueError(f"{solution.__name__} does not say {old!r}: a slip replaces what the solution says")
        source = source.replace(old, new)
    namespace = dict(solution.__globals__)
    exec(source, namespace)
    return namespace[solution.__name__]


def slips(text: str) -> tuple[tuple[Slip, str], ...]:
    """Mistakes from their text: `old -> new`, a line or more, and the message as a comment or indented below."""
    edits = (([tuple(map(str.strip, head.split("->", 1))) for head in heads], body) for heads, body in blocks(text))
    return tuple((Slip(tuple(pairs)), message) for pairs, message in edits)


def blocks(text: str) -> list[tuple[list[str], str]]:
    """Text in blocks: the lines at the margin down to a comment or an indented text, and that text as one line."""
    found: list[tuple[list[str], list[str]]] = []
    for line in filter(str.strip, textwrap.dedent(text).splitlines()):
        if line.startswith(" "):
            found[-1][1].append(line.strip())
            continue
        if not found or found[-1][1]:
            found.append(([], []))
        head, _, comment = line.partition("  # ")
        found[-1][0].append(head.strip())
        found[-1][1].extend([comment] if comment else [])
    return [(heads, " ".join(body)) for heads, body in found]
