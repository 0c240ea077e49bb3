"""What the records show: a file of findings for each lesson, `from course_lib.experiments.findings import gpt`."""

import importlib
import pkgutil

from course_lib.experiments.finding import Finding


def of(slug: str) -> dict[str, Finding]:
    """The findings of a lesson by name, in the order of its file; {} where it states none."""
    if slug not in {module.name for module in pkgutil.iter_modules(__path__)}:
        return {}
    module = importlib.import_module(f"{__name__}.{slug}")
    return {name: one for name, one in vars(module).items() if isinstance(one, Finding)}


def everything() -> list[Finding]:
    """All findings of the course, lesson after lesson."""
    return [one for module in sorted(m.name for m in pkgutil.iter_modules(__path__)) for one in of(module).values()]
