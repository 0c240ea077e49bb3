"""A corpus as files of token ids, read where they lie: a text of any length costs no memory.

A folder holds index.json and shards, files of bare whole numbers (uint16, or uint32 for large vocabularies), so many
tokens each. The operating system brings in what is read (a memory map) and drops it again.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from course_lib.data import checksums, sha256
from course_lib.data.beside import write_beside

FORMAT, INDEX = "unrolled tokens 1", "index.json"
SHARD = 100_000_000  # tokens
TYPES = ("<u2", "<u4")


class Writer:
    """Appends documents to a folder of shards, each shard written beside its place and renamed when it is full.

    about: what the index says besides (source, tokenizer). A document lies in one shard, so a shard may be somewhat
    longer than `shard`. After a killed process a new `Writer` goes on behind the last whole shards: `state` holds what
    was handed to `add` there. Where nothing was, or the corpus is whole, it begins anew. Raises ValueError for another
    corpus in the folder.
    """

    def __init__(self, folder: str | Path, vocab_size: int, about: dict, shard: int = SHARD):
        self.folder, self.shard = Path(folder), shard
        self.dtype = np.dtype(TYPES[vocab_size > 2**16])
        self.index = {"format": FORMAT, "dtype": self.dtype.str, "vocab_size": vocab_size, "about": about}
        self.index |= {"splits": {}, "state": None, "whole": False}
        if (self.folder / INDEX).exists():
            found = read_index(self.folder)
            _check_same_corpus(self.folder, found, self.index)
            if found["state"] is not None and not found["whole"]:
                self.index = found
        self.sums = checksums.listed(self.folder) if self.state is not None else {}
        self.waiting: dict[str, list[np.ndarray]] = {}
        self.tokens = {split: sum(part["tokens"] for part in parts) for split, parts in self.index["splits"].items()}
        self.waits = 0

    @property
    def state(self) -> object:
        """What a reader of the source handed over when the last whole shard was written."""
        return self.index["state"]

    def written(self, split: str) -> int:
        """Tokens of a split so far, those that still wait included."""
        return self.tokens.get(split, 0)

    def add(self, split: str, ids: Iterable[int] | np.ndarray, state: object = None) -> None:
        """A document's ids, if it has any; `state`: what a reader of the source needs to go on behind it."""
        ids = np.asarray(ids, dtype=self.dtype)
        if not len(ids):
            return
        self.waiting.setdefault(split, []).append(ids)
        self.tokens[split] = self.written(split) + len(ids)
        self.waits += len(ids)
        if self.waits >= self.shard:
            self._write(state)

    def keep(self, name: str, text: str) -> None:
        """Write a file that belongs to the corpus into its folder."""
        write_beside(self.folder / name, text)
        self.sums[name] = sha256(text)

    def close(self) -> None:
        """Write what waits, and mark the corpus as whole."""
        self.index["whole"] = True
        self._write(None)

    def _write(self, state: object) -> None:
        """All that waits, of every split: `state` stands behind all of it. The index comes last."""
        for split, documents in self.waiting.items():
            parts = self.index["splits"].setdefault(split, [])
            name, content = f"{split}-{len(parts):05d}.bin", np.concatenate(documents).tobytes()
            write_beside(self.folder / name, content)
            self.sums[name] = sha256(content)
            parts.append({"file": name, "tokens": sum(map(len, documents))})
        self.waiting, self.waits = {}, 0
        self.index["state"] = state
        index = json.dumps(self.index, indent=1) + "\n"
        self.sums[INDEX] = sha256(index)
        checksums.write_list(self.folder, self.sums)
        write_beside(self.folder / INDEX, index)


class Tokens:
    """One split of a corpus as one long row of ids: `len`, `read(start, n)`. Raises ValueError for what is damaged.

    checked: the shards have been held to their SHA-256 already, which takes seconds where there are many.
    """

    def __init__(self, folder: str | Path, split: str, checked: bool = False):
        self.folder, self.index = Path(folder), read_index(folder)
        parts = self.index["splits"].get(split, [])
        _check_shards(self.folder, split, parts, self.index)
        if not checked:
            check_sums(self.folder, [part["file"] for part in parts])
        self.maps = [np.memmap(self.folder / part["file"], self.index["dtype"], "r") for part in parts]
        self.ends = np.cumsum([len(part) for part in self.maps]).tolist()

    def __len__(self) -> int:
        return self.ends[-1]

    def read(self, start: int, n: int) -> np.ndarray:
        """ids [start, start + n), int64 (n,), over the borders of shards; ValueError where there are none."""
        if not 0 <= start <= start + n <= len(self):
            raise ValueError(f"Tokens {start} to {start + n} were asked for, of {len(self)}.")
        found, at = [], bisect_right(self.ends, start)
        while n:
            begin = start - (self.ends[at] - len(self.maps[at]))
            found.append(self.maps[at][begin : begin + n])
            start, n, at = start + len(found[-1]), n - len(found[-1]), at + 1
        return np.concatenate(found or [np.empty(0)]).astype(np.int64)


def is_whole(folder: str | Path) -> bool:
    """Whether a corpus was written to its end there."""
    return (Path(folder) / INDEX).exists() and read_index(folder)["whole"]


def read_index(folder: str | Path) -> dict:
    """What a folder of tokens says of itself; ValueError for a folder that is none, or is damaged."""
    try:
        index = json.loads((Path(folder) / INDEX).read_text(encoding="utf-8"))
        known = index["format"] == FORMAT and index["dtype"] in TYPES and type(index["whole"]) is bool
        parts = [part for parts in index["splits"].values() for part in parts]
        fine = all(type(part["tokens"]) is int and Path(part["file"]).name == part["file"] for part in parts)
        if known and fine and {"vocab_size", "about", "state"} <= index.keys():
            return index
    except (OSError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        pass
    raise ValueError(
        f"{folder} is no folder of tokens, or its {INDEX} is damaged: delete the folder, and it is made again."
    )


def check_sums(folder: Path, names: list[str] | None = None) -> None:
    """Raise ValueError where one of these files, else of all that are listed, has not the SHA-256 of the list.

    A folder from before there were lists has none to be held to.
    """
    if (folder / checksums.LIST).exists() and (wrong := checksums.damaged(folder, names)):
        raise ValueError(
            f"{folder / wrong[0]} is damaged: its SHA-256 is not the one in {checksums.LIST}. Delete the folder "
            f"{folder}, and it is made again."
        )


def _check_same_corpus(folder: Path, found: dict, asked: dict) -> None:
    for name in ("about", "vocab_size", "dtype"):
        if found[name] != asked[name]:
            raise ValueError(
                f"{folder} holds another corpus: {name} was {found[name]} and is {asked[name]}. Delete it, or name "
                "another folder with --out."
            )


def _check_shards(folder: Path, split: str, parts: list[dict], index: dict) -> None:
    if not parts:
        raise ValueError(f"{folder} has no {split} part: its parts are {', '.join(index['splits']) or 'none'}.")
    for part in parts:
        path, size = folder / part["file"], np.dtype(index["dtype"]).itemsize
        if not path.exists():
            raise ValueError(f"{path} is missing: delete the folder {folder}, and it is made again.")
        if not part["tokens"]:
            raise ValueError(f"{path} holds no token: delete the folder {folder}, and it is made again.")
        if path.stat().st_size != part["tokens"] * size:
            found = path.stat().st_size // size
            raise ValueError(
                f"{path} is damaged: it should hold {part['tokens']} tokens and holds {found}. Delete the folder "
                f"{folder}, and it is made again."
            )
