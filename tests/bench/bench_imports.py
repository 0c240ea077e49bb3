"""`python tests/bench/bench_imports.py`: how long the library part of each lesson takes to import, in a fresh process.

seconds: all the files that `syllabus.py` lists for the lesson, the least of some tries, for what else the machine does
only adds. PyTorch's own import is the first row; what a lesson takes beside it is ours and other packages'. The start
of Python is not counted.
"""

import subprocess
import sys

from side_by_side import begin, store, table

from course_lib.lesson.syllabus import LESSONS, SHARED

TRIES = 2
TIMED = "import time; began = time.perf_counter()\n{}\nprint(time.perf_counter() - began)"


def module(file: str) -> str:
    """What a file of the syllabus is imported as: data/dates/ is course_lib.data.dates."""
    return "course_lib." + file.removesuffix(".py").strip("/").replace("/", ".")


def seconds(modules: list[str]) -> float:
    code = TIMED.format("\n".join(f"import {name}" for name in modules))
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True) for _ in range(TRIES)]
    return min(float(run.stdout) for run in runs)


def main() -> None:
    device = begin()
    seconds(["torch"])  # the files come into the machine's memory
    jobs = {"PyTorch alone": ["torch"], "shared by all": [module(file) for file in SHARED]}
    jobs |= {f"{one.number:02d} {one.title}": [module(file) for file in one.files] for one in LESSONS}
    rows = [{"lesson": name, "files": len(modules), "seconds": seconds(modules)} for name, modules in jobs.items()]
    table("Import of the library part of each lesson", rows)
    store("imports", rows, device)


if __name__ == "__main__":
    main()
