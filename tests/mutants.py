"""Solutions with a little of their text changed, for tests that a check sees the difference."""

import inspect
import textwrap
from collections.abc import Callable


def changed(solution: Callable, *edits: tuple[str, str]) -> Callable:
    """The solution with each (old, new) of its text replaced. Raises ValueError where it does not say `old`."""
    source = textwrap.dedent(inspect.getsource(solution))
    for old, new in edits:
        if old not in source:
            raise ValueError(f"{solution.__name__} does not say {old!r}")
        source = source.replace(old, new)
    namespace = dict(solution.__globals__)
    exec(source, namespace)
    return namespace[solution.__name__]
