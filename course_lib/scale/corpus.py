"""The data of a training, made once as files that are read where they lie: plays, a text file, a data set of the hub.

Texts become token ids (`tokens`), images bytes. What comes from the hub is streamed, and an interrupted fetch of text
goes on behind the last whole shard.
"""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from course_lib.bert.pretraining import play_pieces
from course_lib.data import checksums, datasets_package, digits, fashion, plays
from course_lib.data.beside import beside, write_beside
from course_lib.language.next_token import subwords
from course_lib.scale.config import FOLDER, Config
from course_lib.scale.tokens import Writer, check_sums, is_whole
from course_lib.text.wordpiece import WordPiece

# A model of the hub whose tokenizer is used, and what stands between two texts there.
PUBLISHED = {"gpt": ("openai-community/gpt2", "<|endoftext|>"), "bert": ("google-bert/bert-base-uncased", "[SEP]")}
OWN = {"gpt": subwords, "bert": play_pieces}
LEARNED_FROM = 1_000_000  # characters of a text, for a tokenizer of our own
TOKENIZER, IMAGES = "tokenizer.json", "images.json"
SPLITS = ("train", "validation")


def folder(config: Config) -> Path:
    """Where a run's data lie."""
    return Path(config.out) / FOLDER


def prepare(config: Config, say=print) -> Path:
    """Make the data of a run, where they are not there yet, and hold those that are there to their checksums -> folder.

    Raises ValueError, OSError, ConnectionError or ModuleNotFoundError, in words, for data that cannot be had or are
    damaged.
    """
    place = folder(config)
    images = config.model == "vit"
    if (images and (place / IMAGES).exists()) or (not images and (place / TOKENIZER).exists() and is_whole(place)):
        check_sums(place)
    elif images:
        say(f"Making the images of {config.data} in {place}")
        _images(config, place)
    else:
        say(f"Making the tokens of {config.data} in {place}")
        _tokens(config, place)
    return place


def tokenizer_of(place: Path, model: str):
    """A `WordPiece` for BERT, for GPT how many tokens it has and what it was made by."""
    path = place / TOKENIZER
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(kept["size"], int):
            raise TypeError
        return WordPiece(kept["vocab"]) if model == "bert" else kept
    except (OSError, LookupError, RecursionError, TypeError, ValueError):
        raise ValueError(f"{path} is damaged: delete the folder {place}, and it is made again.") from None


def images_of(place: Path) -> dict:
    """How many images there are and of what shape, "shapes" by split, and of how many "classes"."""
    path = place / IMAGES
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        shapes = [about["shapes"][split] for split in SPLITS]
        if not all(type(number) is int for number in (about["classes"], *shapes[0], *shapes[1])):
            raise TypeError
        return about
    except (OSError, LookupError, RecursionError, TypeError, ValueError):
        raise ValueError(f"{path} is damaged: delete the folder {place}, and it is made again.") from None


# --- texts


def _tokens(config: Config, place: Path) -> None:
    own = config.tokenizer == "own" or config.tokenizer == "auto" and not config.data.startswith("hub:")
    texts = _texts(config.data)
    encode, vocab, kept = _own_tokenizer(config, texts) if own else _published_tokenizer(config)
    about = {"source": config.data, "tokenizer": kept.get("name", "own"), "fetch": config.fetch}
    writer = Writer(place, vocab, about)
    documents = texts(writer.state)
    for split, text, state in documents:
        writer.add(split, encode(text), state)
        if config.fetch and writer.written("train") >= config.fetch:
            break
    writer.keep(TOKENIZER, json.dumps(kept) + "\n")
    writer.close()


def _texts(data: str):
    """A function of a state -> documents (split, text, state behind it)."""
    if data == "plays":
        return lambda _: ((split, plays.text(split), None) for split in SPLITS)
    if data.startswith("hub:"):
        return lambda state: _streamed(data, state)
    path = Path(data).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--data {data!r} is neither plays, hub:name nor a text file in UTF-8 ({error}).") from None
    if not text:
        raise ValueError(f"{path} is empty: there is nothing to learn from.")
    cut = len(text) - len(text) // 100
    return lambda _: iter([("train", text[:cut], None), ("validation", text[cut:], None)])


def _own_tokenizer(config: Config, texts):
    text = ""
    for split, more, _ in texts(None):
        text += more if split == "train" else ""
        if len(text) >= LEARNED_FROM:
            break
    text = text[:LEARNED_FROM]
    try:
        tokenizer = OWN[config.model](text)
    except ValueError as error:
        if config.model == "bert" and "vocab_size" in str(error):
            raise ValueError(
                f"{config.data} has {len(set(text)):,} different characters, too many for a BERT's own tokenizer of "
                "2,000 pieces, each at least a character that begins a word or goes on with it: ask for --tokenizer "
                "published."
            ) from None
        raise ValueError(f"No tokenizer can be learned from {config.data}: {error}") from None
    kept = {"vocab": tokenizer.vocab} if config.model == "bert" else json.loads(tokenizer.to_json())
    return tokenizer.encode, len(tokenizer), kept | {"size": len(tokenizer)}


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
    vocab = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    last = tokenizer.convert_tokens_to_ids(between)

    def encode(text: str) -> list[int]:
        return [*tokenizer.encode(text, add_special_tokens=False, verbose=False), last]

    kept = {"name": name, "size": len(vocab)} | ({"vocab": vocab} if config.model == "bert" else {})
    return encode, len(vocab), kept


def _streamed(data: str, state: dict | None) -> Iterator[tuple[str, str, dict]]:
    """Texts of a data set of the hub, every hundredth for validation; state: where an earlier reader stood."""
    stream, seen = _stream(data), (state or {}).get("seen", 0)
    if state:
        stream.load_state_dict(state["stream"])
    for row in _steadily(stream, data):
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


def _steadily(stream, data: str) -> Iterator[dict]:
    """The rows of a stream; ConnectionError, in words, where it breaks off."""
    try:
        yield from stream
    except OSError as error:
        raise ConnectionError(f"{data} broke off ({error}): the same command goes on behind the last shard.") from None


# --- images


def _images(config: Config, place: Path) -> None:
    """Write images-<split>.bin, bytes (N, C, H, W), labels-<split>.npy (N,), and images.json, which says the sizes."""
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
        write_beside(new / IMAGES, json.dumps({"shapes": shapes, "classes": classes, "source": config.data}) + "\n")
        checksums.write_list(new, {path.name: checksums.checksum(path) for path in new.iterdir()})


def _pictures(config: Config, split: str) -> Iterator[tuple[np.ndarray, int]]:
    """Bytes (C, H, W) and the label of each picture of a split."""
    sources = {"digits": digits, "fashion": fashion}
    if config.data in sources:
        images, labels = sources[config.data].arrays(split)
        for image, label in zip(images, labels.tolist(), strict=True):
            if image.shape != (config.image, config.image):
                raise ValueError(f"{config.data} has images of {image.shape}: ask for --image {image.shape[0]}.")
            yield np.round(image * 255).astype(np.uint8)[None], label
    elif config.data.startswith("hub:"):
        yield from _hub_pictures(config, split)
    else:
        raise ValueError(f"--data {config.data!r} has no images: {', '.join(sources)}, or hub:name.")


def _hub_pictures(config: Config, split: str) -> Iterator[tuple[np.ndarray, int]]:
    """The first `fetch` pictures of a data set (all where 0), and a hundredth as many behind them for validation."""
    n = config.fetch or None
    rows = _steadily(_stream(config.data), config.data)
    if split == "train":
        rows = islice(rows, n)
    else:
        rows = islice(rows, n, n + max(1, n // 100)) if n else _steadily(_stream(config.data, split), config.data)
    for row in rows:
        picture = next((value for value in row.values() if hasattr(value, "resize")), None)
        label = next((value for value in row.values() if isinstance(value, int)), None)
        if picture is None or label is None:
            raise ValueError(f"{config.data} has no picture with a label: its columns are {', '.join(row)}.")
        square = picture.convert("RGB").resize((config.image, config.image))
        yield np.asarray(square, dtype=np.uint8).transpose(2, 0, 1), label
