"""What the student has solved, kept between sessions in one small JSON file.

The file lies in COURSE_HOME, or in the user's data folder. It is never written in place, a damaged one is put
aside, and two notebooks that write at once keep each other's marks. Where nothing can be written, marks are
kept until the kernel stops, and a sentence says so.
"""

import json
import os
import time
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_data_dir

FILE = "progress.json"
KINDS = ("exercises", "quiz")

# Marks that could not be written, by folder: a successful write empties it.
_unwritten: dict[str, dict] = {}


def home() -> Path:
    """The folder of the progress file: COURSE_HOME, by default the user's data folder."""
    return Path(os.environ.get("COURSE_HOME") or user_data_dir("unrolled", appauthor=False)).expanduser()


def marks() -> tuple[dict[str, dict[str, set[str]]], str]:
    """What is solved, as marks["exercises" or "quiz"][lesson], and a sentence if something is amiss."""
    folder, sentence = home(), ""
    try:
        kept = _read(folder)
    except _Damaged:
        kept, sentence = _after_damage(folder)
    except OSError as error:
        kept, sentence = {}, f"The progress kept so far could not be read ({_why(error)})."
    return _as_sets(_merged(kept, _unwritten.get(str(folder), {}))), sentence


def mark(lesson: str, kind: str, name: str) -> str:
    """Note that `name` is solved; returns a sentence if it could not be kept, else an empty one."""
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}, expected one of {KINDS}")
    folder, sentence = home(), ""
    wanted = _merged(_unwritten.get(str(folder), {}), {kind: {lesson: [name]}})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            try:
                kept = _read(folder)
            except _Damaged:
                kept, sentence = {}, _put_aside(folder)
            _write(folder, _merged(kept, wanted))
    except OSError as error:
        _unwritten[str(folder)] = wanted
        return f"Progress could not be saved ({_why(error)}); it is kept until this kernel stops."
    _unwritten.pop(str(folder), None)
    return sentence


class _Damaged(Exception):
    """The file is there, and holds something else than marks."""


def _read(folder):
    try:
        text = (folder / FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    try:
        kept = json.loads(text)
        right = isinstance(kept, dict) and all(_are_marks(kept.get(kind, {})) for kind in KINDS)
    except (ValueError, RecursionError):
        right = False
    if not right:
        raise _Damaged
    return kept


def _are_marks(lessons):
    return isinstance(lessons, dict) and all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lessons.values()
    )


def _merged(one, other):
    """Both together. Keys that this version does not know stay: a newer one may have written them."""
    merged = {**one, **other}
    for kind in KINDS:
        lessons = [*one.get(kind, {}), *other.get(kind, {})]
        merged[kind] = {
            lesson: sorted({*one.get(kind, {}).get(lesson, ()), *other.get(kind, {}).get(lesson, ())})
            for lesson in sorted(set(lessons))
        }
    return merged


def _as_sets(kept):
    return {kind: {lesson: set(names) for lesson, names in kept[kind].items()} for kind in KINDS}


def _write(folder, kept):
    beside = folder / f".{FILE}.{os.getpid()}"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(kept, file, indent=1)
            file.flush()
            os.fsync(file.fileno())  # a full disk is noticed here, before the rename
        os.replace(beside, folder / FILE)
    except BaseException:  # an interrupt too
        beside.unlink(missing_ok=True)
        raise


@contextmanager
def _alone(folder, patience=3.0, stale=10.0):
    """Hold the folder's lock file, so that nobody writes between our reading and our writing.

    A lock older than `stale` seconds was left by a killed kernel. After `patience` seconds we go on without
    it: at worst a mark is lost, and a notebook never hangs.
    """
    lock, until, mine = folder / "progress.lock", time.monotonic() + patience, False
    while not mine and time.monotonic() < until:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            mine = True
        except FileExistsError:
            try:
                if time.time() - lock.stat().st_mtime > stale:
                    lock.unlink()
            except OSError:
                pass  # the other has just let go
            time.sleep(0.01)
    try:
        yield
    finally:
        if mine:
            lock.unlink(missing_ok=True)


def _after_damage(folder):
    """Look again, alone: the other kernel may have put it aside and written a good one since."""
    try:
        with _alone(folder):
            try:
                return _read(folder), ""
            except _Damaged:
                return {}, _put_aside(folder)
    except OSError as error:
        return {}, f"The progress file is damaged and could not be put aside ({_why(error)})."


def _put_aside(folder):
    n = 1
    while (folder / f"progress.damaged-{n}.json").exists():
        n += 1
    name = f"progress.damaged-{n}.json"
    os.replace(folder / FILE, folder / name)
    return f"The progress file was damaged; it is kept as {name}, and a new one begins."


def _why(error):
    return (
        error.strerror or type(error).__name__
    )  # never the whole error, which names folders of this machine
