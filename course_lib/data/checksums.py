"""The SHA-256 of each file of a folder, listed beside them as `sha256sum --check` reads it: so damage is noticed."""

import hashlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from course_lib.data.beside import write_beside

LIST = "SHA256SUMS"


def checksum(path: str | Path) -> str:
    """The SHA-256 of a file, in hexadecimal; raises OSError for one that cannot be read."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def listed(folder: str | Path) -> dict[str, str]:
    """File name -> SHA-256, as the list in `folder` has it; {} where there is none, ValueError for a damaged one."""
    path = Path(folder) / LIST
    if not path.exists():
        return {}
    try:
        lines = [line.split("  ") for line in path.read_text(encoding="utf-8").splitlines()]
        return {name: seen for seen, name in lines}
    except (OSError, ValueError):
        raise ValueError(
            f"{path} is damaged, so nothing says whether the files beside it are whole. Get the folder back from the "
            "repository; one that a command has made can be deleted, and is made again."
        ) from None


def write_list(folder: str | Path, sums: Mapping[str, str]) -> None:
    """Write the list of a folder, file name -> SHA-256."""
    write_beside(Path(folder) / LIST, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


def damaged(folder: str | Path, names: Iterable[str] | None = None) -> list[str]:
    """Of these files of a folder, else of all that its list has, those that are not what the list says.

    They are read side by side. Raises ValueError for a list that is damaged.
    """
    sums = listed(folder)
    names = sorted(sums if names is None else names)
    with ThreadPoolExecutor() as several:
        whole = several.map(lambda name: _is_whole(Path(folder) / name, sums.get(name)), names)
    return [name for name, fine in zip(names, whole, strict=True) if not fine]


def _is_whole(path: Path, seen: str | None) -> bool:
    try:
        return checksum(path) == seen
    except OSError:
        return False
