"""`python -m course_lib.workshop.publish.execute [files]`: run notebooks in place, store them clean, measure them.

A notebook that fails, warns, or shows a control without a still picture is left as it was, and one sentence
says why. What its controls show is drawn on the way and kept for pages and slides: see `frames`.
"""

import argparse
import sys
from pathlib import Path

import nbformat

from course_lib.data.beside import write_beside
from course_lib.show.frames import ASKED
from course_lib.workshop.experiments import record
from course_lib.workshop.publish import blocks, frames, measured, typed_numbers
from course_lib.workshop.publish.kernels import run
from course_lib.workshop.publish.normalise import as_text, faults, first_line, normalise


def execute(path: Path) -> list[str]:
    """Run the notebook at `path`, store and measure it; or say why it cannot be stored, a sentence each."""
    place = frames.kept_at(nbformat.read(path, as_version=4), path.name)
    result = run(path, {ASKED: "1"})
    drawn = frames.taken(result.notebook)
    notebook = normalise(result.notebook)
    reasons = result.failures or faults(notebook)
    try:
        typed_numbers.fill_notebook(notebook)
    except ValueError as error:
        reasons = [*reasons, str(error).rstrip(".")]
    if reasons:
        return reasons
    write_beside(path, as_text(notebook))
    seconds = result.seconds - frames.seconds(drawn)  # a student's run draws no more than it shows
    if path.resolve().parent == measured.NOTEBOOKS:
        frames.keep(place, drawn)
        if path.name in {one.name for one in measured.written()}:
            entry = measured.measurement(notebook, seconds, result.peak_mb)
            read = {"results": found} if (found := record.results(path.stem[3:])) else {}
            measured.store(path.name, entry | read)
    print(f"{path.name}: {seconds:.0f} s, {result.peak_mb} MB", flush=True)
    return []


def chosen(files: list[str]) -> list[Path]:
    """The notebooks asked for, or all of the course; ValueError for a file that is not there or is no notebook."""
    paths = [Path(file) for file in files] or measured.written()
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise ValueError(f"there is no notebook {missing[0]}: name one that exists, or none for all.")
    for path in paths:
        _check_notebook(path)
    return paths


def _check_notebook(path: Path) -> None:
    try:
        nbformat.read(path, as_version=4)
    except Exception as error:  # what is no JSON, or other JSON, makes nbformat raise nearly anything
        raise ValueError(f"{path} is no notebook that can be read ({first_line(str(error), 100)}).") from None


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if every notebook was stored, 1 if one was refused, 2 for a wrong name."""
    parser = argparse.ArgumentParser(prog="course_lib.workshop.publish.execute", description=__doc__)
    parser.add_argument("files", nargs="*", help="notebooks; all of the course if none is named")
    try:
        paths = chosen(parser.parse_args(arguments).files)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    refused = 0
    for path in paths:
        reasons = execute(path)
        refused += bool(reasons)
        for reason in reasons:
            print(f"{path.name} is left as it was: {reason}.", file=sys.stderr, flush=True)
    try:
        for name in blocks.refresh():
            print(f"{name}: what is made in it is new")
    except ValueError as error:
        print(f"The tables of README.md and CONTRIBUTING.md are left as they were: {error}", file=sys.stderr)
        return 1
    return min(refused, 1)


if __name__ == "__main__":
    sys.exit(main())
