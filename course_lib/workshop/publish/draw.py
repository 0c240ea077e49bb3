"""`python -m course_lib.workshop.publish.draw [files]`: draw the positions of all controls, for pages and slides.

Each notebook whose controls have no pictures is run once, and nothing in it changes; `make notebooks` draws them on its
way. What is finished is kept, so a command that was stopped goes on where it was.
"""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat

from course_lib.show.frames import ASKED
from course_lib.workshop.publish import frames
from course_lib.workshop.publish.execute import chosen
from course_lib.workshop.publish.kernels import run

AT_A_TIME = 2  # kernels, a thread each


def draw(path: Path) -> list[str]:
    """Draw what the controls of the notebook at `path` show, unless that is there; or say why not, a sentence each."""
    notebook = nbformat.read(path, as_version=4)
    if frames.of(notebook, path.name) is not None:
        return []
    place = frames.kept_at(notebook, path.name)  # what is changed while it runs is not what has drawn
    done = run(path, {ASKED: "1"})
    if not done.failures:
        found = frames.taken(done.notebook)
        frames.keep(place, found)
        pictures = sum(len(one["pictures"]) for one in found.values())
        print(f"{path.name}: {pictures} pictures of {len(found)} controls, {done.seconds:.0f} s", flush=True)
    return done.failures


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if all is drawn, 1 if a notebook failed, 2 for a wrong name."""
    parser = argparse.ArgumentParser(prog="course_lib.workshop.publish.draw", description=__doc__)
    parser.add_argument("files", nargs="*", help="notebooks; all of the course if none is named")
    try:
        paths = chosen(parser.parse_args(arguments).files)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        reasons = dict(zip(paths, pool.map(draw, paths), strict=True))
    for path, found in reasons.items():
        for reason in found:
            print(f"{path.name}: its controls stand still: {reason}.", file=sys.stderr)
    return int(any(reasons.values()))


if __name__ == "__main__":
    sys.exit(main())
