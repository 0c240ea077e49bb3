"""Two photographs that scikit-learn ships: a Chinese temple and a flower, to be taken apart into patches.

photograph("china")     # (224, 224, 3), red, green and blue from 0 to 255
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from course_lib.data import read_packaged

if TYPE_CHECKING:
    from PIL.Image import Image

PACKAGE = "scikit-learn==1.9.1"
CHECKSUM = "c1ef34f251839d4aea0f512ef005eeba01e9109bce8f7f4b7c4da6e3f45c54e5"  # of its two photographs
# As scikit-learn's own README.txt beside them says, both under the licence CC BY 2.0.
CREDITS = {"china": "danielbuechele, flickr.com", "flower": "vultilion, flickr.com"}


def photograph(name: str, side: int = 224) -> np.ndarray:
    """The square in the middle of a photograph, drawn with so many pixels a side: (side, side, 3) uint8.

    Raises ValueError for an unknown name or no pixel, ModuleNotFoundError without scikit-learn, RuntimeError when its
    files are not the ones we know.
    """
    if name not in CREDITS or side < 1:
        raise ValueError(f"There are {' and '.join(CREDITS)}, with one pixel a side or more; got {name!r}, {side}.")
    from PIL.Image import Resampling

    whole = _read()[name]
    across = min(whole.size)
    left, top = ((length - across) // 2 for length in whole.size)
    square = whole.crop((left, top, left + across, top + across))
    return np.array(square.resize((side, side), Resampling.LANCZOS))


@lru_cache(maxsize=1)
def _read() -> dict[str, Image]:
    from PIL.Image import open as read

    files = read_packaged(PACKAGE, "datasets/images/*.jpg", CHECKSUM)
    return {file.stem: read(io.BytesIO(content)).convert("RGB") for file, content in files}
