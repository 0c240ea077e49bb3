"""Handwritten digits: 1,797 small real scans, for reading an image row by row or patch by patch."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from course_lib.data import SPLITS, check_split, datasets_package, read_packaged, sha256

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

VERSION = 1  # of the split: raise it when it changes
PACKAGE = "scikit-learn==1.9.1"
CHECKSUM = "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"  # of its digits.csv.gz
# The file goes form by form, about 130 digits each, and a form is in one hand: 9 forms, then 2, then 3.
# A random draw would put every hand on both sides, and the test would be too easy.
CUTS = {"train": (0, 1157), "validation": (1157, 1415), "test": (1415, 1797)}


def load() -> DatasetDict:
    """The digits as a `datasets.DatasetDict` (train, validation, test) in torch format: image (8, 8), label.

    `load()["train"][:]["image"]` is a float32 tensor (N, 8, 8), ink from 0 (none) to 1.
    Raises ModuleNotFoundError without scikit-learn or `datasets`, RuntimeError when its file is not the one we know.
    """
    package = datasets_package()
    ink, digit = package.Array2D((8, 8), "float32"), package.ClassLabel(names=list("0123456789"))
    features = package.Features({"image": ink, "label": digit})

    def table(split: str) -> Dataset:
        images, labels = arrays(split)
        return package.Dataset.from_dict({"image": images, "label": labels}, features=features).with_format("torch")

    return package.DatasetDict({split: table(split) for split in SPLITS})


def arrays(split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 8, 8) float32 in 0..1 and labels (N,) int64 of one split, without `datasets`.

    Raises ValueError for an unknown split, ModuleNotFoundError and RuntimeError as `load` does.
    """
    check_split(split)
    ink, labels = _read()
    part = slice(*CUTS[split])
    return (ink[part] / np.float32(16)).astype(np.float32), labels[part].copy()


@lru_cache(maxsize=1)
def _read() -> tuple[np.ndarray, np.ndarray]:
    """Ink (1797, 8, 8) in whole steps 0..16, and labels (1797,), as the file gives them."""
    [(file, _)] = read_packaged(PACKAGE, "datasets/data/digits.csv.gz", CHECKSUM)
    table = np.loadtxt(file, delimiter=",", dtype=np.int64)  # 64 values of ink and the label
    return table[:, :64].reshape(-1, 8, 8), table[:, 64]


def checksum() -> str:
    """SHA-256 of the ink and the label of every image of every split, in order."""
    bits = b""
    for split in SPLITS:
        images, labels = arrays(split)
        bits += (images * 16).astype(np.uint8).tobytes() + labels.astype(np.uint8).tobytes()
    return sha256(bits)
