"""Files and folders are written beside their place and renamed: a reader finds the old one or the new one, whole."""

import itertools
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STALE = 24 * 3600  # seconds; what nobody has touched for so long was left behind, whatever its number says

_number = itertools.count()
_open: set[Path] = set()  # workshops of this very process: a killed one may have had its number


@contextmanager
def beside(path: str | Path) -> Iterator[Path]:
    """A path to write a file or a folder to; it takes the place of `path` when the block ends without an error.

    ~ is expanded, a link is followed, the folder above is made; permissions stay. A full disk, an error or a killed
    process leaves what was there whole, and what killed writers of this `path` left lying is removed. Raises OSError as
    the writing does.
    """
    path = Path(path).expanduser().resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    # A folder, so that whatever a library writes on its way lies inside too.
    workshop = path.with_name(f".{path.name}.{os.getpid()}-{next(_number)}.part")
    new, old = workshop / path.name, workshop / f"{path.name}.old"
    _open.add(workshop)
    try:
        workshop.mkdir(exist_ok=True)
        yield new
        if not new.is_dir():
            with open(new, "rb+") as file:
                os.fsync(file.fileno())  # a full disk is noticed here, before the rename
            # A library may have made it for its owner alone: the old file's rights, or those that a new file gets here.
            new.chmod(path.stat().st_mode & 0o777 if path.exists() else workshop.stat().st_mode & 0o666)
        elif path.exists():  # a folder that holds something cannot be renamed over
            path.rename(old)
        os.replace(new, path)
    finally:  # after an interrupt too
        _clear(workshop, path)
        _open.discard(workshop)


def write_beside(path: str | Path, content: str | bytes) -> None:
    r"""Write text (UTF-8, its lines ended by \n alone) or bytes to `path`, as `beside` does."""
    with beside(path) as new:
        new.write_bytes(content.encode() if isinstance(content, str) else content)


def _sweep(path: Path) -> None:
    """Clear the workshops of `path` whose writers are gone."""
    pattern = re.compile(re.escape(f".{path.name}.") + r"(\d+)-\d+\.part")
    with suppress(OSError):  # a folder that cannot be read is told where it is written to
        for place in path.parent.iterdir():
            found = pattern.fullmatch(place.name)
            if found and place not in _open and (_gone(int(found[1])) or time.time() - place.stat().st_mtime > STALE):
                _clear(place, path)


def _clear(workshop: Path, path: Path) -> None:
    old = workshop / f"{path.name}.old"
    if old.exists() and not path.exists():  # stopped between the two renames
        old.rename(path)
    shutil.rmtree(workshop, ignore_errors=True)


def _gone(pid: int) -> bool:
    """Whether no other process has this number. On Windows nobody can ask (signal 0 is Ctrl-C there): False."""
    if pid == os.getpid():
        return True
    try:
        if os.name != "nt":
            os.kill(pid, 0)  # asks, and does nothing
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # somebody else's
        pass
    return False
