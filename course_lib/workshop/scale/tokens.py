"""A corpus as files of token ids that are read where they lie (a memory map), so that a long text costs no memory.

A folder holds index.json and shards, files of bare uint16, or uint32 for large vocabularies. SHA256SUMS is written
last: a folder that has it is complete, and can be checked.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from course_lib.data import checksums, sha256
from course_lib.data.beside import write_beside

INDEX = "index.json"
SHARD = 100_000_000  # tokens


def begin(folder: Path, about: dict, vocab_size: int) -> dict:
    """The index of a new corpus, or of this one where a killed `write` has left whole shards with a `state`."""
    if (folder / INDEX).exists():
        found = read_index(folder)
        if found["about"] == about and found["state"] is not None:
            return found
    return {"about": about, "dtype": "<u4" if vocab_size > 2**16 else "<u2", "splits": {}, "state": None}


def write(folder: Path, index: dict, documents: Iterable[tuple], others: tuple = (), shard: int = SHARD) -> None:
    """Append documents (split, ids, state) to the shards of a folder, then its SHA256SUMS, of `others` beside them too.

    The state is what a reader of the source needs to continue after the document. With each shard, the index keeps it.
    """
    waiting, waits = {}, 0  # split -> documents, and how many tokens they have
    for split, ids, state in documents:
        waiting.setdefault(split, []).append(np.asarray(ids, dtype=index["dtype"]))
        waits += len(ids)
        if waits >= shard:
            _write_shards(folder, index, waiting, state)
            waiting, waits = {}, 0
    _write_shards(folder, index, waiting, None)
    sums = {name: checksums.checksum(folder / name) for name in (INDEX, *others)}
    parts = [part for parts in index["splits"].values() for part in parts]
    checksums.write_list(folder, sums | {part["file"]: part["sha256"] for part in parts})


def read_index(folder: str | Path) -> dict:
    """What a folder of data says of itself; ValueError for a damaged one."""
    try:
        return json.loads((Path(folder) / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ValueError(f"{folder} is damaged: delete the folder, and it is made again.") from None


class Tokens:
    """One split of a corpus as one long row of ids: `len`, `read(start, n)`. It is empty where there is none."""

    def __init__(self, folder: Path, split: str):
        index = read_index(folder)
        self.maps = [np.memmap(folder / part["file"], index["dtype"], "r") for part in index["splits"].get(split, [])]
        self.ends = np.cumsum([0, *map(len, self.maps)])[1:].tolist()

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def read(self, start: int, n: int) -> np.ndarray:
        """The ids [start, start + n), across the borders of shards: int64 (n,)."""
        found, at = [], bisect_right(self.ends, start)
        while n > 0:
            begin = start - (self.ends[at] - len(self.maps[at]))
            found.append(self.maps[at][begin : begin + n])
            start, n, at = start + len(found[-1]), n - len(found[-1]), at + 1
        return np.concatenate(found).astype(np.int64)


def _write_shards(folder: Path, index: dict, waiting: dict[str, list[np.ndarray]], state: object) -> None:
    """A shard of each split that waits, so that `state` comes after all of them. The index is last."""
    for split, documents in waiting.items():
        parts, content = index["splits"].setdefault(split, []), np.concatenate(documents).tobytes()
        if content:
            name = f"{split}-{len(parts):05d}.bin"
            write_beside(folder / name, content)
            parts.append({"file": name, "tokens": sum(map(len, documents)), "sha256": sha256(content)})
    index["state"] = state
    write_beside(folder / INDEX, json.dumps(index, indent=1) + "\n")
