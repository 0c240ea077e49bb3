"""The data of a training, made once, as files that are read where they lie: token ids (`tokens`) or bytes of images.

They come from the plays, a text file, the digits, fashion, or a data set of the hub, which is streamed.
"""

import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from course_lib.bert.pretraining import play_pieces
from course_lib.data import checksums, datasets_package, digits, fashion, plays
from course_lib.data.beside import beside, write_beside
from course_lib.language.next_token import subwords
from course_lib.workshop.scale import tokens
from course_lib.workshop.scale.config import Config

# A model of the hub whose tokenizer is used, and the token that it writes between two texts.
PUBLISHED = {"gpt": ("openai-community/gpt2", "<|endoftext|>"), "bert": ("google-bert/bert-base-uncased", "[SEP]")}
OWN = {"gpt": subwords, "bert": play_pieces}
LEARNED_FROM = 1_000_000  # characters of a text, for a tokenizer of our own
TOKENIZER = "tokenizer.json"
SPLITS = ("train", "validation")
OF_DATA = ("model", "data", "tokenizer", "fetch", "image")  # the settings that the data follow from


def place_of(config: Config) -> Path:
    """Where a run's data lie."""
    return Path(config.out) / "data"


def prepare(config: Config, say=print) -> Path:
    """Make the data of a run, or compare those that are there with their checksums -> their folder.

    Raises ValueError, OSError or ModuleNotFoundError, in words, for data that are damaged or cannot be had.
    """
    place, about = place_of(config), {name: getattr(config, name) for name in OF_DATA}
    if (place / checksums.LIST).exists():
        if wrong := checksums.damaged(place):
            raise ValueError(f"{place / wrong[0]} is damaged: delete the folder {place}, and it is made again.")
        if tokens.read_index(place)["about"] == about:
            return place
        shutil.rmtree(place)
    say(f"Making the data of {config.data} in {place}")
    make = _images if config.model == "vit" else _tokens
    make(config, place, about)
    return place


# --- texts


def _tokens(config: Config, place: Path, about: dict) -> None:
    own = config.tokenizer == "own" or config.tokenizer == "auto" and not config.data.startswith("hub:")
    encode, tokenizer = _own_tokenizer(config) if own else _published_tokenizer(config)
    index = tokens.begin(place, about, len(tokenizer["vocab"]))
    write_beside(place / TOKENIZER, json.dumps(tokenizer) + "\n")

    def encoded():
        n = sum(part["tokens"] for part in index["splits"].get("train", []))
        for split, text, state in _documents(config.data, index["state"]):
            ids = encode(text)
            yield split, ids, state
            n += len(ids) if split == "train" else 0
            if config.fetch and n >= config.fetch:
                return

    tokens.write(place, index, encoded(), (TOKENIZER,))


def _own_tokenizer(config: Config):
    text = ""
    for split, more, _ in _documents(config.data):
        text += more if split == "train" else ""
        if len(text) >= LEARNED_FROM:
            break
    try:
        tokenizer = OWN[config.model](text[:LEARNED_FROM])
    except ValueError as error:
        raise ValueError(
            f"No tokenizer can be learned from {config.data} ({error}): ask for --tokenizer published."
        ) from None
    return tokenizer.encode, {"vocab": tokenizer.vocab} if config.model == "bert" else json.loads(tokenizer.to_json())


def _published_tokenizer(config: Config):
    from transformers import AutoTokenizer

    name, between = PUBLISHED[config.model]
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except Exception as error:
        raise ConnectionError(
            f"The tokenizer {name} cannot be had ({type(error).__name__}): it needs the network once. Without it, "
            "--tokenizer own learns one from plays or a text file."
        ) from None
    last = tokenizer.convert_tokens_to_ids(between)

    def encode(text: str) -> list[int]:
        return [*tokenizer.encode(text, add_special_tokens=False, verbose=False), last]

    return encode, {"name": name, "vocab": sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)}


def _documents(data: str, state: dict | None = None) -> Iterator[tuple[str, str, dict | None]]:
    """Documents (split, text, state after it), from where a reader stood that was given this state."""
    if data == "plays":
        yield from ((split, plays.text(split), None) for split in SPLITS)
    elif data.startswith("hub:"):
        yield from _streamed(data, state)
    else:
        try:
            text = Path(data).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                f"--data {data!r} is neither plays, hub:name nor a text file in UTF-8 ({error})."
            ) from None
        cut = len(text) - len(text) // 100
        yield from (("train", text[:cut], None), ("validation", text[cut:], None))


def _streamed(data: str, state: dict | None) -> Iterator[tuple[str, str, dict]]:
    """The texts of a data set of the hub, every hundredth for validation."""
    stream, seen = _stream(data), 0
    if state:
        stream.load_state_dict(state["stream"])
        seen = state["seen"]
    for row in _rows(stream, data):
        if not isinstance(row.get("text"), str):
            raise ValueError(f"{data} has no column `text`: its columns are {', '.join(row)}.")
        seen += 1
        yield SPLITS[seen % 100 == 0], row["text"], {"stream": stream.state_dict(), "seen": seen}


def _stream(data: str, split: str = "train"):
    _, name, *config = data.split(":")
    try:
        return datasets_package().load_dataset(name, *config, split=split, streaming=True)
    except Exception as error:
        raise ConnectionError(
            f"{data} cannot be had ({type(error).__name__}: {str(error):.120}). Without the network: --data plays, or "
            "a text file."
        ) from None


def _rows(stream, data: str) -> Iterator[dict]:
    try:
        yield from stream
    except OSError as error:
        raise ConnectionError(f"{data} broke off ({error}): the same command continues after the last shard.") from None


# --- images


def _images(config: Config, place: Path, about: dict) -> None:
    """Write images-<split>.bin, bytes (N, C, H, W), labels-<split>.npy (N,), and index.json, which has the sizes."""
    with beside(place) as new:
        new.mkdir()
        shapes, classes = {}, 0
        for split in SPLITS:
            labels = []
            with open(new / f"images-{split}.bin", "wb") as file:
                for image, label in _pictures(config, split):
                    file.write(image.tobytes())
                    labels.append(label)
                    shape = image.shape
            if not labels:
                raise ValueError(f"{config.data} has no image for {split}: ask for more with --fetch.")
            np.save(new / f"labels-{split}.npy", np.array(labels, dtype=np.int64))
            shapes[split], classes = [len(labels), *shape], max(classes, max(labels) + 1)
        write_beside(new / tokens.INDEX, json.dumps({"about": about, "shapes": shapes, "classes": classes}) + "\n")
        checksums.write_list(new, {path.name: checksums.checksum(path) for path in new.iterdir()})


def _pictures(config: Config, split: str) -> Iterator[tuple[np.ndarray, int]]:
    """Bytes (C, H, W) and the label of each image of a split."""
    sources = {"digits": digits, "fashion": fashion}
    if config.data in sources:
        images, labels = sources[config.data].arrays(split)
        if images.shape[1:] != (config.image, config.image):
            raise ValueError(f"{config.data} has images of {images.shape[1:]}: ask for --image {images.shape[1]}.")
        yield from zip(np.round(images * 255).astype(np.uint8)[:, None], labels.tolist(), strict=True)
    elif config.data.startswith("hub:"):
        yield from _hub_pictures(config, split)
    else:
        raise ValueError(f"--data {config.data!r} has no images: {', '.join(sources)}, or hub:name.")


def _hub_pictures(config: Config, split: str) -> Iterator[tuple[np.ndarray, int]]:
    """The first `fetch` images of a data set (all where 0), and a hundredth as many after them for validation."""
    n = config.fetch
    stream = _stream(config.data, split if not n else "train")
    first, last = (0, n or None) if split == "train" else (n, n + max(1, n // 100) if n else None)
    for row in islice(_rows(stream, config.data), first, last):
        picture = next((value for value in row.values() if hasattr(value, "resize")), None)
        label = next((value for value in row.values() if isinstance(value, int)), None)
        if picture is None or label is None:
            raise ValueError(f"{config.data} has no image with a label: its columns are {', '.join(row)}.")
        square = picture.convert("RGB").resize((config.image, config.image))
        yield np.asarray(square, dtype=np.uint8).transpose(2, 0, 1), label
