"""Fashion-MNIST: 70,000 grey pictures of clothes, where Debian's package or the hub has put them; not in every install.

It is asked for by lessons that can do without it: where it is missing, a loader says in one sentence how to get it.
"""

from __future__ import annotations

import gzip
import os
import zlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from course_lib.data import SPLITS, check_split, datasets_package, from_hub, sha256

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

VERSION = 1  # of the split: raise it when it changes
SIDE = 28
NAMES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
FOLDER = Path("/usr/share/datasets/fashion-mnist")  # where Debian's package dataset-fashion-mnist puts its files
VARIABLE = "COURSE_FASHION"  # names another folder with the same four files
FILES = {
    part: (f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz", size)
    for part, size in (("train", 60_000), ("t10k", 10_000))
}
HUB = {"fashion": ("zalando-datasets/fashion_mnist", "fashion_mnist")}
SOURCES = ("installed", *(f"hub:{name}" for name in HUB))
CHECKSUM = (
    "ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f"  # of all pixels and labels, in either source
)
# The source's own test set is the test; the end of its training set, which is in no order, is the validation.
CUTS = {"train": ("train", 0, 55_000), "validation": ("train", 55_000, 60_000), "test": ("t10k", 0, 10_000)}
HOW = (
    "install Debian's package (apt-get install dataset-fashion-mnist), or put its four files *-ubyte.gz into a folder "
    f"that the variable {VARIABLE} names, or run once with the network: load(source='hub:fashion')"
)


def load(source: str = "installed") -> DatasetDict:
    """The pictures as a `datasets.DatasetDict` (train, validation, test) in torch format: image (28, 28), label.

    image holds ink in whole numbers from 0 to 255; `arrays` gives what a model reads. source: "installed", Debian's
    files, or "hub:fashion", which is fetched once and kept in the hub's own cache. Raises FileNotFoundError where they
    are not installed, ConnectionError without the hub, ValueError for another source, RuntimeError for files that are
    not those we know.
    """
    package = datasets_package()
    ink, kind = package.Array2D((SIDE, SIDE), "uint8"), package.ClassLabel(names=list(NAMES))
    features = package.Features({"image": ink, "label": kind})

    def table(split: str) -> Dataset:
        images, labels = _steps(split, source)
        return package.Dataset.from_dict({"image": images, "label": labels}, features=features).with_format("torch")

    return package.DatasetDict({split: table(split) for split in SPLITS})


def arrays(split: str, source: str = "installed") -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 28, 28) float32 in 0..1 and labels (N,) int64 of one split, without `datasets` where installed.

    Raises ValueError for an unknown split, and what `load` raises.
    """
    images, labels = _steps(split, source)
    return images.astype(np.float32) / np.float32(255), labels


def is_there() -> bool:
    """Whether the pictures can be had without the network: so a lesson can say that they are not, and go on."""
    return all((folder() / name).exists() for *names, _ in FILES.values() for name in names)


def folder() -> Path:
    """Where the four files are looked for: the folder that COURSE_FASHION names, else that of Debian's package."""
    return Path(os.environ.get(VARIABLE) or FOLDER).expanduser()


def _steps(split: str, source: str) -> tuple[np.ndarray, np.ndarray]:
    """Ink (N, 28, 28) uint8 and labels (N,) int64 of one split."""
    check_split(split)
    whole = _installed(folder()) if source == "installed" else _fetched(source)
    part, first, last = CUTS[split]
    images, labels = whole[part]
    return images[first:last].copy(), labels[first:last].astype(np.int64)


@lru_cache(maxsize=1)
def _installed(place: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The source's two parts, as Debian's files give them."""
    missing = [name for *names, _ in FILES.values() for name in names if not (place / name).exists()]
    if missing:
        raise FileNotFoundError(f"Fashion-MNIST is not here ({missing[0]} is not in {place}): {HOW}.")
    found = {}
    try:
        for part, (images, labels, size) in FILES.items():
            # A header of 16 bytes before the pixels, of 8 before the labels, then one byte each.
            pixels, kinds = (
                np.frombuffer(gzip.decompress((place / name).read_bytes()), np.uint8, offset=header)
                for name, header in ((images, 16), (labels, 8))
            )
            found[part] = pixels.reshape(size, SIDE, SIDE), kinds.reshape(size)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise RuntimeError(f"The files of Fashion-MNIST in {place} are damaged ({error}): {HOW}.") from None
    return _known(found)


@lru_cache(maxsize=1)
def _fetched(source: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The same two parts from the hub."""
    _check_source(source)
    tables = from_hub(source, HUB, f"load(), where Fashion-MNIST is installed; {HOW}")
    found = {}
    for part, split in (("train", "train"), ("t10k", "test")):
        columns = tables[split][:]
        images = np.stack([np.asarray(image, dtype=np.uint8) for image in columns["image"]])
        found[part] = images, np.asarray(columns["label"], dtype=np.uint8)
    return _known(found)


def _known(found: dict[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """What was found, if it is what this course knows."""
    if sha256(b"".join(part.tobytes() for pair in found.values() for part in pair)) != CHECKSUM:
        raise RuntimeError(f"These pictures are not the Fashion-MNIST that this course knows: {HOW}.")
    return found


def _check_source(source: str) -> None:
    if source not in SOURCES:
        raise ValueError(f"source must be one of {', '.join(map(repr, SOURCES))}; got {source!r}.")
