"""What `make test` leaves out, part by part, and which parts have passed it as they are now.

    python tests/full.py                        everything, in one run (make test-all)
    python tests/full.py 03 14 pages            these parts (make test-all LESSON="03 14 pages")
    python tests/full.py --changed --minutes 40  what changed since it passed, as far as the time goes (.ci/run)

A part is a lesson (its notebook, and all of its tests in JupyterLab and without a kernel), `pages` (the rest of the
browser) or `units`. tests/checked.json holds a digest of each part that passed: of the notebook's cells without their
outputs, of the lesson's exercises, and of what drives and shows them. A clone has no other branch to compare with. The
first two forms write it, for whoever commits; the last writes nothing. When everything changed, the last takes the
lessons in turn, and each commit begins with another one.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from groups import DRIVEN

from course_lib.data.beside import write_beside
from course_lib.lesson.syllabus import LESSONS

ROOT = Path(__file__).resolve().parents[1]
CHECKED = ROOT / "tests" / "checked.json"
NAMES = [lesson.notebook.removesuffix(".ipynb") for lesson in LESSONS[1:]]  # the first page has no tests of its own
PARTS = [*NAMES, "pages", "units"]
# What every lesson is driven and shown by.
SHARED = (
    "pyproject.toml",
    "course_lib/lesson/*.py",
    "course_lib/show/widgets.py",
    "course_lib/show/frames.py",
    "course_lib/workshop/publish/frames.py",
    "course_lib/workshop/publish/pages/static/*",
    "course_lib/workshop/publish/templates/unrolled/*",
    "tests/browser/lab.py",
    "tests/browser/one_run.py",
    "tests/browser/reader.py",
    "tests/browser/student.py",
    "tests/browser/measure_*.js",
)
IN_LAB = ["tests/browser/test_lab_01_rnn_bptt.py", "tests/browser/test_lessons_in_lab.py"]
WORKERS = 2
LAST = 12  # minutes that a part may go on after the time at which no other begins


def files(part: str) -> list[Path]:
    """What the digest of a part is made from, besides the notebook of a lesson."""
    if part == "units":
        patterns = ["pyproject.toml", "course_lib/**/*.py", "course_lib/**/*.toml", "tests/*.py", "data/**/*"]
    elif part == "pages":
        patterns = ["pyproject.toml", "course_lib/workshop/publish/**/*", "course_lib/show/**/*.py", "tests/browser/*"]
    else:
        patterns = [*SHARED, *IN_LAB, f"course_lib/workshop/exercises/{part[3:]}*"]
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    return sorted(path for path in found if "__pycache__" not in path.parts)


def digest(part: str) -> str:
    """Changes with all that the tests of this part alone could find wrong in it."""
    told = hashlib.sha256()
    for path in files(part):
        told.update(f"\n{path.relative_to(ROOT).as_posix()}\n".encode() + path.read_bytes())
    if part in NAMES:
        cells = json.loads((ROOT / "notebooks" / f"{part}.ipynb").read_text(encoding="utf-8"))["cells"]
        told.update(json.dumps([[cell["cell_type"], cell["source"], cell["metadata"]] for cell in cells]).encode())
    return told.hexdigest()[:16]


def checked() -> dict[str, str]:
    """The digest of each part when it passed."""
    return json.loads(CHECKED.read_text(encoding="utf-8")) if CHECKED.exists() else {}


def write(passed: dict[str, str]) -> None:
    """Add what has passed, with the digest that it had before it was run."""
    kept = {part: told for part, told in (checked() | passed).items() if part in PARTS}
    write_beside(CHECKED, json.dumps(dict(sorted(kept.items())), indent=1) + "\n")


def named(words: list[str]) -> list[str]:
    """The parts that somebody names, a lesson by its number, its slug or both; ValueError for what names none."""
    found = []
    for word in words:
        fits = [part for part in PARTS if word == part or part in NAMES and word in (part[:2], part[3:])]
        if not fits:
            raise ValueError(f"{word!r} names no part: say a lesson's number or slug, or pages, or units.")
        found += fits
    return found


def tests_of(part: str) -> list[str]:
    """What pytest is told, so that it runs a part whole."""
    if part == "units":
        return ["tests", "-m", "full and not browser"]
    if part == "pages":
        return ["tests/browser", "-m", "full", *(f"--ignore={file}" for file in IN_LAB)]
    return ["--nbval-lax", f"notebooks/{part}.ipynb", *IN_LAB, "-k", part]


def in_turn(parts: list[str], commit: str) -> list[str]:
    """These parts, beginning with another one for each commit."""
    at = int(commit or "0", 16) % max(1, len(parts))
    return parts[at:] + parts[:at]


def pytest_for(part: str | None) -> list[str]:
    """The command that runs a part, or everything."""
    how = tests_of(part) if part else ["--nbval-lax", "-n", str(WORKERS)]
    return [sys.executable, "-m", "pytest", "--tell", "-o", "console_output_style=classic", *how]


def run_now(parts: list[str]) -> int:
    """Run these parts one after the other, or everything; what passes is written down."""
    failed = 0
    for part in parts or [None]:
        covers = [part] if part else PARTS
        before = {one: digest(one) for one in covers}
        if done := subprocess.run(pytest_for(part), cwd=ROOT).returncode:
            failed = done
        else:
            write(before)
    return failed


class Turns:
    """Runs parts as they come, WORKERS at a time, until a time after which no other begins."""

    def __init__(self, parts: list[str], seconds: float, command=pytest_for, last: float = 60 * LAST):
        self.waiting, self.command = list(parts), command
        self.until = time.monotonic() + seconds
        self.end = self.until + last
        self.passed, self.failed, self.cut = [], [], []
        self._lock = threading.Lock()

    def run(self) -> bool:
        """Whether nothing failed. What was not reached, or ended by the clock, is no failure."""
        workers = [threading.Thread(target=self._work) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return not self.failed

    def _work(self):
        while part := self._next():
            began = time.monotonic()
            with tempfile.TemporaryFile("w+") as said:
                status = self._ended(part, said)
                said.seek(0)
                lines = said.read().splitlines()
            how = "did not end in time" if status is None else lines[-1].strip("= ") if lines else f"status {status}"
            with self._lock:
                (self.cut if status is None else self.failed if status else self.passed).append(part)
                print(f"in full: {part}, {time.monotonic() - began:.0f} s: {how}", flush=True)
                if status:
                    print("\n".join(lines[-200:]), flush=True)

    def _next(self) -> str | None:
        with self._lock:
            return self.waiting.pop(0) if self.waiting and time.monotonic() < self.until else None

    def _ended(self, part, said) -> int | None:
        """How the run of a part ended; None where its time was up. It ends what it started itself, if it can."""
        run = subprocess.Popen(
            self.command(part), cwd=ROOT, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        for signal_, patience in ((None, self.end - time.monotonic()), (signal.SIGINT, 30), (signal.SIGKILL, 30)):
            if signal_:
                os.killpg(run.pid, signal_)
            try:
                status = run.wait(patience)
                return status if signal_ is None else None
            except subprocess.TimeoutExpired:
                pass
        return None


def run_changed(minutes: float) -> int:
    """Run what changed since it passed, less the lessons that `make test` has driven before."""
    known = checked()
    changed = [part for part in PARTS if digest(part) != known.get(part) and f"{part}.ipynb" not in DRIVEN]
    if not changed:
        print("in full: nothing has changed since it was checked")
        return 0
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    turns = Turns(in_turn(changed, head), 60 * minutes)
    print(f"in full: {len(changed)} of {len(PARTS)} parts have changed; none begins after {minutes:.0f} minutes")
    good = turns.run()
    left = turns.waiting + turns.cut
    print(f"in full: {len(turns.passed)} passed, {len(turns.failed)} failed; not reached: {', '.join(left) or 'none'}")
    return 0 if good else 1


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--changed", action="store_true", help="what changed since it passed")
    parser.add_argument("--minutes", type=float, default=40, help="with --changed: no part begins after them")
    told = parser.parse_args(arguments)
    if told.changed:
        return run_changed(told.minutes)
    try:
        parts = named(told.parts)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return run_now(parts)


if __name__ == "__main__":
    sys.exit(main())
