"""The corpora of the course: each module has `load()`, with fixed splits; data/README.md has a card of each.

Nothing is downloaded on import, and nothing read but our own short lists in data/lists.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType

    from datasets import Dataset, DatasetDict

SPLITS = ("train", "validation", "test")
FOLDER = Path(__file__).resolve().parents[2] / "data"
README = FOLDER / "README.md"


class Pair(NamedTuple):
    """One sentence in two languages, in tokens, with its gold word alignment: what every translation corpus gives.

    `alignment` holds (i, j) where source token i says what target token j says; many-to-many. A token that stands
    in no such pair has no counterpart.
    """

    source: list[str]
    target: list[str]
    alignment: list[tuple[int, int]]


def check_split(split: str) -> None:
    """Raise ValueError, in words, unless `split` names one of the three splits."""
    if split not in SPLITS:
        raise ValueError(f"split must be 'train', 'validation' or 'test', not {split!r}.")


def sha256(data: str | bytes) -> str:
    """The SHA-256 of bytes, or of text as UTF-8, in hexadecimal: for checksums and fixed draws."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def read_card(corpus: str) -> str:
    """The card of a corpus, in Markdown, as data/README.md has it: what it is, its source, licence, size and splits.

    corpus: its module's name. Raises LookupError where there is no such card, FileNotFoundError outside a checkout.
    """
    text = re.sub(r"<!-- /?made.*-->\n", "", README.read_text(encoding="utf-8"))
    found = re.search(rf"^## .+ \(`course_lib\.data\.{corpus}`\)\n(?:(?!## ).*\n)*", text, re.MULTILINE)
    if not found:
        raise LookupError(f"data/README.md has no card of {corpus!r}.")
    return found[0].rstrip() + "\n"


def read_list(name: str, checksum: str) -> list[list[str]]:
    """The rows of data/lists/<name>.tsv, without the first, which names the columns.

    `checksum` is the SHA-256 of the file: so a change of the list is a change of code, and records made with the old
    list are seen to be stale. Raises FileNotFoundError outside a checkout, RuntimeError for another file.
    """
    text = (FOLDER / "lists" / f"{name}.tsv").read_text(encoding="utf-8")
    if (found := sha256(text)) != checksum:
        raise RuntimeError(
            f"data/lists/{name}.tsv is not the list this course knows. If you have changed it, write its new checksum "
            f"{found} where it is read; if not, get it back from the repository."
        )
    return [line.split("\t") for line in text.splitlines()[1:]]


def read_packaged(pinned: str, pattern: str, checksum: str) -> list[tuple[Path, bytes]]:
    """Files that an installed package ships, with their bytes, in order of path; the package is not run.

    `pinned` is "name==version" as pip takes it, `pattern` a glob in its folder, `checksum` their SHA-256.
    Raises ModuleNotFoundError without the package, RuntimeError when the files are not the ones we know.
    """
    module = {"scikit-learn": "sklearn"}.get(name := pinned.split("==")[0], name.replace("-", "_"))
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"This corpus comes inside {name}, which is missing: pip install {pinned}")
    folder = Path(spec.submodule_search_locations[0])
    files = sorted(folder.glob(pattern), key=lambda f: f.relative_to(folder).parts)
    contents = [f.read_bytes() for f in files]
    if sha256(b"".join(contents)) != checksum:
        raise RuntimeError(
            f"The files of {name} are not the ones this course knows (damaged, or another version): "
            f"run `pip install --force-reinstall --no-deps {pinned}`."
        )
    return list(zip(files, contents, strict=True))


def datasets_package() -> ModuleType:
    """The package `datasets`, imported when it is needed; ModuleNotFoundError, in a sentence, where it is missing."""
    try:
        import datasets
    except ModuleNotFoundError as missing:
        if missing.name != "datasets":
            raise
        raise ModuleNotFoundError(
            "A table of a corpus needs the package datasets, which is missing: run `pip install datasets==5.2.0`, or "
            "take the rows, pairs or arrays of the same module, which need no package."
        ) from None
    return datasets


def tables(columns: Sequence[str], rows: Mapping[str, Iterable[tuple]]) -> DatasetDict:
    """A `datasets.DatasetDict` of each split's rows, a value for each column; raises as `datasets_package` does."""
    package = datasets_package()

    def table(split: str) -> Dataset:
        values = zip(*rows[split], strict=True)
        return package.Dataset.from_dict({name: list(column) for name, column in zip(columns, values, strict=True)})

    return package.DatasetDict({split: table(split) for split in SPLITS})


def from_hub(source: str, known: dict[str, tuple[str, str]], instead: str) -> DatasetDict:
    """A data set of the Hugging Face hub: `source` is "hub:<name>", `known`: names to (repository, config).

    Raises ValueError for an unknown source, ConnectionError, within seconds, when the hub does not answer.
    """
    targets = {f"hub:{name}": target for key, target in known.items() for name in (key, target[0])}
    if source not in targets:
        raise ValueError(f"source must be 'embedded' or one of {sorted(targets)}, not {source!r}.")
    advice = f"use the corpus that needs no network instead: {instead}."
    load_dataset = datasets_package().load_dataset
    from huggingface_hub import constants

    # HF_HUB_OFFLINE counts as the library read it; then only what an earlier call has cached can be had.
    if not constants.HF_HUB_OFFLINE and not hub_answers(constants.ENDPOINT):
        raise ConnectionError(f"{source} needs the network, and the hub does not answer: {advice}")
    try:
        return load_dataset(*targets[source])
    except Exception as error:
        raise ConnectionError(f"{source} cannot be had ({type(error).__name__}): {advice}") from error


def hub_answers(address: str, seconds: float = 3.0) -> bool:
    """True if the hub can be reached: asked once, where the library itself would try again for 23 seconds."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    try:
        urlopen(Request(address, method="HEAD"), timeout=seconds).close()
    except HTTPError:
        return True  # it answers, if only to refuse this question
    except OSError:
        return False
    return True
